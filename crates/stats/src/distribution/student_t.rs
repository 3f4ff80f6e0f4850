//! Converts t values of Student's distribution to tail areas, and back. Degrees of freedom need not
//! be whole numbers.
//!
//! Start at [`two_sided`]; [`upper_quantile`] goes in the other direction.

use super::{continued_fraction, decreasing_root, normal};
use std::f64::consts::{PI, SQRT_2};

/// With more degrees of freedom than this, the expansion about the normal distribution is used. It
/// is then accurate except for its last digits. The continued fraction would lose a digit each time
/// the degrees of freedom grow tenfold, because its argument df / (df + t^2) approaches 1.
const MANY_DEGREES: f64 = 10_000.0;

/// Probability that |T| exceeds |t| with `df` degrees of freedom; NaN when `df` is not positive.
///
/// The probability is the regularised incomplete beta function I_x(df/2, 1/2) at x = df / (df +
/// t^2) (Abramowitz and Stegun 26.7.1).
pub fn two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    tail_areas(t, df).0
}

/// The t that is exceeded with probability `tail` (R: `qt(1 - tail, df)`).
///
/// NaN when `tail` is outside 0..=1 or `df` is not positive.
pub fn upper_quantile(tail: f64, df: f64) -> f64 {
    if !(0.0..=1.0).contains(&tail) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if tail > 0.5 {
        return -upper_quantile(1.0 - tail, df);
    }
    if tail == 0.0 {
        return f64::INFINITY;
    }
    if tail == 0.5 {
        return 0.0;
    }
    // Areas near 1 must not be compared, because their difference has few significant digits.
    // Therefore, a t in the tails is found by the area beyond -t and t, and a t in the middle by
    // the area between them.
    let outer = 2.0 * tail;
    if outer <= 0.5 {
        tail_quantile(outer, df)
    } else {
        decreasing_root(0.0, 1.0, |t| (1.0 - outer) - tail_areas(t, df).1)
    }
}

/// The t for which P(|T| > t) is `outer`; `outer` must be at most 0.5.
///
/// Applies Newton's method to the logarithm of the area, which is nearly linear in the tail.
/// Bisection replaces a step that leaves the current bracket. A table of thousands of comparisons
/// needs three quantiles per row, and this method takes 2 or 3 evaluations where bisection takes
/// 55.
fn tail_quantile(outer: f64, df: f64) -> f64 {
    let target = outer.ln();
    let ln_beta = ln_beta_half(0.5 * df);
    let ln_front = std::f64::consts::LN_2 - 0.5 * df.ln() - ln_beta;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut t = initial_guess(0.5 * outer, df);
    for _ in 0..60 {
        let area = areas_with(t, df, ln_beta).0;
        if area > outer {
            low = t;
        } else {
            high = t;
        }
        let density = (ln_front - 0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        let next = t + (area.ln() - target) * area / density;
        // The relative error of `next` is about the square of the relative length of this step.
        if (next - t).abs() <= 1e-7 * t {
            return next;
        }
        t = if next > low && next < high {
            next
        } else if high.is_finite() {
            low + 0.5 * (high - low)
        } else {
            2.0 * low
        };
    }
    decreasing_root(0.0, 1.0, |t| tail_areas(t, df).0 - outer)
}

/// Initial guess of the quantile: the expansion about the normal quantile (Abramowitz and Stegun
/// 26.7.5), which is close for about 3 or more degrees of freedom.
fn initial_guess(tail: f64, df: f64) -> f64 {
    let z = normal::upper_quantile(tail);
    let s = z * z;
    let g1 = (s + 1.0) * z / 4.0;
    let g2 = ((5.0 * s + 16.0) * s + 3.0) * z / 96.0;
    let g3 = (((3.0 * s + 19.0) * s + 17.0) * s - 15.0) * z / 384.0;
    let g4 = ((((79.0 * s + 776.0) * s + 1482.0) * s - 1920.0) * s - 945.0) * z / 92160.0;
    let r = 1.0 / df.max(1.0);
    z + r * (g1 + r * (g2 + r * (g3 + r * g4)))
}

/// P(|T| > |t|) and P(|T| < |t|), each accurate where it is small.
fn tail_areas(t: f64, df: f64) -> (f64, f64) {
    areas_with(t, df, ln_beta_half(0.5 * df))
}

/// Like [`tail_areas`], with ln B(df/2, 1/2) given.
fn areas_with(t: f64, df: f64, ln_beta: f64) -> (f64, f64) {
    if t == 0.0 {
        return (1.0, 0.0);
    }
    let square = t * t;
    if square.is_infinite() {
        return (0.0, 1.0);
    }
    if df > MANY_DEGREES {
        let z = equivalent_normal(square, df);
        return (normal::two_sided(z), libm::erf(z / SQRT_2));
    }
    let x = df / (df + square);
    let y = square / (df + square);
    let a = 0.5 * df;
    // x^a y^(1/2) / B(a, 1/2), with logarithms that stay exact when t^2 is tiny compared with df.
    let ln_front = -a * (square / df).ln_1p() + 0.5 * y.ln() - ln_beta;
    // The continued fraction converges fast below the mean of the beta distribution; above it,
    // I_x(a, b) = 1 - I_y(b, a) is used.
    if x < (a + 1.0) / (a + 2.5) {
        let outer = ln_front.exp() * continued_fraction(a, 0.5, x) / a;
        (outer, 1.0 - outer)
    } else {
        let inner = ln_front.exp() * continued_fraction(0.5, a, y) / 0.5;
        (1.0 - inner, inner)
    }
}

/// The z whose normal tail area equals the tail area of t, for many degrees of freedom (Hill,
/// Algorithm 395, Communications of the ACM 13, 1970).
fn equivalent_normal(square: f64, df: f64) -> f64 {
    let a = df - 0.5;
    let b = 48.0 * a * a;
    let y = a * (square / df).ln_1p();
    let inner = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b);
    ((inner + y + 3.0) / b + 1.0) * y.sqrt()
}

/// ln B(a, 1/2).
///
/// For large a the two log-gammas agree in most of their digits, so their difference is taken from
/// the series of Gamma(a + 1/2) / Gamma(a) (Tricomi and Erdelyi, Pacific J. Math. 1, 1951).
fn ln_beta_half(a: f64) -> f64 {
    let ln_gamma_half = 0.5 * PI.ln();
    if a < 60.0 {
        return libm::lgamma(a) + ln_gamma_half - libm::lgamma(a + 0.5);
    }
    let r = 1.0 / a;
    let series = -r / 8.0
        + r * r / 128.0
        + r.powi(3) * 5.0 / 1024.0
        + r.powi(4) * -21.0 / 32768.0
        + r.powi(5) * -399.0 / 262144.0;
    ln_gamma_half - 0.5 * a.ln() - series.ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative_error(value: f64, reference: f64) -> f64 {
        (value / reference - 1.0).abs()
    }

    #[test]
    fn one_degree_of_freedom_is_the_cauchy_distribution() {
        for t in [1e-6, 0.3, 1.0, 7.0, 1e6] {
            let exact = 1.0 - 2.0 / PI * f64::atan(t);
            assert!((two_sided(t, 1.0) - exact).abs() < 1e-14, "t = {t}");
        }
    }

    #[test]
    fn quantile_and_tail_are_inverse_to_each_other() {
        for df in [0.7, 1.0, 3.3, 12.0, 57.9, 400.0, 1e6] {
            for tail in [1e-12, 1e-6, 0.0005, 0.025, 0.2, 0.3, 0.49, 0.4999999] {
                let t = upper_quantile(tail, df);
                let error = relative_error(0.5 * two_sided(t, df), tail);
                assert!(error < 1e-12, "df {df} tail {tail}: {error:e}");
            }
        }
    }

    #[test]
    fn the_distribution_is_symmetric_about_zero() {
        assert_eq!(upper_quantile(0.975, 5.0), -upper_quantile(1.0 - 0.975, 5.0));
        assert_eq!(two_sided(-2.0, 5.0), two_sided(2.0, 5.0));
        assert_eq!(upper_quantile(0.5, 5.0), 0.0);
    }

    #[test]
    fn invalid_arguments_give_nan() {
        assert!(two_sided(1.0, 0.0).is_nan());
        assert!(two_sided(f64::NAN, 3.0).is_nan());
        assert!(upper_quantile(1.5, 3.0).is_nan());
        assert_eq!(upper_quantile(0.0, 3.0), f64::INFINITY);
    }
}
