//! Treats each build of a source as one independent unit if several runs share a build, and
//! measures how much the builds differ.
//!
//! Runs of one build share its memory layout, so together they give one value. Other modules decide
//! how that value is tested. Start at [`IndependentUnit::paired_values`] and [`layout_spreads`].

use crate::grid::{CaseRuns, RunGrid, finite_values};
use crate::{AnalysisFindings, LayoutSpread};
use speedwell_model::{Metric, Run, RunValue, Session, SessionDesign, StoppingDesign, Verdict};
use speedwell_stats::describe::{mean, median};
use speedwell_stats::variance::variance_components;
use std::collections::{BTreeMap, BTreeSet};

/// The unit that is treated as one independent observation in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndependentUnit {
    /// A run.
    Run,
    /// A build, represented by all its runs.
    Build {
        /// Maximum number of runs per build.
        runs: usize,
        /// Whether incomplete builds are left out, because an interim analysis of half a build
        /// would not be repeatable.
        is_whole: bool,
        /// Number of builds per variant in one block.
        per_block: u32,
    },
}

impl IndependentUnit {
    /// Returns the independent unit of a session with this design.
    pub fn new(design: &SessionDesign) -> IndependentUnit {
        if !design.shares_builds() {
            return IndependentUnit::Run;
        }
        IndependentUnit::Build {
            runs: design.runs_per_build() as usize,
            is_whole: matches!(design.stopping, StoppingDesign::Sequential { .. }),
            per_block: design.runs_per_block.max(1),
        }
    }

    /// Number of runs in one unit.
    pub fn runs_per_unit(self) -> usize {
        match self {
            IndependentUnit::Run => 1,
            IndependentUnit::Build { runs, .. } => runs,
        }
    }

    /// Plural noun for reports.
    pub fn plural_noun(self) -> &'static str {
        match self {
            IndependentUnit::Run => "runs",
            IndependentUnit::Build { .. } => "builds",
        }
    }

    /// Formats a number of units, such as `1 build`.
    pub fn format_count(self, number: usize) -> String {
        let plural = self.plural_noun();
        match number {
            1 => format!("1 {}", plural.trim_end_matches('s')),
            _ => format!("{number} {plural}"),
        }
    }

    /// Values of two sides, one per unit. A build's value is the geometric mean of its runs, or the
    /// arithmetic mean if some value is not positive. If the unit is a build, only blocks in which
    /// both sides have values of the same builds are used.
    pub fn paired_values(self, sides: [&[&Run]; 2], metric: &str) -> [Vec<RunValue>; 2] {
        let IndependentUnit::Build { runs, is_whole, per_block } = self else {
            return sides.map(|side| finite_values(side, metric));
        };
        let builds = sides.map(|side| builds_by_block(side, metric));
        let is_complete = |run: &&Run| builds[0].get(&run.block) == builds[1].get(&run.block);
        let complete = sides.map(|side| side.iter().copied().filter(is_complete).collect());
        let complete_runs: [Vec<&Run>; 2] = complete;
        let logarithms = complete_runs.iter().flatten().all(|run| run.value_of(metric) > Some(0.0));
        let min_runs = if is_whole { runs } else { 1 };
        complete_runs.map(|side| {
            let mut builds = values_by_build(&side, metric);
            builds.retain(|_, runs| runs.len() >= min_runs);
            build_values(builds, logarithms, per_block)
        })
    }
}

/// One value per build, in the slot of the build's last run.
fn build_values(
    builds: BTreeMap<u32, Vec<RunValue>>,
    logarithms: bool,
    per_block: u32,
) -> Vec<RunValue> {
    let mut units: Vec<RunValue> = (builds.into_iter())
        .map(|(build, runs)| RunValue {
            slot: runs.iter().map(|run| run.slot).max().unwrap_or_default(),
            block: build / per_block,
            value: build_value(&runs, logarithms),
        })
        .collect();
    units.sort_by_key(|unit| unit.slot);
    units
}

/// For each block, the builds that have a value in it.
fn builds_by_block(side: &[&Run], metric: &str) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut builds: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let has_value = |run: &&&Run| run.value_of(metric).is_some_and(f64::is_finite);
    for run in side.iter().filter(has_value) {
        let builds_of_block = builds.entry(run.block).or_default();
        builds_of_block.extend(run.build);
    }
    builds
}

/// Values of each build.
fn values_by_build(side: &[&Run], metric: &str) -> BTreeMap<u32, Vec<RunValue>> {
    let mut builds: BTreeMap<u32, Vec<RunValue>> = BTreeMap::new();
    for run in side {
        if let Some(build) = run.build {
            let values = builds.entry(build).or_default();
            values.extend(finite_values(&[*run], metric));
        }
    }
    builds.retain(|_, runs| !runs.is_empty());
    builds
}

fn build_value(runs: &[RunValue], logarithms: bool) -> f64 {
    let values = runs.iter().map(|run| run.value);
    if logarithms {
        mean(&values.map(f64::ln).collect::<Vec<f64>>()).exp()
    } else {
        mean(&values.collect::<Vec<f64>>())
    }
}

/// Values of one series, one per build if runs share builds.
pub(super) fn independent_values(runs: &[&Run], metric: &str) -> Vec<RunValue> {
    let builds = values_by_build(runs, metric);
    if builds.values().all(|values| values.len() < 2) {
        return finite_values(runs, metric);
    }
    let logarithms = builds.values().flatten().all(|run| run.value > 0.0);
    build_values(builds, logarithms, 1)
}

impl LayoutSpread {
    /// Describes the spread in a sentence.
    pub fn to_sentence(&self) -> String {
        let components = &self.components;
        let [low, high] = [components.interval.low, components.interval.high].map(format_percent);
        format!(
            "Layout: the standard deviation between builds of the same source is {}% [{low}, {high}] (slowest/fastest \
             {:.2}); between runs of one build, it is {}%.",
            format_percent(components.between),
            self.range,
            format_percent(components.within)
        )
    }
}

/// Looks up a layout effect that an earlier session showed, by case and metric. Returns the
/// session's number, and the standard deviation of logarithms between builds.
pub type KnownSpread<'a> = &'a dyn Fn(&str, &str) -> Option<(i64, f64)>;

/// Adds a note to each change that rebuilding alone could have caused: the change is smaller than
/// the known spread between builds of the same source.
pub fn note_layout_effects(findings: &mut AnalysisFindings, known_spread: KnownSpread<'_>) {
    for comparison in &mut findings.comparisons {
        let metric = &comparison.metric.name;
        let rows = comparison.rows.iter_mut();
        for row in rows.filter(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse)) {
            let change = row.change.map_or(f64::INFINITY, |change| change.value.ln_1p().abs());
            let spread = known_spread(&row.case.id(), metric).filter(|(_, sd)| change < *sd);
            row.notes.extend(spread.map(|(session, sd)| {
                format!(
                    "In @{session}, the standard deviation between builds of the same source was \
                     {}% for this case. This change is smaller, so it may come from the layout of \
                     a single build. Use --builds to find out.",
                    format_percent(sd)
                )
            }));
        }
    }
}

/// Formats a fraction as a percentage with two significant digits and at most two decimals.
fn format_percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = match percent {
        0.0 => 0.0,
        nonzero => (1.0 - nonzero.abs().log10().floor()).clamp(0.0, 2.0),
    };
    format!("{percent:.0$}", decimals as usize)
}

/// Computes the spread of each case whose builds have several runs. A case with a value of zero or
/// below gives no spread, because such a value has no logarithm.
pub fn layout_spreads(session: &Session, metrics: &[&Metric]) -> Vec<LayoutSpread> {
    spreads_of_grid(&RunGrid::new(session), metrics)
}

/// Does the same as [`layout_spreads`] for runs in a grid.
pub(super) fn spreads_of_grid(grid: &RunGrid<'_>, metrics: &[&Metric]) -> Vec<LayoutSpread> {
    let cases = grid.cases.iter();
    cases.flat_map(|case| metrics.iter().filter_map(|metric| layout_spread(case, metric))).collect()
}

/// Confidence level of the interval of a spread.
const CONFIDENCE: f64 = 0.95;

fn layout_spread(case: &CaseRuns<'_>, metric: &Metric) -> Option<LayoutSpread> {
    let families: Vec<Vec<Vec<f64>>> = (case.by_variant.iter())
        .map(|runs| {
            let builds = values_by_build(runs, &metric.name).into_values();
            let logs = builds.map(|values| values.iter().map(|run| run.value.ln()).collect());
            logs.collect()
        })
        .collect();
    if !families.iter().flatten().flatten().all(|log| log.is_finite()) {
        return None;
    }
    let components = variance_components(&families, CONFIDENCE)?;
    let range = families.iter().filter_map(|builds| {
        let medians = || builds.iter().map(|runs| median(runs));
        let largest = medians().reduce(f64::max)?;
        Some((largest - medians().reduce(f64::min)?).exp())
    });
    Some(LayoutSpread {
        case: case.id.clone(),
        metric: metric.name.clone(),
        components,
        range: range.reduce(f64::max).unwrap_or(1.0),
    })
}
