//! `speedwell new`: files to begin with, good as they stand and explained in comments.
//!
//! It decides what is written and says what to do next; it measures nothing. Start at [`run`]; each
//! kind of file has a module that gives its text, and `written.rs` puts texts into files. With `--schema` it prints what
//! editors need to know about definition files.

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

/// Writes, and says what to do next. Returns what was written if a first look at it is wanted.
///
/// # Errors
/// A file is there already, or cannot be written.
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
