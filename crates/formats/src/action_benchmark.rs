//! Reads `data.js`, the result file of github-action-benchmark. The file assigns JSON to a
//! JavaScript variable; files that contain only the JSON are also read.
//!
//! Decides whether more or less of a metric is better. As in the action (`src/write.ts`), this
//! depends on the tool that measured. There is one exception: if a tool prints both times and
//! rates, higher rates are better here, whereas the action treats lower rates as better. Start at
//! [`read`].

use super::duplicate_names::{ListedResult, distinguish_results};
use super::session_builder::{
    DroppedEntries, FileSessions, ImportedProcess, InputFile, MetricDirections, PointKey,
    commit_subject, revision_origin,
};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use speedwell_model::{Case, CodeOrigin, Metric, MetricDirection, Session};
use std::collections::BTreeSet;

/// Beginning of the assignment around the JSON.
const ASSIGNMENT: &[u8] = b"window.BENCHMARK_DATA";

/// Returns the direction that the action assumes for all figures of a tool; `None` if it does not
/// support the tool.
fn direction_of_tool(tool: &str) -> Option<MetricDirection> {
    match tool {
        "benchmarkjs" | "pytest" | "customBiggerIsBetter" => Some(MetricDirection::Higher),
        "cargo"
        | "benchmarkluau"
        | "googlecpp"
        | "catch2"
        | "julia"
        | "benchmarkdotnet"
        | "customSmallerIsBetter" => Some(MetricDirection::Lower),
        tool if MIXED_UNIT_TOOLS.contains(&tool) => Some(MetricDirection::Lower),
        _ => None,
    }
}

/// Tools that print both times and rates.
const MIXED_UNIT_TOOLS: [&str; 2] = ["go", "jmh"];

/// Returns whether the data are a result file of github-action-benchmark.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    let bytes = file.bytes.trim_ascii_start();
    bytes.starts_with(ASSIGNMENT)
        || (bytes.starts_with(b"{") && file.has_key(1, "lastUpdate") && file.has_key(1, "entries"))
}

/// Reads a whole file. Each entry of each suite becomes a session. Adds messages for the user to
/// `remarks`.
///
/// # Errors
/// Fails if the content is not JSON, no result can be read, or the direction of a metric is
/// unknown.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(&blank_assignment(file.bytes))?;
    let mut reading = EntriesReader {
        directions: file.better,
        keys: Vec::new(),
        listed: Vec::new(),
        rates: BTreeSet::new(),
        left_out: DroppedEntries::default(),
    };
    for (suite, entries) in JsonNode::from_root(&parsed).require("entries")?.members() {
        let entries = JsonNode::at_location(format!("entries.{suite}"), entries);
        let entries = reading.left_out.ok_or_count(entries.elements());
        for entry in entries.into_iter().flatten() {
            reading.read_entry(suite, &entry)?;
        }
    }
    reading.into_sessions(file.label, remarks)
}

struct EntriesReader<'a> {
    directions: &'a MetricDirections,
    /// For each entry, in file order, the key of the point to which it belongs.
    keys: Vec<PointKey>,
    /// Results of all entries.
    listed: Vec<ListedResult<BenchFigure>>,
    /// Tools with rates for which higher is better here, but lower is better in the action.
    rates: BTreeSet<String>,
    left_out: DroppedEntries,
}

impl EntriesReader<'_> {
    /// Reads the results of an entry. Invalid parts are dropped.
    ///
    /// # Errors
    /// Fails if the direction of a metric is unknown.
    fn read_entry(&mut self, suite: &str, entry: &JsonNode<'_>) -> Result<()> {
        let read = || {
            let (kind, key) = (EntryInterpretation::read(entry)?, point_key(suite, entry)?);
            Ok((kind, key, entry.require("benches")?.elements()?))
        };
        let Some((kind, key, benches)) = self.left_out.ok_or_count(read()) else { return Ok(()) };
        let measurement = self.keys.len();
        self.keys.push(key);
        for bench in benches {
            let Some(mut figure) = self.left_out.ok_or_count(BenchFigure::read(&bench)) else {
                continue;
            };
            let better = kind
                .metric_direction(&figure.metric, self.directions)
                .with_context(|| format!("'{}'", bench.location()))?;
            if kind.is_by_unit && kind.better != Some(better) {
                self.rates.extend(kind.tool.clone());
            }
            figure.metric.better = better;
            self.listed.push(ListedResult {
                measurement,
                case: Case::new(format!("{suite}/{}", figure.name), Vec::new()),
                metric: figure.metric.name.clone(),
                details: std::mem::take(&mut figure.extra),
                content: figure,
            });
        }
        Ok(())
    }

    fn into_sessions(self, label: &str, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
        remarks.extend(self.left_out.into_warning(self.listed.is_empty())?);
        let mut points = FileSessions::new("github-action-benchmark");
        for result in distinguish_results(self.listed, remarks)? {
            let imported = points.session_for(self.keys[result.measurement].clone());
            let figure = result.content;
            let samples = vec![imported.metric_sample(figure.metric, figure.value)];
            let notes = figure.note.into_iter().collect();
            let process = ImportedProcess { samples, notes, ..ImportedProcess::default() };
            imported.add_run(result.case, process);
        }
        let is_own_choice = *self.directions == MetricDirections::default();
        remarks.extend(self.rates.into_iter().filter(|_| is_own_choice).map(|tool| {
            format!(
                "for rates of '{tool}', more is better; github-action-benchmark itself treats less as better"
            )
        }));
        points.into_sessions(label)
    }
}

/// Replaces the assignment around the JSON with blanks. This preserves the line and column numbers
/// that messages contain.
fn blank_assignment(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let start = bytes.len() - bytes.trim_ascii_start().len();
    if bytes[start..].starts_with(ASSIGNMENT) {
        let open = bytes.iter().position(|&byte| byte == b'{');
        let end = open.unwrap_or(bytes.len());
        let prefix = bytes[..end].iter_mut().filter(|byte| **byte != b'\n');
        prefix.for_each(|byte| *byte = b' ');
        let used = bytes.trim_ascii_end().len();
        if bytes[..used].ends_with(b";") {
            bytes[used - 1] = b' ';
        }
    }
    bytes
}

/// Returns the point that the results of an entry belong to.
fn point_key(suite: &str, entry: &JsonNode<'_>) -> Result<PointKey> {
    let commit = entry.require("commit")?;
    let date = entry.number_of("date")?;
    Ok(PointKey {
        suite: suite.to_owned(),
        key: date.map(|date| date.to_string()).unwrap_or_default(),
        origin: read_origin(&commit)?,
        started_unix_ms: date.map(|date| date as i64),
        ..PointKey::default()
    })
}

fn read_origin(commit: &JsonNode<'_>) -> Result<CodeOrigin> {
    let id = commit.require("id")?.text()?;
    ensure!(!id.is_empty(), "'{}.id' is empty", commit.location());
    // In an entry for a pull request, the value of `timestamp` may not be a time.
    let committed = commit.text_of("timestamp")?.and_then(|text| text.parse::<Timestamp>().ok());
    Ok(CodeOrigin {
        tree: commit.text_of("tree_id")?.map(str::to_owned),
        committed_unix_ms: committed.map(Timestamp::as_millisecond),
        subject: commit.text_of("message")?.and_then(commit_subject),
        ..revision_origin(id)
    })
}

/// How to interpret the figures of an entry.
struct EntryInterpretation {
    /// Direction that the action uses; `None` if the action does not support the tool.
    better: Option<MetricDirection>,
    /// Whether the unit determines the direction.
    is_by_unit: bool,
    /// Name of the tool, if the entry states it.
    tool: Option<String>,
}

impl EntryInterpretation {
    fn read(entry: &JsonNode<'_>) -> Result<EntryInterpretation> {
        let tool = entry.text_of("tool")?;
        // A fork of the action writes the key `bigger_is_better` instead of the name of a tool.
        let better = match entry.get("bigger_is_better") {
            Some(is_bigger_better) if is_bigger_better.is_true() => Some(MetricDirection::Higher),
            Some(_) => Some(MetricDirection::Lower),
            None => tool.and_then(direction_of_tool),
        };
        let is_by_unit = tool.is_some_and(|tool| MIXED_UNIT_TOOLS.contains(&tool));
        Ok(EntryInterpretation { better, is_by_unit, tool: tool.map(str::to_owned) })
    }

    /// Returns the direction of a metric. The user's choice decides first, then the key
    /// `bigger_is_better`, then the tool, then the unit. If the tool prints both times and rates,
    /// the unit comes before the key and the tool.
    ///
    /// # Errors
    /// Fails if none of these states a direction.
    fn metric_direction(
        &self,
        metric: &Metric,
        directions: &MetricDirections,
    ) -> Result<MetricDirection> {
        let by_unit = self.is_by_unit || self.better.is_none();
        let unit_direction =
            (by_unit && metric.better != MetricDirection::Unknown).then_some(metric.better);
        let found = directions.direction_of(&metric.name).or(unit_direction).or(self.better);
        found.map_or_else(|| directions.require_direction(&metric.name), Ok)
    }
}

/// A figure of an entry. The name of its case begins with the suite of the entry.
struct BenchFigure {
    name: String,
    metric: Metric,
    /// Value in the stored unit.
    value: f64,
    note: Option<String>,
    /// Details that may distinguish the figure from other figures with the same name.
    extra: Vec<(String, String)>,
}

impl BenchFigure {
    fn read(bench: &JsonNode<'_>) -> Result<BenchFigure> {
        let unit = bench.text_of("unit")?.unwrap_or_default();
        // If a line of Go's output has several figures, older versions of the action stored the
        // rest of the line in the unit of the first figure.
        let unit = unit.split('\t').next().unwrap_or_default();
        let measure = MetricConversion::from_unit(unit);
        let node = bench.require("value")?;
        let value = node.scaled_number(measure.factor)?;
        let setup = bench.get("extra").map(|extra| ("extra".to_owned(), setup_lines(&extra)));
        Ok(BenchFigure {
            name: bench.require("name")?.text()?.to_owned(),
            note: spread_note(&node, unit, bench),
            extra: setup.into_iter().filter(|(_, lines)| !lines.is_empty()).collect(),
            metric: measure.metric,
            value,
        })
    }
}

/// Names of the figures that the action itself writes to `extra` (`src/extract.ts`). These figures
/// differ from one measurement to the next, so they do not describe the setup.
const COUNT_KEYS: [&str; 13] = [
    "iterations",
    "cpu",
    "times",
    "samples",
    "runs",
    "mean",
    "median",
    "stddev",
    "rounds",
    "gctime",
    "memory",
    "allocs",
    "params",
];

/// Returns the lines of `extra` that describe the setup: `threads: 4`, `8 procs`, or anything
/// written by a user's own tool.
fn setup_lines(extra: &JsonNode<'_>) -> String {
    let Ok(extra) = extra.text() else { return extra.value().to_string() };
    let is_counted = |line: &str| {
        let key = line.split([':', '=']).next().unwrap_or_default().trim();
        let last = line.split_whitespace().last().unwrap_or_default();
        COUNT_KEYS.contains(&key) || COUNT_KEYS.contains(&last)
    };
    let lines = extra.lines().map(str::trim);
    let setup: Vec<&str> = lines.filter(|line| !line.is_empty() && !is_counted(line)).collect();
    setup.join(", ")
}

/// Returns a sentence that quotes what the file says about the spread of a figure: `± 30`,
/// `±1.12%`, `stddev: 0.0012`.
fn spread_note(value: &JsonNode<'_>, unit: &str, bench: &JsonNode<'_>) -> Option<String> {
    let range = bench.get("range")?.text().ok()?.trim();
    let (value, unit) = (value.value(), unit.trim());
    (!range.is_empty()).then(|| format!("The file states {value} {unit} ({range})."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_text(tool: &str, benches: &str) -> String {
        format!(
            r#"{{"lastUpdate":1,"entries":{{"S":[{{"commit":{{"id":"c1"}},"date":5,"tool":"{tool}","benches":[{benches}]}}]}}}}"#
        )
    }

    fn read_text(text: &str, better: &MetricDirections) -> (Result<Vec<Session>>, Vec<String>) {
        let mut warnings = Vec::new();
        let input = InputFile { label: "data.js", bytes: text.as_bytes(), better };
        (read(&input, &mut warnings), warnings)
    }

    fn read_metrics(tool: &str, benches: &str) -> (Vec<Metric>, Vec<String>) {
        let (sessions, warnings) =
            read_text(&file_text(tool, benches), &MetricDirections::default());
        (sessions.unwrap().remove(0).metrics, warnings)
    }

    #[test]
    fn the_tool_says_which_direction_is_good() {
        let bench = r#"{"name":"a","value":2,"unit":"iter/sec","range":"stddev: 0.1"}"#;
        assert_eq!(read_metrics("pytest", bench).0, [Metric::throughput()]);
        let bench = r#"{"name":"a","value":2,"unit":"points"}"#;
        let points = |better| vec![Metric::new("points", "points", better)];
        assert_eq!(read_metrics("customSmallerIsBetter", bench).0, points(MetricDirection::Lower));
        assert_eq!(read_metrics("customBiggerIsBetter", bench).0, points(MetricDirection::Higher));
        let unknown = read_text(&file_text("abacus", bench), &MetricDirections::default()).0;
        let unknown = format!("{:#}", unknown.unwrap_err());
        let place =
            "'entries.S[0].benches[0]': the file does not state whether more or less of 'points'";
        assert!(unknown.starts_with(place), "{unknown}");
        let descendant = file_text("", bench).replace("\"tool\":\"\"", "\"bigger_is_better\":true");
        let sessions = read_text(&descendant, &MetricDirections::default()).0.unwrap();
        assert_eq!(sessions[0].metrics, points(MetricDirection::Higher));
    }

    #[test]
    fn higher_rates_are_better_even_for_tools_that_print_times() {
        let benches =
            r#"{"name":"a","value":2,"unit":"ops/s"},{"name":"b","value":3,"unit":"us/op"}"#;
        let (found, warnings) = read_metrics("jmh", benches);
        assert_eq!(
            found,
            [Metric::throughput(), Metric::new("time", "ns", MetricDirection::Lower)]
        );
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("for rates of 'jmh', more is"));
    }

    #[test]
    fn figures_of_one_quantity_are_in_one_unit() {
        let benches = r#"{"name":"a","value":2,"unit":"us\t  4.0 B/op"},{"name":"b","value":3,"unit":"ms","range":"± 1"}"#;
        let (sessions, _) = read_text(&file_text("catch2", benches), &MetricDirections::default());
        let session = sessions.unwrap().remove(0);
        let values: Vec<_> = session.runs.iter().map(|run| run.value_of("time")).collect();
        assert_eq!(values, [Some(2e3), Some(3e6)]);
        assert_eq!(session.runs[1].notes, ["The file states 3 ms (± 1)."]);
        assert_eq!(session.runs[0].case.id(), "S/a");
    }

    fn ids_of(tool: &str, benches: &str) -> (Vec<String>, Vec<String>) {
        let (sessions, warnings) =
            read_text(&file_text(tool, benches), &MetricDirections::default());
        let sessions = sessions.unwrap();
        let runs = sessions[0].runs.iter();
        (runs.map(|run| run.case.id()).collect(), warnings)
    }

    #[test]
    fn results_with_the_same_name_are_distinguished_by_extra_text() {
        let bench = |value: u32, extra: &str| {
            format!(r#"{{"name":"a","value":{value},"unit":"ns","extra":"{extra}"}}"#)
        };
        let benches = [bench(1, "cold"), bench(2, "warm")].join(",");
        let (ids, warnings) = ids_of("customSmallerIsBetter", &benches);
        assert_eq!(ids, ["S/a extra=cold", "S/a extra=warm"]);
        assert_eq!(warnings, [""; 0]);
        // Numbers that differ in every entry distinguish nothing.
        let counted = [bench(1, "900 times\\n1 procs"), bench(2, "800 times\\n8 procs")];
        let (ids, _) = ids_of("go", &counted.join(","));
        assert_eq!(ids, ["S/a extra=\"1 procs\"", "S/a extra=\"8 procs\""]);
        let other = bench(3, "x").replace("\"a\"", "\"b\"");
        let alike = [bench(1, "89 samples"), bench(2, "90 samples"), other];
        let (ids, warnings) = ids_of("cargo", &alike.join(","));
        assert_eq!(ids, ["S/b"]);
        assert!(warnings[0].contains("2 results are called 'S/a'"), "{warnings:?}");
    }

    #[test]
    fn one_bad_entry_is_left_out_and_named_while_the_others_are_read() {
        let good = r#"{"name":"a","value":2,"unit":"ns"}"#;
        let bad = r#"{"name":"b","value":"fast","unit":"ns"}"#;
        let text = file_text("cargo", &format!("{good},{bad}"));
        let (sessions, warnings) = read_text(&text, &MetricDirections::default());
        assert_eq!(sessions.unwrap()[0].runs.len(), 1);
        assert_eq!(
            warnings,
            [
                "an entry that cannot be read was left out: 'entries.S[0].benches[1].value' is \"fast\", \
                 not a number"
            ]
        );
        // An entry without a commit is invalid, and does not affect the next one.
        let text = text.replace("\"S\":[", "\"S\":[{\"tool\":\"cargo\"},7,");
        let (sessions, warnings) = read_text(&text, &MetricDirections::default());
        assert_eq!(sessions.unwrap().len(), 1);
        assert!(
            warnings[0].contains("3 entries that cannot be read were left out; the first one: ")
        );
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let text = format!("window.BENCHMARK_DATA =\n{}", file_text("cargo", r#"{"name":"a"}"#));
        let message =
            |text: &str| read_text(text, &MetricDirections::default()).0.unwrap_err().to_string();
        assert_eq!(message(&text), "the key 'value' is missing in 'entries.S[0].benches[0]'");
        assert!(message(&text.replace("[{\"name", "[oops {\"name")).contains("at line 2 column"));
    }
}
