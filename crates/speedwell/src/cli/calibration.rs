//! `speedwell doctor --calibrate`: the same thing measured against itself, and what follows from it for
//! later comparisons on this machine.
//!
//! Decides how many runs a calibration takes, and whether its result is kept. What counts as a false
//! alarm is decided by the analysis. Start at [`run`].

use super::measure::{Plans, measure};
use super::options::RunArgs;
use super::run;
use super::{Status, gate, resume};
use crate::analysis::{self, Calibrated};
use crate::model::{Runs, Stopping, Variant};
use crate::plan::Plan;
use crate::report;
use anyhow::bail;

/// Runs a side of one comparison. Five blocks of four have 7776 arrangements, all of which are counted,
/// and give p values fine enough for a true error rate of 4.5 %; four blocks would give 4.2 %
/// (docs/statistics.md, "Calibration").
const RUNS: u32 = 10;

/// Fewest runs a side of which a p value says anything.
const FEWEST_RUNS: u32 = 8;

/// The tag of every session that was measured for a calibration.
const TAG: &str = "calibration";

/// Measures the targets against themselves and reports.
///
/// # Errors
/// Wrong words, unknown targets, a store that cannot be written.
pub fn run(mut args: RunArgs, comparisons: u32) -> anyhow::Result<Status> {
    let runs = args.sampling.runs.unwrap_or(RUNS);
    if runs < FEWEST_RUNS {
        bail!(
            "--runs {runs} is too few: below {FEWEST_RUNS} runs a side a comparison claims nothing"
        );
    }
    args.store.tag.push(TAG.to_owned());
    args.variants.variant = vec!["a=".to_owned(), "b=".to_owned()];
    // Sequential until the number of cases is known.
    args.sampling.runs = None;
    let mut store = args.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => resume::plans(&store, session)?,
        None => {
            let mut plans = Plans::read(&args)?;
            lengthen(&mut plans.plan, runs, comparisons);
            plans
        }
    };
    let session = args.execution.resume.as_deref().unwrap_or_default();
    if !is_one_thing(&plans.plan.variants) {
        bail!("{session} compares different things, so it says nothing about the machine");
    }
    if args.execution.list || args.execution.test {
        return run::execute(plans, &mut store, &args);
    }
    let settings = args.comparison.settings(&args.selection.metric.names, None);
    let (session, ended) = measure(plans, &settings, &mut store, &args)?;
    let found = analysis::calibrate(&session, runs as usize, &settings);
    if found.outcome != Calibrated::Unknown {
        store.keep_calibration(&session.environment, &found.counts)?;
    }
    let document = report::calibration(&found, &args.output.settings());
    args.output.print(&document)?;
    let answer = match found.outcome {
        Calibrated::Yes | Calibrated::Unknown => Status::DONE,
        Calibrated::TooManyAlarms | Calibrated::TooFewAlarms => Status::NO,
    };
    Ok(ended.or(answer).or(gate::of_failures(&found.failures)))
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

/// Whether the variants differ in nothing but their names.
fn is_one_thing(variants: &[Variant]) -> bool {
    let [a, b] = variants else { return false };
    let named_alike = Variant {
        name: a.name.clone(),
        ..b.clone()
    };
    *a == named_alike
}
