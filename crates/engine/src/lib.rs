//! Plans and executes measurements, and decides when to stop.
//!
//! A request is plain data ([`MeasureRequest`], [`SessionRequest`]) that the command line fills in.
//! Messages go to an [`EventListener`]; nothing here prints, or depends on the store, reports or
//! exit statuses. Start at [`PreparedPlan::read`], [`check_plan`] and [`execution::execute`].

pub mod eval;
pub mod execution;
pub mod experiment;
mod measured_code;
mod order;
pub mod rehearsal;
mod request;
pub mod revisions;
mod scripts;
mod session;
mod trial;

pub use measured_code::are_identical;
pub use order::{check_targets as check_paired_targets, prepare_counting};
pub use rehearsal::{
    build_packages, check_layout, check_plan, check_processors, describe_failure,
    prepare_measurement, reach_warning, warn_if_busy,
};
pub use request::{
    BuildArgs, ExecutionArgs, HeldMachines, MeasureRequest, PlaceRoles, PlanRequest, PreparedPlan,
    ResumedSession, RevisionRequest, SamplingRequest, SearchRequest, SessionRequest,
    VariantRequest, WarmupLength,
};
pub use scripts::{BenchmarkScript, ScriptsRequest, execute_scripts};
pub use session::{
    AnalysisStoppingRule, MeasuredSession, attach_definitions, draw_seed, needs_earlier_runs,
    session_header, suggest_runs_per_build,
};
pub use trial::{TrialResult, try_cases};

use speedwell_model::{SessionEvent, SessionObserver};
use std::sync::{Mutex, PoisonError};

/// Receives the events of a measurement, including those from reading the benchmarks before it.
pub type EventListener<'a> = dyn SessionObserver + Send + 'a;

/// Lets several threads send events before the first run. Errors are ignored, because a listener
/// that fails now will fail again once measuring starts.
pub fn shared_emitter(listener: &mut EventListener<'_>) -> impl Fn(&SessionEvent<'_>) + Sync {
    let shared = Mutex::new(listener);
    move |event| {
        let mut listener = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = listener.observe(event);
    }
}

/// Sends a warning about the results.
///
/// # Errors
/// Fails if the listener fails.
pub fn emit_warning(listener: &mut EventListener<'_>, sentence: &str) -> anyhow::Result<()> {
    listener.observe(&SessionEvent::Warning(sentence))
}
