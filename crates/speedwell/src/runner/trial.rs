//! Every case once, several at a time: whether it works, not how fast.

use super::execute::Ended;
use crate::harness::{self, Attempt, Setting};
use crate::model::{Event, Observer, Run};
use crate::plan::Plan;
use crate::process::interrupted;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// What a worker tells.
enum Told {
    Begins(usize),
    Ended(usize, Box<Attempt>),
}

/// Executes each job of `plan` once under its first variant. Nothing is measured, so the machine is
/// kept busy with as many as it has processors.
///
/// # Errors
/// An observer could not keep what it was told. Failures of tried programs are not errors.
pub fn try_all(
    plan: &Plan,
    fail_fast: bool,
    observers: &mut [&mut dyn Observer],
) -> anyhow::Result<Ended> {
    let mut tell = |event: &Event<'_>| {
        observers
            .iter_mut()
            .try_for_each(|observer| observer.observe(event))
    };
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let count = plan.jobs.len();
    tell(&Event::Started {
        runs: count,
        cases: count,
        done: 0,
    })?;
    let workers = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    let mut ended = Ended::Complete;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..workers.min(count) {
            let sender = sender.clone();
            scope.spawn(|| work(plan, &next, &stop, sender));
        }
        drop(sender);
        for told in receiver {
            let failed = pass_on(plan, told, &mut tell)?;
            if failed && fail_fast {
                stop.store(true, Ordering::Relaxed);
                ended = Ended::Failed;
            }
        }
        anyhow::Ok(())
    })?;
    if interrupted() {
        ended = Ended::Interrupted;
    }
    tell(&Event::Finished {
        interrupted: ended != Ended::Complete,
    })?;
    Ok(ended)
}

/// Takes job after job until there are none, or until it is enough.
fn work(plan: &Plan, next: &AtomicUsize, stop: &AtomicBool, sender: mpsc::Sender<Told>) {
    while !stop.load(Ordering::Relaxed) && !interrupted() {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = plan.jobs.get(at) else { return };
        let harness = harness::of(job.source.kind);
        let variant = &plan.variants[0];
        let usual = || harness.usual_program(&job.source);
        let setting = Setting {
            variant,
            program: variant.program.clone().unwrap_or_else(usual),
            slot: at as u32,
            ordinal: 0,
            seed: plan.design.seed,
            limit: Duration::from_millis(plan.sampling.timeout_ms),
            samples: plan.sampling.samples,
            pin: plan.pin.as_ref(),
        };
        // A closed channel means that nobody wants to know any more.
        if sender.send(Told::Begins(at)).is_err()
            || sender
                .send(Told::Ended(at, Box::new(harness.perform(job, &setting))))
                .is_err()
        {
            return;
        }
    }
}

/// Turns what a worker told into events; whether something failed.
fn pass_on(
    plan: &Plan,
    told: Told,
    tell: &mut dyn FnMut(&Event<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let variant = &plan.variants[0].name;
    let (at, attempt) = match told {
        Told::Begins(at) => {
            let label = &plan.jobs[at].label;
            tell(&Event::RunStarted {
                slot: at as u32,
                label,
                variant,
            })?;
            return Ok(false);
        }
        Told::Ended(at, attempt) => (at, *attempt),
    };
    if attempt.interrupted {
        return Ok(false);
    }
    for seen in attempt.observations {
        tell(&Event::RunFinished(&Run {
            case: Arc::new(seen.case),
            variant: Arc::from(variant.as_str()),
            slot: at as u32,
            block: 0,
            started_unix_ms: attempt.started_unix_ms,
            wall_ns: attempt.wall_ns,
            usage: attempt.usage,
            samples: seen.samples,
            notes: seen.notes,
            load: None,
        }))?;
    }
    if let Some(failure) = &attempt.failure {
        tell(&Event::Failed(failure))?;
    }
    tell(&Event::SlotDone(at as u32))?;
    Ok(attempt
        .failure
        .is_some_and(|failure| !failure.cause.is_skip()))
}
