//! Decides which metrics and which baseline of a session are analyzed, and whether its cases can be
//! analyzed one by one ([`can_be_divided`]). Counts the runs of a session, and warns about problems
//! of the whole session ([`SessionTally`]). Judges nothing.

use crate::grid::{SnippetGroup, is_folded, is_snippet, snippet_groups, variant_index};
use crate::warnings::{format_count, quote_list};
use crate::{AnalysisFindings, AnalysisSettings, CandidateComparison, LayoutSpread, validity};
use speedwell_model::{
    Case, Environment, Metric, Run, Session, SessionPurpose, SessionState, SessionStep, Snippet,
    StepFailure, nearest_name,
};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

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
        && !cases.into_iter().all(is_snippet)
}

/// Sentences about layout effects, by case id and metric.
pub(super) fn layout_sentences(spreads: &[LayoutSpread]) -> HashMap<(&str, &str), String> {
    let mut sentences = HashMap::new();
    for spread in spreads {
        let name = (spread.case.as_str(), spread.metric.as_str());
        sentences.entry(name).or_insert_with(|| spread.to_sentence());
    }
    sentences
}

/// An error about a requested metric that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMetric {
    /// The requested name.
    pub name: String,
    /// The most similar metric, if one is similar.
    pub similar: Option<String>,
    /// All metrics.
    known: Vec<String>,
}

impl fmt::Display for UnknownMetric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "unknown metric '{}'", self.name)?;
        match (&self.similar, self.known.as_slice()) {
            (_, []) => write!(out, ": there are no results"),
            (Some(similar), _) => write!(out, "\nhint: did you mean '{similar}'?"),
            (None, [only]) => write!(out, "\nhint: the only metric is '{only}'"),
            (None, known) => {
                let known = quote_list(known.iter().map(String::as_str));
                write!(out, "\nhint: the available metrics are {known}")
            }
        }
    }
}

impl Error for UnknownMetric {}

/// Checks that every requested metric is among `known_names`.
///
/// # Errors
/// Fails with [`UnknownMetric`] if a metric is unknown. The error names this metric, and suggests
/// the most similar known metric. If none is similar, it lists all known metrics.
pub fn check_metrics<'m>(
    settings: &AnalysisSettings,
    known_names: impl IntoIterator<Item = &'m str>,
) -> anyhow::Result<()> {
    let mut known: Vec<String> = known_names.into_iter().map(str::to_owned).collect();
    known.sort();
    known.dedup();
    let is_unknown = |name: &&String| *name != "all" && !known.contains(name);
    let Some(unknown) = settings.metrics.iter().find(is_unknown) else { return Ok(()) };
    let is_memory = ["memory", "mem", "rss"].contains(&unknown.as_str());
    let memory = known.iter().find(|name| is_memory && *name == "max_rss");
    let similar = memory.or_else(|| nearest_name(unknown, &known)).cloned();
    Err(UnknownMetric { name: unknown.clone(), similar, known }.into())
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
pub(super) fn requested_baseline<'s>(
    session: &'s Session,
    settings: &'s AnalysisSettings,
) -> &'s str {
    let requested = settings.baseline.as_deref();
    requested.unwrap_or(&session.design.baseline)
}

/// Index of the baseline; `None` without variants.
pub(super) fn baseline_index(requested: &str, variants: &[Arc<str>]) -> Option<usize> {
    let index = variants.iter().position(|name| **name == *requested);
    index.or((!variants.is_empty()).then_some(0))
}

/// Warns if the requested baseline does not exist and another variant is used instead.
pub(super) fn warn_other_baseline(requested: &str, variants: &[Arc<str>]) -> Option<String> {
    let [first, _, ..] = variants else { return None };
    let is_known = variants.iter().any(|name| **name == *requested);
    (!is_known).then(|| format!("Unknown variant '{requested}'; '{first}' is the baseline."))
}

/// The machine is too busy if more than this fraction of the runs was rejected: the remaining runs
/// may be a biased selection.
const MAX_REJECTED_SHARE: f64 = 0.30;

/// If at least this fraction of the runs failed, a warning says that the other runs may be a biased
/// selection.
const MAX_FAILED_RUNS: f64 = 0.05;

/// Numbers of runs and shared notes, collected from the parts that were added so far.
#[derive(Debug, Default)]
pub(super) struct SessionTally {
    /// Number of runs.
    pub runs: usize,
    /// Number of runs rejected by a rule.
    rejected: usize,
    /// Notes shared by all runs.
    shared: Vec<String>,
    /// Snippets that the compiler has probably optimized away.
    folded: Vec<FoldedGroup>,
}

impl SessionTally {
    /// Counts a whole session at once.
    pub fn from_session(session: &Session) -> SessionTally {
        let mut tally = SessionTally::default();
        tally.add_part(session);
        tally
    }

    /// Adds a part of a session. The first part must begin with the first run of the session.
    pub fn add_part(&mut self, part: &Session) {
        let is_rejected = |run: &&Run| run.rejected_by.is_some();
        self.rejected += part.runs.iter().filter(is_rejected).count();
        let mut runs = part.runs.iter();
        if self.runs == 0 {
            let notes = runs.next().into_iter().flat_map(|first| &first.notes);
            // The note about an optimized-away snippet is left out, because it is reported with the
            // name of the snippet.
            let reported = notes.filter(|note| *note != Snippet::FOLDED);
            self.shared = reported.cloned().collect();
        }
        for run in runs {
            self.shared.retain(|note| run.notes.contains(note));
        }
        self.folded.extend(folded_groups(part));
        self.runs += part.runs.len();
    }

    /// Notes that all runs share, which are reported once. Empty if there are fewer than two runs.
    /// Also empty for an imported session, because importers report such notes themselves.
    pub fn shared_by_all(&self, session: &Session) -> &[String] {
        if session.state == SessionState::Imported || self.runs < 2 { &[] } else { &self.shared }
    }

    /// Warns that the machine is too busy if many runs were rejected.
    pub fn warn_too_busy(&self, session: &Session) -> Option<String> {
        let share = self.rejected as f64 / self.runs.max(1) as f64;
        (share > MAX_REJECTED_SHARE).then(|| {
            format!(
                "{:.0}% of the runs broke the rule '{}': the machine is too busy, and the remaining \
                 runs may be a biased selection.",
                100.0 * share,
                session.design.reject
            )
        })
    }

    /// Whether and how the session called `name` ended early, without a full stop.
    fn early_end(&self, session: &Session, name: &str) -> Option<String> {
        match session.state {
            SessionState::Interrupted => {
                let run_count = format_count(self.runs, "run", "runs");
                Some(format!("{name} was interrupted after {run_count}"))
            }
            SessionState::Running => Some(format!("{name} did not end, or is still measuring")),
            SessionState::Complete | SessionState::Imported => None,
        }
    }

    /// Why a gate (a pass/fail check) cannot judge the session; `None` if the session is complete or
    /// imported.
    pub fn gate_obstacle(&self, session: &Session, label: Option<&str>) -> Option<String> {
        let name = label.map_or("the session".to_owned(), |label| format!("'{label}'"));
        self.early_end(session, &name)
    }

    /// Warnings about the figures of the session. Call this after all runs have been added. `label`
    /// names the session if there are several.
    pub fn warnings(&self, session: &Session, label: Option<&str>) -> Vec<String> {
        let name = label.map_or("The session".to_owned(), |label| format!("'{label}'"));
        let early_end = self.early_end(session, &name).map(|end| format!("{end}."));
        let mut warnings = Vec::from_iter(early_end);
        warnings.extend(warn_failures(&session.failures, self.runs, &name));
        warnings.extend(self.warn_too_busy(session));
        warnings.extend(self.shared_by_all(session).iter().cloned());
        warnings.extend(warn_folded(&self.folded));
        warnings.extend(warn_machine(&session.environment, &name));
        warnings
    }
}

fn warn_machine(environment: &Environment, name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if environment.governors.iter().any(|governor| governor != "performance") {
        let governors = quote_list(environment.governors.iter().map(String::as_str));
        warnings.push(format!(
            "{name} ran with a governor that may change the clock frequency ({governors})."
        ));
    }
    if environment.aslr == Some(false) {
        warnings.push(format!(
            "{name} ran with a fixed memory layout, which favours one variant by chance."
        ));
    }
    warnings
}

fn warn_failures(failures: &[StepFailure], succeeded: usize, name: &str) -> Option<String> {
    let is_lost_run =
        |failure: &&StepFailure| failure.step == SessionStep::Run && !failure.cause.is_skip();
    let failed = failures.iter().filter(is_lost_run).count();
    let total = succeeded + failed;
    if failed == 0 || (failed as f64) < MAX_FAILED_RUNS * total as f64 {
        return None;
    }
    let share = 100.0 * failed as f64 / total as f64;
    let runs = format_count(total, "run", "runs");
    if failed == total {
        return Some(format!("{name}: {failed} of {runs} failed."));
    }
    Some(format!(
        "{name}: {failed} of {runs} failed ({share:.0}%); the others may be a biased selection."
    ))
}

/// A snippet, at one number of workers, that the compiler has probably optimized away: sort key and
/// label. The key is the index of the variant, then the position of the first run in the plan.
/// Positions alone do not tell the order of snippets on the command line, because blocks are
/// shuffled.
type FoldedGroup = ((Option<usize>, u32), String);

/// Finds the snippets in a part of a session that were probably optimized away.
fn folded_groups(part: &Session) -> Vec<FoldedGroup> {
    let is_marked = |run: &Run| run.notes.iter().any(|note| note == Snippet::FOLDED);
    if !part.runs.iter().any(is_marked) {
        return Vec::new();
    }
    let groups = snippet_groups(part).into_iter();
    let folded = groups.filter(|(.., runs)| is_folded(runs.iter().copied()));
    let with_key = |(label, _, runs): SnippetGroup<'_>| {
        let slot = runs.iter().map(|run| run.slot).min().unwrap_or_default();
        ((variant_index(part, &runs[0].variant), slot), label)
    };
    folded.map(with_key).collect()
}

/// Warning that names the snippets that were probably optimized away, if any.
fn warn_folded(groups: &[FoldedGroup]) -> Option<String> {
    let mut groups: Vec<&FoldedGroup> = groups.iter().collect();
    groups.sort_by_key(|(key, _)| *key);
    let mut labels: Vec<&str> = groups.iter().map(|(_, label)| label.as_str()).collect();
    labels.dedup();
    let subject = if labels.len() > 1 { "iterations of these take" } else { "an iteration takes" };
    (!labels.is_empty()).then(|| {
        format!(
            "{}: {subject} less than three times as long as an empty one, so the compiler may have optimized the code \
             away, and comparisons with it mean nothing.",
            quote_list(labels.into_iter())
        )
    })
}

/// Cases and variants of a part whose code was probably optimized away.
pub(super) fn folded_sides(part: &Session) -> Vec<(Arc<Case>, Arc<str>)> {
    let is_marked = |run: &&Run| run.notes.iter().any(|note| note == Snippet::FOLDED);
    let mut found: Vec<(Arc<Case>, Arc<str>)> = Vec::new();
    for run in part.runs.iter().filter(is_marked) {
        let is_same = |other: &Run| other.variant == run.variant && other.case == run.case;
        let is_known =
            |(case, variant): &(Arc<Case>, Arc<str>)| *variant == run.variant && *case == run.case;
        if !found.iter().any(is_known) && is_folded(part.runs.iter().filter(|run| is_same(run))) {
            found.push((run.case.clone(), run.variant.clone()));
        }
    }
    found
}

/// Adds a note to the rows of a comparison in which one side was probably optimized away.
pub(super) fn note_folded(folded: &[(Arc<Case>, Arc<str>)], comparison: &mut CandidateComparison) {
    if folded.is_empty() {
        return;
    }
    for row in &mut comparison.rows {
        let was_folded = |side: &&str| {
            folded.iter().any(|(case, variant)| **variant == **side && *case == row.case)
        };
        let sides = [comparison.baseline.as_str(), comparison.candidate.as_str()];
        let folded: Vec<&str> = sides.into_iter().filter(was_folded).collect();
        if !folded.is_empty() {
            row.notes.push(format!(
                "The compiler may have optimized {} away: the change says nothing about the code.",
                quote_list(folded.into_iter())
            ));
        }
    }
}
