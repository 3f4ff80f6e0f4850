//! What an HTTP load showed, as a document: the answer, a row for each load, percentiles, what became of
//! the requests, charts, and everything that was measured for machines.
//!
//! Decides what is said where. Which figures are told is decided in `analysis::load`. Start at
//! [`document`]; [`gate`] shows how a load stands to its limits.

mod charts;
mod data;
mod facts;
mod gate;
mod headline;
mod levels_chart;
mod outcomes;
mod percentiles;
mod rates;
mod search;
mod spreads;
mod summary;
mod told;
mod words;

pub use gate::gate;
pub use rates::rate_sort_keys;
pub use search::{level_sort_keys, search};
pub use summary::sort_keys;

use super::document::{Block, Document};
use super::metric_words::count;
use super::output::{Output, Verbosity};
use speedwell_analysis::load::{LoadFindings, Quantity, Weight};

/// Details of more loads than this are folded away: their rows say what there is to compare.
const MOST_IN_FULL: usize = 4;

/// Said once, where there is no schedule that would tell.
const CLOSED: &str = "service: from sending a request to the last byte of its answer. These clients wait \
    for an answer before they send again, so requests that would have come during a stall were never \
    sent and are in no figure (coordinated omission); to see what users would have waited, load with \
    --rate.";

/// Said once, where there is one.
const OPEN: &str = "response: from the time a request was due to the last byte of its answer, which is \
    what users would have waited; requests without an end count with their age, marked ≥. service: from \
    sending on. lag: from the time a request was due to its sending, for whatever reason. A range (14.1-15.9 ms) \
    ends at the time from when requests were due and begins at that less what the generator itself was late by.";

/// The report of loads.
pub fn document(loads: &[LoadFindings<'_>], output: &Output) -> Document {
    let mut document = Document::new("load");
    for warning in warnings(loads) {
        document.push(Block::Warning(warning));
    }
    document.push(Block::Headline(headline::headline(loads)));
    document.push(Block::Table(summary::table(loads)));
    // Before the details: the course of a load shows at a glance whether its figures mean anything.
    for chart in charts::charts(loads) {
        document.push(Block::Chart(Box::new(chart)));
    }
    if output.verbosity != Verbosity::Quiet {
        for load in loads {
            details(load, loads.len(), &mut document);
        }
        notes(loads)
            .into_iter()
            .for_each(|note| document.push(note));
    }
    document.attach("load_findings", loads.iter().map(data::findings).collect());
    document.attach("loads", loads.iter().map(data::run).collect());
    document
}

/// What may spoil the figures, and what went wrong beside the measuring. What is true of several loads is
/// said of the first.
fn warnings(loads: &[LoadFindings<'_>]) -> Vec<String> {
    let mut found: Vec<(&str, String, usize)> = Vec::new();
    let mut add = |load: &LoadFindings<'_>, kind, text: String| {
        let known = found.iter_mut().find(|(known, _, _)| *known == kind);
        match (known, loads.len()) {
            (Some((_, _, more)), _) => *more += 1,
            (None, 1) => found.push((kind, text, 0)),
            (None, _) => found.push((kind, format!("{}: {text}", name(load)), 0)),
        }
    };
    for load in loads {
        let grave = load.remarks.iter();
        for remark in grave.filter(|remark| remark.weight() != Weight::Note) {
            add(load, data::name(remark), words::sentence(remark, load));
        }
        for text in &load.run.warnings {
            add(load, text, text.clone());
        }
    }
    let said = |(_, text, more): (&str, String, usize)| match more {
        0 => text,
        _ => format!("{text} (And {}.)", count(more, "more load", "more loads")),
    };
    found.into_iter().map(said).collect()
}

/// Everything about one load of several.
fn details(load: &LoadFindings<'_>, of: usize, document: &mut Document) {
    let mut blocks = vec![Block::Facts(facts::facts(load))];
    blocks.extend(percentiles::table(load).map(Block::Table));
    blocks.push(Block::Table(spreads::table(load)));
    blocks.extend(outcomes::blocks(load));
    let remarks = load.remarks.iter();
    let remarks = remarks.filter(|remark| remark.weight() == Weight::Note);
    blocks.extend(remarks.map(|remark| Block::Note(words::sentence(remark, load))));
    match of {
        1 => blocks.into_iter().for_each(|block| document.push(block)),
        2..=MOST_IN_FULL => {
            document.push(Block::Heading {
                level: 2,
                text: name(load),
            });
            blocks.into_iter().for_each(|block| document.push(block));
        }
        _ => document.push(Block::Appendix {
            title: name(load),
            instead: None,
            blocks,
        }),
    }
}

/// What a load is called beside others: its label, and which time it was carried out.
fn name(load: &LoadFindings<'_>) -> String {
    match load.run.round {
        0 => load.run.label.clone(),
        round => format!("{} ({})", load.run.label, round + 1),
    }
}

fn notes(loads: &[LoadFindings<'_>]) -> Vec<Block> {
    let is = |wanted: Quantity| loads.iter().any(|load| load.principal().0 == wanted);
    let closed = is(Quantity::Service).then_some(CLOSED);
    let open = is(Quantity::Response).then_some(OPEN);
    let notes = closed.into_iter().chain(open);
    notes.map(|note| Block::Note(note.to_owned())).collect()
}
