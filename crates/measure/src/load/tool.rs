//! Loads that another tool sends, as one session. Start at [`load_with_tools`].

use super::{LoadEvent, LoadRequest, order};
use crate::SessionRequest;
use anyhow::bail;
use speedwell_environment as environment;
use speedwell_model::{Session, State};
use speedwell_process::{self as process, resolve};
use speedwell_results::formats;
use speedwell_runner::load::load_with_tool;
use std::path::Path;

/// Loads with the tool that the request names.
///
/// # Errors
/// The tool is missing, cannot send this load, or does not report its figures.
pub fn load_with_tools(
    request: &LoadRequest,
    kept: &SessionRequest,
    tell: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<Session> {
    let mut sessions = Vec::new();
    for turn in order::turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let loaded = load_with_tool(spec, request.seed, &mut |notice| {
            tell(LoadEvent::Notice(notice));
        });
        match loaded? {
            Some(session) => sessions.push((session, None)),
            None => break,
        }
    }
    let state = if process::interrupted() {
        State::Interrupted
    } else {
        State::Complete
    };
    process::forget_interrupt();
    if sessions.is_empty() {
        bail!("interrupted before anything was measured");
    }
    let tool = request.specs[0].client.name();
    let program = resolve(Path::new(tool)).ok();
    let programs: Vec<_> = program
        .map(|path| {
            let version = environment::program_version(&path).text;
            (tool.to_owned(), path, version)
        })
        .into_iter()
        .collect();
    Ok(Session {
        state,
        tags: kept.tags.clone(),
        command: kept.command.clone(),
        environment: environment::capture(&programs),
        ..formats::merge(tool, sessions)?
    })
}
