//! Throughput and the tail of service times over concurrency, with the fitted law.

use super::search::chart;
use crate::document::Chart;
use crate::scaling::throughput_chart;
use speedwell_analysis::load::Levels;
use speedwell_plot as plot;

pub const NS_PER_MS: f64 = 1e6;

/// The charts of one address.
pub fn charts(levels: &Levels) -> Vec<Chart> {
    let throughput = levels.scaling.as_ref();
    let throughput =
        throughput.map(|known| throughput_chart(&levels.label, known, "good answers per second"));
    [throughput, tail(levels)].into_iter().flatten().collect()
}

fn tail(levels: &Levels) -> Option<Chart> {
    let line = |name: &str, of: fn(&speedwell_analysis::load::Pass) -> Option<f64>| {
        let point = |pass| Some((pass, of(pass)?));
        let points = levels.passes.iter().filter_map(point);
        plot::PointSeries {
            name: name.into(),
            points: points
                .map(|(pass, ns)| plot::Point::new(f64::from(pass.concurrency), ns / NS_PER_MS))
                .collect(),
            colour: None,
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
            x: plot::Axis::log2("concurrency"),
            y: plot::Axis::log10("service time of good answers, ms"),
            series,
            observations: Vec::new(),
            curves: 0,
        });
        chart(title.into(), picture)
    })
}
