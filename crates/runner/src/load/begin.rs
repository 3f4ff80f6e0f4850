//! When generators begin together: how they are told, and how they wait for it. Start at [`Begin`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A sleep may end so much too late; the rest of the way is waited without sleeping.
const LAST_NS: i64 = 2_000_000;

/// When generators begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At once.
    Now,
    /// When the clock of this machine shows this time, in nanoseconds after 1970.
    At(i64),
    /// Not at all.
    Never,
}

impl Begin {
    /// The line that says so to a generator.
    pub(super) fn line(self) -> Vec<u8> {
        match self {
            Begin::Now => b"go\n".to_vec(),
            Begin::At(ns) => format!("start {ns}\n").into_bytes(),
            Begin::Never => b"stop\n".to_vec(),
        }
    }

    /// What a line says, without its end.
    pub fn from_line(line: &str) -> Begin {
        match line.split_once(' ') {
            None if line == "go" => Begin::Now,
            Some(("start", ns)) => ns.parse().map_or(Begin::Never, Begin::At),
            _ => Begin::Never,
        }
    }

    /// Waits for the moment, and gives the time at which it has come; nothing if it never will.
    pub fn wait(self) -> Option<i64> {
        match self {
            Begin::Now => Some(now_ns()),
            Begin::At(ns) => Some(wait_until(ns)),
            Begin::Never => None,
        }
    }
}

/// Waits until the clock shows `at_ns`, in nanoseconds after 1970, and gives what it shows then. A moment that is over has
/// come.
fn wait_until(at_ns: i64) -> i64 {
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
fn now_ns() -> i64 {
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
