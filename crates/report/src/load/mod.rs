//! What an HTTP load showed, as a document: the answer, a row for each load, percentiles, the outcome of
//! the requests, charts, and everything that was measured for machines.
//!
//! Decides what is said where. Which figures are reported is decided in `analysis::load`. Start at
//! [`document`]; sentences are in `words.rs`, tables in `tables.rs`, and [`add_gate`] shows how a load stands to its limits.

mod charts;
mod facts;
mod gate;
mod search;
mod tables;
mod words;

pub use gate::add_gate;
pub use search::{level_sort_keys, rate_sort_keys, search};
pub use tables::sort_keys;

use crate::document::{Block, Document};
use crate::figure::count;
use crate::load::words::load_name;
use crate::output::Output;
use serde_json::{Value, json};
use speedwell_analysis::load::{Course, LoadFindings, Quantity, Remark, Weight};

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
    document.extend(warnings(loads).into_iter().map(Block::Warning));
    document.push(Block::Headline(words::headline(loads)));
    document.push(Block::Table(tables::summary_table(loads)));
    // Before the details: the course of a load shows at a glance whether its figures mean anything.
    document.push_charts(charts::charts(loads));
    output.add_detail(&mut document, |_, document| {
        for load in loads {
            details(load, loads.len(), document);
        }
        document.extend(notes(loads));
    });
    document.attach("load_findings", loads.iter().map(findings_data).collect());
    document.attach("loads", loads.iter().map(run_data).collect());
    document
}

/// Threats to the figures, and what went wrong beside the measuring. What is true of several loads is
/// said of the first.
fn warnings(loads: &[LoadFindings<'_>]) -> Vec<String> {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    let mut add = |load: &LoadFindings<'_>, kind: String, text: String| {
        let known = found.iter_mut().find(|(known, _, _)| *known == kind);
        match (known, loads.len()) {
            (Some((_, _, more)), _) => *more += 1,
            (None, 1) => found.push((kind, text, 0)),
            (None, _) => found.push((kind, format!("{}: {text}", load_name(load)), 0)),
        }
    };
    for load in loads {
        let grave = load.remarks.iter();
        for remark in grave.filter(|remark| remark.weight() != Weight::Note) {
            let text = words::sentence(remark, load);
            // Several machines of one load may be lost or limited.
            let kind = match remark {
                Remark::MachineLost { .. } | Remark::MachineLimited { .. } => text.clone(),
                _ => remark_name(remark).to_owned(),
            };
            add(load, kind, text);
        }
        for text in &load.run.warnings {
            add(load, text.clone(), text.clone());
        }
    }
    let said = |(_, text, more): (String, String, usize)| match more {
        0 => text,
        _ => format!("{text} (And {}.)", count(more, "more load", "more loads")),
    };
    found.into_iter().map(said).collect()
}

/// Everything about one load of several.
fn details(load: &LoadFindings<'_>, of: usize, document: &mut Document) {
    let mut blocks = vec![Block::Facts(facts::facts(load))];
    blocks.extend(tables::percentiles_table(load).map(Block::Table));
    blocks.push(Block::Table(tables::times_table(load)));
    blocks.extend(tables::outcome_blocks(load));
    let remarks = load.remarks.iter();
    let remarks = remarks.filter(|remark| remark.weight() == Weight::Note);
    blocks.extend(remarks.map(|remark| Block::Note(words::sentence(remark, load))));
    match of {
        1 => document.extend(blocks),
        2..=MOST_IN_FULL => {
            document.push_heading(2, load_name(load));
            document.extend(blocks);
        }
        _ => document.push(Block::Appendix {
            title: load_name(load),
            instead: None,
            blocks,
        }),
    }
}

fn notes(loads: &[LoadFindings<'_>]) -> Vec<Block> {
    let is = |wanted: Quantity| loads.iter().any(|load| load.principal().0 == wanted);
    let closed = is(Quantity::Service).then_some(CLOSED);
    let open = is(Quantity::Response).then_some(OPEN);
    let notes = closed.into_iter().chain(open);
    notes.map(|note| Block::Note(note.to_owned())).collect()
}

/// What was measured and requested, without loss: what `speedwell report FILE.json` reads back.
pub fn run_data(load: &LoadFindings<'_>) -> Value {
    // Plain data with names for keys always become JSON; the reader would report a null.
    serde_json::to_value(load.run).unwrap_or(Value::Null)
}

/// What was found.
pub fn findings_data(load: &LoadFindings<'_>) -> Value {
    let remarks: Vec<&str> = load.remarks.iter().map(remark_name).collect();
    json!({
        "load": load_name(load),
        "throughput": load.throughput_per_s,
        "principal": {"quantity": load.principal().0.name(), "group": load.principal().1.name()},
        "concurrency": {
            "asked": load.concurrency.requested,
            "effective": load.concurrency.effective,
            "connecting": load.concurrency.connecting,
            "is_short": load.concurrency.is_short,
        },
        "open": load.open.map(|open| json!({
            "achieved": open.achieved,
            "lateness_p99_ns": open.own_lag_p99_ns,
            "lateness_limit_ns": open.own_lag_limit_ns,
            "is_generator_limited": open.is_generator_limited(),
            "is_rate_missed": open.is_rate_missed(),
        })),
        "generator": {
            "threads": load.generator.threads,
            "bottlenecks": load.generator.bottlenecks,
            "busiest": load.generator.busiest,
            "switches_per_s": load.generator.switches_per_s,
            "late_by_ns": load.generator.late_by_ns,
            "system_calls_per_request": load.generator.system_calls_per_request,
            "cpu_ns_per_request": load.generator.cpu_ns_per_request,
        },
        "requests_per_connection": load.per_connection,
        "halves": load.halves.map(|halves| json!({
            "of": match halves.course {
                Course::Throughput => "throughput",
                Course::Median => "p50_ns",
            },
            "first": halves.first,
            "second": halves.second,
        })),
        "is_balanced": load.balance.is_ok(),
        "remarks": remarks,
    })
}

/// The name of a remark, which never changes.
pub fn remark_name(remark: &Remark) -> &'static str {
    match remark {
        Remark::Imbalance(_) => "imbalance",
        Remark::PartsUnlike { .. } => "parts-unlike",
        Remark::MachineLost { .. } => "machine-lost",
        Remark::MachineLimited { .. } => "machine-limited",
        Remark::StartsApart { .. } => "starts-apart",
        Remark::ClockSet { .. } => "clock-set",
        Remark::NothingAnswered => "nothing-answered",
        Remark::Interrupted => "interrupted",
        Remark::GeneratorLimited(_) => "generator-limited",
        Remark::RateMissed(_) => "rate-missed",
        Remark::ConcurrencyShort { .. } => "concurrency-short",
        Remark::GeneratorBound { .. } => "generator-bound",
        Remark::ConnectionsCapped { .. } => "connections-capped",
        Remark::Failed { .. } => "failed",
        Remark::Accepted { .. } => "accepted",
        Remark::Unfinished { .. } => "unfinished",
        Remark::Unsteady(_) => "unsteady",
        Remark::Disturbed { .. } => "disturbed",
        Remark::LengthsVary { .. } => "lengths-vary",
        Remark::DoubtfulFraming { .. } => "doubtful-framing",
        Remark::StrayBytes { .. } => "stray-bytes",
        Remark::Retried { .. } => "retried",
        Remark::Interim { .. } => "interim",
        Remark::NotReusable { .. } => "not-reusable",
    }
}
