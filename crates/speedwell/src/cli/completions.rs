//! `speedwell completions`: what a shell needs to complete commands, options and their values.

use super::{Status, grammar, status};
use clap::Args;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// The script completes commands, options, their values and file names. It belongs to the program that printed it, so
/// print it again after an update.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell completions bash > ~/.local/share/bash-completion/completions/speedwell
  speedwell completions zsh > ~/.zfunc/_speedwell     # with fpath+=~/.zfunc before compinit
  speedwell completions fish > ~/.config/fish/completions/speedwell.fish
  source <(speedwell completions bash)                # this shell only")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The grammar without the options that are for Speedwell itself, which scripts for bash would offer.
fn visible(command: &clap::Command) -> clap::Command {
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let about = command.get_about().cloned().unwrap_or_default();
    clap::Command::new(command.get_name().to_owned())
        .about(about)
        .args(arguments.cloned())
        .subcommands(command.get_subcommands().map(visible))
}

/// Prints the script.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    let mut grammar = visible(&grammar());
    clap_complete::generate(args.shell, &mut grammar, "speedwell", &mut script);
    status::print(&script)?;
    Ok(Status::DONE)
}
