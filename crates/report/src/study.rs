//! Reports parameter studies as tables. A line (one curve of the chart) is a group of rows, whose
//! heading shows the line's scaling exponent. Each x value is a row, with the step from the
//! previous x value.

use super::output::OutputOptions;
use super::unit::FigureScale;
use crate::case_labels::{distinct, parameters_json};
use crate::charts;
use crate::document::{Document, ReportBlock};
use crate::figure::{
    better_direction, format_count, format_number, format_probability, format_share, name_in_unit,
    uncertainty_of,
};
use crate::table::{
    ColumnSet, ReportCell, ReportColumn, ReportRow, ReportTable, RowName, TableFootnotes,
    TextEmphasis, json_number,
};
use serde_json::json;
use speedwell_analysis::{ParameterStudy, StudyPoint, StudyStep};
use speedwell_model::{Case, ParameterValue};

/// The machine-readable name of the table.
pub const POINTS_TABLE: &str = "points";

/// The footnote for points whose mean is a poor summary.
const SKEWED_NOTE: &str = "the runs of this point are skewed: the median says more than the mean";

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
    document.push(ReportBlock::Table(study_table(study, output)));
    if let Some(sentence) = aggregated_note(study) {
        document.push(ReportBlock::Paragraph(sentence));
    }
    output.add_detail(&mut document, |_, document| {
        document.push(ReportBlock::Note(study_note(study)));
    });
    let chart = charts::draw_study(study, output.chart, output.unit, log)?;
    document.push_charts([chart]);
    document.attach_data("exponents", exponents_data(study));
    Ok(document)
}

/// A point with the step from the previous point.
struct PointLine<'a> {
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
            let line = PointLine {
                study,
                point,
                step: study.steps.iter().find(|step| step.line == name && step.to == point.x),
                scale: scale.clone(),
                mark: if point.is_skewed {
                    footnotes.footnote_mark(SKEWED_NOTE)
                } else {
                    String::new()
                },
            };
            rows.push(columns.build_row(&line));
        }
    }
    ReportTable {
        caption: vec![study_caption(study, &scale)],
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(POINTS_TABLE, rows)
    }
}

fn study_caption(study: &ParameterStudy, scale: &FigureScale) -> String {
    let metric = name_in_unit(&study.metric.name, &scale.symbol);
    let direction = better_direction(study.metric.better);
    format!("{metric} by {}, {direction}", study.x_axis)
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

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    point_columns("x").sort_keys()
}

fn point_columns<'a>(x_axis: &str) -> ColumnSet<PointLine<'a>> {
    let mut columns = ColumnSet::new();
    columns.add_value("metric", |line: &PointLine<'a>| line.study.metric.name.clone());
    columns.add_value("unit", |line| line.study.metric.unit.clone());
    columns.add_value("x_axis", |line| line.study.x_axis.clone());
    columns.add_known("by", |line| line.study.by.clone().map(serde_json::Value::String));
    columns.add_value("line", |line| line.point.line.clone());
    columns.add_column(ReportColumn::figure("x", x_axis), |line| {
        ReportCell::value(json_of(&line.point.x)).with_text(line.point.x.to_string())
    });
    add_shown(&mut columns);
    add_step(&mut columns);
    columns.add_column(ReportColumn::figure("runs", "runs").expendable(2), |line| {
        ReportCell::count(line.point.runs.len() as u64)
    });
    columns.add_column(ReportColumn::figure("cases", "cases").expendable(3), |line| {
        let cell = ReportCell::count(line.point.cases as u64);
        // If the study averages over no parameter, every point is one case. The number of cases
        // is then not informative.
        if line.study.aggregated.is_empty() { cell.with_text("") } else { cell }
    });
    columns.add_figure("mean", |line| Some(line.point.mean.value));
    columns.add_figure("mean_low", |line| Some(line.point.mean.low));
    columns.add_figure("mean_high", |line| Some(line.point.mean.high));
    columns.add_figure("median", |line| Some(line.point.median));
    columns.add_value("skewed", |line| line.point.is_skewed);
    columns
}

fn json_of(value: &ParameterValue) -> serde_json::Value {
    // Values have the same form here as in the parameters of a case.
    parameters_json(&Case::new("", vec![("x".into(), value.clone())]))["x"].clone()
}

fn add_shown(columns: &mut ColumnSet<PointLine<'_>>) {
    columns.add_column(ReportColumn::figure("mean_shown", "mean").for_people(), |line| {
        ReportCell::shown_figure(Some(line.point.mean.value), |mean| line.format_shown(mean))
            .with_emphasis(TextEmphasis::Strong)
    });
    columns.add_text(ReportColumn::figure("interval_shown", "interval"), |line| {
        let mean = &line.point.mean;
        if mean.low == mean.high {
            return String::new();
        }
        format!("[{}, {}]", line.format_shown(mean.low), line.format_shown(mean.high))
    });
    columns.add_text(ReportColumn::figure("median_shown", "median"), |line| {
        line.format_shown(line.point.median)
    });
    columns.add_text(ReportColumn::words("mark", ""), |line| line.mark.clone());
}

/// Adds the step from the previous x value.
fn add_step(columns: &mut ColumnSet<PointLine<'_>>) {
    columns.add_column(ReportColumn::figure("step_ratio", "step"), |line| {
        ReportCell::shown_figure(line.step.map(|step| step.ratio), |ratio| format!("×{ratio:.2}"))
    });
    columns.add_column(ReportColumn::figure("step_exponent", "exponent"), |line| {
        let exponent = line.step.and_then(|step| step.exponent);
        ReportCell::shown_figure(exponent, |exponent| format_number(exponent, 2))
    });
    columns.add_column(ReportColumn::figure("step_p", "p").expendable(1), |line| {
        ReportCell::shown_figure(line.step.and_then(|step| step.p), format_probability)
    });
    columns.add_figure("step_cliffs_delta", |line| line.step?.cliffs_delta);
}

fn aggregated_note(study: &ParameterStudy) -> Option<String> {
    let describe = |parameter: &speedwell_analysis::AggregatedParameter| match parameter.explained {
        Some(explained) => {
            format!("{} ({} of the variance)", parameter.name, format_share(explained))
        }
        None => parameter.name.clone(),
    };
    let names: Vec<_> = study.aggregated.iter().map(describe).collect();
    let parameters = format_count(names.len(), "parameter", "parameters");
    (!names.is_empty())
        .then(|| format!("Every point is a mean over {parameters}: {}.", names.join(", ")))
}

fn study_note(study: &ParameterStudy) -> String {
    let x = &study.x_axis;
    format!(
        "step: mean divided by the mean at the previous {x}; p: Mann-Whitney U test of that step; \
         exponent e: the metric scales with {x}^e{}.",
        exponent_of(study, "")
            .map(|e| format!("; e over all points is {}", format_number(e, 2)))
            .unwrap_or_default()
    )
}

fn exponents_data(study: &ParameterStudy) -> serde_json::Value {
    let exponent_entry = |(line, exponent): &(String, Option<f64>)| {
        json!({
            "line": line,
            "exponent": exponent.and_then(json_number),
        })
    };
    study.exponents.iter().map(exponent_entry).collect()
}
