//! Builds the report of a bisection: the revision that introduced the change, or the revisions that
//! may have introduced it.

use super::output::OutputOptions;
use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::failures::report_failures;
use crate::figure::{
    Uncertainty, format_change_interval, format_count, format_moment, format_quantity,
    format_setting, quality_words,
};
use crate::table::{ReportCell, ReportTable, TextEmphasis};
use serde_json::json;
use speedwell_analysis::bisect::{
    BisectAnswer, BisectFindings, BisectOutcome, BisectedChange, ChangeConfirmation, EndsComparison,
};
use speedwell_analysis::confirm::ConfirmationResult;
use speedwell_model::{IntervalEstimate, LineRevision, MetricDirection, StepFailure, median};

/// A longer list of revisions is collapsed.
const MAX_LISTED_REVISIONS: usize = 20;

/// Builds the report.
pub fn report_bisection(
    found: &BisectFindings,
    failed: &[StepFailure],
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("bisection");
    document.push(ReportBlock::Headline(bisection_headline(found)));
    if let Some(answer) = &found.answer
        && !answer.parts.is_empty()
    {
        document.push(ReportBlock::Table(changes_table(found, &answer.parts)));
    }
    document.extend(remaining_candidates(found));
    output.add_detail(&mut document, |_, document| document.extend(ends_note(found)));
    let revisions = measured_revisions(found);
    if !revisions.is_empty() {
        document.push(ReportBlock::Appendix {
            title: format!("{} measured", format_count(revisions.len(), "revision", "revisions")),
            instead: None,
            blocks: vec![ReportBlock::Table(
                measured_columns(found).build_table("measured", &revisions),
            )],
        });
    }
    document.attach_data("range", json!(found.bisection.range));
    document.attach_data("revisions", json!(found.bisection.line.len()));
    document.attach_data("found", json!(found.answer.as_ref().is_some_and(BisectAnswer::is_found)));
    document.append_document(report_failures(failed, output.verbosity));
    document
}

/// The sort keys: the columns that all tables of the report have.
pub fn sort_keys() -> Vec<&'static str> {
    vec!["revision", "date", "subject", "author"]
}

fn bisection_headline(found: &BisectFindings) -> String {
    let line = &found.bisection.line;
    let ends = found.answer.as_ref().map(|answer| answer.ends);
    match (ends.or(found.standing.ends), &found.answer) {
        (Some(EndsComparison::Unmeasurable(index)), _) => format!(
            "{} ({}) cannot be built or measured, so the ends of {} cannot be compared",
            if index == 0 { "the good end" } else { "the bad end" },
            line[index].short(),
            found.bisection.range
        ),
        (Some(EndsComparison::Alike(change)), _) => format!(
            "the ends do not differ by {} or more: {}",
            format_setting(found.state.delta),
            metric_change(found, &change)
        ),
        (Some(EndsComparison::Unclear(change)), _) => format!(
            "unclear whether the ends differ by {} or more: {}",
            format_setting(found.state.delta),
            metric_change(found, &change)
        ),
        (_, Some(answer)) if answer.is_found() => found_headline(found, answer),
        (_, Some(answer)) if answer.has_changed_benchmark() => found_headline(found, answer),
        (_, Some(_)) => format!(
            "not confirmed: with 95 % confidence, the change is in {}",
            remaining_text(found)
        ),
        (_, None) => format!(
            "not found yet: with 95 % confidence, the change is in {}",
            remaining_text(found)
        ),
    }
}

fn found_headline(found: &BisectFindings, answer: &BisectAnswer) -> String {
    let line = &found.bisection.line;
    match answer.parts.as_slice() {
        [part] if part.before + 1 == part.after => {
            effect_text(found, part, line[part.after].short())
        }
        [part] => {
            let count = format_count(part.after - part.before, "revision", "revisions");
            let revisions = format!("one of {count} after {}", line[part.before].short());
            effect_text(found, part, &revisions)
        }
        parts => {
            let effects =
                parts.iter().map(|part| effect_text(found, part, line[part.after].short()));
            effects.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Says what a revision did, as in `abc made it slower: +4.8 % [+4.1, +5.5]`.
fn effect_text(found: &BisectFindings, part: &BisectedChange, subject: &str) -> String {
    match part.confirmed {
        ChangeConfirmation::Hangs => format!(
            "{subject} exceeds the time limit, and {} does not",
            found.bisection.line[part.before].short()
        ),
        ChangeConfirmation::BenchmarkChanged => {
            format!("not confirmed: {subject} changed the benchmark itself")
        }
        ChangeConfirmation::NotFound => format!("{subject} was not confirmed"),
        ChangeConfirmation::Measured(confirmation) => {
            let change = confirmation.change();
            let size = change_text(found, [part.before, part.after], &change);
            format!("{subject} made it {}: {size}", direction_word(found, &change))
        }
    }
}

/// Formats a change, as in `+2.2 % [-1.0, +5.4]`. A change from zero is formatted as the levels of
/// both revisions: `0 -> 1`.
fn change_text(found: &BisectFindings, revisions: [usize; 2], change: &IntervalEstimate) -> String {
    if change.value.is_finite() {
        return format_change_interval(change);
    }
    let unit = found.metric.as_ref().map_or("", |metric| &metric.unit);
    let levels = revisions.map(|revision| {
        let level = median(&mut found.state.values_of_revision(revision)).unwrap_or(0.0);
        format_quantity(level, unit, Uncertainty::Unknown)
    });
    levels.join(" -> ")
}

/// Returns a word for the direction of the change, such as `slower`.
fn direction_word(found: &BisectFindings, change: &IntervalEstimate) -> &'static str {
    let Some(metric) = &found.metric else {
        return "different";
    };
    let (good, bad) = quality_words(metric);
    let is_better = (change.value > 0.0) == (metric.better == MetricDirection::Higher);
    if is_better { good } else { bad }
}

/// Formats a change with its metric, as in `cpu_time +2.2 % [-1.0, +5.4] (lower is better)`.
fn metric_change(found: &BisectFindings, change: &IntervalEstimate) -> String {
    let size = change_text(found, found.ends(), change);
    match &found.metric {
        Some(metric) => {
            format!("{} {size} ({})", metric.name, crate::figure::better_direction(metric.better))
        }
        None => size,
    }
}

fn remaining_text(found: &BisectFindings) -> String {
    let total = found.bisection.line.len() - 1;
    match found.standing.set.as_slice() {
        &[only] => found.bisection.line[only].short().to_owned(),
        set => format!("one of {} revisions (of {total})", set.len()),
    }
}

fn changes_table(found: &BisectFindings, parts: &[BisectedChange]) -> ReportTable {
    let lines: Vec<ChangeLine<'_>> = parts.iter().map(|part| ChangeLine { found, part }).collect();
    let columns = column_set! { line: ChangeLine<'_>;
        identifier("revision", "revision") => revision_cell(line.revision()),
        words("date", "written (UTC)").expendable(2) =>
            format_moment(line.revision().authored_unix_ms),
        words("author", "author").expendable(1) => &line.revision().author,
        label("subject", "subject") => &line.revision().subject,
        words("change", "change") =>
            ReportCell::from(line.change().map(|change| change.value)).with_text(line.size_text()),
        machine("change_low") => line.change().map(|change| change.low),
        machine("change_high") => line.change().map(|change| change.high),
        words("state", "state") => state_cell(line.part.confirmed),
        machine("before") => &line.found.bisection.line[line.part.before].id,
    };
    columns.build_table("changes", &lines)
}

/// A change with the bisection that found it.
struct ChangeLine<'a> {
    found: &'a BisectFindings,
    part: &'a BisectedChange,
}

impl ChangeLine<'_> {
    fn revision(&self) -> &LineRevision {
        &self.found.bisection.line[self.part.after]
    }

    /// Returns the change as the confirmation measured it, if it did.
    fn change(&self) -> Option<IntervalEstimate> {
        match self.part.confirmed {
            ChangeConfirmation::Measured(confirmation) => Some(confirmation.change()),
            ChangeConfirmation::Hangs
            | ChangeConfirmation::BenchmarkChanged
            | ChangeConfirmation::NotFound => None,
        }
    }

    fn size_text(&self) -> String {
        match self.change() {
            Some(change) => change_text(self.found, [self.part.before, self.part.after], &change),
            None if self.part.confirmed == ChangeConfirmation::Hangs => {
                "exceeds the time limit".to_owned()
            }
            None => String::new(),
        }
    }
}

fn revision_cell(revision: &LineRevision) -> ReportCell {
    ReportCell::words(&revision.id).with_text(revision.short())
}

fn state_cell(confirmed: ChangeConfirmation) -> ReportCell {
    let (state, emphasis) = match confirmed {
        ChangeConfirmation::Measured(ConfirmationResult::Refuted(_)) => {
            ("refuted", TextEmphasis::Caution)
        }
        ChangeConfirmation::BenchmarkChanged => {
            ("the benchmark itself changed", TextEmphasis::Caution)
        }
        ChangeConfirmation::NotFound => ("not confirmed", TextEmphasis::Caution),
        ChangeConfirmation::Measured(ConfirmationResult::Confirmed(_))
        | ChangeConfirmation::Hangs => ("confirmed", TextEmphasis::Strong),
    };
    ReportCell::words(state).with_emphasis(emphasis)
}

/// Lists the revisions that may contain the change, unless the search has found a single revision.
fn remaining_candidates(found: &BisectFindings) -> Vec<ReportBlock> {
    let is_found = found.answer.as_ref().is_some_and(BisectAnswer::is_found);
    let is_search = !matches!(
        found.standing.ends,
        Some(EndsComparison::Alike(_) | EndsComparison::Unmeasurable(_))
    );
    let set: Vec<usize> = match &found.answer {
        Some(answer) if is_found => {
            let several = answer.parts.iter().filter(|part| part.before + 1 < part.after);
            several.flat_map(|part| part.before + 1..=part.after).collect()
        }
        _ if is_search => found.standing.set.clone(),
        _ => Vec::new(),
    };
    if set.is_empty() {
        return Vec::new();
    }
    let line = &found.bisection.line;
    let revisions: Vec<&LineRevision> = set.iter().map(|&index| &line[index]).collect();
    let columns = column_set! { revision: &LineRevision;
        identifier("revision", "revision") => revision_cell(revision),
        words("date", "written (UTC)").expendable(2) => format_moment(revision.authored_unix_ms),
        words("author", "author").expendable(1) => &revision.author,
        label("subject", "subject") => &revision.subject,
    };
    let table = ReportBlock::Table(columns.build_table("candidates", &revisions));
    if set.len() <= MAX_LISTED_REVISIONS {
        return vec![table];
    }
    vec![ReportBlock::Appendix {
        title: format!("{} left", format_count(set.len(), "revision", "revisions")),
        instead: None,
        blocks: vec![table],
    }]
}

/// Returns a note on the difference between the ends. Returns `None` if the ends do not clearly
/// differ, because the headline then says so.
fn ends_note(found: &BisectFindings) -> Option<ReportBlock> {
    let Some(EndsComparison::Differ(change)) = found.standing.ends else {
        return None;
    };
    Some(ReportBlock::Note(format!(
        "{} as a whole: {}, {}. To confirm a change, the revision that made it and the one \
         before are measured again.",
        found.bisection.range,
        change_text(found, found.ends(), &change),
        direction_word(found, &change)
    )))
}

struct MeasuredRevision {
    revision: LineRevision,
    values: Vec<f64>,
    hung: usize,
    failed: usize,
    is_unbuildable: bool,
}

fn measured_revisions(found: &BisectFindings) -> Vec<MeasuredRevision> {
    let state = &found.state;
    let measured_revision = |(index, revision): (usize, &LineRevision)| {
        let count = |outcome: BisectOutcome| {
            state.slots.values().filter(|slot| **slot == (index, outcome)).count()
        };
        MeasuredRevision {
            revision: revision.clone(),
            values: state.values_of_revision(index),
            hung: count(BisectOutcome::Hung),
            failed: count(BisectOutcome::Failed),
            is_unbuildable: state.unbuildable.contains(&index),
        }
    };
    found
        .bisection
        .line
        .iter()
        .enumerate()
        .map(measured_revision)
        .filter(|row| row.is_unbuildable || row.hung + row.failed > 0 || !row.values.is_empty())
        .collect()
}

fn measured_columns(found: &BisectFindings) -> ColumnSet<MeasuredRevision> {
    let metric = found.metric.as_ref();
    let name = metric.map_or("value", |metric| &metric.name);
    let unit = metric.map_or(String::new(), |metric| metric.unit.clone());
    column_set! { row: MeasuredRevision;
        identifier("revision", "revision") => revision_cell(&row.revision),
        words("date", "written (UTC)").expendable(2) =>
            format_moment(row.revision.authored_unix_ms),
        words("author", "author").expendable(1) => &row.revision.author,
        label("subject", "subject") => &row.revision.subject,
        figure("runs", "runs") => row.values.len(),
        figure("median", format!("{name}, median")) =>
            ReportCell::quantity(median(&mut row.values.clone()), &unit),
        words("outcome", "outcome") => match row {
            row if row.is_unbuildable => "not built",
            row if row.hung > 0 => "exceeds the time limit",
            row if row.failed > 0 => "fails",
            _ => "measured",
        },
    }
}
