//! Answers command lines in the style of other tools, or without a command, with the command line
//! that works.
//!
//! Decides what to suggest from the words, the names of files and the programs in PATH; measures
//! nothing. [`explain_refusal`] explains a command line that did not parse; [`check_targets`] and
//! the other checks reject one that parsed but makes no sense. Options of other tools are in
//! [`FOREIGN_OPTIONS`]; a [`Translator`] rewrites all of a command line at once, and the result is
//! suggested only if it parses.

use crate::init;
use crate::operand::{is_setting, option_name, quote_all};
use crate::operand_kind::is_url;
use crate::options::{EvalArgs, LoadArgs, RateChoice, SnippetArgs, has_name, language_alias};
use anyhow::{Context, bail};
use clap::{Arg, Args, Command};
use speedwell_adapters::discover::is_command;
use speedwell_adapters::snippet::{is_module, suggest_call};
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_compat::tool_names;
use speedwell_machine::process::resolve_program;
use speedwell_model::{SnippetLanguage, parse_duration, quote};
use std::ffi::OsStr;
use std::path::Path;

/// Words that newcomers type instead of a command's name, one command a line.
const SYNONYMS: &str = include_str!("foreign_commands.txt");

/// Options of other tools, one group a line: the tool, the commands that answer for it, and each
/// option with ours. `V` is the value; after `V.md`, a value without this extension gets it. An
/// option without ours can be left out.
const FOREIGN_OPTIONS: &str = include_str!("foreign_options.txt");

/// The tool of the options of `go test` in [`FOREIGN_OPTIONS`].
const GO_TEST: &str = "go test";

/// The tool of the options of `cargo bench`.
const CARGO_BENCH: &str = "criterion";

/// The tool whose `-n` is a number of iterations, and which `python -m timeit` starts.
const TIMEIT: &str = "timeit";

/// The tool of the letters that mean something else in wrk if `-d` is a duration there.
const WRK_LETTERS: &str = "wrk -d";

/// Options of `eval sh` that `time` does not have.
const LONG_FORM_OPTIONS: [&str; 7] =
    ["--old", "--new", "--variant", "--baseline", "--build", "--watch", "--concurrency"];

/// An option of another tool.
#[derive(Debug, Clone, Copy)]
struct ForeignOption {
    tool: &'static str,
    option: &'static str,
    takes_value: bool,
    /// What to write instead; `V` is the value.
    ours: &'static str,
}

impl ForeignOption {
    /// Returns our option with the value.
    fn fill(&self, value: &str) -> Vec<String> {
        let value = match (self.ours, value) {
            ("--unit V", "nsec") => "ns",
            ("--unit V", "microsecond" | "usec") => "us",
            ("--unit V", "millisecond" | "msec") => "ms",
            ("--unit V", "second" | "sec") => "s",
            (_, value) => value,
        };
        let fill = |part: &str| match part.strip_prefix('V') {
            Some(extension) if extension.starts_with('.') && value.ends_with(extension) => {
                value.to_owned()
            }
            _ => part.replace('V', value),
        };
        self.ours.split(' ').filter(|part| !part.is_empty()).map(fill).collect()
    }

    /// Says what the option is.
    fn explain(&self) -> String {
        let ForeignOption { option, tool, .. } = self;
        match self.ours.split(' ').next() {
            Some(ours) if !ours.is_empty() => format!("'{option}' is {ours} here"),
            _ => format!("unknown option '{option}': it is from {tool}"),
        }
    }
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

/// Rewrites a command line of another tool with our options.
struct Translator<'c> {
    command: &'c Command,
    options: Vec<ForeignOption>,
    /// The tool whose options have its meaning, also if we have an option with the same name.
    tool: Option<&'static str>,
    /// Whether the words follow `cargo bench`, so that words without dashes are filters.
    follows_cargo: bool,
}

/// A rewritten command line.
#[derive(Debug, Default)]
struct Translation {
    words: Vec<String>,
    /// The first option that was replaced and that our command does not have.
    replaced: Option<ForeignOption>,
    /// Whether there is a target: a word besides options, their values and values of parameters.
    has_operand: bool,
}

impl Translation {
    /// Adds our option with its value. A second `--init` joins the first, as in timeit, because here
    /// it would belong to another snippet.
    fn add_option(&mut self, option: Vec<String>) {
        let first = self.words.iter_mut().skip_while(|word| *word != "--init").nth(1);
        match (&option[..], first) {
            ([name, code], Some(first)) if name == "--init" => *first += &format!("; {code}"),
            _ => self.words.extend(option),
        }
    }
}

impl<'c> Translator<'c> {
    /// Creates a translator of the arguments of `tool_name`. Without a name, the first option that
    /// `command` does not have determines the tool.
    fn new(command: &'c Command, tool_name: Option<&str>, typed: &[&str]) -> Translator<'c> {
        let tool = tool_name.map(|name| if name == "wrk2" { "wrk" } else { name });
        let follows_cargo = tool == Some(CARGO_BENCH);
        let mut options = foreign_options(command.get_name());
        if tool != Some("wrk") && duration_body(typed).is_none() {
            options.retain(|option| option.tool != WRK_LETTERS);
        }
        let known = options.iter().map(|option| option.tool).find(|known| Some(*known) == tool);
        let mut translator = Translator { command, options, tool: known, follows_cargo };
        let mut words = typed.iter().take_while(|word| **word != "--");
        let first = words.find_map(|word| {
            let (name, _) = translator.split(word);
            translator.find(name).filter(|option| option.tool != WRK_LETTERS)
        });
        translator.tool = known.or(first.map(|option| option.tool));
        translator
    }

    /// Returns our option with this name, such as `-f` or `--filter`.
    fn own_option(&self, name: &str) -> Option<&'c Arg> {
        self.command.get_arguments().find(|argument| has_option(argument, name))
    }

    /// Returns the option of another tool with this name. An option of ours has the meaning that it
    /// has here, unless the whole command line is of that tool.
    fn find(&self, name: &str) -> Option<ForeignOption> {
        let named = || self.options.iter().filter(move |option| option.option == name).copied();
        let has_its_meaning =
            |option: &ForeignOption| Some(option.tool) == self.tool || option.tool == WRK_LETTERS;
        named()
            .find(has_its_meaning)
            .or_else(|| named().next().filter(|_| self.own_option(name).is_none()))
    }

    /// Splits a word into the name of an option and the value attached to it: `-R500`, `-count=3`.
    fn split<'w>(&self, word: &'w str) -> (&'w str, Option<&'w str>) {
        if let Some((name, value)) = word.split_once('=') {
            return (name, Some(value));
        }
        let is_known = self.own_option(word).is_some()
            || self.options.iter().any(|option| option.option == word);
        match word.char_indices().nth(2) {
            Some((end, _)) if !word.starts_with("--") && !is_known => {
                (&word[..end], Some(&word[end..]))
            }
            _ => (word, None),
        }
    }

    /// Returns how many words follow our option as its values.
    fn value_count(&self, name: &str) -> usize {
        let option = self.own_option(name).filter(|option| option.get_action().takes_values());
        option.map_or(0, |option| option.get_num_args().map_or(1, |count| count.min_values()))
    }

    /// Rewrites the words after the name of the command.
    fn translate(&self, typed: &[&str]) -> Translation {
        let mut translation = Translation::default();
        let mut remaining = typed.iter().copied();
        while let Some(word) = remaining.next() {
            if word == "--" {
                // Cargo passes what follows to the benchmark, whose options these are.
                if self.follows_cargo {
                    continue;
                }
                translation.words.push(word.to_owned());
                translation.words.extend(remaining.map(str::to_owned));
                break;
            }
            if !word.starts_with('-') || word == "-" {
                self.add_operand(word, &mut translation);
                continue;
            }
            let (name, attached) = self.split(word);
            let foreign = self.find(name);
            let count = foreign
                .map_or_else(|| self.value_count(name), |option| usize::from(option.takes_value));
            let values: Vec<&str> = match attached {
                Some(value) => vec![value],
                None => remaining.by_ref().take(count).collect(),
            };
            let ours = foreign.map_or(name, |option| option.ours.split(' ').next().unwrap_or(name));
            match foreign {
                // '.' selects every benchmark, as no filter does.
                _ if ["-f", "--filter"].contains(&ours) && values == ["."] => {}
                Some(option) => {
                    let value = values.first().copied().unwrap_or_default();
                    translation.add_option(option.fill(value));
                }
                None => {
                    let separate = values.iter().filter(|_| attached.is_none());
                    let words = std::iter::once(&word).chain(separate);
                    translation.words.extend(words.map(|word| (*word).to_owned()));
                }
            }
            let is_unknown = |option: &ForeignOption| self.own_option(option.option).is_none();
            translation.replaced = translation.replaced.or(foreign.filter(is_unknown));
        }
        translation
    }

    /// Adds a positional argument. The rates, conditions and scripts of load generators become
    /// options or are left out, and the filters of `cargo bench` become options.
    fn add_operand(&self, word: &str, translation: &mut Translation) {
        let words = &mut translation.words;
        let is_load = self.command.get_name() == "load";
        if is_load && word.parse::<RateChoice>().is_ok() {
            // In other tools, '-q' is the rate.
            if words.last().is_some_and(|last| last == "-q") {
                words.pop();
            }
            words.extend(["--rate", word].map(str::to_owned));
        } else if is_load && let Some(Ok(condition)) = load_condition(word) {
            words.extend(["--fail-on".to_owned(), condition]);
        } else if is_load && (is_load_script(word) || ["run", "attack"].contains(&word)) {
            // The address follows, or is missing.
        } else if self.follows_cargo && !Path::new(word).exists() && !word.contains("...") {
            words.extend(["-f", word].map(str::to_owned));
        } else {
            words.push(word.to_owned());
            translation.has_operand |= is_load || !is_setting(word);
        }
    }
}

/// Returns the value of `-d`, a body, if it looks like a duration: in other load generators, `-d`
/// sets the duration.
fn duration_body<'w>(typed: &[&'w str]) -> Option<&'w str> {
    let is_method = |word: &&str| {
        word.starts_with("-X") || ["--request", "--method"].contains(&option_name(word))
    };
    let index = typed.iter().position(|word| word.starts_with("-d"))?;
    let value = match &typed[index]["-d".len()..] {
        "" => *typed.get(index + 1)?,
        attached => attached,
    };
    (parse_duration(value).is_some() && !typed.iter().any(is_method)).then_some(value)
}

/// Returns the condition in the place of an address, with the operator that is probably intended, or
/// why it cannot be parsed.
fn load_condition(word: &str) -> Option<anyhow::Result<String>> {
    (word.contains(['<', '>']) && !word.contains("://")).then(|| {
        let condition = word.parse::<LoadCondition>()?;
        Ok(condition.mend_operator().map_or(condition.text, |(_, mended)| mended))
    })
}

/// Whether the word is the script of another load generator.
fn is_load_script(word: &str) -> bool {
    let is_script = [".js", ".ts", ".lua"].iter().any(|extension| word.ends_with(extension));
    is_script && !word.contains("://")
}

/// Returns the translated command line after `prefix`, the name of the command, if `program`
/// accepts it. `run` without targets gets those found here.
fn complete_line(program: &Command, prefix: &[&str], translation: &Translation) -> Option<String> {
    let mut words: Vec<String> = prefix.iter().map(|word| (*word).to_owned()).collect();
    match (prefix.first(), translation.has_operand) {
        (Some(&"run"), false) => words.extend(init::suggest_targets()),
        (Some(&"load"), false) => words.push("URL".to_owned()),
        _ => {}
    }
    words.extend(translation.words.iter().cloned());
    let line = ["speedwell"].into_iter().chain(words.iter().map(String::as_str));
    program.clone().try_get_matches_from(line).is_ok().then(|| quote_all(&words))
}

/// Translates the arguments of `tool` to a command line that begins with `prefix`. Returns them
/// unchanged if no translation is accepted.
fn translate_line(
    program: &Command,
    prefix: &[&str],
    tool: Option<&str>,
    typed: &[&str],
) -> String {
    let command = prefix.first().and_then(|name| program.find_subcommand(name));
    let translated = command.and_then(|command| {
        complete_line(program, prefix, &Translator::new(command, tool, typed).translate(typed))
    });
    translated.unwrap_or_else(|| quote_all(&[prefix, typed].concat()))
}

/// Returns the command line `words` of `eval` with the options of timeit in their meaning there, if
/// the program accepts it.
pub fn translate_timeit(words: &[&str]) -> Option<String> {
    let (name, typed) = words.split_first()?;
    let eval = EvalArgs::augment_args(Command::new("eval"));
    let mut program = Command::new("speedwell").args_override_self(true).subcommand(eval);
    program.build();
    let translator = Translator::new(program.find_subcommand(name)?, Some(TIMEIT), typed);
    complete_line(&program, &[*name], &translator.translate(typed))
}

/// Explains why a command line does not parse, and suggests one that works. `words` follow the
/// name of `program`; `command` is the innermost command among them, and `unknown` the option that
/// it does not have. Returns `None` if nothing better than the parser's message is known.
pub fn explain_refusal(
    words: &[&str],
    (program, command): (&Command, &Command),
    unknown: Option<&str>,
) -> Option<String> {
    let (name, operands) = words.split_first()?;
    if command.get_name() == "speedwell" {
        return explain_first_word(words, program);
    }
    if operands.iter().any(|word| word.starts_with("--json=")) {
        return Some(takes_no_value(words));
    }
    explain_foreign_option(words, program, command).or_else(|| match *name {
        "time" => explain_time_option(operands, unknown?),
        "eval" => explain_language(operands),
        "new" => explain_starter(operands.first()?),
        _ => None,
    })
}

/// Explains a file after `--json`, which prints to stdout.
fn takes_no_value(words: &[&str]) -> String {
    let replaced = words.iter().flat_map(|word| match word.strip_prefix("--json") {
        Some("") => vec!["-o"],
        Some(value) if value.starts_with('=') => vec!["-o", &value[1..]],
        _ => vec![*word],
    });
    let line = quote_all(&replaced.collect::<Vec<_>>());
    format!("'--json' takes no value\nhint: to write a file: speedwell {line}")
}

/// Suggests a command line if the first word is not a command of `program`.
fn explain_first_word(words: &[&str], program: &Command) -> Option<String> {
    let first = words.first()?;
    if !first.starts_with('-') {
        let line = suggest_line(words, program)?;
        return Some(format!("unknown command '{first}'\nhint: speedwell {}", line.trim_end()));
    }
    let suggested = match put_command_first(words, program) {
        Some(line) => line,
        None => {
            let command = words.iter().find_map(|word| guess_command(word))?;
            translate_line(program, &[command], None, words)
        }
    };
    Some(format!("expected a command before '{first}'\nhint: speedwell {suggested}"))
}

/// Returns the command line that was probably intended. The first word is not a command of `program`.
fn suggest_line(words: &[&str], program: &Command) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let mut synonyms = SYNONYMS.lines().filter_map(|line| line.split_once(": "));
    let synonym = synonyms.find(|(_, names)| names.split(' ').any(|name| name == *first));
    if let Some((command, _)) = synonym {
        let tool = match *first {
            "bench" => CARGO_BENCH,
            "test" => GO_TEST,
            other => other,
        };
        let prefix: Vec<&str> = command.split(' ').collect();
        return Some(match (command, rest) {
            ("time", []) => "time COMMAND".to_owned(),
            _ => translate_line(program, &prefix, Some(tool), rest),
        });
    }
    if let ["python" | "python3", "-m", "timeit", rest @ ..] = words {
        return Some(translate_line(program, &["eval", "python"], Some(TIMEIT), rest));
    }
    if let Some((tool, rest)) = strip_framework(words) {
        return Some(translate_line(program, &["run"], Some(tool), rest));
    }
    let line = quote_all(words);
    Some(if tool_names().any(|tool| tool == *first) {
        format!("as {line}")
    } else if is_snippet(first, rest) {
        format!("eval {line}")
    } else {
        match guess_command(first)? {
            "time" => format!("time {}", quote_commands(words)),
            "report" if rest.iter().any(|word| guess_command(word) == Some("report")) => {
                format!("compare {line}")
            }
            command => translate_line(program, &[command], None, words),
        }
    })
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
    let is_each = are_commands && (count > 1 || words.len() == 1);
    if is_each { quote_all(words) } else { quote(&quote_all(words)) }
}

/// Whether the words are the name of a language, and code in it.
fn is_snippet(first: &str, rest: &[&str]) -> bool {
    let is_code =
        |word: &&str| word.contains(['(', '[', '{', '+', '*', ';']) && !word.contains('/');
    SnippetLanguage::from_name(first).is_some() && rest.first().is_some_and(is_code)
}

/// Splits off the words that start a benchmark framework. Returns its tool in [`FOREIGN_OPTIONS`],
/// and the words that follow.
fn strip_framework<'a, 'w>(words: &'a [&'w str]) -> Option<(&'static str, &'a [&'w str])> {
    match words {
        ["go", "test", rest @ ..] => Some((GO_TEST, rest)),
        ["cargo", "bench", rest @ ..] => Some((CARGO_BENCH, rest)),
        ["pytest" | "py.test", rest @ ..] | ["python" | "python3", "-m", "pytest", rest @ ..] => {
            Some(("pytest-benchmark", rest))
        }
        ["npx", "vitest", "bench", rest @ ..]
        | ["vitest", "bench", rest @ ..]
        | ["npx", "vitest", rest @ ..]
        | ["vitest", rest @ ..] => Some(("vitest", rest)),
        _ => None,
    }
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
fn explain_foreign_option(words: &[&str], program: &Command, command: &Command) -> Option<String> {
    let (name, typed) = words.split_first()?;
    let (tool, typed) = match strip_framework(typed) {
        Some((tool, rest)) if *name == "run" => (Some(tool), rest),
        _ => (None, typed),
    };
    let translation = Translator::new(command, tool, typed).translate(typed);
    let foreign = translation.replaced?;
    let line = complete_line(program, &[*name], &translation)?;
    let other_hint = match (*name, foreign.option) {
        // The letter may be an option of the measured command.
        ("time", option) if option.len() == 2 => quote_command(typed, option),
        ("load", "-s") => {
            Some("\nhint: --requests FILE sends several kinds of requests".to_owned())
        }
        _ => None,
    };
    Some(format!("{}\nhint: speedwell {line}{}", foreign.explain(), other_hint.unwrap_or_default()))
}

/// Returns a hint that quotes the command before `option`, if it is a word without quotes.
fn quote_command(words: &[&str], option: &str) -> Option<String> {
    let option_at = words.iter().position(|word| word.starts_with(option))?;
    let is_part = |word: &&str| !word.starts_with('-') && !word.contains(char::is_whitespace);
    let parts = words[..option_at].iter().rev().take_while(|word| is_part(word)).count();
    let is_program = |index: &usize| resolve_program(Path::new(words[*index])).is_ok();
    let start = (option_at - parts..option_at).find(is_program)?;
    let before: String = words[..start].iter().map(|word| format!("{} ", quote(word))).collect();
    let line = quote_all(&words[start..]);
    Some(format!(
        "\nhint: speedwell time {before}{}, or: speedwell time {before}-- {line}",
        quote(&line)
    ))
}

/// Explains an option that only the long form of `time` has, or that belongs to a command without
/// quotes.
fn explain_time_option(typed: &[&str], unknown: &str) -> Option<String> {
    if !LONG_FORM_OPTIONS.contains(&unknown) {
        let hint = quote_command(typed, unknown)?;
        return Some(format!("unknown option '{unknown}'{hint}"));
    }
    let count = typed.iter().take_while(|word| !word.starts_with('-')).count();
    let commands = if count == 0 { String::new() } else { quote_commands(&typed[..count]) + " " };
    Some(format!(
        "unknown option '{unknown}': only 'eval sh', the long form of 'time', has it\n\
         hint: speedwell eval sh {commands}{}",
        quote_all(&typed[count..])
    ))
}

/// Whether the argument has this option, such as `-f` or `--filter`.
fn has_option(argument: &Arg, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => has_name(argument, long),
        None => argument.get_short().is_some_and(|letter| option == format!("-{letter}")),
    }
}

/// Explains another name, code or a file in the place of the language.
fn explain_language(typed: &[&str]) -> Option<String> {
    let (word, rest) = typed.split_first()?;
    if let Some(language) = language_alias(word).filter(|_| !rest.is_empty()) {
        let line = quote_all(rest);
        return Some(format!("unknown language '{word}'\nhint: speedwell eval {language} {line}"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '-';
    if word.starts_with('-') || word.chars().all(is_name) {
        return None;
    }
    let line = if Path::new(word).is_file() {
        match Path::new(word).extension().and_then(OsStr::to_str) {
            Some("js" | "mjs" | "cjs" | "ts") => {
                format!("eval {}", measure_file(SnippetLanguage::Node, word))
            }
            Some("py") => format!("eval {}", measure_file(SnippetLanguage::Python, word)),
            _ => format!("run {}", quote(word)),
        }
    } else if word.contains(' ') && is_command(word) {
        format!("time {}", quote_all(typed))
    } else {
        format!("eval python {}", quote_all(typed))
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

/// Rejects a file after `--json`, and `-` after `-o`.
///
/// # Errors
/// Fails if there is one; the message suggests a command line.
pub fn check_outputs(words: &[&str]) -> anyhow::Result<()> {
    let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    for (index, word) in words[..end].iter().enumerate() {
        let length = match (*word, words[..end].get(index + 1)) {
            ("--json", Some(file)) if file.ends_with(".json") && !Path::new(file).exists() => {
                bail!(takes_no_value(words))
            }
            ("-o" | "--output", Some(&"-")) => 2,
            ("-o-" | "--output=-", _) => 1,
            _ => continue,
        };
        let line = [&words[..index], &["--json"], &words[index + length..]].concat();
        bail!("'-o' needs the name of a file\nhint: to print JSON: speedwell {}", quote_all(&line));
    }
    Ok(())
}

/// Rejects targets that belong to another command.
///
/// # Errors
/// Fails if there is one; the message suggests a command line of `program`.
pub fn check_targets(targets: &[String], words: &[&str], program: &Command) -> anyhow::Result<()> {
    let named: Vec<&str> = targets.iter().map(String::as_str).collect();
    let Some(missing) = named.iter().find(|word| !Path::new(word).exists()) else { return Ok(()) };
    let typed = words.get(1..).unwrap_or_default();
    let framework = strip_framework(typed).or_else(|| strip_framework(&named));
    let (kind, line) = if let Some((tool, rest)) = framework {
        ("a tool, not a target", translate_line(program, &["run"], Some(tool), rest))
    } else if is_url(missing) {
        ("an address, not a benchmark", format!("load {}", quote_all(&named)))
    } else if missing.starts_with('@') {
        ("a stored session", format!("report {}", quote_all(&named)))
    } else {
        return Ok(());
    };
    bail!("'{missing}' is {kind}\nhint: speedwell {line}")
}

/// Rejects what other load generators accept in the place of a URL, and a body that looks like a
/// duration, unless the method is given.
///
/// # Errors
/// Fails if there is one; the message suggests a command line of `program`.
pub fn check_load(args: &LoadArgs, words: &[&str], program: &Command) -> anyhow::Result<()> {
    let typed = words.get(1..).unwrap_or_default();
    let suggest = || translate_line(program, &["load"], None, typed);
    if let Some(body) = duration_body(typed)
        && args.spec.data.as_deref() == Some(body)
    {
        bail!(
            "'-d {body}' would send '{body}' as the body of each request, as in curl\nhint: speedwell {}\n\
             hint: to send it as a body: speedwell load {} -X POST",
            suggest(),
            quote_all(typed)
        );
    }
    for url in &args.urls {
        if let Some(Err(error)) = load_condition(url) {
            return Err(error).context("in a condition without --fail-on");
        }
        let is_script = is_load_script(url);
        if is_script || load_condition(url).is_some() || url.parse::<RateChoice>().is_ok() {
            let scripts = "\nhint: --requests FILE sends several kinds of requests";
            bail!(
                "'{url}' is not an address\nhint: speedwell {}{}",
                suggest(),
                if is_script { scripts } else { "" }
            );
        }
    }
    Ok(())
}

/// Rejects the name of a file in the place of code, except of shell commands.
///
/// # Errors
/// Fails if there is one; the message suggests a command line.
pub fn check_snippets(args: &EvalArgs, words: &[&str]) -> anyhow::Result<()> {
    let language = args.language();
    let is_file = |code: &&String| {
        let path = Path::new(code.as_str());
        language != SnippetLanguage::Sh && path.extension().is_some() && path.is_file()
    };
    let SnippetArgs { init, init_worker: worker, done, .. } = &args.snippet;
    for (option, texts) in [("--init", init), ("--init-worker", worker), ("--done", done)] {
        if let Some(file) = texts.iter().find(is_file) {
            let named = words.iter().map(|word| match word.strip_suffix(file.as_str()) {
                Some(before) if before.is_empty() || before.ends_with('=') => {
                    format!("{before}@{file}")
                }
                _ => (*word).to_owned(),
            });
            let line = quote_all(&named.collect::<Vec<_>>());
            bail!("in {option}: '{file}' is a file, not code\nhint: speedwell {line}");
        }
    }
    let Some(file) = args.snippets.iter().find(is_file) else { return Ok(()) };
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
    if !has_functions || !is_module(language, Path::new(file), &text) {
        return format!("{language} {named}");
    }
    format!("{language} --init {named} {}", quote(&suggest_call(language, &text)))
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
            let name = command.split(' ').next().unwrap_or_default();
            let exists = command.starts_with('-') || grammar.find_subcommand(name).is_some();
            assert!(exists, "no command '{command}'");
            for name in names.split(' ') {
                assert!(grammar.find_subcommand(name).is_none(), "'{name}' is a command");
            }
        }
    }

    #[test]
    fn all_options_of_timeit_are_translated_in_a_line_that_parses() {
        for (line, expected) in [
            (
                "eval python -n 9000 -r 5 -u usec -s x=1 -s y=2 x+y",
                Some("eval python --iterations 9000 -r 5 --unit us --init 'x=1; y=2' x+y"),
            ),
            ("eval node -n9 -r5 -v f -- -n 1", Some("eval node --iterations 9 -r5 -v f -- -n 1")),
            // A duration excludes a number of iterations, so that '-n' was not meant as in timeit.
            ("eval python -n 9000 -t 1s x", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(translate_timeit(&words).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn an_option_of_a_command_suggests_quotes() {
        for (words, option, expected) in [
            (&["ls", "-l"][..], "-l", "speedwell time 'ls -l', or: speedwell time -- ls -l"),
            (
                &["-r", "10", "ls", "-la", "a b"],
                "-l",
                "speedwell time -r 10 'ls -la '\\''a b'\\''', or: speedwell time -r 10 -- ls -la 'a b'",
            ),
        ] {
            let hint = quote_command(words, option).unwrap();
            assert_eq!(hint, format!("\nhint: {expected}"));
        }
        assert_eq!(quote_command(&["sleep 1", "-l"], "-l"), None, "it is quoted already");
        assert_eq!(quote_command(&["-l"], "-l"), None);
    }
}
