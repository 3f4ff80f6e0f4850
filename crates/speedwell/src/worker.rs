//! Implements the hidden command `worker`, which does part of Speedwell's work in a separate
//! process, on this machine or in a fleet.
//!
//! The crates `engine` and `remote` do the actual work. Workers for runs, services and load
//! generators receive their request over the private channel (docs/reference/protocol.md,
//! "Transport"); the other workers read their requests from standard input. Start at [`run`].

use super::load;
use super::status::{self, CommandStatus};
use anyhow::Context;
use clap::{Args, Subcommand};
use speedwell_adapters::ProtocolMessage;
use speedwell_adapters::experiment::{RUN_SUBCOMMAND, SERVICES_SUBCOMMAND};
use speedwell_engine::execution::load::{GENERATOR_SUBCOMMAND, open_private_channel};
use speedwell_machine::environment::{self, CheckState};
use speedwell_machine::process;
use speedwell_model::assignment::{PlaceholderValue, RunAssignment, ScopedServices};
use speedwell_remote::fleet::{clean_here, detached_worker, receive_bundle, worker};
use speedwell_remote::load::worker::LOAD_SUBCOMMAND;
use speedwell_remote::machines::check::{
    CHECK_SUBCOMMAND, MachineCheck, MachineReport, serve_check,
};
use speedwell_remote::machines::detached::SHARD_SUBCOMMAND;
use speedwell_remote::machines::{MachineIdentity, STILL_RUNNING, speed_probe};
use speedwell_remote::roles;
use speedwell_remote::roles::worker::ROLE_SUBCOMMAND;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;

/// Work of a worker process.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Generates one part of a load.
    #[command(name = GENERATOR_SUBCOMMAND)]
    Generator,
    /// Sends this machine's part of a load.
    #[command(name = LOAD_SUBCOMMAND)]
    Load,
    /// Performs one run of an experiment.
    #[command(name = RUN_SUBCOMMAND)]
    Run,
    /// Keeps alive the services that several runs of an experiment share.
    #[command(name = SERVICES_SUBCOMMAND)]
    Services,
    /// Runs one role of an experiment, such as its load, on this machine.
    #[command(name = ROLE_SUBCOMMAND)]
    Role,
    /// Reports this machine's environment and clock.
    #[command(name = CHECK_SUBCOMMAND)]
    Check,
    /// Measures shards of a session on this machine.
    #[command(name = SHARD_SUBCOMMAND)]
    Shard(ShardArgs),
}

/// Does the work of a worker process.
///
/// # Errors
/// Fails if the request is invalid, or if the connection to the parent process is lost.
pub fn run(command: WorkerCommand) -> anyhow::Result<CommandStatus> {
    match command {
        WorkerCommand::Generator => load::run_generator(),
        WorkerCommand::Load => load::perform_share(),
        WorkerCommand::Run => perform_run(),
        WorkerCommand::Services => keep_services(),
        WorkerCommand::Role => perform_role(),
        WorkerCommand::Check => answer_check(),
        WorkerCommand::Shard(args) => perform_shards(&args),
    }
}

/// Waits for a request, performs the run, and sends the result.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed before
/// a request arrives.
fn perform_run() -> anyhow::Result<CommandStatus> {
    let (commands, mut events) =
        open_private_channel().context("this command is internal to Speedwell")?;
    let mut lines = BufReader::new(commands).split(b'\n');
    let request = lines
        .find_map(|line| {
            let message = ProtocolMessage::parse(&line.ok()?)?;
            (message.verb == "run").then_some(message)
        })
        .context("received no request")?;
    let text = request.get("assignment").context("the request has no assignment")?;
    let assignment: RunAssignment = serde_json::from_str(&text)?;
    let seed = request.parse_number("seed").unwrap_or(0);
    process::adopt_orphans();
    process::install_handlers()?;
    let result = roles::perform_run(&assignment, seed);
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
    Ok(CommandStatus::DONE)
}

/// Waits for a request, starts its services, reports their addresses, and keeps them running until
/// this process is interrupted or the channel is closed.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed before
/// a request arrives.
fn keep_services() -> anyhow::Result<CommandStatus> {
    let (commands, mut events) =
        open_private_channel().context("this command is internal to Speedwell")?;
    let mut lines = BufReader::new(commands).split(b'\n');
    let services = lines
        .find_map(|line| {
            let message = ProtocolMessage::parse(&line.ok()?)?;
            (message.verb == "keep").then(|| message.get("services"))
        })
        .flatten()
        .context("received no request")?;
    let keeping: ScopedServices = serde_json::from_str(&services)?;
    process::adopt_orphans();
    process::install_handlers()?;
    thread::spawn(move || {
        // Further input is ignored; the services end when the channel is closed.
        lines.for_each(drop);
        process::request_interrupt();
    });
    let mut send_result = Ok(());
    let performed = roles::keep_services(&keeping, &mut |addresses| {
        send_result = send_addresses(addresses, &mut events);
    });
    send_result?;
    let ended = ProtocolMessage::new("ended").with("json", serde_json::to_string(&performed)?);
    events.write_all(ended.to_string().as_bytes())?;
    Ok(CommandStatus::DONE)
}

fn send_addresses(addresses: &[PlaceholderValue], events: &mut impl Write) -> anyhow::Result<()> {
    let ready = ProtocolMessage::new("ready").with("places", serde_json::to_string(addresses)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
}

/// Runs one role of an experiment, such as its load, on this machine, as requested on standard
/// input.
///
/// # Errors
/// Fails if the connection is lost.
fn perform_role() -> anyhow::Result<CommandStatus> {
    process::adopt_orphans();
    process::install_handlers()?;
    roles::worker::perform_role().map(|()| CommandStatus::DONE)
}

/// Arguments of a worker for shards; a flag selects what it does.
#[derive(Debug, Args)]
pub struct ShardArgs {
    /// Receive files from stdin into this folder.
    #[arg(long)]
    receive: bool,
    /// Start a detached worker for the requests on stdin, and print its name.
    #[arg(long)]
    launch: bool,
    /// Measure as a detached worker, after printing its name.
    #[arg(long)]
    named: bool,
    /// Write a worker's spools (results) to stdout until it has ended.
    #[arg(long)]
    follow: bool,
    /// Write a worker's spools (results) so far to stdout.
    #[arg(long)]
    read: bool,
    /// Stop a worker.
    #[arg(long)]
    end: bool,
    /// Remove a session, or old sessions, from the fleet folder.
    #[arg(long)]
    clean: bool,
    /// Folder of the fleet, or of a session.
    folder: PathBuf,
    /// Numbers of tasks, or the worker or session that a flag affects.
    ///
    /// Without a flag, and with --named: the tasks to measure, or '-' to read requests from stdin.
    /// With --follow and --read: a worker and the names of its spools. With --end: a worker. With
    /// --clean: a session.
    #[arg(value_name = "TASK", allow_hyphen_values = true)]
    tasks: Vec<String>,
}

/// Receives files, manages a worker, or measures, depending on the flag.
///
/// # Errors
/// Fails if the connection is lost, or if the folder cannot be used.
fn perform_shards(args: &ShardArgs) -> anyhow::Result<CommandStatus> {
    let (folder, tasks) = (&args.folder, args.tasks.as_slice());
    match () {
        () if args.receive => receive_bundle(folder)?,
        () if args.launch => {
            status::write_stdout(format!("{}\n", detached_worker::launch_worker(folder)?))?
        }
        () if args.named => detached_worker::perform_detached(folder, tasks)?,
        () if args.end => detached_worker::end_worker(folder, tasks)?,
        () if args.clean => {
            let cleaned = clean_here(folder, tasks.first().map(String::as_str))?;
            status::write_stdout(format!("{cleaned}\n"))?;
        }
        () if args.follow || args.read => {
            if !detached_worker::stream_spools(folder, tasks, args.follow)? {
                return Ok(CommandStatus::from_code(STILL_RUNNING));
            }
        }
        () => worker::perform_tasks(folder, tasks)?,
    }
    Ok(CommandStatus::DONE)
}

/// Answers whether this machine is fit for measurements.
///
/// # Errors
/// Fails if reading the request or writing the answer fails.
fn answer_check() -> anyhow::Result<CommandStatus> {
    serve_check(&mut io::stdin().lock(), &mut io::stdout().lock(), check_fitness)?;
    Ok(CommandStatus::DONE)
}

fn check_fitness() -> MachineReport {
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
        version: env!("CARGO_PKG_VERSION").to_owned(),
        speed_probe: speed_probe::probe_speed(),
    }
}
