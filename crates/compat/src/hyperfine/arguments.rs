//! Parses the command line of hyperfine, and resolves options that depend on each other.
//!
//! [`HyperfineOptions`] is the grammar, from which clap also makes the help. Errors of the kind
//! [`ErrorKind::ValueValidation`] are about values that make no sense, alone or in combination;
//! hyperfine checks values after it has read all options. [`expand_commands`] turns commands with
//! parameters into one command for each combination of values, in hyperfine's order. Start at
//! [`HyperfineRequest::parse`].

use crate::console::EXIT_REJECTED;
use crate::hyperfine::figures::TimeUnit;
use clap::builder::{ArgPredicate, NonEmptyStringValueParser};
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, Parser, ValueEnum};
use speedwell_engine::eval::{parse_list, parse_range};
use speedwell_model::{Case, ParameterValue, format_fixed};
use std::path::{Path, PathBuf};

/// Measure commands as hyperfine 1.20 does
///
/// Several commands are measured in randomised blocks and compared by a statistical test, unless
/// --strict-compat is given.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "hyperfine",
    bin_name = "speedwell as hyperfine",
    version = "1.20.0",
    no_binary_name = true,
    after_help = "Differences from the original: docs/reference/hyperfine.md"
)]
pub struct HyperfineOptions {
    /// Commands to measure
    #[arg(
        required = true,
        value_name = "COMMAND",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub commands: Vec<String>,
    /// Discard N runs before measuring
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u64,
    /// Measure at least N runs of each command [default: 10]
    #[arg(short, long, value_name = "N")]
    pub min_runs: Option<u64>,
    /// Measure at most N runs of each command
    #[arg(short = 'M', long, value_name = "N")]
    pub max_runs: Option<u64>,
    /// Measure exactly N runs of each command
    #[arg(short, long, value_name = "N", conflicts_with_all = ["min_runs", "max_runs"])]
    pub runs: Option<u64>,
    /// Execute CMD once before the runs of each command; commands are then measured one after the other
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,
    /// Compare with this command instead of the fastest
    #[arg(long, value_name = "CMD")]
    pub reference: Option<String>,
    /// Name of the reference
    #[arg(long, value_name = "NAME", requires = "reference")]
    pub reference_name: Option<String>,
    /// Execute CMD before every run; give the option once for all commands, or once for each
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,
    /// Execute CMD after every run; give the option once for all commands, or once for each
    #[arg(short = 'C', long, value_name = "CMD")]
    pub conclude: Vec<String>,
    /// Execute CMD once after the runs of each command; commands are then measured one after the other
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,
    #[command(flatten)]
    pub parameters: TypedParameters,
    /// Shell that executes commands, with its arguments; 'none' starts them without a shell
    #[arg(
        short = 'S',
        long,
        overrides_with = "shell",
        default_value = "sh",
        default_value_if("no_shell", ArgPredicate::IsPresent, "none")
    )]
    pub shell: String,
    /// Start commands without a shell: --shell=none
    #[arg(short = 'N', conflicts_with_all = ["shell", "debug_mode"])]
    pub no_shell: bool,
    /// Ignore nonzero exit statuses: those in a list such as 1,2, or all of them
    #[arg(
        short,
        long = "ignore-failure",
        value_name = "CODES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all-non-zero",
        value_parser = parse_ignored
    )]
    pub ignored: Option<IgnoredStatuses>,
    /// How results are shown
    #[arg(long, default_value = "auto")]
    pub style: OutputStyle,
    /// Order of results in the comparison and in exported tables
    #[arg(long, value_name = "ORDER", default_value = "auto")]
    pub sort: ResultOrder,
    /// Unit of times [default: one that fits]
    #[arg(short, long = "time-unit")]
    pub unit: Option<TimeUnit>,
    /// Write an AsciiDoc table; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub export_asciidoc: Option<String>,
    /// Write CSV; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<String>,
    /// Write JSON with the times of all runs; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<String>,
    /// Write a Markdown table; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<String>,
    /// Write an Org-mode table; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub export_orgmode: Option<String>,
    /// Show the output of commands: --output=inherit
    #[arg(long, conflicts_with_all = ["style", "output"])]
    pub show_output: bool,
    /// Where the output of commands goes: null, pipe, inherit, or a file with a '/' in its name;
    /// give the option once for all commands, or once for each
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "null",
        default_value_if("show_output", ArgPredicate::IsPresent, "inherit"),
        value_parser = parse_output
    )]
    pub output: Vec<OutputTarget>,
    /// File that commands read as standard input
    #[arg(long, value_name = "FILE", default_value = "null", value_parser = parse_input)]
    pub input: PathBuf,
    /// Name of a command (repeatable)
    #[arg(short, long = "command-name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Minimum total time of the runs of a command, in seconds
    #[arg(long = "min-benchmarking-time", hide = true, default_value_t = 3.0)]
    pub min_time_s: f64,
    /// Execute nothing: pretend that 'sleep N' takes N seconds, and that any other command takes no
    /// time
    #[arg(long, hide = true)]
    pub debug_mode: bool,
    /// Measure one command after the other, with the comparison and the warnings of the original
    #[arg(long = "strict-compat")]
    pub strict: bool,
    /// Seed of the order of runs [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// A measurement to perform.
#[derive(Debug, Clone)]
pub struct HyperfineRequest {
    /// The options. `output` has a value for each command; so do `prepare` and `conclude`, unless
    /// they are empty.
    pub options: HyperfineOptions,
    /// Commands in hyperfine's order. If there is a reference, it is the first command.
    pub commands: Vec<MeasuredCommand>,
    /// Minimum and maximum number of runs.
    pub runs: (u64, Option<u64>),
    /// How commands are executed.
    pub executor: CommandExecutor,
}

/// How commands are executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandExecutor {
    /// By a shell. The value is its program, followed by its arguments.
    Shell(Vec<String>),
    /// Without a shell: `-N`.
    Direct,
    /// Not at all: `--debug-mode`. The value is the shell, whose pretended time is determined in
    /// the same way as that of a command.
    Pretended(String),
}

/// Nonzero statuses that do not count as failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredStatuses {
    /// All statuses, and termination by a signal.
    Everything,
    /// Only these statuses.
    Only(Vec<i32>),
}

fn parse_ignored(text: &str) -> Result<IgnoredStatuses, String> {
    if matches!(text, "" | "all-non-zero") {
        return Ok(IgnoredStatuses::Everything);
    }
    let parse =
        |code: &str| code.trim().parse().map_err(|_| format!("'{code}' is not an exit status"));
    Ok(IgnoredStatuses::Only(text.split(',').map(parse).collect::<Result<_, _>>()?))
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

fn parse_output(text: &str) -> Result<OutputTarget, String> {
    match text {
        "null" => Ok(OutputTarget::Null),
        "pipe" => Ok(OutputTarget::Pipe),
        "inherit" => Ok(OutputTarget::Inherit),
        file if file.contains('/') => Ok(OutputTarget::File(file.into())),
        text => Err(format!("use null, pipe, inherit, or a path with a slash: './{text}'")),
    }
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputStyle {
    /// Chosen to suit standard output and the terminal.
    Auto,
    /// No colors, no progress line.
    Basic,
    /// Colors and a progress line.
    Full,
    /// A progress line, but no colors.
    #[value(name = "nocolor")]
    NoColour,
    /// Colors, but no progress line.
    #[value(name = "color")]
    Colour,
    /// Nothing is shown.
    #[value(name = "none")]
    Silent,
}

/// Order of results in the comparison and in exported tables. JSON and CSV keep the order of the
/// command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultOrder {
    /// The comparison is sorted by time; exported tables list the commands in the order typed.
    Auto,
    /// The comparison and exported tables list the commands in the order typed.
    Command,
    /// The comparison and exported tables are sorted by mean time.
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

impl HyperfineOptions {
    /// Returns the formats, options (without hyphens) and files of exports, in the order in which
    /// they are written.
    pub fn exports(&self) -> impl Iterator<Item = (ExportKind, &'static str, &str)> {
        let exports = [
            (ExportKind::AsciiDoc, "export-asciidoc", &self.export_asciidoc),
            (ExportKind::Json, "export-json", &self.export_json),
            (ExportKind::Csv, "export-csv", &self.export_csv),
            (ExportKind::Markdown, "export-markdown", &self.export_markdown),
            (ExportKind::Org, "export-orgmode", &self.export_orgmode),
        ];
        exports
            .into_iter()
            .filter_map(|(export, option, file)| Some((export, option, file.as_deref()?)))
    }

    /// Returns the minimum and the maximum number of runs. By default, the minimum is ten, or the
    /// maximum if this is lower.
    fn run_bounds(&self) -> Result<(u64, Option<u64>), String> {
        match (self.runs.or(self.min_runs), self.runs.or(self.max_runs)) {
            (Some(min_runs), Some(max_runs)) if min_runs > max_runs => {
                Err(format!("--min-runs {min_runs} is more than --max-runs {max_runs}"))
            }
            (_, Some(0)) => Err("the number of runs must be at least 1".to_owned()),
            (None, Some(max_runs)) => Ok((max_runs.min(10), Some(max_runs))),
            (min_runs, max_runs) => Ok((min_runs.unwrap_or(10), max_runs)),
        }
    }

    fn executor(&self) -> Result<CommandExecutor, String> {
        if self.debug_mode {
            return Ok(CommandExecutor::Pretended(self.shell.clone()));
        }
        match self.shell.as_str() {
            "default" => Ok(CommandExecutor::Shell(vec!["sh".to_owned()])),
            "none" => Ok(CommandExecutor::Direct),
            line => match shell_words::split(line) {
                Err(error) => Err(format!("--shell '{line}': {error}")),
                Ok(argv) if argv.first().is_none_or(String::is_empty) => {
                    Err("--shell must name a program".to_owned())
                }
                Ok(argv) => Ok(CommandExecutor::Shell(argv)),
            },
        }
    }
}

impl HyperfineRequest {
    /// Parses the command line.
    ///
    /// # Errors
    /// Fails if hyperfine itself would reject the command line. As always with clap, a request for
    /// the help or the version is also returned as an error.
    pub fn parse(arguments: &[String]) -> Result<HyperfineRequest, clap::Error> {
        let options = HyperfineOptions::try_parse_from(arguments)?;
        HyperfineRequest::resolve(options)
            .map_err(|reason| HyperfineOptions::command().error(ErrorKind::ValueValidation, reason))
    }

    /// Expands the commands. Fails if the values of several options do not fit together.
    fn resolve(mut options: HyperfineOptions) -> Result<HyperfineRequest, String> {
        let mut commands = expand_commands(&options.commands, &options.names, &options.parameters)?;
        if let Some(template) = options.reference.clone() {
            let name = options.reference_name.clone();
            commands.insert(0, MeasuredCommand { name, template, parameters: Vec::new() });
        }
        spread_values("prepare", &mut options.prepare, commands.len())?;
        spread_values("conclude", &mut options.conclude, commands.len())?;
        spread_values("output", &mut options.output, commands.len())?;
        Ok(HyperfineRequest {
            runs: options.run_bounds()?,
            executor: options.executor()?,
            commands,
            options,
        })
    }
}

/// Returns the exit status for a command line that [`HyperfineRequest::parse`] did not accept: as in
/// hyperfine, 1 for values that make no sense, 2 for other errors, and 0 for help.
pub fn exit_status(error: &clap::Error) -> i32 {
    match error.kind() {
        ErrorKind::ValueValidation => EXIT_REJECTED,
        _ => error.exit_code(),
    }
}

/// Repeats the value of the option `name` for all `count` commands if it was given once. It may
/// also have been given once for each command, or not at all.
fn spread_values<T: Clone>(name: &str, values: &mut Vec<T>, count: usize) -> Result<(), String> {
    if let [value] = &values[..] {
        *values = vec![value.clone(); count];
    }
    if !values.is_empty() && values.len() != count {
        return Err(format!(
            "--{name} was given {} times for {count} commands\nhint: give it once for all, or \
             once for each (including the reference)",
            values.len()
        ));
    }
    Ok(())
}

/// Returns the file that commands read. The word `null` stands for no input.
fn parse_input(text: &str) -> Result<PathBuf, String> {
    match text {
        "null" => Ok("/dev/null".into()),
        file if Path::new(file).exists() => Ok(file.into()),
        _ => Err("this file does not exist".to_owned()),
    }
}

/// A command with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredCommand {
    name: Option<String>,
    template: String,
    /// Names and values, in the order typed.
    pub parameters: Vec<(String, String)>,
}

impl MeasuredCommand {
    /// Replaces `{name}` placeholders in a string with this command's values.
    pub fn fill_parameters(&self, text: &str) -> String {
        let parameters = self.parameters.iter();
        let pairs: Vec<(String, String)> =
            parameters.map(|(name, value)| (format!("{{{name}}}"), value.clone())).collect();
        format_fixed(text, &pairs)
    }

    /// Returns the command line to execute.
    pub fn command_line(&self) -> String {
        self.fill_parameters(&self.template)
    }

    /// Returns the name in exports.
    pub fn name(&self) -> String {
        self.fill_parameters(self.name.as_deref().unwrap_or(&self.template))
    }

    /// Returns the name in tables: the name in exports, followed by the parameters that the command
    /// line does not mention.
    pub fn table_title(&self) -> String {
        let is_unused = |name: &String| !self.template.contains(&format!("{{{name}}}"));
        let unused = self.parameters.iter().filter(|(name, _)| is_unused(name));
        let unused: Vec<String> = unused.map(|(name, value)| format!("{name} = {value}")).collect();
        if unused.is_empty() {
            self.name()
        } else {
            format!("{} ({})", self.name(), unused.join(", "))
        }
    }
}

/// Parameters as typed.
#[derive(Debug, Clone, Default, Args)]
pub struct TypedParameters {
    /// Replace '{VAR}' in commands and in CMD with every number from MIN to MAX
    #[arg(
        short = 'P',
        long = "parameter-scan",
        value_names = ["VAR", "MIN", "MAX"],
        num_args = 3,
        action = ArgAction::Set,
        allow_hyphen_values = true
    )]
    pub scan: Vec<String>,
    /// Step between these numbers [default: 1]
    #[arg(short = 'D', long = "parameter-step-size", value_name = "STEP", requires = "scan")]
    pub step: Option<String>,
    /// Replace '{VAR}' in commands and in CMD with each of the values V,V... (repeatable)
    #[arg(
        short = 'L',
        long = "parameter-list",
        value_names = ["VAR", "V,V..."],
        num_args = 2,
        conflicts_with_all = ["scan", "step"],
        allow_hyphen_values = true
    )]
    pub lists: Vec<String>,
}

/// Creates a command for every combination of a command line and parameter values. In the result,
/// the command line changes fastest, and then the value of the first parameter.
///
/// # Errors
/// Fails if a range is invalid, a parameter is given twice, or the number of names does not match
/// the number of commands.
pub fn expand_commands(
    lines: &[String],
    names: &[String],
    parameters: &TypedParameters,
) -> Result<Vec<MeasuredCommand>, String> {
    let rows = parameter_rows(parameters)?;
    let count = rows.len() * lines.len();
    let has_parameters = !rows.iter().all(Vec::is_empty);
    let (is_wrong, hint) = if has_parameters {
        let hint = "\nhint: give it once for all, or once for each";
        (names.len() > 1 && names.len() != count, hint)
    } else {
        (names.len() > count, "")
    };
    if is_wrong {
        let given = names.len();
        return Err(format!("--command-name was given {given} times for {count} commands{hint}"));
    }
    let mut commands = Vec::new();
    for row in &rows {
        for line in lines {
            let shared_name = names.first().filter(|_| has_parameters);
            let name = names.get(commands.len()).or(shared_name).cloned();
            let (template, parameters) = (line.clone(), row.clone());
            commands.push(MeasuredCommand { name, template, parameters });
        }
    }
    Ok(commands)
}

/// Names and values of one command.
type ParameterRow = Vec<(String, String)>;

/// Returns every combination of values. From row to row, the value of the first parameter changes
/// fastest. Without parameters, there is a single empty row.
fn parameter_rows(parameters: &TypedParameters) -> Result<Vec<ParameterRow>, String> {
    if let [name, first, last] = &parameters.scan[..] {
        let is_whole = |text: &str| text.parse::<i32>().is_ok();
        if parameters.step.is_none() && !(is_whole(first) && is_whole(last)) {
            let hint = "add one, such as --parameter-step-size 0.1";
            return Err(format!("fractional numbers need a step\nhint: {hint}"));
        }
        let numbers = parse_range(first, last, parameters.step.as_deref())
            .map_err(|error| error.to_string())?;
        return Ok(numbers.into_iter().map(|number| vec![(name.clone(), number)]).collect());
    }
    let mut lists: Vec<(String, Vec<ParameterValue>)> = Vec::new();
    for pair in parameters.lists.chunks_exact(2) {
        if lists.iter().any(|(name_before, _)| *name_before == pair[0]) {
            return Err(format!("the parameter '{}' was given more than once", pair[0]));
        }
        let values = parse_list(&pair[1]).into_iter().map(ParameterValue::Text).collect();
        lists.push((pair[0].clone(), values));
    }
    lists.reverse();
    let rows = Case::cartesian_product(&lists).map_err(|error| error.to_string())?;
    let plain = |(name, value): (String, ParameterValue)| (name, value.plain());
    Ok(rows.into_iter().map(|row| row.into_iter().rev().map(plain).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<HyperfineRequest, clap::Error> {
        HyperfineRequest::parse(&shell_words::split(line).unwrap())
    }

    #[test]
    fn options_may_be_clustered_have_attached_values_and_follow_commands() {
        let request = parse("-Nw3 'a b' --runs=7 -i=1,2 c -n x -n y").unwrap();
        assert_eq!(request.executor, CommandExecutor::Direct);
        assert_eq!((request.options.warmup, request.runs), (3, (7, Some(7))));
        assert_eq!(request.options.ignored, Some(IgnoredStatuses::Only(vec![1, 2])));
        let names: Vec<String> = request.commands.iter().map(MeasuredCommand::name).collect();
        assert_eq!(names, ["x", "y"]);
        let line = "-i false -L x -1,2 -L y 3 -S a -S 'b c' --show-output -- -d";
        let request = parse(line).unwrap();
        assert_eq!(request.options.ignored, Some(IgnoredStatuses::Everything));
        assert_eq!(request.options.output, vec![OutputTarget::Inherit; 4]);
        assert_eq!(request.executor, CommandExecutor::Shell(vec!["b".into(), "c".into()]));
        assert_eq!(request.commands[1].command_line(), "-d");
        assert_eq!(parse("-P x -1 1 a").unwrap().commands.len(), 3);
    }

    #[test]
    fn syntax_errors_exit_with_2_and_invalid_values_with_1() {
        for (line, status, part) in [
            ("--bogus true", 2, "unexpected argument '--bogus'"),
            ("--warmpu 3 true", 2, "exists: '--warmup'"),
            ("", 2, "not provided:\n  <COMMAND>"),
            ("-r 2 -m 3 true", 2, "'--runs <N>' cannot be used with"),
            ("-D 2 true", 2, "--parameter-scan <VAR> <MIN> <MAX>"),
            ("--sort up true", 2, "auto, command, mean-time"),
            ("true -w", 2, "a value is required for '--warmup <N>'"),
            ("-w 1 -w 2 true", 2, "cannot be used multiple times"),
            ("-r x true", 1, "'x'"),
            ("-r 0 true", 1, "at least 1"),
            ("-m 9 -M 3 true", 1, "more than"),
            ("--output log true", 1, "./log"),
            ("--input /nowhere true", 1, "/nowhere"),
            ("-p a -p b -p c x y", 1, "3 times for 2 commands"),
            ("-S '' true", 1, "must name a program"),
            ("-i=a true", 1, "exit status"),
            ("''", 2, "a value is required for '<COMMAND>...'"),
            ("-N -S sh true", 2, "cannot be used with"),
            ("-P x 1", 2, "3 values required"),
            ("--help", 0, "Usage: speedwell as hyperfine"),
            ("--version", 0, "hyperfine 1.20.0\n"),
        ] {
            let refusal = parse(line).unwrap_err();
            assert_eq!(exit_status(&refusal), status, "{line}: {refusal}");
            assert!(refusal.to_string().contains(part), "{line}: {refusal}");
        }
    }

    #[test]
    fn a_maximum_below_the_default_minimum_lowers_the_minimum() {
        assert_eq!(parse("-M 4 a").unwrap().runs, (4, Some(4)));
        assert_eq!(parse("-M 40 a").unwrap().runs, (10, Some(40)));
        assert_eq!(parse("a").unwrap().runs, (10, None));
    }

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn expanded_titles(
        lines: &[&str],
        names: &[&str],
        parameters: &TypedParameters,
    ) -> Vec<String> {
        expand_commands(&texts(lines), &texts(names), parameters)
            .unwrap()
            .iter()
            .map(MeasuredCommand::table_title)
            .collect()
    }

    #[test]
    fn commands_come_in_the_order_of_the_original() {
        let lists = TypedParameters { lists: texts(&["x", "1,2", "y", "a"]), ..Default::default() };
        assert_eq!(
            expanded_titles(&["f {x}", "g"], &[], &lists),
            ["f 1 (y = a)", "g (x = 1, y = a)", "f 2 (y = a)", "g (x = 2, y = a)"]
        );
        let scan = TypedParameters {
            scan: texts(&["d", "0.3", "0.5"]),
            step: Some("0.1".to_owned()),
            ..TypedParameters::default()
        };
        assert_eq!(expanded_titles(&["s {d}"], &["n{d}"], &scan), ["n0.3", "n0.4", "n0.5"]);
    }

    #[test]
    fn placeholders_inside_values_are_not_replaced() {
        let lists = TypedParameters {
            lists: texts(&["foo", "{bar} baz", "bar", "quux"]),
            ..TypedParameters::default()
        };
        assert_eq!(expanded_titles(&["echo {foo} {bar}"], &[], &lists), ["echo {bar} baz quux"]);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&["d", "0.3", "0.5"], &[]),
            (&["d", "5", "3"], &[]),
            (&["d", "a", "3"], &[]),
            (&[], &["x", "1", "x", "2"]),
        ];
        for (scan, lists) in cases {
            let parameters = TypedParameters { scan: texts(scan), lists: texts(lists), step: None };
            let expanded = expand_commands(&texts(&["a"]), &[], &parameters);
            assert!(expanded.is_err(), "{parameters:?}");
        }
        let names = texts(&["x", "y"]);
        assert!(expand_commands(&texts(&["a"]), &names, &TypedParameters::default()).is_err());
    }
}
