//! A parameter study as a table: one block of rows per line, one row per x value, with the step from
//! the value before and the scaling exponents.

use super::output::Output;
use super::unit::Scale;
use crate::case_labels::{distinct, parameters};
use crate::charts;
use crate::document::{Block, Document};
use crate::figure::{count, direction, in_unit, probability, share, spell, uncertainty_of};
use crate::table::{Cell, Column, Columns, Emphasis, Footnotes, Name, Row, Table, number};
use serde_json::json;
use speedwell_analysis::{Study, StudyPoint, StudyStep};
use speedwell_model::{Case, Value};

/// The name of the table, for machines.
pub const TABLE: &str = "points";

/// Said of points whose mean is a poor summary.
const SKEWED: &str = "the runs of this point are skewed: the median tells more than the mean";

/// The report of a study. `log` draws the x axis so that doubling is always the same distance.
///
/// # Errors
/// A chart kind that a study does not have.
pub fn study(study: &Study, log: bool, output: &Output) -> anyhow::Result<Document> {
    let mut document = Document::new("study");
    document.push_warnings(&study.warnings);
    document.push(Block::Table(table(study, output)));
    if let Some(sentence) = aggregated(study) {
        document.push(Block::Paragraph(sentence));
    }
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Note(explanation(study)));
    });
    let chart = charts::of_study(study, output.chart, output.unit, log)?;
    document.push_charts([chart]);
    document.attach("exponents", exponents(study));
    Ok(document)
}

/// A point with the step that leads to it.
struct PointLine<'a> {
    study: &'a Study,
    point: &'a StudyPoint,
    step: Option<&'a StudyStep>,
    scale: Scale,
    mark: String,
}

impl PointLine<'_> {
    /// The bare spelling of `stored` with the digits of the mean.
    fn shown(&self, stored: f64) -> String {
        let mean = &self.point.mean;
        let place = self.scale.place(mean.value, uncertainty_of(mean));
        self.scale.bare(stored, place)
    }
}

fn table(study: &Study, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let means = study.points.iter().map(|point| point.mean.value);
    let scale = Scale::typical(&study.metric.unit, means, output.unit);
    let columns = columns(&study.x_axis);
    let mut rows = Vec::new();
    for name in distinct(study.points.iter().map(|point| point.line.as_str())) {
        if !name.is_empty() {
            rows.push(Row::Group(Name::plain(heading(study, name))));
        }
        for point in study.points.iter().filter(|point| point.line == name) {
            let line = PointLine {
                study,
                point,
                step: study
                    .steps
                    .iter()
                    .find(|step| step.line == name && step.to == point.x),
                scale: scale.clone(),
                mark: if point.skewed {
                    footnotes.mark(SKEWED)
                } else {
                    String::new()
                },
            };
            rows.push(columns.row(&line));
        }
    }
    Table {
        caption: vec![caption(study, &scale)],
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(TABLE, rows)
    }
}

fn caption(study: &Study, scale: &Scale) -> String {
    let metric = in_unit(&study.metric.name, &scale.symbol);
    let direction = direction(study.metric.better);
    format!("{metric} by {}, {direction}", study.x_axis)
}

fn heading(study: &Study, line: &str) -> String {
    let name = study
        .by
        .as_ref()
        .map_or(line.to_owned(), |by| format!("{by}={line}"));
    match exponent_of(study, line) {
        Some(exponent) => format!("{name}, exponent {}", spell(exponent, 2)),
        None => name,
    }
}

fn exponent_of(study: &Study, line: &str) -> Option<f64> {
    study
        .exponents
        .iter()
        .find(|(name, _)| name == line)
        .and_then(|(_, exponent)| *exponent)
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns("x").sort_keys()
}

fn columns<'a>(x_axis: &str) -> Columns<PointLine<'a>> {
    let mut columns = Columns::new();
    columns.add_value("metric", |line: &PointLine<'a>| {
        line.study.metric.name.clone()
    });
    columns.add_value("unit", |line| line.study.metric.unit.clone());
    columns.add_value("x_axis", |line| line.study.x_axis.clone());
    columns.add_known("by", |line| {
        line.study.by.clone().map(serde_json::Value::String)
    });
    columns.add_value("line", |line| line.point.line.clone());
    columns.add(Column::figure("x", x_axis), |line| {
        Cell::value(json_of(&line.point.x)).shown(line.point.x.to_string())
    });
    add_shown(&mut columns);
    add_step(&mut columns);
    columns.add(Column::figure("runs", "runs").expendable(2), |line| {
        Cell::count(line.point.runs.len() as u64)
    });
    columns.add(Column::figure("cases", "cases").expendable(3), |line| {
        let cell = Cell::count(line.point.cases as u64);
        // Without anything averaged over, every point is one case.
        if line.study.aggregated.is_empty() {
            cell.shown("")
        } else {
            cell
        }
    });
    columns.add_figure("mean", |line| Some(line.point.mean.value));
    columns.add_figure("mean_low", |line| Some(line.point.mean.low));
    columns.add_figure("mean_high", |line| Some(line.point.mean.high));
    columns.add_figure("median", |line| Some(line.point.median));
    columns.add_value("skewed", |line| line.point.skewed);
    columns
}

fn json_of(value: &Value) -> serde_json::Value {
    // A value has the same form here as among the parameters of a case.
    parameters(&Case::new("", vec![("x".into(), value.clone())]))["x"].clone()
}

fn add_shown(columns: &mut Columns<PointLine<'_>>) {
    columns.add(Column::figure("mean_shown", "mean").for_people(), |line| {
        Cell::shown_figure(Some(line.point.mean.value), |mean| line.shown(mean))
            .emphasised(Emphasis::Strong)
    });
    columns.add_text(Column::figure("interval_shown", "interval"), |line| {
        let mean = &line.point.mean;
        if mean.low == mean.high {
            return String::new();
        }
        format!("[{}, {}]", line.shown(mean.low), line.shown(mean.high))
    });
    columns.add_text(Column::figure("median_shown", "median"), |line| {
        line.shown(line.point.median)
    });
    columns.add_text(Column::words("mark", ""), |line| line.mark.clone());
}

/// From the x value before to this one.
fn add_step(columns: &mut Columns<PointLine<'_>>) {
    columns.add(Column::figure("step_ratio", "step"), |line| {
        Cell::shown_figure(line.step.map(|step| step.ratio), |ratio| {
            format!("×{ratio:.2}")
        })
    });
    columns.add(Column::figure("step_exponent", "exponent"), |line| {
        let exponent = line.step.and_then(|step| step.exponent);
        Cell::shown_figure(exponent, |exponent| spell(exponent, 2))
    });
    columns.add(Column::figure("step_p", "p").expendable(1), |line| {
        Cell::shown_figure(line.step.and_then(|step| step.p), probability)
    });
    columns.add_figure("step_cliffs_delta", |line| line.step?.cliffs_delta);
}

fn aggregated(study: &Study) -> Option<String> {
    let word = |one: &speedwell_analysis::Aggregated| match one.explained {
        Some(explained) => format!("{} ({} of the variance)", one.name, share(explained)),
        None => one.name.clone(),
    };
    let names: Vec<_> = study.aggregated.iter().map(word).collect();
    let parameters = count(names.len(), "parameter", "parameters");
    (!names.is_empty()).then(|| {
        format!(
            "Every point is a mean over {parameters}: {}.",
            names.join(", ")
        )
    })
}

fn explanation(study: &Study) -> String {
    let x = &study.x_axis;
    format!(
        "step: mean divided by that of the {x} before; p: Mann-Whitney U test of that step; \
         exponent e: the metric goes with {x}^e{}.",
        exponent_of(study, "")
            .map(|e| format!(", over all points {}", spell(e, 2)))
            .unwrap_or_default()
    )
}

fn exponents(study: &Study) -> serde_json::Value {
    let one = |(line, exponent): &(String, Option<f64>)| json!({"line": line, "exponent": exponent.and_then(number)});
    study.exponents.iter().map(one).collect()
}
