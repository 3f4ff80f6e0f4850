//! The claims and gates of an experiment, with their outcomes.

use crate::document::{Block, Document};
use crate::figure::{Uncertainty, change_with_interval, place, quantity, spell};
use crate::table::{Cell, Column, Emphasis, Kind, Row, Table};
use serde_json::{Value, json};
use speedwell_analysis::experiment::{ClaimFound, Found, Holds, Part};

/// A table with a row per claim, and the figures of both sides for each of its comparisons.
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

/// The word and the emphasis for an outcome.
fn answer_words(holds: Holds) -> (&'static str, &'static str, Emphasis) {
    match holds {
        Holds::Yes => ("holds", "✓ holds", Emphasis::Good),
        Holds::No => ("fails", "✗ fails", Emphasis::Bad),
        Holds::Undecided => ("undecided", "? undecided", Emphasis::Caution),
    }
}

fn rows(claim: &ClaimFound) -> Vec<Row> {
    let (word, shown, emphasis) = answer_words(claim.holds);
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
    let (_, shown, _) = answer_words(part.holds);
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
            "answer": answer_words(part.holds).0,
            "left": part.sides.map(|(left, _)| left),
            "right": part.sides.map(|(_, right)| right),
            "ratio": part.ratio.map(|ratio| ratio.value),
            "ratio_low": part.ratio.map(|ratio| ratio.low),
            "ratio_high": part.ratio.map(|ratio| ratio.high),
        })
    };
    claim.parts.iter().map(data).collect()
}

/// A sentence for each broken gate; machine-readable output lists all gates.
pub fn gates(found: &Found) -> Document {
    let mut document = Document::new("gates");
    if found.gates.is_empty() {
        return document;
    }
    let broken: Vec<String> = found
        .gates
        .iter()
        .filter(|gate| gate.is_broken)
        .map(|gate| {
            let change = gate
                .change
                .as_ref()
                .map(change_with_interval)
                .unwrap_or_default();
            format!(
                "'{}' does not keep '{}' in {}: {change}",
                gate.candidate, gate.text, gate.case
            )
        })
        .collect();
    let kept = found.gates.iter().filter(|gate| gate.is_kept).count();
    let open = found.gates.len() - kept - broken.len();
    let sentence = format!(
        "Gates: {kept} of {} kept, {} broken, {open} not decided by the data.",
        found.gates.len(),
        broken.len()
    );
    document.push(Block::Paragraph(sentence));
    if !broken.is_empty() {
        document.push(Block::List(broken));
    }
    let data: Vec<Value> = found
        .gates
        .iter()
        .map(|gate| {
            json!({
                "gate": gate.text,
                "group": gate.group,
                "case": gate.case,
                "candidate": gate.candidate,
                "change": gate.change.map(|change| change.value),
                "change_low": gate.change.map(|change| change.low),
                "change_high": gate.change.map(|change| change.high),
                "kept": gate.is_kept,
                "broken": gate.is_broken,
            })
        })
        .collect();
    document.attach("gates", Value::Array(data));
    document
}
