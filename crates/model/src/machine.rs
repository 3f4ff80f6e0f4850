//! Describes machines: their identity over time, their state and environment during a session, and
//! the roles that they play in an experiment. Start at [`Machine`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

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

// The environment of a session: machine, system, versions of the measured programs, load, and the
// result of a calibration.

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
    /// Versions of the program's components, such as its JavaScript engine, by name.
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
    /// Number of the calibration session in its store.
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

// The types below record which machine plays which role in an experiment. The roles are the target,
// its services and the load.

/// Which machines play which roles in an experiment on several machines. The roles are the same for
/// all runs of the experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachinePlacement {
    /// The fleet file.
    pub fleet: PathBuf,
    /// The folder of the definition file on the coordinating machine.
    pub root: PathBuf,
    /// All machines.
    pub machines: Vec<PlacedMachine>,
    /// Index of the target's machine.
    pub target: usize,
    /// Names of services and the indices of their machines.
    pub services: Vec<(String, usize)>,
    /// Indices of the machines that generate the load.
    pub load: Vec<usize>,
    /// The job that holds all machines, if a scheduler allocates them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<MachineAllocation>,
}

/// One scheduler job that holds the machines of all roles of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineAllocation {
    /// Unique name of the job.
    pub name: String,
    /// Job id.
    pub job: String,
    /// Machine names, each with the component of the job that the machine belongs to.
    pub components: Vec<(String, u32)>,
}

/// A machine that plays a role in an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedMachine {
    /// Its name in the fleet.
    pub name: String,
    /// Its labels in the fleet.
    pub labels: Vec<String>,
    /// Unique id.
    pub id: String,
    /// Processor model, number of processors, memory and architecture.
    pub class: String,
    /// The address at which other machines reach this one.
    pub address: IpAddr,
    /// Speedwell's folder on the machine.
    pub folder: PathBuf,
    /// Path of the Speedwell executable on the machine.
    pub program: String,
    /// The folder on the machine that corresponds to the definition file's folder.
    pub root: PathBuf,
    /// Its environment.
    pub environment: Environment,
}

impl MachinePlacement {
    /// The machine of a service. A service without an assigned machine runs on the target's
    /// machine.
    pub fn of_service(&self, name: &str) -> &PlacedMachine {
        let service_machine = self.services.iter().find(|(service, _)| service == name);
        &self.machines[service_machine.map_or(self.target, |(_, index)| *index)]
    }

    /// The machine of the target.
    pub fn of_target(&self) -> &PlacedMachine {
        &self.machines[self.target]
    }

    /// The name of the session's folder on its machines, if known.
    pub fn session(&self) -> Option<&str> {
        // The path of the program is FOLDER/sessions/SESSION/bin/speedwell.
        let machine = self.machines.first()?;
        let relative_path = Path::new(&machine.program).strip_prefix(&machine.folder);
        let mut names = relative_path.ok()?.components().map(|name| name.as_os_str().to_str());
        (names.next()?? == "sessions").then(|| names.next()?)?
    }

    /// Returns a copy without the machines' environments, which runs do not need.
    #[must_use]
    pub fn for_a_run(&self) -> MachinePlacement {
        let mut stripped = self.clone();
        for machine in &mut stripped.machines {
            machine.environment = Environment::default();
        }
        stripped
    }

    /// The machines, as recorded in a session.
    pub fn session_machines(&self) -> Vec<SessionMachine> {
        let to_session = |machine: &PlacedMachine| SessionMachine {
            id: machine.id.clone(),
            name: machine.name.clone(),
            labels: machine.labels.clone(),
            class: machine.class.clone(),
            environment: machine.environment.clone(),
            ..SessionMachine::default()
        };
        self.machines.iter().map(to_session).collect()
    }

    /// Describes which role ran on which machine, as a sentence.
    pub fn describe_machines(&self) -> String {
        let name = |index: &usize| self.machines[*index].name.as_str();
        let loads: Vec<&str> = self.load.iter().map(name).collect();
        let services = self.services.iter();
        let services: String =
            services.map(|(service, index)| format!("{service} on {}, ", name(index))).collect();
        format!(
            "The target ran on {}, {services}and the load came from {}.",
            name(&self.target),
            loads.join(", ")
        )
    }
}
