//! Charts of runs: boxes, bars, histograms, values in execution order, and every run of one case.

use crate::case_labels::distinct;
use crate::charts::panel::{Category, Compared, Panel, axis, panels, point_series};
use crate::document::Chart;
use crate::figure::direction;
use crate::unit::{Scale, UnitChoice};
use speedwell_analysis::{CaseSummary, Findings};
use speedwell_model::{Metric, RunValue};
use speedwell_plot as plot;

/// One box chart per metric. The cases of a comparison may differ by orders of magnitude, so they
/// are drawn relative to their baseline, which keeps the boxes readable.
pub fn boxes(findings: &Findings, unit: Option<UnitChoice>) -> Vec<Chart> {
    let compared = Compared::new(&findings.comparisons);
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

/// One bar chart per metric: medians with their intervals, or the sides of a comparison with the
/// intervals of the changes.
pub fn bars(findings: &Findings, unit: Option<UnitChoice>) -> Vec<Chart> {
    let compared = Compared::new(&findings.comparisons);
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
    let words = if compared.is_empty() {
        "medians with their intervals"
    } else {
        "with the intervals of the changes"
    };
    let title = format!("{}, {words}", panel.metric.name);
    Chart::new(
        title.clone(),
        plot::Chart::Bar(plot::BarChart {
            title: title.clone(),
            subtitle: panel.subtitle(),
            value_axis: panel.axis(all),
            categories,
        }),
    )
}

/// Histograms of the values: a panel per case, a sheet per metric and [`MOST_PANELS`] cases.
pub fn histograms(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<Chart> {
    let draw = |panel: &Panel<'_>| {
        let series = |name: &str, summary: Option<&&CaseSummary>| plot::HistogramSeries {
            name: name.to_owned(),
            values: summary.map_or(Vec::new(), |summary| panel.values(summary)),
            counts: Vec::new(),
        };
        sheets(Sheets {
            panel,
            title: format!("{}, distribution of the runs", panel.metric.name),
            x: common_axis(panel),
            y: plot::Axis::default(),
            marks: |category: &Category<'_>| {
                plot::GridMarks::Values(by_variant(panel, category, series))
            },
        })
    };
    panels(summaries, unit).iter().flat_map(draw).collect()
}

/// Values in execution order, which shows drift: a panel per case, as in [`histograms`].
pub fn in_order(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<Chart> {
    let draw = |panel: &Panel<'_>| {
        let point = |run: &speedwell_model::RunValue| {
            plot::Point::new(f64::from(run.slot), panel.scale.shown(run.value))
        };
        let series = |name: &str, summary: Option<&&CaseSummary>| {
            point_series(
                name,
                summary
                    .into_iter()
                    .flat_map(|summary| summary.runs.iter())
                    .map(point),
            )
        };
        sheets(Sheets {
            panel,
            title: format!("{} in order of execution", panel.metric.name),
            x: plot::Axis::linear("position in the order of execution"),
            y: common_axis(panel),
            marks: |category: &Category<'_>| {
                plot::GridMarks::Points(by_variant(panel, category, series))
            },
        })
    };
    panels(summaries, unit).iter().flat_map(draw).collect()
}

/// Most panels on a sheet. More are hard to survey and do not fit on a screen.
const MOST_PANELS: usize = 24;

/// The sheets of one metric.
struct Sheets<'a, M> {
    panel: &'a Panel<'a>,
    title: String,
    x: plot::Axis,
    y: plot::Axis,
    /// The marks of one case.
    marks: M,
}

fn sheets<M: Fn(&Category<'_>) -> plot::GridMarks>(sheets: Sheets<'_, M>) -> Vec<Chart> {
    let categories = &sheets.panel.categories;
    let (total, mut first) = (categories.len(), 1);
    let parts = categories.chunks(MOST_PANELS);
    let sheet = |part: &[Category<'_>]| {
        let last = first + part.len() - 1;
        let title = if total > MOST_PANELS {
            format!("{}, cases {first} to {last} of {total}", sheets.title)
        } else {
            sheets.title.clone()
        };
        first = last + 1;
        Chart::new(title.clone(), sheets.picture(part, &title))
    };
    parts.map(sheet).collect()
}

impl<M: Fn(&Category<'_>) -> plot::GridMarks> Sheets<'_, M> {
    /// A single case gets the whole sheet.
    fn picture(&self, cases: &[Category<'_>], title: &str) -> plot::Chart {
        let (title, x, y) = (title.to_owned(), self.x.clone(), self.y.clone());
        if let [only] = cases {
            let subtitle = Some(case_id(only));
            return match (self.marks)(only) {
                plot::GridMarks::Points(series) => plot::Chart::Scatter(plot::ScatterChart {
                    title,
                    subtitle,
                    x,
                    y,
                    series,
                }),
                plot::GridMarks::Values(series) => plot::Chart::Histogram(plot::HistogramChart {
                    title,
                    subtitle,
                    x,
                    series,
                }),
                marks @ plot::GridMarks::Sequence(_) => plot::Chart::Grid(plot::GridChart {
                    title,
                    subtitle,
                    x,
                    y,
                    panels: vec![plot::GridPanel {
                        title: only.label.clone(),
                        marks,
                    }],
                }),
            };
        }
        let panel = |case: &Category<'_>| plot::GridPanel {
            title: case.label.clone(),
            marks: (self.marks)(case),
        };
        plot::Chart::Grid(plot::GridChart {
            title,
            subtitle: self.panel.subtitle(),
            x,
            y,
            panels: cases.iter().map(panel).collect(),
        })
    }
}

/// An axis that suits each case: a large distance between cases does not make it logarithmic.
fn common_axis(panel: &Panel<'_>) -> plot::Axis {
    let values = |category: &Category<'_>| {
        let summaries = category.variants.iter();
        summaries
            .flat_map(|summary| panel.values(summary))
            .collect::<Vec<_>>()
    };
    let mut axes = panel
        .categories
        .iter()
        .map(|category| panel.axis(values(category).into_iter()));
    let logarithmic = axes.find(|axis| axis.scale != plot::Scale::Linear);
    logarithmic.unwrap_or_else(|| panel.axis(std::iter::empty()))
}

/// A series per variant of the metric, in the same position in every case, so that it looks the
/// same in all panels.
fn by_variant<S>(
    panel: &Panel<'_>,
    category: &Category<'_>,
    series: impl Fn(&str, Option<&&CaseSummary>) -> S,
) -> Vec<S> {
    let summaries = panel.categories.iter().flat_map(|case| &case.variants);
    let names = distinct(summaries.map(|summary| &*summary.variant));
    let of_name = |name: &str| {
        let mut variants = category.variants.iter();
        series(name, variants.find(|summary| *summary.variant == *name))
    };
    names.into_iter().map(of_name).collect()
}

fn case_id(category: &Category<'_>) -> String {
    category
        .variants
        .first()
        .map(|summary| summary.case.id())
        .unwrap_or_default()
}

/// The runs of one variant.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// The variant.
    pub variant: &'a str,
    /// Its runs, in order of execution.
    pub runs: &'a [RunValue],
    /// The figure that is compared, or the median: determines the line and the unit.
    pub center: f64,
}

/// Every run of a case. Lanes measured `apart`, in different sessions, have no common order and are
/// drawn one after the other.
pub fn every_run(
    metric: &Metric,
    lanes: &[Lane<'_>],
    apart: bool,
    unit: Option<UnitChoice>,
) -> Chart {
    let centers: Vec<f64> = lanes.iter().map(|lane| lane.center).collect();
    let scale = Scale::fitting(&metric.unit, &centers, unit);
    let (positions, breaks) = if apart {
        one_after_the_other(lanes)
    } else {
        in_common_order(lanes)
    };
    let series = |(lane, positions): (&Lane<'_>, Vec<usize>)| {
        point_series(
            lane.variant,
            positions
                .into_iter()
                .zip(lane.runs)
                .map(|(at, run)| plot::Point::new(at as f64, scale.shown(run.value))),
        )
    };
    let series: Vec<_> = lanes.iter().zip(positions).map(series).collect();
    let all = series.iter().flat_map(|s| s.points.iter().map(|p| p.y));
    let words = if apart {
        "run (the sides were not measured together)"
    } else {
        "run, in order of execution"
    };
    Chart::new(
        format!("{} of every run", metric.name),
        plot::Chart::Runs(plot::RunsChart {
            title: String::new(),
            subtitle: None,
            x: plot::Axis::linear(words),
            y: axis(metric, &scale, all),
            series,
            breaks,
            centers: centers
                .into_iter()
                .map(|center| Some(scale.shown(center)))
                .collect(),
        }),
    )
}

/// Positions on the bottom axis, by lane and run; and the ends of the blocks.
type Places = (Vec<Vec<usize>>, Vec<f64>);

fn in_common_order(lanes: &[Lane<'_>]) -> Places {
    let mut all: Vec<(u32, u32, usize, usize)> = Vec::new();
    for (lane, runs) in lanes.iter().enumerate() {
        let place = |(at, run): (usize, &RunValue)| (run.slot, run.block, lane, at);
        all.extend(runs.runs.iter().enumerate().map(place));
    }
    all.sort_unstable();
    let mut positions: Vec<Vec<usize>> = lanes.iter().map(|l| vec![0; l.runs.len()]).collect();
    for (order, &(_, _, lane, at)) in all.iter().enumerate() {
        positions[lane][at] = order + 1;
    }
    let new_block = |(at, two): (usize, &[(u32, u32, usize, usize)])| {
        (two[0].1 != two[1].1).then_some(at as f64 + 1.5)
    };
    let breaks = all.windows(2).enumerate().filter_map(new_block).collect();
    (positions, breaks)
}

fn one_after_the_other(lanes: &[Lane<'_>]) -> Places {
    let mut first = 1;
    let mut positions = Vec::new();
    let mut breaks = Vec::new();
    for lane in lanes {
        let next = first + lane.runs.len();
        positions.push((first..next).collect());
        breaks.push(next as f64 - 0.5);
        first = next;
    }
    breaks.pop();
    (positions, breaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(slots: &[(u32, u32)]) -> Vec<RunValue> {
        let run = |&(slot, block): &(u32, u32)| RunValue {
            slot,
            block,
            value: f64::from(slot),
        };
        slots.iter().map(run).collect()
    }

    fn chart(old: &[(u32, u32)], new: &[(u32, u32)], apart: bool) -> plot::RunsChart {
        let (old, new) = (runs(old), runs(new));
        let lane = |variant, runs| Lane {
            variant,
            runs,
            center: 1.0,
        };
        let lanes = [lane("old", &old[..]), lane("new", &new[..])];
        match every_run(&Metric::throughput(), &lanes, apart, None).picture {
            plot::Chart::Runs(chart) => chart,
            other => panic!("{other:?}"),
        }
    }

    fn places(chart: &plot::RunsChart) -> Vec<Vec<f64>> {
        let xs = |series: &plot::PointSeries| series.points.iter().map(|p| p.x).collect();
        chart.series.iter().map(xs).collect()
    }

    #[test]
    fn runs_of_one_session_stand_in_the_order_in_which_they_were_executed() {
        let chart = chart(
            &[(0, 0), (3, 0), (11, 1)],
            &[(1, 0), (2, 0), (10, 1)],
            false,
        );
        assert_eq!(places(&chart), [[1.0, 4.0, 6.0], [2.0, 3.0, 5.0]]);
        assert_eq!(chart.breaks, [4.5]);
    }

    #[test]
    fn runs_of_different_sessions_are_not_mixed() {
        let chart = chart(&[(0, 0), (5, 1)], &[(1, 0), (2, 0), (9, 1)], true);
        assert_eq!(places(&chart), [vec![1.0, 2.0], vec![3.0, 4.0, 5.0]]);
        assert_eq!(chart.breaks, [2.5]);
    }
}
