//! Checks whether a machine is fit for measurements. Reports its identity, clock offset, sources of
//! noise and speed probe. Start at [`check_machine`]; [`serve_check`] runs on the checked machine.

use crate::machines::clock::{self, ClockOffset};
use crate::machines::{FleetEngine, FleetMachine, MachineIdentity};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use speedwell_machine::process::WORKER_COMMAND;
use speedwell_model::SpeedProbe;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// Subcommand of [`WORKER_COMMAND`] that runs [`serve_check`].
pub const CHECK_SUBCOMMAND: &str = "check";

/// A machine's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReport {
    /// The machine's identity.
    pub identity: MachineIdentity,
    /// Version of the remote program.
    pub version: String,
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
    let command = [&*program, WORKER_COMMAND, CHECK_SUBCOMMAND];
    let mut connection = engine.start_command(&machine.name, &command)?;
    let (stdin, stdout, stderr_pipe) =
        (connection.stdin.take(), connection.stdout.take(), connection.stderr.take());
    let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
        bail!("the connection has no stdin or stdout");
    };
    let mut stdout = BufReader::new(stdout);
    let result = clock::query_clock(&mut stdin, &mut stdout).and_then(|offset| {
        stdin.write_all(b"check\n")?;
        let mut reply = String::new();
        stdout.read_line(&mut reply)?;
        ensure!(!reply.is_empty(), "the connection ended");
        let checked = serde_json::from_str(&reply).context("cannot parse the answer")?;
        Ok((offset, checked))
    });
    drop((stdin, stdout));
    let mut stderr = String::new();
    if let Some(mut stderr_pipe) = stderr_pipe {
        let _ = stderr_pipe.read_to_string(&mut stderr);
    }
    let status = connection.wait()?;
    let last_line =
        stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    match result {
        Err(error) if last_line.is_empty() => {
            Err(error.context(format!("the program exited: {status}")))
        }
        Err(_) => bail!(
            "the program does not run on the machine: {last_line}\nhint: in the machine's table in \
             the fleet file, write binary = \"/path/to/a/program/that/runs/there\""
        ),
        result => result,
    }
}

/// Answers clock queries from [`check_machine`], then sends the result of `check`.
///
/// # Errors
/// Fails if the connection breaks.
pub fn serve_check(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    check: impl FnOnce() -> MachineReport,
) -> Result<()> {
    let request = clock::serve_clock(reader, writer)?;
    ensure!(request.trim_end() == "check", "unknown request '{}'", request.trim_end());
    writeln!(writer, "{}", serde_json::to_string(&check())?)?;
    writer.flush()?;
    Ok(())
}
