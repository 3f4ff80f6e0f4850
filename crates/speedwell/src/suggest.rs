//! Answers command lines that were meant for another tool, or that lack a command, with the command
//! line that works.
//!
//! Decides only what to suggest, from the words, the names of files and the programs in PATH; runs
//! nothing. [`explain_refusal`] explains a command line that did not parse, [`check_operands`] one
//! that parsed but cannot mean what it says. Options of other tools are in [`FOREIGN_OPTIONS`].

use crate::{CliCommand, help};
use anyhow::bail;
use clap::{Arg, Command};
use speedwell_adapters::discover::is_command;
use speedwell_compat::tool_names;
use speedwell_model::{SnippetLanguage, quote};
use std::path::Path;

/// Words that newcomers type instead of a command's name, and that command.
const SYNONYMS: &[(&str, &str)] = &[
    ("bench benchmark measure", "run"),
    ("list log sessions", "history"),
    ("diff cmp versus vs benchcmp", "compare"),
    ("show view results summary", "report"),
    ("stat stats", "time"),
    ("http wrk wrk2 hey oha k6 vegeta bombardier autocannon h2load", "load"),
    ("ui web dashboard", "serve"),
    ("setup configure config", "init"),
    ("upload", "push"),
    ("version", "--version"),
];

/// Options of other tools, one group a line: the tool, the commands that answer for it, and each
/// option with ours. `V` is the value. An option without ours can be left out.
const FOREIGN_OPTIONS: &str = "\
go test | run compare | -benchmem:, -benchtime V: -t V, -count V: -r V, -run V:, -timeout V: --timeout V
google/benchmark | run compare | --benchmark_filter V: -f V, --benchmark_repetitions V: -r V, --benchmark_min_time V: -t V
google/benchmark | run compare | --benchmark_out V: -o V, --benchmark_format V: --format V, --benchmark_list_tests: --list
criterion | run | --bench V: -f V, --benches:, --save-baseline V: --tag V, --sample-size V: -r V
criterion | run | --measurement-time V: -t Vs, --warm-up-time V: -w Vs
pytest-benchmark | run | --benchmark-json V: -o V, --benchmark-save V: --tag V, --benchmark-autosave:, --benchmark-only:
pytest-benchmark | run | --benchmark-min-rounds V: -r V, --benchmark-max-time V: -t Vs, --benchmark-disable: --test, -k V: -f V
timeit | eval | -s V: --init V, --setup V: --init V, -n V: --iterations V, --number V: --iterations V, --repeat V: -r V
hyperfine | eval | --cleanup V: --done V, --conclude V: --done V
hyperfine | time eval | --command-name V: --name V
hyperfine | time eval run compare | --min-runs V: -r V, --max-runs V: -r V, -m V: -r V, -M V: -r V
hyperfine | time eval run compare report | --export-json V: -o V, --export-markdown V: -o V, --export-csv V: -o V
hyperfine | time eval run compare report | --time-unit V: --unit V
k6 | load | --vus V: -c V, --iterations V: -n V, --summary-export V: -o V
wrk | load | -R V: --rate V, --latency:
hey | load | -z V: -t V, -m V: -X V, -D V: -d @V
ab | load | -p V: -d @V
other tools | time run compare eval | --count V: -r V, --repeat V: -r V, --repetitions V: -r V, --rounds V: -r V, --out V: -o V
other tools | run compare eval | --duration V: -t V, --grep V: -f V, --only V: -f V";

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

/// Returns the name in `--name=value`.
fn option_name(word: &str) -> &str {
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
    let file = operands.iter().find_map(|word| word.strip_prefix("--json="));
    if let Some(file) = file {
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
    if first.starts_with('-') {
        let line = match put_command_first(words, program) {
            Some(line) => line,
            None => {
                let command = words.iter().find_map(|word| guess_command(word))?;
                format!("{command} {}", quote_words(words))
            }
        };
        return Some(format!("expected a command before '{first}'\nhint: speedwell {line}"));
    }
    let synonym = SYNONYMS.iter().find(|(names, _)| names.split(' ').any(|name| name == *first));
    let line = if let Some((_, command)) = synonym {
        match rest {
            [] if *command == "time" => "time COMMAND".to_owned(),
            rest => format!("{command} {}", quote_words(rest)),
        }
    } else if let Some(target) = framework_target(words) {
        format!("run {target}")
    } else if tool_names().any(|tool| tool == *first) {
        format!("as {}", quote_words(words))
    } else if is_snippet(first, rest) {
        format!("eval {}", quote_words(words))
    } else {
        match guess_command(first)? {
            "time" => format!("time {}", quote_commands(words)),
            "report" if rest.iter().any(|word| guess_command(word) == Some("report")) => {
                format!("compare {}", quote_words(words))
            }
            command => format!("{command} {}", quote_words(words)),
        }
    };
    Some(format!("unknown command '{first}'\nhint: speedwell {}", line.trim_end()))
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
    Some(quote_words(&[&line[..end], options, &line[end..]].concat()))
}

fn quote_words(words: &[&str]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes commands that were typed as separate words: each command if there are several, else all
/// words as one command.
fn quote_commands(words: &[&str]) -> String {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let are_commands =
        words[..count].iter().all(|word| word.contains(char::is_whitespace) || is_command(word));
    if are_commands && (count > 1 || words.len() == 1) {
        quote_words(words)
    } else {
        quote(&quote_words(words))
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
    word.starts_with("http://")
        || word.starts_with("https://")
        || word.split_once(':').is_some_and(has_port)
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
            line.push(format!("-- {}", quote_words(remaining.as_slice())));
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
        let language =
            Path::new(word).extension().and_then(|extension| match extension.to_str()? {
                "js" | "mjs" | "cjs" | "ts" => Some("node"),
                "py" => Some("python"),
                _ => None,
            });
        language.map_or_else(
            || format!("run {quoted}"),
            |language| format!("eval {language} {}", quote(&format!("@{word}"))),
        )
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

/// Rejects a parsed command whose operands or outputs cannot be meant.
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
            check_snippets(args.0.language(), &args.0.snippets)
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
    let Some(missing) = words.iter().find(|word| !Path::new(word).exists()) else {
        return Ok(());
    };
    if let Some(target) = framework_target(&words) {
        bail!("'{missing}' is a tool, not a target\nhint: speedwell run {target}");
    }
    if missing.starts_with("http://") || missing.starts_with("https://") {
        bail!(
            "'{missing}' is an address, not a benchmark\nhint: speedwell load {}",
            quote_words(&words)
        );
    }
    if missing.starts_with('@') {
        bail!("'{missing}' is a stored session\nhint: speedwell report {}", quote_words(&words));
    }
    Ok(())
}

/// Rejects the name of a file in the place of code.
fn check_snippets(language: SnippetLanguage, snippets: &[String]) -> anyhow::Result<()> {
    let is_file = |code: &&String| {
        let path = Path::new(code.as_str());
        path.extension().is_some() && path.is_file()
    };
    let Some(file) = snippets.iter().find(is_file) else {
        return Ok(());
    };
    let code = quote(&format!("@{file}"));
    let program = match language {
        SnippetLanguage::Python => "python3",
        language => language.name(),
    };
    let command = quote(&format!("{program} {}", quote(file)));
    bail!(
        "'{file}' is a file, not code\nhint: to time the program: speedwell time {command}\n\
         hint: to measure the code in it: speedwell eval {language} {code}"
    )
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
        for (names, command) in SYNONYMS {
            let exists = command.starts_with('-') || grammar.find_subcommand(command).is_some();
            assert!(exists, "no command '{command}'");
            for name in names.split(' ') {
                assert!(grammar.find_subcommand(name).is_none(), "'{name}' is a command");
            }
        }
    }
}
