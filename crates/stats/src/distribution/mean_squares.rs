//! Computes the distributions of mean squares. The chi-squared distribution has integer degrees of
//! freedom here, so that its tail is a finite sum. Fisher's F, the distribution of the ratio of two
//! independent mean squares, has degrees of freedom that need not be whole numbers.

use super::{decreasing_root, student_t::continued_fraction};

/// Probability that a chi-squared variable with `df` degrees of freedom exceeds `x`; NaN if `df` is
/// zero.
///
/// The sums for even and odd degrees follow Abramowitz and Stegun 26.4.4 and 26.4.5.
pub fn chi_squared_upper_tail(x: f64, df: u32) -> f64 {
    if df == 0 || x.is_nan() {
        return f64::NAN;
    }
    if x <= 0.0 {
        return 1.0;
    }
    let half = 0.5 * x;
    let is_odd = df % 2 == 1;
    // Terms are half^a e^-half / Gamma(a + 1), for a = 0, 1 ... or a = 1/2, 3/2 ...
    let mut order = if is_odd { 0.5 } else { 0.0 };
    let mut ln_term = order * half.ln() - half - libm::lgamma(order + 1.0);
    let mut tail = if is_odd { libm::erfc(half.sqrt()) } else { 0.0 };
    for _ in 0..df / 2 {
        tail += ln_term.exp();
        order += 1.0;
        ln_term += half.ln() - order.ln();
    }
    tail
}

/// The x that is exceeded with probability `tail` (R: `qchisq(1 - tail, df)`); NaN for a tail
/// outside 0..1.
pub fn chi_squared_upper_quantile(tail: f64, df: u32) -> f64 {
    if df == 0 || !(tail > 0.0 && tail < 1.0) {
        return f64::NAN;
    }
    decreasing_root(0.0, f64::from(df), |x| chi_squared_upper_tail(x, df) - tail)
}

/// Probability that a ratio of mean squares with `above` and `below` degrees of freedom exceeds
/// `f`; NaN if either number of degrees is not positive. The probability is a value of the
/// incomplete beta function (Abramowitz and Stegun 26.6.2).
pub fn f_upper_tail(f: f64, above: f64, below: f64) -> f64 {
    if !(above > 0.0 && below > 0.0) || f.is_nan() {
        return f64::NAN;
    }
    if f <= 0.0 {
        return 1.0;
    }
    let (a, b) = (0.5 * below, 0.5 * above);
    let ratio = f * b / a;
    let (x, y) = (1.0 / (1.0 + ratio), ratio / (1.0 + ratio));
    let ln_front =
        a * x.ln() + b * y.ln() - libm::lgamma(a) - libm::lgamma(b) + libm::lgamma(a + b);
    if x < (a + 1.0) / (a + b + 2.0) {
        ln_front.exp() * continued_fraction(a, b, x) / a
    } else {
        1.0 - ln_front.exp() * continued_fraction(b, a, y) / b
    }
}

/// The f that is exceeded with probability `tail` (R: `qf(1 - tail, above, below)`); NaN for a tail
/// outside 0..1.
pub fn f_upper_quantile(tail: f64, above: f64, below: f64) -> f64 {
    if !(above > 0.0 && below > 0.0 && tail > 0.0 && tail < 1.0) {
        return f64::NAN;
    }
    decreasing_root(0.0, 1.0, |f| f_upper_tail(f, above, below) - tail)
}
