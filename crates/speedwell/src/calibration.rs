//! Measures a program against itself, to calibrate later comparisons on this machine.
//!
//! This module decides how many runs a calibration takes; the analysis decides what counts as a
//! false alarm. Start at [`plan_calibration`].

use crate::resume::load_interrupted_plan;
use anyhow::ensure;
use speedwell_adapters::plan::SessionPlan;
use speedwell_engine::{EventListener, MeasureRequest, PreparedPlan};
use speedwell_model::{RunCount, StoppingDesign, Variant};
use speedwell_store::Store;
use std::time::Duration;

/// Runs per side in one comparison. Five blocks of four runs can be arranged in 7776 ways. The
/// analysis enumerates all of them. At a nominal level of 5 %, the actual error rate is 4.5 %. With
/// four blocks, it would be 4.2 % (crates/stats/DERIVATIONS.md, "Calibration").
const DEFAULT_RUNS: u32 = 10;

/// Minimum number of runs per side for a meaningful p-value.
const MIN_RUNS: u32 = 8;

/// Tag of all calibration sessions.
pub const CALIBRATION_TAG: &str = "calibration";

/// Returns the number of runs per side in one comparison.
///
/// # Errors
/// Fails if fewer runs than the minimum are requested.
pub fn runs_per_side(requested: Option<u32>) -> anyhow::Result<u32> {
    let runs = requested.unwrap_or(DEFAULT_RUNS);
    ensure!(
        runs >= MIN_RUNS,
        "--runs {runs} is too few: a verdict needs at least {MIN_RUNS} runs per side"
    );
    Ok(runs)
}

/// Plans to measure each target against itself. `comparisons` is the total for all cases.
///
/// # Errors
/// Fails if a target or a parameter value is unknown.
pub fn plan_calibration(
    mut request: MeasureRequest,
    runs: u32,
    comparisons: u32,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    request.variants.given = ["a", "b"].map(Variant::plain).to_vec();
    // `spread_comparisons` sets the number of runs, once the number of cases is known.
    request.plan.sampling.runs = None;
    let mut plans = PreparedPlan::read(&request, listener)?;
    spread_comparisons(&mut plans.plan, runs, comparisons);
    Ok(plans)
}

/// Plans the rest of an interrupted calibration.
///
/// # Errors
/// Fails if there is no such session, or the session is not a calibration.
pub fn resume_calibration(
    store: &Store,
    session: &str,
    budget: Option<Duration>,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    let plans = load_interrupted_plan(store, session, budget, listener)?;
    ensure!(
        differ_only_in_name(&plans.plan.variants),
        "{session} is not a calibration: its variants differ"
    );
    Ok(plans)
}

/// Distributes the comparisons evenly over the cases. Each comparison consists of whole blocks.
fn spread_comparisons(plan: &mut SessionPlan, runs: u32, comparisons: u32) {
    let block = plan.design.runs_per_block.max(1);
    let runs_per_comparison = runs.div_ceil(block).saturating_mul(block);
    let cases = plan.jobs.len().max(1) as u32;
    let runs = comparisons.div_ceil(cases).saturating_mul(runs_per_comparison);
    plan.sampling.runs = RunCount::Fixed(runs);
    plan.design.stopping = StoppingDesign::Fixed { runs };
}

fn differ_only_in_name(variants: &[Variant]) -> bool {
    let [a, b] = variants else { return false };
    let named_alike = Variant { name: a.name.clone(), ..b.clone() };
    *a == named_alike
}
