//! `speedwell confirm`: measures both sides of a suspected change again.
//!
//! This module decides what to measure, and records the outcome in the store. It takes the case and
//! the target from a session that has measured them. `analysis::confirm` decides how many runs a
//! confirmation takes. Start at [`run`].

use crate::options::{FailOn, MeasureTask, RunArgs, hide_unused};
use crate::stored_session::load_interrupted_plan;
use crate::{CommandStatus, run as measuring, status};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use regex::Regex;
use speedwell_adapters::BenchmarkJob;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::confirm::{ConfirmationResult, read_confirmations};
use speedwell_analysis::{self as analysis, AnalysisSettings, TestingCorrection, identify_machine};
use speedwell_engine::{self as engine, MeasureRequest, PreparedPlan, RevisionRequest};
use speedwell_model::{
    ChangeState, IntervalEstimate, Machine, RecordedChange, SeriesKey, Session, SessionPurpose,
    Variant,
};
use speedwell_report::{self as report, Document, ReportBlock, ReportSubject};
use speedwell_store::{Store, StoredSeries};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Measure both sides of a suspected change again, to confirm or refute it
///
/// Both sides are measured on this machine in randomised blocks of four, with 14 to 48 runs per side. If a change does
/// not exist, the chance that it is confirmed is at most 1%. Earlier measurements do not count, so the change is not
/// overstated. CHANGE is a number from 'speedwell history changes': its revisions, case and target are taken from the
/// store, and the result is stored there.
///
/// Exit status 1 if a change is not confirmed.
#[derive(Debug, Args)]
#[command(
    mut_arg("targets", |arg| arg.value_name("CHANGE|TARGET").help(
        "Numbers of changes; with --old and --new, targets to measure")
        .required_unless_present("resume")),
    mut_arg("by", |arg| arg.requires("x_axis")),
    mut_args(|arg| hide_unused(arg, UNUSED_OPTIONS)),
    // mut_arg moves an argument to the end. Call it for `arguments`, because the argument after
    // '--' must be the last.
    mut_arg("arguments", |arg| arg),
    after_help = "Examples:
  speedwell confirm 7 --build 'make bench'
  speedwell confirm --old rev:v1.4 --new rev:HEAD --build 'make bench' ./bench -f parse
  speedwell confirm --old ./bench-old --new ./bench-new -f parse bench.toml
  speedwell confirm --resume @latest")]
pub struct ConfirmArgs {
    #[command(flatten)]
    measuring: RunArgs,
}

/// Options of `run` that a confirmation decides itself ([`check_options`]).
const UNUSED_OPTIONS: &str =
    "runs precision confidence correct fail_on order method x_axis by log chart";

/// Measures the changes again and reports the outcome.
///
/// # Errors
/// Fails if a change is unknown, a side cannot be built, or the store cannot be written.
pub fn run(ConfirmArgs { measuring: args }: ConfirmArgs) -> anyhow::Result<CommandStatus> {
    check_options(&args)?;
    let task = confirm_task(args.measure_task());
    task.output.check_report(ReportSubject::Confirmation)?;
    let mut store = task.open_store()?;
    if let Some(session) = &args.execution.resume {
        let plans = load_interrupted_plan(&store, session, &task)?;
        ensure!(
            plans.plan.design.purpose == SessionPurpose::Confirm,
            "session {session} is not a confirmation\nhint: speedwell run --resume {session}"
        );
        let suspects = changes_in_plan(&store, &plans.plan)?;
        return measure_and_record(plans, &suspects, &mut store, &task);
    }
    if args.variants.is_any() {
        let mut request = args.measure_request()?;
        request.plan.purpose = SessionPurpose::Confirm;
        return measure_suspects(&request, &[], &mut store, &task);
    }
    let mut request = MeasureRequest { plan: args.plan_request()?, ..MeasureRequest::default() };
    let variants = &mut request.variants;
    variants.build.clone_from(&args.variants.build);
    variants.arguments.clone_from(&args.arguments);
    confirm_changes(&parse_numbers(&args.targets)?, &request, &mut store, &task)
}

/// Measures stored changes again and records the outcomes. Changes between the same revisions of
/// one target share a session.
///
/// # Errors
/// Fails if a change is unknown, a side cannot be built, or the store cannot be written.
pub fn confirm_changes(
    numbers: &[i64],
    request: &MeasureRequest,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let mut status = CommandStatus::DONE;
    for (suspects, request) in group_changes(store, numbers, request)? {
        status = status.worse_of(measure_suspects(&request, &suspects, store, task)?);
    }
    Ok(status)
}

fn parse_numbers(words: &[String]) -> anyhow::Result<Vec<i64>> {
    let number = |text: &String| {
        text.parse().map_err(|_| {
            anyhow!(
                "cannot parse '{text}': expected the number of a change\nhint: 'speedwell history changes' lists them; --old rev:OLD --new \
                 rev:NEW measures '{text}' at two revisions"
            )
        })
    };
    words.iter().map(number).collect()
}

fn check_options(args: &RunArgs) -> anyhow::Result<()> {
    let sampling = &args.sampling;
    ensure!(
        args.variants.old.is_some() == args.variants.new.is_some(),
        "a confirmation measures two revisions or programs\nhint: add --new rev:HEAD"
    );
    ensure!(
        sampling.runs.is_none()
            && sampling.precision.is_none()
            && args.results.comparison.confidence.is_none(),
        "a confirmation determines the number of runs itself, for an error rate of 1%\nhint: leave out --runs, \
         --precision and --confidence"
    );
    ensure!(
        args.results.comparison.fail_on == FailOn::Never,
        "a confirmation is a gate itself: its exit status is 1 if a change is not confirmed\nhint: leave out --fail-on"
    );
    ensure!(
        !args.execution.excludes_blocks() && args.results.comparison.method.is_none(),
        "a confirmation uses randomised blocks and the rank test: --order and --method cannot be set\nhint: leave out --order and --method"
    );
    ensure!(
        args.results.study.x_axis.is_none(),
        "a confirmation compares two sides and cannot be a parameter study\nhint: leave out --x-axis"
    );
    Ok(())
}

/// Adapts a measuring task to a confirmation.
pub fn confirm_task(task: MeasureTask) -> MeasureTask {
    MeasureTask {
        settings: AnalysisSettings {
            correction: TestingCorrection::Holm,
            // In a confirmation, the plan contains the threshold.
            threshold: None,
            ..task.settings
        },
        resume_command: "confirm",
        ..task
    }
}

/// Measures both sides and records the outcome. Does not measure sides that are the same program.
fn measure_suspects(
    request: &MeasureRequest,
    suspects: &[SuspectChange],
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let mut plans = PreparedPlan::read(request, &mut task.progress_display())?;
    keep_cases(suspects, &mut plans)?;
    ensure!(
        plans.plan.variants.len() == 2,
        "a confirmation compares exactly two sides\nhint: name them with --old and --new"
    );
    if task.execution.list || task.execution.test {
        return measuring::execute_plans(plans, store, task);
    }
    // Measuring the same program twice says nothing about a change.
    if engine::are_identical(&plans.plan) {
        task.output.print_document(&report::report_identical())?;
        for suspect in suspects {
            record_outcome(suspect, None, None, store)?;
        }
        return Ok(CommandStatus::NEGATIVE);
    }
    measure_and_record(plans, suspects, store, task)
}

/// Measures, reports the outcome, and records it.
fn measure_and_record(
    plans: PreparedPlan,
    suspects: &[SuspectChange],
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let (session, ended) = measuring::measure_session(plans, store, task)?;
    let mut settings = task.settings.clone();
    if settings.metrics.is_empty() {
        let names = suspects.iter().map(|suspect| suspect.series.metric.name.clone());
        settings.metrics = names.collect::<BTreeSet<String>>().into_iter().collect();
    }
    let findings = analysis::analyze_session(&session, &settings);
    let is_increase = |case: &str, metric: &str| {
        Some(suspects.iter().find(|suspect| suspect.is_of(case, metric))?.change.ratio.value > 1.0)
    };
    let mut document: Document =
        report::report_confirmation(&findings, &is_increase, &task.output.report_settings());
    if let Some(note) = other_machines_note(&session, suspects) {
        document.push(ReportBlock::Note(note));
    }
    document.append_details(&session, &findings);
    task.output.print_document(&document)?;
    let confirmations = read_confirmations(&findings, &is_increase);
    for (comparison, row, outcome) in &confirmations {
        let (case, metric) = (row.case.id(), &comparison.metric.name);
        if outcome.is_some()
            && let Some(suspect) = suspects.iter().find(|suspect| suspect.is_of(&case, metric))
        {
            record_outcome(suspect, session.number, *outcome, store)?;
        }
    }
    let mut outcomes = confirmations.iter().map(|(.., outcome)| outcome);
    let is_done = !confirmations.is_empty()
        && outcomes.all(|outcome| matches!(outcome, Some(ConfirmationResult::Confirmed(_))));
    let status_of_changes = if is_done { CommandStatus::DONE } else { CommandStatus::NEGATIVE };
    Ok(ended.worse_of(status_of_changes).worse_of(status::status_of_failures(&findings.failures)))
}

/// Returns a note if some of the suspects were measured only on other machines. The note names
/// these machines.
fn other_machines_note(session: &Session, suspects: &[SuspectChange]) -> Option<String> {
    let this_machine = identify_machine(&session.environment, session.origin.as_ref());
    let earlier_machines: BTreeSet<&str> = (suspects.iter())
        .filter(|suspect| !suspect.machines.iter().any(|machine| machine.id == this_machine.id))
        .flat_map(|suspect| suspect.machines.iter().map(Machine::title))
        .collect();
    (!earlier_machines.is_empty()).then(|| {
        let earlier_machines: Vec<&str> = earlier_machines.into_iter().collect();
        format!(
            "Measured again on {}, but the history was measured on {}: changes specific to other machines do not show here.",
            this_machine.title(),
            earlier_machines.join(", ")
        )
    })
}

/// Records the outcome for a change in the store and prints it. `outcome` is `None` if both sides
/// are the same program.
fn record_outcome(
    suspect: &SuspectChange,
    session: Option<i64>,
    outcome: Option<ConfirmationResult>,
    store: &mut Store,
) -> anyhow::Result<()> {
    let change = suspect.change.clone();
    let ratio = outcome.map_or(change.ratio, |outcome| {
        let IntervalEstimate { value, low, high } = outcome.change();
        IntervalEstimate { value: 1.0 + value, low: 1.0 + low, high: 1.0 + high }
    });
    let is_confirmed = matches!(outcome, Some(ConfirmationResult::Confirmed(_)));
    let state = if is_confirmed { ChangeState::Confirmed } else { ChangeState::Refuted };
    status::print_note(&format!("change {} is {state}", change.number));
    store.store_confirmation(&RecordedChange { state, ratio, confirmed_by: session, ..change })
}

/// A stored change to measure again.
#[derive(Debug, Clone)]
pub struct SuspectChange {
    /// The change.
    pub change: RecordedChange,
    /// The series of the change.
    pub series: SeriesKey,
    /// Machines with points of the series.
    pub machines: Vec<Machine>,
}

impl SuspectChange {
    fn new(store: &Store, change: RecordedChange, series: StoredSeries) -> Result<SuspectChange> {
        let points = store.load_points(&[series.number])?;
        let numbers: BTreeSet<i64> = points.iter().map(|point| point.machine).collect();
        let machines =
            numbers.into_iter().map(|number| store.find_machine(number)).collect::<Result<_>>()?;
        Ok(SuspectChange { change, series: series.key, machines })
    }

    /// Whether this is a change of `metric` in `case`.
    pub fn is_of(&self, case: &str, metric: &str) -> bool {
        self.series.case == case && self.series.metric.name == metric
    }
}

/// Keeps only the cases of these changes in the plans; all cases if there are no changes.
///
/// # Errors
/// Fails if a case is missing.
pub fn keep_cases(suspects: &[SuspectChange], plans: &mut PreparedPlan) -> Result<()> {
    if suspects.is_empty() {
        return Ok(());
    }
    for SuspectChange { change, series, .. } in suspects {
        ensure!(
            plans.plan.jobs.iter().any(|job| measures_series(job, series)),
            "the revisions of change {} no longer have case '{}'",
            change.number,
            series.case
        );
    }
    let series = suspects.iter().map(|suspect| &suspect.series);
    plans.plan.jobs.retain(|job| series.clone().any(|series| measures_series(job, series)));
    Ok(())
}

fn measures_series(job: &BenchmarkJob, series: &SeriesKey) -> bool {
    job.case.as_ref().map_or(job.label == series.case, |case| case.id() == series.case)
}

/// Changes between the same two revisions of one target, and the request that measures them in one
/// session.
type SuspectGroup = (Vec<SuspectChange>, MeasureRequest);

/// Groups the changes with these numbers. One session can confirm a group. `request` supplies the
/// options.
///
/// # Errors
/// Fails if a change does not exist or is a gradual drift, or if no stored session has its target.
fn group_changes(
    store: &Store,
    numbers: &[i64],
    request: &MeasureRequest,
) -> Result<Vec<SuspectGroup>> {
    let mut groups: Vec<SuspectGroup> = Vec::new();
    for number in numbers {
        let (suspect, request) = prepare_change(store, *number, request)?;
        let revisions =
            |suspect: &SuspectChange| (suspect.change.before.clone(), suspect.change.after.clone());
        let is_of_group = |(suspects, group_request): &&mut SuspectGroup| {
            suspects.iter().all(|other| revisions(other) == revisions(&suspect))
                && group_request.targets == request.targets
                && group_request.variants.given == request.variants.given
        };
        match groups.iter_mut().find(is_of_group) {
            Some((suspects, group_request)) => {
                let selection = &mut group_request.selection;
                selection.filters.extend(request.selection.filters);
                selection.sets.extend(request.selection.sets);
                selection.sets.sort();
                selection.sets.dedup();
                suspects.push(suspect);
            }
            None => groups.push((vec![suspect], request)),
        }
    }
    Ok(groups)
}

/// Finds the stored changes that an interrupted session was to measure again.
///
/// # Errors
/// Fails if the store cannot be read.
fn changes_in_plan(store: &Store, plan: &SessionPlan) -> Result<Vec<SuspectChange>> {
    let commit =
        |variant: usize| Some(plan.variants.get(variant)?.worktree.as_ref()?.revision.as_str());
    let (Some(before), Some(after)) = (commit(0), commit(1)) else { return Ok(Vec::new()) };
    let mut suspects = Vec::new();
    for series in store.list_series()? {
        if !plan.jobs.iter().any(|job| measures_series(job, &series.key)) {
            continue;
        }
        for number in store.find_changes_between(series.number, before, after)? {
            let change = store.find_change(number)?.change;
            suspects.push(SuspectChange::new(store, change, series.clone())?);
        }
    }
    Ok(suspects)
}

/// Returns the change with this number, and what to measure. `request` supplies the options.
///
/// # Errors
/// Fails if the change does not exist or is a gradual drift, or if no stored session has its
/// target.
pub fn prepare_change(
    store: &Store,
    number: i64,
    request: &MeasureRequest,
) -> Result<(SuspectChange, MeasureRequest)> {
    let stored = store.find_change(number)?;
    let found = store.list_series()?.into_iter().find(|series| series.number == stored.series);
    let series = found.context("the series of the change no longer exists")?;
    let change = stored.change;
    ensure!(
        !change.is_drift,
        "change {number} is a gradual drift, not a step between two revisions\nhint: --old rev:OLD \
         --new rev:NEW compares any two revisions"
    );
    let (job, variant) = find_job(store, &series)?;
    let mut request = request.clone();
    request.targets = vec![job.source.to_operand()];
    let case = job.case.as_ref();
    let values = case.map(|case| case.values.as_slice()).unwrap_or_default();
    if !job.source.is_program() {
        let sets = values.iter().map(|(name, value)| (name.clone(), value.plain()));
        request.selection.sets.extend(sets);
    }
    let name = case.map_or(&job.source.name, |case| &case.benchmark);
    request.selection.filters = vec![Regex::new(&format!("^{}$", regex::escape(name)))?];
    let named_variant = |name: &str| Variant {
        name: name.to_owned(),
        program: None,
        worktree: None,
        ..variant.clone()
    };
    request.variants.given = vec![named_variant("before"), named_variant("after")];
    request.variants.revisions =
        vec![revision_variant(0, &change.before, None), revision_variant(1, &change.after, None)];
    request.plan.purpose = SessionPurpose::Confirm;
    Ok((SuspectChange::new(store, change, series)?, request))
}

/// Requests that a variant has the code of a revision, and is named after it. `program` is built from
/// the revision; without it, the target itself comes from the revision.
pub fn revision_variant(
    variant: usize,
    revision: &str,
    program: Option<&PathBuf>,
) -> RevisionRequest {
    let (revision, program) = (revision.to_owned(), program.cloned());
    RevisionRequest { variant, revision, program, names_variant: true }
}

/// Finds a case's job in the newest session that planned the case. Also returns the series' variant
/// in that plan or, if it is missing, the plan's first variant.
fn find_job(store: &Store, series: &StoredSeries) -> Result<(BenchmarkJob, Variant)> {
    let key = &series.key;
    for point in store.load_points(&[series.number])?.iter().rev() {
        let text = store.session_plan(point.session)?.unwrap_or_default();
        let Ok(plan) = serde_json::from_str::<SessionPlan>(&text) else { continue };
        if let Some(job) = plan.jobs.iter().find(|job| measures_series(job, key)) {
            let same_variant = plan.variants.iter().find(|variant| variant.name == key.variant);
            let planned = same_variant.or(plan.variants.first());
            let mut variant = planned.context("the plan has no variants")?.clone();
            if variant.worktree.take().is_some() {
                // The environment refers to another worktree. It is filled in again for the new
                // worktree.
                variant.environment.clear();
            }
            return Ok((job.clone(), variant));
        }
    }
    bail!(
        "no session records the target of '{}': its results were imported, or the case was \
         renamed\nhint: speedwell confirm --old rev:OLD --new rev:NEW TARGET",
        key.case
    )
}
