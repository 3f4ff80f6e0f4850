//! Measures a command: runs it to its end and extracts metrics from its output.

use super::profiling::RunProfiler;
use super::proof::CapturedOutput;
use super::proof::{self, ProofSources};
use super::{RunReport, StageResult, counters, figures, stage_failure, target};
use regex::Regex;
use speedwell_model::assignment::{MetricSource, RunAssignment, TargetMetric};
use speedwell_model::performed::{ReportedMetric, RunStage, StageFailure};
use speedwell_process::{
    self as process, CpuSet, OutputStream, ProcessEnd, ProcessOutcome, ProcessSpec, WaitClock,
};
use std::time::{Instant, SystemTime};

/// Lines of stderr kept from a failed command.
const TAIL_LINES: usize = 20;

/// Performs the run of a command.
///
/// # Errors
/// Returns the stage that failed.
pub fn run_command(
    assignment: &RunAssignment,
    pin: Option<CpuSet>,
    done: &mut RunReport,
) -> StageResult<()> {
    let spec = ProcessSpec {
        pin,
        ..target::target_spec(&assignment.target, None)
    };
    let mut output = CapturedOutput::default();
    let counter = counters::open_if_wanted(assignment, done);
    let (since, begin) = (SystemTime::now(), Instant::now());
    let profiler = RunProfiler::from_request(assignment.profile.as_ref());
    let outcome = match &profiler {
        Some(profiler) => profiler.record(spec, &mut output, done)?,
        None => process::run_child(&spec, &mut output).map_err(|error| {
            let program = spec.program.display();
            stage_failure(RunStage::Start, format!("'{program}': {error}"))
        })?,
    };
    let tailed = |why: StageFailure| StageFailure {
        stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
        ..why
    };
    check_exit(assignment, &outcome).map_err(tailed)?;
    let evidence = ProofSources {
        output: &output,
        directory: &assignment.target.directory,
        since,
        clock: WaitClock::REAL,
        ask: &|_| Err("a command does not answer requests".to_owned()),
    };
    for at_exit in [false, true] {
        proof::check_proofs(&assignment.proofs, at_exit, &evidence).map_err(tailed)?;
    }
    if profiler.is_some() {
        return Ok(());
    }
    for figure in &assignment.figures {
        let values: Vec<f64> = extract_values(figure, &output, begin, &outcome)
            .map_err(tailed)?
            .into_iter()
            .map(|value| value * figure.factor)
            .collect();
        if values.iter().any(|value| !value.is_finite()) {
            let name = &figure.metric.name;
            let why = stage_failure(
                RunStage::Figures,
                format!("'{name}': its value is not finite"),
            );
            return Err(tailed(why));
        }
        let measure = ReportedMetric::new(figure.metric.clone(), values);
        done.performed.figures.push(measure);
    }
    figures::add_command_metrics(&outcome, counter.and_then(|counter| counter.read()), done);
    done.performed.notes.extend(outcome.describe_leftovers());
    Ok(())
}

fn check_exit(assignment: &RunAssignment, outcome: &ProcessOutcome) -> StageResult<()> {
    let expected = assignment.target.expected_exit;
    let why = match outcome.ended {
        ProcessEnd::Exit(code) if code == expected => return Ok(()),
        ProcessEnd::Exit(_) if expected != 0 => format!("{} instead of {expected}", outcome.ended),
        ProcessEnd::Exit(_) | ProcessEnd::Signal(_) => outcome.ended.to_string(),
        ProcessEnd::Timeout => {
            let limit_s = assignment.target.limit_ms as f64 / 1e3;
            format!("did not end within {limit_s} s")
        }
        ProcessEnd::Lingered => "did not end".to_owned(),
        ProcessEnd::Interrupted => "interrupted".to_owned(),
    };
    // In whole seconds, so that runs that fail quickly have identical messages and are grouped.
    let after = match outcome.wall_ns / 1_000_000_000 {
        0 => String::new(),
        wall_s => format!(" after {wall_s} s"),
    };
    Err(stage_failure(RunStage::Alive, format!("{why}{after}")))
}

fn extract_values(
    figure: &TargetMetric,
    output: &CapturedOutput,
    begin: Instant,
    outcome: &ProcessOutcome,
) -> StageResult<Vec<f64>> {
    let name = &figure.metric.name;
    let failed = |why: String| stage_failure(RunStage::Figures, format!("'{name}': {why}"));
    let text = output.stream_text(OutputStream::Stdout);
    match &figure.from {
        MetricSource::Regex(pattern) => values_by_pattern(pattern, &text).map_err(failed),
        MetricSource::Json(path) => value_by_path(path, &text)
            .map_err(failed)
            .map(|value| vec![value]),
        MetricSource::Marks(from, to) => {
            let at = |mark: &str| match mark {
                "start" => Ok(0.0),
                "process-end" => Ok(outcome.wall_ns as f64),
                mark => {
                    let named = mark.strip_prefix("mark:").unwrap_or(mark);
                    let at = output
                        .mark_time(named)
                        .ok_or_else(|| format!("no line begins with 'mark:{named}'"))?;
                    Ok(at.duration_since(begin).as_nanos() as f64)
                }
            };
            let (from, to) = (at(from).map_err(failed)?, at(to).map_err(failed)?);
            Ok(vec![to - from])
        }
    }
}

fn values_by_pattern(pattern: &str, text: &str) -> Result<Vec<f64>, String> {
    let known = Regex::new(pattern).map_err(|error| error.to_string())?;
    let values: Vec<f64> = known
        .captures_iter(text)
        .filter_map(|found| found.name("value").or_else(|| found.get(1)))
        .map(|found| {
            let number = found.as_str().parse::<f64>();
            number
                .ok()
                .filter(|n| n.is_finite())
                .ok_or_else(|| format!("'{}' is not a number", found.as_str()))
        })
        .collect::<Result<_, _>>()?;
    if values.is_empty() {
        Err(format!("nothing on its stdout matches '{pattern}'"))
    } else {
        Ok(values)
    }
}

fn value_by_path(path: &str, text: &str) -> Result<f64, String> {
    let root: serde_json::Value = serde_json::from_str(text.trim())
        .map_err(|error| format!("its stdout is not JSON: {error}"))?;
    let mut at = &root;
    for part in path.split('.') {
        let inner = match part.parse::<usize>() {
            Ok(index) if at.is_array() => at.get(index),
            _ => at.get(part),
        };
        at = inner.ok_or_else(|| format!("its JSON has no '{path}'"))?;
    }
    at.as_f64()
        .ok_or_else(|| format!("'{path}' in its JSON is not a number"))
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
        assert_eq!(
            values_by_pattern(r"Time\(b\): ([\d.]+)", text),
            Ok(vec![3.0])
        );
        assert!(
            values_by_pattern("x: (.*)", text)
                .unwrap_err()
                .contains("nothing on its stdout")
        );
        assert_eq!(value_by_path("a.1.b", r#"{"a":[0,{"b":7}]}"#), Ok(7.0));
        assert!(
            value_by_path("a.2", r#"{"a":[0]}"#)
                .unwrap_err()
                .contains("no 'a.2'")
        );
    }
}
