//! Builds the report of HTTP load tests: the answer, a row per load, percentiles, the outcomes of
//! the requests, charts, and every measured figure in machine-readable form.
//!
//! This module chooses wording and order; `analysis::load` decides which figures are reported.
//! Start at [`report_load_session`]. Sentences are in `text.rs`, tables in `tables.rs`, and
//! [`add_gate`] reports whether loads met their limits.

mod charts;
mod gate;
mod search;
mod tables;
mod text;

use crate::case_labels::distinct;
use crate::document::{Document, ReportBlock, new_fact};
use crate::figure::format_count;
use crate::output::OutputOptions;
use speedwell_analysis::load::gate::{LoadCondition, LoadFigure};
use speedwell_analysis::load::{
    LoadFindings, LoadRemark, RemarkSeverity, TimedQuantity, group_by_level, group_by_rate,
};
use speedwell_model::Session;
use tables::{findings_data, load_name, run_data, summary_table};

pub use gate::{add_gate, gate_lines};
pub use search::{level_sort_keys, rate_sort_keys, report_search};
pub use tables::sort_keys;
pub(crate) use text::loads_headline;

/// Maximum number of loads whose details are shown open. With more loads, or repeated ones, the
/// details are collapsed: the table of loads suffices to compare them.
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

/// Reports a session whose runs were HTTP loads, `loads`. A search for a level or a rate gets the
/// report of a search. Loads that were sent once get their own report, because a table of medians
/// of single values would say less. Different loads that were repeated are reported like any other
/// runs, by `report_runs`, followed by their details; for the runs of one load, that report follows.
///
/// # Errors
/// Fails if `report_runs` fails.
pub fn report_load_session(
    session: &Session,
    loads: &[LoadFindings<'_>],
    output: &OutputOptions,
    report_runs: impl FnOnce() -> anyhow::Result<Document>,
) -> anyhow::Result<Document> {
    let conditions = gate::session_conditions(session);
    let levels = group_by_level(loads);
    let rates = group_by_rate(loads, &conditions);
    if !levels.is_empty() || !rates.is_empty() {
        return Ok(report_search(loads, &levels, &rates, output));
    }
    let limits_time = |limit: &LoadCondition| matches!(limit.figure, LoadFigure::Time(..));
    let details = report_loads(loads, conditions.iter().any(limits_time), output);
    if !is_repeated(loads) || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document = report_runs()?;
    let mut runs = Vec::new();
    if text::is_one_load(loads) {
        let is_warning = |block: &ReportBlock| matches!(block, ReportBlock::Warning(_));
        let blocks = std::mem::take(&mut document.blocks).into_iter();
        (document.blocks, runs) = blocks.partition(is_warning);
    }
    document.append_document(details);
    if !runs.is_empty() {
        document.push(ReportBlock::appendix("Figures over the runs", runs));
    }
    Ok(document)
}

fn is_repeated(loads: &[LoadFindings<'_>]) -> bool {
    loads.iter().any(|load| load.run.round > 0)
}

/// Builds the report of loads. `has_time_limit` says whether a gate limits a time.
pub fn report_loads(
    loads: &[LoadFindings<'_>],
    has_time_limit: bool,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("load");
    document.extend(load_warnings(loads).into_iter().map(ReportBlock::Warning));
    document.push_headline(text::loads_headline(loads));
    let table = ReportBlock::Table(summary_table(loads));
    match loads {
        [only] => {
            document.push(ReportBlock::KeyFigures(tables::key_figures(only)));
            document.extend(tables::main_times(only).map(ReportBlock::Table));
            document.push(ReportBlock::Facts(tables::main_facts(only)));
            document.push(ReportBlock::appendix("Summary", vec![table]));
        }
        _ => {
            document.push(table);
            document.extend(counts_by_load(loads));
        }
    }
    // The charts precede the details: a timeline shows at a glance whether the load was steady
    // enough for meaningful results.
    document.push_charts(charts::draw_charts(loads, has_time_limit));
    output.add_detail(&mut document, |_, document| {
        for load in loads {
            add_details(load, loads, document);
        }
        let notes = load_notes(loads);
        match loads {
            [_] => document.push(ReportBlock::appendix("What the times mean", notes)),
            _ => document.extend(notes),
        }
    });
    document.attach_data("load_findings", loads.iter().map(findings_data).collect());
    document.attach_data("loads", loads.iter().map(run_data).collect());
    document
}

/// Counts the requests of each load over all its rounds. With many loads, the table suffices.
fn counts_by_load(loads: &[LoadFindings<'_>]) -> Vec<ReportBlock> {
    let labels = distinct(loads.iter().map(|load| load.run.label.as_str()));
    if labels.len() > MAX_UNFOLDED_LOADS {
        return Vec::new();
    }
    let count = |label: &str| {
        let rounds: Vec<&LoadFindings<'_>> =
            loads.iter().filter(|load| load.run.label == label).collect();
        let mut figures = vec![new_fact("load", label)];
        figures.extend(tables::request_counts(&rounds));
        ReportBlock::KeyFigures(figures)
    };
    labels.into_iter().map(count).collect()
}

/// Returns warnings about threats to the validity of the results, and about problems outside the
/// measurement. A warning that applies to several loads is given once, with the name of the first
/// of these loads and the number of the others.
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

/// Adds the details of one of the loads in the report.
fn add_details(load: &LoadFindings<'_>, loads: &[LoadFindings<'_>], document: &mut Document) {
    let load_count = loads.len();
    let mut blocks = vec![ReportBlock::Facts(tables::load_facts(load))];
    blocks.extend(tables::percentiles_table(load).map(ReportBlock::Table));
    blocks.push(ReportBlock::Table(tables::times_table(load)));
    let mut others = tables::outcome_blocks(load);
    let is_told = |remark: &LoadRemark<'_>| {
        load_count == 1 && *remark == LoadRemark::NotReusable && tables::closes_each(load)
    };
    let is_note =
        |remark: &&LoadRemark<'_>| remark.severity() == RemarkSeverity::Note && !is_told(remark);
    let notes = load.remarks.iter().filter(is_note);
    others.extend(notes.map(|remark| ReportBlock::Note(text::remark_sentence(remark, load))));
    if load_count == 1 {
        document.extend(others);
        document.push(ReportBlock::appendix("Details", blocks));
        return;
    }
    blocks.extend(others);
    match load_count {
        2..=MAX_UNFOLDED_LOADS if !is_repeated(loads) => {
            document.push_heading(2, load_name(load));
            document.extend(blocks);
        }
        _ => document.push(ReportBlock::appendix(load_name(load), blocks)),
    }
}

fn load_notes(loads: &[LoadFindings<'_>]) -> Vec<ReportBlock> {
    let notes = [(TimedQuantity::Service, CLOSED_NOTE), (TimedQuantity::Response, OPEN_NOTE)];
    let is_reported = |(quantity, _): &(TimedQuantity, &str)| {
        loads.iter().any(|load| load.principal_quantity().0 == *quantity)
    };
    let reported = notes.into_iter().filter(is_reported);
    reported.map(|(_, note)| ReportBlock::Note(note.to_owned())).collect()
}
