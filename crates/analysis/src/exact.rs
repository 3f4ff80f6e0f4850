//! Compares counts exactly. If the count does not vary within either side, the change is known
//! exactly and needs no statistics.
//!
//! Decides when counts are exact, what the change then means, and what to report otherwise. Start
//! at [`ExactCounts`].

use crate::CandidateComparison;
use crate::grid::value_range;
use speedwell_model::{IntervalEstimate, Metric, MetricDirection, RunValue, Verdict};
use std::collections::HashMap;

/// Default delta of counts: the largest relative change that means "same".
pub(super) const COUNT_DELTA: f64 = 0.001;

/// Minimum number of runs per side; all runs of a side must agree.
const MIN_EXACT_RUNS: usize = 2;

/// Comparison of the counts of both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ExactCounts {
    /// On each side, all runs have the same count. The value is the relative change, which is
    /// infinite for a change from zero.
    Exact(f64),
    /// The runs of at least one side have different counts. The value is the largest difference
    /// within a side, as a fraction of that side's smallest count.
    Vary(f64),
    /// Too few runs.
    TooFew,
}

impl ExactCounts {
    /// Compares the runs of baseline and candidate.
    pub fn from_runs(baseline: &[RunValue], candidate: &[RunValue]) -> ExactCounts {
        if baseline.len().min(candidate.len()) < MIN_EXACT_RUNS {
            return ExactCounts::TooFew;
        }
        let spreads = [baseline, candidate].map(relative_range);
        if spreads != [0.0; 2] {
            return ExactCounts::Vary(spreads[0].max(spreads[1]));
        }
        let [old, new] = [baseline, candidate].map(|runs| runs[0].value);
        let change = if old == new { 0.0 } else { new / old - 1.0 };
        if change.is_nan() { ExactCounts::TooFew } else { ExactCounts::Exact(change) }
    }

    /// Whether the change is known exactly.
    pub fn is_exact(self) -> bool {
        matches!(self, ExactCounts::Exact(_))
    }

    /// Whether the change is exact and larger than `delta`.
    pub fn exceeds_delta(self, delta: f64) -> bool {
        matches!(self, ExactCounts::Exact(change) if change.abs() > delta)
    }

    /// The exact change as an interval of zero width. `None` if the change is not known exactly or
    /// is infinite.
    pub fn exact_change(self) -> Option<IntervalEstimate> {
        let ExactCounts::Exact(value) = self else { return None };
        (!value.is_infinite()).then_some(IntervalEstimate { value, low: value, high: value })
    }

    /// Verdict on an exact change.
    pub fn exact_verdict(self, delta: f64, better: MetricDirection) -> Option<Verdict> {
        let ExactCounts::Exact(change) = self else { return None };
        let is_more = change > 0.0;
        Some(match better {
            _ if change.abs() <= delta => Verdict::Same,
            MetricDirection::Unknown => Verdict::Unclear,
            MetricDirection::Higher if is_more => Verdict::Better,
            MetricDirection::Lower if !is_more => Verdict::Better,
            MetricDirection::Higher | MetricDirection::Lower => Verdict::Worse,
        })
    }

    pub fn to_note(self, runs: usize) -> Option<String> {
        match self {
            ExactCounts::Exact(_) => Some(format!("Exact: {runs} of {runs} runs agree.")),
            ExactCounts::Vary(share) => Some(format!(
                "Instructions vary by {}%: the code path depends on environment, addresses or time.",
                round_percent(100.0 * share)
            )),
            ExactCounts::TooFew => None,
        }
    }
}

/// Adds a note to each row in which the verdicts on instructions and on time differ. Fewer
/// instructions do not imply less time.
pub(super) fn note_time_disagreement(comparisons: &mut [CandidateComparison]) {
    let is_time =
        |comparison: &&CandidateComparison| Metric::TIMES.contains(&&*comparison.metric.name);
    // By baseline, candidate and case.
    let mut times: HashMap<[String; 3], Verdict> = HashMap::new();
    for comparison in comparisons.iter().filter(is_time) {
        for row in &comparison.rows {
            let key = [comparison.baseline.clone(), comparison.candidate.clone(), row.case.id()];
            times.insert(key, row.verdict);
        }
    }
    for comparison in comparisons {
        if comparison.metric.name != Metric::INSTRUCTIONS {
            continue;
        }
        for row in &mut comparison.rows {
            let key = [comparison.baseline.clone(), comparison.candidate.clone(), row.case.id()];
            let time = times.get(&key).copied();
            row.notes.extend(time.and_then(|time| disagreement_note(row.verdict, time)));
        }
    }
}

/// Note for readers who equate instructions with time.
fn disagreement_note(instructions: Verdict, time: Verdict) -> Option<String> {
    let text = match (instructions, time) {
        (Verdict::Better, Verdict::Same | Verdict::Worse) => {
            "Fewer instructions, but not less time."
        }
        (Verdict::Worse, Verdict::Same | Verdict::Better) => {
            "More instructions, but not more time."
        }
        (Verdict::Same, Verdict::Better | Verdict::Worse) => {
            "The same number of instructions, but not the same time."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether one side has enough values and all of them agree, so that no more runs are needed.
pub(super) fn is_exact(values: &[RunValue]) -> bool {
    values.len() >= MIN_EXACT_RUNS && relative_range(values) == 0.0
}

/// Largest value divided by the smallest, minus one.
fn relative_range(values: &[RunValue]) -> f64 {
    let (min, max) = value_range(values.iter().map(|run| run.value));
    if max > min { max / min - 1.0 } else { 0.0 }
}

/// Rounds to two significant digits.
fn round_percent(percent: f64) -> f64 {
    let digits = 1.0 - percent.abs().log10().floor();
    let scale = 10f64.powf(digits);
    (percent * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<RunValue> {
        let run = |(slot, &value): (u32, &f64)| RunValue { slot, block: 0, value };
        (0..).zip(values).map(run).collect()
    }

    #[test]
    fn two_equal_runs_per_side_give_an_exact_change() {
        let counts = ExactCounts::from_runs(&runs(&[1000.0, 1000.0]), &runs(&[1018.8, 1018.8]));
        let change = counts.exact_change().unwrap();
        assert!((change.value - 0.0188).abs() < 1e-12 && change.low == change.high);
        assert_eq!(counts.exact_verdict(COUNT_DELTA, MetricDirection::Lower), Some(Verdict::Worse));
        assert_eq!(counts.exact_verdict(0.02, MetricDirection::Lower), Some(Verdict::Same));
        assert_eq!(
            counts.exact_verdict(COUNT_DELTA, MetricDirection::Higher),
            Some(Verdict::Better)
        );
        assert_eq!(counts.to_note(2).unwrap(), "Exact: 2 of 2 runs agree.");
        let same = ExactCounts::from_runs(&runs(&[1000.0; 2]), &runs(&[1000.5; 2]));
        assert_eq!(same.exact_verdict(COUNT_DELTA, MetricDirection::Lower), Some(Verdict::Same));
    }

    #[test]
    fn a_time_that_contradicts_the_instruction_counts_is_noted() {
        use Verdict::*;
        assert!(disagreement_note(Better, Same).unwrap().contains("not less time"));
        assert!(disagreement_note(Worse, Better).unwrap().contains("not more time"));
        assert!(disagreement_note(Same, Worse).unwrap().contains("not the same time"));
        for (instructions, time) in
            [(Better, Better), (Same, Same), (Worse, Unclear), (Unclear, Worse)]
        {
            assert_eq!(disagreement_note(instructions, time), None);
        }
    }

    #[test]
    fn varying_counts_report_their_variation_and_have_no_verdict() {
        let counts = ExactCounts::from_runs(&runs(&[1000.0, 1009.2]), &runs(&[1000.0, 1000.0]));
        assert_eq!(counts.exact_verdict(COUNT_DELTA, MetricDirection::Lower), None);
        assert!(counts.to_note(2).unwrap().starts_with("Instructions vary by 0.92%: "));
        assert_eq!(ExactCounts::from_runs(&runs(&[1.0]), &runs(&[1.0, 1.0])), ExactCounts::TooFew);
        assert!(
            is_exact(&runs(&[5.0, 5.0]))
                && !is_exact(&runs(&[5.0]))
                && !is_exact(&runs(&[5.0, 6.0]))
        );
    }
}
