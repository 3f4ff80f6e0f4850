//! What is said of a session at its end, and by which status: one that was just measured, or is stored and of any size. Start at
//! [`conclude`].

use super::large::{self, Wanted};
use super::options::{FailOn, Task};
use super::{Status, experiment, status};
use anyhow::Context;
use speedwell_analysis::warmup::{self, CaseWarmup, WarmupFindings};
use speedwell_analysis::{self as analysis, CaseComparison, Findings};
use speedwell_compat::erlperf::style;
use speedwell_model::{Session, SteadyRule};
use speedwell_report as report;
use speedwell_report::session::document_of;
use speedwell_results::store::Store;

/// Analyses a session that was just measured, reports, judges.
///
/// # Errors
/// An output that cannot be written.
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
        // Of a session without results the report shows the failures.
        let known = session.metrics.iter().map(|metric| metric.name.as_str());
        analysis::check_metrics(settings, known).context("in --metric")?;
    }
    let mut findings = analysis::analyse(session, settings);
    task.store.mark(&mut findings, [session]);
    if let Some(style) = task.style {
        let mut text = Vec::new();
        style::write(session, style, &mut text)?;
        status::say(text)?;
        return Ok(status::judge(&findings, task.fail_on));
    }
    let output = task.output.settings();
    let mut document = document_of(session, &findings, &task.study.choice(), settings, &output)?;
    document.append(report::circumstances(&[(None, session)], &findings));
    task.output.print(&document)?;
    if let Some(hint) = analysis::pairs_hint(session, &findings, settings) {
        status::hint(&hint);
    }
    Ok(status::judge(&findings, task.fail_on))
}

/// Analyses a session of series that was just measured, reports, judges.
///
/// # Errors
/// An output that cannot be written.
fn conclude_series(session: &Session, rule: &SteadyRule, task: &Task) -> anyhow::Result<Status> {
    let found = warmup::analyse(session, rule, &task.settings);
    let mut document = report::warmup(&found, &session.environment, &task.output.settings());
    document.append(report::circumstances(&[(None, session)], &found.findings));
    task.output.print(&document)?;
    let failures = status::of_failures(&session.failures);
    Ok(judge_series(&found, task.fail_on).or(failures))
}

/// Whether the gate lets the findings pass: nothing is refused for what the processes of a case do not agree on.
fn judge_series(found: &WarmupFindings, fail_on: FailOn) -> Status {
    let agreed: Vec<&CaseWarmup> = found.cases.iter().filter(|own| own.agrees()).collect();
    let is_agreed = |row: &CaseComparison, variant: &str| {
        agreed
            .iter()
            .any(|own| own.case == row.case && *own.variant == *variant)
    };
    let comparisons = found.findings.comparisons.iter();
    let mut verdicts = comparisons.flat_map(|of| {
        let both = |row: &&_| is_agreed(row, &of.baseline) && is_agreed(row, &of.candidate);
        of.rows.iter().filter(both).map(|row| row.verdict)
    });
    let never_steady = agreed.iter().any(|own| own.is_never_steady());
    let is_refused = fail_on != FailOn::Never
        && (never_steady || verdicts.any(|verdict| fail_on.refuses(verdict)));
    if is_refused { Status::NO } else { Status::DONE }
}

/// Analyses a stored session of any size, reports, judges.
///
/// # Errors
/// An output cannot be written, or the session has too many runs for the task.
pub fn conclude_stored(of: (&Store, i64), task: &Task) -> anyhow::Result<Status> {
    let (wanted, output) = (Wanted::default(), task.output.settings());
    let mut judged = Status::DONE;
    let mut mark = |findings: &mut Findings, header: &Session| {
        task.store.mark(findings, [header]);
        judged = status::judge(findings, task.fail_on);
    };
    let document = match task.study.x_axis {
        None => large::document(of, &wanted, &task.settings, &output, &mut mark)?,
        Some(_) => None,
    };
    match document {
        Some(document) => task.output.print(&document).map(|()| judged),
        None => conclude(&large::chosen(of, &wanted)?, task),
    }
}
