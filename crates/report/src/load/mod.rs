//! Builds the report of HTTP load tests: the answer, a row per load, percentiles, the outcomes of
//! the requests, charts, and every measured figure in machine-readable form.
//!
//! This module chooses wording and order; `analysis::load` decides which figures are reported.
//! Start at [`report_loads`]. Sentences are in `text.rs`, tables in `tables.rs`, and [`add_gate`]
//! reports whether loads met their limits.

mod charts;
mod facts;
mod gate;
mod search;
mod tables;
mod text;

pub use gate::add_gate;
pub use search::{level_sort_keys, rate_sort_keys, report_search};
pub use tables::sort_keys;

use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::load::text::load_name;
use crate::output::OutputOptions;
use serde_json::{Value, json};
use speedwell_analysis::load::{
    DriftMetric, LoadFindings, LoadRemark, RemarkSeverity, TimedQuantity,
};

/// Maximum number of loads whose details are shown open. With more loads, the details are
/// collapsed: the table of loads suffices to compare them.
const MAX_UNFOLDED_LOADS: usize = 4;

/// The note for closed loads, which have no schedule.
const CLOSED_NOTE: &str = "service: from sending a request to the last byte of its response. These \
    clients wait for a response before they send again, so requests that would have come during a \
    stall were never sent and no figure includes them (coordinated omission); to see how long \
    users would have waited, use --rate.";

/// The note for open loads, which have a schedule.
const OPEN_NOTE: &str = "response: from the time a request was due to the last byte of its \
    response, which is how long users would have waited; unfinished requests count with their age, \
    marked ≥. service: from when a request was sent. lag: from when it was due until it was sent, whatever the cause. The upper end of a range (14.1-15.9 ms) counts from when requests were due; the \
    lower end excludes the lateness of the generator itself.";

/// Builds the report of loads.
pub fn report_loads(loads: &[LoadFindings<'_>], output: &OutputOptions) -> Document {
    let mut document = Document::new("load");
    document.extend(load_warnings(loads).into_iter().map(ReportBlock::Warning));
    document.push(ReportBlock::Headline(text::loads_headline(loads)));
    document.push(ReportBlock::Table(tables::summary_table(loads)));
    // The charts precede the details: a timeline shows at a glance whether the results mean
    // anything.
    document.push_charts(charts::draw_charts(loads));
    output.add_detail(&mut document, |_, document| {
        for load in loads {
            add_details(load, loads.len(), document);
        }
        document.extend(load_notes(loads));
    });
    document.attach_data("load_findings", loads.iter().map(findings_data).collect());
    document.attach_data("loads", loads.iter().map(run_data).collect());
    document
}

/// Returns warnings about threats to the validity of the results, and about problems outside the
/// measurement. A warning that several loads share is given once: under the name of the first of
/// these loads, with the number of the others.
fn load_warnings(loads: &[LoadFindings<'_>]) -> Vec<String> {
    let mut warnings: Vec<(String, String, usize)> = Vec::new();
    let mut add = |load: &LoadFindings<'_>, kind: String, text: String| {
        let existing = warnings.iter_mut().find(|(other, _, _)| *other == kind);
        match (existing, loads.len()) {
            (Some((_, _, further_loads)), _) => *further_loads += 1,
            (None, 1) => warnings.push((kind, text, 0)),
            (None, _) => warnings.push((kind, format!("{}: {text}", load_name(load)), 0)),
        }
    };
    for load in loads {
        let remarks = load.remarks.iter();
        for remark in remarks.filter(|remark| remark.severity() != RemarkSeverity::Note) {
            let text = text::remark_sentence(remark, load);
            // Warnings of one kind are given once. Warnings about machines are distinguished by
            // their text, because several machines of one load may be lost or limited.
            let kind = match remark {
                LoadRemark::MachineLost(_) | LoadRemark::MachineLimited(..) => text.clone(),
                _ => remark.name().to_owned(),
            };
            add(load, kind, text);
        }
        for text in &load.run.warnings {
            add(load, text.clone(), text.clone());
        }
    }
    let sentence = |(_, text, further_loads): (String, String, usize)| match further_loads {
        0 => text,
        _ => format!("{text} (And {}.)", format_count(further_loads, "more load", "more loads")),
    };
    warnings.into_iter().map(sentence).collect()
}

/// Adds the details of a load. `load_count` is the number of loads in the report.
fn add_details(load: &LoadFindings<'_>, load_count: usize, document: &mut Document) {
    let mut blocks = vec![ReportBlock::Facts(facts::load_facts(load))];
    blocks.extend(tables::percentiles_table(load).map(ReportBlock::Table));
    blocks.push(ReportBlock::Table(tables::times_table(load)));
    blocks.extend(tables::outcome_blocks(load));
    let notes = load
        .remarks
        .iter()
        .filter(|remark| remark.severity() == RemarkSeverity::Note)
        .map(|remark| ReportBlock::Note(text::remark_sentence(remark, load)));
    blocks.extend(notes);
    match load_count {
        1 => document.extend(blocks),
        2..=MAX_UNFOLDED_LOADS => {
            document.push_heading(2, load_name(load));
            document.extend(blocks);
        }
        _ => document.push(ReportBlock::Appendix { title: load_name(load), instead: None, blocks }),
    }
}

fn load_notes(loads: &[LoadFindings<'_>]) -> Vec<ReportBlock> {
    let is_reported =
        |quantity: TimedQuantity| loads.iter().any(|load| load.principal_quantity().0 == quantity);
    let closed = is_reported(TimedQuantity::Service).then_some(CLOSED_NOTE);
    let open = is_reported(TimedQuantity::Response).then_some(OPEN_NOTE);
    let notes = closed.into_iter().chain(open);
    notes.map(|note| ReportBlock::Note(note.to_owned())).collect()
}

/// Returns the options and the measurements of a load, without loss: `speedwell report FILE.json`
/// reads them back.
pub fn run_data(load: &LoadFindings<'_>) -> Value {
    // A load is plain data with string keys, which always converts to JSON. Otherwise, the reader
    // of the JSON would report the null.
    serde_json::to_value(load.run).unwrap_or(Value::Null)
}

/// Returns the findings as data.
pub fn findings_data(load: &LoadFindings<'_>) -> Value {
    let remarks: Vec<&str> = load.remarks.iter().map(LoadRemark::name).collect();
    let (quantity, group) = load.principal_quantity();
    json!({
        "load": load_name(load),
        "throughput": load.throughput_per_s,
        "principal": {"quantity": quantity.name(), "group": group.name()},
        "concurrency": load.concurrency,
        "open": load.open.map(|open| json!({
            "achieved": open.achieved,
            "lateness_p99_ns": open.own_lag_p99_ns,
            "lateness_limit_ns": open.own_lag_limit_ns,
            "is_generator_limited": open.is_generator_limited(),
            "is_rate_missed": open.is_rate_missed(),
        })),
        "generator": load.generator,
        "requests_per_connection": load.per_connection,
        "halves": load.halves.map(|halves| json!({
            "metric": match halves.course {
                DriftMetric::Throughput => "throughput",
                DriftMetric::Median => "p50_ns",
            },
            "first": halves.first,
            "second": halves.second,
        })),
        "is_balanced": load.balance.is_ok(),
        "notes": remarks,
    })
}
