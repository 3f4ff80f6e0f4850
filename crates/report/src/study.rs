//! A parameter study as a table: one block of rows per line, one row per x value, with the step from
//! the value before and the scaling exponents.

use super::output::{Output, Verbosity};
use super::unit::Scale;
use crate::case_labels::parameters;
use crate::charts;
use crate::document::{Block, Document, Emphasis};
use crate::figure::{count, direction, in_unit, probability, share, spell, uncertainty_of};
use crate::table::{Cell, Column, Field, Footnotes, Kind, Name, Row, Table, keys, number, row_of};
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
    for warning in &study.warnings {
        document.push(Block::Warning(warning.clone()));
    }
    document.push(Block::Table(table(study, output)));
    if let Some(sentence) = aggregated(study) {
        document.push(Block::Paragraph(sentence));
    }
    if output.verbosity != Verbosity::Quiet {
        document.push(Block::Note(explanation(study)));
    }
    let chart = charts::of_study(study, output.chart, output.unit, log)?;
    document.push(Block::Chart(Box::new(chart)));
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

fn table(study: &Study, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let means = study.points.iter().map(|point| point.mean.value);
    let scale = Scale::typical(&study.metric.unit, means, output.unit);
    let fields = fields(&study.x_axis);
    let mut rows = Vec::new();
    for name in lines(study) {
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
            rows.push(row_of(&fields, &line));
        }
    }
    Table {
        caption: vec![caption(study, &scale)],
        columns: fields.into_iter().map(|field| field.column).collect(),
        rows,
        footnotes: footnotes.into_texts(),
        ..Table::new(TABLE)
    }
}

fn caption(study: &Study, scale: &Scale) -> String {
    let metric = in_unit(&study.metric.name, &scale.symbol);
    let direction = direction(study.metric.better);
    format!("{metric} by {}, {direction}", study.x_axis)
}

fn lines(study: &Study) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    for point in &study.points {
        if !lines.contains(&point.line.as_str()) {
            lines.push(&point.line);
        }
    }
    lines
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
    keys(&fields("x"))
}

fn fields<'a>(x_axis: &str) -> Vec<Field<PointLine<'a>>> {
    let mut fields = identity(x_axis);
    fields.extend(shown());
    fields.extend(step());
    fields.extend(figures());
    fields
}

fn json_of(value: &Value) -> serde_json::Value {
    // A value has the same form here as among the parameters of a case.
    parameters(&Case::new("", vec![("x".into(), value.clone())]))["x"].clone()
}

fn identity<'a>(x_axis: &str) -> Vec<Field<PointLine<'a>>> {
    let x = Column::new("x", x_axis, Kind::Figure);
    vec![
        Field::machine("metric", |line: &PointLine<'a>| {
            Cell::value(line.study.metric.name.clone())
        }),
        Field::machine("unit", |line: &PointLine<'_>| {
            Cell::value(line.study.metric.unit.clone())
        }),
        Field::machine("x_axis", |line: &PointLine<'_>| {
            Cell::value(line.study.x_axis.clone())
        }),
        Field::machine("by", |line: &PointLine<'_>| Cell {
            value: line.study.by.clone().map(serde_json::Value::String),
            ..Cell::default()
        }),
        Field::machine("line", |line: &PointLine<'_>| {
            Cell::value(line.point.line.clone())
        }),
        Field::new(x, |line: &PointLine<'_>| {
            Cell::value(json_of(&line.point.x)).shown(line.point.x.to_string())
        }),
    ]
}

fn shown<'a>() -> Vec<Field<PointLine<'a>>> {
    let place = |line: &PointLine<'_>| {
        line.scale
            .place(line.point.mean.value, uncertainty_of(&line.point.mean))
    };
    let mean = Column::new("mean_shown", "mean", Kind::Figure).for_people();
    vec![
        Field::new(mean, move |line: &PointLine<'a>| {
            Cell::figure(Some(line.point.mean.value))
                .shown(line.scale.bare(line.point.mean.value, place(line)))
                .emphasised(Emphasis::Strong)
        }),
        Field::people(
            "interval_shown",
            "interval",
            Kind::Figure,
            move |line: &PointLine<'_>| {
                let mean = &line.point.mean;
                if mean.low == mean.high {
                    return String::new();
                }
                let end = |end| line.scale.bare(end, place(line));
                format!("[{}, {}]", end(mean.low), end(mean.high))
            },
        ),
        Field::people(
            "median_shown",
            "median",
            Kind::Figure,
            move |line: &PointLine<'_>| line.scale.bare(line.point.median, place(line)),
        ),
        Field::people("mark", "", Kind::Words, |line: &PointLine<'_>| {
            line.mark.clone()
        }),
    ]
}

/// From the x value before to this one.
fn step<'a>() -> Vec<Field<PointLine<'a>>> {
    let told = |figure: Option<f64>, text: fn(f64) -> String| {
        Cell::figure(figure).shown(figure.map(text).unwrap_or_default())
    };
    vec![
        Field::new(
            Column::new("step_ratio", "step", Kind::Figure),
            move |line: &PointLine<'a>| {
                told(line.step.map(|step| step.ratio), |ratio| {
                    format!("×{ratio:.2}")
                })
            },
        ),
        Field::new(
            Column::new("step_exponent", "exponent", Kind::Figure),
            move |line: &PointLine<'_>| {
                told(line.step.and_then(|step| step.exponent), |exponent| {
                    spell(exponent, 2)
                })
            },
        ),
        Field::new(
            Column::new("step_p", "p", Kind::Figure).expendable(1),
            move |line: &PointLine<'_>| told(line.step.and_then(|step| step.p), probability),
        ),
        Field::machine("step_cliffs_delta", |line: &PointLine<'_>| {
            Cell::figure(line.step.and_then(|step| step.cliffs_delta))
        }),
    ]
}

/// Counts, and every figure with all its digits.
fn figures<'a>() -> Vec<Field<PointLine<'a>>> {
    let counted = |number: usize| Cell::figure(Some(number as f64)).shown(number.to_string());
    vec![
        Field::new(
            Column::new("runs", "runs", Kind::Figure).expendable(2),
            move |line: &PointLine<'a>| counted(line.point.runs.len()),
        ),
        Field::new(
            Column::new("cases", "cases", Kind::Figure).expendable(3),
            move |line: &PointLine<'_>| {
                let cell = counted(line.point.cases);
                // Without anything averaged over, every point is one case.
                if line.study.aggregated.is_empty() {
                    cell.shown("")
                } else {
                    cell
                }
            },
        ),
        Field::machine("mean", |line: &PointLine<'_>| {
            Cell::figure(Some(line.point.mean.value))
        }),
        Field::machine("mean_low", |line: &PointLine<'_>| {
            Cell::figure(Some(line.point.mean.low))
        }),
        Field::machine("mean_high", |line: &PointLine<'_>| {
            Cell::figure(Some(line.point.mean.high))
        }),
        Field::machine("median", |line: &PointLine<'_>| {
            Cell::figure(Some(line.point.median))
        }),
        Field::machine("skewed", |line: &PointLine<'_>| {
            Cell::value(line.point.skewed)
        }),
    ]
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
