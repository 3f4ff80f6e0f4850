//! Whole comparisons: their cases are matched, replayed and corrected together, then summed up one by one.
//!
//! Decides which cases are compared and in which order they come. It must not know where the runs
//! are from. Start at [`match_cases`], then [`judge`].

use super::correction::{self, Judged};
use super::grid::{CaseRuns, values_of};
use super::pair::Pair;
use super::parallel::in_parallel;
use super::replay::{Member, Replay};
use super::row::{Row, Task, describe};
use super::rule::Rule;
use super::{Comparison, Settings, overall};
use speedwell_model::{Metric, RunValue};
use std::collections::HashMap;

/// One side of a comparison: a variant's runs by case.
pub(super) struct Source<'a, 's> {
    /// Its name in tables.
    pub name: &'a str,
    /// The cases of its session.
    pub cases: &'a [CaseRuns<'s>],
    /// The place of its variant.
    pub variant: usize,
}

/// What was found of one candidate, for one metric.
pub(super) struct Compared {
    /// The findings.
    pub comparison: Comparison,
    /// Cases that the overall change leaves out.
    pub left_out: usize,
    /// Cases whose sides were measured one after the other.
    pub one_after_the_other: usize,
}

/// Two sources with the cases that they have in common, for one metric.
pub(super) struct Matched<'r> {
    baseline: String,
    candidate: String,
    metric: Metric,
    rule: &'r Rule,
    tasks: Vec<Task>,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
}

/// Judges all comparisons of one report: whatever is shown together is corrected together.
pub(super) fn judge(comparisons: Vec<Matched<'_>>, settings: &Settings) -> Vec<Compared> {
    let Some(alpha) = comparisons.first().map(|matched| matched.rule.alpha) else {
        return Vec::new();
    };
    let mut replay = Replay::new(alpha, settings.correction);
    let mut members = Vec::new();
    for matched in &comparisons {
        members.extend(matched.tasks.iter().map(|task| Member {
            place: replay.enrol(),
            pair: &task.pair,
            rule: matched.rule,
            seed: matched.rule.seed_for(&task.id),
        }));
    }
    replay.advance(&members);
    let mut outcomes = in_parallel(members, |member| replay.outcome(&member)).into_iter();
    let mut described: Vec<(Matched<'_>, Vec<Row>)> = Vec::new();
    for mut matched in comparisons {
        let tasks: Vec<_> = matched.tasks.drain(..).zip(outcomes.by_ref()).collect();
        let rule = matched.rule;
        let rows = in_parallel(tasks, |(task, outcome)| describe(task, outcome, rule));
        described.push((matched, rows));
    }
    let mut family: Vec<Judged<'_>> = Vec::new();
    for (matched, rows) in &mut described {
        family.extend(rows.iter_mut().map(|row| Judged {
            row,
            rule: matched.rule,
            better: matched.metric.better,
        }));
    }
    correction::correct(&mut family, settings.correction);
    described
        .into_iter()
        .map(|(matched, rows)| sum_up(matched, rows, settings))
        .collect()
}

fn sum_up(matched: Matched<'_>, rows: Vec<Row>, settings: &Settings) -> Compared {
    let rule = matched.rule;
    Compared {
        left_out: overall::left_out(&rows),
        one_after_the_other: rows.iter().filter(|row| row.one_after_the_other).count(),
        comparison: Comparison {
            baseline: matched.baseline,
            candidate: matched.candidate,
            metric: matched.metric,
            method: rule.method,
            confidence: rule.confidence(),
            delta: rule.delta,
            threshold: (rule.threshold > 0.0).then_some(rule.threshold),
            correction: settings.correction,
            overall: overall::overall(&rows, rule.confidence(), settings.seed),
            rows: rows.into_iter().map(|row| row.comparison).collect(),
            only_baseline: matched.only_baseline,
            only_candidate: matched.only_candidate,
        },
    }
}

/// Matches the cases of two sources, to be judged by `rule`; `apart` says that they come from different sessions.
pub(super) fn match_cases<'r>(
    baseline: &Source<'_, '_>,
    candidate: &Source<'_, '_>,
    metric: &Metric,
    rule: &'r Rule,
    apart: bool,
) -> Matched<'r> {
    let mut values: HashMap<&str, Vec<RunValue>> = HashMap::new();
    for case in candidate.cases {
        let runs = values_of(&case.by_variant[candidate.variant], &metric.name);
        if !runs.is_empty() {
            values.insert(&case.id, runs);
        }
    }
    let mut matched = Matched {
        baseline: baseline.name.to_owned(),
        candidate: candidate.name.to_owned(),
        metric: metric.clone(),
        rule,
        tasks: Vec::new(),
        only_baseline: Vec::new(),
        only_candidate: Vec::new(),
    };
    for case in baseline.cases {
        let old = values_of(&case.by_variant[baseline.variant], &metric.name);
        if old.is_empty() {
            continue;
        }
        let Some(new) = values.remove(case.id.as_str()) else {
            matched.only_baseline.push(case.id.clone());
            continue;
        };
        let pair = Pair::new(old, new, rule.matching);
        matched.tasks.push(Task {
            case: case.case.clone(),
            id: case.id.clone(),
            pair,
            apart,
        });
    }
    let is_left = |case: &&CaseRuns<'_>| values.contains_key(case.id.as_str());
    let left = candidate.cases.iter().filter(is_left);
    matched.only_candidate = left.map(|case| case.id.clone()).collect();
    matched
}
