//! Loads of several levels of concurrency: which of them belong together, what each level showed beside its
//! throughput, and which level is loaded next. Start at [`levels`].

use super::findings::LoadFindings;
use crate::scaling::{self, Level, Next, Rules, Scaling};
use speedwell_load::measured::Measured;
use speedwell_model::load_run::LoadRun;

/// At a level with more failures than this share the server no longer does the work that is counted.
const MOST_FAILED: f64 = 0.01;

/// Where every level was loaded only once, its course is cut into so many windows.
const WINDOWS: usize = 5;

/// Loads of one address at several levels.
#[derive(Debug, Clone)]
pub struct Levels {
    /// What was loaded.
    pub label: String,
    /// The levels in ascending order, spoilt ones too.
    pub passes: Vec<Pass>,
    /// What they show together; `None` if no level counts.
    pub scaling: Option<Scaling>,
    /// Levels were loaded once each, and their windows stand for visits.
    pub is_windowed: bool,
}

/// All visits of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Requests in flight, as asked for.
    pub concurrency: u32,
    /// Loads of this level.
    pub visits: usize,
    /// Good answers per second, mean of the visits.
    pub throughput_per_s: f64,
    /// Median of the visits' medians and 99th percentiles of service time, in nanoseconds.
    pub p50_ns: Option<f64>,
    /// See [`Pass::p50_ns`].
    pub p99_ns: Option<f64>,
    /// Requests in flight on average.
    pub effective: Option<f64>,
    /// Requests that failed, and all.
    pub failed: (u64, u64),
    /// Share of the time that the busiest thread of the generator was busy.
    pub busiest: f64,
    /// Threads of the generator were so busy that they may be what was measured.
    pub is_generator_bound: bool,
    /// So many requests failed that the level does not count, and the search ended below it.
    pub is_spoilt: bool,
}

/// The loads that were carried out at several levels of concurrency, address by address.
pub fn levels(loads: &[LoadFindings<'_>]) -> Vec<Levels> {
    let mut labels: Vec<&str> = Vec::new();
    for load in loads {
        if !labels.contains(&load.run.label.as_str()) {
            labels.push(&load.run.label);
        }
    }
    let of_label = |label: &&str| {
        let counted = |load: &&LoadFindings<'_>| load.run.label == *label && is_whole(load.run);
        let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(counted).collect();
        let numbers = numbers(loads.iter().map(|load| load.run));
        if numbers.len() < 2 {
            return None;
        }
        let runs: Vec<&LoadRun> = loads.iter().map(|load| load.run).collect();
        let levels = throughputs(&runs);
        Some(Levels {
            label: (*label).to_owned(),
            passes: numbers.iter().map(|number| pass(*number, &loads)).collect(),
            scaling: scaling::scaling(&levels),
            is_windowed: runs.len() == numbers.len(),
        })
    };
    labels.iter().filter_map(of_label).collect()
}

/// Which level of an address is loaded next.
pub fn next(runs: &[&LoadRun], rules: &Rules) -> Next {
    scaling::next(&throughputs(runs), rules)
}

/// A load that was ended early says nothing of its level.
fn is_whole(run: &LoadRun) -> bool {
    !run.is_partial && !run.measured.is_interrupted
}

fn numbers<'a>(runs: impl Iterator<Item = &'a LoadRun>) -> Vec<u32> {
    let mut numbers: Vec<u32> = runs.filter_map(|run| run.asked.concurrency()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn throughputs(runs: &[&LoadRun]) -> Vec<Level> {
    let whole: Vec<&LoadRun> = runs.iter().copied().filter(|run| is_whole(run)).collect();
    let numbers = numbers(whole.iter().copied());
    let is_windowed = whole.len() == numbers.len();
    let level = |number: &u32| {
        let of_level = whole
            .iter()
            .filter(|run| run.asked.concurrency() == Some(*number));
        let mut level = Level {
            concurrency: *number,
            ..Level::default()
        };
        for run in of_level {
            level.is_spoilt |= is_spoilt(&run.measured);
            if is_windowed {
                level.throughputs.extend(windows(&run.measured))
            } else {
                level.throughputs.extend(run.measured.throughput())
            }
        }
        level
    };
    numbers.iter().map(level).collect()
}

fn is_spoilt(measured: &Measured) -> bool {
    let counts = &measured.totals.outcomes;
    counts.all_errors() as f64 > MOST_FAILED * counts.attempts() as f64
}

/// Good answers per second in windows of equal length after the warm-up; the whole where it is too short.
fn windows(measured: &Measured) -> Vec<f64> {
    let timeline = &measured.timeline;
    let ticks = timeline.ticks.get(timeline.warmup..).unwrap_or_default();
    let whole = measured
        .elapsed_ns
        .checked_div(timeline.interval_ns)
        .unwrap_or(0);
    let ticks = &ticks[..ticks.len().min(whole as usize)];
    let length = ticks.len() / WINDOWS;
    if length == 0 {
        return measured.throughput().into_iter().collect();
    }
    let seconds = length as f64 * timeline.interval_ns as f64 / 1e9;
    let windows = ticks.chunks_exact(length).take(WINDOWS);
    windows
        .map(|window| window.iter().map(|tick| tick.ok).sum::<u64>() as f64 / seconds)
        .collect()
}

fn pass(concurrency: u32, loads: &[&LoadFindings<'_>]) -> Pass {
    let of_level = |load: &&&LoadFindings<'_>| load.run.asked.concurrency() == Some(concurrency);
    let loads: Vec<&LoadFindings<'_>> = loads.iter().filter(of_level).copied().collect();
    let mean = |of: &dyn Fn(&LoadFindings<'_>) -> Option<f64>| {
        let values: Vec<f64> = loads.iter().filter_map(|load| of(load)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let counts = loads.iter().map(|load| &load.run.measured.totals.outcomes);
    let failed = counts.fold((0, 0), |(failed, all), counts| {
        (failed + counts.all_errors(), all + counts.attempts())
    });
    let busiest = loads.iter().map(|load| load.generator.busiest);
    let bound = |load: &&&LoadFindings<'_>| load.generator.bottlenecks > 0;
    Pass {
        concurrency,
        visits: loads.len(),
        throughput_per_s: mean(&|load| load.throughput_per_s).unwrap_or(0.0),
        p50_ns: median_time(&loads, 500_000),
        p99_ns: median_time(&loads, 990_000),
        effective: mean(&|load| load.concurrency.effective),
        failed,
        busiest: busiest.fold(0.0, f64::max),
        is_generator_bound: 2 * loads.iter().filter(bound).count() > loads.len(),
        is_spoilt: loads.iter().any(|load| is_spoilt(&load.run.measured)),
    }
}

/// The median over visits of a quantile in millionths.
fn median_time(loads: &[&LoadFindings<'_>], ppm: u32) -> Option<f64> {
    let time = |load: &&LoadFindings<'_>| {
        let (quantity, group) = load.principal();
        let told = load.quantile(quantity, group, ppm)?;
        told.longest_ns().map(|ns| ns as f64)
    };
    let times: Vec<f64> = loads.iter().filter_map(time).collect();
    (!times.is_empty()).then(|| speedwell_stats::describe::median(&times))
}
