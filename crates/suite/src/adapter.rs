//! Adapters: how benchmarks of another suite are listed, executed one by one, and read, as a table `[suite.NAME]`.
//!
//! Decides what such a table may say and checks it whole. It must not know how processes are started or what outputs mean.
//! Start at [`Adapter::read_all`]; docs/reference/suites.md describes the keys.

use super::part::{Part, nearest_of};
use super::tree;
use super::value::Many;
use anyhow::{Context, Result};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Placeholders that texts of an adapter may have. `options`, `arguments` and `parameters` are whole words that become
/// several or none.
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

/// How one suite is driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adapter {
    /// The name of its table: `google-benchmark`.
    pub name: String,
    /// What the table says.
    pub keys: AdapterKeys,
}

/// A table `[suite.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterKeys {
    /// How a target of the suite is known without executing it. Without this, only 'NAME:TARGET' is one.
    pub recognise: Option<Recognise>,
    /// The program that executes targets, such as "java". Without it a target is itself the program.
    pub program: Option<String>,
    /// A command that builds `{output}` out of the target, which is then recognised in turn; or "cargo".
    pub build: Option<Build>,
    /// The command that lists the cases.
    pub list: Vec<String>,
    /// A pattern of a line of the list, with groups `name` and, for words such as `k=v`, `params`. Without it the list is
    /// read as results are.
    pub case: Option<String>,
    /// A command that executes one listed case shortly to learn the cases in it, which it prints as results.
    pub expand: Vec<String>,
    /// The command that executes one case.
    pub run: Vec<String>,
    /// Words for each parameter of a case, with `{key}` and `{value}`, in place of the word `{parameters}`.
    pub parameters: Vec<String>,
    /// Variables of its processes.
    pub environment: BTreeMap<String, String>,
    /// The form of results.
    pub read: Read,
    /// The file of results, by a pattern such as `**/sample.json`, where it is not `{output}`; it lies in `{scratch}`.
    pub output: Option<String>,
    /// With `read = "json"`: where results are, such as `results[*]`.
    pub results: String,
    /// With `read = "json"`: where the name of a result is; without it there is one result.
    pub name: Option<String>,
    /// With `read = "json"`: where the samples of a result are: a number or a list.
    pub samples: Option<String>,
    /// With `read = "lines"`: a pattern with groups `value` and, where lines have them, `name` and `unit`.
    pub line: Option<String>,
    /// The unit of samples; times are stored in nanoseconds.
    pub unit: Option<String>,
    /// What is good, where the unit does not say it.
    pub better: Option<Direction>,
    /// Words for -t, -n, -i and -w.
    pub options: Options,
    /// What is asked for unless the user asks for something else; without it, what the suite itself does.
    pub usual: Usual,
    /// Words for a trial (--test) in place of all options.
    pub trial: Option<Vec<String>>,
    /// Options of the user that would start several cases or write elsewhere.
    pub refuse: Vec<String>,
    /// How the version of the suite is found.
    pub version: Option<Version>,
    /// The oldest version whose benchmarks can be measured, such as "3".
    pub minimum: Option<String>,
    /// A pattern of what `run` prints where a benchmark is skipped and so has no results; a group `reason` is why.
    pub skipped: Option<String>,
    /// What to install where the program or the suite is missing.
    pub install: Option<String>,
    /// A pattern of what `list` says where the program is there and the suite is not.
    pub missing: Option<String>,
}

/// How a target is known. What is given must all hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recognise {
    /// A text in the file, or several of which one is enough.
    pub content: Texts,
    /// A pattern that the text of the file matches.
    pub pattern: Option<String>,
    /// A pattern of the file's name: `*` is any text, `{a,b}` one of several.
    pub glob: Option<String>,
    /// What the file begins like.
    pub kind: Option<FileKind>,
    /// The target is a folder that has a file of each of these name patterns; then `pattern` and `content` are about those
    /// of the last one.
    pub folder: Texts,
}

/// One text, or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$one-or-more")]
#[schemars(inline, with = "Many<String>")]
pub struct Texts(pub Vec<String>);

/// What a file begins like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A program of this system.
    Elf,
    /// A ZIP archive, as a jar is.
    Zip,
    /// Text.
    Text,
}

/// How programs are built out of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum Build {
    /// A command that makes `{output}`.
    #[serde(rename = "a list")]
    Command(Vec<String>),
    /// By cargo, which names every bench target that it has built.
    #[serde(rename = "a text")]
    Tool(Tool),
}

/// A tool whose answer names what it has built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// `cargo bench --no-run`.
    Cargo,
}

/// The form of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Read {
    /// JSON with results at given places.
    #[default]
    Json,
    /// Text of which some lines match a pattern.
    Lines,
    /// JSON of google/benchmark.
    GoogleBenchmark,
    /// Text of `go test -bench`.
    GoBench,
    /// `sample.json` of criterion.
    Criterion,
    /// The table of divan.
    Divan,
    /// Text of Rust's own test harness.
    Libtest,
    /// JSON of JMH, and its list with parameters.
    Jmh,
    /// JSON of pytest-benchmark.
    PytestBenchmark,
    /// JSON of pyperf.
    Pyperf,
    /// XML of Catch2.
    Catch2,
    /// JSON of `vitest bench`, and what it prints of benchmarks that it skips.
    Vitest,
}

/// What is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Times and sizes.
    Less,
    /// Rates.
    More,
}

/// Words that a command gets for our options. `{seconds}`, `{ms}` and `{ns}` are the length of a sample,
/// `{total_seconds}` and `{total_ms}` that of all samples together, `{count}` is a number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whenever something is measured.
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

/// What is usual.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Usual {
    /// The length of a sample in milliseconds.
    pub time_ms: Option<u32>,
    /// The number of samples.
    pub samples: Option<u32>,
    /// The time before the first sample in milliseconds.
    pub warmup_ms: Option<u32>,
}

/// How the version of a suite is found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum Version {
    /// A command, whose first number with dots is the version.
    #[serde(rename = "a list")]
    Command(Vec<String>),
    /// A pattern in the bytes of the program; its first group is the version.
    #[serde(rename = "a text")]
    Content(String),
}

impl Adapter {
    /// `hint: install ...` on a line of its own, to be put behind an error; nothing where the table does not say what.
    pub fn install_hint(&self) -> String {
        let install = self.keys.install.iter();
        install
            .map(|what| format!("\nhint: install {what}"))
            .collect()
    }

    /// Whether its results may have processor time: of the known forms only that of google/benchmark has it. What a command builds
    /// may be such a program, unless the table says which form its results have.
    pub fn may_report_processor_time(&self) -> bool {
        match (&self.keys.build, self.keys.read) {
            (Some(Build::Command(_)), Read::Json) => true,
            (_, form) => form == Read::GoogleBenchmark,
        }
    }

    /// Reads all tables `[suite.NAME]` of a text in TOML. Other tables are somebody else's.
    ///
    /// # Errors
    /// It is not TOML, or a table says something that has no meaning; the message names the line.
    pub fn read_all(text: &str) -> Result<Vec<Adapter>> {
        read_tables(&Part::top(&tree::parse_toml(text)?))
    }

    /// Reads those that were checked before, as a text that comes with this program: compiling its patterns takes longer than
    /// most commands that name a suite.
    ///
    /// # Errors
    /// It is not TOML, or has unknown keys.
    pub fn read_checked(text: &str) -> Result<Vec<Adapter>> {
        tables(&Part::top(&tree::parse_toml(text)?), |_, _| Ok(()))
    }

    /// Reads those of a file.
    ///
    /// # Errors
    /// As [`Adapter::read_all`], and if the file cannot be read.
    pub fn read_file(file: &Path) -> Result<Vec<Adapter>> {
        let read = || Adapter::read_all(&std::fs::read_to_string(file)?);
        read().with_context(|| format!("in '{}'", file.display()))
    }
}

/// The adapters of a file.
pub(crate) fn read_tables(top: &Part) -> Result<Vec<Adapter>> {
    tables(top, check)
}

fn tables(top: &Part, check: impl Fn(&Part, &AdapterKeys) -> Result<()>) -> Result<Vec<Adapter>> {
    let mut found = Vec::new();
    for part in top.tables("suite") {
        let keys: AdapterKeys = part.read()?;
        check(&part, &keys)?;
        found.push(Adapter {
            name: part.place.name().to_owned(),
            keys,
        });
    }
    Ok(found)
}

fn check(part: &Part, keys: &AdapterKeys) -> Result<()> {
    if keys.build.is_none() {
        let needed = [("list", keys.list.is_empty()), ("run", keys.run.is_empty())];
        if let Some((key, _)) = needed.iter().find(|(_, is_missing)| *is_missing) {
            let hint = format!("{key} = [\"{{program}}\", \"--{key}\"]");
            return Err(part.missing(key, &hint));
        }
        if keys.read == Read::Json && keys.samples.is_none() {
            return Err(part.missing("samples", "samples = \"times\", with read = \"json\""));
        }
        if keys.read == Read::Lines && keys.line.is_none() {
            let hint = r"line = '^(?P<name>\S+) (?P<value>[\d.]+) (?P<unit>\S+)$'";
            return Err(part.missing("line", hint));
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
    if let Some(Version::Content(pattern)) = &keys.version {
        check_pattern(part, "version", pattern, None)?;
    }
    if let (Some(pattern), Some(inner)) = (
        keys.recognise.as_ref().and_then(|how| how.pattern.as_ref()),
        part.part("recognise"),
    ) {
        check_pattern(&inner, "pattern", pattern, None)?;
    }
    check_placeholders(part)
}

fn check_pattern(part: &Part, key: &str, pattern: &str, group: Option<&str>) -> Result<()> {
    let compiled = Regex::new(pattern).map_err(|error| {
        let last = error.to_string();
        let why = last.lines().last().unwrap_or_default().to_owned();
        part.wrong(key, format!("is not a pattern: {why}"))
    })?;
    match group {
        Some(group) if !compiled.capture_names().flatten().any(|name| name == group) => {
            Err(part.wrong(key, format!("has no group '(?P<{group}>...)'")))
        }
        _ => Ok(()),
    }
}

fn check_placeholders(part: &Part) -> Result<()> {
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
        // A pattern has braces of its own.
        if key == "version" && node.text().is_some() {
            continue;
        }
        let mut unknown = None;
        node.visit_texts(&mut |text| {
            let names = super::placeholders::names(text);
            let known = |name: &String| PLACEHOLDERS.contains(&name.as_str());
            unknown = unknown
                .take()
                .or_else(|| names.into_iter().find(|name| !known(name)));
        });
        if let Some(name) = unknown {
            let hint = nearest_of(&name, &PLACEHOLDERS.map(str::to_owned));
            return Err(part.wrong(
                key,
                format!("has a placeholder '{{{name}}}', which is unknown\nhint: {hint}"),
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

    fn told(text: &str) -> String {
        format!("{:#}", Adapter::read_all(text).unwrap_err())
    }

    #[test]
    fn a_table_is_an_adapter_which_a_plan_keeps_as_json() {
        let read = Adapter::read_all(MINE).unwrap().remove(0);
        assert_eq!((read.name.as_str(), read.keys.read), ("mine", Read::Json));
        let content = &read.keys.recognise.as_ref().unwrap().content;
        assert_eq!(content.0, ["mine-bench 3"]);
        let kept = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Adapter>(&kept).unwrap(), read);
        let built = "[suite.x]\nbuild = \"cargo\"\nversion = 'x-([0-9.]+)'";
        let built = Adapter::read_all(built).unwrap().remove(0);
        let kept = serde_json::to_string(&built).unwrap();
        assert_eq!(serde_json::from_str::<Adapter>(&kept).unwrap(), built);
    }

    #[test]
    fn mistakes_are_named_with_line_and_nearest_key() {
        for (from, to, expected) in [
            (
                "run =",
                "rum =",
                "line 6: [suite.mine] has a key 'rum' that is not known\nhint: did you mean 'run'?",
            ),
            (
                "time =",
                "tim =",
                "line 14: [suite.mine.options] has a key 'tim'",
            ),
            ("\"json\"", "\"jsn\"", "did you mean 'json'?"),
            (
                "samples = \"times\"",
                "",
                "[suite.mine] has no key 'samples'",
            ),
            (
                "list = [\"{program}\", \"--list\"]",
                "",
                "[suite.mine] has no key 'list'",
            ),
            (
                "?P<name>",
                "?P<nam>",
                "line 5: the key 'case' of [suite.mine] has no group '(?P<name>...)'",
            ),
            ("(?P<name>", "((?P<name>", "is not a pattern"),
            (
                "{name}",
                "{nam}",
                "line 6: the key 'run' of [suite.mine] has a placeholder '{nam}', which is unknown\nhint: did you mean 'name'?",
            ),
            ("{seconds}", "{second}", "did you mean 'seconds'?"),
        ] {
            let message = told(&MINE.replace(from, to));
            assert!(message.contains(expected), "{to}: {message}");
        }
    }
}
