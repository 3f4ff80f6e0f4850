//! `speedwell load`: from words to loads, their course on the terminal, and what they gave.
//!
//! It decides which loads follow each other in which order, and what is said meanwhile. Start at
//! [`run`]; `build.rs` makes a load of the words.

mod benchmarker;
mod build;
mod data_rows;
mod external;
mod kept;
mod kinds;
mod live;
mod order;
mod performed;
mod requests_file;
mod search;
mod target;
mod tool;
mod written;

use super::measure::draw_seed;
use super::options::{Client, ComparisonArgs, LoadArgs};
use super::{Status, loaded, status};
use crate::analysis::load::{LoadFindings, gate};
use crate::analysis::{self, Findings};
use crate::process;
use crate::report;
use crate::runner::load::{
    LoadJob, LoadRun, Manner, Notice, ProbeFacts, Serve, Url, WorkerCommand, carry_out, work,
};
use anyhow::Context;
use live::LiveView;
use order::Turn;
use speedwell_load::load::Part;
use std::time::Duration;

/// How long a server may take until it accepts connections.
const SERVE_LIMIT: Duration = Duration::from_secs(30);

/// Loads, and tells what came of it.
///
/// # Errors
/// Wrong words, a server that cannot be started or does not answer well.
pub fn run(mut args: LoadArgs) -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let seed = args.pace.seed.unwrap_or_else(draw_seed);
    search::told_visit(&mut args);
    if let Some(worker) = &args.generator.worker {
        let job = build::job(&args, &Url::parse(&worker.url)?, seed, worker.part)?;
        work(job)?;
        return Ok(Status::DONE);
    }
    if args.benchmarker {
        return benchmarker::run(&args, seed);
    }
    if args.harness {
        return performed::run(args, seed);
    }
    build::check_all(&args)?;
    let urls: Vec<Url> = args
        .urls
        .iter()
        .map(|text| Url::parse(text))
        .collect::<anyhow::Result<_>>()?;
    if search::is_asked_for(&args) {
        return search::run(args, &urls, seed);
    }
    let turns = order::turns(urls.len(), args.runs.unwrap_or(1), seed);
    if args.generator.client != Client::Builtin {
        return external::run(&args, &urls, &turns, seed);
    }
    let mut runs = Vec::new();
    for turn in &turns {
        let loaded = load(&args, &urls[turn.url], turn, seed);
        match loaded {
            Ok(run) => runs.push(run),
            Err(error) => return gave_up(&args, &runs, seed, &error),
        }
        if process::interrupted() {
            break;
        }
    }
    finish(&args, &runs, seed)
}

/// A load could not be begun. What was measured before it is told.
fn gave_up(
    args: &LoadArgs,
    runs: &[LoadRun],
    seed: u64,
    error: &anyhow::Error,
) -> anyhow::Result<Status> {
    let status = match process::interrupted() {
        true => Status::INTERRUPTED,
        false => Status::COULD_NOT,
    };
    status::tell(error);
    match runs.is_empty() {
        true => Ok(status),
        false => Ok(status.or(finish(args, runs, seed)?)),
    }
}

/// One load.
fn load(args: &LoadArgs, url: &Url, turn: &Turn, seed: u64) -> anyhow::Result<LoadRun> {
    let manner = manner(args, turn, seed)?;
    let whole = |url: &Url| build::job(args, url, seed, Part::WHOLE);
    let mut live = LiveView::new(args.output.progress(), build::whole_course(&args.pace));
    let mut run = carry_out(url, &whole, &manner, &mut |notice| match notice {
        Notice::Seen(url, seen, protocol) => tell_seen(args, url, seen, protocol),
        Notice::Standing(glimpse) => live.show(glimpse),
    })?;
    drop(live);
    (run.round, run.slot) = (turn.round, turn.slot);
    Ok(run)
}

/// The load that the words mean for one address.
///
/// # Errors
/// See [`build::job`].
pub fn job(args: &LoadArgs, url: &Url, seed: u64) -> anyhow::Result<LoadJob> {
    build::job(args, url, seed, Part::WHOLE)
}

pub use external::once as foreign;

/// What is done around a load.
fn manner(args: &LoadArgs, turn: &Turn, seed: u64) -> anyhow::Result<Manner> {
    let servers = &args.serving.serve;
    let command = servers.get(turn.url).or(servers.first());
    Ok(Manner {
        verifies: !args.expect.no_verify,
        follows: args.traffic.location,
        serve: command.map(|command| Serve {
            command: command.clone(),
            limit: args.serving.serve_timeout.unwrap_or(SERVE_LIMIT),
        }),
        worker: match args.generator.clients.unwrap_or(1) {
            1 => None,
            _ => Some(worker(args, seed)?),
        },
    })
}

/// A generator process gets the words of this one, and the seed if it was drawn.
fn worker(args: &LoadArgs, seed: u64) -> anyhow::Result<WorkerCommand> {
    let mut words = std::env::args().skip(1);
    // What is added stands before the words typed: behind a '--' options are none.
    let mut leading: Vec<String> = words.next().into_iter().collect();
    if args.pace.seed.is_none() {
        leading.push(format!("--seed={seed}"));
    }
    if let Some(visit) = args.search.visit {
        leading.push(format!("--visit={visit}"));
    }
    Ok(WorkerCommand {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        leading,
        part_option: "--worker".to_owned(),
        trailing: words.collect(),
    })
}

/// Says what the request before the load saw.
fn tell_seen(args: &LoadArgs, url: &Url, seen: &ProbeFacts, protocol: &str) {
    if args.output.quiet {
        return;
    }
    for from in &seen.redirected_from {
        status::note(&format!("'{from}' redirects"));
    }
    let server = seen.server.as_ref();
    let server = server.map_or(String::new(), |name| format!(", server '{name}'"));
    let tls = seen.tls.as_ref();
    let tls = tls.map_or(String::new(), |tls| {
        format!(", {} {}", tls.version, tls.cipher)
    });
    status::note(&format!(
        "'{url}' answers {} with {} bytes of body ({protocol}{server}{tls})",
        seen.status, seen.body_bytes
    ));
}

/// Keeps and reports loads that were asked for one by one.
fn finish(args: &LoadArgs, runs: &[LoadRun], seed: u64) -> anyhow::Result<Status> {
    let gate = conclude(args, runs, seed, |_, _| true)?;
    Ok(runs.iter().fold(gate, |all, run| all.or(outcome(run))))
}

/// Writes what was asked for, keeps it, reports, and holds the loads that decide against the limits.
fn conclude(
    args: &LoadArgs,
    runs: &[LoadRun],
    seed: u64,
    decides: impl Fn(&[LoadFindings], &LoadFindings) -> bool,
) -> anyhow::Result<Status> {
    written::write(args, runs)?;
    let session = kept::session(args, runs, seed)?;
    // What cannot be kept is shown all the same: it has been measured.
    let kept = args
        .store
        .open()
        .and_then(|mut store| store.insert(&session));
    let findings: Vec<_> = runs.iter().map(analysis::load::of).collect();
    let settings = ComparisonArgs::default().settings(&kept::metrics(&session), None);
    let output = args.output.settings();
    let mut document = loaded::document(&session, &findings, &settings, &output)?;
    document.append(report::circumstances(
        &[(None, &session)],
        &Findings::default(),
    ));
    let decisive = findings.iter().filter(|load| decides(&findings, load));
    let decisive: Vec<_> = decisive.cloned().collect();
    let judged = gate::judge(&args.fail_on, &decisive);
    document.append(report::load::gate(&judged));
    args.output.print(&document)?;
    runs.iter().for_each(tell_server);
    kept?;
    Ok(match gate::passes(&judged) {
        true => Status::DONE,
        false => Status::NO,
    })
}

/// What a server that died wrote last.
fn tell_server(run: &LoadRun) {
    let tail = run.server.as_ref().map(|server| &server.stderr_tail);
    if let Some(tail) = tail.filter(|tail| !tail.is_empty()) {
        status::note(&format!("the server of '{}' wrote:\n{tail}", run.url));
    }
}

/// The status that one load deserves by itself.
fn outcome(run: &LoadRun) -> Status {
    let nothing = run.measured.account.books.succeeded() == 0;
    if run.measured.is_interrupted {
        return Status::INTERRUPTED;
    }
    if nothing {
        status::warn(&format!("No request to '{}' was answered well.", run.url));
    }
    match nothing || run.is_partial {
        true => Status::COULD_NOT,
        false => Status::DONE,
    }
}
