//! The hidden command that performs one run of an experiment, in a process of its own.
//!
//! It decides which words of `speedwell load` a load of an experiment consists of; `runner/experiment` decides
//! everything else. The order comes over the private line (docs/protocol.md, "Transport"), and so goes the answer;
//! the other half is `harness/experiment.rs`. Start at [`run`].

use super::options::{Client, LoadArgs};
use super::{Status, load};
use crate::exchange::measured;
use crate::harness::Message;
use crate::model::Session;
use crate::model::assignment::Assignment;
use crate::model::load_run::LoadRun;
use crate::process;
use crate::runner::experiment::{Loads, perform};
use crate::runner::load::{LoadJob, Url, private_line};
use anyhow::{Context, bail};
use clap::Parser;
use std::io::{BufRead, BufReader, Write};

/// The name of the command.
pub const COMMAND: &str = crate::harness::experiment::COMMAND;

/// The words of a load by themselves.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    load: LoadArgs,
}

/// Waits for an order, carries it out, tells what came of it.
///
/// # Errors
/// Nobody started this process with a private line, or nobody listens any longer.
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
    let loads = Loads {
        own: &|words| own(words, seed),
        foreign: &|words| foreign(words, seed),
        figures: &figures,
    };
    let done = perform(&assignment, loads);
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

/// Words typed, as it were.
fn parsed(words: &[String]) -> anyhow::Result<(LoadArgs, Url)> {
    let mut args = match Words::try_parse_from(words) {
        Ok(words) => words.load,
        Err(error) => bail!(
            "{}",
            error.to_string().trim_start_matches("error: ").trim_end()
        ),
    };
    let names = words.iter().filter_map(|word| word.strip_prefix("--"));
    args.typed = names
        .map(|word| word.split('=').next().unwrap_or(word).to_owned())
        .collect();
    let url = Url::parse(args.urls.first().context("a load has an address")?)?;
    Ok((args, url))
}

fn own(words: &[String], seed: u64) -> anyhow::Result<LoadJob> {
    let (args, url) = parsed(words)?;
    load::job(&args, &url, seed)
}

fn foreign(words: &[String], seed: u64) -> anyhow::Result<Session> {
    let (args, url) = parsed(words)?;
    if args.generator.client == Client::Builtin {
        bail!("our own generator is no other tool");
    }
    load::foreign(&args, &url, seed)
}

fn figures(run: &LoadRun) -> anyhow::Result<Session> {
    measured::session("load", std::slice::from_ref(run), &mut Vec::new())
}
