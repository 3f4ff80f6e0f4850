//! Connects a coordinator with its workers: processes of this program, on this or another machine.
//!
//! Messages travel over the worker's stdin and stdout, each as one line of JSON. A worker first
//! sends its [`WorkerGreeting`]. Output before the greeting, such as that of a login shell, is
//! skipped; after it, a line that cannot be parsed ends the connection. Two lines to a worker are
//! not JSON: `time` asks for the time of its clock, and `stop` interrupts it. The end of its stdin
//! interrupts it, too.
//!
//! This module does not define the messages; the crates that exchange them do. Start at
//! [`WorkerConnection`], the coordinator's end, and [`WorkerLink`], the worker's end.

use crate::process::{self, CompanionProcess, ProcessIdentity};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Hidden command of `speedwell` that starts a worker process; its subcommand selects the kind of
/// worker.
pub const WORKER_COMMAND: &str = "worker";

/// Version of the protocol between coordinators and workers.
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

// The coordinator's end of the connection to a worker.

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
        write_line(stdin.as_mut().context("the connection is closed")?, line)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection ends, or if the worker sends something else.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T> {
        let mut output = self.greeted_output()?;
        read_message(&mut output.reader)
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
        self.use_streams(query_clock)
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
        let Some(mut stderr) = child.stderr.take() else { return StderrTail::default() };
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

// Estimates the clock offset between this machine and another. The remote clock is read at some
// time between sending a query and receiving the answer. The offset is therefore known to within
// half the round trip, even if the two directions take different times. The shortest of several
// round trips gives the best estimate (the clock filter of NTP, RFC 5905).

/// Number of queries per estimate. With this many, at least one is very likely to be answered
/// without delay.
const CLOCK_QUERIES: usize = 32;
/// Upper bound of the clock's resolution: a reading may lag behind the true time by at most this.
const CLOCK_RESOLUTION_NS: u64 = 1_000;

/// One clock query and its answer, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockExchange {
    /// When the query was sent, by our clock.
    sent_ns: i64,
    /// The answer: the time of the remote clock.
    remote_ns: i64,
    /// When the answer arrived, by our clock.
    received_ns: i64,
}

/// Offset of a remote clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// The number to add to a remote timestamp to get local time.
    pub offset_ns: i64,
    /// Upper bound of the error.
    pub uncertainty_ns: u64,
    /// Round trip of the exchange that this estimate comes from.
    pub round_trip_ns: u64,
}

impl ClockOffset {
    /// Converts a local timestamp to remote time.
    pub fn to_remote_ns(&self, ours_ns: i64) -> i64 {
        ours_ns.saturating_sub(self.offset_ns)
    }
}

/// Estimates the offset from several exchanges. Returns `None` if there are none, or if our clock
/// went backwards in all of them.
fn estimate_offset(exchanges: &[ClockExchange]) -> Option<ClockOffset> {
    let valid = exchanges.iter().filter(|exchange| exchange.received_ns >= exchange.sent_ns);
    let best = valid.min_by_key(|exchange| exchange.received_ns.abs_diff(exchange.sent_ns))?;
    let round_trip_ns = best.received_ns.abs_diff(best.sent_ns);
    let middle_ns = best.sent_ns.saturating_add((round_trip_ns / 2) as i64);
    Some(ClockOffset {
        offset_ns: middle_ns.saturating_sub(best.remote_ns),
        uncertainty_ns: round_trip_ns.div_ceil(2) + CLOCK_RESOLUTION_NS,
        round_trip_ns,
    })
}

/// Queries the clock of a worker.
///
/// # Errors
/// Fails if the connection ends or the answer is not a timestamp.
fn query_clock(writer: &mut dyn Write, reader: &mut dyn BufRead) -> Result<ClockOffset> {
    let mut exchanges = Vec::with_capacity(CLOCK_QUERIES);
    for _ in 0..CLOCK_QUERIES {
        let sent_ns = now_ns();
        write_line(writer, CLOCK_QUERY.to_vec())?;
        let remote_ns = read_message(reader)?;
        exchanges.push(ClockExchange { sent_ns, remote_ns, received_ns: now_ns() });
    }
    estimate_offset(&exchanges).context("the clock of this machine runs backwards")
}

/// Current time in nanoseconds since the Unix epoch.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

// The worker's end of the connection to its coordinator.

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
        process::prepare_to_measure()?;
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
        write_message(&mut io::stdout(), message)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection is lost, if the coordinator has requested a stop, or if the message
    /// is not a `T`.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T> {
        let line = lock(&self.messages).recv().ok().context("connection lost")?;
        parse_message(&line)
    }

    /// Waits at most `max_wait` for the next message. Returns `None` if there is none.
    ///
    /// # Errors
    /// Fails under the same conditions as [`WorkerLink::receive`].
    pub fn receive_within<T: DeserializeOwned>(&self, max_wait: Duration) -> Result<Option<T>> {
        match lock(&self.messages).recv_timeout(max_wait) {
            Ok(line) => parse_message(&line).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("connection lost"),
        }
    }

    /// Waits until the coordinator ends this worker. Until then, the coordinator may query the
    /// clock.
    pub fn await_end(&self) {
        lock(&self.messages).iter().for_each(drop);
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
            let _ = write_message(writer, &now_ns());
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
    use std::sync::atomic::{AtomicU32, Ordering};

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

    /// Returns a deterministic pseudorandom number below `bound` (64-bit LCG with Knuth's
    /// constants).
    fn random_below(state: &mut u64, bound: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    }

    #[test]
    fn the_true_clock_offset_is_within_the_uncertainty_for_any_delays() {
        let mut state = 5;
        for round in 0..2000 {
            // The remote clock is off by up to 30 s. Most one-way delays are up to 200 us; one in
            // eight is up to 50 ms.
            let skew_ns = random_below(&mut state, 60_000_000_000) as i64 - 30_000_000_000;
            let count = 1 + random_below(&mut state, CLOCK_QUERIES as u64);
            let mut now_ns = 1_000_000_000_000;
            let exchanges: Vec<ClockExchange> = (0..count)
                .map(|_| {
                    let mut way = || match random_below(&mut state, 8) {
                        0 => random_below(&mut state, 50_000_000) as i64,
                        _ => random_below(&mut state, 200_000) as i64,
                    };
                    let asked_ns = now_ns;
                    let arrived_ns = asked_ns + way();
                    let answered_ns = arrived_ns + way();
                    now_ns = answered_ns + 1;
                    ClockExchange {
                        sent_ns: asked_ns,
                        remote_ns: arrived_ns + skew_ns,
                        received_ns: answered_ns,
                    }
                })
                .collect();
            let found = estimate_offset(&exchanges).unwrap();
            let wrong_by = found.offset_ns.abs_diff(-skew_ns);
            assert!(wrong_by <= found.uncertainty_ns, "{round}: {found:?} for {skew_ns}");
            let shortest = exchanges.iter().map(|one| one.received_ns - one.sent_ns).min();
            assert_eq!(Some(found.round_trip_ns as i64), shortest);
            let there = found.to_remote_ns(now_ns);
            assert!(there.abs_diff(now_ns + skew_ns) <= found.uncertainty_ns);
        }
    }

    #[test]
    fn exchanges_during_which_the_local_clock_was_set_back_are_ignored() {
        let back = ClockExchange { sent_ns: 10, remote_ns: 5, received_ns: 9 };
        assert_eq!(estimate_offset(&[back]), None);
        assert_eq!(estimate_offset(&[]), None);
        let usable = ClockExchange { sent_ns: 100, remote_ns: 500, received_ns: 140 };
        let found = estimate_offset(&[back, usable]).unwrap();
        assert_eq!((found.offset_ns, found.round_trip_ns), (-380, 40));
    }

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
