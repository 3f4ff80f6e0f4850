//! Figures: they agree with other clocks, with each other, and with known durations.

use super::super::busy::{ensure_holds, retry_busy};
use super::super::code_driver::{CodeAnswer, CodeHarness};
use super::super::harness_driver::HarnessEvent;
use super::{minimum_of, windows_ns};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Checks times per iteration of one worker in ms. A busy machine never makes them too short;
/// whether they are too long is judged by the shortest.
fn check_times(times_ms: &[f64], low: f64, high: f64) -> Result<(), String> {
    assert!(!times_ms.is_empty(), "no windows");
    let fast = times_ms.iter().find(|time| **time < low);
    assert!(fast.is_none(), "{times_ms:?} ms, expected {low}");
    ensure_holds(minimum_of(times_ms.iter().copied()) <= high, || {
        format!("{times_ms:?} ms, expected {low}")
    })
}

fn in_ms(times_ns: Vec<f64>) -> Vec<f64> {
    times_ns.into_iter().map(|time| time / 1e6).collect()
}

pub fn times_a_sleep_longer_than_its_windows(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.sleep_700_ms);
    retry_busy(3, || {
        let answer = talk.measure_windows("a", 300, 2);
        let worker = answer.only("worker");
        assert_eq!(worker.numbers("count"), [0.0, 1.0, 2.0], "{worker:?}");
        check_times(&in_ms(windows_ns(worker)), 690.0, 720.0)
    });
    harness.reuse(talk);
}

pub fn times_a_sleep_by_passes(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.sleep_20_ms);
    retry_busy(6, || {
        let answer = talk.measure_samples("a", 3, 4);
        let timed = answer.only("timed");
        assert_eq!(
            (timed.text("loop"), timed.text("workers"), timed.text("job")),
            ("3".into(), "1".into(), "a".into())
        );
        assert_eq!(timed.number("batches"), 12.0, "a slow runner has batches of one");
        assert_eq!(timed.numbers("q_ps").len(), 4);
        let times: Vec<f64> = timed.numbers("ns").iter().map(|ns| ns / 3e6).collect();
        assert_eq!(times.len(), 4);
        // Checks a fast one: another process may delay the others.
        check_times(&[lower_quartile(times)], 19.9, 25.0)
    });
    harness.reuse(talk);
}

pub fn records_a_series_with_its_reference_loop(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.pure);
    // More than fit in one line, where a sample is not a separate process.
    let samples = if harness.has_cpu_clock() { 30_000 } else { 300 };
    let count = samples.to_string();
    let series = [
        ("jobs", "a"),
        ("mode", "series"),
        ("samples", &count),
        ("loop", "1"),
        ("reference", "10000"),
    ];
    let answer = talk.send_and_wait("run", &series);
    let timed = answer.only("timed");
    assert_eq!(timed.list("ns").len(), samples);
    assert_eq!((timed.text("loop"), timed.text("workers")), ("1".into(), "1".into()));
    let reference_ns = timed.numbers("reference_ns");
    if harness.has_cpu_clock() {
        assert_eq!(timed.list("cpu_ns").len(), samples);
        assert_eq!(reference_ns.len(), 3);
        // Without disturbance it takes 200 us or more; only a faster processor makes it shorter.
        assert!(reference_ns.iter().all(|ns| *ns > 20e3), "{reference_ns:?}");
    } else {
        assert_eq!(reference_ns, [0.0; 0], "nothing is made up");
    }
    harness.reuse(talk);
}

pub fn tells_processor_time_from_waiting(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.sleep_20_ms);
    let answer = talk.measure_samples("a", 3, 4);
    harness.reuse(talk);
    let timed = answer.only("timed");
    let cpu_ns = timed.numbers("cpu_ns");
    if !harness.has_cpu_clock() {
        assert_eq!(cpu_ns, [0.0; 0], "nothing is made up");
        return;
    }
    assert_eq!(cpu_ns.len(), 4);
    assert!(cpu_ns.iter().all(|ns| *ns >= 0.0), "{timed:?}");
    let sum = |times: &[f64]| times.iter().sum::<f64>();
    assert!(sum(&cpu_ns) < sum(&timed.numbers("ns")) / 2.0, "{timed:?} slept");
}

/// The worker's processor time is most of what its process used. On a busy machine, the compiler
/// threads of a runtime may still be at work, so callers retry.
fn ensure_is_most_of(worker_ns: f64, process_ns: f64) -> Result<(), String> {
    let is_most = worker_ns > process_ns / 2.0 && worker_ns <= process_ns * 1.01;
    ensure_holds(is_most, || format!("{worker_ns} ns of {process_ns} ns"))
}

/// Harnesses that are slow to read their clock do so on request.
pub fn tells_the_processor_time_of_windows_where_it_is_wanted(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.pure);
    // Start-up, including the lookup of the clock, is over.
    talk.windows_with_cpu_time("a", 20, 5);
    let pid = talk.pid();
    let used_ns = || speedwell_machine::process::cpu_ns_of(pid).unwrap() as f64;
    retry_busy(2, || {
        let before_ns = used_ns();
        let answer = talk.windows_with_cpu_time("a", 30, 5);
        let within_ns = used_ns() - before_ns;
        ensure_is_most_of(answer.only("worker").number("cpu_ns"), within_ns)
    });
    harness.reuse(talk);
}

/// The reference is the process's own clock, read by another process: it includes all of the
/// worker's time, and little else. A busy machine affects neither.
pub fn tells_the_processor_time_of_its_process(harness: &CodeHarness) {
    if !harness.has_cpu_clock() {
        return;
    }
    let mut talk = harness.with(harness.snippets.pure);
    // Start-up is over, and an iteration takes its usual time.
    let ns_each = lower_quartile(windows_ns(talk.measure_windows("a", 10, 10).only("worker")));
    let count = ((20e6 / ns_each) as u64).max(1);
    talk.measure_samples("a", count, 2);
    let pid = talk.pid();
    let used_ns = || speedwell_machine::process::cpu_ns_of(pid).unwrap() as f64;
    let mut cpu_ns = 0.0;
    retry_busy(2, || {
        let before_ns = used_ns();
        cpu_ns = talk.measure_samples("a", count, 6).only("timed").numbers("cpu_ns").iter().sum();
        ensure_is_most_of(cpu_ns, used_ns() - before_ns)
    });
    let answer = talk.measure_windows("a", 10, 10);
    harness.reuse(talk);
    let worker = answer.only("worker");
    // Looking up the clock in Java takes tens of milliseconds, longer than a run may be delayed.
    if harness.is_slow_to_find_its_cpu_clock() {
        assert_eq!(worker.text("cpu_ns"), "");
        return;
    }
    let counts = worker.numbers("count");
    let each_ns = worker.number("cpu_ns") / (counts[10] - counts[0]);
    let timed_each_ns = cpu_ns / (6 * count) as f64;
    assert!(
        (0.2..5.0).contains(&(each_ns / timed_each_ns)),
        "{each_ns} ns in windows, {timed_each_ns} ns in samples"
    );
}

pub fn adds_up_its_workers(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.sleep_20_ms);
    assert_eq!(talk.workers("a", 4).only("workers").number("n"), 4.0);
    retry_busy(6, || four_take_20_ms_each(&talk.measure_windows("a", 60, 5)));
    harness.reuse(talk);
}

pub fn awaits_each_iteration(harness: &CodeHarness) {
    let Some(snippet) = harness.snippets.awaited_20_ms else {
        return;
    };
    let mut talk = harness.start(snippet).unwrap();
    let answer = talk.load("a", snippet);
    assert_eq!(answer.only("loaded").text("async"), "1");
    talk.workers("a", 4);
    retry_busy(6, || four_take_20_ms_each(&talk.measure_windows("a", 60, 5)));
    harness.reuse(talk);
}

fn four_take_20_ms_each(answer: &CodeAnswer) -> Result<(), String> {
    let workers = answer.all("worker");
    let numbers: Vec<String> = workers.iter().map(|worker| worker.text("w")).collect();
    let mut sorted = numbers.clone();
    sorted.sort();
    assert_eq!(sorted, ["0", "1", "2", "3"]);
    for worker in workers {
        // A timer of Node.js counts whole milliseconds from the last turn of the event loop, so it may
        // expire up to a millisecond early.
        check_times(&in_ms(windows_ns(worker)), 19.0, 25.0)?;
    }
    Ok(())
}

/// Cost of an iteration in windows and in batches, in ns; the minimum of each.
fn cost_ns(worker: &HarnessEvent) -> (f64, f64) {
    (minimum_of(windows_ns(worker)), worker.numbers("q_ps")[0] / 1e3)
}

/// Updates the minimum of each of several costs: other load, on this machine or its neighbors in a
/// cloud, only slows things down, and alternating rounds give each cost a quiet moment.
fn update_minimum<const N: usize>(least: &mut [f64; N], seen: [f64; N]) {
    for (least, seen) in least.iter_mut().zip(seen) {
        *least = least.min(seen);
    }
}

/// The lower quartile of times of samples of 1 ms. They are shorter than the time slice on a busy
/// machine, so many are undisturbed.
fn lower_quartile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

/// Cost of an iteration in one mode relative to the other; 1 if they differ by a processor cycle or
/// less. An empty loop of Erlang takes five or six cycles, and keeps to that for a minute; one that
/// does anything does not vary.
fn cost_ratio(timed_ns: f64, continuous_ns: f64) -> f64 {
    let is_a_cycle = (timed_ns - continuous_ns).abs() < 0.35;
    if is_a_cycle && continuous_ns > 1.0 {
        return 1.0;
    }
    timed_ns / continuous_ns
}

pub fn costs_the_same_in_both_modes(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.empty);
    talk.measure_windows("a", 50, 2);
    retry_busy(4, || {
        // Disturbances last longer than a round, so both modes of a round suffer alike.
        let mut of_samples = Vec::new();
        let mut of_batches = Vec::new();
        for _ in 0..9 {
            let answer = talk.measure_windows("a", 1, 20);
            let worker = answer.only("worker");
            let in_windows = lower_quartile(windows_ns(worker));
            let count = (1e6 / in_windows) as u64;
            let answer = talk.measure_samples("a", count, 20);
            let timed = answer.only("timed");
            let in_samples = lower_quartile(timed.numbers("ns")) / count as f64;
            of_samples.push(cost_ratio(in_samples, in_windows));
            let of_batch = |event: &HarnessEvent| event.numbers("q_ps")[3] / 1e3;
            of_batches.push(cost_ratio(of_batch(timed), of_batch(worker)));
        }
        let ratios = [median(&mut of_samples), median(&mut of_batches)];
        let good = ratios.iter().all(|ratio| (0.9..1.1).contains(ratio));
        ensure_holds(good, || format!("timed / continuous: {ratios:?}"))
    });
    harness.reuse(talk);
}

pub fn keeps_what_a_pure_runner_computes(harness: &CodeHarness) {
    let (empty, pure) = (harness.snippets.empty, harness.snippets.pure);
    let [mut of_empty, mut of_pure] = [empty, pure].map(|snippet| harness.with(snippet));
    for talk in [&mut of_empty, &mut of_pure] {
        talk.measure_windows("a", 20, 2);
    }
    let mut costs = [f64::INFINITY; 4];
    retry_busy(12, || {
        let (_, empty_ns) = cost_ns(of_empty.measure_windows("a", 10, 5).only("worker"));
        let (_, pure_ns) = cost_ns(of_pure.measure_windows("a", 10, 5).only("worker"));
        let [told, told_beside_pure] = [&mut of_empty, &mut of_pure].map(|talk| {
            let answer =
                talk.send_and_wait("calibrate", &[("job", "a"), ("target_ns", "20000000")]);
            answer.only("calibrated").number("empty_ps") / 1e3
        });
        update_minimum(&mut costs, [empty_ns, pure_ns, told, told_beside_pure]);
        let [empty_ns, pure_ns, told, told_beside_pure] = costs;
        let good = pure_ns > empty_ns * 1.2
            && (0.6..1.7).contains(&(told / empty_ns))
            && told_beside_pure < pure_ns;
        ensure_holds(good, || format!("empty, pure, told, told beside pure: {costs:?} ns"))
    });
    for talk in [of_empty, of_pure] {
        harness.reuse(talk);
    }
}

pub fn has_windows_as_long_as_they_are(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.pure);
    retry_busy(5, || {
        let begin = Instant::now();
        let answer = talk.measure_windows("a", 30, 10);
        let seen_ns = begin.elapsed().as_nanos() as f64;
        let worker = answer.only("worker");
        let (times, counts) = (worker.numbers("t_ns"), worker.numbers("count"));
        assert_eq!((times.len(), counts.len()), (11, 11));
        assert_eq!((times[0], counts[0]), (0.0, 0.0), "the first point is the start");
        for points in [&times, &counts] {
            assert!(points.windows(2).all(|pair| pair[0] < pair[1]), "{points:?}");
        }
        let end = answer.only("end");
        let late = max_late_ns(&times, 30e6);
        assert_eq!(end.number("max_late_ns"), late, "{times:?}");
        let told_ns = end.number("elapsed_ns");
        assert!(times[10] <= told_ns);
        // On a busy machine the response takes a few ms, and the clock of Erlang is slewed now and
        // then; wrong units would be off by far more.
        ensure_holds((seen_ns - 20e6..1.0001 * seen_ns).contains(&told_ns), || {
            format!("{told_ns} ns, seen {seen_ns} ns")
        })
    });
    harness.reuse(talk);
}

/// Maximum lateness of points on a grid, each against the first deadline after the previous point.
fn max_late_ns(times: &[f64], interval_ns: f64) -> f64 {
    let late = times.windows(2).map(|pair| {
        let deadline = ((pair[0] / interval_ns).floor() + 1.0) * interval_ns;
        pair[1] - deadline
    });
    late.fold(0.0, f64::max)
}

/// Six pairs of adjacent runs, without and with load; compares the median of their ratios, because
/// a shared processor changes its speed for seconds, by far more than 5 %. A harness whose batches
/// include the load is off in every pair: a third of the time is not the worker's.
pub fn is_not_moved_by_load_beside_it(harness: &CodeHarness) {
    let mut talk = harness.with(harness.snippets.pure);
    talk.measure_windows("a", 50, 2);
    retry_busy(5, || {
        let mut batch_median =
            || talk.measure_windows("a", 15, 3).only("worker").numbers("q_ps")[3];
        let mut ratios = Vec::new();
        for pair in 0..6 {
            // Alternate the order, so that a processor that speeds up or slows down favors neither.
            let (quiet, loaded) = if pair % 2 == 0 {
                let quiet = batch_median();
                (quiet, beside_load(&mut batch_median))
            } else {
                let loaded = beside_load(&mut batch_median);
                (batch_median(), loaded)
            };
            ratios.push(loaded / quiet);
        }
        ratios.sort_by(f64::total_cmp);
        let middle = (ratios[2] + ratios[3]) / 2.0;
        ensure_holds((middle - 1.0).abs() < 0.05, || format!("with load / without: {ratios:?}"))
    });
    harness.reuse(talk);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs something beside a busy loop on each processor.
fn beside_load<T>(act: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Otherwise a failing assertion would leave the loops spinning.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
