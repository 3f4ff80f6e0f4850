//! Whether what is to be measured can be measured in pairs that share one processor.
//!
//! Such pairs are compared by processor time, which says nothing of work that waits, and less of work that uses several
//! processors at once. Decides before the first stored run, by a trial of the baseline alone, which favours no side.
//! Start at [`check`].

use anyhow::{bail, ensure};
use speedwell_harness::plan::Plan;
use speedwell_harness::{Job, Kind};
use speedwell_model::{Event, Metric, Observer, Order, Run, Usage, Value};
use speedwell_runner as runner;
use std::collections::BTreeSet;

/// The share of its life that a process must have used the processor, or waited for it while others did.
const BUSY: f64 = 0.5;

/// How long a process that others pushed off the processor may have waited for it, at most.
const WAIT_FOR_TURN_NS: f64 = 20e6;

const HINT: &str = "hint: --order blocks";

/// What to do about a busy machine, where pairs may answer the question of `plan`.
pub fn advice(plan: &Plan) -> Option<&'static str> {
    let may_help = plan.design.order == Order::Blocks && check_kinds(plan).is_ok();
    may_help.then_some(
        "hint: --order paired compares the processor time of both sides while they share a processor, which needs far \
         fewer runs if the work does not wait",
    )
}

/// Refuses what pairs on one processor cannot measure.
///
/// # Errors
/// With the reason: there is nothing to pair, figures that are no processor time, or work that waits.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    check_kinds(plan)?;
    let tried = trial(plan)?;
    if let Some(run) = tried
        .iter()
        .find(|run| run.value_of(Metric::CPU_TIME).is_none())
    {
        bail!(
            "'{}' reports no processor time, which '--order paired' compares\n{HINT}",
            run.case
        );
    }
    let waiting = waiting(&tried);
    if let Some((name, share)) = waiting.first() {
        let others = match waiting.len() {
            1 => String::new(),
            count => format!(" (and {} others)", count - 1),
        };
        let percent = 100.0 * share;
        bail!(
            "'{name}'{others} waits: it used the processor for {percent:.0} % of a trial run, and '--order paired' \
             compares processor time\n{HINT}"
        );
    }
    Ok(())
}

/// What is wrong with the plan whatever its programs do.
fn check_kinds(plan: &Plan) -> anyhow::Result<()> {
    ensure!(
        plan.variants.len() > 1,
        "'--order paired' needs two variants: a pair is a run of either\n{HINT}"
    );
    ensure!(
        !plan.shared,
        "'--order paired' needs a process for every snippet\nhint: leave out --shared"
    );
    for job in &plan.jobs {
        let name = &job.label;
        ensure!(
            !matches!(job.source.kind, Kind::Load | Kind::Experiment),
            "'{name}' has a server, whose processor time is not that of its clients; '--order paired' compares one \
             process with another\n{HINT}"
        );
        ensure!(
            !is_concurrent(job),
            "'{name}' has several workers, and '--order paired' gives both sides one processor\n{HINT}"
        );
    }
    Ok(())
}

fn is_concurrent(job: &Job) -> bool {
    let levels = job.case.iter().flat_map(|case| &case.values);
    let mut levels = levels.filter(|(name, _)| name == "concurrency");
    levels.any(|(_, level)| matches!(level, Value::Number(workers) if *workers > 1.0))
}

/// One run of the baseline for every case. What fails is left to the session to say.
fn trial(plan: &Plan) -> anyhow::Result<Vec<Run>> {
    let mut runs = Runs::default();
    runner::try_all(plan, false, &mut [&mut runs])?;
    let mut seen = BTreeSet::new();
    runs.0.retain(|run| seen.insert(run.case.id()));
    Ok(runs.0)
}

/// The cases that waited, with the share of its life in which the process used the processor.
fn waiting(tried: &[Run]) -> Vec<(String, f64)> {
    let waiting = tried.iter().filter_map(|run| {
        let share = busy_share(&run.usage?, run.wall_ns)?;
        (share < BUSY).then(|| (run.case.id(), share))
    });
    waiting.collect()
}

/// The share of a process's life in which it used the processor; `None` if others kept it from doing so.
fn busy_share(usage: &Usage, wall_ns: u64) -> Option<f64> {
    let used = (usage.user_ns + usage.system_ns) as f64;
    let lost = wall_ns as f64 - used;
    let pushed_off = usage.involuntary_switches as f64 * WAIT_FOR_TURN_NS;
    (pushed_off < lost * BUSY).then(|| used / wall_ns.max(1) as f64)
}

/// Collects finished runs.
#[derive(Default)]
struct Runs(Vec<Run>);

impl Observer for Runs {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        if let Event::RunFinished(run) = event {
            self.0.push((*run).clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(busy_ms: u64, wall_ms: u64, switches: u64) -> Option<f64> {
        let usage = Usage {
            user_ns: busy_ms * 1_000_000,
            system_ns: 0,
            max_rss_bytes: 0,
            involuntary_switches: switches,
            ..Usage::default()
        };
        busy_share(&usage, wall_ms * 1_000_000)
    }

    #[test]
    fn waiting_is_told_from_being_pushed_off_the_processor() {
        assert!(
            share(20, 1000, 2).is_some_and(|share| share < BUSY),
            "it sleeps"
        );
        assert!(
            share(950, 1000, 0).is_some_and(|share| share > BUSY),
            "it computes"
        );
        assert_eq!(share(300, 1000, 80), None, "others compute");
    }
}
