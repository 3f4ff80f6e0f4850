//! What the workers of one piece of code report, as figures.
//!
//! Workers end their windows when a batch ends, and never at the same instant; `timeline.rs` puts them on one grid.

use super::super::Message;
use super::timeline;
use speedwell_model::{Batches, Measured, Samples, Window};

/// The report on `job`, which was to be measured in these samples; `None` if nothing is, or nonsense.
pub(super) fn measured<'a>(
    job: &str,
    events: impl Iterator<Item = &'a Message> + Clone,
    samples: &Samples,
) -> Option<Measured> {
    let own = events.filter(|event| event.get("job").as_deref() == Some(job));
    let workers: Vec<&Message> = own.clone().filter(|e| e.verb == "worker").collect();
    let timed = own.clone().find(|event| event.verb == "timed");
    match timed {
        Some(timed) => of_timed(timed),
        None if workers.is_empty() => None,
        None => of_workers(&workers, samples),
    }
}

fn of_timed(event: &Message) -> Option<Measured> {
    let numbers = |key| -> Option<Vec<u64>> {
        let texts = event.list(key);
        texts.iter().map(|text| text.parse().ok()).collect()
    };
    let (times, counts) = (numbers("ns")?, numbers("loop")?);
    let workers: u32 = event.number("workers").unwrap_or(1);
    let window = |(at, &elapsed_ns): (usize, &u64)| {
        let count = counts.get(at).or(counts.first())?;
        let iterations = *count as f64 * f64::from(workers);
        (elapsed_ns > 0 && iterations > 0.0).then(|| Window {
            per_s: iterations / elapsed_ns as f64 * 1e9,
            elapsed_ns: elapsed_ns as f64,
            iterations,
        })
    };
    let windows: Option<Vec<Window>> = times.iter().enumerate().map(window).collect();
    let windows = windows?;
    Some(Measured {
        workers,
        per_s: rate(&windows),
        windows,
        batches: batches(&[event]),
    })
}

fn of_workers(events: &[&Message], samples: &Samples) -> Option<Measured> {
    let points: Option<Vec<Vec<(u64, u64)>>> = events.iter().map(|event| points(event)).collect();
    let windows = timeline::windows(&points?, samples);
    Some(Measured {
        workers: events.len() as u32,
        per_s: rate(&windows),
        windows,
        batches: batches(events),
    })
}

/// Iterations per second over windows together; `None` if nothing was completed.
fn rate(windows: &[Window]) -> Option<f64> {
    let elapsed_ns: f64 = windows.iter().map(|window| window.elapsed_ns).sum();
    let iterations: f64 = windows.iter().map(|window| window.iterations).sum();
    (iterations > 0.0).then(|| iterations / elapsed_ns * 1e9)
}

/// Time and count at each deadline, both of which can only grow.
fn points(event: &Message) -> Option<Vec<(u64, u64)>> {
    let numbers = |key| -> Option<Vec<u64>> {
        let texts = event.list(key);
        texts.iter().map(|text| text.parse().ok()).collect()
    };
    let (times, counts) = (numbers("t_ns")?, numbers("count")?);
    let points: Vec<(u64, u64)> = times.iter().copied().zip(counts.iter().copied()).collect();
    let grows = |two: &[(u64, u64)]| two[0].0 < two[1].0 && two[0].1 <= two[1].1;
    (times.len() == counts.len() && points.windows(2).all(grows)).then_some(points)
}

fn batches(events: &[&Message]) -> Option<Batches> {
    let mut sums = [0.0; 4];
    let mut told = 0.0;
    let mut count = 0;
    for event in events {
        let quantiles = event.list("q_ps");
        let quantiles: Vec<f64> = quantiles.iter().filter_map(|q| q.parse().ok()).collect();
        let [_, _, _, _] = quantiles[..] else {
            continue;
        };
        for (sum, quantile) in sums.iter_mut().zip(quantiles) {
            *sum += quantile / 1000.0;
        }
        told += 1.0;
        count += event.number::<u64>("batches").unwrap_or(0);
    }
    let [min_ns, p5_ns, p25_ns, median_ns] = sums.map(|sum| sum / told);
    (told > 0.0 && count > 0).then_some(Batches {
        min_ns,
        p5_ns,
        p25_ns,
        median_ns,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::Length;

    fn events(lines: &[&str]) -> Vec<Message> {
        let parse = |line: &&str| Message::parse(line.as_bytes()).unwrap();
        lines.iter().map(parse).collect()
    }

    fn measured(lines: &[&str]) -> Option<Measured> {
        let samples = Samples {
            count: 2,
            length: Length::TimeNs(1000),
            warmup_ns: 0,
        };
        super::measured("a", events(lines).iter(), &samples)
    }

    #[test]
    fn the_windows_of_several_workers_are_put_together() {
        let two = [
            "worker\tjob=a\tw=0\tt_ns=0,1000,3000\tcount=0,10,30\tq_ps=90000,95000,99000,100000\tbatches=3",
            "worker\tjob=a\tw=1\tt_ns=0,2000,3000\tcount=0,10,20\tq_ps=90000,95000,99000,200000\tbatches=3",
            "worker\tjob=b\tw=0\tt_ns=0,1\tcount=0,1\tq_ps=1,1,1,1\tbatches=1",
        ];
        let measured = measured(&two).unwrap();
        // In the first 1500 ns 15 of one and 7.5 of the other.
        let iterations: Vec<f64> = measured.windows.iter().map(|w| w.iterations).collect();
        assert_eq!(iterations, [22.5, 27.5]);
        assert_eq!(measured.windows[0].per_s, 15e6);
        assert_eq!(measured.batches.unwrap().median_ns, 150.0);
        // Thirty and twenty iterations in 3 us: 16.7 million per second together.
        assert!((measured.time_ns().unwrap() - 120.0).abs() < 0.01);
        assert!((measured.disturbance().unwrap() - 0.8).abs() < 0.001);
    }

    #[test]
    fn fixed_numbers_of_iterations_are_windows_too() {
        let timed = ["timed\tjob=a\tns=2000,4000\tloop=100\tworkers=2\tq_ps=1,2,3,4\tbatches=9"];
        let measured = measured(&timed).unwrap();
        assert_eq!(measured.windows[0].per_s, 1e8);
        assert_eq!(measured.windows[1].iterations, 200.0);
    }

    #[test]
    fn a_run_that_was_stopped_early_has_the_windows_it_has() {
        let measured = measured(&[
            "worker\tjob=a\tw=0\tt_ns=0,900\tcount=0,1\tq_ps=\tbatches=0",
            "worker\tjob=a\tw=1\tt_ns=0\tcount=0\tq_ps=\tbatches=0",
        ]);
        let measured = measured.unwrap();
        assert_eq!((measured.windows.len(), measured.batches), (1, None));
        assert_eq!(measured.workers, 2);
    }

    #[test]
    fn times_and_counts_that_go_back_are_no_figures() {
        assert_eq!(measured(&["worker\tjob=a\tt_ns=0,5,5\tcount=0,1,2"]), None);
        assert_eq!(measured(&["worker\tjob=a\tt_ns=0,5\tcount=3,2"]), None);
        assert_eq!(measured(&["worker\tjob=a\tt_ns=0,x\tcount=0,2"]), None);
        assert_eq!(measured(&["timed\tjob=a\tns=0\tloop=3"]), None);
        assert_eq!(measured(&["worker\tjob=b\tt_ns=0,5\tcount=0,2"]), None);
    }
}
