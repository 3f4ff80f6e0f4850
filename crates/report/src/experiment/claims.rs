//! The claims of an experiment with their answers.

use crate::digits::{Uncertainty, place, spell};
use crate::document::{Block, Document, Emphasis};
use crate::quantity::quantity;
use crate::table::{Cell, Column, Kind, Row, Table};
use serde_json::{Value, json};
use speedwell_analysis::experiment::Part;
use speedwell_analysis::experiment::{ClaimFound, Found, Holds};

/// A table with a row for each claim, and for each of its comparisons what both sides are.
pub fn claims(found: &Found) -> Document {
    let mut document = Document::new("claims");
    if found.claims.is_empty() {
        return document;
    }
    let rows = found.claims.iter().flat_map(rows).collect();
    document.push(Block::Table(Table {
        caption: vec!["claims".to_owned()],
        columns: vec![
            Column::new("claim", "claim", Kind::Words),
            Column::new("answer", "answer", Kind::Words),
            Column::machine("expression"),
            Column::machine("parts"),
        ],
        rows,
        ..Table::new("claims")
    }));
    document
}

/// The word of an answer, and how it stands out.
fn told(holds: Holds) -> (&'static str, &'static str, Emphasis) {
    match holds {
        Holds::Yes => ("holds", "✓ holds", Emphasis::Good),
        Holds::No => ("fails", "✗ fails", Emphasis::Bad),
        Holds::Undecided => ("undecided", "? undecided", Emphasis::Caution),
    }
}

fn rows(claim: &ClaimFound) -> Vec<Row> {
    let (word, shown, emphasis) = told(claim.holds);
    let cells = vec![
        Cell::words(&claim.say),
        Cell::words(word).shown(shown).emphasised(emphasis),
        Cell::value(&*claim.text),
        Cell::value(parts(claim)),
    ];
    let remarks = claim.parts.iter().map(remark).map(Row::Remark);
    [Row::Cells(cells)].into_iter().chain(remarks).collect()
}

/// A comparison with its figures.
fn remark(part: &Part) -> String {
    let about = part
        .about
        .as_ref()
        .map(|case| format!("{case}: "))
        .unwrap_or_default();
    let (_, shown, _) = told(part.holds);
    let sides = part
        .sides
        .map_or("not measured".to_owned(), |(left, right)| {
            let figure = |value: f64| match &part.unit {
                Some(unit) => quantity(value, unit, Uncertainty::Unknown),
                None => figure(value),
            };
            format!("{} against {}", figure(left), figure(right))
        });
    let ratio = part.ratio.map(|ratio| {
        let ends = [ratio.value, ratio.low, ratio.high]
            .map(|end| spell(end, place(end, Uncertainty::Unknown)));
        format!(", {} times [{}, {}]", ends[0], ends[1], ends[2])
    });
    format!(
        "{about}{}: {sides}{} {shown}",
        part.text,
        ratio.unwrap_or_default()
    )
}

fn figure(value: f64) -> String {
    spell(value, place(value, Uncertainty::Unknown))
}

/// The comparisons as data.
fn parts(claim: &ClaimFound) -> Value {
    let data = |part: &Part| {
        json!({
            "case": part.about,
            "expression": part.text,
            "answer": told(part.holds).0,
            "left": part.sides.map(|(left, _)| left),
            "right": part.sides.map(|(_, right)| right),
            "ratio": part.ratio.map(|ratio| ratio.value),
            "ratio_low": part.ratio.map(|ratio| ratio.low),
            "ratio_high": part.ratio.map(|ratio| ratio.high),
        })
    };
    claim.parts.iter().map(data).collect()
}
