//! Box charts in the gallery.

use speedwell_plot::{AnyChart, BoxCategory, BoxChart, BoxSeries, ChartAxis};

use crate::LONG;
use crate::noise::Noise;

fn old_and_new(noise: &mut Noise, mean: f64, change: f64, count: usize) -> Vec<BoxSeries> {
    let mut old = noise.around(mean, mean * 0.02, count);
    old.push(mean * 0.91);
    let new = noise.around(mean * change, mean * 0.025, count);
    vec![
        BoxSeries { name: "node 18.20".into(), values: old, center: None },
        BoxSeries { name: "node 20.11".into(), values: new, center: None },
    ]
}

pub fn boxes() -> AnyChart {
    let mut noise = Noise(1);
    let cases = [("utf8 16", 1.06), ("utf8 1024", 1.01), ("base64 16", 0.96), ("base64 1024", 1.0)];
    let category = |(at, (label, change)): (usize, &(&str, f64))| BoxCategory {
        label: (*label).into(),
        boxes: old_and_new(&mut noise, 9.2e5 + 6e4 * at as f64, *change, 30),
    };
    AnyChart::Box(BoxChart {
        title: "String decoder: node 18.20 against node 20.11".into(),
        subtitle: Some("31 runs of each version; box: quartiles and median, points: runs".into()),
        value_axis: ChartAxis::linear("rate of operations (higher is better)"),
        categories: cases.iter().enumerate().map(category).collect(),
    })
}

pub fn boxes_with_long_labels() -> AnyChart {
    let mut noise = Noise(2);
    let category = |(at, label): (usize, &&str)| BoxCategory {
        label: (*label).into(),
        boxes: old_and_new(
            &mut noise,
            1e5 * 3.0_f64.powi(at as i32 % 4),
            0.95 + 0.03 * at as f64,
            20,
        ),
    };
    AnyChart::Box(BoxChart {
        title: "Cases with names as they are".into(),
        subtitle: Some("Logarithmic axis: equal ratios are equal distances".into()),
        value_axis: ChartAxis::log10("operations per second (higher is better)"),
        categories: LONG.iter().enumerate().map(category).collect(),
    })
}

pub fn boxes_with_many_points() -> AnyChart {
    let mut noise = Noise(3);
    let names = ["old", "new", "next"];
    let mut series = |(at, name): (usize, &&str)| {
        let skewed = |normal: f64| 2.1 + 0.1 * at as f64 + (0.35 * normal).exp();
        let values = (0..667).map(|_| skewed(noise.normal())).collect();
        BoxSeries { name: (*name).into(), values, center: None }
    };
    let boxes = names.iter().enumerate().map(&mut series).collect();
    AnyChart::Box(BoxChart {
        title: "Two thousand samples".into(),
        value_axis: ChartAxis::linear("time per operation, µs (lower is better)"),
        categories: vec![BoxCategory { label: "all samples".into(), boxes }],
        ..BoxChart::default()
    })
}

pub fn boxes_of_many_categories() -> AnyChart {
    let mut noise = Noise(4);
    let category = |at: usize| BoxCategory {
        label: format!("group/benchmark-{at:03}.js size={}", 1 << (at % 12)),
        boxes: old_and_new(&mut noise, 100.0 + (at * 7 % 50) as f64, 1.02, 12),
    };
    AnyChart::Box(BoxChart {
        title: "Two hundred cases".into(),
        value_axis: ChartAxis::linear("operations per second (higher is better)"),
        categories: (0..200).map(category).collect(),
        ..BoxChart::default()
    })
}

pub fn hostile() -> AnyChart {
    let values = vec![1e9, f64::NAN, 1.000_000_01e9, f64::INFINITY, 1.000_000_02e9];
    let one = |name: &str, values: Vec<f64>| BoxSeries { name: name.into(), values, center: None };
    let category = |label: &str, boxes| BoxCategory { label: label.into(), boxes };
    AnyChart::Box(BoxChart {
        title: "Names & <values> \"nobody\" expects: Größe → ∞, Ελληνικά, Кириллица".into(),
        subtitle: Some(
            "A narrow range far from zero, one single value, a group without any".into(),
        ),
        value_axis: ChartAxis::linear("ops/s"),
        categories: vec![
            category("a<b>&\"c\"", vec![one("Größe ≥ 5", values)]),
            category("one value", vec![one("Größe ≥ 5", vec![1.000_000_015e9])]),
            category("none", vec![one("µ ± σ", Vec::new())]),
            category("equal", vec![one("µ ± σ", vec![1.000_000_01e9; 9])]),
        ],
    })
}
