//! Whether a number of iterations gives results that are steady enough.
//!
//! Decides with the rule of Node core's `calibrate-n.js`: the coefficient of variation of each case, with the
//! standard deviation of the population, and its mean over the cases. It must not know how numbers are tried. Start at
//! [`Spread::of`].

use speedwell_stats::describe::{mean, standard_deviation};

/// What is steady enough; coefficients of variation as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// The mean over the cases must be below this.
    pub mean: f64,
    /// That of a single case must not be above this.
    pub single: f64,
}

/// The coefficients of variation of the cases under one number of iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// One for each case; NaN for a case without results.
    pub cases: Vec<f64>,
    /// Their mean; infinite without cases.
    pub mean: f64,
}

impl Spread {
    /// The spread of the rates of several cases.
    pub fn of<'a>(rates: impl IntoIterator<Item = &'a [f64]>) -> Spread {
        let cases: Vec<f64> = rates.into_iter().map(variation).collect();
        let mean = match cases.is_empty() {
            true => f64::INFINITY,
            false => mean(&cases),
        };
        Spread { cases, mean }
    }

    /// How many cases vary too much by themselves.
    pub fn unsteady(&self, enough: Steadiness) -> usize {
        let within = |variation: &&f64| **variation <= enough.single;
        // A case without results has no variation, and is not within.
        self.cases.len() - self.cases.iter().filter(within).count()
    }

    /// Whether all of them together are steady enough.
    pub fn is_steady(&self, enough: Steadiness) -> bool {
        self.mean < enough.mean && self.unsteady(enough) == 0
    }
}

/// Standard deviation of the population over the mean; 0 for one value.
fn variation(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    if rates.len() == 1 {
        return 0.0;
    }
    standard_deviation(rates) * ((count - 1.0) / count).sqrt() / mean(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_population() {
        // numpy.std([2, 4]) / numpy.mean([2, 4]) = 1 / 3
        let spread = Spread::of([&[2.0, 4.0][..], &[7.0]]);
        assert!((spread.cases[0] - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!(spread.cases[1], 0.0);
        assert!((spread.mean - 1.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn one_unsteady_case_is_enough_to_go_on() {
        let enough = Steadiness {
            mean: 0.05,
            single: 0.1,
        };
        let steady = [100.0, 100.5];
        let unsteady = [100.0, 130.0];
        let many = std::iter::repeat_n(&steady[..], 9).chain([&unsteady[..]]);
        let spread = Spread::of(many);
        assert!(spread.mean < 0.05 && spread.unsteady(enough) == 1);
        assert!(!spread.is_steady(enough));
        assert!(Spread::of([&steady[..]]).is_steady(enough));
        assert!(!Spread::of([]).is_steady(enough), "nothing is not steady");
    }
}
