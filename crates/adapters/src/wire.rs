//! Formats and parses the lines of the harness protocol, `VERB TAB key=value TAB key=value ...`
//! (docs/reference/protocol.md), and collects the lines of a process ([`EventLog`]). Does not
//! interpret results.

use speedwell_machine::process::{ChildConversation, NextStep, OutputStream};
use speedwell_model::FailureCause;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Time that a process may take to exit after its last event.
const EXIT_GRACE: Duration = Duration::from_secs(6);

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolMessage {
    /// Kind of message.
    pub verb: String,
    /// Keys and escaped values, in order.
    fields: Vec<(String, String)>,
}

impl ProtocolMessage {
    /// Creates a message without fields.
    pub fn new(verb: impl Into<String>) -> ProtocolMessage {
        ProtocolMessage { verb: verb.into(), fields: Vec::new() }
    }

    /// Adds a field.
    pub fn with(mut self, key: impl Into<String>, value: impl fmt::Display) -> ProtocolMessage {
        self.fields.push((key.into(), percent_escape(&value.to_string())));
        self
    }

    /// Adds a field if there is a value.
    pub fn with_some(self, key: &str, value: Option<impl fmt::Display>) -> ProtocolMessage {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a list. Commas within items are escaped; in plain values, they are not.
    pub fn with_list<'a>(
        mut self,
        key: &str,
        items: impl IntoIterator<Item = &'a String>,
    ) -> ProtocolMessage {
        let items: Vec<String> =
            items.into_iter().map(|item| percent_escape(item).replace(',', "%2C")).collect();
        self.fields.push((key.to_owned(), items.join(",")));
        self
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<String> {
        self.raw_value(key).map(percent_unescape)
    }

    /// Parses the value of `key`.
    pub fn parse_number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.raw_value(key)?.parse().ok()
    }

    /// Returns the value of `key` as a list.
    pub fn list(&self, key: &str) -> Vec<String> {
        let text = self.raw_value(key).filter(|text| !text.is_empty());
        text.map_or(Vec::new(), |text| text.split(',').map(percent_unescape).collect())
    }

    /// Returns the value of `key` as a list of numbers; `None` if an item is not a number.
    pub fn numbers<T: std::str::FromStr>(&self, key: &str) -> Option<Vec<T>> {
        self.list(key).iter().map(|item| item.parse().ok()).collect()
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(key, _)| key.as_str())
    }

    /// Whether `next` continues the lists of this message.
    pub fn is_continued_by(&self, next: &ProtocolMessage) -> bool {
        self.raw_value("more") == Some("1") && self.verb == next.verb
    }

    /// Appends the lists of `next`. Other values are the same in both messages.
    pub fn append(&mut self, next: ProtocolMessage) {
        self.fields.retain(|(key, _)| key != "more");
        for (key, value) in next.fields {
            match self.fields.iter_mut().find(|(existing_key, _)| *existing_key == key) {
                Some((_, existing)) if *existing != value && key != "more" => {
                    *existing += &format!(",{value}");
                }
                Some(_) => {}
                None => self.fields.push((key, value)),
            }
        }
    }

    fn raw_value(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(existing, _)| existing == key).map(|(_, value)| value.as_str())
    }

    /// Parses a line. Returns `None` if it is not a message, because it has no verb or is not
    /// UTF-8.
    pub fn parse(line: &[u8]) -> Option<ProtocolMessage> {
        let mut words = std::str::from_utf8(line).ok()?.split('\t');
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let verb = words.next().filter(|verb| !verb.is_empty() && verb.bytes().all(is_letter))?;
        let fields = words.filter_map(|word| {
            let (key, value) = word.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        });
        Some(ProtocolMessage { verb: verb.to_owned(), fields: fields.collect() })
    }
}

/// Formats the line, including its newline.
impl fmt::Display for ProtocolMessage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.verb)?;
        for (key, value) in &self.fields {
            write!(out, "\t{key}={value}")?;
        }
        out.write_str("\n")
    }
}

fn percent_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\x1f' | '%' | '\x7f' => escaped.push_str(&format!("%{:02X}", c as u32)),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Reverses [`percent_escape`]; a `%` without two hex digits is left as is.
fn percent_unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(byte.unwrap_or(b'%'));
        plain.extend(&part.as_bytes()[if byte.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// A conversation that sends all its commands at the start and collects every event.
pub(super) struct EventLog {
    opening: Vec<u8>,
    received: Vec<ProtocolMessage>,
    /// Whether the process's output goes to our stderr; stdout is for results.
    pub shows_output: bool,
}

impl EventLog {
    /// Creates a conversation that sends `hello`, these commands and `quit`.
    pub fn new<const N: usize>(commands: [ProtocolMessage; N]) -> EventLog {
        let mut opening = ProtocolMessage::new("hello").with("id", 1).with("proto", 1).to_string();
        opening.extend(commands.map(|command| command.to_string()));
        opening.push_str(&ProtocolMessage::new("quit").with("id", 9).to_string());
        EventLog { opening: opening.into_bytes(), received: Vec::new(), shows_output: false }
    }

    pub fn all_events(&self) -> impl Iterator<Item = &ProtocolMessage> + Clone {
        self.received.iter()
    }

    /// Returns all events with this verb.
    pub fn events_of<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = &'a ProtocolMessage> {
        self.received.iter().filter(move |message| message.verb == verb)
    }

    /// Returns the first event with this verb.
    pub fn first(&self, verb: &str) -> Option<&ProtocolMessage> {
        self.received.iter().find(|message| message.verb == verb)
    }

    /// Converts the first error event to a cause.
    pub fn error_cause(&self) -> Option<FailureCause> {
        let error = self.first("error")?;
        let message = error.get("msg").unwrap_or_default();
        let first_line = message.lines().next().unwrap_or_default().to_owned();
        match error.get("class").as_deref() {
            Some("NothingReported") => Some(FailureCause::Silent),
            Some("Skipped") => Some(FailureCause::Skipped { reason: first_line }),
            // The exit status describes this failure better.
            Some("ProcessExit") => None,
            Some(class) => Some(FailureCause::Invalid { reason: format!("{class}: {first_line}") }),
            None => Some(FailureCause::Invalid { reason: first_line }),
        }
    }
}

impl ChildConversation for EventLog {
    fn opening_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let Some(message) = ProtocolMessage::parse(line) else { return NextStep::Wait };
        // A long list arrives in several messages; all but the last are marked as continued.
        if let Some(previous) =
            self.received.last_mut().filter(|previous| previous.is_continued_by(&message))
        {
            previous.append(message);
            return NextStep::Wait;
        }
        let is_last = matches!(message.verb.as_str(), "end" | "described");
        self.received.push(message);
        if is_last { NextStep::Linger(EXIT_GRACE) } else { NextStep::Wait }
    }

    fn observe_output(&mut self, _stream: OutputStream, bytes: &[u8]) {
        if self.shows_output {
            // Ignore errors: if stderr is closed, no one wants the output.
            let _ = std::io::stderr().write_all(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_values_survive_a_round_trip() {
        let awkward = "tab\there, line\nfeed, 100 %, del\x7f, é😀, a=b, %41";
        let message = ProtocolMessage::new("load").with("source", awkward).with("id", 7);
        let line = message.to_string();
        assert_eq!(line.matches('\n').count(), 1);
        let back = ProtocolMessage::parse(line.trim_end().as_bytes()).unwrap();
        assert_eq!(back.get("source").as_deref(), Some(awkward));
        assert_eq!(back.parse_number::<u32>("id"), Some(7));
    }

    #[test]
    fn lists_may_contain_commas_and_percent_signs() {
        let items = ["a,b".to_owned(), "50%2C".to_owned(), "c".to_owned()];
        let line = ProtocolMessage::new("case").with_list("args", &items).to_string();
        assert_eq!(ProtocolMessage::parse(line.trim_end().as_bytes()).unwrap().list("args"), items);
    }

    #[test]
    fn a_list_in_several_messages_is_one_list() {
        let part = |text: &str| ProtocolMessage::parse(text.as_bytes()).unwrap();
        let mut existing = part("benchmark\tid=2\tname=g/b\tparam.n=1,2\tmore=1");
        let middle = part("benchmark\tid=2\tname=g/b\tparam.n=3\tmore=1");
        assert!(existing.is_continued_by(&middle));
        existing.append(middle);
        existing.append(part("benchmark\tid=2\tname=g/b\tparam.n=4"));
        assert_eq!(existing.list("param.n"), ["1", "2", "3", "4"]);
        assert_eq!(existing.get("name").as_deref(), Some("g/b"));
        assert!(!existing.is_continued_by(&part("benchmark\tname=g/b")));
    }

    #[test]
    fn garbage_is_not_parsed_as_a_message() {
        for garbage in [&b"Hello world"[..], b"", b"\xff\xfe", b"{\"a\":1}"] {
            assert_eq!(ProtocolMessage::parse(garbage), None);
        }
    }

    #[test]
    fn an_error_of_class_skipped_is_recorded_as_a_skip() {
        let mut events = EventLog::new([]);
        events.handle_line(b"error\tstage=run\tclass=Skipped\tmsg=no device");
        let reason = "no device".to_owned();
        assert_eq!(events.error_cause(), Some(FailureCause::Skipped { reason }));
    }
}
