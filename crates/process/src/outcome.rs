//! What became of a child.

use super::Capture;
use speedwell_model::{Cause, Usage};
use std::fmt;

/// How a process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// By us, at its time limit.
    Timeout,
    /// By us, because it did not end although it had nothing more to say.
    Lingered,
    /// By us, because the user asked us to stop.
    Interrupted,
}

/// As the end of a sentence about the process.
impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exit(code) => Cause::Exit { code: *code }.fmt(out),
            Ended::Signal(signal) => Cause::Signal { signal: *signal }.fmt(out),
            Ended::Timeout | Ended::Lingered | Ended::Interrupted => write!(out, "was ended"),
        }
    }
}

/// Everything known of a process that has ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// From just before its start to its end.
    pub wall_ns: u64,
    /// When it was started, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Resources it and its waited-for children used.
    pub usage: Usage,
    /// What it wrote on stdout.
    pub stdout: Capture,
    /// What it wrote on stderr.
    pub stderr: Capture,
    /// How many processes it left behind, which we ended.
    pub strays: usize,
    /// What came of asking it to end, where it was asked.
    pub farewell: Option<Farewelled>,
}

/// How a child ended that was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Farewelled {
    /// How it ended: by itself with a status, by the signal it was asked with, or by being killed.
    pub manner: Ended,
    /// From the question to its end.
    pub took_ns: u64,
    /// It did not end in time and was killed.
    pub was_killed: bool,
}

impl Outcome {
    /// A sentence about what it left behind, if it did.
    pub fn leftovers(&self) -> Option<String> {
        (self.strays > 0).then(|| {
            let count = self.strays;
            format!("It left {count} other process(es) behind, which were ended.")
        })
    }

    /// The cause of failure, if the way it ended is one.
    pub fn cause(&self, limit: std::time::Duration) -> Option<Cause> {
        match self.ended {
            Ended::Exit(0) | Ended::Lingered | Ended::Interrupted => None,
            Ended::Exit(code) => Some(Cause::Exit { code }),
            Ended::Signal(signal) => Some(Cause::Signal { signal }),
            Ended::Timeout => Some(Cause::Timeout {
                limit_ms: limit.as_millis() as u64,
            }),
        }
    }
}
