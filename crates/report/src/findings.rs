//! Reports findings. [`report_requested`] chooses the kind of report that suits a session, and
//! [`report_findings`] shows the comparison or the summary, with failures, charts and every case.

use crate::charts::{ChartKind, MAX_DRAWN_RUNS, count_runs, draw_findings};
use crate::comparison::report_comparison;
use crate::document::Document;
use crate::failures::{report_failures_of, report_validity};
use crate::output::{OutputOptions, Verbosity};
use crate::summary::report_summaries;
use anyhow::ensure;
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, bisect, snippet};
use speedwell_model::experiment::ExperimentDesign;
use speedwell_model::{Session, SessionPurpose};

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

/// Builds the requested report: a parameter study with `--x-axis`, otherwise the report that suits
/// the session and its findings. `experiment` is the design of a session that is an experiment.
///
/// # Errors
/// Fails if a parameter is unknown, or a requested chart or unit does not suit the results.
pub fn report_requested(
    (session, experiment): (&Session, Option<&ExperimentDesign>),
    findings: &AnalysisFindings,
    study: &StudyChoice,
    settings: &AnalysisSettings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let is_unrestricted = study.x_axis.is_none() && settings.metrics.is_empty();
    if let Some(experiment) = experiment.filter(|_| is_unrestricted) {
        let found = analysis::experiment::analyze_experiment(session, experiment, settings);
        ensure!(
            output.chart != Some(ChartKind::Flame) || !found.profiles.is_empty(),
            "flame graphs need profiles, but none were recorded\nhint: measure with --profile"
        );
        return Ok(crate::experiment::report_experiment(&found, experiment, output));
    }
    if let Some(rule) = session.design.steady.filter(|rule| is_unrestricted && !rule.is_metric) {
        let found = analysis::warmup::analyze_warmup(session, &rule, settings);
        return Ok(crate::warmup::report_warmup(&found, &session.environment, output));
    }
    if let Some(found) = bisect::analyze_bisection(session).filter(|_| is_unrestricted) {
        return Ok(crate::revisions::report_bisection(&found, &session.failures, output));
    }
    if session.design.purpose == SessionPurpose::Confirm && is_unrestricted {
        return Ok(crate::revisions::report_confirmation(findings, &|_, _| None, output));
    }
    match &study.x_axis {
        Some(x_axis) => {
            let found = analysis::study_parameter(session, x_axis, study.by.as_deref(), settings)?;
            crate::study::report_study(&found, study.log, output)
        }
        None if settings.metrics.is_empty() && snippet::has_only_snippets(session) => {
            report_snippet_session(session, findings, settings, output)
        }
        None => report_findings(findings, output),
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
    crate::snippet::check_snippet_unit(output.unit, &[], false)?;
    let figures = snippet::snippet_figures(session, confidence);
    let warnings = snippet::snippet_warnings(session, &figures, settings);
    let is_alone = findings.comparisons.is_empty();
    let compared = if is_alone { None } else { Some(report_findings(findings, output)?) };
    let mut document =
        crate::snippet::report_snippets(&figures, &warnings, findings, compared, output);
    if is_alone && output.wants_chart() {
        document.push_charts(draw_findings(findings, output.chart, output.unit)?);
    }
    Ok(document)
}

/// Reports `findings`: the comparison, or the summary if there is nothing to compare. Adds
/// warnings, failures and charts.
///
/// # Errors
/// Fails if the requested unit fits none of the metrics, if the findings have no chart of the
/// requested kind, or if an HTML page would have more runs than a browser can hold.
pub fn report_findings(
    findings: &AnalysisFindings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    check_unit(findings, output)?;
    let mut document = Document::default();
    document.push_warnings(&findings.warnings);
    document.append_document(report_validity(&findings.validity));
    let is_measured = !findings.summaries.is_empty() || !findings.comparisons.is_empty();
    if !is_measured {
        document.push_headline("nothing was measured");
    }
    // Build the summary only if it is shown: in large reports, it takes as much memory as the
    // comparison.
    let summary = || report_summaries(&findings.summaries, output);
    let is_compared = !findings.comparisons.is_empty();
    let main = if is_compared { report_comparison(findings, output) } else { summary() };
    document.report = main.report;
    document.append_document(main);
    if is_compared && output.verbosity == Verbosity::Verbose {
        document.push_heading(2, "Each side by itself");
        document.append_document(summary());
    }
    document.append_document(report_failures_of(&findings.failures, is_measured, output.verbosity));
    document.push_charts(draw_findings(findings, output.chart, output.unit)?);
    match count_runs(findings) {
        ..=MAX_DRAWN_RUNS => document.extend(crate::gallery::findings_gallery(findings, output)),
        runs => ensure!(
            !output.wants_page(),
            "cannot make an HTML page of {runs} runs: it would draw every run, and a browser can \
             hold only {MAX_DRAWN_RUNS}\n\
             hint: leave cases out (@latest::REGEX, --filter), or write Markdown: -o report.md"
        ),
    }
    Ok(document)
}

fn check_unit(findings: &AnalysisFindings, output: &OutputOptions) -> anyhow::Result<()> {
    let Some(unit) = output.unit else { return Ok(()) };
    let summarized = findings.summaries.iter().map(|summary| &summary.metric);
    let metrics = summarized.chain(findings.comparisons.iter().map(|found| &found.metric));
    // Without a comparison, the time per iteration is shown next to throughput, so a unit of time
    // also fits throughput.
    let with_time = findings.comparisons.is_empty() && unit.fits("ns");
    let fits = |symbol: &str| unit.fits(symbol) || (with_time && symbol == "1/s");
    let mut units: Vec<&str> = metrics.map(|metric| metric.unit.as_str()).collect();
    units.dedup();
    ensure!(
        units.is_empty() || units.iter().copied().any(fits),
        "no metric can be shown in '{unit}' (the metrics are measured in {})",
        units.join(", ")
    );
    Ok(())
}
