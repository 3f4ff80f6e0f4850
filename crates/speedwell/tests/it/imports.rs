//! Result files of google/benchmark, hyperfine, pyperf, JMH, criterion and others, recorded from
//! those programs.
//!
//! The expected figures were computed from the files by Python's `statistics.median`.

use super::project::{TempProject, repository};
use speedwell_model::{Metric, MetricDirection, RunOrder, Session};
use std::path::PathBuf;

fn golden(path: &str) -> PathBuf {
    repository().join("crates/speedwell/tests/golden").join(path)
}

/// A project with the recorded files under short names.
fn project(files: &[(&str, &str)]) -> TempProject {
    let add = |project: TempProject, (name, path): &(&str, &str)| {
        project.with(name, &std::fs::read_to_string(golden(path)).unwrap())
    };
    files.iter().fold(TempProject::new(), add)
}

fn read(path: &str) -> Session {
    let bytes = std::fs::read(golden(path)).unwrap();
    speedwell_formats::read(path, &bytes).unwrap().remove(0)
}

/// The values of each case's runs.
fn values(session: &Session, metric: &str) -> Vec<(String, Vec<f64>)> {
    let metric: &Metric = session.metric(metric).unwrap();
    let series = session.series(metric);
    series.iter().map(|s| (s.case.id(), s.values())).collect()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} is not {expected}");
}

#[test]
fn repetitions_of_google_benchmark_are_runs_and_aggregates_are_left_out() {
    let session = read("google-benchmark/in_copy_a.json");
    assert_eq!(session.design.order, RunOrder::Imported);
    assert_eq!(session.runs.len(), 90);
    let mut all = values(&session, "real_time");
    let medians: Vec<(String, f64)> = all
        .iter_mut()
        .map(|(case, values)| {
            values.sort_by(f64::total_cmp);
            (case.clone(), values[values.len() / 2])
        })
        .collect();
    assert_eq!(
        [&medians[0], &medians[9]],
        [
            &("BM_memcpy/8".to_owned(), 19.926_545_300_727_742),
            &("BM_copy/8192".to_owned(), 10_441.611_939_924_442),
        ]
    );
}

#[test]
fn a_pytest_benchmark_file_is_recognized() {
    let project = project(&[("p.json", "suites/pytest-benchmark.json")]);
    let stored = project.run(&["import", "p.json"]).expect_status(0);
    stored.expect_stderr(&["@1: ", " runs of 1 variant\n"]);
    project
        .run(&["report", "@1"])
        .expect_status(0)
        .expect_stdout(&["test_perf.py::test_total[1000]"]);
}

/// The first sample of a run: its case, its value, and its metric with unit and direction.
fn first_sample(session: &Session, run: usize) -> (String, f64, &str, &str, MetricDirection) {
    let run = &session.runs[run];
    let metric = session.metric(&run.samples[0].metric).unwrap();
    (run.case.id(), run.samples[0].value, metric.name.as_str(), metric.unit.as_str(), metric.better)
}

#[test]
fn files_of_suites_that_are_measured_can_be_imported() {
    let jmh = read("suites/jmh.json");
    assert_eq!(jmh.runs.len(), 4);
    let (case, value, name, unit, better) = first_sample(&jmh, 0);
    assert_eq!(case, "demo.Sums.twice size=1000 text=\"c=d\"");
    assert_near(value, 383_782.153_298_295_3);
    assert_eq!((name, unit, better), ("throughput", "1/s", MetricDirection::Higher));
    let (case, _, name, unit, better) = first_sample(&jmh, 3);
    assert_eq!(case, "demo.Sums.sum size=2000 text=\"c=d\"");
    assert_eq!((name, unit, better), ("time", "ns", MetricDirection::Lower));

    let criterion = read("suites/criterion.json");
    let (case, value, name, unit, better) = first_sample(&criterion, 0);
    assert_eq!((case.as_str(), criterion.runs[0].samples.len()), ("criterion", 25));
    assert_near(value, 643_305.0 / 12_538.0);
    assert_eq!((name, unit, better), ("time", "ns", MetricDirection::Lower));

    let libtest = read("suites/libtest.txt");
    let time = ("fold".to_owned(), 16_563.87, "time", "ns", MetricDirection::Lower);
    assert_eq!(first_sample(&libtest, 0), time);
    assert_eq!(libtest.failures[0].benchmark, "panics");

    let divan = read("suites/divan.txt");
    let time = ("with_divan::fold::1".to_owned(), 7365.0, "time", "ns", MetricDirection::Lower);
    assert_eq!(first_sample(&divan, 0), time);

    let bencher = read("history/bencher-metrics.json");
    let latency = ("join/1000".to_owned(), 88.5, "latency", "ns", MetricDirection::Lower);
    assert_eq!(first_sample(&bencher, 0), latency);
    assert_eq!(values(&bencher, "throughput")[0].1, [11_299_435.0]);
    let size = ("target/release/tiny".to_owned(), 425_984.0, "file-size", "B");
    let (case, value, name, unit, _) = first_sample(&bencher, 2);
    assert_eq!((case, value, name, unit), size);
}

/// JMH JSON of one benchmark with a fork for each time in microseconds.
fn jmh_file(times: [u32; 6]) -> String {
    let forks = times.map(|time| format!("[{time}.5, {time}.25]")).join(",");
    format!(
        r#"[{{"jmhVersion": "1.37", "benchmark": "demo.Sums.total", "mode": "avgt", "params": {{"size": "1000"}},
        "primaryMetric": {{"score": 1, "scoreUnit": "us/op", "rawData": [{forks}]}}, "secondaryMetrics": {{}}}}]"#
    )
}

#[test]
fn two_files_of_jmh_are_compared_fork_by_fork() {
    TempProject::new()
        .with("before.json", &jmh_file([100, 102, 101, 103, 99, 100]))
        .with("after.json", &jmh_file([150, 151, 149, 152, 150, 153]))
        .run(&["compare", "before.json", "after.json"])
        .expect_status(0)
        .expect_stdout(&["6 runs a side", "demo.Sums.total", " times as fast as "]);
}

#[test]
fn a_folder_of_criterion_is_one_session_and_can_be_compared() {
    let mut project = TempProject::new();
    for (side, time) in [("old", 1000), ("new-side", 2000)] {
        for name in ["sum", "join"] {
            let folder = format!("{side}/criterion/group/{name}");
            let sample =
                format!(r#"{{"sampling_mode":"Flat","iters":[10,10],"times":[{time},{time}]}}"#);
            let description = format!(r#"{{"group_id":"group","full_id":"group/{name}"}}"#);
            project = project
                .with(&format!("{folder}/new/sample.json"), &sample)
                .with(&format!("{folder}/new/benchmark.json"), &description)
                .with(&format!("{folder}/base/sample.json"), &sample);
        }
    }
    project.run(&["import", "old/criterion"]).expect_status(0).expect_stderr(&["@1: 2 runs"]);
    project.run(&["report", "@1"]).expect_status(0).expect_stdout(&["group/*\n", "join", "sum"]);
    project
        .run(&["compare", "old/criterion", "new-side/criterion"])
        .expect_status(0)
        .expect_stdout(&["group/*\n", "join", "sum", "+100%", "unclear"]);
}

#[test]
fn an_import_without_a_figure_has_status_2() {
    let failed = r#"{"benchmarks":[{"name":"a","run_type":"iteration","error_occurred":true,"error_message":"no disk"}]}"#;
    let project = project(&[("hey.txt", "http-tools/hey_refused.out")])
        .with("failed.json", failed)
        .with("other.json", r#"{"benchmarks":[{"title":"a","hz":5}]}"#);
    let import = |file: &str| project.run(&["import", file]).expect_status(2);
    import("failed.json").expect_stderr(&["'failed.json': no result has a value: 1 failed"]);
    import("hey.txt").expect_stderr(&["no result has a value: 1 failed"]);
    project.run(&["report", "@2"]).expect_stdout(&["no request was answered (20 errors)"]);
    import("other.json").expect_stderr(&["'other.json' has an unknown format"]);
}

#[test]
fn recorded_loads_of_older_tools_and_of_servers_that_fail_have_the_right_figures() {
    let old = read("http-tools/autocannon_2019.json");
    let value = |metric: &str| old.runs[0].value_of(metric);
    assert_eq!(old.runs[0].case.id(), "http://127.0.0.1:18277/ concurrency=5");
    assert_eq!(value("throughput"), Some(1476.0));
    assert_eq!(value("latency_p99"), Some(27e6));
    assert_eq!(value("latency_p99_9"), Some(96e6));
    // 27 responses and 13 failures at 815.4767 requests per second.
    let half = read("http-tools/hey_some_failed.out");
    let value = |metric: &str| half.runs[0].value_of(metric).unwrap();
    assert_near(value("requests_per_second"), 815.4767 * 27.0 / 40.0);
    assert_near(value("http_errors"), 13.0);
}

#[test]
fn names_and_messages_in_files_cannot_inject_control_characters() {
    let row = |name: &str, time: u32| {
        format!(
            r#"{{"name":"{name}","run_type":"iteration","real_time":{time},"cpu_time":{time},"time_unit":"ns"}}"#
        )
    };
    let file = |time: u32| {
        let names = ["a\\u001b[2Jb", "c\\nd", "e\\u202ef"];
        let rows: Vec<String> = names.iter().map(|name| row(name, time)).collect();
        let failed = r#"{"name":"g","run_type":"iteration","error_occurred":true,"error_message":"x\\u001b]0;y\\u0007"}"#;
        format!(r#"{{"benchmarks":[{},{failed}]}}"#, rows.join(","))
    };
    let project = TempProject::new().with("a.json", &file(10)).with("b.json", &file(20));
    for words in [
        &["as", "compare.py", "--no-color", "benchmarks", "a.json", "b.json"][..],
        &["compare", "a.json", "b.json", "--format", "csv"],
        &["compare", "a.json", "b.json", "--format", "md"],
        &["compare", "a.json", "b.json", "--format", "html"],
        &["compare", "a.json", "b.json"],
    ] {
        let answer = project.run(words);
        for text in [&answer.stdout, &answer.stderr] {
            let steers = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
            assert!(!text.contains(steers) && !text.contains('\u{202e}'), "{words:?}: {text}");
        }
        let is_broken = answer.stdout.lines().any(|line| line.starts_with("d "));
        assert!(!is_broken, "{words:?}: {}", answer.stdout);
    }
}

#[test]
fn all_features_of_google_benchmark_files_are_imported() {
    let project = project(&[("k.json", "google-benchmark/in_kitchen_a.json")]);
    project
        .run(&["report", "k.json"])
        .expect_status(0)
        .expect_stdout(&[
            "BM_manual/n:1/k:2/iterations:5/manual_time",
            "Repetitions within one process are not independent.",
            "BM_err (default): boom (2 times)",
            "./k.out '--benchmark_filter=^BM_err$'",
            "Not run, because they cannot run here (1 benchmark):",
            "BM_skip (default): skipped: not today",
        ])
        .expect_stderr(&["'k.json': repetitions", "fits of whole families"]);
    let fit = session_of_fit();
    assert_eq!(fit.0, "BM_cplx big_o=N");
    assert_near(fit.1, 2.321_796_580_281_653_6e-2);
    let session = read("google-benchmark/in_kitchen_a.json");
    let milliseconds = values(&session, "cpu_time");
    let manual = milliseconds.iter().find(|(case, _)| case.starts_with("BM_manual"));
    assert_near(manual.unwrap().1[0], 258.200_000_000_097_24);
    let environment = &session.environment;
    assert_eq!(environment.host.as_deref(), Some("host"));
    assert_eq!((environment.cpus, environment.aslr), (Some(2), Some(true)));
    assert_eq!(environment.load, Some([15.8052, 12.7817, 8.61426]));
    let facts: Vec<_> = environment.facts.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        facts,
        [
            "caches=L1 Data 32768 B, L1 Instruction 32768 B, L2 Unified 524288 B, L3 Unified 33554432 B shared by 2",
            "cpu_scaling=off",
            "foo=bar",
            "library_build_type=release",
            "library_version=v1.9.5",
            "mhz_per_cpu=2250"
        ]
    );
}

/// The case and the coefficient of the fit over a family, which is not a benchmark itself.
fn session_of_fit() -> (String, f64) {
    let session = read("google-benchmark/in_kitchen_a.json");
    assert_near(values(&session, "rms")[0].1[0], 6.479_315_828_694_318e-2);
    let mut fits = values(&session, "real_coefficient");
    assert_eq!(fits.len(), 1);
    let (case, values) = fits.remove(0);
    (case, values[0])
}

#[test]
fn google_benchmark_files_and_parts_of_one_file_can_be_compared() {
    let project = project(&[
        ("a.json", "google-benchmark/in_copy_a.json"),
        ("b.json", "google-benchmark/in_copy_b.json"),
    ]);
    project.run(&["compare", "a.json", "b.json"]).expect_status(0).expect_stdout(&[
        "9 runs a side",
        "all 10 cases",
        "BM_copy/8192",
        "Only a hint",
    ]);
    project
        .run(&["compare", "a.json::BM_memcpy", "a.json::BM_copy"])
        .expect_status(0)
        .expect_stdout(&[
            "[BM_memcpy|BM_copy]/*",
            "BM_copy against BM_memcpy: 4 of 5 cases slower",
        ]);
}

#[test]
fn an_imported_file_is_reported_like_any_session() {
    let project = project(&[("p.json", "pyperf/a.json"), ("h.json", "hyperfine/sleep-a.json")]);
    project
        .run(&["import", "p.json", "h.json"])
        .expect_status(0)
        .expect_stderr(&["@1: 8 runs", "@2: 10 runs"]);
    let stored = project.run(&["report", "@1"]).expect_status(0).stdout;
    let direct = project.run(&["report", "p.json"]).expect_status(0).stdout;
    assert_eq!(stored, direct);
}

#[test]
fn each_process_of_pyperf_is_a_run_without_its_warmups() {
    let session = read("pyperf/a.json");
    let expected = [
        ("sorted", [1110.1196289997617, 1063.7518921274846, 807.9827270579542, 827.1132202475328]),
        ("sum", [5279.011230818753, 5065.362304712551, 7151.271972816176, 7381.86523374651]),
    ];
    for ((case, values), (name, medians)) in values(&session, "time").iter().zip(expected) {
        assert_eq!(case, name);
        assert_eq!(values.len(), 4);
        values.iter().zip(medians).for_each(|(&found, expected)| assert_near(found, expected));
    }
    assert_eq!(session.runs[0].samples[0].iterations, Some(16384.0));
    assert_eq!(session.runs[0].value_of("max_rss"), Some(19_431_424.0));
    let environment = &session.environment;
    assert_eq!(environment.cpu.as_deref(), Some("Intel(R) Xeon(R) Processor"));
    assert_eq!(environment.programs[0].version.as_deref(), Some("3.11.7 (64-bit)"));
    let timeit = read("pyperf/timeit.json");
    assert_eq!(values(&timeit, "time")[0].0, "timeit");
}

#[test]
fn four_processes_of_pyperf_on_each_side_give_an_unclear_verdict() {
    project(&[("a.json", "pyperf/a.json"), ("b.json", "pyperf/b.json")])
        .run(&["compare", "a.json", "b.json"])
        .expect_status(0)
        .expect_stdout(&["4 runs a side", "unclear", "sorted", "sum"]);
}

#[test]
fn hyperfine_parameters_become_case_parameters() {
    let session = read("hyperfine/sleep-a.json");
    let all = values(&session, "time");
    assert_eq!(all[0].0, "sleep {n} n=0.01");
    assert_eq!(all[1].0, "sleep {n} n=0.02");
    assert_near(all[0].1[0], 11_215_653.0);
    // The mean over all runs is a single figure, stored once.
    assert_eq!(values(&session, "user_time")[0].1.len(), 1);
    assert_near(values(&session, "user_time")[0].1[0], 1_109_800.0);
    project(&[("a.json", "hyperfine/sleep-a.json"), ("b.json", "hyperfine/sleep-b.json")])
        .run(&["compare", "a.json", "b.json"])
        .expect_status(0)
        .expect_stdout(&["n=0.01", "only in b.json", "sleep {n} n=0.03"]);
}

#[test]
fn failed_commands_of_hyperfine_are_failures() {
    project(&[("f.json", "hyperfine/failing.json")])
        .run(&["report", "f.json"])
        .expect_status(0)
        .expect_stdout(&[
            "false (default): exited with status 1 (3 times)",
            "true: 579 µs (3 runs)",
        ]);
    project(&[("z.json", "hyperfine/zero.json")])
        .run(&["report", "z.json"])
        .expect_status(0)
        .expect_stderr(&["every time of 'true' is 0", "--shell=none"]);
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_the_reason() {
    for (file, reason) in [
        ("bad.txt", "has an unknown format"),
        ("list.json", "has an unknown format"),
        ("empty.json", "is empty"),
        ("nobench.json", "has an unknown format"),
        ("nokey.json", "has an unknown format"),
    ] {
        project(&[(file, &format!("google-benchmark/{file}"))])
            .run(&["import", file])
            .expect_status(2)
            .expect_stderr(&[&format!("'{file}'"), reason]);
    }
    let whole = std::fs::read(golden("pyperf/a.json")).unwrap();
    TempProject::new()
        .run_with_input(&["report", "-"], &whole[..3000])
        .expect_status(2)
        .expect_stderr(&["cannot read '-' as pyperf JSON", "is the file cut short?"]);
}
