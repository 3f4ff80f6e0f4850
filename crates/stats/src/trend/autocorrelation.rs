//! Computes by how much the evidence for a change must be reduced because adjacent points depend on
//! each other.
//!
//! This module estimates the factor by which the dependence increases the variance of a level's
//! mean. It uses the smaller of two estimates of the correlation: many steps (changes of the level)
//! bias the estimate from differences, and undetected steps bias the estimate from residuals. Start
//! at [`variance_inflation`].

use super::series::TrendSeries;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};

/// Number of past points used.
const WINDOW: usize = 256;
/// Differences and residuals are clipped at this many robust deviations.
const CLIP: f64 = 2.5;
/// Maximum correlation that is corrected for: above it, steps and noise are indistinguishable.
const MAX_CORRELATION: f64 = 0.8;
/// Estimates are multiplied by n / (n + `SHRINK`), where n is the number of pairs of differences or
/// of residuals.
const SHRINK: f64 = 20.0;
/// Minimum number of points that a machine must have for the estimate from differences.
const MIN_POINTS: usize = 12;
/// Minimum number of points that a machine must have in a level for the estimate from residuals.
const MIN_LEVEL_POINTS: usize = 4;
/// Minimum number of pairs of differences for an estimate.
const MIN_PAIRS: usize = 10;
/// Minimum number of residuals for an estimate.
const MIN_RESIDUALS: usize = 16;

/// The factor by which dependence multiplies the variance of a level's mean: (1 + phi) / (1 - phi),
/// where phi is the correlation of adjacent points within the last 256 points before `end`.
/// `borders` are the places of the changes so far, including the change that is being examined.
pub(super) fn variance_inflation(series: &TrendSeries, borders: &[usize], end: usize) -> f64 {
    let phi =
        correlation_of_differences(series, end).min(correlation_of_residuals(series, borders, end));
    (1.0 + phi) / (1.0 - phi)
}

/// Estimates the correlation from clipped differences, which steps hardly affect. The estimate is
/// `1 + 2 sum d d' / sum d^2`, where d' is the difference after d (idea: Tecuapetla-Gomez and Munk,
/// Scandinavian Journal of Statistics 44, 2017).
fn correlation_of_differences(series: &TrendSeries, end: usize) -> f64 {
    let (mut products, mut squares, mut pairs) = (0.0, 0.0, 0);
    for values in series.each_machine(end.saturating_sub(WINDOW)..end) {
        if values.len() < MIN_POINTS {
            continue;
        }
        let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let Some(clipped) = clip_outliers(&differences) else {
            continue;
        };
        for pair in clipped.windows(2) {
            products += pair[0] * pair[1];
            squares += 0.5 * (pair[0] * pair[0] + pair[1] * pair[1]);
        }
        pairs += clipped.len() - 1;
    }
    if pairs < MIN_PAIRS {
        return 0.0;
    }
    shrink_estimate(1.0 + 2.0 * products / squares, pairs)
}

/// Estimates the correlation from residuals about the median of each level and machine, corrected
/// for Kendall's bias (Biometrika 41, 1954).
fn correlation_of_residuals(series: &TrendSeries, borders: &[usize], end: usize) -> f64 {
    let start = end.saturating_sub(WINDOW);
    let inner_borders = borders.iter().copied().filter(|&border| start < border && border < end);
    let ends: Vec<usize> = [start].into_iter().chain(inner_borders).chain([end]).collect();
    let mut groups = Vec::new();
    for level in ends.windows(2) {
        let machines = series.each_machine(level[0]..level[1]);
        groups.extend(machines.filter(|values| values.len() >= MIN_LEVEL_POINTS));
    }
    for group in &mut groups {
        let center = median(group);
        group.iter_mut().for_each(|value| *value -= center);
    }
    let residuals = groups.concat();
    let Some(clipped) = clip_outliers(&residuals).filter(|_| residuals.len() >= MIN_RESIDUALS)
    else {
        return 0.0;
    };
    let (mut products, mut squares, mut remainder) = (0.0, 0.0, clipped.as_slice());
    for group in &groups {
        let (values, next) = remainder.split_at(group.len());
        let center = mean(values);
        products +=
            values.windows(2).map(|pair| (pair[0] - center) * (pair[1] - center)).sum::<f64>();
        squares += values.iter().map(|value| (value - center).powi(2)).sum::<f64>();
        remainder = next;
    }
    let (phi, count) = (products / squares, residuals.len());
    shrink_estimate(phi + groups.len() as f64 * (1.0 + 3.0 * phi) / count as f64, count)
}

/// Clips values at 2.5 robust deviations from zero; `None` when more than half of the values are
/// zero.
fn clip_outliers(values: &[f64]) -> Option<Vec<f64>> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let limit = CLIP * NORMAL_CONSISTENCY * median(&sizes);
    (limit > 0.0).then(|| values.iter().map(|value| value.clamp(-limit, limit)).collect())
}

fn shrink_estimate(phi: f64, count: usize) -> f64 {
    let count = count as f64;
    (phi * count / (count + SHRINK)).clamp(0.0, MAX_CORRELATION)
}

#[cfg(test)]
mod tests {
    use super::super::series::MeasuredPoint;
    use super::*;

    /// Autoregressive sums of uniform numbers, with a step at 100. If `machines` is 2, two machines
    /// take turns.
    fn autoregressive_series(seed: u64, correlation: f64, step: f64, machines: u32) -> TrendSeries {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        let mut levels = [0.0; 2];
        let points: Vec<MeasuredPoint> = (0..200)
            .map(|position| {
                let machine = position % machines;
                let level = &mut levels[machine as usize];
                *level = correlation * *level + 0.02 * (uniform() + uniform() + uniform());
                let log =
                    *level + 0.2 * f64::from(machine) + if position < 100 { 0.0 } else { step };
                MeasuredPoint { value: log.exp(), machine, position }
            })
            .collect();
        TrendSeries::new(&points).unwrap_or_default()
    }

    /// Mean inflation over twenty series.
    fn mean_inflation(correlation: f64, step: f64, machines: u32, borders: &[usize]) -> f64 {
        let of = |seed| {
            variance_inflation(
                &autoregressive_series(seed, correlation, step, machines),
                borders,
                200,
            )
        };
        (1..=20).map(of).sum::<f64>() / 20.0
    }

    #[test]
    fn only_dependent_points_inflate_the_variance_considerably() {
        let independent = mean_inflation(0.0, 0.0, 1, &[]);
        assert!(independent < 1.15, "{independent}");
        // (1 + .6) / (1 - .6) = 4, less the effect of shrinking and of taking the smaller estimate.
        let dependent = mean_inflation(0.6, 0.0, 1, &[]);
        assert!((2.4..4.0).contains(&dependent), "{dependent}");
        assert_eq!(variance_inflation(&autoregressive_series(1, 0.6, 0.0, 1), &[], 11), 1.0);
    }

    #[test]
    fn a_step_is_not_mistaken_for_dependence() {
        for borders in [&[][..], &[100]] {
            let cost = mean_inflation(0.0, 0.3, 1, borders);
            assert!(cost < 1.3, "{cost}");
        }
    }

    #[test]
    fn alternating_machines_are_not_mistaken_for_dependence() {
        let (independent, dependent) =
            (mean_inflation(0.0, 0.0, 2, &[]), mean_inflation(0.7, 0.0, 2, &[]));
        assert!(independent < 1.15 && dependent > 2.4, "{independent} {dependent}");
    }
}
