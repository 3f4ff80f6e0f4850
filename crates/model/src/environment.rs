//! Describes the environment of a session: machine, system, versions of the measured programs, load, and the result of
//! a calibration.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The environment of a session. Missing facts are `None`, never guessed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The user's name for the machine, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Processor model as reported by the kernel.
    pub cpu: Option<String>,
    /// Number of logical processors available to Speedwell.
    pub cpus: Option<u32>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub kernel: Option<String>,
    /// Distinct frequency governors in use.
    pub governors: Vec<String>,
    /// Whether address space layout randomization is on.
    pub aslr: Option<bool>,
    /// Load averages over 1, 5 and 15 minutes at the start of the session.
    pub load: Option<[f64; 3]>,
    /// Further facts that are worth comparing, by name.
    pub facts: BTreeMap<String, String>,
    /// Every program measured.
    pub programs: Vec<MeasuredProgram>,
    /// Version of Speedwell.
    pub speedwell: Option<String>,
}

impl Environment {
    /// Key of the fact that names the software environment. A machine can have several software
    /// environments, each with its own packages. Their results differ like those of different
    /// machines.
    pub const NAME: &'static str = "environment";

    /// Processor pressure, in percent, above which a machine counts as busy with other work.
    pub const BUSY_PERCENT: f64 = 25.0;

    /// Whether processor pressure was high at the start of the session.
    pub fn was_busy(&self) -> bool {
        let pressure = self.facts.get("now_cpu_pressure_percent");
        let percent = pressure.and_then(|text| text.parse::<f64>().ok());
        percent.is_some_and(|percent| percent > Environment::BUSY_PERCENT)
    }
}

/// A measured program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredProgram {
    /// Name of the variant that uses the program.
    pub variant: String,
    /// The resolved path of the program.
    pub path: PathBuf,
    /// The version that the program reports.
    pub version: Option<String>,
    /// File size, which together with the modification time identifies a build.
    pub size_bytes: Option<u64>,
    /// Modification time in milliseconds since the Unix epoch.
    pub modified_unix_ms: Option<i64>,
    /// Further version facts, for example of the JavaScript engine inside.
    pub versions: BTreeMap<String, String>,
}

/// Activity of processes and machine since the previous snapshot. Values that the kernel does not
/// report are `None`. Fractions are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ActivitySnapshot {
    /// Processor utilization of the processes; 1 is one processor used all the time.
    pub cpus: Option<f64>,
    /// Resident memory of the processes, in bytes.
    pub rss_bytes: Option<u64>,
    /// Voluntary context switches of all threads of the processes, per second.
    pub voluntary_per_s: Option<f64>,
    /// Involuntary context switches, per second.
    pub involuntary_per_s: Option<f64>,
    /// Fraction of the machine's processor time that the hypervisor gave to other guests.
    pub steal: Option<f64>,
    /// Fraction of the last ten seconds in which at least one task waited for a processor.
    pub pressure: Option<f64>,
}

/// The number of false alarms of a calibration, and its expected range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseCalibration {
    /// Number of the calibration session, valid within one store only.
    #[serde(skip)]
    pub session: i64,
    /// Start of that session, in milliseconds since the Unix epoch.
    #[serde(skip)]
    pub started_unix_ms: i64,
    /// Number of A/A comparisons.
    pub comparisons: u32,
    /// Number of comparisons that found a difference.
    pub false_alarms: u32,
    /// Lower end of the expected range.
    pub expected_low: u32,
    /// Upper end of the expected range.
    pub expected_high: u32,
}

impl NoiseCalibration {
    /// Whether the number of false alarms is in the expected range.
    pub fn is_in_range(&self) -> bool {
        (self.expected_low..=self.expected_high).contains(&self.false_alarms)
    }
}
