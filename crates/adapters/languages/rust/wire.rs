//! Messages of docs/reference/protocol.md: commands in, events out.

use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;

/// A command; its values are still escaped.
#[derive(Debug, Clone)]
pub struct Command {
    pub verb: String,
    fields: Vec<(String, String)>,
}

impl Command {
    pub fn parse(line: &str) -> Command {
        let mut words = line.split('\t');
        let verb = words.next().unwrap_or_default().to_owned();
        let fields = words.filter_map(|word| word.split_once('='));
        let fields = fields
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Command { verb, fields }
    }

    pub fn text(&self, key: &str) -> Option<String> {
        let found = self.fields.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| unescaped(value))
    }

    pub fn is(&self, key: &str, expected: &str) -> bool {
        self.text(key).as_deref() == Some(expected)
    }

    pub fn number(&self, key: &str, otherwise: i64) -> i64 {
        self.text(key)
            .and_then(|text| text.parse().ok())
            .unwrap_or(otherwise)
    }
}

/// An event under construction.
#[derive(Debug, Clone)]
pub struct Event(String);

impl Event {
    pub fn of(verb: &str, cause: &Command) -> Event {
        let event = Event(verb.to_owned());
        match cause.text("id") {
            Some(id) => event.with("id", id),
            None => event,
        }
    }

    pub fn with(mut self, key: &str, value: impl ToString) -> Event {
        self.0 += &format!("\t{key}={}", escaped(&value.to_string()));
        self
    }

    pub fn list(mut self, key: &str, numbers: impl Iterator<Item = u64>) -> Event {
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        self.0 += &format!("\t{key}={}", numbers.join(","));
        self
    }
}

/// The destination of events.
pub struct Events(File);

impl Events {
    /// # Safety
    /// The descriptor must have no other owner.
    pub unsafe fn on(descriptor: i32) -> Events {
        // SAFETY: guaranteed by the caller.
        Events(unsafe { File::from_raw_fd(descriptor) })
    }

    /// Errors are ignored: the other side may have gone.
    pub fn send(&mut self, event: Event) {
        let _ = self.0.write_all((event.0 + "\n").as_bytes());
    }
}

fn escaped(text: &str) -> String {
    let mut made = String::new();
    for letter in text.chars() {
        match letter {
            '\0'..'\x20' | '\x7f' | '%' => made += &format!("%{:02X}", u32::from(letter)),
            _ => made.push(letter),
        }
    }
    made
}

fn unescaped(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let mut made = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                made.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                made.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&made).into_owned()
}
