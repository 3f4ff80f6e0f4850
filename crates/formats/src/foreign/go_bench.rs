//! Parses the lines of `go test -bench` output, each on its own.
//!
//! Start at [`GoBenchLine::parse`]. The format is Go's "Benchmark Data Format"
//! (golang.org/design/14313-benchmark-format); cmd/go and the `testing` package also print lines
//! that this format does not define. [`measure_for_unit`] decides what the units of a line measure,
//! and [`case_from_name`] decides what the name in a line means. With `-json` the lines are wrapped
//! in events (`go doc test2json`), and packages that are tested concurrently are interleaved.

use crate::foreign::json::JsonContent;
use crate::foreign::require_utf8;
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result};
use indexmap::IndexMap;
use serde::Deserialize;
use speedwell_model::{Case, Metric, MetricDirection, ParameterValue};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Keys of the configuration lines that `go test` itself writes.
const CONFIGURATION_KEYS: [&str; 4] = ["goos", "goarch", "pkg", "cpu"];

/// Kind of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum GoBenchLine<'a> {
    /// A result with its name.
    Result(&'a str, GoFigures<'a>),
    /// A name whose result follows later, because the benchmark itself printed something.
    Begin(&'a str),
    /// A result whose name is in an earlier `Begin` line.
    Rest(GoFigures<'a>),
    /// `goos: linux`.
    Configuration(&'a str, &'a str),
    /// `Unit NAME better=higher`.
    Direction {
        /// Unit.
        unit: &'a str,
        /// Whether higher is better.
        is_higher: bool,
    },
    /// `--- FAIL: NAME`.
    Fail(&'a str),
    /// `--- SKIP: NAME`.
    Skip(&'a str),
    /// Last line of a package. It contains the path of the package, if stated, and whether all
    /// tests passed.
    End(Option<&'a str>, bool),
    /// `panic: WHY`.
    Panic(&'a str),
    /// An indented line: a log message, or the reason for a failure or skip. The reason follows the
    /// line that reports the failure or skip; with `-v`, it precedes that line.
    Log(&'a str),
    /// A name alone, without GOMAXPROCS, as `-v` prints it before the results of the benchmark.
    Announced(&'a str),
    /// A line of the Go tools that contains nothing of interest.
    Quiet,
    /// Anything else.
    Other,
}

/// Figures of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct GoFigures<'a> {
    /// Number of iterations.
    pub iterations: f64,
    /// Values with their units, as in the line.
    pub values: Vec<(f64, &'a str)>,
}

impl<'a> GoBenchLine<'a> {
    /// Parses `line`, which has no line end.
    pub fn parse(line: &'a str) -> GoBenchLine<'a> {
        if let Some(line_content) = parse_result(line).or_else(|| parse_tool_line(line)) {
            return line_content;
        }
        if line.starts_with("    ") {
            return GoBenchLine::Log(line.trim());
        }
        let is_quiet = line.trim().is_empty()
            || ["=== ", "--- BENCH: ", "exit status ", "coverage: ", "?   "]
                .iter()
                .any(|start| line.starts_with(start));
        match line.trim_end() {
            name if is_benchmark_name(name) && !name.contains(char::is_whitespace) => {
                GoBenchLine::Announced(name)
            }
            _ if is_quiet => GoBenchLine::Quiet,
            _ => GoBenchLine::Other,
        }
    }
}

/// Parses a result, or the name of a result that follows on a later line.
fn parse_result(line: &str) -> Option<GoBenchLine<'_>> {
    let (first, figures_text) = line.split_once(char::is_whitespace)?;
    if is_benchmark_name(first) {
        if let Some(figures) = parse_figures(figures_text) {
            return Some(GoBenchLine::Result(first, figures));
        }
        return figures_text
            .trim_start_matches(' ')
            .starts_with('\t')
            .then_some(GoBenchLine::Begin(first));
    }
    parse_figures(line).map(GoBenchLine::Rest)
}

/// Parses lines that the Go tools print.
fn parse_tool_line(line: &str) -> Option<GoBenchLine<'_>> {
    let mut words = line.split_whitespace();
    if line.starts_with("PASS") || line.starts_with("ok  \t") || line.starts_with("FAIL") {
        let is_good = !line.starts_with("FAIL");
        return match words.next()? {
            "PASS" => Some(GoBenchLine::Quiet),
            // Go prints FAIL alone on a line before the line that names a failed package, and once
            // more after the last package.
            "FAIL" if words.clone().next().is_none() => Some(GoBenchLine::Quiet),
            "ok" | "FAIL" => Some(GoBenchLine::End(words.next(), is_good)),
            _ => None,
        };
    }
    if let Some(message) = line.strip_prefix("panic: ") {
        return Some(GoBenchLine::Panic(message));
    }
    let benchmark = |start: &str| {
        let tail = line.trim_start().strip_prefix(start)?;
        tail.split_whitespace().next().filter(|name| is_benchmark_name(name))
    };
    let stopped = benchmark("--- FAIL: ")
        .map(GoBenchLine::Fail)
        .or_else(|| benchmark("--- SKIP: ").map(GoBenchLine::Skip));
    if stopped.is_some() {
        return stopped;
    }
    if line.starts_with("Unit ") {
        let unit = words.nth(1)?;
        return words.find_map(|word| {
            let is_higher = word.strip_prefix("better=")? == "higher";
            Some(GoBenchLine::Direction { unit, is_higher })
        });
    }
    let (key, value) = line.split_once(':')?;
    CONFIGURATION_KEYS.contains(&key).then(|| GoBenchLine::Configuration(key, value.trim()))
}

/// Applies Go's rule for benchmark function names: `Benchmark`, then anything but a lowercase
/// letter.
fn is_benchmark_name(word: &str) -> bool {
    word.strip_prefix("Benchmark").is_some_and(|rest| !rest.starts_with(char::is_lowercase))
}

/// Parses `62466  97.59 ns/op  16 B/op`.
fn parse_figures(text: &str) -> Option<GoFigures<'_>> {
    let mut words = text.split_whitespace();
    let iterations: u64 = words.next()?.parse().ok()?;
    let mut values = Vec::new();
    while let Some(value) = words.next() {
        values.push((value.parse().ok()?, words.next()?));
    }
    (!values.is_empty()).then_some(GoFigures { iterations: iterations as f64, values })
}

/// The units that Go's `testing` package reports, each with the name of its metric, the stored
/// unit, the direction, and the factor from the reported to the stored unit.
const KNOWN_UNITS: [(&str, &str, &str, MetricDirection, f64); 4] = [
    ("ns/op", "time", "ns", MetricDirection::Lower, 1.0),
    ("MB/s", "bytes_per_second", "B/s", MetricDirection::Higher, 1e6),
    ("B/op", "bytes_per_op", "B", MetricDirection::Lower, 1.0),
    ("allocs/op", "allocs_per_op", "", MetricDirection::Lower, 1.0),
];

/// Returns the metric and the conversion factor of a unit. `is_higher` is the direction that a
/// `Unit` line states for the unit, if there is such a line; it overrides the usual direction.
pub fn measure_for_unit(unit: &str, is_higher: Option<bool>) -> MetricConversion {
    let unknown = (unit, unit, unit, MetricDirection::of_unit(unit), 1.0);
    let known = KNOWN_UNITS.into_iter().find(|(known, ..)| *known == unit);
    let (_, name, stored_unit, usual, factor) = known.unwrap_or(unknown);
    let better = match is_higher {
        Some(true) => MetricDirection::Higher,
        Some(false) => MetricDirection::Lower,
        None => usual,
    };
    MetricConversion { metric: Metric::new(name, stored_unit, better), factor }
}

/// Returns the case of a benchmark, given its name without GOMAXPROCS: `BenchmarkJoin/n=8`.
///
/// Parts of a sub-benchmark's name that have the form `key=value` become parameters. `processors`
/// is GOMAXPROCS; if it is known, it also becomes a parameter.
pub fn case_from_name(package: Option<&str>, name: &str, processors: Option<u32>) -> Case {
    let mut benchmark = String::new();
    let mut values: Vec<(String, ParameterValue)> = Vec::new();
    for (index, part) in name.split('/').enumerate() {
        match part.split_once('=') {
            Some((key, value)) if index > 0 && is_new_parameter(key, &values) => {
                values.push((key.to_owned(), ParameterValue::infer_value(value)));
            }
            _ => {
                let slash = if index > 0 { "/" } else { "" };
                benchmark.push_str(&format!("{slash}{part}"));
            }
        }
    }
    let is_name = |name: &&str| !name.is_empty() && !name.starts_with('/');
    let short_name = benchmark.strip_prefix("Benchmark").filter(is_name).unwrap_or(&benchmark);
    values.extend(
        processors
            .map(|count| (PROCESSORS_PARAMETER.to_owned(), ParameterValue::Number(count.into()))),
    );
    let folder = package.map(|package| format!("{package}/")).unwrap_or_default();
    Case::new(folder + short_name, values)
}

/// Name of the parameter that holds GOMAXPROCS, the same as in benchstat.
const PROCESSORS_PARAMETER: &str = "gomaxprocs";

fn is_new_parameter(key: &str, values: &[(String, ParameterValue)]) -> bool {
    !key.is_empty()
        && key != PROCESSORS_PARAMETER
        && values.iter().all(|(existing, _)| existing != key)
}

/// Decides which numbers at the ends of names are GOMAXPROCS.
///
/// Go's `testing` package appends `-N` to the name of a result unless N is 1, but `gzip-6` may also
/// be the name of a sub-benchmark. With `-v`, Go prints the name without GOMAXPROCS before the
/// result, which resolves the ambiguity. Otherwise, a number is taken as GOMAXPROCS only if every
/// benchmark of the package was measured with this number. If the names are `X`, `X-2` and `X-4`
/// (`-cpu 1,2,4`), 2 and 4 are GOMAXPROCS; if they are `gzip`, `gzip-6` and `none`, 6 is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessorSuffixes(BTreeSet<u32>);

impl ProcessorSuffixes {
    /// Infers the numbers from the names of all results of a package.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> ProcessorSuffixes {
        let distinct: BTreeSet<&str> = names.into_iter().collect();
        // Number of results per benchmark, assuming that every number at the end of a name is
        // GOMAXPROCS.
        let mut results: HashMap<&str, usize> = HashMap::new();
        let mut with_number: BTreeMap<u32, Vec<(&str, &str)>> = BTreeMap::new();
        for name in &distinct {
            let end = number_at_end(name);
            let benchmark = end.map_or(*name, |(benchmark, _)| benchmark);
            *results.entry(benchmark).or_default() += 1;
            if let Some((_, number)) = end {
                with_number.entry(number).or_default().push((name, benchmark));
            }
        }
        // Reject the rarest number first. Of two equally rare numbers, first reject the one with
        // fewer benchmarks that were also measured without a number.
        let mut numbers: Vec<_> = with_number.into_iter().collect();
        numbers.sort_by_key(|(_, names)| {
            let also_without = names.iter().filter(|(_, benchmark)| distinct.contains(benchmark));
            (names.len(), also_without.count())
        });
        let mut first = numbers.len();
        for (index, (_, names)) in numbers.iter().enumerate() {
            if names.len() >= results.len() {
                first = index;
                break;
            }
            for (name, benchmark) in names {
                match results.get_mut(benchmark) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(results.remove(benchmark)),
                }
                *results.entry(name).or_default() += 1;
            }
        }
        ProcessorSuffixes(numbers[first..].iter().map(|(number, _)| *number).collect())
    }

    /// Adds the numbers that are certain to be GOMAXPROCS, because `-v` printed the names without
    /// them.
    #[must_use]
    pub fn with_announced(mut self, numbers: impl IntoIterator<Item = u32>) -> ProcessorSuffixes {
        self.0.extend(numbers.into_iter().filter(|number| *number > 1));
        self
    }

    /// Splits the name of a result into benchmark and GOMAXPROCS, which is 1 if no number is
    /// appended.
    pub fn split_name<'n>(&self, name: &'n str) -> (&'n str, u32) {
        number_at_end(name).filter(|(_, number)| self.0.contains(number)).unwrap_or((name, 1))
    }

    /// Splits the name of a benchmark that failed or was skipped. The name has no number if the
    /// benchmark stopped in its first iteration; GOMAXPROCS is then the number in the names of
    /// results, if there is only one.
    pub fn split_stopped_name<'n>(&self, name: &'n str, announced: Option<&str>) -> (&'n str, u32) {
        let split = announced.and_then(|announced| split_announced_name(announced, name));
        match split.unwrap_or_else(|| self.split_name(name)) {
            (name, 1) if self.0.len() == 1 => (name, self.0.first().copied().unwrap_or(1)),
            split => split,
        }
    }
}

/// Splits the name of a result into benchmark and GOMAXPROCS. `announced` is the name that `-v`
/// printed before the result. Returns `None` if the result belongs to another benchmark.
pub fn split_announced_name<'n>(announced: &str, name: &'n str) -> Option<(&'n str, u32)> {
    if name == announced {
        return Some((name, 1));
    }
    number_at_end(name).filter(|(benchmark, _)| *benchmark == announced)
}

/// Splits a name before the number at its end if Go's `testing` package may have appended the
/// number. Such a number is never 1 and has no leading zeros.
fn number_at_end(name: &str) -> Option<(&str, u32)> {
    let (benchmark, digits) = name.rsplit_once('-')?;
    let is_appended = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse().ok().filter(|number| *number > 1);
    number.filter(|_| is_appended).map(|number| (benchmark, number))
}

/// Returns the shell command that runs only this benchmark, given its name without GOMAXPROCS.
pub fn replay_command(package: Option<&str>, name: &str) -> String {
    let parts: Vec<String> =
        name.split('/').map(|part| format!("^{}$", regex::escape(part))).collect();
    let pattern = parts.join("/");
    shell_words::join(["go", "test", "-run", "^$", "-bench", &pattern, package.unwrap_or(".")])
}

/// The keys that are read from an event of `go test -json`. Only events about output have the key
/// `Output`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TestEvent {
    package: String,
    output: String,
}

/// Returns whether the data are events of `go test -json`.
pub fn is_events(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    // Cheap check first: the line may be a whole file.
    first.trim_ascii_start().starts_with(b"{") && JsonContent::new(first).has_key(1, "Action")
}

/// Returns the text that the tests printed, taken from events and joined package by package.
///
/// # Errors
/// Fails if a line is not an event; the message names the line.
pub fn output_of_events(bytes: &[u8]) -> Result<String> {
    let mut packages: IndexMap<String, String> = IndexMap::new();
    for (line, number) in require_utf8(bytes)?.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let event: TestEvent = serde_json::from_str(line).with_context(|| {
            format!("line {number} is not an event of go test -json\nhint: is the file cut short?")
        })?;
        packages.entry(event.package).or_default().push_str(&event.output);
    }
    Ok(packages.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_classified_by_their_form() {
        let figures = GoFigures { iterations: 20.0, values: vec![(1.5, "ns/op"), (3.0, "x/y")] };
        for (line, expected) in [
            (
                "BenchmarkA/n=8-2 \t 20\t 1.5 ns/op 3 x/y",
                GoBenchLine::Result("BenchmarkA/n=8-2", figures.clone()),
            ),
            ("BenchmarkA-2  \thello", GoBenchLine::Begin("BenchmarkA-2")),
            (" 20\t 1.5 ns/op 3 x/y", GoBenchLine::Rest(figures)),
            ("BenchmarkA-2 takes long", GoBenchLine::Other),
            ("BenchmarkA-2 20 1.5", GoBenchLine::Other),
            ("Benchmarks 20 1.5 ns/op", GoBenchLine::Other),
            ("BenchmarkA", GoBenchLine::Announced("BenchmarkA")),
            ("cpu: A: B", GoBenchLine::Configuration("cpu", "A: B")),
            ("note: x", GoBenchLine::Other),
            ("--- FAIL: BenchmarkA-2", GoBenchLine::Fail("BenchmarkA-2")),
            ("--- FAIL: TestA (0.00s)", GoBenchLine::Other),
            ("FAIL\tx/y\t0.2s", GoBenchLine::End(Some("x/y"), false)),
            ("ok  \tx/y\t0.2s", GoBenchLine::End(Some("x/y"), true)),
            ("FAIL", GoBenchLine::Quiet),
            (
                "Unit fills/x better=higher",
                GoBenchLine::Direction { unit: "fills/x", is_higher: true },
            ),
        ] {
            assert_eq!(GoBenchLine::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_is_a_package_a_benchmark_and_parameters() {
        for (name, processors, id) in [
            ("BenchmarkJoin/n=8/sep=x", 2, "p/Join gomaxprocs=2 n=8 sep=x"),
            ("BenchmarkJoin/big/n=8", 1, "p/Join/big gomaxprocs=1 n=8"),
            ("BenchmarkJoin/a=1/a=2", 4, "p/Join/a=2 a=1 gomaxprocs=4"),
            ("BenchmarkJoin/=1/gomaxprocs=7", 1, "p/Join/=1/gomaxprocs=7 gomaxprocs=1"),
            ("Benchmark", 8, "p/Benchmark gomaxprocs=8"),
            ("BenchmarkA/utf-8", 1, "p/A/utf-8 gomaxprocs=1"),
        ] {
            assert_eq!(case_from_name(Some("p"), name, Some(processors)).id(), id, "{name}");
        }
        assert_eq!(case_from_name(None, "BenchmarkA/n=8", None).id(), "A n=8");
    }

    /// Returns `BENCHMARK PROCESSORS` for each result of a package.
    fn split_names(names: &[&str]) -> Vec<String> {
        let processors = ProcessorSuffixes::from_names(names.iter().copied());
        let split = names.iter().map(|name| processors.split_name(name));
        split.map(|(name, count)| format!("{name} {count}")).collect()
    }

    #[test]
    fn a_suffix_is_gomaxprocs_only_if_every_benchmark_has_it() {
        let compressions = ["B/gzip", "B/gzip-1", "B/gzip-6", "B/gzip-9"];
        let ones = compressions.map(|name| format!("{name} 1"));
        assert_eq!(split_names(&compressions), ones, "GOMAXPROCS=1");
        let with_two = compressions.map(|name| format!("{name}-2"));
        let twos = compressions.map(|name| format!("{name} 2"));
        assert_eq!(split_names(&with_two.each_ref().map(String::as_str)), twos);
        let all_names: Vec<&str> =
            compressions.into_iter().chain(with_two.iter().map(String::as_str)).collect();
        assert_eq!(split_names(&all_names), [ones, twos].concat(), "-cpu 1,2");
        assert_eq!(
            split_names(&["X", "X-2", "X-4", "Y", "Y-2", "Y-4"]),
            ["X 1", "X 2", "X 4", "Y 1", "Y 2", "Y 4"]
        );
        assert_eq!(split_names(&["X-2", "X-16"]), ["X 2", "X 16"], "-cpu 2,16");
        assert_eq!(split_names(&["gzip", "gzip-6", "none"]), ["gzip 1", "gzip-6 1", "none 1"]);
        assert_eq!(split_names(&["utf-8", "utf-8-2"]), ["utf-8 1", "utf-8 2"], "-cpu 1,2");
        assert_eq!(split_names(&["a-1", "b-1"]), ["a-1 1", "b-1 1"], "1 is never appended");
        assert_eq!(split_names(&["a-08", "b-08"]), ["a-08 1", "b-08 1"]);
    }

    #[test]
    fn an_announced_name_separates_gomaxprocs_from_the_name() {
        assert_eq!(split_announced_name("B/gzip", "B/gzip-2"), Some(("B/gzip", 2)));
        assert_eq!(split_announced_name("B/gzip-6", "B/gzip-6"), Some(("B/gzip-6", 1)));
        assert_eq!(split_announced_name("B/gzip-6", "B/gzip-6-8"), Some(("B/gzip-6", 8)));
        assert_eq!(split_announced_name("B/gzip", "B/gzip-1"), None);
        assert_eq!(split_announced_name("B/gzip", "B/other-2"), None);
    }

    #[test]
    fn directions_come_from_the_unit_or_from_its_line() {
        let direction = |unit, line| measure_for_unit(unit, line).metric.better;
        assert_eq!(direction("ns/op", None), MetricDirection::Lower);
        assert_eq!(direction("MB/s", None), MetricDirection::Higher);
        assert_eq!(direction("rows/second", None), MetricDirection::Higher);
        assert_eq!(direction("misses/s", None), MetricDirection::Unknown);
        assert_eq!(direction("hits/op", None), MetricDirection::Unknown);
        assert_eq!(direction("hits/op", Some(true)), MetricDirection::Higher);
        assert_eq!(direction("ops/s", Some(false)), MetricDirection::Lower, "the file says so");
    }

    #[test]
    fn the_replay_command_matches_every_part_of_the_name_exactly() {
        assert_eq!(
            replay_command(Some("x/y"), "BenchmarkA/n=8"),
            "go test -run '^$' -bench '^BenchmarkA$/^n=8$' x/y"
        );
    }
}
