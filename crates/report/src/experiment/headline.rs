//! Puts the answer of an experiment into words. Sentences give the result of each comparison and of
//! the control, which is a variant measured twice.

use crate::document::ReportBlock;
use crate::figure::{
    Uncertainty, decimal_place, format_change, format_change_interval, format_count, format_number,
    format_setting, format_signed, quality_words,
};
use speedwell_analysis::experiment::{ExperimentFindings, GroupFindings, MetricFindings};
use speedwell_analysis::{CandidateComparison, CaseComparison};
use speedwell_config::experiment::{Experiment, is_repetition};
use speedwell_model::{IntervalEstimate, Verdict};

/// A change of at least this size is given as a factor: "by a factor of 3.5" is easier to grasp
/// than "+250 %".
const MIN_CHANGE_AS_FACTOR: f64 = 1.0;

/// Returns one sentence per comparison of a group, then the result of the control.
pub fn answer_blocks(found: &ExperimentFindings, experiment: &Experiment) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let mut names = VariantNames { experiment, named: Vec::new() };
    for group in &found.groups {
        let Some(first) = group.metrics.first() else {
            continue;
        };
        let subject = match found.groups.len() {
            1 => first.metric.name.clone(),
            _ => format!("{}, {}", group.name, first.metric.name),
        };
        let sentences = group_sentences(group, first, &mut names).into_iter();
        blocks.extend(
            sentences.map(|sentence| ReportBlock::Headline(format!("{subject}: {sentence}."))),
        );
        blocks.extend(noise_floor_note(group, first).map(ReportBlock::Note));
    }
    blocks
}

/// Names variants in the answers. The first mention of a variant includes its label.
struct VariantNames<'a> {
    experiment: &'a Experiment,
    named: Vec<String>,
}

impl VariantNames<'_> {
    fn name_variant(&mut self, name: &str) -> String {
        if self.named.iter().any(|other| other == name) {
            return name.to_owned();
        }
        self.named.push(name.to_owned());
        variant_label(self.experiment, name)
    }
}

/// States the result of each comparison of a group.
fn group_sentences(
    group: &GroupFindings,
    metric: &MetricFindings,
    names: &mut VariantNames<'_>,
) -> Vec<String> {
    metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison))
        .map(|comparison| {
            let candidate = names.name_variant(&comparison.candidate);
            let baseline = names.name_variant(&comparison.baseline);
            format!(
                "{candidate} against {baseline}: {}{}",
                verdict_summary(comparison),
                instructions_note(group, comparison).unwrap_or_default()
            )
        })
        .collect()
}

/// Summarizes a comparison: verdicts with the number of cases and the size of the change.
fn verdict_summary(comparison: &CandidateComparison) -> String {
    let total = comparison.rows.len();
    let rows: Vec<&CaseComparison> = comparison.rows.iter().collect();
    let parts = verdict_clauses(comparison, &rows, total);
    let typical = comparison.typical().filter(|_| total > 1);
    let overall_change = match (typical, comparison.range()) {
        (Some(typical), _) => Some(format!("; typically {}", format_change_interval(&typical))),
        (None, Some(ends)) => {
            let [smallest, largest] = ends.each_ref().map(format_change);
            Some(format!("; from {smallest} to {largest}"))
        }
        (None, None) => None,
    };
    if parts.is_empty() {
        "nothing to compare".to_owned()
    } else {
        parts.join(", ") + &overall_change.unwrap_or_default()
    }
}

/// Says what instruction counts show about cases that the metric leaves unclear. On a busy machine,
/// counts are often decisive when times are not.
fn instructions_note(group: &GroupFindings, comparison: &CandidateComparison) -> Option<String> {
    let instructions =
        group.metrics.iter().skip(1).find(|found| found.metric.name.starts_with("instructions"))?;
    let counts = instructions.findings.comparisons.iter().find(|counts| {
        (&counts.baseline, &counts.candidate) == (&comparison.baseline, &comparison.candidate)
    })?;
    let is_unclear = |row: &&CaseComparison| {
        let mut unclear = comparison.rows_with_verdict(Verdict::Unclear);
        row.verdict != Verdict::Unclear && unclear.any(|unclear_row| unclear_row.case == row.case)
    };
    let rows: Vec<&CaseComparison> = counts.rows.iter().filter(is_unclear).collect();
    let parts = verdict_clauses(counts, &rows, comparison.rows.len());
    (!parts.is_empty()).then(|| {
        format!(
            "; where the verdict is unclear, the counts of {} show: {}",
            counts.metric.name.replace('_', " "),
            parts.join(", ")
        )
    })
}

/// Returns a clause for each verdict among these rows of a comparison with `total` cases.
fn verdict_clauses(
    comparison: &CandidateComparison,
    rows: &[&CaseComparison],
    total: usize,
) -> Vec<String> {
    let (good, bad) = quality_words(&comparison.metric);
    let order = [Verdict::Worse, Verdict::Better, Verdict::Same, Verdict::Unclear];
    let parts = order.into_iter().filter_map(|verdict| {
        let matching = rows.iter().filter(|row| row.verdict == verdict);
        let rows: Vec<&CaseComparison> = matching.copied().collect();
        if rows.is_empty() {
            return None;
        }
        let in_cases = match (rows.len(), total) {
            (_, 1) => String::new(),
            (2, 2) => " in both cases".to_owned(),
            (number, _) if number == total => {
                format!(" in all {}", format_count(total, "case", "cases"))
            }
            (number, _) => format!(" in {number} of {total}"),
        };
        Some(match verdict {
            Verdict::Worse => format!("{bad}{in_cases}{}", size_text(&rows)),
            Verdict::Better => format!("{good}{in_cases}{}", size_text(&rows)),
            Verdict::Same => {
                format!("the same within {}{in_cases}", format_setting(comparison.delta))
            }
            Verdict::Unclear => format!("unclear{in_cases}{}", possible_changes(&rows)),
        })
    });
    parts.collect()
}

/// Formats the change, or the range of changes over several cases.
fn size_text(rows: &[&CaseComparison]) -> String {
    let mut changes: Vec<IntervalEstimate> = rows.iter().filter_map(|row| row.change).collect();
    changes.sort_by(|one, other| one.value.total_cmp(&other.value));
    match &changes[..] {
        [] => String::new(),
        [only] if only.value < MIN_CHANGE_AS_FACTOR => {
            format!(", {}", format_change_interval(only))
        }
        [only] => format!(
            ", by a factor of {} [{}, {}]",
            format_factor(only.value),
            format_factor(only.low),
            format_factor(only.high)
        ),
        [first, .., last] if last.value < MIN_CHANGE_AS_FACTOR => {
            format!(", {} to {}", format_change(first), format_change(last))
        }
        [first, .., last] => format!(
            ", by factors of {} to {}",
            format_factor(first.value),
            format_factor(last.value)
        ),
    }
}

/// Formats the range of changes that the data cannot exclude.
fn possible_changes(rows: &[&CaseComparison]) -> String {
    let changes = rows.iter().filter_map(|row| row.change);
    let ends = changes.map(|change| (change.low, change.high));
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| {
        (low.min(end.0), high.max(end.1))
    });
    let range = (low.is_finite() && high.is_finite()).then(|| {
        let percent = |share: f64| format!("{} %", format_signed(share * 100.0, 0));
        format!(", {} to {} is possible", percent(low), percent(high))
    });
    range.unwrap_or_default()
}

fn format_factor(change: f64) -> String {
    let factor = 1.0 + change;
    format_number(factor, decimal_place(factor, Uncertainty::Unknown).max(1))
}

/// Whether this comparison compares the control with itself.
pub fn is_control(comparison: &CandidateComparison) -> bool {
    is_repetition(&comparison.candidate)
}

/// Returns a variant's name, with its label if it has one.
pub fn variant_label(experiment: &Experiment, name: &str) -> String {
    let variant = experiment.variants.iter().find(|variant| variant.name == name);
    match variant.and_then(|variant| variant.label.as_ref()) {
        Some(label) => format!("{name} ({label})"),
        None => name.to_owned(),
    }
}

/// Returns a note on how large differences get without a cause, according to the control.
fn noise_floor_note(group: &GroupFindings, metric: &MetricFindings) -> Option<String> {
    let floor = metric.floor?;
    let control = metric.findings.comparisons.iter().find(|comparison| is_control(comparison))?;
    Some(format!(
        "{}: '{}' measured against itself changed by {} ({}). This experiment cannot detect \
         smaller differences.",
        group.name,
        control.baseline,
        format_change_interval(&floor),
        metric.metric.name
    ))
}
