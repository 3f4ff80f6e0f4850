//! `speedwell history`: the sessions in the store.

use super::Status;
use super::options::{OutputArgs, StoreArgs};
use crate::report;
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
    let sessions = args.store.open()?.list()?;
    args.output
        .print(&report::sessions(&sessions, &args.output.settings()))?;
    Ok(Status::DONE)
}
