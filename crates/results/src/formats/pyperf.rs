//! Results of pyperf, as written by `pyperf timeit -o` and its runners.
//!
//! Decides how entries are mapped: each `run` with values is one process and thus one run;
//! calibration runs and warm-up values are ignored. Does not know where the file comes from. Start
//! at [`read`]. The format is version 1.0 of pyperf's "JSON" documentation.

use super::imported::{Imported, Process, VARIANT, sample};
use super::load_report::NS_PER_SECOND;
use super::same_names::{Listed, tell_apart};
use crate::foreign::json::{self, Content, Node};
use crate::foreign::suites::Reported;
use anyhow::{Context, Result, bail, ensure};
use speedwell_model::{Better, Case, Environment, Metric, Program, Run, Sample, Session};

/// Environment facts to keep, by their keys in the metadata of the file.
const FACTS: [&str; 5] = [
    "cpu_config",
    "perf_version",
    "platform",
    "python_implementation",
    "timer",
];

/// Returns whether the data have this format.
pub fn recognises(file: &Content<'_>) -> bool {
    file.has(1, "benchmarks") && file.has(3, "runs")
}

/// Reads a whole file. Adds messages about dropped content to `warnings`.
///
/// # Errors
/// The file is not JSON, or a value is missing, unknown or of the wrong type; the message names it.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let parsed = json::parse(bytes)?;
    let root = Node::root(&parsed);
    if let Some(version) = root.get("version") {
        let version = version.text()?;
        ensure!(
            version.split('.').next() == Some("1"),
            "it is of format version {version}; version 1 is known"
        );
    }
    let mut listed = Vec::new();
    for benchmark in root.need("benchmarks")?.elements()? {
        let inner = [benchmark.get("metadata"), root.get("metadata")];
        let name = meta(&inner, "name")
            .with_context(|| format!("the name of '{}' is missing", benchmark.place()))?;
        listed.push(Listed {
            measurement: 0,
            case: Case::new(name.text()?, Vec::new()),
            metric: String::new(),
            details: details(benchmark.get("metadata")),
            content: benchmark,
        });
    }
    let mut remarks = Vec::new();
    let listed = tell_apart(listed, &mut remarks)?;
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    let mut imported = Imported::default();
    for one in listed {
        add(&one.content, &one.case, root.get("metadata"), &mut imported)?;
    }
    imported.into_session(label, environment(root.get("metadata"))?, None)
}

/// Parses the output of one pyperf process, benchmark by benchmark.
///
/// # Errors
/// As for [`read`].
pub fn reported(bytes: &[u8]) -> Result<Vec<Reported>> {
    let session = read("pyperf", bytes, &mut Vec::new())?;
    let one = |run: Run| Reported {
        metrics: (session.metrics.iter())
            .filter(|metric| {
                run.samples
                    .iter()
                    .any(|sample| *sample.metric == *metric.name)
            })
            .cloned()
            .collect(),
        samples: run.samples,
        ..Reported::new(Some(run.case.benchmark.clone()))
    };
    let all: Vec<Reported> = session.runs.into_iter().map(one).collect();
    match all.iter().find_map(Reported::fault) {
        Some(fault) => bail!("{fault}"),
        None => Ok(all),
    }
}

/// Adds an element of `benchmarks`.
fn add(
    benchmark: &Node<'_>,
    case: &Case,
    common: Option<Node<'_>>,
    imported: &mut Imported,
) -> Result<()> {
    let inner = [benchmark.get("metadata"), common];
    let (metric, factor) = match meta(&inner, "unit").map(|unit| unit.text()).transpose()? {
        // pyperf's documentation gives seconds as the default.
        None | Some("second") => (Metric::new("time", "ns", Better::Lower), NS_PER_SECOND),
        Some("byte") => (Metric::new("memory", "B", Better::Lower), 1.0),
        Some("integer") => (Metric::new("value", "", Better::Lower), 1.0),
        Some(unit) => bail!("'{}' has the unknown unit '{unit}'", benchmark.place()),
    };
    let is_time = metric.unit == "ns";
    let metric = imported.metric(metric);
    for run in benchmark.need("runs")?.elements()? {
        let Some(values) = run.get("values") else {
            continue;
        };
        let [of_benchmark, of_file] = inner.clone();
        let outer = [run.get("metadata"), of_benchmark, of_file];
        let iterations = iterations(&outer)?;
        let mut samples = Vec::new();
        for value in values.elements()? {
            let value = value.number()? * factor;
            samples.push(Sample {
                elapsed_ns: is_time.then_some((value * iterations) as u64),
                iterations: is_time.then_some(iterations),
                ..sample(&metric, value)
            });
        }
        if let Some(memory) = meta(&outer, "mem_max_rss").filter(|_| is_time) {
            let metric = imported.metric(Metric::new("max_rss", "B", Better::Lower));
            samples.push(sample(&metric, memory.number()?));
        }
        let duration = meta(&outer[..1], "duration").map(|node| node.number());
        let process = Process {
            wall_ns: duration.transpose()?.unwrap_or_default() * NS_PER_SECOND,
            samples,
            notes: Vec::new(),
        };
        imported.run(case.clone(), process);
    }
    Ok(())
}

/// Metadata that describe what was measured, not the outcome.
const DETAILS: [&str; 8] = [
    "description",
    "command",
    "timeit_stmt",
    "timeit_setup",
    "python_implementation",
    "python_version",
    "python_executable",
    "hostname",
];

/// Returns the details that may distinguish a benchmark from another with the same name.
fn details(metadata: Option<Node<'_>>) -> Vec<(String, String)> {
    let text = |key: &&str| -> Option<(String, String)> {
        let text = metadata.as_ref()?.text_of(key).ok()??;
        Some(((*key).to_owned(), text.to_owned()))
    };
    DETAILS.iter().filter_map(text).collect()
}

/// Looks up a fact in the innermost metadata that contain it.
fn meta<'a>(innermost_first: &[Option<Node<'a>>], key: &str) -> Option<Node<'a>> {
    innermost_first
        .iter()
        .flatten()
        .find_map(|metadata| metadata.get(key))
}

/// Returns the number of iterations per value: pyperf divides by this product before it writes
/// values.
fn iterations(metadata: &[Option<Node<'_>>]) -> Result<f64> {
    let factor = |key| meta(metadata, key).map_or(Ok(1.0), |node| node.number());
    Ok(factor("loops")? * factor("inner_loops")?)
}

fn environment(metadata: Option<Node<'_>>) -> Result<Environment> {
    let Some(metadata) = metadata else {
        return Ok(Environment::default());
    };
    let text =
        |key: &str| -> Result<Option<String>> { Ok(metadata.text_of(key)?.map(str::to_owned)) };
    let mut environment = Environment {
        host: text("hostname")?,
        cpu: text("cpu_model_name")?,
        cpus: metadata.number_of("cpu_count")?.map(|count| count as u32),
        // The kernel's setting, as translated by pyperf.
        aslr: text("aslr")?.map(|words| words != "No randomization"),
        ..Environment::default()
    };
    for key in FACTS {
        environment
            .facts
            .extend(text(key)?.map(|fact| (key.to_owned(), fact)));
    }
    environment
        .programs
        .extend(text("python_executable")?.map(|path| Program {
            variant: VARIANT.to_owned(),
            path: path.into(),
            version: text("python_version").ok().flatten(),
            ..Program::default()
        }));
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        format!("{:#}", read_bytes(text.as_bytes()).unwrap_err())
    }

    fn read_bytes(bytes: &[u8]) -> Result<Session> {
        read("p.json", bytes, &mut Vec::new())
    }

    #[test]
    fn benchmarks_of_one_name_are_told_apart_by_their_metadata() {
        let session = read_bytes(
            br#"{"benchmarks":[
                {"metadata":{"name":"a","timeit_stmt":"x"},"runs":[{"values":[1.0]},{"values":[1.5]}]},
                {"metadata":{"name":"a","timeit_stmt":"y"},"runs":[{"values":[2.0]}]}]}"#,
        );
        let runs = session.unwrap().runs;
        let ids: Vec<String> = runs.iter().map(|run| run.case.id()).collect();
        assert_eq!(
            ids,
            ["a timeit_stmt=x", "a timeit_stmt=x", "a timeit_stmt=y"]
        );
    }

    #[test]
    fn metadata_of_a_run_hides_that_of_the_benchmark_and_of_the_file() {
        let session = read_bytes(
            br#"{"version":"1.0","metadata":{"name":"a","loops":4,"unit":"second"},"benchmarks":[
                {"runs":[{"warmups":[[1,9.0]]},
                         {"values":[0.5],"warmups":[[4,7.0]]},
                         {"values":[0.25],"metadata":{"loops":8,"inner_loops":10}}]},
                {"metadata":{"name":"m","unit":"byte"},"runs":[{"values":[4096]}]}]}"#,
        )
        .unwrap();
        let times: Vec<_> = session
            .runs
            .iter()
            .map(|run| run.value_of("time"))
            .collect();
        assert_eq!(times, [Some(5e8), Some(2.5e8), None]);
        assert_eq!(session.runs[0].samples[0].iterations, Some(4.0));
        assert_eq!(session.runs[1].samples[0].iterations, Some(80.0));
        assert_eq!(session.runs[1].samples[0].elapsed_ns, Some(20_000_000_000));
        assert_eq!(session.runs[2].case.id(), "m");
        assert_eq!(session.runs[2].value_of("memory"), Some(4096.0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(
            message(r#"{"benchmarks":[]}"#),
            "there are no results in it"
        );
        assert_eq!(
            message(r#"{"benchmarks":[{"runs":[]}]}"#),
            "the name of 'benchmarks[0]' is missing"
        );
        assert_eq!(
            message(r#"{"benchmarks":[{"metadata":{"name":"a","unit":"mile"},"runs":[]}]}"#),
            "'benchmarks[0]' has the unknown unit 'mile'"
        );
        assert_eq!(
            message(r#"{"version":"2.0","benchmarks":[]}"#),
            "it is of format version 2.0; version 1 is known"
        );
        assert_eq!(
            message(r#"{"benchmarks":[{"metadata":{"name":"a"},"runs":[{"values":["x"]}]}]}"#),
            "'benchmarks[0].runs[0].values[0]' is \"x\", not a number"
        );
    }
}
