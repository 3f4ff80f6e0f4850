//! Implements the hidden command `worker`, which does part of Speedwell's work in a separate
//! process, on this machine or in a fleet.
//!
//! The crates `engine` and `remote` do the actual work. Workers for runs and services receive their
//! request over the private channel (docs/reference/protocol.md, "Transport"); the other workers
//! exchange messages over their standard streams ([`speedwell_machine::worker`]). Start at [`run`].

use super::CommandStatus;
use anyhow::Context;
use clap::{Args, Subcommand};
use speedwell_adapters::ProtocolMessage;
use speedwell_adapters::experiment::RUN_SUBCOMMAND;
use speedwell_engine::execution::experiment;
use speedwell_engine::execution::load::LOAD_SUBCOMMAND;
use speedwell_machine::process;
use speedwell_model::assignment::{PlaceholderValue, RunAssignment, ScopedServices};
use speedwell_remote::fleet::{receive_bundle, worker};
use speedwell_remote::load::perform_load;
use speedwell_remote::machines::{SHARD_SUBCOMMAND, STILL_RUNNING};
use speedwell_remote::roles::worker::perform_role;
use speedwell_remote::{ROLE_SUBCOMMAND, roles};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::thread;

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
    match command {
        WorkerCommand::Run => perform_request()?,
        WorkerCommand::Load => perform_load()?,
        WorkerCommand::Role => perform_role()?,
        WorkerCommand::Shard(args) => return perform_shards(&args),
    }
    Ok(CommandStatus::DONE)
}

/// Waits for a request on the private channel, performs it, and sends the result.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed.
fn perform_request() -> anyhow::Result<()> {
    let (commands, mut events) =
        open_private_channel().context("this command is internal to Speedwell")?;
    let mut messages = BufReader::new(commands)
        .split(b'\n')
        .map_while(Result::ok)
        .filter_map(|line| ProtocolMessage::parse(&line));
    let request = messages
        .find(|message| matches!(message.verb.as_str(), "run" | "keep"))
        .context("received no request")?;
    process::adopt_orphans();
    process::install_handlers()?;
    if request.verb == "run" {
        return perform_run(&request, &mut events);
    }
    thread::spawn(move || {
        // Further input is ignored; the services end when the channel is closed.
        messages.for_each(drop);
        process::request_interrupt();
    });
    keep_services(&request, &mut events)
}

fn perform_run(request: &ProtocolMessage, events: &mut File) -> anyhow::Result<()> {
    let text = request.get("assignment").context("the request has no assignment")?;
    let assignment: RunAssignment = serde_json::from_str(&text)?;
    let seed = request.parse_number("seed").unwrap_or(0);
    let result = match &assignment.place.placement {
        None => experiment::perform_run(&assignment, seed),
        Some(placement) => roles::perform_placed_run(&assignment, placement, seed),
    };
    let mut response =
        ProtocolMessage::new("performed").with("json", serde_json::to_string(&result.performed)?);
    if let Some(load) = &result.load {
        response = response.with("load", serde_json::to_string(load)?);
    }
    if let Some(profile) = &result.profile {
        response = response.with("profile", serde_json::to_string(profile)?);
    }
    events.write_all(response.to_string().as_bytes())?;
    events.write_all(ProtocolMessage::new("end").to_string().as_bytes())?;
    Ok(())
}

/// Starts services, reports their addresses, and keeps them running until this process is
/// interrupted or the channel is closed.
fn keep_services(request: &ProtocolMessage, events: &mut File) -> anyhow::Result<()> {
    let services = request.get("services").context("the request has no services")?;
    let keeping: ScopedServices = serde_json::from_str(&services)?;
    let mut send_result = Ok(());
    let performed = roles::keep_services(&keeping, &mut |addresses| {
        send_result = send_addresses(addresses, events);
    });
    send_result?;
    let ended = ProtocolMessage::new("ended").with("json", serde_json::to_string(&performed)?);
    events.write_all(ended.to_string().as_bytes())?;
    Ok(())
}

fn send_addresses(addresses: &[PlaceholderValue], events: &mut File) -> anyhow::Result<()> {
    let ready = ProtocolMessage::new("ready").with("places", serde_json::to_string(addresses)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
}

/// Opens the two pipes that connect this process with its parent. `SPEEDWELL_FDS` names their file
/// descriptors. The function opens the pipes again by their paths in /proc, because this needs no
/// unsafe code.
fn open_private_channel() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (input, output) =
        names.split_once(',').context("SPEEDWELL_FDS does not name two descriptors")?;
    let path = |number: &str| format!("/proc/self/fd/{number}");
    Ok((File::open(path(input))?, OpenOptions::new().write(true).open(path(output))?))
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

/// Receives files, sends spools, or measures, depending on the flag.
///
/// # Errors
/// Fails if the connection is lost, or if the folder cannot be used.
fn perform_shards(args: &ShardArgs) -> anyhow::Result<CommandStatus> {
    let (folder, tasks) = (&args.folder, args.tasks.as_slice());
    match () {
        () if args.receive => receive_bundle(folder)?,
        () if args.follow || args.read => {
            if !worker::stream_spools(folder, tasks, args.follow)? {
                return Ok(CommandStatus::from_code(STILL_RUNNING));
            }
        }
        () => worker::perform_tasks(folder, tasks)?,
    }
    Ok(CommandStatus::DONE)
}
