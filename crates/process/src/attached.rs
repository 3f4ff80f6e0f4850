//! A child that talks to the user itself: it has our own streams, and we only wait for its end.
//!
//! Such a child stays in our process group, so that the terminal treats it like us. Nothing is captured and
//! there is no time limit. Start at [`run_attached`].

use crate::interrupt::interrupted;
use crate::process_tree;
use crate::spec::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, set_parent_process_death_signal,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How often we look up while nothing happens: often enough for Ctrl-C, too rare to disturb.
const PULSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// How long a child may take to end itself after the user asked us to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Starts `program` in `directory` and waits until it has ended.
///
/// # Errors
/// The program could not be started or waited for.
pub fn run_attached<S: AsRef<OsStr>>(
    program: &Path,
    arguments: &[S],
    directory: &Path,
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    // SAFETY: one system call, which is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            // If we are killed without a chance to clean up, the kernel ends the child for us.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            Ok(())
        });
    }
    let mut child = process_tree::spawn(&mut command)?;
    let ended = wait(&mut child);
    process_tree::forget(Pid::from_child(&child));
    ended
}

fn wait(child: &mut Child) -> io::Result<Ended> {
    let pid = Pid::from_child(child);
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    let mut kill_at: Option<Instant> = None;
    loop {
        // Whatever it says, the child is looked at.
        let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&PULSE));
        if let Some(status) = child.try_wait()? {
            return Ok(if interrupted() {
                Ended::Interrupted
            } else {
                status.into()
            });
        }
        if interrupted() {
            let deadline = kill_at.get_or_insert_with(|| Instant::now() + GRACE);
            let signal = if Instant::now() < *deadline {
                Signal::TERM
            } else {
                Signal::KILL
            };
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Ended {
        run_attached(Path::new("/bin/sh"), &["-c", script], Path::new("/")).unwrap()
    }

    #[test]
    fn the_way_a_child_ends_is_told() {
        assert_eq!(run("exit 0"), Ended::Exit(0));
        assert_eq!(run("exit 7"), Ended::Exit(7));
        assert_eq!(run("kill -9 $$"), Ended::Signal(9));
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let error = run_attached::<&str>(Path::new("/nowhere/x"), &[], Path::new("/"));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
