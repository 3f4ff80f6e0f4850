//! The figures read from a process equal those that its suite prints for it, to the last printed
//! digit.

use super::project::TempProject;
use super::suite_projects::{self, TestSuite};
use regex::Regex;
use speedwell_formats::foreign::google_benchmark;
use speedwell_formats::foreign::suites::{ReportedResult, jmh, pytest_benchmark, rust, vitest};
use speedwell_formats::{go_bench, pyperf};
use speedwell_model::Sample;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The printed statistic of the samples.
#[derive(Debug, Clone, Copy)]
enum PrintedStatistic {
    Median,
    Mean,
    /// Regression of time on iterations through the origin, or the mean if all samples have equally
    /// many iterations.
    Slope,
}

struct SuiteProcess {
    suite: fn() -> Option<TestSuite>,
    /// The command, with `OUTPUT` as the file of results.
    words: &'static [&'static str],
    /// Where results are: `OUTPUT`, empty for stdout, or a path suffix in the project.
    place: &'static str,
    read: fn(&[u8]) -> anyhow::Result<Vec<ReportedResult>>,
    /// A value on stdout, with its unit in a second group or in `unit`. The median of several
    /// values counts.
    printed: &'static str,
    unit: &'static str,
    statistic: PrintedStatistic,
}

const PROCESSES: [SuiteProcess; 9] = [
    SuiteProcess {
        suite: suite_projects::go,
        words: &["go", "test", "-run=^$", "-bench=Sum/times=4", "-count=3", "-benchtime=100x", "."],
        place: "",
        read: go_bench::read_reported,
        printed: r"([\d.]+) (ns)/op",
        unit: "",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::criterion,
        words: &[
            "cargo",
            "bench",
            "-q",
            "--bench=with_criterion",
            "--",
            "fold/times/4",
            "--noplot",
            "--sample-size=10",
            "--measurement-time=0.02",
            "--warm-up-time=0.01",
        ],
        place: "new/sample.json",
        read: rust::read_criterion,
        printed: r"time: +\[[\d.]+ \S+ ([\d.]+) (\S+) ",
        unit: "",
        statistic: PrintedStatistic::Slope,
    },
    SuiteProcess {
        suite: suite_projects::divan,
        words: &[
            "cargo",
            "bench",
            "-q",
            "--bench=with_divan",
            "--",
            "--exact",
            "with_divan::fold::4",
            "--color=never",
            "--max-time=0.02",
        ],
        place: "",
        read: rust::read_divan,
        printed: r"─ 4 +[\d.]+ \S+ +│ [\d.]+ \S+ +│ ([\d.]+) (\S+) ",
        unit: "",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::libtest,
        words: &["cargo", "bench", "-q", "--bench=with_libtest", "--", "--exact", "fold"],
        place: "",
        read: rust::read_libtest,
        printed: r"bench: +([\d.,]+) (ns)/iter",
        unit: "",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::jmh,
        words: &[
            "java",
            "-jar",
            "benchmarks.jar",
            "Sums.total",
            "-p",
            "size=1000",
            "-f",
            "1",
            "-wi",
            "1",
            "-w",
            "50ms",
            "-r",
            "20ms",
            "-i",
            "3",
            "-rf",
            "json",
            "-rff",
            "OUTPUT",
        ],
        place: "OUTPUT",
        read: jmh::read,
        printed: r"(?m)^Iteration +\d+: ([\d.]+) (us)/op",
        unit: "",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::pytest_benchmark,
        words: &[
            "python3",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_sums.py::test_total",
            "--benchmark-columns=median",
            "--benchmark-max-time=0.02",
            "--benchmark-time-unit=us",
            "--benchmark-json=OUTPUT",
        ],
        place: "OUTPUT",
        read: pytest_benchmark::read,
        printed: r"test_total +([\d.,]+)",
        unit: "us",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::pyperf,
        words: &[
            "python3",
            "sums.py",
            "-p",
            "1",
            "--values=3",
            "--loops=10",
            "-w",
            "1",
            "-o",
            "OUTPUT",
        ],
        place: "OUTPUT",
        read: pyperf::read_reported,
        printed: r"total of 20000: Mean \+- std dev: ([\d.]+) (\w+)",
        unit: "",
        statistic: PrintedStatistic::Mean,
    },
    SuiteProcess {
        suite: suite_projects::google_benchmark,
        words: &[
            "./google",
            "--benchmark_filter=total/20000",
            "--benchmark_min_time=0.01",
            "--benchmark_repetitions=3",
            "--benchmark_out=OUTPUT",
            "--benchmark_out_format=json",
        ],
        place: "OUTPUT",
        read: google_benchmark::read_reported,
        printed: r"total/20000_median +([\d.]+) (ns)",
        unit: "",
        statistic: PrintedStatistic::Median,
    },
    SuiteProcess {
        suite: suite_projects::vitest,
        words: &[
            "node",
            "node_modules/vitest/vitest.mjs",
            "bench",
            "--run",
            "sums.bench.ts",
            "-t",
            "large",
            "--outputJson",
            "OUTPUT",
        ],
        place: "OUTPUT",
        read: vitest::read,
        printed: r"large +[\d.,]+ +[\d.]+ +[\d.]+ +([\d.]+)",
        unit: "ms",
        statistic: PrintedStatistic::Mean,
    },
];

#[test]
fn every_suite_prints_the_figures_that_are_read() {
    for process in &PROCESSES {
        if let Some(suite) = (process.suite)() {
            check_agreement(process, &suite);
        }
    }
}

fn check_agreement(process: &SuiteProcess, suite: &TestSuite) {
    let folder = suite.project.path("");
    let output = suite.project.path("OUTPUT");
    let words: Vec<String> = (process.words.iter())
        .map(|word| word.replace("OUTPUT", &output.to_string_lossy()))
        .collect();
    let is_source = Path::new(&suite.target).is_absolute();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir(if is_source { Path::new(&suite.target) } else { &folder })
        .envs(suite.environment.iter().map(|(name, value)| (name, value)))
        .env("CRITERION_HOME", &folder)
        .env("NO_COLOR", "1");
    let answer = command.output().unwrap();
    let said = String::from_utf8(answer.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{command:?}: {said}{complaints}");
    let written = match process.place {
        "" => said.clone().into_bytes(),
        place => std::fs::read(find_file(&suite.project, place)).unwrap(),
    };
    let reported = (process.read)(&written).unwrap();
    let samples = &reported[0].samples;
    let first = &samples[0].metric;
    let samples: Vec<&Sample> = samples.iter().filter(|one| one.metric == *first).collect();
    let (printed, half_digit, factor) = printed_value(process, &said);
    let close = values(process.statistic, &samples)
        .into_iter()
        .any(|value| (value / factor - printed).abs() <= half_digit);
    assert!(close, "{printed} is not of {samples:?}, says {:?} in {said}", process.words);
}

/// The file with this path suffix.
fn find_file(project: &TempProject, end: &str) -> PathBuf {
    let mut folders = vec![project.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with(end) {
                return path;
            }
        }
    }
    panic!("no file '{end}'")
}

/// The printed value, half of its last digit, and the nanoseconds per unit.
fn printed_value(process: &SuiteProcess, said: &str) -> (f64, f64, f64) {
    let pattern = Regex::new(process.printed).unwrap();
    let mut values = Vec::new();
    let (mut half_digit, mut unit) = (0.0_f64, process.unit);
    for groups in pattern.captures_iter(said) {
        let text = groups[1].replace(',', "");
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        half_digit = half_digit.max(0.5 * 10_f64.powi(-(decimals as i32)) * (1.0 + 1e-6));
        values.push(text.parse().unwrap());
        unit = groups.get(2).map_or(unit, |group| group.as_str());
    }
    assert!(!values.is_empty(), "no {} in {said}", process.printed);
    let factor = match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "sec" | "s" => 1e9,
        other => panic!("what is {other}?"),
    };
    (median(values), half_digit, factor)
}

/// Possible printed values for the samples.
fn values(statistic: PrintedStatistic, samples: &[&Sample]) -> Vec<f64> {
    let all: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    match statistic {
        PrintedStatistic::Median => vec![median(all)],
        PrintedStatistic::Mean => vec![mean],
        PrintedStatistic::Slope => {
            let square = |sample: &&Sample| sample.iterations.unwrap().powi(2);
            let product = samples.iter().map(|sample| sample.value * square(sample));
            let squares = samples.iter().map(square);
            vec![mean, product.sum::<f64>() / squares.sum::<f64>()]
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { 0.5 * (values[middle - 1] + values[middle]) }
}
