//! The profiles of a session: a section for each case, with the sentence, the table and the flame graphs.

use super::{ProfileSide, profiles};
use crate::document::{Block, Chart, Document};
use crate::table::{Cell, Column, Row, Table};
use crate::{Output, Verbosity};
use serde_json::{Map, Value, json};
use speedwell_analysis::profile::{CaseProfile, ProfiledSides};

/// Stands before the first section.
const ABOUT: &str = "Profiles come from runs of their own, which are not among those that were timed: a program that is \
                     recorded is slower. Two recordings are no test; whether there is a difference is told above.";

/// One section for each case and pair of variants; `draws`: with flame graphs.
pub fn sections(found: &[CaseProfile], draws: bool, output: &Output) -> Document {
    let mut document = Document::new("profiles");
    if found.is_empty() || output.verbosity == Verbosity::Quiet {
        return document;
    }
    document.push(Block::Heading {
        level: 2,
        text: "Where the time goes".to_owned(),
    });
    document.push(Block::Note(ABOUT.to_owned()));
    let mut told = Vec::new();
    let mut for_machines = Vec::new();
    for one in found {
        document.push(Block::Heading {
            level: 3,
            text: format!(
                "{}: {} against {}",
                one.case.id(),
                one.candidate,
                one.baseline
            ),
        });
        match &one.sides {
            Err(reason) => document.push(Block::Paragraph(reason.clone())),
            Ok(sides) => section(one, sides, draws, output, &mut told, &mut document),
        }
        for_machines.push(machine(one, output));
    }
    document.attach("profiles", Value::Array(for_machines));
    document
}

/// The two profiles as a document of their own, which is then fitted in.
fn alone(one: &CaseProfile, sides: &ProfiledSides, output: &Output) -> Document {
    let [old, new] = &sides.profiles;
    let sides_of = [(&one.baseline, old), (&one.candidate, new)]
        .map(|(label, profile)| ProfileSide { label, profile });
    profiles(sides_of, &sides.explanation, output)
}

fn section(
    one: &CaseProfile,
    sides: &ProfiledSides,
    draws: bool,
    output: &Output,
    told: &mut Vec<String>,
    document: &mut Document,
) {
    for block in alone(one, sides, output).blocks {
        match block {
            // The answers of a session stand at its top.
            Block::Headline(sentence) => document.push(Block::Paragraph(format!("{sentence}."))),
            // What holds for all sections is told once.
            Block::Note(sentence) if told.contains(&sentence) => {}
            Block::Note(sentence) => {
                told.push(sentence.clone());
                document.push(Block::Note(sentence));
            }
            Block::Table(table) => document.push(Block::Table(named(table, one))),
            Block::Chart(chart) if draws => document.push(Block::Chart(titled(*chart, one))),
            Block::Chart(_) => {}
            other => document.push(other),
        }
    }
}

/// The table with the case in every row, for machines: they see the tables of all sections as one.
fn named(mut table: Table, one: &CaseProfile) -> Table {
    let names = [
        ("case", one.case.id()),
        ("baseline", one.baseline.clone()),
        ("candidate", one.candidate.clone()),
    ];
    for (key, name) in names {
        table.columns.push(Column::machine(key));
        for row in &mut table.rows {
            if let Row::Cells(cells) = row {
                cells.push(Cell::value(name.clone()));
            }
        }
    }
    table
}

fn titled(mut chart: Chart, one: &CaseProfile) -> Box<Chart> {
    chart.title = format!("{}, {}", chart.title, one.case.id());
    if let speedwell_plot::Chart::Flame(picture) = &mut chart.picture {
        picture.title.clone_from(&chart.title);
    }
    Box::new(chart)
}

fn machine(one: &CaseProfile, output: &Output) -> Value {
    let mut object = Map::new();
    object.insert("case".into(), one.case.id().into());
    match &one.sides {
        Err(reason) => {
            object.insert("baseline".into(), json!({ "name": one.baseline }));
            object.insert("candidate".into(), json!({ "name": one.candidate }));
            object.insert("missing".into(), reason.clone().into());
        }
        Ok(sides) => {
            let data = alone(one, sides, output).data;
            object.extend(
                data.into_iter()
                    .map(|(name, value)| (name.to_owned(), value)),
            );
        }
    }
    Value::Object(object)
}
