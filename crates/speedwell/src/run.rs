//! `speedwell run`: the whole data flow on one screen.

use super::conclude::{conclude, conclude_stored};
use super::large::{self, Wanted};
use super::options::{ClockName, FleetArgs, OrderName, RunArgs, Task};
use super::{Status, fleet, gate, push, rehearsal, serve, status, trial};
use anyhow::ensure;
use speedwell_harness::plan::Plan;
use speedwell_harness::{Job, Kind};
use speedwell_measure::{self as measure, MeasuredSession, Plans, SeriesLength, SessionRequest};
use speedwell_model::{Session, Stopping};
use speedwell_process::Interrupted;
use speedwell_report::{ChartKind, Subject};
use speedwell_results::store::Store;
use std::path::{Path, PathBuf};

/// Measures, analyzes, reports, and evaluates the gate.
///
/// # Errors
/// Fails on invalid options, unknown targets, and a store that cannot be written.
pub fn run(args: RunArgs) -> anyhow::Result<Status> {
    ensure!(
        args.execution.order != OrderName::Parallel,
        "only snippets can be measured at the same time\nhint: 'speedwell eval'"
    );
    let task = args.task();
    let mut store = task.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => {
            measure::resumed(&store, session, args.execution.budget, &mut task.progress())?
        }
        None => Plans::read(&args.request()?, &mut task.progress())?,
    };
    let dashboard = args
        .dashboard
        .then(|| task.store.database.path())
        .transpose()?;
    serve::beside(dashboard.as_deref(), || execute(plans, &mut store, &task))
}

/// Executes plans as the options request: lists, tries, or measures and reports.
///
/// # Errors
/// Fails if the store or an output cannot be written.
pub fn execute(plans: Plans, store: &mut Store, task: &Task) -> anyhow::Result<Status> {
    ensure!(
        !task.profile || plans.plan.design.experiment.is_some(),
        "--profile records the commands and servers of an experiment, and these are benchmark files: how much \
         their runs do depends on time\nhint: 'speedwell new overhead' makes an experiment of a command; \
         docs/guide/profiles.md tells how recordings of other programs are compared"
    );
    ensure!(
        task.execution.order != OrderName::Paired || task.execution.clock != Some(ClockName::Wall),
        "'--order paired' compares processor time: on a processor that is shared, the wall clock measures the turns\nhint: leave out --clock wall"
    );
    ensure!(
        !task.execution.with_cache_model || plans.plan.design.counting.is_some(),
        "--with-cache-model estimates cycles where instructions are counted\nhint: --metric instructions"
    );
    if task.execution.list {
        return trial::list(&plans, task);
    }
    if task.execution.test {
        return trial::test(&plans, task);
    }
    let plans = match &task.steady {
        Some(rule) if plans.resumed.is_none() => {
            measure::as_series(plans, SeriesLength::Usual, *rule, &mut task.progress())?
        }
        _ => plans,
    };
    check_report(&plans.plan, task)?;
    gate::refuse_before(&plans.plan, task)?;
    rehearsal::check(&plans.plan, task)?;
    let plan = plans.plan.clone();
    let (measured, ended) = measured(plans, store, task)?;
    if ended == Status::INTERRUPTED && has_nothing(&measured, store)? {
        return Err(Interrupted.into());
    }
    let mut session = measured.session;
    if task.fleet.detach {
        return fleet::left(&session, ended);
    }
    let reported = if measured.in_parts {
        conclude_stored((&*store, session.number.unwrap_or_default()), task)
    } else if ended == Status::DONE {
        recorded(&plan, &mut session, store, task)
    } else {
        conclude(&session, task)
    };
    // Upload even if reporting failed: the session is measured.
    let pushed = push::settle(&task.owing, &session, store)?;
    Ok(ended.of_gate(reported?).of_gate(pushed))
}

/// Records profiles if requested, and reports.
fn recorded(
    plan: &Plan,
    session: &mut Session,
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<Status> {
    let (settings, is_asked) = (&task.settings, task.profile);
    let recorded = measure::experiment::record(
        plan,
        session,
        settings,
        is_asked,
        store,
        &mut task.progress(),
    )?;
    Ok(Status::of_end(recorded).of_gate(conclude(session, task)?))
}

/// Measures and stores a session; reports how it ended and returns that as a status.
///
/// # Errors
/// Fails if the store cannot be written, or if there are too many runs to load together.
pub fn measure(plans: Plans, store: &mut Store, task: &Task) -> anyhow::Result<(Session, Status)> {
    let (measured, status) = measured(plans, store, task)?;
    let number = measured.session.number.unwrap_or_default();
    let session = if measured.in_parts {
        large::chosen((&*store, number), &Wanted::default())?
    } else {
        measured.session
    };
    Ok((session, status))
}

/// Like [`measure`], but leaves the runs out of memory if they are too many.
fn measured(
    plans: Plans,
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<(MeasuredSession, Status)> {
    check_inputs(&plans.plan, task)?;
    let fleet = match &plans.resumed {
        Some(resumed) if !store.parcels(resumed.number)?.is_empty() => Some(FleetArgs::resumed()?),
        _ => task.fleet.request()?,
    };
    let request = SessionRequest {
        fleet,
        ..task.session()
    };
    let measured = measure::measure(plans, &request, store, &mut task.progress())?;
    let status = match &measured.ended {
        Ok(ended) => Status::of_end(*ended),
        Err(error) => {
            status::tell(error);
            Status::COULD_NOT
        }
    };
    let is_begun = status != Status::INTERRUPTED || !has_nothing(&measured, store)?;
    if status != Status::DONE && is_begun && !task.store.no_save && !task.fleet.detach {
        status::note(&how_to_resume(status, &measured, store, task)?);
    }
    if let Some(advice) = &measured.advice {
        status::hint(advice);
    }
    Ok((measured, status))
}

/// Returns whether neither a run nor a failure of the session was stored.
fn has_nothing(measured: &MeasuredSession, store: &Store) -> anyhow::Result<bool> {
    let number = measured.session.number.unwrap_or_default();
    Ok(!measured.in_parts
        && measured.session.runs.is_empty()
        && measured.session.failures.is_empty()
        && store.parcels(number)?.is_empty()
        && store.finished_slots(number)?.is_empty())
}

/// Rejects files of `-o` that would replace a benchmark file, a definition file or a measured
/// program.
fn check_inputs(plan: &Plan, task: &Task) -> anyhow::Result<()> {
    let files = plan.jobs.iter().map(|job| job.source.file.as_path());
    let paths = plan.jobs.iter().filter_map(|job| job.snippet.as_ref());
    let paths = paths.flat_map(|snippet| snippet.paths.iter().map(PathBuf::as_path));
    let programs = plan
        .variants
        .iter()
        .filter_map(|variant| variant.program.as_deref());
    let definition = plan.design.experiment.iter().map(|own| own.file.as_path());
    let mut inputs: Vec<&Path> = files
        .chain(paths)
        .chain(programs)
        .chain(definition)
        .collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs.retain(|path| path.is_file());
    task.output.check_inputs(inputs)
}

/// Rejects, before anything is measured, what the report would reject afterwards.
fn check_report(plan: &Plan, task: &Task) -> anyhow::Result<()> {
    if task.study.x_axis.is_some() {
        return task.output.check(Subject::Study);
    }
    if plan.design.steady.is_some_and(|rule| !rule.is_metric) {
        return task.output.check(Subject::Warmup);
    }
    let runs = if plan.variants.len() > 1 {
        Subject::Comparison
    } else {
        Subject::Runs
    };
    if plan.design.experiment.is_some() {
        return task.output.check(runs);
    }
    let is_snippet = |job: &Job| matches!(job.source.kind, Kind::Snippet(_));
    if plan.jobs.iter().all(is_snippet) {
        return task.output.check(Subject::Snippets);
    }
    ensure!(
        task.output.chart != Some(ChartKind::Line),
        "a line chart needs a parameter study (--x-axis NAME)"
    );
    task.output.check(runs)
}

/// Explains how to resume a session that ended early.
fn how_to_resume(
    status: Status,
    measured: &MeasuredSession,
    store: &Store,
    task: &Task,
) -> anyhow::Result<String> {
    let number = measured.session.number.unwrap_or_default();
    let why = match status {
        Status::INTERRUPTED => {
            let done = store.finished_slots(number)?.len();
            let done = done_of(done, measured.planned, &measured.session.design.stopping);
            format!("interrupted: {done}; what was measured is kept")
        }
        _ => "what was measured until then is kept".to_owned(),
    };
    Ok(format!(
        "{why}, resume with: speedwell {} --resume @{number}{}{}",
        task.resumed_by,
        task.gate_words,
        task.store.database.words()
    ))
}

/// Formats `only 1 of up to 128 runs was done`: for a sequential test, the number of runs is a
/// maximum.
fn done_of(done: usize, planned: usize, stopping: &Stopping) -> String {
    let at_most = match stopping {
        Stopping::Fixed { .. } => "",
        Stopping::Sequential { .. } => "up to ",
    };
    let verb = if done == 1 { "was" } else { "were" };
    format!("only {done} of {at_most}{planned} runs {verb} done")
}
