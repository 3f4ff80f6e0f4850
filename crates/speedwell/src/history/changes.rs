//! `speedwell history changes`: lists changes, when they began and how certain they are, and
//! evaluates a gate.

use crate::gate::CommandGate;
use crate::history::project;
use crate::options::{FailOn, MeasureTask, OutputArgs, SeriesArgs, StoreArgs, hide_unused, parse};
use crate::stored_session::line_position;
use crate::{CommandStatus, confirm, status};
use anyhow::ensure;
use clap::Args;
use speedwell_analysis::gate::GateOutcome;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendSearch;
use speedwell_engine::{BuildArgs, MeasureRequest};
use speedwell_model::{ChangeState, MetricDirection, RecordedChange, Verdict};
use speedwell_report::{self as report, ReportSubject};
use speedwell_store::Store;
use std::collections::BTreeSet;

/// List changes in the history of a branch, when they began, and how certain they are
#[derive(Debug, Args)]
#[command(
    mut_arg("build", |arg| arg.requires("confirm")),
    mut_args(|arg| hide_unused(arg, "no_save"))
)]
pub struct ChangesArgs {
    #[command(flatten)]
    series: SeriesArgs,
    /// Show only changes after this revision or session, e.g. v1.4
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Show only changes that are neither triaged nor refuted
    #[arg(long)]
    open: bool,
    /// Exit with status 1 if an open change is for the worse
    ///
    /// With 'unclear', an open suspected change also sets status 1. The status is 2 if no series could be searched.
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = parse::choice(parse::FAIL_ON), help_heading = "Gate")]
    fail_on: FailOn,
    /// Pass if the history is too short to search
    #[arg(long, requires = "fail_on", help_heading = "Gate")]
    allow_short_history: bool,
    /// First re-measure open changes for the worse, on this machine
    ///
    /// The gate then considers only confirmed changes.
    #[arg(long, conflicts_with_all = ["format", "json", "no_save"], help_heading = "Gate")]
    confirm: bool,
    #[command(flatten, next_help_heading = "Gate")]
    build: BuildArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists the changes.
///
/// # Errors
/// Fails if the store cannot be read, if the branch, revision or metric does not exist, or if no
/// series could be searched for the gate.
pub fn run(args: ChangesArgs) -> anyhow::Result<CommandStatus> {
    args.output.check_report(ReportSubject::Changes)?;
    let mut store = args.store.open_to_derive()?;
    let request = args.series.history_request()?;
    project::check_metrics(&mut store, &request)?;
    let mut history = project::load_history(&mut store, &request)?;
    let position = |revision: &String| line_position(&store, &history.line, revision);
    let since_position = args.since.as_ref().map(position).transpose()?;
    let is_shown = |series: &SeriesTrend, change: &RecordedChange| {
        let is_new = since_position.is_none_or(|since_position| {
            series
                .trend
                .revision_position(&change.after)
                .is_none_or(|position| position > since_position)
        });
        is_new && (!args.open || change.is_open())
    };
    let mut confirm_status = CommandStatus::DONE;
    if args.confirm {
        confirm_status = confirm_changes(&args, &mut store, &history, &is_shown)?;
        history = project::load_history(&mut store, &request)?;
    }
    let mut document = report::report_changes(&history, &is_shown, &args.output.report_settings());
    let gate = evaluate_gate(&history, &is_shown, &args);
    if let Ok(gate) = &gate {
        gate.add_to(&mut document, &args.output);
    }
    args.output.print_document(&document)?;
    Ok(confirm_status.combine_with_gate(gate?.exit_status()))
}

/// Re-measures open changes for the worse, except confirmed changes and gradual drifts. Also
/// re-measures a series' newest point if it is far from the other points, although it does not
/// count as a change yet. A refuted change does not make the command fail.
fn confirm_changes(
    args: &ChangesArgs,
    store: &mut Store,
    history: &ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
) -> anyhow::Result<CommandStatus> {
    let mut numbers = Vec::new();
    for series in &history.series {
        let is_wanted = |change: &&RecordedChange| {
            let is_settled = change.state == ChangeState::Confirmed || change.is_drift;
            let is_worse = series.change_verdict(change, history.threshold) == Verdict::Worse;
            is_shown(series, change) && change.is_open() && is_worse && !is_settled
        };
        numbers.extend(series.trend.changes.iter().filter(is_wanted).map(|change| change.number));
        let newest = series.trend.change_of_newest();
        if let Some(newest) = newest.filter(|change| is_wanted(&change)) {
            // Store the newest point as a change, because the outcome needs the change's number.
            let changes = [&series.trend.changes[..], &[newest]].concat();
            let stored_changes = store.replace_changes(series.number, &history.line, &changes)?;
            numbers.extend(stored_changes.last().map(|change| change.number));
        }
    }
    let task =
        confirm::confirm_task(MeasureTask { store: args.store.clone(), ..MeasureTask::default() });
    let mut request = MeasureRequest::default();
    request.variants.build = args.build.clone();
    let status = confirm::confirm_changes(&numbers, &request, store, &task)?;
    Ok(if status == CommandStatus::NEGATIVE { CommandStatus::DONE } else { status })
}

/// Returns whether any series was searched. If none was, fails, unless some series are too short to
/// search and `allow_short_history` is set.
fn is_searchable(history: &ProjectHistory, allow_short_history: bool) -> anyhow::Result<bool> {
    let has_search = |matches_search: fn(&TrendSearch) -> bool| {
        let mut series = history.series.iter();
        series.any(|series| matches_search(&series.trend.search))
    };
    if has_search(|search| *search == TrendSearch::Done) {
        return Ok(true);
    }
    let is_too_short = has_search(|search| matches!(search, TrendSearch::TooShort(_)));
    let message = "nothing could be compared: no series has enough points";
    ensure!(
        is_too_short && allow_short_history,
        "{message}\nhint: speedwell compare --old rev:@base --new rev:HEAD compares two revisions directly; \
         --allow-short-history accepts a young history"
    );
    status::print_note(message);
    Ok(false)
}

/// Returns why a gate cannot judge some series: it is unknown whether higher or lower values of a
/// metric are better, or values are negative.
fn gate_obstacles(searched: &[&SeriesTrend], unsearched: &[&SeriesTrend]) -> Vec<String> {
    let undirected: BTreeSet<&str> = searched
        .iter()
        .filter(|series| series.key.metric.better == MetricDirection::Unknown)
        .map(|series| series.key.metric.name.as_str())
        .collect();
    let impossible_count = unsearched
        .iter()
        .filter(|series| matches!(series.trend.search, TrendSearch::Impossible(_)))
        .count();
    let mut obstacles: Vec<String> = undirected
        .iter()
        .map(|metric| {
            format!("it is unknown whether lower or higher values of '{metric}' are better")
        })
        .collect();
    if impossible_count > 0 {
        obstacles
            .push(format!("{impossible_count} series with negative values cannot be searched"));
    }
    obstacles
}

/// Evaluates the gate on changes in the history.
fn evaluate_gate(
    history: &ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
    args: &ChangesArgs,
) -> anyhow::Result<CommandGate> {
    let fail_on = args.fail_on;
    if fail_on == FailOn::Never || !is_searchable(history, args.allow_short_history)? {
        return Ok(CommandGate::default());
    }
    let fails_gate = |series: &SeriesTrend, change: &RecordedChange| {
        let counts = match change.state {
            ChangeState::Confirmed => true,
            _ if args.confirm => false,
            ChangeState::Suspected => fail_on == FailOn::Unclear,
            _ => true,
        };
        let verdict = series.change_verdict(change, history.threshold);
        is_shown(series, change) && change.is_open() && counts && fail_on.fails_on(verdict)
    };
    let failing_count: usize = history
        .series
        .iter()
        .map(|series| {
            series.trend.changes.iter().filter(|change| fails_gate(series, change)).count()
        })
        .sum();
    let (searched, unsearched): (Vec<&SeriesTrend>, Vec<&SeriesTrend>) =
        (history.series.iter()).partition(|series| series.trend.is_searched());
    let (change, changes) = if fail_on == FailOn::Unclear {
        ("unclear change or change for the worse", "unclear changes or changes for the worse")
    } else {
        ("change for the worse", "changes for the worse")
    };
    let failing_remark =
        (failing_count > 0).then(|| report::format_count(failing_count, change, changes));
    let unsearched_remark =
        (!unsearched.is_empty()).then(|| format!("{} not searched", unsearched.len()));
    let outcome = GateOutcome {
        judged: format!("{} series", searched.len()),
        failing: failing_remark.into_iter().collect(),
        obstacles: gate_obstacles(&searched, &unsearched),
        remarks: unsearched_remark.into_iter().collect(),
    };
    Ok(CommandGate::from_outcome(Some(outcome), CommandStatus::DONE))
}
