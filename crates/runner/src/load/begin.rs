//! The moment at which generators begin together, as a time of this machine's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A sleep may end so much too late; the rest of the way is waited without sleeping.
const LAST_NS: i64 = 2_000_000;

/// Waits until the clock shows `at_ns`, in nanoseconds after 1970, and gives what it shows then. A moment that is over has
/// come.
pub fn wait_until(at_ns: i64) -> i64 {
    loop {
        let now_ns = now_ns();
        let left_ns = at_ns.saturating_sub(now_ns);
        match u64::try_from(left_ns.saturating_sub(LAST_NS)) {
            Ok(sleep_ns @ 1..) => std::thread::sleep(Duration::from_nanos(sleep_ns)),
            _ if left_ns <= 0 => {
                // Others who wait for the same moment on this processor see it before anybody's work keeps them from that.
                std::thread::yield_now();
                return now_ns;
            }
            // Whoever else wants the processor may have it meanwhile.
            _ => std::thread::yield_now(),
        }
    }
}

/// Nanoseconds after 1970.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::{now_ns, wait_until};

    #[test]
    fn nobody_begins_before_the_moment_and_one_that_is_over_is_not_waited_for() {
        let at_ns = now_ns() + 5_000_000;
        let began_ns = wait_until(at_ns);
        assert!(began_ns >= at_ns && now_ns() >= began_ns);
        assert!(wait_until(i64::MIN) > at_ns);
    }
}
