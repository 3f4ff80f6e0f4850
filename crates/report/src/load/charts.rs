//! Draws charts of loads: throughput and times over the course of a load, percentiles, and
//! histograms of times. On the axis of percentiles, each further nine (90%, 99%, 99.9%) has the
//! same width.

use crate::charts::{NS_PER_MS, point_series};
use crate::document::ReportChart;
use crate::load::tables::{HIDDEN_QUANTITIES, load_name};
use speedwell_analysis::load::{LoadFindings, QuantityFindings, RequestGroup, TimedQuantity};
use speedwell_model::load::measurement::{LoadTimeline, TimelineTick};
use speedwell_plot as plot;

/// Maximum number of points that can be distinguished on a line. If there are more points,
/// neighbors are merged.
const MAX_POINTS: usize = 240;

/// Maximum number of lines that can be distinguished in one chart.
const MAX_LINES: usize = 8;

/// Draws the charts of loads. A single load is drawn in detail. Several loads are compared, with
/// one line per load, up to [`MAX_LINES`] lines. The first chart is the main one: the percentiles if
/// `has_time_limit` or if the loads had a fixed rate, else the throughput.
pub fn draw_charts(loads: &[LoadFindings<'_>], has_time_limit: bool) -> Vec<ReportChart> {
    let loads = &loads[..loads.len().min(MAX_LINES)];
    let mut charts = [
        throughput_chart(loads),
        latency_chart(loads),
        percentiles_chart(loads),
        histogram_chart(loads),
    ];
    if has_time_limit || loads.iter().all(|load| load.open.is_some()) {
        charts[..3].rotate_right(1);
    }
    charts.into_iter().flatten().collect()
}

fn line_chart(
    title: &str,
    subtitle: String,
    (x, y): (plot::ChartAxis, plot::ChartAxis),
    series: Vec<plot::PointSeries>,
) -> Option<ReportChart> {
    let series: Vec<plot::PointSeries> =
        series.into_iter().filter(|series| !series.points.is_empty()).collect();
    (!series.is_empty()).then(|| {
        ReportChart::from_picture(plot::AnyChart::Line(plot::LineChart {
            title: title.to_owned(),
            subtitle: Some(subtitle).filter(|text| !text.is_empty()),
            x,
            y,
            series,
            ..plot::LineChart::default()
        }))
    })
}

/// A part of the timeline. `at_s` is its middle, in seconds after the warm-up.
struct TimelineStretch {
    at_s: f64,
    seconds: f64,
    is_warmup: bool,
    tick: TimelineTick,
}

/// Divides the timeline of a load into at most about [`MAX_POINTS`] stretches. A stretch has the
/// sum of its intervals' counts and the maximum of their times. The last interval is omitted if the
/// end of the load cut it short.
fn timeline_stretches(load: &LoadFindings<'_>) -> Vec<TimelineStretch> {
    let measured = &load.run.measured;
    let LoadTimeline { interval_ns, warmup, ticks } = &measured.timeline;
    if *interval_ns == 0 {
        return Vec::new();
    }
    let complete = warmup + (measured.elapsed_ns / interval_ns) as usize;
    let (before, after) =
        ticks[..complete.min(ticks.len())].split_at((*warmup).min(ticks.len().min(complete)));
    let ticks_per_point = ticks.len().div_ceil(MAX_POINTS).max(1);
    let interval_s = *interval_ns as f64 / 1e9;
    let to_stretches =
        |ticks: &[TimelineTick], is_warmup: bool, begin: f64| -> Vec<TimelineStretch> {
            let stretch = |(index, ticks): (usize, &[TimelineTick])| TimelineStretch {
                at_s: (begin + (index * ticks_per_point) as f64 + ticks.len() as f64 / 2.0)
                    * interval_s,
                seconds: ticks.len() as f64 * interval_s,
                is_warmup,
                tick: TimelineTick::merge_all(ticks),
            };
            ticks.chunks(ticks_per_point).enumerate().map(stretch).collect()
        };
    let mut stretches = to_stretches(before, true, -(before.len() as f64));
    stretches.extend(to_stretches(after, false, 0.0));
    if let Some(first) = stretches.first_mut() {
        // No response could arrive in the first median service time. Every later interval contains
        // responses to requests of the previous interval.
        let unanswered_s = first.tick.p50_ns.unwrap_or(0) as f64 / 1e9;
        first.seconds -= unanswered_s.min(first.seconds / 2.0);
    }
    stretches
}

/// Returns the horizontal axis of a timeline.
fn seconds_axis(loads: &[LoadFindings<'_>]) -> plot::ChartAxis {
    let has_warmup = |load: &LoadFindings<'_>| load.run.measured.timeline.warmup > 0;
    plot::ChartAxis::linear(if loads.iter().any(has_warmup) {
        "seconds after the warm-up"
    } else {
        "seconds after the start"
    })
}

/// Says how many intervals each point covers. Empty if no intervals were merged.
fn merged_subtitle(loads: &[LoadFindings<'_>]) -> String {
    let ticks = loads.iter().map(|load| load.run.measured.timeline.ticks.len());
    match ticks.max().unwrap_or(0).div_ceil(MAX_POINTS) {
        0 | 1 => String::new(),
        several => {
            format!("each point covers {several} intervals; a time is the maximum over them")
        }
    }
}

fn stretch_series(
    name: impl Into<String>,
    stretches: &[TimelineStretch],
    point: impl Fn(&TimelineStretch) -> Option<f64>,
) -> plot::PointSeries {
    let drawn =
        |stretch: &TimelineStretch| Some(plot::ChartPoint::new(stretch.at_s, point(stretch)?));
    point_series(name, stretches.iter().filter_map(drawn))
}

fn throughput_chart(loads: &[LoadFindings<'_>]) -> Option<ReportChart> {
    let ok_per_s = |interval: &TimelineStretch| interval.tick.ok as f64 / interval.seconds;
    let ok_measured =
        |interval: &TimelineStretch| (!interval.is_warmup).then(|| ok_per_s(interval));
    let series = match loads {
        [load] => {
            let stretches = timeline_stretches(load);
            let has_errors = stretches.iter().any(|interval| interval.tick.errors > 0);
            let failed =
                |interval: &TimelineStretch| interval.tick.errors as f64 / interval.seconds;
            vec![
                stretch_series("successful requests", &stretches, ok_measured),
                stretch_series("failed", &stretches, |stretch| has_errors.then(|| failed(stretch))),
                stretch_series("successful requests, warm-up", &stretches, |stretch| {
                    stretch.is_warmup.then(|| ok_per_s(stretch))
                }),
            ]
        }
        _ => loads
            .iter()
            .map(|load| stretch_series(load_name(load), &timeline_stretches(load), ok_measured))
            .collect(),
    };
    let axes = (seconds_axis(loads), plot::ChartAxis::linear("requests per second"));
    line_chart("Throughput over time", merged_subtitle(loads), axes, series)
}

fn latency_chart(loads: &[LoadFindings<'_>]) -> Option<ReportChart> {
    let milliseconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS);
    let p99 = |stretch: &TimelineStretch| milliseconds(stretch.tick.p99_ns);
    // Service times that are withheld elsewhere are not drawn either.
    let shown_loads = loads.iter().filter(|load| {
        let service = load.times_of((TimedQuantity::Service, RequestGroup::Ok));
        service.is_none_or(|times| times.refusal.is_none())
    });
    let shown_loads: Vec<&LoadFindings<'_>> = shown_loads.collect();
    let series = match &shown_loads[..] {
        [load] if loads.len() == 1 => {
            let stretches = timeline_stretches(load);
            vec![
                stretch_series("p50", &stretches, |stretch| milliseconds(stretch.tick.p50_ns)),
                stretch_series("p99", &stretches, p99),
                stretch_series("max", &stretches, |stretch| milliseconds(stretch.tick.max_ns)),
            ]
        }
        _ => shown_loads
            .iter()
            .map(|load| {
                let name = format!("{}, p99", load_name(load));
                stretch_series(name, &timeline_stretches(load), p99)
            })
            .collect(),
    };
    let axes =
        (seconds_axis(loads), plot::ChartAxis::log10("service time of successful requests, ms"));
    line_chart("Service time over time", merged_subtitle(loads), axes, series)
}

fn percentiles_chart(loads: &[LoadFindings<'_>]) -> Option<ReportChart> {
    let curve = |name: &str, detail: &str, times: &QuantityFindings| {
        let points = times.curve.iter();
        let points =
            points.map(|(percent, ns)| plot::ChartPoint::new(*percent, *ns as f64 / NS_PER_MS));
        point_series(format!("{name}, {detail}"), points)
    };
    let series = match loads {
        [load] => (load.times.iter())
            .filter(|times| !HIDDEN_QUANTITIES.contains(&times.quantity))
            .map(|times| curve(times.quantity.name(), times.group.name(), times))
            .collect(),
        _ => (loads.iter())
            .filter_map(|load| {
                let principal = load.times.first()?;
                Some(curve(&load_name(load), principal.quantity.name(), principal))
            })
            .collect(),
    };
    let axes = (
        plot::ChartAxis::nines("percentage of the requests"),
        plot::ChartAxis::log10("within this time, ms"),
    );
    line_chart("Percentage served", String::new(), axes, series)
}

fn histogram_chart(loads: &[LoadFindings<'_>]) -> Option<ReportChart> {
    let series = |load: &LoadFindings<'_>| {
        let bins = load.principal_bins();
        let middle = |from: u64, to: u64| (from as f64 + to as f64) / 2.0 / NS_PER_MS;
        plot::HistogramSeries {
            name: load_name(load),
            values: bins.iter().map(|bin| middle(bin.from_ns, bin.to_ns)).collect(),
            counts: bins.iter().map(|bin| bin.count).collect(),
        }
    };
    let series: Vec<_> =
        loads.iter().map(series).filter(|series| !series.values.is_empty()).collect();
    let quantity = loads.first()?.principal_quantity().0;
    if series.is_empty() || loads.iter().any(|load| load.principal_quantity().0 != quantity) {
        return None;
    }
    Some(ReportChart::from_picture(plot::AnyChart::Histogram(plot::HistogramChart {
        title: format!("Distribution of {} times", quantity.name()),
        subtitle: None,
        x: plot::ChartAxis::log10(format!("{} time, ms", quantity.name())),
        series,
    })))
}
