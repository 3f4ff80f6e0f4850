//! Hidden commands that run in a process of their own: one run of an experiment, and work for a
//! machine of a fleet.
//!
//! `runner/experiment` decides what is done. Requests and responses use the private channel
//! (docs/reference/protocol.md, "Transport"); the other side is `harness/experiment/mod.rs`. Start
//! at [`run`], [`parcel`] and [`check`].

use super::status::{self, Status};
use anyhow::Context;
use clap::Args;
use speedwell_environment::{self as environment, State};
use speedwell_fleet::check::{Checked, MachineCheck, answer};
use speedwell_fleet::{Identity, STILL_RUNNING, pulse};
use speedwell_harness::Message;
use speedwell_measure::fleet::{clean_here, left, receive, worker};
use speedwell_measure::roles;
use speedwell_model::assignment::{Assignment, Blank, Keeping};
use speedwell_process as process;
use speedwell_runner::load::private_line;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;

/// Name of the command that performs one run.
pub const COMMAND: &str = speedwell_harness::experiment::COMMAND;

/// Name of the command that checks whether this machine is fit to measure.
pub const CHECK: &str = speedwell_fleet::check::COMMAND;

/// Waits for a request, performs the run, and sends the result.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed.
pub fn run() -> anyhow::Result<Status> {
    let (commands, mut events) = private_line().context("this command is for Speedwell itself")?;
    let mut lines = BufReader::new(commands).split(b'\n');
    let order = lines.find_map(|line| {
        let message = Message::parse(&line.ok()?)?;
        (message.verb == "run").then_some(message)
    });
    let order = order.context("there came no order")?;
    let text = order
        .get("assignment")
        .context("the order has no assignment")?;
    let assignment: Assignment = serde_json::from_str(&text)?;
    let seed = order.number("seed").unwrap_or(0);
    process::adopt_orphans();
    process::on_interrupt()?;
    let done = roles::perform(&assignment, seed);
    let mut answer =
        Message::new("performed").with("json", serde_json::to_string(&done.performed)?);
    if let Some(load) = &done.load {
        answer = answer.with("load", serde_json::to_string(load)?);
    }
    if let Some(profile) = &done.profile {
        answer = answer.with("profile", serde_json::to_string(profile)?);
    }
    events.write_all(answer.to_string().as_bytes())?;
    events.write_all(Message::new("end").to_string().as_bytes())?;
    Ok(Status::DONE)
}

/// Name of the command that keeps services running that several runs share.
pub const KEEPING_COMMAND: &str = speedwell_harness::experiment::KEEPING_COMMAND;

/// Waits for a request, starts its services, reports their addresses, and keeps them running until
/// this process is interrupted or the channel is closed.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed.
pub fn keep() -> anyhow::Result<Status> {
    let (commands, mut events) = private_line().context("this command is for Speedwell itself")?;
    let mut lines = BufReader::new(commands).split(b'\n');
    let order = lines.find_map(|line| {
        let message = Message::parse(&line.ok()?)?;
        (message.verb == "keep").then(|| message.get("services"))
    });
    let order = order.flatten().context("there came no order")?;
    let keeping: Keeping = serde_json::from_str(&order)?;
    process::adopt_orphans();
    process::on_interrupt()?;
    thread::spawn(move || {
        // Further input is ignored; the services end when the channel is closed.
        lines.for_each(drop);
        process::interrupt();
    });
    let mut told = Ok(());
    let performed = roles::keep(&keeping, &mut |places| {
        told = say_places(places, &mut events);
    });
    told?;
    let last = Message::new("ended").with("json", serde_json::to_string(&performed)?);
    events.write_all(last.to_string().as_bytes())?;
    Ok(Status::DONE)
}

fn say_places(places: &[Blank], events: &mut impl Write) -> anyhow::Result<()> {
    let ready = Message::new("ready").with("places", serde_json::to_string(places)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
}

/// Runs one role of an experiment on this machine, as requested on standard input.
///
/// # Errors
/// Fails if the connection is lost.
pub fn role() -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    roles::worker::perform().map(|()| Status::DONE)
}

/// Name of the command that receives files and measures parcels of a session.
pub const PARCEL_COMMAND: &str = "perform-parcel";

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

/// Receives files, manages a worker, or measures, depending on the flag.
///
/// # Errors
/// Fails if the connection is lost, or if the folder cannot be used.
pub fn parcel(args: &ParcelArgs) -> anyhow::Result<Status> {
    let (folder, words) = (&args.folder, args.tasks.as_slice());
    match () {
        () if args.receive => receive(folder)?,
        () if args.launch => status::say(format!("{}\n", left::launch(folder)?))?,
        () if args.named => left::perform_alone(folder, words)?,
        () if args.end => left::end(folder, words)?,
        () if args.clean => {
            let cleaned = clean_here(folder, words.first().map(String::as_str))?;
            status::say(format!("{cleaned}\n"))?;
        }
        () if args.follow || args.read => {
            if !left::follow(folder, words, args.follow)? {
                return Ok(Status::from_code(STILL_RUNNING));
            }
        }
        () => worker::perform(folder, words)?,
    }
    Ok(Status::DONE)
}

/// Answers whether this machine is fit to measure.
///
/// # Errors
/// Fails if reading the request or writing the answer fails.
pub fn check() -> anyhow::Result<Status> {
    answer(&mut io::stdin().lock(), &mut io::stdout().lock(), fitness)?;
    Ok(Status::DONE)
}

fn fitness() -> Checked {
    let root = Path::new("/");
    let checks = environment::checks(root)
        .into_iter()
        .map(|check| MachineCheck {
            name: check.name.to_string(),
            is_problem: check.state == State::Bad,
            is_warning: check.state == State::Warning,
            found: check.found,
            remedy: check.remedy.unwrap_or_default(),
        });
    Checked {
        checks: checks.collect(),
        identity: Identity::of(root, &environment::capture(&[])),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pulse: pulse::take(),
    }
}
