//! From the words typed to the options of a command, and what is said of words that are none.
//!
//! Decides what clap's own messages lack. It must not know what any command does. Start at [`parse`].

use super::{Status, Words, grammar, short_help, status};
use crate::model::nearest;
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use std::ffi::OsString;

/// The words, and the long names of the options among them that were typed rather than usual. Help and mistakes are
/// printed; what is left of them is the status.
pub(super) fn parse(words: &[OsString]) -> Result<(Words, Vec<String>), Status> {
    if let Some(word) = words.iter().find(|word| word.to_str().is_none()) {
        // Names of cases, sessions and files are kept as text.
        status::tell(&anyhow::anyhow!(
            "the argument {word:?} is not UTF-8\nhint: rename the file"
        ));
        return Err(Status::COULD_NOT);
    }
    read(words).map_err(|mut error| {
        forget_hidden_options(&mut error);
        suggest_command(&mut error);
        let _ = match asks_for_short_help(words, error.kind()) {
            true => status::print(short_help::of(&grammar(), &plain(words)).as_bytes()).is_ok(),
            false => error.print().is_ok(),
        };
        match error.use_stderr() {
            true => Status::COULD_NOT,
            false => Status::DONE,
        }
    })
}

/// Whether `-h` was typed, on which clap would print all options.
fn asks_for_short_help(words: &[OsString], kind: ErrorKind) -> bool {
    let is_help = ["--help", "help"];
    let asks_for_all = words
        .iter()
        .any(|word| is_help.iter().any(|help| word == help));
    kind == ErrorKind::DisplayHelp && !asks_for_all
}

/// The words that are no options, without the program's name.
fn plain(words: &[OsString]) -> Vec<&str> {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.filter(|word| !word.starts_with('-')).collect()
}

fn read(words: &[OsString]) -> Result<(Words, Vec<String>), clap::Error> {
    let mut grammar = grammar();
    let matches = grammar.try_get_matches_from_mut(words)?;
    let parsed = Words::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))?;
    let Some((name, inner)) = matches.subcommand() else {
        return Ok((parsed, Vec::new()));
    };
    let options = grammar.find_subcommand(name).into_iter();
    let typed = options
        .flat_map(clap::Command::get_arguments)
        .filter(|option| {
            inner.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
        })
        .filter_map(|option| option.get_long().map(str::to_owned));
    Ok((parsed, typed.collect()))
}

/// Suggests a command of nearly that name, where clap finds none: it sees nothing alike in words as short as `rn`.
fn suggest_command(error: &mut clap::Error) {
    let has_one = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let grammar = grammar();
    let names = grammar.get_subcommands().map(clap::Command::get_name);
    let names: Vec<String> = names.map(str::to_owned).collect();
    if let Some(near) = nearest(typed, &names).filter(|_| !has_one) {
        let near = ContextValue::Strings(vec![near.clone()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
}

/// Takes options that are for Speedwell itself out of what is suggested.
fn forget_hidden_options(error: &mut clap::Error) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) else {
        return;
    };
    let name = suggested.trim_start_matches("--").to_owned();
    let grammar = grammar();
    let is_hidden = |command: &clap::Command| {
        let mut options = command.get_arguments();
        options.any(|option| option.is_hide_set() && option.get_long() == Some(&name))
    };
    if grammar.get_subcommands().any(is_hidden) {
        error.remove(ContextKind::SuggestedArg);
    }
}
