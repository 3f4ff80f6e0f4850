//! The columns of the summary, for people and for machines.

use super::line::{Line, shown};
use crate::case_fields::{CaseMetric, case_fields, slots, values};
use crate::digits::{spell, spell_signed};
use crate::document::Emphasis;
use crate::field::Field;
use crate::output::Verbosity;
use crate::quantity::share;
use crate::table::{Cell, Column, Kind};
use speedwell_analysis::CaseSummary;

type Fields<'a> = Vec<Field<Line<'a>>>;

/// All columns; `names` is the heading of the rows' names.
pub fn fields<'a>(names: &str, verbosity: Verbosity) -> Fields<'a> {
    let names = Column::new("case", names, Kind::Label);
    let mut fields = vec![Field::new(names, |line: &Line<'_>| {
        Cell::value(line.summary.case.id()).named(&line.name)
    })];
    fields.extend(case_fields(|line: &Line<'a>| CaseMetric {
        case: &line.summary.case,
        metric: &line.summary.metric,
    }));
    fields.extend(centre());
    fields.extend(spread());
    if verbosity == Verbosity::Verbose {
        fields.extend(more());
    }
    fields.push(Field::people(
        "marks",
        "",
        Kind::Words,
        |line: &Line<'_>| line.marks.clone(),
    ));
    fields.extend(figures());
    fields
}

fn expendable<'a>(mut field: Field<Line<'a>>, order: u8) -> Field<Line<'a>> {
    field.column.expendable = order;
    field
}

/// The figure itself.
fn centre<'a>() -> Fields<'a> {
    vec![
        Field::new(
            Column::new("variant", "variant", Kind::Words),
            |line: &Line<'_>| {
                Cell::value(line.summary.variant.to_string()).shown(line.variant.clone())
            },
        ),
        Field::new(
            Column::new("median_shown", "median", Kind::Figure).for_people(),
            |line: &Line<'_>| {
                let median = line.summary.center.value;
                Cell::figure(Some(median))
                    .shown(shown(line, median))
                    .emphasised(Emphasis::Strong)
            },
        ),
        Field::people("unit_shown", "unit", Kind::Words, |line: &Line<'_>| {
            line.unit.clone()
        }),
        figured(
            "interval_shown",
            "interval",
            |s| Some(s.center.low),
            interval,
        ),
    ]
}

fn interval(line: &Line<'_>) -> String {
    let center = &line.summary.center;
    if center.low == center.high {
        return String::new();
    }
    format!(
        "[{}, {}]",
        shown(line, center.low),
        shown(line, center.high)
    )
}

/// How much the runs differ.
fn spread<'a>() -> Fields<'a> {
    vec![
        figured(
            "cv_shown",
            "CV",
            |s| s.variation,
            |line| line.summary.variation.map(share).unwrap_or_default(),
        ),
        expendable(figured("range_shown", "min … max", least, range), 3),
        expendable(time(), 2),
        expendable(
            figured("runs_shown", "runs", runs, |line| line.runs.clone()),
            1,
        ),
        expendable(
            figured(
                "outliers_shown",
                "outliers",
                |s| Some(s.outliers.len() as f64),
                outliers,
            ),
            5,
        ),
    ]
}

/// A column for people whose rows can be sorted by a figure.
fn figured<'a>(
    key: &'static str,
    header: &str,
    figure: fn(&CaseSummary) -> Option<f64>,
    text: fn(&Line<'_>) -> String,
) -> Field<Line<'a>> {
    let column = Column::new(key, header, Kind::Figure).for_people();
    Field::new(column, move |line: &Line<'_>| {
        Cell::figure(figure(line.summary)).shown(text(line))
    })
}

fn time<'a>() -> Field<Line<'a>> {
    let column = Column::new("time", "time", Kind::Figure).for_people();
    Field::new(column, |line: &Line<'_>| match &line.time {
        Some((time_ns, text)) => Cell::figure(Some(*time_ns)).shown(text),
        None => Cell::default(),
    })
}

fn runs(summary: &CaseSummary) -> Option<f64> {
    Some(summary.runs.len() as f64)
}

fn range(line: &Line<'_>) -> String {
    match (least(line.summary), most(line.summary)) {
        (Some(min), Some(max)) if line.summary.runs.len() > 1 => {
            format!("{} … {}", shown(line, min), shown(line, max))
        }
        _ => String::new(),
    }
}

fn outliers(line: &Line<'_>) -> String {
    match line.summary.outliers.len() {
        0 => String::new(),
        number => spell(number as f64, 0),
    }
}

fn least(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::min)
}

fn most(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::max)
}

/// For those who ask for more.
fn more<'a>() -> Fields<'a> {
    let correlation = |line: &Line<'_>| {
        line.summary
            .autocorrelation
            .map(|r| spell_signed(r, 2))
            .unwrap_or_default()
    };
    let mean = figured(
        "mean_shown",
        "mean",
        |s| Some(s.mean),
        |line| shown(line, line.summary.mean),
    );
    let r1 = figured(
        "r1_shown",
        "autocorrelation",
        |s| s.autocorrelation,
        correlation,
    );
    vec![expendable(mean, 6), expendable(r1, 7)]
}

/// Every figure with all its digits, for machines.
fn figures<'a>() -> Fields<'a> {
    let mut fields: Fields<'a> = vec![
        figure("runs", runs),
        figure("median", |summary| Some(summary.center.value)),
        figure("median_low", |summary| known(summary, summary.center.low)),
        figure("median_high", |summary| known(summary, summary.center.high)),
        figure("mean", |summary| Some(summary.mean)),
        figure("variation", |summary| summary.variation),
        figure("min", least),
        figure("max", most),
        figure("autocorrelation", |summary| summary.autocorrelation),
        figure("outliers", |summary| Some(summary.outliers.len() as f64)),
    ];
    fields.push(Field::machine("notes", |line: &Line<'_>| {
        Cell::value(line.summary.notes.join(" "))
    }));
    fields.push(Field::machine("values", |line: &Line<'_>| {
        Cell::value(values(&line.summary.runs))
    }));
    fields.push(Field::machine("slots", |line: &Line<'_>| {
        Cell::value(slots(&line.summary.runs))
    }));
    fields
}

fn figure<'a>(key: &'static str, of: fn(&CaseSummary) -> Option<f64>) -> Field<Line<'a>> {
    Field::machine(key, move |line: &Line<'_>| Cell::figure(of(line.summary)))
}

/// An end of the interval; below 6 runs there is none, and both ends equal the median.
fn known(summary: &CaseSummary, end: f64) -> Option<f64> {
    (summary.center.low < summary.center.high || summary.variation == Some(0.0)).then_some(end)
}
