//! Chooses the order of runs before the first run, if the user requested `--order auto`.
//!
//! The work decides the metric: if every case and variant only computes, processor time is compared,
//! otherwise wall time. The machine decides the order: pairs if other work uses the processors,
//! otherwise blocks. So the question does not depend on the neighbors. A discarded run of each case
//! and variant shows what the work does; it also serves as rehearsal. Start at [`run_trial`] and
//! [`choose_order`].
//!
//! Also checks whether a plan can be measured in pairs of runs that share one processor, or by
//! counting instructions. A trial before the first stored run shows whether the work waits. The
//! trial runs only the baseline, so that it favors no side.
//!
//! Pairs are compared by processor time. Processor time does not measure work that waits (sleeps or
//! waits for I/O), and is misleading for work that uses several processors. Start at
//! [`check_paired`].
//!
//! If instructions are counted, all variants run the same number of iterations. By default, the
//! number is a power of ten that the trial finds. The trial runs at full speed, because a program is
//! about fifty times slower while its instructions are counted. Start at [`prepare_counting`].

use crate::execution::{join_thread, perform_slot, run_context};
use crate::trial::{announce_trial, rehearse_job, trial_slot};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_adapters::{
    BenchmarkSource, KnownAdapters, RunOutcome, RunResult, SourceKind, check_countable, discover,
};
use speedwell_machine::environment::{UnknownActivity, observe_contention};
use speedwell_machine::process::{ThreadLook, ThreadUse, check_interrupted, resolve_program};
use speedwell_model::{
    ComparedClock, Metric, RunOrder, SampleDivision, SampleLength, StepFailure, StoppingDesign,
    TrialShares, median,
};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Numbers of pairs after which the sequential test evaluates the results (its looks). Eight pairs
/// are too few: the smallest p-value that they can give, 2/2^8, is above the limit of the first
/// look.
pub(crate) const LOOKS_AT_PAIRS: [u32; 5] = [10, 14, 20, 26, 32];

/// Maximum number of runs of a case and variant.
const MAX_TRIALS: usize = 3;

/// Work that needs a processor for less than this fraction of its time is not tried again.
const MIN_DOUBTFUL_SHARE: f64 = 0.5;

/// Work that is blocked for at most this fraction of its time is not tried again.
const MAX_BLOCKED_SHARE: f64 = 0.02;

/// Interval between looks at the threads.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Keeps blocks if the plan cannot be measured in any other way.
pub(crate) fn keep_blocks_if_needed(plan: &mut SessionPlan) {
    if plan.design.steady.is_some() || check_kinds(plan).is_err() {
        plan.design.keep_order("not a single process that reports CPU time");
    }
}

/// What the discarded runs showed.
#[derive(Debug, Default)]
pub(crate) struct OrderTrial {
    /// Failures with the index of their variant.
    pub failures: Vec<(usize, StepFailure)>,
    /// Number of runs.
    pub runs: usize,
    /// Whether all cases and variants were tried. The trial ends when a case turns out to wait.
    pub is_complete: bool,
    shares: Vec<TrialShares>,
    /// Why wall time is compared.
    waiting: Option<String>,
    /// A metric that pairs would omit.
    omitted: Option<String>,
}

/// Runs each case once under each variant, one after the other, and observes the threads.
///
/// # Errors
/// Fails if the user interrupts. Failures of the programs are part of the result.
pub(crate) fn run_trial(plan: &SessionPlan) -> Result<OrderTrial> {
    let mut trial = OrderTrial::default();
    for job in 0..plan.jobs.len() {
        for variant in 0..plan.variants.len() {
            let _activity = announce_trial(trial.runs, plan.jobs.len() * plan.variants.len());
            trial.add_runs(plan, job, variant)?;
            if trial.waiting.is_some() {
                return Ok(trial);
            }
        }
    }
    if trial.shares.is_empty() {
        trial.waiting = Some("no trial succeeded".to_owned());
    }
    trial.is_complete = true;
    Ok(trial)
}

impl OrderTrial {
    fn add_runs(&mut self, plan: &SessionPlan, job: usize, variant: usize) -> Result<()> {
        let is_clear = |share: f64| !(MIN_DOUBTFUL_SHARE..1.0 - MAX_BLOCKED_SHARE).contains(&share);
        let (outcome, shares) = try_run(plan, &trial_slot(job, variant), is_clear)?;
        self.runs += 1;
        if let Some(failure) = outcome.failure {
            // The session will report the failure.
            self.failures.push((variant, failure));
            return Ok(());
        }
        let other_metric = outcome.observations.iter().find_map(explain_other_metric);
        self.waiting =
            other_metric.or_else(|| shares.iter().find_map(TrialShares::explain_waiting));
        self.shares.extend(shares);
        let mut metrics = outcome.observations.iter().flat_map(|result| &result.metrics);
        let omitted = metrics.find(|metric| !is_duration(metric));
        self.omitted = self.omitted.take().or(omitted.map(|metric| metric.name.clone()));
        Ok(())
    }
}

/// Performs a run and looks at its threads. Repeats it while the share of time in which it needed a
/// processor is not clear, and returns the run with the largest share: the first run may read its
/// files from disk.
///
/// # Errors
/// Fails if the user interrupts.
fn try_run(
    plan: &SessionPlan,
    slot: &PlanSlot,
    is_clear: impl Fn(f64) -> bool,
) -> Result<(RunOutcome, Vec<TrialShares>)> {
    let kind = plan.jobs[slot.job].source.kind;
    if matches!(kind, SourceKind::Snippet(language) if language.is_compiled()) {
        // A short run compiles the snippet, so that looks at its threads do not find the compiler.
        rehearse_job(plan, slot.job, slot.variant);
        check_interrupted()?;
    }
    let try_once = || {
        let (outcome, looks) = observe_run(plan, slot);
        check_interrupted()?;
        let shares = trial_shares(&outcome, &looks, &plan.variants[slot.variant].name);
        anyhow::Ok((outcome, shares))
    };
    let mut best = try_once()?;
    for _ in 1..MAX_TRIALS {
        if least_runnable(&best.1).is_none_or(&is_clear) {
            break;
        }
        let again = try_once()?;
        if least_runnable(&again.1) > least_runnable(&best.1) {
            best = again;
        }
    }
    Ok(best)
}

/// Chooses the order and the clock, and adapts the plan. If the work computes, observes the machine
/// for half a second.
pub(crate) fn choose_order(plan: &mut SessionPlan, trial: OrderTrial) {
    let contention = if trial.waiting.is_some() { Ok(None) } else { observe_contention() };
    apply_choice(plan, trial, contention);
}

fn apply_choice(
    plan: &mut SessionPlan,
    trial: OrderTrial,
    contention: Result<Option<f64>, UnknownActivity>,
) {
    let looks = pair_looks(&plan.design.stopping);
    let (order, reason) = match (trial.waiting, contention) {
        (Some(reason), _) => (RunOrder::Blocks, reason),
        (None, Err(UnknownActivity)) => (RunOrder::Blocks, "machine load unknown".to_owned()),
        (None, Ok(None)) => (RunOrder::Blocks, "machine quiet".to_owned()),
        (None, Ok(Some(share))) => {
            let busy = format!("machine busy, {:.0}%", 100.0 * share);
            match (&trial.omitted, &looks) {
                (Some(metric), _) => {
                    (RunOrder::Blocks, format!("{busy}, but pairs would omit '{metric}'"))
                }
                (None, None) => (RunOrder::Blocks, format!("{busy}, but too few runs for pairs")),
                (None, Some(_)) => (RunOrder::Paired, busy),
            }
        }
    };
    if trial.is_complete && !trial.shares.is_empty() {
        plan.sampling.clock = ComparedClock::Cpu;
    }
    if let (RunOrder::Paired, Some(looks)) = (order, looks) {
        plan.design.order = order;
        plan.design.runs_per_block = 1;
        plan.design.stopping = looks;
    }
    plan.design.keep_order(&reason);
    if let Some(choice) = &mut plan.design.order_choice {
        choice.clock = plan.sampling.clock;
        choice.trial = trial.shares;
    }
}

/// Returns when to stop measuring pairs. `None` if there are too few runs for the first look at
/// pairs.
fn pair_looks(stopping: &StoppingDesign) -> Option<StoppingDesign> {
    match stopping {
        StoppingDesign::Fixed { .. } => Some(stopping.clone()),
        StoppingDesign::Sequential { looks, alpha, delta } => {
            let first = LOOKS_AT_PAIRS[0];
            let is_enough = looks.last().is_some_and(|last| *last >= first);
            let mut looks: Vec<u32> = looks.iter().map(|look| (*look).max(first)).collect();
            looks.dedup();
            is_enough.then_some(StoppingDesign::Sequential { looks, alpha: *alpha, delta: *delta })
        }
    }
}

/// Performs one run while a thread looks at the processes. The run is discarded, so the looks
/// disturb no result.
fn observe_run(plan: &SessionPlan, slot: &PlanSlot) -> (RunOutcome, Vec<ThreadLook>) {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut looks = Vec::new();
            while !has_ended.load(Ordering::Relaxed) {
                looks.extend(ThreadLook::take());
                thread::sleep(LOOK_INTERVAL);
            }
            looks
        });
        let outcome = perform_slot(plan, slot, &run_context(plan, slot, plan.pin.as_ref()));
        has_ended.store(true, Ordering::Relaxed);
        (outcome, join_thread(watcher))
    })
}

fn trial_shares(outcome: &RunOutcome, looks: &[ThreadLook], variant: &str) -> Vec<TrialShares> {
    let thread_use = ThreadUse::from_looks(looks, measured_time(outcome));
    let round = |share: f64| (1000.0 * share).round() / 1000.0;
    let shares_of_result = |result: &RunResult| {
        // Without other work, the reported times are more exact than looks.
        let running = cpu_share(result).zip(thread_use).map(|(cpu, found)| cpu * found.one_thread);
        let runnable = thread_use.map(|found| found.runnable.max(running.unwrap_or(0.0)).min(1.0));
        TrialShares {
            case: result.case.id(),
            variant: variant.to_owned(),
            runnable: runnable.map(round),
            one_thread: thread_use.map(|found| round(found.one_thread)),
            parallel: thread_use.map(|found| round(found.parallel)),
        }
    };
    outcome.observations.iter().map(shares_of_result).collect()
}

/// Duration of all samples, if the process reports it.
fn measured_time(outcome: &RunOutcome) -> Option<Duration> {
    let samples_of_first_metric = outcome.observations.iter().flat_map(|result| {
        let first = result.samples.first().map(|sample| &sample.metric);
        result.samples.iter().filter(move |sample| Some(&sample.metric) == first)
    });
    let total_ns = samples_of_first_metric.map(|sample| sample.elapsed_ns).sum::<Option<u64>>()?;
    (total_ns > 0).then(|| Duration::from_nanos(total_ns))
}

/// Processor time of an iteration divided by its time.
fn cpu_share(result: &RunResult) -> Option<f64> {
    let share = value_of(result, Metric::CPU_TIME)? / iteration_time_ns(result)?;
    share.is_finite().then_some(share)
}

/// Time of an iteration.
fn iteration_time_ns(result: &RunResult) -> Option<f64> {
    let of_throughput = || value_of(result, Metric::THROUGHPUT).map(|per_s| 1e9 / per_s);
    value_of(result, Metric::TIME).or_else(of_throughput)
}

/// Median of the samples of this metric.
fn value_of(result: &RunResult, metric: &str) -> Option<f64> {
    let samples = result.samples.iter().filter(|sample| *sample.metric == *metric);
    let mut values: Vec<f64> = samples.map(|sample| sample.value).collect();
    median(&mut values)
}

fn least_runnable(shares: &[TrialShares]) -> Option<f64> {
    shares.iter().filter_map(|shares| shares.runnable).min_by(f64::total_cmp)
}

/// Why processor time cannot replace the compared metric.
fn explain_other_metric(result: &RunResult) -> Option<String> {
    let case = result.case.id();
    match result.metrics.first() {
        Some(first) if !is_duration(first) => Some(format!("'{}' is compared", first.name)),
        _ if !result.metrics.iter().any(|metric| metric.name == Metric::CPU_TIME) => {
            Some(format!("'{case}' reports no CPU time"))
        }
        _ => None,
    }
}

/// Whether the metric says how long work takes, or how often it is done in a time.
fn is_duration(metric: &Metric) -> bool {
    ["ns", "us", "µs", "ms", "s"].contains(&metric.unit.as_str()) || metric.unit.ends_with("/s")
}

/// A process must run or wait for a processor during at least this fraction of its measured part.
const MIN_BUSY_SHARE: f64 = 0.5;

const HINT: &str = "hint: --order blocks";

/// Rejects targets of frameworks that report no processor time, before anything is built. Targets
/// that cannot be found are reported when they are read.
///
/// # Errors
/// Fails at the first such target.
pub fn check_targets(targets: &[String], directory: &Path) -> Result<()> {
    let adapters = KnownAdapters::new(targets, directory)?;
    let sources =
        |target: &String| discover::find_sources(target, directory, &adapters).unwrap_or_default();
    targets.iter().flat_map(sources).try_for_each(|source| check_source(&source))
}

fn check_source(source: &BenchmarkSource) -> Result<()> {
    if let Some(suite) = source.suite.as_deref() {
        ensure!(
            suite.may_report_processor_time(),
            "'{}' cannot be measured with '--order paired': it compares processor time, which {} does not report\n{HINT}",
            source.name,
            suite.name
        );
    }
    Ok(())
}

/// Rejects plans that cannot be measured in pairs on one processor.
///
/// # Errors
/// Fails if there is nothing to pair, processor time is missing, or the work waits.
pub fn check_paired(plan: &SessionPlan) -> Result<()> {
    check_kinds(plan)?;
    let trials = run_trials(plan)?;
    let lacks_cpu_time = |trial: &&PairTrial| value_of(&trial.result, Metric::CPU_TIME).is_none();
    let baseline = &plan.variants[0].name;
    if let Some(trial) = trials.iter().find(lacks_cpu_time) {
        bail!(
            "'{}' reports no processor time, which '--order paired' compares\n{HINT}",
            trial.result.case.name_under(baseline)
        );
    }
    reject_waiting(&trials, baseline, &format!("'--order paired' compares processor time\n{HINT}"))
}

/// Rejects work of the baseline that waits. `consequence` completes the message by saying why
/// waiting is a problem.
fn reject_waiting(trials: &[PairTrial], baseline: &str, consequence: &str) -> Result<()> {
    let mut waiting = trials.iter().filter(|trial| trial.busy < MIN_BUSY_SHARE);
    let Some(first) = waiting.next() else { return Ok(()) };
    let others = match waiting.count() {
        0 => String::new(),
        1 => " (and another)".to_owned(),
        count => format!(" (and {count} others)"),
    };
    let (name, percent) = (first.result.case.name_under(baseline), 100.0 * first.busy);
    bail!(
        "'{name}'{others} spent too much time sleeping or waiting for I/O: it was runnable for only {percent:.0}% of \
         a trial run, but {consequence}"
    )
}

/// Checks the conditions that can be checked without running a program.
///
/// # Errors
/// Fails if the plan has nothing to pair, or work of several processes or workers.
pub fn check_kinds(plan: &SessionPlan) -> Result<()> {
    ensure!(
        plan.variants.len() > 1,
        "'--order paired' compares the variants in pairs of runs, but there is only one variant\n{HINT}"
    );
    ensure!(
        !plan.shared,
        "the snippets share one process, but '--order paired' compares separate processes\nhint: leave out --shared"
    );
    for job in &plan.jobs {
        check_source(&job.source)?;
        let name = &job.label;
        ensure!(
            !matches!(job.source.kind, SourceKind::Load | SourceKind::Experiment),
            "'{name}' has a server, which uses processor time of its own; '--order paired' compares \
             single processes\n{HINT}"
        );
        ensure!(
            job.worker_count() == 1,
            "'{name}' has several workers, and '--order paired' gives both sides one processor\n{HINT}"
        );
    }
    Ok(())
}

/// A trial run of the baseline.
pub struct PairTrial {
    /// The reported values.
    result: RunResult,
    /// Fraction of the time in which the work was running or waiting for a processor.
    busy: f64,
}

/// Runs the baseline of every case once, one after the other, and again while it seems to wait.
/// Failures are left for the session to report.
fn run_trials(plan: &SessionPlan) -> Result<Vec<PairTrial>> {
    let mut trials: Vec<PairTrial> = Vec::new();
    for job in 0..plan.jobs.len() {
        let _activity = announce_trial(job, plan.jobs.len());
        let (outcome, shares) = try_run(plan, &trial_slot(job, 0), |busy| busy >= MIN_BUSY_SHARE)?;
        if outcome.failure.is_some() {
            // The results before the failure are not representative.
            continue;
        }
        let usage = outcome.usage.as_ref();
        let usage_share = usage.map(|usage| usage.cpu_ns() as f64 / outcome.wall_ns.max(1) as f64);
        // Observing the machine takes half a second.
        let mut unobserved = None;
        for (result, shares) in outcome.observations.into_iter().zip(shares) {
            let busy = shares.runnable.unwrap_or_else(|| {
                *unobserved.get_or_insert_with(|| unobserved_share(usage_share))
            });
            if trials.iter().all(|tried| tried.result.case != result.case) {
                trials.push(PairTrial { result, busy });
            }
        }
    }
    Ok(trials)
}

/// Returns the fraction of the time in which a process needed a processor, if it ended before its
/// threads could be observed. On a busy machine, little processor time does not mean that it waited
/// for something else.
fn unobserved_share(usage_share: Option<f64>) -> f64 {
    match usage_share {
        Some(share) if share < MIN_BUSY_SHARE && matches!(observe_contention(), Ok(None)) => share,
        _ => 1.0,
    }
}

/// Target duration of a run's iterations at full speed.
const TARGET_RUN_NS: f64 = 5e6;

/// Sampling of the trial.
const TRIAL_SAMPLES: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::TimeNs(80_000_000), warmup_ns: 0 };

const COUNTING_HINT: &str = "hint: leave out --metric instructions";

/// Fills in the version of the counting tool, and the number of iterations of each case.
///
/// # Errors
/// Fails if valgrind is missing, if the instructions of a benchmark cannot be counted, or if an
/// option of the plan applies only to times.
pub fn prepare_counting(plan: &mut SessionPlan) -> Result<()> {
    check_plan(plan)?;
    let tool = valgrind_version()?;
    if let Some(counting) = &mut plan.design.counting {
        counting.tool = tool;
    }
    if let SampleLength::Iterations(iterations) = plan.sampling.samples.length {
        let samples = Some(one_sample(iterations));
        plan.jobs.iter_mut().for_each(|job| job.samples = samples);
        return Ok(());
    }
    let mut native = plan.clone();
    native.design.counting = None;
    native.sampling.samples = TRIAL_SAMPLES;
    let trials = run_trials(&native)?;
    let consequence = format!("waiting executes no instructions\n{COUNTING_HINT}");
    reject_waiting(&trials, &plan.variants[0].name, &consequence)?;
    for job in &mut plan.jobs {
        let trial = trials.iter().find(|trial| trial.result.case.id() == job.label);
        let time_ns = trial.and_then(|trial| iteration_time_ns(&trial.result));
        job.samples = Some(one_sample(time_ns.and_then(iterations_that_fit).unwrap_or(1)));
    }
    Ok(())
}

/// One sample of this many iterations, without warm-up.
fn one_sample(iterations: u64) -> SampleDivision {
    SampleDivision { count: 1, length: SampleLength::Iterations(iterations), warmup_ns: 0 }
}

/// Checks the conditions that can be checked without running a program.
fn check_plan(plan: &SessionPlan) -> Result<()> {
    ensure!(
        plan.design.order == RunOrder::Blocks
            && plan.sampling.clock == ComparedClock::Wall
            && plan.sampling.precision.is_none(),
        "--order, --clock and --precision apply only to times: instruction counts rarely need \
         statistics"
    );
    ensure!(
        plan.design.reject.is_empty(),
        "--reject applies only to times: other work does not disturb instruction counts"
    );
    ensure!(
        !plan.shared,
        "the snippets share one process, but instructions are counted per process\nhint: leave out --shared"
    );
    for job in &plan.jobs {
        let name = &job.label;
        if let Err(reason) = check_countable(job.source.kind) {
            bail!("cannot count the instructions of '{name}': {reason}\n{COUNTING_HINT}");
        }
        ensure!(
            job.worker_count() == 1,
            "'{name}' has several workers, and valgrind executes one thread at a time\n{COUNTING_HINT}"
        );
    }
    Ok(())
}

/// Returns the installed version of valgrind, for example `valgrind-3.19.0`.
fn valgrind_version() -> Result<String> {
    const MISSING: &str = "instructions are counted by valgrind, which is not installed\nhint: apt install valgrind, dnf \
                           install valgrind";
    let program = resolve_program(Path::new("valgrind")).context(MISSING)?;
    let output = Command::new(program).arg("--version").output().context(MISSING)?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(text.starts_with("valgrind-"), "unexpected output of 'valgrind --version': '{text}'");
    Ok(text)
}

/// Returns how many iterations fit into the target duration, rounded down to a power of ten; at
/// least one.
fn iterations_that_fit(time_ns: f64) -> Option<u64> {
    let iterations = (TARGET_RUN_NS / time_ns).max(1.0);
    iterations.is_finite().then(|| 10u64.pow(iterations.log10() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExecutionArgs, PlanRequest};
    use speedwell_adapters::discover::DiscoveredBenchmarks;
    use speedwell_model::{Case, MetricDirection, OrderRequest, Sample, Variant};

    fn open_plan(looks: &[u32]) -> SessionPlan {
        let execution =
            ExecutionArgs { order: Some(OrderRequest::Auto), ..ExecutionArgs::default() };
        let request = PlanRequest { execution, ..PlanRequest::default() };
        let variants = ["old", "new"].map(Variant::plain).to_vec();
        let mut plan = request.build_plan(variants, &DiscoveredBenchmarks::default());
        plan.design.stopping =
            StoppingDesign::Sequential { looks: looks.to_vec(), alpha: 0.05, delta: 0.02 };
        plan
    }

    fn computing_trial() -> OrderTrial {
        OrderTrial {
            is_complete: true,
            shares: vec![TrialShares { runnable: Some(1.0), ..TrialShares::default() }],
            ..OrderTrial::default()
        }
    }

    #[test]
    fn the_work_decides_the_clock_and_the_machine_the_order() {
        const LOOKS: &[u32] = &[8, 14, 20, 26, 32];
        const ONE_LOOK: &[u32] = &[8];
        let waiting = || OrderTrial { waiting: Some("'b' waits".into()), ..OrderTrial::default() };
        let counting = || OrderTrial { omitted: Some("allocs".into()), ..computing_trial() };
        for (trial, contention, looks, expected) in [
            (computing_trial(), Ok(Some(0.78)), LOOKS, "pairs by CPU time (machine busy, 78%)"),
            (computing_trial(), Ok(None), LOOKS, "blocks by CPU time (machine quiet)"),
            (
                computing_trial(),
                Err(UnknownActivity),
                LOOKS,
                "blocks by CPU time (machine load unknown)",
            ),
            (waiting(), Ok(None), LOOKS, "blocks by wall time ('b' waits)"),
            (
                counting(),
                Ok(Some(0.5)),
                LOOKS,
                "blocks by CPU time (machine busy, 50%, but pairs would omit 'allocs')",
            ),
            (
                computing_trial(),
                Ok(Some(0.5)),
                ONE_LOOK,
                "blocks by CPU time (machine busy, 50%, but too few runs for pairs)",
            ),
        ] {
            let mut plan = open_plan(looks);
            apply_choice(&mut plan, trial, contention);
            assert_eq!(plan.design.describe_order_choice().as_deref(), Some(expected));
            let is_paired = expected.starts_with("pairs");
            let first_look = match &plan.design.stopping {
                StoppingDesign::Sequential { looks, .. } => looks[0],
                StoppingDesign::Fixed { .. } => 0,
            };
            assert_eq!(first_look, if is_paired { 10 } else { 8 }, "{expected}");
            assert_eq!(plan.sampling.clock == ComparedClock::Cpu, expected.contains("CPU time ("));
        }
    }

    #[test]
    fn an_order_that_is_chosen_already_is_kept() {
        let mut plan = open_plan(&[8, 14]);
        plan.design.keep_order("--fail-on");
        keep_blocks_if_needed(&mut plan);
        let text = plan.design.describe_order_choice();
        assert_eq!(text.as_deref(), Some("blocks by wall time (--fail-on)"));
    }

    #[test]
    fn processor_time_replaces_only_times() {
        let result = |metrics: &[(&str, &str)]| RunResult {
            case: Case::new("g/a", Vec::new()),
            samples: metrics.iter().map(|(name, _)| Sample::plain(name, 4.0)).collect(),
            metrics: metrics
                .iter()
                .map(|(name, unit)| Metric::new(*name, *unit, MetricDirection::Lower))
                .collect(),
            notes: Vec::new(),
            check: None,
            load: None,
        };
        let timed = result(&[("time", "ns"), ("cpu_time", "ns")]);
        assert_eq!((explain_other_metric(&timed), cpu_share(&timed)), (None, Some(1.0)));
        let wall = result(&[("time", "ns")]);
        assert_eq!(explain_other_metric(&wall).unwrap(), "'g/a' reports no CPU time");
        let sized = result(&[("size", "B"), ("cpu_time", "ns")]);
        assert_eq!(explain_other_metric(&sized).unwrap(), "'size' is compared");
    }
}

#[cfg(test)]
mod counting_tests {
    use super::*;

    #[test]
    fn iterations_are_a_power_of_ten_and_at_least_one() {
        let of = |per_s: f64| iterations_that_fit(1e9 / per_s);
        assert_eq!(of(2e9), Some(10_000_000));
        assert_eq!(of(199_999.0), Some(100), "a thousand do not quite fit into 5 ms");
        assert_eq!(of(200_001.0), Some(1000));
        assert_eq!(of(3.0), Some(1));
    }
}
