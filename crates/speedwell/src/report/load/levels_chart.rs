//! Throughput and the tail of service times over concurrency, with the fitted law.

use super::search::chart;
use crate::analysis::load::Levels;
use crate::report::document::Chart;
use speedwell_plot as plot;

pub const NS_PER_MS: f64 = 1e6;

/// Points of the fitted curve: enough to look round.
const CURVE_POINTS: u32 = 96;

/// The charts of one address.
pub fn charts(levels: &Levels) -> Vec<Chart> {
    [throughput(levels), tail(levels)]
        .into_iter()
        .flatten()
        .collect()
}

fn concurrency() -> plot::Axis {
    plot::Axis::log2("concurrency")
}

fn throughput(levels: &Levels) -> Option<Chart> {
    let scaling = levels.scaling.as_ref()?;
    let standings = &scaling.answer.standings;
    let measured = standings.iter().map(|one| plot::Point {
        x: f64::from(one.concurrency),
        y: one.throughput,
        low: one.interval.map(|interval| interval.low),
        high: one.interval.map(|interval| interval.high),
    });
    let mut series = vec![plot::PointSeries {
        name: "measured, 95 % interval".into(),
        points: measured.collect(),
    }];
    let ends = standings.first().zip(standings.last());
    if let (Ok(usl), Some((first, last))) = (&scaling.curve, ends) {
        let (low, high) = (f64::from(first.concurrency), f64::from(last.concurrency));
        let at = |point: u32| low * (high / low).powf(f64::from(point) / f64::from(CURVE_POINTS));
        let points = (0..=CURVE_POINTS).map(|point| plot::Point::new(at(point), usl.at(at(point))));
        series.push(plot::PointSeries {
            name: "Universal Scalability Law".into(),
            points: points.collect(),
        });
    }
    let title = "Throughput over concurrency";
    let picture = plot::Chart::Line(plot::LineChart {
        title: title.into(),
        subtitle: Some(levels.label.clone()),
        x: concurrency(),
        y: plot::Axis::linear("good answers per second"),
        curves: series.len() - 1,
        series,
    });
    Some(chart(title.into(), picture))
}

fn tail(levels: &Levels) -> Option<Chart> {
    let line = |name: &str, of: fn(&crate::analysis::load::Pass) -> Option<f64>| {
        let point = |pass| Some((pass, of(pass)?));
        let points = levels.passes.iter().filter_map(point);
        plot::PointSeries {
            name: name.into(),
            points: points
                .map(|(pass, ns)| plot::Point::new(f64::from(pass.concurrency), ns / NS_PER_MS))
                .collect(),
        }
    };
    let series = vec![
        line("p50", |pass| pass.p50_ns),
        line("p99", |pass| pass.p99_ns),
    ];
    let is_drawn = series.iter().any(|series| !series.points.is_empty());
    let title = "Service time over concurrency";
    is_drawn.then(|| {
        let picture = plot::Chart::Line(plot::LineChart {
            title: title.into(),
            subtitle: Some(levels.label.clone()),
            x: concurrency(),
            y: plot::Axis::log10("service time of good answers, ms"),
            series,
            curves: 0,
        });
        chart(title.into(), picture)
    })
}
