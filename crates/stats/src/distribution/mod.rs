//! Provides distribution functions that agree with R's to within a relative error of 1e-11 in both
//! tails.
//!
//! The statistical tests and the intervals use these tail areas and quantiles. The functions are
//! implemented here because values from `statrs` 0.19 differ from R's in the tenth digit or earlier
//! (see `crates/stats/DERIVATIONS.md`, "Other tests"). Start at [`student_t`].

pub mod binomial;
pub mod normal;
pub mod student_t;

// One-dimensional root search, shared by the quantile functions and the sequential limits.

/// Finds the zero of a decreasing function, starting from the bracket `low..high`.
///
/// Widens the bracket upwards until the function is zero or negative there. Then bisects: unlike
/// Newton's method, bisection cannot leave the bracket, and no caller is time-critical.
pub(crate) fn decreasing_root(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    // 1100 doublings exhaust the range of f64, so the loop ends.
    for _ in 0..1100 {
        if f(high) <= 0.0 {
            break;
        }
        low = high;
        high *= 2.0;
    }
    // Bisection halves the bracket until its ends are adjacent numbers.
    for _ in 0..200 {
        let middle = low + 0.5 * (high - low);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low + 0.5 * (high - low)
}

// Computes the distributions of mean squares. The chi-squared distribution has integer degrees of
// freedom here, so that its tail is a finite sum. Fisher's F, the distribution of the ratio of two
// independent mean squares, has degrees of freedom that need not be whole numbers.

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

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by the
/// modified method of Lentz (Applied Optics 15, 1976).
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    // Takes about sqrt(a) iterations, a few hundred at most.
    for iteration in 1..10_000 {
        let m = f64::from(iteration);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        result *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let factor = d * c;
        result *= factor;
        if (factor - 1.0).abs() < 4e-16 {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracket_grows_until_it_holds_the_root() {
        let root = decreasing_root(0.0, 1.0, |x| 12.5 - x);
        assert!((root - 12.5).abs() < 1e-12);
    }
}
