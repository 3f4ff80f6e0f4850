//! Findings of one session: runs by case and variant, summaries, and the baseline against every
//! candidate.
//!
//! Decides which metrics and pairs of variants are analyzed, and what must be known of all cases
//! together. A session is read in parts, each with all runs of its cases, of which only a fraction
//! is kept; a session in memory is a single part. Does not know how anything is judged. Start at
//! [`analyse`] and [`Gathered::add`].

use crate::builds::{LayoutSpread, spreads_of};
use crate::comparison::{
    Matched, Source, compare_matched, conclude, describe_single_looks, match_cases,
};
use crate::grid::Grid;
use crate::machines::{self, MachineEffect};
use crate::policy::Policy;
use crate::summary::summaries;
use crate::tally::Tally;
use crate::validity::{self, Checked};
use crate::warnings::list;
use crate::withheld::Measured;
use crate::{CaseSummary, Comparison, Findings, Settings, snippet_runs, warnings};
use anyhow::bail;
use speedwell_model::{Case, Metric, Purpose, RunValue, Session, State, nearest};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Analyzes one session.
///
/// Verdicts follow the design that was fixed before measuring: analyzing a stored session again
/// gives the same answers as during measuring.
pub fn analyse(session: &Session, settings: &Settings) -> Findings {
    let whole = |visit: &mut dyn FnMut(&Session)| {
        visit(session);
        Ok::<(), Infallible>(())
    };
    match analyse_in_parts(session, settings, whole) {
        Ok(findings) => findings,
        Err(never) => match never {},
    }
}

/// Like [`analyse`], for a session whose runs need not fit in memory. `header` is the session, with
/// or without runs; `parts` passes it on with some of the runs at a time: all runs of a case in one
/// part, and cases by first appearance. It is called once, and again if runs seem to be copies of
/// others. See [`can_be_divided`].
///
/// # Errors
/// Passes on errors of `parts`.
pub fn analyse_in_parts<E>(
    header: &Session,
    settings: &Settings,
    parts: impl Fn(&mut dyn FnMut(&Session)) -> Result<(), E>,
) -> Result<Findings, E> {
    let policy = Policy::new(&header.design, settings);
    let mut gathered = Gathered::new(header, settings, &policy);
    parts(&mut |part| gathered.add(part))?;
    let repeated = gathered.checked.repeated();
    if !repeated.is_empty() {
        parts(&mut |part| gathered.checked.look_again(part, &repeated))?;
    }
    Ok(gathered.findings())
}

/// Whether the findings on a session can be computed case by case, keeping few figures of each.
/// Experiments, loads, snippets, bisections and imported files need the whole session. Does not
/// look at runs.
pub fn can_be_divided<'c>(header: &Session, cases: impl IntoIterator<Item = &'c Case>) -> bool {
    let design = &header.design;
    let is_usual = design.experiment.is_none()
        && design.steady.is_none()
        && !matches!(design.purpose, Purpose::Bisect | Purpose::Confirm);
    is_usual
        && !header.variants.is_empty()
        && !validity::needs_all_cells(header)
        && !cases.into_iter().all(snippet_runs::is_snippet)
}

/// Data kept from the parts of a session.
struct Gathered<'a> {
    session: &'a Session,
    settings: &'a Settings,
    policy: &'a Policy,
    metrics: Vec<&'a Metric>,
    /// Requested metrics that do not exist.
    unknown_metrics: Vec<String>,
    variants: Vec<Arc<str>>,
    tally: Tally,
    checked: Checked,
    summaries: Vec<CaseSummary>,
    spreads: Vec<LayoutSpread>,
    /// Sides of cases that the compiler has probably optimized away.
    folded: Vec<(Arc<Case>, Arc<str>)>,
    /// Each metric with each candidate.
    matched: Vec<Matched<'a>>,
    /// Change on each machine, for the cases of each entry in `matched`.
    effects: Vec<Vec<Vec<MachineEffect>>>,
}

impl<'a> Gathered<'a> {
    fn new(session: &'a Session, settings: &'a Settings, policy: &'a Policy) -> Gathered<'a> {
        let (metrics, unknown_metrics) = metrics(session, settings);
        Gathered {
            session,
            settings,
            policy,
            metrics,
            unknown_metrics,
            variants: Vec::new(),
            tally: Tally::default(),
            checked: Checked::default(),
            summaries: Vec::new(),
            spreads: Vec::new(),
            folded: Vec::new(),
            matched: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Adds a part.
    fn add(&mut self, part: &Session) {
        let grid = Grid::new(part);
        let order = self.session.design.order;
        self.tally.add(part);
        self.checked.add(part);
        let found = summaries(&grid, &self.metrics, self.policy.confidence(), order);
        self.spreads.extend(spreads_of(&grid, &self.metrics));
        self.folded.extend(snippet_runs::folded_sides(part));
        if let Some(baseline) = baseline(self.session, &grid.variants, self.settings) {
            let mut matched = self.match_part(&grid, baseline);
            describe_single_looks(&mut matched, self.settings);
            share_runs(&found, &mut matched);
            if self.matched.is_empty() {
                self.matched = matched;
            } else {
                let all = self.matched.iter_mut().zip(matched);
                all.for_each(|(all, part)| all.extend(part));
            }
        }
        self.summaries.extend(found);
        self.variants = grid.variants;
    }

    /// Matches the cases of a part for each metric and candidate, and computes the changes on
    /// single machines.
    fn match_part(&mut self, grid: &Grid<'_>, baseline: usize) -> Vec<Matched<'a>> {
        let source = |variant: usize| Source {
            name: &grid.variants[variant],
            cases: &grid.cases,
            variant,
            measured: Measured {
                session: self.session,
                variant: &grid.variants[variant],
            },
        };
        let mut matched = Vec::new();
        for metric in &self.metrics {
            for candidate in (0..grid.variants.len()).filter(|&variant| variant != baseline) {
                let sides = [baseline, candidate];
                let [old, new] = sides.map(source);
                let cases = match_cases(&old, &new, metric, self.policy, false, self.settings);
                if !self.session.machines.is_empty() {
                    let (name, ids) = (&metric.name, cases.ids());
                    let found = machines::effects_of_cases(
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
                    self.effects[matched.len()].extend(found);
                }
                matched.push(cases);
            }
        }
        matched
    }

    /// Computes the findings.
    fn findings(self) -> Findings {
        let (session, settings) = (self.session, self.settings);
        let mut findings = Findings {
            failures: session.failures.clone(),
            warnings: self.tally.warnings(session, None),
            ended_after: matches!(session.state, State::Interrupted | State::Running)
                .then_some(self.tally.runs),
            is_too_busy: self.tally.too_busy(session).is_some(),
            validity: self.checked.findings(),
            summaries: self.summaries,
            gate_obstacles: self
                .tally
                .gate_obstacle(session, None)
                .into_iter()
                .collect(),
            ..Findings::default()
        };
        refuse_metrics(session, &self.unknown_metrics, &mut findings);
        for summary in &mut findings.summaries {
            (summary.notes).retain(|note| !self.tally.is_shared(note, session));
        }
        let sentences = sentences(&self.spreads);
        let on_layout = |case: &Case, metric: &Metric| {
            let id = case.id();
            sentences.get(&(&*id, &*metric.name)).cloned()
        };
        if self.variants.len() == 1 {
            for summary in &mut findings.summaries {
                let sentence = on_layout(&summary.case, &summary.metric);
                summary.notes.extend(sentence);
            }
        }
        let warnings = &mut findings.warnings;
        warnings.extend(on_baseline(session, &self.variants, settings));
        if self.variants.len() > 1 {
            warnings::add(warnings, warnings::of_order(session.design.order));
            warnings::add(warnings, warnings::of_method(settings, self.policy));
            warnings::add(warnings, warnings::of_plan(&session.design, settings));
        }
        let mut compared = compare_matched(self.matched, settings);
        for found in &mut compared {
            snippet_runs::mark_folded(&self.folded, &mut found.comparison);
            let Comparison { metric, rows, .. } = &mut found.comparison;
            for row in rows {
                row.notes.extend(on_layout(&row.case, metric));
            }
        }
        conclude(compared, &mut findings);
        machines::add(self.effects, self.policy, &mut findings.comparisons);
        findings.layout = self.spreads;
        findings
    }
}

/// A case, a variant and a metric.
type SeriesName = (String, String, String);

/// Makes rows and summaries share their runs in memory.
fn share_runs(summaries: &[CaseSummary], matched: &mut [Matched<'_>]) {
    let named = summaries.iter().map(|summary| {
        let name = (
            summary.case.id(),
            summary.variant.to_string(),
            summary.metric.name.clone(),
        );
        (name, summary.runs.clone())
    });
    let known: HashMap<SeriesName, Arc<[RunValue]>> = named.collect();
    for matched in matched {
        let names = matched.names().map(str::to_owned);
        let metric = matched.metric().to_owned();
        for row in matched.described() {
            let sides = [&mut row.baseline, &mut row.candidate];
            for (side, name) in sides.into_iter().zip(&names) {
                let name = (row.case.id(), name.clone(), metric.clone());
                if let Some(runs) = known.get(&name).filter(|runs| **runs == side.runs) {
                    side.runs = runs.clone();
                }
            }
        }
    }
}

/// Sentences about layout effects, by case id and metric.
fn sentences(spreads: &[LayoutSpread]) -> HashMap<(&str, &str), String> {
    let mut sentences = HashMap::new();
    for known in spreads {
        let name = (known.case.as_str(), known.metric.as_str());
        sentences.entry(name).or_insert_with(|| known.sentence());
    }
    sentences
}

/// Checks that every requested metric is among `known`.
///
/// # Errors
/// Names an unknown metric and the most similar known one.
pub fn check_metrics<'m>(
    settings: &Settings,
    known: impl IntoIterator<Item = &'m str>,
) -> anyhow::Result<()> {
    let mut names: Vec<String> = known.into_iter().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    let is_unknown = |name: &&String| *name != "all" && !names.contains(name);
    let Some(unknown) = settings.metrics.iter().find(is_unknown) else {
        return Ok(());
    };
    match (nearest(unknown, &names), names.as_slice()) {
        (_, []) => bail!("there is no metric '{unknown}': there are no results"),
        (Some(near), _) => bail!("there is no metric '{unknown}'\nhint: did you mean '{near}'?"),
        (None, [only]) => bail!("there is no metric '{unknown}'\nhint: there is only '{only}'"),
        (None, _) => bail!(
            "there is no metric '{unknown}'\nhint: there are {}",
            list(names.iter().map(String::as_str))
        ),
    }
}

/// Metrics to analyze (the requested ones, or the primary one), and the names of requested ones
/// that do not exist.
pub(super) fn metrics<'s>(
    session: &'s Session,
    settings: &Settings,
) -> (Vec<&'s Metric>, Vec<String>) {
    if settings.metrics.is_empty() {
        return (session.metrics.first().into_iter().collect(), Vec::new());
    }
    if settings.wants_all_metrics() {
        return (session.metrics.iter().collect(), Vec::new());
    }
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for name in &settings.metrics {
        match session.metric(name) {
            Some(metric) => found.push(metric),
            None if session.metrics.is_empty() => {}
            None => unknown.push(name.clone()),
        }
    }
    (found, unknown)
}

/// Reports metrics that do not exist, also to a gate.
pub(super) fn refuse_metrics(session: &Session, unknown: &[String], findings: &mut Findings) {
    for name in unknown {
        findings.warnings.push(no_metric(session, name));
        findings
            .gate_obstacles
            .push(format!("there is no metric '{name}'"));
    }
}

/// Message that a metric does not exist, with the existing ones.
pub(super) fn no_metric(session: &Session, name: &str) -> String {
    format!(
        "There is no metric '{name}'; there are {}.",
        list(session.metrics.iter().map(|metric| metric.name.as_str()))
    )
}

/// Name of the baseline that the user or the design requests.
fn wanted<'s>(session: &'s Session, settings: &'s Settings) -> &'s str {
    let asked = settings.baseline.as_deref();
    asked.unwrap_or(&session.design.baseline)
}

/// Index of the baseline; `None` without variants.
fn baseline(session: &Session, variants: &[Arc<str>], settings: &Settings) -> Option<usize> {
    let wanted = wanted(session, settings);
    let found = variants.iter().position(|name| **name == *wanted);
    found.or((!variants.is_empty()).then_some(0))
}

/// Warns if another variant than the requested one is the baseline.
fn on_baseline(session: &Session, variants: &[Arc<str>], settings: &Settings) -> Option<String> {
    let wanted = wanted(session, settings);
    let [first, _, ..] = variants else {
        return None;
    };
    let is_known = variants.iter().any(|name| **name == *wanted);
    (!is_known).then(|| format!("There is no variant '{wanted}'; '{first}' is the baseline."))
}
