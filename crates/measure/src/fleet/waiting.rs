//! How a coordinator waits: when it checks spools and queries the engine, and what it reports about
//! work that has not started.
//!
//! Polls often after news and less often the longer nothing happens, because polling takes time
//! from a measurement on the same machine. Start at [`Rhythm`] and [`Queue`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between checks of the spools: minimum and maximum.
const LOOKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
/// A result that took the time `t` is noticed at most `t / LATER` late.
const LATER: u32 = 20;
/// Delay between handing out work and the first query about it.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum number of machines to name per reason.
const MOST_NAMES: usize = 5;

/// Decides when to poll.
pub(super) struct Rhythm {
    news: Instant,
    asked: Instant,
    pause: Duration,
    longest: Duration,
}

impl Rhythm {
    /// Starts at `now`. Queries to the engine are a second apart at first, later at most `longest`.
    pub fn new(now: Instant, longest: Duration) -> Rhythm {
        Rhythm {
            news: now,
            asked: now,
            pause: FIRST.min(longest),
            longest,
        }
    }

    /// Records that something has arrived.
    pub fn heard(&mut self, now: Instant) {
        self.news = now;
    }

    /// Records that work was handed out.
    pub fn handed_out(&mut self, now: Instant) {
        *self = Rhythm::new(now, self.longest);
    }

    /// Time until the next check of the spools.
    pub fn pause(&self, now: Instant) -> Duration {
        let silent = now.saturating_duration_since(self.news);
        (silent / LATER).clamp(LOOKS[0], LOOKS[1])
    }

    /// Whether to query the engine now. If so, increases the time until the next query.
    pub fn asks(&mut self, now: Instant) -> bool {
        let is_time = now.saturating_duration_since(self.asked) >= self.pause;
        if is_time {
            self.asked = now;
            self.pause = (self.pause * 2).min(self.longest);
        }
        is_time
    }
}

/// Work that the engine has not started, as of the last query.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heard: String,
    said: String,
}

impl Queue {
    /// Describes the waiting machines by the engine's reason, if that is worth reporting: unchanged
    /// since the last query and not yet reported. Between two tasks of a job, one always waits for
    /// a moment.
    pub fn hear(&mut self, waiting: &BTreeMap<String, Vec<String>>) -> Option<&str> {
        let reasons = waiting
            .iter()
            .filter(|(reason, _)| !["", "None", "(null)"].contains(&reason.as_str()));
        let parts: Vec<String> = reasons
            .map(|(reason, machines)| format!("{} ({reason})", names(machines)))
            .collect();
        let heard = parts.join(", ");
        let is_worth_it = heard.is_empty() || heard == self.heard;
        self.heard = heard;
        if !is_worth_it || self.heard == self.said {
            return None;
        }
        self.said.clone_from(&self.heard);
        (!self.said.is_empty()).then_some(self.said.as_str())
    }
}

fn names(machines: &[String]) -> String {
    let shown = machines[..machines.len().min(MOST_NAMES)].join(", ");
    match machines.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        others => format!("{shown} and {others} others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_nothing_happens_the_more_rarely_it_is_looked_and_asked() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut rhythm = Rhythm::new(begin, Duration::from_secs(5));
        let pauses = [10, 1000, 2000, 60_000].map(|ms| rhythm.pause(at(ms)).as_millis());
        assert_eq!(pauses, [50, 50, 100, 250]);
        let asked = |rhythm: &mut Rhythm, from: u64| -> Vec<u64> {
            (from..from + 24_000)
                .step_by(50)
                .filter(|ms| rhythm.asks(at(*ms)))
                .map(|ms| ms - from)
                .collect()
        };
        let expected = [1000, 3000, 7000, 12_000, 17_000, 22_000];
        assert_eq!(asked(&mut rhythm, 0), expected);
        rhythm.heard(at(60_000));
        assert_eq!(rhythm.pause(at(60_100)).as_millis(), 50);
        rhythm.handed_out(at(100_000));
        assert_eq!(asked(&mut rhythm, 100_000), expected);
        let mut always = Rhythm::new(begin, Duration::from_secs(1));
        assert_eq!(asked(&mut always, 0).len(), 23);
    }

    #[test]
    fn a_reason_that_stays_is_said_once_and_a_new_one_again() {
        let mut queue = Queue::default();
        let mut said = |parts: &[(&str, usize)]| {
            let machines = |count| (1..=count).map(|at| format!("n{at}")).collect();
            let parts = parts.iter();
            let waiting = parts.map(|(reason, count)| ((*reason).to_owned(), machines(*count)));
            queue.hear(&waiting.collect()).map(str::to_owned)
        };
        assert_eq!(said(&[("Resources", 1)]), None, "it may be over at once");
        let resources = said(&[("Resources", 1)]);
        assert_eq!(resources.as_deref(), Some("n1 (Resources)"));
        assert_eq!(said(&[("Resources", 1)]), None);
        assert_eq!(said(&[("Priority", 7), ("Resources", 1)]), None);
        let both = said(&[("Priority", 7), ("Resources", 1)]);
        let both = both.unwrap_or_default();
        assert_eq!(
            both,
            "n1, n2, n3, n4, n5 and 2 others (Priority), n1 (Resources)"
        );
        assert_eq!(said(&[("None", 1)]), None);
        assert_eq!(said(&[("Resources", 1)]), None);
        assert!(said(&[("Resources", 1)]).is_some(), "it had begun");
    }
}
