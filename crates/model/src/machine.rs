//! Describes machines: their identity over time, and their state during a session. Start at [`Machine`].

use crate::Environment;
use serde::{Deserialize, Serialize};

/// Identity of a machine over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Unique id.
    pub id: String,
    /// Host name.
    pub name: Option<String>,
    /// User-defined label.
    pub label: Option<String>,
    /// Processor model and number of processors.
    pub class: Option<String>,
}

impl Machine {
    /// Name for reports.
    pub fn title(&self) -> &str {
        let names = [&self.label, &self.name, &self.class];
        let title = names.into_iter().find_map(Option::as_deref);
        title.unwrap_or("unknown machine")
    }
}

/// One of several machines of a session. [`crate::Run::machine`] refers to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionMachine {
    /// Unique id, as [`Machine::id`].
    pub id: String,
    /// Its name in the fleet.
    pub name: String,
    /// Its labels in the fleet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Processor model, number of processors, memory and architecture. Results from machines of the
    /// same class are pooled.
    pub class: String,
    /// Its environment.
    pub environment: Environment,
    /// Offset to add to the machine's time to get the coordinator's time.
    #[serde(default)]
    pub offset_ns: i64,
    /// Uncertainty of the offset.
    #[serde(default)]
    pub uncertainty_ns: u64,
    /// Times of two fixed workloads, executed before and after each shard (a part of the plan that
    /// one machine executes).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "pulses")]
    pub speed_probes: Vec<SpeedProbe>,
}

/// Times of two fixed workloads, which reveal a machine that is slower than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeedProbe {
    /// Time of the probe, in milliseconds since the Unix epoch by the machine's own clock.
    pub at_unix_ms: i64,
    /// Time of the workload that does arithmetic on integers.
    pub integer_ns: u64,
    /// Time of the workload that walks through memory.
    pub memory_ns: u64,
}
