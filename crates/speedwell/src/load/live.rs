//! Shows a load test live, in one line on stderr.

use crate::progress::format_clock;
use crate::status_line::{clear_line, draw_line};
use speedwell_engine::execution::load::LoadSnapshot;
use speedwell_load::pace::StopCondition;
use speedwell_report::{Uncertainty, format_quantity};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Redraw interval, short enough to show stalls, and long enough not to disturb the server.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Number of throughput samples in the sparkline.
const SPARKLINE_LENGTH: usize = 24;

/// Heights of the sparkline, lowest first.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The status line of a load; dropping it clears the line.
#[derive(Debug)]
pub struct LiveView {
    is_visible: bool,
    stop: StopCondition,
    last_drawn_at: Option<Instant>,
    totals: SnapshotTotals,
    curve: VecDeque<f64>,
}

/// Totals since the line was last drawn.
#[derive(Debug, Default)]
struct SnapshotTotals {
    ok: u64,
    ns: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl LiveView {
    /// Creates a line for a load with this stop condition, shown only if `is_visible`.
    pub fn new(is_visible: bool, stop: StopCondition) -> LiveView {
        LiveView {
            is_visible,
            stop,
            last_drawn_at: None,
            totals: SnapshotTotals::default(),
            curve: VecDeque::new(),
        }
    }

    /// Adds a snapshot, and redraws if the interval has passed.
    pub fn show_snapshot(&mut self, snapshot: &LoadSnapshot) {
        if !self.is_visible {
            return;
        }
        self.totals.add(snapshot);
        if self.last_drawn_at.is_some_and(|last_drawn_at| last_drawn_at.elapsed() < REDRAW_INTERVAL)
        {
            return;
        }
        self.last_drawn_at = Some(Instant::now());
        let totals = std::mem::take(&mut self.totals);
        self.curve.push_back(totals.throughput());
        if self.curve.len() > SPARKLINE_LENGTH {
            self.curve.pop_front();
        }
        let line = status_text(snapshot, &totals, &self.curve, &self.stop);
        draw_line(&line);
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        if self.last_drawn_at.is_some() {
            clear_line();
        }
    }
}

impl SnapshotTotals {
    fn add(&mut self, snapshot: &LoadSnapshot) {
        self.ok += snapshot.tick.ok;
        self.ns += snapshot.interval_ns;
        // Percentiles of several intervals cannot be merged, so show the last median and the
        // largest 99th percentile.
        self.p50_ns = snapshot.tick.p50_ns.or(self.p50_ns);
        self.p99_ns = snapshot.tick.p99_ns.max(self.p99_ns);
    }

    fn throughput(&self) -> f64 {
        match self.ns {
            0 => 0.0,
            ns => self.ok as f64 / (ns as f64 / 1e9),
        }
    }
}

fn status_text(
    snapshot: &LoadSnapshot,
    totals: &SnapshotTotals,
    curve: &VecDeque<f64>,
    stop: &StopCondition,
) -> String {
    let quantity = |value: f64, unit: &str| format_quantity(value, unit, Uncertainty::Unknown);
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| quantity(ns as f64, "ns"));
    let phase =
        if snapshot.is_warmup { "warm-up".to_owned() } else { progress_text(snapshot, stop) };
    let elapsed = format_clock(Duration::from_nanos(snapshot.at_ns));
    format!(
        "[{elapsed}|{phase}] {}  p50 {}  p99 {}  {} errors  {}",
        quantity(totals.throughput(), "1/s"),
        time(totals.p50_ns),
        time(totals.p99_ns),
        snapshot.errors,
        draw_sparkline(curve)
    )
}

/// Formats how much of the load is done, by the stop condition that will be met first.
fn progress_text(snapshot: &LoadSnapshot, stop: &StopCondition) -> String {
    let by_time = stop.after_ns.map(|end_ns| snapshot.at_ns as f64 / end_ns as f64);
    let by_count = stop.after_requests.map(|count| snapshot.attempted as f64 / count as f64);
    match by_time.into_iter().chain(by_count).reduce(f64::max) {
        Some(fraction) => format!("{:>3.0} %", 100.0 * fraction.min(1.0)),
        None => format!("{} requests", snapshot.attempted),
    }
}

/// Draws values as a sparkline from zero to the maximum.
fn draw_sparkline(values: &VecDeque<f64>) -> String {
    let maximum = values.iter().copied().fold(0.0, f64::max);
    let height = |value: &f64| {
        if maximum > 0.0 {
            HEIGHTS[((value / maximum) * (HEIGHTS.len() - 1) as f64).round() as usize]
        } else {
            HEIGHTS[0]
        }
    };
    values.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::load::measurement::TimelineTick;

    #[test]
    fn the_status_line_shows_throughput_latency_errors_and_progress() {
        let snapshot = LoadSnapshot {
            at_ns: 2_500_000_000,
            attempted: 25_000,
            errors: 3,
            interval_ns: 100_000_000,
            tick: TimelineTick {
                ok: 1000,
                p50_ns: Some(500_000),
                p99_ns: Some(2_000_000),
                ..TimelineTick::default()
            },
            ..LoadSnapshot::default()
        };
        let stop = StopCondition { after_requests: None, after_ns: Some(10_000_000_000) };
        let mut totals = SnapshotTotals::default();
        totals.add(&snapshot);
        totals.add(&snapshot);
        let curve = VecDeque::from([0.0, 5_000.0, 10_000.0]);
        assert_eq!(
            status_text(&snapshot, &totals, &curve, &stop),
            "[0:03| 25 %] 10.0 k/s  p50 500 µs  p99 2.00 ms  3 errors  ▁▅█"
        );
    }
}
