//! Profiles as a document: the sentence, the table of the extra cost, and four flame graphs; and the section of each
//! case of a session.
//!
//! Decides how costs are worded. What they are is known before (`analysis::profile`). Start at [`profiles`]; the
//! flame graphs are in `pictures.rs`.

mod pictures;

pub use pictures::ProfileSide;

use crate::Output;
use crate::document::{Block, Chart, Document};
use crate::figure::{count, share};
use crate::table::{Cell, Column, Emphasis, Kind, Row, Table, number};
use pictures::weight;
use serde_json::{Map, Value, json};
use speedwell_analysis::profile::{
    CaseProfile, CostRow, Direction, Entry, Explanation, ExtraCost, ProfiledSides,
};

/// With fewer samples a share of 3 %, the smallest that is shown, is uncertain by more than a third of itself:
/// its standard error is sqrt(p (1 - p) / n).
const FEW_SAMPLES: u64 = 300;

/// Said where nothing is drawn.
const DRAWS: &str = "-o FILE.html draws flame graphs.";

/// The report of two profiles, the baseline first, and what they say about each other.
pub fn profiles(sides: [ProfileSide<'_>; 2], found: &Explanation, output: &Output) -> Document {
    let mut document = Document::new("profiles");
    document.extend(warnings(sides).into_iter().map(Block::Warning));
    document.push(Block::Headline(headline(sides, &found.extra)));
    if let Some(entry) = &found.extra.entry
        && let Some(sentence) = below(entry)
    {
        document.push(Block::Paragraph(sentence));
    }
    if found.extra.direction != Direction::Alike {
        document.push(Block::Table(cost_table(sides, &found.extra)));
    }
    output.add_detail(&mut document, |output, document| {
        let notes = notes(sides, &found.extra);
        document.extend(notes.into_iter().map(Block::Note));
        if output.files.is_empty() && output.format.is_none() {
            document.push(Block::Note(DRAWS.into()));
        }
    });
    document.push_charts(pictures::flame_graphs(sides, found));
    attach(&mut document, sides, &found.extra);
    document
}

fn headline([old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) -> String {
    let costs = |side: ProfileSide<'_>| weight(side.profile, side.profile.total());
    let both = format!("{} → {}", costs(old), costs(new));
    let change =
        (extra.candidate as f64 - extra.baseline as f64).abs() / extra.baseline.max(1) as f64;
    let (more, extra_cost) = match extra.direction {
        Direction::Alike => {
            return format!(
                "{} costs the same as {}, within 1 % ({both})",
                new.label, old.label
            );
        }
        Direction::Costlier => ("more", "extra cost"),
        Direction::Cheaper => ("less", "saved cost"),
    };
    let place = match &extra.entry {
        Some(Entry { row, .. }) if row.new => {
            let side = if more == "more" { old.label } else { new.label };
            let part = share(row.share.min(1.0));
            format!(
                "; {part} of the {extra_cost} is in '{}', which {side} does not have",
                row.frame
            )
        }
        Some(Entry { row, .. }) => {
            let part = share(row.share.min(1.0));
            format!(
                "; {part} of the {extra_cost} is in '{}', which both sides have",
                row.frame
            )
        }
        None => String::new(),
    };
    format!(
        "{} costs {} {more} than {} ({both}){place}",
        new.label,
        share(change),
        old.label
    )
}

/// What the function called by which the cost enters.
fn below(entry: &Entry) -> Option<String> {
    let called = entry.below.iter();
    let called: Vec<String> = called
        .map(|row| format!("{} ({})", row.frame, share(row.share)))
        .collect();
    if called.is_empty() {
        None
    } else {
        Some(format!("Below it: {}.", called.join(", ")))
    }
}

fn warnings([old, new]: [ProfileSide<'_>; 2]) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.profile.tool != new.profile.tool {
        warnings.push(
            "The sides were recorded by different tools, which see different functions; \
             what only one of them sees looks new."
                .to_owned(),
        );
    }
    for side in [old, new] {
        if let Some(samples) = side.profile.samples
            && samples < FEW_SAMPLES
        {
            warnings.push(format!(
                "{} was looked at only {}: shares of a few percent are chance.",
                side.label,
                times(samples)
            ));
        }
    }
    warnings
}

fn times(number: u64) -> String {
    count(
        usize::try_from(number).unwrap_or(usize::MAX),
        "time",
        "times",
    )
}

fn notes(sides: [ProfileSide<'_>; 2], extra: &ExtraCost) -> Vec<String> {
    let mut notes = Vec::new();
    if extra.direction != Direction::Alike {
        let word = match extra.direction {
            Direction::Cheaper => "GONE",
            _ => "NEW",
        };
        notes.push(format!(
            "A cost includes what a function called, so shares overlap. Both sides must have done the same work: \
             costs are compared as they are, not in percent. {word}: the cheaper side spent less than 0.2 % there."
        ));
    }
    for side in sides {
        let blind = side.profile.tool.blind_spot().map(str::to_owned);
        for seen in blind.iter().chain(&side.profile.remarks) {
            if !notes.contains(seen) {
                notes.push(seen.clone());
            }
        }
    }
    notes
}

fn attach(document: &mut Document, [old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) {
    let side = |side: ProfileSide<'_>, total: u64| {
        serde_json::json!({
            "name": side.label,
            "tool": side.profile.tool,
            "unit": side.profile.unit,
            "samples": side.profile.samples,
            "weight": total,
        })
    };
    document.attach("baseline", side(old, extra.baseline));
    document.attach("candidate", side(new, extra.candidate));
    let entry = extra.entry.as_ref().map(|entry| {
        serde_json::json!({
            "frame": entry.row.frame,
            "new": entry.row.new,
            "share": number(entry.row.share),
        })
    });
    document.attach("entry", entry.unwrap_or_default());
}

/// Stands before the first section.
const ABOUT: &str = "Profiles come from runs of their own, which are not among those that were timed: a program that is \
                     recorded is slower. Two recordings are no test; whether there is a difference is shown above.";

/// One section for each case and pair of variants; `draws`: with flame graphs.
pub fn sections(found: &[CaseProfile], draws: bool, output: &Output) -> Document {
    let mut document = Document::new("profiles");
    if !found.is_empty() {
        output.add_detail(&mut document, |output, document| {
            add_sections(found, draws, output, document);
        });
    }
    document
}

fn add_sections(found: &[CaseProfile], draws: bool, output: &Output, document: &mut Document) {
    document.push_heading(2, "Where the time goes");
    document.push(Block::Note(ABOUT.to_owned()));
    let mut seen = Vec::new();
    let mut for_machines = Vec::new();
    for one in found {
        document.push_heading(
            3,
            format!(
                "{}: {} against {}",
                one.case.id(),
                one.candidate,
                one.baseline
            ),
        );
        match &one.sides {
            Err(reason) => document.push(Block::Paragraph(reason.clone())),
            Ok(sides) => section(one, sides, draws, output, &mut seen, document),
        }
        for_machines.push(machine(one, output));
    }
    document.attach("profiles", Value::Array(for_machines));
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
    seen: &mut Vec<String>,
    document: &mut Document,
) {
    for block in alone(one, sides, output).blocks {
        match block {
            // The answers of a session stand at its top.
            Block::Headline(sentence) => document.push(Block::Paragraph(format!("{sentence}."))),
            // What holds for all sections is said once.
            Block::Note(sentence) if seen.contains(&sentence) => {}
            Block::Note(sentence) => {
                seen.push(sentence.clone());
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

/// One row for each function that has a part in the difference.
fn cost_table([old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) -> Table {
    let title = match extra.direction {
        Direction::Cheaper => "Where the saved cost sat",
        _ => "Where the extra cost sits",
    };
    let share = match extra.direction {
        Direction::Cheaper => "of the saved",
        _ => "of the extra",
    };
    let entry = extra.entry.as_ref().map(|entry| entry.row.frame.as_str());
    Table {
        caption: vec![title.to_owned()],
        columns: vec![
            Column::new("share_of_extra_percent", share, Kind::Figure),
            Column::new(
                "baseline_percent",
                format!("of {}", old.label),
                Kind::Figure,
            ),
            Column::new(
                "candidate_percent",
                format!("of {}", new.label),
                Kind::Figure,
            ),
            Column::new("new", "", Kind::Words),
            Column::new("frame", "function", Kind::Label),
        ],
        rows: extra
            .rows
            .iter()
            .map(|row| cells(row, extra.direction, entry))
            .collect(),
        ..Table::new("functions")
    }
}

fn cells(row: &CostRow, direction: Direction, entry: Option<&str>) -> Row {
    let percent = |share: f64, digits: usize| {
        let percent = share * 100.0;
        Cell::figure(Some(percent)).shown(format!("{percent:.digits$} %"))
    };
    let new = Cell::value(row.new).shown(match (row.new, direction) {
        (false, _) => "",
        (true, Direction::Cheaper) => "GONE",
        (true, _) => "NEW",
    });
    let frame = Cell::words(row.frame.clone());
    let is_entry = entry == Some(row.frame.as_str());
    Row::Cells(vec![
        percent(row.share, 1),
        percent(row.baseline, 2),
        percent(row.candidate, 2),
        new,
        if is_entry {
            frame.emphasised(Emphasis::Strong)
        } else {
            frame
        },
    ])
}
