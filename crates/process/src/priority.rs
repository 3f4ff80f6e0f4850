//! Real-time priority for the calling thread and those that it starts.

use std::io;

/// The priority among real-time processes: above ordinary ones, below most threads of the kernel.
const PRIORITY: libc::c_int = 10;

/// While it lives, the thread that made it, and threads that it starts, run before every process
/// without real-time priority (`SCHED_FIFO`, sched(7)).
#[derive(Debug)]
pub struct RealTime {
    policy: libc::c_long,
    parameters: Parameters,
}

/// What the kernel takes (sched_setscheduler(2)). The calls are made directly: musl's functions of these names only
/// report that the system does not have them, because POSIX means processes and Linux means threads.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Parameters {
    priority: libc::c_int,
}

/// The calling thread.
const THIS: libc::c_long = 0;

impl RealTime {
    /// Changes the priority of the calling thread.
    ///
    /// # Errors
    /// The operating system does not permit it.
    pub fn enter() -> io::Result<RealTime> {
        let mut parameters = Parameters { priority: 0 };
        // SAFETY: the calls read and write the structure given, which outlives them.
        unsafe {
            let policy = libc::syscall(libc::SYS_sched_getscheduler, THIS);
            if policy < 0 || libc::syscall(libc::SYS_sched_getparam, THIS, &raw mut parameters) != 0
            {
                return Err(io::Error::last_os_error());
            }
            set(libc::SCHED_FIFO.into(), Parameters { priority: PRIORITY })?;
            Ok(RealTime { policy, parameters })
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // A thread may always give up a priority.
        let _ = set(self.policy, self.parameters);
    }
}

fn set(policy: libc::c_long, parameters: Parameters) -> io::Result<()> {
    // SAFETY: the call reads the structure given, which outlives it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            THIS,
            policy,
            &raw const parameters,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: only asks about the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, THIS) as libc::c_int }
    }

    #[test]
    fn the_priority_is_inherited_by_threads_and_given_back() {
        let before = policy();
        match RealTime::enter() {
            Err(error) => eprintln!("skipped: no real-time priority here: {error}"),
            Ok(guard) => {
                assert_eq!(policy(), libc::SCHED_FIFO);
                let inherited = std::thread::spawn(policy).join().unwrap();
                assert_eq!(inherited, libc::SCHED_FIFO);
                drop(guard);
            }
        }
        assert_eq!(policy(), before);
    }
}
