//! Reports failures, each with its cause, its stderr and a command that reproduces it. Also lists
//! benchmarks that reported that they cannot run here, the result of a gate, and figures that are
//! not valid.

use crate::case_labels::distinct;
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, join_texts, unless_empty};
use crate::output::Verbosity;
use crate::table::{ReportCell, ReportRow, ReportTable, TextEmphasis, VALIDITY_TABLE, column_set};
use serde_json::json;
use speedwell_analysis::gate::GateOutcome;
use speedwell_analysis::validity::{FindingSeverity, ValidityFinding, join_names};
use speedwell_model::{Case, StepFailure};
use std::collections::BTreeSet;

/// Number of distinct failures that are shown by default.
const MAX_SHOWN_FAILURES: usize = 3;

/// Reports the failures and skipped benchmarks. Machine-readable output lists every failure; for
/// people, identical failures are combined.
pub fn report_failures(failures: &[StepFailure], verbosity: Verbosity) -> Document {
    report_failures_of(failures, true, verbosity)
}

/// Does the same as [`report_failures`]. If nothing was measured, and every case failed for the same
/// reason, one line reports that.
pub(crate) fn report_failures_of(
    failures: &[StepFailure],
    is_measured: bool,
    verbosity: Verbosity,
) -> Document {
    let mut document = Document::new("failures");
    // Serialization cannot fail, because the model contains no value that JSON cannot represent.
    let data = failures.iter().map(|failure| {
        serde_json::to_value(failure).unwrap_or_else(|_| json!({"benchmark": failure.benchmark}))
    });
    document.attach_data("failures", data.collect());
    let (skipped, failed): (Vec<_>, Vec<_>) =
        failures.iter().partition(|failure| failure.cause.is_skip());
    let is_all = !is_measured && skipped.is_empty();
    document.extend(failed_blocks(&failed, is_all, verbosity));
    document.extend(skipped_blocks(&skipped));
    document
}

/// Failures reported together. They have the same step and cause. They also have the same end of
/// stderr, or belong to one case of one variant.
struct FailureGroup<'a> {
    first: &'a StepFailure,
    times: usize,
    cases: BTreeSet<&'a str>,
    variants: BTreeSet<&'a str>,
}

fn group_failures<'a>(failures: &[&'a StepFailure]) -> Vec<FailureGroup<'a>> {
    let is_alike = |a: &StepFailure, b: &StepFailure| {
        let is_one_case =
            (&a.benchmark, &a.case, &a.variant) == (&b.benchmark, &b.case, &b.variant);
        (a.step, &a.cause) == (b.step, &b.cause) && (is_one_case || a.stderr_tail == b.stderr_tail)
    };
    let mut groups: Vec<FailureGroup<'a>> = Vec::new();
    for failure in failures {
        let existing = groups.iter().position(|group| is_alike(group.first, failure));
        let index = existing.unwrap_or(groups.len());
        if existing.is_none() {
            let (cases, variants) = (BTreeSet::new(), BTreeSet::new());
            groups.push(FailureGroup { first: failure, times: 0, cases, variants });
        }
        let group = &mut groups[index];
        group.times += 1;
        group.cases.insert(failure.case.as_ref().unwrap_or(&failure.benchmark));
        group.variants.extend(failure.variant.as_deref());
    }
    groups
}

/// Reports failures. `is_all` says that no case was measured or skipped.
fn failed_blocks(
    failures: &[&StepFailure],
    is_all: bool,
    verbosity: Verbosity,
) -> Vec<ReportBlock> {
    if failures.is_empty() {
        return Vec::new();
    }
    let groups = group_failures(failures);
    let is_verbose = verbosity == Verbosity::Verbose;
    if let ([group], true) = (groups.as_slice(), is_all)
        && group.cases.len() > 1
    {
        let (count, reason) = (group.cases.len(), group.first.reason_line());
        let summary = format!("all {count} cases failed alike: {reason}");
        let blocks = details(group.first, is_verbose);
        return vec![ReportBlock::Aside { summary, open: true, blocks }];
    }
    let shown = if is_verbose { groups.len() } else { MAX_SHOWN_FAILURES };
    let (first, others) = groups.split_at(shown.min(groups.len()));
    let describe = |group: &FailureGroup<'_>| failure_blocks(group, verbosity);
    let mut blocks: Vec<ReportBlock> = first.iter().flat_map(describe).collect();
    if !others.is_empty() {
        let other_failures = format_count(others.len(), "other failure", "other failures");
        blocks.push(ReportBlock::Appendix {
            instead: Some(format!("and {other_failures}")),
            title: other_failures,
            blocks: others.iter().flat_map(describe).collect(),
        });
    }
    let summary = format!("{} failed", format_count(failures.len(), "step", "steps"));
    // The block starts open, because failures must not be overlooked.
    vec![ReportBlock::Aside { summary, open: true, blocks }]
}

fn failure_blocks(group: &FailureGroup<'_>, verbosity: Verbosity) -> Vec<ReportBlock> {
    let failure = group.first;
    let times = if group.times > 1 { format!(" ({} times)", group.times) } else { String::new() };
    let others = unless_empty(group.cases.len() - 1, |others| {
        format!(" and {}", format_count(others, "other case", "other cases"))
    });
    let subject = name_subject(failure, &join_texts(", ", &group.variants));
    let is_one_line = failure.is_one_line() && verbosity < Verbosity::Verbose;
    let reason = if is_one_line { failure.reason_line() } else { failure.cause.to_string() };
    let line = ReportBlock::Paragraph(format!("{subject}{others}: {reason}{times}"));
    std::iter::once(line).chain(details(failure, !is_one_line)).collect()
}

/// Returns the command that repeats a failed step, and before it, if `with_stderr`, what the step
/// wrote to stderr.
fn details(failure: &StepFailure, with_stderr: bool) -> Vec<ReportBlock> {
    let stderr =
        || ReportBlock::Verbatim { label: "stderr".into(), text: failure.stderr_tail.clone() };
    let mut blocks: Vec<ReportBlock> = with_stderr.then(stderr).into_iter().collect();
    // Some failures cannot be reproduced by one command, such as a report that contradicts an
    // earlier one.
    if !failure.replay.is_empty() {
        let (label, line) = ("to repeat it".into(), failure.replay.clone());
        blocks.push(ReportBlock::Command { label, line });
    }
    blocks
}

/// Names the case of a failure, and the variants if there are any. A snippet or command is named by
/// its text.
fn name_subject(failure: &StepFailure, variants: &str) -> String {
    let id = failure.case.as_ref().unwrap_or(&failure.benchmark);
    let snippet = Case::parse(id).ok().filter(|case| case.snippet_language().is_some());
    match snippet.map(|case| (case.value("code").is_some(), case.name_under(variants))) {
        Some((true, name)) if ["", "default"].contains(&variants) => name,
        Some((true, name)) => format!("{name} ({variants})"),
        Some((false, name)) if !variants.is_empty() => name,
        _ if variants.is_empty() => id.clone(),
        _ => format!("{id} ({variants})"),
    }
}

fn skipped_blocks(skipped: &[&StepFailure]) -> Vec<ReportBlock> {
    let item = |failure: &&StepFailure| {
        let variant = failure.variant.as_deref().unwrap_or_default();
        format!("{}: {}", name_subject(failure, variant), failure.cause)
    };
    let items = distinct(skipped.iter().map(item));
    if items.is_empty() {
        return Vec::new();
    }
    let number = format_count(items.len(), "benchmark", "benchmarks");
    vec![
        ReportBlock::Paragraph(format!("Not run, because they cannot run here ({number}):")),
        ReportBlock::List(items),
    ]
}

// Reports the result of a gate (a pass/fail check) in one line.
// `analysis::gate` computes the result.

/// Reports the result of a gate, for people and for programs.
pub fn report_gate(outcome: &GateOutcome) -> Document {
    let mut document = Document::new("gate");
    document.gate_lines.push(outcome.to_line());
    document.attach_data(
        "gate",
        json!({
            "answer": outcome.to_answer().name(),
            "line": outcome.to_line(),
            "failing": outcome.failing,
            "obstacles": outcome.obstacles,
            "notes": outcome.remarks,
        }),
    );
    document
}

// Reports figures that do not measure what their names promise, or that are less meaningful than
// they seem. Each figure gets an explanation and a remedy.
//
// The code below only presents findings; `analysis/validity/` computes them.

/// Builds a table with a row, an explanation and a remedy for each finding. Without findings, the
/// document is empty.
pub fn report_validity(findings: &[ValidityFinding]) -> Document {
    let document = Document::new(VALIDITY_TABLE);
    if findings.is_empty() {
        return document;
    }
    let columns = column_set! { finding: ValidityFinding;
        words("level", "level") => match finding.level {
            FindingSeverity::Red => ReportCell::marked("red", '✗', TextEmphasis::Bad),
            FindingSeverity::Amber => ReportCell::marked("amber", '!', TextEmphasis::Caution),
        },
        identifier("check", "check") => finding.check.name(),
        label("location", "where").for_people() => ReportCell::text(finding_place(finding)),
        machine("cases") => json!(finding.cases),
        machine("variants") => json!(finding.variants),
        machine("runs") => json!(finding.runs),
        machine("pairs") => json!(finding.pairs),
        machine("message") => &finding.says,
        machine("remedy") => &finding.remedy,
    };
    let mut rows = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        rows.push(columns.build_row(finding));
        rows.push(ReportRow::Remark(finding.says.clone()));
        // Consecutive findings may share a remedy. Print the remedy after the last one.
        if findings.get(index + 1).map(|next| &next.remedy) != Some(&finding.remedy) {
            rows.push(ReportRow::Remark(format!("→ {}", finding.remedy)));
        }
    }
    document.with_table(ReportTable {
        caption: vec!["validity of the figures".into()],
        ..columns.table_of_rows(VALIDITY_TABLE, rows)
    })
}

/// Names the case and the variants of a finding, as in `hapi, green`. Several cases are counted
/// instead, as in `3 cases, green`. A finding without cases and variants is about `everything`.
fn finding_place(finding: &ValidityFinding) -> String {
    let cases = match finding.names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        several => format!("{} cases", several.len()),
    };
    let place = join_texts(", ", [cases, join_names(&finding.variants)]);
    if place.is_empty() { "everything".into() } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{FailureCause, SessionStep};

    #[test]
    fn a_failed_command_is_named_by_its_text() {
        for (case, variants, expected) in [
            ("eval/sh code=\"ls -l\"", "default", "ls -l"),
            ("eval/sh n=1", "ls -l", "ls -l n=1"),
            ("eval/sh", "ls, ls -l", "ls, ls -l"),
            ("eval/node code=\"f('a')\" n=2", "default", "f('a') n=2"),
            ("eval/node code=\"f('a')\"", "old, new", "f('a') (old, new)"),
            ("g/x n=1", "new", "g/x n=1 (new)"),
        ] {
            let failure = StepFailure {
                step: SessionStep::Run,
                benchmark: "g/x".into(),
                case: Some(case.into()),
                variant: None,
                slot: None,
                cause: FailureCause::Silent,
                stderr_tail: String::new(),
                replay: String::new(),
            };
            assert_eq!(name_subject(&failure, variants), expected);
        }
    }

    #[test]
    fn cases_that_failed_for_the_same_reason_share_a_line() {
        let failure = |case: &str, variant: &str, code: i32| StepFailure {
            step: SessionStep::Run,
            benchmark: "g/x".into(),
            case: Some(case.into()),
            variant: Some(variant.into()),
            slot: None,
            cause: FailureCause::Exit { code },
            stderr_tail: "no such module".into(),
            replay: String::new(),
        };
        let mut all: Vec<StepFailure> =
            ["g/x n=1", "g/x n=2", "g/x n=2"].map(|case| failure(case, "new", 1)).into();
        all.push(failure("g/x n=1", "new", 2));
        let document = report_failures(&all, Verbosity::Normal);
        let Some(ReportBlock::Aside { blocks, .. }) = document.blocks.first() else {
            panic!("{document:?}");
        };
        let lines = blocks.iter().filter_map(|block| match block {
            ReportBlock::Paragraph(line) => Some(line.as_str()),
            _ => None,
        });
        let expected = [
            "g/x n=1 (new) and 1 other case: exited with status 1 (3 times)",
            "g/x n=1 (new): exited with status 2",
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        let alike = report_failures_of(&all[..3], false, Verbosity::Normal);
        let Some(ReportBlock::Aside { summary, blocks, .. }) = alike.blocks.first() else {
            panic!("{alike:?}");
        };
        assert_eq!(summary, "all 2 cases failed alike: exited with status 1: no such module");
        assert!(blocks.is_empty(), "no command repeats it");
    }
}
