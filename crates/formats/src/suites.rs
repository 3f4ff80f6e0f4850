//! Reads result files that a benchmark framework wrote: JSON of JMH, criterion, pytest-benchmark
//! and vitest, XML of Catch2, and text of divan and of Rust's built-in benchmarks.
//!
//! Each process in which a benchmark was measured becomes one run. The files are parsed by
//! `foreign::suites`, which also reads what frameworks write during a measurement. Start at
//! [`read_with`].

use super::duplicate_names::{ListedResult, distinguish_results};
use super::session_builder::{DroppedEntries, ImportedProcess, InputFile, SessionBuilder};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::suites::{ReportedResult, jmh, pytest_benchmark, rust};
use anyhow::Result;
use speedwell_model::{Case, FailureCause, MeasuredProgram, Metric, Session};
use std::sync::Arc;

/// Name of the format of criterion's `sample.json`.
pub const CRITERION_JSON: &str = "criterion JSON";

/// Returns whether the data are JMH JSON.
pub fn recognizes_jmh(file: &JsonContent<'_>) -> bool {
    file.bytes.trim_ascii_start().starts_with(b"[")
        && ["benchmark", "mode"].iter().all(|key| file.has_key(2, key))
}

/// Returns whether the data are a `sample.json` of criterion.
pub fn recognizes_criterion(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "iters") && file.has_key(1, "times")
}

/// Returns whether the data are output of Rust's built-in benchmarks.
pub fn recognizes_libtest(file: &JsonContent<'_>) -> bool {
    file.beginning().lines().any(|line| line.starts_with("test ") && line.contains(" ... bench:"))
}

/// Returns whether the data are output of divan.
pub fn recognizes_divan(file: &JsonContent<'_>) -> bool {
    rust::has_divan_header(&file.beginning())
}

/// Returns whether the data are pytest-benchmark JSON.
pub fn recognizes_pytest_benchmark(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "benchmarks") && (file.has_key(1, "commit_info") || file.has_key(3, "fullname"))
}

/// Returns whether the data are vitest JSON.
pub fn recognizes_vitest(file: &JsonContent<'_>) -> bool {
    file.begins_with_key("files") && file.has_key(3, "groups")
}

/// Returns whether the data are Catch2 XML.
pub fn recognizes_catch2(file: &JsonContent<'_>) -> bool {
    let text = file.beginning();
    text.contains("<?xml") && (text.contains("<Catch2TestRun") || text.contains("<Catch "))
}

/// Reads a file with `parse`, for formats in which a file contains the results of a single process.
/// Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if `parse` does, or if there are no results.
pub fn read_with(
    file: &InputFile<'_>,
    parse: impl FnOnce(&[u8]) -> Result<Vec<ReportedResult>>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let benchmarks = parse(file.bytes)?.into_iter().map(|result| vec![result]);
    build_session(file, benchmarks, SessionBuilder::default(), remarks)
}

/// Reads JMH JSON. Each fork becomes a run. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JMH JSON; the message names the location.
pub fn read_jmh(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let benchmarks = jmh::read_forks(file.bytes)?.into_iter();
    build_session(file, benchmarks, SessionBuilder::default(), remarks)
}

/// Names the benchmark of a session from a `sample.json` of criterion. `description` is the content
/// of the `benchmark.json` in the same folder.
///
/// # Errors
/// Fails if the description is not JSON, or has no name.
pub fn name_criterion_benchmark(session: &mut Session, description: &[u8]) -> Result<()> {
    let parsed = json::parse(description)?;
    let name = JsonNode::from_root(&parsed).require("full_id")?.text()?;
    let case = Arc::new(Case::new(name, Vec::new()));
    session.runs.iter_mut().for_each(|run| run.case = case.clone());
    for failure in &mut session.failures {
        failure.benchmark = name.to_owned();
        failure.case = Some(case.id());
    }
    Ok(())
}

/// Reads output of Rust's built-in benchmarks. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the text has no results, or a result cannot be read; the message names the line.
pub fn read_libtest(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let sessions = read_with(file, rust::read_libtest, remarks)?;
    if rust::is_libtest_cut_short(file.bytes) {
        remarks.push(
            "the line 'test result' is missing at the end, so results may be missing".to_owned(),
        );
    }
    Ok(sessions)
}

/// Reads output of divan. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the text has no results, or a result cannot be read; the message names the line.
pub fn read_divan(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let mut results = rust::read_divan(file.bytes)?;
    let rows = results.len();
    results.retain(|result| result.cause.is_some() || !result.samples.is_empty());
    if results.len() < rows || rust::is_divan_cut_short(file.bytes) {
        remarks.push("its tree is incomplete, so results may be missing".to_owned());
    }
    read_with(file, |_| Ok(results), remarks)
}

/// Reads pytest-benchmark JSON. The name of a case consists of the file and the name of the test.
/// Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, or no benchmark can be read; the message names the location of
/// the first error.
pub fn read_pytest_benchmark(
    file: &InputFile<'_>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let mut left_out = DroppedEntries::default();
    let mut results = Vec::new();
    for node in root.require("benchmarks")?.elements()? {
        let read = pytest_benchmark::read_benchmark(&node);
        let Some(reported) = left_out.ok_or_count(read) else { continue };
        let name = node.text_of("fullname")?.unwrap_or_default();
        results.push(vec![ReportedResult { case: Some(Case::new(name, Vec::new())), ..reported }]);
    }
    remarks.extend(left_out.into_warning(results.is_empty())?);
    let machine = root.get("machine_info");
    let text =
        |key: &str| -> Option<String> { Some(machine.as_ref()?.text_of(key).ok()??.to_owned()) };
    let mut imported = SessionBuilder::default();
    imported.environment.host = text("node");
    imported.environment.programs.extend(text("python_version").map(|version| MeasuredProgram {
        variant: super::session_builder::ONLY_VARIANT.to_owned(),
        path: "python".into(),
        version: Some(version),
        ..MeasuredProgram::default()
    }));
    imported.started_unix_ms = root.text_of("datetime")?.and_then(super::point_table::parse_time);
    build_session(file, results.into_iter(), imported, remarks)
}

/// Adds the results to the session and builds it. Each item of `benchmarks` contains the results of
/// one benchmark, one result per process.
fn build_session(
    file: &InputFile<'_>,
    benchmarks: impl Iterator<Item = Vec<ReportedResult>>,
    mut imported: SessionBuilder,
    remarks: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let listed = benchmarks.filter_map(list_benchmark).collect();
    for ListedResult { case, content, .. } in distinguish_results(listed, remarks)? {
        content.into_iter().for_each(|process| add_process(&mut imported, &case, process));
    }
    Ok(vec![imported.into_session(file.label)?])
}

/// Lists a benchmark with the results of its processes; `None` if there are none.
fn list_benchmark(processes: Vec<ReportedResult>) -> Option<ListedResult<Vec<ReportedResult>>> {
    let first = processes.first()?;
    // Only a `sample.json` of criterion does not state its benchmark, see
    // [`name_criterion_benchmark`].
    let name = || Case::new(first.name.as_deref().unwrap_or("criterion"), Vec::new());
    let metric = first.metrics.first().map_or(Metric::TIME, |metric| metric.name.as_str());
    Some(ListedResult {
        // A benchmark of JMH has one result per mode, and modes are metrics.
        metric: metric.to_owned(),
        details: first.details.clone(),
        ..ListedResult::new(first.case.clone().unwrap_or_else(name), processes)
    })
}

fn add_process(imported: &mut SessionBuilder, case: &Case, result: ReportedResult) {
    let no_figures = || FailureCause::invalid("no figures were reported");
    let cause = result.cause.or_else(|| result.samples.is_empty().then(no_figures));
    if let Some(cause) = cause {
        imported.add_failure(case, cause, String::new());
        return;
    }
    for metric in result.metrics {
        imported.declare_metric(metric);
    }
    let elapsed = result.samples.iter().filter_map(|sample| sample.elapsed_ns);
    let wall_ns = elapsed.map(|ns| ns as f64).sum();
    let process = ImportedProcess { wall_ns, samples: result.samples, notes: result.notes };
    imported.add_run(case.clone(), process);
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
    fn pytest_benchmark_tests_are_imported_with_their_extra_parameters() {
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
    fn forks_of_jmh_are_runs_and_modes_are_metrics() {
        let result = |mode: &str, unit: &str, raw: &str| {
            format!(
                r#"{{"benchmark":"a.B.c","mode":"{mode}","primaryMetric":{{"scoreUnit":"{unit}","rawData":{raw}}}}}"#
            )
        };
        let times = result("avgt", "us/op", "[[1,2],[3,4],[5,6]]");
        let text = format!("[{times},{}]", result("thrpt", "ops/us", "[[7],[8]]"));
        let session = crate::read("f", text.as_bytes()).unwrap().remove(0);
        let values = |metric: &str| -> Vec<f64> {
            session.runs.iter().filter_map(|run| run.value_of(metric)).collect()
        };
        assert_eq!(values("time"), [1500.0, 3500.0, 5500.0]);
        assert_eq!(values("throughput"), [7e6, 8e6]);
        assert!(session.runs.iter().all(|run| run.case.id() == "a.B.c"));
        let (found, warnings) = case_ids(&format!("[{times},{times},{}]", times.replace('B', "D")));
        assert_eq!(found, ["a.D.c"; 3]);
        assert!(warnings[0].contains("2 results are called 'a.B.c'"), "{warnings:?}");
    }

    #[test]
    fn a_sample_of_criterion_is_named_by_its_description() {
        let text = br#"{"sampling_mode":"Flat","iters":[2,2],"times":[10,14]}"#;
        let mut session = crate::read("new/sample.json", text).unwrap().remove(0);
        assert_eq!(session.runs[0].case.id(), "criterion");
        assert_eq!(session.runs[0].value_of("time"), Some(6.0));
        let description = br#"{"group_id":"g","function_id":"f","full_id":"g/f"}"#;
        super::name_criterion_benchmark(&mut session, description).unwrap();
        assert_eq!(session.runs[0].case.id(), "g/f");
        assert!(super::name_criterion_benchmark(&mut session, b"{}").is_err());
    }

    #[test]
    fn truncated_output_of_rust_benchmarks_is_reported() {
        let text = "running 2 tests\ntest a ... bench: 1,234.5 ns/iter (+/- 6)\n";
        let (found, warnings) = case_ids(text);
        assert_eq!(found, ["a"]);
        assert!(warnings[0].starts_with("'f': the line 'test result' is missing"), "{warnings:?}");
        assert!(case_ids(&format!("{text}test b ... ok\ntest result: ok.\n")).1.is_empty());
        let error = crate::read("f", &text.as_bytes()[..text.len() - 6]).unwrap_err();
        assert!(format!("{error:#}").contains("line 2 does not end"), "{error:#}");
    }

    #[test]
    fn truncated_output_of_divan_is_reported() {
        let figures = "1 µs │ 3 µs │ 2 µs │ 2 µs │ 5 │ 5";
        let text = format!(
            "tiny     fastest │ slowest │ median │ mean │ samples │ iters\n├─ a     {figures}\n╰─ b     {figures}\n"
        );
        assert_eq!(case_ids(&text), (vec!["tiny::a".to_owned(), "tiny::b".to_owned()], vec![]));
        for end in ["╰─", "     1"] {
            let cut = &text[..text.rfind(end).unwrap()];
            let (found, warnings) = case_ids(cut);
            assert_eq!(found, ["tiny::a"], "{cut}");
            assert_eq!(warnings, ["'f': its tree is incomplete, so results may be missing"]);
        }
        let error = crate::read("f", &text.as_bytes()[..text.len() - 7]).unwrap_err();
        assert!(format!("{error:#}").contains("in line 3, "), "{error:#}");
    }

    #[test]
    fn vitest_benchmarks_with_the_same_name_get_the_file_as_a_parameter() {
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
    fn a_repeated_catch2_benchmark_is_left_out_with_a_warning() {
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
