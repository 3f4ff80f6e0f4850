//! Fisher's F: the ratio of two independent mean squares, for real degrees of freedom.

use super::{decreasing_root, student_t::continued_fraction};

/// Probability that a ratio of mean squares with `above` and `below` degrees of freedom exceeds `f`; NaN without degrees
/// of freedom. It is the incomplete beta function (Abramowitz and Stegun 26.6.2).
pub fn upper_tail(f: f64, above: f64, below: f64) -> f64 {
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

/// The f that is exceeded with probability `tail` (R: `qf(1 - tail, above, below)`); NaN for a tail outside 0..1.
pub fn upper_quantile(tail: f64, above: f64, below: f64) -> f64 {
    if !(above > 0.0 && below > 0.0 && tail > 0.0 && tail < 1.0) {
        return f64::NAN;
    }
    decreasing_root(0.0, 1.0, |f| upper_tail(f, above, below) - tail)
}
