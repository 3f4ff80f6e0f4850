//! `--client TOOL`: another tool sends the load, and what it reported is stored and shown like a load of our own.
//! Start at [`run`].

use super::order::Turn;
use super::tell;
use crate::analysis;
use crate::cli::Status;
use crate::cli::options::{ComparisonArgs, LoadArgs, StudyArgs};
use crate::cli::report::document_of;
use crate::environment;
use crate::exchange;
use crate::model::{Session, State};
use crate::process::{self, resolve};
use crate::runner::load::load_with_tool;
use anyhow::bail;
use std::path::Path;

/// Loads with another tool, stores what it gave, and shows it.
///
/// # Errors
/// The tool is missing, cannot do what is asked for, or does not tell what it measured.
pub fn run(args: &LoadArgs, turns: &[Turn], seed: u64) -> anyhow::Result<Status> {
    let mut sessions = Vec::new();
    for turn in turns {
        let spec = args.spec(turn.url);
        match load_with_tool(&spec, seed, &mut |notice| tell(args, &notice))? {
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
    let name = args.generator.client.name();
    let session = as_measured(exchange::merge(name, sessions)?, args, name, ended);
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
