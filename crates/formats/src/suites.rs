//! Reads result files that a benchmark framework wrote in one process: JSON of pytest-benchmark and
//! vitest, XML of Catch2.
//!
//! Each benchmark in such a file becomes one run, because one process executed it. The files are
//! parsed by `foreign::suites`, which also reads what frameworks write during a measurement. Start
//! at [`read_vitest`].

use super::duplicate_names::{ListedResult, distinguish_results};
use super::session_builder::{DroppedEntries, ImportedProcess, SessionBuilder};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::suites::{ReportedResult, catch2, pytest_benchmark, vitest};
use anyhow::Result;
use speedwell_model::{Case, Environment, FailureCause, MeasuredProgram, Session};

/// Returns whether the data are pytest-benchmark JSON.
pub fn recognizes_pytest_benchmark(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "benchmarks") && (file.has_key(1, "commit_info") || file.has_key(3, "fullname"))
}

/// Returns whether the data are vitest JSON.
pub fn recognizes_vitest(file: &JsonContent<'_>) -> bool {
    file.begins_with_key("files") && file.has_key(3, "groups")
}

/// Returns whether the data are Catch2 XML.
pub fn recognizes_catch2(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(crate::foreign::file_beginning(bytes));
    text.contains("<?xml") && (text.contains("<Catch2TestRun") || text.contains("<Catch "))
}

/// Reads pytest-benchmark JSON. The name of a case consists of the file and the name of the test.
/// Adds messages for the user to `warnings`.
///
/// # Errors
/// Fails if the file is not JSON, or no benchmark can be read; the message names the location of
/// the first error.
pub fn read_pytest_benchmark(
    label: &str,
    bytes: &[u8],
    warnings: &mut Vec<String>,
) -> Result<Session> {
    let parsed = json::parse(bytes)?;
    let root = JsonNode::from_root(&parsed);
    let mut left_out = DroppedEntries::default();
    let mut results = Vec::new();
    for node in root.require("benchmarks")?.elements()? {
        let read = pytest_benchmark::read_benchmark(&node);
        let Some(reported) = left_out.ok_or_count(read) else {
            continue;
        };
        let name = node.text_of("fullname")?.unwrap_or_default();
        results.push(ReportedResult { case: Some(Case::new(name, Vec::new())), ..reported });
    }
    let remark = left_out.into_warning(results.is_empty())?;
    warnings.extend(remark.map(|remark| format!("'{label}': {remark}")));
    let machine = root.get("machine_info");
    let text =
        |key: &str| -> Option<String> { Some(machine.as_ref()?.text_of(key).ok()??.to_owned()) };
    let version = text("python_version");
    let environment = Environment {
        host: text("node"),
        programs: version
            .map(|version| MeasuredProgram {
                variant: super::session_builder::ONLY_VARIANT.to_owned(),
                path: "python".into(),
                version: Some(version),
                ..MeasuredProgram::default()
            })
            .into_iter()
            .collect(),
        ..Environment::default()
    };
    let began = root.text_of("datetime")?.and_then(super::point_table::parse_time);
    build_session(label, results, environment, began, warnings)
}

/// Reads vitest JSON. Adds messages for the user to `warnings`.
///
/// # Errors
/// Fails if the file is not vitest JSON; the message names the location.
pub fn read_vitest(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let reported = vitest::read(bytes)?;
    build_session(label, reported, Environment::default(), None, warnings)
}

/// Reads Catch2 XML. Adds messages for the user to `warnings`.
///
/// # Errors
/// Fails if the file is not well-formed, or a measured value is not a number.
pub fn read_catch2(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let reported = catch2::read(bytes)?;
    build_session(label, reported, Environment::default(), None, warnings)
}

/// Builds the session: one run per benchmark, all from one process.
fn build_session(
    label: &str,
    reported: Vec<ReportedResult>,
    environment: Environment,
    started_unix_ms: Option<i64>,
    warnings: &mut Vec<String>,
) -> Result<Session> {
    let results = reported.into_iter().map(|mut result| ListedResult {
        measurement: 0,
        case: (result.case.take())
            .unwrap_or_else(|| Case::new(result.name.take().unwrap_or_default(), Vec::new())),
        metric: String::new(),
        details: std::mem::take(&mut result.details),
        content: result,
    });
    let mut remarks = Vec::new();
    let results = distinguish_results(results.collect(), &mut remarks)?;
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    let mut imported = SessionBuilder::default();
    for ListedResult { case, content, .. } in results {
        if let Some(cause) = content.cause {
            imported.add_failure(&case, cause, String::new());
            continue;
        }
        if content.samples.is_empty() {
            let reason = "no figures were reported".to_owned();
            imported.add_failure(&case, FailureCause::Invalid { reason }, String::new());
            continue;
        }
        for metric in content.metrics {
            imported.declare_metric(metric);
        }
        let elapsed = content.samples.iter().filter_map(|sample| sample.elapsed_ns);
        let process = ImportedProcess {
            wall_ns: elapsed.map(|ns| ns as f64).sum(),
            samples: content.samples,
            notes: content.notes,
        };
        imported.add_run(case, process);
    }
    imported.into_session(label, environment, started_unix_ms)
}

#[cfg(test)]
mod tests {

    fn case_ids(text: &str) -> (Vec<String>, Vec<String>) {
        let mut warnings = Vec::new();
        let sessions = crate::read_with_warnings("f", text.as_bytes(), &mut warnings).unwrap();
        let runs = sessions[0].runs.iter();
        (runs.map(|run| run.case.id()).collect(), warnings)
    }

    #[test]
    fn tests_of_pytest_benchmark_are_read_as_what_they_are() {
        let test = |name: &str, extra: &str| {
            format!(
                r#"{{"fullname":"{name}","group":null,"extra_info":{extra},"stats":{{"iterations":2,"data":[1e-6,3e-6]}}}}"#
            )
        };
        let of = |tests: &[String]| {
            format!(r#"{{"commit_info":{{}},"benchmarks":[{}]}}"#, tests.join(","))
        };
        let text = of(&[test("a.py::test_x", "{}"), test("b.py::test_x", "{}")]);
        let sessions = crate::read("f", text.as_bytes()).unwrap();
        assert_eq!(sessions[0].runs.len(), 2);
        assert_eq!(sessions[0].runs[0].case.id(), "a.py::test_x");
        assert_eq!(sessions[0].runs[0].value_of("time"), Some(2000.0));
        let text = of(&[test("a::b", r#"{"n":1}"#), test("a::b", r#"{"n":2}"#), test("c", "{}")]);
        assert_eq!(case_ids(&text).0, ["a::b n=1", "a::b n=2", "c"]);
        let text = of(&[test("a::b", "{}"), "{\"fullname\":\"c\"}".to_owned()]);
        let (found, warnings) = case_ids(&text);
        assert_eq!(found, ["a::b"]);
        assert!(warnings[0].contains("'stats' is missing in 'benchmarks[1]'"), "{warnings:?}");
    }

    #[test]
    fn benchmarks_of_vitest_of_one_name_in_two_files_have_the_file_as_a_parameter() {
        let group = |file: &str, benches: &str| {
            format!(
                r#"{{"filepath":"/{file}","groups":[{{"fullName":"{file} > g","benchmarks":[{benches}]}}]}}"#
            )
        };
        let bench = r#"{"name":"x","mean":0.5}"#;
        let text = format!(r#"{{"files":[{},{}]}}"#, group("a.ts", bench), group("b.ts", bench));
        assert_eq!(case_ids(&text).0, ["g/x file=a.ts", "g/x file=b.ts"]);
        let benches = format!(r#"{bench},{bench},{{"name":"y","mean":1}}"#);
        let (found, warnings) = case_ids(&format!(r#"{{"files":[{}]}}"#, group("a.ts", &benches)));
        assert_eq!(found, ["g/y"]);
        assert!(warnings[0].contains("2 results are called 'g/x'"), "{warnings:?}");
    }

    #[test]
    fn a_benchmark_of_catch2_that_a_generator_repeats_is_left_out_and_named() {
        let bench = |name: &str| {
            format!(
                r#"<BenchmarkResults name="{name}" samples="5"><mean value="7"/></BenchmarkResults>"#
            )
        };
        let text = format!(
            r#"<?xml version="1.0"?><Catch2TestRun><TestCase name="t">{}{}{}</TestCase></Catch2TestRun>"#,
            bench("sum"),
            bench("sum"),
            bench("once")
        );
        let (found, warnings) = case_ids(&text);
        assert_eq!(found, ["t/once"]);
        assert!(warnings[0].contains("2 results are called 't/sum'"), "{warnings:?}");
    }
}
