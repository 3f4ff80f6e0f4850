//! Cost of recording the state of the machine for a run, before its start and after its end:
//!
//!     cargo bench -p speedwell-machine --bench recording
//!
//! Prints quantiles in microseconds of wall-clock and CPU time. Process migrations are read from
//! `/proc/PID/sched` when the process ends; the file of this process represents it. Without
//! `--bench` (as under `cargo test --benches`) it only verifies that everything works.

use rustix::time::{ClockId, clock_gettime};
use speedwell_machine::environment::RunSensors;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_measuring { 5000 } else { 3 };
    let sensors = RunSensors::open();
    report("figures of the machine, before and after", rounds, || {
        let begun = sensors.read_start();
        black_box(sensors.read_end(&begun));
    });
    report("migrations of the process", rounds, || {
        let mut text = [0; 4096];
        let file = File::open("/proc/self/sched").ok();
        black_box(file.and_then(|mut file| file.read(&mut text).ok()));
    });
}

/// Current time of a clock in nanoseconds.
fn now_ns(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Prints the cost of `record`.
fn report(name: &str, rounds: usize, record: impl Fn()) {
    const CLOCKS: [(&str, ClockId); 2] =
        [("wall", ClockId::Monotonic), ("processor", ClockId::ThreadCPUTime)];
    for (word, clock) in CLOCKS {
        let mut each_us: Vec<f64> = (0..rounds)
            .map(|_| {
                let begin_ns = now_ns(clock);
                record();
                (now_ns(clock) - begin_ns) / 1e3
            })
            .collect();
        each_us.sort_by(f64::total_cmp);
        let [low, middle, high] =
            [0.1, 0.5, 0.9].map(|share| each_us[(share * rounds as f64) as usize]);
        println!("{name}, {word}: median {middle:.1} us, from 10 to 90% {low:.1} to {high:.1} us");
    }
}
