//! Measures the same thing against itself, to calibrate later comparisons on this machine.
//!
//! Decides how many runs a calibration takes. The analysis decides what counts as a false alarm.
//! Start at [`plans`].

use super::{Listener, MeasureRequest, Plans, resumed};
use anyhow::ensure;
use speedwell_harness::plan::Plan;
use speedwell_model::{Runs, Stopping, Variant};
use speedwell_results::store::Store;
use std::time::Duration;

/// Runs per side in one comparison. Five blocks of four have 7776 arrangements, all of them
/// counted, which gives p-values fine enough for a true error rate of 4.5 %; four blocks would give
/// 4.2 % (crates/stats/DERIVATIONS.md, "Calibration").
const RUNS: u32 = 10;

/// Minimum number of runs per side for a meaningful p-value.
const FEWEST_RUNS: u32 = 8;

/// Tag of all calibration sessions.
pub const TAG: &str = "calibration";

/// Returns the number of runs per side in one comparison.
///
/// # Errors
/// Fails if too few are requested.
pub fn runs(requested: Option<u32>) -> anyhow::Result<u32> {
    let runs = requested.unwrap_or(RUNS);
    ensure!(
        runs >= FEWEST_RUNS,
        "--runs {runs} is too few: below {FEWEST_RUNS} runs a side a comparison claims nothing"
    );
    Ok(runs)
}

/// Plans to measure the targets against themselves: `comparisons` in total, spread evenly over the
/// cases.
///
/// # Errors
/// Fails if a target or value is unknown.
pub fn plans(
    mut request: MeasureRequest,
    runs: u32,
    comparisons: u32,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Plans> {
    request.variants.given = ["a", "b"].map(Variant::plain).to_vec();
    // Sequential until the number of cases is known.
    request.plan.sampling.runs = None;
    let mut plans = Plans::read(&request, listener)?;
    lengthen(&mut plans.plan, runs, comparisons);
    Ok(plans)
}

/// Plans the rest of an interrupted calibration.
///
/// # Errors
/// Fails if there is no such session or it is not a calibration.
pub fn rest(
    store: &Store,
    session: &str,
    budget: Option<Duration>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Plans> {
    let plans = resumed(store, session, budget, listener)?;
    ensure!(
        is_one_thing(&plans.plan.variants),
        "{session} compares different things, so it says nothing about the machine"
    );
    Ok(plans)
}

/// Gives every case its share of the comparisons, in whole blocks.
fn lengthen(plan: &mut Plan, runs: u32, comparisons: u32) {
    let block = plan.design.runs_per_block.max(1);
    let runs = runs.div_ceil(block).saturating_mul(block);
    let cases = plan.jobs.len().max(1) as u32;
    let runs = comparisons.div_ceil(cases).saturating_mul(runs);
    plan.sampling.runs = Runs::Fixed(runs);
    plan.design.stopping = Stopping::Fixed { runs };
}

fn is_one_thing(variants: &[Variant]) -> bool {
    let [a, b] = variants else { return false };
    let named_alike = Variant {
        name: a.name.clone(),
        ..b.clone()
    };
    *a == named_alike
}
