//! Decides whether the data support a claim, and whether changes pass the gates.
//!
//! A claim concerns noisy figures, so it has three answers. Each comparison in it is decided by
//! Student's interval over the runs: the k-th run of one variant is paired with the k-th of the
//! other, which ran in the same block, and the interval is that of the mean log ratio (of the mean
//! difference if a side is not positive). An interval that excludes zero decides the comparison;
//! otherwise it stays open. Kleene's three-valued logic combines the comparisons of a claim.
//!
//! A conjunction holds only if all its parts do, so its error is at most that of one part
//! (intersection-union test, Berger 1982). It fails if any part does, so each of k parts gets 1/k
//! of the error for failing (Bonferroni).

use crate::experiment::group::GroupFound;
use speedwell_model::load_run::LoadRun;
use speedwell_model::{Case, Estimate, Run, Session, median};
use speedwell_stats::interval::mean_t;
use speedwell_suite::experiment::{Claim, Experiment, SelectedCase, in_ms, is_repetition};
use speedwell_suite::expression::{Expression, Filter, Gate, Operator, Term};

/// Minimum number of runs for a decision, as for every verdict (the first look of the sequential
/// design).
const FEWEST_RUNS: usize = 8;

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// The data support it.
    Yes,
    /// The data contradict it.
    No,
    /// The data leave it open.
    Undecided,
}

/// A claim with its answer.
#[derive(Debug, Clone)]
pub struct ClaimFound {
    /// The claim as a sentence.
    pub say: String,
    /// The expression.
    pub text: String,
    /// The answer.
    pub holds: Holds,
    /// Its comparisons with the values of each side, for each case that the claim is about.
    pub parts: Vec<Part>,
}

/// A comparison within a claim.
#[derive(Debug, Clone)]
pub struct Part {
    /// Case that it is about, if there are several.
    pub about: Option<String>,
    /// Source text.
    pub text: String,
    /// Mean of left over right with its interval, as a ratio; `None` if a side is not positive or
    /// there are too few runs.
    pub ratio: Option<Estimate>,
    /// Unit of both sides, if all their figures share one and none is divided or multiplied by
    /// another.
    pub unit: Option<String>,
    /// Medians of left and right.
    pub sides: Option<(f64, f64)>,
    /// The answer.
    pub holds: Holds,
}

/// Judges all claims.
pub fn check_claims(
    session: &Session,
    experiment: &Experiment,
    confidence: f64,
) -> Vec<ClaimFound> {
    let checker = Checker {
        session,
        experiment,
        confidence,
    };
    experiment
        .claims
        .iter()
        .map(|claim| checker.claim(claim))
        .collect()
}

struct Checker<'a> {
    session: &'a Session,
    experiment: &'a Experiment,
    confidence: f64,
}

impl Checker<'_> {
    fn claim(&self, claim: &Claim) -> ClaimFound {
        let atoms = count(&claim.expression) * claim.rows.len().max(1);
        let is_conjunction = is_conjunction(&claim.expression);
        let levels = Levels {
            yes: if is_conjunction {
                self.confidence
            } else {
                divided(self.confidence, atoms)
            },
            no: divided(self.confidence, atoms),
        };
        let mut parts = Vec::new();
        let mut all = Holds::Yes;
        for row in &claim.rows {
            let terms = claim.expression.terms();
            let about = (claim.rows.len() > 1).then(|| self.about(row)).flatten();
            let figures = |term: &Term| {
                let at = terms.iter().position(|known| *known == term)?;
                self.values(term, row.get(at)?)
            };
            let holds = self.truth(
                &claim.expression,
                &figures,
                levels,
                about.as_ref(),
                &mut parts,
            );
            all = and(all, holds);
        }
        ClaimFound {
            say: claim.say.clone(),
            text: claim.text.clone(),
            holds: all,
            parts,
        }
    }

    /// Case that a row is about.
    fn about(&self, row: &[SelectedCase]) -> Option<String> {
        let spot = row.first()?;
        let group = self.experiment.groups.get(spot.group)?;
        Some(group.cases.get(spot.case?)?.id())
    }

    /// Values of a term, one per run, in execution order.
    fn values(&self, term: &Term, spot: &SelectedCase) -> Option<Vec<f64>> {
        let group = self.experiment.groups.get(spot.group)?;
        let metric = group.stored(&term.metric);
        let case = spot.case.and_then(|at| group.cases.get(at));
        let runs = self
            .session
            .runs
            .iter()
            .filter(|run| *run.variant == *term.variant);
        let runs = runs.filter(|run| case.is_none_or(|case| *run.case == *case));
        let factor = if in_ms(&term.metric) { 1e-6 } else { 1.0 };
        let values = runs.filter_map(|run| Some(value_of(run, &metric)? * factor));
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then_some(values)
    }

    /// Unit of all figures of an expression, if they share one and it survives the arithmetic.
    fn unit(&self, expression: &Expression) -> Option<String> {
        let terms = expression.terms();
        let unit_of = |term: &&Term| {
            if in_ms(&term.metric) {
                return Some("ms".to_owned());
            }
            let groups = self.experiment.groups.iter();
            let mut known =
                groups.filter_map(|group| self.session.metric(&group.stored(&term.metric)));
            known.next().map(|metric| metric.unit.clone())
        };
        let units: Vec<Option<String>> = terms.iter().map(unit_of).collect();
        let first = units.first()?.clone()?;
        let is_one = units.iter().all(|unit| unit.as_ref() == Some(&first));
        (is_one && !divides(expression)).then_some(first)
    }

    fn truth(
        &self,
        expression: &Expression,
        figures: &dyn Fn(&Term) -> Option<Vec<f64>>,
        levels: Levels,
        about: Option<&String>,
        parts: &mut Vec<Part>,
    ) -> Holds {
        match expression {
            Expression::Not(inner) => match self.truth(inner, figures, levels, about, parts) {
                Holds::Yes => Holds::No,
                Holds::No => Holds::Yes,
                Holds::Undecided => Holds::Undecided,
            },
            Expression::Pair(left, operator @ (Operator::And | Operator::Or), right) => {
                let left = self.truth(left, figures, levels, about, parts);
                let right = self.truth(right, figures, levels, about, parts);
                match operator {
                    Operator::And => and(left, right),
                    _ => or(left, right),
                }
            }
            Expression::Pair(left, operator, right) => {
                let part = self.part(expression, (left, *operator, right), figures, levels, about);
                let holds = part.holds;
                parts.push(part);
                holds
            }
            _ => Holds::Undecided,
        }
    }

    /// Evaluates one comparison.
    fn part(
        &self,
        whole: &Expression,
        (left, operator, right): (&Expression, Operator, &Expression),
        figures: &dyn Fn(&Term) -> Option<Vec<f64>>,
        levels: Levels,
        about: Option<&String>,
    ) -> Part {
        let mut part = Part {
            about: about.cloned(),
            text: whole.to_string(),
            ratio: None,
            unit: self.unit(whole),
            sides: None,
            holds: Holds::Undecided,
        };
        let runs = whole
            .terms()
            .into_iter()
            .map(|term| figures(term).map_or(0, |values| values.len()))
            .min();
        let runs = runs.unwrap_or(0);
        let names = |name: &str| self.experiment.number(name);
        let side = |expression: &Expression| -> Option<Vec<f64>> {
            (0..runs)
                .map(|at| expression.number(&names, &|term| figures(term)?.get(at).copied()))
                .collect()
        };
        let (Some(left), Some(right)) = (side(left), side(right)) else {
            return part;
        };
        part.sides = middle(&left).zip(middle(&right));
        let is_positive = left.iter().chain(&right).all(|value| *value > 0.0);
        let distances: Vec<f64> = left
            .iter()
            .zip(&right)
            .map(|(left, right)| {
                if is_positive {
                    (left / right).ln()
                } else {
                    left - right
                }
            })
            .collect();
        if distances.len() < FEWEST_RUNS {
            return part;
        }
        if is_positive {
            part.ratio = mean_t(&distances, self.confidence).map(|log| Estimate {
                value: (0.5 * (log.low + log.high)).exp(),
                low: log.low.exp(),
                high: log.high.exp(),
            });
        }
        part.holds = decided(&distances, operator, levels);
        part
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    median(&mut values.to_vec())
}

/// Confidence required to answer yes and no.
#[derive(Debug, Clone, Copy)]
struct Levels {
    yes: f64,
    no: f64,
}

/// Decides a comparison by the distances from zero, one per run.
fn decided(distances: &[f64], operator: Operator, levels: Levels) -> Holds {
    let (Some(yes), Some(no)) = (mean_t(distances, levels.yes), mean_t(distances, levels.no))
    else {
        return Holds::Undecided;
    };
    let (is_true, is_false) = match operator {
        Operator::Less | Operator::AtMost => (yes.high < 0.0, no.low > 0.0),
        Operator::More | Operator::AtLeast => (yes.low > 0.0, no.high < 0.0),
        Operator::Unequal => (yes.high < 0.0 || yes.low > 0.0, false),
        _ => (false, no.high < 0.0 || no.low > 0.0),
    };
    // Noiseless figures, such as counts, decide exactly.
    let is_exact = distances.iter().all(|distance| *distance == distances[0]);
    match (is_true, is_false, is_exact) {
        (true, ..) => Holds::Yes,
        (_, true, _) => Holds::No,
        (.., true) => match operator.compares(distances[0], 0.0) {
            Some(true) => Holds::Yes,
            _ => Holds::No,
        },
        _ => Holds::Undecided,
    }
}

fn divided(confidence: f64, parts: usize) -> f64 {
    1.0 - (1.0 - confidence) / parts.max(1) as f64
}

/// Number of comparisons in an expression.
fn count(expression: &Expression) -> usize {
    match expression {
        Expression::Not(inner) => count(inner),
        Expression::Pair(left, Operator::And | Operator::Or, right) => count(left) + count(right),
        Expression::Pair(..) => 1,
        _ => 0,
    }
}

/// Whether a figure is divided or multiplied by another, which changes the unit.
fn divides(expression: &Expression) -> bool {
    match expression {
        Expression::Pair(left, Operator::By | Operator::Times, right) => {
            !right.terms().is_empty()
                && (!left.terms().is_empty()
                    || matches!(expression, Expression::Pair(_, Operator::By, _)))
        }
        Expression::Pair(left, _, right) => divides(left) || divides(right),
        Expression::Minus(inner) | Expression::Not(inner) => divides(inner),
        _ => false,
    }
}

fn is_conjunction(expression: &Expression) -> bool {
    match expression {
        Expression::Not(_) => false,
        Expression::Pair(left, Operator::And, right) => {
            is_conjunction(left) && is_conjunction(right)
        }
        Expression::Pair(_, operator, _) => *operator != Operator::Or,
        _ => true,
    }
}

fn and(one: Holds, other: Holds) -> Holds {
    match (one, other) {
        (Holds::No, _) | (_, Holds::No) => Holds::No,
        (Holds::Yes, Holds::Yes) => Holds::Yes,
        _ => Holds::Undecided,
    }
}

fn or(one: Holds, other: Holds) -> Holds {
    match (one, other) {
        (Holds::Yes, _) | (_, Holds::Yes) => Holds::Yes,
        (Holds::No, Holds::No) => Holds::No,
        _ => Holds::Undecided,
    }
}

/// Value of a metric, in the unit in which runs store it.
pub fn value_of(run: &Run, metric: &str) -> Option<f64> {
    run.value_of(metric).or_else(|| percentile(run, metric))
}

/// A latency percentile that is not stored as a metric: `latency_p66`, `latency_min`.
fn percentile(run: &Run, metric: &str) -> Option<f64> {
    let which = metric.strip_prefix("latency_")?;
    let percent: f64 = match which.strip_prefix('p') {
        Some(digits) => digits.replace('_', ".").parse().ok()?,
        None if which == "min" => 0.0,
        None => return None,
    };
    let load: LoadRun = serde_json::from_str(run.load.as_deref()?).ok()?;
    let ppm = (percent * 1e4).round();
    let ppm = (0.0..=1e6).contains(&ppm).then_some(ppm as u32)?;
    let found = load.measured.totals.latency.service().quantile(ppm)?;
    Some(found.ns as f64)
}

/// A gate, applied to one change.
#[derive(Debug, Clone)]
pub struct GateFound {
    /// Source text of the gate.
    pub text: String,
    /// Group name.
    pub group: String,
    /// Case id.
    pub case: String,
    /// Name of the candidate.
    pub candidate: String,
    /// Change of the metric, with its interval.
    pub change: Option<Estimate>,
    /// Whether the whole interval is within the limit.
    pub is_kept: bool,
    /// Whether the whole interval is beyond the limit.
    pub is_broken: bool,
}

/// Checks all changes against all gates.
pub fn check_gates(groups: &[GroupFound], experiment: &Experiment) -> Vec<GateFound> {
    let mut found = Vec::new();
    for (name, gate) in &experiment.compare.gates {
        for group in groups
            .iter()
            .filter(|group| name.as_ref().is_none_or(|name| *name == group.name))
        {
            found.extend(of_group(group, gate, experiment));
        }
    }
    found
}

fn of_group(group: &GroupFound, gate: &Gate, experiment: &Experiment) -> Vec<GateFound> {
    let Some(stored) = experiment
        .group(&group.name)
        .map(|known| known.stored(&gate.metric))
    else {
        return Vec::new();
    };
    let metric = group
        .metrics
        .iter()
        .filter(|found| found.metric.name == stored);
    let comparisons = metric.flat_map(|found| &found.findings.comparisons);
    let own = comparisons.filter(|comparison| !is_repetition(&comparison.candidate));
    own.flat_map(|comparison| {
        let rows = comparison
            .rows
            .iter()
            .filter(|row| fits(&gate.filter, &group.name, &row.case));
        rows.map(|row| {
            let is_in = |change: f64| gate.allows(change);
            let ends = row
                .change
                .map(|change| (is_in(change.low), is_in(change.high)));
            GateFound {
                text: gate.to_string(),
                group: group.name.clone(),
                case: row.case.id(),
                candidate: comparison.candidate.clone(),
                change: row.change,
                is_kept: ends == Some((true, true)),
                is_broken: ends == Some((false, false)),
            }
        })
    })
    .collect()
}

/// Whether a filter matches this case.
pub fn fits(filter: &Filter, group: &str, case: &Case) -> bool {
    let has = |(name, value): &(String, String)| {
        case.value(name)
            .is_some_and(|known| known.plain() == *value)
    };
    filter.group.as_ref().is_none_or(|name| name == group) && filter.values.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const LEVELS: Levels = Levels {
        yes: 0.95,
        no: 0.95,
    };

    #[test]
    fn a_clear_distance_decides_and_a_small_one_does_not() {
        let near = [0.1, -0.2, 0.15, -0.1, 0.05, -0.02];
        let above: Vec<f64> = near.iter().map(|value| value + 1.0).collect();
        assert_eq!(decided(&above, Operator::More, LEVELS), Holds::Yes);
        assert_eq!(decided(&above, Operator::Less, LEVELS), Holds::No);
        assert_eq!(decided(&near, Operator::More, LEVELS), Holds::Undecided);
        assert_eq!(decided(&near, Operator::Equal, LEVELS), Holds::Undecided);
        assert_eq!(decided(&above, Operator::Equal, LEVELS), Holds::No);
        assert_eq!(decided(&[0.0; 6], Operator::Equal, LEVELS), Holds::Yes);
        assert_eq!(decided(&[0.0; 6], Operator::Less, LEVELS), Holds::No);
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
            wrong += u32::from(decided(&distances, Operator::Less, LEVELS) != Holds::Undecided);
        }
        let share = f64::from(wrong) / 4000.0;
        assert!((0.04..0.06).contains(&share), "{share}");
    }

    #[test]
    fn truths_follow_kleene() {
        use Holds::{No, Undecided, Yes};
        assert_eq!(and(Undecided, No), No);
        assert_eq!(and(Undecided, Yes), Undecided);
        assert_eq!(or(Undecided, Yes), Yes);
        assert_eq!(or(Undecided, No), Undecided);
    }
}
