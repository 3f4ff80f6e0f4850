//! Decides whether a thread pauses to read several responses at once, and measures how busy the
//! thread itself is.
//!
//! A generator that is faster than its server reads each response as it arrives, and both sides
//! then pay for a sleep and a wake-up per request. A short pause lets responses accumulate. A pause
//! pays off only if many requests are in flight and several responses arrive during the pause.

use super::clock::LoadClock;
use crate::load::BatchingMode;
use rustix::time::{ClockId, clock_gettime};
use speedwell_model::load::measurement::ThreadReport;
use std::time::Duration;

/// There are no pauses if this many requests or fewer are in flight.
const MIN_IN_FLIGHT: u64 = 16;

/// There is no pause if at least 1 / `ENDED_DIVISOR` of the requests in flight ended in the last
/// iteration of the event loop.
const ENDED_DIVISOR: u64 = 4;

/// A pause lasts at most the median service time divided by this number.
const MEDIAN_DIVISOR: u64 = 8;

/// Pausing starts when at least this many responses are expected per pause. It stops when fewer
/// than [`STOP_THRESHOLD`] are expected.
const START_THRESHOLD: f64 = 2.0;
const STOP_THRESHOLD: f64 = 1.0;

/// Decides when and how long to pause.
#[derive(Debug, Clone)]
pub(super) struct ReadBatcher {
    max_pause_ns: u64,
    pause_ns: u64,
    is_pausing: bool,
}

impl ReadBatcher {
    pub fn new(batching: BatchingMode, may_pause: bool) -> ReadBatcher {
        let max_pause_ns = match batching {
            BatchingMode::Adaptive { max_delay_ns } if may_pause => max_delay_ns,
            _ => 0,
        };
        ReadBatcher { max_pause_ns, pause_ns: 0, is_pausing: false }
    }

    /// Decides anew whether to pause, based on the number of responses in the last `elapsed_ns` and
    /// the median service time.
    pub fn adapt(&mut self, responses: u64, elapsed_ns: u64, median_ns: Option<u64>) {
        self.pause_ns =
            median_ns.map_or(0, |median| (median / MEDIAN_DIVISOR).min(self.max_pause_ns));
        let expected = responses as f64 * self.pause_ns as f64 / elapsed_ns.max(1) as f64;
        self.is_pausing =
            if self.is_pausing { expected >= STOP_THRESHOLD } else { expected >= START_THRESHOLD };
    }

    /// Returns how long to pause before the next wait for events; `None` for no pause. `ended` is
    /// the number of requests that ended in the last iteration of the event loop.
    pub fn next_pause(&self, in_flight: u64, ended: u64) -> Option<Duration> {
        let pays_off =
            self.is_pausing && in_flight > MIN_IN_FLIGHT && ended < in_flight / ENDED_DIVISOR;
        pays_off.then(|| Duration::from_nanos(self.pause_ns))
    }
}

// The code below lets a thread monitor its own CPU time and context switches.

pub(super) struct ThreadMonitor {
    pub report: ThreadReport,
    start_cpu_ns: u64,
    start_switches: u64,
}

impl ThreadMonitor {
    /// Must be called on the thread itself.
    pub fn start() -> ThreadMonitor {
        ThreadMonitor {
            report: ThreadReport::default(),
            start_cpu_ns: cpu_ns(),
            start_switches: involuntary_switches(),
        }
    }

    /// Sleeps, records the actual duration, and returns the current time.
    pub fn sleep_for(&mut self, pause: Duration, clock: &LoadClock) -> u64 {
        let began_ns = clock.now_ns();
        std::thread::sleep(pause);
        let now_ns = clock.now_ns();
        let slept_ns = now_ns - began_ns;
        self.report.batched_ns += slept_ns;
        self.report.longest_batch_ns = self.report.longest_batch_ns.max(slept_ns);
        now_ns
    }

    pub fn into_report(mut self, end_ns: u64) -> ThreadReport {
        self.report.elapsed_ns = end_ns;
        self.report.cpu_ns = cpu_ns() - self.start_cpu_ns;
        self.report.involuntary_switches =
            involuntary_switches().saturating_sub(self.start_switches);
        self.report
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Involuntary context switches of the current thread (proc(5)); 0 if unknown.
fn involuntary_switches() -> u64 {
    std::fs::read_to_string("/proc/thread-self/status")
        .ok()
        .and_then(|text| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
            line.trim().parse().ok()
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 100_000_000;
    const MOST: BatchingMode = BatchingMode::Adaptive { max_delay_ns: 100_000 };

    #[test]
    fn pauses_occur_only_while_enough_responses_would_accumulate() {
        let mut batcher = ReadBatcher::new(MOST, true);
        assert_eq!(batcher.next_pause(100, 1), None);
        // At 50,000 responses per second and a median of 2 ms, five responses accumulate in 100 us.
        batcher.adapt(5_000, TICK_NS, Some(2_000_000));
        assert_eq!(batcher.next_pause(100, 1), Some(Duration::from_micros(100)));
        assert_eq!(batcher.next_pause(100, 25), None, "enough have ended");
        assert_eq!(batcher.next_pause(16, 1), None, "few are under way");
        batcher.adapt(1_500, TICK_NS, Some(2_000_000));
        assert!(batcher.next_pause(100, 1).is_some(), "pauses continue above the stop threshold");
        batcher.adapt(500, TICK_NS, Some(2_000_000));
        assert_eq!(batcher.next_pause(100, 1), None);
    }

    #[test]
    fn a_pause_is_short_compared_with_the_median_latency() {
        let mut batcher = ReadBatcher::new(MOST, true);
        batcher.adapt(10_000, TICK_NS, Some(240_000));
        assert_eq!(batcher.next_pause(50, 1), Some(Duration::from_micros(30)));
    }

    #[test]
    fn open_loads_and_loads_without_batching_never_pause() {
        for (batching, is_closed) in [(MOST, false), (BatchingMode::Off, true)] {
            let mut batcher = ReadBatcher::new(batching, is_closed);
            batcher.adapt(100_000, TICK_NS, Some(2_000_000));
            assert_eq!(batcher.next_pause(1000, 1), None);
        }
    }
}
