//! A load that another tool sends, whose figures are read from what it prints.
//!
//! Server and verification are the same as with our own generator. What the tool does not report stays missing. Start
//! at [`load_with_tool`].

use super::carry_out::{Ready, server_of};
use super::tool::{self, ToolCommand};
use super::{Notice, UNLIMITED, build};
use anyhow::{Context, bail};
use speedwell_load::load::Part;
use speedwell_model::load_spec::LoadSpec;
use speedwell_model::{Case, Session};
use speedwell_process::{self as process, Ended, Outcome, Scratch, Spec, resolve};
use speedwell_results::formats;
use std::path::Path;

/// Sends one load with the tool that the specification names; `None` if it was interrupted.
///
/// # Errors
/// The tool is missing, cannot do what the specification says, or does not report what it measured.
pub fn load_with_tool(
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Session>> {
    load_with_tool_beside(server_of(spec), spec, seed, tell)
}

/// Sends it beside a server that is started for it, if there is one.
///
/// # Errors
/// As for [`load_with_tool`].
pub fn load_with_tool_beside(
    server: Option<Spec>,
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Session>> {
    let scratch = Scratch::new()?;
    let body = scratch.path("body");
    let job = build::job(spec, seed, Part::WHOLE)?;
    let url = job.url.to_string();
    // Refused before a server is started in vain.
    let command = tool::command(&job, &body)?;
    resolve(Path::new(command.name))
        .with_context(|| format!("cannot load with {}", command.name))?;
    let ready = Ready::make(job, server, tell)?;
    for warning in &ready.warnings {
        tell(Notice::Warning(warning));
    }
    let command = tool::command(&ready.job, &body)?;
    let outcome = start(&command)?;
    if let Some(server) = ready.end()?
        && let Some(died) = &server.died
    {
        bail!(
            "the server {died} during the load; it wrote:\n{}",
            server.stderr_tail
        );
    }
    if outcome.ended == Ended::Interrupted {
        return Ok(None);
    }
    let text = outcome.stdout.text();
    let failed = || {
        let wrote = outcome.stderr.last_lines(5);
        format!("{} did not report what it measured: {wrote}", command.name)
    };
    let label = format!("{} {url}", command.name);
    let mut warnings = Vec::new();
    let sessions = formats::read_noting(&label, text.as_bytes(), &mut warnings);
    let sessions = sessions.with_context(failed)?;
    for warning in &warnings {
        tell(Notice::Warning(warning));
    }
    let mut session = sessions.into_iter().next().with_context(failed)?;
    for run in &mut session.runs {
        // Not every tool prints where it sent its requests.
        run.case = Case::new(url.clone(), run.case.values.clone()).into();
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
