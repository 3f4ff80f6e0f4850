//! Builds the report of HTTP load tests: the answer, a row per load, percentiles, the outcomes of
//! the requests, charts, and every measured figure in machine-readable form.
//!
//! This module chooses wording and order; `analysis::load` decides which figures are reported.
//! Start at [`report_loads`]. Sentences are in `text.rs`, tables in `tables.rs`, and [`add_gate`]
//! reports whether loads met their limits.

mod charts;
mod search;
mod tables;
mod text;

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_number, format_rate, format_share};
use crate::load::tables::{format_ns, format_ns_range, load_name, refusal_reason};
use crate::output::OutputOptions;
use crate::table::{ReportCell, ReportTable, TableFootnotes, TextEmphasis};
use serde_json::{Value, json};
use speedwell_analysis::load::gate::{ConditionAnswer, JudgedCondition, LoadFigure, UnknownReason};
use speedwell_analysis::load::{
    DriftMetric, LoadFindings, LoadRemark, RemarkSeverity, TimedQuantity,
};

pub use search::{level_sort_keys, rate_sort_keys, report_search};
pub use tables::sort_keys;

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
    document.push_headline(text::loads_headline(loads));
    document.push_table(tables::summary_table(loads));
    // The charts precede the details: a timeline shows at a glance whether the load was steady
    // enough for meaningful results.
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

/// Adds the details of a load. `load_count` is the number of loads in the report.
fn add_details(load: &LoadFindings<'_>, load_count: usize, document: &mut Document) {
    let mut blocks = vec![ReportBlock::Facts(tables::load_facts(load))];
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
        _ => document.push(ReportBlock::appendix(load_name(load), blocks)),
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
    // A load is plain data with string keys, which always converts to JSON. If the conversion
    // failed, the result would be null, and the reader of the JSON would report it.
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

// Reports whether loads met the conditions of a gate, which decide the exit status.

/// Adds the result of a gate to a report. A sentence precedes the headline, and a table with a row
/// per condition follows it.
pub fn add_gate(judged: &[JudgedCondition<'_>], document: &mut Document) {
    if judged.is_empty() {
        return;
    }
    let answer = gate_answer(judged);
    let table = ReportBlock::Table(conditions_table(judged));
    let is_headline = |block: &ReportBlock| matches!(block, ReportBlock::Headline(_));
    let index = document.blocks.iter().position(is_headline);
    match index.map(|index| (index, &mut document.blocks[index])) {
        Some((index, ReportBlock::Headline(text))) => {
            *text = format!("{answer} {text}");
            document.blocks.insert(index + 1, table);
        }
        _ => document.extend([ReportBlock::Headline(answer), table]),
    }
}

fn gate_answer(judged: &[JudgedCondition<'_>]) -> String {
    let conditions = format_count(judged.len(), "condition", "conditions");
    let count = |has_answer: fn(&ConditionAnswer) -> bool| {
        judged.iter().filter(|row| has_answer(&row.answer)).count()
    };
    let failed = count(|answer| *answer == ConditionAnswer::Failed);
    let unknown = count(|answer| matches!(answer, ConditionAnswer::Unknown(_)));
    match (failed, unknown) {
        (0, 0) if judged.len() == 1 => {
            "gate passed: its condition for failure is not met.".to_owned()
        }
        (0, 0) => format!("gate passed: none of its {conditions} for failure is met."),
        (0, unknown) => format!("gate cannot judge {unknown} of {conditions}."),
        (failed, 0) => format!("gate failed: the loads met {failed} of {conditions} for failure."),
        (failed, unknown) => {
            format!(
                "gate failed: the loads met {failed} of {conditions} for failure; {unknown} cannot \
                 be judged."
            )
        }
    }
}

fn conditions_table(judged: &[JudgedCondition<'_>]) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let rows: Vec<ConditionLine<'_>> = judged
        .iter()
        .map(|judged| ConditionLine {
            judged,
            mark: unknown_reason(judged)
                .map_or(String::new(), |reason| footnotes.footnote_mark(reason)),
        })
        .collect();
    ReportTable {
        footnotes: footnotes.into_texts(),
        ..condition_columns().build_table("conditions", &rows)
    }
}

/// A condition with the mark of its footnote.
struct ConditionLine<'a> {
    judged: &'a JudgedCondition<'a>,
    mark: String,
}

fn condition_columns<'a>() -> ColumnSet<ConditionLine<'a>> {
    column_set! { row: ConditionLine<'a>;
        identifier("fails_if", "fails if") => &row.judged.condition.text,
        label("load", "load") => row.judged.load,
        machine("quantity") => row.judged.quantity.map(|quantity| quantity.name()),
        figure("value", "found") =>
            ReportCell::shown_figure(row.judged.value, |value| found_text(row.judged, value)),
        machine("low") => row.judged.low,
        machine("limit") => row.judged.condition.limit,
        machine("is_lower_bound") => row.judged.is_lower_bound,
        words("answer", "answer").facet() => answer_cell(row),
    }
}

fn answer_cell(row: &ConditionLine<'_>) -> ReportCell {
    let (name, words, emphasis) = match row.judged.answer {
        ConditionAnswer::Passed => ("passed", "✓ passed", TextEmphasis::Good),
        ConditionAnswer::Failed => ("failed", "✗ failed", TextEmphasis::Bad),
        ConditionAnswer::Unknown(_) => ("unknown", "✗ cannot be judged", TextEmphasis::Caution),
    };
    ReportCell::words(name).with_text(format!("{words}{}", row.mark)).with_emphasis(emphasis)
}

fn found_text(row: &JudgedCondition<'_>, value: f64) -> String {
    match row.condition.figure {
        LoadFigure::Time(..) => {
            let time = match row.low {
                Some(low) => format_ns_range(low, value),
                None => format_ns(value, row.is_lower_bound),
            };
            match row.quantity {
                Some(quantity @ (TimedQuantity::Response | TimedQuantity::Service)) => {
                    format!("{} {time}", quantity.name())
                }
                _ => time,
            }
        }
        LoadFigure::Throughput => format_rate(value),
        LoadFigure::ErrorShare | LoadFigure::OkShare => format_share(value),
        LoadFigure::ErrorCount | LoadFigure::OkCount => format_number(value, 0),
    }
}

/// Says why a condition could not be evaluated.
fn unknown_reason(row: &JudgedCondition<'_>) -> Option<&'static str> {
    let ConditionAnswer::Unknown(why) = row.answer else {
        return None;
    };
    Some(match why {
        UnknownReason::Refused(refusal) => refusal_reason(refusal),
        UnknownReason::ClosedLoad => "this time is measured only for loads with --rate",
        UnknownReason::NoRequests => "no request counts towards this figure",
        UnknownReason::TooFewRequests => "too few requests: none lies beyond this percentile",
        UnknownReason::MachineLost => {
            "a machine that sent a part of the load was lost, so the load was smaller than requested"
        }
        UnknownReason::Range => {
            "the limit lies within the range of possible values, which is due to the lateness of the \
             generator itself"
        }
        UnknownReason::LowerBound => "unfinished requests may have taken longer",
    })
}
