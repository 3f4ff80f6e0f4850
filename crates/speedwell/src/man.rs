//! `speedwell man`: generates the manual pages from the help texts.

use super::{CommandLine, CommandStatus, status};
use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::path::{Path, PathBuf};

/// Print the manual page, or write one for every command to a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell man | man -l -
  speedwell man ~/.local/share/man/man1     # then: man speedwell, man speedwell-run")]
pub struct ManArgs {
    /// Write speedwell.1, speedwell-run.1 and so on to this folder
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints or writes the pages.
///
/// # Errors
/// Fails if the folder or standard output cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<CommandStatus> {
    let mut grammar = CommandLine::command().disable_help_subcommand(true);
    grammar.build();
    match &args.folder {
        None => {
            let mut page = Vec::new();
            Man::new(grammar).render(&mut page)?;
            status::write_stdout(&page)?;
        }
        Some(folder) => {
            let context = || format!("cannot write to '{}'", folder.display());
            fs::create_dir_all(folder).with_context(context)?;
            write_pages(&grammar, folder).with_context(context)?;
        }
    }
    Ok(CommandStatus::DONE)
}

/// Writes the pages of a command and all its subcommands.
fn write_pages(command: &Command, folder: &Path) -> std::io::Result<()> {
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" && !inner.is_hide_set() {
            write_pages(inner, folder)?;
        }
    }
    Man::new(command.clone()).generate_to(folder)?;
    Ok(())
}
