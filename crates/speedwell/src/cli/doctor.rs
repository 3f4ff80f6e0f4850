//! `speedwell doctor`: what may spoil numbers on this machine, and the remedy.

use super::Status;
use super::options::OutputArgs;
use crate::environment::{self, State};
use crate::report;
use clap::Args;
use std::path::Path;

/// Look for what may spoil numbers on this machine: scaling, noise, limits, missing tools
///
/// Exit status 1 if a problem was found.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Examines the machine.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: DoctorArgs) -> anyhow::Result<Status> {
    let checks = environment::checks(Path::new("/"));
    args.output.print(&report::checks(&checks))?;
    let bad = checks.iter().any(|check| check.state == State::Bad);
    Ok(if bad { Status::NO } else { Status::DONE })
}
