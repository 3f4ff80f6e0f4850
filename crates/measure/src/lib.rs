//! Turns requests into measured sessions.
//!
//! A request is plain data ([`MeasureRequest`], [`SessionRequest`]) that the command line fills in.
//! Messages go to an [`EventListener`]; nothing here prints, or depends on options, reports or exit
//! statuses. Start at [`PreparedPlan::read`], then [`measure_session`].
//!
//! Some modules import each other: a request names the machines to use (`fleet`) or to hold
//! (`roles`), and these two modules measure requests.

pub mod backfill;
pub mod bisect;
pub mod calibration;
pub mod confirm;
pub mod eval;
pub mod experiment;
pub mod fleet;
pub mod history;
mod instructions;
mod iterations;
mod layout;
pub mod load;
mod own_benchmarks;
mod pairs;
mod plans;
pub mod reference;
mod rehearsal;
mod request;
mod resume;
mod revisions;
pub mod roles;
mod scripts;
mod session;
pub mod session_list;
mod trial;
mod warmup;

pub use iterations::{FileSearch, IterationsRequest, IterationsResult, search_iterations};
pub use pairs::check_targets as check_paired_targets;
pub use rehearsal::describe_failure;
pub use request::{
    BuildRequest, MeasureRequest, PlanRequest, PreparedPlan, ResumedSession, RevisionRequest,
    SamplingRequest, SearchRequest, SessionRequest, VariantRequest, draw_seed,
};
pub use resume::load_interrupted_plan;
pub use scripts::{BenchmarkScript, ScriptsRequest, execute_scripts};
pub use session::{
    MeasuredSession, execute_session, measure_session, reach_warning, session_header, warn_if_busy,
};
pub use trial::{TrialResult, try_cases};
pub use warmup::{SeriesLength, plan_series};

use speedwell_model::{SessionEvent, SessionObserver};
use std::sync::{Mutex, PoisonError};

/// Observes a measurement, and the reading of benchmarks before it.
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
