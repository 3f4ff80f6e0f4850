//! `speedwell load`: from words to loads, their course on the terminal, and what they gave.
//!
//! It decides which loads follow each other in which order, and what is said meanwhile. Start at
//! [`run`]; `runner/load/build.rs` fills in what is not given.

mod benchmarker;
mod external;
mod kept;
mod live;
mod order;
mod performed;
mod search;
mod written;

use super::options::{ComparisonArgs, LoadArgs};
use super::{Status, loaded, status};
use crate::analysis::load::{LoadFindings, gate};
use crate::analysis::{self, Findings};
use crate::measure::draw_seed;
use crate::model::load_spec::Client;
use crate::process;
use crate::report;
use crate::runner;
use crate::runner::load::{LoadRun, Notice, ProbeFacts, Url, carry_out, stop_with_warmup};
use anyhow::bail;
use live::LiveView;
use order::Turn;

/// Loads, and tells what came of it.
///
/// # Errors
/// Wrong words, a server that cannot be started or does not answer well.
pub fn run(args: &LoadArgs) -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let seed = args.pace.seed.unwrap_or_else(draw_seed);
    if args.benchmarker {
        return benchmarker::run(args, seed);
    }
    if args.harness {
        return performed::run(args, seed);
    }
    check(args)?;
    if search::is_asked_for(args) {
        return search::run(args, seed);
    }
    let turns = order::turns(args.urls.len(), args.runs.unwrap_or(1), seed);
    if args.generator.client != Client::Builtin {
        return external::run(args, &turns, seed);
    }
    let mut runs = Vec::new();
    for turn in &turns {
        match load(args, turn, seed) {
            Ok(run) => runs.push(run),
            Err(error) => return gave_up(args, &runs, seed, &error),
        }
        if process::interrupted() {
            break;
        }
    }
    finish(args, &runs, seed)
}

/// Generates the part of a load that another process of this program orders.
///
/// # Errors
/// Nobody ordered one, or it could not be begun.
pub fn work() -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    runner::load::work().map(|()| Status::DONE)
}

/// Checks what concerns all addresses together.
///
/// # Errors
/// Options that contradict each other.
fn check(args: &LoadArgs) -> anyhow::Result<()> {
    let (servers, urls) = (args.serving.serve.len(), args.urls.len());
    if servers > 1 && servers != urls {
        bail!(
            "--serve was given {servers} times for {urls} {}\nhint: give it once for all, or once for \
             each",
            if urls == 1 { "address" } else { "addresses" }
        );
    }
    let client = args.generator.client;
    let ours = [
        ("hdr", args.hdr.is_some()),
        ("fail-on", !args.fail_on.is_empty()),
    ];
    if let Some((name, _)) = ours.iter().find(|(_, is_given)| *is_given)
        && client != Client::Builtin
    {
        bail!(
            "{} cannot do --{name}\nhint: leave it out, or leave out --client",
            client.name()
        );
    }
    for url in &args.urls {
        Url::parse(url)?;
    }
    if !search::is_asked_for(args) {
        args.output.check(report::Measured::Loads)?;
    }
    search::check(args)
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
fn load(args: &LoadArgs, turn: &Turn, seed: u64) -> anyhow::Result<LoadRun> {
    let spec = args.spec(turn.url);
    let mut live = LiveView::new(args.output.progress(), stop_with_warmup(&spec));
    let mut run = carry_out(&spec, seed, &mut |notice| match notice {
        Notice::Standing(glimpse) => live.show(glimpse),
        notice => tell(args, &notice),
    })?;
    drop(live);
    (run.round, run.slot) = (turn.round, turn.slot);
    Ok(run)
}

/// Passes on what happens before a load.
fn tell(args: &LoadArgs, notice: &Notice) {
    match notice {
        Notice::Seen(url, seen, protocol) => tell_seen(args, url, seen, protocol),
        Notice::Warning(warning) => status::warn(warning),
        Notice::Standing(_) => {}
    }
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
