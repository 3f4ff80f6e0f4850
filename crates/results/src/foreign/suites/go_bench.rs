//! Text of one process of a Go test binary. Lines of one name (`-test.count`) are samples; every unit is a metric.

use super::Reported;
use crate::foreign::go_bench::{Figures, Line, case, measure_of_unit, without_processors};
use anyhow::Result;
use speedwell_model::Cause;
use std::collections::HashMap;

/// Reads what a test binary printed. What it failed with before its first benchmark is said by its exit status.
///
/// # Errors
/// None of today's; other readers have some.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let text = String::from_utf8_lossy(bytes);
    let mut reading = Reading::default();
    for line in text.lines() {
        reading.line(line);
    }
    Ok(reading.reported)
}

#[derive(Default)]
struct Reading<'a> {
    reported: Vec<Reported>,
    package: Option<&'a str>,
    begun: Option<&'a str>,
    directions: HashMap<&'a str, bool>,
    /// Whether indented lines explain the last entry.
    explains: bool,
    /// What was logged just now: with `-test.v` it explains what stops next.
    logged: Option<&'a str>,
}

impl<'a> Reading<'a> {
    fn line(&mut self, text: &'a str) {
        let line = Line::parse(text);
        let explains = std::mem::take(&mut self.explains);
        let logged = self.logged.take();
        match line {
            Line::Configuration("pkg", package) => self.package = Some(package),
            Line::Direction { unit, is_higher } => {
                self.directions.insert(unit, is_higher);
            }
            Line::Result(name, figures) => self.measured(name, &figures),
            Line::Begin(name) => self.begun = Some(name),
            Line::Rest(figures) => {
                if let Some(name) = self.begun.take() {
                    self.measured(name, &figures);
                }
            }
            Line::Fail(name) => self.stopped(name, failed("failed"), logged),
            Line::Skip(name) => {
                let reason = String::new();
                self.stopped(name, Cause::Skipped { reason }, logged);
            }
            Line::Log(words) if explains => self.explain(words),
            Line::Log(words) => self.logged = Some(words),
            _ => {}
        }
    }

    fn entry(&mut self, name: &str) -> &mut Reported {
        let (package, own) = (self.package, without_processors(name));
        let known = |known: &Reported| known.name.as_deref() == Some(own);
        let at = self.reported.iter().position(known).unwrap_or_else(|| {
            self.reported.push(Reported {
                case: Some(case(package, name)),
                ..Reported::new(Some(own.to_owned()))
            });
            self.reported.len() - 1
        });
        &mut self.reported[at]
    }

    fn measured(&mut self, name: &'a str, figures: &Figures<'a>) {
        let measures: Vec<_> = (figures.values.iter())
            .map(|(value, unit)| {
                let is_higher = self.directions.get(unit).copied();
                (measure_of_unit(unit, is_higher), *value)
            })
            .collect();
        let entry = self.entry(name);
        for (measure, value) in measures {
            // A figure of the benchmark's own (`b.ReportMetric`) may be anything. The others of the list are as good as without it.
            if let Err(error) = entry.add(&measure, value, Some(figures.iterations)) {
                let reason = format!("'{}': {error}", measure.metric.name);
                entry.cause = Some(failed(&reason));
            }
        }
    }

    fn stopped(&mut self, name: &'a str, cause: Cause, logged: Option<&str>) {
        self.entry(name).cause = Some(cause);
        self.explains = logged.is_none();
        if let Some(words) = logged {
            self.explain(words);
        }
    }

    fn explain(&mut self, words: &str) {
        match self
            .reported
            .last_mut()
            .and_then(|last| last.cause.as_mut())
        {
            Some(Cause::Skipped { reason }) => *reason = words.to_owned(),
            Some(cause) => *cause = failed(&format!("failed: {words}")),
            None => {}
        }
    }
}

fn failed(reason: &str) -> Cause {
    Cause::Invalid {
        reason: reason.to_owned(),
    }
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
        let times = sum
            .samples
            .iter()
            .filter(|sample| &*sample.metric == "time");
        let times: Vec<_> = times
            .map(|sample| (sample.value, sample.iterations))
            .collect();
        assert_eq!(times, [(29.68, Some(1000.0)), (30.5, Some(1000.0))]);
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
            assert_eq!(
                read[1].cause,
                Some(failed("failed: tiny_test.go:23: no luck"))
            );
            let reason = "tiny_test.go:25: not here".to_owned();
            assert_eq!(read[2].cause, Some(Cause::Skipped { reason }));
        }
    }
}
