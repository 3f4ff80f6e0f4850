//! Extracts the environment facts of sessions, and compares them.
//!
//! Decides which facts can affect figures. Start at [`environment_facts`].

use speedwell_model::{DisturbanceFigure, Environment, Run};
use speedwell_stats::describe::median;
use std::collections::HashMap;
use std::sync::Arc;

/// Facts about one session, as names and values.
pub type EnvironmentFacts = Arc<Vec<(String, String)>>;

/// Figures that show the load of the machine. Pressure saturates once there are two more running
/// programs than processors. The time that the measured program waited for a processor does not
/// saturate.
const ACTIVITY_FIGURES: [(&str, DisturbanceFigure); 3] = [
    ("cpu pressure", DisturbanceFigure::Pressure),
    ("steal", DisturbanceFigure::Steal),
    ("time without a processor", DisturbanceFigure::Wait),
];

/// Minimum number of sessions on each side of a change for judging the machine load.
const MIN_SESSIONS: usize = 3;

/// Smallest shift of a load figure that is worth reporting, in percentage points.
const MIN_SHIFT_PERCENT: f64 = 10.0;

/// A fact on which two sessions differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactDifference {
    /// Name of the fact.
    pub name: String,
    /// Value in the first session.
    pub before: String,
    /// Value in the second session.
    pub after: String,
}

/// Facts about a machine and its settings that can affect figures, in display order. Facts that
/// change from minute to minute are left out.
pub fn environment_facts(environment: &Environment) -> Vec<(String, String)> {
    let aslr = environment.aslr.map(|on| if on { "on" } else { "off" });
    let governors = environment.governors.join("+");
    let named_facts = [
        ("host", environment.host.clone()),
        ("processor", environment.cpu.clone()),
        ("processors", environment.cpus.map(|count| count.to_string())),
        ("kernel", environment.kernel.clone()),
        ("clock governor", Some(governors).filter(|names| !names.is_empty())),
        ("address randomisation", aslr.map(str::to_owned)),
        (TUNED_FACT, tuned_knobs(environment)),
    ];
    let other_facts = (environment.facts.iter())
        .filter(|(name, _)| !is_volatile(name) && name.as_str() != TUNED_FACT);
    named_facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .chain(other_facts.map(|(name, value)| (name.replace('_', " "), value.clone())))
        .collect()
}

/// Machine load according to the kernel: medians over the runs of a session, in percent. These
/// medians differ between any two sessions, so [`activity_shifts`] compares many sessions.
#[derive(Default)]
pub(crate) struct MachineActivity([Vec<f64>; ACTIVITY_FIGURES.len()]);

impl MachineActivity {
    /// Adds runs.
    pub fn add_runs(&mut self, runs: &[Run]) {
        for ((_, figure), values) in ACTIVITY_FIGURES.into_iter().zip(&mut self.0) {
            values.extend(runs.iter().filter_map(|run| figure.value_in(run)));
        }
    }

    /// Medians over all runs added.
    pub fn activity_facts(&self) -> impl Iterator<Item = (String, String)> {
        let measured =
            ACTIVITY_FIGURES.into_iter().zip(&self.0).filter(|(_, values)| !values.is_empty());
        measured.map(|((name, _), values)| (name.to_owned(), format!("{:.0} %", median(values))))
    }
}

/// Compares the machine load of the sessions before and after a change. Returns the differences
/// that are large enough to explain the change.
pub fn activity_shifts(
    before: &[EnvironmentFacts],
    after: &[EnvironmentFacts],
) -> Vec<FactDifference> {
    let median_percent = |sessions: &[EnvironmentFacts], name: &str| {
        let percent = |facts: &EnvironmentFacts| {
            let (_, value) = facts.iter().find(|(fact_name, _)| fact_name == name)?;
            value.strip_suffix(" %")?.parse::<f64>().ok()
        };
        let values: Vec<f64> = sessions.iter().filter_map(percent).collect();
        (values.len() >= MIN_SESSIONS).then(|| median(&values))
    };
    let shift = |(name, _): (&str, DisturbanceFigure)| {
        let (before, after) = (median_percent(before, name)?, median_percent(after, name)?);
        ((after - before).abs() >= MIN_SHIFT_PERCENT).then(|| FactDifference {
            name: name.to_owned(),
            before: format!("{before:.0} %"),
            after: format!("{after:.0} %"),
        })
    };
    ACTIVITY_FIGURES.into_iter().filter_map(shift).collect()
}

/// Facts whose values differ between the sides. Facts that only one side has, and facts about
/// machine load, are left out.
pub fn fact_differences(
    before: &[(String, String)],
    after: &[(String, String)],
) -> Vec<FactDifference> {
    let after_by_name: HashMap<&str, &str> =
        after.iter().map(|(name, value)| (&**name, &**value)).collect();
    before
        .iter()
        .filter_map(|(name, value)| {
            let is_activity = ACTIVITY_FIGURES.iter().any(|(figure_name, _)| figure_name == name);
            let after_value = after_by_name
                .get(&**name)
                .filter(|after_value| **after_value != value && !is_activity)?;
            Some(FactDifference {
                name: name.clone(),
                before: value.clone(),
                after: (*after_value).to_owned(),
            })
        })
        .collect()
}

/// Fact that names the active knobs of `speedwell tune`.
pub(crate) const TUNED_FACT: &str = "tuned";

/// Active knobs, if known. Speedwell always records active knobs, so in a session that it measured,
/// a missing fact means that no knob was active.
fn tuned_knobs(environment: &Environment) -> Option<String> {
    let knobs = environment.facts.get(TUNED_FACT).cloned();
    knobs.or_else(|| environment.speedwell.as_ref().map(|_| "nothing".to_owned()))
}

/// Whether a fact, such as free memory, changes from minute to minute and so differs between any
/// two sessions.
fn is_volatile(fact: &str) -> bool {
    fact.starts_with("now_") || fact == "mhz_per_cpu"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(percents: &[&str]) -> Vec<EnvironmentFacts> {
        let facts = |percent: &&str| {
            let pressure = ("cpu pressure".to_owned(), format!("{percent} %"));
            Arc::new(vec![("kernel".to_owned(), "6.1".to_owned()), pressure])
        };
        percents.iter().map(facts).collect()
    }

    #[test]
    fn a_machine_that_became_busy_is_reported_once_for_many_sessions() {
        let (quiet, busy) = (sessions(&["0", "2", "60"]), sessions(&["50", "3", "71", "64"]));
        let expected = FactDifference {
            name: "cpu pressure".into(),
            before: "2 %".into(),
            after: "57 %".into(),
        };
        assert_eq!(activity_shifts(&quiet, &busy), [expected]);
        assert_eq!(activity_shifts(&quiet, &quiet), []);
        assert_eq!(activity_shifts(&quiet, &busy[..2]), [], "two sessions say little");
        assert_eq!(fact_differences(&quiet[0], &busy[0]), [], "any two sessions differ");
    }
}
