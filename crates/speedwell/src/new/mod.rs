//! `speedwell new`: files to begin with, good as they stand and explained in comments.
//!
//! It decides what is written and says what to do next; it measures nothing. Start at [`run`]; each
//! kind of file has a module that gives its text, and `written.rs` puts texts into files. With `--schema` it prints what
//! editors need to know about definition files.

mod overhead;
mod servers;
mod suite;
mod template;
mod topology;
mod written;

pub use overhead::OverheadArgs;
pub use servers::ServersArgs;
pub use suite::SuiteArgs;
pub use topology::TopologyArgs;
pub use written::{Written, write};

use super::{Status, status};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How long a first look measures; starting and trying everything takes some time besides, and a minute is what a
/// person waits for.
const LOOK: &str = "30s";

/// More runs than fit into it.
const MOST_RUNS: &str = "32";

/// Create starter files: an experiment, or benchmarks
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct NewArgs {
    /// Print the JSON Schema of definition files, from which editors know their keys
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
}

/// Where files are written.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// The definition file, instead of one in this folder that is named after the command
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long)]
    pub force: bool,
    /// Only write: do not measure for a minute to have a first look
    #[arg(long)]
    pub no_look: bool,
}

impl PlaceArgs {
    /// The definition file.
    fn file(&self, usual: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    /// The folder of the definition file.
    fn folder(&self, usual: &str) -> PathBuf {
        self.file(usual)
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned()
    }
}

/// Writes, and says what to do next.
///
/// # Errors
/// A file is there already, or cannot be written.
pub fn run(args: NewArgs) -> anyhow::Result<Status> {
    let Some(what) = args.what.filter(|_| !args.schema) else {
        print!("{}", speedwell_suite::experiment::schema());
        return Ok(Status::DONE);
    };
    let (written, force, looks) = match &what {
        What::Overhead(args) => (
            overhead::files(args)?,
            args.place.force,
            !args.place.no_look,
        ),
        What::Topology(args) => (topology::files(args), args.place.force, !args.place.no_look),
        What::Servers(args) => (servers::files(args)?, args.place.force, !args.place.no_look),
        What::Suite(args) => (suite::files(args)?, args.force, false),
    };
    write(&written, force)?;
    for (path, _) in &written.files {
        println!("{}", path.display());
    }
    let target = shell_words::quote(&written.target.to_string_lossy()).into_owned();
    if looks {
        let status = look(&written);
        status::note(&format!(
            "this was a first look; then: speedwell run {target}"
        ));
        return Ok(status);
    }
    status::note(&format!(
        "next: speedwell run {target} --test   # does everything work?"
    ));
    status::note(&format!("then: speedwell run {target}          # measure"));
    Ok(Status::DONE)
}

/// A first look: everything once, then as many blocks as fit into some seconds. What comes of it is a report like
/// any other, with few runs.
fn look(written: &Written) -> Status {
    let words = |more: &[&str]| {
        let mut words: Vec<OsString> = ["speedwell", "run"].map(OsString::from).to_vec();
        words.push(written.target.as_os_str().to_owned());
        words.extend(more.iter().map(OsString::from));
        words
    };
    status::note("trying everything once");
    let tried = super::main(words(&["--test"]));
    if tried != Status::DONE {
        return tried;
    }
    status::note("measuring for half a minute");
    let short = ["--budget", LOOK, "--runs", MOST_RUNS];
    super::main(words(&[&short, written.shortened].concat()))
}
