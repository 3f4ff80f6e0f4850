//! A thread looks at itself: how busy it is, and whether others took its processor.

use super::clock::Clock;
use crate::measured::ThreadReport;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What a thread knows of itself.
pub(super) struct SelfCheck {
    pub report: ThreadReport,
    began_cpu_ns: u64,
    began_switches: u64,
}

impl SelfCheck {
    /// Must be called on the thread itself.
    pub fn start() -> SelfCheck {
        SelfCheck {
            report: ThreadReport::default(),
            began_cpu_ns: cpu_ns(),
            began_switches: involuntary_switches(),
        }
    }

    /// Sleeps, keeps totals of how long it was in truth, and says what time it is.
    pub fn pause(&mut self, pause: Duration, clock: &Clock) -> u64 {
        let began_ns = clock.now_ns();
        std::thread::sleep(pause);
        let now_ns = clock.now_ns();
        let slept_ns = now_ns - began_ns;
        self.report.batched_ns += slept_ns;
        self.report.longest_batch_ns = self.report.longest_batch_ns.max(slept_ns);
        now_ns
    }

    pub fn finish(mut self, end_ns: u64) -> ThreadReport {
        self.report.elapsed_ns = end_ns;
        self.report.cpu_ns = cpu_ns() - self.began_cpu_ns;
        self.report.involuntary_switches =
            involuntary_switches().saturating_sub(self.began_switches);
        self.report
    }
}

/// Processor time of this thread.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Times that this thread was taken off its processor (proc(5)); 0 where that is not told.
fn involuntary_switches() -> u64 {
    std::fs::read_to_string("/proc/thread-self/status")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
            line.trim().parse().ok()
        })
        .unwrap_or(0)
}
