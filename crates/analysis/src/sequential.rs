//! Makes sequential decisions, both during measuring and in later analyses. The interim analyses
//! ("looks") of all cases are taken in the order in which their runs were measured. A case ends as
//! different only if its p value survives the correction for all cases.
//!
//! Decides at which look a case ends and with which result, and when a case needs no more runs. The
//! result is the smallest p value of the case's looks and the intersection of their intervals,
//! because p values and intervals hold simultaneously over all looks. Measuring and reports take
//! the same looks, so reports show the result that ended the measurement. Does not know which
//! direction is good or what a run costs. Start at [`SequentialDecision::take_reached_looks`] and
//! [`StopRule::settled_cases`].

use crate::builds::independent_values;
use crate::evidence::{self, LookResult, LookRule, ShiftDirection, evaluate_look, standard_error};
use crate::exact::is_exact;
use crate::grid::{distinct_items, finite_values, select_counted_runs};
use crate::paired::{ComparedData, PairedRuns, RunMatching};
use crate::policy::{JudgingPolicy, SequentialLooks, SignificanceLimit};
use crate::{AnalysisSettings, TestingCorrection, summary};
use indexmap::IndexMap;
use speedwell_model::{IntervalEstimate, Metric, Run, SessionDesign};
use speedwell_stats::sequential::{ComparisonFamily, adjust_holm, benjamini_hochberg};
use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

/// Why there are no more data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DataEnd {
    /// The test decided, or had its last look.
    Final,
    /// Measuring ended before the next look.
    Early,
    /// There are too few runs for any verdict.
    #[default]
    TooFew,
}

/// Result of one comparison, with the evidence for it.
#[derive(Debug, Clone, Default)]
pub(super) struct SequentialOutcome {
    /// Data used.
    pub data: ComparedData,
    /// Direction of the change, if a look found one. The caller accepts it only if `p` survives the
    /// correction.
    pub direction: Option<ShiftDirection>,
    /// Whether the change is shown to be within delta.
    pub is_same: bool,
    /// Why there are no more data.
    pub end: DataEnd,
    /// Independent units (runs or builds) per side at which a sequential test decided.
    pub decided_at: Option<u32>,
    /// The relative change. Its interval is the intersection of the intervals of all looks.
    pub change: Option<IntervalEstimate>,
    /// Standard error of the log ratio, if the interval of the last look is bounded.
    pub error: Option<f64>,
    /// Smallest p value over all looks, valid no matter when measuring ended.
    pub p: Option<f64>,
    /// Whether looks contradict each other. If so, all figures come from a single look.
    pub is_contradictory: bool,
}

/// One comparison of two variants for one case and metric.
#[derive(Clone, Copy)]
pub(super) struct ReplayMember<'a> {
    /// Index of the comparison, from [`SequentialDecision::add_comparison`].
    pub index: usize,
    /// Runs of the comparison so far.
    pub pair: &'a PairedRuns,
    /// How the comparison is judged.
    pub policy: &'a JudgingPolicy,
    /// Seed of bootstraps.
    pub seed: u64,
}

/// Comparisons that are corrected together, with the looks taken so far.
#[derive(Debug, Clone)]
pub(super) struct SequentialDecision {
    family: ComparisonFamily,
    progress: Vec<MemberProgress>,
}

/// Progress of one comparison.
#[derive(Debug, Clone, Default)]
struct MemberProgress {
    /// Index among the comparisons that are corrected together. `None` until both sides have a run.
    member: Option<usize>,
    /// Number of looks taken.
    looks: usize,
    /// The latest look.
    latest: Option<TakenLook>,
    /// The look with the smallest p value among the looks with a direction. If no look has a
    /// direction, this is the latest look.
    strongest: Option<TakenLook>,
    /// Whether the comparison ended as different or the same.
    is_decided: bool,
}

/// An event of one comparison: it joins the family of comparisons that are corrected together, or
/// it takes a look.
struct MemberEvent<'a> {
    block: u32,
    member: ReplayMember<'a>,
    looks: bool,
}

impl SequentialDecision {
    /// Starts without comparisons. All comparisons that are added later are corrected together.
    pub fn new(alpha: f64, correction: TestingCorrection) -> SequentialDecision {
        SequentialDecision {
            family: ComparisonFamily::new(alpha, adjust_function(correction)),
            progress: Vec::new(),
        }
    }

    /// Adds a comparison and returns its index.
    pub fn add_comparison(&mut self) -> usize {
        self.progress.push(MemberProgress::default());
        self.progress.len() - 1
    }

    /// Whether the result of a comparison is final.
    pub fn has_ended(&self, index: usize) -> bool {
        let member = self.progress[index].member;
        member.is_some_and(|member| self.family.has_ended(member))
    }

    /// Takes all looks that the runs have reached, block by block. Events within a block count as
    /// simultaneous, so the order of cases does not matter.
    pub fn take_reached_looks(&mut self, members: &[ReplayMember<'_>]) {
        let mut events: Vec<MemberEvent<'_>> =
            members.iter().flat_map(|member| self.pending_events(member)).collect();
        events.sort_by_key(|event| event.block);
        for simultaneous in events.chunk_by(|a, b| a.block == b.block) {
            self.take_looks_of_block(simultaneous);
        }
    }

    fn pending_events<'a>(&self, member: &ReplayMember<'a>) -> Vec<MemberEvent<'a>> {
        let progress = &self.progress[member.index];
        let (pair, policy) = (member.pair, member.policy);
        let event = |block: u32, looks: bool| MemberEvent { block, member: *member, looks };
        let mut events = Vec::new();
        if progress.member.is_none() {
            events.extend(pair.begins_in_block().map(|block| event(block, false)));
        }
        if let Some(looks) = &policy.looks {
            let remaining_looks = looks.design.limits().iter().skip(progress.looks);
            let reached = remaining_looks.take_while(|look| look.n <= pair.comparable_runs());
            events.extend(reached.map(|look| event(pair.block_reaching(look.n), true)));
        } else if policy.smallest_p().for_runs(pair.comparable_sizes()) <= policy.alpha {
            events.push(event(u32::MAX, true));
        }
        events
    }

    /// Processes all events of one block.
    fn take_looks_of_block(&mut self, events: &[MemberEvent<'_>]) {
        for event in events {
            let progress = &mut self.progress[event.member.index];
            if progress.member.is_none() {
                progress.member = Some(self.family.add_member());
            }
        }
        let mut looking: Vec<(ReplayMember<'_>, usize)> = Vec::new();
        for event in events.iter().filter(|event| event.looks) {
            let index = event.member.index;
            // A repeated block may complete several looks at once.
            let looks_in_block = looking.iter().filter(|(member, _)| member.index == index).count();
            if !self.has_ended(index) {
                looking.push((event.member, self.progress[index].looks + looks_in_block));
            }
        }
        let looks = in_parallel(looking, |(member, index)| (member, take_look(&member, index)));
        let mut last: Vec<usize> = Vec::new();
        for (member, look) in looks {
            let progress = &mut self.progress[member.index];
            progress.record_look(look);
            if let Some(number) = progress.member {
                self.family.update_p(number, look.p.unwrap_or(1.0));
            }
            if look.is_last || look.result.is_same {
                progress.is_decided = look.result.is_same;
                last.push(member.index);
            }
        }
        self.settle_members(&last);
    }

    /// Ends the comparisons that survive the correction, are the same, or had their last look.
    fn settle_members(&mut self, last: &[usize]) {
        let survivors = self.family.settle_survivors();
        for progress in &mut self.progress {
            let survives = |member: usize| survivors.binary_search(&member).is_ok();
            progress.is_decided |= progress.member.is_some_and(survives);
        }
        for &index in last {
            if let Some(member) = self.progress[index].member {
                self.family.end_member(member);
            }
        }
    }

    /// Current result of a comparison.
    pub fn current_outcome(&self, member: &ReplayMember<'_>) -> SequentialOutcome {
        let progress = &self.progress[member.index];
        let policy = member.policy;
        let Some((latest, strongest)) = progress.latest.zip(progress.strongest) else {
            let first = policy.looks.as_ref().and_then(SequentialLooks::first_look);
            let limit = first.map_or(policy.single_limit(), |look| SignificanceLimit::from(&look));
            return evidence_at(member.pair.all_runs(), member, limit);
        };
        let last = evidence_of_look(&latest, member);
        let change = progress.intersect_intervals(member, last.change);
        // A change from zero has no percentage, and so no interval that could contradict another.
        let is_contradictory =
            change.is_none() && last.change.is_some() && strongest.result.direction.is_some();
        let (evidence, is_same) = if is_contradictory {
            (evidence_of_look(&strongest, member), strongest.result.is_same)
        } else {
            let lies_within =
                |change: IntervalEstimate| change.lies_within(-policy.delta, policy.delta);
            let is_same = latest.result.is_same || change.is_some_and(lies_within);
            (SequentialOutcome { change, ..last }, is_same)
        };
        let is_decided = progress.is_decided || is_same;
        SequentialOutcome {
            direction: strongest.result.direction,
            is_same,
            end: if self.has_ended(member.index) { DataEnd::Final } else { DataEnd::Early },
            decided_at: (policy.looks.as_ref().filter(|_| is_decided))
                .map(|looks| looks.design.limits()[latest.index].n as u32),
            p: strongest.p,
            is_contradictory,
            ..evidence
        }
    }
}

impl MemberProgress {
    fn record_look(&mut self, look: TakenLook) {
        self.looks += 1;
        self.latest = Some(look);
        let is_weaker = |strongest: &TakenLook| {
            strongest.result.direction.is_some()
                && (look.result.direction.is_none() || look.p >= strongest.p)
        };
        if !self.strongest.as_ref().is_some_and(is_weaker) {
            self.strongest = Some(look);
        }
    }

    /// The latest change, with the intersection of its interval and the intervals of all earlier
    /// looks.
    fn intersect_intervals(
        &self,
        member: &ReplayMember<'_>,
        latest: Option<IntervalEstimate>,
    ) -> Option<IntervalEstimate> {
        let mut common = latest?;
        let looks = member.policy.looks.iter().flat_map(|looks| looks.design.limits());
        for look in looks.take(self.looks.saturating_sub(1)) {
            let data = member.pair.first_runs(look.n);
            let policy = member.policy;
            let change = evidence::estimate_change(policy.method, &data, look.into(), member.seed);
            if let Some(change) = change {
                common.low = common.low.max(change.low);
                common.high = common.high.min(change.high);
            }
        }
        (common.low <= common.high).then(|| IntervalEstimate {
            value: common.value.clamp(common.low, common.high),
            ..common
        })
    }
}

/// A look that was taken.
#[derive(Debug, Clone, Copy)]
struct TakenLook {
    index: usize,
    result: LookResult,
    /// p value that is valid over all looks.
    p: Option<f64>,
    is_last: bool,
}

impl ReplayMember<'_> {
    /// Data and rule of a look. Without a sequential design, the only look uses all runs.
    fn look_data(&self, index: usize) -> (ComparedData, LookRule) {
        let Some(looks) = &self.policy.looks else {
            let rule = LookRule { limit: self.policy.single_limit(), is_last: true };
            return (self.pair.all_runs(), rule);
        };
        let look = &looks.design.limits()[index];
        let rule = LookRule { limit: look.into(), is_last: look.is_last };
        (self.pair.first_runs(look.n), rule)
    }
}

fn take_look(member: &ReplayMember<'_>, index: usize) -> TakenLook {
    let (data, rule) = member.look_data(index);
    let result = evaluate_look(&data, member.policy, rule, member.seed);
    let looks = member.policy.looks.as_ref();
    let repeated = |p: f64| looks.map_or(p, |looks| looks.repeated.at(index, p));
    TakenLook { index, result, p: result.p.map(repeated), is_last: rule.is_last }
}

/// Data and change of one look alone.
fn evidence_of_look(taken_look: &TakenLook, member: &ReplayMember<'_>) -> SequentialOutcome {
    let (data, rule) = member.look_data(taken_look.index);
    evidence_at(data, member, rule.limit)
}

/// Outcome with the change in `data`, but without a decision.
fn evidence_at(
    data: ComparedData,
    member: &ReplayMember<'_>,
    limit: SignificanceLimit,
) -> SequentialOutcome {
    let change = evidence::estimate_change(member.policy.method, &data, limit, member.seed);
    let error = change.as_ref().and_then(|change| standard_error(change, limit));
    SequentialOutcome { data, change, error, ..SequentialOutcome::default() }
}

/// Function that adjusts p values.
pub(super) fn adjust_function(correction: TestingCorrection) -> fn(&[f64]) -> Vec<f64> {
    match correction {
        TestingCorrection::BenjaminiHochberg => benjamini_hochberg,
        TestingCorrection::Holm => adjust_holm,
        TestingCorrection::None => <[f64]>::to_vec,
    }
}

/// Minimum number of items per thread. With fewer, starting a thread costs more than it saves.
const FEWEST_PER_THREAD: usize = 32;

/// Applies `work` to all items and returns the results in the same order. Uses several processors
/// if there are many items.
pub(super) fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(items.len() / FEWEST_PER_THREAD).max(1);
    if threads == 1 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads).max(1);
    let mut items = items.into_iter();
    let shares: Vec<Vec<T>> = (0..threads).map(|_| items.by_ref().take(share).collect()).collect();
    thread::scope(|scope| {
        let work = &work;
        let start = |share: Vec<T>| scope.spawn(move || share.into_iter().map(work).collect());
        let running: Vec<thread::ScopedJoinHandle<'_, Vec<R>>> =
            shares.into_iter().map(start).collect();
        let finish = |running: thread::ScopedJoinHandle<'_, Vec<R>>| {
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(finish).collect()
    })
}

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

/// A comparison that the next step of the decision handles, with its index, its runs and the seed of
/// bootstraps: it is due for an interim analysis, or it is new, and the correction for multiple
/// testing must count it.
type PendingComparison = (usize, PairedRuns, u64);

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
        let metrics = |runs: &[Run]| match self.metrics.as_slice() {
            [] => metrics_of(runs).into_iter().take(1).collect(),
            metrics => metrics.to_vec(),
        };
        let cases: Vec<(&[Run], Vec<String>)> =
            cases.iter().map(|runs| (*runs, metrics(runs))).collect();
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
        let mut pending = Vec::new();
        for (runs, metrics) in cases {
            let all = all_metrics.then(|| metrics_of(runs));
            self.prepare_case(runs, all.as_ref().unwrap_or(metrics), &mut pending);
        }
        let policy = &self.policy;
        let members: Vec<ReplayMember<'_>> = (pending.iter())
            .map(|&(index, ref pair, seed)| ReplayMember { index, pair, policy, seed })
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
        let Some(id) = runs.first().map(|run| run.case.id()) else { return };
        let mut sides = by_variant(runs, &self.design);
        for (_, side) in &mut sides {
            side.retain(|run| !self.design.is_alone(run.block));
        }
        let Some((_, old)) = sides.iter().find(|(name, _)| *name == self.baseline) else { return };
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
                pending.push((index, pair, self.policy.seed_for(&id)));
            }
        }
    }

    /// Whether a comparison with `runs` runs per side may have reached its next look.
    fn is_due(&self, index: usize, runs: usize) -> bool {
        let looks =
            self.policy.looks.as_ref().map(|looks| looks.design.limits()).unwrap_or_default();
        let next = looks.get(self.decision.progress[index].looks);
        !self.decision.has_ended(index) && next.is_some_and(|look| look.n <= runs)
    }

    /// Whether, for every metric, the comparisons of all candidates with runs have ended.
    fn has_ended(&self, runs: &[Run], metrics: &[String]) -> bool {
        let Some(id) = runs.first().map(|run| run.case.id()) else { return false };
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
    let Some(per_block) = matching.runs_together() else { return old.len().min(new.len()) };
    let group = |run: &&Run| matching.group_of_run(run.slot, run.block);
    let mut blocks: HashMap<u32, (usize, usize)> = HashMap::new();
    old.iter().for_each(|run| blocks.entry(group(run)).or_default().0 += 1);
    new.iter().for_each(|run| blocks.entry(group(run)).or_default().1 += 1);
    per_block * blocks.values().filter(|&&sides| sides == (per_block, per_block)).count()
}

fn are_precise(runs: &[Run], metrics: &[String], goal: &PrecisionGoal) -> bool {
    let is_precise = |runs: &[&Run], metric: &str| {
        let values: Vec<f64> =
            independent_values(runs, metric).iter().map(|run| run.value).collect();
        values.len() >= MIN_PRECISION_RUNS
            && summary::relative_half_width(&values, goal.confidence)
                .is_some_and(|half| half <= goal.share)
    };
    let sides = by_variant(runs, &goal.design);
    !sides.is_empty()
        && metrics.iter().all(|metric| sides.iter().all(|(_, runs)| is_precise(runs, metric)))
}

/// Whether all variants have enough runs with equal instruction counts.
fn are_exact(runs: &[Run]) -> bool {
    let is_exact = |runs: Vec<&Run>| is_exact(&finite_values(&runs, Metric::INSTRUCTIONS));
    let variants = distinct_items(runs.iter().map(|run| &run.variant));
    let runs_of =
        |name: &&std::sync::Arc<str>| runs.iter().filter(|run| run.variant == **name).collect();
    !runs.is_empty() && variants.iter().all(|name| is_exact(runs_of(name)))
}

/// Runs that the analysis uses ([`select_counted_runs`]), by variant, in execution order.
fn by_variant<'r>(runs: &'r [Run], design: &SessionDesign) -> Vec<(&'r str, Vec<&'r Run>)> {
    let mut sides: IndexMap<&str, Vec<&Run>> = IndexMap::new();
    for run in runs {
        sides.entry(&*run.variant).or_default().push(run);
    }
    let (names, mut counted): (Vec<&str>, Vec<Vec<&Run>>) = sides.into_iter().unzip();
    counted.iter_mut().for_each(|side| side.sort_by_key(|run| run.slot));
    if !design.reject.is_empty() {
        select_counted_runs(design, &mut counted);
    }
    names.into_iter().zip(counted).collect()
}
