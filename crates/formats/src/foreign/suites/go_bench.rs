//! Parses the output of one process of a Go test binary. With `-test.count`, several lines have the
//! same name; they are samples of one benchmark. Each unit in a line is a metric.

use super::ReportedResult;
use crate::foreign::go_bench::{
    GoBenchLine, GoFigures, ProcessorSuffixes, case_from_name, measure_for_unit,
    split_announced_name,
};
use anyhow::Result;
use speedwell_model::FailureCause;
use std::collections::HashMap;

/// Parses the output of a test binary. The results do not show a failure before the first
/// benchmark; the exit status of the binary does.
///
/// # Errors
/// Never fails. The function returns a `Result` because the readers of all suites have the same
/// signature.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let text = String::from_utf8_lossy(bytes);
    let mut reading = GoProcessParser::default();
    for line in text.lines() {
        reading.parse_line(line);
    }
    Ok(reading.into_reported())
}

#[derive(Default)]
struct GoProcessParser<'a> {
    entries: Vec<GoResult<'a>>,
    package: Option<&'a str>,
    begun: Option<&'a str>,
    /// The name that `-test.v` printed last. The results that follow belong to this benchmark.
    announced: Option<&'a str>,
    directions: HashMap<&'a str, bool>,
    /// Whether the next line, if it is indented, explains why the benchmark of the last entry
    /// stopped.
    explains: bool,
    /// The indented line that was read last. With `-test.v`, it explains why the benchmark in the
    /// next line stopped.
    logged: Option<&'a str>,
}

/// The result of a benchmark, or the reason why there is none.
struct GoResult<'a> {
    package: Option<&'a str>,
    name: &'a str,
    announced: Option<&'a str>,
    outcome: Result<GoFigures<'a>, FailureCause>,
}

impl<'a> GoResult<'a> {
    /// Splits the name into benchmark and GOMAXPROCS if `-test.v` announced the benchmark.
    fn split_announced(&self) -> Option<(&'a str, u32)> {
        split_announced_name(self.announced?, self.name)
    }
}

impl<'a> GoProcessParser<'a> {
    fn parse_line(&mut self, text: &'a str) {
        let line = GoBenchLine::parse(text);
        let explains = std::mem::take(&mut self.explains);
        let logged = self.logged.take();
        match line {
            GoBenchLine::Configuration("pkg", package) => self.package = Some(package),
            GoBenchLine::Direction { unit, is_higher } => {
                self.directions.insert(unit, is_higher);
            }
            GoBenchLine::Announced(name) => self.announced = Some(name),
            GoBenchLine::Result(name, figures) => self.push_result(name, Ok(figures)),
            GoBenchLine::Begin(name) => self.begun = Some(name),
            GoBenchLine::Rest(figures) => {
                if let Some(name) = self.begun.take() {
                    self.push_result(name, Ok(figures));
                }
            }
            GoBenchLine::Fail(name) => self.push_stopped(name, failure_cause("failed"), logged),
            GoBenchLine::Skip(name) => {
                let reason = String::new();
                self.push_stopped(name, FailureCause::Skipped { reason }, logged);
            }
            GoBenchLine::Log(message) if explains => self.set_reason(message),
            GoBenchLine::Log(message) => self.logged = Some(message),
            _ => {}
        }
    }

    fn push_result(&mut self, name: &'a str, outcome: Result<GoFigures<'a>, FailureCause>) {
        self.entries.push(GoResult {
            package: self.package,
            name,
            announced: self.announced,
            outcome,
        });
    }

    fn push_stopped(&mut self, name: &'a str, cause: FailureCause, logged: Option<&str>) {
        self.push_result(name, Err(cause));
        self.explains = logged.is_none();
        if let Some(message) = logged {
            self.set_reason(message);
        }
    }

    fn set_reason(&mut self, message: &str) {
        match self.entries.last_mut().map(|last| &mut last.outcome) {
            Some(Err(FailureCause::Skipped { reason })) => *reason = message.to_owned(),
            Some(Err(cause)) => *cause = failure_cause(&format!("failed: {message}")),
            _ => {}
        }
    }

    /// Returns the results of each benchmark. All results of a process have the same GOMAXPROCS.
    fn into_reported(self) -> Vec<ReportedResult> {
        let results = || self.entries.iter().filter(|entry| entry.outcome.is_ok());
        let announced = results().filter_map(|entry| Some(entry.split_announced()?.1));
        let unannounced = results().filter(|entry| entry.split_announced().is_none());
        let processors = ProcessorSuffixes::from_names(unannounced.map(|entry| entry.name))
            .with_announced(announced);
        let mut reported: Vec<ReportedResult> = Vec::new();
        for entry in self.entries {
            let (name, count) = match &entry.outcome {
                Ok(_) => {
                    (entry.split_announced()).unwrap_or_else(|| processors.split_name(entry.name))
                }
                Err(_) => processors.split_stopped_name(entry.name, entry.announced),
            };
            let is_known = |existing: &ReportedResult| existing.name.as_deref() == Some(name);
            let index = reported.iter().position(is_known).unwrap_or_else(|| {
                let count = entry.outcome.is_ok().then_some(count);
                reported.push(ReportedResult {
                    case: Some(case_from_name(entry.package, name, count)),
                    ..ReportedResult::new(Some(name.to_owned()))
                });
                reported.len() - 1
            });
            match entry.outcome {
                Ok(figures) => add_figures(&mut reported[index], &figures, &self.directions),
                Err(cause) => reported[index].cause = Some(cause),
            }
        }
        reported
    }
}

fn add_figures(
    reported: &mut ReportedResult,
    figures: &GoFigures<'_>,
    directions: &HashMap<&str, bool>,
) {
    for (value, unit) in &figures.values {
        let measure = measure_for_unit(unit, directions.get(unit).copied());
        // A figure that the benchmark itself reports (`b.ReportMetric`) may be infinite or NaN. The
        // other figures of the benchmark stay valid.
        if let Err(error) = reported.add_value(&measure, *value, Some(figures.iterations)) {
            let reason = format!("'{}': {error}", measure.metric.name);
            reported.cause = Some(failure_cause(&reason));
        }
    }
}

fn failure_cause(reason: &str) -> FailureCause {
    FailureCause::Invalid { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "goos: linux\npkg: x.y/tiny\nBenchmarkSum\nBenchmarkSum/n=8\n\
        BenchmarkSum/n=8-2 \t 1000\t 29.68 ns/op\t 100.0 items/op\t 16 B/op\n\
        BenchmarkSum/n=8-2 \t 1000\t 30.5 ns/op\t 100.0 items/op\t 16 B/op\n\
        BenchmarkFails\n    tiny_test.go:23: no luck\n--- FAIL: BenchmarkFails\n\
        BenchmarkSkips\n    tiny_test.go:25: not here\n--- SKIP: BenchmarkSkips\nPASS\n";

    #[test]
    fn lines_of_one_name_are_samples_and_every_unit_is_a_metric() {
        let read = read(TEXT.as_bytes()).unwrap();
        let sum = &read[0];
        assert_eq!(sum.name.as_deref(), Some("BenchmarkSum/n=8"));
        let case = sum.case.as_ref().unwrap();
        assert_eq!(case.id(), "x.y/tiny/Sum gomaxprocs=2 n=8");
        let metrics: Vec<&str> = sum.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(metrics, ["time", "items/op", "bytes_per_op"]);
        let times = sum.samples.iter().filter(|sample| &*sample.metric == "time");
        let times: Vec<_> = times.map(|sample| (sample.value, sample.iterations)).collect();
        assert_eq!(times, [(29.68, Some(1000.0)), (30.5, Some(1000.0))]);
    }

    #[test]
    fn a_number_at_the_end_of_a_name_is_gomaxprocs_only_if_the_process_had_it() {
        let text = |processors: &str| {
            let sizes = ["gzip", "gzip-1", "gzip-6", "gzip-9"];
            let lines = sizes.map(|size| {
                format!("BenchmarkZip/{size}\nBenchmarkZip/{size}{processors} \t 1\t 7.0 ns/op\n")
            });
            lines.concat()
        };
        let ids = |text: &str| -> Vec<String> {
            let read = read(text.as_bytes()).unwrap().into_iter();
            read.map(|result| result.case.unwrap().id()).collect()
        };
        for (suffix, processors) in [("", 1), ("-2", 2), ("-6", 6)] {
            let expected = ["gzip", "gzip-1", "gzip-6", "gzip-9"]
                .map(|size| format!("Zip/{size} gomaxprocs={processors}"));
            let with_names = text(suffix);
            assert_eq!(ids(&with_names), expected, "-test.v, {processors}");
            let results = with_names.lines().filter(|line| line.contains('\t'));
            let results: Vec<&str> = results.collect();
            assert_eq!(ids(&results.join("\n")), expected, "{processors}");
        }
        let alone = "BenchmarkZip/gzip-6\nBenchmarkZip/gzip-6 \t 1\t 7.0 ns/op\n";
        assert_eq!(ids(alone), ["Zip/gzip-6 gomaxprocs=1"]);
    }

    #[test]
    fn what_stops_a_benchmark_is_said_whether_it_stands_before_or_behind() {
        for text in [
            TEXT.to_owned(),
            TEXT.replace(
                "    tiny_test.go:23: no luck\n--- FAIL: BenchmarkFails\n",
                "--- FAIL: BenchmarkFails\n    tiny_test.go:23: no luck\n",
            ),
        ] {
            let read = read(text.as_bytes()).unwrap();
            assert_eq!(read[1].cause, Some(failure_cause("failed: tiny_test.go:23: no luck")));
            let reason = "tiny_test.go:25: not here".to_owned();
            assert_eq!(read[2].cause, Some(FailureCause::Skipped { reason }));
        }
    }
}
