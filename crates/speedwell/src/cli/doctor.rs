//! `speedwell doctor`: what may spoil numbers on this machine, and the remedy.

use super::Status;
use super::options::{OutputArgs, StoreArgs};
use crate::environment::{self, Check, State};
use crate::report::{self, CheckLine};
use clap::Args;
use std::path::Path;

/// Look for what may spoil numbers on this machine: scaling, noise, limits, missing tools
///
/// Exit status 1 if a problem was found.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Examines the machine.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: DoctorArgs) -> anyhow::Result<Status> {
    let mut checks = environment::checks(Path::new("/"));
    checks.push(environment::free_disk(&args.store.path()?));
    let lines: Vec<CheckLine> = checks.iter().map(line).collect();
    args.output.print(&report::checks(&lines))?;
    let bad = checks.iter().any(|check| check.state == State::Bad);
    Ok(if bad { Status::NO } else { Status::DONE })
}

fn line(check: &Check) -> CheckLine {
    let state = match check.state {
        State::Good => "ok",
        State::Warning => "warning",
        State::Bad => "problem",
        State::Unknown => "unknown",
    };
    CheckLine {
        name: check.name.to_string(),
        state: state.to_owned(),
        found: check.found.clone(),
        remedy: check.remedy.clone().unwrap_or_default(),
    }
}
