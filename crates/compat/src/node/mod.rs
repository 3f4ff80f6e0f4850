//! Provides the steps before measuring that the drop-ins for `run.js`, `compare.js` and
//! `scatter.js` of Node.js core share: parsing the command line and finding the benchmark scripts.
//! [`run`] emulates `run.js`.
//!
//! Decides which scripts are selected, and what is printed before measuring. Node.js core's own
//! `run.js` uses the benchmarks in its folder. A drop-in has to find this folder first. Does not
//! deal with results: `node/driver.rs` receives them during the session. Start at
//! [`CommandLine::run_with`].

pub mod driver;

use crate::console::{self, ArgumentError, DropInConsole, ParsedArguments};
use crate::node::driver::NodeDriver;
use anyhow::Result;
use speedwell_engine::{BenchmarkScript, ScriptsRequest};
use speedwell_formats::node_csv::{self, javascript};
use speedwell_model::{ParameterValue, Run, SessionEvent, SessionObserver, Variant};
use std::io;
use std::path::{Path, PathBuf};

/// Rejected command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRefusal {
    /// The user gets this reason, which may be empty, and the usage.
    Usage(String),
    /// The user gets only this line.
    Line(String),
}

/// Creates a request to execute `scripts`, `default_runs` times unless `--runs` is given. `--set
/// CPUSET=...` names the processors to which the measured processes are bound.
///
/// # Errors
/// Fails if `--runs` is not a whole number above 0 (Node.js core crashes on 0), if a `--set` is not
/// of the form `name=value`, or if the processors are not a list of numbers and ranges.
pub fn build_request(
    arguments: &ParsedArguments<'_>,
    scripts: Vec<BenchmarkScript>,
    folder: Option<PathBuf>,
    variants: Vec<Variant>,
    default_runs: u32,
) -> Result<ScriptsRequest, NodeRefusal> {
    let sets: Vec<_> = arguments.values("set").map(parse_pair).collect::<Result<_, _>>()?;
    let runs = match arguments.value("runs").map(str::parse) {
        None => default_runs,
        Some(Ok(runs)) if runs > 0 => runs,
        Some(_) => {
            let reason = "the value of '--runs' must be a whole number above 0";
            return Err(NodeRefusal::Usage(reason.to_owned()));
        }
    };
    let processors = sets.iter().rfind(|(name, _)| name == "CPUSET").map(|(_, list)| list.clone());
    if let Some(list) = processors.as_ref().filter(|list| !is_processor_list(list)) {
        return Err(NodeRefusal::Line(format!(
            "CPUSET '{list}' is not of the form '0', '0-2' or '0,2-4'"
        )));
    }
    Ok(ScriptsRequest { folder, scripts, sets, runs, variants, test: false, processors })
}

fn parse_pair(argument: &str) -> Result<(String, String), NodeRefusal> {
    // The name has at least one character: in `==1`, the name is `=`, and the value is `1`.
    let separator = argument.char_indices().skip(1).find(|(_, character)| *character == '=');
    let (at, _) =
        separator.ok_or_else(|| NodeRefusal::Line(format!("bad argument: {argument}")))?;
    Ok((argument[..at].to_owned(), argument[at + 1..].to_owned()))
}

fn is_processor_list(list: &str) -> bool {
    let number = |text: &str| text.parse::<u16>().ok();
    list.split(',').all(|part| match part.split_once('-') {
        None => number(part).is_some(),
        Some((first, last)) => number(first).zip(number(last)).is_some_and(|(a, b)| a <= b),
    })
}

/// Command line of a drop-in.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    /// Name of the original script.
    pub tool: &'static str,
    /// Usage text that the original script prints for an invalid command line.
    pub usage: &'static str,
    /// Additional text of `--help`: the options that only the drop-in has.
    pub further_usage: &'static str,
    /// Names of the options that take a value, without dashes.
    pub valued: &'static [&'static str],
    /// Names of the options that take no value, without dashes.
    pub switches: &'static [&'static str],
}

impl CommandLine {
    /// Parses the arguments, converts them with `understand`, and passes the result to `perform`;
    /// returns the exit status. If `--help` is given, only prints the help text.
    ///
    /// # Errors
    /// Fails if `perform` fails, or a stream is closed.
    pub fn run_with<T>(
        &self,
        arguments: &[String],
        console: &mut DropInConsole<'_>,
        understand: impl FnOnce(&ParsedArguments<'_>, &DropInConsole<'_>) -> Result<T, NodeRefusal>,
        perform: impl FnOnce(T, &ParsedArguments<'_>, &mut DropInConsole<'_>) -> Result<i32>,
    ) -> Result<i32> {
        let parsed = self.parse(arguments);
        if parsed.as_ref().is_ok_and(|arguments| arguments.has("help")) {
            return Ok(console.print_help(&format!("{}{}", self.usage, self.further_usage))?);
        }
        match parsed.and_then(|arguments| Ok((understand(&arguments, console)?, arguments))) {
            Ok((understood, arguments)) => perform(understood, &arguments, console),
            Err(refusal) => Ok(self.refuse(refusal, console)?),
        }
    }

    fn parse<'a>(&self, arguments: &'a [String]) -> Result<ParsedArguments<'a>, NodeRefusal> {
        if arguments.is_empty() {
            return Err(NodeRefusal::Usage(String::new()));
        }
        console::parse_node(arguments, self.valued, self.switches).map_err(|error| {
            NodeRefusal::Usage(match error {
                ArgumentError::NeedsValue(argument) => {
                    format!("the option '{argument}' needs a value")
                }
                ArgumentError::UnknownName(argument)
                | ArgumentError::UnknownLetter(_, argument)
                | ArgumentError::TakesNoValue(argument) => format!("unknown option '{argument}'"),
            })
        })
    }

    fn refuse(&self, refusal: NodeRefusal, console: &mut DropInConsole<'_>) -> io::Result<i32> {
        match refusal {
            NodeRefusal::Usage(reason) => console.reject(self.tool, &reason, self.usage),
            NodeRefusal::Line(line) => {
                writeln!(console.stderr, "{line}")?;
                Ok(console::EXIT_REJECTED)
            }
        }
    }
}

/// Environment variable that names the benchmark folder if `--dir` is not given.
pub const FOLDER_VARIABLE: &str = "SPEEDWELL_BENCHMARK_DIR";

/// Returns the benchmark folder: the one named by `--dir`, else the one named by the variable
/// `SPEEDWELL_BENCHMARK_DIR`. If neither is given, it is the working directory or its subfolder
/// `benchmark`, whichever contains a `common.js`.
///
/// # Errors
/// Fails if no such folder exists.
pub fn benchmark_folder(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<PathBuf, NodeRefusal> {
    let name = arguments.value("dir").map(str::to_owned);
    if let Some(name) = name.or_else(|| (console.variable)(FOLDER_VARIABLE)) {
        let path = Some(console.directory.join(&name)).filter(|path| path.is_dir());
        return path.ok_or_else(|| NodeRefusal::Line(format!("'{name}' is not a directory")));
    }
    let directory = &console.directory;
    let mut candidates = [directory.clone(), directory.join("benchmark")].into_iter();
    candidates.find(|path| path.join("common.js").is_file()).ok_or_else(|| {
        NodeRefusal::Line(format!(
            "found no benchmark folder with a 'common.js' in '{}'\n\
             hint: name one with '--dir' or {FOLDER_VARIABLE}",
            directory.display()
        ))
    })
}

/// Returns the scripts that the filters select, group by group in the requested order.
///
/// # Errors
/// Fails if a group does not exist, or no script is left.
pub fn select_scripts(
    folder: &Path,
    arguments: &ParsedArguments<'_>,
) -> Result<Vec<BenchmarkScript>, NodeRefusal> {
    let unreadable = |error: io::Error| {
        NodeRefusal::Line(format!("cannot read '{}': {error}", folder.display()))
    };
    // Every folder is a group, except `fixtures`, which contains files that benchmarks read.
    let mut all_groups = sorted_entries(folder).map_err(unreadable)?;
    all_groups.retain(|name| name != "fixtures" && folder.join(name).is_dir());
    let requested: Vec<&str> = if arguments.others.contains(&"all") {
        all_groups.iter().map(String::as_str).collect()
    } else {
        arguments.others.clone()
    };
    let mut scripts = Vec::new();
    for group in requested {
        if !all_groups.iter().any(|existing| existing == group) {
            return Err(NodeRefusal::Line(format!("The \"{group}\" category does not exist.")));
        }
        // A folder among the files is a script, too; it contains an `index.js`.
        let mut files = sorted_entries(&folder.join(group)).map_err(unreadable)?;
        files.retain(|file| !file.starts_with(['.', '_']) && passes_filters(arguments, file));
        scripts.extend(files.into_iter().map(|file| BenchmarkScript {
            path: folder.join(group).join(&file),
            name: format!("{group}/{file}"),
        }));
    }
    if scripts.is_empty() {
        return Err(NodeRefusal::Line("No benchmarks found".to_owned()));
    }
    Ok(scripts)
}

/// Whether a file is selected: no exclusion matches its name and, if there are filters, at least
/// one filter matches it.
fn passes_filters(arguments: &ParsedArguments<'_>, file: &str) -> bool {
    let mut filters = arguments.values("filter").peekable();
    let is_admitted = filters.peek().is_none() || filters.any(|filter| file.contains(filter));
    is_admitted && !arguments.values("exclude").any(|exclude| file.contains(exclude))
}

fn sorted_entries(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        // Names that are not valid Unicode are skipped, because no one can type them.
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Returns the script that a path names, and the benchmark folder that contains it, if any.
///
/// # Errors
/// Fails if the path does not exist.
pub fn find_script(
    path: &str,
    console: &DropInConsole<'_>,
) -> Result<(BenchmarkScript, Option<PathBuf>), NodeRefusal> {
    let absolute = console.directory.join(path).canonicalize();
    let absolute =
        absolute.map_err(|error| NodeRefusal::Line(format!("cannot read '{path}': {error}")))?;
    let folder = absolute.ancestors().skip(1).find(|ancestor| ancestor.join("common.js").is_file());
    let below_folder = folder.and_then(|folder| absolute.strip_prefix(folder).ok());
    // Outside of a benchmark folder the name consists of the file and its parent folder.
    let parts = absolute.iter().count();
    let last_two: PathBuf = absolute.iter().skip(parts.saturating_sub(2)).collect();
    let name = below_folder.unwrap_or(&last_two).to_string_lossy().into_owned();
    let benchmark_folder = folder.map(Path::to_owned);
    Ok((BenchmarkScript { name, path: absolute }, benchmark_folder))
}

// The drop-in for `run.js`: runs each script of the requested groups, by default once.

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "run.js",
    usage: include_str!("../usage/run.js.txt"),
    further_usage: include_str!("../usage/run.js.further.txt"),
    valued: &["set", "filter", "exclude", "format", "runs", "dir"],
    switches: &["help"],
};

/// Executes the scripts and prints their results; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_scripts)
}

fn run_scripts(
    (request, is_csv): (ScriptsRequest, bool),
    _: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let mut printer = RunPrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, false),
        is_csv,
        pending: request.scripts.iter().map(|script| script.name.clone()).collect(),
        current: None,
    };
    if printer.is_csv {
        printer.driver.out.write_all(node_csv::RUN_HEADER.as_bytes())?;
    }
    printer.driver.out.flush()?;
    measure(&request, &mut printer)?;
    Ok(printer.driver.failures.exit_status())
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<(ScriptsRequest, bool), NodeRefusal> {
    if arguments.others.is_empty() {
        return Err(NodeRefusal::Usage(String::new()));
    }
    let is_csv = match arguments.value("format") {
        None | Some("simple") => false,
        Some("csv") => true,
        Some(_) => return Err(NodeRefusal::Line("Invalid format detected".to_owned())),
    };
    let folder = benchmark_folder(arguments, console)?;
    let scripts = select_scripts(&folder, arguments)?;
    let variants = vec![Variant::plain("default")];
    let request = ScriptsRequest {
        test: arguments.has("test"),
        ..build_request(arguments, scripts, Some(folder), variants, 1)?
    };
    Ok((request, is_csv))
}

struct RunPrinter<'a> {
    driver: NodeDriver<'a>,
    /// Whether results are printed as CSV instead of lines below headings.
    is_csv: bool,
    /// Scripts whose heading has not been written.
    pending: Vec<String>,
    current: Option<String>,
}

impl RunPrinter<'_> {
    /// Writes the headings of all scripts up to `script`. As in `run.js` itself, scripts without
    /// results also have headings.
    fn enter_script(&mut self, script: &str) -> Result<()> {
        if self.current.as_deref() == Some(script) {
            return Ok(());
        }
        self.current = Some(script.to_owned());
        let entered = match self.pending.iter().position(|name| name == script) {
            Some(last) => self.pending.drain(..=last).collect(),
            None => vec![script.to_owned()],
        };
        self.print_headings(entered)
    }

    fn print_headings(&mut self, scripts: Vec<String>) -> Result<()> {
        for script in scripts {
            if !self.is_csv {
                writeln!(self.driver.out, "\n{script}")?;
            }
        }
        Ok(())
    }

    fn print_run(&mut self, run: &Run) -> Result<()> {
        let (name, values) = (&run.case.benchmark, &run.case.values);
        for measured in driver::throughput_samples(run) {
            let line = if self.is_csv {
                node_csv::format_run_row(name, values, measured)
            } else {
                format_simple_line(name, values, measured.rate)
            };
            self.driver.out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

impl SessionObserver for RunPrinter<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.driver.handle_event(event)?;
        match event {
            SessionEvent::RunFinished(run) => {
                let script = self.driver.scripts.script_of_run(run).to_owned();
                self.enter_script(&script)?;
                self.print_run(run)?;
            }
            SessionEvent::Failed(failure) => {
                let scripts = &self.driver.scripts;
                let script = scripts.script_of_step(failure.slot, &failure.benchmark).to_owned();
                self.enter_script(&script)?;
            }
            SessionEvent::Finished { interrupted: false } => {
                let pending = std::mem::take(&mut self.pending);
                self.print_headings(pending)?;
            }
            _ => {}
        }
        Ok(self.driver.out.flush()?)
    }
}

/// Formats one result as `run.js` does.
fn format_simple_line(name: &str, values: &[(String, ParameterValue)], rate: f64) -> String {
    let pairs = node_csv::join_parameters(values, javascript::format_json);
    format!("{name} {pairs}: {}\n", with_separators(&javascript::format_number(rate)))
}

/// Separates groups of three digits of the integer part by commas; the rest stays unchanged.
fn with_separators(number: &str) -> String {
    let start = number.len() - number.trim_start_matches('-').len();
    let digits = number[start..].bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = number[start..].split_at(digits);
    let groups: Vec<_> = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{}{}{rest}", &number[..start], groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: CommandLine = CommandLine {
        tool: "run.js",
        usage: "",
        further_usage: "",
        valued: &["set", "filter", "runs", "old"],
        switches: &["no-progress"],
    };

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn refusal(line: &str) -> NodeRefusal {
        LINE.parse(&words(line)).unwrap_err()
    }

    fn requested(line: &str) -> Result<ScriptsRequest, NodeRefusal> {
        let words = words(line);
        build_request(&LINE.parse(&words).unwrap(), Vec::new(), None, Vec::new(), 30)
    }

    #[test]
    fn options_come_first_and_one_dash_is_as_good_as_two() {
        let words = words("--set a=1 -set b=2 -no-progress --runs 3 url util");
        let read = LINE.parse(&words).unwrap();
        assert_eq!(read.values("set").collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(read.others, ["url", "util"]);
        assert!(read.has("no-progress"));
        assert_eq!(read.value("runs"), Some("3"));
    }

    #[test]
    fn everything_after_the_first_positional_argument_is_positional() {
        let others = |line| LINE.parse(&words(line)).unwrap().others.join(" ");
        assert_eq!(others("zz --filter kill"), "zz --filter kill");
        assert_eq!(others("--set a=1 -- --odd"), "--odd");
    }

    #[test]
    fn the_word_test_is_a_mode_unless_it_is_a_value() {
        for line in ["test url", "url test"] {
            let words = words(line);
            let read = LINE.parse(&words).unwrap();
            assert!(read.has("test") && read.others == ["url"]);
        }
        let words = words("--filter test url");
        let value = LINE.parse(&words).unwrap();
        assert!(!value.has("test") && value.value("filter") == Some("test"));
    }

    #[test]
    fn values_may_look_like_options() {
        let words = words("--set -x url");
        assert_eq!(LINE.parse(&words).unwrap().value("set"), Some("-x"));
    }

    #[test]
    fn unknown_options_are_errors_instead_of_swallowing_the_next_word() {
        assert_eq!(
            refusal("--flter url"),
            NodeRefusal::Usage("unknown option '--flter'".to_owned())
        );
        assert_eq!(refusal("-h"), NodeRefusal::Usage("unknown option '-h'".to_owned()));
        assert_eq!(
            refusal("--runs"),
            NodeRefusal::Usage("the option '--runs' needs a value".to_owned())
        );
        assert_eq!(refusal(""), NodeRefusal::Usage(String::new()));
    }

    #[test]
    fn zero_runs_are_refused_instead_of_crashing() {
        for wrong in ["0", "-1", "many", "1.5"] {
            let refused = requested(&format!("--runs {wrong} x"));
            assert!(matches!(refused, Err(NodeRefusal::Usage(_))));
        }
        assert_eq!(requested("--runs 3 x").unwrap().runs, 3);
        assert_eq!(requested("x").unwrap().runs, 30);
    }

    #[test]
    fn parameters_are_pairs() {
        let sets = requested("--set n=1e6 --set q=a=b --set e= x").unwrap().sets;
        let pairs = [("n", "1e6"), ("q", "a=b"), ("e", "")];
        assert_eq!(sets, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let refused = |line| requested(line).unwrap_err();
        assert_eq!(refused("--set n x"), NodeRefusal::Line("bad argument: n".to_owned()));
        assert_eq!(refused("--set =1 x"), NodeRefusal::Line("bad argument: =1".to_owned()));
    }

    #[test]
    fn processors_are_numbers_and_ranges() {
        let processors = |list: &str| requested(&format!("--set CPUSET={list} x"));
        for right in ["0", "0-2", "0,2-4"] {
            assert_eq!(processors(right).unwrap().processors, Some(right.into()));
        }
        for wrong in ["", "a", "2-0", "0,", "0;rm"] {
            assert!(processors(wrong).is_err(), "{wrong}");
        }
        assert_eq!(requested("x").unwrap().processors, None);
    }

    #[test]
    fn only_the_whole_part_is_grouped() {
        for (number, grouped) in [
            ("814", "814"),
            ("3665.14", "3,665.14"),
            ("1136275.8332310684", "1,136,275.8332310684"),
            ("0.0001234", "0.0001234"),
            ("1.7976931348623157e+308", "1.7976931348623157e+308"),
            ("-1234", "-1,234"),
            ("123456", "123,456"),
        ] {
            assert_eq!(with_separators(number), grouped);
        }
    }

    #[test]
    fn a_case_without_parameters_has_a_blank_before_the_colon() {
        assert_eq!(format_simple_line("g/a.js", &[], 5.0), "g/a.js : 5\n");
    }
}
