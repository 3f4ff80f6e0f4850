//! Machines: what tells one from others over time, and what each was like while a session was measured on it. Start at
//! [`Machine`].

use crate::Environment;
use serde::{Deserialize, Serialize};

/// What tells a machine from others over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Tells it from all others.
    pub id: String,
    /// The name of the host.
    pub name: Option<String>,
    /// What people call it.
    pub label: Option<String>,
    /// Processor and number of processors.
    pub class: Option<String>,
}

impl Machine {
    /// What it is called in reports.
    pub fn title(&self) -> &str {
        let names = [&self.label, &self.name, &self.class];
        let known = names.into_iter().find_map(Option::as_deref);
        known.unwrap_or("unknown machine")
    }
}

/// What one of several machines of a session was like while it measured. [`crate::Run::machine`] says which runs are its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionMachine {
    /// Tells it from all others, as [`Machine::id`] does.
    pub id: String,
    /// What its fleet calls it.
    pub name: String,
    /// Names that it shares with others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Processor model, processors, memory and architecture: machines of one class are a population.
    pub class: String,
    /// Its own circumstances.
    pub environment: Environment,
    /// What is to be added to times of its clock to have those of the coordinator's.
    #[serde(default)]
    pub offset_ns: i64,
    /// By how much that offset may be wrong.
    #[serde(default)]
    pub uncertainty_ns: u64,
    /// What it did in the same work before and after its parcels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pulses: Vec<Pulse>,
}

/// What two pieces of work that are always the same took: a machine that is slower than it usually is shows it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// When it was taken, in milliseconds since the Unix epoch by the machine's own clock.
    pub at_unix_ms: i64,
    /// Arithmetic on integers.
    pub integer_ns: u64,
    /// A walk through memory.
    pub memory_ns: u64,
}
