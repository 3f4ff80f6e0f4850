//! Reports failures, each with its cause, its stderr and a command that reproduces it. Also lists
//! benchmarks that reported that they cannot run here, the result of a gate, and figures that are
//! not valid.

use crate::case_labels::distinct;
use crate::columns::column_set;
use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::output::Verbosity;
use crate::table::{ReportCell, ReportRow, ReportTable, TextEmphasis};
use serde_json::json;
use speedwell_analysis::gate::GateOutcome;
use speedwell_analysis::validity::{FindingSeverity, ValidityFinding, join_names};
use speedwell_model::StepFailure;
use std::collections::BTreeSet;

/// Number of distinct failures that are shown by default.
const MAX_SHOWN_FAILURES: usize = 3;

/// Reports the failures and skipped benchmarks. Machine-readable output lists every failure; for
/// people, identical failures are combined.
pub fn report_failures(failures: &[StepFailure], verbosity: Verbosity) -> Document {
    let mut document = Document::new("failures");
    // Serialization cannot fail, because the model contains no value that JSON cannot represent.
    let data = failures.iter().map(|failure| {
        serde_json::to_value(failure).unwrap_or_else(|_| json!({"benchmark": failure.benchmark}))
    });
    document.attach_data("failures", data.collect());
    let (skipped, failed): (Vec<_>, Vec<_>) =
        failures.iter().partition(|failure| failure.cause.is_skip());
    document.extend(failed_blocks(&failed, verbosity));
    document.extend(skipped_blocks(&skipped));
    document
}

/// Failures reported together. They have the same step, variant and cause. They also belong to one
/// case, or have the same end of stderr.
struct FailureGroup<'a> {
    first: &'a StepFailure,
    times: usize,
    cases: BTreeSet<&'a str>,
}

fn group_failures<'a>(failures: &[&'a StepFailure]) -> Vec<FailureGroup<'a>> {
    let is_alike = |a: &StepFailure, b: &StepFailure| {
        let is_one_case = (&a.benchmark, &a.case) == (&b.benchmark, &b.case);
        (a.step, &a.variant, &a.cause) == (b.step, &b.variant, &b.cause)
            && (is_one_case || a.stderr_tail == b.stderr_tail)
    };
    let mut groups: Vec<FailureGroup<'a>> = Vec::new();
    for failure in failures {
        let case = failure.case.as_ref().unwrap_or(&failure.benchmark).as_str();
        match groups.iter_mut().find(|group| is_alike(group.first, failure)) {
            Some(group) => {
                group.times += 1;
                group.cases.insert(case);
            }
            None => groups.push(FailureGroup {
                first: failure,
                times: 1,
                cases: BTreeSet::from([case]),
            }),
        }
    }
    groups
}

fn failed_blocks(failures: &[&StepFailure], verbosity: Verbosity) -> Vec<ReportBlock> {
    if failures.is_empty() {
        return Vec::new();
    }
    let groups = group_failures(failures);
    let shown = if verbosity == Verbosity::Verbose { groups.len() } else { MAX_SHOWN_FAILURES };
    let (first, others) = groups.split_at(shown.min(groups.len()));
    let mut blocks: Vec<ReportBlock> = first.iter().flat_map(failure_blocks).collect();
    if !others.is_empty() {
        let other_failures = format_count(others.len(), "other failure", "other failures");
        blocks.push(ReportBlock::Appendix {
            instead: Some(format!("and {other_failures}")),
            title: other_failures,
            blocks: others.iter().flat_map(failure_blocks).collect(),
        });
    }
    let summary = format!("{} failed", format_count(failures.len(), "step", "steps"));
    // The block starts open, because failures must not be overlooked.
    vec![ReportBlock::Aside { summary, open: true, blocks }]
}

fn failure_blocks(group: &FailureGroup<'_>) -> Vec<ReportBlock> {
    let failure = group.first;
    let times = if group.times > 1 { format!(" ({} times)", group.times) } else { String::new() };
    let others = match group.cases.len() - 1 {
        0 => String::new(),
        others => format!(" and {}", format_count(others, "other case", "other cases")),
    };
    let mut blocks = vec![
        ReportBlock::Paragraph(format!(
            "{}{others}: {}{times}",
            failure_subject(failure),
            failure.cause
        )),
        ReportBlock::Verbatim { label: "stderr".into(), text: failure.stderr_tail.clone() },
    ];
    // Some failures cannot be reproduced by one command, such as a report that contradicts an
    // earlier one.
    if !failure.replay.is_empty() {
        blocks.push(ReportBlock::Command {
            label: "to repeat it".into(),
            line: failure.replay.clone(),
        });
    }
    blocks
}

fn failure_subject(failure: &StepFailure) -> String {
    let case = failure.case.as_ref().unwrap_or(&failure.benchmark);
    match &failure.variant {
        Some(variant) => format!("{case} ({variant})"),
        None => case.clone(),
    }
}

fn skipped_blocks(skipped: &[&StepFailure]) -> Vec<ReportBlock> {
    if skipped.is_empty() {
        return Vec::new();
    }
    let item = |failure: &&StepFailure| format!("{}: {}", failure_subject(failure), failure.cause);
    let items = distinct(skipped.iter().map(item));
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

/// The machine-readable name of the table.
const VALIDITY_TABLE: &str = "validity";

/// Builds a table with a row, an explanation and a remedy for each finding. Without findings, the
/// document is empty.
pub fn report_validity(findings: &[ValidityFinding]) -> Document {
    let mut document = Document::new(VALIDITY_TABLE);
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
        let next = findings.get(index + 1).map(|next| &next.remedy);
        // Consecutive findings may share a remedy. Print the remedy after the last one.
        if next != Some(&finding.remedy) {
            rows.push(ReportRow::Remark(format!("→ {}", finding.remedy)));
        }
    }
    document.push_table(ReportTable {
        caption: vec!["validity of the figures".into()],
        ..columns.table_of_rows(VALIDITY_TABLE, rows)
    });
    document
}

/// Names the case and the variants of a finding, as in `hapi, green`. Several cases are counted
/// instead, as in `3 cases, green`. A finding without cases and variants is about `everything`.
fn finding_place(finding: &ValidityFinding) -> String {
    let cases = match finding.names.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("{} cases", several.len())),
    };
    let variants = Some(join_names(&finding.variants)).filter(|names| !names.is_empty());
    let parts: Vec<String> = cases.into_iter().chain(variants).collect();
    if parts.is_empty() { "everything".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{FailureCause, SessionStep};

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
    }
}
