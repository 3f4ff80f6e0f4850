//! What gave nothing: each failure with its cause, what it wrote on stderr, and the line that repeats
//! it; and the benchmarks that said themselves that they cannot run here.

use super::output::Verbosity;
use crate::document::{Block, Document};
use crate::figure::count;
use serde_json::{Value, json};
use speedwell_model::Failure;

/// Different failures shown unless all are requested.
const SHOWN: usize = 3;

/// The failures and skipped benchmarks. All of them are data for machines; people see equal ones
/// once.
pub fn failures(failures: &[Failure], verbosity: Verbosity) -> Document {
    let mut document = Document::new("failures");
    document.attach("failures", failures.iter().map(data).collect());
    let (skipped, failed): (Vec<_>, Vec<_>) =
        failures.iter().partition(|failure| failure.cause.is_skip());
    document.extend(failed_blocks(&failed, verbosity));
    document.extend(skipped_blocks(&skipped));
    document
}

fn data(failure: &Failure) -> Value {
    // The model's own form is the contract; it has no value that JSON lacks.
    serde_json::to_value(failure).unwrap_or_else(|_| json!({"benchmark": failure.benchmark}))
}

/// Failures that differ in nothing but the slot, with their number.
fn grouped<'a>(failures: &[&'a Failure]) -> Vec<(&'a Failure, usize)> {
    let alike = |a: &Failure, b: &Failure| {
        (a.step, &a.benchmark, &a.case, &a.variant) == (b.step, &b.benchmark, &b.case, &b.variant)
            && a.cause == b.cause
    };
    let mut groups: Vec<(&Failure, usize)> = Vec::new();
    for failure in failures {
        match groups.iter_mut().find(|(first, _)| alike(first, failure)) {
            Some((_, times)) => *times += 1,
            None => groups.push((failure, 1)),
        }
    }
    groups
}

fn failed_blocks(failures: &[&Failure], verbosity: Verbosity) -> Vec<Block> {
    if failures.is_empty() {
        return Vec::new();
    }
    let groups = grouped(failures);
    let shown = if verbosity == Verbosity::Verbose {
        groups.len()
    } else {
        SHOWN
    };
    let (first, others) = groups.split_at(shown.min(groups.len()));
    let mut blocks: Vec<Block> = first
        .iter()
        .flat_map(|group| failure_blocks(*group))
        .collect();
    if !others.is_empty() {
        let more = count(others.len(), "other failure", "other failures");
        blocks.push(Block::Appendix {
            instead: Some(format!("and {more}")),
            title: more,
            blocks: others
                .iter()
                .flat_map(|group| failure_blocks(*group))
                .collect(),
        });
    }
    let summary = format!("{} failed", count(failures.len(), "step", "steps"));
    // What went wrong is not to be overlooked.
    vec![Block::Aside {
        summary,
        open: true,
        blocks,
    }]
}

fn failure_blocks((failure, times): (&Failure, usize)) -> Vec<Block> {
    let times = if times > 1 {
        format!(" ({times} times)")
    } else {
        String::new()
    };
    let mut blocks = vec![
        Block::Paragraph(format!("{}: {}{times}", subject(failure), failure.cause)),
        Block::Verbatim {
            label: "stderr".into(),
            text: failure.stderr_tail.clone(),
        },
    ];
    // A report that contradicts another is no matter of one command.
    if !failure.replay.is_empty() {
        blocks.push(Block::Command {
            label: "to repeat it".into(),
            line: failure.replay.clone(),
        });
    }
    blocks
}

fn subject(failure: &Failure) -> String {
    let case = failure.case.as_ref().unwrap_or(&failure.benchmark);
    match &failure.variant {
        Some(variant) => format!("{case} ({variant})"),
        None => case.clone(),
    }
}

fn skipped_blocks(skipped: &[&Failure]) -> Vec<Block> {
    if skipped.is_empty() {
        return Vec::new();
    }
    let groups = grouped(skipped);
    let number = count(groups.len(), "benchmark", "benchmarks");
    let item =
        |(failure, _): &(&Failure, usize)| format!("{}: {}", subject(failure), failure.cause);
    vec![
        Block::Paragraph(format!("Not run, because they cannot run here ({number}):")),
        Block::List(groups.iter().map(item).collect()),
    ]
}
