//! What was measured on: machine, system, and the versions of every program measured; how busy it is, and what comparing
//! a thing with itself showed of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The circumstances of a session. Missing facts are `None`, never guessed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// What people call the machine, where they name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
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
    /// The fact that names the environment where a machine has several side by side, with other packages in each. Figures of
    /// two of them differ as those of two machines do.
    pub const NAME: &'static str = "environment";

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

/// What processes and the machine did since the last one. What the kernel does not report is absent; shares are parts of 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Snapshot {
    /// Processors that the processes kept busy: 1 is one processor all the time.
    pub cpus: Option<f64>,
    /// Their resident memory, in bytes.
    pub rss_bytes: Option<u64>,
    /// Context switches of all their threads, per second: the voluntary ones, by waiting.
    pub voluntary_per_s: Option<f64>,
    /// The involuntary ones.
    pub involuntary_per_s: Option<f64>,
    /// Share of the machine's processor time that its host gave to others.
    pub steal: Option<f64>,
    /// Share of the last ten seconds in which some task waited for a processor.
    pub pressure: Option<f64>,
}

/// The false alarms of one calibration, and how many were to be expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Number of the session that was measured for it; it means something in one store only.
    #[serde(skip)]
    pub session: i64,
    /// When that session began, in milliseconds since the Unix epoch.
    #[serde(skip)]
    pub started_unix_ms: i64,
    /// Comparisons of the same thing.
    pub comparisons: u32,
    /// How many of them found a difference.
    pub false_alarms: u32,
    /// The fewest false alarms to be expected.
    pub expected_low: u32,
    /// The most false alarms to be expected.
    pub expected_high: u32,
}

impl Calibration {
    /// Whether the machine gave as many false alarms as the test promises.
    pub fn is_in_range(&self) -> bool {
        (self.expected_low..=self.expected_high).contains(&self.false_alarms)
    }
}
