//! Ranks with ties.
//!
//! Decides that equal values share the mean of their places (mid-ranks) and how many there are. It
//! must not know which group a value belongs to. Start at [`mid_ranks`].

/// Rank of every value, from 1; equal values get the mean of the ranks they occupy.
///
/// The ranks come in the order of the values. Values must not be NaN.
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for (first, tied) in runs_of_equals(&order, values) {
        let rank = first as f64 + 0.5 * (tied.len() + 1) as f64;
        for &index in tied {
            ranks[index] = rank;
        }
    }
    ranks
}

/// Sum of t^3 - t over the groups of t equal values: 0 without ties.
///
/// It is what ties take away from the variance of a rank sum (Lehmann, Nonparametrics, 1975).
pub fn tie_term(values: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    runs_of_equals(&order, values)
        .map(|(_, tied)| {
            let t = tied.len() as f64;
            t * t * t - t
        })
        .sum()
}

/// Maximal runs of equal values in ascending order, each with the place of its first member.
fn runs_of_equals<'a>(
    order: &'a [usize],
    values: &'a [f64],
) -> impl Iterator<Item = (usize, &'a [usize])> {
    let mut first = 0;
    order
        .chunk_by(|&a, &b| values[a] == values[b])
        .map(move |tied| {
            let place = first;
            first += tied.len();
            (place, tied)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_of_their_places() {
        assert_eq!(
            mid_ranks(&[8.0, 8.0, 7.0, 4.54, 800.0]),
            [3.5, 3.5, 2.0, 1.0, 5.0]
        );
        assert_eq!(mid_ranks(&[5.0; 4]), [2.5; 4]);
        assert!(mid_ranks(&[]).is_empty());
    }

    #[test]
    fn negative_zero_equals_zero() {
        assert_eq!(mid_ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn ranks_always_add_up_to_the_triangular_number() {
        for n in 1..60u32 {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * 7919 % 13)).collect();
            let sum: f64 = mid_ranks(&values).iter().sum();
            assert_eq!(sum, f64::from(n * (n + 1)) / 2.0);
        }
    }

    #[test]
    fn the_tie_term_counts_every_group_of_equals() {
        assert_eq!(tie_term(&[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(tie_term(&[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]), 6.0 + 24.0);
    }
}
