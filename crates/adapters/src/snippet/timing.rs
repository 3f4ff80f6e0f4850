//! Converts the reports of a snippet's workers to rates and times.
//!
//! Each worker ends its windows at the end of a batch, so no two workers end a window at the same
//! instant. If many workers share few processors, a worker may not be running when a window should
//! end, so the workers' windows differ in length and position. At the start of its first window and
//! at the end of each window, a worker records a point: the time, and its count of iterations. The
//! counters of all workers are interpolated linearly between these points, and evaluated at the
//! same instants ([`interpolate_windows`]). No iteration or time is lost or counted twice, and the
//! mean of the windows is the overall rate.

use crate::ProtocolMessage;
use speedwell_model::{BatchQuantiles, SampleDivision, SampleLength, SnippetTiming, TimingWindow};
use std::collections::BTreeSet;

/// Computes the timing of a run of `job` that was divided into samples according to `samples`;
/// `None` if the report of the run is missing or inconsistent.
pub(super) fn parse_timing<'a>(
    job: &str,
    events: impl Iterator<Item = &'a ProtocolMessage> + Clone,
    samples: &SampleDivision,
) -> Option<SnippetTiming> {
    let job_events = events.filter(|event| event.get("job").as_deref() == Some(job));
    let workers: Vec<&ProtocolMessage> =
        job_events.clone().filter(|e| e.verb == "worker").collect();
    let timed = job_events.clone().find(|event| event.verb == "timed");
    match timed {
        Some(timed) => parse_timed(timed),
        None if workers.is_empty() => None,
        None => parse_workers(&workers, samples),
    }
}

fn parse_timed(event: &ProtocolMessage) -> Option<SnippetTiming> {
    let numbers = |key| event.numbers::<u64>(key);
    let (times, counts) = (numbers("ns")?, numbers("loop")?);
    let workers: u32 = event.parse_number("workers").unwrap_or(1);
    let window = |(index, &elapsed_ns): (usize, &u64)| {
        let count = counts.get(index).or(counts.first())?;
        let iterations = *count as f64 * f64::from(workers);
        (elapsed_ns > 0 && iterations > 0.0).then(|| TimingWindow {
            per_s: iterations / elapsed_ns as f64 * 1e9,
            elapsed_ns: elapsed_ns as f64,
            iterations,
        })
    };
    let windows: Vec<TimingWindow> = times.iter().enumerate().map(window).collect::<Option<_>>()?;
    let cpu_times = numbers("cpu_ns").filter(|cpu_times| cpu_times.len() == windows.len());
    let totals = cpu_times.unwrap_or_default().into_iter().zip(&windows);
    let cpu_ns = totals.map(|(cpu_ns, window)| cpu_ns as f64 / window.iterations);
    let reference_ns = numbers("reference_ns").unwrap_or_default().into_iter();
    Some(SnippetTiming {
        workers,
        per_s: overall_rate(&windows),
        cpu_ns: cpu_ns.collect(),
        reference_ns: reference_ns.map(|ns| ns as f64).collect(),
        windows,
        batches: parse_batches(&[event]),
    })
}

fn parse_workers(events: &[&ProtocolMessage], samples: &SampleDivision) -> Option<SnippetTiming> {
    let points: Vec<Vec<(u64, u64)>> =
        events.iter().map(|event| parse_points(event)).collect::<Option<_>>()?;
    let windows = interpolate_windows(&points, samples);
    let cpu_times = events.iter().map(|event| event.parse_number::<u64>("cpu_ns"));
    let cpu_times: Option<u64> = cpu_times.sum();
    let counted = points.iter().filter_map(|points| Some(points.last()?.1 - points[0].1));
    let counts = counted.sum::<u64>() as f64;
    Some(SnippetTiming {
        workers: events.len() as u32,
        per_s: overall_rate(&windows),
        windows,
        batches: parse_batches(events),
        cpu_ns: cpu_times
            .filter(|_| counts > 0.0)
            .map(|total_ns| total_ns as f64 / counts)
            .into_iter()
            .collect(),
        reference_ns: Vec::new(),
    })
}

/// Iterations per second over all windows; `None` if nothing was completed.
fn overall_rate(windows: &[TimingWindow]) -> Option<f64> {
    let elapsed_ns: f64 = windows.iter().map(|window| window.elapsed_ns).sum();
    let iterations: f64 = windows.iter().map(|window| window.iterations).sum();
    (iterations > 0.0).then(|| iterations / elapsed_ns * 1e9)
}

/// Time and count at each point; times must increase, counts must not decrease.
fn parse_points(event: &ProtocolMessage) -> Option<Vec<(u64, u64)>> {
    let numbers = |key| event.numbers::<u64>(key);
    let (times, counts) = (numbers("t_ns")?, numbers("count")?);
    let points: Vec<(u64, u64)> = times.iter().copied().zip(counts.iter().copied()).collect();
    let grows = |pair: &[(u64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
    (times.len() == counts.len() && points.windows(2).all(grows)).then_some(points)
}

fn parse_batches(events: &[&ProtocolMessage]) -> Option<BatchQuantiles> {
    let mut sums = [0.0; 4];
    let mut worker_count = 0.0;
    let mut count = 0;
    for event in events {
        let quantiles = event.list("q_ps");
        let quantiles: Vec<f64> = quantiles.iter().filter_map(|q| q.parse().ok()).collect();
        let [_, _, _, _] = quantiles[..] else { continue };
        sums.iter_mut().zip(quantiles).for_each(|(sum, quantile)| *sum += quantile / 1000.0);
        worker_count += 1.0;
        count += event.parse_number::<u64>("batches").unwrap_or(0);
    }
    let [min_ns, p5_ns, p25_ns, median_ns] = sums.map(|sum| sum / worker_count);
    (worker_count > 0.0 && count > 0).then_some(BatchQuantiles {
        min_ns,
        p5_ns,
        p25_ns,
        median_ns,
        count,
    })
}

/// Counter of one worker: time and count at each point, ascending.
type CounterPoints = Vec<(u64, u64)>;

/// Returns the windows. Each window counts the iterations of all workers. There are no windows if
/// no worker has two points.
pub(super) fn interpolate_windows(
    workers: &[CounterPoints],
    samples: &SampleDivision,
) -> Vec<TimingWindow> {
    let moving: Vec<&CounterPoints> = workers.iter().filter(|points| points.len() > 1).collect();
    let Some((begin, end, count)) = window_range(&moving, samples) else { return Vec::new() };
    let length_ns = (end - begin) as f64 / count as f64;
    let bound = |index: usize| begin as f64 + length_ns * index as f64;
    let completed = |index: usize| -> f64 {
        moving.iter().map(|points| interpolate_count(points, bound(index))).sum()
    };
    let bounds: Vec<f64> = (0..=count).map(completed).collect();
    let window = |pair: &[f64]| TimingWindow {
        per_s: (pair[1] - pair[0]) / length_ns * 1e9,
        elapsed_ns: length_ns,
        iterations: pair[1] - pair[0],
    };
    bounds.windows(2).map(window).collect()
}

/// Start and end of the windows, and their number.
fn window_range(moving: &[&CounterPoints], samples: &SampleDivision) -> Option<(u64, u64, usize)> {
    let wanted = samples.count as usize;
    let complete: Vec<&CounterPoints> =
        moving.iter().copied().filter(|points| points.len() > wanted).collect();
    let is_incomplete = complete.is_empty();
    let used: &[&CounterPoints] = if is_incomplete { moving } else { &complete };
    let first_times = || used.iter().map(|points| points[0].0);
    let last_times = || used.iter().map(|points| points[points.len() - 1].0);
    let end = if is_incomplete {
        // The run was stopped before any worker had all points: the windows end at the median of
        // the workers' last points.
        let mut ends: Vec<u64> = last_times().collect();
        ends.sort_unstable();
        *ends.get(ends.len().checked_sub(1)? / 2)?
    } else {
        // The windows end when the first worker has all its points and stops recording.
        last_times().min()?
    };
    // The windows begin when all workers have begun. If a worker began only after `end`, the
    // windows begin with the first worker instead, and the late worker is counted from the start of
    // the run.
    let begin = first_times().max().filter(|begin| *begin < end).or_else(|| first_times().min())?;
    let count = if is_incomplete {
        wanted.min(intervals_seen(moving, begin, end, samples))
    } else {
        wanted
    };
    (begin < end).then_some((begin, end, count.max(1)))
}

/// Returns the number of intervals between `begin` and `end` in which at least one worker recorded
/// a point. With more windows than that, some would show rates that were never observed.
fn intervals_seen(
    moving: &[&CounterPoints],
    begin: u64,
    end: u64,
    samples: &SampleDivision,
) -> usize {
    let SampleLength::TimeNs(interval_ns) = samples.length else { return 1 };
    let times = moving.iter().flat_map(|points| points.iter().map(|point| point.0));
    let times_in_range = times.filter(|time_ns| *time_ns > begin && *time_ns <= end);
    let intervals: BTreeSet<u64> =
        times_in_range.map(|time_ns| (time_ns - begin) / interval_ns.max(1)).collect();
    intervals.len()
}

/// Returns the interpolated counter at `time_ns`. The counter was 0 at the start of the run. Work
/// after the last point is unknown and not counted.
fn interpolate_count(points: &CounterPoints, time_ns: f64) -> f64 {
    let next = points.partition_point(|point| (point.0 as f64) <= time_ns);
    let (from_ns, count_before) = next.checked_sub(1).map_or((0, 0), |last| points[last]);
    match points.get(next) {
        Some(&(to_ns, count_after)) => {
            let fraction = (time_ns - from_ns as f64) / (to_ns - from_ns) as f64;
            count_before as f64 + fraction * (count_after - count_before) as f64
        }
        None => count_before as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::SampleLength;

    fn events(lines: &[&str]) -> Vec<ProtocolMessage> {
        let parse = |line: &&str| ProtocolMessage::parse(line.as_bytes()).unwrap();
        lines.iter().map(parse).collect()
    }

    fn timing(lines: &[&str]) -> Option<SnippetTiming> {
        let samples = SampleDivision { count: 2, length: SampleLength::TimeNs(1000), warmup_ns: 0 };
        super::parse_timing("a", events(lines).iter(), &samples)
    }

    #[test]
    fn the_windows_of_several_workers_are_put_together() {
        let pair = [
            "worker\tjob=a\tw=0\tt_ns=0,1000,3000\tcount=0,10,30\tq_ps=90000,95000,99000,100000\tbatches=3",
            "worker\tjob=a\tw=1\tt_ns=0,2000,3000\tcount=0,10,20\tq_ps=90000,95000,99000,200000\tbatches=3",
            "worker\tjob=b\tw=0\tt_ns=0,1\tcount=0,1\tq_ps=1,1,1,1\tbatches=1",
        ];
        let timing = timing(&pair).unwrap();
        // In the first 1500 ns, one worker completed 15 iterations and the other one 7.5.
        let iterations: Vec<f64> = timing.windows.iter().map(|w| w.iterations).collect();
        assert_eq!(iterations, [22.5, 27.5]);
        assert_eq!(timing.windows[0].per_s, 15e6);
        assert_eq!(timing.batches.unwrap().median_ns, 150.0);
        // The workers completed 30 and 20 iterations in 3 us, together 16.7 million per second.
        assert!((timing.time_ns().unwrap() - 120.0).abs() < 0.01);
        assert!((timing.disturbance().unwrap() - 0.8).abs() < 0.001);
    }

    #[test]
    fn samples_of_a_fixed_number_of_iterations_become_windows() {
        let timed = ["timed\tjob=a\tns=2000,4000\tloop=100\tworkers=2\tq_ps=1,2,3,4\tbatches=9"];
        let timing = timing(&timed).unwrap();
        assert_eq!(timing.windows[0].per_s, 1e8);
        assert_eq!(timing.windows[1].iterations, 200.0);
        assert!(timing.cpu_ns.is_empty());
    }

    #[test]
    fn processor_time_is_divided_by_the_iterations_that_it_covers() {
        let timed = ["timed\tjob=a\tns=2000,4000\tloop=100\tworkers=2\tcpu_ns=3000,5000"];
        assert_eq!(timing(&timed).unwrap().cpu_ns, [15.0, 25.0]);
        let workers = [
            "worker\tjob=a\tw=0\tt_ns=5,1000,3000\tcount=4,10,34\tcpu_ns=900",
            "worker\tjob=a\tw=1\tt_ns=5,2000,3000\tcount=4,10,14\tcpu_ns=300",
        ];
        assert_eq!(timing(&workers).unwrap().cpu_ns, [30.0]);
        let one_is_silent = [workers[0], "worker\tjob=a\tw=1\tt_ns=5,9\tcount=4,9"];
        assert!(timing(&one_is_silent).unwrap().cpu_ns.is_empty());
    }

    #[test]
    fn a_run_that_was_stopped_early_keeps_the_windows_it_completed() {
        let timing = timing(&[
            "worker\tjob=a\tw=0\tt_ns=0,900\tcount=0,1\tq_ps=\tbatches=0",
            "worker\tjob=a\tw=1\tt_ns=0\tcount=0\tq_ps=\tbatches=0",
        ]);
        let timing = timing.unwrap();
        assert_eq!((timing.windows.len(), timing.batches), (1, None));
        assert_eq!(timing.workers, 2);
    }

    #[test]
    fn non_increasing_or_invalid_times_and_counts_give_no_timing() {
        assert_eq!(timing(&["worker\tjob=a\tt_ns=0,5,5\tcount=0,1,2"]), None);
        assert_eq!(timing(&["worker\tjob=a\tt_ns=0,5\tcount=3,2"]), None);
        assert_eq!(timing(&["worker\tjob=a\tt_ns=0,x\tcount=0,2"]), None);
        assert_eq!(timing(&["timed\tjob=a\tns=0\tloop=3"]), None);
        assert_eq!(timing(&["worker\tjob=b\tt_ns=0,5\tcount=0,2"]), None);
    }

    fn samples(count: u32, interval_ns: u64) -> SampleDivision {
        SampleDivision { count, length: SampleLength::TimeNs(interval_ns), warmup_ns: 0 }
    }

    fn sums(windows: &[TimingWindow]) -> (f64, f64) {
        let iterations = windows.iter().map(|window| window.iterations).sum();
        (iterations, windows.iter().map(|window| window.elapsed_ns).sum())
    }

    fn mean_rate(windows: &[TimingWindow]) -> f64 {
        windows.iter().map(|window| window.per_s).sum::<f64>() / windows.len() as f64
    }

    /// A worker that performs one iteration every 10 ns, but is seen only at these times.
    fn seen_at(times: &[u64]) -> CounterPoints {
        times.iter().map(|at| (*at, at / 10)).collect()
    }

    #[test]
    fn workers_missing_deadlines_still_give_all_windows_at_the_true_rate() {
        // 5 windows of 1000 ns. Each worker performs 0.1 iterations per ns; two are starved most of
        // the time.
        let workers = [
            seen_at(&[0, 1000, 2000, 3000, 4000, 5000]),
            seen_at(&[0, 2900, 3010, 6000, 6100, 9000]),
            seen_at(&[0, 4990, 5005]),
        ];
        let windows = interpolate_windows(&workers, &samples(5, 1000));
        assert_eq!(windows.len(), 5);
        assert_eq!(sums(&windows).1, 5000.0);
        assert!((sums(&windows).0 - 1500.0).abs() < 1.0, "{windows:?}");
        for window in &windows {
            assert!((window.per_s / 3e8 - 1.0).abs() < 0.01, "{window:?}");
        }
    }

    #[test]
    fn the_mean_of_the_windows_is_the_rate_of_the_whole() {
        // The worker stood still from 100 to 900, so one interval between its points is long and
        // the others are short.
        let points: CounterPoints = vec![(0, 0), (100, 100), (900, 100), (1000, 200), (1100, 300)];
        let windows = interpolate_windows(&[points], &samples(4, 100));
        let (iterations, elapsed_ns) = sums(&windows);
        assert_eq!((windows.len(), iterations, elapsed_ns), (4, 300.0, 1100.0));
        let whole = iterations / elapsed_ns * 1e9;
        assert!((mean_rate(&windows) / whole - 1.0).abs() < 1e-12);
    }

    #[test]
    fn windows_shorter_than_an_iteration_are_extended_to_its_length() {
        let points: CounterPoints = (0..=3).map(|at| (at * 700, at)).collect();
        let windows = interpolate_windows(&[points.clone(), points], &samples(3, 300));
        let lengths: Vec<f64> = windows.iter().map(|window| window.elapsed_ns).collect();
        assert_eq!(lengths, [700.0; 3]);
        assert!(windows.iter().all(|window| window.iterations == 2.0));
    }

    #[test]
    fn a_stopped_run_has_at_most_one_window_per_observed_interval() {
        // The worker completed two iterations of 700 ns, so there are two windows instead of
        // twenty.
        let slow = seen_at(&[0, 700, 1400]);
        assert_eq!(interpolate_windows(&[slow], &samples(20, 100)).len(), 2);
        // In each of four intervals, at least one of the three workers was seen, but no worker was
        // seen in all four.
        let workers = [seen_at(&[0, 150, 420]), seen_at(&[0, 210, 415]), seen_at(&[0, 305, 410])];
        assert_eq!(interpolate_windows(&workers, &samples(4, 100)).len(), 4);
    }

    #[test]
    fn a_worker_that_was_never_seen_again_adds_nothing_after_its_last_point() {
        let workers = [seen_at(&[0, 1000, 2000]), vec![(0, 0), (1000, 100)], vec![(0, 0)]];
        let windows = interpolate_windows(&workers, &samples(2, 1000));
        let iterations: Vec<f64> = windows.iter().map(|window| window.iterations).collect();
        assert_eq!(iterations, [200.0, 100.0]);
    }

    #[test]
    fn a_worker_that_begins_after_the_others_have_ended_removes_no_window() {
        let workers = [seen_at(&[0, 100, 200]), seen_at(&[300, 400, 500])];
        let windows = interpolate_windows(&workers, &samples(2, 100));
        assert_eq!(sums(&windows), (40.0, 200.0));
        assert!(super::interpolate_windows(&[vec![(5, 1)]], &samples(2, 100)).is_empty());
    }
}
