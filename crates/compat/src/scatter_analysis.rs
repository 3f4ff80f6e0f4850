//! The analysis that `scatter.js --analyze` prints instead of rows.
//!
//! Decides text and order: pooled parameters with their share of the variance, a table of means and
//! medians, the steps along the x axis, and a chart of the means. The figures come from
//! `scatter_table` and `scatter_steps`. Start at [`text`].

use super::band_chart::{Band, band_chart};
use super::r_print::{self, Column};
use super::scatter_r::Study;
use crate::scatter_steps::{Magnitude, ScatterStep, on_reachable_p};
use crate::scatter_table::ScatterPoint;
use speedwell_analysis::{Aggregated, LARGE_SHARE};

/// Text of a figure that is undefined.
const MISSING: &str = "NA";

/// The whole analysis.
pub fn text(study: &Study, chart: bool) -> String {
    let steps = study.steps();
    let mut text = aggregated(study.aggregated());
    text.push_str(&summary(study));
    if !steps.is_empty() {
        text.push_str(&changes(study, &steps));
    }
    if let Some(warning) = on_reachable_p(&steps) {
        text.push_str(&format!("\n{warning}\n"));
    }
    if chart {
        text.push_str(&means(study));
    }
    text
}

fn aggregated(pooled: &[Aggregated]) -> String {
    let mut text = String::new();
    for Aggregated { name, explained } in pooled {
        text.push_str(&format!("aggregating variable: {name}"));
        if let Some(share) = explained {
            let percent = 100.0 * share;
            text.push_str(&format!(" ({percent:.1} % of the variance within points)"));
        }
        text.push('\n');
    }
    for pooled in pooled.iter().filter(|p| p.explained > Some(LARGE_SHARE)) {
        text.push_str(&format!(
            "note: most of the variance comes from '{0}'; make it the category or fix it with --set {0}=VALUE\n",
            pooled.name
        ));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn summary(study: &Study) -> String {
    let points = study.points();
    let cells = |of: fn(&ScatterPoint) -> String| points.iter().map(of).collect::<Vec<_>>();
    let mut columns = study.places();
    columns.push(Column::new("samples", cells(|p| p.rates.len().to_string())));
    columns.push(Column::new("mean", cells(|p| rate(p.mean))));
    columns.push(Column::new("+/-", cells(|p| optional(p.half_width, rate))));
    columns.push(Column::new(
        "+/- %",
        cells(|p| optional(p.half_width, |half| format!("{:.2}", 100.0 * half / p.mean))),
    ));
    columns.push(Column::new("median", cells(|p| rate(p.median()))));
    columns.push(Column::new(
        "median's 95 % interval",
        cells(|p| {
            optional(p.median_interval(), |interval| {
                format!("{} to {}", rate(interval.low), rate(interval.high))
            })
        }),
    ));
    let skewed = points.iter().any(ScatterPoint::is_skewed);
    if skewed {
        let mark = |p: &ScatterPoint| if p.is_skewed() { "(!)" } else { "" }.to_owned();
        columns.push(Column::new("", cells(mark)));
    }
    let mut text = r_print::data_frame(&[], &columns, usize::MAX);
    if skewed {
        text.push_str("\n(!) skewed: trust the median rather than the mean\n");
    }
    text
}

fn changes(study: &Study, steps: &[ScatterStep<'_>]) -> String {
    let cells = |of: &dyn Fn(&ScatterStep<'_>) -> String| steps.iter().map(of).collect::<Vec<_>>();
    let mut columns = Vec::new();
    if let Some(category) = study.category() {
        let name = cells(&|step| study.category_text(step.from).to_owned());
        columns.push(Column::new(category, name));
    }
    let between = |step: &ScatterStep<'_>| {
        format!("{} -> {}", study.x_text(step.from), study.x_text(step.to))
    };
    columns.push(Column::new(study.x_axis(), cells(&between)));
    columns.push(Column::new(
        "ratio",
        cells(&|step| format!("{:.3}", step.ratio)),
    ));
    let exponent = |step: &ScatterStep<'_>| optional(step.exponent, |value| format!("{value:.2}"));
    columns.push(Column::new("exponent", cells(&exponent)));
    columns.push(Column::new("p", cells(&|step| optional(step.p, p_value))));
    let delta = |step: &ScatterStep<'_>| optional(step.cliffs_delta, |value| format!("{value:.2}"));
    columns.push(Column::new("Cliff's delta", cells(&delta)));
    columns.push(Column::new(
        "effect",
        cells(&|step| optional(step.magnitude(), |size| word(size).to_owned())),
    ));
    format!(
        "\nFrom one value of {} to the next, by the Mann-Whitney test:\n\n{}",
        study.x_axis(),
        r_print::data_frame(&[], &columns, usize::MAX)
    )
}

/// Every mean rate with its 95 % interval, on a scale from 0.
fn means(study: &Study) -> String {
    let band = |point: &ScatterPoint| Band {
        label: study.label(point),
        value: point.mean,
        interval: point
            .half_width
            .map(|half| (point.mean - half, point.mean + half)),
    };
    let bands: Vec<Band> = study.points().iter().map(band).collect();
    let chart = band_chart(&bands, 0.0, |rate| format!("{rate:.0}/s"));
    if chart.is_empty() {
        return chart;
    }
    format!("\nRate, o, with its 95 % interval, [---]:\n\n{chart}")
}

fn optional<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), text)
}

/// At least four digits; a rate below 1,000 keeps decimals.
fn rate(value: f64) -> String {
    let decimals = if value.abs() < 1000.0 { 3 } else { 0 };
    format!("{value:.decimals$}")
}

fn p_value(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

fn word(size: Magnitude) -> &'static str {
    match size {
        Magnitude::Negligible => "negligible",
        Magnitude::Small => "small",
        Magnitude::Medium => "medium",
        Magnitude::Large => "large",
    }
}
