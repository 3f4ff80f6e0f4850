//! Decides when a case needs no more runs.
//!
//! Performs the same interim analyses ("looks") as the analysis of the finished session. Reports
//! therefore show the result that ended the measurement. Does not know what a run costs. Start at
//! [`StopRule::settled_cases`].

use crate::builds::independent_values;
use crate::disturbed::select_counted_runs;
use crate::exact::is_exact;
use crate::grid::{distinct_items, finite_values};
use crate::paired::{PairedRuns, RunMatching};
use crate::policy::{JudgingPolicy, SequentialLooks};
use crate::sequential::{ReplayMember, SequentialDecision};
use crate::{AnalysisSettings, summary};
use speedwell_model::{Metric, Run, SessionDesign};
use std::collections::HashMap;

/// Minimum number of runs before a precision estimate is trusted.
const MIN_PRECISION_RUNS: usize = 4;

/// Decides after each block which cases are settled.
#[derive(Debug, Clone)]
pub struct StopRule {
    question: StopQuestion,
    metrics: Vec<String>,
    /// Whether reports show all metrics. If so, metrics that do not decide when to stop still take
    /// part in the correction for multiple testing.
    all_metrics: bool,
}

#[derive(Debug, Clone)]
enum StopQuestion {
    /// Is it decided whether each candidate differs from the baseline?
    Change(Box<ChangeQuestion>),
    /// Is the value of the only variant known precisely enough?
    Precision(Box<PrecisionGoal>),
    /// Do the counts of every variant agree between runs?
    Count,
}

/// Precision goal of a session with one variant.
#[derive(Debug, Clone)]
struct PrecisionGoal {
    share: f64,
    confidence: f64,
    design: SessionDesign,
}

/// Stopping state of a session with comparisons.
#[derive(Debug, Clone)]
struct ChangeQuestion {
    policy: JudgingPolicy,
    design: SessionDesign,
    baseline: String,
    decision: SequentialDecision,
    /// Index of each comparison in `decision`, by case, candidate and metric.
    comparison_indices: HashMap<[String; 3], usize>,
}

/// A comparison that the next step of the decision handles: it is due for an interim analysis, or
/// it is new, and the correction for multiple testing must count it.
struct PendingComparison {
    index: usize,
    pair: PairedRuns,
    seed: u64,
}

/// Metrics that decide when to stop; an empty list means the primary metric. If all metrics are
/// wanted, only the primary metric decides, because any other metric that never settles would
/// prolong the session.
fn deciding_metrics(settings: &AnalysisSettings) -> Vec<String> {
    if settings.wants_all_metrics() { Vec::new() } else { settings.metrics.clone() }
}

impl StopRule {
    /// Creates a rule for comparisons under `design`.
    ///
    /// A design with a fixed number of runs ends early only if it counts nothing but instructions.
    pub fn new(design: &SessionDesign, settings: &AnalysisSettings) -> StopRule {
        let baseline = settings.baseline.clone().unwrap_or_else(|| design.baseline.clone());
        let policy = JudgingPolicy::new(design, settings);
        let change = ChangeQuestion {
            decision: SequentialDecision::new(policy.alpha, settings.correction),
            policy,
            design: design.clone(),
            baseline,
            comparison_indices: HashMap::new(),
        };
        let question = match &design.counting {
            Some(counting) if !counting.also_timed => StopQuestion::Count,
            _ => StopQuestion::Change(Box::new(change)),
        };
        StopRule {
            question,
            metrics: deciding_metrics(settings),
            all_metrics: settings.wants_all_metrics(),
        }
    }

    /// Creates a rule for a session of one variant. A case is settled if it has at least 4 runs and
    /// half the width of the mean's interval is at most `share` times the mean.
    ///
    /// Stopping at the first narrow interval makes the interval slightly too narrow. This is
    /// acceptable, because such a session claims precision, not a difference.
    pub fn for_precision(
        share: f64,
        design: &SessionDesign,
        settings: &AnalysisSettings,
    ) -> StopRule {
        let precision = PrecisionGoal {
            share,
            confidence: settings.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE),
            design: design.clone(),
        };
        StopRule {
            question: StopQuestion::Precision(Box::new(precision)),
            metrics: deciding_metrics(settings),
            all_metrics: false,
        }
    }

    /// Returns whether each case is settled (needs no more runs). `cases` holds all finished runs
    /// of all variants of each case.
    ///
    /// Call this after each block with the cases that are not settled yet; it is cheap unless an
    /// interim analysis is due. Results of other cases are remembered, because all cases of a
    /// session are corrected together.
    pub fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        let metrics: Vec<Vec<String>> = cases
            .iter()
            .map(|runs| {
                if self.metrics.is_empty() {
                    metrics_of(runs).into_iter().take(1).collect()
                } else {
                    self.metrics.clone()
                }
            })
            .collect();
        let cases: Vec<(&[Run], Vec<String>)> = cases.iter().copied().zip(metrics).collect();
        match &mut self.question {
            StopQuestion::Precision(precision) => {
                cases.iter().map(|(runs, metrics)| are_precise(runs, metrics, precision)).collect()
            }
            StopQuestion::Change(change) => change.settled_cases(&cases, self.all_metrics),
            StopQuestion::Count => cases.iter().map(|(runs, _)| are_exact(runs)).collect(),
        }
    }
}

impl ChangeQuestion {
    fn settled_cases(&mut self, cases: &[(&[Run], Vec<String>)], all_metrics: bool) -> Vec<bool> {
        if self.policy.looks.is_none() {
            return vec![false; cases.len()];
        }
        let mut next = Vec::new();
        for (runs, metrics) in cases {
            if all_metrics {
                self.prepare_case(runs, &metrics_of(runs), &mut next)
            } else {
                self.prepare_case(runs, metrics, &mut next)
            }
        }
        let members: Vec<ReplayMember<'_>> = next
            .iter()
            .map(|next| ReplayMember {
                index: next.index,
                pair: &next.pair,
                policy: &self.policy,
                seed: next.seed,
            })
            .collect();
        self.decision.take_reached_looks(&members);
        cases.iter().map(|(runs, metrics)| self.has_ended(runs, metrics)).collect()
    }

    /// Prepares the comparisons of one case that are new or due for an interim analysis.
    fn prepare_case(
        &mut self,
        runs: &[Run],
        metrics: &[String],
        pending: &mut Vec<PendingComparison>,
    ) {
        let Some(id) = runs.first().map(|run| run.case.id()) else {
            return;
        };
        let mut sides = by_variant(runs, &self.design);
        for (_, side) in &mut sides {
            side.retain(|run| !self.design.is_alone(run.block));
        }
        let Some((_, old)) = sides.iter().find(|(name, _)| *name == self.baseline) else {
            return;
        };
        for (name, new) in sides.iter().filter(|(name, _)| *name != self.baseline) {
            let comparable =
                comparable_runs(old, new, self.policy.matching) / self.policy.unit.runs_per_unit();
            for metric in metrics {
                let key = [id.clone(), (*name).to_owned(), metric.clone()];
                let index = self.comparison_indices.get(&key).copied();
                // Answers change only at looks, and most calls come between two looks.
                if index.is_some_and(|index| !self.is_due(index, comparable)) {
                    continue;
                }
                let [old, new] = self.policy.unit.paired_values([old, new], metric);
                let pair = PairedRuns::new(old, new, self.policy.matching);
                if pair.begins_in_block().is_none() {
                    continue;
                }
                let index = index.unwrap_or_else(|| self.decision.add_comparison());
                self.comparison_indices.insert(key, index);
                let seed = self.policy.seed_for(&id);
                pending.push(PendingComparison { index, pair, seed });
            }
        }
    }

    /// Whether a comparison with `runs` runs per side may have reached its next look.
    fn is_due(&self, index: usize, runs: usize) -> bool {
        let looks =
            self.policy.looks.as_ref().map(SequentialLooks::look_limits).unwrap_or_default();
        let next = looks.get(self.decision.looks_taken(index));
        !self.decision.has_ended(index) && next.is_some_and(|look| look.n <= runs)
    }

    /// Whether, for every metric, the comparisons of all candidates with runs have ended.
    fn has_ended(&self, runs: &[Run], metrics: &[String]) -> bool {
        let Some(id) = runs.first().map(|run| run.case.id()) else {
            return false;
        };
        let mut candidates: Vec<&str> = runs.iter().map(|run| &*run.variant).collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|name| *name != self.baseline);
        let has_ended = |name: &str, metric: &String| {
            let key = [id.clone(), name.to_owned(), metric.clone()];
            let index = self.comparison_indices.get(&key);
            index.is_some_and(|&index| self.decision.has_ended(index))
        };
        !candidates.is_empty()
            && candidates.iter().all(|name| metrics.iter().all(|metric| has_ended(name, metric)))
    }
}

/// Names of the metrics in these runs. The primary metric comes first.
fn metrics_of(runs: &[Run]) -> Vec<String> {
    let samples = runs.iter().flat_map(|run| &run.samples);
    let names = distinct_items(samples.map(|sample| &*sample.metric));
    names.into_iter().map(str::to_owned).collect()
}

/// Number of comparable runs per side, counted without reading their values.
fn comparable_runs(old: &[&Run], new: &[&Run], matching: RunMatching) -> usize {
    let Some(per_block) = matching.runs_together() else {
        return old.len().min(new.len());
    };
    let group = |run: &&Run| matching.group_of_run(run.slot, run.block);
    let mut blocks: HashMap<u32, (usize, usize)> = HashMap::new();
    old.iter().for_each(|run| blocks.entry(group(run)).or_default().0 += 1);
    new.iter().for_each(|run| blocks.entry(group(run)).or_default().1 += 1);
    per_block * blocks.values().filter(|&&sides| sides == (per_block, per_block)).count()
}

fn are_precise(runs: &[Run], metrics: &[String], goal: &PrecisionGoal) -> bool {
    let sides = by_variant(runs, &goal.design);
    !sides.is_empty()
        && metrics.iter().all(|metric| {
            sides.iter().all(|(_, runs)| is_precise(runs, metric, goal.share, goal.confidence))
        })
}

/// Whether all variants have enough runs with equal instruction counts.
fn are_exact(runs: &[Run]) -> bool {
    let is_exact = |runs: Vec<&Run>| is_exact(&finite_values(&runs, Metric::INSTRUCTIONS));
    let variants = distinct_items(runs.iter().map(|run| &run.variant));
    let runs_of =
        |name: &&std::sync::Arc<str>| runs.iter().filter(|run| run.variant == **name).collect();
    !runs.is_empty() && variants.iter().all(|name| is_exact(runs_of(name)))
}

fn is_precise(runs: &[&Run], metric: &str, share: f64, confidence: f64) -> bool {
    let values: Vec<f64> = (independent_values(runs, metric).iter()).map(|run| run.value).collect();
    values.len() >= MIN_PRECISION_RUNS
        && summary::relative_half_width(&values, confidence).is_some_and(|half| half <= share)
}

/// Runs that the analysis uses ([`select_counted_runs`]), by variant, in execution order.
fn by_variant<'r>(runs: &'r [Run], design: &SessionDesign) -> Vec<(&'r str, Vec<&'r Run>)> {
    let mut sides: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in runs {
        match sides.iter_mut().find(|(name, _)| *name == &*run.variant) {
            Some((_, side)) => side.push(run),
            None => sides.push((&run.variant, vec![run])),
        }
    }
    for (_, side) in &mut sides {
        side.sort_by_key(|run| run.slot);
    }
    if design.reject.is_empty() {
        return sides;
    }
    let (names, mut counted): (Vec<&str>, Vec<Vec<&Run>>) = sides.into_iter().unzip();
    select_counted_runs(design, &mut counted);
    names.into_iter().zip(counted).collect()
}
