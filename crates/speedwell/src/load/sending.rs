//! Sends HTTP loads: in rounds over all addresses, or at several concurrency levels or request
//! rates.
//!
//! Start at [`run_loads`].

use super::rounds::{LoadEvent, LoadMode, LoadRequest, plan_turns, run_rounds};
use super::visits::run_visits;
use speedwell_engine::SessionRequest;
use speedwell_engine::execution::load::{TargetUrl, load_with_tool};
use speedwell_formats::load_session;
use speedwell_machine::environment;
use speedwell_machine::process::{self, resolve_program};
use speedwell_model::load::run::LoadRun;
use speedwell_model::{RunOrder, Session, SessionDesign, SessionState, StoppingDesign};
use speedwell_remote::load::LoadGenerators;
use std::path::Path;

/// The loads that were sent.
#[derive(Debug)]
pub struct LoadResults {
    /// The loads, in order.
    pub runs: Vec<LoadRun>,
    /// An error if a load could not be started. After such an error, no further loads are sent.
    pub ended: anyhow::Result<()>,
}

/// Sends the requested loads, until all are sent or the user interrupts.
pub fn run_loads(request: &LoadRequest, emit: &mut dyn FnMut(LoadEvent<'_>)) -> LoadResults {
    let mut runs = Vec::new();
    let generators = request.generators.as_ref();
    let ended = generators
        .map(|fleet| LoadGenerators::new(fleet, &request.specs))
        .transpose()
        .and_then(|mut generators| match &request.mode {
            LoadMode::AsSpecified => run_rounds(request, &mut generators, &mut runs, emit),
            _ => run_visits(request, &mut generators, &mut runs, emit),
        });
    LoadResults { runs, ended }
}

/// Builds a session from the loads.
///
/// # Errors
/// Fails if there are no loads.
pub fn build_session(
    request: &LoadRequest,
    runs: &[LoadRun],
    session_request: &SessionRequest,
) -> anyhow::Result<Session> {
    // Drop the warnings, because the report contains them.
    let mut session = load_session::load_session("load", runs, &mut Vec::new())?;
    // Rounds are shuffled, but the first address on the command line is the baseline.
    let position = |name: &str| request.specs.iter().position(|spec| is_load_of(&spec.url, name));
    session.variants.sort_by_key(|variant| position(&variant.name));
    let baseline = session.variants.first().map(|variant| variant.name.clone());
    let rounds = runs.iter().map(|run| run.round + 1).max();
    Ok(Session {
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(&[]),
        origin: session_request.find_origin(),
        design: SessionDesign {
            // Every round has each address once, in random order, so a round is a block.
            order: RunOrder::Blocks,
            stopping: StoppingDesign::Fixed { runs: rounds.unwrap_or(1) },
            seed: request.seed,
            conditions: request.conditions.iter().map(|c| c.text.clone()).collect(),
            steady: None,
            runs_per_block: 1,
            baseline: baseline.unwrap_or_default(),
            ..session.design
        },
        ..session
    })
}

/// Whether `name` is the name of the loads for the address `url`.
fn is_load_of(url: &str, name: &str) -> bool {
    TargetUrl::parse(url).is_ok_and(|url| url.to_string() == name)
}

/// Sends loads with the requested external tool.
///
/// # Errors
/// Fails if the tool is missing, cannot send this load, or does not report its results.
pub fn load_with_tools(
    request: &LoadRequest,
    session_request: &SessionRequest,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<Session> {
    let mut sessions = Vec::new();
    for turn in plan_turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let result = load_with_tool(spec, request.seed, &mut |notice| {
            emit(LoadEvent::Notice(notice));
        });
        match result? {
            Some(session) => sessions.push((session, None)),
            None => break,
        }
    }
    let state = if process::is_interrupt_requested() {
        SessionState::Interrupted
    } else {
        SessionState::Complete
    };
    process::clear_interrupt();
    if sessions.is_empty() {
        return Err(process::InterruptedEarly.into());
    }
    let tool = request.specs[0].client.name();
    let program = resolve_program(Path::new(tool)).ok();
    let programs: Vec<_> = program
        .map(|path| {
            let version = environment::program_version(&path).text;
            (tool.to_owned(), path, version)
        })
        .into_iter()
        .collect();
    Ok(Session {
        state,
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(&programs),
        origin: session_request.find_origin(),
        ..speedwell_formats::merge_sessions(tool, sessions)?
    })
}
