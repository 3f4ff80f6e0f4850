//! The figures of Node.js core's compare table: improvement, Welch's p and three accuracies.
//!
//! Decides the arithmetic of one row; it must not know names, order or text. The accuracies divide
//! the half width of the interval of the difference by the mean of the reference and leave out that
//! mean's own uncertainty, so they are no interval of the ratio; `analysis` proper has one.
//! Start at [`welch_row`].

use speedwell_stats::describe::mean;
use speedwell_stats::test::welch::{WelchError, welch};

/// Risks for which accuracies are given; a p value below them earns one, two or three stars.
pub const RISKS: [f64; 3] = [0.05, 0.01, 0.001];

/// One row of the table. Percentages are of the mean of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WelchRow {
    /// Mean of the reference; NaN if it has no values.
    pub mean_old: f64,
    /// Mean of the candidate; NaN if it has no values.
    pub mean_new: f64,
    /// How much larger the mean of the candidate is, in percent; NaN if a side is empty.
    pub improvement_percent: f64,
    /// What the test says.
    pub test: Tested,
}

/// The part of a row that needs a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tested {
    /// A side has fewer than 2 values.
    TooFew,
    /// The values do not vary, so that p is not defined.
    Constant,
    /// The test is defined.
    Done {
        /// Two-sided p value.
        p: f64,
        /// Half width of the interval of the difference at each of [`RISKS`], in percent.
        accuracy_percent: [f64; 3],
    },
}

impl WelchRow {
    /// One star for each risk that the p value is below.
    pub fn stars(&self) -> usize {
        match self.test {
            Tested::Done { p, .. } => RISKS.iter().filter(|&&risk| p < risk).count(),
            Tested::TooFew | Tested::Constant => 0,
        }
    }
}

/// Compares the rates of one case.
pub fn welch_row(old: &[f64], new: &[f64]) -> WelchRow {
    let (mean_old, mean_new) = (mean(old), mean(new));
    let improvement_percent = (mean_new - mean_old) / mean_old * 100.0;
    let test = match welch(old, new) {
        Ok(test) => Tested::Done {
            p: test.p,
            accuracy_percent: RISKS.map(|risk| test.half_width(risk) / mean_old * 100.0),
        },
        Err(WelchError::TooFew) => Tested::TooFew,
        Err(WelchError::Constant) => Tested::Constant,
    };
    WelchRow {
        mean_old,
        mean_new,
        improvement_percent,
        test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_side_has_no_improvement() {
        let row = welch_row(&[5.0, 6.0], &[]);
        assert!(row.improvement_percent.is_nan());
        assert_eq!(row.test, Tested::TooFew);
    }

    #[test]
    fn constant_values_still_have_an_improvement() {
        let row = welch_row(&[5.0, 5.0], &[6.0, 6.0]);
        assert!((row.improvement_percent - 20.0).abs() < 1e-12);
        assert_eq!((row.test, row.stars()), (Tested::Constant, 0));
    }

    #[test]
    fn stars_count_the_risks_undercut() {
        let stars = |p| {
            let test = Tested::Done {
                p,
                accuracy_percent: [0.0; 3],
            };
            WelchRow {
                test,
                ..welch_row(&[1.0], &[1.0])
            }
            .stars()
        };
        assert_eq!(
            [0.05, 0.049, 0.01, 0.009, 0.001, 0.0009].map(stars),
            [0, 1, 1, 2, 2, 3]
        );
    }
}
