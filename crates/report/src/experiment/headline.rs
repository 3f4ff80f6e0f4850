//! The answer of an experiment in sentences: what each comparison says, and what the control says of it.

use crate::document::Block;
use crate::figure::{
    Uncertainty, change, change_with_interval, count, good_and_bad, place, setting, spell,
    spell_signed,
};
use speedwell_analysis::experiment::{Found, GroupFound, MetricFound};
use speedwell_analysis::{CaseComparison, Comparison};
use speedwell_model::{Estimate, Verdict};
use speedwell_suite::experiment::{Experiment, is_repetition};

/// A change from here on is given as a factor: "+250 %" is hard to imagine, "3.5 times" is not.
const SHOWN_AS_FACTOR: f64 = 1.0;

/// One sentence for each comparison of a group, then what the control says.
pub fn headlines(found: &Found, experiment: &Experiment) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut names = Names {
        experiment,
        named: Vec::new(),
    };
    for group in &found.groups {
        let Some(first) = group.metrics.first() else {
            continue;
        };
        let subject = match found.groups.len() {
            1 => first.metric.name.clone(),
            _ => format!("{}, {}", group.name, first.metric.name),
        };
        let sentences = sentences(group, first, &mut names).into_iter();
        blocks.extend(sentences.map(|said| Block::Headline(format!("{subject}: {said}."))));
        blocks.extend(floor(group, first).map(Block::Note));
    }
    blocks
}

/// What variants are called in the answers: with their labels the first time.
struct Names<'a> {
    experiment: &'a Experiment,
    named: Vec<String>,
}

impl Names<'_> {
    fn variant(&mut self, name: &str) -> String {
        if self.named.iter().any(|known| known == name) {
            return name.to_owned();
        }
        self.named.push(name.to_owned());
        label(self.experiment, name)
    }
}

/// What each comparison of a group says.
fn sentences(group: &GroupFound, metric: &MetricFound, names: &mut Names<'_>) -> Vec<String> {
    let own = metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison));
    own.map(|comparison| {
        let candidate = names.variant(&comparison.candidate);
        let baseline = names.variant(&comparison.baseline);
        format!(
            "{candidate} against {baseline}: {}{}",
            verdict_summary(comparison),
            counted(group, comparison).unwrap_or_default()
        )
    })
    .collect()
}

/// What a comparison says: verdicts with the number of cases and the size of the change.
fn verdict_summary(comparison: &Comparison) -> String {
    let total = comparison.rows.len();
    let rows: Vec<&CaseComparison> = comparison.rows.iter().collect();
    let parts = verdicts(comparison, &rows, total);
    let typical = comparison.typical().filter(|_| total > 1);
    let together = match (typical, comparison.range()) {
        (Some(typical), _) => Some(format!("; typically {}", change_with_interval(&typical))),
        (None, Some(ends)) => {
            let [least, most] = ends.each_ref().map(change);
            Some(format!("; from {least} to {most}"))
        }
        (None, None) => None,
    };
    if parts.is_empty() {
        "nothing to compare".to_owned()
    } else {
        parts.join(", ") + &together.unwrap_or_default()
    }
}

/// What counted instructions say where the metric itself leaves cases unclear: on a busy machine they often decide when
/// times cannot.
fn counted(group: &GroupFound, comparison: &Comparison) -> Option<String> {
    let mut others = group.metrics.iter().skip(1);
    let counts = others.find(|found| found.metric.name.starts_with("instructions"))?;
    let mut pairs = counts.findings.comparisons.iter();
    let counts = pairs.find(|known| {
        (&known.baseline, &known.candidate) == (&comparison.baseline, &comparison.candidate)
    })?;
    let is_open = |row: &&CaseComparison| {
        let mut unclear = comparison.rows_that_are(Verdict::Unclear);
        row.verdict != Verdict::Unclear && unclear.any(|known| known.case == row.case)
    };
    let rows: Vec<&CaseComparison> = counts.rows.iter().filter(is_open).collect();
    let parts = verdicts(counts, &rows, comparison.rows.len());
    (!parts.is_empty()).then(|| {
        format!(
            "; where that is unclear, {} say: {}",
            counts.metric.name.replace('_', " "),
            parts.join(", ")
        )
    })
}

/// A part of a sentence for each verdict that some of these rows of a comparison have; there are `total` cases.
fn verdicts(comparison: &Comparison, rows: &[&CaseComparison], total: usize) -> Vec<String> {
    let (good, bad) = good_and_bad(&comparison.metric);
    let order = [
        Verdict::Worse,
        Verdict::Better,
        Verdict::Same,
        Verdict::Unclear,
    ];
    let parts = order.into_iter().filter_map(|verdict| {
        let of_verdict = rows.iter().filter(|row| row.verdict == verdict);
        let rows: Vec<&CaseComparison> = of_verdict.copied().collect();
        if rows.is_empty() {
            return None;
        }
        let place = match (rows.len(), total) {
            (_, 1) => String::new(),
            (2, 2) => " in both cases".to_owned(),
            (number, _) if number == total => format!(" in all {}", count(total, "case", "cases")),
            (number, _) => format!(" in {number} of {total}"),
        };
        Some(match verdict {
            Verdict::Worse => format!("{bad}{place}{}", size(&rows)),
            Verdict::Better => format!("{good}{place}{}", size(&rows)),
            Verdict::Same => format!("the same within {}{place}", setting(comparison.delta)),
            Verdict::Unclear => format!("unclear{place}{}", not_excluded(&rows)),
        })
    });
    parts.collect()
}

/// The change, or the range of the changes of several cases.
fn size(rows: &[&CaseComparison]) -> String {
    let mut changes: Vec<Estimate> = rows.iter().filter_map(|row| row.change).collect();
    changes.sort_by(|one, other| one.value.total_cmp(&other.value));
    match &changes[..] {
        [] => String::new(),
        [only] if only.value < SHOWN_AS_FACTOR => format!(", {}", change_with_interval(only)),
        [only] => format!(
            ", {} times as much [{}, {}]",
            times(only.value),
            times(only.low),
            times(only.high)
        ),
        [first, .., last] if last.value < SHOWN_AS_FACTOR => {
            format!(", {} to {}", change(first), change(last))
        }
        [first, .., last] => format!(
            ", {} to {} times as much",
            times(first.value),
            times(last.value)
        ),
    }
}

/// Which changes the data leave possible.
fn not_excluded(rows: &[&CaseComparison]) -> String {
    let changes = rows.iter().filter_map(|row| row.change);
    let ends = changes.map(|change| (change.low, change.high));
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| {
        (low.min(end.0), high.max(end.1))
    });
    let range = (low.is_finite() && high.is_finite()).then(|| {
        let percent = |share: f64| format!("{} %", spell_signed(share * 100.0, 0));
        format!(", {} to {} is possible", percent(low), percent(high))
    });
    range.unwrap_or_default()
}

/// A change as a factor.
fn times(change: f64) -> String {
    let factor = 1.0 + change;
    spell(factor, place(factor, Uncertainty::Unknown).max(1))
}

/// Whether a comparison is that of the control with itself.
pub fn is_control(comparison: &Comparison) -> bool {
    is_repetition(&comparison.candidate)
}

/// What reports call a variant: its name, with its label where there is one.
pub fn label(experiment: &Experiment, name: &str) -> String {
    let known = experiment
        .variants
        .iter()
        .find(|variant| variant.name == name);
    match known.and_then(|variant| variant.label.as_ref()) {
        Some(label) => format!("{name} ({label})"),
        None => name.to_owned(),
    }
}

/// What the control says: differences up to this size are seen where there is none.
fn floor(group: &GroupFound, metric: &MetricFound) -> Option<String> {
    let floor = metric.floor?;
    let control = metric
        .findings
        .comparisons
        .iter()
        .find(|comparison| is_control(comparison))?;
    Some(format!(
        "{}: '{}' measured against itself changed by {} ({}). A difference within that is no difference that this \
         experiment can see.",
        group.name,
        control.baseline,
        change_with_interval(&floor),
        metric.metric.name
    ))
}
