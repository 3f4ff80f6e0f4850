//! The loop over the slots of a plan.

use super::execution::{Execution, Stepped};
use speedwell_harness::plan::Plan;
use speedwell_model::{Event, Observer, Run};
use speedwell_process::interrupted;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Decides after each block which cases need no more runs.
pub trait Judge {
    /// Which of the cases that are still open are decided. Each is given by all its finished runs, in order of execution.
    /// A judge remembers what it was shown of the others: cases may be corrected for each other.
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool>;
}

/// What is asked of an execution besides its plan.
#[derive(Default)]
pub struct Orders {
    /// Slots that are done already.
    pub done: BTreeSet<u32>,
    /// The runs of a session that is being resumed.
    pub earlier: Vec<Run>,
    /// Stop at the first failure.
    pub fail_fast: bool,
    /// End with the first block that is complete after this time.
    pub budget: Option<Duration>,
}

/// How the execution of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every slot was executed or found unnecessary.
    Complete,
    /// The user ended it.
    Interrupted,
    /// A failure ended it, as asked for.
    Failed,
}

/// Executes the slots of `plan` that are not done yet, in order.
///
/// # Errors
/// An observer could not keep what it was told. Failures of measured programs are not errors.
pub fn execute(
    plan: &Plan,
    orders: Orders,
    judge: &mut dyn Judge,
    observers: &mut [&mut dyn Observer],
) -> anyhow::Result<Ended> {
    let slots = plan.slots();
    let begin = Instant::now();
    let experiment = plan.experiment()?;
    let mut execution = Execution::new(plan, experiment.as_ref(), judge, observers);
    let started = Event::Started {
        runs: slots.len(),
        cases: plan.jobs.len(),
        done: orders.done.len(),
    };
    execution.tell(&started)?;
    execution.restore(orders.earlier, &slots)?;
    let mut ended = Ended::Complete;
    for slot in &slots {
        if interrupted() {
            ended = Ended::Interrupted;
            break;
        }
        if orders.done.contains(&slot.index) {
            continue;
        }
        if !execution.is_over(slot) {
            match execution.step(slot)? {
                Stepped::Interrupted => ended = Ended::Interrupted,
                Stepped::Failed if orders.fail_fast => ended = Ended::Failed,
                _ => {}
            }
        }
        if ended != Ended::Complete {
            break;
        }
        if slot.closes_block {
            execution.give_up(slot, &slots)?;
        }
        let later = &slots[slot.index as usize + 1..];
        if later.first().is_none_or(|next| next.block != slot.block) {
            execution.settle(later)?;
            if orders.budget.is_some_and(|budget| begin.elapsed() > budget) {
                break;
            }
        }
    }
    execution.tell(&Event::Finished {
        interrupted: ended != Ended::Complete,
    })?;
    Ok(ended)
}
