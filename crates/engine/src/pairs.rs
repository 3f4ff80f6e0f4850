//! Checks whether a plan can be measured in pairs of runs that share one processor, or by counting
//! instructions. A trial before the first stored run shows whether the work waits. The trial runs
//! only the baseline, so that it favors no side.
//!
//! Pairs are compared by processor time. Processor time does not measure work that waits (sleeps or
//! waits for I/O), and is misleading for work that uses several processors. Start at
//! [`check_paired`].
//!
//! If instructions are counted, all variants run the same number of iterations. By default, the
//! number is a power of ten that the trial finds. The trial runs at full speed, because a program is
//! about fifty times slower while its instructions are counted. Start at [`prepare_counting`].

use crate::order;
use crate::rehearsal::{announce_trial, trial_slot};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{
    BenchmarkSource, KnownAdapters, RunResult, SourceKind, check_countable, discover,
};
use speedwell_machine::environment::observe_contention;
use speedwell_machine::process::resolve_program;
use speedwell_model::{ComparedClock, Metric, RunOrder, SampleDivision, SampleLength};
use std::path::Path;
use std::process::Command;

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
    for source in targets.iter().flat_map(sources) {
        check_source(&source)?;
    }
    Ok(())
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
    let lacks_cpu_time =
        |trial: &&PairTrial| order::value_of(&trial.result, Metric::CPU_TIME).is_none();
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
        let (outcome, shares) =
            order::try_run(plan, &trial_slot(job, 0), |busy| busy >= MIN_BUSY_SHARE)?;
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
        let time_ns = trial.and_then(|trial| order::iteration_time_ns(&trial.result));
        let iterations = time_ns.and_then(iterations_that_fit).unwrap_or(1);
        job.samples = Some(one_sample(iterations));
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

    #[test]
    fn iterations_are_a_power_of_ten_and_at_least_one() {
        let of = |per_s: f64| iterations_that_fit(1e9 / per_s);
        assert_eq!(of(2e9), Some(10_000_000));
        assert_eq!(of(199_999.0), Some(100), "a thousand do not quite fit into 5 ms");
        assert_eq!(of(200_001.0), Some(1000));
        assert_eq!(of(3.0), Some(1));
    }
}
