//! `speedwell new`: creates starter files that work as they are and are explained in comments.
//!
//! Decides what is written and suggests the next step; it measures nothing. Start at [`run`]. Each
//! kind of file has a module that builds its text, and `written.rs` writes the files. `--schema`
//! prints the JSON Schema of definition files.

mod overhead;
mod servers;
mod suite;
mod written;

pub use overhead::OverheadArgs;
pub use servers::{ServersArgs, TopologyArgs};
pub use suite::{AdapterArgs, SuiteArgs};
pub use written::Written;

use super::status;
use clap::{Args, Subcommand};
use written::write;

/// Create starter files: an experiment, benchmarks, or an adapter for a suite
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct NewArgs {
    /// Print the JSON Schema of definition files, for editors
    #[arg(long)]
    schema: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    Overhead(OverheadArgs),
    Topology(TopologyArgs),
    Servers(ServersArgs),
    Suite(SuiteArgs),
    Adapter(AdapterArgs),
}

/// Writes the files and suggests the next step. Returns what was written if the user wants a first
/// look at it.
///
/// # Errors
/// Fails if a file exists already or cannot be written.
pub fn run(args: NewArgs) -> anyhow::Result<Option<Written>> {
    let Some(what) = args.what.filter(|_| !args.schema) else {
        status::say(speedwell_suite::experiment::schema())?;
        return Ok(None);
    };
    let (written, force, looks) = match &what {
        What::Overhead(args) => (
            overhead::files(args)?,
            args.place.force,
            !args.place.no_look,
        ),
        What::Topology(args) => (
            servers::topology_files(args),
            args.place.force,
            !args.place.no_look,
        ),
        What::Servers(args) => (servers::files(args)?, args.place.force, !args.place.no_look),
        What::Suite(args) => (suite::folder(args)?, args.force, false),
        What::Adapter(args) => (suite::adapter(args)?, args.force, args.looks()),
    };
    write(&written, force)?;
    for (path, _) in &written.files {
        status::say(format!("{}\n", path.display()))?;
    }
    if looks {
        return Ok(Some(written));
    }
    let target = written.quoted_target();
    status::note(&format!(
        "next: speedwell run {target} --test   # does everything work?"
    ));
    status::note(&format!("then: speedwell run {target}          # measure"));
    Ok(None)
}
