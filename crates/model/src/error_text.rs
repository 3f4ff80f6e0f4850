//! Turns an error into the text that a user reads: what failed, and hints on how to proceed.
//!
//! An error is a chain of messages. A line of any message that begins with `hint: ` is a hint. Only
//! this module separates the hints from the messages.

use std::fmt;

const HINT: &str = "\nhint: ";

/// Message and hints of an error and its causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText {
    /// What failed, outermost context first, joined by colons.
    pub message: String,
    /// Hints on how to proceed, in the order of the chain.
    pub hints: Vec<String>,
}

impl ErrorText {
    /// Collects message and hints of an error.
    pub fn from_error(error: &anyhow::Error) -> ErrorText {
        let (mut messages, mut hints) = (Vec::new(), Vec::new());
        for part in error.chain().map(ToString::to_string) {
            let mut pieces = part.split(HINT);
            messages.extend(pieces.next().map(str::to_owned));
            hints.extend(pieces.map(str::to_owned));
        }
        ErrorText { message: messages.join(": "), hints }
    }
}

/// Formats the message, then each hint on a line of its own.
impl fmt::Display for ErrorText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        self.hints.iter().try_for_each(|hint| write!(out, "{HINT}{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn hints_come_last() {
        let error = std::fs::read("/no/such/file").context("cannot read it\nhint: look elsewhere");
        let error = error.context("in source 'x'\nhint: or here").unwrap_err();
        let text = ErrorText::from_error(&error);
        assert!(text.message.starts_with("in source 'x': cannot read it: No such file"), "{text}");
        assert_eq!(text.hints, ["or here", "look elsewhere"]);
        assert!(text.to_string().ends_with("\nhint: or here\nhint: look elsewhere"));
    }
}
