//! Parses the command line of hyperfine according to a table of its options, and converts it to a
//! request.
//!
//! Classifies each word as an option, a value, or a command, and rejects contradictions. Start at
//! [`HyperfineCommand::parse`].

use crate::hyperfine::commands::{self, MeasuredCommand};
use crate::hyperfine::figures::TimeUnit;
use std::path::PathBuf;

/// Parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub enum HyperfineCommand {
    Help,
    Version,
    Measure(Box<HyperfineRequest>),
}

/// Options of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperfineRequest {
    /// Commands in hyperfine's order. If there is a reference, it is the first command.
    pub commands: Vec<MeasuredCommand>,
    /// Whether the user gave the first command with `--reference`.
    pub has_reference: bool,
    /// `-w`.
    pub warmup: u64,
    /// `-m`, `-M` and `-r`: minimum and maximum number of runs.
    pub runs: (u64, Option<u64>),
    /// `--min-benchmarking-time`, in seconds.
    pub min_time_s: f64,
    /// `-s`: command that is executed once before the runs of each measured command.
    pub setup: Option<String>,
    /// `-p`: commands that are executed before every run. The list is empty, has one command for
    /// all measured commands, or has one command for each.
    pub prepare: Vec<String>,
    /// `-C`: the same as `-p`, but executed after every run.
    pub conclude: Vec<String>,
    /// `-c`: command that is executed once after the runs of each measured command.
    pub cleanup: Option<String>,
    /// How commands are executed.
    pub executor: CommandExecutor,
    /// `-i`: nonzero statuses that do not count as failures.
    pub ignored: IgnoredStatuses,
    /// `--output`: where the output of each measured command goes.
    pub outputs: Vec<OutputTarget>,
    /// `--input`: standard input of commands; empty by default.
    pub input: Option<PathBuf>,
    /// `--style`; if `None`, the terminal decides.
    pub style: Option<OutputStyle>,
    /// `--sort`.
    pub sort: ResultOrder,
    /// `-u`.
    pub unit: Option<TimeUnit>,
    /// `--export-*`: format and file.
    pub exports: Vec<(ExportKind, String)>,
    /// `--strict-compat`: measure one command after the other, and print hyperfine's own messages.
    pub strict: bool,
    /// `--seed` of the order of runs; random by default.
    pub seed: Option<u64>,
}

/// How commands are executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandExecutor {
    /// By a shell. The value is its program, followed by its arguments.
    Shell(Vec<String>),
    /// Without a shell: `-N`.
    Direct,
    /// Not at all: `--debug-mode`. A command `sleep N` counts as a run of N seconds; any other
    /// command takes no time. The value is the shell, if one was given, and its time is determined
    /// in the same way.
    Pretended(Option<String>),
}

/// Nonzero statuses that do not count as failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredStatuses {
    Nothing,
    /// All statuses, and termination by a signal.
    Everything,
    /// Only these statuses.
    Only(Vec<i32>),
}

/// Where the output of a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    /// It is discarded.
    Null,
    /// It is written to a pipe, from which we read it in order to discard it.
    Pipe,
    /// It goes to the output of this program.
    Inherit,
    /// It goes to a file, which each run overwrites.
    File(PathBuf),
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStyle {
    /// No colors, no progress line.
    Basic,
    /// Colors and a progress line.
    Full,
    /// A progress line, but no colors.
    NoColour,
    /// Colors, but no progress line.
    Colour,
    /// Nothing is shown.
    Silent,
}

/// Order of results in the comparison and in exported tables. JSON and CSV have the order typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultOrder {
    /// The comparison is sorted by time; exported tables list the commands in the order typed.
    Auto,
    /// Both list the commands in the order typed.
    Command,
    /// Both are sorted by mean time.
    MeanTime,
}

/// Export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    AsciiDoc,
    Csv,
    Json,
    Markdown,
    Org,
}

impl ExportKind {
    /// All formats, in the order in which their files are written.
    const ALL: [ExportKind; 5] = [
        ExportKind::AsciiDoc,
        ExportKind::Json,
        ExportKind::Csv,
        ExportKind::Markdown,
        ExportKind::Org,
    ];

    /// Returns the option that asks for this format, without hyphens.
    pub fn option(self) -> &'static str {
        match self {
            ExportKind::AsciiDoc => "export-asciidoc",
            ExportKind::Csv => "export-csv",
            ExportKind::Json => "export-json",
            ExportKind::Markdown => "export-markdown",
            ExportKind::Org => "export-orgmode",
        }
    }
}

/// How many values an option takes, and how often it may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueCount {
    Nothing,
    /// No value, or one after `=`.
    Perhaps,
    /// This number of values; the option may be given once.
    Once(usize),
    /// This number of values; the option may be given repeatedly.
    Often(usize),
    /// One value. The option may be given repeatedly, and the last occurrence counts.
    Last,
}

/// Each option: its letter, its name, and the number of its values.
const OPTION_TABLE: &[(&str, &str, ValueCount)] = &[
    ("w", "warmup", ValueCount::Once(1)),
    ("m", "min-runs", ValueCount::Once(1)),
    ("M", "max-runs", ValueCount::Once(1)),
    ("r", "runs", ValueCount::Once(1)),
    ("s", "setup", ValueCount::Once(1)),
    ("", "reference", ValueCount::Once(1)),
    ("", "reference-name", ValueCount::Once(1)),
    ("p", "prepare", ValueCount::Often(1)),
    ("C", "conclude", ValueCount::Often(1)),
    ("c", "cleanup", ValueCount::Once(1)),
    ("P", "parameter-scan", ValueCount::Once(3)),
    ("D", "parameter-step-size", ValueCount::Once(1)),
    ("L", "parameter-list", ValueCount::Often(2)),
    ("S", "shell", ValueCount::Last),
    ("N", "", ValueCount::Nothing),
    ("i", "ignore-failure", ValueCount::Perhaps),
    ("", "style", ValueCount::Once(1)),
    ("", "sort", ValueCount::Once(1)),
    ("u", "time-unit", ValueCount::Once(1)),
    ("", "export-asciidoc", ValueCount::Once(1)),
    ("", "export-csv", ValueCount::Once(1)),
    ("", "export-json", ValueCount::Once(1)),
    ("", "export-markdown", ValueCount::Once(1)),
    ("", "export-orgmode", ValueCount::Once(1)),
    ("", "show-output", ValueCount::Nothing),
    ("", "output", ValueCount::Often(1)),
    ("", "input", ValueCount::Once(1)),
    ("n", "command-name", ValueCount::Often(1)),
    ("h", "help", ValueCount::Nothing),
    ("V", "version", ValueCount::Nothing),
    ("", "min-benchmarking-time", ValueCount::Once(1)),
    ("", "debug-mode", ValueCount::Nothing),
    ("", "strict-compat", ValueCount::Nothing),
    ("", "seed", ValueCount::Once(1)),
];

/// Mutually exclusive options.
const EXCLUSIVE_OPTIONS: &[(&str, &str)] = &[
    ("runs", "min-runs"),
    ("runs", "max-runs"),
    ("parameter-list", "parameter-scan"),
    ("parameter-list", "parameter-step-size"),
    ("N", "shell"),
    ("N", "debug-mode"),
    ("show-output", "style"),
    ("show-output", "output"),
];

/// The first option of a pair requires the second one.
const REQUIRED_OPTIONS: &[(&str, &str)] =
    &[("reference-name", "reference"), ("parameter-step-size", "parameter-scan")];

/// Reason to reject a command line, and the exit status. The status is 1 for values, such as
/// numbers, that are checked after all options have been read. Otherwise it is 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperfineRefusal {
    pub reason: String,
    /// Exit status, as in hyperfine.
    pub status: i32,
}

/// Creates the refusal of a command line that hyperfine's option parser rejects.
fn syntax_refusal(reason: String) -> HyperfineRefusal {
    HyperfineRefusal { reason, status: 2 }
}

/// Creates the refusal of values that hyperfine checks after it has read all options.
fn conflict_refusal(reason: impl Into<String>) -> HyperfineRefusal {
    HyperfineRefusal { reason: reason.into(), status: 1 }
}

/// Command line split into options and commands.
#[derive(Debug, Default)]
struct HyperfineArguments<'a> {
    options: Vec<(&'static str, Vec<&'a str>)>,
    commands: Vec<&'a str>,
}

impl<'a> HyperfineArguments<'a> {
    fn split_arguments(
        arguments: &'a [String],
    ) -> Result<HyperfineArguments<'a>, HyperfineRefusal> {
        let mut parsed = HyperfineArguments::default();
        let mut remaining = arguments.iter().map(String::as_str);
        while let Some(argument) = remaining.next() {
            if argument == "--" {
                parsed.commands.extend(remaining.by_ref());
            } else if let Some(long) = argument.strip_prefix("--") {
                let (name, attached) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (long, None),
                };
                let option = OPTION_TABLE
                    .iter()
                    .find(|option| !name.is_empty() && option.1 == name)
                    .ok_or_else(|| unknown_option(&format!("--{name}")))?;
                parsed.take_option(option, argument, attached, &mut remaining)?;
            } else if let Some(letters) =
                argument.strip_prefix('-').filter(|remaining| !remaining.is_empty())
            {
                parsed.read_letters(letters, argument, &mut remaining)?;
            } else {
                parsed.commands.push(argument);
            }
        }
        Ok(parsed)
    }

    /// Parses the letters after a single dash. The first letter that takes a value is the last
    /// letter. The rest of the word, if any, is its value.
    fn read_letters(
        &mut self,
        letters: &'a str,
        argument: &'a str,
        remaining: &mut dyn Iterator<Item = &'a str>,
    ) -> Result<(), HyperfineRefusal> {
        for (start, letter) in letters.char_indices() {
            let option = OPTION_TABLE
                .iter()
                .find(|option| option.0 == letter.to_string())
                .ok_or_else(|| unknown_option(&format!("-{letter}")))?;
            let attached = &letters[start + letter.len_utf8()..];
            let value = Some(attached.strip_prefix('=').unwrap_or(attached));
            match option.2 {
                ValueCount::Nothing => self.take_option(option, argument, None, remaining)?,
                ValueCount::Perhaps if !attached.starts_with('=') => {
                    self.take_option(option, argument, None, remaining)?
                }
                _ => {
                    return self.take_option(
                        option,
                        argument,
                        value.filter(|_| !attached.is_empty()),
                        remaining,
                    );
                }
            }
        }
        Ok(())
    }

    fn take_option(
        &mut self,
        option: &(&'static str, &'static str, ValueCount),
        argument: &str,
        attached: Option<&'a str>,
        remaining: &mut dyn Iterator<Item = &'a str>,
    ) -> Result<(), HyperfineRefusal> {
        let (letter, name, value_count) = *option;
        let name = if name.is_empty() { letter } else { name };
        let count = match value_count {
            ValueCount::Nothing if attached.is_some() => {
                return Err(syntax_refusal(format!("'{argument}': the option takes no value")));
            }
            ValueCount::Nothing | ValueCount::Perhaps => 0,
            ValueCount::Once(count) | ValueCount::Often(count) => count,
            ValueCount::Last => 1,
        };
        if !matches!(value_count, ValueCount::Often(_) | ValueCount::Last) && self.has(name) {
            return Err(syntax_refusal(format!("{} was given more than once", with_dashes(name))));
        }
        let mut values: Vec<&str> = attached.into_iter().collect();
        while values.len() < count {
            // A value may look like an option only after options that accept negative numbers.
            let may_be_dashed = matches!(name, "parameter-scan" | "parameter-list");
            let next = remaining
                .next()
                .filter(|next| may_be_dashed || *next == "-" || !next.starts_with('-'));
            values.push(next.ok_or_else(|| {
                syntax_refusal(format!("{} needs {count} value(s)", with_dashes(name)))
            })?);
        }
        self.options.push((name, values));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| *option == name)
    }

    fn all_values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let occurrences = self.options.iter().filter(move |(option, _)| *option == name);
        occurrences.flat_map(|(_, values)| values.iter().copied())
    }

    /// Returns the last value of an option.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.all_values(name).last()
    }

    fn owned_value(&self, name: &str) -> Option<String> {
        self.value(name).map(str::to_owned)
    }

    fn parse_number<T: std::str::FromStr>(
        &self,
        name: &str,
    ) -> Result<Option<T>, HyperfineRefusal> {
        let parse = |text: &str| {
            text.parse().map_err(|_| conflict_refusal(format!("--{name}: invalid number '{text}'")))
        };
        self.value(name).map(parse).transpose()
    }

    /// Maps the value of an option to its meaning in `choices`.
    fn parse_choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, HyperfineRefusal> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let found = choices.iter().find(|(name, _)| *name == value);
        found.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            syntax_refusal(format!(
                "--{name}: unknown value '{value}'\nhint: expected {}",
                names.join(", ")
            ))
        })
    }
}

fn with_dashes(name: &str) -> String {
    match name.len() {
        1 => format!("-{name}"),
        _ => format!("--{name}"),
    }
}

fn unknown_option(typed_option: &str) -> HyperfineRefusal {
    let names: Vec<String> = OPTION_TABLE.iter().map(|option| format!("--{}", option.1)).collect();
    let similar = speedwell_model::nearest_name(typed_option, &names);
    let hint = similar.map_or_else(
        || {
            format!(
                "\nhint: put a command that starts like an option after '--': -- \
                 '{typed_option} ...'"
            )
        },
        |similar| format!("\nhint: did you mean '{similar}'?"),
    );
    syntax_refusal(format!("unknown option '{typed_option}'{hint}"))
}

impl HyperfineCommand {
    /// Parses the command line.
    ///
    /// # Errors
    /// Fails if hyperfine itself would reject the command line. The refusal has hyperfine's exit
    /// status.
    pub fn parse(arguments: &[String]) -> Result<HyperfineCommand, HyperfineRefusal> {
        let parsed = HyperfineArguments::split_arguments(arguments)?;
        if parsed.has("help") {
            return Ok(HyperfineCommand::Help);
        }
        if parsed.has("version") {
            return Ok(HyperfineCommand::Version);
        }
        for (first, second) in EXCLUSIVE_OPTIONS {
            if parsed.has(first) && parsed.has(second) {
                let (first, second) = (with_dashes(first), with_dashes(second));
                return Err(syntax_refusal(format!("{first} cannot be used with {second}")));
            }
        }
        for (first, second) in REQUIRED_OPTIONS {
            if parsed.has(first) && !parsed.has(second) {
                let (first, second) = (with_dashes(first), with_dashes(second));
                return Err(syntax_refusal(format!("{first} needs {second}")));
            }
        }
        if parsed.commands.is_empty() || parsed.commands.contains(&"") {
            return Err(syntax_refusal("missing or empty command".to_owned()));
        }
        request(&parsed).map(|request| HyperfineCommand::Measure(Box::new(request)))
    }
}

fn request(parsed: &HyperfineArguments<'_>) -> Result<HyperfineRequest, HyperfineRefusal> {
    let style = [
        ("auto", None),
        ("basic", Some(OutputStyle::Basic)),
        ("full", Some(OutputStyle::Full)),
        ("nocolor", Some(OutputStyle::NoColour)),
        ("color", Some(OutputStyle::Colour)),
        ("none", Some(OutputStyle::Silent)),
    ];
    let sort = [
        ("auto", ResultOrder::Auto),
        ("command", ResultOrder::Command),
        ("mean-time", ResultOrder::MeanTime),
    ];
    let unit = [
        ("microsecond", TimeUnit::Microsecond),
        ("millisecond", TimeUnit::Millisecond),
        ("second", TimeUnit::Second),
    ];
    let (style, sort) =
        (parsed.parse_choice("style", &style)?, parsed.parse_choice("sort", &sort)?);
    let unit = parsed.parse_choice("time-unit", &unit)?;
    let names: Vec<&str> = parsed.all_values("command-name").collect();
    let parameters = commands::TypedParameters {
        scan: parsed.all_values("parameter-scan").collect(),
        step: parsed.value("parameter-step-size"),
        lists: parsed.all_values("parameter-list").collect(),
    };
    let mut all_commands = commands::expand_commands(&parsed.commands, &names, &parameters)
        .map_err(conflict_refusal)?;
    let reference = parsed.value("reference");
    if let Some(line) = reference {
        let name = parsed.value("reference-name");
        all_commands.insert(0, MeasuredCommand::without_parameters(name, line));
    }
    let count = all_commands.len();
    let request = HyperfineRequest {
        commands: all_commands,
        has_reference: reference.is_some(),
        warmup: parsed.parse_number("warmup")?.unwrap_or(0),
        runs: run_bounds(parsed)?,
        min_time_s: parsed.parse_number("min-benchmarking-time")?.unwrap_or(3.0),
        setup: parsed.owned_value("setup"),
        prepare: hook_commands(parsed, "prepare", count)?,
        conclude: hook_commands(parsed, "conclude", count)?,
        cleanup: parsed.owned_value("cleanup"),
        executor: executor(parsed)?,
        ignored: parse_ignored(parsed)?,
        outputs: parse_outputs(parsed, count)?,
        input: parse_input(parsed)?,
        style: style.flatten(),
        sort: sort.unwrap_or(ResultOrder::Auto),
        unit,
        exports: parse_exports(parsed),
        strict: parsed.has("strict-compat"),
        seed: parsed.parse_number("seed")?,
    };
    Ok(request)
}

/// Returns the minimum and the maximum number of runs. By default, the minimum is ten, or the
/// maximum if this is lower.
fn run_bounds(parsed: &HyperfineArguments<'_>) -> Result<(u64, Option<u64>), HyperfineRefusal> {
    let exact_runs: Option<u64> = parsed.parse_number("runs")?;
    let min_runs = exact_runs.or(parsed.parse_number("min-runs")?);
    let max_runs = exact_runs.or(parsed.parse_number("max-runs")?);
    match (min_runs, max_runs) {
        (Some(min_runs), Some(max_runs)) if min_runs > max_runs => Err(conflict_refusal(format!(
            "--min-runs {min_runs} is more than --max-runs {max_runs}"
        ))),
        (_, Some(0)) => Err(conflict_refusal("the number of runs must be at least 1")),
        (None, Some(max_runs)) => Ok((max_runs.min(10), Some(max_runs))),
        (min_runs, max_runs) => Ok((min_runs.unwrap_or(10), max_runs)),
    }
}

/// Returns the commands of the hook `name`, which is executed before or after every run. The list
/// is empty, has one command for all `count` measured commands, or has one command for each.
fn hook_commands(
    parsed: &HyperfineArguments<'_>,
    name: &str,
    count: usize,
) -> Result<Vec<String>, HyperfineRefusal> {
    let hooks: Vec<String> = parsed.all_values(name).map(str::to_owned).collect();
    if hooks.len() > 1 && hooks.len() != count {
        return Err(conflict_refusal(format!(
            "--{name} was given {} times for {count} commands\nhint: give it once for all, or \
             once for each (including the reference)",
            hooks.len()
        )));
    }
    Ok(hooks)
}

fn executor(parsed: &HyperfineArguments<'_>) -> Result<CommandExecutor, HyperfineRefusal> {
    if parsed.has("N") {
        return Ok(CommandExecutor::Direct);
    }
    let shell = parsed.value("shell");
    if parsed.has("debug-mode") {
        return Ok(CommandExecutor::Pretended(shell.map(str::to_owned)));
    }
    match shell {
        None | Some("default") => Ok(CommandExecutor::Shell(vec!["sh".to_owned()])),
        Some("none") => Ok(CommandExecutor::Direct),
        Some(line) => {
            let argv = shell_words::split(line)
                .map_err(|error| conflict_refusal(format!("--shell '{line}': {error}")))?;
            match argv.first() {
                Some(program) if !program.is_empty() => Ok(CommandExecutor::Shell(argv)),
                _ => Err(conflict_refusal("--shell must name a program")),
            }
        }
    }
}

fn parse_ignored(parsed: &HyperfineArguments<'_>) -> Result<IgnoredStatuses, HyperfineRefusal> {
    if !parsed.has("ignore-failure") {
        return Ok(IgnoredStatuses::Nothing);
    }
    match parsed.value("ignore-failure") {
        None | Some("" | "all-non-zero") => Ok(IgnoredStatuses::Everything),
        Some(list) => {
            let codes = list.split(',').map(|code| {
                code.trim().parse().map_err(|_| {
                    conflict_refusal(format!("--ignore-failure: '{code}' is not an exit status"))
                })
            });
            Ok(IgnoredStatuses::Only(codes.collect::<Result<_, _>>()?))
        }
    }
}

fn parse_outputs(
    parsed: &HyperfineArguments<'_>,
    count: usize,
) -> Result<Vec<OutputTarget>, HyperfineRefusal> {
    let mut outputs = Vec::new();
    for target in parsed.all_values("output") {
        outputs.push(match target {
            "null" => OutputTarget::Null,
            "pipe" => OutputTarget::Pipe,
            "inherit" => OutputTarget::Inherit,
            file if file.contains('/') => OutputTarget::File(file.into()),
            target => {
                return Err(conflict_refusal(format!(
                    "--output: unknown target '{target}'\nhint: use null, pipe, inherit, or a file \
                     as './{target}'"
                )));
            }
        });
    }
    if parsed.has("show-output") {
        outputs = vec![OutputTarget::Inherit];
    }
    match outputs.len() {
        0 => Ok(vec![OutputTarget::Null; count]),
        1 => Ok(vec![outputs[0].clone(); count]),
        target_count if target_count == count => Ok(outputs),
        target_count => Err(conflict_refusal(format!(
            "--output was given {target_count} times for {count} commands\nhint: give it once for \
             all, or once for each (including the reference)"
        ))),
    }
}

fn parse_input(parsed: &HyperfineArguments<'_>) -> Result<Option<PathBuf>, HyperfineRefusal> {
    match parsed.value("input") {
        None | Some("null") => Ok(None),
        Some(file) if std::path::Path::new(file).exists() => Ok(Some(file.into())),
        Some(file) => Err(conflict_refusal(format!("--input: file '{file}' does not exist"))),
    }
}

fn parse_exports(parsed: &HyperfineArguments<'_>) -> Vec<(ExportKind, String)> {
    let exports = ExportKind::ALL
        .iter()
        .filter_map(|export| Some((*export, parsed.owned_value(export.option())?)));
    exports.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<HyperfineRequest, HyperfineRefusal> {
        let words = shell_words::split(line).unwrap();
        match HyperfineCommand::parse(&words)? {
            HyperfineCommand::Measure(request) => Ok(*request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_may_be_clustered_attached_and_behind_commands() {
        let request = parse("-Nw3 'a b' --runs=7 -i=1,2 c -n x -n y").unwrap();
        assert_eq!(request.executor, CommandExecutor::Direct);
        assert_eq!((request.warmup, request.runs), (3, (7, Some(7))));
        assert_eq!(request.ignored, IgnoredStatuses::Only(vec![1, 2]));
        let names: Vec<String> = request.commands.iter().map(MeasuredCommand::name).collect();
        assert_eq!(names, ["x", "y"]);
        assert_eq!(parse("-i false").unwrap().ignored, IgnoredStatuses::Everything);
    }

    #[test]
    fn what_cannot_be_taken_apart_ends_with_2_and_what_makes_no_sense_with_1() {
        for (line, status, part) in [
            ("--bogus true", 2, "unknown option"),
            ("--warmpu 3 true", 2, "did you mean '--warmup'"),
            ("", 2, "missing or empty command"),
            ("-r 2 -m 3 true", 2, "--runs cannot be used with --min-runs"),
            ("-D 2 true", 2, "needs --parameter-scan"),
            ("--sort up true", 2, "auto, command, mean-time"),
            ("true -w", 2, "--warmup needs 1"),
            ("-w 1 -w 2 true", 2, "more than once"),
            ("-r x true", 1, "'x'"),
            ("-r 0 true", 1, "at least 1"),
            ("-m 9 -M 3 true", 1, "more than"),
            ("--output log true", 1, "./log"),
            ("--input /nowhere true", 1, "/nowhere"),
            ("-p a -p b -p c x y", 1, "3 times for 2 commands"),
            ("-S '' true", 1, "must name a program"),
            ("-i=a true", 1, "exit status"),
        ] {
            let refusal = parse(line).unwrap_err();
            assert_eq!(refusal.status, status, "{line}: {refusal:?}");
            assert!(refusal.reason.contains(part), "{line}: {refusal:?}");
        }
    }

    #[test]
    fn the_most_runs_lower_the_fewest_where_those_are_not_given() {
        assert_eq!(parse("-M 4 a").unwrap().runs, (4, Some(4)));
        assert_eq!(parse("-M 40 a").unwrap().runs, (10, Some(40)));
        assert_eq!(parse("a").unwrap().runs, (10, None));
    }
}
