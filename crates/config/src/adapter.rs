//! Reads adapters: tables `[suite.NAME]` that define how benchmarks of another suite are listed and
//! executed one by one, and how their results are read.
//!
//! This module decides what such a table may contain, and checks all of it. Other modules decide
//! how processes are started and what their outputs mean. Start at [`SuiteAdapter::parse_all`];
//! docs/reference/suites.md describes the keys.

use super::file_part::{self, FilePart, nearest_hint};
use super::value::OneOrMany;
use anyhow::{Context, Result};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Placeholders in the strings of an adapter. `{options}`, `{arguments}` and `{parameters}` each
/// take the place of a whole argument and expand to zero or more arguments.
const PLACEHOLDERS: [&str; 21] = [
    "program",
    "file",
    "folder",
    "name",
    "pattern",
    "escaped",
    "levels",
    "output",
    "scratch",
    "pipe",
    "seconds",
    "total_seconds",
    "ms",
    "total_ms",
    "ns",
    "count",
    "key",
    "value",
    "options",
    "arguments",
    "parameters",
];

/// How to run one suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteAdapter {
    /// Name of the table, such as `google-benchmark`.
    pub name: String,
    /// Contents of the table.
    pub keys: AdapterKeys,
}

/// A table `[suite.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterKeys {
    /// How to recognize a target of the suite without executing it. Without this, a target must be
    /// named as 'NAME:TARGET'.
    pub recognise: Option<TargetCriteria>,
    /// Program that executes targets, such as "java". Without it, the target itself is the program.
    pub program: Option<String>,
    /// Command that builds `{output}` from the target, or "cargo"; the result is then recognized as
    /// a target in turn.
    pub build: Option<BuildStep>,
    /// Command that lists the cases.
    pub list: Vec<String>,
    /// Pattern for a line of the list, with groups `name` and, for `k=v` pairs, `params`. Without
    /// it, the list is parsed in the format that `read` selects.
    pub case: Option<String>,
    /// Command that executes one listed case briefly. Its results name the cases that the listed
    /// case contains.
    pub expand: Vec<String>,
    /// Command that executes one case.
    pub run: Vec<String>,
    /// Arguments for each parameter of a case, with `{key}` and `{value}`; they replace the
    /// argument `{parameters}`.
    pub parameters: Vec<String>,
    /// Environment variables of the suite's processes.
    pub environment: BTreeMap<String, String>,
    /// Format of results.
    pub read: ResultFormat,
    /// Pattern of the result file in `{scratch}`, such as `**/sample.json`, if it is not
    /// `{output}`.
    pub output: Option<String>,
    /// With `read = "json"`: path of the results, such as `results[*]`.
    pub results: String,
    /// With `read = "json"`: path of the name of a result; without it, there is one result.
    pub name: Option<String>,
    /// With `read = "json"`: path of the samples of a result, a number or a list.
    pub samples: Option<String>,
    /// With `read = "lines"`: pattern with groups `value` and, if lines have them, `name` and
    /// `unit`.
    pub line: Option<String>,
    /// With `read = "json"` or `read = "lines"`: unit of samples without one. Default: "ns". Times
    /// are stored in nanoseconds.
    pub unit: Option<String>,
    /// Whether less or more is better, if the unit does not imply it.
    pub better: Option<GoodDirection>,
    /// Arguments for -t, -n, -i and -w.
    pub options: OptionArguments,
    /// Defaults for the user's options; they replace the suite's own defaults.
    pub usual: DefaultOptions,
    /// Arguments for a trial (--test) that replace all options.
    pub trial: Option<Vec<String>>,
    /// User options to reject, because they would start several cases or write elsewhere.
    pub refuse: Vec<String>,
    /// How to determine the version of the suite.
    pub version: Option<VersionSource>,
    /// Oldest version whose benchmarks can be measured, such as "3".
    pub minimum: Option<String>,
    /// Pattern that the output of `run` matches if the benchmark was skipped and has no results; a
    /// group `reason` captures the reason.
    pub skipped: Option<String>,
    /// What to install if the program or the suite is missing.
    pub install: Option<String>,
    /// Pattern that the output of `list` matches if the program is installed but the suite is not.
    pub missing: Option<String>,
}

/// Criteria that identify a target. All given criteria must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetCriteria {
    /// String that the file contains, or several strings, one of which suffices.
    pub content: TextList,
    /// Pattern that matches the text of the file.
    pub pattern: Option<String>,
    /// Pattern of the file name: `*` matches anything, `{a,b}` one of the alternatives.
    pub glob: Option<String>,
    /// Type of the file by its content.
    pub kind: Option<FileKind>,
    /// The target is a folder that has a file for each of these name patterns; `pattern` and
    /// `content` then apply to files that match the last one, and the other criteria are ignored.
    pub folder: TextList,
}

/// One or several strings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$one-or-more")]
#[schemars(inline, with = "OneOrMany<String>")]
pub struct TextList(pub Vec<String>);

/// Type of a file by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// Executable of this system.
    Elf,
    /// ZIP archive, such as a jar.
    Zip,
    /// Text: a file without zero bytes.
    Text,
}

/// How programs are built from a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum BuildStep {
    /// Command that creates `{output}`.
    #[serde(rename = "a list")]
    Command(Vec<String>),
    /// Cargo, which reports every bench target that it built.
    #[serde(rename = "a string")]
    Tool(BuildTool),
}

/// Build tool that reports its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuildTool {
    /// `cargo bench --no-run`.
    Cargo,
}

/// Format of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResultFormat {
    /// JSON with results at given paths.
    #[default]
    Json,
    /// Text with lines that match a pattern.
    Lines,
    /// JSON of google/benchmark.
    GoogleBenchmark,
    /// Output of `go test -bench`.
    GoBench,
    /// `sample.json` of criterion.
    Criterion,
    /// Table printed by divan.
    Divan,
    /// Output of Rust's built-in test harness.
    Libtest,
    /// JSON of JMH, and its list with parameters.
    Jmh,
    /// JSON of pytest-benchmark.
    PytestBenchmark,
    /// JSON of pyperf.
    Pyperf,
    /// XML of Catch2.
    Catch2,
    /// JSON of `vitest bench`, and its output for skipped benchmarks.
    Vitest,
}

/// Whether less or more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GoodDirection {
    /// Times and sizes.
    Less,
    /// Rates.
    More,
}

/// Arguments that pass Speedwell's options to a command. `{seconds}`, `{ms}` and `{ns}` are the
/// length of a sample or, in `warmup`, the time before the first sample; `{total_seconds}` and
/// `{total_ms}` are the length of all samples together; `{count}` is the number of samples or
/// iterations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OptionArguments {
    /// For every measurement.
    pub always: Option<Vec<String>>,
    /// For -t, the length of a sample.
    pub time: Option<Vec<String>>,
    /// For -n, the number of samples.
    pub samples: Option<Vec<String>>,
    /// For -i, the number of iterations of a sample.
    pub iterations: Option<Vec<String>>,
    /// For -w, the time before the first sample.
    pub warmup: Option<Vec<String>>,
}

/// Defaults for the user's options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultOptions {
    /// Length of a sample in milliseconds.
    pub time_ms: Option<u32>,
    /// Number of samples.
    pub samples: Option<u32>,
    /// Time before the first sample in milliseconds.
    pub warmup_ms: Option<u32>,
}

/// How to determine the version of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum VersionSource {
    /// Command whose output contains the version as its first number with dots.
    #[serde(rename = "a list")]
    Command(Vec<String>),
    /// Pattern in the bytes of the program; its first group is the version.
    #[serde(rename = "a string")]
    Content(String),
}

impl SuiteAdapter {
    /// Returns `hint: install ...` on a line of its own, to be appended to an error; empty if the
    /// table has no `install`.
    pub fn install_hint(&self) -> String {
        let install = self.keys.install.iter();
        install.map(|package| format!("\nhint: install {package}")).collect()
    }

    /// Whether results may contain processor time. Of the known formats, only the format of
    /// google/benchmark contains it. A build command may produce a program that uses
    /// google/benchmark, unless the table specifies another format.
    pub fn may_report_processor_time(&self) -> bool {
        match (&self.keys.build, self.keys.read) {
            (Some(BuildStep::Command(_)), ResultFormat::Json) => true,
            (_, format) => format == ResultFormat::GoogleBenchmark,
        }
    }

    /// Parses all tables `[suite.NAME]` of a TOML text, ignoring other tables.
    ///
    /// # Errors
    /// Fails if the text is not TOML, or a table is invalid; the message contains the line number.
    pub fn parse_all(text: &str) -> Result<Vec<SuiteAdapter>> {
        read_tables(&FilePart::top(&file_part::parse_toml(text)?))
    }

    /// Parses tables that were checked before, such as those bundled with this program. Does not
    /// compile their patterns, because that would take longer than most commands that name a suite.
    ///
    /// # Errors
    /// Fails if the text is not TOML, or has unknown keys.
    pub fn parse_checked(text: &str) -> Result<Vec<SuiteAdapter>> {
        parse_tables(&FilePart::top(&file_part::parse_toml(text)?), |_, _| Ok(()))
    }

    /// Reads the tables of a file.
    ///
    /// # Errors
    /// Fails under the same conditions as [`SuiteAdapter::parse_all`], and if the file cannot be
    /// read.
    pub fn read_file(file: &Path) -> Result<Vec<SuiteAdapter>> {
        let read = || SuiteAdapter::parse_all(&std::fs::read_to_string(file)?);
        read().with_context(|| format!("in '{}'", file.display()))
    }
}

/// Reads the adapters of a file.
pub(crate) fn read_tables(top: &FilePart) -> Result<Vec<SuiteAdapter>> {
    parse_tables(top, check_keys)
}

fn parse_tables(
    top: &FilePart,
    check: impl Fn(&FilePart, &AdapterKeys) -> Result<()>,
) -> Result<Vec<SuiteAdapter>> {
    let mut found = Vec::new();
    for part in top.child_tables("suite") {
        let keys: AdapterKeys = part.read_part()?;
        check(&part, &keys)?;
        found.push(SuiteAdapter { name: part.place.last_key().to_owned(), keys });
    }
    Ok(found)
}

fn check_keys(part: &FilePart, keys: &AdapterKeys) -> Result<()> {
    if keys.build.is_none() {
        let needed = [("list", keys.list.is_empty()), ("run", keys.run.is_empty())];
        if let Some((key, _)) = needed.iter().find(|(_, is_missing)| *is_missing) {
            let hint = format!("{key} = [\"{{program}}\", \"--{key}\"]");
            return Err(part.missing_key(key, &hint));
        }
        if keys.read == ResultFormat::Json && keys.samples.is_none() {
            return Err(part.missing_key("samples", "samples = \"times\", with read = \"json\""));
        }
        if keys.read == ResultFormat::Lines && keys.line.is_none() {
            let hint = r"line = '^(?P<name>\S+) (?P<value>[\d.]+) (?P<unit>\S+)$'";
            return Err(part.missing_key("line", hint));
        }
    }
    for (key, pattern, group) in [
        ("case", &keys.case, Some("name")),
        ("line", &keys.line, Some("value")),
        ("missing", &keys.missing, None),
        ("skipped", &keys.skipped, None),
    ] {
        if let Some(pattern) = pattern {
            check_pattern(part, key, pattern, group)?;
        }
    }
    if let Some(VersionSource::Content(pattern)) = &keys.version {
        check_pattern(part, "version", pattern, None)?;
    }
    if let (Some(pattern), Some(inner)) =
        (keys.recognise.as_ref().and_then(|how| how.pattern.as_ref()), part.part("recognise"))
    {
        check_pattern(&inner, "pattern", pattern, None)?;
    }
    check_placeholders(part)
}

fn check_pattern(part: &FilePart, key: &str, pattern: &str, group: Option<&str>) -> Result<()> {
    let compiled = Regex::new(pattern).map_err(|error| {
        let last = error.to_string();
        let reason = last.lines().last().unwrap_or_default().to_owned();
        part.value_error(key, format!("is not a valid pattern: {reason}"))
    })?;
    match group {
        Some(group) if !compiled.capture_names().flatten().any(|name| name == group) => {
            Err(part.value_error(key, format!("has no group '(?P<{group}>...)'")))
        }
        _ => Ok(()),
    }
}

fn check_placeholders(part: &FilePart) -> Result<()> {
    for key in [
        "list",
        "expand",
        "run",
        "parameters",
        "environment",
        "options",
        "trial",
        "build",
        "version",
    ] {
        let Some(node) = part.get(key) else { continue };
        // A version given as a string is a pattern, in which braces are not placeholders.
        if key == "version" && node.as_text().is_some() {
            continue;
        }
        let mut unknown = None;
        node.visit_texts(&mut |text| {
            let names = super::placeholders::placeholder_names(text);
            let is_known = |name: &String| PLACEHOLDERS.contains(&name.as_str());
            unknown = unknown.take().or_else(|| names.into_iter().find(|name| !is_known(name)));
        });
        if let Some(name) = unknown {
            let hint = nearest_hint(&name, PLACEHOLDERS);
            return Err(part.value_error(
                key,
                format!("has an unknown placeholder '{{{name}}}'\nhint: {hint}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = r#"
[suite.mine]
recognise = { content = "mine-bench 3", kind = "elf" }
list = ["{program}", "--list"]
case = '^(?P<name>\S+)(?: (?P<params>.*))?$'
run = ["{program}", "--only", "{name}", "--out", "{output}"]
read = "json"
results = "results[*]"
name = "name"
samples = "times"
unit = "ns"
better = "less"
[suite.mine.options]
time = ["--min-time", "{seconds}"]
"#;

    fn error_text(text: &str) -> String {
        format!("{:#}", SuiteAdapter::parse_all(text).unwrap_err())
    }

    #[test]
    fn an_adapter_table_survives_a_round_trip_through_json() {
        let read = SuiteAdapter::parse_all(MINE).unwrap().remove(0);
        assert_eq!((read.name.as_str(), read.keys.read), ("mine", ResultFormat::Json));
        let content = &read.keys.recognise.as_ref().unwrap().content;
        assert_eq!(content.0, ["mine-bench 3"]);
        let kept = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<SuiteAdapter>(&kept).unwrap(), read);
        let built = "[suite.x]\nbuild = \"cargo\"\nversion = 'x-([0-9.]+)'";
        let built = SuiteAdapter::parse_all(built).unwrap().remove(0);
        let kept = serde_json::to_string(&built).unwrap();
        assert_eq!(serde_json::from_str::<SuiteAdapter>(&kept).unwrap(), built);
    }

    #[test]
    fn mistakes_are_named_with_line_and_nearest_key() {
        for (from, to, expected) in [
            (
                "run =",
                "rum =",
                "line 6: [suite.mine] has an unknown key 'rum'\nhint: did you mean 'run'?",
            ),
            ("time =", "tim =", "line 14: [suite.mine.options] has an unknown key 'tim'"),
            ("\"json\"", "\"jsn\"", "did you mean 'json'?"),
            ("samples = \"times\"", "", "[suite.mine] has no key 'samples'"),
            ("list = [\"{program}\", \"--list\"]", "", "[suite.mine] has no key 'list'"),
            (
                "?P<name>",
                "?P<nam>",
                "line 5: the key 'case' of [suite.mine] has no group '(?P<name>...)'",
            ),
            ("(?P<name>", "((?P<name>", "is not a valid pattern"),
            (
                "{name}",
                "{nam}",
                "line 6: the key 'run' of [suite.mine] has an unknown placeholder '{nam}'\nhint: did you mean 'name'?",
            ),
            ("{seconds}", "{second}", "did you mean 'seconds'?"),
        ] {
            let message = error_text(&MINE.replace(from, to));
            assert!(message.contains(expected), "{to}: {message}");
        }
    }
}
