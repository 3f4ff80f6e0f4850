//! Draws the charts of findings: forests of changes, and charts of runs, which are boxes, bars,
//! histograms, values in execution order, and every run of one case. Also draws the means of runs
//! over a parameter. Start at [`draw_findings`].

use crate::case_labels::distinct;
use crate::charts::{
    CaseCategory, ChartKind, ComparedSides, MAX_DRAWN_RUNS, MetricPanel, count_runs, forest_chart,
    forest_row, label_cases, metric_axis, metric_panels, not_a_trend, point_series,
};
use crate::comparison::shows_commands;
use crate::document::ReportChart;
use crate::figure::{better_direction, join_texts, unless_empty};
use crate::unit::{FigureScale, UnitChoice};
use anyhow::bail;
use speedwell_analysis::{
    AnalysisFindings, CandidateComparison, CaseSummary, ParameterStudy, StudyPoint,
};
use speedwell_model::{IntervalEstimate, Metric, ParameterValue, RunValue};
use speedwell_plot as plot;
use std::borrow::Cow;
use std::sync::Arc;

/// Draws charts of the given `kind` from `findings`. Without a kind, draws charts of the changes,
/// followed by charts of every run.
///
/// # Errors
/// Fails if `findings` have no chart of that kind.
pub fn draw_findings(
    findings: &AnalysisFindings,
    kind: Option<ChartKind>,
    unit: Option<UnitChoice>,
) -> anyhow::Result<Vec<ReportChart>> {
    let named = name_plainly(findings);
    let findings = &*named;
    let Some(kind) = kind else {
        let mut charts = draw_forests(&findings.comparisons);
        let changes = charts.len();
        if count_runs(findings) <= MAX_DRAWN_RUNS {
            charts.extend(draw_boxes(findings, unit));
        }
        // The change of a single pair is one row, which says less than the values of both sides.
        let is_single_case = findings.comparisons.iter().all(|found| found.rows.len() < 2);
        if shows_commands(findings) && is_single_case {
            charts.rotate_left(changes);
        }
        return Ok(charts);
    };
    let mut charts = match kind {
        ChartKind::Forest if findings.comparisons.is_empty() => {
            bail!("a forest chart shows changes, but there is nothing to compare")
        }
        ChartKind::Forest => draw_forests(&findings.comparisons),
        ChartKind::Box => draw_boxes(findings, unit),
        ChartKind::Bar => draw_bars(findings, unit),
        ChartKind::Histogram => draw_histograms(&findings.summaries, unit),
        ChartKind::Scatter => draw_in_order(&findings.summaries, unit),
        ChartKind::Flame => {
            bail!(
                "flame graphs need profiles, but none were recorded\nhint: measure with --profile"
            )
        }
        ChartKind::Line => bail!("a line chart needs a parameter study (--x-axis NAME)"),
        ChartKind::Trend => return Err(not_a_trend()),
    };
    // Show a requested chart even if other parts of the report show the same.
    for chart in &mut charts {
        chart.shown_elsewhere = false;
    }
    Ok(charts)
}

/// Renames variants that are only called `old` and `new` after their programs, and gives metrics
/// their plain names. A picture is often seen without the report that names the compared programs.
fn name_plainly(findings: &AnalysisFindings) -> Cow<'_, AnalysisFindings> {
    let has_median =
        findings.summaries.iter().any(|summary| summary.metric.name == Metric::TIME_MEDIAN);
    if findings.program_names.is_empty() && !has_median {
        return Cow::Borrowed(findings);
    }
    let mut named = findings.clone();
    let summarized = named.summaries.iter_mut().map(|summary| &mut summary.metric);
    let compared = named.comparisons.iter_mut().map(|comparison| &mut comparison.metric);
    for metric in summarized.chain(compared).filter(|_| has_median) {
        metric.name = metric.name_beside_median().to_owned();
    }
    for summary in &mut named.summaries {
        if let Some(name) = findings.program_names.get(&*summary.variant) {
            summary.variant = Arc::from(name.as_str());
        }
    }
    for CandidateComparison { baseline, candidate, .. } in &mut named.comparisons {
        for variant in [baseline, candidate] {
            if let Some(name) = findings.program_names.get(variant.as_str()) {
                variant.clone_from(name);
            }
        }
    }
    Cow::Owned(named)
}

/// Draws a forest chart for each comparison that has a change to show.
fn draw_forests(comparisons: &[CandidateComparison]) -> Vec<ReportChart> {
    let has_change =
        |comparison: &&CandidateComparison| comparison.rows.iter().any(|row| row.change.is_some());
    comparisons.iter().filter(has_change).map(draw_forest).collect()
}

fn draw_forest(comparison: &CandidateComparison) -> ReportChart {
    let cases: Vec<_> = comparison.rows.iter().map(|row| Arc::clone(&row.case)).collect();
    let (shared, names) = label_cases(&cases);
    let name_row = |(index, label): (usize, String)| {
        let row = &comparison.rows[index];
        let is_snippet = row.case.snippet_language().is_some();
        let name = if is_snippet { row.case.name_under(&comparison.candidate) } else { label };
        forest_row(row, name)
    };
    let rows = names.into_iter().filter_map(name_row).collect();
    let CandidateComparison { metric, baseline, candidate, .. } = comparison;
    let title = format!("{}: {candidate} against {baseline}", metric.name);
    forest_chart(comparison, title, Some(shared).filter(|shared| !shared.is_empty()), rows)
}

/// Draws a box chart per metric. Several cases of a comparison may differ by orders of magnitude.
/// Each is therefore drawn relative to its baseline, which keeps the boxes readable.
fn draw_boxes(findings: &AnalysisFindings, unit: Option<UnitChoice>) -> Vec<ReportChart> {
    let compared = ComparedSides::new(&findings.comparisons);
    let baseline = findings.comparisons.first().map(|first| &first.baseline);
    let draw = |panel: &MetricPanel<'_>| match baseline {
        Some(baseline) if panel.categories.len() > 1 => relative_boxes(panel, baseline, &compared),
        _ => absolute_boxes(panel, &compared),
    };
    metric_panels(&findings.summaries, unit).iter().map(draw).collect()
}

fn absolute_boxes(panel: &MetricPanel<'_>, compared: &ComparedSides) -> ReportChart {
    let shown = |stored: f64| panel.scale.to_shown(stored);
    let category = |category: &CaseCategory<'_>| box_category(category, compared, shown);
    let categories: Vec<_> = panel.categories.iter().map(category).collect();
    let values = categories.iter().flat_map(|c| &c.boxes).flat_map(|b| b.values.iter().copied());
    box_chart(panel, panel.value_axis(values), categories)
}

fn relative_boxes(
    panel: &MetricPanel<'_>,
    baseline: &str,
    compared: &ComparedSides,
) -> ReportChart {
    let category = |category: &CaseCategory<'_>| {
        let reference = category.variants.iter().find(|summary| *summary.variant == *baseline)?;
        let center = || reference.center.value;
        let reference = compared.side_estimate(reference).map_or_else(center, |side| side.value);
        Some(box_category(category, compared, |stored: f64| (stored / reference - 1.0) * 100.0))
    };
    let categories = panel.categories.iter().filter_map(category).collect();
    let Metric { name, better, .. } = panel.metric;
    let better = better_direction(*better);
    let label = format!("{name}, difference from {baseline} in % ({better})");
    box_chart(panel, plot::ChartAxis::linear(label), categories)
}

fn box_category(
    category: &CaseCategory<'_>,
    compared: &ComparedSides,
    convert: impl Fn(f64) -> f64,
) -> plot::BoxCategory {
    let series = |summary: &&CaseSummary| plot::BoxSeries {
        name: summary.variant.to_string(),
        values: summary.runs.iter().map(|run| convert(run.value)).collect(),
        center: compared.side_estimate(summary).map(|side| convert(side.value)),
    };
    plot::BoxCategory {
        label: category.label.clone(),
        boxes: category.variants.iter().map(series).collect(),
    }
}

fn box_chart(
    panel: &MetricPanel<'_>,
    value_axis: plot::ChartAxis,
    categories: Vec<plot::BoxCategory>,
) -> ReportChart {
    let (title, subtitle) = (format!("{}, every run", panel.metric.name), panel.subtitle());
    let chart = plot::BoxChart { title, subtitle, value_axis, categories };
    ReportChart { shown_elsewhere: true, ..ReportChart::from_picture(plot::AnyChart::Box(chart)) }
}

/// Draws a bar chart per metric. The bars show medians with their intervals, or the sides of a
/// comparison with the intervals of the changes.
pub fn draw_bars(findings: &AnalysisFindings, unit: Option<UnitChoice>) -> Vec<ReportChart> {
    let compared = ComparedSides::new(&findings.comparisons);
    let draw = |panel: &MetricPanel<'_>| bar_chart(panel, &compared);
    metric_panels(&findings.summaries, unit).iter().map(draw).collect()
}

fn bar_chart(panel: &MetricPanel<'_>, compared: &ComparedSides) -> ReportChart {
    let bar = |summary: &&CaseSummary| {
        let estimate = compared.side_estimate(summary).unwrap_or(summary.center);
        let interval_end = |end: f64| {
            let has_end = end != estimate.value && end.is_finite();
            has_end.then(|| panel.scale.to_shown(end))
        };
        plot::ChartBar {
            name: summary.variant.to_string(),
            value: panel.scale.to_shown(estimate.value),
            low: interval_end(estimate.low),
            high: interval_end(estimate.high),
        }
    };
    let category = |category: &CaseCategory<'_>| plot::BarCategory {
        label: category.label.clone(),
        bars: category.variants.iter().map(bar).collect(),
    };
    let categories: Vec<_> = panel.categories.iter().map(category).collect();
    let values = categories.iter().flat_map(|c| &c.bars).map(|bar| bar.value);
    let description = if compared.is_empty() {
        "medians with their intervals"
    } else {
        "with the intervals of the changes"
    };
    ReportChart::from_picture(plot::AnyChart::Bar(plot::BarChart {
        title: format!("{}, {description}", panel.metric.name),
        subtitle: panel.subtitle(),
        value_axis: panel.value_axis(values),
        categories,
    }))
}

/// Draws histograms. Each case has a panel, and each sheet shows up to [`MAX_PANELS_PER_SHEET`]
/// cases of one metric.
fn draw_histograms(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<ReportChart> {
    let draw = |panel: &MetricPanel<'_>| {
        let series = |name: &str, summary: Option<&&CaseSummary>| plot::HistogramSeries {
            name: name.to_owned(),
            values: summary.map_or(Vec::new(), |summary| panel.shown_values(summary)),
            counts: Vec::new(),
        };
        let title = format!("{}, distribution of the runs", panel.metric.name);
        let axes = [common_axis(panel), plot::ChartAxis::default()];
        draw_sheets(panel, &title, axes, &|category| {
            plot::GridMarks::Values(series_by_variant(panel, category, series))
        })
    };
    metric_panels(summaries, unit).iter().flat_map(draw).collect()
}

/// Draws values in the order of execution, which shows drift. Panels and sheets are arranged as in
/// [`draw_histograms`].
fn draw_in_order(summaries: &[CaseSummary], unit: Option<UnitChoice>) -> Vec<ReportChart> {
    let draw = |panel: &MetricPanel<'_>| {
        let point = |run: &RunValue| {
            plot::ChartPoint::new(f64::from(run.slot), panel.scale.to_shown(run.value))
        };
        let series = |name: &str, summary: Option<&&CaseSummary>| {
            let runs = summary.into_iter().flat_map(|summary| summary.runs.iter());
            point_series(name, runs.map(point))
        };
        let title = format!("{} in order of execution", panel.metric.name);
        let x = plot::ChartAxis::linear("position in the order of execution");
        draw_sheets(panel, &title, [x, common_axis(panel)], &|category| {
            plot::GridMarks::Points(series_by_variant(panel, category, series))
        })
    };
    metric_panels(summaries, unit).iter().flat_map(draw).collect()
}

/// Maximum number of panels on a sheet. More panels are hard to survey and do not fit on a screen.
const MAX_PANELS_PER_SHEET: usize = 24;

/// Draws the sheets of one metric. `marks` draws one case.
fn draw_sheets(
    panel: &MetricPanel<'_>,
    title: &str,
    axes: [plot::ChartAxis; 2],
    marks: &dyn Fn(&CaseCategory<'_>) -> plot::GridMarks,
) -> Vec<ReportChart> {
    let total = panel.categories.len();
    let sheet = |(index, cases): (usize, &[CaseCategory<'_>])| {
        let first = index * MAX_PANELS_PER_SHEET + 1;
        let last = first + cases.len() - 1;
        let title = if total > MAX_PANELS_PER_SHEET {
            format!("{title}, cases {first} to {last} of {total}")
        } else {
            title.to_owned()
        };
        ReportChart::from_picture(draw_sheet(panel, cases, (title, axes.clone()), marks))
    };
    panel.categories.chunks(MAX_PANELS_PER_SHEET).enumerate().map(sheet).collect()
}

/// Draws one sheet. A single case fills the whole sheet, without a panel.
fn draw_sheet(
    panel: &MetricPanel<'_>,
    cases: &[CaseCategory<'_>],
    (title, [x, y]): (String, [plot::ChartAxis; 2]),
    marks: &dyn Fn(&CaseCategory<'_>) -> plot::GridMarks,
) -> plot::AnyChart {
    let mut subtitle = panel.subtitle();
    if let [only] = cases {
        subtitle = Some(only.variants.first().map(|summary| summary.case.id()).unwrap_or_default());
        match marks(only) {
            plot::GridMarks::Points(series) => {
                let chart = plot::ScatterChart { title, subtitle, x, y, series };
                return plot::AnyChart::Scatter(chart);
            }
            plot::GridMarks::Values(series) => {
                let chart = plot::HistogramChart { title, subtitle, x, series };
                return plot::AnyChart::Histogram(chart);
            }
            plot::GridMarks::Sequence(_) => {}
        }
    }
    let case_panel =
        |case: &CaseCategory<'_>| plot::GridPanel { title: case.label.clone(), marks: marks(case) };
    let panels = cases.iter().map(case_panel).collect();
    plot::AnyChart::Grid(plot::GridChart { title, subtitle, x, y, panels })
}

/// Returns an axis that suits all cases. The axis is logarithmic if the values of a single case
/// require that. Differences between cases do not matter.
fn common_axis(panel: &MetricPanel<'_>) -> plot::ChartAxis {
    let values = |category: &CaseCategory<'_>| {
        category.variants.iter().flat_map(|summary| panel.shown_values(summary)).collect::<Vec<_>>()
    };
    let mut axes =
        panel.categories.iter().map(|category| panel.value_axis(values(category).into_iter()));
    let logarithmic = axes.find(|axis| axis.scale != plot::AxisScale::Linear);
    logarithmic.unwrap_or_else(|| panel.value_axis(std::iter::empty()))
}

/// Creates a series for each variant of the metric. A variant has the same position in every case,
/// so that it looks the same in all panels.
fn series_by_variant<S>(
    panel: &MetricPanel<'_>,
    category: &CaseCategory<'_>,
    series: impl Fn(&str, Option<&&CaseSummary>) -> S,
) -> Vec<S> {
    let summaries = panel.categories.iter().flat_map(|case| &case.variants);
    let names = distinct(summaries.map(|summary| &*summary.variant));
    let variant_series = |name: &str| {
        let mut variants = category.variants.iter();
        series(name, variants.find(|summary| *summary.variant == *name))
    };
    names.into_iter().map(variant_series).collect()
}

/// The runs of one variant.
#[derive(Debug, Clone, Copy)]
pub struct VariantLane<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The variant's runs, in order of execution.
    pub runs: &'a [RunValue],
    /// The compared value or, without a comparison, the median. A line is drawn at this value, and
    /// the unit of the axis is chosen to suit it.
    pub center: f64,
}

/// Draws every run of a case. `is_apart` means that the lanes were measured in different sessions.
/// Such lanes have no common order, so they are drawn one after the other.
pub fn draw_every_run(
    metric: &Metric,
    lanes: &[VariantLane<'_>],
    is_apart: bool,
    unit: Option<UnitChoice>,
) -> ReportChart {
    let centers: Vec<f64> = lanes.iter().map(|lane| lane.center).collect();
    let scale = FigureScale::fit_scale(&metric.unit, &centers, unit);
    let (positions, breaks) =
        if is_apart { sequential_positions(lanes) } else { common_positions(lanes) };
    let series = |(lane, positions): (&VariantLane<'_>, Vec<usize>)| {
        point_series(
            lane.variant,
            positions.into_iter().zip(lane.runs).map(|(position, run)| {
                plot::ChartPoint::new(position as f64, scale.to_shown(run.value))
            }),
        )
    };
    let series: Vec<_> = lanes.iter().zip(positions).map(series).collect();
    let values = series.iter().flat_map(|s| s.points.iter().map(|p| p.y));
    let x_label = if is_apart {
        "run (the sides were not measured together)"
    } else {
        "run, in order of execution"
    };
    ReportChart::new(
        format!("{} of every run", metric.plain_name()),
        plot::AnyChart::Runs(plot::RunsChart {
            title: String::new(),
            subtitle: None,
            x: plot::ChartAxis::linear(x_label),
            y: metric_axis(metric, &scale, values),
            series,
            breaks,
            centers: centers.into_iter().map(|center| Some(scale.to_shown(center))).collect(),
        }),
    )
}

/// First: positions on the bottom axis, by lane and run. Second: the borders between blocks, or
/// between lanes that are drawn one after the other.
type LanePositions = (Vec<Vec<usize>>, Vec<f64>);

fn common_positions(lanes: &[VariantLane<'_>]) -> LanePositions {
    let mut ordered: Vec<(u32, u32, usize, usize)> = Vec::new();
    for (lane, runs) in lanes.iter().enumerate() {
        let keyed_run = |(index, run): (usize, &RunValue)| (run.slot, run.block, lane, index);
        ordered.extend(runs.runs.iter().enumerate().map(keyed_run));
    }
    ordered.sort_unstable();
    let mut positions: Vec<Vec<usize>> = lanes.iter().map(|l| vec![0; l.runs.len()]).collect();
    for (order, &(_, _, lane, index)) in ordered.iter().enumerate() {
        positions[lane][index] = order + 1;
    }
    let new_block = |(index, neighbors): (usize, &[(u32, u32, usize, usize)])| {
        (neighbors[0].1 != neighbors[1].1).then_some(index as f64 + 1.5)
    };
    let breaks = ordered.windows(2).enumerate().filter_map(new_block).collect();
    (positions, breaks)
}

fn sequential_positions(lanes: &[VariantLane<'_>]) -> LanePositions {
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

// Draws charts of a parameter study. They show the metric over one parameter, with one line per
// value of another parameter.

struct StudyDrawing<'a> {
    study: &'a ParameterStudy,
    scale: FigureScale,
    /// The distinct x values in order of first appearance.
    x_values: Vec<&'a ParameterValue>,
    /// The distinct lines in order of first appearance.
    lines: Vec<&'a str>,
}

/// Draws the chart of a parameter study: by default, points with their intervals, joined by lines.
/// `log` makes the x axis logarithmic.
///
/// # Errors
/// Fails if a study has no chart of that kind.
pub fn draw_study(
    study: &ParameterStudy,
    kind: Option<ChartKind>,
    unit: Option<UnitChoice>,
    log: bool,
) -> anyhow::Result<ReportChart> {
    let drawing = StudyDrawing::new(study, unit);
    let (x, y) = (drawing.x_axis(log), drawing.y_axis());
    let title = format!("{} by {}", study.metric.plain_name(), study.x_axis);
    let subtitle = study_subtitle(study);
    let picture = match kind {
        None | Some(ChartKind::Line) => plot::AnyChart::Line(plot::LineChart {
            title,
            subtitle,
            x,
            y,
            series: drawing.line_series(),
            observations: drawing.run_points(),
            curves: 0,
        }),
        // Only the points' tooltips contain the intervals.
        Some(ChartKind::Scatter) => {
            let series = drawing.line_series();
            plot::AnyChart::Scatter(plot::ScatterChart { title, subtitle, x, y, series })
        }
        // A group of bars for each x value.
        Some(ChartKind::Bar) => {
            let categories = drawing.bar_categories();
            plot::AnyChart::Bar(plot::BarChart { title, subtitle, value_axis: y, categories })
        }
        Some(_) => bail!(
            "this chart cannot show a parameter study: supported charts are line, scatter and bar"
        ),
    };
    Ok(ReportChart::from_picture(picture))
}

fn study_subtitle(study: &ParameterStudy) -> Option<String> {
    let by = study.by.iter().map(|parameter| format!("one line per {parameter}"));
    let averaged = join_texts(", ", study.aggregated.iter().map(|other| &other.name));
    let mean = unless_empty(&*averaged, |names| format!("mean over {names}"));
    Some(join_texts("; ", by.chain([mean]))).filter(|text| !text.is_empty())
}

impl<'a> StudyDrawing<'a> {
    fn new(study: &'a ParameterStudy, unit: Option<UnitChoice>) -> StudyDrawing<'a> {
        let means = study.points.iter().map(|point| point.mean.value);
        let mut x_values: Vec<&ParameterValue> = Vec::new();
        for point in &study.points {
            if !x_values.contains(&&point.x) {
                x_values.push(&point.x);
            }
        }
        StudyDrawing {
            study,
            scale: FigureScale::typical_scale(&study.metric.unit, means, unit),
            x_values,
            lines: distinct(study.points.iter().map(|point| point.line.as_str())),
        }
    }

    /// Whether all x values are numbers. Otherwise, all x values are treated as names.
    fn is_numeric(&self) -> bool {
        self.x_values.iter().all(|x_value| x_value.as_number().is_some())
    }

    fn x_axis(&self, log: bool) -> plot::ChartAxis {
        let name = self.study.x_axis.clone();
        let is_power_of_ten = |x_value: &&ParameterValue| {
            let exponent = x_value.as_number().map_or(f64::NAN, f64::log10);
            (exponent - exponent.round()).abs() < 1e-9
        };
        match (self.is_numeric(), log) {
            (true, true) if self.x_values.iter().all(is_power_of_ten) => {
                plot::ChartAxis::log10(name)
            }
            (true, true) => plot::ChartAxis::log2(name),
            (true, false) => plot::ChartAxis::linear(name),
            _ => plot::ChartAxis::category(name, self.x_values.iter().map(|x| x.plain()).collect()),
        }
    }

    fn y_axis(&self) -> plot::ChartAxis {
        let values = self.study.points.iter().map(|point| self.scale.to_shown(point.mean.value));
        metric_axis(&self.study.metric, &self.scale, values)
    }

    /// Returns the position of a point on the bottom axis.
    fn x_position(&self, point: &StudyPoint) -> f64 {
        let position = || self.x_values.iter().position(|x| **x == point.x).map(|i| i as f64);
        let x = if self.is_numeric() { point.x.as_number() } else { position() };
        x.unwrap_or(f64::NAN)
    }

    fn shown_mean(&self, point: &StudyPoint) -> IntervalEstimate {
        point.mean.map(|stored| self.scale.to_shown(stored))
    }

    fn bar_categories(&self) -> Vec<plot::BarCategory> {
        let bar = |point: &StudyPoint| {
            let IntervalEstimate { value, low, high } = self.shown_mean(point);
            plot::ChartBar { name: point.line.clone(), value, low: Some(low), high: Some(high) }
        };
        let category = |x_value: &&ParameterValue| plot::BarCategory {
            label: format!("{}={x_value}", self.study.x_axis),
            bars: self.study.points.iter().filter(|point| point.x == **x_value).map(bar).collect(),
        };
        self.x_values.iter().map(category).collect()
    }

    fn line_points(&self, line: &str) -> impl Iterator<Item = &'a StudyPoint> {
        self.study.points.iter().filter(move |point| point.line == line)
    }

    fn line_series(&self) -> Vec<plot::PointSeries> {
        let point = |point: &StudyPoint| {
            let IntervalEstimate { value, low, high } = self.shown_mean(point);
            plot::ChartPoint::with_interval(self.x_position(point), value, low, high)
        };
        let series =
            |line: &&str| point_series((*line).to_owned(), self.line_points(line).map(point));
        self.lines.iter().map(series).collect()
    }

    /// Returns the runs behind the points of each line.
    fn run_points(&self) -> Vec<Vec<plot::ChartPoint>> {
        let runs = |point: &'a StudyPoint| {
            let shown = |value: &f64| {
                plot::ChartPoint::new(self.x_position(point), self.scale.to_shown(*value))
            };
            point.runs.iter().map(shown).collect::<Vec<_>>()
        };
        let points = |line: &&str| self.line_points(line).flat_map(runs).collect();
        self.lines.iter().map(points).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(slots: &[(u32, u32)]) -> Vec<RunValue> {
        let run = |&(slot, block): &(u32, u32)| RunValue { slot, block, value: f64::from(slot) };
        slots.iter().map(run).collect()
    }

    fn chart(old: &[(u32, u32)], new: &[(u32, u32)], apart: bool) -> plot::RunsChart {
        let (old, new) = (runs(old), runs(new));
        let lane = |variant, runs| VariantLane { variant, runs, center: 1.0 };
        let lanes = [lane("old", &old[..]), lane("new", &new[..])];
        match draw_every_run(&Metric::throughput(), &lanes, apart, None).picture {
            plot::AnyChart::Runs(chart) => chart,
            other => panic!("{other:?}"),
        }
    }

    fn places(chart: &plot::RunsChart) -> Vec<Vec<f64>> {
        let xs = |series: &plot::PointSeries| series.points.iter().map(|p| p.x).collect();
        chart.series.iter().map(xs).collect()
    }

    #[test]
    fn runs_of_one_session_are_shown_in_execution_order() {
        let chart = chart(&[(0, 0), (3, 0), (11, 1)], &[(1, 0), (2, 0), (10, 1)], false);
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
