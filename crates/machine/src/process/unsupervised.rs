//! Starts children without a time limit. [`run_attached`] starts a child that talks to the user,
//! and [`spawn_detached`] a child that outlives us.
//!
//! An attached child has our streams and process group, so that the terminal treats it as part of
//! this process. A detached child has its own session and another parent.

use crate::process::interrupt::is_interrupt_requested;
use crate::process::process_tree;
use crate::process::spec::ProcessEnd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, set_parent_process_death_signal, setsid,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Polling interval while nothing happens. It is short enough to react to Ctrl-C, and long enough
/// not to disturb measurements.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Starts `program` in `directory` and waits for it to exit. When the user interrupts us, the
/// program gets one SIGTERM. If it has not ended after `grace`, it is killed.
///
/// # Errors
/// Fails if the program could not be started or waited for.
pub fn run_attached<S: AsRef<OsStr>>(
    program: &Path,
    arguments: &[S],
    directory: &Path,
    grace: Duration,
) -> io::Result<ProcessEnd> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    // SAFETY: one system call, which is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            // If we are killed and cannot clean up, the kernel kills the child.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            Ok(())
        });
    }
    let mut child = process_tree::spawn_watched(&mut command)?;
    let ended = wait_with_grace(&mut child, grace);
    process_tree::unregister(Pid::from_child(&child));
    ended
}

fn wait_with_grace(child: &mut Child, grace: Duration) -> io::Result<ProcessEnd> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let mut terminated_at: Option<Instant> = None;
    loop {
        // The result is ignored, because the child is checked in any case.
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&POLL_INTERVAL));
        if let Some(status) = child.try_wait()? {
            return Ok(if is_interrupt_requested() {
                ProcessEnd::Interrupted
            } else {
                status.into()
            });
        }
        match terminated_at {
            // The signal is sent only once. The child would take a second signal for a second
            // interrupt, and end immediately.
            None if is_interrupt_requested() => {
                terminated_at = Some(Instant::now());
                let _ = kill_process(pid, Signal::TERM);
            }
            Some(instant) if instant.elapsed() >= grace => {
                let _ = kill_process(pid, Signal::KILL);
            }
            _ => {}
        }
    }
}

/// Starts a command in its own session, with another process as its parent. So neither our
/// terminal's signals nor our exit affect the command. Returns its stdout.
///
/// # Errors
/// Fails if the command could not be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<ChildStdout> {
    command.stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    // SAFETY: the calls are async-signal-safe and touch no memory; the intermediate process exits
    // immediately.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            match libc::fork() {
                0 => Ok(()),
                -1 => Err(io::Error::last_os_error()),
                _ => libc::_exit(0),
            }
        });
    }
    let mut intermediate = command.spawn()?;
    intermediate.wait()?;
    intermediate.stdout.take().ok_or_else(|| io::Error::other("the command has no output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn run(script: &str) -> ProcessEnd {
        run_attached(Path::new("/bin/sh"), &["-c", script], Path::new("/"), GRACE).unwrap()
    }

    #[test]
    fn the_exit_status_or_signal_of_a_child_is_reported() {
        assert_eq!(run("exit 0"), ProcessEnd::Exit(0));
        assert_eq!(run("exit 7"), ProcessEnd::Exit(7));
        assert_eq!(run("kill -9 $$"), ProcessEnd::Signal(9));
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let error = run_attached::<&str>(Path::new("/nowhere/x"), &[], Path::new("/"), GRACE);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_detached_child_has_a_session_of_its_own_and_another_parent() {
        use std::io::Read;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cut -d ' ' -f 1,4,6 /proc/$$/stat"]);
        let mut text = String::new();
        let mut output = spawn_detached(&mut command).unwrap();
        output.read_to_string(&mut text).unwrap();
        let numbers: Vec<i32> = text.split(' ').map(|n| n.trim().parse().unwrap()).collect();
        let [pid, parent, session] = numbers[..] else { panic!("{text}") };
        let own_pid = std::process::id() as i32;
        assert!(parent != own_pid && session != pid && session != 0, "{text}");
    }
}
