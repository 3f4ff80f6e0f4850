//! Provides distribution functions that agree with R's to within a relative error of 1e-11 in both
//! tails.
//!
//! The statistical tests and the intervals use these tail areas and quantiles. The functions are
//! implemented here because values from `statrs` 0.19 differ from R's in the tenth digit or earlier
//! (see `crates/stats/DERIVATIONS.md`, "Other tests"). Start at [`student_t`].

pub mod binomial;
pub mod mean_squares;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracket_grows_until_it_holds_the_root() {
        let root = decreasing_root(0.0, 1.0, |x| 12.5 - x);
        assert!((root - 12.5).abs() < 1e-12);
    }
}
