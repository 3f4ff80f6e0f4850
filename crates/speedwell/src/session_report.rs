//! Reports a session or experiment that was just measured or is stored, and chooses the exit status.
//! A stored session can have any size. Start at [`report_session`].

use crate::gate::{CommandGate, every_metric};
use crate::options::{FailOn, MeasureTask, OutputArgs};
use crate::stored_session::SessionSelection;
use crate::{CommandStatus, status, stored_session};
use anyhow::Context;
use speedwell_analysis::experiment::analyze_experiment;
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, warmup};
use speedwell_compat::erlperf;
use speedwell_config::experiment::Experiment;
use speedwell_model::experiment::{ExperimentDesign, ReportOutput as Wanted};
use speedwell_model::{DefinitionFile, Session, SteadyRule};
use speedwell_report::session::report_requested;
use speedwell_report::{self as report, OutputOptions};
use speedwell_store::Store;
use std::path::PathBuf;

/// Analyzes a session that is in memory, reports it, and evaluates the gate (the check that
/// `--fail-on` requests).
///
/// # Errors
/// Returns an error if the session does not have a requested metric, or an output cannot be
/// written.
pub fn report_session(session: &Session, task: &MeasureTask) -> anyhow::Result<CommandStatus> {
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
        return Ok(gate.exit_status());
    }
    let output = task.output.report_settings();
    let study = task.study.study_choice();
    let mut document = report_requested((session, None), &findings, &study, settings, &output)?;
    document.append_document(report::report_measurement_details(&[(None, session)], &findings));
    let status = gate.print_report(document, &task.output)?;
    if let Some(hint) = analysis::pairs_hint(session, &findings, settings) {
        status::print_hint(&hint);
    }
    Ok(status)
}

/// Analyzes a session that recorded time series of iterations (`speedwell warmup`), reports it, and
/// evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written.
fn report_series(
    session: &Session,
    rule: &SteadyRule,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let findings = warmup::analyze_warmup(session, rule, &task.settings);
    let mut document =
        report::report_warmup(&findings, &session.environment, &task.output.report_settings());
    document.append_document(report::report_measurement_details(
        &[(None, session)],
        &findings.findings,
    ));
    let failures = status::status_of_failures(&session.failures);
    let gate = CommandGate::from_outcome(findings.judge_gate(task.fail_on), failures);
    gate.print_report(document, &task.output)
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
) -> anyhow::Result<Option<CommandGate>> {
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
pub fn report_stored(
    stored_session: (&Store, i64),
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
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
        Some(document) => gate.print_report(document, &task.output),
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
) -> anyhow::Result<CommandStatus> {
    let experiment = Experiment::parse(definition)?;
    let findings = analyze_experiment(session, &experiment, &task.settings);
    let options = OutputOptions { flames: task.profile, ..task.output.report_settings() };
    let mut document = report::report_experiment(&findings, &experiment, &options);
    document.append_document(report::report_measurement_details(
        &[(None, session)],
        &AnalysisFindings::default(),
    ));
    let output = OutputArgs {
        output: if task.output.output.is_empty() {
            declared_files(&experiment, document.charts().next().is_some())
        } else {
            task.output.output.clone()
        },
        ..task.output.clone()
    };
    let outcome = findings.judge_gates(&experiment, session, task.fail_on);
    let gate = CommandGate::from_outcome(outcome, status::status_of_failures(&findings.failures));
    gate.print_report(document, &output)
}

/// Returns the declared output files, named after the experiment and in the current folder. A
/// Markdown report has its charts in a separate file.
fn declared_files(experiment: &ExperimentDesign, has_charts: bool) -> Vec<PathBuf> {
    let formats = experiment.outputs.iter().flat_map(|output| match output {
        Wanted::Report(formats) => formats.as_slice(),
        _ => &[],
    });
    let extensions = formats.flat_map(|format| match format.as_str() {
        "markdown" if has_charts => vec!["md", "svg"],
        "markdown" => vec!["md"],
        other => vec![other],
    });
    extensions.map(|extension| PathBuf::from(format!("{}.{extension}", experiment.name))).collect()
}
