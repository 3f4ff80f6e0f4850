//! What dependence between neighbouring points costs.
//!
//! Decides by how much the variance of a level's mean exceeds that of independent points. It must not know evidence. Two
//! estimates of the correlation, of which the smaller counts: that from differences is blinded by many steps, that from
//! residuals by steps not seen yet. Start at [`inflation`].

use super::series::Series;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};

/// Points that are looked back at.
const WINDOW: usize = 256;
/// Differences and residuals beyond so many robust deviations are clipped there.
const CLIP: f64 = 2.5;
/// Largest correlation that is corrected for; beyond it steps and noise are the same thing.
const LARGEST: f64 = 0.8;
/// Estimates are shrunk by n / (n + 20).
const SHRINK: f64 = 20.0;
/// A machine gives differences from so many points on, and a level residuals.
const FEWEST_POINTS: usize = 12;
const FEWEST_OF_LEVEL: usize = 4;
/// With fewer pairs of differences, or residuals, nothing is estimated.
const FEWEST_PAIRS: usize = 10;
const FEWEST_RESIDUALS: usize = 16;

/// By what dependence multiplies the variance of a level's mean: (1 + phi) / (1 - phi), where phi is the correlation of
/// neighbours among the last 256 of the first `end` points. `borders` are the changes so far, with the one in question.
pub(super) fn inflation(series: &Series, borders: &[usize], end: usize) -> f64 {
    let phi = of_differences(series, end).min(of_residuals(series, borders, end));
    (1.0 + phi) / (1.0 - phi)
}

/// From clipped differences, which steps hardly touch: 1 + 2 sum d d' / sum d^2
/// (idea: Tecuapetla-Gomez and Munk, Scandinavian Journal of Statistics 44, 2017).
fn of_differences(series: &Series, end: usize) -> f64 {
    let (mut products, mut squares, mut pairs) = (0.0, 0.0, 0);
    for values in series.each_machine(end.saturating_sub(WINDOW)..end) {
        if values.len() < FEWEST_POINTS {
            continue;
        }
        let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let Some(clipped) = clip(&differences) else {
            continue;
        };
        for pair in clipped.windows(2) {
            products += pair[0] * pair[1];
            squares += 0.5 * (pair[0] * pair[0] + pair[1] * pair[1]);
        }
        pairs += clipped.len() - 1;
    }
    if pairs < FEWEST_PAIRS {
        return 0.0;
    }
    shrunk(1.0 + 2.0 * products / squares, pairs)
}

/// From residuals about the median of each level and machine; each costs Kendall's bias (Biometrika 41, 1954).
fn of_residuals(series: &Series, borders: &[usize], end: usize) -> f64 {
    let start = end.saturating_sub(WINDOW);
    let inside = borders.iter().copied().filter(|&at| start < at && at < end);
    let ends: Vec<usize> = [start].into_iter().chain(inside).chain([end]).collect();
    let mut groups = Vec::new();
    for level in ends.windows(2) {
        let machines = series.each_machine(level[0]..level[1]);
        groups.extend(machines.filter(|values| values.len() >= FEWEST_OF_LEVEL));
    }
    for group in &mut groups {
        let centre = median(group);
        group.iter_mut().for_each(|value| *value -= centre);
    }
    let residuals = groups.concat();
    let Some(clipped) = clip(&residuals).filter(|_| residuals.len() >= FEWEST_RESIDUALS) else {
        return 0.0;
    };
    let (mut products, mut squares, mut rest) = (0.0, 0.0, clipped.as_slice());
    for group in &groups {
        let (values, after) = rest.split_at(group.len());
        let centre = mean(values);
        products += values
            .windows(2)
            .map(|pair| (pair[0] - centre) * (pair[1] - centre))
            .sum::<f64>();
        squares += values
            .iter()
            .map(|value| (value - centre).powi(2))
            .sum::<f64>();
        rest = after;
    }
    let (phi, count) = (products / squares, residuals.len());
    shrunk(
        phi + groups.len() as f64 * (1.0 + 3.0 * phi) / count as f64,
        count,
    )
}

/// Values no farther from zero than 2.5 robust deviations; None when more than half are zero.
fn clip(values: &[f64]) -> Option<Vec<f64>> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let limit = CLIP * NORMAL_CONSISTENCY * median(&sizes);
    (limit > 0.0).then(|| {
        values
            .iter()
            .map(|value| value.clamp(-limit, limit))
            .collect()
    })
}

fn shrunk(phi: f64, count: usize) -> f64 {
    let count = count as f64;
    (phi * count / (count + SHRINK)).clamp(0.0, LARGEST)
}
