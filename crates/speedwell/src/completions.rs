//! `speedwell completions`: prints shell completion scripts.

use super::{CommandStatus, build_grammar, status};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// The script completes commands, options, their values and file names. Print it again after an update.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell completions bash > ~/.local/share/bash-completion/completions/speedwell
  speedwell completions zsh > ~/.zfunc/_speedwell     # with fpath+=~/.zfunc before compinit
  speedwell completions fish > ~/.config/fish/completions/speedwell.fish
  source <(speedwell completions bash)                # this shell only")]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Fails if standard output cannot be written to.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<CommandStatus> {
    let mut script = Vec::new();
    let mut completed = visible_command(&build_grammar());
    clap_complete::generate(args.shell, &mut completed, "speedwell", &mut script);
    status::write_stdout(&script)?;
    Ok(CommandStatus::DONE)
}

/// Copies the command without its hidden items, which bash completion scripts would offer.
fn visible_command(command: &Command) -> Command {
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let commands = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        // The help and version flags are already among the ordinary options.
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args(options.map(without_relations))
        .subcommands(commands.map(visible_command))
}

/// Copies the option without its relations to other options. These may be hidden options, which the
/// copied command lacks.
fn without_relations(arg: &Arg) -> Arg {
    let mut copy = Arg::new(arg.get_id().clone())
        .help(arg.get_help().cloned().unwrap_or_default())
        .action(arg.get_action().clone())
        .value_hint(arg.get_value_hint())
        .visible_aliases(
            arg.get_visible_aliases().unwrap_or_default().into_iter().map(str::to_owned),
        );
    if let Some(long) = arg.get_long() {
        copy = copy.long(long.to_owned());
    }
    if let Some(short) = arg.get_short() {
        copy = copy.short(short);
    }
    if let Some(count) = arg.get_num_args() {
        copy = copy.num_args(count);
    }
    if let Some(names) = arg.get_value_names() {
        copy = copy.value_names(names.to_vec());
    }
    let values = arg.get_possible_values();
    if arg.get_action().takes_values() && !values.is_empty() {
        copy = copy.value_parser(PossibleValuesParser::new(values));
    }
    // These settings let shells complete file names after '--' and after a tool's name.
    copy.trailing_var_arg(arg.is_trailing_var_arg_set()).last(arg.is_last_set())
}
