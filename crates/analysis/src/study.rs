//! How a metric depends on one parameter.
//!
//! Decides what makes a point (one x value of one line) and which parameters are averaged over.
//! Cases are aggregated first and runs are resampled within them: pooling the runs of different
//! cases would count the differences between cases as noise. It must not know charts. Start at
//! [`study`].

mod cells;
pub(super) mod point;
pub(super) mod step;

use super::grid::Grid;
use super::of::metrics;
use super::remarks::count;
use super::warnings::list;
use super::{Aggregated, Settings, Study};
use anyhow::bail;
use cells::{Axes, Cell, Key};
use speedwell_model::Session;
use speedwell_stats::fit::scaling;

/// Share of the variance within points from which a parameter should not be averaged over.
pub const LARGE_SHARE: f64 = 0.5;

/// Studies how the first metric asked for depends on the parameter `x_axis`, with one line per
/// value of `by`: another parameter, `variant` or `benchmark`.
///
/// A session of several variants gets a line for each unless `by` says otherwise.
///
/// # Errors
/// When `x_axis` or `by` is not a parameter of any case, the metric is unknown, or there are no
/// runs; the message names what there is.
pub fn study(
    session: &Session,
    x_axis: &str,
    by: Option<&str>,
    settings: &Settings,
) -> anyhow::Result<Study> {
    let mut warnings = Vec::new();
    let Some(&metric) = metrics(session, settings, &mut warnings).first() else {
        bail!(
            "nothing to study: {}",
            warnings.first().map_or("no metric", String::as_str)
        );
    };
    let grid = Grid::new(session);
    let axes = Axes::new(&grid, x_axis, by)?;
    let cells = cells::cells(&grid, &axes, &metric.name, &mut warnings);
    if cells.is_empty() {
        bail!(
            "no case with the parameter '{x_axis}' has a value of '{}'",
            metric.name
        );
    }
    let confidence = settings.confidence.unwrap_or(Settings::DEFAULT_CONFIDENCE);
    let points = cells::points(&cells, &axes);
    let drawn: Vec<_> = points
        .iter()
        .map(|point| point::draw(point, confidence, settings.seed))
        .collect();
    let aggregated = aggregated(&grid, &axes, &points, &mut warnings);
    warnings.extend(step::on_reachable_p(&points));
    Ok(Study {
        metric: metric.clone(),
        x_axis: x_axis.to_owned(),
        by: axes.by.as_ref().map(Key::name),
        aggregated,
        steps: step::steps(&points, &drawn),
        exponents: exponents(&drawn),
        points: drawn,
        warnings,
    })
}

/// Parameters with several values that are neither x nor line, with the share of the variance
/// within points that each explains.
fn aggregated(
    grid: &Grid<'_>,
    axes: &Axes,
    points: &[cells::Point<'_>],
    warnings: &mut Vec<String>,
) -> Vec<Aggregated> {
    let mut all = Vec::new();
    for key in cells::keys(grid) {
        let of = |cell: &Cell| key.of(cell);
        if axes.uses(&key) || cells::levels(points, &of).len() < 2 {
            continue;
        }
        let explained = cells::explained(points, &of);
        if let Some(share) = explained.filter(|share| *share > LARGE_SHARE) {
            warnings.push(format!(
                "'{}' explains {:.0} % of the variance within points; separate it with --by, or \
                 select one value.",
                key.name(),
                100.0 * share
            ));
        }
        all.push(Aggregated {
            name: key.name(),
            explained,
        });
    }
    all
}

/// Per line, the slope of the logarithm of the mean over the logarithm of x.
fn exponents(points: &[super::StudyPoint]) -> Vec<(String, Option<f64>)> {
    let by_line = points.chunk_by(|a, b| a.line == b.line);
    by_line
        .map(|line| {
            let x: Option<Vec<f64>> = line.iter().map(|point| point.x.as_number()).collect();
            let y: Vec<f64> = line.iter().map(|point| point.mean.value).collect();
            let fit = x.and_then(|x| scaling(&x, &y));
            (line[0].line.clone(), fit.map(|fit| fit.exponent))
        })
        .collect()
}

/// The error message for a name that is not a parameter.
fn unknown(name: &str, keys: &[Key]) -> anyhow::Error {
    let parameters: Vec<String> = keys.iter().map(Key::name).collect();
    if parameters.is_empty() {
        anyhow::anyhow!("no parameter '{name}': the cases have no parameters")
    } else {
        anyhow::anyhow!(
            "no parameter '{name}'; there {} {}",
            if parameters.len() == 1 { "is" } else { "are" },
            list(parameters.iter().map(String::as_str))
        )
    }
}

/// The warning for cases that lack a parameter.
fn without(cases: usize, name: &str) -> String {
    format!(
        "{} without '{name}' left out.",
        count(cases, "case is", "cases are")
    )
}
