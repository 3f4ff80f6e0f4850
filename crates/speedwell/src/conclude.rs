//! Reports a finished session and picks the exit status, for a session that was just measured or a
//! stored one of any size. Start at [`conclude`].

use super::gate::{Gate, every_metric};
use super::large::{self, Wanted};
use super::options::{FailOn, Task};
use super::{Status, experiment, status};
use anyhow::Context;
use speedwell_analysis::{self as analysis, Findings, Settings, warmup};
use speedwell_compat::erlperf::style;
use speedwell_model::{Session, SteadyRule};
use speedwell_report as report;
use speedwell_report::session::document_of;
use speedwell_results::store::Store;
use speedwell_suite::experiment::Experiment;

/// Analyzes a session that was just measured, reports it, and evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written.
pub fn conclude(session: &Session, task: &Task) -> anyhow::Result<Status> {
    let settings = &task.settings;
    let is_whole = task.study.x_axis.is_none() && settings.metrics.is_empty();
    if let Some(written) = &session.design.experiment
        && is_whole
    {
        return experiment::conclude(session, written, task);
    }
    if let Some(rule) = &session.design.steady.filter(|rule| !rule.is_metric)
        && is_whole
    {
        return conclude_series(session, rule, task);
    }
    if !session.metrics.is_empty() {
        // For a session without results, the report shows the failures instead.
        let known = session.metrics.iter().map(|metric| metric.name.as_str());
        analysis::check_metrics(settings, known).context("in --metric")?;
    }
    let mut findings = analysis::analyse(session, settings);
    task.store.mark(&mut findings, [session]);
    let gate = Gate::new(&findings, task.fail_on, || {
        every_metric(settings).map(|all| analysis::analyse(session, &all))
    });
    if let Some(style) = task.style {
        let mut text = Vec::new();
        style::write(session, style, &mut text)?;
        status::say(text)?;
        gate.say();
        return Ok(gate.status());
    }
    let output = task.output.settings();
    let mut document = document_of(session, &findings, &task.study.choice(), settings, &output)?;
    document.append(report::circumstances(&[(None, session)], &findings));
    gate.add_to(&mut document, &task.output);
    task.output.print(&document)?;
    if let Some(hint) = analysis::pairs_hint(session, &findings, settings) {
        status::hint(&hint);
    }
    Ok(gate.status())
}

/// Analyzes a just-measured session of series, reports it, and evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written.
fn conclude_series(session: &Session, rule: &SteadyRule, task: &Task) -> anyhow::Result<Status> {
    let found = warmup::analyse(session, rule, &task.settings);
    let mut document = report::warmup(&found, &session.environment, &task.output.settings());
    document.append(report::circumstances(&[(None, session)], &found.findings));
    let failures = status::of_failures(&session.failures);
    let gate = Gate::of(found.gate(task.fail_on), failures);
    gate.add_to(&mut document, &task.output);
    task.output.print(&document)?;
    Ok(gate.status())
}

/// Evaluates the gate of a stored session that has rules of its own: an experiment's, or those for
/// series. Returns `None` for a session that is judged by its findings.
///
/// # Errors
/// Returns an error if the experiment cannot be read.
pub fn own_gate(
    session: &Session,
    settings: &Settings,
    fail_on: FailOn,
) -> anyhow::Result<Option<Gate>> {
    if !settings.metrics.is_empty() {
        return Ok(None);
    }
    let outcome = if let Some(written) = &session.design.experiment {
        let experiment = Experiment::parse(written)?;
        if experiment.compare.gates.is_empty() && fail_on == FailOn::Never {
            None
        } else {
            let found = analysis::experiment::analyse(session, &experiment, settings);
            found.gate(&experiment, session, fail_on)
        }
    } else if let Some(rule) = session.design.steady.filter(|rule| !rule.is_metric) {
        let judge = || warmup::analyse(session, &rule, settings).gate(fail_on);
        (fail_on != FailOn::Never).then(judge).flatten()
    } else {
        return Ok(None);
    };
    Ok(Some(Gate::of(outcome, Status::DONE)))
}

/// Analyzes a stored session of any size, reports it, and evaluates the gate.
///
/// # Errors
/// Returns an error if an output cannot be written, or the session has too many runs for the task.
pub fn conclude_stored(of: (&Store, i64), task: &Task) -> anyhow::Result<Status> {
    let (wanted, output) = (Wanted::default(), task.output.settings());
    let mut gate = Gate::default();
    let mut mark = |findings: &mut Findings, header: &Session| {
        task.store.mark(findings, [header]);
        gate = Gate::new(findings, task.fail_on, || None);
    };
    let document = match task.study.x_axis {
        None => large::document(of, &wanted, &task.settings, &output, &mut mark)?,
        Some(_) => None,
    };
    match document {
        Some(mut document) => {
            gate.add_to(&mut document, &task.output);
            task.output.print(&document).map(|()| gate.status())
        }
        None => conclude(&large::chosen(of, &wanted)?, task),
    }
}
