//! Charts of the runs themselves: boxes, bars, histograms, values in order of execution.

use super::gather::{Category, Compared, Panel, panels};
use crate::analysis::{CaseSummary, Findings};
use crate::report::document::Chart;
use crate::report::metric_words::direction;
use crate::report::unit::UnitChoice;
use speedwell_plot as plot;

/// One box chart per metric. The cases of a comparison, which may differ by orders of magnitude, are
/// shown relative to their baseline, so that the boxes of each can be told apart.
pub fn boxes(findings: &Findings, unit: Option<UnitChoice>) -> Vec<Chart> {
    let compared = Compared::of(&findings.comparisons);
    let baseline = findings.comparisons.first().map(|first| &first.baseline);
    let draw = |panel: &Panel<'_>| match baseline {
        Some(baseline) if panel.categories.len() > 1 => relative_boxes(panel, baseline, &compared),
        _ => absolute_boxes(panel, &compared),
    };
    panels(&findings.summaries, unit).iter().map(draw).collect()
}

fn absolute_boxes(panel: &Panel<'_>, compared: &Compared) -> Chart {
    let shown = |stored: f64| panel.scale.shown(stored);
    let category = |category: &Category<'_>| box_category(category, compared, shown);
    let categories: Vec<_> = panel.categories.iter().map(category).collect();
    let all = categories
        .iter()
        .flat_map(|c| &c.boxes)
        .flat_map(|b| b.values.iter().copied());
    box_chart(panel, panel.axis(all), categories)
}

fn relative_boxes(panel: &Panel<'_>, baseline: &str, compared: &Compared) -> Chart {
    let category = |category: &Category<'_>| {
        let reference = category
            .variants
            .iter()
            .find(|summary| *summary.variant == *baseline)?;
        let own = || reference.center.value;
        let reference = compared.side(reference).map_or_else(own, |side| side.value);
        let distance = |stored: f64| (stored / reference - 1.0) * 100.0;
        Some(box_category(category, compared, distance))
    };
    let categories = panel.categories.iter().filter_map(category).collect();
    let label = format!(
        "{}, distance from {baseline} in % ({})",
        panel.metric.name,
        direction(panel.metric.better)
    );
    box_chart(panel, plot::Axis::linear(label), categories)
}

fn box_category(
    category: &Category<'_>,
    compared: &Compared,
    shown: impl Fn(f64) -> f64,
) -> plot::BoxCategory {
    let series = |summary: &&CaseSummary| plot::BoxSeries {
        name: summary.variant.to_string(),
        values: summary.runs.iter().map(|run| shown(run.value)).collect(),
        center: compared.side(summary).map(|side| shown(side.value)),
    };
    plot::BoxCategory {
        label: category.label.clone(),
        boxes: category.variants.iter().map(series).collect(),
    }
}

fn box_chart(
    panel: &Panel<'_>,
    value_axis: plot::Axis,
    categories: Vec<plot::BoxCategory>,
) -> Chart {
    let title = format!("{}, every run", panel.metric.name);
    Chart {
        picture: plot::Chart::Box(plot::BoxChart {
            title: title.clone(),
            subtitle: panel.subtitle(),
            value_axis,
            categories,
        }),
        title,
        shown_elsewhere: true,
    }
}

/// One bar chart per metric: medians with their intervals, or what is compared with the intervals of
/// the changes.
pub fn bars(findings: &Findings, unit: Option<UnitChoice>) -> Vec<Chart> {
    let compared = Compared::of(&findings.comparisons);
    let draw = |panel: &Panel<'_>| bar_chart(panel, &compared);
    panels(&findings.summaries, unit).iter().map(draw).collect()
}

fn bar_chart(panel: &Panel<'_>, compared: &Compared) -> Chart {
    let bar = |summary: &&CaseSummary| {
        let known = compared.side(summary).unwrap_or(summary.center);
        let end = |end: f64| {
            let has_end = end != known.value && end.is_finite();
            has_end.then(|| panel.scale.shown(end))
        };
        plot::Bar {
            name: summary.variant.to_string(),
            value: panel.scale.shown(known.value),
            low: end(known.low),
            high: end(known.high),
        }
    };
    let category = |category: &Category<'_>| plot::BarCategory {
        label: category.label.clone(),
        bars: category.variants.iter().map(bar).collect(),
    };
    let categories: Vec<_> = panel.categories.iter().map(category).collect();
    let all = categories.iter().flat_map(|c| &c.bars).map(|bar| bar.value);
    let words = match compared.is_empty() {
        true => "medians with their intervals",
        false => "with the intervals of the changes",
    };
    let title = format!("{}, {words}", panel.metric.name);
    Chart {
        picture: plot::Chart::Bar(plot::BarChart {
            title: title.clone(),
            subtitle: panel.subtitle(),
            value_axis: panel.axis(all),
            categories,
        }),
        title,
        shown_elsewhere: false,
    }
}

/// One histogram per metric and case.
pub fn histograms(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<Chart> {
    each_case(summaries, unit, |panel, category| {
        let series = |summary: &&CaseSummary| plot::HistogramSeries {
            name: summary.variant.to_string(),
            values: panel.values(summary),
            counts: Vec::new(),
        };
        let series: Vec<_> = category.variants.iter().map(series).collect();
        let all = series.iter().flat_map(|s| s.values.iter().copied());
        plot::Chart::Histogram(plot::HistogramChart {
            title: format!("{}, frequency of values", panel.metric.name),
            subtitle: Some(case_id(category)),
            x: panel.axis(all),
            series,
        })
    })
}

/// One chart per metric and case: values along the order of execution, in which drift can be seen.
pub fn in_order(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<Chart> {
    each_case(summaries, unit, |panel, category| {
        let point = |run: &crate::model::RunValue| {
            plot::Point::new(f64::from(run.slot), panel.scale.shown(run.value))
        };
        let series = |summary: &&CaseSummary| plot::PointSeries {
            name: summary.variant.to_string(),
            points: summary.runs.iter().map(point).collect(),
            colour: None,
        };
        let series: Vec<_> = category.variants.iter().map(series).collect();
        let all = series
            .iter()
            .flat_map(|s| s.points.iter().map(|point| point.y));
        plot::Chart::Scatter(plot::ScatterChart {
            title: format!("{} in order of execution", panel.metric.name),
            subtitle: Some(case_id(category)),
            x: plot::Axis::linear("position in the order of execution"),
            y: panel.axis(all),
            series,
        })
    })
}

fn case_id(category: &Category<'_>) -> String {
    category
        .variants
        .first()
        .map(|summary| summary.case.id())
        .unwrap_or_default()
}

fn each_case(
    summaries: &[CaseSummary],
    unit: Option<UnitChoice>,
    draw: impl Fn(&Panel<'_>, &Category<'_>) -> plot::Chart,
) -> Vec<Chart> {
    let mut charts = Vec::new();
    for panel in &panels(summaries, unit) {
        for category in &panel.categories {
            let title = format!("{}: {}", panel.metric.name, case_id(category));
            charts.push(Chart {
                title,
                picture: draw(panel, category),
                shown_elsewhere: false,
            });
        }
    }
    charts
}
