//! Checks whether a machine is fit for measurements. Reports its identity, clock offset, sources of
//! noise and speed probe. Start at [`check_machine`]; [`report_machine`] runs on the checked
//! machine.

use crate::machines::{FleetEngine, FleetMachine, MachineIdentity, speed_probe};
use crate::messages::{ROLE_SUBCOMMAND, WorkerRequest};
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use speedwell_machine::environment::{self, CheckState};
use speedwell_machine::worker::ClockOffset;
use speedwell_model::SpeedProbe;
use std::path::Path;

/// A machine's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReport {
    /// The machine's identity.
    pub identity: MachineIdentity,
    /// Results of the individual checks.
    pub checks: Vec<MachineCheck>,
    /// Times of two fixed pieces of work.
    pub speed_probe: SpeedProbe,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCheck {
    /// Name of the check.
    pub name: String,
    /// Whether the finding impairs measurements. If so, the machine is unfit.
    pub is_problem: bool,
    /// Whether the user should know about the finding.
    pub is_warning: bool,
    /// What the check found.
    pub found: String,
    /// How to fix the problem; empty if there is nothing to do.
    pub remedy: String,
}

/// Checks a machine. `program` is the path of our program on that machine.
///
/// # Errors
/// Fails if the machine cannot be reached or the program does not run there.
pub fn check_machine(
    engine: &mut FleetEngine,
    machine: &FleetMachine,
    program: &Path,
) -> Result<(ClockOffset, MachineReport)> {
    let program = program.to_string_lossy();
    let connection = engine.start_worker(&machine.name, &program, &[ROLE_SUBCOMMAND])?;
    let result = connection.query_clock().and_then(|offset| {
        connection.send(&WorkerRequest::Check)?;
        Ok((offset, connection.receive()?))
    });
    connection.finish(result).map_err(|reason| {
        anyhow!(
            "the program does not run on the machine: {reason:#}\nhint: in the machine's table in \
             the fleet file, write binary = \"/path/to/a/program/that/runs/there\""
        )
    })
}

/// Checks this machine.
pub(crate) fn report_machine() -> MachineReport {
    let root = Path::new("/");
    let checks = environment::run_all_checks(root).into_iter().map(|check| MachineCheck {
        name: check.name.to_string(),
        is_problem: check.state == CheckState::Bad,
        is_warning: check.state == CheckState::Warning,
        found: check.found,
        remedy: check.remedy.unwrap_or_default(),
    });
    MachineReport {
        checks: checks.collect(),
        identity: MachineIdentity::from_environment(root, &environment::capture_environment(&[])),
        speed_probe: speed_probe::probe_speed(),
    }
}
