//! Decides whether the data support a claim.
//!
//! A claim concerns noisy figures, so the answer is yes, no or undecided. Student's interval over
//! the runs decides each comparison in a claim. The k-th runs of two variants form a pair, because
//! they took place in the same block. The interval covers the mean log ratio (the mean difference
//! if a side is not positive). An interval that excludes zero decides the comparison; otherwise the
//! comparison is undecided. Kleene's three-valued logic combines the comparisons of a claim.
//!
//! A conjunction holds only if all its parts hold, so the error rate of the answer yes is at most
//! the error rate of one part (intersection-union test, Berger 1982). A conjunction fails if any
//! part fails, so for the answer no, each of k parts gets 1/k of the error rate (Bonferroni).

use speedwell_model::experiment::{ExperimentDesign, ReportClaim, SelectedCase};
use speedwell_model::expression::{BinaryOperator, ClaimExpression, MetricTerm};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::{IntervalEstimate, Metric, Run, Session, median};
use speedwell_stats::interval::mean_t;

/// Minimum number of runs for a decision. Sequential designs do not analyze fewer runs either.
const MIN_CLAIM_RUNS: usize = 8;

/// Whether a claim holds.
///
/// The order is that of Kleene's logic: a conjunction has the smallest answer of its parts, and a
/// disjunction the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimAnswer {
    /// The data contradict the claim.
    No,
    /// The data neither support nor contradict the claim.
    Undecided,
    /// The data support the claim.
    Yes,
}

/// A claim with its answer.
#[derive(Debug, Clone)]
pub struct ClaimFound {
    /// The claim as a sentence.
    pub sentence: String,
    /// The claim's expression as text.
    pub text: String,
    /// The answer.
    pub holds: ClaimAnswer,
    /// The claim's comparisons, with the values of both sides. If the claim is about several cases,
    /// the comparisons are listed for each of them.
    pub parts: Vec<ClaimComparison>,
}

/// A comparison within a claim.
#[derive(Debug, Clone)]
pub struct ClaimComparison {
    /// Case that the comparison is about, if the claim is about several cases.
    pub about: Option<String>,
    /// Source text.
    pub text: String,
    /// Geometric mean of the left side divided by the right side, with its interval; `None` if a
    /// side is not positive or there are too few runs.
    pub ratio: Option<IntervalEstimate>,
    /// Unit of both sides. `None` if figures differ in unit, or if a figure is divided or
    /// multiplied by another.
    pub unit: Option<String>,
    /// Medians of left and right.
    pub sides: Option<(f64, f64)>,
    /// The answer.
    pub holds: ClaimAnswer,
}

/// Judges all claims.
pub fn check_claims(
    session: &Session,
    experiment: &ExperimentDesign,
    confidence: f64,
) -> Vec<ClaimFound> {
    let check = |claim: &ReportClaim| {
        let atoms = count_comparisons(&claim.expression) * claim.rows.len().max(1);
        let strict = 1.0 - (1.0 - confidence) / atoms.max(1) as f64;
        let yes = if is_conjunction(&claim.expression) { confidence } else { strict };
        let mut parts = Vec::new();
        let mut all_hold = ClaimAnswer::Yes;
        for row in &claim.rows {
            let terms = claim.expression.terms().into_iter().zip(row);
            let mut checker = ClaimRow {
                session,
                experiment,
                confidence,
                levels: AnswerConfidence { yes, no: strict },
                case: (claim.rows.len() > 1).then(|| case_of_row(experiment, row)).flatten(),
                values: terms
                    .map(|(term, case)| (term, term_values(session, experiment, term, case)))
                    .collect(),
                parts: &mut parts,
            };
            all_hold = all_hold.min(checker.evaluate(&claim.expression));
        }
        ClaimFound { sentence: claim.say.clone(), text: claim.text.clone(), holds: all_hold, parts }
    };
    experiment.claims.iter().map(check).collect()
}

/// Case that a row is about.
fn case_of_row(experiment: &ExperimentDesign, row: &[SelectedCase]) -> Option<String> {
    let selected = row.first()?;
    let group = experiment.groups.get(selected.group)?;
    Some(group.cases.get(selected.case?)?.id())
}

/// Values of a term, one per run, in execution order.
fn term_values(
    session: &Session,
    experiment: &ExperimentDesign,
    term: &MetricTerm,
    selected: &SelectedCase,
) -> Vec<f64> {
    let Some(group) = experiment.groups.get(selected.group) else { return Vec::new() };
    let metric = group.stored_name(&term.metric);
    let case = selected.case.and_then(|index| group.cases.get(index));
    let of_variant = session.runs.iter().filter(|run| *run.variant == *term.variant);
    let runs = of_variant.filter(|run| case.is_none_or(|case| *run.case == *case));
    runs.filter_map(|run| value_of(run, metric)).collect()
}

/// One evaluation of a claim.
struct ClaimRow<'a> {
    session: &'a Session,
    experiment: &'a ExperimentDesign,
    confidence: f64,
    levels: AnswerConfidence,
    case: Option<String>,
    /// The terms of the claim with their values.
    values: Vec<(&'a MetricTerm, Vec<f64>)>,
    parts: &'a mut Vec<ClaimComparison>,
}

impl ClaimRow<'_> {
    /// Unit of an expression. `None` if its figures differ in unit or the arithmetic changes it.
    fn expression_unit(&self, expression: &ClaimExpression) -> Option<String> {
        let terms = expression.terms();
        let unit_of = |term: &&MetricTerm| {
            let groups = self.experiment.groups.iter();
            let mut metrics =
                groups.filter_map(|group| self.session.metric(group.stored_name(&term.metric)));
            metrics.next().map(|metric| metric.unit.clone())
        };
        let units: Vec<Option<String>> = terms.iter().map(unit_of).collect();
        let first = units.first()?.clone()?;
        let is_shared = units.iter().all(|unit| unit.as_ref() == Some(&first));
        (is_shared && !changes_unit(expression)).then_some(first)
    }

    fn evaluate(&mut self, expression: &ClaimExpression) -> ClaimAnswer {
        match expression {
            ClaimExpression::Not(inner) => match self.evaluate(inner) {
                ClaimAnswer::Yes => ClaimAnswer::No,
                ClaimAnswer::No => ClaimAnswer::Yes,
                ClaimAnswer::Undecided => ClaimAnswer::Undecided,
            },
            ClaimExpression::Pair(left, BinaryOperator::And, right) => {
                self.evaluate(left).min(self.evaluate(right))
            }
            ClaimExpression::Pair(left, BinaryOperator::Or, right) => {
                self.evaluate(left).max(self.evaluate(right))
            }
            ClaimExpression::Pair(left, operator, right) => {
                let part = self.evaluate_comparison(expression, (left, *operator, right));
                let holds = part.holds;
                self.parts.push(part);
                holds
            }
            _ => ClaimAnswer::Undecided,
        }
    }

    fn values_of(&self, term: &MetricTerm) -> &[f64] {
        let known = self.values.iter().find(|(known, _)| *known == term);
        known.map_or(&[][..], |(_, values)| values)
    }

    /// Evaluates one comparison.
    fn evaluate_comparison(
        &self,
        comparison: &ClaimExpression,
        (left, operator, right): (&ClaimExpression, BinaryOperator, &ClaimExpression),
    ) -> ClaimComparison {
        let mut part = ClaimComparison {
            about: self.case.clone(),
            text: comparison.to_string(),
            ratio: None,
            unit: self.expression_unit(comparison),
            sides: None,
            holds: ClaimAnswer::Undecided,
        };
        let terms = comparison.terms().into_iter();
        let runs = terms.map(|term| self.values_of(term).len()).min().unwrap_or(0);
        let names = |name: &str| self.experiment.claim_number(name);
        let side = |expression: &ClaimExpression| -> Option<Vec<f64>> {
            let value = |run: usize| {
                let figures = |term: &MetricTerm| self.values_of(term).get(run).copied();
                expression.evaluate_number(&names, &figures)
            };
            (0..runs).map(value).collect()
        };
        let (Some(left), Some(right)) = (side(left), side(right)) else { return part };
        part.sides = median_of(&left).zip(median_of(&right));
        let is_positive = left.iter().chain(&right).all(|value| *value > 0.0);
        let distances: Vec<f64> = left
            .iter()
            .zip(&right)
            .map(|(left, right)| if is_positive { (left / right).ln() } else { left - right })
            .collect();
        if distances.len() < MIN_CLAIM_RUNS {
            return part;
        }
        if is_positive {
            part.ratio = mean_t(&distances, self.confidence).map(|log| IntervalEstimate {
                value: (0.5 * (log.low + log.high)).exp(),
                low: log.low.exp(),
                high: log.high.exp(),
            });
        }
        part.holds = decide(&distances, operator, self.levels);
        part
    }
}

fn median_of(values: &[f64]) -> Option<f64> {
    median(&mut values.to_vec())
}

/// Confidence required to answer yes and no.
#[derive(Debug, Clone, Copy)]
struct AnswerConfidence {
    yes: f64,
    no: f64,
}

/// Decides a comparison by the distances between its sides, one per run: log ratios or differences.
fn decide(distances: &[f64], operator: BinaryOperator, levels: AnswerConfidence) -> ClaimAnswer {
    let (Some(yes), Some(no)) = (mean_t(distances, levels.yes), mean_t(distances, levels.no))
    else {
        return ClaimAnswer::Undecided;
    };
    let (is_true, is_false) = match operator {
        BinaryOperator::Less | BinaryOperator::AtMost => (yes.high < 0.0, no.low > 0.0),
        BinaryOperator::More | BinaryOperator::AtLeast => (yes.low > 0.0, no.high < 0.0),
        BinaryOperator::Unequal => (yes.high < 0.0 || yes.low > 0.0, false),
        _ => (false, no.high < 0.0 || no.low > 0.0),
    };
    // Figures without noise, such as counts, are compared exactly.
    let is_exact = distances.iter().all(|distance| *distance == distances[0]);
    match (is_true, is_false, is_exact) {
        (true, ..) => ClaimAnswer::Yes,
        (_, true, _) => ClaimAnswer::No,
        (.., true) => match operator.compare_numbers(distances[0], 0.0) {
            Some(true) => ClaimAnswer::Yes,
            _ => ClaimAnswer::No,
        },
        _ => ClaimAnswer::Undecided,
    }
}

/// Number of comparisons in an expression.
fn count_comparisons(expression: &ClaimExpression) -> usize {
    match expression {
        ClaimExpression::Not(inner) => count_comparisons(inner),
        ClaimExpression::Pair(left, BinaryOperator::And | BinaryOperator::Or, right) => {
            count_comparisons(left) + count_comparisons(right)
        }
        ClaimExpression::Pair(..) => 1,
        _ => 0,
    }
}

/// Whether a figure is divided or multiplied by another, which changes the unit.
fn changes_unit(expression: &ClaimExpression) -> bool {
    match expression {
        ClaimExpression::Pair(left, BinaryOperator::By | BinaryOperator::Times, right) => {
            !right.terms().is_empty()
                && (!left.terms().is_empty()
                    || matches!(expression, ClaimExpression::Pair(_, BinaryOperator::By, _)))
        }
        ClaimExpression::Pair(left, _, right) => changes_unit(left) || changes_unit(right),
        ClaimExpression::Minus(inner) | ClaimExpression::Not(inner) => changes_unit(inner),
        _ => false,
    }
}

fn is_conjunction(expression: &ClaimExpression) -> bool {
    match expression {
        ClaimExpression::Not(_) => false,
        ClaimExpression::Pair(left, BinaryOperator::And, right) => {
            is_conjunction(left) && is_conjunction(right)
        }
        ClaimExpression::Pair(_, operator, _) => *operator != BinaryOperator::Or,
        _ => true,
    }
}

/// Value of a metric, in the unit in which runs store it.
pub fn value_of(run: &Run, metric: &str) -> Option<f64> {
    run.value_of(metric).or_else(|| latency_percentile(run, metric))
}

/// Computes a latency percentile that is not stored as a metric, such as `latency_p66` or
/// `latency_min`, from the latencies of the run's load.
fn latency_percentile(run: &Run, metric: &str) -> Option<f64> {
    // The maximum is always stored if it is known.
    let percent = Metric::latency_percent(metric).filter(|_| metric != "latency_max")?;
    let load: LoadRun = serde_json::from_str(run.load.as_deref()?).ok()?;
    let ppm = (percent * 1e4).round() as u32;
    let time = load.measured.totals.latency.service_times().quantile(ppm)?;
    Some(time.ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const LEVELS: AnswerConfidence = AnswerConfidence { yes: 0.95, no: 0.95 };

    #[test]
    fn a_clear_distance_decides_and_a_small_one_does_not() {
        let near = [0.1, -0.2, 0.15, -0.1, 0.05, -0.02];
        let above: Vec<f64> = near.iter().map(|value| value + 1.0).collect();
        assert_eq!(decide(&above, BinaryOperator::More, LEVELS), ClaimAnswer::Yes);
        assert_eq!(decide(&above, BinaryOperator::Less, LEVELS), ClaimAnswer::No);
        assert_eq!(decide(&near, BinaryOperator::More, LEVELS), ClaimAnswer::Undecided);
        assert_eq!(decide(&near, BinaryOperator::Equal, LEVELS), ClaimAnswer::Undecided);
        assert_eq!(decide(&above, BinaryOperator::Equal, LEVELS), ClaimAnswer::No);
        assert_eq!(decide(&[0.0; 6], BinaryOperator::Equal, LEVELS), ClaimAnswer::Yes);
        assert_eq!(decide(&[0.0; 6], BinaryOperator::Less, LEVELS), ClaimAnswer::No);
    }

    #[test]
    fn without_a_difference_one_claim_in_twenty_is_decided() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut wrong = 0;
        for _ in 0..4000 {
            // Log-normal noise on both sides, as is typical of times.
            let mut side =
                || -> f64 { (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>() * 0.3 };
            let distances: Vec<f64> = (0..8).map(|_| side() - side()).collect();
            wrong += u32::from(
                decide(&distances, BinaryOperator::Less, LEVELS) != ClaimAnswer::Undecided,
            );
        }
        let share = f64::from(wrong) / 4000.0;
        assert!((0.04..0.06).contains(&share), "{share}");
    }

    #[test]
    fn undecided_claims_follow_kleene_logic() {
        use ClaimAnswer::{No, Undecided, Yes};
        assert_eq!(Undecided.min(No), No);
        assert_eq!(Undecided.min(Yes), Undecided);
        assert_eq!(Undecided.max(Yes), Yes);
        assert_eq!(Undecided.max(No), Undecided);
    }
}
