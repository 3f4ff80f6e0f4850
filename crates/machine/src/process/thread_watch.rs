//! Observes the threads of child processes, to find out whether their work computes all the time or
//! waits, and whether several threads run at once.
//!
//! A look reads the state and the scheduler's counters of every thread. The counters are exact, but
//! a thread that ends between two looks takes its last counters with it. Start at
//! [`ThreadLook::take`] and [`ThreadUse::from_looks`].

use super::process_tree::{descendants, is_runnable};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The threads of all descendants of this process at one moment.
#[derive(Debug, Clone)]
pub struct ThreadLook {
    taken_at: Instant,
    threads: BTreeMap<i32, ThreadState>,
}

/// State of one thread.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadState {
    /// Whether the thread is running or waiting for a processor.
    is_runnable: bool,
    /// Processor time since the start of the thread, in nanoseconds.
    run_ns: u64,
    /// Time in which the thread waited for a processor, in nanoseconds.
    wait_ns: u64,
}

impl ThreadLook {
    /// Reads the threads. `None` if there is no descendant, or the kernel does not report the
    /// scheduler's counters.
    pub fn take() -> Option<ThreadLook> {
        let mut threads = BTreeMap::new();
        for pid in descendants() {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
                let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
                // A thread that has just ended has no files.
                if let (Some(thread), Some(stat), Some(counters)) =
                    (thread, read("stat"), read("schedstat"))
                    && let Some((run_ns, wait_ns)) = parse_counters(&counters)
                {
                    let state = ThreadState { is_runnable: is_runnable(&stat), run_ns, wait_ns };
                    threads.insert(thread, state);
                }
            }
        }
        (!threads.is_empty()).then(|| ThreadLook { taken_at: Instant::now(), threads })
    }

    fn runnable_threads(&self) -> usize {
        self.threads.values().filter(|thread| thread.is_runnable).count()
    }
}

/// Parses the first two numbers of /proc/PID/task/TID/schedstat: time on a processor and time spent
/// waiting for one, in nanoseconds (kernel documentation, `scheduler/sched-stats.rst`).
fn parse_counters(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// How processes used the processors. Fractions are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadUse {
    /// Fraction of the time in which a thread was running or waiting for a processor.
    pub runnable: f64,
    /// Fraction of the processor time that one thread at a time used. Several threads or processes
    /// may take turns.
    pub one_thread: f64,
    /// Fraction of the looks that found two or more runnable threads.
    pub parallel: f64,
}

impl ThreadUse {
    /// Evaluates looks at regular intervals. If the duration of the measured part is known, only
    /// the looks in it count, unless they are too few; it ends when the processes end. `None` if there
    /// are too few looks altogether.
    pub fn from_looks(looks: &[ThreadLook], measured: Option<Duration>) -> Option<ThreadUse> {
        let end = looks.last()?.taken_at;
        let is_measured = |look: &&ThreadLook| {
            measured.is_none_or(|measured| end.duration_since(look.taken_at) <= measured)
        };
        let first = looks.len() - looks.iter().rev().take_while(is_measured).count();
        let measured_looks = if looks.len() - first < MIN_LOOKS { looks } else { &looks[first..] };
        let pairs = measured_looks.windows(2);
        let mut intervals: Vec<IntervalUse> =
            pairs.map(|pair| IntervalUse::between(&pair[0], &pair[1])).collect();
        // The duration of a wait is known only when it ends.
        while intervals.pop_if(|interval| interval.needed_ns == 0 && interval.is_waiting).is_some()
        {
        }
        let sum = |value: fn(&IntervalUse) -> u64| intervals.iter().map(value).sum::<u64>() as f64;
        let total_ns = sum(|interval| interval.run_ns);
        if measured_looks.len() < MIN_LOOKS {
            return None;
        }
        let share_of_looks = |threads: usize| {
            let has_threads = |look: &&ThreadLook| look.runnable_threads() >= threads;
            let found = measured_looks.iter().filter(has_threads).count();
            found as f64 / measured_looks.len() as f64
        };
        let followed = || intervals.iter().filter(|interval| interval.is_followed);
        let followed_ns = followed().map(|interval| interval.elapsed_ns).sum::<u64>() as f64;
        let elapsed_ns = sum(|interval| interval.elapsed_ns);
        let runnable = if followed_ns > 0.0 && followed_ns >= MIN_FOLLOWED_SHARE * elapsed_ns {
            followed().map(|interval| interval.needed_ns).sum::<u64>() as f64 / followed_ns
        } else {
            // Short processes: the last counters of most of them are unknown.
            share_of_looks(1)
        };
        Some(ThreadUse {
            runnable: runnable.min(1.0),
            one_thread: sum(|interval| interval.busiest_ns) / total_ns.max(1.0),
            parallel: share_of_looks(2),
        })
    }
}

/// Fewer looks than this say nothing.
const MIN_LOOKS: usize = 5;

/// The counters are used if threads could be followed for at least this fraction of the time.
const MIN_FOLLOWED_SHARE: f64 = 0.5;

/// What threads did between two looks.
struct IntervalUse {
    elapsed_ns: u64,
    /// Processor time of all threads.
    run_ns: u64,
    /// Processor time of the thread that used most.
    busiest_ns: u64,
    /// Longest time that a single thread was running or waiting for a processor. A wait counts when
    /// it ends, so this time may exceed the interval.
    needed_ns: u64,
    /// Whether the same threads worked at both looks, so that `needed_ns` is complete.
    is_followed: bool,
    /// Whether a thread is runnable at the end.
    is_waiting: bool,
}

impl IntervalUse {
    fn between(from: &ThreadLook, to: &ThreadLook) -> IntervalUse {
        // Whether each thread existed before, its processor time, and the time that it needed.
        let uses: Vec<(bool, u64, u64)> = to
            .threads
            .iter()
            .map(|(thread, state)| {
                let known = from.threads.get(thread);
                let before = known.copied().unwrap_or_default();
                let run_ns = state.run_ns.saturating_sub(before.run_ns);
                let wait_ns = state.wait_ns.saturating_sub(before.wait_ns);
                (known.is_some(), run_ns, run_ns + wait_ns)
            })
            .collect();
        let (is_known, needed_ns) = uses
            .iter()
            .max_by_key(|(_, _, needed_ns)| *needed_ns)
            .map_or((true, 0), |&(is_known, _, needed_ns)| (is_known, needed_ns));
        let mut earlier = from.threads.iter();
        let is_complete =
            earlier.all(|(thread, state)| !state.is_runnable || to.threads.contains_key(thread));
        IntervalUse {
            elapsed_ns: to.taken_at.duration_since(from.taken_at).as_nanos() as u64,
            run_ns: uses.iter().map(|(_, run_ns, _)| run_ns).sum(),
            busiest_ns: uses.iter().map(|(_, run_ns, _)| *run_ns).max().unwrap_or(0),
            needed_ns,
            is_followed: is_known && is_complete,
            is_waiting: to.runnable_threads() > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 10 ms. Each thread is its number, whether it is runnable, its processor time and
    /// its waiting time in milliseconds.
    fn looks(count: u32, threads: impl Fn(u64) -> Vec<(i32, bool, u64, u64)>) -> Vec<ThreadLook> {
        let begin = Instant::now();
        let state = |(thread, is_runnable, run_ms, wait_ms): (i32, bool, u64, u64)| {
            let (run_ns, wait_ns) = (run_ms * 1_000_000, wait_ms * 1_000_000);
            (thread, ThreadState { is_runnable, run_ns, wait_ns })
        };
        let look = |number: u32| ThreadLook {
            taken_at: begin + number * Duration::from_millis(10),
            threads: threads(number.into()).into_iter().map(state).collect(),
        };
        (0..count).map(look).collect()
    }

    fn evaluate(looks: &[ThreadLook]) -> [f64; 3] {
        let found = ThreadUse::from_looks(looks, None).unwrap();
        [found.runnable, found.one_thread, found.parallel].map(|share| (share * 100.0).round())
    }

    #[test]
    fn computing_waiting_and_parallel_work_look_different() {
        let computing = looks(20, |n| vec![(1, false, 0, 0), (2, true, 10 * n, 0)]);
        assert_eq!(evaluate(&computing), [100.0, 100.0, 0.0]);
        // A third of the time on the processor, and two thirds waiting for it.
        let preempted = looks(31, |n| vec![(2, true, n / 3 * 10, n / 3 * 20)]);
        assert_eq!(evaluate(&preempted), [100.0, 100.0, 0.0]);
        let sleeping = looks(20, |n| vec![(2, n % 2 == 0, 6 * n, 0)]);
        assert_eq!(evaluate(&sleeping), [60.0, 100.0, 0.0]);
        let parallel = looks(20, |n| vec![(2, true, 10 * n, 0), (3, true, 10 * n, 0)]);
        assert_eq!(evaluate(&parallel), [100.0, 50.0, 100.0]);
        // A new process at every look: only its state is known.
        let short = looks(20, |n| vec![(1, false, 0, 0), (n as i32 + 2, n % 4 > 0, 5, 0)]);
        assert_eq!(evaluate(&short)[0], 75.0);
    }

    #[test]
    fn only_the_measured_part_counts() {
        let mut all = looks(40, |n| vec![(2, n > 20, 10 * n.saturating_sub(20), 0)]);
        let found = |all: &[ThreadLook], ms| {
            ThreadUse::from_looks(all, Some(Duration::from_millis(ms))).map(|found| found.runnable)
        };
        assert_eq!(found(&all, 190), Some(1.0));
        assert!(found(&all, 390).unwrap() < 0.6);
        assert_eq!(found(&all[..4], 20), None, "too few looks");
        // The last wait has not ended.
        all.extend(looks(60, |_| vec![(2, true, 190, 0)]).split_off(40));
        assert!(found(&all, 390).is_some_and(|share| share > 0.9));
    }

    #[test]
    fn a_child_that_computes_is_seen() {
        let work = "while :; do :; done";
        let child = std::process::Command::new("sh").args(["-c", work]).spawn();
        let mut child = child.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let has_child = |look: ThreadLook| look.threads.contains_key(&(child.id() as i32));
        let mut is_seen = false;
        while !is_seen && Instant::now() < deadline && fs::exists("/proc/self/schedstat").unwrap() {
            is_seen = ThreadLook::take().is_some_and(has_child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_seen || !fs::exists("/proc/self/schedstat").unwrap());
    }
}
