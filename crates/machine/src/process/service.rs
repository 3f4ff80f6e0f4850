//! Runs a child process, such as a server under load, for as long as the caller needs it.
//!
//! The child survives Ctrl-C, because its open requests have to be completed first. Start at
//! [`ServiceProcess::start`].

use super::scheduling::reap_child;
use super::spec::open_pipe;
use super::supervise::run_until;
use super::{ChildConversation, ProcessEnd, ProcessOutcome, ProcessSpec};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use speedwell_model::ResourceUsage;
use speedwell_model::clock::WaitClock;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that is alive this long after its connections were lost is not dying. The time is
/// generous, because a dying process may first write a large core dump.
const DEATH_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running child. Dropping this value ends the child and all processes that the child started.
#[derive(Debug)]
pub struct ServiceProcess {
    pid: i32,
    clock: WaitClock,
    /// The listener thread ends the child when this pipe is closed.
    end_pipe: Option<OwnedFd>,
    listener: Option<JoinHandle<io::Result<ProcessOutcome>>>,
}

impl ServiceProcess {
    /// Starts a child. The limit of `spec` is its maximum lifetime.
    ///
    /// # Errors
    /// Fails if the child cannot be started.
    pub fn start(spec: ProcessSpec) -> io::Result<ServiceProcess> {
        ServiceProcess::start_with_conversation(spec, ())
    }

    /// Starts a child, and a thread that exchanges messages with the child over its private
    /// channel. `conversation` determines the messages.
    ///
    /// # Errors
    /// Fails if the child cannot be started.
    pub fn start_with_conversation(
        spec: ProcessSpec,
        mut conversation: impl ChildConversation + Send + 'static,
    ) -> io::Result<ServiceProcess> {
        let (end, end_pipe) = open_pipe()?;
        let clock = spec.clock;
        let (sender, started) = mpsc::channel();
        // The thread that starts the child must outlive the child: the kernel kills a child when
        // the thread that started it ends (prctl(2), PR_SET_PDEATHSIG).
        let listener = std::thread::Builder::new().name("service".into()).spawn(move || {
            run_until(&spec, &mut conversation, Some(end), |pid| {
                // Sending fails only if the receiver, which waits for the pid, has panicked.
                let _ = sender.send(pid);
            })
        })?;
        let Ok(pid) = started.recv() else {
            join_listener(listener)?;
            return Err(io::Error::other(
                "the listener thread of the process ended before it reported that the process had \
                 started",
            ));
        };
        Ok(ServiceProcess { pid, clock, end_pipe: Some(end_pipe), listener: Some(listener) })
    }

    /// Process id, which is also the id of its process group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Clock that measures the child's time limit.
    pub fn clock(&self) -> WaitClock {
        self.clock
    }

    /// Whether the child has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.listener.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether the child has ended by itself or is about to end. Waits a while, because a dying
    /// process closes its connections before its end can be observed.
    pub fn is_dying(&self) -> bool {
        let begin = self.clock.now();
        while !self.has_ended() && self.clock.elapsed_since(begin) < DEATH_TIMEOUT {
            self.clock.wait(POLL_INTERVAL);
        }
        self.has_ended()
    }

    /// Asks the child to end, waits until it has ended, and returns the outcome.
    ///
    /// # Errors
    /// Fails if the child cannot be waited for.
    pub fn stop_and_wait(mut self) -> io::Result<ProcessOutcome> {
        self.end_pipe = None;
        let listener = self.listener.take();
        join_listener(listener.ok_or_else(|| io::Error::other("it was already stopped"))?)
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        self.end_pipe = None;
        if let Some(listener) = self.listener.take() {
            // A caller that drops the service does not need its outcome.
            let _ = join_listener(listener);
        }
    }
}

fn join_listener(listener: JoinHandle<io::Result<ProcessOutcome>>) -> io::Result<ProcessOutcome> {
    listener.join().unwrap_or_else(|_| Err(io::Error::other("its listener thread panicked")))
}

// Times one short process from start to end, including its resource usage. Nothing reads the
// output of the process, and no other thread waits for the process. So the result is the time that
// the operating system takes to start, execute and end the process.

/// Time and memory that one execution took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedExecution {
    /// Time from just before the process started until we knew that it had ended, in nanoseconds.
    pub wall_ns: u64,
    /// Resources that the process used.
    pub usage: ResourceUsage,
    /// How the process ended.
    pub ended: ProcessEnd,
}

/// Times processes one after the other. Another thread may kill the running process and later ones.
#[derive(Debug, Default)]
pub struct ProcessStopwatch {
    running: AtomicI32,
    stopped: AtomicBool,
}

impl ProcessStopwatch {
    /// Executes `command` and waits for it to exit.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn time_process(&self, command: &mut Command) -> io::Result<TimedExecution> {
        let begin = Instant::now();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        self.running.store(pid.as_raw_pid(), Ordering::SeqCst);
        if self.is_stopped() {
            kill(pid);
        }
        // This waits for the pid, because the process may not lead a process group.
        let reaped = reap_child(pid);
        let wall_ns = begin.elapsed().as_nanos() as u64;
        self.running.store(0, Ordering::SeqCst);
        let (status, usage) = reaped?;
        Ok(TimedExecution { wall_ns, usage, ended: status.into() })
    }

    /// Kills the running process, and every process that is started before
    /// [`ProcessStopwatch::resume`] is called.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(pid) = Pid::from_raw(self.running.load(Ordering::SeqCst)) {
            kill(pid);
        }
    }

    /// Allows processes to be started again.
    pub fn resume(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Whether [`ProcessStopwatch::stop`] was called after the last [`ProcessStopwatch::resume`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Kills the process and the group that the process leads. If the process has been reaped, that was
/// only a moment ago, and the kernel does not reuse a pid that quickly.
fn kill(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = kill_process(pid, Signal::KILL);
}

// Keeps the last output of processes that are timed, without reading it while they run: a reader
// would compete with them for the processor. They write to a file in memory.

/// Length at which the file is emptied while a process writes to it.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How often the length is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Number of bytes that are returned.
const TAIL_BYTES: u64 = 8 << 10;

/// A file in memory for the output of processes.
#[derive(Debug)]
pub struct OutputTail(File);

impl OutputTail {
    /// Creates the file, and a thread that keeps it short.
    ///
    /// # Errors
    /// Fails if the kernel denies the file or the thread.
    pub fn start() -> io::Result<OutputTail> {
        let file = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        let checked = OutputTail(file.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            loop {
                std::thread::sleep(CHECK_INTERVAL);
                if checked.file_bytes() > MAX_FILE_BYTES {
                    let _ = checked.clear();
                }
            }
        })?;
        Ok(OutputTail(file))
    }

    /// Empties the file and returns a stream for the next process.
    ///
    /// # Errors
    /// Fails if too many files are open.
    pub fn next_stream(&self) -> io::Result<Stdio> {
        self.clear()?;
        self.0.try_clone().map(Stdio::from)
    }

    /// Returns the end of what was written since the last call of [`OutputTail::next_stream`].
    pub fn last_output(&self) -> Vec<u8> {
        let end = self.file_bytes();
        let start = end.saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; (end - start) as usize];
        let count = self.0.read_at(&mut bytes, start).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    fn file_bytes(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Empties the file. The processes that write to it share our offset.
    fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)?;
        (&self.0).rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ServiceProcess {
        let mut spec = ProcessSpec::new("/bin/sh").args(["-c", script]);
        // This is long enough for a regular exit, even on a busy machine.
        spec.shutdown.grace = Duration::from_secs(30);
        ServiceProcess::start(spec).unwrap()
    }

    fn wait_until(done: impl Fn() -> bool) {
        let begin = Instant::now();
        while !done() && begin.elapsed() < Duration::from_secs(50) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_stopped_service_can_still_write_output_before_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let service = shell(&format!(
            "trap 'echo bye; exit 7' TERM; touch '{}'; while :; do sleep 0.05; done",
            ready.display()
        ));
        wait_until(|| ready.exists());
        assert!(!service.has_ended());
        let outcome = service.stop_and_wait().unwrap();
        assert_eq!(outcome.stdout.text(), "bye\n");
        assert_eq!(outcome.ended, ProcessEnd::Interrupted);
    }

    #[test]
    fn a_service_that_ends_by_itself_is_reported_with_its_status() {
        let service = shell("echo oops >&2; exit 3");
        wait_until(|| service.has_ended());
        let outcome = service.stop_and_wait().unwrap();
        assert_eq!(outcome.ended, ProcessEnd::Exit(3));
        assert_eq!(outcome.stderr.last_lines(1), "oops");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let error = ServiceProcess::start(ProcessSpec::new("/nowhere/x")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_the_end_of_the_last_output_is_returned() {
        let tail = OutputTail::start().unwrap();
        for script in ["echo before >&2", "seq 1 100000 >&2; echo after >&2"] {
            let stream = tail.next_stream().unwrap();
            let status = Command::new("sh").args(["-c", script]).stderr(stream).status().unwrap();
            assert!(status.success(), "{script}");
        }
        let output = String::from_utf8(tail.last_output()).unwrap();
        assert!(output.ends_with("\n100000\nafter\n"), "{output}");
        assert_eq!(output.len(), TAIL_BYTES as usize);
        tail.next_stream().unwrap();
        assert!(tail.last_output().is_empty());
    }
}
