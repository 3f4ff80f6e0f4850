//! Describes what happened to a machine over its sessions: changed settings, the load that others
//! put on it, and series that became noisier.
//!
//! Start at [`fact_changes`] and [`grown_noise`].

use crate::evidence::mann_whitney_p;
use crate::points::{ACTIVITY_FIGURES, EnvironmentFacts, FactDifference, fact_differences};
use speedwell_stats::describe::median;
use std::collections::BTreeMap;

/// A fact that differs from its last value on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// The first session with the new value.
    pub session: i64,
    /// The fact with both values.
    pub difference: FactDifference,
}

/// Returns the changes of facts over the sessions of a machine, which are in order. A fact that a
/// session lacks keeps its last value: programs of other benchmarks come and go. Facts about load
/// are left out, because they differ between any two sessions; see [`activity_by_session`].
pub fn fact_changes(sessions: &[(i64, EnvironmentFacts)]) -> Vec<FactChange> {
    let mut last_values: BTreeMap<String, String> = BTreeMap::new();
    let mut changes = Vec::new();
    for (session, facts) in sessions {
        let before: Vec<(String, String)> =
            last_values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let differences = fact_differences(&before, facts).into_iter();
        changes.extend(differences.map(|difference| FactChange { session: *session, difference }));
        last_values.extend(facts.iter().cloned());
    }
    changes
}

/// Returns the load of a machine as the kernel reports it: for each figure, the sessions with their
/// medians in percent. Figures without a value are left out.
pub fn activity_by_session(
    sessions: &[(i64, EnvironmentFacts)],
) -> Vec<(&'static str, Vec<(i64, f64)>)> {
    let values_of = |figure_name: &str| -> Vec<(i64, f64)> {
        let percent = |(session, facts): &(i64, EnvironmentFacts)| {
            let (_, value) = facts.iter().find(|(name, _)| name == figure_name)?;
            Some((*session, value.strip_suffix('%')?.trim_end().parse().ok()?))
        };
        sessions.iter().filter_map(percent).collect()
    };
    let figures = ACTIVITY_FIGURES.into_iter().map(|(name, _)| (name, values_of(name)));
    figures.filter(|(_, values)| !values.is_empty()).collect()
}

/// Number of latest points that are compared with earlier ones.
const RECENT_POINTS: usize = 5;
/// Minimum and maximum number of earlier points.
const EARLIER_POINTS: [usize; 2] = [10, 20];
/// Smallest growth of the spread that is reported.
const MIN_GROWTH: f64 = 1.5;
/// Spreads below this fraction disturb no comparison.
const MIN_SPREAD: f64 = 0.001;
/// Probability of naming any series if no noise has grown.
const ALPHA: f64 = 0.05;

/// A series whose runs differ more than they did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrownNoise {
    /// The number of the series.
    pub series: i64,
    /// The median spread of the earlier points, as a fraction.
    pub before: f64,
    /// The median spread of the latest points.
    pub after: f64,
}

/// Finds the series whose noise grew. `spreads` has the relative spreads of the points of each
/// series, oldest first ([`speedwell_model::HistoryPoint::spread`]).
///
/// The rule: the last 5 points are compared with up to 20 points before them, at least 10. The
/// noise grew if the median spread is at least 1.5 times as large and above 0.1%, and the
/// Mann-Whitney test finds a difference at 5%, corrected for the number of series (Bonferroni).
/// The series with the largest growth comes first.
pub fn grown_noise(spreads: &BTreeMap<i64, Vec<f64>>) -> Vec<GrownNoise> {
    let sides = |spreads: &[f64]| -> Option<(Vec<f64>, Vec<f64>)> {
        let [fewest, most] = EARLIER_POINTS;
        let earlier_count = spreads.len().checked_sub(RECENT_POINTS)?;
        let (earlier, recent) = spreads.split_at(earlier_count);
        let earlier = &earlier[earlier.len().saturating_sub(most)..];
        (earlier.len() >= fewest).then(|| (earlier.to_vec(), recent.to_vec()))
    };
    let sides_of = |(series, values): (&i64, &Vec<f64>)| Some((*series, sides(values)?));
    let compared: Vec<_> = spreads.iter().filter_map(sides_of).collect();
    let level = ALPHA / compared.len().max(1) as f64;
    let mut grown: Vec<GrownNoise> = compared
        .iter()
        .filter_map(|(series, (earlier, recent))| {
            let (before, after) = (median(earlier), median(recent));
            let is_larger = after >= MIN_GROWTH * before && after >= MIN_SPREAD;
            (is_larger && mann_whitney_p(earlier, recent) < level).then_some(GrownNoise {
                series: *series,
                before,
                after,
            })
        })
        .collect();
    let growth = |noise: &GrownNoise| noise.after / noise.before.max(MIN_SPREAD);
    grown.sort_by(|one, other| growth(other).total_cmp(&growth(one)));
    grown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn facts(list: &[(&str, &str)]) -> EnvironmentFacts {
        Arc::new(list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn settings_are_changes_and_load_is_not() {
        let sessions = [
            (1, facts(&[("kernel", "6.1"), ("node", "v20"), ("cpu pressure", "3%")])),
            (2, facts(&[("kernel", "6.1"), ("cpu pressure", "60%"), ("steal", "1%")])),
            (3, facts(&[("kernel", "6.8"), ("node", "v22"), ("cpu pressure", "4%")])),
        ];
        let found = fact_changes(&sessions);
        let found: Vec<(i64, &str, &str, &str)> = found
            .iter()
            .map(|FactChange { session, difference }| {
                (*session, &*difference.name, &*difference.before, &*difference.after)
            })
            .collect();
        assert_eq!(found, [(3, "kernel", "6.1", "6.8"), (3, "node", "v20", "v22")]);
        let activity = activity_by_session(&sessions);
        assert_eq!(activity[0], ("cpu pressure", vec![(1, 3.0), (2, 60.0), (3, 4.0)]));
        assert_eq!(activity[1], ("steal", vec![(2, 1.0)]));
    }

    #[test]
    fn noise_must_grow_clearly_and_for_several_sessions() {
        let earlier: Vec<f64> = (0..20).map(|at| 0.010 + f64::from(at) * 0.0001).collect();
        let with = |recent: &[f64]| [&earlier[..], recent].concat();
        let spreads = BTreeMap::from([
            (1, with(&[0.05, 0.06, 0.05, 0.07, 0.055])),
            (2, with(&[0.011, 0.010, 0.012, 0.011, 0.0105])),
            (3, with(&[0.011, 0.010, 0.012, 0.011, 0.5])),
            (4, vec![0.01, 0.01, 0.01, 0.2, 0.2, 0.2, 0.2, 0.2]),
        ]);
        let found: Vec<i64> = grown_noise(&spreads).iter().map(|noise| noise.series).collect();
        assert_eq!(found, [1]);
    }
}
