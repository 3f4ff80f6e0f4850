//! Prepares a plan that counts instructions: checks that the instructions can be counted, and
//! decides how many iterations each run executes.
//!
//! All variants run the same number of iterations. By default, the number is a power of ten that a
//! short trial of the baseline finds. The trial runs at full speed, because a program is about
//! fifty times slower while its instructions are counted. Start at [`prepare_counting`].

use crate::pairs::{reject_waiting, run_trials};
use anyhow::{Context, bail, ensure};
use speedwell_adapters::check_countable;
use speedwell_adapters::plan::SessionPlan;
use speedwell_machine::process::resolve_program;
use speedwell_model::{ComparedClock, Metric, Run, RunOrder, SampleDivision, SampleLength};
use std::path::Path;
use std::process::Command;

/// Target duration of a run's iterations at full speed.
const TARGET_RUN_NS: f64 = 5e6;

/// Sampling of the trial.
const TRIAL_SAMPLES: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::TimeNs(20_000_000), warmup_ns: 0 };

const HINT: &str = "hint: leave out --metric instructions";

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
    reject_waiting(&trials, &format!("waiting executes no instructions\n{HINT}"))?;
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
            bail!("cannot count the instructions of '{name}': {reason}\n{HINT}");
        }
        ensure!(
            job.worker_count() == 1,
            "'{name}' has several workers, and valgrind executes one thread at a time\n{HINT}"
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
