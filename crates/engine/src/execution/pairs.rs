//! Runs both sides of a pair at the same time on one processor.
//!
//! The two sides take turns on the processor many times a second. Whatever slows the machine
//! therefore slows both sides. The time that a side waits for its turn is not part of its processor
//! time. This module decides which processor the two sides share, how long their time slices are,
//! and which of their metrics are meaningful. Start at [`run_concurrently`].

use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_adapters::{RunOutcome, RunResult};
use speedwell_machine::process::{CpuSet, TimeSlice};
use speedwell_model::{FailureCause, Metric, RunOrder, seed_of_step};
use std::thread;
use std::time::Duration;

/// Time slice of one side: long enough that caches are warm for most of it.
const PAIR_TIME_SLICE: TimeSlice = TimeSlice(Duration::from_millis(20));

/// Draws the processor that the runs of this block share: from the processors to which the plan
/// pins runs or, without pinning, from all usable ones. Returns `None` if runs are not paired.
pub(super) fn draw_processor(plan: &SessionPlan, block: u32) -> Option<CpuSet> {
    if plan.design.order != RunOrder::Paired {
        return None;
    }
    let usable = plan.pin.clone().or_else(|| CpuSet::usable_by_thread().ok())?;
    let index = seed_of_step(!plan.design.seed, block) as usize % usable.cpus().len().max(1);
    usable.cpus().get(index).map(|&cpu| CpuSet::from_iter([cpu]))
}

/// Performs all slots at the same time, and starts them in order.
pub(super) fn run_concurrently(
    slots: &[PlanSlot],
    perform: impl Fn(&PlanSlot) -> RunOutcome + Sync,
) -> Vec<RunOutcome> {
    let perform = &perform;
    let run_with_slice = |slot| {
        // The processes of a run inherit the time slice from the thread that starts them. A kernel
        // without custom slices uses its default, which is shorter.
        let _ = PAIR_TIME_SLICE.apply();
        perform(slot)
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            slots.iter().map(|slot| scope.spawn(move || run_with_slice(slot))).collect();
        let outcomes = threads.into_iter().map(|thread| match thread.join() {
            Ok(attempt) => attempt,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        outcomes.collect()
    })
}

/// Puts processor time first, because the first metric is compared. Paired runs keep no other
/// metric, because any other time includes the time slices of the other side.
///
/// # Errors
/// Fails if the result has no processor time.
pub(crate) fn prefer_processor_time(
    result: &mut RunResult,
    order: RunOrder,
) -> Result<(), FailureCause> {
    let is_processor_time = |name: &str| name == Metric::CPU_TIME;
    if order == RunOrder::Paired {
        (result.samples).retain(|sample| is_processor_time(&sample.metric));
        (result.metrics).retain(|metric| is_processor_time(&metric.name));
    }
    (result.samples).sort_by_key(|sample| !is_processor_time(&sample.metric));
    (result.metrics).sort_by_key(|metric| !is_processor_time(&metric.name));
    match result.samples.first() {
        Some(sample) if is_processor_time(&sample.metric) => Ok(()),
        _ => Err(FailureCause::Invalid {
            reason: "reports no processor time, which the comparison needs".to_owned(),
        }),
    }
}
