//! Everything that one invocation measured.

use super::{Design, Environment, Failure, Metric, Recording, Run, RunValue, Series, Variant};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Still measuring, or killed without a chance to say so.
    Running,
    /// Ended as planned.
    Complete,
    /// Ended early by the user; what was measured is kept.
    Interrupted,
    /// Came from a file.
    Imported,
}

/// One invocation that measured, or one imported file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Unique identity, the same in every copy.
    pub id: String,
    /// The number that `@NUMBER` means in the local store; `None` outside a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// How it ended.
    pub state: State,
    /// Names given by the user.
    pub tags: Vec<String>,
    /// The words typed.
    pub command: Vec<String>,
    /// How it was measured.
    pub design: Design,
    /// The variants in the order given; the design names the baseline.
    pub variants: Vec<Variant>,
    /// Every metric that the runs report; the first is the primary one.
    pub metrics: Vec<Metric>,
    /// What it was measured on.
    pub environment: Environment,
    /// Finished runs in order of execution.
    pub runs: Vec<Run>,
    /// Steps that gave nothing.
    pub failures: Vec<Failure>,
    /// Where cases spent their time, by runs that were recorded and not timed; at most one for each case
    /// and variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Recording>,
}

impl Session {
    /// The session with some of its runs, as if it had no others, no failures and no profiles.
    pub fn part(&self, belongs: impl Fn(&Run) -> bool) -> Session {
        let runs = self.runs.iter().filter(|run| belongs(run));
        Session {
            id: self.id.clone(),
            number: self.number,
            started_unix_ms: self.started_unix_ms,
            state: self.state,
            tags: self.tags.clone(),
            command: self.command.clone(),
            design: self.design.clone(),
            variants: self.variants.clone(),
            metrics: self.metrics.clone(),
            environment: self.environment.clone(),
            runs: runs.cloned().collect(),
            failures: Vec::new(),
            profiles: Vec::new(),
        }
    }

    /// The session as if it had measured one of its variants alone.
    pub fn only_variant(&self, name: &str) -> Session {
        let mut one = self.part(|run| *run.variant == *name);
        one.variants.retain(|variant| variant.name == name);
        one.design.baseline = name.to_owned();
        one.environment
            .programs
            .retain(|program| program.variant == name);
        // Its question cannot be answered by one variant.
        one.design.experiment = None;
        let is_own = |failure: &&Failure| failure.variant.as_deref().is_none_or(|own| own == name);
        one.failures = self.failures.iter().filter(is_own).cloned().collect();
        let recordings = self.profiles.iter();
        let own = recordings.filter(|recording| *recording.variant == *name);
        one.profiles = own.cloned().collect();
        one
    }

    /// All series of `metric`, ordered by first appearance of the case, then of the variant.
    pub fn series(&self, metric: &Metric) -> Vec<Series> {
        let mut places: HashMap<(String, Arc<str>), usize> = HashMap::new();
        let mut all: Vec<Series> = Vec::new();
        for run in &self.runs {
            let Some(value) = run.value_of(&metric.name) else {
                continue;
            };
            let place = *places
                .entry((run.case.id(), run.variant.clone()))
                .or_insert_with(|| {
                    all.push(Series {
                        case: run.case.clone(),
                        variant: run.variant.clone(),
                        metric: metric.clone(),
                        runs: Vec::new(),
                    });
                    all.len() - 1
                });
            all[place].runs.push(RunValue {
                slot: run.slot,
                block: run.block,
                value,
            });
        }
        all
    }

    /// The metric of that name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}
