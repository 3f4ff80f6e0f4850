//! Reports parameter studies as tables. A line (one curve of the chart) is a group of rows, whose
//! heading shows the line's scaling exponent. Each x value is a row, with the step from the
//! previous x value.

use super::output::OutputOptions;
use super::unit::FigureScale;
use crate::case_labels::{distinct, parameter_json};
use crate::charts;
use crate::document::{Document, ReportBlock};
use crate::figure::{
    better_direction, format_count, format_number, format_probability, format_share, join_texts,
    name_in_unit, uncertainty_of,
};
use crate::table::{
    ColumnSet, ReportCell, ReportRow, ReportTable, RowName, TableFootnotes, TextEmphasis,
    column_set, json_number,
};
use serde_json::json;
use speedwell_analysis::{AggregatedParameter, ParameterStudy, StudyPoint, StudyStep};

/// The machine-readable name of the table.
const POINTS_TABLE: &str = "points";

/// Maximum number of lines that each get a sentence above the table.
const MAX_HEADLINES: usize = 4;

/// The footnote for points whose mean is a poor summary.
const SKEWED_NOTE: &str =
    "the runs of this point are skewed: the median is a better summary than the mean";

/// Reports a study. `log` makes the x axis logarithmic.
///
/// # Errors
/// Fails if a study has no chart of the requested kind.
pub fn report_study(
    study: &ParameterStudy,
    log: bool,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let mut document = Document::new("study");
    document.push_warnings(&study.warnings);
    let lines = distinct(study.points.iter().map(|point| point.line.as_str()));
    let first_lines = lines.iter().take(MAX_HEADLINES);
    let headlines = first_lines.filter_map(|line| line_headline(study, line, output));
    document.extend(headlines.map(ReportBlock::Headline));
    document.push_table(study_table(study, output));
    document.extend(aggregated_note(study).map(ReportBlock::Paragraph));
    output.add_detail(&mut document, |_, document| document.push_note(study_note(study)));
    document.push_charts([charts::draw_study(study, output.chart, output.unit, log)?]);
    let exponent = |(line, exponent): &(String, Option<f64>)| json!({ "line": line, "exponent": exponent.and_then(json_number) });
    document.attach_data("exponents", study.exponents.iter().map(exponent).collect());
    Ok(document)
}

/// Returns the answer for a line, such as `n 1000 to 4000: time 10.1 ms to 29.3 ms (×2.90); scales
/// with n^0.77, in the last step n^1.53.` Returns `None` for a single point.
fn line_headline(study: &ParameterStudy, line: &str, output: &OutputOptions) -> Option<String> {
    let mut points = study.points.iter().filter(|point| point.line == line);
    let (first, last) = (points.next()?, points.next_back()?);
    let [from, to] = [first, last].map(|point| format_mean(study, point, output));
    let (x, metric) = (&study.x_axis, study.metric.plain_name());
    let ratio = last.mean.value / first.mean.value;
    let factor = if ratio.is_finite() { format!(" (×{ratio:.2})") } else { String::new() };
    let power = |exponent: f64| format!("{x}^{}", format_number(exponent, 2));
    let growth = exponent_of(study, line).map_or(String::new(), |exponent| {
        let step_exponent = last_exponent(study, line);
        let last_step = step_exponent.map(|step| format!(", in the last step {}", power(step)));
        format!("; scales with {}{}", power(exponent), last_step.unwrap_or_default())
    });
    let parameter = study.by.as_ref().filter(|_| !line.is_empty());
    let name = parameter.map_or(String::new(), |by| format!("{by}={line}: "));
    let (begin, end) = (&first.x, &last.x);
    Some(format!("{name}{x} {begin} to {end}: {metric} {from} to {to}{factor}{growth}."))
}

/// Formats the mean of a point with its unit.
fn format_mean(study: &ParameterStudy, point: &StudyPoint, output: &OutputOptions) -> String {
    let mean = &point.mean;
    let scale = FigureScale::fit_scale(&study.metric.unit, &[mean.value], output.unit);
    scale.format_rounded(mean.value, uncertainty_of(mean))
}

/// Returns the exponent of the last step of a line with several steps.
fn last_exponent(study: &ParameterStudy, line: &str) -> Option<f64> {
    let mut steps = study.steps.iter().filter(|step| step.line == line);
    if steps.clone().count() < 2 { None } else { steps.next_back()?.exponent }
}

/// A point with the step from the previous point.
pub(crate) struct PointLine<'a> {
    study: &'a ParameterStudy,
    point: &'a StudyPoint,
    step: Option<&'a StudyStep>,
    scale: FigureScale,
    mark: String,
}

impl PointLine<'_> {
    /// Formats `stored` with the precision of the point's mean, without the unit.
    fn format_shown(&self, stored: f64) -> String {
        let mean = &self.point.mean;
        let place = self.scale.rounding_place(mean.value, uncertainty_of(mean));
        self.scale.format_bare(stored, place)
    }

    fn mean_cell(&self) -> ReportCell {
        ReportCell::shown_figure(self.point.mean.value, |mean| self.format_shown(mean))
            .with_emphasis(TextEmphasis::Strong)
    }

    /// Formats the interval of the mean. Empty without an interval.
    fn interval_text(&self) -> String {
        let mean = &self.point.mean;
        if mean.low == mean.high {
            return String::new();
        }
        format!("[{}, {}]", self.format_shown(mean.low), self.format_shown(mean.high))
    }
}

fn study_table(study: &ParameterStudy, output: &OutputOptions) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let means = study.points.iter().map(|point| point.mean.value);
    let scale = FigureScale::typical_scale(&study.metric.unit, means, output.unit);
    let columns = point_columns(&study.x_axis);
    let mut rows = Vec::new();
    for name in distinct(study.points.iter().map(|point| point.line.as_str())) {
        if !name.is_empty() {
            rows.push(ReportRow::Group(RowName::plain(line_heading(study, name))));
        }
        for point in study.points.iter().filter(|point| point.line == name) {
            let mark = point.is_skewed.then(|| footnotes.footnote_mark(SKEWED_NOTE));
            let line = PointLine {
                study,
                point,
                step: study.steps.iter().find(|step| step.line == name && step.to == point.x),
                scale: scale.clone(),
                mark: mark.unwrap_or_default(),
            };
            rows.push(columns.build_row(&line));
        }
    }
    let metric = name_in_unit(study.metric.plain_name(), &scale.symbol);
    let direction = better_direction(study.metric.better);
    ReportTable {
        caption: vec![format!("{metric} by {}, {direction}", study.x_axis)],
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(POINTS_TABLE, rows)
    }
}

fn line_heading(study: &ParameterStudy, line: &str) -> String {
    let name = study.by.as_ref().map_or(line.to_owned(), |by| format!("{by}={line}"));
    match exponent_of(study, line) {
        Some(exponent) => format!("{name}, exponent {}", format_number(exponent, 2)),
        None => name,
    }
}

fn exponent_of(study: &ParameterStudy, line: &str) -> Option<f64> {
    study.exponents.iter().find(|(name, _)| name == line).and_then(|(_, exponent)| *exponent)
}

/// The columns of the table.
pub(crate) fn point_columns<'a>(x_axis: &str) -> ColumnSet<PointLine<'a>> {
    column_set! { line: PointLine<'a>;
        machine("metric") => &line.study.metric.name,
        machine("unit") => &line.study.metric.unit,
        machine("x_axis") => &line.study.x_axis,
        machine("by") => line.study.by.as_ref(),
        machine("line") => &line.point.line,
        figure("x", x_axis) =>
            ReportCell::from(parameter_json(&line.point.x)).with_text(line.point.x.to_string()),
        figure("mean_shown", "mean").for_people() => line.mean_cell(),
        figure("interval_shown", "interval").for_people() => ReportCell::text(line.interval_text()),
        figure("median_shown", "median").for_people() =>
            ReportCell::text(line.format_shown(line.point.median)),
        words("mark", "").for_people() => ReportCell::text(&line.mark),
        figure("step_ratio", "step") =>
            ReportCell::shown_figure(line.step.map(|step| step.ratio), |r| format!("×{r:.2}")),
        figure("step_exponent", "exponent") =>
            ReportCell::shown_figure(line.step.and_then(|step| step.exponent), |exponent| {
                format_number(exponent, 2)
            }),
        figure("step_p", "p").expendable(1) =>
            ReportCell::shown_figure(line.step.and_then(|step| step.p), format_probability),
        machine("step_cliffs_delta") => line.step.and_then(|step| step.cliffs_delta),
        figure("runs", "runs").expendable(2) => line.point.runs.len(),
        // If the study averages over no parameter, every point is one case. The number of cases is
        // then not informative.
        figure("cases", "cases").expendable(3) =>
            ReportCell::from(line.point.cases).shown_if(!line.study.aggregated.is_empty()),
        machine("mean") => line.point.mean.value,
        machine("mean_low") => line.point.mean.low,
        machine("mean_high") => line.point.mean.high,
        machine("median") => line.point.median,
        machine("skewed") => line.point.is_skewed,
    }
}

fn aggregated_note(study: &ParameterStudy) -> Option<String> {
    let describe = |AggregatedParameter { name, explained }: &AggregatedParameter| match explained {
        Some(explained) => format!("{name} ({} of the variance)", format_share(*explained)),
        None => name.clone(),
    };
    let names = join_texts(", ", study.aggregated.iter().map(describe));
    let parameters = format_count(study.aggregated.len(), "parameter", "parameters");
    (!names.is_empty()).then(|| format!("Every point is a mean over {parameters}: {names}."))
}

fn study_note(study: &ParameterStudy) -> String {
    let x = &study.x_axis;
    format!(
        "mean, median: over the runs of a point; step: mean divided by the mean at the previous \
         {x}; p: Mann-Whitney U test of that step; exponent e: the metric scales with {x}^e.",
    )
}
