//! The hidden command of a fleet's machines: takes what is sent, and measures parcels of a session.

use super::Status;
use clap::Args;
use speedwell_measure::fleet::{receive, worker};
use std::path::PathBuf;

/// The name of the command.
pub const COMMAND: &str = "perform-parcel";

/// What is to be done.
#[derive(Debug, Args)]
pub struct ParcelArgs {
    /// Take what comes over the input into this folder.
    #[arg(long)]
    receive: bool,
    /// The folder of the fleet, or of a session.
    folder: PathBuf,
    /// Numbers of tasks, or '-' for those that come over the input.
    #[arg(value_name = "TASK", allow_hyphen_values = true)]
    tasks: Vec<String>,
}

/// Takes what is sent, or measures.
///
/// # Errors
/// The line is cut, or the folder cannot be used.
pub fn run(args: &ParcelArgs) -> anyhow::Result<Status> {
    if args.receive {
        receive(&args.folder)?;
    } else {
        worker::perform(&args.folder, &args.tasks)?;
    }
    Ok(Status::DONE)
}
