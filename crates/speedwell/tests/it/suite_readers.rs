//! Readers of suite output: recorded output of the real tools, intact and damaged.

use super::project::repository;
use regex::Regex;
use speedwell_formats::foreign::google_benchmark;
use speedwell_formats::foreign::suites::configured::{ResultPaths, read_lines};
use speedwell_formats::foreign::suites::{
    ReportedResult, catch2, jmh, pytest_benchmark, rust, vitest,
};
use speedwell_formats::{go_bench, pyperf};
use std::hint::black_box;
use std::time::{Duration, Instant};

type ReadResults = fn(&[u8]) -> anyhow::Result<Vec<ReportedResult>>;

const RECORDED: [(&str, ReadResults); 10] = [
    ("suites/jmh-list.txt", jmh::read),
    ("suites/jmh.json", jmh::read),
    ("suites/jmh-modes.json", jmh::read),
    ("suites/pytest-benchmark.json", pytest_benchmark::read),
    ("suites/catch2-list.xml", catch2::read),
    ("suites/catch2.xml", catch2::read),
    ("suites/catch2-failed.xml", catch2::read),
    ("suites/vitest-list.txt", vitest::read),
    ("suites/vitest.json", vitest::read),
    ("pyperf/timeit.json", pyperf::read_reported),
];

/// Text formats, in which much damage goes unnoticed.
const TEXTS: [(&str, ReadResults); 4] = [
    ("suites/criterion.json", rust::read_criterion),
    ("suites/divan.txt", rust::read_divan),
    ("suites/go.txt", go_bench::read_reported),
    ("suites/libtest.txt", rust::read_libtest),
];

/// Formats that a user's table may name, and that of google/benchmark, which has its own tests.
const OTHERS: [(&str, ReadResults); 3] = [
    ("suites/mine.json", |bytes| {
        let paths = ResultPaths {
            results: "results[*]",
            name: Some("name"),
            samples: "times",
            unit: "us",
            better: None,
        };
        paths.read(bytes)
    }),
    ("suites/mine.txt", |bytes| {
        // Compiling the pattern is part of reading.
        let pattern = Regex::new(r"^(?P<name>\S+): (?P<value>[0-9.,e]+) (?P<unit>\S+)$")?;
        read_lines(bytes, &pattern, "ns", None)
    }),
    ("google-benchmark/in_kitchen_a.json", google_benchmark::read_reported),
];

fn golden(file: &str) -> Vec<u8> {
    let path = repository().join("crates/speedwell/tests/golden").join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Formats each result as `CASE: METRIC x SAMPLES, ...`.
fn result_lines(file: &str) -> Vec<String> {
    let (_, read) = RECORDED.iter().find(|(known, _)| *known == file).unwrap();
    let one = |reported: ReportedResult| {
        let id = match (&reported.case, &reported.name) {
            (Some(case), _) => case.id(),
            (None, name) => name.clone().unwrap_or_default(),
        };
        let count = |name: &str| reported.samples.iter().filter(|one| &*one.metric == name).count();
        let metrics: Vec<String> = (reported.metrics.iter())
            .map(|metric| format!("{} x {}", metric.name, count(&metric.name)))
            .collect();
        format!("{id}: {}", metrics.join(", "))
    };
    read(&golden(file)).unwrap().into_iter().map(one).collect()
}

#[test]
fn recorded_outputs_have_the_cases_and_samples_that_were_measured() {
    let jmh = result_lines("suites/jmh.json");
    let gc = "gc.alloc.rate x 2, gc.alloc.rate.norm x 2, gc.count x 2";
    assert_eq!(jmh.len(), 4);
    assert_eq!(jmh[0], format!("demo.Sums.twice size=1000 text=\"c=d\": throughput x 2, {gc}"));
    assert_eq!(jmh[3], format!("demo.Sums.sum size=2000 text=\"c=d\": time x 2, {gc}"));
    let modes = result_lines("suites/jmh-modes.json");
    assert!(
        modes[0].starts_with("demo.Sums.sum size=1000 text=\"a b\": sampled_time x 2, "),
        "{modes:?}"
    );
    assert!(modes[1].ends_with(": single_shot_time x 2"), "{modes:?}");
    assert_eq!(
        result_lines("suites/jmh-list.txt").len(),
        12,
        "three benchmarks of four combinations"
    );
    let python = [
        "test_total[1000]: time x 8",
        "test_total[2000]: time x 5",
        "TestClass::test_inner: time x 5",
        "test_fails: time x 5",
    ];
    assert_eq!(result_lines("suites/pytest-benchmark.json"), python);
    assert_eq!(
        result_lines("suites/catch2.xml"),
        ["sums/sum 1000: time x 1", "sums/sum 2000: time x 1"]
    );
    let listed = result_lines("suites/catch2-list.xml");
    let inner = "other, \"odd\" [name] & <more>/inner/in a section: time x 1";
    for case in [inner, "fails/throws: ", "hidden/in hidden: time x 1"] {
        assert!(listed.contains(&case.to_owned()), "{case}: {listed:?}");
    }
    let vitest = ["sums/total 1000", "sums/total 2000", "outside (x) [y]"];
    assert_eq!(result_lines("suites/vitest-list.txt"), vitest.map(|case| format!("{case}: ")));
    let mut measured = result_lines("suites/vitest.json");
    measured.sort();
    let mut expected = vitest.map(|case| format!("{case}: time x 1"));
    expected.sort();
    assert_eq!(measured, expected);
}

#[test]
fn values_read_equal_those_in_the_recorded_outputs() {
    let first = |read: ReadResults, file: &str| read(&golden(file)).unwrap()[0].samples[0].value;
    assert_eq!(
        first(catch2::read, "suites/catch2.xml"),
        figure("suites/catch2.xml", "<mean value=\"", 1.0)
    );
    assert_eq!(
        first(pytest_benchmark::read, "suites/pytest-benchmark.json"),
        figure("suites/pytest-benchmark.json", "\"data\": [", 1e9)
    );
    assert_eq!(
        first(vitest::read, "suites/vitest.json"),
        figure("suites/vitest.json", "\"mean\": ", 1e6)
    );
    assert_eq!(
        first(jmh::read, "suites/jmh.json"),
        figure("suites/jmh.json", "\"rawData\" : [ [", 1e6)
    );
}

/// The first number after a text, converted by `factor`; spaces in the text match any white space.
fn figure(file: &str, mark: &str, factor: f64) -> f64 {
    let text = String::from_utf8(golden(file)).unwrap();
    let mut rest = text.as_str();
    for word in mark.split_inclusive(' ') {
        let at = rest.find(word.trim_end()).unwrap_or_else(|| panic!("no '{word}' in {file}"));
        rest = rest[at + word.trim_end().len()..].trim_start();
    }
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".-+eE".contains(c))).unwrap();
    rest[..end].parse::<f64>().unwrap() * factor
}

#[test]
fn damaged_outputs_are_errors_or_give_consistent_results() {
    for (file, read) in RECORDED {
        let whole = golden(file);
        let utf16: Vec<u8> = String::from_utf8(whole.clone())
            .unwrap()
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let twice = [&whole[..], &whole].concat();
        assert!(read(&utf16).is_err(), "{file} in UTF-16");
        assert!(
            read(b"").is_err_and(|error| !error.to_string().is_empty()) || file.ends_with("none"),
            "{file}: nothing"
        );
        if file.ends_with(".json") || file.ends_with(".xml") {
            assert!(read(&twice).is_err(), "{file} twice");
        }
        for end in (1..40).map(|part| whole.len() * part / 40) {
            let cut = read(&whole[..end]);
            // A prefix of a list is a list.
            assert!(cut.is_err() || file.ends_with(".txt"), "{file}: {end} bytes are read");
            for reported in cut.into_iter().flatten() {
                let known = |name: &str| reported.metrics.iter().any(|metric| metric.name == name);
                assert!(
                    reported.samples.iter().all(|sample| known(&sample.metric)),
                    "{file}: {end}"
                );
            }
        }
    }
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    #[test]
    fn recorded_outputs_are_read_in_less_than_a_millisecond() {
        for (file, read) in RECORDED.iter().chain(&TEXTS).chain(&OTHERS) {
            let bytes = golden(file);
            let once = |_| {
                let begin = Instant::now();
                let read = black_box(read(black_box(&bytes)));
                assert!(read.is_ok());
                begin.elapsed()
            };
            // The minimum of many: other load on the machine is not a property of the reader.
            let least = (0..300).map(once).min().unwrap_or_default();
            println!("{file}: {} bytes in {least:?}", bytes.len());
            assert!(least < Duration::from_millis(1), "{file}: {least:?}");
        }
    }
}
