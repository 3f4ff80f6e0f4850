//! One line of the output of `go test -bench`.
//!
//! Decides what a line is; it must not know the lines around it. Start at [`Line::of`]. The format
//! is Go's "Benchmark Data Format" (golang.org/design/14313-benchmark-format), the other lines are
//! those of cmd/go and package testing. What the units of a line measure is decided by [`measure_of_unit`], what its name stands for by
//! [`case`]; with `-json` the lines are wrapped in events (`go doc test2json`), and packages tested at the same time are mixed.

use crate::foreign::json::Content;
use crate::foreign::unit::Measure;
use crate::foreign::utf8;
use anyhow::{Context, Result};
use indexmap::IndexMap;
use serde::Deserialize;
use speedwell_model::{Better, Case, Metric, Value};

/// The keys of configuration lines that `go test` itself writes.
const KEYS: [&str; 4] = ["goos", "goarch", "pkg", "cpu"];

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<'a> {
    /// A result with its name.
    Result(&'a str, Figures<'a>),
    /// A name whose result stands further down, as the benchmark itself printed something.
    Begin(&'a str),
    /// A result without a name.
    Rest(Figures<'a>),
    /// `goos: linux`.
    Configuration(&'a str, &'a str),
    /// `Unit NAME better=higher`.
    Direction {
        /// The unit.
        unit: &'a str,
        /// Whether more of it is better.
        is_higher: bool,
    },
    /// `--- FAIL: NAME`.
    Fail(&'a str),
    /// `--- SKIP: NAME`.
    Skip(&'a str),
    /// The last line of a package: its path if it is told, and whether all went well.
    End(Option<&'a str>, bool),
    /// `panic: WHY`.
    Panic(&'a str),
    /// A line that belongs to the line before, which is a failure, a skip or a log.
    Log(&'a str),
    /// A line of the tools without a result.
    Quiet,
    /// Anything else.
    Other,
}

/// The figures of one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures<'a> {
    /// How many iterations were executed.
    pub iterations: f64,
    /// Values with their units, as they stand in the line.
    pub values: Vec<(f64, &'a str)>,
}

impl<'a> Line<'a> {
    /// What `line` is, which has no line end.
    pub fn parse(line: &'a str) -> Line<'a> {
        if let Some(found) = measured(line).or_else(|| said_by_tools(line)) {
            return found;
        }
        if line.starts_with("    ") {
            return Line::Log(line.trim());
        }
        let is_quiet = line.trim().is_empty()
            || ["=== ", "--- BENCH: ", "exit status ", "coverage: ", "?   "]
                .iter()
                .any(|start| line.starts_with(start))
            // With -v the name stands alone before the line of the result.
            || (is_name(line.trim()) && !line.contains(char::is_whitespace));
        if is_quiet { Line::Quiet } else { Line::Other }
    }
}

/// Results and their beginnings.
fn measured(line: &str) -> Option<Line<'_>> {
    let (first, rest) = line.split_once(char::is_whitespace)?;
    if is_name(first) {
        if let Some(figures) = figures(rest) {
            return Some(Line::Result(first, figures));
        }
        return rest
            .trim_start_matches(' ')
            .starts_with('\t')
            .then_some(Line::Begin(first));
    }
    figures(line).map(Line::Rest)
}

/// What the tools say.
fn said_by_tools(line: &str) -> Option<Line<'_>> {
    let mut words = line.split_whitespace();
    if line.starts_with("PASS") || line.starts_with("ok  \t") || line.starts_with("FAIL") {
        let is_good = !line.starts_with("FAIL");
        return match words.next()? {
            "PASS" => Some(Line::Quiet),
            // FAIL stands alone above the line that names the package, and below the last package.
            "FAIL" if words.clone().next().is_none() => Some(Line::Quiet),
            "ok" | "FAIL" => Some(Line::End(words.next(), is_good)),
            _ => None,
        };
    }
    if let Some(why) = line.strip_prefix("panic: ") {
        return Some(Line::Panic(why));
    }
    let benchmark = |start: &str| {
        let rest = line.trim_start().strip_prefix(start)?;
        rest.split_whitespace().next().filter(|name| is_name(name))
    };
    let stopped = benchmark("--- FAIL: ")
        .map(Line::Fail)
        .or_else(|| benchmark("--- SKIP: ").map(Line::Skip));
    if stopped.is_some() {
        return stopped;
    }
    if line.starts_with("Unit ") {
        let unit = words.nth(1)?;
        return words.find_map(|word| {
            let is_higher = word.strip_prefix("better=")? == "higher";
            Some(Line::Direction { unit, is_higher })
        });
    }
    let (key, value) = line.split_once(':')?;
    KEYS.contains(&key)
        .then(|| Line::Configuration(key, value.trim()))
}

/// Go's rule for the names of functions: `Benchmark`, then anything but a small letter.
fn is_name(word: &str) -> bool {
    word.strip_prefix("Benchmark")
        .is_some_and(|rest| !rest.starts_with(char::is_lowercase))
}

/// `62466  97.59 ns/op  16 B/op`.
fn figures(text: &str) -> Option<Figures<'_>> {
    let mut words = text.split_whitespace();
    let iterations: u64 = words.next()?.parse().ok()?;
    let mut values = Vec::new();
    while let Some(value) = words.next() {
        values.push((value.parse().ok()?, words.next()?));
    }
    (!values.is_empty()).then_some(Figures {
        iterations: iterations as f64,
        values,
    })
}

/// Units of package testing: name and unit here, good direction, factor.
const KNOWN: [(&str, &str, &str, Better, f64); 4] = [
    ("ns/op", "time", "ns", Better::Lower, 1.0),
    ("MB/s", "bytes_per_second", "B/s", Better::Higher, 1e6),
    ("B/op", "bytes_per_op", "B", Better::Lower, 1.0),
    ("allocs/op", "allocs_per_op", "", Better::Lower, 1.0),
];

/// The measure of a unit, which a `Unit` line may have given a direction.
pub fn measure_of_unit(unit: &str, is_higher: Option<bool>) -> Measure {
    let known = KNOWN.iter().find(|(known, ..)| *known == unit);
    let mut measure = match known {
        Some((_, name, unit, better, factor)) => Measure {
            metric: Metric::new(*name, *unit, *better),
            factor: *factor,
            is_guess: false,
        },
        None => {
            let is_rate = unit.ends_with("/s");
            Measure {
                metric: Metric::new(unit, unit, direction(is_rate)),
                factor: 1.0,
                is_guess: !is_rate && is_higher.is_none(),
            }
        }
    };
    if let Some(is_higher) = is_higher {
        measure.metric.better = direction(is_higher);
    }
    measure
}

fn direction(is_higher: bool) -> Better {
    if is_higher {
        Better::Higher
    } else {
        Better::Lower
    }
}

/// The case of a name as it is printed: `BenchmarkJoin/n=8-2`.
///
/// Parts `key=value` of a sub-benchmark are parameters. The number at the end is GOMAXPROCS, which
/// package testing leaves out if it is 1.
pub fn case(package: Option<&str>, name: &str) -> Case {
    let (name, processors) = processors(name);
    let mut benchmark = String::new();
    let mut values: Vec<(String, Value)> = Vec::new();
    for (at, part) in name.split('/').enumerate() {
        match part.split_once('=') {
            Some((key, value)) if at > 0 && is_new(key, &values) => {
                values.push((key.to_owned(), Value::guess(value)));
            }
            _ => {
                let slash = if at > 0 { "/" } else { "" };
                benchmark.push_str(&format!("{slash}{part}"));
            }
        }
    }
    let short = benchmark.strip_prefix("Benchmark").unwrap_or(&benchmark);
    let short = if short.is_empty() || short.starts_with('/') {
        benchmark.as_str()
    } else {
        short
    };
    values.push((PROCESSORS.to_owned(), Value::Number(processors)));
    match package {
        Some(package) => Case::new(format!("{package}/{short}"), values),
        None => Case::new(short, values),
    }
}

/// The parameter for the number at the end of a name; benchstat calls it so, too.
const PROCESSORS: &str = "gomaxprocs";

fn is_new(key: &str, values: &[(String, Value)]) -> bool {
    !key.is_empty() && key != PROCESSORS && values.iter().all(|(known, _)| known != key)
}

/// The name without the number at its end.
pub fn without_processors(name: &str) -> &str {
    processors(name).0
}

fn processors(name: &str) -> (&str, f64) {
    let end = name.rsplit_once('-').and_then(|(name, digits)| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = digits.parse().ok().filter(|_| is_number)?;
        Some((name, f64::from(number)))
    });
    end.unwrap_or((name, 1.0))
}

/// A line for a shell that executes this benchmark alone.
pub fn replay(package: Option<&str>, name: &str) -> String {
    let (name, _) = processors(name);
    let parts: Vec<String> = name
        .split('/')
        .map(|part| format!("^{}$", regex::escape(part)))
        .collect();
    let pattern = parts.join("/");
    shell_words::join([
        "go",
        "test",
        "-run",
        "^$",
        "-bench",
        &pattern,
        package.unwrap_or("."),
    ])
}

/// What is needed of an event; others have no output.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Package", default)]
    package: String,
    #[serde(rename = "Output", default)]
    output: String,
}

/// Whether bytes are events.
pub fn is_events(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').next();
    let first = first.unwrap_or_default();
    // A line is looked at only where it may be one: it may be a whole file.
    first.trim_ascii_start().starts_with(b"{") && Content::new(first).has(1, "Action")
}

/// What was printed, package by package.
///
/// # Errors
/// A line is no event; the message names it.
pub fn output_of_events(bytes: &[u8]) -> Result<String> {
    let mut packages: IndexMap<String, String> = IndexMap::new();
    for (line, number) in utf8(bytes)?.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(line).with_context(|| {
            format!("line {number} is no event of go test -json\nhint: is the file cut short?")
        })?;
        packages
            .entry(event.package)
            .or_default()
            .push_str(&event.output);
    }
    Ok(packages.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_by_its_form() {
        let figures = Figures {
            iterations: 20.0,
            values: vec![(1.5, "ns/op"), (3.0, "x/y")],
        };
        for (line, expected) in [
            (
                "BenchmarkA/n=8-2 \t 20\t 1.5 ns/op 3 x/y",
                Line::Result("BenchmarkA/n=8-2", figures.clone()),
            ),
            ("BenchmarkA-2  \thello", Line::Begin("BenchmarkA-2")),
            (" 20\t 1.5 ns/op 3 x/y", Line::Rest(figures)),
            ("BenchmarkA-2 takes long", Line::Other),
            ("BenchmarkA-2 20 1.5", Line::Other),
            ("Benchmarks 20 1.5 ns/op", Line::Other),
            ("BenchmarkA", Line::Quiet),
            ("cpu: A: B", Line::Configuration("cpu", "A: B")),
            ("note: x", Line::Other),
            ("--- FAIL: BenchmarkA-2", Line::Fail("BenchmarkA-2")),
            ("--- FAIL: TestA (0.00s)", Line::Other),
            ("FAIL\tx/y\t0.2s", Line::End(Some("x/y"), false)),
            ("ok  \tx/y\t0.2s", Line::End(Some("x/y"), true)),
            ("FAIL", Line::Quiet),
            (
                "Unit fills/x better=higher",
                Line::Direction {
                    unit: "fills/x",
                    is_higher: true,
                },
            ),
        ] {
            assert_eq!(Line::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_is_a_package_a_benchmark_and_parameters() {
        for (name, id) in [
            ("BenchmarkJoin/n=8/sep=x-2", "p/Join gomaxprocs=2 n=8 sep=x"),
            ("BenchmarkJoin/big/n=8", "p/Join/big gomaxprocs=1 n=8"),
            ("BenchmarkJoin/a=1/a=2-4", "p/Join/a=2 a=1 gomaxprocs=4"),
            (
                "BenchmarkJoin/=1/gomaxprocs=7",
                "p/Join/=1/gomaxprocs=7 gomaxprocs=1",
            ),
            ("Benchmark-8", "p/Benchmark gomaxprocs=8"),
            ("BenchmarkA/utf-x", "p/A/utf-x gomaxprocs=1"),
        ] {
            assert_eq!(case(Some("p"), name).id(), id, "{name}");
        }
    }

    #[test]
    fn directions_come_from_the_unit_or_from_its_line() {
        let of = |unit, line| {
            let measure = measure_of_unit(unit, line);
            (measure.metric.better, measure.is_guess)
        };
        assert_eq!(of("ns/op", None), (Better::Lower, false));
        assert_eq!(of("MB/s", None), (Better::Higher, false));
        assert_eq!(of("fills/s", None), (Better::Higher, false));
        assert_eq!(of("hits/op", None), (Better::Lower, true));
        assert_eq!(of("hits/op", Some(true)), (Better::Higher, false));
    }

    #[test]
    fn a_shell_line_names_every_level() {
        assert_eq!(
            replay(Some("x/y"), "BenchmarkA/n=8-2"),
            "go test -run '^$' -bench '^BenchmarkA$/^n=8$' x/y"
        );
    }
}
