//! `speedwell import`: foreign or exported results into the store.

use super::options::{OutputArgs, StoreArgs};
use super::{Status, results_file, status};
use clap::Args;
use std::path::PathBuf;

/// Read results of other tools, or exported ones, into the store
///
/// The kind of a file is found by its content: own JSON lines, CSV of Node core's run.js,
/// compare.js or scatter.js, JSON of google/benchmark, hyperfine, pyperf, autocannon or oha, and text
/// of go test -bench, ab, wrk, h2load, hey or oha.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files to read; '-' is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Imports.
///
/// # Errors
/// A file that cannot be read or understood; nothing of any file is stored then.
pub fn run(args: ImportArgs) -> anyhow::Result<Status> {
    let mut sessions = Vec::new();
    for file in &args.files {
        sessions.extend(results_file::read(file)?);
    }
    let mut store = args.store.open()?;
    for mut session in sessions {
        session.tags.extend(args.store.tag.iter().cloned());
        let number = store.insert(&session)?;
        if !args.output.quiet {
            status::note(&format!(
                "@{number}: {} runs of {} variants",
                session.runs.len(),
                session.variants.len()
            ));
        }
    }
    Ok(Status::DONE)
}
