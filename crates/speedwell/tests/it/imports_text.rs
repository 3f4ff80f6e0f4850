//! Recorded output of `go test -bench`, ab and other HTTP tools.
//!
//! `go/join.txt` and `go/trouble.txt` are output of go 1.26 (`-count 6 -benchmem`; `-cpu 1,2`, with
//! a benchmark that prints, one that fails and one that panics). The expected medians are
//! benchstat's.

use super::project::{TempProject, repository};
use speedwell_analysis::validity::{self, KnownFacts};
use speedwell_model::{MetricDirection, Session, median};

fn text(path: &str) -> String {
    let folder = repository().join("crates/speedwell/tests/golden");
    std::fs::read_to_string(folder.join(path)).unwrap()
}

fn read(path: &str) -> (Session, Vec<String>) {
    read_text(&text(path))
}

fn read_text(text: &str) -> (Session, Vec<String>) {
    let mut warnings = Vec::new();
    let mut sessions =
        speedwell_formats::read_with_warnings("f", text.as_bytes(), &mut warnings).unwrap();
    assert_eq!(sessions.len(), 1);
    (sessions.remove(0), warnings)
}

/// The median of a case's runs, in the unit of the metric.
fn median_of(session: &Session, case: &str, metric: &str) -> f64 {
    let series = session.series(session.metric(metric).unwrap());
    let of_case = series.iter().find(|series| series.case.id() == case);
    median(&mut of_case.unwrap_or_else(|| panic!("no {case}")).values()).unwrap()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

/// The value of the only run for a metric.
fn value(session: &Session, metric: &str) -> f64 {
    session.runs[0].value_of(metric).unwrap_or_else(|| panic!("no {metric}"))
}

/// All findings about the figures, as text.
fn finding_texts(session: &Session) -> Vec<String> {
    let found = validity::check_session(session, &KnownFacts::default());
    found.into_iter().map(|finding| finding.says).collect()
}

#[test]
fn medians_of_go_benchmarks_match_benchstat() {
    let (old, new) = (read("go/benchstat-old.txt").0, read("go/benchstat-new.txt").0);
    // benchstat's unit, our metric, and our units per one of benchstat's.
    let units = [
        ("sec/op", "time", 1e9),
        ("B/s", "bytes_per_second", 1.0),
        ("B/op", "bytes_per_op", 1.0),
        ("allocs/op", "allocs_per_op", 1.0),
    ];
    let table = text("go/benchstat-out.csv");
    let mut unit = units[0];
    let mut compared = 0;
    for line in table.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        if let ["", name, ..] = cells[..] {
            unit = *units.iter().find(|(theirs, ..)| *theirs == name).unwrap_or(&unit);
        }
        let Some(format) = cells[0].strip_prefix("Encode/format=") else {
            continue;
        };
        let case =
            format!("example.com/x/Encode format={} gomaxprocs=8", format.trim_end_matches("-8"));
        for (session, cell) in [(&old, cells[1]), (&new, cells[3])] {
            let expected: f64 = cell.parse().unwrap();
            assert_near(median_of(session, &case, unit.1), expected * unit.2);
            compared += 1;
        }
    }
    assert_eq!(compared, 16);
    assert_eq!(old.metric("bytes_per_second").unwrap().better, MetricDirection::Higher);
}

#[test]
fn lines_of_one_benchmark_are_runs_that_depend_on_each_other() {
    let (session, warnings) = read("go/join.txt");
    assert_eq!(session.runs.len(), 30);
    assert_eq!(session.runs[0].case.id(), "example.com/words/Join gomaxprocs=2 n=8 sep=comma");
    assert_eq!(session.runs[0].samples[0].iterations, Some(202_161.0));
    assert_near(session.runs[0].value_of("bytes_per_second").unwrap(), 423.13e6);
    assert!(session.runs[0].notes[0].contains("not independent"));
    assert_eq!(session.metric("fills/s").unwrap().better, MetricDirection::Unknown);
    assert_eq!(session.metric("bytes/op").unwrap().better, MetricDirection::Lower);
    assert_eq!(
        warnings.iter().map(|w| &w[..30]).collect::<Vec<_>>(),
        [&"'f': repetitions of one process"[..30]]
    );
    assert_eq!(session.environment.cpu.as_deref(), Some("Intel(R) Xeon(R) Processor"));
    assert_eq!(session.environment.facts["goarch"], "amd64");
}

#[test]
fn a_go_benchmark_that_prints_fails_or_panics_is_understood() {
    let (session, warnings) = read("go/trouble.txt");
    // The benchmark prints between its name and its result.
    assert_near(median_of(&session, "example.com/words/Chatty gomaxprocs=1", "time"), 97.215);
    assert_eq!(session.runs.len(), 28);
    let failure = &session.failures[0];
    assert_eq!(failure.cause.to_string(), "failed: broken_test.go:8: it broke");
    assert_eq!(failure.replay, "go test -run '^$' -bench '^BenchmarkBroken$' example.com/words");
    let all = warnings.join("\n");
    for words in [
        "12 lines without a result were left out; the first is 'measuring something'",
        "'example.com/words' ended with FAIL",
        "a package ended with a panic: 'runtime error: index out of range [0] with length 0'",
    ] {
        assert!(all.contains(words), "{all}");
    }
}

#[test]
fn go_test_events_are_read_like_go_test_text() {
    let (session, warnings) = read("go/events.jsonl");
    let ids: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    let join = |sep: &str| format!("example.com/words/Join gomaxprocs=2 n=8 sep={sep}");
    let fine = "example.com/words/panic/Fine gomaxprocs=2".to_owned();
    assert_eq!(ids, [join("comma"), join("comma"), join("none"), join("none"), fine.clone(), fine]);
    assert!(session.failures.is_empty(), "{:?}", session.failures);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn oddities_of_go_output_are_reported() {
    let (session, warnings) = read_text(
        "Unit hits/op better=higher\ncpu: A\nBenchmarkA \t 10 \t 5 ns/op\t NaN hits/op\r\n\
         cpu: B\nBenchmarkB \tlost\n--- SKIP: BenchmarkC\n    c_test.go:1: not here\nBenchmarkD-2 10 7",
    );
    assert_eq!(session.runs.len(), 1);
    let failures: Vec<String> = session
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.benchmark, failure.cause))
        .collect();
    assert_eq!(
        failures,
        [
            "C: skipped: c_test.go:1: not here",
            "B: has no result: it did not finish, or its own output hides the result",
        ]
    );
    let all = warnings.join("\n");
    for words in [
        "cpu is first 'A', then 'B'",
        "1 non-finite value was left out",
        "the first is 'BenchmarkD-2 10 7'",
    ] {
        assert!(all.contains(words), "{all}");
    }
}

#[test]
fn all_figures_of_ab_are_imported() {
    let (session, warnings) = read("ab/ab_slow.out");
    assert_eq!(warnings, [""; 0]);
    let text = text("ab/ab_slow.out");
    let printed = |line: &str| -> f64 {
        let line = text.lines().find_map(|known| known.strip_prefix(line)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(session.runs[0].case.id(), "http://127.0.0.1:18195/slow concurrency=10");
    assert_eq!(session.metrics[0].name, "throughput");
    assert_near(value(&session, "throughput"), printed("Requests per second:"));
    assert_near(value(&session, "time"), printed("Time per request:") * 1e6);
    assert_near(value(&session, "bytes_per_second"), printed("Transfer rate:") * 1024.0);
    for (metric, line) in
        [("latency_p50", "  50%"), ("latency_p99", "  99%"), ("latency_max", " 100%")]
    {
        assert_near(value(&session, metric), printed(line) * 1e6);
    }
    let row: Vec<f64> = text
        .lines()
        .find_map(|line| line.strip_prefix("Processing:"))
        .unwrap()
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    for (column, ms) in ["min", "mean", "sd", "median", "max"].iter().zip(row) {
        assert_near(value(&session, &format!("processing_{column}")), ms * 1e6);
    }
    assert_eq!(session.runs[0].samples[0].iterations, Some(100.0));
    assert_eq!(session.environment.facts["keep_alive"], "on");
    // Formulas of ab itself.
    let (rate, concurrency) = (value(&session, "throughput"), 10.0);
    assert!((value(&session, "time") * rate / 1e9 / concurrency - 1.0).abs() < 1e-4);
}

#[test]
fn requests_of_ab_that_failed_are_warned_of() {
    for (file, words) in [
        ("ab/ab_reset.out", "40 of 40 requests failed (40 errors)."),
        ("ab/ab_non2xx.out", "20 of 40 requests failed (20 responses other than 2xx)"),
        ("ab/ab_length_fail.out", "32 of 40 requests failed only because of their body length"),
        ("ab/ab_pasted_22.txt", "32 of 40 requests failed only because of their body length"),
        ("ab/ab_refused_r.out", "15 of 10 requests failed (15 errors)"),
    ] {
        let (session, warnings) = read(file);
        let told = finding_texts(&session);
        assert!(told.iter().any(|says| says.contains(words)), "{told:?}");
        let twice = warnings.iter().any(|warning| warning.contains("failed"));
        assert!(!twice, "{warnings:?}");
    }
    let (session, _) = read("ab/ab_reset.out");
    assert_eq!(value(&session, "http_errors"), 40.0);
    assert_eq!(value(&session, "http_failed_receive"), 20.0);
    TempProject::new()
        .with("refused.txt", &text("ab/ab_refused.out"))
        .run(&["import", "refused.txt"])
        .expect_status(2)
        .expect_stderr(&["line 1 has no results: ab gave up", "ab -r"]);
}

#[test]
fn a_pasted_report_with_collapsed_whitespace_gives_the_same_result() {
    let pasted = text("ab/ab_slow.out")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n");
    let (pasted, warnings) = read_text(&pasted);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(pasted.runs[0].samples, read("ab/ab_slow.out").0.runs[0].samples);
}

#[test]
fn a_path_with_a_percent_sign_is_not_parsed_as_a_percentile() {
    let report = text("ab/ab_slow.out").replace("/slow", "/a%20b");
    let (session, _) = read_text(&report);
    assert_eq!(session.runs[0].case.benchmark, "http://127.0.0.1:18195/a%20b");
}

#[test]
fn several_reports_of_ab_in_one_file_are_several_runs() {
    let both = ["ab/ab_slow.out", "ab/ab_refused.out", "ab/ab_slow.out", "ab/ab_tls.out"];
    let both: String = both.iter().map(|file| text(file).trim().to_owned() + "\n").collect();
    let (session, warnings) = read_text(&both);
    let ids: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(
        ids,
        [
            "http://127.0.0.1:18195/slow concurrency=10",
            "http://127.0.0.1:18195/slow concurrency=10",
            "https://127.0.0.1:18196/ok concurrency=2",
        ]
    );
    assert!(warnings[0].contains("the report that begins at line "), "{warnings:?}");
    assert!(warnings[0].contains("has no results"), "{warnings:?}");
}

#[test]
fn tables_of_ab_agree_with_its_report_of_the_same_test() {
    let (percentages, _) = read("ab/ab_percent.csv");
    assert_near(value(&percentages, "latency_min"), 20.228e6);
    let (requests, _) = read("ab/ab_requests.tsv");
    assert_eq!(requests.started_unix_ms, 1_795_288_692_000);
    let latencies: Vec<f64> = requests.runs[0]
        .samples
        .iter()
        .filter(|sample| &*sample.metric == "latency")
        .map(|sample| sample.value)
        .collect();
    assert_eq!(latencies.len(), 60);
    // The report of the same test says 35 ms for both.
    assert_near(value(&requests, "latency"), 35e6);
    assert!((value(&percentages, "latency_p50") - 35e6).abs() < 0.5e6);
}

#[test]
fn autocannon_figures_are_used_and_impossible_ones_are_warned_about() {
    let (session, warnings) = read("http-tools/autocannon.json");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(session.runs[0].case.id(), "http://127.0.0.1:18195/slow concurrency=10");
    assert_near(value(&session, "throughput"), 275.0 / 1.02);
    assert_near(value(&session, "latency_p97_5"), 58e6);
    let piped = text("http-tools/autocannon.json").replace("\"pipelining\":1", "\"pipelining\":10");
    let (piped, _) = read_text(&piped);
    assert!(piped.runs[0].case.id().ends_with(" concurrency=10 pipelining=10"));
    assert!(
        finding_texts(&piped)[0].contains(" of 100 requests were in flight"),
        "{:?}",
        finding_texts(&piped)
    );
    let (errors, warnings) = read("http-tools/autocannon_err.json");
    assert!(warnings[0].contains("latency_p50, latency_p75"), "{warnings:?}");
    assert!(
        finding_texts(&errors)[0].contains("5857 of 11713 requests failed"),
        "{:?}",
        finding_texts(&errors)
    );
    assert_eq!(errors.runs[0].value_of("latency_p50"), None);
    let (_, warnings) = read("http-tools/autocannon_rate.json");
    assert!(warnings[0].contains("has 122201 latencies for 18618 responses"), "{warnings:?}");
    assert!(warnings[1].contains("1999 of 20617 requests"), "{warnings:?}");
}

#[test]
fn other_http_tools_are_read_from_their_text() {
    let (wrk, warnings) = read("http-tools/wrk_latency.out");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(wrk.runs[0].case.id(), "http://127.0.0.1:18195/slow concurrency=10");
    assert_near(value(&wrk, "throughput"), 280.37);
    assert_near(value(&wrk, "latency_p99"), 49.58e6);
    assert_near(value(&wrk, "bytes_per_second"), 22.73 * 1024.0);
    let (wrk2, warnings) = read("http-tools/wrk2_corrected.out");
    assert_eq!(warnings, [""; 0]);
    // The corrected percentiles, not the raw ones further down.
    assert_near(value(&wrk2, "latency_p50"), 39.84e6);
    assert_near(value(&wrk2, "latency_p99_9"), 99.52e6);
    let (h2load, _) = read("http-tools/h2load_h1.out");
    assert_eq!(h2load.runs[0].case.id(), "h2load concurrency=10");
    assert_near(value(&h2load, "latency_mean"), 651e3);
    let (hey, _) = read("http-tools/hey_text.out");
    assert_near(value(&hey, "requests_per_second"), 262.2841);
    assert_near(value(&hey, "latency_p95"), 48.1e6);
    assert_eq!(hey.runs[0].samples[0].iterations, Some(200.0));
    for (file, p99_9_ns) in [("oha_text.out", 59.0928e6), ("oha_json.out", 111.629829e6)] {
        let (oha, warnings) = read(&format!("http-tools/{file}"));
        assert_eq!(warnings, [""; 0]);
        assert_near(value(&oha, "latency_p99_9"), p99_9_ns);
        assert_eq!(value(&oha, "http_non2xx"), 0.0);
    }
}
