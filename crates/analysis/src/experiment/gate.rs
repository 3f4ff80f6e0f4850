//! Whether candidates stay within the gates of an experiment.
//!
//! A gate is closed only if the whole interval of a change lies beyond it: a command that fails by chance would soon
//! be left out.

use super::GroupFound;
use speedwell_model::{Case, Estimate};
use speedwell_suite::experiment::{Experiment, control};
use speedwell_suite::expression::{Filter, Gate};

/// A gate with a change that it is about.
#[derive(Debug, Clone)]
pub struct GateFound {
    /// The gate as it is written.
    pub text: String,
    /// The group.
    pub group: String,
    /// The case.
    pub case: String,
    /// The candidate.
    pub candidate: String,
    /// The change of the metric, with its interval.
    pub change: Option<Estimate>,
    /// The whole interval is within.
    pub is_kept: bool,
    /// The whole interval is beyond.
    pub is_broken: bool,
}

/// Holds all changes against all gates.
pub fn judge(groups: &[GroupFound], experiment: &Experiment) -> Vec<GateFound> {
    let mut found = Vec::new();
    for (name, gate) in &experiment.compare.gates {
        for group in groups
            .iter()
            .filter(|group| name.as_ref().is_none_or(|name| *name == group.name))
        {
            found.extend(of_group(group, gate, experiment));
        }
    }
    found
}

fn of_group(group: &GroupFound, gate: &Gate, experiment: &Experiment) -> Vec<GateFound> {
    let Some(stored) = experiment
        .group(&group.name)
        .map(|known| known.stored(&gate.metric))
    else {
        return Vec::new();
    };
    let metric = group
        .metrics
        .iter()
        .filter(|found| found.metric.name == stored);
    let comparisons = metric.flat_map(|found| &found.findings.comparisons);
    let own = comparisons.filter(|comparison| !control::is_again(&comparison.candidate));
    own.flat_map(|comparison| {
        let rows = comparison
            .rows
            .iter()
            .filter(|row| fits(&gate.filter, &group.name, &row.case));
        rows.map(|row| {
            let is_in = |change: f64| gate.allows(change);
            let ends = row
                .change
                .map(|change| (is_in(change.low), is_in(change.high)));
            GateFound {
                text: gate.to_string(),
                group: group.name.clone(),
                case: row.case.id(),
                candidate: comparison.candidate.clone(),
                change: row.change,
                is_kept: ends == Some((true, true)),
                is_broken: ends == Some((false, false)),
            }
        })
    })
    .collect()
}

/// Whether a filter means this case.
pub fn fits(filter: &Filter, group: &str, case: &Case) -> bool {
    let has = |(name, value): &(String, String)| {
        case.value(name)
            .is_some_and(|known| known.plain() == *value)
    };
    filter.group.as_ref().is_none_or(|name| name == group) && filter.values.iter().all(has)
}
