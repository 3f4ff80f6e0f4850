//! Computes variance components: the scatter between groups of values, and the scatter within
//! groups.
//!
//! This module separates these two sources of variation (random-effects analysis of variance), and
//! computes how many values a group should have. Start at [`variance_components`].

use crate::Interval;
use crate::describe::{NORMAL_CONSISTENCY, mean, median};
use crate::distribution::{chi_squared_upper_quantile, f_upper_quantile};

/// A value farther from its group's median than this many standard deviations is moved to that
/// distance, so that one disturbed run is not mistaken for the scatter of all runs. The standard
/// deviation is estimated from the median absolute deviation within all groups.
const MAX_DEVIATIONS: f64 = 4.0;

/// Standard deviations of values between groups and within groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceComponents {
    /// Number of groups in all families.
    pub groups: usize,
    /// Standard deviation between the true values of the groups in a family; 0 if the groups differ
    /// no more than expected from the scatter within them.
    pub between: f64,
    /// The interval of `between` at the requested confidence.
    pub interval: Interval,
    /// Standard deviation of the values within a group.
    pub within: f64,
}

/// Variance components of groups of values. Groups are compared only within their family: families
/// may differ in level.
///
/// The estimates come from the analysis of variance: `(MSB - MSW) / n` and `MSW`, where MSB and MSW
/// are the mean squares between and within groups, and n is the size of the groups, or a weighted
/// mean of their sizes if these differ. The interval is Tukey's and Williams' (Searle, Casella and
/// McCulloch, Variance Components, 1992, 3.6), with ends clamped to 0. `None` unless some family
/// has at least two groups with values, and at least one group has at least two values.
pub fn variance_components(
    families: &[Vec<Vec<f64>>],
    confidence: f64,
) -> Option<VarianceComponents> {
    let (mut groups, mut between_df, mut within_df) = (0, 0, 0);
    let (mut between_squares, mut within_squares, mut size) = (0.0, 0.0, 0.0);
    let max_distance = MAX_DEVIATIONS * robust_scale(families);
    for family in families {
        let family: Vec<Vec<f64>> = (family.iter().filter(|group| !group.is_empty()))
            .map(|group| clamp_outliers(group, max_distance))
            .collect();
        let count = family.iter().map(Vec::len).sum::<usize>() as f64;
        let center = family.iter().flatten().sum::<f64>() / count;
        for group in &family {
            let (group_mean, n) = (mean(group), group.len() as f64);
            between_squares += n * (group_mean - center).powi(2);
            within_squares += group.iter().map(|value| (value - group_mean).powi(2)).sum::<f64>();
            size -= n * n / count;
        }
        size += if family.is_empty() { 0.0 } else { count };
        groups += family.len();
        between_df += family.len().saturating_sub(1) as u32;
        within_df += count as u32 - family.len() as u32;
    }
    if between_df == 0 || within_df == 0 {
        return None;
    }
    let mean_size = size / f64::from(between_df);
    let mean_between = between_squares / f64::from(between_df);
    let mean_within = within_squares / f64::from(within_df);
    let tail = 0.5 * (1.0 - confidence);
    let end = |tail: f64| {
        let f = f_upper_quantile(tail, f64::from(between_df), f64::from(within_df));
        let chi_squared = chi_squared_upper_quantile(tail, between_df);
        ((between_squares - f64::from(between_df) * f * mean_within) / (mean_size * chi_squared))
            .max(0.0)
            .sqrt()
    };
    Some(VarianceComponents {
        groups,
        between: ((mean_between - mean_within) / mean_size).max(0.0).sqrt(),
        interval: Interval { low: end(tail), high: end(1.0 - tail) },
        within: mean_within.sqrt(),
    })
}

impl VarianceComponents {
    /// Optimal number of values per group if starting a group costs `cost` times as much as one
    /// value. This number gives the narrowest interval for the same effort (Kalibera and Jones,
    /// ISMM 2013). `None` if groups do not differ, so that one group is enough.
    pub fn values_per_group(&self, cost: f64) -> Option<u32> {
        let best = (cost.max(0.0)).sqrt() * self.within / self.between;
        best.is_finite().then(|| best.round().max(1.0) as u32)
    }
}

/// The standard deviation within groups, by the median absolute deviation.
fn robust_scale(families: &[Vec<Vec<f64>>]) -> f64 {
    let deviations_in = |group: &Vec<f64>| {
        let center = median(group);
        group.iter().map(|value| (value - center).abs()).collect::<Vec<f64>>()
    };
    let deviations: Vec<f64> = families.iter().flatten().flat_map(deviations_in).collect();
    NORMAL_CONSISTENCY * median(&deviations)
}

fn clamp_outliers(group: &[f64], max_distance: f64) -> Vec<f64> {
    let center = median(group);
    let values = group.iter().copied();
    match max_distance {
        // The distance is 0 if most values are equal, which says nothing about how far the other
        // values may lie from them.
        0.0 => values.collect(),
        distance => values.map(|value| value.clamp(center - distance, center + distance)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_families_do_not_count_as_between_groups() {
        let family =
            |level: f64| vec![vec![level, level + 0.01], vec![level + 0.005, level + 0.006]];
        let found = variance_components(&[family(0.0), family(5.0)], 0.95).unwrap();
        assert_eq!((found.groups, found.between), (4, 0.0));
        assert!(found.interval.low == 0.0 && found.within < 0.01);
    }

    #[test]
    fn single_groups_and_single_values_have_no_variance_components() {
        assert_eq!(variance_components(&[vec![vec![1.0, 2.0, 3.0]]], 0.95), None);
        assert_eq!(variance_components(&[vec![vec![1.0], vec![2.0]]], 0.95), None);
        assert_eq!(variance_components(&[vec![], vec![vec![]]], 0.95), None);
    }

    #[test]
    fn expensive_groups_get_more_values_unless_all_groups_are_equal() {
        let known = VarianceComponents {
            groups: 8,
            between: 0.02,
            interval: Interval { low: 0.01, high: 0.03 },
            within: 0.04,
        };
        assert_eq!(known.values_per_group(4.0), Some(4));
        assert_eq!(known.values_per_group(0.01), Some(1));
        let equal = VarianceComponents { between: 0.0, ..known };
        assert_eq!(equal.values_per_group(4.0), None);
    }
}
