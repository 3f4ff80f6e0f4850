//! Output of one process of a Go test binary. Lines with the same name (`-test.count`) are samples;
//! every unit is a metric.

use super::Reported;
use crate::foreign::go_bench::{Figures, Line, Processors, case, measure_of_unit, split_announced};
use anyhow::Result;
use speedwell_model::Cause;
use std::collections::HashMap;

/// Parses the output of a test binary. A failure before the first benchmark shows in its exit
/// status.
///
/// # Errors
/// Never fails; the signature is that of the other readers.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let text = String::from_utf8_lossy(bytes);
    let mut reading = Reading::default();
    for line in text.lines() {
        reading.line(line);
    }
    Ok(reading.reported())
}

#[derive(Default)]
struct Reading<'a> {
    entries: Vec<Entry<'a>>,
    package: Option<&'a str>,
    begun: Option<&'a str>,
    /// Benchmark announced by `-test.v`, whose results follow.
    announced: Option<&'a str>,
    directions: HashMap<&'a str, bool>,
    /// Whether indented lines explain the last entry.
    explains: bool,
    /// Line logged just before: with `-test.v` it explains why the next benchmark stops.
    logged: Option<&'a str>,
}

/// A result, or why there is none.
struct Entry<'a> {
    package: Option<&'a str>,
    name: &'a str,
    announced: Option<&'a str>,
    outcome: Result<Figures<'a>, Cause>,
}

impl<'a> Entry<'a> {
    /// Returns benchmark and GOMAXPROCS of an announced result.
    fn split_announced(&self) -> Option<(&'a str, u32)> {
        split_announced(self.announced?, self.name)
    }
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
            Line::Announced(name) => self.announced = Some(name),
            Line::Result(name, figures) => self.push(name, Ok(figures)),
            Line::Begin(name) => self.begun = Some(name),
            Line::Rest(figures) => {
                if let Some(name) = self.begun.take() {
                    self.push(name, Ok(figures));
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

    fn push(&mut self, name: &'a str, outcome: Result<Figures<'a>, Cause>) {
        self.entries.push(Entry {
            package: self.package,
            name,
            announced: self.announced,
            outcome,
        });
    }

    fn stopped(&mut self, name: &'a str, cause: Cause, logged: Option<&str>) {
        self.push(name, Err(cause));
        self.explains = logged.is_none();
        if let Some(words) = logged {
            self.explain(words);
        }
    }

    fn explain(&mut self, words: &str) {
        match self.entries.last_mut().map(|last| &mut last.outcome) {
            Some(Err(Cause::Skipped { reason })) => *reason = words.to_owned(),
            Some(Err(cause)) => *cause = failed(&format!("failed: {words}")),
            _ => {}
        }
    }

    /// Returns the results of each benchmark. All results of a process have the same GOMAXPROCS.
    fn reported(self) -> Vec<Reported> {
        let results = || self.entries.iter().filter(|entry| entry.outcome.is_ok());
        let announced = results().filter_map(|entry| Some(entry.split_announced()?.1));
        let unannounced = results().filter(|entry| entry.split_announced().is_none());
        let processors = Processors::from_names(unannounced.map(|entry| entry.name));
        let processors = processors.with_announced(announced);
        let mut reported: Vec<Reported> = Vec::new();
        for entry in self.entries {
            let (name, count) = match &entry.outcome {
                Ok(_) => (entry.split_announced()).unwrap_or_else(|| processors.split(entry.name)),
                Err(_) => processors.split_stopped(entry.name, entry.announced),
            };
            let is_known = |known: &Reported| known.name.as_deref() == Some(name);
            let at = reported.iter().position(is_known).unwrap_or_else(|| {
                let count = entry.outcome.is_ok().then_some(count);
                reported.push(Reported {
                    case: Some(case(entry.package, name, count)),
                    ..Reported::new(Some(name.to_owned()))
                });
                reported.len() - 1
            });
            match entry.outcome {
                Ok(figures) => add(&mut reported[at], &figures, &self.directions),
                Err(cause) => reported[at].cause = Some(cause),
            }
        }
        reported
    }
}

fn add(reported: &mut Reported, figures: &Figures<'_>, directions: &HashMap<&str, bool>) {
    for (value, unit) in &figures.values {
        let measure = measure_of_unit(unit, directions.get(unit).copied());
        // A benchmark's own figure (`b.ReportMetric`) may be anything. The other figures stay
        // valid.
        if let Err(error) = reported.add(&measure, *value, Some(figures.iterations)) {
            let reason = format!("'{}': {error}", measure.metric.name);
            reported.cause = Some(failed(&reason));
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
            read.map(|one| one.case.unwrap().id()).collect()
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
            assert_eq!(
                read[1].cause,
                Some(failed("failed: tiny_test.go:23: no luck"))
            );
            let reason = "tiny_test.go:25: not here".to_owned();
            assert_eq!(read[2].cause, Some(Cause::Skipped { reason }));
        }
    }
}
