//! Connects a coordinator with its workers: processes of this program, on this or another machine.
//!
//! Messages travel over the worker's stdin and stdout, each as one line of JSON. A worker first
//! sends its [`WorkerGreeting`]. Output before the greeting, such as that of a login shell, is
//! skipped; after it, a line that cannot be parsed ends the connection. Two lines to a worker are
//! not JSON: `time` asks for the time of its clock, and `stop` interrupts it. The end of its stdin
//! interrupts it, too.
//!
//! This module does not know the messages: they belong to the crates that exchange them. Start at
//! [`WorkerConnection`], the coordinator's end, and [`WorkerLink`], the worker's end.

mod clock;
mod connection;
mod link;

pub use clock::{ClockOffset, now_ns};
pub use connection::{StderrTail, WorkerConnection, WorkerEnd, last_line, spawn_connected};
pub use link::WorkerLink;

use crate::process::ProcessIdentity;
use anyhow::{Context, Result, anyhow, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// Hidden command of `speedwell` that starts a worker process; its subcommand names the work.
pub const WORKER_COMMAND: &str = "worker";

/// Version of the lines that coordinators and workers exchange.
const PROTOCOL: u32 = 1;
/// Maximum length of a line, in bytes. The longest message is the measurement of a load that lists
/// every request.
const MAX_LINE_BYTES: u64 = 4 << 30;
/// Line that asks a worker for the time of its clock.
const CLOCK_QUERY: &[u8] = b"time";
/// Line that interrupts a worker.
const STOP_REQUEST: &[u8] = b"stop";

/// The first line of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerGreeting {
    protocol: u32,
    /// Version of the worker's program.
    version: String,
    /// Name of the worker's process, see [`process_name`].
    pub process: String,
}

impl WorkerGreeting {
    /// Sends the greeting of this process to its coordinator.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn send() -> Result<()> {
        let greeting = WorkerGreeting {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: process_name(),
        };
        write_message(&mut io::stdout(), &greeting)
    }

    /// Reads the greeting of a worker. Skips other lines before it.
    ///
    /// # Errors
    /// Fails if the connection ends before a greeting, or if the program of the worker uses another
    /// protocol.
    pub fn read(reader: &mut dyn BufRead) -> Result<WorkerGreeting> {
        let mut skipped: Option<Vec<u8>> = None;
        let greeting = loop {
            let line = read_line(reader).map_err(|error| match &skipped {
                None => error,
                Some(other) => {
                    anyhow!("it wrote '{}' instead of a greeting", String::from_utf8_lossy(other))
                }
            })?;
            match serde_json::from_slice::<WorkerGreeting>(&line) {
                Ok(greeting) => break greeting,
                Err(_) => skipped = Some(line),
            }
        };
        ensure!(
            greeting.protocol == PROTOCOL,
            "its speedwell {} uses version {} of the worker protocol, but this one uses version {PROTOCOL}",
            greeting.version,
            greeting.protocol
        );
        Ok(greeting)
    }
}

/// Returns the name that identifies this process on its machine: its process ID, its start time in
/// ticks, and the boot ID of the kernel.
pub fn process_name() -> String {
    let ProcessIdentity { pid, started_ticks, boot_id, .. } = ProcessIdentity::current_process();
    let (ticks, boot) = (started_ticks.unwrap_or_default(), boot_id.unwrap_or_default());
    format!("{pid}.{ticks}.{boot}")
}

/// Writes a message.
///
/// # Errors
/// Fails if the connection is lost.
pub fn write_message(writer: &mut dyn Write, message: &impl Serialize) -> Result<()> {
    write_line(writer, serde_json::to_vec(message)?)
}

/// Reads a message.
///
/// # Errors
/// Fails if the connection is lost, or if the next line is not such a message.
pub fn read_message<T: DeserializeOwned>(reader: &mut dyn BufRead) -> Result<T> {
    parse_message(&read_line(reader)?)
}

fn parse_message<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).context("received an unexpected message")
}

fn write_line(writer: &mut dyn Write, mut line: Vec<u8>) -> Result<()> {
    line.push(b'\n');
    writer.write_all(&line).and_then(|()| writer.flush()).context("connection lost")
}

/// Reads a line, and returns it without its newline.
fn read_line(reader: &mut dyn BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut limited = reader.take(MAX_LINE_BYTES);
    limited.read_until(b'\n', &mut line).context("connection lost")?;
    ensure!(line.pop() == Some(b'\n'), "connection lost");
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_shell_output_before_the_greeting_is_skipped() {
        let greeting = r#"{"protocol":1,"version":"0.1.0","process":"7.8.9"}"#;
        let text = format!("Welcome!\n{{\"a\":1}}\n{greeting}\n[5]\n");
        let mut reader = text.as_bytes();
        assert_eq!(WorkerGreeting::read(&mut reader).unwrap().process, "7.8.9");
        assert_eq!(read_message::<Vec<u32>>(&mut reader).unwrap(), [5]);
        let ended = read_message::<Vec<u32>>(&mut reader).unwrap_err();
        assert_eq!(ended.to_string(), "connection lost");
    }

    #[test]
    fn a_program_that_is_not_a_worker_of_this_version_is_refused() {
        let refusal =
            |text: &str| WorkerGreeting::read(&mut text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refusal(""), "connection lost");
        assert_eq!(refusal("one\n"), "it wrote 'one' instead of a greeting");
        let other = refusal("{\"protocol\":7,\"version\":\"9.1.0\",\"process\":\"\"}\n");
        assert_eq!(
            other,
            "its speedwell 9.1.0 uses version 7 of the worker protocol, but this one uses version 1"
        );
    }

    #[test]
    fn truncated_lines_and_invalid_messages_are_errors() {
        let refusal = |text: &[u8]| read_message::<u32>(&mut &*text).unwrap_err().to_string();
        assert_eq!(refusal(b"12"), "connection lost");
        assert_eq!(refusal(b"\xff\n"), "received an unexpected message");
    }
}
