//! Published figures of two studies, and their inconsistencies.
//!
//! `published/topologies-ab.txt` holds the seven ab reports of a published comparison of six
//! layouts of a server (gist 2118651, 2012), `published/module-overhead.md` the tables of a
//! published comparison of servers with and without a module. Both are as published, without the
//! prose.

use super::project::{TempProject, repository};
use speedwell_analysis::validity::{
    self, FindingSeverity, KnownFacts, ValidityCheck, ValidityFinding,
};
use speedwell_model::{Case, ParameterValue, Session};

fn text(name: &str) -> String {
    let folder = repository().join("crates/speedwell/tests/golden/published");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn read(text: &str) -> (Vec<Session>, Vec<String>) {
    let mut warnings = Vec::new();
    let sessions =
        speedwell_formats::read_with_warnings("f", text.as_bytes(), &mut warnings).unwrap();
    (sessions, warnings)
}

fn of_check(found: &[ValidityFinding], check: ValidityCheck) -> Vec<&ValidityFinding> {
    found.iter().filter(|finding| finding.check == check).collect()
}

/// Requests per second times mean latency, to one digit.
fn under_way(session: &Session) -> Vec<String> {
    let product = |run: &speedwell_model::Run| {
        let value = |name| run.value_of(name).unwrap();
        format!("{:.1}", value("throughput") * value("latency_mean") / 1e9)
    };
    session.runs.iter().map(product).collect()
}

/// The table of servers, with the load as described in its method.
fn servers() -> Session {
    let (mut sessions, _) = read(&text("module-overhead.md"));
    let mut session = sessions.remove(1);
    let number = |name: &str, value| (name.to_owned(), ParameterValue::Number(value));
    speedwell_formats::set_parameters(
        &mut session,
        &[number("connections", 100.0), number("pipelining", 10.0)],
    );
    session
}

#[test]
fn checks_find_the_problems_of_seven_pasted_reports() {
    let (sessions, _) = read(&text("topologies-ab.txt"));
    let session = &sessions[0];
    // As pasted: red, blue, purple, green, cyan, cyan once more, brown.
    assert_eq!(under_way(session), ["245.1", "246.2", "126.0", "186.1", "121.5", "121.5", "238.4"]);
    let found = validity::check_session(session, &KnownFacts::default());
    let place = |finding: &&ValidityFinding| {
        let case = Case::parse(&finding.cases[0]).unwrap().benchmark;
        (case.rsplit('/').next().unwrap().to_owned(), finding.runs.clone())
    };
    let places = |check| -> Vec<_> { of_check(&found, check).iter().map(place).collect() };
    let at = |case: &str, runs: &[usize]| (case.to_owned(), runs.to_vec());
    // Green, purple, and cyan twice.
    assert_eq!(
        places(ValidityCheck::InFlight),
        [at("randomfib", &[2]), at("randomfib2", &[2]), at("randomfib3", &[1, 2])]
    );
    assert_eq!(places(ValidityCheck::IdenticalRecords), [at("randomfib3", &[1, 2])]);
    let lengths = of_check(&found, ValidityCheck::LengthFailures);
    assert_eq!(lengths.iter().map(|one| one.runs.len()).sum::<usize>(), 7);
    // Green against red, purple against blue, cyan against brown.
    let ranking = of_check(&found, ValidityCheck::LatencyRanking);
    let pairs: Vec<usize> = ranking.iter().map(|one| one.pairs.len()).collect();
    assert_eq!(pairs, [1, 1, 2]);
    assert_eq!(of_check(&found, ValidityCheck::UnnamedRuns).len(), 3);
    assert!(found.iter().all(|one| one.level == FindingSeverity::Amber), "{found:?}");
    assert_eq!(found.len(), 3 + 1 + 3 + 3 + 3, "{found:?}");
}

#[test]
fn published_tables_are_read_as_runs_joined_by_name() {
    let (sessions, warnings) = read(&text("module-overhead.md"));
    let [promises, servers] = &sessions[..] else {
        panic!("{} sessions", sessions.len());
    };
    let names: Vec<&str> = promises.variants.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["Baseline", "With crash-collector"]);
    assert_eq!(promises.runs.len(), 10);
    assert_eq!(promises.runs[5].value_of("time"), Some(195.01e6));
    assert_eq!(servers.runs.len(), 14);
    let hapi =
        servers.runs.iter().find(|run| run.case.benchmark == "hapi" && &*run.variant != "Baseline");
    let hapi = hapi.unwrap();
    assert_eq!(hapi.value_of("throughput"), Some(25_365.6));
    assert_eq!(hapi.value_of("latency_mean"), Some(3.85e6));
    assert_eq!(hapi.value_of("bytes_per_second"), Some(8.83 * 1_048_576.0));
    assert!(warnings.iter().any(|told| told.contains("is read as MiB/s")), "{warnings:?}");
    // Reordering the rows gives the same findings.
    let mut lines: Vec<String> = text("module-overhead.md").lines().map(String::from).collect();
    let latency = lines.iter().position(|line| line == "### Latency").unwrap();
    lines[latency + 4..latency + 11].reverse();
    let (again, _) = read(&(lines.join("\n") + "\n"));
    assert_eq!(again[1].runs, servers.runs);
}

#[test]
fn a_column_sorted_separately_is_detected_by_response_sizes() {
    let found = validity::check_session(&servers(), &KnownFacts::default());
    let cases = |one: &ValidityFinding| one.names.join(" ");
    let sizes = of_check(&found, ValidityCheck::BytesPerResponse);
    let told: Vec<(String, &str)> =
        sizes.iter().map(|one| (cases(one), one.says.split(':').next().unwrap())).collect();
    let says = |name: &str, old, new| {
        let says = format!(
            "A response with its headers has {old} B under 'Baseline' and {new} B under 'Crash Collector'"
        );
        (name.to_owned(), says)
    };
    let told: Vec<(String, String)> = told.into_iter().map(|(a, b)| (a, b.to_owned())).collect();
    assert_eq!(
        told,
        [
            says("hapi", 164, 365),
            says("express-route-prefix", 365, 379),
            says("express-with-middlewares", 379, 164)
        ]
    );
    let [rows] = of_check(&found, ValidityCheck::MisalignedRows)[..] else {
        panic!("{found:?}");
    };
    for words in [
        "row 'hapi' looks like 'express-route-prefix'",
        "row 'express-route-prefix' looks like 'express-with-middlewares'",
        "row 'express-with-middlewares' looks like 'hapi'",
        "-23% for 'hapi'",
        "+32% for 'express-with-middlewares'",
        "+2% for 'express-route-prefix'",
        "as if it had been sorted separately",
    ] {
        assert!(rows.says.contains(words), "{words}: {}", rows.says);
    }
    let [latency] = of_check(&found, ValidityCheck::LatencyIsThroughput)[..] else {
        panic!("{found:?}");
    };
    assert!(
        latency.says.contains(
            "is 95.6 to 98.6 in all 14 measurements, where 1000 requests in flight were requested"
        ),
        "{}",
        latency.says
    );
    assert_eq!(of_check(&found, ValidityCheck::SingleRuns).len(), 1);
    assert_eq!(found.len(), 3 + 1 + 1 + 1, "{found:?}");
}

#[test]
fn import_and_report_print_findings_in_every_format() {
    let project = TempProject::new().with("t.md", &text("module-overhead.md"));
    let words = ["--set", "connections=100", "--set", "pipelining=10"];
    let mut import = vec!["import", "t.md", "--never-better", "Crash Collector"];
    import.extend(words);
    project.run(&import).expect_status(0).expect_stdout(&[
        "misaligned-rows",
        "single-runs",
        "better-than-possible",
    ]);
    for format in ["text", "md", "html"] {
        let shown = project.run(&["report", "--format", format]).expect_status(0);
        shown.expect_stdout(&["misaligned-rows", "single-runs"]);
    }
    let shown = project.run(&["report", "--format", "json"]).expect_status(0);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let found = json["validity"].as_array().unwrap();
    let rows = found.iter().find(|one| one["check"] == "misaligned-rows").unwrap();
    assert_eq!(rows["level"], "red");
    assert_eq!(rows["cases"][0], "hapi connections=100 pipelining=10");
    assert_eq!(rows["variants"], serde_json::json!(["Crash Collector"]));
}

#[test]
fn prose_with_tables_of_words_or_bare_numbers_is_an_unknown_format() {
    for text in [
        "# Options\n\n| option | default |\n|---|---|\n| `-n` | 100 |\n",
        "# Latency\n\nIt was 5 ms.\n",
        "### Requests\n\n| server | version |\n|---|---|\n| a | v1.2 |\n",
    ] {
        let error = speedwell_formats::read("f", text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("'f' has an unknown format"), "{text}: {error}");
    }
}

#[test]
fn a_table_may_have_its_metrics_in_columns_and_its_units_in_headings() {
    let text = "| server | Requests/s | Latency (ms) | Throughput (MB/s) |\n|---|---:|---:|---:|\n\
                | a | 54,620 | 1.75 | 8.54 |\n| b | n/a | 2 | 1 |\n";
    let (sessions, warnings) = read(text);
    let runs = &sessions[0].runs;
    assert_eq!(runs[0].value_of("throughput"), Some(54_620.0));
    assert_eq!(runs[0].value_of("latency_mean"), Some(1.75e6));
    assert_eq!(runs[1].value_of("bytes_per_second"), Some(1e6));
    assert_eq!(runs[1].value_of("throughput"), None);
    assert_eq!(warnings, ["'f': 1 cell without a figure below 'Requests/s' is left out"]);
}

#[test]
fn reports_in_separate_files_are_compared_without_ranking_latencies() {
    let all = text("topologies-ab.txt");
    let reports: Vec<&str> = all.split_inclusive("(longest request)\n").collect();
    let project = TempProject::new().with("red.txt", reports[0]).with("green.txt", reports[3]);
    let words = ["compare", "red=red.txt", "green=green.txt", "--metric", "latency_mean"];
    let answer = project.run(&[&words[..], &["--format", "json"]].concat()).expect_status(0);
    let json: serde_json::Value = answer.json();
    let found = json["validity"].as_array().unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|one| (one["check"].as_str().unwrap(), one["variants"][0].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("in-flight", Some("green")),
            ("latency-ranking", None),
            ("length-failures", Some("red")),
            ("length-failures", Some("green")),
        ]
    );
    let notes = json["changes"][0]["notes"].to_string();
    assert!(notes.contains("these latencies are not ranked"), "{notes}");
    assert!(!answer.stderr.contains("in flight"), "said once: {}", answer.stderr);
}
