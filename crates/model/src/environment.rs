//! What was measured on: machine, system, and the versions of every program measured.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The circumstances of a session. Missing facts are `None`, never guessed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Host name.
    pub host: Option<String>,
    /// Processor model as the kernel names it.
    pub cpu: Option<String>,
    /// Logical processors available to us.
    pub cpus: Option<u32>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub kernel: Option<String>,
    /// Frequency governors in use, each once.
    pub governors: Vec<String>,
    /// Whether address space layout randomisation is on.
    pub aslr: Option<bool>,
    /// Load averages over 1, 5 and 15 minutes when the session began.
    pub load: Option<[f64; 3]>,
    /// Any further fact worth comparing, by name.
    pub facts: BTreeMap<String, String>,
    /// Every program measured.
    pub programs: Vec<Program>,
    /// Version of Speedwell.
    pub speedwell: Option<String>,
}

impl Environment {
    /// Pressure on the processors, in percent, from which on a machine is busy with other things than measuring.
    pub const BUSY_PERCENT: f64 = 25.0;

    /// Whether tasks had to wait for a processor for much of the time when the session began.
    pub fn was_busy(&self) -> bool {
        let pressure = self.facts.get("now_cpu_pressure_percent");
        let percent = pressure.and_then(|text| text.parse::<f64>().ok());
        percent.is_some_and(|percent| percent > Environment::BUSY_PERCENT)
    }
}

/// A measured program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Name of the variant that uses it.
    pub variant: String,
    /// Its resolved path.
    pub path: PathBuf,
    /// What it says of its own version.
    pub version: Option<String>,
    /// Size of the file, which together with the time of change tells one build from another.
    pub size_bytes: Option<u64>,
    /// Time of last change in milliseconds since the Unix epoch.
    pub modified_unix_ms: Option<i64>,
    /// Further version facts, for example of the JavaScript engine inside.
    pub versions: BTreeMap<String, String>,
}
