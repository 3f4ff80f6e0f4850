//! Finds scheduled measurements that did not arrive. Start at [`find_silent_schedules`].

use indexmap::IndexMap;
use speedwell_model::stored::SessionArrival;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Sessions of a group that start within this time are one arrival: a job that was repeated, or
/// that stores several sessions.
const SAME_ARRIVAL_MS: i64 = 6 * HOUR_MS;
/// Minimum number of arrivals from which a schedule is recognized.
const MIN_ARRIVALS: usize = 5;
/// Number of newest intervals that count.
const MAX_INTERVALS: usize = 15;
/// With at least this many intervals, the longest one may be an outage and is ignored.
const MANY_INTERVALS: usize = 10;
/// Largest median interval of a schedule that is at least daily. A job may start late.
const MAX_DAILY_MS: i64 = 26 * HOUR_MS;
/// A schedule that is silent for longer was probably abandoned, and is not reported.
const ABANDONED_AFTER_MS: i64 = 21 * DAY_MS;

/// A schedule whose next session is overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilentSchedule<'a> {
    /// The newest session of the schedule.
    pub newest: &'a SessionArrival,
    /// Time since the start of that session, in milliseconds.
    pub silent_ms: i64,
}

/// Start of the window whose sessions [`find_silent_schedules`] needs, before `now_unix_ms`.
pub fn schedule_window_start(now_unix_ms: i64) -> i64 {
    now_unix_ms - ABANDONED_AFTER_MS - MAX_INTERVALS as i64 * DAY_MS
}

/// Finds the schedules that are silent, such as a nightly job that did not run.
///
/// Sessions with the same tags, branch, machine and command form a group. Sessions of pull requests
/// are not scheduled, so they are left out, and starts within 6 hours of an arrival belong to it. A
/// group is a schedule if it has at least 5 arrivals, and if the median of its last 15 intervals is
/// at most 26 hours. It is silent if more time than one and a half of its longest interval has
/// passed since its newest arrival, so that a job that pauses at weekends is not reported after it
/// has paused once. The longest of 10 or more intervals is ignored, because it may be an outage.
/// After 21 days, the schedule is considered abandoned.
pub fn find_silent_schedules(
    arrivals: &[SessionArrival],
    now_unix_ms: i64,
) -> Vec<SilentSchedule<'_>> {
    let mut groups: IndexMap<_, Vec<&SessionArrival>> = IndexMap::new();
    for arrival in arrivals.iter().filter(|arrival| arrival.pull.is_none()) {
        let SessionArrival { tags, branch, machine, command, .. } = arrival;
        groups.entry((tags, branch, machine, command)).or_default().push(arrival);
    }
    groups.into_values().filter_map(|sessions| find_silence(sessions, now_unix_ms)).collect()
}

fn find_silence(mut sessions: Vec<&SessionArrival>, now: i64) -> Option<SilentSchedule<'_>> {
    sessions.sort_by_key(|session| session.started_unix_ms);
    let newest = *sessions.last()?;
    let mut starts: Vec<i64> = Vec::new();
    for session in &sessions {
        let start = session.started_unix_ms;
        if starts.last().is_none_or(|last| start - last > SAME_ARRIVAL_MS) {
            starts.push(start);
        }
    }
    if starts.len() < MIN_ARRIVALS {
        return None;
    }
    let mut intervals: Vec<i64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    intervals.drain(..intervals.len().saturating_sub(MAX_INTERVALS));
    intervals.sort_unstable();
    let ignored = usize::from(intervals.len() >= MANY_INTERVALS);
    let median = intervals[intervals.len() / 2];
    let longest = intervals[intervals.len() - 1 - ignored];
    let silent_ms = now - newest.started_unix_ms;
    let is_silent = silent_ms > longest + longest / 2 && silent_ms <= ABANDONED_AFTER_MS;
    (median <= MAX_DAILY_MS && is_silent).then_some(SilentSchedule { newest, silent_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions of one group that started after this many hours.
    fn arrivals(hours: impl IntoIterator<Item = i64>) -> Vec<SessionArrival> {
        let arrival = |(number, hour): (i64, i64)| SessionArrival {
            number,
            started_unix_ms: hour * HOUR_MS,
            tags: vec!["nightly".into()],
            ..SessionArrival::default()
        };
        (1..).zip(hours).map(arrival).collect()
    }

    /// The silence in hours, `now` hours after the start.
    fn silence(arrivals: &[SessionArrival], now: i64) -> Option<i64> {
        let found = find_silent_schedules(arrivals, now * HOUR_MS);
        assert!(found.len() <= 1);
        found.first().map(|silent| silent.silent_ms / HOUR_MS)
    }

    #[test]
    fn a_nightly_job_is_silent_after_one_and_a_half_of_its_longest_interval() {
        let nights = arrivals((0..6).map(|day| 24 * day));
        for (now, expected) in [(120, None), (144, None), (156, None), (157, Some(37))] {
            assert_eq!(silence(&nights, now), expected, "{now}");
        }
        assert_eq!(silence(&nights, 120 + 22 * 24), None, "abandoned");
        assert_eq!(silence(&arrivals((0..4).map(|day| 24 * day)), 300), None, "too few");
        assert_eq!(silence(&arrivals((0..6).map(|week| 168 * week)), 1200), None, "weekly");
        // Repeated jobs are no additional arrivals.
        let repeated = arrivals((0..6).flat_map(|day| [24 * day, 24 * day + 2]));
        assert_eq!(silence(&repeated, 157), None);
        assert_eq!(silence(&repeated, 160), Some(38));
        assert_eq!(silence(&arrivals([0, 1, 2, 3, 4, 5, 6]), 157), None, "a day by hand");
    }

    #[test]
    fn weekends_are_no_silence_and_one_outage_does_not_hide_the_next() {
        let workdays = (0..3).flat_map(|week| (0..5).map(move |day| 24 * (7 * week + day)));
        let workdays = arrivals(workdays);
        let last = 24 * 18;
        assert_eq!(silence(&workdays, last + 72), None);
        assert_eq!(silence(&workdays, last + 109), Some(109));
        let with_outage = (0..14).map(|day| 24 * if day < 7 { day } else { day + 4 });
        assert_eq!(silence(&arrivals(with_outage), 24 * 17 + 37), Some(37));
    }

    #[test]
    fn groups_are_told_apart_and_pull_requests_are_left_out() {
        let mut all = arrivals((0..6).map(|day| 24 * day));
        let other = all.clone().into_iter().map(|arrival| SessionArrival {
            machine: Some(2),
            started_unix_ms: arrival.started_unix_ms + 40 * HOUR_MS,
            ..arrival
        });
        all.extend(other);
        assert_eq!(silence(&all, 160), Some(40), "the other machine is on time");
        for arrival in &mut all {
            arrival.pull = Some("7".into());
        }
        assert_eq!(silence(&all, 160), None);
    }
}
