//! How a quantity depends on another: its scaling exponent.
//!
//! Decides the least-squares line in logarithms. It must not know what the numbers are. Start at
//! [`scaling`].

use crate::describe::mean;

/// A power law y = factor x^exponent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Slope in log-log coordinates: 1 is linear, 0 constant.
    pub exponent: f64,
    /// Value of the line at x = 1.
    pub factor: f64,
    /// Share of the variance of ln y that the line explains; NaN when y is constant.
    pub r_squared: f64,
}

/// Least-squares line through (ln x, ln y).
///
/// None unless there are 2 different x, all numbers are positive, and the lengths are equal.
pub fn scaling(x: &[f64], y: &[f64]) -> Option<Scaling> {
    let positive = |values: &[f64]| values.iter().all(|v| *v > 0.0 && v.is_finite());
    if x.len() != y.len() || !positive(x) || !positive(y) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
    let (x, y) = (logs(x), logs(y));
    let (centre_x, centre_y) = (mean(&x), mean(&y));
    let products = |a: &[f64], ca: f64, b: &[f64], cb: f64| {
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - ca) * (b - cb))
            .sum::<f64>()
    };
    let xx = products(&x, centre_x, &x, centre_x);
    let xy = products(&x, centre_x, &y, centre_y);
    let yy = products(&y, centre_y, &y, centre_y);
    let exponent = xy / xx;
    let factor = (centre_y - exponent * centre_x).exp();
    // Without two different x there is no slope: xx is 0, or NaN for no values at all.
    (xx > 0.0).then_some(Scaling {
        exponent,
        factor,
        r_squared: xy * xy / (xx * yy),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_found_exactly() {
        let x = [1.0, 2.0, 8.0, 64.0];
        let y = x.map(|x: f64| 3.0 * x.powf(-0.75));
        let fit = scaling(&x, &y).unwrap();
        assert!((fit.exponent + 0.75).abs() < 1e-14 && (fit.factor - 3.0).abs() < 1e-14);
        assert!((fit.r_squared - 1.0).abs() < 1e-14);
    }

    /// R 4.2.2: `m <- lm(log(y) ~ log(x)); coef(m); summary(m)$r.squared`.
    #[test]
    fn a_noisy_power_law_equals_that_of_r() {
        let fit = scaling(&[16.0, 64.0, 256.0, 1024.0], &[5.1, 14.0, 70.0, 190.0]).unwrap();
        assert!((fit.exponent / 0.8990001589313901 - 1.0).abs() < 1e-12);
        assert!((fit.factor.ln() / -0.921021682514803 - 1.0).abs() < 1e-12);
        assert!((fit.r_squared / 0.9906496114816444 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_line_needs_two_places_and_positive_numbers() {
        assert_eq!(scaling(&[2.0, 2.0], &[1.0, 3.0]), None);
        assert_eq!(scaling(&[1.0, 0.0], &[1.0, 3.0]), None);
        assert_eq!(scaling(&[1.0], &[1.0, 3.0]), None);
        assert_eq!(scaling(&[], &[]), None);
    }
}
