//! From one x value of a line to the next.
//!
//! Decides ratio, test and scaling exponent of a step, and warns where no step could ever be
//! significant. It must not know how points came about.

use super::cells::Point;
use crate::evidence::mann_whitney_p;
use crate::remarks::count;
use crate::row::finite;
use crate::{StudyPoint, StudyStep};
use speedwell_stats::effect::cliffs_delta;
use speedwell_stats::test::mann_whitney::smallest_p;

/// A p value that no step can go below makes the test pointless.
const POINTLESS: f64 = 0.05;
/// A p value that no step can go below leaves no room for many steps.
const TIGHT: f64 = 0.005;

/// The steps between neighbouring points of each line.
pub(super) fn steps(points: &[Point<'_>], drawn: &[StudyPoint]) -> Vec<StudyStep> {
    let neighbours = points.windows(2).zip(drawn.windows(2));
    let same_line = |(pair, _): &(&[Point<'_>], &[StudyPoint])| pair[0].line == pair[1].line;
    neighbours
        .filter(same_line)
        .map(|(pair, drawn)| step(pair, drawn))
        .collect()
}

fn step(points: &[Point<'_>], drawn: &[StudyPoint]) -> StudyStep {
    let (from, to) = (&points[0], &points[1]);
    let (before, after) = (from.pooled(), to.pooled());
    let ratio = drawn[1].mean.value / drawn[0].mean.value;
    let growth = from
        .x
        .as_number()
        .zip(to.x.as_number())
        .map(|(a, b)| (b / a).ln());
    StudyStep {
        line: from.line.clone(),
        from: from.x.clone(),
        to: to.x.clone(),
        ratio,
        p: finite(mann_whitney_p(&before, &after)),
        cliffs_delta: finite(cliffs_delta(&before, &after)),
        exponent: growth.map(|growth| ratio.ln() / growth).and_then(finite),
    }
}

/// A warning when the steps with the fewest runs cannot reach a small p value.
pub(super) fn on_reachable_p(points: &[Point<'_>]) -> Option<String> {
    let runs = |point: &Point<'_>| point.pooled().len();
    let steps = points
        .windows(2)
        .filter(|pair| pair[0].line == pair[1].line);
    reachable_p(steps.map(|pair| (runs(&pair[0]), runs(&pair[1]))))
}

/// The same for steps that are known by their numbers of runs.
pub fn reachable_p(steps: impl Iterator<Item = (usize, usize)>) -> Option<String> {
    let (smallest, a, b) = steps
        .map(|(a, b)| (smallest_p(a, b), a, b))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    let runs = format!("{} against {}", count(a, "run", "runs"), b);
    if smallest >= POINTLESS {
        Some(format!(
            "With {runs} no step can reach a p value below {smallest:.2}: take more runs."
        ))
    } else if smallest >= TIGHT {
        Some(format!(
            "With {runs} the smallest p value of a step is {smallest:.3}."
        ))
    } else {
        None
    }
}
