//! Reads results of `hyperfine --export-json`.
//!
//! Decides how results are stored: each measured time comes from one process and becomes one run.
//! Start at [`read`]. The format is described in hyperfine's README ("JSON"); unknown keys are
//! ignored.

use super::duplicate_names::{ListedResult, distinguish_results};
use super::load_report::NS_PER_SECOND;
use super::session_builder::{ImportedProcess, InputFile, SessionBuilder};
use crate::foreign::json::{self, JsonNode};
use anyhow::{Result, ensure};
use speedwell_model::{Case, FailureCause, Metric, MetricDirection, ParameterValue, Session};

/// Note on the first run of a command. The mean CPU times of all runs are stored in this run.
const CPU_TIMES_NOTE: &str = "User and system time are means over all runs of this command.";

/// Reads a whole file. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, or if a value is missing or has the wrong type. The message names
/// the location of the error.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let nodes = JsonNode::from_root(&parsed).require("results")?.elements()?;
    let results = nodes.iter().map(HyperfineResult::read).collect::<Result<Vec<_>>>()?;
    let template = infer_template(&results);
    let mut imported = SessionBuilder::default();
    imported.declare_metric(Metric::new("time", "ns", MetricDirection::Lower));
    let listed = results.iter().map(|result| {
        let name = template.as_deref().unwrap_or(&result.command);
        let parameters = (result.parameters.iter())
            .map(|(name, text)| (name.clone(), ParameterValue::infer_value(text)));
        let case = Case::new(name, parameters.collect());
        ListedResult { details: result.details.clone(), ..ListedResult::new(case, result) }
    });
    for ListedResult { case, content: result, .. } in
        distinguish_results(listed.collect(), remarks)?
    {
        result.add_runs(case, &mut imported);
        if !result.times.is_empty() && result.times.iter().all(|&(time, _)| time == 0.0) {
            remarks.push(format!(
                "every time of '{}' is 0, because the command takes less time than the start of the shell, which hyperfine subtracts; measure it with --shell=none",
                result.command
            ));
        }
    }
    Ok(vec![imported.into_session(file.label)?])
}

struct HyperfineResult {
    command: String,
    /// Parameters, each with the string that hyperfine substituted into the command.
    parameters: Vec<(String, String)>,
    /// Time of each process in seconds, and its exit status. The status is `None` if a signal
    /// killed the process: hyperfine then writes null.
    times: Vec<(f64, Option<i32>)>,
    memory: Vec<f64>,
    /// Other facts about the command. They include the command itself, because the name of the case
    /// may be a template for several commands.
    details: Vec<(String, String)>,
    /// Mean user time of all runs, in seconds.
    user: Option<f64>,
    /// Mean system time of all runs, in seconds.
    system: Option<f64>,
}

impl HyperfineResult {
    fn read(result: &JsonNode<'_>) -> Result<HyperfineResult> {
        let numbers = |key| -> Result<Vec<f64>> {
            result.elements_of(key)?.iter().map(JsonNode::number).collect()
        };
        result.require("times")?;
        let times_s = numbers("times")?;
        let endings = exit_statuses(result, times_s.len())?;
        let parameters = result.get("parameters");
        let members = parameters.iter().flat_map(JsonNode::members);
        Ok(HyperfineResult {
            command: result.require("command")?.text()?.to_owned(),
            parameters: members.map(|(name, value)| (name.to_owned(), value_text(value))).collect(),
            times: times_s.into_iter().zip(endings).collect(),
            memory: numbers("memory_usage_byte")?,
            details: read_details(result),
            user: result.number_of("user")?,
            system: result.number_of("system")?,
        })
    }

    fn add_runs(&self, case: Case, imported: &mut SessionBuilder) {
        let all_succeeded = self.times.iter().all(|(_, status)| *status == Some(0));
        for (index, &(time, status)) in self.times.iter().enumerate() {
            if status != Some(0) {
                let killed = || FailureCause::invalid("was killed by a signal");
                let cause = status.map_or_else(killed, |code| FailureCause::Exit { code });
                imported.add_failure(&case, cause, self.command.clone());
                continue;
            }
            let (wall_ns, memory) = (time * NS_PER_SECOND, self.memory.get(index).copied());
            let mut figures = vec![("time", "ns", Some(wall_ns)), ("max_rss", "B", memory)];
            let mut notes = Vec::new();
            // The CPU times are means over all runs, so add them only once, and only if no run
            // failed.
            if index == 0 && all_succeeded {
                let [user_ns, system_ns] =
                    [self.user, self.system].map(|seconds| Some(seconds? * NS_PER_SECOND));
                figures.extend([("user_time", "ns", user_ns), ("system_time", "ns", system_ns)]);
                if self.times.len() > 1 && user_ns.or(system_ns).is_some() {
                    notes.push(CPU_TIMES_NOTE.to_owned());
                }
            }
            let sample = |(name, unit, value): (&str, &str, Option<f64>)| {
                let metric = Metric::new(name, unit, MetricDirection::Lower);
                Some(imported.metric_sample(metric, value?))
            };
            let samples = figures.into_iter().filter_map(sample).collect();
            imported.add_run(case.clone(), ImportedProcess { wall_ns, samples, notes });
        }
    }
}

/// Keys that do not become details: keys of measured values, and `parameters`, which are part of
/// the case.
const NON_DETAIL_KEYS: [&str; 11] = [
    "mean",
    "stddev",
    "median",
    "user",
    "system",
    "min",
    "max",
    "times",
    "memory_usage_byte",
    "exit_codes",
    "parameters",
];

fn read_details(result: &JsonNode<'_>) -> Vec<(String, String)> {
    let details =
        result.members().filter(|(key, value)| !NON_DETAIL_KEYS.contains(key) && !value.is_null());
    details.map(|(key, value)| (key.to_owned(), value_text(value))).collect()
}

/// Returns the exit statuses of the `count` processes. Old versions of hyperfine write no exit
/// statuses. They stop at the first failure, so every status is 0.
fn exit_statuses(result: &JsonNode<'_>, count: usize) -> Result<Vec<Option<i32>>> {
    let Some(codes) = result.get("exit_codes") else { return Ok(vec![Some(0); count]) };
    let elements = codes.elements()?;
    let (key, length) = (codes.location(), elements.len());
    ensure!(length == count, "'{key}' has length {length}, but 'times' has length {count}");
    let status = |node: &JsonNode<'_>| {
        let exited = (!node.is_null()).then_some(node);
        exited.map(|node| Ok(node.number()? as i32)).transpose()
    };
    elements.iter().map(status).collect()
}

fn value_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reconstructs the command template, such as `sleep {n}`. All results then become one benchmark
/// with parameters.
///
/// The file only contains the commands after substitution. A guessed template must reproduce every
/// command, and each parameter must have several values. Otherwise, every command is a benchmark of
/// its own.
fn infer_template(results: &[HyperfineResult]) -> Option<String> {
    let (first, other_results) = results.split_first()?;
    let mut values: Vec<_> = first.parameters.iter().collect();
    values.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
    let mut template = first.command.clone();
    for (name, text) in values.iter().filter(|(_, text)| !text.is_empty()) {
        template = template.replace(text, &format!("{{{name}}}"));
    }
    let reproduces = |result: &HyperfineResult| {
        let filled = result.parameters.iter().fold(template.clone(), |command, (name, text)| {
            command.replace(&format!("{{{name}}}"), text)
        });
        filled == result.command
    };
    let varies = |index: usize| {
        other_results.iter().any(|other| other.parameters[index].1 != first.parameters[index].1)
    };
    let same_names = other_results.iter().all(|other| {
        let names = other.parameters.iter().map(|(name, _)| name);
        names.eq(first.parameters.iter().map(|(name, _)| name))
    });
    let is_certain = !first.parameters.is_empty()
        && same_names
        && (0..first.parameters.len()).all(varies)
        && results.iter().all(reproduces);
    is_certain.then_some(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Session> {
        let file = InputFile::new("hf.json", text.as_bytes());
        Ok(read(&file, &mut Vec::new())?.remove(0))
    }

    fn read_benchmarks(commands: &[(&str, &str)]) -> Vec<String> {
        let results = commands.iter().map(|(command, n)| {
            serde_json::json!({"command": command, "times": [1.0], "parameters": {"n": n}})
        });
        let file = serde_json::json!({"results": results.collect::<Vec<_>>()});
        let session = read_text(&file.to_string()).unwrap();
        session.runs.iter().map(|run| run.case.id()).collect()
    }

    #[test]
    fn parameter_values_in_commands_become_placeholders_if_unambiguous() {
        assert_eq!(read_benchmarks(&[("t 1", "1"), ("t 2", "2")]), ["t {n} n=1", "t {n} n=2"]);
        assert_eq!(read_benchmarks(&[("t1 1", "1"), ("t1 2", "2")]), ["t1 1 n=1", "t1 2 n=2"]);
        assert_eq!(read_benchmarks(&[("t 1", "1")]), ["t 1 n=1"]);
    }

    #[test]
    fn commands_that_differ_only_in_their_preparation_are_separate_cases() {
        let text = r#"{"results":[{"command":"a","prepare":"sync","times":[1]},
            {"command":"a","prepare":"drop caches","times":[2]},{"command":"b","times":[3]}]}"#;
        let session = read_text(text).unwrap();
        let ids: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
        assert_eq!(ids, ["a prepare=sync", "a prepare=\"drop caches\"", "b"]);
    }

    #[test]
    fn a_command_that_occurs_twice_is_left_out_and_named() {
        let twice = r#"{"command":"a","times":[1]},{"command":"a","times":[2]}"#;
        let mut warnings = Vec::new();
        let text = format!(r#"{{"results":[{twice},{{"command":"b","times":[3]}}]}}"#);
        let file = InputFile::new("hf.json", text.as_bytes());
        let session = super::read(&file, &mut warnings).unwrap().remove(0);
        let ids: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
        assert_eq!(ids, ["b"]);
        assert!(warnings[0].contains("2 results are called 'a'"), "{warnings:?}");
        let alone = read_text(&format!(r#"{{"results":[{twice}]}}"#)).unwrap_err();
        assert!(alone.to_string().contains("hint: give each a unique name"));
    }

    #[test]
    fn two_spellings_of_the_same_number_are_separate_cases() {
        assert_eq!(
            read_benchmarks(&[("t 1", "1"), ("t 1.0", "1.0"), ("t 2", "2")]),
            ["t {n} command=\"t 1\" n=1", "t {n} command=\"t 1.0\" n=1", "t {n} n=2"]
        );
    }

    #[test]
    fn a_process_ended_by_a_signal_is_a_failure() {
        let session = read_text(
            r#"{"results":[{"command":"a","times":[0.5,0.25],"exit_codes":[null,0],
                "user":0.1,"memory_usage_byte":[1,2048]}]}"#,
        )
        .unwrap();
        assert_eq!(session.failures[0].cause.to_string(), "was killed by a signal");
        let run = &session.runs[0];
        assert_eq!((run.value_of("time"), run.value_of("max_rss")), (Some(25e7), Some(2048.0)));
        // The mean also covers the failed run.
        assert_eq!(run.value_of("user_time"), None);
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let message = |text| format!("{:#}", read_text(text).unwrap_err());
        assert_eq!(message(r#"{"results":[]}"#), "it contains no results");
        assert_eq!(
            message(r#"{"results":[{"command":"a"}]}"#),
            "the key 'times' is missing in 'results[0]'"
        );
        assert_eq!(
            message(r#"{"results":[{"command":"a","times":[1,2],"exit_codes":[0]}]}"#),
            "'results[0].exit_codes' has length 1, but 'times' has length 2"
        );
    }
}
