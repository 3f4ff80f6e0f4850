//! Builds the reports of commands that measure revisions: `confirm`, `backfill` and `bisect`. Start
//! at [`report_confirmation`], [`report_backfill`] or [`report_bisection`].

use crate::comparison::{report_comparison, size};
use crate::document::{Document, ReportBlock};
use crate::failures::{report_failures, report_validity};
use crate::figure::{
    Uncertainty, better_direction, format_change_interval, format_count, format_moment,
    format_quantity, format_setting, join_texts, quality_words, unless_empty,
};
use crate::output::OutputOptions;
use crate::table::{ColumnSet, ReportCell, ReportTable, TextEmphasis, column_set};
use serde_json::json;
use speedwell_analysis::bisect::{
    BisectAnswer, BisectFindings, BisectOutcome, BisectedChange, ChangeConfirmation, EndsComparison,
};
use speedwell_analysis::confirm::{ConfirmationResult, IsMore, read_confirmations};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, CaseComparison};
use speedwell_model::{
    IntervalEstimate, LineRevision, Metric, MetricDirection, Revision, StepFailure, median,
    short_revision,
};

/// A case in its comparison, with the result of its confirmation.
pub(crate) type ConfirmLine<'a> =
    (&'a CandidateComparison, &'a CaseComparison, Option<ConfirmationResult>);

/// Builds the report. `is_more` returns the suspected direction of a case's change in a metric.
pub fn report_confirmation(
    findings: &AnalysisFindings,
    is_more: IsMore<'_>,
    output: &OutputOptions,
) -> Document {
    let lines = read_confirmations(findings, is_more);
    let mut document = Document::new("confirmation");
    document.push_warnings(&findings.warnings);
    document.append_document(report_validity(&findings.validity));
    document.push_headline(confirm_headline(&lines));
    document.push_table(confirm_columns().build_table("confirmations", &lines));
    let mut compared = report_comparison(findings, output);
    compared.blocks.retain(|block| matches!(block, ReportBlock::Table(_) | ReportBlock::Note(_)));
    document.push(ReportBlock::appendix("The comparison", std::mem::take(&mut compared.blocks)));
    document.append_document(report_failures(&findings.failures, output.verbosity));
    document
}

/// Returns a word for the direction of a metric's change, such as `slower`.
fn direction_word(metric: &Metric, is_more: bool) -> &'static str {
    let (good, bad) = quality_words(metric);
    if is_more == (metric.better == MetricDirection::Higher) { good } else { bad }
}

/// Builds the report for two sides that are the same program.
pub fn report_identical() -> Document {
    let mut document = Document::new("confirmation");
    document.push_headline(
        "refuted: both programs are the same file; check data, machine and environment",
    );
    document
}

fn confirm_headline(lines: &[ConfirmLine<'_>]) -> String {
    if let [only @ (comparison, _, outcome)] = lines {
        let size = confirmed_size(only);
        return match outcome {
            None => "neither confirmed nor refuted: measuring ended too soon".to_owned(),
            Some(ConfirmationResult::Refuted(_)) => format!("refuted: {size}"),
            Some(confirmed) => {
                let is_more = confirmed.change().value > 0.0;
                format!("confirmed: {size}, {}", direction_word(&comparison.metric, is_more))
            }
        };
    }
    let confirmed =
        lines.iter().filter(|line| matches!(line.2, Some(ConfirmationResult::Confirmed(_))));
    format!("confirmed in {} of {}", confirmed.count(), format_count(lines.len(), "case", "cases"))
}

/// Formats the change as `+4.8% [+4.1, +5.5]`, or as `0 -> 1` if it is a change from zero.
fn confirmed_size((comparison, row, outcome): &ConfirmLine<'_>) -> String {
    outcome.and_then(|_| size(row, &comparison.metric)).unwrap_or_default()
}

/// The columns of the table of confirmations.
pub(crate) fn confirm_columns<'a>() -> ColumnSet<ConfirmLine<'a>> {
    column_set! { line: ConfirmLine<'a>;
        words("state", "state") => confirm_state_cell(line.2),
        label("case", "case") => line.1.case.id(),
        machine("metric") => &line.0.metric.name,
        figure("change", "change") =>
            ReportCell::from(line.2.map(|outcome| outcome.change().value))
                .with_text(confirmed_size(line)),
        machine("change_low") => line.2.map(|outcome| outcome.change().low),
        machine("change_high") => line.2.map(|outcome| outcome.change().high),
        figure("runs", "runs per side") =>
            line.1.baseline.runs.len().min(line.1.candidate.runs.len()),
    }
}

fn confirm_state_cell(outcome: Option<ConfirmationResult>) -> ReportCell {
    let (state, emphasis) = match outcome {
        None => ("open", TextEmphasis::Caution),
        Some(ConfirmationResult::Confirmed(_)) => ("confirmed", TextEmphasis::Strong),
        Some(ConfirmationResult::Refuted(_)) => ("refuted", TextEmphasis::Muted),
    };
    ReportCell::words(state).with_emphasis(emphasis)
}

// The report of `backfill`: for which revisions the history now has data.

/// A revision and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillLine {
    /// The revision.
    pub revision: Revision,
    /// The outcome.
    pub outcome: BackfillOutcome,
    /// The number of the session that measured the revision or recorded its earlier failure.
    pub session: Option<i64>,
    /// The number of cases that failed.
    pub failures: usize,
}

/// The outcome of backfilling a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillOutcome {
    /// The revision was measured.
    Measured,
    /// The history already had data for the revision.
    Known,
    /// The revision could not be built, or its benchmarks could not be listed.
    Failed,
    /// The revision failed before and was not tried again.
    FailedBefore,
}

impl BackfillOutcome {
    fn outcome_cell(self) -> ReportCell {
        let (text, emphasis) = match self {
            BackfillOutcome::Measured => ("measured", TextEmphasis::None),
            BackfillOutcome::Known => ("had data", TextEmphasis::None),
            BackfillOutcome::Failed => ("failed", TextEmphasis::Caution),
            BackfillOutcome::FailedBefore => ("failed before", TextEmphasis::Caution),
        };
        ReportCell::words(text).with_emphasis(emphasis)
    }
}

/// Builds the report. It says how many of the `total` revisions in the requested range have data,
/// and gives the outcome of each examined revision.
pub fn report_backfill(lines: &[BackfillLine], total: usize) -> Document {
    let mut document = Document::new("backfill");
    let has_data = |line: &&BackfillLine| {
        matches!(line.outcome, BackfillOutcome::Measured | BackfillOutcome::Known)
    };
    let with_data = lines.iter().filter(has_data).count();
    let is_new = |line: &&BackfillLine| line.outcome == BackfillOutcome::Measured;
    let verb = if with_data == 1 { "has" } else { "have" };
    let failed = unless_empty(lines.len() - with_data, |failed| format!(", {failed} failed"));
    document.push_headline(format!(
        "{with_data} of {} {verb} data, {} measured now{failed}",
        format_count(total, "revision", "revisions"),
        lines.iter().filter(is_new).count()
    ));
    document.with_table(backfill_columns().build_table("revisions", lines))
}

/// The columns of the table of backfilled revisions.
pub(crate) fn backfill_columns() -> ColumnSet<BackfillLine> {
    column_set! { line: BackfillLine;
        words("revision", "revision") =>
            ReportCell::words(&line.revision.id).with_text(short_revision(&line.revision.id)),
        words("outcome", "outcome") => line.outcome.outcome_cell(),
        figure("session", "session") =>
            line.session.map_or_else(|| ReportCell::words(""), ReportCell::session),
        figure("failures", "failed cases") =>
            ReportCell::from(line.failures).shown_if(line.failures > 0),
        label("subject", "subject").expendable(1) =>
            line.revision.subject.as_deref().unwrap_or_default(),
    }
}

// The report of a bisection: the revision that introduced the change, or the revisions that
// may have introduced it.

/// A longer list of revisions is collapsed.
const MAX_LISTED_REVISIONS: usize = 20;

/// Builds the report.
pub fn report_bisection(
    found: &BisectFindings,
    failed: &[StepFailure],
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("bisection");
    document.push_headline(bisection_headline(found));
    if let Some(answer) = found.answer.as_ref().filter(|answer| !answer.parts.is_empty()) {
        document.push_table(changes_table(found, &answer.parts));
    }
    document.extend(remaining_candidates(found));
    output.add_detail(&mut document, |_, document| document.extend(ends_note(found)));
    let revisions = measured_revisions(found);
    if !revisions.is_empty() {
        let title = format!("{} measured", format_count(revisions.len(), "revision", "revisions"));
        let table = measured_columns(found).build_table("measured", &revisions);
        document.push(ReportBlock::appendix(title, vec![ReportBlock::Table(table)]));
    }
    document.attach_data("range", json!(found.bisection.range));
    document.attach_data("revisions", json!(found.bisection.line.len()));
    document.attach_data("found", json!(found.answer.as_ref().is_some_and(BisectAnswer::is_found)));
    document.append_document(report_failures(failed, output.verbosity));
    document
}

/// The sort keys of a bisection: the columns that all its tables have.
pub(crate) fn bisect_sort_keys() -> Vec<&'static str> {
    vec!["revision", "date", "subject", "author"]
}

fn bisection_headline(found: &BisectFindings) -> String {
    let ends = found.answer.as_ref().map(|answer| answer.ends);
    let delta = format_setting(found.state.delta);
    match (ends.or(found.standing.ends), &found.answer) {
        (Some(EndsComparison::Unmeasurable(index)), _) => format!(
            "{} ({}) cannot be built or measured, so the ends of {} cannot be compared",
            if index == 0 { "the good end" } else { "the bad end" },
            found.bisection.line[index].short(),
            found.bisection.range
        ),
        (Some(EndsComparison::Alike(change)), _) => {
            format!("the ends do not differ by {delta} or more: {}", metric_change(found, &change))
        }
        (Some(EndsComparison::Unclear(change)), _) => format!(
            "unclear whether the ends differ by {delta} or more: {}",
            metric_change(found, &change)
        ),
        (_, Some(answer)) if answer.is_found() || answer.has_changed_benchmark() => {
            found_headline(found, answer)
        }
        (_, answer) => format!(
            "{}: with 95% confidence, the change is in {}",
            if answer.is_some() { "not confirmed" } else { "not found yet" },
            remaining_text(found)
        ),
    }
}

fn found_headline(found: &BisectFindings, answer: &BisectAnswer) -> String {
    let line = &found.bisection.line;
    if let [part] = &answer.parts[..]
        && part.before + 1 < part.after
    {
        let count = format_count(part.after - part.before, "revision", "revisions");
        let revisions = format!("one of {count} after {}", line[part.before].short());
        return effect_text(found, part, &revisions);
    }
    let effect = |part: &BisectedChange| effect_text(found, part, line[part.after].short());
    join_texts("; ", answer.parts.iter().map(effect))
}

/// Says what a revision did, as in `abc made it slower: +4.8% [+4.1, +5.5]`.
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
            format!("{subject} made it {}: {size}", found_direction(found, &change))
        }
    }
}

/// Formats a change, as in `+2.2% [-1.0, +5.4]`. A change from zero is formatted as the levels of
/// both revisions: `0 -> 1`.
fn change_text(found: &BisectFindings, revisions: [usize; 2], change: &IntervalEstimate) -> String {
    if change.value.is_finite() {
        return format_change_interval(change);
    }
    let unit = found.metric.as_ref().map_or("", |metric| &metric.unit);
    let level = |revision| {
        let level = median(&mut found.state.values_of_revision(revision)).unwrap_or(0.0);
        format_quantity(level, unit, Uncertainty::Unknown)
    };
    revisions.map(level).join(" -> ")
}

/// Returns a word for the direction of the change, if the metric is known.
fn found_direction(found: &BisectFindings, change: &IntervalEstimate) -> &'static str {
    found.metric.as_ref().map_or("different", |metric| direction_word(metric, change.value > 0.0))
}

/// Formats a change with its metric, as in `cpu_time +2.2% [-1.0, +5.4] (lower is better)`.
fn metric_change(found: &BisectFindings, change: &IntervalEstimate) -> String {
    let size = change_text(found, found.ends(), change);
    let Some(metric) = &found.metric else { return size };
    format!("{} {size} ({})", metric.name, better_direction(metric.better))
}

fn remaining_text(found: &BisectFindings) -> String {
    let total = found.bisection.line.len() - 1;
    match found.standing.set.as_slice() {
        &[only] => found.bisection.line[only].short().to_owned(),
        set => format!("one of {} revisions (of {total})", set.len()),
    }
}

fn changes_table(found: &BisectFindings, parts: &[BisectedChange]) -> ReportTable {
    let line = |part: &BisectedChange| &found.bisection.line[part.after];
    let lines = parts.iter().map(|part| (line(part), ChangeLine { found, part }));
    let mut columns = revision_columns();
    columns.append(column_set! { line: (&LineRevision, ChangeLine<'_>);
        words("change", "change") =>
            ReportCell::from(line.1.change().map(|change| change.value))
                .with_text(line.1.size_text()),
        machine("change_low") => line.1.change().map(|change| change.low),
        machine("change_high") => line.1.change().map(|change| change.high),
        words("state", "state") => state_cell(line.1.part.confirmed),
        machine("before") => &line.1.found.bisection.line[line.1.part.before].id,
    });
    columns.build_table("changes", lines)
}

/// The columns with which all tables of a bisection begin. `Finding` is what else a table says
/// about a revision.
fn revision_columns<'a, Finding>() -> ColumnSet<(&'a LineRevision, Finding)> {
    column_set! { row: (&'a LineRevision, Finding);
        identifier("revision", "revision") =>
            ReportCell::words(&row.0.id).with_text(row.0.short()),
        words("date", "written (UTC)").expendable(2) => format_moment(row.0.authored_unix_ms),
        words("author", "author").expendable(1) => &row.0.author,
        label("subject", "subject") => &row.0.subject,
    }
}

/// A change with the bisection that found it.
struct ChangeLine<'a> {
    found: &'a BisectFindings,
    part: &'a BisectedChange,
}

impl ChangeLine<'_> {
    /// Returns the change as the confirmation measured it, if it did.
    fn change(&self) -> Option<IntervalEstimate> {
        let ChangeConfirmation::Measured(measured) = self.part.confirmed else { return None };
        Some(measured.change())
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

fn state_cell(confirmed: ChangeConfirmation) -> ReportCell {
    let doubt = match confirmed {
        ChangeConfirmation::Measured(ConfirmationResult::Refuted(_)) => "refuted",
        ChangeConfirmation::BenchmarkChanged => "the benchmark itself changed",
        ChangeConfirmation::NotFound => "not confirmed",
        ChangeConfirmation::Measured(ConfirmationResult::Confirmed(_))
        | ChangeConfirmation::Hangs => {
            return ReportCell::words("confirmed").with_emphasis(TextEmphasis::Strong);
        }
    };
    ReportCell::words(doubt).with_emphasis(TextEmphasis::Caution)
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
    let revisions = set.iter().map(|&index| (&found.bisection.line[index], ()));
    let table = ReportBlock::Table(revision_columns::<()>().build_table("candidates", revisions));
    if set.len() <= MAX_LISTED_REVISIONS {
        return vec![table];
    }
    let title = format!("{} left", format_count(set.len(), "revision", "revisions"));
    vec![ReportBlock::appendix(title, vec![table])]
}

/// Returns a note on the difference between the ends. Returns `None` if the ends do not clearly
/// differ, because the headline already states that.
fn ends_note(found: &BisectFindings) -> Option<ReportBlock> {
    let Some(EndsComparison::Differ(change)) = found.standing.ends else { return None };
    let size = change_text(found, found.ends(), &change);
    Some(ReportBlock::Note(format!(
        "{} as a whole: {size}, {}. To confirm a change, the revision that made it and the one \
         before are measured again.",
        found.bisection.range,
        found_direction(found, &change)
    )))
}

struct MeasuredRevision {
    values: Vec<f64>,
    hung: usize,
    failed: usize,
    is_unbuildable: bool,
}

fn measured_revisions(found: &BisectFindings) -> Vec<(&LineRevision, MeasuredRevision)> {
    let state = &found.state;
    let measured_revision = |index: usize| {
        let count = |outcome: BisectOutcome| {
            state.slots.values().filter(|slot| **slot == (index, outcome)).count()
        };
        MeasuredRevision {
            values: state.values_of_revision(index),
            hung: count(BisectOutcome::Hung),
            failed: count(BisectOutcome::Failed),
            is_unbuildable: state.unbuildable.contains(&index),
        }
    };
    let is_shown = |(_, row): &(&LineRevision, MeasuredRevision)| {
        row.is_unbuildable || row.hung + row.failed > 0 || !row.values.is_empty()
    };
    let line = &found.bisection.line;
    line.iter().zip((0..line.len()).map(measured_revision)).filter(is_shown).collect()
}

fn measured_columns<'a>(found: &BisectFindings) -> ColumnSet<(&'a LineRevision, MeasuredRevision)> {
    let metric = found.metric.as_ref();
    let name = metric.map_or("value", |metric| &metric.name);
    let unit = metric.map_or(String::new(), |metric| metric.unit.clone());
    let mut columns = revision_columns();
    columns.append(column_set! { row: (&'a LineRevision, MeasuredRevision);
        figure("runs", "runs") => row.1.values.len(),
        figure("median", format!("{name}, median")) =>
            ReportCell::quantity(median(&mut row.1.values.clone()), &unit),
        words("outcome", "outcome") => match &row.1 {
            row if row.is_unbuildable => "not built",
            row if row.hung > 0 => "exceeds the time limit",
            row if row.failed > 0 => "fails",
            _ => "measured",
        },
    });
    columns
}
