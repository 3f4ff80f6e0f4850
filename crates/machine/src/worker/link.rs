//! The worker's end of the connection to its coordinator. Start at [`WorkerLink::open`].

use super::{CLOCK_QUERY, STOP_REQUEST, WorkerGreeting, now_ns, parse_message, read_line};
use crate::process;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A worker's connection to the process that started it.
#[derive(Debug)]
pub struct WorkerLink {
    messages: Mutex<Receiver<Vec<u8>>>,
}

impl WorkerLink {
    /// Greets the coordinator and starts to listen to it. From now on, a stop request and the end
    /// of the connection interrupt this process ([`process::is_interrupt_requested`]).
    ///
    /// # Errors
    /// Fails if the connection is lost, or if the handlers for interrupts cannot be installed.
    pub fn open() -> Result<WorkerLink> {
        process::adopt_orphans();
        process::install_handlers()?;
        WorkerGreeting::send()?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let (mut input, mut output) = (io::stdin().lock(), io::stdout());
            serve_lines(&mut input, &mut output, sender, &process::request_interrupt);
        });
        Ok(WorkerLink { messages: Mutex::new(messages) })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn send(&self, message: &impl Serialize) -> Result<()> {
        super::write_message(&mut io::stdout(), message)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection is lost, if the coordinator has requested a stop, or if the message
    /// is not a `T`.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T> {
        let line = self.messages().recv().ok().context("connection lost")?;
        parse_message(&line)
    }

    /// Waits at most `max_wait` for the next message. Returns `None` if there is none.
    ///
    /// # Errors
    /// Fails under the same conditions as [`WorkerLink::receive`].
    pub fn receive_within<T: DeserializeOwned>(&self, max_wait: Duration) -> Result<Option<T>> {
        match self.messages().recv_timeout(max_wait) {
            Ok(line) => parse_message(&line).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("connection lost"),
        }
    }

    /// Waits until the coordinator ends this worker. Until then, the coordinator may query the
    /// clock.
    pub fn await_end(&self) {
        self.messages().iter().for_each(drop);
    }

    fn messages(&self) -> MutexGuard<'_, Receiver<Vec<u8>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers clock queries and forwards messages until the connection ends. Calls `interrupt` at the
/// end and on a stop request, after which nothing is forwarded.
fn serve_lines(
    reader: &mut dyn BufRead,
    writer: &mut dyn Write,
    messages: Sender<Vec<u8>>,
    interrupt: &dyn Fn(),
) {
    let mut messages = Some(messages);
    while let Ok(line) = read_line(reader) {
        if line == CLOCK_QUERY {
            // Without a connection, the next read fails.
            let _ = super::write_message(writer, &now_ns());
        } else if line == STOP_REQUEST {
            interrupt();
            messages = None;
        } else if let Some(messages) = &messages {
            // The receiver is gone only when this process is about to exit.
            let _ = messages.send(line);
        }
    }
    interrupt();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::clock::query_clock;
    use std::io::BufReader;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_clock_is_queried_between_messages_and_after_a_stop() {
        // One pipe per direction connects the two ends. Both ends read the same clock.
        let (there, mut to) = io::pipe().unwrap();
        let (from, mut back) = io::pipe().unwrap();
        let mut from = BufReader::new(from);
        let (sender, messages) = mpsc::channel();
        let interrupts = AtomicU32::new(0);
        thread::scope(|scope| {
            let count = || {
                interrupts.fetch_add(1, Ordering::SeqCst);
            };
            scope.spawn(move || {
                serve_lines(&mut BufReader::new(there), &mut back, sender, &count);
            });
            to.write_all(b"5\n").unwrap();
            let found = query_clock(&mut to, &mut from).unwrap();
            assert!(found.offset_ns.unsigned_abs() <= found.uncertainty_ns, "{found:?}");
            to.write_all(b"stop\n6\n").unwrap();
            query_clock(&mut to, &mut from).unwrap();
            assert_eq!(messages.iter().collect::<Vec<_>>(), [b"5"]);
            assert_eq!(interrupts.load(Ordering::SeqCst), 1);
            drop(to);
        });
        assert_eq!(interrupts.load(Ordering::SeqCst), 2);
    }
}
