//! How loads stand to their limits.

use super::told;
use crate::analysis::load::Quantity;
use crate::analysis::load::gate::{Answer, Figure, Judged, Unknown, passes};
use crate::report::digits::spell;
use crate::report::document::{Block, Document, Emphasis};
use crate::report::field::{Field, table_of};
use crate::report::quantity::share;
use crate::report::table::{Cell, Column, Kind};

/// The rows of a gate; a condition says what must not be.
pub fn gate(judged: &[Judged<'_>]) -> Document {
    let mut document = Document::new("gate");
    if judged.is_empty() {
        return document;
    }
    let failed = judged.iter().filter(|row| row.answer != Answer::Passed);
    document.push(Block::Headline(match passes(judged) {
        true => "gate passed: nothing that must not be was so.".to_owned(),
        false => format!(
            "gate failed: {} of {}.",
            failed.count(),
            conditions(judged.len())
        ),
    }));
    let rows: Vec<&Judged<'_>> = judged.iter().collect();
    document.push(Block::Table(table_of("conditions", fields(), &rows)));
    document
}

fn conditions(number: usize) -> String {
    crate::report::metric_words::count(number, "condition", "conditions")
}

fn fields<'a>() -> Vec<Field<&'a Judged<'a>>> {
    vec![
        Field::new(
            Column::new("fails_if", "fails if", Kind::Identifier),
            |row: &&'a Judged<'a>| Cell::words(row.condition.text.clone()),
        ),
        Field::new(
            Column::new("load", "load", Kind::Label),
            |row: &&'a Judged<'a>| Cell::words(row.load),
        ),
        Field::machine("quantity", |row: &&'a Judged<'a>| Cell {
            value: row.quantity.map(|quantity| quantity.name().into()),
            ..Cell::default()
        }),
        Field::new(
            Column::new("value", "found", Kind::Figure),
            |row: &&'a Judged<'a>| {
                Cell::figure(row.value)
                    .shown(row.value.map(|value| found(row, value)).unwrap_or_default())
            },
        ),
        Field::machine("limit", |row: &&'a Judged<'a>| {
            Cell::figure(Some(row.condition.limit))
        }),
        Field::machine("is_lower_bound", |row: &&'a Judged<'a>| {
            Cell::value(row.is_lower_bound)
        }),
        Field::new(
            Column::new("answer", "answer", Kind::Words).facet(),
            |row: &&'a Judged<'a>| {
                let (name, words, emphasis) = answer(row);
                Cell::value(name).shown(words).emphasised(emphasis)
            },
        ),
    ]
}

fn found(row: &Judged<'_>, value: f64) -> String {
    let of = match row.quantity {
        Some(Quantity::Response) => "response ",
        Some(Quantity::Service) => "service ",
        _ => "",
    };
    match row.condition.figure {
        Figure::Time(..) => format!("{of}{}", told::time(value, row.is_lower_bound)),
        Figure::Throughput => super::headline::rate(value),
        Figure::ErrorShare | Figure::OkShare => share(value),
        Figure::ErrorCount | Figure::OkCount => spell(value, 0),
    }
}

fn answer(row: &Judged<'_>) -> (&'static str, String, Emphasis) {
    match row.answer {
        Answer::Passed => ("passed", "✓ passed".to_owned(), Emphasis::Good),
        Answer::Failed => ("failed", "✗ failed".to_owned(), Emphasis::Bad),
        Answer::Unknown(why) => {
            let why = match why {
                Unknown::Refused(refusal) => told::why(refusal),
                Unknown::ClosedLoad => "a load without --rate has no such time",
                Unknown::NoRequests => "no request has this figure",
                Unknown::LowerBound => "requests without an end may have taken longer",
            };
            let words = format!("✗ cannot be judged: {why}");
            ("unknown", words, Emphasis::Caution)
        }
    }
}
