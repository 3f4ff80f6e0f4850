//! The hidden command of a fleet's machines: takes what is sent, and measures parcels of a session.

use super::Status;
use clap::Args;
use speedwell_fleet::STILL_RUNNING;
use speedwell_measure::fleet::{clean_here, left, receive, worker};
use std::path::PathBuf;

/// The name of the command.
pub const COMMAND: &str = "perform-parcel";

/// What is to be done.
#[derive(Debug, Args)]
pub struct ParcelArgs {
    /// Take what comes over the input into this folder.
    #[arg(long)]
    receive: bool,
    /// Start a worker for the orders of the input that goes on by itself, and say its name.
    #[arg(long)]
    launch: bool,
    /// Say the name of this process first.
    #[arg(long)]
    named: bool,
    /// Write the spools of a worker to the output until it has ended.
    #[arg(long)]
    follow: bool,
    /// Write what there is of the spools of a worker to the output.
    #[arg(long)]
    read: bool,
    /// End a worker.
    #[arg(long)]
    end: bool,
    /// Remove a session from the folder of the fleet, or what is old.
    #[arg(long)]
    clean: bool,
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
    let (folder, words) = (&args.folder, args.tasks.as_slice());
    match () {
        () if args.receive => receive(folder)?,
        () if args.launch => println!("{}", left::launch(folder)?),
        () if args.named => left::perform_alone(folder, words)?,
        () if args.end => left::end(folder, words)?,
        () if args.clean => println!("{}", clean_here(folder, words.first().map(String::as_str))?),
        () if args.follow || args.read => {
            if !left::follow(folder, words, args.follow)? {
                return Ok(Status::from_code(STILL_RUNNING));
            }
        }
        () => worker::perform(folder, words)?,
    }
    Ok(Status::DONE)
}
