//! Runs a job once, briefly and without recording it, to learn whether its program starts and which
//! metrics the job reports.

use crate::execution::execute::{perform_slot, run_context};
use crate::execution::pairs;
use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_model::{ComparedClock, SampleDivision, SampleLength, StepFailure};

/// Smallest measurement for a harness that divides runs into samples.
const SHORTEST: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::Iterations(1), warmup_ns: 0 };

/// Result of a rehearsal.
#[derive(Debug, Clone, Default)]
pub struct RehearsalResult {
    /// Metrics in the order the run reported them.
    pub metrics: Vec<String>,
    /// Why the run failed, if it did.
    pub failure: Option<StepFailure>,
}

/// Performs the job with index `job` once under the variant with index `variant`, as briefly as its
/// harness can.
pub fn rehearse(plan: &SessionPlan, job: usize, variant: usize) -> RehearsalResult {
    let slot = PlanSlot {
        index: 0,
        block: 0,
        job,
        variant,
        ordinal: 0,
        closes_block: false,
        is_at_once: false,
        repeated: 0,
        build: None,
    };
    let mut context = run_context(plan, &slot, plan.pin.as_ref(), None);
    (context.samples, context.is_series, context.counting) = (SHORTEST, false, None);
    let attempt = perform_slot(plan, &slot, &context);
    let mut rehearsal = RehearsalResult { failure: attempt.failure, ..RehearsalResult::default() };
    for mut result in attempt.observations {
        if plan.sampling.clock == ComparedClock::Cpu {
            // Ignore the error if a job reports no processor time: its measured runs will fail and
            // report that.
            let _ = pairs::prefer_processor_time(&mut result, plan.design.order);
        }
        let names = result.metrics.into_iter().map(|metric| metric.name);
        rehearsal.metrics.extend(names);
    }
    rehearsal
}
