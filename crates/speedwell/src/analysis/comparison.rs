//! A whole comparison: its cases are judged side by side, then corrected and summed up together.
//!
//! Decides which cases are compared and in which order they come. It must not know where the runs
//! are from.

use super::grid::{CaseRuns, values_of};
use super::pair::Pair;
use super::row::{Row, Task, judge};
use super::rule::Rule;
use super::{Comparison, Settings, correction, overall};
use crate::model::{Metric, RunValue};
use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

/// Cases below which starting a thread costs more than it saves.
const FEWEST_CASES_PER_THREAD: usize = 32;

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

/// Compares two sources by `rule`; `apart` says that they come from different sessions.
pub(super) fn compare(
    baseline: &Source<'_, '_>,
    candidate: &Source<'_, '_>,
    metric: &Metric,
    rule: &Rule,
    settings: &Settings,
    apart: bool,
) -> Compared {
    let matched = match_cases(baseline, candidate, metric, rule, apart);
    let mut rows = in_parallel(matched.tasks, |task| judge(task, rule, metric.better));
    correction::correct(&mut rows, settings.correction, rule);
    Compared {
        left_out: overall::left_out(&rows),
        one_after_the_other: rows.iter().filter(|row| row.one_after_the_other).count(),
        comparison: Comparison {
            baseline: baseline.name.to_owned(),
            candidate: candidate.name.to_owned(),
            metric: metric.clone(),
            method: rule.method,
            confidence: rule.confidence(),
            delta: rule.delta,
            correction: settings.correction,
            overall: overall::overall(&rows, rule.confidence(), settings.seed),
            rows: rows.into_iter().map(|row| row.comparison).collect(),
            only_baseline: matched.only_baseline,
            only_candidate: matched.only_candidate,
        },
    }
}

#[derive(Default)]
struct Matched {
    tasks: Vec<Task>,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
}

fn match_cases(
    baseline: &Source<'_, '_>,
    candidate: &Source<'_, '_>,
    metric: &Metric,
    rule: &Rule,
    apart: bool,
) -> Matched {
    let mut values: HashMap<&str, Vec<RunValue>> = HashMap::new();
    for case in candidate.cases {
        let runs = values_of(&case.by_variant[candidate.variant], &metric.name);
        if !runs.is_empty() {
            values.insert(&case.id, runs);
        }
    }
    let mut matched = Matched::default();
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

/// Applies `work` to all items, on several processors when there are many; order is kept.
fn in_parallel(tasks: Vec<Task>, work: impl Fn(Task) -> Row + Sync) -> Vec<Row> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(tasks.len() / FEWEST_CASES_PER_THREAD).max(1);
    let share = tasks.len().div_ceil(threads).max(1);
    let mut tasks = tasks.into_iter();
    let shares: Vec<Vec<Task>> = (0..threads)
        .map(|_| tasks.by_ref().take(share).collect())
        .collect();
    thread::scope(|scope| {
        let work = &work;
        let start = |share: Vec<Task>| scope.spawn(move || share.into_iter().map(work).collect());
        let running: Vec<thread::ScopedJoinHandle<'_, Vec<Row>>> =
            shares.into_iter().map(start).collect();
        let finish = |running: thread::ScopedJoinHandle<'_, Vec<Row>>| match running.join() {
            Ok(rows) => rows,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().flat_map(finish).collect()
    })
}
