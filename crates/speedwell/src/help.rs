//! Prints help, parse errors, completion scripts and manual pages, which are generated from the
//! definitions of the commands.
//!
//! The module replaces three outputs of clap: the short help, suggestions for short names, and
//! suggestions of hidden items. `-h` shows usage, examples and the most useful options of a command,
//! on one screen of [`COLUMNS`] columns; `--help` prints all options under their headings.
//! [`OVERVIEW`] lists the commands. Start at [`print_refusal`].

use crate::options::{has_name, visible_options};
use crate::{CommandStatus, status, suggest};
use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use speedwell_model::nearest_name;
use std::fs;
use std::io::Write;
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

/// The list of commands, with examples: help, manual page and reference show it.
const OVERVIEW: &str = include_str!("overview.txt");

/// Prints the help or the error, and returns the exit status.
///
/// `words` follow the name of `program`; `command` is the innermost command among them.
pub fn print_refusal(
    mut error: clap::Error,
    (program, command): (&Command, &Command),
    words: &[&str],
) -> CommandStatus {
    // 'help COMMAND' is about another command, which clap renders.
    let is_root = command.get_name() == "speedwell" && !matches!(words[..], ["help", _, ..]);
    // Ignore write errors: the reader of the output is gone.
    let _ = match error.kind() {
        ErrorKind::DisplayHelp if is_root => status::write_stdout(OVERVIEW),
        // `--help` and the command `help` show the long help.
        ErrorKind::DisplayHelp
            if !words.contains(&"--help") && !words.iter().take(2).any(|word| *word == "help") =>
        {
            status::write_stdout(short_help(command))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if is_root => {
            std::io::stderr().write_all(OVERVIEW.as_bytes()).map_err(anyhow::Error::from)
        }
        kind => match suggest::explain_refusal(words, (program, command), unknown_option(&error)) {
            Some(message) if error.use_stderr() => {
                status::print_error(&anyhow::Error::msg(message));
                Ok(())
            }
            _ => {
                match kind {
                    ErrorKind::UnknownArgument => {
                        // Clap suggests to pass an option as a value, which is rarely meant.
                        error.remove(ContextKind::Suggested);
                        suggest_visible_option(&mut error, command);
                    }
                    ErrorKind::InvalidSubcommand => suggest_command(&mut error, command),
                    _ => {}
                }
                error.print().map_err(anyhow::Error::from)
            }
        },
    };
    if error.use_stderr() { CommandStatus::FAILED } else { CommandStatus::DONE }
}

/// Returns the option that clap rejected because the command does not have it.
fn unknown_option(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => Some(option.as_str()),
        _ => None,
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
    let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names: Vec<String> = visible.map(|inner| inner.get_name().to_owned()).collect();
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
        let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return };
        nearest_name(typed.trim_start_matches('-'), &visible_options(command)).cloned()
    } else {
        option.get_long().map(str::to_owned)
    };
    error.remove(ContextKind::SuggestedArg);
    if let Some(name) = visible {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{name}")));
    }
}

/// Width of a short help.
const COLUMNS: usize = 80;

/// Maximum number of lines of a short help. There are fewer examples if the options take more.
const LINES: usize = 40;

/// Maximum number of examples in a short help.
const EXAMPLES: usize = 6;

/// Column at which the descriptions of options begin.
const DESCRIPTION_COLUMN: usize = 26;

/// Options in each command's short help. A command that is not listed shows all of its options.
const SHORT_HELP_OPTIONS: &str = include_str!("short_help_options.txt");

/// Returns the short help of `command`. Requires that clap has already built the command.
fn short_help(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or("speedwell").to_owned();
    let options = short_help_options(command, name.strip_prefix("speedwell ").unwrap_or_default());
    let mut end = list_arguments(command, &options);
    end.push(String::new());
    if options.iter().any(|option| option.get_long() == Some("fail-on")) {
        end.push("Exit status: 0 done, 1 gate failed, 2 error, 130 interrupted.".to_owned());
    }
    end.push(format!("More: {name} --help"));
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut lines = describe("", &about, 0);
    lines.push(String::new());
    let usage = command.clone().render_usage().to_string();
    for (index, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
        lines.extend(describe(if index == 0 { "Usage:" } else { "" }, line, "Usage: ".len()));
    }
    let space = LINES.saturating_sub(lines.len() + end.len() + 1).min(EXAMPLES);
    let fits = |line: &String| line.chars().count() <= COLUMNS;
    let shown: Vec<String> = examples(command).into_iter().filter(fits).take(space).collect();
    if !shown.is_empty() {
        lines.push(String::new());
        lines.extend(shown);
    }
    lines.append(&mut end);
    lines.join("\n") + "\n"
}

/// Returns the options that the short help of a command shows.
fn short_help_options<'c>(command: &'c Command, name: &str) -> Vec<&'c Arg> {
    let mut lines = SHORT_HELP_OPTIONS.lines();
    let listed = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let is_shown = |option: &&Arg| {
        let is_built_in = matches!(option.get_long(), Some("help" | "version"));
        !option.is_hide_set() && !is_built_in && !option.is_positional()
    };
    let Some(names) = listed else { return command.get_arguments().filter(is_shown).collect() };
    let find = |name: &'static str| {
        command.get_arguments().find(|option: &&Arg| option.get_long() == Some(name))
    };
    names.split_whitespace().filter_map(find).collect()
}

/// Lists the subcommands, the positional arguments and these options.
fn list_arguments(command: &Command, options: &[&Arg]) -> Vec<String> {
    let positionals = command.get_positionals().filter(|argument| !argument.is_hide_set());
    let mut arguments: Vec<(String, String)> = positionals.map(argument_item).collect();
    // The usage of `compare` shows '--old' and '--new', and the options leave them out.
    if command.get_name() == "compare" {
        let text = "program, or rev:REV; without --new, the working tree";
        arguments.insert(1, ("  P".to_owned(), text.to_owned()));
    }
    let subcommands = visible_subcommands(command).map(|inner| {
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        (format!("  {}", inner.get_name()), about)
    });
    let sections: [(&str, Vec<(String, String)>); 3] = [
        ("Commands:", subcommands.collect()),
        ("Arguments:", arguments),
        ("Options:", options.iter().map(|option| argument_item(option)).collect()),
    ];
    let mut lines = Vec::new();
    for (heading, items) in sections {
        if !items.is_empty() {
            lines.extend([String::new(), heading.to_owned()]);
        }
        for (label, text) in items {
            lines.extend(describe(&label, &text, DESCRIPTION_COLUMN));
        }
    }
    lines
}

/// Returns the lines with examples that follow a command's help.
fn examples(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect()
}

/// Returns an argument as it is typed, and its description with the default.
fn argument_item(argument: &Arg) -> (String, String) {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_values = argument.get_action().takes_values();
    let is_optional = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
    let value = match (takes_values, is_optional) {
        (false, _) => String::new(),
        (true, true) => format!("[={values}]"),
        (true, false) => format!(" {values}"),
    };
    let short = argument.get_short().map_or("    ".to_owned(), |letter| format!("-{letter}, "));
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let label = match argument.get_long() {
        Some(long) => format!("  {short}--{long}{value}"),
        None => {
            let choices = argument.get_possible_values();
            let names: Vec<&str> = choices.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                text += &format!(": {}", names.join(", "));
            }
            format!("  {values}")
        }
    };
    let texts = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = texts.collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        text += &format!(" [default: {}]", defaults.join(","));
    }
    (label, text)
}

/// Formats a label and a text on its right, wrapped from column `indent` to [`COLUMNS`]. The text
/// begins below a label that reaches the column.
fn describe(label: &str, text: &str, indent: usize) -> Vec<String> {
    let (mut lines, mut line, mut separator) = (Vec::new(), format!("{label:<indent$}"), "");
    if !label.is_empty() && label.chars().count() >= indent {
        lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
    }
    for word in text.split_whitespace() {
        let width = line.chars().count() + separator.len() + word.chars().count();
        if width > COLUMNS && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            separator = "";
        }
        line = line + separator + word;
        separator = " ";
    }
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Print a completion script for a shell
///
/// The script completes commands, options, their values and file names. Print it again after an update.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell completions bash > ~/.local/share/bash-completion/completions/speedwell
  speedwell completions zsh > ~/.zfunc/_speedwell     # with fpath+=~/.zfunc before compinit
  speedwell completions fish > ~/.config/fish/completions/speedwell.fish")]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completion script of `grammar`, in which every command is built.
///
/// # Errors
/// Fails if standard output cannot be written to.
pub fn print_completions(args: &CompletionsArgs, grammar: &Command) -> Result<CommandStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible_command(grammar), "speedwell", &mut script);
    status::write_stdout(&script)?;
    Ok(CommandStatus::DONE)
}

/// Copies the command without its hidden items, which bash completion scripts would offer.
fn visible_command(command: &Command) -> Command {
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        // The help and version flags are already among the ordinary options.
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args(options.map(without_relations))
        .subcommands(visible_subcommands(command).map(visible_command))
}

/// Returns the subcommands, without 'help' and hidden ones.
fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
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
pub fn write_manual(args: &ManArgs, mut grammar: Command) -> Result<CommandStatus> {
    grammar = grammar.disable_help_subcommand(true);
    grammar.build();
    match &args.folder {
        None => {
            let mut page = Vec::new();
            write_page(&grammar, &mut page)?;
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
    for inner in visible_subcommands(command) {
        write_pages(inner, folder)?;
    }
    let file = folder.join(Man::new(command.clone()).get_filename());
    write_page(command, &mut fs::File::create(file)?)
}

/// Writes the page of a command. Clap would fill the lines of the examples like a paragraph.
fn write_page(command: &Command, page: &mut dyn Write) -> std::io::Result<()> {
    let (heading, text) = if command.get_name() == "speedwell" {
        ("OVERVIEW", OVERVIEW.to_owned())
    } else {
        ("EXAMPLES", examples(command).join("\n"))
    };
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(page)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(page)?;
    }
    if !text.is_empty() {
        writeln!(page, ".SH {heading}\n.nf")?;
        for line in text.lines() {
            // A quote at the start of a line would be a request, such as '.SH'.
            writeln!(page, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
        }
        writeln!(page, ".fi")?;
    }
    man.render_version_section(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_short_help_exists() {
        let rows = SHORT_HELP_OPTIONS.lines().filter_map(|line| line.split_once(": "));
        for (name, options) in rows {
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

    #[test]
    fn the_overview_names_every_command_and_fits_on_a_screen() {
        assert!(OVERVIEW.lines().count() <= 45);
        assert!(OVERVIEW.lines().all(|line| line.chars().count() <= COLUMNS));
        let grammar = crate::build_grammar();
        let (_, set_up) = OVERVIEW.split_once("Set up:").unwrap();
        for name in grammar.get_subcommands().map(Command::get_name).filter(|name| *name != "help")
        {
            let is_listed = OVERVIEW.lines().any(|line| line.starts_with(&format!("  {name} ")));
            let is_set_up = set_up.split([' ', ',', '\n']).any(|word| word == name);
            assert!(is_listed || is_set_up, "the overview does not name '{name}'");
        }
        let page = include_str!("../../../docs/reference/command-line.md");
        let (_, commands) = OVERVIEW.split_once("Measure\n").unwrap();
        let (commands, _) = commands.split_once("\nSet up").unwrap();
        assert!(page.contains(commands), "the page lacks the overview's commands");
    }

    #[test]
    fn every_example_of_a_help_parses() {
        use clap::Parser;
        let grammar = crate::build_grammar();
        let mut commands: Vec<&Command> = vec![&grammar];
        let mut lines: Vec<String> = OVERVIEW.lines().map(str::to_owned).collect();
        while let Some(command) = commands.pop() {
            lines.extend(examples(command));
            commands.extend(command.get_subcommands());
        }
        lines.retain(|line| line.starts_with("  ") && line.contains("speedwell "));
        assert!(lines.len() > 50, "{lines:?}");
        for line in lines {
            let (_, typed) = line.split_once("speedwell ").unwrap();
            let (typed, _) = typed.split_once("   ").unwrap_or((typed, ""));
            let mut words = shell_words::split(typed).unwrap();
            let end = words.iter().position(|word| ["|", ">", "#"].contains(&word.as_str()));
            words.truncate(end.unwrap_or(words.len()));
            words.insert(0, "speedwell".to_owned());
            if let Err(error) = crate::CommandLine::try_parse_from(&words) {
                panic!("{line}: {error}");
            }
        }
    }
}
