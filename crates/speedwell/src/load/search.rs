//! Handles loads at several levels of concurrency (`-c 1,2,4`), and searches for the best level
//! (`-c max`) or the highest rate (`--rate max`).
//!
//! The module decides which options conflict with a search, and which loads must meet the limits of
//! `--fail-on`.

use super::output::report_loads;
use super::rounds::{LoadMode, LoadRequest};
use crate::CommandStatus;
use crate::options::{Concurrency, LoadArgs, load_mode};
use anyhow::{bail, ensure};
use speedwell_analysis as analysis;
use speedwell_analysis::load::LoadFindings;
use speedwell_engine::execution::load::LoadRun;
use speedwell_model::load::spec::LoadClient;
use speedwell_report::ReportSubject;

pub fn report_subject(args: &LoadArgs) -> ReportSubject {
    match load_mode(args) {
        LoadMode::Rate => ReportSubject::LoadRates,
        LoadMode::Concurrency(_) | LoadMode::Levels(_) => ReportSubject::LoadLevels,
        LoadMode::AsSpecified => ReportSubject::Loads,
    }
}

/// Rejects options that conflict with a search.
///
/// # Errors
/// Fails if there are such options.
pub fn check_options(args: &LoadArgs) -> anyhow::Result<()> {
    let mode = load_mode(args);
    let options = &args.search;
    ensure!(
        matches!(mode, LoadMode::Concurrency(_))
            || (options.step, options.patience, options.concurrency_limit) == (None, None, None),
        "--step, --patience and --concurrency-limit apply only to a search for the best \
         concurrency\nhint: add -c max"
    );
    if mode == LoadMode::AsSpecified {
        return Ok(());
    }
    let is_open = args.rate.is_some() || !args.spec.ramp.is_empty();
    if mode != LoadMode::Rate && is_open {
        bail!(
            "--rate and --ramp send requests on a schedule, so they cannot be combined with -c max \
             or several levels of concurrency\nhint: with a single number, -c sets the initial \
             connections"
        );
    }
    if mode == LoadMode::Rate {
        let is_single =
            !matches!(&args.concurrency, Some(Concurrency::Levels(levels)) if levels.len() > 1);
        ensure!(
            is_single && args.concurrency != Some(Concurrency::Max),
            "--rate max cannot be combined with several levels of concurrency"
        );
        ensure!(
            args.spec.ramp.is_empty(),
            "--rate max tries constant rates and cannot be combined with --ramp"
        );
        ensure!(
            args.runs.is_none(),
            "--rate max determines how often each rate is tried, so --runs has no effect"
        );
    }
    ensure!(
        args.spec.count.is_none(),
        "every level or rate is measured for the same time, so --count has no effect\nhint: -t 2s sets this time"
    );
    ensure!(
        args.spec.client == LoadClient::Builtin,
        "several levels or rates can be measured only with the builtin client: other tools do \
         not report whether they reached the level"
    );
    Ok(())
}

/// Stores and reports a search, or loads at several levels. The function `limits_apply` decides to
/// which loads the limits of `--fail-on` apply.
pub fn finish_search(
    args: &LoadArgs,
    request: &LoadRequest,
    runs: &[LoadRun],
) -> anyhow::Result<CommandStatus> {
    let mode = &request.mode;
    let applies_limits =
        |findings: &[LoadFindings], load: &LoadFindings| limits_apply(mode, findings, load);
    let status = report_loads(args, request, runs, applies_limits)?;
    let has_no_success = runs.iter().all(|run| run.measured.totals.outcomes.succeeded() == 0);
    let is_any_partial = runs.iter().any(|run| run.is_partial);
    let is_generator_limited = *mode == LoadMode::Rate && is_limited_by_generator(args, runs);
    let outcome = if has_no_success || is_any_partial || is_generator_limited {
        CommandStatus::FAILED
    } else {
        CommandStatus::DONE
    };
    Ok(outcome.combine_with_gate(status))
}

/// Whether the search has no answer because the load generator was the bottleneck.
fn is_limited_by_generator(args: &LoadArgs, runs: &[LoadRun]) -> bool {
    let loads: Vec<LoadFindings> = runs.iter().map(analysis::load::analyze_load).collect();
    let rates = analysis::load::group_by_rate(&loads, &args.fail_on);
    rates.iter().any(|rates| rates.refused_at.is_some())
}

/// Whether the limits of `--fail-on` apply to this load. Without a search, they apply to all loads.
/// A search for the highest rate uses them itself, so they apply to none of its loads. In a search
/// for the best concurrency, they apply to the loads at the best concurrency, or to all loads if
/// the search found none.
fn limits_apply(mode: &LoadMode, findings: &[LoadFindings<'_>], load: &LoadFindings<'_>) -> bool {
    if !matches!(mode, LoadMode::Concurrency(_)) {
        return *mode != LoadMode::Rate;
    }
    let levels = analysis::load::group_by_level(findings);
    let matching = levels.iter().find(|levels| levels.label == load.run.label);
    let scaling = matching.and_then(|levels| levels.scaling.as_ref());
    let knee = scaling.map(|scaling| scaling.answer.at_knee().concurrency);
    knee.is_none() || load.run.requested.concurrency() == knee
}
