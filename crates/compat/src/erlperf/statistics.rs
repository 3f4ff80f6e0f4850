//! The statistics of erlperf's tables, by its own definitions.
//!
//! Median and 99th percentile are elements of the sorted samples, never between two; so for at most 50 samples the
//! percentile is the greatest.

/// What samples show together, in their own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub average: f64,
    /// Standard deviation of a sample (n - 1); a single sample has none.
    pub deviation: Option<f64>,
    /// The smallest.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// The lower one of the two in the middle.
    pub median: f64,
    /// Ninety-nine of a hundred are not greater.
    pub p99: f64,
}

/// `None` without samples.
pub fn statistics(samples: &[f64]) -> Option<Statistics> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (least, greatest) = (*sorted.first()?, *sorted.last()?);
    let average = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|one| (one - average).powi(2)).sum();
    let at = |share: f64| {
        let place = (share * count as f64).round() as usize;
        sorted[place.clamp(1, count) - 1]
    };
    Some(Statistics {
        count,
        average,
        deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        least,
        greatest,
        median: at(0.5),
        p99: at(0.99),
    })
}

/// Standard deviation as a share of the mean; `None` where it is not known.
pub fn variation(samples: &[f64]) -> Option<f64> {
    let seen = statistics(samples)?;
    let share = seen.deviation? / seen.average;
    share.is_finite().then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values by hand: variance 10/4 for 1..5, and places 0.5 n and 0.99 n rounded half away from zero.
    #[test]
    fn elements_of_the_sorted_samples_are_told() {
        let five = statistics(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.average, five.median, five.p99), (3.0, 3.0, 5.0));
        assert_eq!((five.least, five.greatest), (1.0, 5.0));
        assert!((five.deviation.unwrap() - 2.5_f64.sqrt()).abs() < 1e-12);
        let four = statistics(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(four.median, 2.0, "the lower of the two in the middle");
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(statistics(&hundred).unwrap().p99, 99.0);
    }

    #[test]
    fn one_sample_has_no_deviation_and_none_has_nothing() {
        let one = statistics(&[7.0]).unwrap();
        assert_eq!((one.average, one.median, one.p99), (7.0, 7.0, 7.0));
        assert_eq!(one.deviation, None);
        assert_eq!(statistics(&[]), None);
        assert_eq!(variation(&[7.0]), None);
        assert_eq!(variation(&[0.0, 0.0]), None);
        assert_eq!(variation(&[2.0, 2.0]), Some(0.0));
    }
}
