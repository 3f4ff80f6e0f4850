//! Decides when a coordinator polls, and which waits it reports.
//!
//! It polls often after something has arrived ([`PollBackoff`]). It polls less often the longer
//! nothing happens, because polling takes time from a measurement on the same machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Minimum interval between checks of the spools, and the interval while the coordinator waits for
/// spools to end or jobs to exit.
pub(super) const MIN_SPOOL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum interval between checks of the spools.
pub(super) const MAX_SPOOL_INTERVAL: Duration = Duration::from_millis(250);
/// A result that arrives after a wait of `t` is noticed at most `t / LATENESS_DIVISOR` later, or
/// after the minimum interval if that is longer.
const LATENESS_DIVISOR: u32 = 20;
/// Delay between handing out work and the first query about it.
const FIRST_QUERY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of machines to name for each reason for waiting.
const MAX_NAMES: usize = 5;

/// Decides when to poll. It starts anew when work is handed out.
pub(super) struct PollBackoff {
    /// When something arrived most recently.
    pub last_news: Instant,
    last_query: Instant,
    pause: Duration,
    pub max_pause: Duration,
}

impl PollBackoff {
    /// Starts at `now`. The first query to the engine is due after one second, or after `max_pause`
    /// if that is shorter. Each query doubles the pause, up to `max_pause`.
    pub fn new(now: Instant, max_pause: Duration) -> PollBackoff {
        PollBackoff {
            last_news: now,
            last_query: now,
            pause: FIRST_QUERY_DELAY.min(max_pause),
            max_pause,
        }
    }

    /// Time until the next check of the spools.
    pub fn time_to_next_poll(&self, now: Instant) -> Duration {
        let idle_time = now.saturating_duration_since(self.last_news);
        (idle_time / LATENESS_DIVISOR).clamp(MIN_SPOOL_INTERVAL, MAX_SPOOL_INTERVAL)
    }

    /// Whether to query the engine now. If so, increases the time until the next query.
    pub fn is_query_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.last_query) >= self.pause;
        if is_due {
            self.last_query = now;
            self.pause = (self.pause * 2).min(self.max_pause);
        }
        is_due
    }
}

/// Describes work that the engine has not started: as of the last query, and as last reported to
/// the user.
#[derive(Debug, Default)]
pub(super) struct WaitingReport {
    latest: String,
    reported: String,
}

impl WaitingReport {
    /// Describes which machines wait and why, if that is worth reporting: if the description is the
    /// same as at the last query, and was not the last one reported. This excludes the short wait
    /// that always occurs between two tasks of a job. `waiting` lists the machines by reason.
    pub fn update(&mut self, waiting: &BTreeMap<String, Vec<String>>) -> Option<&str> {
        let reasons =
            waiting.iter().filter(|(reason, _)| !["", "None", "(null)"].contains(&reason.as_str()));
        let parts: Vec<String> = reasons
            .map(|(reason, machines)| format!("{} ({reason})", join_names(machines)))
            .collect();
        let description = parts.join(", ");
        let is_stable = description.is_empty() || description == self.latest;
        self.latest = description;
        if !is_stable || self.latest == self.reported {
            return None;
        }
        self.reported.clone_from(&self.latest);
        (!self.reported.is_empty()).then_some(self.reported.as_str())
    }
}

fn join_names(machines: &[String]) -> String {
    let shown = machines[..machines.len().min(MAX_NAMES)].join(", ");
    match machines.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        others => format!("{shown} and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_and_queries_become_rarer_while_nothing_happens() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut rhythm = PollBackoff::new(begin, Duration::from_secs(5));
        let pauses =
            [10, 1000, 2000, 60_000].map(|ms| rhythm.time_to_next_poll(at(ms)).as_millis());
        assert_eq!(pauses, [50, 50, 100, 250]);
        let asked = |rhythm: &mut PollBackoff, from: u64| -> Vec<u64> {
            (from..from + 24_000)
                .step_by(50)
                .filter(|ms| rhythm.is_query_due(at(*ms)))
                .map(|ms| ms - from)
                .collect()
        };
        let expected = [1000, 3000, 7000, 12_000, 17_000, 22_000];
        assert_eq!(asked(&mut rhythm, 0), expected);
        rhythm.last_news = at(60_000);
        assert_eq!(rhythm.time_to_next_poll(at(60_100)).as_millis(), 50);
        rhythm = PollBackoff::new(at(100_000), rhythm.max_pause);
        assert_eq!(asked(&mut rhythm, 100_000), expected);
        let mut always = PollBackoff::new(begin, Duration::from_secs(1));
        assert_eq!(asked(&mut always, 0).len(), 23);
    }

    #[test]
    fn an_unchanged_waiting_reason_is_reported_only_once() {
        let mut queue = WaitingReport::default();
        let mut said = |parts: &[(&str, usize)]| {
            let machines = |count| (1..=count).map(|at| format!("n{at}")).collect();
            let parts = parts.iter();
            let waiting = parts.map(|(reason, count)| ((*reason).to_owned(), machines(*count)));
            queue.update(&waiting.collect()).map(str::to_owned)
        };
        assert_eq!(said(&[("Resources", 1)]), None, "a short wait is not reported");
        let resources = said(&[("Resources", 1)]);
        assert_eq!(resources.as_deref(), Some("n1 (Resources)"));
        assert_eq!(said(&[("Resources", 1)]), None);
        assert_eq!(said(&[("Priority", 7), ("Resources", 1)]), None);
        let both = said(&[("Priority", 7), ("Resources", 1)]);
        let both = both.unwrap_or_default();
        assert_eq!(both, "n1, n2, n3, n4, n5 and 2 more (Priority), n1 (Resources)");
        assert_eq!(said(&[("None", 1)]), None);
        assert_eq!(said(&[("Resources", 1)]), None);
        assert!(said(&[("Resources", 1)]).is_some(), "a new wait is reported");
    }
}
