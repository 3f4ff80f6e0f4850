//! How loads stand to their limits.

use crate::document::{Block, Document, Emphasis};
use crate::figure::{share, spell};
use crate::load;
use crate::table::{Cell, Column, Field, Footnotes, Kind, Table, table_of};
use speedwell_analysis::load::Quantity;
use speedwell_analysis::load::gate::{Answer, Figure, Judged, Unknown, passes};

/// The rows of a gate; a condition says what must not be.
pub fn gate(judged: &[Judged<'_>]) -> Document {
    let mut document = Document::new("gate");
    if judged.is_empty() {
        return document;
    }
    let failed = judged.iter().filter(|row| row.answer != Answer::Passed);
    document.push(Block::Headline(if passes(judged) {
        "gate passed: nothing that must not be was so.".to_owned()
    } else {
        format!(
            "gate failed: {} of {}.",
            failed.count(),
            conditions(judged.len())
        )
    }));
    let mut footnotes = Footnotes::default();
    let rows: Vec<Line<'_>> = judged
        .iter()
        .map(|judged| Line {
            judged,
            mark: why(judged).map_or(String::new(), |why| footnotes.mark(why)),
        })
        .collect();
    document.push(Block::Table(Table {
        footnotes: footnotes.into_texts(),
        ..table_of("conditions", fields(), &rows)
    }));
    document
}

/// A row, and the mark of what is said below the table about it.
struct Line<'a> {
    judged: &'a Judged<'a>,
    mark: String,
}

fn conditions(number: usize) -> String {
    crate::figure::count(number, "condition", "conditions")
}

fn fields<'a>() -> Vec<Field<Line<'a>>> {
    vec![
        Field::new(
            Column::new("fails_if", "fails if", Kind::Identifier),
            |row: &Line<'a>| Cell::words(row.judged.condition.text.clone()),
        ),
        Field::new(
            Column::new("load", "load", Kind::Label),
            |row: &Line<'a>| Cell::words(row.judged.load),
        ),
        Field::machine("quantity", |row: &Line<'a>| Cell {
            value: row.judged.quantity.map(|quantity| quantity.name().into()),
            ..Cell::default()
        }),
        Field::new(
            Column::new("value", "found", Kind::Figure),
            |row: &Line<'a>| {
                let value = row.judged.value;
                let words = value.map(|value| found(row.judged, value));
                Cell::figure(value).shown(words.unwrap_or_default())
            },
        ),
        Field::machine("low", |row: &Line<'a>| Cell::figure(row.judged.low)),
        Field::machine("limit", |row: &Line<'a>| {
            Cell::figure(Some(row.judged.condition.limit))
        }),
        Field::machine("is_lower_bound", |row: &Line<'a>| {
            Cell::value(row.judged.is_lower_bound)
        }),
        Field::new(
            Column::new("answer", "answer", Kind::Words).facet(),
            |row: &Line<'a>| {
                let (name, words, emphasis) = answer(row.judged);
                Cell::value(name)
                    .shown(format!("{words}{}", row.mark))
                    .emphasised(emphasis)
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
        Figure::Time(..) => match row.low {
            Some(low) => format!("{of}{}", load::spelled_range(low, value)),
            None => format!("{of}{}", load::spelled_ns(value, row.is_lower_bound)),
        },
        Figure::Throughput => crate::load::rate(value),
        Figure::ErrorShare | Figure::OkShare => share(value),
        Figure::ErrorCount | Figure::OkCount => spell(value, 0),
    }
}

fn answer(row: &Judged<'_>) -> (&'static str, &'static str, Emphasis) {
    match row.answer {
        Answer::Passed => ("passed", "✓ passed", Emphasis::Good),
        Answer::Failed => ("failed", "✗ failed", Emphasis::Bad),
        Answer::Unknown(_) => ("unknown", "✗ cannot be judged", Emphasis::Caution),
    }
}

/// Why a condition cannot be judged.
fn why(row: &Judged<'_>) -> Option<&'static str> {
    let Answer::Unknown(why) = row.answer else {
        return None;
    };
    Some(match why {
        Unknown::Refused(refusal) => load::refusal_reason(refusal),
        Unknown::ClosedLoad => "a load without --rate has no such time",
        Unknown::NoRequests => "no request has this figure",
        Unknown::Range => {
            "the limit lies within the range: the generator's own lateness would decide"
        }
        Unknown::LowerBound => "requests without an end may have taken longer",
    })
}
