//! `speedwell run`: plans, measures, reports and uploads. Start at [`run`].

use super::large_sessions::{self, SessionSelection};
use super::options::{FleetArgs, MeasureTask, RunArgs};
use super::session_report::{report_session, report_stored};
use super::{
    CommandStatus, fleet, gate, measurement, push, rehearsal, resume, serve, status, trial,
};
use crate::features::warmup::measure::{SeriesLength, plan_series};
use crate::profile_recording::record_profiles;
use anyhow::ensure;
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, SourceKind};
use speedwell_engine::{MeasuredSession, PreparedPlan};
use speedwell_machine::process::InterruptedEarly;
use speedwell_model::{ComparedClock, RunOrder, Session, StoppingDesign};
use speedwell_report::{ChartKind, ReportSubject};
use speedwell_store::Store;
use std::path::{Path, PathBuf};

/// Measures, analyzes, reports, and evaluates the gate.
///
/// # Errors
/// Fails if an option is invalid, a target is unknown, or the store cannot be written.
pub fn run(args: RunArgs) -> anyhow::Result<CommandStatus> {
    ensure!(
        args.execution.order != RunOrder::Parallel,
        "'--order parallel' needs snippets\nhint: 'speedwell eval' measures snippets"
    );
    let task = args.measure_task();
    let mut store = task.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => resume::load_interrupted_plan(
            &store,
            session,
            args.execution.budget,
            &mut task.progress_display(),
        )?,
        None => PreparedPlan::read(&args.measure_request()?, &mut task.progress_display())?,
    };
    let dashboard = args.dashboard.then(|| task.store.database.database_path()).transpose()?;
    serve::with_dashboard(dashboard.as_deref(), || execute_plans(plans, &mut store, &task))
}

/// Lists the cases, tries the cases, or measures and reports them, as requested.
///
/// # Errors
/// Fails if the store or an output cannot be written.
pub fn execute_plans(
    plans: PreparedPlan,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    ensure!(
        !task.profile || plans.plan.design.experiment.is_some(),
        "--profile needs an experiment, but these are benchmark files, whose runs do a varying \
         amount of work depending on how long they take\nhint: 'speedwell new overhead' creates an experiment for a command; \
         docs/guide/profiles.md explains how to compare recordings of other programs"
    );
    ensure!(
        task.execution.order != RunOrder::Paired
            || task.execution.clock != Some(ComparedClock::Wall),
        "'--order paired' compares processor time, because on a shared processor, wall-clock time depends \
         on scheduling\nhint: leave out --clock wall"
    );
    ensure!(
        !task.execution.estimate_cycles || plans.plan.design.counting.is_some(),
        "--estimate-cycles needs instruction counts\nhint: add --metric instructions"
    );
    if task.execution.list {
        return trial::list_cases(&plans, task);
    }
    if task.execution.test {
        return trial::test_cases(&plans, task);
    }
    let plans = match &task.steady {
        Some(rule) if plans.resumed.is_none() => {
            plan_series(plans, SeriesLength::Usual, *rule, &mut task.progress_display())?
        }
        _ => plans,
    };
    check_report(&plans.plan, task)?;
    gate::reject_before_measuring(&plans.plan, task)?;
    rehearsal::check_report(&plans.plan, task)?;
    let plan = plans.plan.clone();
    let (measured, status) = measure_in_parts(plans, store, task)?;
    if status == CommandStatus::INTERRUPTED && has_nothing(&measured, store)? {
        return Err(InterruptedEarly.into());
    }
    let mut session = measured.session;
    if task.fleet.detach {
        return fleet::report_detached(&session, status);
    }
    let report_status = if measured.in_parts {
        report_stored((&*store, session.number.unwrap_or_default()), task)
    } else if status == CommandStatus::DONE {
        record_and_report(&plan, &mut session, store, task)
    } else {
        report_session(&session, task)
    };
    // Upload even if reporting failed, because the session has been measured.
    let push_status = push::push_pending(&task.owing, &session, store)?;
    Ok(status.combine_with_gate(report_status?).combine_with_gate(push_status))
}

/// Records profiles if requested, and reports.
fn record_and_report(
    plan: &SessionPlan,
    session: &mut Session,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let (settings, is_requested) = (&task.settings, task.profile);
    let ended = record_profiles(
        plan,
        session,
        settings,
        is_requested,
        store,
        &mut task.progress_display(),
    )?;
    Ok(CommandStatus::from_session_end(ended).combine_with_gate(report_session(session, task)?))
}

/// Measures and stores a session. If the session ended early, prints an error or a note. Returns
/// the session and the exit status.
///
/// # Errors
/// Fails if the store cannot be written, or the session is too large to load.
pub fn measure_session(
    plans: PreparedPlan,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<(Session, CommandStatus)> {
    let (measured, status) = measure_in_parts(plans, store, task)?;
    let number = measured.session.number.unwrap_or_default();
    let session = if measured.in_parts {
        large_sessions::load_selected((&*store, number), &SessionSelection::default())?
    } else {
        measured.session
    };
    Ok((session, status))
}

/// Does the same as [`measure_session`], but does not load the runs of a large session.
fn measure_in_parts(
    plans: PreparedPlan,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<(MeasuredSession, CommandStatus)> {
    check_inputs(&plans.plan, task)?;
    let fleet = match &plans.resumed {
        Some(resumed) if !store.list_shards(resumed.number)?.is_empty() => {
            Some(FleetArgs::resumed_fleet()?)
        }
        _ => task.fleet.fleet_request()?,
    };
    let measured = measurement::measure_session(
        plans,
        &task.session_request(),
        fleet.as_ref(),
        store,
        &mut task.progress_display(),
    )?;
    let status = match &measured.ended {
        Ok(ended) => CommandStatus::from_session_end(*ended),
        Err(error) => {
            status::print_error(error);
            CommandStatus::FAILED
        }
    };
    let has_results = status != CommandStatus::INTERRUPTED || !has_nothing(&measured, store)?;
    if status != CommandStatus::DONE && has_results && !task.store.no_save && !task.fleet.detach {
        status::print_note(&resume_note(status, &measured, store, task)?);
    }
    if let Some(advice) = &measured.advice {
        status::print_hint(advice);
    }
    Ok((measured, status))
}

/// Whether no run and no failure of the session was stored.
fn has_nothing(measured: &MeasuredSession, store: &Store) -> anyhow::Result<bool> {
    let number = measured.session.number.unwrap_or_default();
    Ok(!measured.in_parts
        && measured.session.runs.is_empty()
        && measured.session.failures.is_empty()
        && store.list_shards(number)?.is_empty()
        && store.finished_slots(number)?.is_empty())
}

/// Rejects `-o` files that would replace a benchmark file, a definition file, a measured program,
/// or a file in a snippet's search path.
fn check_inputs(plan: &SessionPlan, task: &MeasureTask) -> anyhow::Result<()> {
    let files = plan.jobs.iter().map(|job| job.source.file.as_path());
    let snippets = plan.jobs.iter().filter_map(|job| job.snippet.as_ref());
    let paths = snippets.flat_map(|snippet| snippet.paths.iter().map(PathBuf::as_path));
    let programs = plan.variants.iter().filter_map(|variant| variant.program.as_deref());
    let experiment = plan.design.experiment.as_ref();
    let definition = experiment.map(|experiment| experiment.file.as_path());
    let mut inputs: Vec<&Path> = files.chain(paths).chain(programs).chain(definition).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs.retain(|path| path.is_file());
    task.output.check_inputs(inputs)
}

/// Rejects options that the report would reject after measuring.
fn check_report(plan: &SessionPlan, task: &MeasureTask) -> anyhow::Result<()> {
    if task.study.x_axis.is_some() {
        return task.output.check_report(ReportSubject::Study);
    }
    if plan.design.steady.is_some_and(|rule| !rule.is_metric) {
        return task.output.check_report(ReportSubject::Warmup);
    }
    let subject =
        if plan.variants.len() > 1 { ReportSubject::Comparison } else { ReportSubject::Runs };
    if plan.design.experiment.is_some() {
        return task.output.check_report(subject);
    }
    let is_snippet = |job: &BenchmarkJob| matches!(job.source.kind, SourceKind::Snippet(_));
    if plan.jobs.iter().all(is_snippet) {
        return task.output.check_report(ReportSubject::Snippets);
    }
    ensure!(
        task.output.chart != Some(ChartKind::Line),
        "a line chart needs a parameter study (--x-axis NAME)"
    );
    task.output.check_report(subject)
}

/// Explains how to resume a session that ended early.
fn resume_note(
    status: CommandStatus,
    measured: &MeasuredSession,
    store: &Store,
    task: &MeasureTask,
) -> anyhow::Result<String> {
    let number = measured.session.number.unwrap_or_default();
    let outcome = match status {
        CommandStatus::INTERRUPTED => {
            let done = store.finished_slots(number)?.len();
            let done = progress_text(done, measured.planned, &measured.session.design.stopping);
            format!("interrupted: {done}; completed runs are stored")
        }
        _ => "completed runs are stored".to_owned(),
    };
    Ok(format!(
        "{outcome}; resume with: speedwell {} --resume @{number}{}{}",
        task.resume_command,
        task.gate_options,
        task.store.database.db_option()
    ))
}

/// Formats the progress, such as `only 1 of up to 128 runs was done`. For a sequential test, the
/// planned number is a maximum.
fn progress_text(done: usize, planned: usize, stopping: &StoppingDesign) -> String {
    let total_prefix = match stopping {
        StoppingDesign::Fixed { .. } => "",
        StoppingDesign::Sequential { .. } => "up to ",
    };
    let verb = if done == 1 { "was" } else { "were" };
    format!("only {done} of {total_prefix}{planned} runs {verb} done")
}
