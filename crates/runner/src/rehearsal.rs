//! Runs a job once, briefly and unrecorded: does its program start, and which metrics does it
//! report?

use crate::execute::{perform, setting};
use crate::pairs;
use speedwell_harness::plan::{Plan, Slot};
use speedwell_model::{Clock, Failure, Length, Samples};

/// Smallest measurement for a harness that divides runs into samples.
const SHORTEST: Samples = Samples {
    count: 1,
    length: Length::Iterations(1),
    warmup_ns: 0,
};

/// Result of a rehearsal.
#[derive(Debug, Clone, Default)]
pub struct Rehearsal {
    /// Metrics in the order the run reported them.
    pub metrics: Vec<String>,
    /// Why the run failed, if it did.
    pub failure: Option<Failure>,
}

/// Performs job number `job` once under variant number `variant`, as briefly as its harness can.
pub fn rehearse(plan: &Plan, job: usize, variant: usize) -> Rehearsal {
    let slot = Slot {
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
    let mut setting = setting(plan, &slot, plan.pin.as_ref(), None);
    (setting.samples, setting.is_series, setting.counting) = (SHORTEST, false, None);
    let attempt = perform(plan, &slot, &setting);
    let mut rehearsal = Rehearsal {
        failure: attempt.failure,
        ..Rehearsal::default()
    };
    for mut seen in attempt.observations {
        if plan.sampling.clock == Clock::Cpu {
            // A job without processor time fails in every run, and is reported there.
            let _ = pairs::prefer_processor_time(&mut seen, plan.design.order);
        }
        let names = seen.metrics.into_iter().map(|metric| metric.name);
        rehearsal.metrics.extend(names);
    }
    rehearsal
}
