//! Spreads the points of one box sideways, so that equal and near values can be seen apart.
//! Deterministic: no random numbers, the same values always lie the same way.

/// Offsets in [-0.5, 0.5] for values in ascending order: where many values lie close together the points
/// spread wider, so that the cloud's outline shows the distribution (a sina plot: N. Sidiropoulos et
/// al., 2018).
pub(crate) fn offsets(sorted: &[f64]) -> Vec<f64> {
    let densities = densities(sorted);
    // Fewer values than this hardly touch and need not spread over the whole width.
    const CROWD: f64 = 6.0;
    let densest = densities.iter().copied().fold(CROWD, f64::max);
    let spread = |(at, density): (usize, &f64)| (van_der_corput(at + 1) - 0.5) * density / densest;
    densities.iter().enumerate().map(spread).collect()
}

/// How many values lie near each value, itself included: within a tenth of the whole range.
fn densities(sorted: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    // Halves first, because the range of finite numbers need not be finite.
    let near = (last / 2.0 - first / 2.0) * 0.2;
    let (mut from, mut to) = (0, 0);
    let count = |value: &f64| {
        while sorted[from] < value - near {
            from += 1;
        }
        while to < sorted.len() && sorted[to] <= value + near {
            to += 1;
        }
        (to - from) as f64
    };
    sorted.iter().map(count).collect()
}

/// The van der Corput sequence in base 2: every stretch of it fills the unit interval evenly, and
/// neighbours lie far apart, which is what overlapping points need.
fn van_der_corput(mut index: usize) -> f64 {
    let (mut value, mut share) = (0.0, 0.5);
    while index > 0 {
        value += share * (index % 2) as f64;
        index /= 2;
        share /= 2.0;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_do_not_lie_on_each_other() {
        let mut offsets = offsets(&[1.0; 16]);
        offsets.sort_by(f64::total_cmp);
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] > 0.01));
        assert!(offsets.iter().all(|offset| offset.abs() <= 0.5));
    }

    #[test]
    fn a_lonely_value_stays_near_the_middle() {
        let mut values = vec![1.0; 50];
        values.push(100.0);
        let offsets = offsets(&values);
        assert!(offsets[50].abs() < 0.02);
        assert!(offsets.iter().any(|offset| offset.abs() > 0.4));
    }

    #[test]
    fn the_sequence_is_that_of_van_der_corput() {
        assert_eq!([1, 2, 3, 4].map(van_der_corput), [0.5, 0.25, 0.75, 0.125]);
    }

    #[test]
    fn extreme_values_do_no_harm() {
        assert_eq!(offsets(&[f64::MIN, f64::MAX]).len(), 2);
        assert!(offsets(&[]).is_empty());
    }
}
