//! Builds the report of one session of any kind, for `speedwell report @N` and a server's page.
//!
//! This module chooses the kind of report that suits a session. Start at [`report_session`].

use crate::charts::ChartKind;
use crate::document::Document;
use crate::output::OutputOptions;
use anyhow::ensure;
use speedwell_analysis::load::LoadFindings;
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, bisect, snippet};
use speedwell_config::experiment::Experiment;
use speedwell_model::{Session, SessionPurpose, StoppingDesign};

#[cfg(test)]
mod by_cases_tests;

/// The requested parameter study, if any.
#[derive(Debug, Clone, Default)]
pub struct StudyChoice {
    /// The parameter on the x axis.
    pub x_axis: Option<String>,
    /// The parameter whose values are the lines of the chart.
    pub by: Option<String>,
    /// Whether the x axis is logarithmic.
    pub log: bool,
}

/// Builds the full report of a single session, with the details of its measurement. `mark` adds to
/// the findings what only the store knows. The details show the session's name, if any.
///
/// # Errors
/// Fails if the session lacks a requested parameter or metric, if a requested chart or unit does
/// not suit the results, or if loads cannot be read.
pub fn report_session(
    (name, session): (Option<&str>, &Session),
    study: &StudyChoice,
    settings: &AnalysisSettings,
    output: &OutputOptions,
    mark: impl FnOnce(&mut AnalysisFindings),
) -> anyhow::Result<Document> {
    // A user who chooses metrics, a study or a chart wants the report of the runs instead of the
    // loads.
    let asks_for_runs =
        study.x_axis.is_some() || !settings.metrics.is_empty() || output.chart.is_some();
    let settings = &widen_metrics(settings, session);
    let mut findings = analysis::analyze_session(session, settings);
    mark(&mut findings);
    let loads = speedwell_model::load::run::stored_loads(session)?;
    let shows_loads = session.design.experiment.is_none() && !loads.is_empty() && !asks_for_runs;
    let mut document = if shows_loads {
        let loads: Vec<_> = loads.iter().map(analysis::load::analyze_load).collect();
        report_load_session(session, &loads, settings, output)?
    } else {
        report_requested(session, &findings, study, settings, output)?
    };
    document.append_document(crate::report_measurement_details(&[(name, session)], &findings));
    Ok(document)
}

/// Does the same as [`report_session`] for a session whose runs do not fit into memory. `header` is
/// the session without its runs, `runs` is the number of runs, and `parts` supplies the runs as
/// [`analysis::analyze_in_parts`] requires. Parameter studies are not supported.
///
/// # Errors
/// Fails if the session lacks a requested metric, if a requested chart or unit does not suit the
/// results, or if `parts` fails.
pub fn report_session_in_parts(
    (header, runs): (&Session, usize),
    parts: impl Fn(&mut dyn FnMut(&Session)) -> anyhow::Result<()>,
    settings: &AnalysisSettings,
    output: &OutputOptions,
    mark: impl FnOnce(&mut AnalysisFindings),
) -> anyhow::Result<Document> {
    let settings = &widen_metrics(settings, header);
    let mut findings = analysis::analyze_in_parts(header, settings, parts)?;
    mark(&mut findings);
    let mut document = crate::report_findings(&findings, output)?;
    let sources = [(None, header, runs)];
    document.append_document(crate::measurement_details::report_measurement_details_of(
        &sources, &findings,
    ));
    Ok(document)
}

/// Includes all metrics if the session is a single load test by another tool and no metric was
/// chosen: the times of such a test matter as much as its rate.
fn widen_metrics(settings: &AnalysisSettings, session: &Session) -> AnalysisSettings {
    let is_load = session.metric("latency_p50").is_some();
    let is_alone = session.design.stopping == StoppingDesign::Fixed { runs: 1 };
    if settings.metrics.is_empty() && is_load && is_alone {
        AnalysisSettings { metrics: vec!["all".to_owned()], ..settings.clone() }
    } else {
        settings.clone()
    }
}

/// Builds the requested report: a parameter study with `--x-axis`, otherwise the report that suits
/// the session and its findings.
///
/// # Errors
/// Fails if a parameter is unknown, or a requested chart or unit does not suit the results.
pub fn report_requested(
    session: &Session,
    findings: &AnalysisFindings,
    study: &StudyChoice,
    settings: &AnalysisSettings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let experiment = session.design.experiment.as_ref();
    let is_unrestricted = study.x_axis.is_none() && settings.metrics.is_empty();
    if let Some(definition) = experiment.filter(|_| is_unrestricted) {
        let experiment = Experiment::parse(definition)?;
        let found = analysis::experiment::analyze_experiment(session, &experiment, settings);
        ensure!(
            output.chart != Some(ChartKind::Flame) || !found.profiles.is_empty(),
            "flame graphs need profiles, but none were recorded\nhint: measure with --profile"
        );
        return Ok(crate::report_experiment(&found, &experiment, output));
    }
    if let Some(rule) = session.design.steady.filter(|rule| is_unrestricted && !rule.is_metric) {
        let found = analysis::warmup::analyze_warmup(session, &rule, settings);
        return Ok(crate::report_warmup(&found, &session.environment, output));
    }
    if let Some(found) = bisect::analyze_bisection(session).filter(|_| is_unrestricted) {
        return Ok(crate::report_bisection(&found, &session.failures, output));
    }
    if session.design.purpose == SessionPurpose::Confirm && is_unrestricted {
        return Ok(crate::report_confirmation(findings, &|_, _| None, output));
    }
    match &study.x_axis {
        Some(x_axis) => {
            let found = analysis::study_parameter(session, x_axis, study.by.as_deref(), settings)?;
            crate::report_study(&found, study.log, output)
        }
        None if settings.metrics.is_empty() && snippet::has_only_snippets(session) => {
            report_snippet_session(session, findings, settings, output)
        }
        None => crate::report_findings(findings, output),
    }
}

/// Reports a session of snippets, with more figures of each snippet than the values of one metric.
fn report_snippet_session(
    session: &Session,
    findings: &AnalysisFindings,
    settings: &AnalysisSettings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let confidence = settings.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE);
    let levels = snippet::snippet_levels(session, confidence);
    if !levels.is_empty() {
        return Ok(crate::snippet::report_search(&levels, findings, output));
    }
    let figures = snippet::snippet_figures(session, confidence);
    let warnings = snippet::snippet_warnings(session, &figures, settings);
    let compared = if findings.comparisons.is_empty() {
        None
    } else {
        Some(crate::report_findings(findings, output)?)
    };
    let is_alone = compared.is_none();
    let mut document =
        crate::snippet::report_snippets(&figures, &warnings, findings, compared, output);
    if is_alone && output.chart.is_some() {
        document.push_charts(crate::charts::draw_findings(findings, output.chart, output.unit)?);
    }
    Ok(document)
}

/// Reports a session whose runs were HTTP loads, `loads`. A search for a level or a rate gets the
/// report of a search. Loads that were sent once get their own report, because a table of medians
/// of single values would say less. Repeated loads are reported like any other runs, followed by
/// their details.
///
/// # Errors
/// Fails if a unit or chart does not fit.
pub fn report_load_session(
    session: &Session,
    loads: &[LoadFindings<'_>],
    settings: &AnalysisSettings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let conditions = session_conditions(session);
    let levels = analysis::load::group_by_level(loads);
    let rates = analysis::load::group_by_rate(loads, &conditions);
    if !levels.is_empty() || !rates.is_empty() {
        return Ok(crate::load::report_search(loads, &levels, &rates, output));
    }
    let details = crate::load::report_loads(loads, output);
    let is_repeated = loads.iter().any(|load| load.run.round > 0);
    if !is_repeated || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document =
        crate::report_findings(&analysis::analyze_session(session, settings), output)?;
    document.append_document(details);
    Ok(document)
}

/// Returns the session's limits from `--fail-on`. A search for the highest rate depends on them.
fn session_conditions(session: &Session) -> Vec<LoadCondition> {
    let parsed = |text: &String| text.parse().ok();
    if !session.design.conditions.is_empty() {
        return session.design.conditions.iter().filter_map(parsed).collect();
    }
    // Older sessions have the limits only in the command line.
    let mut arguments = session.command.iter();
    let mut conditions = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = match argument.strip_prefix("--fail-on") {
            Some("") => arguments.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        conditions.extend(text.and_then(|text| text.parse().ok()));
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_from_the_design_or_from_the_options_of_older_sessions() {
        let words = ["speedwell", "load", "--fail-on", "p99>20ms", "--fail-on=errors>1%"];
        let rows = "\"filename\",\"configuration\",\"rate\",\"time\"\n\"a/b.js\",\"n=1\",10,1\n";
        let mut session = speedwell_formats::read("x", rows.as_bytes()).unwrap().remove(0);
        session.command = words.map(str::to_owned).to_vec();
        let texts = |session: &Session| -> Vec<String> {
            session_conditions(session).into_iter().map(|limit| limit.text).collect()
        };
        assert_eq!(texts(&session), ["p99>20ms", "errors>1%"]);
        session.design.conditions = vec!["p50>1ms".to_owned()];
        assert_eq!(texts(&session), ["p50>1ms"]);
    }
}
