//! `speedwell history`: the sessions in the store.

use super::Status;
use super::options::{OutputArgs, StoreArgs};
use crate::report::{self, SessionLine};
use crate::store::Overview;
use clap::Args;

/// List the sessions in the store, newest last
#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Lists.
///
/// # Errors
/// The store cannot be read.
pub fn run(args: HistoryArgs) -> anyhow::Result<Status> {
    let sessions: Vec<SessionLine> = args.store.open()?.list()?.iter().map(line).collect();
    args.output
        .print(&report::sessions(&sessions, &args.output.settings()))?;
    Ok(Status::DONE)
}

fn line(session: &Overview) -> SessionLine {
    SessionLine {
        number: session.number,
        id: session.id.clone(),
        started_unix_ms: session.started_unix_ms,
        elapsed_ms: session.elapsed_ms,
        state: session.state,
        tags: session.tags.clone(),
        variants: session.variants.clone(),
        cases: session.cases as u64,
        runs: session.runs as u64,
        failures: session.failures as u64,
        command: session.command.clone(),
    }
}
