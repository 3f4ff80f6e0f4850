//! Analyzes how a metric depends on one parameter.
//!
//! A study has one line per variant, or per value of another parameter. Decides what makes a point
//! (one x value of one line) and which parameters are averaged over. Cases are aggregated first and
//! runs are resampled within them, because pooling the runs of different cases would count the
//! differences between cases as noise. Does not chart the results. Start at [`study_parameter`].

use crate::evidence::mann_whitney_p;
use crate::grid::{RunGrid, distinct_items, finite_values};
use crate::session::{requested_metrics, unknown_metric_message};
use crate::summary::{estimate_with_interval, finite_or_none};
use crate::warnings::{format_count, quote_list};
use crate::{AggregatedParameter, AnalysisSettings, ParameterStudy, StudyPoint, StudyStep};
use anyhow::bail;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::{Case, IntervalEstimate, ParameterValue, Session};
use speedwell_stats::bootstrap::percentile_interval;
use speedwell_stats::describe::{mean, median, skewness};
use speedwell_stats::effect::{cliffs_delta, eta_squared};
use speedwell_stats::test::mann_whitney::smallest_p;
use speedwell_stats::usl::power_law_exponent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cases should not be averaged over a parameter that explains more than this fraction of the
/// variance within points.
pub const MAX_AGGREGATED_SHARE: f64 = 0.5;

/// Analyzes how the first requested metric depends on the parameter `x_axis`, with one line per
/// value of `by`: another parameter, `variant` or `benchmark`.
///
/// Without `by`, a session of several variants gets one line per variant.
///
/// # Errors
/// Fails if no case has the parameter `x_axis`, if `by` names nothing that can separate lines, if
/// the metric is unknown, or if there are no runs. For an unknown name, the message lists the known
/// names.
pub fn study_parameter(
    session: &Session,
    x_axis: &str,
    by: Option<&str>,
    settings: &AnalysisSettings,
) -> anyhow::Result<ParameterStudy> {
    let (metrics, unknown) = requested_metrics(session, settings);
    let unknown_messages = unknown.iter().map(|name| unknown_metric_message(session, name));
    let mut warnings: Vec<String> = unknown_messages.collect();
    let Some(&metric) = metrics.first() else {
        bail!(
            "nothing to study: {}",
            warnings.first().map_or("the session has no metric", String::as_str)
        );
    };
    let grid = RunGrid::new(session);
    let axes = StudyAxes::new(&grid, x_axis, by)?;
    let cells = study_cells(&grid, &axes, &metric.name, &mut warnings);
    if cells.is_empty() {
        bail!("no case with the parameter '{x_axis}' has a value of '{}'", metric.name);
    }
    let confidence = settings.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE);
    let points = group_points(&cells, &axes);
    let summaries: Vec<_> =
        points.iter().map(|point| summarize_point(point, confidence, settings.seed)).collect();
    let aggregated = aggregated_parameters(&grid, &axes, &points, &mut warnings);
    // Warn if the steps with the fewest runs cannot reach a small p value.
    let run_counts = neighbors(&summaries).map(|[from, to]| (from.runs.len(), to.runs.len()));
    warnings.extend(warn_smallest_p(run_counts));
    Ok(ParameterStudy {
        metric: metric.clone(),
        x_axis: x_axis.to_owned(),
        by: axes.by.as_ref().map(StudyKey::name),
        aggregated,
        steps: neighbors(&summaries).map(|[from, to]| line_step(from, to)).collect(),
        exponents: scaling_exponents(&summaries),
        points: summaries,
        warnings,
    })
}

/// Parameters over which cases are aggregated: they have several values, are not the x axis, and do
/// not separate lines. Each comes with the fraction of the variance within points that it explains.
fn aggregated_parameters(
    grid: &RunGrid<'_>,
    axes: &StudyAxes,
    points: &[PointCells<'_>],
    warnings: &mut Vec<String>,
) -> Vec<AggregatedParameter> {
    let mut aggregated = Vec::new();
    for key in study_keys(grid) {
        let value_of = |cell: &StudyCell| key.value_in(cell);
        let cells = points.iter().flat_map(|point| &point.cells);
        let values: BTreeSet<String> = cells.map(|cell| value_of(cell)).collect();
        if axes.is_axis(&key) || values.len() < 2 {
            continue;
        }
        let explained = explained_share(points, &value_of);
        if let Some(share) = explained.filter(|share| *share > MAX_AGGREGATED_SHARE) {
            warnings.push(format!(
                "'{}' explains {:.0}% of the variance within points; draw a line for each of its values with --by, or \
                 select one value.",
                key.name(),
                100.0 * share
            ));
        }
        aggregated.push(AggregatedParameter { name: key.name(), explained });
    }
    aggregated
}

/// Slope of log mean over log x, per line.
fn scaling_exponents(points: &[StudyPoint]) -> Vec<(String, Option<f64>)> {
    let by_line = points.chunk_by(|a, b| a.line == b.line);
    by_line
        .map(|line| {
            let x: Option<Vec<f64>> = line.iter().map(|point| point.x.as_number()).collect();
            let y: Vec<f64> = line.iter().map(|point| point.mean.value).collect();
            (line[0].line.clone(), x.and_then(|x| power_law_exponent(&x, &y)))
        })
        .collect()
}

/// Error for a name that is not a parameter.
fn unknown_parameter(name: &str, keys: &[StudyKey]) -> anyhow::Error {
    let parameters: Vec<String> = keys.iter().map(StudyKey::name).collect();
    if parameters.is_empty() {
        anyhow::anyhow!("no parameter '{name}': the cases have no parameters")
    } else {
        anyhow::anyhow!(
            "no parameter '{name}'; {} {}",
            if parameters.len() == 1 { "the only one is" } else { "choose one of" },
            quote_list(parameters.iter().map(String::as_str))
        )
    }
}

/// A property by which cells differ.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StudyKey {
    /// Parameter of the case.
    Parameter(String),
    /// Benchmark name.
    Benchmark,
    /// Variant name.
    Variant,
}

impl StudyKey {
    /// Name on the command line.
    pub fn name(&self) -> String {
        match self {
            StudyKey::Parameter(name) => name.clone(),
            StudyKey::Benchmark => "benchmark".into(),
            StudyKey::Variant => "variant".into(),
        }
    }

    /// Value in a cell; empty if the case lacks the parameter.
    pub fn value_in(&self, cell: &StudyCell) -> String {
        match self {
            StudyKey::Parameter(name) => {
                cell.case.value(name).map_or(String::new(), ParameterValue::plain)
            }
            StudyKey::Benchmark => cell.case.benchmark.clone(),
            StudyKey::Variant => cell.variant.to_string(),
        }
    }
}

/// The x axis and the property that separates lines.
struct StudyAxes {
    pub x: String,
    pub by: Option<StudyKey>,
}

impl StudyAxes {
    /// Resolves the axes by name.
    pub fn new(grid: &RunGrid<'_>, x: &str, by: Option<&str>) -> anyhow::Result<StudyAxes> {
        let keys = study_keys(grid);
        let parameters: Vec<StudyKey> =
            keys.iter().filter(|key| matches!(key, StudyKey::Parameter(_))).cloned().collect();
        if !parameters.contains(&StudyKey::Parameter(x.to_owned())) {
            return Err(unknown_parameter(x, &parameters));
        }
        let find = |name: &str| keys.iter().find(|key| key.name() == name && name != x).cloned();
        let by = match by {
            Some(name) => Some(find(name).ok_or_else(|| unknown_parameter(name, &keys))?),
            None => (grid.variants.len() > 1).then_some(StudyKey::Variant),
        };
        Ok(StudyAxes { x: x.to_owned(), by })
    }

    /// Whether the key is one of the axes.
    pub fn is_axis(&self, key: &StudyKey) -> bool {
        self.by.as_ref() == Some(key) || *key == StudyKey::Parameter(self.x.clone())
    }

    fn line_of_cell(&self, cell: &StudyCell) -> String {
        self.by.as_ref().map_or(String::new(), |key| key.value_in(cell))
    }
}

/// Properties by which the cells of a session may differ: parameters by first appearance, then
/// benchmark and variant.
fn study_keys(grid: &RunGrid<'_>) -> Vec<StudyKey> {
    let values = grid.cases.iter().flat_map(|case| &case.case.values);
    let mut keys = distinct_items(values.map(|(name, _)| StudyKey::Parameter(name.clone())));
    keys.extend([StudyKey::Benchmark, StudyKey::Variant]);
    keys
}

/// The runs of one case under one variant.
struct StudyCell {
    pub case: Arc<Case>,
    pub variant: Arc<str>,
    pub x: ParameterValue,
    pub values: Vec<f64>,
}

/// Cells with the same x value in the same line.
struct PointCells<'a> {
    pub x: ParameterValue,
    pub line: String,
    pub cells: Vec<&'a StudyCell>,
}

/// Cells with an x value and at least one value of the metric.
fn study_cells(
    grid: &RunGrid<'_>,
    axes: &StudyAxes,
    metric: &str,
    warnings: &mut Vec<String>,
) -> Vec<StudyCell> {
    let (mut cells, mut lacking) = (Vec::new(), 0);
    for case in &grid.cases {
        let Some(x) = case.case.value(&axes.x) else {
            lacking += 1;
            continue;
        };
        for (variant, runs) in grid.variants.iter().zip(&case.by_variant) {
            let values: Vec<f64> =
                finite_values(runs, metric).iter().map(|run| run.value).collect();
            if !values.is_empty() {
                let (case, variant) = (case.case.clone(), variant.clone());
                cells.push(StudyCell { case, variant, x: x.clone(), values });
            }
        }
    }
    if lacking > 0 {
        warnings.push(format!(
            "{} left out for lack of the parameter '{}'.",
            format_count(lacking, "case is", "cases are"),
            axes.x
        ));
    }
    cells
}

/// Groups cells into points, line by line.
fn group_points<'a>(cells: &'a [StudyCell], axes: &StudyAxes) -> Vec<PointCells<'a>> {
    let lines = distinct_items(cells.iter().map(|cell| axes.line_of_cell(cell)));
    let mut points: Vec<PointCells<'a>> = Vec::new();
    for cell in cells {
        let line = axes.line_of_cell(cell);
        match points.iter_mut().find(|point| point.line == line && point.x == cell.x) {
            Some(point) => point.cells.push(cell),
            None => points.push(PointCells { x: cell.x.clone(), line, cells: vec![cell] }),
        }
    }
    let line_index = |line: &String| lines.iter().position(|other| other == line);
    let number = |point: &PointCells<'_>| point.x.as_number().unwrap_or(f64::INFINITY);
    points.sort_by(|a, b| {
        line_index(&a.line).cmp(&line_index(&b.line)).then(number(a).total_cmp(&number(b)))
    });
    points
}

/// Fraction of the variance within points that a key explains (eta squared); `None` if the values
/// of every point are equal.
fn explained_share(
    points: &[PointCells<'_>],
    value_of: &impl Fn(&StudyCell) -> String,
) -> Option<f64> {
    let groups = |point: &PointCells<'_>| {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for cell in &point.cells {
            groups.entry(value_of(cell)).or_default().extend(&cell.values);
        }
        groups.into_values().collect()
    };
    eta_squared(&points.iter().map(groups).collect::<Vec<_>>())
}

/// Number of resamples. With this number, 50 resampled values lie beyond each end of a 95%
/// interval.
const DRAWS: usize = 2_000;
/// A mean is a doubtful summary if the skewness is above this limit. The scatter analysis of
/// Node.js core uses the same limit.
const MAX_SKEWNESS: f64 = 1.0;

/// Summarizes a point. Its mean is the mean of the cases' means, with a percentile interval from
/// resampling the runs of each case. If no case has two runs, there is no interval, and `low` and
/// `high` equal the mean.
fn summarize_point(point: &PointCells<'_>, confidence: f64, seed: u64) -> StudyPoint {
    let pooled: Vec<f64> =
        point.cells.iter().flat_map(|cell| cell.values.iter().copied()).collect();
    let mean = mean_interval(point, confidence, seed);
    let middle = median(&pooled);
    StudyPoint {
        x: point.x.clone(),
        line: point.line.clone(),
        cases: point.cells.len(),
        mean,
        median: middle,
        is_skewed: is_skewed(&pooled, mean.low, mean.high),
        runs: pooled,
    }
}

/// Whether the mean is a doubtful summary: the values are skewed, or their median lies outside the
/// interval of the mean.
pub fn is_skewed(values: &[f64], low: f64, high: f64) -> bool {
    let is_outside = low < high && !(low..=high).contains(&median(values));
    is_outside || skewness(values).abs() > MAX_SKEWNESS
}

fn mean_interval(point: &PointCells<'_>, confidence: f64, seed: u64) -> IntervalEstimate {
    let means: Vec<f64> = point.cells.iter().map(|cell| mean(&cell.values)).collect();
    let value = mean(&means);
    if point.cells.iter().all(|cell| cell.values.len() < 2) {
        return estimate_with_interval(value, None);
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resampled_mean = |values: &[f64]| {
        let pick = |_| values[random.random_range(0..values.len())];
        (0..values.len()).map(pick).sum::<f64>() / values.len() as f64
    };
    let mut resample = || {
        let sum: f64 = point.cells.iter().map(|cell| resampled_mean(&cell.values)).sum();
        sum / point.cells.len() as f64
    };
    let resamples = (0..DRAWS).map(|_| resample()).collect();
    estimate_with_interval(value, Some(percentile_interval(resamples, confidence)))
}

/// If the smallest possible p value is at least this, the test is pointless.
const POINTLESS_P: f64 = 0.05;
/// If the smallest possible p value is at least this, no step can survive a correction for many
/// steps.
const TIGHT_P: f64 = 0.005;

/// Neighboring points of each line.
fn neighbors(points: &[StudyPoint]) -> impl Iterator<Item = [&StudyPoint; 2]> {
    let pairs = points.windows(2).map(|pair| [&pair[0], &pair[1]]);
    pairs.filter(|[from, to]| from.line == to.line)
}

fn line_step(from: &StudyPoint, to: &StudyPoint) -> StudyStep {
    let ratio = to.mean.value / from.mean.value;
    let growth = from.x.as_number().zip(to.x.as_number()).map(|(a, b)| (b / a).ln());
    StudyStep {
        line: from.line.clone(),
        from: from.x.clone(),
        to: to.x.clone(),
        ratio,
        p: finite_or_none(mann_whitney_p(&from.runs, &to.runs)),
        cliffs_delta: finite_or_none(cliffs_delta(&from.runs, &to.runs)),
        exponent: growth.map(|growth| ratio.ln() / growth).and_then(finite_or_none),
    }
}

/// Warns if the step with the fewest runs cannot reach a small p value. A step is given by the
/// numbers of runs of its two points.
pub fn warn_smallest_p(steps: impl Iterator<Item = (usize, usize)>) -> Option<String> {
    let (smallest, a, b) = steps
        .map(|(a, b)| (smallest_p(a, b), a, b))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    let runs = format!("{} at one point and {} at the next", format_count(a, "run", "runs"), b);
    if smallest >= POINTLESS_P {
        Some(format!(
            "With {runs}, no step can reach a p value below {smallest:.2}: take more runs."
        ))
    } else if smallest >= TIGHT_P {
        Some(format!("With {runs}, the smallest possible p value of a step is {smallest:.3}."))
    } else {
        None
    }
}
