//! Compares the stored results of one or more sessions. `speedwell compare` prints the result for
//! sessions and files, and a server shows it on a page.
//!
//! This module chooses the pairs to compare and the measurement details to show. Start at
//! [`compare_sources`].

use crate::document::Document;
use crate::figure::{format_number, unless_empty};
use crate::findings::{StudyChoice, report_requested};
use crate::output::OutputOptions;
use anyhow::{bail, ensure};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings};
use speedwell_model::experiment::ExperimentDesign;
use speedwell_model::{ParameterValue, RunOrder, Session, StepFailure};

/// A label, a session, and the variant to compare. Without a variant, the session's baseline is
/// compared.
pub type LabelledSession<'a> = (String, &'a Session, Option<String>);

/// Compares several sources. The first source is the baseline. For a single source, compares its
/// variants.
///
/// # Errors
/// Fails if the only source has a single variant, or if only some sources are searches. A search
/// tries many rates, and each try would be mistaken for a load at a fixed rate.
pub fn compare_sources(
    sources: &[LabelledSession<'_>],
    settings: &AnalysisSettings,
) -> anyhow::Result<AnalysisFindings> {
    let searches = sources.iter().filter(|(_, session, _)| is_search(session));
    if (1..sources.len()).contains(&searches.count())
        && let Some(unlike) = unlike_loads_text(sources)
    {
        bail!("{unlike}");
    }
    check_orders(sources)?;
    let [(_, session, _)] = sources else {
        return Ok(analysis::compare_sources(sources, settings));
    };
    ensure!(
        session.variants.len() > 1,
        "there is only one variant to compare: '{}'\nhint: name a second source, or measure with --old and --new",
        session.variants.first().map_or("none", |v| v.name.as_str())
    );
    Ok(analysis::analyze_session(session, settings))
}

/// Rejects sessions of which only some were measured in pairs: sharing a processor raises their
/// times.
///
/// # Errors
/// Fails if two sources differ in this.
pub fn check_orders(sources: &[LabelledSession<'_>]) -> anyhow::Result<()> {
    let is_paired = |session: &Session| session.design.order == RunOrder::Paired;
    let find = |paired: bool| sources.iter().find(|(_, session, _)| is_paired(session) == paired);
    if let (Some((pairs, ..)), Some((other, session, _))) = (find(true), find(false)) {
        let order = match session.design.order {
            RunOrder::Blocks => "in blocks",
            _ => "in another order",
        };
        bail!("cannot compare levels: {pairs} was measured in pairs, {other} {order}");
    }
    Ok(())
}

/// Reports a comparison, with the measurement details of every session in it. `experiment` is the
/// design of the first session, if that is an experiment.
///
/// # Errors
/// Fails if a requested parameter, chart or unit does not suit the results.
pub fn report_sources(
    (sources, experiment): (&[LabelledSession<'_>], Option<&ExperimentDesign>),
    findings: &AnalysisFindings,
    study: &StudyChoice,
    settings: &AnalysisSettings,
    output: &OutputOptions,
) -> anyhow::Result<Document> {
    let Some((_, session, _)) = sources.first() else { return Ok(Document::default()) };
    let mut document = report_requested((session, experiment), findings, study, settings, output)?;
    // Sessions have names only if there are several.
    let mut sessions: Vec<(Option<&str>, &Session)> = Vec::new();
    for (label, session, _) in sources {
        if sessions.iter().all(|(_, other)| other.id != session.id) {
            sessions.push((Some(label.as_str()), session));
        }
    }
    if let [(name, _)] = &mut sessions[..] {
        *name = None;
    }
    document.append_document(crate::report_measurement_details(&sessions, findings));
    Ok(document)
}

/// Rejects a comparison without rows.
///
/// # Errors
/// Fails if no case has results on both sides.
pub fn check_rows(
    findings: &AnalysisFindings,
    sources: &[LabelledSession<'_>],
) -> anyhow::Result<()> {
    if findings.comparisons.iter().any(|found| !found.rows.is_empty()) {
        return Ok(());
    }
    if let Some(unlike) = unlike_loads_text(sources) {
        bail!("{unlike}");
    }
    if let Some(failed) = failed_side_text(&findings.failures) {
        bail!("nothing was compared: {failed}");
    }
    bail!(
        "nothing was compared: no case has results on both sides\nhint: '::REGEX' after each \
         source pairs cases of different names"
    );
}

/// Whether the session is a load test that searched for the best rate or concurrency (`max`).
fn is_search(session: &Session) -> bool {
    let arguments = &session.command;
    let is_max = |pair: &[String]| {
        ["--rate", "-c", "--concurrency"].contains(&pair[0].as_str()) && pair[1] == "max"
    };
    let joined_forms = ["--rate=max", "--concurrency=max", "-c=max", "-cmax"];
    arguments.windows(2).any(is_max)
        || arguments.iter().any(|argument| joined_forms.contains(&argument.as_str()))
}

/// Explains why loads share no case: for example, one had a fixed rate and the other was a search.
/// Returns `None` unless all sources are loads and some differ in kind.
fn unlike_loads_text(sources: &[LabelledSession<'_>]) -> Option<String> {
    let loads = sources.iter().map(|(label, session, _)| Some((label, session_paces(session)?)));
    let loads: Vec<(&String, LoadPaces)> = loads.collect::<Option<_>>()?;
    let (first, others) = loads.split_first()?;
    let description =
        |(label, paces): &(&String, LoadPaces)| format!("'{label}' is {}", paces_text(paces));
    Some(format!(
        "cannot compare different kinds of load: {}, {}\nhint: measure both in the same way, for \
         example with the same --rate, or both as a search; 'speedwell report' shows one by \
         itself",
        description(first),
        description(others.iter().find(|other| other.1 != first.1)?)
    ))
}

/// The rates and the concurrencies at which a session sent load.
type LoadPaces = [Vec<f64>; 2];

fn paces_text([rates, levels]: &LoadPaces) -> String {
    let number = |value: &f64| format_number(*value, 0);
    match (&rates[..], &levels[..]) {
        ([rate], _) => format!("a load at the rate {}/s", number(rate)),
        ([lowest, .., highest], _) => {
            let (count, low, high) = (rates.len(), number(lowest), number(highest));
            format!("a search or list of {count} rates ({low} to {high}/s)")
        }
        ([], [level]) => format!("a load with {} requests in flight", number(level)),
        ([], [lowest, .., highest]) => {
            let (count, low, high) = (levels.len(), number(lowest), number(highest));
            format!("a search or list of {count} levels of concurrency ({low} to {high})")
        }
        ([], []) => "a load of another kind".to_owned(),
    }
}

/// Returns the rates and concurrencies of a session, or `None` unless all its runs are loads.
fn session_paces(session: &Session) -> Option<LoadPaces> {
    if session.runs.is_empty() || session.runs.iter().any(|run| run.load.is_none()) {
        return None;
    }
    let values = |parameter: &str| {
        let values = session.runs.iter().flat_map(|run| &run.case.values);
        let mut numbers: Vec<f64> = values
            .filter_map(|(name, value)| match value {
                ParameterValue::Number(number) if name == parameter => Some(*number),
                _ => None,
            })
            .collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        numbers
    };
    Some(["rate", "concurrency"].map(values))
}

/// Describes the first failure, how to repeat it, and the number of other failures. Returns `None`
/// if nothing failed.
fn failed_side_text(failures: &[StepFailure]) -> Option<String> {
    let relevant = || failures.iter().filter(|failure| !failure.cause.is_skip());
    let first = relevant().next()?;
    let variant = first.variant.as_ref().map(|variant| format!("'{variant}' in "));
    let subject = format!("{}'{}'", variant.unwrap_or_default(), first.benchmark);
    let others = unless_empty(relevant().count() - 1, |count| format!(" (and {count} more)"));
    Some(format!("{subject} {}{others}\nhint: repeat it with: {}", first.cause, first.replay))
}
