//! Lets several generator processes begin at the same time. Start at [`StartSignal`].

use serde::{Deserialize, Serialize};
use speedwell_machine::worker::now_ns;
use std::time::Duration;

/// A sleep may take up to this much longer than requested, so the last part of a wait spins instead
/// of sleeping.
const SPIN_NS: i64 = 2_000_000;

/// When generators begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartSignal {
    /// Immediately.
    Now,
    /// When this machine's clock shows this time, in nanoseconds since 1970.
    At(i64),
    /// Never, because a worker failed or the load was stopped.
    Never,
}

impl StartSignal {
    /// Waits for the start and returns its time, or `None` if the load will never start.
    pub fn wait(self) -> Option<i64> {
        match self {
            StartSignal::Now => Some(now_ns()),
            StartSignal::At(ns) => Some(wait_until(ns)),
            StartSignal::Never => None,
        }
    }
}

/// Waits until the clock shows `at_ns`, in nanoseconds since 1970; does not wait if that time has
/// passed. Returns the current time.
fn wait_until(at_ns: i64) -> i64 {
    loop {
        let now_ns = now_ns();
        let remaining_ns = at_ns.saturating_sub(now_ns);
        match u64::try_from(remaining_ns.saturating_sub(SPIN_NS)) {
            Ok(sleep_ns @ 1..) => std::thread::sleep(Duration::from_nanos(sleep_ns)),
            _ if remaining_ns <= 0 => {
                // Other generators may be waiting on the same processor. Let them notice that the
                // time has come before this generator occupies the processor.
                std::thread::yield_now();
                return now_ns;
            }
            // Let other threads run while this one spins.
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{now_ns, wait_until};

    #[test]
    fn waits_until_the_agreed_time_and_not_at_all_if_it_has_passed() {
        let at_ns = now_ns() + 5_000_000;
        let began_ns = wait_until(at_ns);
        assert!(began_ns >= at_ns && now_ns() >= began_ns);
        assert!(wait_until(i64::MIN) > at_ns);
    }
}
