//! Charts of loads: figures over time, percentiles on an axis of nines, histograms of times.

use crate::charts::point_series;
use crate::document::Chart;
use crate::load::words::load_name;
use speedwell_analysis::load::{Group, LoadFindings, Quantity, Served};
use speedwell_load::measured::{Tick, Timeline};
use speedwell_plot as plot;

const NS_PER_MS: f64 = 1e6;

/// Most distinguishable points on a line; beyond it, neighbors are merged.
const MOST_POINTS: usize = 240;

/// Most distinguishable lines in one chart.
const MOST_LINES: usize = 8;

/// Draws the charts of loads: one load in detail, several side by side.
pub fn charts(loads: &[LoadFindings<'_>]) -> Vec<Chart> {
    let loads = &loads[..loads.len().min(MOST_LINES)];
    let all = [
        throughput(loads),
        latency(loads),
        percentiles(loads),
        frequencies(loads),
    ];
    all.into_iter().flatten().collect()
}

fn lines(
    title: &str,
    subtitle: String,
    (x, y): (plot::Axis, plot::Axis),
    series: Vec<plot::PointSeries>,
) -> Option<Chart> {
    let series: Vec<plot::PointSeries> = series
        .into_iter()
        .filter(|series| !series.points.is_empty())
        .collect();
    let is_drawn = !series.is_empty();
    is_drawn.then(|| {
        let picture = plot::Chart::Line(plot::LineChart {
            title: title.to_owned(),
            subtitle: Some(subtitle).filter(|text| !text.is_empty()),
            x,
            y,
            series,
            observations: Vec::new(),
            curves: 0,
        });
        Chart::new(title, picture)
    })
}

/// A stretch of the timeline: its middle in seconds after the warm-up, and its figures.
struct Interval {
    at_s: f64,
    seconds: f64,
    is_warmup: bool,
    tick: Tick,
}

/// The timeline in at most [`MOST_POINTS`] stretches. Merged intervals add their counts and keep
/// the maximum of each time. Omits the last interval if the end of the load cut it short.
fn course(load: &LoadFindings<'_>) -> Vec<Interval> {
    let measured = &load.run.measured;
    let Timeline {
        interval_ns,
        warmup,
        ticks,
    } = &measured.timeline;
    if *interval_ns == 0 {
        return Vec::new();
    }
    let whole = warmup + (measured.elapsed_ns / interval_ns) as usize;
    let (before, after) =
        ticks[..whole.min(ticks.len())].split_at((*warmup).min(ticks.len().min(whole)));
    let at_once = ticks.len().div_ceil(MOST_POINTS).max(1);
    let interval_s = *interval_ns as f64 / 1e9;
    let intervals = |ticks: &[Tick], is_warmup: bool, begin: f64| -> Vec<Interval> {
        let interval = |(at, ticks): (usize, &[Tick])| Interval {
            at_s: (begin + (at * at_once) as f64 + ticks.len() as f64 / 2.0) * interval_s,
            seconds: ticks.len() as f64 * interval_s,
            is_warmup,
            tick: together(ticks),
        };
        ticks.chunks(at_once).enumerate().map(interval).collect()
    };
    let mut all = intervals(before, true, -(before.len() as f64));
    all.extend(intervals(after, false, 0.0));
    if let Some(first) = all.first_mut() {
        first.seconds -= unanswered_s(&first.tick).min(first.seconds / 2.0);
    }
    all
}

/// The time until the first response of a load could arrive, in seconds. Every later interval has
/// responses to requests of the one before it.
fn unanswered_s(first: &Tick) -> f64 {
    first.p50_ns.unwrap_or(0) as f64 / 1e9
}

/// The horizontal axis of a timeline.
fn seconds_axis(loads: &[LoadFindings<'_>]) -> plot::Axis {
    let has_warmup = |load: &LoadFindings<'_>| load.run.measured.timeline.warmup > 0;
    plot::Axis::linear(if loads.iter().any(has_warmup) {
        "seconds after the warm-up"
    } else {
        "seconds after the start"
    })
}

fn together(ticks: &[Tick]) -> Tick {
    let most = |of: fn(&Tick) -> Option<u64>| ticks.iter().filter_map(of).max();
    Tick {
        ok: ticks.iter().map(|tick| tick.ok).sum(),
        errors: ticks.iter().map(|tick| tick.errors).sum(),
        p50_ns: most(|tick| tick.p50_ns),
        p99_ns: most(|tick| tick.p99_ns),
        most_ns: most(|tick| tick.most_ns),
    }
}

/// The subtitle of a chart with merged intervals.
fn grouped(loads: &[LoadFindings<'_>]) -> String {
    let ticks = loads
        .iter()
        .map(|load| load.run.measured.timeline.ticks.len());
    match ticks.max().unwrap_or(0).div_ceil(MOST_POINTS) {
        0 | 1 => String::new(),
        several => format!("{several} intervals to a point; of their times the greatest"),
    }
}

fn series(
    name: impl Into<String>,
    course: &[Interval],
    point: impl Fn(&Interval) -> Option<f64>,
) -> plot::PointSeries {
    let points = course
        .iter()
        .filter_map(|interval| Some(plot::Point::new(interval.at_s, point(interval)?)));
    point_series(name, points)
}

fn throughput(loads: &[LoadFindings<'_>]) -> Option<Chart> {
    let ok = |interval: &Interval| interval.tick.ok as f64 / interval.seconds;
    let measured = |interval: &Interval| (!interval.is_warmup).then(|| ok(interval));
    let all = match loads {
        [load] => {
            let course = course(load);
            let has_errors = course.iter().any(|interval| interval.tick.errors > 0);
            let failed = |interval: &Interval| interval.tick.errors as f64 / interval.seconds;
            vec![
                series("good answers", &course, measured),
                series("failed", &course, |of| has_errors.then(|| failed(of))),
                series("good answers of the warm-up", &course, |of| {
                    of.is_warmup.then(|| ok(of))
                }),
            ]
        }
        _ => loads
            .iter()
            .map(|load| series(load_name(load), &course(load), measured))
            .collect(),
    };
    let axes = (
        seconds_axis(loads),
        plot::Axis::linear("requests per second"),
    );
    lines("Throughput over time", grouped(loads), axes, all)
}

fn latency(loads: &[LoadFindings<'_>]) -> Option<Chart> {
    let shown = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS);
    // Service times that are withheld elsewhere are not drawn either.
    let shown_loads = loads.iter().filter(|load| {
        let service = load.spread(Quantity::Service, Group::Ok);
        service.is_none_or(|spread| spread.refusal.is_none())
    });
    let shown_loads: Vec<&LoadFindings<'_>> = shown_loads.collect();
    let all = match &shown_loads[..] {
        [load] if loads.len() == 1 => {
            let course = course(load);
            vec![
                series("p50", &course, |of| shown(of.tick.p50_ns)),
                series("p99", &course, |of| shown(of.tick.p99_ns)),
                series("max", &course, |of| shown(of.tick.most_ns)),
            ]
        }
        _ => shown_loads
            .iter()
            .map(|load| {
                let name = format!("{}, p99", load_name(load));
                series(name, &course(load), |of| shown(of.tick.p99_ns))
            })
            .collect(),
    };
    let axes = (
        seconds_axis(loads),
        plot::Axis::log10("service time of good answers, ms"),
    );
    lines("Service time over time", grouped(loads), axes, all)
}

fn percentiles(loads: &[LoadFindings<'_>]) -> Option<Chart> {
    let line = |name: String, served: &Served| {
        point_series(
            name,
            served
                .curve
                .iter()
                .map(|(percent, ns)| plot::Point::new(*percent, *ns as f64 / NS_PER_MS)),
        )
    };
    let all = match loads {
        [load] => {
            let requests = load.served.iter();
            // The first byte usually arrives with the last one, so its line would hide the other.
            let hidden = [Quantity::Connect, Quantity::FirstByte];
            let requests = requests.filter(|of| !hidden.contains(&of.quantity));
            requests.map(|of| line(name_of(of), of)).collect()
        }
        _ => loads
            .iter()
            .filter_map(|load| {
                let principal = load.served.first()?;
                let name = format!("{}, {}", load_name(load), principal.quantity.name());
                Some(line(name, principal))
            })
            .collect(),
    };
    let axes = (
        plot::Axis::nines("percentage of the requests"),
        plot::Axis::log10("within this time, ms"),
    );
    lines("Percentage served", String::new(), axes, all)
}

fn name_of(served: &Served) -> String {
    format!("{}, {}", served.quantity.name(), served.group.name())
}

fn frequencies(loads: &[LoadFindings<'_>]) -> Option<Chart> {
    let series = |load: &LoadFindings<'_>| {
        let bins = load.bins();
        let middle = |from: u64, to: u64| (from as f64 + to as f64) / 2.0 / NS_PER_MS;
        plot::HistogramSeries {
            name: load_name(load),
            values: bins
                .iter()
                .map(|bin| middle(bin.from_ns, bin.to_ns))
                .collect(),
            counts: bins.iter().map(|bin| bin.count).collect(),
        }
    };
    let series: Vec<_> = loads
        .iter()
        .map(series)
        .filter(|series| !series.values.is_empty())
        .collect();
    let quantity = loads.first()?.principal().0;
    let is_same = loads.iter().all(|load| load.principal().0 == quantity);
    if series.is_empty() || !is_same {
        return None;
    }
    let title = format!("How often {} times occurred", quantity.name());
    let picture = plot::Chart::Histogram(plot::HistogramChart {
        title: title.clone(),
        subtitle: None,
        x: plot::Axis::log10(format!("{} time, ms", quantity.name())),
        series,
    });
    Some(Chart::new(title, picture))
}
