//! What is sent, and how it is written.

use hyper::body::Bytes;
use std::fmt::Write;

/// One event: a name, and data of any number of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    name: String,
    data: String,
    pub(super) id: Option<u64>,
}

impl Event {
    /// An event that gets the next id.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> Event {
        Event {
            name: name.into(),
            data: data.into(),
            id: None,
        }
    }

    /// With an id of its own: a place in something that is stored, which only grows.
    #[must_use]
    pub fn at(mut self, id: u64) -> Event {
        self.id = Some(id);
        self
    }

    /// As it is sent. Whatever ends a line in the data begins another line of data.
    pub(super) fn text(&self, id: Option<u64>) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 64);
        let name = self.name.split(['\n', '\r']).next().unwrap_or_default();
        // Writing to a string does not fail.
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
