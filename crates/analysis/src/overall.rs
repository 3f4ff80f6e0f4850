//! The change of the typical case over all cases of a comparison.
//!
//! Decides the geometric mean of the ratios and its interval. The cases are treated as a sample of
//! all work that might have been measured, so they are resampled, and so is the noise of each. It
//! must not know verdicts.

use super::row::Row;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::Estimate;
use speedwell_stats::describe::{mean, quantile};
use speedwell_stats::distribution::normal;

/// Resamples: the ends of a 95 % interval then rest on 50 values each.
const DRAWS: usize = 2_000;

/// Cases up to which the mean of resamples need not be normal.
const FEW: usize = 500;

/// Geometric mean of the ratios, as a change, with its interval; `None` below two cases.
///
/// Cases without a bounded interval take no part, unless fewer than two have one: then all take
/// part, and nothing bounds the mean. A case that is drawn brings the noise of its
/// blocks along as a normal deviate with the standard error that its own interval implies: to first
/// order that is what resampling its blocks would give, at a thousandth of the cost.
pub(super) fn overall(rows: &[Row], confidence: f64, seed: u64) -> Option<Estimate> {
    let cases: Vec<(f64, f64)> = rows.iter().filter_map(ratio_and_error).collect();
    if cases.len() < 2 {
        return unbounded(rows);
    }
    if cases.len() > FEW {
        return Some(by_normal(&cases, confidence));
    }
    let count = cases.len() as f64;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resample = || {
        let (mut sum, mut variance) = (0.0, 0.0);
        for _ in 0..cases.len() {
            let (log_ratio, error) = cases[random.random_range(0..cases.len())];
            sum += log_ratio;
            variance += error * error;
        }
        // The sum of independent normal deviates is one with the sum of their variances. Both ends
        // are left out because the quantile is infinite there.
        let noise = normal::quantile(random.random_range(1e-12..1.0));
        (sum + noise * variance.sqrt()) / count
    };
    let mut resamples: Vec<f64> = (0..DRAWS).map(|_| resample()).collect();
    resamples.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - confidence);
    let logs: Vec<f64> = cases.iter().map(|(log_ratio, _)| *log_ratio).collect();
    Some(Estimate {
        value: mean(&logs).exp_m1(),
        low: quantile(&resamples, tail).exp_m1(),
        high: quantile(&resamples, 1.0 - tail).exp_m1(),
    })
}

/// The interval for many cases, where resampling would give the same: the sum of so many
/// independent draws is normal (central limit theorem), with the variance between cases and that of
/// their noise.
fn by_normal(cases: &[(f64, f64)], confidence: f64) -> Estimate {
    let count = cases.len() as f64;
    let center = cases.iter().map(|(log_ratio, _)| log_ratio).sum::<f64>() / count;
    let variance = |&(log_ratio, error): &(f64, f64)| (log_ratio - center).powi(2) + error * error;
    let error = cases.iter().map(variance).sum::<f64>().sqrt() / count;
    let reach = normal::quantile(0.5 * (1.0 + confidence)) * error;
    Estimate {
        value: center.exp_m1(),
        low: (center - reach).exp_m1(),
        high: (center + reach).exp_m1(),
    }
}

/// The mean over all cases, where their intervals say nothing.
fn unbounded(rows: &[Row]) -> Option<Estimate> {
    let logs: Vec<f64> = rows.iter().filter_map(log_ratio).collect();
    (logs.len() >= 2).then(|| Estimate {
        value: mean(&logs).exp_m1(),
        low: -1.0,
        high: f64::INFINITY,
    })
}

/// Cases that take no part in [`overall`].
pub(super) fn left_out(rows: &[Row]) -> usize {
    let bounded = rows
        .iter()
        .filter(|row| ratio_and_error(row).is_some())
        .count();
    let part = match bounded {
        0 | 1 => rows.iter().filter_map(log_ratio).count(),
        _ => bounded,
    };
    rows.len() - part
}

fn ratio_and_error(row: &Row) -> Option<(f64, f64)> {
    Some((log_ratio(row)?, row.precision?.error))
}

fn log_ratio(row: &Row) -> Option<f64> {
    let log_ratio = row.comparison.change?.value.ln_1p();
    log_ratio.is_finite().then_some(log_ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cases_give_what_resampling_would() {
        // Equidistant ratios from -10 % to +20 % on the scale of logarithms, an error of 1 % each.
        let cases: Vec<(f64, f64)> = (0..501)
            .map(|at| (-0.1 + 0.3 * f64::from(at) / 500.0, 0.01))
            .collect();
        let exact = by_normal(&cases, 0.95);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut resamples: Vec<f64> = (0..4_000)
            .map(|_| {
                let sum: f64 = (0..cases.len())
                    .map(|_| {
                        let (log_ratio, error) = cases[random.random_range(0..cases.len())];
                        log_ratio + error * normal::quantile(random.random_range(1e-12..1.0))
                    })
                    .sum();
                sum / cases.len() as f64
            })
            .collect();
        resamples.sort_unstable_by(f64::total_cmp);
        let (low, high) = (quantile(&resamples, 0.025), quantile(&resamples, 0.975));
        let width = high - low;
        assert!((exact.value - 0.05_f64.exp_m1()).abs() < 1e-12, "{exact:?}");
        assert!(
            (exact.low.ln_1p() - low).abs() < 0.05 * width,
            "{exact:?} {low}"
        );
        assert!(
            (exact.high.ln_1p() - high).abs() < 0.05 * width,
            "{exact:?} {high}"
        );
    }
}
