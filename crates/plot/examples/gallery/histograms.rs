//! Histograms in the gallery.

use speedwell_plot::{AnyChart, ChartAxis, HistogramChart, HistogramSeries};

use crate::noise::Noise;

fn latencies(noise: &mut Noise, median: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| median * (0.45 * noise.normal()).exp()).collect()
}

pub fn histogram() -> AnyChart {
    let mut noise = Noise(8);
    let old = HistogramSeries {
        name: "old".into(),
        values: latencies(&mut noise, 1.4, 1500),
        counts: Vec::new(),
    };
    let new = HistogramSeries {
        name: "new".into(),
        values: latencies(&mut noise, 1.1, 1200),
        counts: Vec::new(),
    };
    AnyChart::Histogram(HistogramChart {
        title: "Latency of single requests".into(),
        subtitle: Some("1,500 requests of the old server, 1,200 of the new one".into()),
        x: ChartAxis::linear("latency, ms"),
        series: vec![old, new],
    })
}

pub fn histogram_rows() -> AnyChart {
    let mut noise = Noise(9);
    let names = ["1 connection", "10 connections", "100 connections", "1000 connections"];
    let mut series = |(at, name): (usize, &&str)| {
        let median = 0.3 * 3.0_f64.powi(at as i32);
        HistogramSeries {
            name: (*name).into(),
            values: latencies(&mut noise, median, 800),
            counts: Vec::new(),
        }
    };
    AnyChart::Histogram(HistogramChart {
        title: "Latency under growing load".into(),
        subtitle: None,
        x: ChartAxis::log10("latency, ms"),
        series: names.iter().enumerate().map(&mut series).collect(),
    })
}
