//! Prints what is generated from the definitions of the commands: help, parse errors, completion
//! scripts and manual pages.
//!
//! The module replaces three outputs of clap: the short help, suggestions for short names, and
//! suggestions of hidden items. `-h` shows the most useful options of a command, on one screen;
//! `--help` prints all options under their headings. Start at [`print_refusal`].

use crate::{CommandStatus, status};
use anyhow::Context;
use clap::builder::{PossibleValuesParser, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use speedwell_model::nearest_name;
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Returns the innermost command that was typed. Clap has built only typed commands, and only built
/// commands have a full name.
pub fn typed_command(grammar: &Command) -> &Command {
    let mut command = grammar;
    while let Some(inner) = command.get_subcommands().find(|inner| inner.get_bin_name().is_some()) {
        command = inner;
    }
    command
}

/// Prints the help or the error, and returns the exit status.
pub fn print_refusal(
    mut error: clap::Error,
    command: &Command,
    arguments: &[OsString],
) -> CommandStatus {
    // Ignore write errors: the reader of the output is gone.
    let _ = match error.kind() {
        ErrorKind::DisplayHelp if !asks_for_long_help(arguments) => {
            status::write_stdout(for_stdout(&short_help(command)))
        }
        kind => {
            match kind {
                ErrorKind::UnknownArgument => suggest_visible_option(&mut error, command),
                ErrorKind::InvalidSubcommand => suggest_command(&mut error, command),
                _ => {}
            }
            error.print().map_err(anyhow::Error::from)
        }
    };
    if error.use_stderr() { CommandStatus::FAILED } else { CommandStatus::DONE }
}

/// Returns the option that clap rejected because the command does not have it.
pub fn unknown_option(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => Some(option.as_str()),
        _ => None,
    }
}

/// Whether the user typed `--help` or the command `help`, rather than `-h`.
fn asks_for_long_help(arguments: &[OsString]) -> bool {
    let is_help_command = arguments.iter().skip(1).take(2).any(|argument| argument == "help");
    is_help_command || arguments.iter().any(|argument| argument == "--help")
}

/// Renders text for standard output. Colors need a terminal, and `NO_COLOR` turns them off.
fn for_stdout(text: &StyledStr) -> String {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !no_color {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}

/// Suggests a similarly named command if clap suggests none. Clap misses typos in short names, such
/// as `rn` for `run`.
fn suggest_command(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
        .map(|inner| inner.get_name().to_owned())
        .collect();
    if let Some(name) = nearest_name(typed, &names).cloned() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name]));
    }
}

/// Replaces a suggested hidden option with a similar visible option. If there is none, drops the
/// suggestion. Replaces a suggested alias with the option's main name.
fn suggest_visible_option(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) else {
        return;
    };
    let name = suggested.trim_start_matches('-').to_owned();
    let Some(option) = command.get_arguments().find(|option| has_name(option, &name)) else {
        return;
    };
    let visible = if option.is_hide_set() {
        let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
            return;
        };
        nearest_name(typed.trim_start_matches('-'), &visible_options(command)).cloned()
    } else {
        option.get_long().map(str::to_owned)
    };
    match visible {
        Some(name) => {
            let suggestion = ContextValue::String(format!("--{name}"));
            error.insert(ContextKind::SuggestedArg, suggestion);
        }
        None => {
            error.remove(ContextKind::SuggestedArg);
        }
    }
}

fn has_name(option: &Arg, name: &str) -> bool {
    let aliases = option.get_all_aliases().unwrap_or_default();
    option.get_long() == Some(name) || aliases.contains(&name)
}

fn visible_options(command: &Command) -> Vec<String> {
    command
        .get_arguments()
        .filter(|option| !option.is_hide_set())
        .filter_map(|option| option.get_long().map(str::to_owned))
        .collect()
}

/// Maximum number of lines of the examples, including their heading.
const EXAMPLE_LINES: usize = 3;

/// Options in a command's short help. A command that is not listed shows all of its options.
const SHORT_HELP_OPTIONS: &[(&str, &str)] = &[
    (
        "run",
        "filter set runs time variant old new list test resume threshold fail-on x-axis output format json quiet tag no-save",
    ),
    (
        "eval",
        "init init-worker name concurrency watch runs time old new resume threshold fail-on output format quiet no-save",
    ),
    (
        "time",
        "runs warmup ignore-failure no-shell shell prepare setup cleanup name parameter-list resume threshold fail-on output \
         format json quiet no-save",
    ),
    (
        "iterations",
        "parameter start most cv time runs filter set variant old new output format quiet",
    ),
    (
        "warmup",
        "code init init-worker runs iterations time steady filter set variant old new fail-on output format quiet no-save",
    ),
    (
        "load",
        "concurrency count time rate ramp warmup request header data http2 no-keepalive timeout insecure serve client runs \
         fail-on output quiet no-save",
    ),
    (
        "compare",
        "filter set metric runs variant old new build baseline list resume threshold fail-on output format json quiet no-save",
    ),
    (
        "confirm",
        "filter set old new build order list resume threshold fail-on output format quiet no-save",
    ),
    ("bisect", "change program build threshold budget resume filter set output format quiet db"),
    (
        "report",
        "export merge filter set metric baseline threshold x-axis by output format json chart sort quiet verbose db",
    ),
    ("backfill", "points program build budget filter set runs output format quiet db branch"),
    ("comment", "text on check status commit token-file dry-run metric threshold fail-on db"),
    ("doctor", "calibrate builds comparisons tuned set runs pin output format json verbose db"),
    (
        "history trend",
        "set metric branch threshold relative x-axis export output format json quiet db",
    ),
    (
        "history changes",
        "set metric branch threshold since open fail-on confirm build output format json quiet db",
    ),
];

/// Returns the short help of `command`. Requires that clap has already built the command.
fn short_help(command: &Command) -> StyledStr {
    let name = command.get_bin_name().unwrap_or("speedwell").to_owned();
    let subcommand = name.strip_prefix("speedwell ").unwrap_or_default();
    let listed_options: Option<Vec<&str>> = SHORT_HELP_OPTIONS
        .iter()
        .find(|(command, _)| *command == subcommand)
        .map(|(_, options)| options.split_whitespace().collect());
    let examples = command.get_after_help().map(ToString::to_string);
    let examples: Vec<&str> =
        examples.iter().flat_map(|text| text.lines()).take(EXAMPLE_LINES).collect();
    let long_help_hint = listed_options.is_some().then(|| format!("All options: '{name} --help'"));
    let footer: Vec<String> = [examples.join("\n")]
        .into_iter()
        .filter(|examples| !examples.is_empty())
        .chain(long_help_hint)
        .collect();
    let command = command.clone().mut_args(|option| {
        let long = option.get_long().unwrap_or_default();
        let is_always_hidden = option.is_hide_set();
        let is_hidden = listed_options.as_ref().is_some_and(|listed_options| {
            !["", "help"].contains(&long) && !listed_options.contains(&long)
        });
        option
            .help_heading(None::<&'static str>)
            .hide_possible_values(listed_options.is_some())
            .hide(is_hidden || is_always_hidden)
    });
    command.after_help(footer.join("\n\n")).render_help()
}

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

/// Prints the completion script of `grammar`, in which every command is built.
///
/// # Errors
/// Fails if standard output cannot be written to.
pub fn print_completions(
    args: &CompletionsArgs,
    grammar: &Command,
) -> anyhow::Result<CommandStatus> {
    let mut script = Vec::new();
    let mut completed = visible_command(grammar);
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

/// Prints or writes the manual pages of `grammar`.
///
/// # Errors
/// Fails if the folder or standard output cannot be written.
pub fn write_manual(args: &ManArgs, grammar: Command) -> anyhow::Result<CommandStatus> {
    let mut grammar = grammar.disable_help_subcommand(true);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_short_help_exists() {
        for (name, options) in SHORT_HELP_OPTIONS {
            let mut command = crate::build_grammar();
            for word in name.split(' ') {
                command = command.find_subcommand(word).unwrap().clone();
            }
            for long in options.split_whitespace() {
                let option = command
                    .get_arguments()
                    .find(|option| option.get_long() == Some(long))
                    .unwrap_or_else(|| panic!("{name} has no --{long}"));
                assert!(!option.is_hide_set(), "{name} --{long} is hidden");
            }
        }
    }
}
