//! Bar and forest charts in the gallery.

use speedwell_plot::{
    AnyChart, BarCategory, BarChart, ChartAxis, ChartBar, ForestChart, ForestRow, VerdictMark,
};

use crate::LONG;

fn bar(name: &str, value: f64, half: f64) -> ChartBar {
    ChartBar { name: name.into(), value, low: Some(value - half), high: Some(value + half) }
}

pub fn bars() -> AnyChart {
    let servers = ["hello world", "json", "static file", "1 MB body"];
    let category = |(at, label): (usize, &&str)| {
        let level = 52_000.0 / (at + 1) as f64;
        let bars = ["plain", "tracing", "metrics", "both"].iter().enumerate();
        let bars = bars.map(|(variant, name)| {
            bar(name, level * (1.0 - 0.07 * variant as f64), 900.0 + 300.0 * variant as f64)
        });
        BarCategory { label: (*label).into(), bars: bars.collect() }
    };
    AnyChart::Bar(BarChart {
        title: "What observability costs".into(),
        subtitle: Some("Requests served per second; bars: means, lines: 95% intervals".into()),
        value_axis: ChartAxis::linear("requests per second (higher is better)"),
        categories: servers.iter().enumerate().map(category).collect(),
    })
}

pub fn bars_with_long_labels() -> AnyChart {
    let category = |(at, label): (usize, &&str)| {
        let value = 4.0 - 1.7 * at as f64;
        BarCategory { label: (*label).into(), bars: vec![bar("", value, 0.8)] }
    };
    AnyChart::Bar(BarChart {
        title: "Changes of both signs".into(),
        value_axis: ChartAxis::linear("change, %"),
        categories: LONG.iter().enumerate().map(category).collect(),
        ..BarChart::default()
    })
}

pub fn forest() -> AnyChart {
    let row = |label: &str, estimate: f64, low: f64, high: f64, mark| ForestRow {
        label: label.into(),
        estimate,
        low,
        high,
        mark,
    };
    AnyChart::Forest(ForestChart {
        title: "Change from node 18.20 to node 20.11".into(),
        subtitle: Some("95% intervals; changes within ±1% do not matter (shaded)".into()),
        x_label: "change of throughput, % (right is better)".into(),
        percent: true,
        reference: 0.0,
        band: Some((-1.0, 1.0)),
        rows: vec![
            row(LONG[0], 6.12, 4.9, 7.31, VerdictMark::Better),
            row(LONG[1], 0.11, -0.4, 0.62, VerdictMark::Same),
            row(LONG[2], -4.3, -5.9, -2.75, VerdictMark::Worse),
            row(LONG[3], 1.4, -2.2, 4.9, VerdictMark::Unclear),
            row(LONG[4], 3.05, 2.1, 4.2, VerdictMark::Better),
            row(LONG[5], 2.0, -38.0, 47.0, VerdictMark::Unclear),
            row("events/ee-emit.js n=2000000", -0.3, f64::NEG_INFINITY, 2.5, VerdictMark::Unclear),
            row("crypto/hash.js", f64::NAN, f64::NAN, f64::NAN, VerdictMark::Unclear),
        ],
    })
}
