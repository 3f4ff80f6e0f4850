//! Reads made-up results from a text file, so that tests of the whole program are fast and exact.
//!
//! ```text
//! case len=16 type=utf8
//! old 100 101 102
//! new 110 exit:3 112
//! ```
//!
//! A `case` line starts a case. Each line below it gives the values of one variant (`*` stands for
//! any variant), one value for each run. Runs after the last value start over with the first one.
//! Instead of a plain number, a value can be:
//!
//! - `exit:N`, `signal:N`, `silent` or `timeout`: the run fails in this way.
//! - `sleep:MS`: the run waits for this number of milliseconds, then reports 1.
//! - `await:FILE`: the run waits until this file exists, then reports 1.
//! - `VALUE@NS`: the sample takes this number of nanoseconds instead of a million.
//! - `110,memory=5`: the run has a second metric, and lower values of it are better.
//! - `30x80/10x520`: the run is a series of 80 points with 30 ns per iteration, then 520 points
//!   with 10 ns, where times vary by a few thousandths. If no series is recorded, an iteration
//!   takes as long as in the last point.
//! - `110~80`: the run takes one second and has 80 involuntary context switches. All other kernel
//!   figures are 0, as on an idle machine.
//! - `100~80|101`: the run gives 100 and has 80 switches; if it is retried, it gives 101 and has
//!   none.
//!
//! A line `builds` gives one factor for each build. The values of a build are multiplied by its
//! factor.

use super::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, permits_value,
};
use super::reported_values::{ReportedRate, observe_rate};
use super::{DescribeResult, HarnessFailure, LanguageHarness, RunOutcome, RunResult};
use serde_json::json;
use speedwell_machine::process::{ProcessSpec, is_interrupt_requested};
use speedwell_model::{
    Case, FailureCause, KernelStats, Metric, MetricDirection, ParameterValue, ResourceUsage,
    SampleLength,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// Harness for `.fake` files.
pub struct FakeHarness;

impl LanguageHarness for FakeHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let source = &request.source;
        let refusal =
            |reason: String| HarnessFailure::invalid(reason).with_replay(&replay_command(source));
        let text =
            std::fs::read_to_string(&source.file).map_err(|error| refusal(error.to_string()))?;
        let mut description = BenchmarkDescription::default();
        let mut values = Vec::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("case")) {
            let case = Case::with_values(&source.name, line)
                .map_err(|error| refusal(error.to_string()))?;
            let is_wanted = |(name, value): &(String, ParameterValue)| {
                permits_value(&request.sets, name, &value.plain())
            };
            values.extend(case.values.clone());
            if case.values.iter().all(is_wanted) {
                description.jobs.push(BenchmarkJob {
                    label: case.id(),
                    case: Some(case),
                    ..request.draft_job()
                });
            }
        }
        description.parameters = DeclaredParameter::collect(values);
        Ok(description)
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let job = setting.job;
        let begin = Instant::now();
        let started_unix_ms = speedwell_machine::process::unix_time_ms();
        let words = run_word(setting).unwrap_or_else(|| "silent".into());
        let (word, others) = words.split_once(',').unwrap_or((&words, ""));
        let cause = parse_cause(word, setting);
        if let Some(ms) = parse_prefixed(word, "sleep:") {
            let end = begin + Duration::from_millis(ms as u64);
            wait(|| end.saturating_duration_since(Instant::now()));
        } else if let Some(file) = word.strip_prefix("await:") {
            let exists = || Path::new(file).exists();
            wait(|| if exists() { Duration::ZERO } else { POLL_INTERVAL });
        }
        let (word, switches) = word
            .split_once('~')
            .map_or((word, None), |(word, switches)| (word, switches.parse().ok()));
        if let Some(levels) = parse_levels(word).filter(|_| setting.is_series) {
            return Ok(series_outcome(setting, &levels, started_unix_ms));
        }
        let rate = parse_rate(word, build_factor(setting));
        let case = job.known_case();
        let (mut result, fault) = observe_rate(case, &rate, job.test);
        others.split(',').for_each(|other| add_metric(other, &mut result));
        let failure = cause.or(fault).map(|cause| {
            let output = "a made-up complaint".to_owned();
            let failure = HarnessFailure { output, ..cause.into() };
            failure.with_replay(&replay_command(&job.source)).in_run(setting)
        });
        Ok(RunOutcome {
            observations: if failure.is_none() { vec![result] } else { Vec::new() },
            failure,
            interrupted: is_interrupt_requested(),
            started_unix_ms,
            wall_ns: switches.map_or_else(|| begin.elapsed().as_nanos() as u64, |_| 1_000_000_000),
            usage: switches.map(|switches| ResourceUsage {
                involuntary_switches: switches,
                ..ResourceUsage::default()
            }),
            kernel_stats: switches.map(|_| KernelStats::default()),
            ..RunOutcome::default()
        })
    }
}

/// Converts a value of the file to a rate, multiplied by the factor.
fn parse_rate(word: &str, factor: f64) -> ReportedRate {
    let series_rate = parse_levels(word).and_then(|levels| Some(1e9 / levels.last()?.0));
    let (value, elapsed_ns) = word.split_once('@').unwrap_or((word, "1000000"));
    let value = series_rate.or(value.parse().ok()).unwrap_or(1.0);
    ReportedRate { rate: json!(value * factor), elapsed_ns: elapsed_ns.parse().ok(), http: None }
}

/// Parses a series into levels: time per iteration, and number of points.
fn parse_levels(word: &str) -> Option<Vec<(f64, usize)>> {
    let level = |text: &str| {
        let (time, count) = text.split_once('x')?;
        Some((time.parse().ok()?, count.parse().ok()?))
    };
    word.split('/').map(level).collect()
}

fn series_outcome(
    setting: &RunContext<'_>,
    levels: &[(f64, usize)],
    started_unix_ms: i64,
) -> RunOutcome {
    let mut result = RunResult::new(setting.job.known_case(), vec![Metric::throughput()]);
    let iterations = match setting.samples.length {
        SampleLength::Iterations(count) => count as f64,
        SampleLength::TimeNs(_) => 1.0,
    };
    let times = levels.iter().flat_map(|(ns, count)| std::iter::repeat_n(*ns, *count));
    for (index, level) in times.enumerate() {
        let ns = level * [1.0, 1.004, 0.997, 1.001, 0.999, 1.003, 0.996][index % 7];
        result.add_throughput(1e9 / ns, (ns * iterations) as u64, iterations);
    }
    RunOutcome { observations: vec![result], started_unix_ms, ..RunOutcome::default() }
}

fn parse_prefixed(word: &str, prefix: &str) -> Option<i32> {
    word.strip_prefix(prefix)?.parse().ok()
}

/// Returns the failure that a value of the file stands for, if any.
fn parse_cause(word: &str, setting: &RunContext<'_>) -> Option<FailureCause> {
    match word {
        "silent" => Some(FailureCause::Silent),
        "timeout" => Some(FailureCause::Timeout { limit_ms: setting.limit().as_millis() as u64 }),
        _ => parse_prefixed(word, "exit:")
            .map(|code| FailureCause::Exit { code })
            .or(parse_prefixed(word, "signal:").map(|signal| FailureCause::Signal { signal })),
    }
}

/// Interval at which a waiting run checks for interrupts.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until no time remains, or until an interrupt.
fn wait(remaining: impl Fn() -> Duration) {
    while !remaining().is_zero() && !is_interrupt_requested() {
        std::thread::sleep(remaining().min(POLL_INTERVAL));
    }
}

/// Returns the command that repeats a failure for the user. There is no process to repeat, so the
/// command shows the file.
fn replay_command(source: &BenchmarkSource) -> ProcessSpec {
    ProcessSpec::new("cat").args([source.file.to_string_lossy()])
}

/// Adds the value of a further metric, `NAME=VALUE`.
fn add_metric(text: &str, result: &mut RunResult) {
    let Some((name, Ok(value))) = text.split_once('=').map(|(n, v)| (n, v.parse())) else { return };
    result.add_value(Metric::new(name, "", MetricDirection::Lower), value);
}

/// Finds the value for this run in the file.
fn run_word(setting: &RunContext<'_>) -> Option<String> {
    let word = find_word(&setting.variant.name, setting.ordinal, setting.job)?;
    let attempts: Vec<&str> = word.split('|').collect();
    let last = attempts.len() - 1;
    Some(attempts[last.min(setting.repeated as usize)].to_owned())
}

/// Returns the factor of this run's build; 1 if the file gives none.
fn build_factor(setting: &RunContext<'_>) -> f64 {
    let build = setting.layout.build.map(|build| build.number);
    let word = build.and_then(|build| find_word("builds", build, setting.job));
    word.and_then(|word| word.parse().ok()).unwrap_or(1.0)
}

/// Returns the value with this index in the line `name` below the job's case.
fn find_word(name: &str, number: u32, job: &BenchmarkJob) -> Option<String> {
    let text = std::fs::read_to_string(&job.source.file).ok()?;
    let mut lines = text.lines().skip_while(|line| {
        let values = line.strip_prefix("case");
        values
            .and_then(|values| Case::with_values(&job.source.name, values).ok())
            .is_none_or(|case| case.id() != job.label)
    });
    lines.next();
    let mut matching = lines.take_while(|line| !line.starts_with("case")).filter_map(|line| {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        (first == name || (first == "*" && name != "builds")).then(|| words.collect::<Vec<_>>())
    });
    let values = matching.next()?;
    values.get(number as usize % values.len().max(1)).map(|word| (*word).to_owned())
}
