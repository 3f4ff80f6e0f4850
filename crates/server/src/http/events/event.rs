//! Defines server-sent events and encodes them.

use hyper::body::Bytes;
use std::fmt::Write;

/// One event: a name and data of any number of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    name: String,
    data: String,
    pub(super) id: Option<u64>,
}

impl ServerEvent {
    /// Creates an event without an id. When the hub sends the event, the event gets the next id.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> ServerEvent {
        ServerEvent { name: name.into(), data: data.into(), id: None }
    }

    /// Sets the id of the event, for example its offset in a stored log. Ids must increase from
    /// event to event.
    #[must_use]
    pub fn with_id(mut self, id: u64) -> ServerEvent {
        self.id = Some(id);
        self
    }

    /// Encodes the event. Every line break in the data starts a new `data:` line.
    pub(super) fn encode(&self, id: Option<u64>) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 64);
        let name = self.name.split(['\n', '\r']).next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "event: {name}");
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        text.into()
    }
}
