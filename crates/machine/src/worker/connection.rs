//! The coordinator's end of the connection to a worker. Start at [`WorkerConnection`].

use super::clock::{self, ClockOffset};
use super::{STOP_REQUEST, WORKER_COMMAND, WorkerGreeting};
use crate::process::CompanionProcess;
use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a worker gets to exit after its last message.
const EXIT_GRACE: Duration = Duration::from_secs(5);
/// Interval between checks whether a process has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long to wait for the rest of stderr after the process has exited. Another process, such as a
/// shared connection of ssh, may keep the pipe open.
const STDERR_GRACE: Duration = Duration::from_secs(2);
/// Bytes of stderr that are kept.
const STDERR_TAIL_BYTES: usize = 4096;

/// A connection to a worker through a child process, which is the worker itself, or a program such
/// as ssh that connects to the worker. Several threads may send, but only one at a time receives.
#[derive(Debug)]
pub struct WorkerConnection {
    _companion: CompanionProcess,
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    output: Mutex<WorkerOutput>,
    stderr: StderrTail,
}

#[derive(Debug)]
struct WorkerOutput {
    reader: BufReader<ChildStdout>,
    has_greeted: bool,
}

/// How a connection ended.
#[derive(Debug, Clone, Default)]
pub struct WorkerEnd {
    /// What failed; `None` if the connection was closed after the last message.
    pub error: Option<String>,
    /// Exit status of the child, if it could be determined.
    pub status: Option<ExitStatus>,
    /// End of stderr, if something failed.
    pub stderr: String,
}

impl WorkerEnd {
    /// Returns the reason for a failure; `None` if nothing failed. The worker's own message on
    /// stderr takes precedence.
    pub fn reason(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        let message = self.stderr.trim().trim_start_matches("speedwell: ");
        Some(match self.status {
            _ if !message.is_empty() => message.to_owned(),
            Some(status) if !status.success() => format!("{error} ({status})"),
            _ => error.clone(),
        })
    }
}

impl WorkerConnection {
    /// Starts a worker on this machine. `program` is the path of this executable, and `subcommand`
    /// is the subcommand of [`WORKER_COMMAND`] to run.
    ///
    /// # Errors
    /// Fails if the worker cannot be started.
    pub fn start(program: &Path, subcommand: &str) -> Result<WorkerConnection> {
        let child = spawn_connected(Command::new(program).args([WORKER_COMMAND, subcommand]));
        let error_context = || format!("cannot start '{}'", program.display());
        WorkerConnection::new(child.with_context(error_context)?)
    }

    /// Connects to a worker through a child whose streams are pipes.
    ///
    /// # Errors
    /// Fails if the child has no stdout.
    pub fn new(mut child: Child) -> Result<WorkerConnection> {
        let stdout = child.stdout.take().context("the connection has no stdout")?;
        Ok(WorkerConnection {
            _companion: CompanionProcess::of(&child),
            stdin: Mutex::new(child.stdin.take()),
            output: Mutex::new(WorkerOutput { reader: BufReader::new(stdout), has_greeted: false }),
            stderr: StderrTail::collect(&mut child),
            child: Mutex::new(child),
        })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn send(&self, message: &impl Serialize) -> Result<()> {
        self.send_line(serde_json::to_vec(message)?)
    }

    /// Interrupts the worker, which may still send its results.
    pub fn stop(&self) {
        // A worker without a connection ends by itself.
        let _ = self.send_line(STOP_REQUEST.to_vec());
    }

    fn send_line(&self, line: Vec<u8>) -> Result<()> {
        let mut stdin = lock(&self.stdin);
        super::write_line(stdin.as_mut().context("the connection is closed")?, line)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection ends, or if the worker sends something else.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T> {
        let mut output = self.greeted_output()?;
        super::read_message(&mut output.reader)
    }

    /// Sends a message that has a single answer, returns the answer, and closes the connection.
    ///
    /// # Errors
    /// Fails with the worker's own message if there is one.
    pub fn request<T: DeserializeOwned>(&self, message: &impl Serialize) -> Result<T> {
        let answer = self.send(message).and_then(|()| self.receive());
        self.finish(answer)
    }

    /// Estimates the offset of the worker's clock. The worker must not send messages at the same
    /// time.
    ///
    /// # Errors
    /// Fails under the same conditions as [`WorkerConnection::receive`].
    pub fn query_clock(&self) -> Result<ClockOffset> {
        self.use_streams(clock::query_clock)
    }

    /// Calls `talk` with the streams to and from the worker.
    ///
    /// # Errors
    /// Fails if the connection ends, or if `talk` fails.
    pub fn use_streams<T>(
        &self,
        talk: impl FnOnce(&mut dyn Write, &mut dyn BufRead) -> Result<T>,
    ) -> Result<T> {
        let mut output = self.greeted_output()?;
        let mut stdin = lock(&self.stdin);
        talk(stdin.as_mut().context("the connection is closed")?, &mut output.reader)
    }

    fn greeted_output(&self) -> Result<MutexGuard<'_, WorkerOutput>> {
        let mut output = lock(&self.output);
        if !output.has_greeted {
            WorkerGreeting::read(&mut output.reader)?;
            output.has_greeted = true;
        }
        Ok(output)
    }

    /// Kills the child. The worker notices that the connection has ended.
    pub fn kill(&self) {
        // The process may have exited already.
        let _ = lock(&self.child).kill();
    }

    /// Closes the worker's stdin, which interrupts the worker. Kills the child if it has not exited
    /// after `max_wait`. Returns the exit status.
    pub fn close(&self, max_wait: Duration) -> Option<ExitStatus> {
        *lock(&self.stdin) = None;
        let deadline = Instant::now() + max_wait;
        let mut child = lock(&self.child);
        while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(POLL_INTERVAL);
        }
        let _ = child.kill();
        child.wait().ok()
    }

    /// Closes the connection. Replaces an error with the reason why the connection ended.
    ///
    /// # Errors
    /// Fails if `result` is an error.
    pub fn finish<T>(&self, result: Result<T>) -> Result<T> {
        let end = self.end(result.as_ref().err());
        result.map_err(|error| end.reason().map_or(error, |reason| anyhow!(reason)))
    }

    /// Closes the connection after the last message or an error.
    pub fn end(&self, error: Option<&anyhow::Error>) -> WorkerEnd {
        let status = self.close(EXIT_GRACE);
        WorkerEnd {
            error: error.map(|error| format!("{error:#}")),
            status,
            stderr: error.map_or_else(String::new, |_| self.stderr.text()),
        }
    }
}

/// Starts a command whose streams are pipes. The child gets its own process group, because Ctrl-C
/// must reach only us. We then notify the other end over the connection.
///
/// # Errors
/// Fails if the command cannot be started.
pub fn spawn_connected(command: &mut Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).spawn()
}

/// The last bytes of a process's stderr, collected by a thread.
#[derive(Debug, Default)]
pub struct StderrTail {
    bytes: Arc<Mutex<Vec<u8>>>,
    collector: Option<JoinHandle<()>>,
}

impl StderrTail {
    /// Collects the stderr of a child.
    pub fn collect(child: &mut Child) -> StderrTail {
        let Some(mut stderr) = child.stderr.take() else {
            return StderrTail::default();
        };
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let shared_bytes = Arc::clone(&bytes);
        let collector = thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                let mut tail = lock(&shared_bytes);
                tail.extend_from_slice(&buffer[..count]);
                let surplus = tail.len().saturating_sub(STDERR_TAIL_BYTES);
                tail.drain(..surplus);
            }
        });
        StderrTail { bytes, collector: Some(collector) }
    }

    /// Returns the end of stderr after the process has exited. Waits briefly for the rest
    /// of stderr.
    pub fn text(&self) -> String {
        let deadline = Instant::now() + STDERR_GRACE;
        let is_read = || self.collector.as_ref().is_none_or(JoinHandle::is_finished);
        while !is_read() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        String::from_utf8_lossy(&lock(&self.bytes)).into_owned()
    }
}

/// Returns the last line that is not blank, trimmed.
pub fn last_line(stderr: &str) -> &str {
    stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects to a script that greets as a worker does.
    fn connect(script: &str) -> WorkerConnection {
        let greeting = r#"echo '{"protocol":1,"version":"0.1.0","process":"1.2.3"}'"#;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{greeting}\n{script}")]);
        WorkerConnection::new(spawn_connected(&mut command).unwrap()).unwrap()
    }

    #[test]
    fn a_worker_answers_and_ends_with_its_connection() {
        let connection = connect("read line; echo \"[$line]\"; cat >&2; exit 7");
        assert_eq!(connection.request::<Vec<u32>>(&5).unwrap(), [5]);
        assert!(connection.send(&6).is_err(), "the connection is closed");
        let connection = connect("cat >/dev/null; exit 7");
        let end = connection.end(None);
        assert_eq!(end.status.and_then(|status| status.code()), Some(7));
        assert_eq!(end.reason(), None);
    }

    #[test]
    fn the_reason_for_a_failure_is_the_workers_message_or_its_exit_status() {
        let reason = |script: &str| connect(script).request::<u32>(&5).unwrap_err().to_string();
        assert_eq!(reason("read line; echo 'speedwell: no libc' >&2; exit 2"), "no libc");
        assert_eq!(reason("read line; exit 3"), "connection lost (exit status: 3)");
        let other = reason("read line; echo soon; cat >/dev/null");
        assert!(other.starts_with("received an unexpected message"), "{other}");
    }
}
