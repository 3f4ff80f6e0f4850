//! Computes the findings of one session: the summaries by case and variant, and the comparison of
//! the baseline with every candidate.
//!
//! Decides which metrics and pairs of variants are analyzed, and which steps need all cases
//! together. A session is read in parts, to keep few runs in memory. Each part holds all runs of
//! its cases. A session in memory is a single part. Judges nothing. Start at [`analyze_session`]
//! and [`SessionCollector::add_part`].

use crate::builds::{LayoutSpread, spreads_of_grid};
use crate::comparison::{
    MatchedCases, SourceSide, add_to_findings, compare_matched, describe_single_looks, match_cases,
};
use crate::grid::RunGrid;
use crate::machines::{self, MachineEffect};
use crate::policy::JudgingPolicy;
use crate::summary::summarize_grid;
use crate::tally::SessionTally;
use crate::validity::{self, PartChecker};
use crate::warnings::quote_list;
use crate::withheld::MeasuredVariant;
use crate::{
    AnalysisFindings, AnalysisSettings, CandidateComparison, CaseSummary, snippet_runs, warnings,
};
use anyhow::bail;
use speedwell_model::{
    Case, Metric, RunValue, Session, SessionPurpose, SessionState, nearest_name,
};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Analyzes one session.
///
/// Verdicts follow the design that was fixed before measuring, so the analysis of a stored session
/// gives the same answers as the measurement.
pub fn analyze_session(session: &Session, settings: &AnalysisSettings) -> AnalysisFindings {
    let single_part = |add_part: &mut dyn FnMut(&Session)| {
        add_part(session);
        Ok::<(), Infallible>(())
    };
    match analyze_in_parts(session, settings, single_part) {
        Ok(findings) => findings,
        Err(never) => match never {},
    }
}

/// Like [`analyze_session`], for a session whose runs need not fit in memory. `header` is the
/// session, with or without runs. `parts` calls its argument with one part after the other. A part
/// is the session with all runs of some of its cases. The parts must follow the order in which the
/// cases first appear in the runs of the whole session. `parts` is called once, and a second time
/// if runs seem to be copies of other runs. See [`can_be_divided`].
///
/// # Errors
/// Passes on errors of `parts`.
pub fn analyze_in_parts<E>(
    header: &Session,
    settings: &AnalysisSettings,
    parts: impl Fn(&mut dyn FnMut(&Session)) -> Result<(), E>,
) -> Result<AnalysisFindings, E> {
    let policy = JudgingPolicy::new(&header.design, settings);
    let mut collector = SessionCollector::new(header, settings, &policy);
    parts(&mut |part| collector.add_part(part))?;
    let repeated = collector.checked.repeated_digests();
    if !repeated.is_empty() {
        parts(&mut |part| collector.checked.add_records(part, &repeated))?;
    }
    Ok(collector.into_findings())
}

/// Whether the findings on a session can be computed case by case, keeping only a few figures for
/// each case. Experiments, loads, snippets, bisections, confirmations, imported files and runs that
/// are time series need the whole session. Does not look at runs.
pub fn can_be_divided<'c>(header: &Session, cases: impl IntoIterator<Item = &'c Case>) -> bool {
    let design = &header.design;
    let is_ordinary = design.experiment.is_none()
        && design.steady.is_none()
        && !matches!(design.purpose, SessionPurpose::Bisect | SessionPurpose::Confirm);
    is_ordinary
        && !header.variants.is_empty()
        && !validity::needs_all_cells(header)
        && !cases.into_iter().all(snippet_runs::is_snippet)
}

/// Data kept from the parts of a session.
struct SessionCollector<'a> {
    session: &'a Session,
    settings: &'a AnalysisSettings,
    policy: &'a JudgingPolicy,
    metrics: Vec<&'a Metric>,
    /// Requested metrics that do not exist.
    unknown_metrics: Vec<String>,
    variants: Vec<Arc<str>>,
    tally: SessionTally,
    checked: PartChecker,
    summaries: Vec<CaseSummary>,
    spreads: Vec<LayoutSpread>,
    /// Cases and variants whose code the compiler has probably optimized away.
    folded: Vec<(Arc<Case>, Arc<str>)>,
    /// One entry per metric and candidate.
    matched: Vec<MatchedCases<'a>>,
    /// For each entry in `matched` and each of its cases: the change on each machine.
    effects: Vec<Vec<Vec<MachineEffect>>>,
}

impl<'a> SessionCollector<'a> {
    fn new(
        session: &'a Session,
        settings: &'a AnalysisSettings,
        policy: &'a JudgingPolicy,
    ) -> SessionCollector<'a> {
        let (metrics, unknown_metrics) = requested_metrics(session, settings);
        SessionCollector {
            session,
            settings,
            policy,
            metrics,
            unknown_metrics,
            variants: Vec::new(),
            tally: SessionTally::default(),
            checked: PartChecker::default(),
            summaries: Vec::new(),
            spreads: Vec::new(),
            folded: Vec::new(),
            matched: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Adds a part.
    fn add_part(&mut self, part: &Session) {
        let grid = RunGrid::new(part);
        let order = self.session.design.order;
        self.tally.add_part(part);
        self.checked.add_part(part);
        let summaries = summarize_grid(&grid, &self.metrics, self.policy.confidence(), order);
        self.spreads.extend(spreads_of_grid(&grid, &self.metrics));
        self.folded.extend(snippet_runs::folded_sides(part));
        if let Some(baseline) = baseline_index(self.session, &grid.variants, self.settings) {
            let mut matched = self.match_part(&grid, baseline);
            describe_single_looks(&mut matched, self.settings);
            share_runs(&summaries, &mut matched);
            if self.matched.is_empty() {
                self.matched = matched;
            } else {
                let pairs = self.matched.iter_mut().zip(matched);
                pairs.for_each(|(cases, part)| cases.append_part(part));
            }
        }
        self.summaries.extend(summaries);
        self.variants = grid.variants;
    }

    /// Matches the cases of a part for each metric and candidate, and computes the changes on
    /// single machines.
    fn match_part(&mut self, grid: &RunGrid<'_>, baseline: usize) -> Vec<MatchedCases<'a>> {
        let source = |variant: usize| SourceSide {
            name: &grid.variants[variant],
            cases: &grid.cases,
            variant,
            measured: MeasuredVariant { session: self.session, variant: &grid.variants[variant] },
        };
        let mut matched = Vec::new();
        for metric in &self.metrics {
            for candidate in (0..grid.variants.len()).filter(|&variant| variant != baseline) {
                let sides = [baseline, candidate];
                let [old, new] = sides.map(source);
                let cases = match_cases(&old, &new, metric, self.policy, false, self.settings);
                if !self.session.machines.is_empty() {
                    let (name, ids) = (&metric.name, cases.pending_ids());
                    let effects = machines::effects_of_cases(
                        self.session,
                        grid,
                        sides,
                        name,
                        self.policy,
                        ids,
                    );
                    if self.effects.len() <= matched.len() {
                        self.effects.push(Vec::new());
                    }
                    self.effects[matched.len()].extend(effects);
                }
                matched.push(cases);
            }
        }
        matched
    }

    /// Computes the findings.
    fn into_findings(self) -> AnalysisFindings {
        let (session, settings) = (self.session, self.settings);
        let mut findings = AnalysisFindings {
            failures: session.failures.clone(),
            warnings: self.tally.warnings(session, None),
            ended_after: matches!(session.state, SessionState::Interrupted | SessionState::Running)
                .then_some(self.tally.runs),
            is_too_busy: self.tally.warn_too_busy(session).is_some(),
            validity: self.checked.into_findings(),
            summaries: self.summaries,
            gate_obstacles: self.tally.gate_obstacle(session, None).into_iter().collect(),
            ..AnalysisFindings::default()
        };
        report_unknown_metrics(session, &self.unknown_metrics, &mut findings);
        for summary in &mut findings.summaries {
            (summary.notes).retain(|note| !self.tally.is_shared(note, session));
        }
        let sentences = layout_sentences(&self.spreads);
        let layout_sentence = |case: &Case, metric: &Metric| {
            let id = case.id();
            sentences.get(&(&*id, &*metric.name)).cloned()
        };
        if self.variants.len() == 1 {
            for summary in &mut findings.summaries {
                let sentence = layout_sentence(&summary.case, &summary.metric);
                summary.notes.extend(sentence);
            }
        }
        let warnings = &mut findings.warnings;
        warnings.extend(warn_other_baseline(session, &self.variants, settings));
        if self.variants.len() > 1 {
            warnings::add_distinct(warnings, warnings::warn_order(session.design.order));
            warnings::add_distinct(warnings, warnings::warn_method(settings, self.policy));
            warnings::add_distinct(warnings, warnings::warn_plan(&session.design, settings));
        }
        let mut compared = compare_matched(self.matched, settings);
        for judged in &mut compared {
            snippet_runs::note_folded(&self.folded, &mut judged.comparison);
            let CandidateComparison { metric, rows, .. } = &mut judged.comparison;
            for row in rows {
                row.notes.extend(layout_sentence(&row.case, metric));
            }
        }
        add_to_findings(compared, &mut findings);
        machines::add_machine_results(self.effects, self.policy, &mut findings.comparisons);
        findings.layout = self.spreads;
        findings
    }
}

/// A case, a variant and a metric.
type SeriesName = (String, String, String);

/// Makes rows and summaries share their runs in memory.
fn share_runs(summaries: &[CaseSummary], matched: &mut [MatchedCases<'_>]) {
    let named = summaries.iter().map(|summary| {
        let name = (summary.case.id(), summary.variant.to_string(), summary.metric.name.clone());
        (name, summary.runs.clone())
    });
    let runs_by_name: HashMap<SeriesName, Arc<[RunValue]>> = named.collect();
    for matched in matched {
        let names = matched.side_names().map(str::to_owned);
        let metric = matched.metric_name().to_owned();
        for row in matched.described_rows() {
            let sides = [&mut row.baseline, &mut row.candidate];
            for (side, name) in sides.into_iter().zip(&names) {
                let name = (row.case.id(), name.clone(), metric.clone());
                if let Some(runs) = runs_by_name.get(&name).filter(|runs| **runs == side.runs) {
                    side.runs = runs.clone();
                }
            }
        }
    }
}

/// Sentences about layout effects, by case id and metric.
fn layout_sentences(spreads: &[LayoutSpread]) -> HashMap<(&str, &str), String> {
    let mut sentences = HashMap::new();
    for spread in spreads {
        let name = (spread.case.as_str(), spread.metric.as_str());
        sentences.entry(name).or_insert_with(|| spread.to_sentence());
    }
    sentences
}

/// Checks that every requested metric is among `known_names`.
///
/// # Errors
/// Fails if a metric is unknown. The error names this metric, and suggests the most similar known
/// metric. If none is similar, it lists all known metrics.
pub fn check_metrics<'m>(
    settings: &AnalysisSettings,
    known_names: impl IntoIterator<Item = &'m str>,
) -> anyhow::Result<()> {
    let mut names: Vec<String> = known_names.into_iter().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    let is_unknown = |name: &&String| *name != "all" && !names.contains(name);
    let Some(unknown) = settings.metrics.iter().find(is_unknown) else {
        return Ok(());
    };
    match (nearest_name(unknown, &names), names.as_slice()) {
        (_, []) => bail!("unknown metric '{unknown}': there are no results"),
        (Some(similar), _) => bail!("unknown metric '{unknown}'\nhint: did you mean '{similar}'?"),
        (None, [only]) => bail!("unknown metric '{unknown}'\nhint: the only metric is '{only}'"),
        (None, _) => bail!(
            "unknown metric '{unknown}'\nhint: the available metrics are {}",
            quote_list(names.iter().map(String::as_str))
        ),
    }
}

/// Metrics to analyze, and the names of requested metrics that do not exist. If no metric is
/// requested, the primary metric is analyzed.
pub(super) fn requested_metrics<'s>(
    session: &'s Session,
    settings: &AnalysisSettings,
) -> (Vec<&'s Metric>, Vec<String>) {
    if settings.metrics.is_empty() {
        return (session.metrics.first().into_iter().collect(), Vec::new());
    }
    if settings.wants_all_metrics() {
        return (session.metrics.iter().collect(), Vec::new());
    }
    let (mut metrics, mut unknown) = (Vec::new(), Vec::new());
    for name in &settings.metrics {
        match session.metric(name) {
            Some(metric) => metrics.push(metric),
            None if session.metrics.is_empty() => {}
            None => unknown.push(name.clone()),
        }
    }
    (metrics, unknown)
}

/// Reports requested metrics that do not exist, both as warnings and as reasons why a gate cannot
/// be evaluated.
pub(super) fn report_unknown_metrics(
    session: &Session,
    unknown: &[String],
    findings: &mut AnalysisFindings,
) {
    for name in unknown {
        findings.warnings.push(unknown_metric_message(session, name));
        findings.gate_obstacles.push(format!("unknown metric '{name}'"));
    }
}

/// Message which says that a metric does not exist and names the existing metrics.
pub(super) fn unknown_metric_message(session: &Session, name: &str) -> String {
    format!(
        "Unknown metric '{name}'; the session has {}.",
        quote_list(session.metrics.iter().map(|metric| metric.name.as_str()))
    )
}

/// Name of the baseline that the user or the design requests.
fn requested_baseline<'s>(session: &'s Session, settings: &'s AnalysisSettings) -> &'s str {
    let requested = settings.baseline.as_deref();
    requested.unwrap_or(&session.design.baseline)
}

/// Index of the baseline; `None` without variants.
fn baseline_index(
    session: &Session,
    variants: &[Arc<str>],
    settings: &AnalysisSettings,
) -> Option<usize> {
    let requested = requested_baseline(session, settings);
    let index = variants.iter().position(|name| **name == *requested);
    index.or((!variants.is_empty()).then_some(0))
}

/// Warns if the requested baseline does not exist and another variant is used instead.
fn warn_other_baseline(
    session: &Session,
    variants: &[Arc<str>],
    settings: &AnalysisSettings,
) -> Option<String> {
    let requested = requested_baseline(session, settings);
    let [first, _, ..] = variants else {
        return None;
    };
    let is_known = variants.iter().any(|name| **name == *requested);
    (!is_known).then(|| format!("Unknown variant '{requested}'; '{first}' is the baseline."))
}
