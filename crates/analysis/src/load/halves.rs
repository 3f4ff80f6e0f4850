//! Whether a load went on as it began.
//!
//! A server that warms up, fills a cache, leaks or throttles gives one figure in the first half and
//! another in the second; the figure for the whole is then of neither. This is a hint, no test: the
//! intervals of one load depend on each other.

use speedwell_load::measured::{Measured, Tick};

/// Intervals that each half must have, so that a single pause does not look like a course.
const FEWEST: usize = 10;

/// Halves that differ by less than this share count as alike.
const ALIKE: f64 = 0.05;

/// And by so many standard errors of their difference. Three instead of the usual two, because
/// intervals that follow each other are more alike than independent ones.
const ERRORS: f64 = 3.0;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Good answers per second.
    Throughput,
    /// The median of the service time, in nanoseconds.
    Median,
}

/// Two halves that differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Halves {
    /// What was compared.
    pub course: Course,
    /// Its mean over the first half.
    pub first: f64,
    /// Its mean over the second half.
    pub second: f64,
}

/// The halves of a load, if they differ. Of an open load the throughput is given by its schedule, so
/// the median is compared; with a schedule that changes nothing is.
pub(super) fn halves(measured: &Measured, course: Course) -> Option<Halves> {
    let interval_ns = measured.timeline.interval_ns;
    let per_second = 1e9 / interval_ns as f64;
    let value = |tick: &Tick| match course {
        Course::Throughput => Some(tick.ok as f64 * per_second),
        Course::Median => tick.p50_ns.map(|ns| ns as f64),
    };
    let values: Vec<f64> = whole_ticks(measured).iter().filter_map(value).collect();
    let (first, second) = values.split_at(values.len() / 2);
    if first.len() < FEWEST {
        return None;
    }
    let ((mean, error), (later, later_error)) = (moments(first), moments(second));
    let difference = (later - mean).abs();
    let differs = difference > ALIKE * mean && difference > ERRORS * error.hypot(later_error);
    differs.then_some(Halves {
        course,
        first: mean,
        second: later,
    })
}

/// The intervals after the warm-up that were over when the load ended.
fn whole_ticks(measured: &Measured) -> &[Tick] {
    let timeline = &measured.timeline;
    let whole = measured.elapsed_ns.checked_div(timeline.interval_ns);
    let ticks = timeline.ticks.get(timeline.warmup..).unwrap_or_default();
    &ticks[..ticks.len().min(whole.unwrap_or(0) as usize)]
}

/// Mean and standard error of the mean.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
