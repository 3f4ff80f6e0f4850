//! Corrects p-values for many comparisons at once.
//!
//! The functions return adjusted p-values; their callers decide which comparisons form a family.
//! NaN stands for a comparison that could not be made: it stays NaN and does not count (as in R's
//! `p.adjust`). Start at [`benjamini_hochberg`].

/// Holm's adjusted p-values (Scandinavian Journal of Statistics 6, 1979), in the order given.
///
/// If every comparison with an adjusted p-value of at most 5 % is reported as a difference, the
/// probability of any false report is at most 5 %.
pub fn adjust_holm(p_values: &[f64]) -> Vec<f64> {
    let order = ascending_indices(p_values);
    let mut adjusted = p_values.to_vec();
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        let remaining = (order.len() - rank) as f64;
        largest = largest.max((remaining * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// Benjamini and Hochberg's adjusted p-values, also called q-values (JRSS B 57, 1995), in the order
/// given.
///
/// If every comparison with an adjusted p-value of at most 5 % is reported as a difference, on
/// average at most 5 % of the reports are false, even for positively dependent comparisons
/// (Benjamini and Yekutieli, Annals of Statistics 29, 2001).
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = ascending_indices(p_values);
    let mut adjusted = p_values.to_vec();
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        let share = order.len() as f64 / (rank + 1) as f64;
        smallest = smallest.min(share * p_values[index]);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indices of the p-values that are not NaN, in ascending order of p.
fn ascending_indices(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&i| !p_values[i].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 8] = [0.01, 0.02, 0.03, 0.005, f64::NAN, 0.5, 0.04, 0.02];

    fn assert_equal(adjusted: &[f64], reference: &[f64]) {
        for (value, expected) in adjusted.iter().zip(reference) {
            let both_missing = value.is_nan() && expected.is_nan();
            assert!(both_missing || (value - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    /// R 4.2.2: `p.adjust(c(.01, .02, .03, .005, NA, .5, .04, .02), "holm")`, then `"BH"`.
    #[test]
    fn adjusted_values_equal_those_of_r() {
        assert_equal(&adjust_holm(&P), &[0.06, 0.1, 0.1, 0.035, f64::NAN, 0.5, 0.1, 0.1]);
        assert_equal(
            &benjamini_hochberg(&P),
            &[0.035, 0.035, 0.042, 0.035, f64::NAN, 0.5, 0.14 / 3.0, 0.035],
        );
    }

    #[test]
    fn adjusting_an_empty_list_or_a_single_value_changes_nothing() {
        assert!(adjust_holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
        assert_eq!(adjust_holm(&[0.03]), [0.03]);
        assert_eq!(benjamini_hochberg(&[0.03]), [0.03]);
        assert!(adjust_holm(&[f64::NAN])[0].is_nan());
    }

    #[test]
    fn adjusting_never_lowers_or_reorders_p_values() {
        let p: Vec<f64> = (1..=50).map(|i| f64::from(i * 37 % 53) / 53.0).collect();
        for adjusted in [adjust_holm(&p), benjamini_hochberg(&p)] {
            for i in 0..p.len() {
                assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
