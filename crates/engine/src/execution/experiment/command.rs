//! Measures a command: runs it to its end and extracts metrics from its output.

use super::assertions::{self, CapturedOutput, ProofSources};
use super::lifecycle::RunProfiler;
use super::{RunReport, StageResult, metrics, stage_failure};
use regex::Regex;
use speedwell_machine::process::{
    self as process, OutputStream, ProcessEnd, ProcessOutcome, ProcessSpec, WaitClock,
};
use speedwell_model::assignment::{MetricSource, RunAssignment, TargetMetric};
use speedwell_model::stage_report::{ReportedMetric, RunStage, StageFailure};
use std::time::{Instant, SystemTime};

/// Number of lines of stderr that are kept from a failed command.
const TAIL_LINES: usize = 20;

/// Performs the run of a command.
///
/// # Errors
/// Returns the stage that failed.
pub fn run_command(
    assignment: &RunAssignment,
    spec: ProcessSpec,
    report: &mut RunReport,
) -> StageResult<()> {
    let mut output = CapturedOutput::default();
    let counter = metrics::open_if_wanted(assignment, report);
    let (started, begin) = (SystemTime::now(), Instant::now());
    let profiler = RunProfiler::from_request(assignment.profile.as_ref());
    let outcome = match &profiler {
        Some(profiler) => profiler.record(spec, &mut output, report)?,
        None => process::run_child(&spec, &mut output).map_err(|error| {
            let program = spec.program.display();
            stage_failure(RunStage::Start, format!("'{program}': {error}"))
        })?,
    };
    let with_stderr = |failure: StageFailure| StageFailure {
        stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
        ..failure
    };
    check_exit(assignment, &outcome).map_err(with_stderr)?;
    let sources = ProofSources {
        output: &output,
        directory: &assignment.target.directory,
        since: started,
        clock: WaitClock::REAL,
        ask: &|_| Err("a command does not answer requests".to_owned()),
    };
    for at_exit in [false, true] {
        assertions::check_proofs(&assignment.proofs, at_exit, &sources).map_err(with_stderr)?;
    }
    if profiler.is_some() {
        return Ok(());
    }
    for figure in &assignment.figures {
        let values = extract_values(figure, &output, begin, &outcome).map_err(|reason| {
            let reason = format!("'{}': {reason}", figure.metric.name);
            with_stderr(stage_failure(RunStage::Figures, reason))
        })?;
        report.performed.figures.push(ReportedMetric::new(figure.metric.clone(), values));
    }
    metrics::add_command_metrics(&outcome, counter.and_then(|counter| counter.read()), report);
    report.performed.notes.extend(outcome.describe_leftovers());
    Ok(())
}

fn check_exit(assignment: &RunAssignment, outcome: &ProcessOutcome) -> StageResult<()> {
    let expected = assignment.target.expected_exit;
    let end = match outcome.ended {
        ProcessEnd::Exit(code) if code == expected => return Ok(()),
        ProcessEnd::Exit(_) if expected != 0 => format!("{} instead of {expected}", outcome.ended),
        ProcessEnd::Exit(_) | ProcessEnd::Signal(_) => outcome.ended.to_string(),
        ProcessEnd::Timeout => {
            format!("did not end within {} s", assignment.target.limit_ms as f64 / 1e3)
        }
        ProcessEnd::Lingered => "did not end".to_owned(),
        ProcessEnd::Interrupted => "interrupted".to_owned(),
    };
    // The message gives the duration in whole seconds, and leaves it out if it is below one second.
    // Similar failures therefore have the same message and can be grouped.
    let duration_clause = match outcome.wall_ns / 1_000_000_000 {
        0 => String::new(),
        wall_s => format!(" after {wall_s} s"),
    };
    Err(stage_failure(RunStage::Alive, format!("{end}{duration_clause}")))
}

fn extract_values(
    figure: &TargetMetric,
    output: &CapturedOutput,
    begin: Instant,
    outcome: &ProcessOutcome,
) -> Result<Vec<f64>, String> {
    let text = output.stream_text(OutputStream::Stdout);
    let mut values = match &figure.from {
        MetricSource::Regex(pattern) => values_by_pattern(pattern, &text)?,
        MetricSource::Json(path) => vec![value_by_path(path, &text)?],
        MetricSource::Marks(from, to) => {
            let time_of_mark = |mark: &str| match mark {
                "start" => Ok(0.0),
                "process-end" => Ok(outcome.wall_ns as f64),
                mark => {
                    let named = mark.strip_prefix("mark:").unwrap_or(mark);
                    let time = output.mark_time(named).map(|time| time.duration_since(begin));
                    let time_ns = time.map(|time| time.as_nanos() as f64);
                    time_ns.ok_or_else(|| format!("no line begins with 'mark:{named}'"))
                }
            };
            let from = time_of_mark(from)?;
            vec![time_of_mark(to)? - from]
        }
    };
    values.iter_mut().for_each(|value| *value *= figure.factor);
    if values.iter().any(|value| !value.is_finite()) {
        return Err("its value is not finite".to_owned());
    }
    Ok(values)
}

fn values_by_pattern(pattern: &str, text: &str) -> Result<Vec<f64>, String> {
    let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
    let values: Vec<f64> = regex
        .captures_iter(text)
        .filter_map(|captures| captures.name("value").or_else(|| captures.get(1)))
        .map(|found| {
            let number = found.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            number.ok_or_else(|| format!("'{}' is not a number", found.as_str()))
        })
        .collect::<Result<_, _>>()?;
    if values.is_empty() {
        Err(format!("nothing on the command's stdout matches '{pattern}'"))
    } else {
        Ok(values)
    }
}

fn value_by_path(path: &str, text: &str) -> Result<f64, String> {
    let root: serde_json::Value = serde_json::from_str(text.trim())
        .map_err(|error| format!("the command's stdout is not JSON: {error}"))?;
    let mut value = &root;
    for part in path.split('.') {
        let index = part.parse::<usize>().ok().filter(|_| value.is_array());
        let inner = index.map_or_else(|| value.get(part), |index| value.get(index));
        value = inner.ok_or_else(|| format!("the JSON on the command's stdout has no '{path}'"))?;
    }
    value
        .as_f64()
        .ok_or_else(|| format!("'{path}' in the JSON on the command's stdout is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_text_and_from_json() {
        let text = "Time(a): 12.5 ms\nTime(b): 3 ms\n";
        assert_eq!(
            values_by_pattern(r"Time\(\w\): (?P<value>[\d.]+) ms", text),
            Ok(vec![12.5, 3.0])
        );
        assert_eq!(values_by_pattern(r"Time\(b\): ([\d.]+)", text), Ok(vec![3.0]));
        assert!(
            values_by_pattern("x: (.*)", text)
                .unwrap_err()
                .contains("nothing on the command's stdout")
        );
        assert_eq!(value_by_path("a.1.b", r#"{"a":[0,{"b":7}]}"#), Ok(7.0));
        assert!(value_by_path("a.2", r#"{"a":[0]}"#).unwrap_err().contains("no 'a.2'"));
    }
}
