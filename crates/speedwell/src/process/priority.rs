//! Real-time priority for the calling thread and those that it starts.

use std::io;

/// The priority among real-time processes: above ordinary ones, below most threads of the kernel.
const PRIORITY: libc::c_int = 10;

/// While it lives, the thread that made it, and threads that it starts, run before every process
/// without real-time priority (`SCHED_FIFO`, sched(7)).
#[derive(Debug)]
pub struct RealTime {
    policy: libc::c_int,
    parameters: libc::sched_param,
}

impl RealTime {
    /// Changes the priority of the calling thread.
    ///
    /// # Errors
    /// The operating system does not permit it.
    pub fn enter() -> io::Result<RealTime> {
        // SAFETY: the calls read and write the structures given, which outlive them; 0 is the
        // calling thread.
        unsafe {
            let policy = libc::sched_getscheduler(0);
            let mut parameters: libc::sched_param = std::mem::zeroed();
            if policy < 0 || libc::sched_getparam(0, &mut parameters) != 0 {
                return Err(io::Error::last_os_error());
            }
            let wanted = libc::sched_param {
                sched_priority: PRIORITY,
            };
            if libc::sched_setscheduler(0, libc::SCHED_FIFO, &wanted) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(RealTime { policy, parameters })
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // SAFETY: as above. A thread may always give up a priority.
        unsafe { libc::sched_setscheduler(0, self.policy, &self.parameters) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: only asks about the calling thread.
        unsafe { libc::sched_getscheduler(0) }
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
