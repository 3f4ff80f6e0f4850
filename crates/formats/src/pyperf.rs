//! Reads results of pyperf, as written by `pyperf timeit -o` and by scripts that use its `Runner`.
//!
//! Decides how entries are mapped: each `run` with values is one process and thus one run;
//! calibration runs and warm-up values are ignored. The module does not know where the file comes
//! from. Start at [`read`]. The section "JSON" of pyperf's documentation defines version 1.0 of the
//! format.

use super::duplicate_names::{ListedResult, distinguish_results};
use super::load_report::NS_PER_SECOND;
use super::session_builder::{
    ImportedProcess, InputFile, ONLY_VARIANT, SessionBuilder, value_sample,
};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::suites::ReportedResult;
use anyhow::{Context, Result, bail, ensure};
use speedwell_model::{
    Case, Environment, MeasuredProgram, Metric, MetricDirection, Run, Sample, Session,
};

/// Environment facts to keep, by their keys in the metadata of the file.
const FACT_KEYS: [&str; 5] =
    ["cpu_config", "perf_version", "platform", "python_implementation", "timer"];

/// Returns whether the data have this format.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "benchmarks") && file.has_key(3, "runs")
}

/// Reads a whole file. Adds messages about dropped content to `remarks`.
///
/// # Errors
/// Fails if the file is not JSON, or a value is missing, unknown or of the wrong type. The message
/// names the value.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    if let Some(version) = root.get("version") {
        let version = version.text()?;
        ensure!(
            version.split('.').next() == Some("1"),
            "unsupported format version {version}: expected version 1"
        );
    }
    let mut listed = Vec::new();
    for benchmark in root.require("benchmarks")?.elements()? {
        let inner = [benchmark.get("metadata"), root.get("metadata")];
        let name = find_metadata(&inner, "name")
            .with_context(|| format!("the name of '{}' is missing", benchmark.location()))?;
        let case = Case::new(name.text()?, Vec::new());
        let details = read_details(benchmark.get("metadata"));
        listed.push(ListedResult { details, ..ListedResult::new(case, benchmark) });
    }
    let mut imported = SessionBuilder::default();
    for result in distinguish_results(listed, remarks)? {
        add_benchmark(&result.content, &result.case, root.get("metadata"), &mut imported)?;
    }
    imported.environment = read_environment(root.get("metadata"))?;
    Ok(vec![imported.into_session(file.label)?])
}

/// Parses the output of pyperf; returns one result for each run of a benchmark.
///
/// # Errors
/// Fails like [`read`].
pub fn read_reported(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let sessions = read(&InputFile::new("pyperf", bytes), &mut Vec::new())?;
    let session = sessions.into_iter().next().unwrap_or_default();
    let to_result = |run: Run| ReportedResult {
        metrics: (session.metrics.iter())
            .filter(|metric| run.samples.iter().any(|sample| *sample.metric == *metric.name))
            .cloned()
            .collect(),
        samples: run.samples,
        ..ReportedResult::new(Some(run.case.benchmark.clone()))
    };
    let results: Vec<ReportedResult> = session.runs.into_iter().map(to_result).collect();
    match results.iter().find_map(ReportedResult::find_fault) {
        Some(fault) => bail!("{fault}"),
        None => Ok(results),
    }
}

fn add_benchmark(
    benchmark: &JsonNode<'_>,
    case: &Case,
    common: Option<JsonNode<'_>>,
    imported: &mut SessionBuilder,
) -> Result<()> {
    let inner = [benchmark.get("metadata"), common];
    let (metric, factor) = match find_metadata(&inner, "unit")
        .map(|unit| unit.text())
        .transpose()?
    {
        // pyperf's documentation gives seconds as the default.
        None | Some("second") => (Metric::new("time", "ns", MetricDirection::Lower), NS_PER_SECOND),
        Some("byte") => (Metric::new("memory", "B", MetricDirection::Lower), 1.0),
        Some("integer") => (Metric::new("value", "", MetricDirection::Lower), 1.0),
        Some(unit) => bail!("'{}' has the unknown unit '{unit}'", benchmark.location()),
    };
    let is_time = metric.unit == "ns";
    let metric = imported.declare_metric(metric);
    for run in benchmark.require("runs")?.elements()? {
        let Some(values) = run.get("values") else { continue };
        let [benchmark_metadata, file_metadata] = inner.clone();
        let metadata = [run.get("metadata"), benchmark_metadata, file_metadata];
        let iterations = iterations_per_value(&metadata)?;
        let mut samples = Vec::new();
        for value in values.elements()? {
            let scaled = value.number()? * factor;
            samples.push(Sample {
                elapsed_ns: is_time.then_some((scaled * iterations) as u64),
                iterations: is_time.then_some(iterations),
                ..value_sample(&metric, scaled)
            });
        }
        if let Some(memory) = find_metadata(&metadata, "mem_max_rss").filter(|_| is_time) {
            let metric = Metric::new("max_rss", "B", MetricDirection::Lower);
            samples.push(imported.metric_sample(metric, memory.number()?));
        }
        let duration = find_metadata(&metadata[..1], "duration").map(|node| node.number());
        let wall_ns = duration.transpose()?.unwrap_or_default() * NS_PER_SECOND;
        imported.add_run(case.clone(), ImportedProcess { wall_ns, samples, notes: Vec::new() });
    }
    Ok(())
}

/// Metadata that describe the benchmark and its environment, not the outcome.
const DETAIL_KEYS: [&str; 8] = [
    "description",
    "command",
    "timeit_stmt",
    "timeit_setup",
    "python_implementation",
    "python_version",
    "python_executable",
    "hostname",
];

/// Returns the details that may distinguish a benchmark from other benchmarks with the same name.
fn read_details(metadata: Option<JsonNode<'_>>) -> Vec<(String, String)> {
    let text = |key: &&str| -> Option<(String, String)> {
        let text = metadata.as_ref()?.text_of(key).ok()??;
        Some(((*key).to_owned(), text.to_owned()))
    };
    DETAIL_KEYS.iter().filter_map(text).collect()
}

/// Returns the value of `key` in the innermost metadata that contain this key.
fn find_metadata<'a>(innermost_first: &[Option<JsonNode<'a>>], key: &str) -> Option<JsonNode<'a>> {
    innermost_first.iter().flatten().find_map(|metadata| metadata.get(key))
}

/// Returns the product of `loops` and `inner_loops`. pyperf divides each measured time by this
/// product before it writes the value.
fn iterations_per_value(metadata: &[Option<JsonNode<'_>>]) -> Result<f64> {
    let factor = |key| find_metadata(metadata, key).map_or(Ok(1.0), |node| node.number());
    Ok(factor("loops")? * factor("inner_loops")?)
}

fn read_environment(metadata: Option<JsonNode<'_>>) -> Result<Environment> {
    let Some(metadata) = metadata else { return Ok(Environment::default()) };
    let text =
        |key: &str| -> Result<Option<String>> { Ok(metadata.text_of(key)?.map(str::to_owned)) };
    let mut environment = Environment {
        host: text("hostname")?,
        cpu: text("cpu_model_name")?,
        cpus: metadata.number_of("cpu_count")?.map(|count| count as u32),
        // pyperf translates the kernel's numeric setting into words.
        aslr: text("aslr")?.map(|setting| setting != "No randomization"),
        ..Environment::default()
    };
    for key in FACT_KEYS {
        environment.facts.extend(text(key)?.map(|fact| (key.to_owned(), fact)));
    }
    environment.programs.extend(text("python_executable")?.map(|path| MeasuredProgram {
        variant: ONLY_VARIANT.to_owned(),
        path: path.into(),
        version: text("python_version").ok().flatten(),
        ..MeasuredProgram::default()
    }));
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(text: &str) -> String {
        format!("{:#}", read_bytes(text.as_bytes()).unwrap_err())
    }

    fn read_bytes(bytes: &[u8]) -> Result<Session> {
        read(&InputFile::new("p.json", bytes), &mut Vec::new()).map(|mut read| read.remove(0))
    }

    #[test]
    fn benchmarks_with_the_same_name_are_told_apart_by_their_metadata() {
        let session = read_bytes(
            br#"{"benchmarks":[
                {"metadata":{"name":"a","timeit_stmt":"x"},"runs":[{"values":[1.0]},{"values":[1.5]}]},
                {"metadata":{"name":"a","timeit_stmt":"y"},"runs":[{"values":[2.0]}]}]}"#,
        );
        let runs = session.unwrap().runs;
        let ids: Vec<String> = runs.iter().map(|run| run.case.id()).collect();
        assert_eq!(ids, ["a timeit_stmt=x", "a timeit_stmt=x", "a timeit_stmt=y"]);
    }

    #[test]
    fn run_metadata_overrides_benchmark_and_file_metadata() {
        let session = read_bytes(
            br#"{"version":"1.0","metadata":{"name":"a","loops":4,"unit":"second"},"benchmarks":[
                {"runs":[{"warmups":[[1,9.0]]},
                         {"values":[0.5],"warmups":[[4,7.0]]},
                         {"values":[0.25],"metadata":{"loops":8,"inner_loops":10}}]},
                {"metadata":{"name":"m","unit":"byte"},"runs":[{"values":[4096]}]}]}"#,
        )
        .unwrap();
        let times: Vec<_> = session.runs.iter().map(|run| run.value_of("time")).collect();
        assert_eq!(times, [Some(5e8), Some(2.5e8), None]);
        assert_eq!(session.runs[0].samples[0].iterations, Some(4.0));
        assert_eq!(session.runs[1].samples[0].iterations, Some(80.0));
        assert_eq!(session.runs[1].samples[0].elapsed_ns, Some(20_000_000_000));
        assert_eq!(session.runs[2].case.id(), "m");
        assert_eq!(session.runs[2].value_of("memory"), Some(4096.0));
    }

    #[test]
    fn errors_name_the_invalid_element() {
        assert_eq!(error_text(r#"{"benchmarks":[]}"#), "it contains no results");
        assert_eq!(
            error_text(r#"{"benchmarks":[{"runs":[]}]}"#),
            "the name of 'benchmarks[0]' is missing"
        );
        assert_eq!(
            error_text(r#"{"benchmarks":[{"metadata":{"name":"a","unit":"mile"},"runs":[]}]}"#),
            "'benchmarks[0]' has the unknown unit 'mile'"
        );
        assert_eq!(
            error_text(r#"{"version":"2.0","benchmarks":[]}"#),
            "unsupported format version 2.0: expected version 1"
        );
        assert_eq!(
            error_text(r#"{"benchmarks":[{"metadata":{"name":"a"},"runs":[{"values":["x"]}]}]}"#),
            "'benchmarks[0].runs[0].values[0]' is \"x\", not a number"
        );
    }
}
