//! Implements the hidden command `worker`, which does part of Speedwell's work in a separate
//! process, on this machine or in a fleet.
//!
//! The crates `engine` and `remote` do the actual work. Workers for runs and services receive their
//! request over the private channel (docs/reference/protocol.md, "Transport"); the other workers
//! exchange messages over their standard streams ([`speedwell_machine::worker`]). Start at [`run`].

use super::CommandStatus;
use clap::{Args, Subcommand};
use speedwell_adapters::experiment::RUN_SUBCOMMAND;
use speedwell_engine::execution::experiment;
use speedwell_engine::execution::load::LOAD_SUBCOMMAND;
use speedwell_remote::fleet::{receive_bundle, worker};
use speedwell_remote::load::perform_load;
use speedwell_remote::machines::{ROLE_SUBCOMMAND, SHARD_SUBCOMMAND, STILL_RUNNING};
use speedwell_remote::roles::{self, worker::perform_role};
use std::path::PathBuf;

/// Work of a worker process.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Performs one run of an experiment, or keeps alive the services that several runs share.
    #[command(name = RUN_SUBCOMMAND)]
    Run,
    /// Sends a part of a load.
    #[command(name = LOAD_SUBCOMMAND)]
    Load,
    /// Performs a request on this machine, for example to run one role of an experiment.
    #[command(name = ROLE_SUBCOMMAND)]
    Role,
    /// Measures shards of a session on this machine.
    #[command(name = SHARD_SUBCOMMAND)]
    Shard(ShardArgs),
}

/// Does the work of a worker process.
///
/// # Errors
/// Fails if the request is invalid, or if the connection to the coordinator is lost.
pub fn run(command: WorkerCommand) -> anyhow::Result<CommandStatus> {
    match &command {
        WorkerCommand::Run => {
            experiment::serve_request(roles::perform_placed_run, roles::keep_services)?;
        }
        WorkerCommand::Load => perform_load()?,
        WorkerCommand::Role => perform_role()?,
        WorkerCommand::Shard(args) if args.receive => receive_bundle(&args.folder)?,
        WorkerCommand::Shard(args) if args.follow || args.read => {
            if !worker::stream_spools(&args.folder, &args.tasks, args.follow)? {
                return Ok(CommandStatus::from_code(STILL_RUNNING));
            }
        }
        WorkerCommand::Shard(args) => worker::perform_tasks(&args.folder, &args.tasks)?,
    }
    Ok(CommandStatus::DONE)
}

/// Arguments of a worker for shards; a flag selects what it does.
#[derive(Debug, Args)]
pub struct ShardArgs {
    /// Receive files from stdin into this folder.
    #[arg(long)]
    receive: bool,
    /// Write the spools of a worker to stdout until it ends.
    #[arg(long)]
    follow: bool,
    /// Write a worker's spools (results) so far to stdout.
    #[arg(long)]
    read: bool,
    /// Folder of the fleet, or of a session.
    folder: PathBuf,
    /// Task numbers ('-': requests from stdin), or worker and spools.
    #[arg(value_name = "TASK", allow_hyphen_values = true)]
    tasks: Vec<String>,
}
