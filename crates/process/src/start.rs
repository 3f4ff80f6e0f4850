//! From a [`Spec`] to a running child: descriptors in place, own group, bound to our life.

use super::channel::{self, Ends};
use super::{Spec, stray};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A running child and our ends of its streams.
pub(super) struct Running {
    /// Process id, which is also the number of its process group.
    pub pid: i32,
    /// Becomes readable when the process ends.
    pub pidfd: OwnedFd,
    /// Our end of its stdout, until it is closed.
    pub stdout: Option<OwnedFd>,
    /// Our end of its stderr, until it is closed.
    pub stderr: Option<OwnedFd>,
    /// Where its private line is read.
    pub read: Option<OwnedFd>,
    /// Where its private line is written.
    pub write: Option<OwnedFd>,
}

/// Starts the child.
pub(super) fn start(spec: &Spec) -> io::Result<Running> {
    let Ends {
        read,
        write,
        child,
        environment,
    } = spec.channel.open()?;
    let (stdout, stdout_child) = channel::pipe()?;
    let (stderr, stderr_child) = channel::pipe()?;
    channel::set_nonblocking(stdout.as_raw_fd())?;
    channel::set_nonblocking(stderr.as_raw_fd())?;

    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .stdin(Stdio::null())
        .process_group(0);
    command.stdout(stdout_child).stderr(stderr_child);
    for name in &spec.unset {
        command.env_remove(name);
    }
    command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.envs(environment);
    if let Some(folder) = &spec.directory {
        command.current_dir(folder);
    }
    let pairs = clear_of_targets(child)?;
    let moves: Vec<(RawFd, RawFd)> = pairs.iter().map(|(fd, to)| (fd.as_raw_fd(), *to)).collect();
    let mask = spec.pin.as_ref().map(super::CpuSet::mask);
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions;
    // all it uses was allocated before.
    unsafe {
        command.pre_exec(move || prepare(&moves, mask.as_ref()));
    }
    let pid = stray::spawn(&mut command)?.id() as i32;
    // The command still holds the child's ends of the standard streams; `pairs` the others.
    drop(command);
    drop(pairs);
    Ok(Running {
        pid,
        pidfd: pidfd_open(pid)?,
        stdout: Some(stdout),
        stderr: Some(stderr),
        read,
        write,
    })
}

/// Moves descriptors away from the numbers that the child's end will get, lest one overwrite
/// another while they are put in place.
fn clear_of_targets(child: Vec<(OwnedFd, RawFd)>) -> io::Result<Vec<(OwnedFd, RawFd)>> {
    child
        .into_iter()
        .map(|(fd, target)| {
            // SAFETY: F_DUPFD_CLOEXEC makes a new descriptor, which we own from then on.
            let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10) };
            if high < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `high` was just made and belongs to nobody else.
            Ok((unsafe { OwnedFd::from_raw_fd(high) }, target))
        })
        .collect()
}

/// Runs in the child before exec.
fn prepare(moves: &[(RawFd, RawFd)], mask: Option<&libc::cpu_set_t>) -> io::Result<()> {
    // SAFETY: plain system calls on descriptors that are valid in this process.
    unsafe {
        for &(from, to) in moves {
            if libc::dup2(from, to) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // If we are killed without a chance to clean up, the kernel ends the child for us.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if let Some(mask) = mask
            && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A descriptor that becomes readable when the process ends (Linux 5.3 and newer).
pub(super) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open returns a new descriptor or -1 and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
