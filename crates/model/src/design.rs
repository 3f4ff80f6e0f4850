//! The experimental design of a session: what the analysis must know about how it was measured.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The order in which runs were executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Randomised blocks: the only order with a matching test.
    #[default]
    Blocks,
    /// Fixed alternation: baseline, candidate, baseline, candidate ...
    Alternate,
    /// All variants at the same time.
    Parallel,
    /// Unknown: the runs were imported.
    Imported,
}

/// When measuring a case ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Stopping {
    /// After a fixed number of runs per variant.
    Fixed {
        /// Runs per variant.
        runs: u32,
    },
    /// At the first look at which the sequential test decides.
    Sequential {
        /// Runs per variant at which the test may stop the measuring, ascending.
        looks: Vec<u32>,
        /// Error rate kept over all looks together.
        alpha: f64,
        /// The change that counts as "no change", as a share (0.02 is 2 %).
        delta: f64,
    },
}

/// How a session was, or is to be, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Order of execution.
    pub order: Order,
    /// Rule for the number of runs.
    pub stopping: Stopping,
    /// Name of the reference variant.
    pub baseline: String,
    /// Seed of every random choice of the plan.
    pub seed: u64,
    /// Runs of each variant in one block.
    pub runs_per_block: u32,
    /// The smallest change that matters, as a share, if the user named one before measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The definition file of the experiment, if it is one: what a report needs to know beside the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<DefinitionFile>,
    /// The definition files of the benchmarks that were measured, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionFile>,
    /// What must not be so of HTTP loads, as it was written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
}

/// A definition file as it was read, once for the whole session. A later change of the file changes no session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefinitionFile {
    /// Where it lay.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// Values that took the place of what it says; benchmarks get theirs otherwise.
    pub set: Vec<(String, String)>,
    /// Processors that could be used.
    pub cpus: u32,
}
