//! Reads results of Krun, the experiment runner behind "Virtual Machine Warmup Blows Hot and Cold"
//! (Barrett et al., OOPSLA 2017). The results contain the wall-clock times of all iterations of
//! every process.
//!
//! Decides what the entries mean: a key `BENCHMARK:VM:VARIANT` is a case, and each list below the
//! key is a process. The numbers in a list are the times of the iterations in seconds. Start at
//! [`read`]. Processor counters, and what `warmup_stats` adds to such files, are ignored.

use super::load_report::NS_PER_SECOND;
use super::session_builder::{ImportedProcess, InputFile, SessionBuilder, value_sample};
use crate::foreign::json::{self, JsonContent, JsonNode};
use anyhow::{Context, Result, ensure};
use speedwell_model::{Case, FailureCause, Metric, ParameterValue, Sample, Session, SteadyRule};

const TIMES_KEY: &str = "wallclock_times";

/// Returns whether the data are results of Krun.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, TIMES_KEY)
}

/// Reads a whole file.
///
/// # Errors
/// Fails if the file is not JSON, or a value is missing or has the wrong type; the message names
/// the value.
pub fn read(file: &InputFile<'_>, _: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let times = root.require(TIMES_KEY)?;
    let mut imported = SessionBuilder::default();
    let metric = imported.declare_metric(Metric::throughput());
    for (key, value) in times.members() {
        let case = parse_case(key).with_context(|| format!("'{key}' in '{TIMES_KEY}'"))?;
        let processes = JsonNode::at_location(format!("{TIMES_KEY}.{key}"), value);
        for process in processes.elements()? {
            let points = process.elements()?;
            if points.is_empty() {
                // Krun records an empty list for a process that crashed.
                imported.add_failure(&case, FailureCause::Silent, "krun".to_owned());
                continue;
            }
            let sample = |point: &JsonNode<'_>| {
                let seconds = point.number()?;
                let location = point.location();
                ensure!(seconds > 0.0, "'{location}' is {seconds}: expected a time above 0");
                Ok(Sample {
                    elapsed_ns: Some((seconds * NS_PER_SECOND) as u64),
                    iterations: Some(1.0),
                    ..value_sample(&metric, 1.0 / seconds)
                })
            };
            let samples = points.iter().map(sample).collect::<Result<_>>()?;
            let process = ImportedProcess { samples, ..ImportedProcess::default() };
            imported.add_run(case.clone(), process);
        }
    }
    let mut session = imported.into_session(file.label)?;
    session.design.steady = Some(SteadyRule::default());
    Ok(vec![session])
}

/// Parses a key such as `fannkuch_redux:Graal:default-java`.
fn parse_case(key: &str) -> Result<Case> {
    let parts: Vec<&str> = key.split(':').collect();
    let [benchmark, vm, variant] = parts[..] else {
        anyhow::bail!("expected BENCHMARK:VM:VARIANT");
    };
    ensure!(!benchmark.is_empty(), "the name of the benchmark is empty");
    let value = |name: &str, text: &str| (name.to_owned(), ParameterValue::Text(text.to_owned()));
    Ok(Case::new(benchmark, vec![value("vm", vm), value("variant", variant)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_a_process_and_an_empty_one_a_failure() {
        let text = br#"{"audit": {"uname": "x"}, "wallclock_times": {
            "nbody:CPython:default-python": [[0.5, 0.25], [], [0.5, 0.2]]}, "reboots": 3}"#;
        assert!(recognizes(&JsonContent::new(text)));
        let session = read(&InputFile::new("krun.json", text), &mut Vec::new()).unwrap().remove(0);
        assert_eq!(session.runs[0].case.id(), "nbody variant=default-python vm=CPython");
        let values: Vec<f64> = session.runs[1].samples.iter().map(|sample| sample.value).collect();
        assert_eq!((session.runs.len(), session.failures.len(), values), (2, 1, vec![2.0, 5.0]));
        assert_eq!(session.design.steady, Some(SteadyRule::default()));
    }

    #[test]
    fn mistakes_are_named() {
        let error_message = |times: &str| {
            let text = format!("{{\"wallclock_times\": {times}}}");
            format!(
                "{:#}",
                read(&InputFile::new("f", text.as_bytes()), &mut Vec::new()).unwrap_err()
            )
        };
        assert_eq!(
            error_message("{\"a:b\": []}"),
            "'a:b' in 'wallclock_times': expected BENCHMARK:VM:VARIANT"
        );
        assert!(error_message("{\"a:b:c\": [[1, -2]]}").contains("is -2: expected a time above 0"));
        assert_eq!(error_message("{}"), "it contains no results");
    }
}
