//! Answers command lines in the style of other tools, or without a command, with the command line
//! that works.
//!
//! Decides only what to suggest, from the words, the names of files and the programs in PATH; runs
//! nothing. [`explain_refusal`] explains a command line that did not parse, [`check_operands`] one
//! that parsed but makes no sense. Options of other tools are in [`FOREIGN_OPTIONS`].

use crate::operand_kind::{is_url, quote_all};
use crate::options::SnippetArgs;
use crate::{CliCommand, help, time};
use anyhow::{anyhow, bail};
use clap::{Arg, Command};
use speedwell_adapters::discover::is_command;
use speedwell_adapters::snippet::is_module;
use speedwell_compat::tool_names;
use speedwell_model::{SnippetLanguage, quote};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Words that newcomers type instead of a command's name, one command a line.
const SYNONYMS: &str = include_str!("foreign_commands.txt");

/// Options of other tools, one group a line: the tool, the commands that answer for it, and each
/// option with ours. `V` is the value. An option without ours can be left out.
const FOREIGN_OPTIONS: &str = include_str!("foreign_options.txt");

/// Options of other tools that have another name here: the command, and each option with ours.
const RENAMED_OPTIONS: &str = include_str!("renamed_options.txt");

/// Explains an unknown option of `time` or `load` that belongs to another tool, or follows a command
/// without quotes. `arguments` begin with the names of the program and the command.
pub fn explain_option(option: &str, arguments: &[OsString]) -> Option<anyhow::Error> {
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let (command, operands) = words.split_first()?;
    let rows = RENAMED_OPTIONS.lines();
    let renamed = rows
        .filter_map(|line| line.strip_prefix(*command)?.strip_prefix(": "))
        .flat_map(|row| row.split(", "))
        .find_map(|pair| pair.strip_prefix(option)?.strip_prefix('='));
    let hint = (*command == "time").then(|| time::quote_command(operands, option)).flatten();
    match renamed {
        Some(name) => Some(anyhow!("'{option}' is {name} here{}", hint.unwrap_or_default())),
        None => hint.map(|hint| anyhow!("unknown option '{option}'{hint}")),
    }
}

/// An option of another tool.
struct ForeignOption {
    tool: &'static str,
    option: &'static str,
    takes_value: bool,
    /// What to write instead; `V` is the value.
    ours: &'static str,
}

/// Returns the options of other tools that users may give to this command.
fn foreign_options(command: &str) -> Vec<ForeignOption> {
    let mut found = Vec::new();
    for group in FOREIGN_OPTIONS.lines() {
        let fields: Vec<&'static str> = group.split(" | ").collect();
        let [tool, commands, options] = fields[..] else { continue };
        if !commands.split(' ').any(|name| name == command) {
            continue;
        }
        for (typed, ours) in options.split(", ").filter_map(|option| option.split_once(':')) {
            let option = typed.trim_end_matches(" V");
            let takes_value = option != typed;
            found.push(ForeignOption { tool, option, takes_value, ours: ours.trim() });
        }
    }
    found
}

/// Returns the name in `name=value` or `--name=value`.
pub fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Explains why a command line does not parse, and suggests one that works. `words` follow the
/// program's name; `command` is the innermost command among them. Returns `None` if nothing better
/// than the parser's message is known.
pub fn explain_refusal(words: &[&str], command: &Command) -> Option<String> {
    let (name, operands) = words.split_first()?;
    if command.get_name() == "speedwell" {
        return explain_first_word(words, command);
    }
    if let Some(file) = operands.iter().find_map(|word| word.strip_prefix("--json=")) {
        return Some(takes_no_value(file));
    }
    explain_foreign_option(words, command).or_else(|| match *name {
        "eval" => explain_language(operands.first()?),
        "new" => explain_starter(operands.first()?),
        _ => None,
    })
}

fn takes_no_value(file: &str) -> String {
    format!("'--json' takes no value\nhint: to write a file: -o {}", quote(file))
}

/// Suggests a command line if the first word is not a command of `program`.
fn explain_first_word(words: &[&str], program: &Command) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let line = quote_all(words);
    if first.starts_with('-') {
        let suggested = match put_command_first(words, program) {
            Some(line) => line,
            None => {
                let command = words.iter().find_map(|word| guess_command(word))?;
                format!("{command} {line}")
            }
        };
        return Some(format!("expected a command before '{first}'\nhint: speedwell {suggested}"));
    }
    let mut synonyms = SYNONYMS.lines().filter_map(|line| line.split_once(": "));
    let synonym = synonyms.find(|(_, names)| names.split(' ').any(|name| name == *first));
    let (command, operands) = if let Some((command, _)) = synonym {
        let is_bare = command == "time" && rest.is_empty();
        (command, if is_bare { "COMMAND".to_owned() } else { quote_all(rest) })
    } else if let Some(target) = framework_target(words) {
        ("run", target)
    } else if tool_names().any(|tool| tool == *first) {
        ("as", line)
    } else if is_snippet(first, rest) {
        ("eval", line)
    } else {
        match guess_command(first)? {
            "time" => ("time", quote_commands(words)),
            "report" if rest.iter().any(|word| guess_command(word) == Some("report")) => {
                ("compare", line)
            }
            command => (command, line),
        }
    };
    let suggested = format!("{command} {operands}");
    Some(format!("unknown command '{first}'\nhint: speedwell {}", suggested.trim_end()))
}

/// Moves the options before a command behind it.
fn put_command_first(words: &[&str], program: &Command) -> Option<String> {
    let at = words.iter().position(|word| {
        *word == "--" || !word.starts_with('-') && program.find_subcommand(word).is_some()
    })?;
    let (options, line) = words.split_at(at);
    if line[0] == "--" {
        return None;
    }
    let end = line.iter().position(|word| *word == "--").unwrap_or(line.len());
    Some(quote_all(&[&line[..end], options, &line[end..]].concat()))
}

/// Quotes commands that were typed as separate words: each command if there are several, else all
/// words as one command.
fn quote_commands(words: &[&str]) -> String {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let are_commands =
        words[..count].iter().all(|word| word.contains(char::is_whitespace) || is_command(word));
    if are_commands && (count > 1 || words.len() == 1) {
        quote_all(words)
    } else {
        quote(&quote_all(words))
    }
}

/// Whether the words are the name of a language, and code in it.
fn is_snippet(first: &str, rest: &[&str]) -> bool {
    let is_code =
        |word: &&str| word.contains(['(', '[', '{', '+', '*', ';']) && !word.contains('/');
    SnippetLanguage::from_name(first).is_some() && rest.first().is_some_and(is_code)
}

/// Returns the target to run if the words start a benchmark framework.
fn framework_target(words: &[&str]) -> Option<String> {
    let target = match words {
        ["go", "test", ..] => "./...",
        ["cargo", "bench", ..] | ["pytest" | "py.test" | "vitest", ..] => ".",
        ["python" | "python3", "-m", "pytest", ..] | ["npx", "vitest", ..] => ".",
        _ => return None,
    };
    let file = words.iter().skip(1).find(|word| Path::new(word).is_file());
    Some(quote(file.unwrap_or(&target)))
}

/// Returns the command for which this word is an operand.
fn guess_command(word: &str) -> Option<&'static str> {
    let path = Path::new(word);
    let results = ["json", "jsonl", "csv", "folded"];
    let is_result = path.is_file()
        && path.extension().is_some_and(|extension| results.iter().any(|own| extension == *own));
    if is_address(word) {
        Some("load")
    } else if word.starts_with('@') || is_result {
        Some("report")
    } else if path.is_dir() {
        Some("run")
    } else if is_command(word) || (!path.is_file() && word.contains(char::is_whitespace)) {
        Some("time")
    } else {
        path.is_file().then_some("run")
    }
}

/// Whether the word is a URL, or a host with a port.
fn is_address(word: &str) -> bool {
    let has_port = |(host, port): (&str, &str)| {
        let is_host = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        !host.is_empty()
            && host.chars().all(is_host)
            && port.starts_with(|c: char| c.is_ascii_digit())
    };
    is_url(word) || word.split_once(':').is_some_and(has_port)
}

/// Rewrites the command line with our options if it has an unknown option of another tool.
fn explain_foreign_option(words: &[&str], command: &Command) -> Option<String> {
    let (name, typed) = words.split_first()?;
    let is_ours =
        |option: &str| command.get_arguments().any(|argument| has_option(argument, option));
    let foreign = foreign_options(name);
    let unknown = typed.iter().take_while(|word| **word != "--").find_map(|word| {
        let option = option_name(word);
        foreign.iter().find(|foreign| foreign.option == option && !is_ours(option))
    })?;
    let mut line = vec![format!("speedwell {name}")];
    let mut has_operand = false;
    let mut remaining = typed.iter();
    while let Some(word) = remaining.next() {
        if *word == "--" {
            line.push(format!("-- {}", quote_all(remaining.as_slice())));
            break;
        }
        let is_typed =
            |row: &&ForeignOption| row.tool == unknown.tool && row.option == option_name(word);
        let Some(translation) = foreign.iter().find(is_typed) else {
            has_operand |= !word.starts_with('-');
            line.push(quote(word));
            continue;
        };
        let mut value = word.split_once('=').map(|(_, value)| value);
        if translation.takes_value && value.is_none() {
            value = remaining.next().copied();
        }
        // '.' selects every benchmark, as no filter does.
        if !translation.ours.is_empty() && value != Some(".") {
            line.push(translation.ours.replace('V', &quote(value.unwrap_or_default())));
        }
    }
    if *name == "run" && !has_operand {
        line.push(".".to_owned());
    }
    let ForeignOption { tool, option, .. } = unknown;
    Some(format!("unknown option '{option}': it is from {tool}\nhint: {}", line.join(" ")))
}

/// Whether the argument has this option, such as `-f` or `--filter`.
fn has_option(argument: &Arg, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => help::has_name(argument, long),
        None => argument.get_short().is_some_and(|letter| option == format!("-{letter}")),
    }
}

/// Explains code or a file in the place of the language.
fn explain_language(word: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '-';
    if word.starts_with('-') || word.chars().all(is_name) {
        return None;
    }
    let quoted = quote(word);
    let line = if Path::new(word).is_file() {
        match Path::new(word).extension().and_then(OsStr::to_str) {
            Some("js" | "mjs" | "cjs" | "ts") => {
                format!("eval {}", measure_file(SnippetLanguage::Node, word))
            }
            Some("py") => format!("eval {}", measure_file(SnippetLanguage::Python, word)),
            _ => format!("run {quoted}"),
        }
    } else if word.contains(' ') && is_command(word) {
        format!("time {quoted}")
    } else {
        format!("eval python {quoted}")
    };
    Some(format!("expected a language before '{word}'\nhint: speedwell {line}"))
}

/// Explains a file in the place of a kind of starter file.
fn explain_starter(word: &str) -> Option<String> {
    Path::new(word).extension()?;
    Some(format!(
        "unknown kind of starter file '{word}'\nhint: speedwell new suite bench   # a benchmark for each language found"
    ))
}

/// Rejects a parsed command whose operands or outputs make no sense.
///
/// # Errors
/// Fails if there is such an operand; the message suggests a command line.
pub fn check_operands(command: &CliCommand, words: &[&str]) -> anyhow::Result<()> {
    if !matches!(command, CliCommand::As(_) | CliCommand::New(_)) {
        check_outputs(words)?;
    }
    match command {
        CliCommand::Run(args) => check_targets(&args.0.targets),
        CliCommand::Eval(args) if args.0.language() != SnippetLanguage::Sh => {
            check_snippets(args.0.language(), &args.0.snippets, &args.0.snippet)
        }
        _ => Ok(()),
    }
}

/// Rejects a file after `--json`, and `-` after `-o`.
fn check_outputs(words: &[&str]) -> anyhow::Result<()> {
    let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    for (index, word) in words[..end].iter().enumerate() {
        match (*word, words[..end].get(index + 1)) {
            ("--json", Some(file)) if file.ends_with(".json") && !Path::new(file).exists() => {
                bail!(takes_no_value(file))
            }
            ("-o" | "--output", Some(&"-")) | ("-o-" | "--output=-", _) => {
                bail!("'-o' needs the name of a file\nhint: to print JSON: --format json")
            }
            _ => {}
        }
    }
    Ok(())
}

/// Rejects targets that belong to another command.
fn check_targets(targets: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = targets.iter().map(String::as_str).collect();
    let Some(missing) = words.iter().find(|word| !Path::new(word).exists()) else { return Ok(()) };
    let (kind, command, operands) = if let Some(target) = framework_target(&words) {
        ("a tool, not a target", "run", target)
    } else if is_url(missing) {
        ("an address, not a benchmark", "load", quote_all(&words))
    } else if missing.starts_with('@') {
        ("a stored session", "report", quote_all(&words))
    } else {
        return Ok(());
    };
    bail!("'{missing}' is {kind}\nhint: speedwell {command} {operands}")
}

/// Rejects the name of a file in the place of code.
fn check_snippets(
    language: SnippetLanguage,
    snippets: &[String],
    hooks: &SnippetArgs,
) -> anyhow::Result<()> {
    let is_file = |code: &&String| {
        let path = Path::new(code.as_str());
        path.extension().is_some() && path.is_file()
    };
    let (init, worker, done) = (&hooks.init, &hooks.init_worker, &hooks.done);
    for (option, texts) in [("--init", init), ("--init-worker", worker), ("--done", done)] {
        if let Some(file) = texts.iter().find(is_file) {
            let named = quote(&format!("@{file}"));
            bail!("in {option}: '{file}' is a file, not code\nhint: {option} {named}");
        }
    }
    let Some(file) = snippets.iter().find(is_file) else { return Ok(()) };
    let program = match language {
        SnippetLanguage::Python => "python3",
        language => language.name(),
    };
    let command = quote(&format!("{program} {}", quote(file)));
    bail!(
        "'{file}' is a file, not code\nhint: to time the program: speedwell time {command}\n\
         hint: to measure the code in it: speedwell eval {}",
        measure_file(language, file)
    )
}

/// Returns the operands of `eval` that measure a function of the file, or the code in it.
fn measure_file(language: SnippetLanguage, file: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let named = quote(&format!("@{file}"));
    let has_functions = language != SnippetLanguage::Python || text.contains("def ");
    if has_functions && is_module(language, Path::new(file), &text) {
        format!("{language} --init {named} 'FUNCTION()'")
    } else {
        format!("{language} {named}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suggested_option_and_command_exists() {
        let grammar = crate::build_grammar();
        for command in grammar.get_subcommands() {
            for row in foreign_options(command.get_name()) {
                let ours = row.ours.split(' ').next().unwrap_or_default();
                let exists = command.get_arguments().any(|argument| has_option(argument, ours));
                assert!(ours.is_empty() || exists, "{} has no {ours}", command.get_name());
            }
        }
        for (command, names) in SYNONYMS.lines().filter_map(|line| line.split_once(": ")) {
            let exists = command.starts_with('-') || grammar.find_subcommand(command).is_some();
            assert!(exists, "no command '{command}'");
            for name in names.split(' ') {
                assert!(grammar.find_subcommand(name).is_none(), "'{name}' is a command");
            }
        }
    }
}
