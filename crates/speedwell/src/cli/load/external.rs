//! `--client TOOL`: another tool sends the load, and its figures are read.
//!
//! Server, verification and rounds are the same as with our own generator. What the tool does not
//! tell stays missing. Start at [`run`].

use super::order::Turn;
use super::tool::{self, ToolCommand};
use super::{build, manner, tell_seen};
use crate::analysis;
use crate::cli::options::{ComparisonArgs, LoadArgs, StudyArgs, resolve};
use crate::cli::report::document_of;
use crate::cli::{Status, status};
use crate::environment;
use crate::exchange;
use crate::model::{Case, Session, State};
use crate::process::{self, Ended, Outcome, Scratch, Spec};
use crate::runner::load::{Notice, Ready, Url};
use anyhow::{Context, bail};
use speedwell_load::load::Part;
use std::path::Path;
use std::time::Duration;

/// Longer than any load: the tool ends by itself, or with Ctrl-C.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Loads with another tool, stores what it gave, and shows it.
///
/// # Errors
/// The tool is missing, cannot do what is asked for, or does not tell what it measured.
pub fn run(args: &LoadArgs, urls: &[Url], turns: &[Turn], seed: u64) -> anyhow::Result<Status> {
    let scratch = Scratch::new()?;
    let mut sessions = Vec::new();
    for turn in turns {
        match load(args, &urls[turn.url], turn, seed, &scratch)? {
            Some(session) => sessions.push((session, None)),
            None => break,
        }
    }
    let ended = match process::interrupted() {
        true => Status::INTERRUPTED,
        false => Status::DONE,
    };
    process::forget_interrupt();
    if sessions.is_empty() {
        bail!("interrupted before anything was measured");
    }
    let name = format!("{:?}", args.generator.client).to_lowercase();
    let session = as_measured(exchange::merge(&name, sessions)?, args, &name, ended);
    // What cannot be kept is shown all the same: it has been measured.
    let kept = args
        .store
        .open()
        .and_then(|mut store| store.insert(&session));
    let settings = ComparisonArgs::default().settings(&["all".to_owned()], None);
    let findings = analysis::of(&session, &settings);
    let output = args.output.settings();
    let document = document_of(
        &session,
        &findings,
        &StudyArgs::default(),
        &settings,
        &output,
    )?;
    args.output.print(&document)?;
    kept.map(|_| ended)
}

/// One load with another tool, as the tool tells it.
///
/// # Errors
/// As for [`run`]; also when it was interrupted.
pub fn once(args: &LoadArgs, url: &Url, seed: u64) -> anyhow::Result<Session> {
    let scratch = Scratch::new()?;
    let only = Turn {
        url: 0,
        round: 0,
        slot: 0,
    };
    load(args, url, &only, seed, &scratch)?.context("interrupted before anything was measured")
}

/// The session as one that was measured here and now.
fn as_measured(session: Session, args: &LoadArgs, tool: &str, ended: Status) -> Session {
    let program = resolve(Path::new(tool)).ok();
    let programs: Vec<_> = program
        .map(|path| {
            let version = environment::program_version(&path).text;
            (tool.to_owned(), path, version)
        })
        .into_iter()
        .collect();
    Session {
        state: match ended == Status::INTERRUPTED {
            true => State::Interrupted,
            false => State::Complete,
        },
        tags: args.store.tag.clone(),
        command: std::env::args().collect(),
        environment: environment::capture(&programs),
        ..session
    }
}

/// One load; nothing if it was interrupted.
fn load(
    args: &LoadArgs,
    url: &Url,
    turn: &Turn,
    seed: u64,
    scratch: &Scratch,
) -> anyhow::Result<Option<Session>> {
    let whole = |url: &Url| build::job(args, url, seed, Part::WHOLE);
    let body = scratch.path("body");
    // Refused before a server is started in vain.
    let command = tool::command(args, &whole(url)?, &body)?;
    resolve(Path::new(command.name))
        .with_context(|| format!("cannot load with {}", command.name))?;
    let ready = Ready::make(url, &whole, &manner(args, turn, seed)?, &mut |notice| {
        if let Notice::Seen(url, seen, protocol) = notice {
            tell_seen(args, url, seen, protocol);
        }
    })?;
    ready
        .warnings
        .iter()
        .for_each(|warning| status::warn(warning));
    let command = tool::command(args, &ready.job, &body)?;
    let label = format!("{} {url}", command.name);
    let outcome = start(&command)?;
    if let Some(server) = ready.end()?
        && let Some(died) = &server.died
    {
        bail!(
            "the server {died} in mid-load; it wrote:\n{}",
            server.stderr_tail
        );
    }
    if outcome.ended == Ended::Interrupted {
        return Ok(None);
    }
    let text = outcome.stdout.text();
    let failed = || {
        let wrote = outcome.stderr.last_lines(5);
        format!("{} did not tell what it measured: {wrote}", command.name)
    };
    let mut warnings = Vec::new();
    let sessions = exchange::read_noting(&label, text.as_bytes(), &mut warnings);
    let sessions = sessions.with_context(failed)?;
    warnings.iter().for_each(|warning| status::warn(warning));
    let mut session = sessions.into_iter().next().with_context(failed)?;
    for run in &mut session.runs {
        // Not every tool prints where it sent its requests.
        run.case = Case::new(url.to_string(), run.case.values.clone()).into();
    }
    Ok(Some(session))
}

fn start(command: &ToolCommand) -> anyhow::Result<Outcome> {
    let spec = Spec {
        limit: UNLIMITED,
        ..Spec::new(command.name).args(command.arguments.iter().cloned())
    };
    process::run(&spec, &mut ()).with_context(|| format!("cannot start {}", command.name))
}
