//! Line and scatter charts in the gallery, and a chart without data.

use speedwell_plot::{AnyChart, ChartAxis, ChartPoint, LineChart, PointSeries, ScatterChart};

use crate::noise::Noise;

pub fn lines() -> AnyChart {
    let mut noise = Noise(5);
    let mut series = |(at, name): (usize, &&str)| {
        let point = |exponent: i32| {
            let x = 2.0_f64.powi(exponent);
            let y = 2.1e6 / (1.0 + x / (300.0 * (at + 1) as f64)) * (1.0 + 0.015 * noise.normal());
            let half = y * (0.02 + 0.03 * noise.uniform());
            ChartPoint::with_interval(x, y, y - half, y + half)
        };
        PointSeries { name: (*name).into(), points: (4..=14).map(point).collect(), colour: None }
    };
    let names = ["ascii", "utf8", "utf16le", "base64"];
    AnyChart::Line(LineChart {
        title: "Throughput over the length of the input".into(),
        subtitle: Some("Means of 30 runs with 95% confidence intervals".into()),
        x: ChartAxis::log2("length, bytes"),
        y: ChartAxis::linear("operations per second (higher is better)"),
        series: names.iter().enumerate().map(&mut series).collect(),
        observations: Vec::new(),
        curves: 0,
    })
}

pub fn lines_over_names() -> AnyChart {
    let names: Vec<String> = (0..14)
        .map(|at| format!("2024-{:02}-{:02} release candidate {at}", at % 12 + 1, at + 3))
        .collect();
    let mut noise = Noise(6);
    let mut series = |name: &str, level: f64| PointSeries {
        name: name.into(),
        points: (0..14)
            .map(|at| {
                let y = if at == 6 { f64::NAN } else { level + noise.normal() };
                ChartPoint::with_interval(f64::from(at), y, y - 1.2, y + 1.5)
            })
            .collect(),
        colour: None,
    };
    let series = vec![series("median", 40.0), series("99th percentile", 57.0)];
    AnyChart::Line(LineChart {
        title: "Latency from release to release".into(),
        subtitle: None,
        x: ChartAxis::category("release", names),
        y: ChartAxis::linear("latency, ms (lower is better)"),
        series,
        observations: Vec::new(),
        curves: 0,
    })
}

pub fn scatter() -> AnyChart {
    let mut noise = Noise(7);
    let mut series = |(at, name): (usize, &&str)| {
        let points = (0..60).map(|_| {
            let x = 10.0_f64.powf(5.0 * noise.uniform());
            ChartPoint::new(x, (x * 3.0 * (at + 1) as f64).sqrt() * (0.25 * noise.normal()).exp())
        });
        PointSeries { name: (*name).into(), points: points.collect(), colour: None }
    };
    let names = ["epoll", "io_uring", "threads", "select", "poll"];
    AnyChart::Scatter(ScatterChart {
        title: "Cost of a wake-up".into(),
        subtitle: Some("Every point is one run".into()),
        x: ChartAxis::log10("open connections"),
        y: ChartAxis::log10("time, µs"),
        series: names.iter().enumerate().map(&mut series).collect(),
    })
}

pub fn no_data() -> AnyChart {
    AnyChart::Line(LineChart {
        title: "Nothing was measured".into(),
        subtitle: Some("All runs failed".into()),
        ..LineChart::default()
    })
}
