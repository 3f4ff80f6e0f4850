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

use crate::trial::try_all;
use anyhow::{Context, bail, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{
    BenchmarkJob, BenchmarkSource, KnownAdapters, SourceKind, check_countable, discover,
};
use speedwell_machine::process::{resolve_program, wants_processor};
use speedwell_model::{
    ComparedClock, Metric, ResourceUsage, Run, RunOrder, SampleDivision, SampleLength,
    SessionEvent, SessionObserver,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A process must use the processor or wait for one during at least this fraction of its lifetime.
const MIN_BUSY_SHARE: f64 = 0.5;

/// Maximum number of trials. A case is rejected only if it seems to wait in every trial.
const MAX_TRIALS: usize = 3;

/// Interval between checks of whether the process is running or waiting for a processor.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

const HINT: &str = "hint: --order blocks";

/// Returns advice for a busy machine, if `plan` could be measured in pairs.
pub fn suggest_pairs(plan: &SessionPlan) -> Option<&'static str> {
    let is_series = plan.design.steady.is_some();
    let is_timed = plan.design.counting.is_none() && !is_series;
    let is_requested = plan.design.order == RunOrder::Blocks && plan.design.order_choice.is_none();
    let may_help = is_requested && is_timed && check_kinds(plan).is_ok();
    may_help.then_some(
        "hint: --order paired runs both sides on one processor and compares their processor time; this needs far fewer \
         runs, but suits only work that does not sleep or wait for I/O",
    )
}

/// Rejects targets of frameworks that report no processor time, before anything is built. Targets
/// that cannot be found are reported when they are read.
///
/// # Errors
/// Fails at the first such target.
pub fn check_targets(targets: &[String], directory: &Path) -> anyhow::Result<()> {
    let adapters = KnownAdapters::new(targets, directory)?;
    let sources =
        |target: &String| discover::find_sources(target, directory, &adapters).unwrap_or_default();
    for source in targets.iter().flat_map(sources) {
        check_source(&source)?;
    }
    Ok(())
}

fn check_source(source: &BenchmarkSource) -> anyhow::Result<()> {
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
pub fn check_paired(plan: &SessionPlan) -> anyhow::Result<()> {
    check_kinds(plan)?;
    let trials = run_trials(plan)?;
    let lacks_cpu_time = |trials: &&PairTrial| trials.run.value_of(Metric::CPU_TIME).is_none();
    if let Some(trials) = trials.iter().find(lacks_cpu_time) {
        bail!(
            "'{}' reports no processor time, which '--order paired' compares\n{HINT}",
            trials.run.case
        );
    }
    reject_waiting(&trials, &format!("'--order paired' compares processor time\n{HINT}"))
}

/// Rejects work that waits. `consequence` completes the message by saying why waiting is a problem.
///
/// # Errors
/// Fails if a case did not use the processor enough.
pub fn reject_waiting(trials: &[PairTrial], consequence: &str) -> anyhow::Result<()> {
    let mut waiting = trials.iter().filter(|trial| trial.is_waiting());
    let Some(first) = waiting.next() else {
        return Ok(());
    };
    let others = match waiting.count() {
        0 => String::new(),
        1 => " (and another)".to_owned(),
        count => format!(" (and {count} others)"),
    };
    let (name, percent) = (first.run.case.id(), 100.0 * first.busy);
    bail!(
        "'{name}'{others} spent too much time sleeping or waiting for I/O: it was runnable for only {percent:.0} % of \
         a trial run, but {consequence}"
    )
}

/// Checks the conditions that can be checked without running a program.
///
/// # Errors
/// Fails if the plan has nothing to pair, or work of several processes or workers.
pub fn check_kinds(plan: &SessionPlan) -> anyhow::Result<()> {
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
    /// The run.
    pub run: Run,
    /// Fraction of its lifetime in which the process was running or waiting for a processor.
    busy: f64,
}

impl PairTrial {
    fn is_waiting(&self) -> bool {
        self.busy < MIN_BUSY_SHARE
    }
}

/// Runs the baseline of every case once, one after the other, and repeats these runs while a case
/// seems to wait. Failures are left for the session to report.
pub fn run_trials(plan: &SessionPlan) -> anyhow::Result<Vec<PairTrial>> {
    compile_snippets(plan)?;
    // A case may seem to wait although it does not: the first run reads its files from disk, and
    // short runs on a busy machine are sampled too rarely.
    let mut trials = run_once(plan)?;
    for _ in 1..MAX_TRIALS {
        if !trials.iter().any(PairTrial::is_waiting) {
            break;
        }
        trials = run_once(plan)?;
    }
    Ok(trials)
}

/// Compiles the snippets in a short run, so that their trial does not include the time to compile.
fn compile_snippets(plan: &SessionPlan) -> anyhow::Result<()> {
    let is_compiled = |job: &BenchmarkJob| matches!(job.source.kind, SourceKind::Snippet(language) if language.is_compiled());
    if plan.jobs.iter().any(is_compiled) {
        let mut short = plan.clone();
        short.jobs.retain(is_compiled);
        short.sampling.samples =
            SampleDivision { count: 1, length: SampleLength::Iterations(1), warmup_ns: 0 };
        run_once(&short)?;
    }
    Ok(())
}

/// Runs the baseline of every case once.
fn run_once(plan: &SessionPlan) -> anyhow::Result<Vec<PairTrial>> {
    let (samples, has_ended) = (BusySamples::default(), AtomicBool::new(false));
    let mut collector = TrialCollector { samples: &samples, slot: 0, trials: Vec::new() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                samples.add_sample(wants_processor());
                std::thread::sleep(SAMPLE_INTERVAL);
            }
        });
        let result = try_all(plan, 1, false, &mut [&mut collector]);
        has_ended.store(true, Ordering::Relaxed);
        result
    })?;
    let mut known_cases = BTreeSet::new();
    collector.trials.retain(|tried| known_cases.insert(tried.run.case.id()));
    Ok(collector.trials)
}

/// Samples of a process: how many there are, and in how many it was running or waiting for a
/// processor. Processor usage alone does not distinguish work that waits from work that other
/// programs preempt.
#[derive(Default)]
struct BusySamples {
    total: AtomicU32,
    busy: AtomicU32,
}

impl BusySamples {
    fn add_sample(&self, is_busy: Option<bool>) {
        self.total.fetch_add(u32::from(is_busy.is_some()), Ordering::Relaxed);
        self.busy.fetch_add(u32::from(is_busy == Some(true)), Ordering::Relaxed);
    }

    /// Returns the fraction of busy samples since the last call; `None` if there were no samples.
    fn take_share(&self) -> Option<f64> {
        let (total, busy) =
            (self.total.swap(0, Ordering::Relaxed), self.busy.swap(0, Ordering::Relaxed));
        (total > 0).then(|| f64::from(busy) / f64::from(total))
    }
}

/// Collects runs that did not fail.
struct TrialCollector<'a> {
    samples: &'a BusySamples,
    slot: u32,
    trials: Vec<PairTrial>,
}

impl SessionObserver for TrialCollector<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()> {
        match event {
            SessionEvent::RunStarted { slot, .. } => self.slot = *slot,
            SessionEvent::RunFinished(run) => {
                // One process may report several runs, which all get the busy fraction of the
                // process.
                let same_process = self.trials.last().filter(|last| last.run.slot == run.slot);
                let share = same_process.map_or_else(
                    || busy_share(run.usage.as_ref(), run.wall_ns, self.samples.take_share()),
                    |last| last.busy,
                );
                let run = (*run).clone();
                self.trials.push(PairTrial { run, busy: share });
            }
            // The results before the failure are not representative; measuring will report the
            // failure.
            SessionEvent::Failed(_) => self.trials.retain(|tried| tried.run.slot != self.slot),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the fraction of its lifetime in which a process was busy. This is the fraction in which
/// it used the processor or, if larger, the fraction of samples in which it was running or waiting
/// for a processor.
fn busy_share(usage: Option<&ResourceUsage>, wall_ns: u64, sampled_share: Option<f64>) -> f64 {
    let cpu_share = usage.map(|usage| usage.cpu_ns() as f64 / wall_ns.max(1) as f64);
    match (cpu_share, sampled_share) {
        (Some(cpu_share), Some(sampled_share)) => cpu_share.max(sampled_share),
        (cpu_share, sampled_share) => cpu_share.or(sampled_share).unwrap_or(1.0),
    }
}

/// Target duration of a run's iterations at full speed.
const TARGET_RUN_NS: f64 = 5e6;

/// Sampling of the trial.
const TRIAL_SAMPLES: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::TimeNs(20_000_000), warmup_ns: 0 };

const COUNTING_HINT: &str = "hint: leave out --metric instructions";

/// Fills in the version of the counting tool, and the number of iterations of each case.
///
/// # Errors
/// Fails if valgrind is missing, if the instructions of a benchmark cannot be counted, or if an
/// option of the plan applies only to times.
pub fn prepare_counting(plan: &mut SessionPlan) -> anyhow::Result<()> {
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
    reject_waiting(&trials, &format!("waiting executes no instructions\n{COUNTING_HINT}"))?;
    for job in &mut plan.jobs {
        let trial = trials.iter().find(|trial| trial.run.case.id() == job.label);
        let iterations = trial.and_then(|trial| iterations_that_fit(&trial.run)).unwrap_or(1);
        job.samples = Some(one_sample(iterations));
    }
    Ok(())
}

/// One sample of this many iterations, without warm-up.
fn one_sample(iterations: u64) -> SampleDivision {
    SampleDivision { count: 1, length: SampleLength::Iterations(iterations), warmup_ns: 0 }
}

/// Checks the conditions that can be checked without running a program.
fn check_plan(plan: &SessionPlan) -> anyhow::Result<()> {
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
fn valgrind_version() -> anyhow::Result<String> {
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
fn iterations_that_fit(run: &Run) -> Option<u64> {
    let time_ns = match run.value_of(Metric::TIME) {
        Some(time_ns) => time_ns,
        None => 1e9 / run.value_of(Metric::THROUGHPUT)?,
    };
    let iterations = (TARGET_RUN_NS / time_ns).max(1.0);
    iterations.is_finite().then(|| 10u64.pow(iterations.log10() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_distinguished_from_being_preempted() {
        let usage = |busy_ms: u64| ResourceUsage {
            user_ns: busy_ms * 1_000_000,
            system_ns: 0,
            max_rss_bytes: 0,
            ..ResourceUsage::default()
        };
        let share = |busy_ms, seen| busy_share(Some(&usage(busy_ms)), 1_000_000_000, seen);
        assert!(share(20, Some(0.1)) < MIN_BUSY_SHARE, "it sleeps");
        assert!(share(950, None) > MIN_BUSY_SHARE, "it computes");
        assert!(share(300, Some(0.95)) > MIN_BUSY_SHARE, "others compute");
    }

    #[test]
    fn samples_are_counted_since_the_previous_run() {
        let looks = BusySamples::default();
        assert_eq!(looks.take_share(), None);
        for wants in [Some(true), Some(false), None, Some(true), Some(true)] {
            looks.add_sample(wants);
        }
        assert_eq!(looks.take_share(), Some(0.75));
        assert_eq!(looks.take_share(), None);
    }
}

#[cfg(test)]
mod counting_tests {
    use super::*;
    use speedwell_fixtures::FakeSession;

    #[test]
    fn iterations_are_a_power_of_ten_and_at_least_one() {
        let of = |per_s: f64| {
            let session =
                FakeSession::with_fixed_blocks(&["a"], 1).add_case("b", |_, _| per_s).build();
            iterations_that_fit(&session.runs[0])
        };
        assert_eq!(of(2e9), Some(10_000_000));
        assert_eq!(of(199_999.0), Some(100), "a thousand do not quite fit into 5 ms");
        assert_eq!(of(200_001.0), Some(1000));
        assert_eq!(of(3.0), Some(1));
    }
}
