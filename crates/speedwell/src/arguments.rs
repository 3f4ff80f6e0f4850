//! Parses the command line and reports parse errors.
//!
//! The module replaces three outputs of clap: the short help, suggestions for short names, and
//! suggestions of hidden items. Start at [`parse_command_line`].

use super::{CommandLine, CommandStatus, output_files, short_help, status};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use speedwell_model::nearest_name;
use std::ffi::OsString;
use std::io::IsTerminal;

/// Parses the command line and checks that its output files do not conflict. If it prints help or
/// an error message instead, it returns the exit status as an error.
pub(super) fn parse_command_line(arguments: &[OsString]) -> Result<CommandLine, CommandStatus> {
    if let Some(argument) = arguments.iter().find(|argument| argument.to_str().is_none()) {
        // Names of cases, sessions and files are stored as UTF-8.
        status::print_error(&anyhow::anyhow!(
            "argument {argument:?} is not valid UTF-8\nhint: rename the file"
        ));
        return Err(CommandStatus::FAILED);
    }
    let name = arguments.get(1).and_then(|name| name.to_str());
    let mut grammar = CommandLine::command();
    if name == Some("as") && arguments.get(2).is_some_and(|tool| !is_option(tool)) {
        // Everything after the tool's name belongs to the tool, including '-h' and '--version'.
        grammar = grammar
            .mut_subcommand("as", |tool| tool.disable_help_flag(true).disable_version_flag(true));
    }
    let lists_commands = name.is_none_or(|name| {
        grammar.find_subcommand(name).is_none() && name != "--version" && name != "-V"
    });
    if lists_commands {
        // The list of commands shows all descriptions, so build all commands.
        grammar.build();
    }
    let parsed = grammar
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Ok((CommandLine::from_arg_matches(&matches)?, matches)));
    let (line, matches) = parsed.map_err(|error| {
        let formatted = error.format(&mut grammar);
        let command = if lists_commands { &grammar } else { typed_command(&grammar) };
        print_refusal(formatted, command, arguments)
    })?;
    output_files::check_outputs(&grammar, &matches).map_err(|error| {
        status::print_error(&error);
        CommandStatus::FAILED
    })?;
    Ok(line)
}

fn is_option(argument: &OsString) -> bool {
    argument.to_string_lossy().starts_with('-')
}

/// Returns the innermost command that was typed. Clap has built only typed commands, and only built
/// commands have a full name.
fn typed_command(grammar: &Command) -> &Command {
    let mut command = grammar;
    while let Some(inner) = command.get_subcommands().find(|inner| inner.get_bin_name().is_some()) {
        command = inner;
    }
    command
}

/// Prints the help or the error, and returns the exit status.
fn print_refusal(
    mut error: clap::Error,
    command: &Command,
    arguments: &[OsString],
) -> CommandStatus {
    // Ignore write errors: the reader of the output is gone.
    let _ = match error.kind() {
        ErrorKind::DisplayHelp if !asks_for_long_help(arguments) => {
            status::write_stdout(for_stdout(&short_help::short_help(command)))
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
