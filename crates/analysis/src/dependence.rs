//! Whether runs depend on those before them, and whether the order of runs makes that harmful.
//!
//! Decides how the noise is separated from the variants and when a correlation is worth a word. It
//! must not know tests.

use crate::paired::PairedRuns;
use speedwell_model::RunValue;
use speedwell_stats::describe::{lag1_autocorrelation, mean};

/// Runs below which a correlation says nothing.
const FEWEST_RUNS: usize = 8;

/// Lag-1 correlation of one series in order of execution; `None` below 8 runs or for constant
/// values.
pub(super) fn autocorrelation(values: &[f64]) -> Option<f64> {
    let known = (values.len() >= FEWEST_RUNS).then(|| lag1_autocorrelation(values))?;
    known.is_finite().then_some(known)
}

/// Whether a lag-1 correlation of `runs` values exceeds what independent ones give in 95 % of cases
/// (Box and Jenkins, Time Series Analysis, 1970: standard error 1 / sqrt n).
pub(super) fn is_marked(correlation: f64, runs: usize) -> bool {
    correlation.abs() > 2.0 / (runs as f64).sqrt()
}

/// Whether the noise of a pair depends on its past. `apart` is as for [`noise_autocorrelation`].
pub(super) fn noise_depends_on_its_past(pair: &PairedRuns, apart: bool) -> bool {
    let runs = pair.baseline.len() + pair.candidate.len();
    noise_autocorrelation(pair, apart).is_some_and(|known| is_marked(known, runs))
}

/// The lag-1 correlation of both sides' runs in order of execution, after each side's mean was taken
/// away. Removing block means instead would make independent noise look correlated.
///
/// `apart` says that the slots of the two sides do not share a scale, as they come from different
/// sessions.
pub(super) fn noise_autocorrelation(pair: &PairedRuns, apart: bool) -> Option<f64> {
    let mut noise = residuals(&pair.baseline);
    noise.extend(residuals(&pair.candidate));
    if !apart {
        noise.sort_by_key(|&(slot, _)| slot);
    }
    let noise: Vec<f64> = noise.into_iter().map(|(_, residual)| residual).collect();
    autocorrelation(&noise)
}

/// Whether all runs of one side were executed before those of the other.
pub(super) fn is_one_after_the_other(pair: &PairedRuns) -> bool {
    let span = |runs: &[RunValue]| {
        let slots = runs.iter().map(|run| run.slot);
        slots.clone().min().zip(slots.max())
    };
    match (span(&pair.baseline), span(&pair.candidate)) {
        (Some(old), Some(new)) => {
            let runs = pair.baseline.len() + pair.candidate.len();
            runs > 2 && (old.1 < new.0 || new.1 < old.0)
        }
        _ => false,
    }
}

/// Deviations from the mean, of logarithms where they exist.
fn residuals(runs: &[RunValue]) -> Vec<(u32, f64)> {
    let positive = runs.iter().all(|run| run.value > 0.0);
    let scale = |value: f64| if positive { value.ln() } else { value };
    let values: Vec<f64> = runs.iter().map(|run| scale(run.value)).collect();
    let centre = mean(&values);
    runs.iter()
        .zip(values)
        .map(|(run, value)| (run.slot, value - centre))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::Matching;

    /// Alternating runs whose value is given by slot.
    fn alternating(runs: u32, value: impl Fn(u32) -> f64) -> PairedRuns {
        let side = |first: u32| -> Vec<RunValue> {
            let slots = (0..runs).map(|i| 2 * i + first);
            slots
                .map(|slot| RunValue {
                    slot,
                    block: 0,
                    value: value(slot),
                })
                .collect()
        };
        PairedRuns::new(side(0), side(1), Matching::None)
    }

    #[test]
    fn drift_is_dependence_but_a_difference_of_the_sides_is_not() {
        let irregular = |slot: u32| f64::from(slot * slot * 7919 % 101) / 5000.0;
        let change = |slot: u32| if slot % 2 == 1 { 50.0 } else { 0.0 };
        let independent = alternating(20, |slot| 100.0 + change(slot) + irregular(slot));
        assert!(!noise_depends_on_its_past(&independent, false));
        let drifting = alternating(20, |slot| 100.0 + change(slot) + f64::from(slot));
        assert!(noise_depends_on_its_past(&drifting, false));
    }

    #[test]
    fn few_or_constant_runs_say_nothing() {
        assert!(!noise_depends_on_its_past(
            &alternating(3, f64::from),
            false
        ));
        assert!(!noise_depends_on_its_past(&alternating(20, |_| 5.0), false));
        assert_eq!(autocorrelation(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn sides_that_do_not_overlap_in_time_are_noticed() {
        let side = |first: u32| -> Vec<RunValue> {
            (first..first + 5)
                .map(|slot| RunValue {
                    slot,
                    block: 0,
                    value: 1.0,
                })
                .collect()
        };
        let pair = |a: u32, b: u32| PairedRuns::new(side(a), side(b), Matching::None);
        assert!(is_one_after_the_other(&pair(0, 5)));
        assert!(is_one_after_the_other(&pair(5, 0)));
        assert!(!is_one_after_the_other(&pair(0, 4)));
        assert!(!is_one_after_the_other(&alternating(5, f64::from)));
    }
}
