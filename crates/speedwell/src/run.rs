//! `speedwell run`: plans, measures, stores, reports and uploads. Start at [`run`].
//!
//! Features that do their own planning and reporting call [`measure_plan`]. [`report_session`]
//! reports a session or experiment that was just measured or is stored, and chooses the exit
//! status; for a stored session of any size, see [`report_stored`].

use crate::features::push;
use crate::features::warmup::series::{SeriesLength, plan_series};
use crate::gate::{CommandGate, every_metric};
use crate::options::{FailOn, MeasureTask, RunArgs, fleet_request};
use crate::profile_recording::record_profiles;
use crate::serve::MeasuredSubject;
use crate::stored_session::SessionSelection;
use crate::{CommandStatus, gate, rehearsal, serve, status, stored_session};
use anyhow::{Context, Result, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::snippet::sh::is_not_started;
use speedwell_adapters::{self as adapters, BenchmarkJob};
use speedwell_analysis::experiment::analyze_experiment;
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, warmup};
use speedwell_compat::erlperf;
use speedwell_config::experiment::Experiment;
use speedwell_engine::execution::{ExecuteOptions, execute};
use speedwell_engine::{
    AnalysisStoppingRule, EventListener, MeasuredSession, PreparedPlan, SessionRequest,
    attach_definitions, check_plan, prepare_measurement, session_header, suggest_runs_per_build,
};
use speedwell_machine::process::{self, InterruptedEarly};
use speedwell_model::experiment::{ExperimentDesign, ReportOutput};
use speedwell_model::{
    ComparedClock, DefinitionFile, Metric, RunOrder, Session, SessionEvent, SessionObserver,
    SessionState, SteadyRule, StepFailure, StoppingDesign, Verdict,
};
use speedwell_remote::fleet::{FleetRequest, measure_on_fleet};
use speedwell_remote::roles;
use speedwell_report::{self as report, ChartKind, ChartRequest, OutputOptions, ReportSubject};
use speedwell_store::Store;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measures, analyzes, reports, and evaluates the gate.
///
/// # Errors
/// Fails if an option is invalid, a target is unknown, or the store cannot be written.
pub fn run(args: RunArgs) -> Result<CommandStatus> {
    ensure!(
        !args.execution.is_order(RunOrder::Parallel),
        "'--order parallel' needs snippets\nhint: 'speedwell eval' measures snippets"
    );
    read_and_execute(&args, |store, task| match &args.execution.resume {
        Some(session) => stored_session::load_interrupted_plan(store, session, task),
        None => PreparedPlan::read(&args.measure_request()?, &mut task.progress_display()),
    })
}

/// Opens the store, reads the plans, and executes them, under a dashboard if requested.
///
/// # Errors
/// Fails if the plans cannot be read, or the store or an output cannot be written.
pub fn read_and_execute(
    args: &RunArgs,
    read: impl FnOnce(&Store, &MeasureTask) -> Result<PreparedPlan>,
) -> Result<CommandStatus> {
    let task = args.measure_task();
    let mut store = task.open_store()?;
    let plans = read(&store, &task)?;
    let dashboard = args.dashboard.then(|| task.store.database.database_path()).transpose()?;
    serve::with_dashboard(dashboard.as_deref(), MeasuredSubject::Session, || {
        execute_plans(plans, &mut store, &task)
    })
}

/// Lists the cases, tries the cases, or measures and reports them, as requested.
///
/// # Errors
/// Fails if the store or an output cannot be written.
pub fn execute_plans(
    plans: PreparedPlan,
    store: &mut Store,
    task: &MeasureTask,
) -> Result<CommandStatus> {
    ensure!(
        !task.profile || plans.plan.design.experiment.is_some(),
        "--profile needs an experiment, but these are benchmark files, whose runs do different amounts of work\nhint: 'speedwell new overhead' creates an experiment for a command; \
         docs/guide/profiles.md explains how to compare recordings of other programs"
    );
    ensure!(
        plans.plan.design.order != RunOrder::Paired
            || task.execution.clock != Some(ComparedClock::Wall),
        "'--order paired' compares processor time, because on a shared processor, wall-clock time depends \
         on scheduling\nhint: leave out --clock wall"
    );
    ensure!(
        !task.execution.estimate_cycles || plans.plan.design.counting.is_some(),
        "--estimate-cycles needs instruction counts\nhint: add --metric instructions"
    );
    if task.execution.list {
        return rehearsal::list_cases(&plans, task);
    }
    if task.execution.test {
        return rehearsal::test_cases(&plans, task);
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
    let (mut measured, status) = measure_in_parts(plans, store, task)?;
    if status == CommandStatus::INTERRUPTED && has_nothing(&measured, store)? {
        return Err(InterruptedEarly.into());
    }
    if task.fleet.detach {
        return report_detached(&measured.session, status);
    }
    let report_status = report_measured((&mut measured, status), &plan, store, task);
    let session = measured.session;
    if report_status.is_err()
        && let Some(number) = session.number.filter(|_| !task.store.no_save)
    {
        let database = task.store.database.db_option();
        status::print_note(&format!("stored as @{number}{database}"));
    }
    // Upload even if reporting failed, because the session has been measured.
    let push_status = push::push_pending(&task.owing, &session, store)?;
    Ok(status.combine_with_gate(report_status?).combine_with_gate(push_status))
}

/// Prints the number of a detached session, and how to follow it.
fn report_detached(session: &Session, ended: CommandStatus) -> Result<CommandStatus> {
    if ended == CommandStatus::FAILED {
        return Ok(ended);
    }
    let number = session.number.unwrap_or_default();
    status::write_stdout(format!("@{number}\n"))?;
    status::print_note(&format!(
        "the workers were started; 'speedwell fleet status @{number}' shows their progress, and 'speedwell fleet \
         collect @{number}' waits for the results and reports them"
    ));
    Ok(CommandStatus::DONE)
}

/// Records profiles if requested, reports, and stores the gate's line.
fn report_measured(
    (measured, status): (&mut MeasuredSession, CommandStatus),
    plan: &SessionPlan,
    store: &mut Store,
    task: &MeasureTask,
) -> Result<CommandStatus> {
    let number = measured.session.number.unwrap_or_default();
    let mut profiled = CommandStatus::DONE;
    let gate = if measured.in_parts {
        report_stored((&*store, number), task)?
    } else {
        if status == CommandStatus::DONE {
            let ended = record_profiles(plan, &mut measured.session, store, task)?;
            profiled = CommandStatus::from_session_end(ended);
        }
        report_session(&measured.session, task)?
    };
    gate.store_line(number, store)?;
    Ok(profiled.combine_with_gate(gate.exit_status()))
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
) -> Result<(Session, CommandStatus)> {
    let (measured, status) = measure_in_parts(plans, store, task)?;
    let number = measured.session.number.unwrap_or_default();
    let session = if measured.in_parts {
        stored_session::load_selected((&*store, number), &SessionSelection::default())?
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
) -> Result<(MeasuredSession, CommandStatus)> {
    check_inputs(&plans.plan, task)?;
    let fleet = match &plans.resumed {
        Some(resumed) if !store.list_shards(resumed.number)?.is_empty() => {
            Some(fleet_request(None, None)?)
        }
        _ => task.fleet.fleet_request()?,
    };
    if fleet.is_none() {
        rehearsal::announce_time(&plans, task);
    }
    let measured = measure_plan(
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

/// Executes the plan on the machines of `fleet` or, without a fleet, on this machine. Stores every
/// result immediately, and finally reads the session from the store.
///
/// # Errors
/// Fails if the plan does not pass the checks, the store cannot be read, or the session cannot be
/// started. A failing benchmark is not an error.
pub fn measure_plan(
    mut plans: PreparedPlan,
    request: &SessionRequest,
    fleet: Option<&FleetRequest>,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<MeasuredSession> {
    check_plan(&mut plans)?;
    if let Some(fleet) = fleet {
        plans.plan.design.keep_order("--machines");
        return measure_on_fleet(plans, fleet, request, store, listener);
    }
    prepare_measurement(&mut plans, request, listener)?;
    execute_session(plans, request, store, listener)
}

/// Does the same as [`measure_plan`], but leaves the checks and warnings before measuring to the
/// caller.
///
/// # Errors
/// See [`measure_plan`].
pub fn execute_session(
    plans: PreparedPlan,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<MeasuredSession> {
    let PreparedPlan { mut plan, suite, resumed, held: mut lease } = plans;
    let is_resumed = resumed.is_some();
    let (mut recorder, finished) = match resumed {
        Some(earlier) => (store.resume_recording(earlier.number)?, earlier.finished),
        None => {
            let header = session_header(&plan, suite, request);
            let recorder = store.begin_recording(&header, &serde_json::to_string(&plan)?)?;
            (recorder, ExecuteOptions::default())
        }
    };
    let options = ExecuteOptions {
        fail_fast: request.fail_fast,
        time_budget: plan.sampling.budget_ms.map(Duration::from_millis),
        ..finished
    };
    let number = recorder.number();
    if let Some(url) = &request.push {
        recorder.queue_upload(url, process::unix_time_ms())?;
    }
    let mut stopping_rule = AnalysisStoppingRule::new(&plan, &request.settings);
    let mut reacquired = Ok(());
    let placement = (plan.design.experiment.as_mut()).and_then(|file| file.placement.as_mut());
    if let Some(placement) = placement.filter(|_| is_resumed) {
        // Acquire the machines only here: `resume_recording` has made sure that no other process
        // measures this session.
        let machines = roles::reacquire_machines(placement, listener);
        reacquired = machines.and_then(|machines| {
            lease = Some(Box::new(machines));
            attach_definitions(&mut plan)
        });
    }
    let ended = reacquired
        .and_then(|()| execute(&plan, options, &mut stopping_rule, &mut [&mut recorder, listener]));
    drop(lease);
    if ended.is_err() {
        // After an error such as a full disk, record an interrupt, so that the results are kept. If
        // that fails, the end of this process has the same effect.
        let end = SessionEvent::Finished { interrupted: true };
        let _ = recorder.observe(&end);
        let _ = listener.observe(&end);
    }
    drop(recorder);
    adapters::remove_builds();
    process::clear_interrupt();
    let stored = store.load_measured(number)?;
    store_spreads(&stored.0, store)?;
    Ok(MeasuredSession {
        advice: suggest_runs_per_build(&stored.0),
        ..MeasuredSession::new(stored, ended, plan.slots().len())
    })
}

/// Stores how much the session's builds differ. The analysis of later sessions with one build uses
/// this.
///
/// # Errors
/// Fails if the store cannot be accessed.
fn store_spreads(session: &Session, store: &mut Store) -> Result<()> {
    let (Some(number), true) = (session.number, session.design.shares_builds()) else {
        return Ok(());
    };
    let metrics: Vec<&Metric> = session.metrics.iter().collect();
    let spreads = store.with_session_by_cases(number, |stored| {
        let mut spreads = Vec::new();
        stored
            .for_each_part(&mut |part| spreads.extend(analysis::layout_spreads(part, &metrics)))?;
        Ok(spreads)
    })?;
    for spread in spreads {
        let values = (spread.components.groups, spread.components.between);
        store.store_layout_spread(number, (&spread.case, &spread.metric), values)?;
    }
    Ok(())
}

/// Whether no run and no failure of the session was stored.
fn has_nothing(measured: &MeasuredSession, store: &Store) -> Result<bool> {
    let number = measured.session.number.unwrap_or_default();
    Ok(!measured.in_parts
        && measured.session.runs.is_empty()
        && measured.session.failures.is_empty()
        && store.list_shards(number)?.is_empty()
        && store.finished_slots(number)?.is_empty())
}

/// Rejects `-o` files that would replace a benchmark file, a definition file, a measured program,
/// or a file in a snippet's search path.
fn check_inputs(plan: &SessionPlan, task: &MeasureTask) -> Result<()> {
    let files = plan.jobs.iter().map(|job| job.source.file.as_path());
    let snippets = plan.jobs.iter().filter_map(|job| job.snippet.as_ref());
    let paths = snippets.flat_map(|snippet| snippet.paths.iter().map(PathBuf::as_path));
    let programs = plan.variants.iter().filter_map(|variant| variant.program.as_deref());
    let experiment = plan.design.experiment.as_ref();
    let definition = experiment.map(|experiment| experiment.file.as_path());
    let inputs: BTreeSet<&Path> = files.chain(paths).chain(programs).chain(definition).collect();
    task.output.check_inputs(inputs.into_iter().filter(|path| path.is_file()))
}

/// Rejects options that the report would reject after measuring.
fn check_report(plan: &SessionPlan, task: &MeasureTask) -> Result<()> {
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
    if plan.jobs.iter().all(BenchmarkJob::is_snippet) {
        return task.output.check_report(ReportSubject::Snippets);
    }
    ensure!(
        task.output.chart_kind() != Some(ChartKind::Line),
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
) -> Result<String> {
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
    let total_prefix = if matches!(stopping, StoppingDesign::Fixed { .. }) { "" } else { "up to " };
    let verb = if done == 1 { "was" } else { "were" };
    format!("only {done} of {total_prefix}{planned} runs {verb} done")
}

/// Analyzes a session that is in memory, reports it, and evaluates the gate (the check that
/// `--fail-on` requests).
///
/// # Errors
/// Returns an error if the session does not have a requested metric, or an output cannot be
/// written.
pub fn report_session(session: &Session, task: &MeasureTask) -> Result<CommandGate> {
    let settings = &task.settings;
    let is_unrestricted = task.study.x_axis.is_none() && settings.metrics.is_empty();
    if let Some(definition) = &session.design.experiment
        && is_unrestricted
    {
        return report_experiment(session, definition, task);
    }
    if let Some(rule) = &session.design.steady.filter(|rule| !rule.is_metric)
        && is_unrestricted
    {
        return report_series(session, rule, task);
    }
    if !session.metrics.is_empty() {
        // For a session without results, the report shows the failures instead.
        let metric_names = session.metrics.iter().map(|metric| metric.name.as_str());
        analysis::check_metrics(settings, metric_names).context("in --metric")?;
    }
    let mut findings = analysis::analyze_session(session, settings);
    task.store.mark_findings(&mut findings, &[session]);
    let gate = CommandGate::new(&findings, task.fail_on, || {
        every_metric(settings).map(|all| analysis::analyze_session(session, &all))
    });
    if let Some(style) = task.style {
        let mut text = Vec::new();
        erlperf::write_session(session, style, &mut text)?;
        status::write_stdout(text)?;
        gate.print_line();
        return Ok(gate);
    }
    let next_step = resume_hint(session, &findings, task);
    let output =
        OutputOptions { has_resume_hint: next_step.is_some(), ..task.output.report_settings() };
    let study = task.study.study_choice();
    let mut document =
        report::report_requested((session, None), &findings, &study, settings, &output)?;
    document.append_details(session, &findings);
    gate.print_report(document, &task.output)?;
    if let Some(hint) = analysis::pairs_hint(session, &findings, settings) {
        status::print_hint(&hint);
    }
    if let Some(hint) = next_step {
        status::print_hint(&hint);
    }
    if stored_number(session, task).is_some() && session.failures.iter().any(is_command_failure) {
        status::print_hint("if the exit status is expected: speedwell time -i ...");
    }
    print_place(session, &findings, task);
    Ok(gate)
}

/// Whether a shell command was executed, and its exit status counts as a failure.
fn is_command_failure(failure: &StepFailure) -> bool {
    let is_status = failure.cause.to_string().starts_with("exited with status");
    failure.benchmark == "eval/sh" && is_status && !is_not_started(&failure.cause)
}

/// Runs a side that the hint for an unclear case suggests.
const CLOSER_RUNS: u32 = 64;

/// Returns the number of a session that is stored and reported to people.
fn stored_number(session: &Session, task: &MeasureTask) -> Option<i64> {
    let is_for_people = task.output.output_format().is_none() && !task.output.quiet;
    session.number.filter(|_| is_for_people && !task.store.no_save)
}

/// Says how to measure further if a case is unclear.
fn resume_hint(
    session: &Session,
    findings: &AnalysisFindings,
    task: &MeasureTask,
) -> Option<String> {
    let number = stored_number(session, task)?;
    let mut rows = findings.comparisons.iter().flat_map(|comparison| &comparison.rows);
    let is_unclear =
        rows.any(|row| row.verdict == Verdict::Unclear && row.is_judged() && !row.differs);
    let is_complete = session.state == SessionState::Complete
        && matches!(session.design.stopping, StoppingDesign::Sequential { .. });
    let command = task.resume_command;
    (is_unclear && is_complete && ["run", "time", "eval"].contains(&command)).then(|| {
        format!(
            "to look closer: speedwell {command} --resume @{number} --runs {CLOSER_RUNS}{}{}   \
             ({CLOSER_RUNS} new runs a side)",
            task.gate_options,
            task.store.database.db_option()
        )
    })
}

/// Says where the session is stored, and how its runs were ordered unless the report does.
fn print_place(session: &Session, findings: &AnalysisFindings, task: &MeasureTask) {
    let Some(number) = stored_number(session, task) else { return };
    let order = match session.design.order {
        _ if report::shows_commands(findings) => "",
        RunOrder::Blocks if session.variants.len() > 1 => "measured in random blocks, ",
        RunOrder::Paired => "measured in pairs on one CPU, ",
        _ => "",
    };
    status::print_note(&format!(
        "{order}stored as @{number}{}; details: speedwell report @{number} -v{}",
        task.store.database.describe_place(),
        task.store.database.db_option()
    ));
}

/// Analyzes a session that recorded time series of iterations (`speedwell warmup`), reports it, and
/// evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written.
fn report_series(session: &Session, rule: &SteadyRule, task: &MeasureTask) -> Result<CommandGate> {
    let findings = warmup::analyze_warmup(session, rule, &task.settings);
    let mut document =
        report::report_warmup(&findings, &session.environment, &task.output.report_settings());
    document.append_details(session, &findings.findings);
    let failures = status::status_of_failures(&session.failures);
    let gate = CommandGate::from_outcome(findings.judge_gate(task.fail_on), failures);
    gate.print_report(document, &task.output)?;
    Ok(gate)
}

/// Evaluates the gate of a stored experiment, or of a stored session that recorded time series of
/// iterations. Returns `None` for any other session, or if the settings select metrics. The caller
/// then evaluates the gate from the session's findings.
///
/// # Errors
/// Returns an error if the experiment cannot be read.
pub fn own_gate(
    session: &Session,
    settings: &AnalysisSettings,
    fail_on: FailOn,
) -> Result<Option<CommandGate>> {
    if !settings.metrics.is_empty() {
        return Ok(None);
    }
    let outcome = if let Some(definition) = &session.design.experiment {
        let experiment = Experiment::parse(definition)?;
        if experiment.compare.gates.is_empty() && fail_on == FailOn::Never {
            None
        } else {
            let findings = analysis::experiment::analyze_experiment(session, &experiment, settings);
            findings.judge_gates(&experiment, session, fail_on)
        }
    } else if let Some(rule) = session.design.steady.filter(|rule| !rule.is_metric) {
        let judge = || warmup::analyze_warmup(session, &rule, settings).judge_gate(fail_on);
        (fail_on != FailOn::Never).then(judge).flatten()
    } else {
        return Ok(None);
    };
    Ok(Some(CommandGate::from_outcome(outcome, CommandStatus::DONE)))
}

/// Analyzes a stored session of any size, reports it, and evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written, or the session has too many runs for the task.
pub fn report_stored(stored_session: (&Store, i64), task: &MeasureTask) -> Result<CommandGate> {
    let (selection, output) = (SessionSelection::default(), task.output.report_settings());
    let mut gate = CommandGate::default();
    let mut mark = |findings: &mut AnalysisFindings, header: &Session| {
        task.store.mark_findings(findings, &[header]);
        gate = CommandGate::new(findings, task.fail_on, || None);
    };
    let document = match task.study.x_axis {
        None => stored_session::large_document(
            stored_session,
            &selection,
            &task.settings,
            &output,
            &mut mark,
        )?,
        Some(_) => None,
    };
    match document {
        Some(document) => gate.print_report(document, &task.output).map(|_| gate),
        None => report_session(&stored_session::load_selected(stored_session, &selection)?, task),
    }
}

/// Reports an experiment, writes its output files, and evaluates its gates. `-o` overrides the
/// declared output files.
///
/// # Errors
/// Fails if an output cannot be written.
fn report_experiment(
    session: &Session,
    definition: &DefinitionFile,
    task: &MeasureTask,
) -> Result<CommandGate> {
    let experiment = Experiment::parse(definition)?;
    let findings = analyze_experiment(session, &experiment, &task.settings);
    let options = OutputOptions { flames: task.profile, ..task.output.report_settings() };
    let mut document = report::report_experiment(&findings, &experiment, &options);
    document.append_details(session, &AnalysisFindings::default());
    let mut output = task.output.clone();
    if output.output.is_empty() {
        // The file declares its charts, so all of them are requested.
        output.output = declared_files(&experiment, document.charts().next().is_some());
        output.chart = Some(ChartRequest::All);
    }
    let outcome = findings.judge_gates(&experiment, session, task.fail_on);
    let gate = CommandGate::from_outcome(outcome, status::status_of_failures(&findings.failures));
    gate.print_report(document, &output)?;
    Ok(gate)
}

/// Returns the declared output files, named after the experiment and in the current folder. A
/// Markdown report has its charts in a separate file.
fn declared_files(experiment: &ExperimentDesign, has_charts: bool) -> Vec<PathBuf> {
    let formats = experiment.outputs.iter().flat_map(|output| match output {
        ReportOutput::Report(formats) => formats.as_slice(),
        _ => &[],
    });
    let extensions = formats.flat_map(|format| match format.as_str() {
        "markdown" if has_charts => vec!["md", "svg"],
        "markdown" => vec!["md"],
        other => vec![other],
    });
    extensions.map(|extension| PathBuf::from(format!("{}.{extension}", experiment.name))).collect()
}
