//! Runs a child process, such as a server under load, for as long as the caller needs it.
//!
//! The child survives Ctrl-C, because its open requests have to be completed first. Start at
//! [`ServiceProcess::start`].

use super::{ChildConversation, ProcessOutcome, ProcessSpec, channel};
use crate::process::supervise::run_until;
use speedwell_model::clock::WaitClock;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

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

    /// Starts a child, and a thread that holds `conversation` with the child over its private
    /// channel.
    ///
    /// # Errors
    /// Fails if the child cannot be started.
    pub fn start_with_conversation(
        spec: ProcessSpec,
        mut conversation: impl ChildConversation + Send + 'static,
    ) -> io::Result<ServiceProcess> {
        let (end, end_pipe) = channel::open_pipe()?;
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
        match started.recv() {
            Ok(pid) => Ok(ServiceProcess {
                pid,
                clock,
                end_pipe: Some(end_pipe),
                listener: Some(listener),
            }),
            Err(_) => match join_listener(listener) {
                Err(error) => Err(error),
                Ok(_) => Err(io::Error::other(
                    "the listener thread of the process ended before it reported that the process had \
                     started",
                )),
            },
        }
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
        match self.listener.take() {
            Some(listener) => join_listener(listener),
            None => Err(io::Error::other("it was already stopped")),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessEnd;
    use std::time::{Duration, Instant};

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
}
