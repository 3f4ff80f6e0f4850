//! `speedwell new`: creates starter files that work as they are and explain themselves in comments.
//!
//! The module measures nothing. Start at [`run`]. Each kind of file has a module that builds its
//! text, and `templates.rs` writes the files. `--schema` prints the JSON Schema of definition
//! files.

mod overhead;
mod servers;
mod suite;
mod templates;

pub use overhead::OverheadArgs;
pub use servers::{ServersArgs, TopologyArgs};
pub use suite::{AdapterArgs, SuiteArgs};
pub use templates::StarterFiles;

use super::status;
use clap::{Args, Subcommand};
use templates::write_files;

/// Create starter files: an experiment, benchmarks, or an adapter for a suite
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct NewArgs {
    /// Print the JSON Schema of definition files, for editors
    #[arg(long)]
    schema: bool,
    #[command(subcommand)]
    what: Option<StarterKind>,
}

#[derive(Debug, Subcommand)]
enum StarterKind {
    Overhead(OverheadArgs),
    Topology(TopologyArgs),
    Servers(ServersArgs),
    Suite(SuiteArgs),
    Adapter(AdapterArgs),
}

/// Writes the files. Returns them if a first measurement is to follow. Otherwise, suggests the next
/// step.
///
/// # Errors
/// Fails if a file exists or cannot be written.
pub fn run(args: NewArgs) -> anyhow::Result<Option<StarterFiles>> {
    let Some(what) = args.what.filter(|_| !args.schema) else {
        status::write_stdout(speedwell_config::experiment::definition_schema())?;
        return Ok(None);
    };
    let (starter_files, force, takes_first_look) = match &what {
        StarterKind::Overhead(args) => {
            (overhead::overhead_files(args)?, args.place.force, !args.place.no_look)
        }
        StarterKind::Topology(args) => {
            (servers::topology_files(args), args.place.force, !args.place.no_look)
        }
        StarterKind::Servers(args) => {
            (servers::server_files(args)?, args.place.force, !args.place.no_look)
        }
        StarterKind::Suite(args) => (suite::suite_files(args)?, args.force, false),
        StarterKind::Adapter(args) => (suite::adapter_files(args)?, args.force, args.wants_trial()),
    };
    write_files(&starter_files, force)?;
    for (path, _) in &starter_files.files {
        status::write_stdout(format!("{}\n", path.display()))?;
    }
    if takes_first_look {
        return Ok(Some(starter_files));
    }
    let target = starter_files.quoted_target();
    status::print_note(&format!("next: speedwell run {target} --test   # does everything work?"));
    status::print_note(&format!("then: speedwell run {target}          # measure"));
    Ok(None)
}
