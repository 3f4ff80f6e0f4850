//! Implements the functions of the command line that pages of the dashboard call ([`LOOKUPS`]), so
//! that references to sessions and default options have the same meaning there.

use crate::comment::PullAnswer;
use crate::history::project::{HistoryRequest, load_history, summarize_sessions};
use crate::options::{ComparisonArgs, default_threshold, mark_known};
use crate::{CommandStatus, comment, operand, source, stored_session};
use anyhow::{Result, anyhow};
use clap::{Args, FromArgMatches};
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::Session;
use speedwell_report::sources::LabelledSession;
use speedwell_server::clients::forge::CommitState;
use speedwell_server::dashboard::{
    CommandLookups, ComparisonSource, GateResult, PlanSummary, TrendQuery,
};
use speedwell_store::{Store, StoreErrorKind};
use std::path::Path;

/// The functions.
pub const LOOKUPS: CommandLookups = CommandLookups {
    session: |store, word| Ok(stored_session::find_session(store, word)?.number),
    sources: read_sources,
    settings: |options| Ok(parse_comparison(options)?.analysis_settings(&[], None)),
    mark_known,
    gate: evaluate_gate,
    planned: read_plan_summary,
    summarize: |path| {
        with_derived_store(path, |store| summarize_sessions(store, SESSIONS_PER_REQUEST))
    },
    history: load_trend,
};

/// Maximum number of sessions summarized while a request waits; the background thread handles the
/// rest.
const SESSIONS_PER_REQUEST: usize = 200;

const MAX_POINTS: usize = 5_000;

fn read_sources(store: &Store, references: &[String]) -> Result<Vec<ComparisonSource>> {
    let sources = source::read_stored(&operand::parse_stored(references)?, store)?;
    let comparison_sources = sources.into_iter().map(|(source, note)| ComparisonSource {
        label: source.label,
        session: source.session,
        variant: source.variant,
        resolved_as: note,
    });
    Ok(comparison_sources.collect())
}

fn evaluate_gate(
    store: &Store,
    references: &[String],
    options: &[(&str, &str)],
) -> Result<GateResult> {
    let comparison = parse_comparison(options)?;
    let answer = compare_sources(store, &read_sources(store, references)?, &comparison)?;
    Ok(GateResult {
        status: match answer.state {
            CommitState::Failure => CommandStatus::NEGATIVE.code(),
            CommitState::Error => CommandStatus::FAILED.code(),
            CommitState::Success | CommitState::Pending => CommandStatus::DONE.code(),
        },
        message: answer.description,
    })
}

pub fn compare_sources(
    store: &Store,
    sources: &[ComparisonSource],
    comparison: &ComparisonArgs,
) -> Result<PullAnswer> {
    let labelled: Vec<LabelledSession<'_>> = sources
        .iter()
        .map(|source| (source.label.clone(), &source.session, source.variant.clone()))
        .collect();
    let sessions: Vec<&Session> = sources.iter().map(|source| &source.session).collect();
    let settings = comparison.analysis_settings(&[], None);
    comment::answer_from_comparison(&labelled, &settings, comparison.fail_on, |findings| {
        mark_known(findings, &sessions, store);
    })
}

/// Parses comparison options in the same way as the command line.
///
/// # Errors
/// Fails if an option is unknown, or its value is invalid.
pub fn parse_comparison(options: &[(&str, &str)]) -> Result<ComparisonArgs> {
    let arguments = options.iter().map(|(name, value)| format!("--{name}={value}"));
    let parsed = ComparisonArgs::augment_args(clap::Command::new("compare").no_binary_name(true))
        .try_get_matches_from(arguments)
        .and_then(|matches| ComparisonArgs::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let text = error.to_string();
        anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })
}

fn load_trend(path: &Path, query: &TrendQuery, max_missing: usize) -> Result<ProjectHistory> {
    let request = HistoryRequest {
        branch: query.branch.clone(),
        case: query.case.clone(),
        metrics: query.metrics.clone(),
        threshold: default_threshold()?,
        includes_details: query.includes_details,
        sessions_without_points: Some(max_missing),
        max_points: Some(MAX_POINTS),
        ..HistoryRequest::default()
    };
    with_derived_store(path, |store| load_history(store, &request))
}

/// Runs `work`, which stores derived data. If the disk is full, runs `work` again on a copy of the
/// store, so that results can still be viewed.
fn with_derived_store<T>(path: &Path, work: impl Fn(&mut Store) -> Result<T>) -> Result<T> {
    let is_disk_full =
        |error: &anyhow::Error| StoreErrorKind::from_error(error) == StoreErrorKind::DiskFull;
    let result = work(&mut Store::open_to_derive(path)?);
    if result.as_ref().is_err_and(is_disk_full) && Store::server_address(path).is_none() {
        return work(&mut Store::open_copy_to_derive(path)?);
    }
    result
}

fn read_plan_summary(store: &Store, number: i64) -> Result<PlanSummary> {
    let Some(text) = store.session_plan(number)? else { return Ok(PlanSummary::default()) };
    // The plan may have a version that this program does not know; the page can still show the
    // runs.
    let Ok(plan) = serde_json::from_str::<SessionPlan>(&text) else {
        return Ok(PlanSummary::default());
    };
    Ok(PlanSummary {
        slots: if plan.is_search { 0 } else { plan.slots().len() },
        timeout_ms: plan.sampling.timeout_ms,
    })
}
