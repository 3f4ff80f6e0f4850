//! Defines on which machines the roles of an experiment run. Roles are the target, its services and
//! the load. Start at [`MachinePlacement`].

use super::{Environment, SessionMachine};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Which machines play which roles in an experiment on several machines. The roles are the same for
/// all runs of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
