//! `speedwell man`: the manual pages, made of the same texts as `--help`.

use super::{Status, grammar, status};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Print the manual page, or write one for every command into a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell man | man -l -
  speedwell man ~/.local/share/man/man1     # then: man speedwell, man speedwell-run")]
pub struct ManArgs {
    /// Where to write the pages speedwell.1, speedwell-run.1 and so on [default: print the first]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints or writes the pages.
///
/// # Errors
/// The folder or standard output cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<Status> {
    match &args.folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(grammar()).render(&mut page)?;
            status::print(&page)?;
        }
        Some(folder) => {
            let cannot = || format!("cannot write into '{}'", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            clap_mangen::generate_to(grammar(), folder).with_context(cannot)?;
        }
    }
    Ok(Status::DONE)
}
