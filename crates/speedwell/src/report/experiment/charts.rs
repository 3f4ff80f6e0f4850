//! Pictures of an experiment: who was served within which time, and changes against the noise of the control.

use super::answer::{is_control, label};
use super::percentiles::curves_by_case;
use crate::analysis::experiment::{Curve, GroupFound, MetricFound};
use crate::definition::experiment::Experiment;
use crate::report::charts::{band, forest_row};
use crate::report::digits::{Uncertainty, place, spell};
use crate::report::document::Chart;
use speedwell_plot as plot;

const NS_PER_MS: f64 = 1e6;

/// Times beyond this percentage are told as text: on a linear axis the slowest request rules the picture.
const CLIPPED_AT: u32 = 98;

/// One picture for each case and stage of the story: percentage served against time.
pub fn served(group: &GroupFound, stages: &[Vec<String>], experiment: &Experiment) -> Vec<Chart> {
    let all: Vec<String> = experiment
        .variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    let stages: Vec<&[String]> = match stages.is_empty() {
        true => vec![&all],
        // An empty stage means all variants.
        false => stages
            .iter()
            .map(|stage| {
                if stage.is_empty() {
                    &all[..]
                } else {
                    &stage[..]
                }
            })
            .collect(),
    };
    each_case(group, experiment, |curves| {
        stages
            .iter()
            .filter_map(|stage| {
                let shown: Vec<&Curve> = curves
                    .iter()
                    .copied()
                    .filter(|curve| stage.iter().any(|name| *name == *curve.variant))
                    .collect();
                (!shown.is_empty()).then(|| picture(&shown, experiment))
            })
            .collect()
    })
}

fn each_case(
    group: &GroupFound,
    experiment: &Experiment,
    draw: impl Fn(&[&Curve]) -> Vec<Chart>,
) -> Vec<Chart> {
    let cases = curves_by_case(group, experiment);
    cases.iter().flat_map(|(_, curves)| draw(curves)).collect()
}

fn picture(curves: &[&Curve], experiment: &Experiment) -> Chart {
    let longest = curves.iter().map(|curve| {
        let ms = curve.at(100).unwrap_or(f64::NAN) / NS_PER_MS;
        format!(
            "{} {}",
            curve.variant,
            spell(ms, place(ms, Uncertainty::Unknown))
        )
    });
    let longest: Vec<String> = longest.collect();
    let case = curves
        .first()
        .map(|curve| curve.case.id())
        .unwrap_or_default();
    let subtitle = format!(
        "{case}; up to {CLIPPED_AT} %, the slowest request in ms: {}",
        longest.join(", ")
    );
    let axes = (
        plot::Axis::linear("percentage of the requests"),
        plot::Axis::linear("served within, ms"),
    );
    lines(
        "Percentage served",
        subtitle,
        axes,
        curves,
        experiment,
        0..=CLIPPED_AT,
    )
}

/// The last tenth of the requests, each further nine the same distance.
pub fn tail(group: &GroupFound, experiment: &Experiment) -> Vec<Chart> {
    each_case(group, experiment, |curves| {
        let case = curves
            .first()
            .map(|curve| curve.case.id())
            .unwrap_or_default();
        let axes = (
            plot::Axis::nines("percentage of the requests"),
            plot::Axis::log10("served within, ms"),
        );
        vec![lines(
            "Percentage served, the slow ones",
            case,
            axes,
            curves,
            experiment,
            50..=99,
        )]
    })
}

fn lines(
    title: &str,
    subtitle: String,
    (x, y): (plot::Axis, plot::Axis),
    curves: &[&Curve],
    experiment: &Experiment,
    percents: std::ops::RangeInclusive<u32>,
) -> Chart {
    let series = curves.iter().map(|curve| {
        let points = curve
            .points
            .iter()
            .filter(|(percent, _)| percents.contains(percent));
        let variant = experiment
            .variants
            .iter()
            .find(|variant| variant.name == *curve.variant);
        plot::PointSeries {
            name: label(experiment, &curve.variant),
            points: points
                .map(|(percent, [middle, ..])| {
                    plot::Point::new(f64::from(*percent), middle / NS_PER_MS)
                })
                .collect(),
            colour: variant.and_then(|variant| variant.color.as_ref()?.parse().ok()),
        }
    });
    let series: Vec<plot::PointSeries> = series.collect();
    Chart {
        title: title.to_owned(),
        picture: plot::Chart::Line(plot::LineChart {
            title: title.to_owned(),
            subtitle: Some(subtitle),
            x,
            y,
            curves: series.len(),
            series,
        }),
        shown_elsewhere: false,
    }
}

/// One forest a metric: every case of every pair, with the change of the control against itself as the band.
pub fn forests(group: &GroupFound) -> Vec<Chart> {
    group
        .metrics
        .iter()
        .filter_map(|metric| forest(group, metric))
        .collect()
}

fn forest(group: &GroupFound, metric: &MetricFound) -> Option<Chart> {
    let own = metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison));
    let rows: Vec<plot::ForestRow> = own
        .flat_map(|comparison| {
            comparison.rows.iter().filter_map(move |row| {
                let pair = format!("{} against {}", comparison.candidate, comparison.baseline);
                let label = match comparison.rows.len() {
                    1 => pair,
                    _ => format!("{}, {pair}", row.case.id()),
                };
                forest_row(row, label)
            })
        })
        .collect();
    let first = metric.findings.comparisons.first()?;
    let floor = metric
        .floor
        .map(|floor| (floor.low * 100.0, floor.high * 100.0));
    let floor = floor.filter(|(low, high)| low.is_finite() && high.is_finite());
    let subtitle = match floor {
        Some(_) => "shaded: the change of the control against itself",
        None => "shaded: changes that count as none",
    };
    let title = format!("{}, {}: changes", group.name, metric.metric.name);
    (!rows.is_empty()).then(|| Chart {
        picture: plot::Chart::Forest(plot::ForestChart {
            title: title.clone(),
            subtitle: Some(subtitle.to_owned()),
            x_label: format!(
                "change in % ({})",
                crate::report::metric_words::direction(metric.metric.better)
            ),
            reference: 0.0,
            band: floor.or_else(|| band(first)),
            rows,
        }),
        title,
        shown_elsewhere: false,
    })
}
