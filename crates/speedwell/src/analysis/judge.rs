//! When a case needs no more runs.
//!
//! Decides by the same replay of looks that the analysis of the finished session uses, so that what
//! ended the measuring is what will be reported. It must not know what a run costs. Start at
//! [`Judge::is_decided`].

use super::grid::values_of;
use super::pair::{Matching, Pair};
use super::replay::{End, replay};
use super::rule::{Looks, Rule};
use super::{Settings, summary};
use crate::model::{Design, Run};
use std::collections::HashMap;

/// Runs below which no precision is believed.
const FEWEST_RUNS: usize = 4;

/// Tells, after each finished block of a case, whether its question is answered.
#[derive(Debug, Clone)]
pub struct Judge {
    question: Question,
    metrics: Vec<String>,
}

#[derive(Debug, Clone)]
enum Question {
    /// Does every candidate differ from the baseline?
    Change { rule: Box<Rule>, baseline: String },
    /// Is the value of the only variant known well enough?
    Precision { share: f64, confidence: f64 },
}

/// The metrics that decide; with `all` it is the primary one, lest a figure that never settles
/// keep the others measuring.
fn deciding(settings: &Settings) -> Vec<String> {
    match settings.wants_all_metrics() {
        true => Vec::new(),
        false => settings.metrics.clone(),
    }
}

impl Judge {
    /// A judge for comparisons under `design`.
    ///
    /// A design with a fixed number of runs is never decided early.
    pub fn new(design: &Design, settings: &Settings) -> Judge {
        let baseline = settings
            .baseline
            .clone()
            .unwrap_or_else(|| design.baseline.clone());
        let rule = Box::new(Rule::of(design, settings));
        Judge {
            question: Question::Change { rule, baseline },
            metrics: deciding(settings),
        }
    }

    /// A judge for a session of one variant: it is satisfied when half of the interval of the mean
    /// is at most `share` of the mean, after at least 4 runs.
    ///
    /// Stopping at the first narrow interval makes it a little too narrow; the figures of such a
    /// session claim precision, not a difference.
    pub fn precision(share: f64, settings: &Settings) -> Judge {
        let confidence = settings.confidence.unwrap_or(Settings::DEFAULT_CONFIDENCE);
        let question = Question::Precision { share, confidence };
        Judge {
            question,
            metrics: deciding(settings),
        }
    }

    /// Whether the case needs no more runs, given all its finished runs of all variants.
    ///
    /// To be called after each finished block; cheap except at a look.
    pub fn is_decided(&self, runs_of_case: &[Run]) -> bool {
        let Some(first) = runs_of_case.first() else {
            return false;
        };
        let primary = || {
            first
                .samples
                .first()
                .map(|sample| sample.metric.to_string())
        };
        let metrics = match self.metrics.is_empty() {
            true => primary().into_iter().collect(),
            false => self.metrics.clone(),
        };
        let sides = by_variant(runs_of_case);
        match &self.question {
            Question::Precision { share, confidence } => metrics.iter().all(|metric| {
                sides
                    .iter()
                    .all(|(_, runs)| is_precise(runs, metric, *share, *confidence))
            }),
            Question::Change { rule, baseline } => match &rule.looks {
                Some(looks) => {
                    let case = Case {
                        rule,
                        looks,
                        seed: rule.seed_for(&first.case.id()),
                    };
                    case.is_decided(baseline, &sides, &metrics)
                }
                None => false,
            },
        }
    }
}

struct Case<'a> {
    rule: &'a Rule,
    looks: &'a Looks,
    seed: u64,
}

impl Case<'_> {
    fn is_decided(&self, baseline: &str, sides: &[(&str, Vec<&Run>)], metrics: &[String]) -> bool {
        let Some((_, old)) = sides.iter().find(|(name, _)| *name == baseline) else {
            return false;
        };
        let candidates: Vec<&Vec<&Run>> = sides
            .iter()
            .filter(|(name, _)| *name != baseline)
            .map(|(_, runs)| runs)
            .collect();
        // Answers change at looks only, and most calls come between them.
        let is_at_look =
            |new: &&Vec<&Run>| self.is_at_look(comparable(old, new, self.rule.matching));
        if !candidates.iter().any(is_at_look) {
            return false;
        }
        metrics.iter().all(|metric| {
            let old = values_of(old, metric);
            let decides = |new: &&Vec<&Run>| {
                let pair = Pair::new(old.clone(), values_of(new, metric), self.rule.matching);
                replay(&pair, self.rule, self.seed).end == End::Final
            };
            candidates.iter().all(decides)
        })
    }

    fn is_at_look(&self, runs: usize) -> bool {
        self.looks.design.look_at(runs).is_some() || runs >= self.looks.design.maximum()
    }
}

/// Runs per side that can be compared, without looking at values.
fn comparable(old: &[&Run], new: &[&Run], matching: Matching) -> usize {
    let Matching::Blocks {
        runs: per_block, ..
    } = matching
    else {
        return old.len().min(new.len());
    };
    let mut blocks: HashMap<u32, (usize, usize)> = HashMap::new();
    old.iter()
        .for_each(|run| blocks.entry(run.block).or_default().0 += 1);
    new.iter()
        .for_each(|run| blocks.entry(run.block).or_default().1 += 1);
    per_block
        * blocks
            .values()
            .filter(|&&sides| sides == (per_block, per_block))
            .count()
}

fn is_precise(runs: &[&Run], metric: &str, share: f64, confidence: f64) -> bool {
    let values: Vec<f64> = values_of(runs, metric)
        .iter()
        .map(|run| run.value)
        .collect();
    values.len() >= FEWEST_RUNS
        && summary::relative_half_width(&values, confidence).is_some_and(|half| half <= share)
}

fn by_variant(runs: &[Run]) -> Vec<(&str, Vec<&Run>)> {
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
    sides
}
