//! A design: the looks, and how much error each may spend.
//!
//! Decides the limits of every look from the spending function alpha t^rho of Kim and DeMets
//! (Biometrika 74, 1987). It must not know data. Start at [`Design::limits`].

use super::boundary::limits_for_spending;
use crate::distribution::normal;
use std::fmt;
use std::sync::LazyLock;

/// Looks of the default design in runs per side: blocks of four make every one of them whole.
const DEFAULT_LOOKS: [usize; 5] = [8, 14, 20, 26, 32];
/// Share of comparisons of equal sides that may be called different.
const DEFAULT_ALPHA: f64 = 0.05;
/// Between the hasty Pocock (1) and the late O'Brien-Fleming (3).
const DEFAULT_RHO: f64 = 2.0;

/// One moment at which the test may stop the measuring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Place among the looks, from 0.
    pub index: usize,
    /// Runs per side at this look.
    pub n: usize,
    /// The test rejects at a two-sided p-value of at most this.
    pub p_limit: f64,
    /// The same limit for |z|.
    pub z_limit: f64,
    /// Probability to have rejected by now if the sides are equal.
    pub cumulative_alpha: f64,
    /// Whether there is no later look.
    pub is_last: bool,
}

/// A plan of looks that keeps the probability of a false rejection over all of them.
///
/// The plan must be fixed before the first run: looks moved after seeing data are worth nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    looks: Vec<Look>,
    alpha: f64,
}

/// Why a design cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DesignError {
    /// The looks are empty, begin with 0 or do not increase.
    Looks,
    /// Alpha is not between 0 and 1.
    Alpha,
    /// Rho is not positive and finite.
    Rho,
}

impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DesignError::Looks => "looks must be positive and increase",
            DesignError::Alpha => "alpha must lie between 0 and 1",
            DesignError::Rho => "rho must be positive",
        })
    }
}

impl std::error::Error for DesignError {}

impl Design {
    /// A design with the given looks (runs per side), spending alpha (n / last)^rho by look n.
    ///
    /// # Panics
    ///
    /// Where [`Design::try_new`] gives an error. Use that one for what a user typed.
    pub fn new(looks: &[usize], alpha: f64, rho: f64) -> Design {
        match Design::try_new(looks, alpha, rho) {
            Ok(design) => design,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Design::new`], for looks that may not make sense.
    ///
    /// # Errors
    ///
    /// See [`DesignError`].
    pub fn try_new(looks: &[usize], alpha: f64, rho: f64) -> Result<Design, DesignError> {
        let last = *looks.last().ok_or(DesignError::Looks)?;
        if looks[0] == 0 || !looks.is_sorted_by(|a, b| a < b) {
            return Err(DesignError::Looks);
        }
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(DesignError::Alpha);
        }
        if !(rho > 0.0 && rho.is_finite()) {
            return Err(DesignError::Rho);
        }
        let times: Vec<f64> = looks.iter().map(|&n| n as f64 / last as f64).collect();
        let cumulative: Vec<f64> = times.iter().map(|time| alpha * time.powf(rho)).collect();
        let limits = limits_for_spending(&times, &cumulative);
        let look = |index: usize| Look {
            index,
            n: looks[index],
            p_limit: normal::two_sided(limits[index]),
            z_limit: limits[index],
            cumulative_alpha: cumulative[index],
            is_last: index + 1 == looks.len(),
        };
        Ok(Design {
            looks: (0..looks.len()).map(look).collect(),
            alpha,
        })
    }

    /// A design with one look at `n` runs per side: the ordinary test.
    ///
    /// # Panics
    ///
    /// When `n` is 0 or `alpha` is not between 0 and 1.
    pub fn fixed(n: usize, alpha: f64) -> Design {
        Design::new(&[n], alpha, 1.0)
    }

    /// The probability to reject at one of the looks if the sides are equal.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The looks with their limits, in order.
    pub fn limits(&self) -> &[Look] {
        &self.looks
    }

    /// The look at exactly `n` runs per side, if there is one.
    pub fn look_at(&self, n: usize) -> Option<Look> {
        self.looks.iter().find(|look| look.n == n).copied()
    }

    /// The next look after `n` runs per side; None when the last one has passed.
    pub fn next_after(&self, n: usize) -> Option<Look> {
        self.looks.iter().find(|look| look.n > n).copied()
    }

    /// The largest number of runs per side.
    pub fn maximum(&self) -> usize {
        self.looks.last().map_or(0, |look| look.n)
    }
}

impl Default for Design {
    /// Looks at 8, 14, 20, 26 and 32 runs per side, alpha 5 %, rho 2.
    fn default() -> Design {
        static DEFAULT: LazyLock<Design> =
            LazyLock::new(|| Design::new(&DEFAULT_LOOKS, DEFAULT_ALPHA, DEFAULT_RHO));
        DEFAULT.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_design_is_the_ordinary_test() {
        let design = Design::fixed(30, 0.05);
        let look = design.look_at(30).unwrap();
        assert!((look.p_limit - 0.05).abs() < 1e-12 && look.is_last);
        assert!((look.z_limit - 1.959963984540054).abs() < 1e-12);
    }

    #[test]
    fn looks_are_found_by_their_number_of_runs() {
        let design = Design::default();
        assert_eq!(design.look_at(14).map(|look| look.index), Some(1));
        assert_eq!(design.look_at(15), None);
        assert_eq!(design.next_after(14).map(|look| look.n), Some(20));
        assert_eq!(design.next_after(0).map(|look| look.n), Some(8));
        assert_eq!(design.next_after(32), None);
        assert_eq!(design.maximum(), 32);
        assert!(design.look_at(32).unwrap().is_last);
    }

    #[test]
    fn senseless_designs_are_refused() {
        assert_eq!(Design::try_new(&[], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(Design::try_new(&[0, 8], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(Design::try_new(&[8, 8], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(Design::try_new(&[8], 1.0, 2.0), Err(DesignError::Alpha));
        assert_eq!(Design::try_new(&[8], 0.05, f64::NAN), Err(DesignError::Rho));
    }
}
