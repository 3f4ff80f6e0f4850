//! The report of measuring suspected changes again.

use super::output::Output;
use crate::comparison::{comparison, size};
use crate::document::{Block, Document};
use crate::failures::failures;
use crate::figure::{count, good_and_bad};
use crate::table::{Cell, Column, Columns, Emphasis, Kind};
use crate::validity::validity;
use speedwell_analysis::Findings;
use speedwell_analysis::confirm::{Confirmation, IsMore, confirmations};
use speedwell_model::{Better, Metric};

/// A case with what measuring it again came to.
struct Line {
    case: String,
    metric: String,
    outcome: Option<Confirmation>,
    /// `+4.8 % [+4.1, +5.5]`, `0 -> 1`
    size: String,
    /// `slower`
    direction: &'static str,
    runs: usize,
}

/// The report; `is_more` is the direction that was suspected, if one was.
pub fn confirm(findings: &Findings, is_more: IsMore<'_>, output: &Output) -> Document {
    let lines: Vec<Line> = confirmations(findings, is_more)
        .into_iter()
        .map(|(found, row, outcome)| Line {
            case: row.case.id(),
            metric: found.metric.name.clone(),
            direction: direction(&found.metric, outcome),
            size: outcome
                .and_then(|_| size(row, &found.metric))
                .unwrap_or_default(),
            outcome,
            runs: row.baseline.runs.len().min(row.candidate.runs.len()),
        })
        .collect();
    let mut document = Document::new("confirmation");
    document.push_warnings(&findings.warnings);
    document.append(validity(&findings.validity));
    document.push(Block::Headline(headline(&lines)));
    document.push(Block::Table(columns().table("confirmations", &lines)));
    let mut compared = comparison(findings, output);
    compared
        .blocks
        .retain(|block| matches!(block, Block::Table(_) | Block::Note(_)));
    document.push(Block::Appendix {
        title: "The comparison".into(),
        instead: None,
        blocks: std::mem::take(&mut compared.blocks),
    });
    document.append(failures(&findings.failures, output.verbosity));
    document
}

/// What a change makes of a metric.
fn direction(metric: &Metric, outcome: Option<Confirmation>) -> &'static str {
    let (good, bad) = good_and_bad(metric);
    let is_more = outcome.is_some_and(|outcome| outcome.change().value > 0.0);
    if is_more == (metric.better == Better::Higher) {
        good
    } else {
        bad
    }
}

/// The report where both sides are one program.
pub fn identical() -> Document {
    let mut document = Document::new("confirmation");
    document.push(Block::Headline(
        "refuted: both programs are the same file; look at data, machine or environment".into(),
    ));
    document
}

fn headline(lines: &[Line]) -> String {
    if let [only] = lines {
        return match &only.outcome {
            None => "neither confirmed nor refuted: measuring ended too soon".to_owned(),
            Some(Confirmation::Confirmed(_)) => {
                format!("confirmed: {}, {}", only.size, only.direction)
            }
            Some(Confirmation::Refuted(_)) => format!("refuted: {}", only.size),
        };
    }
    let confirmed = lines
        .iter()
        .filter(|line| matches!(line.outcome, Some(Confirmation::Confirmed(_))));
    format!(
        "confirmed in {} of {}",
        confirmed.count(),
        count(lines.len(), "case", "cases")
    )
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns().sort_keys()
}

fn columns() -> Columns<Line> {
    let mut columns: Columns<Line> = Columns::new();
    columns.add(Column::words("state", "state"), |line| match line.outcome {
        None => Cell::words("open").emphasised(Emphasis::Caution),
        Some(Confirmation::Confirmed(_)) => Cell::words("confirmed").emphasised(Emphasis::Strong),
        Some(Confirmation::Refuted(_)) => Cell::words("refuted").emphasised(Emphasis::Muted),
    });
    columns.add(Column::new("case", "case", Kind::Label), |line| {
        Cell::words(line.case.clone())
    });
    columns.add_value("metric", |line| line.metric.clone());
    let change = |line: &Line| line.outcome.map(|outcome| outcome.change());
    columns.add(Column::figure("change", "change"), move |line| {
        Cell::figure(change(line).map(|change| change.value)).shown(line.size.clone())
    });
    columns.add_figure("change_low", move |line| {
        change(line).map(|change| change.low)
    });
    columns.add_figure("change_high", move |line| {
        change(line).map(|change| change.high)
    });
    columns.add(Column::figure("runs", "runs a side"), |line| {
        Cell::count(line.runs as u64)
    });
    columns
}
