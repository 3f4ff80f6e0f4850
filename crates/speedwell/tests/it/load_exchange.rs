//! Loads as sessions, written to files and read back: lossless, with the names of other tools.

use super::load_report::golden::{clean_load, troubled_load};
use super::load_report::sample_loads::{MS, MadeLoad, S, US};
use super::project::TempProject;
use speedwell_formats::{JsonContent, load_session};
use speedwell_model::load::latency::{HistogramLogRow, LoadLatency, RequestOutcome, write_log};
use speedwell_model::load::measurement::{LoadRun, PaceFacts};
use speedwell_model::{Case, Run, Session, SessionState};
use speedwell_report::load::report_loads;
use speedwell_report::{Json, OutputOptions, RenderDocument};
use speedwell_store::Store;
use std::fmt::Write;

fn session(loads: &[LoadRun]) -> (Session, Vec<String>) {
    let mut warnings = Vec::new();
    let session = load_session::load_session("load", loads, &mut warnings).unwrap();
    (session, warnings)
}

fn value(session: &Session, run: usize, metric: &str) -> Option<f64> {
    session.runs[run].value_of(metric)
}

fn json(loads: &[LoadRun]) -> Vec<u8> {
    let found: Vec<_> = loads.iter().map(speedwell_analysis::load::analyze_load).collect();
    let mut bytes = Vec::new();
    let document = report_loads(&found, false, &OutputOptions::default());
    Json.render(&document, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_closed_load_becomes_a_case_of_its_address_and_concurrency() {
    let (session, warnings) = session(&[clean_load().run]);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(session.state, SessionState::Complete);
    let id = session.runs[0].case.id();
    assert_eq!(id, "http://127.0.0.1:8080/hello concurrency=4");
    assert_eq!(session.metrics[0].name, "throughput");
    assert!((value(&session, 0, "throughput").unwrap() - 3999.6).abs() < 0.01);
    assert_eq!(value(&session, 0, "http_errors"), Some(0.0));
    assert_eq!(value(&session, 0, "http_non2xx"), Some(0.0));
    // 200 ns to 2 ms in steps of 200 ns.
    assert_eq!(value(&session, 0, "latency_mean"), Some(1_000_100.0));
    assert_eq!(value(&session, 0, "latency_max"), Some(2e6));
    for (metric, ns) in [("latency_p50", 1e6), ("latency_p99", 1.98e6), ("latency_p99_9", 1.998e6)]
    {
        let found = value(&session, 0, metric).unwrap();
        assert!((ns..ns * 1.001).contains(&found), "{metric}: {found}");
    }
    assert_eq!(value(&session, 0, "response_p99"), None);
}

#[test]
fn an_open_load_has_a_rate_parameter_and_service_and_response_metrics() {
    let mut made = MadeLoad::open(1000.0);
    for _ in 0..1000 {
        made.add_request(RequestOutcome::Ok, MS, 500 * US);
    }
    let (session, _) = session(&[made.run]);
    let id = session.runs[0].case.id();
    assert_eq!(id, "http://127.0.0.1:8080/hello rate=1000");
    let near = |metric: &str, ns: f64| {
        let found = value(&session, 0, metric).unwrap();
        assert!((ns..ns * 1.001).contains(&found), "{metric}: {found}");
    };
    near("latency_p99", 1e6);
    near("response_p99", 1.5e6);
    near("lag_p99", 5e5);
}

#[test]
fn a_note_says_why_connections_were_idle_between_requests() {
    let run = |made: MadeLoad| session(&[made.run]).0.runs.remove(0);
    let open = run(MadeLoad::open(1000.0).with_outcomes(RequestOutcome::Ok, 1000, MS));
    assert_eq!(open.notes, [Run::AT_FIXED_RATE]);
    let thinking = run(clean_load().with_change(|run| {
        if let PaceFacts::Closed { think_ns, .. } = &mut run.requested.pace {
            *think_ns = MS;
        }
    }));
    assert_eq!(thinking.notes, [Run::WITH_THINK_TIME]);
    assert!(open.has_idle_connections() && thinking.has_idle_connections());
    assert!(!run(clean_load()).has_idle_connections());
}

#[test]
fn times_refused_in_reports_are_not_stored_as_metrics() {
    let mut made = MadeLoad::open(1000.0);
    for _ in 0..1000 {
        made.add_request(RequestOutcome::Ok, MS, 20 * MS);
    }
    let (session, warnings) = session(&[made.run]);
    let times = session.metrics.iter().filter(|metric| metric.unit == "ns");
    let times: Vec<&str> = times.map(|metric| metric.name.as_str()).collect();
    assert!(times.iter().all(|name| name.starts_with("lag_")), "{times:?}");
    assert!(warnings[0].contains("the generator itself was late"), "{warnings:?}");
}

#[test]
fn percentiles_that_failed_requests_reach_are_not_stored_as_metrics() {
    let fail = RequestOutcome::Failed(speedwell_model::load::outcomes::ErrorClass::Status);
    let made = clean_load().with_outcomes(fail, 200, US);
    let (broken, warnings) = session(&[made.run]);
    let times = broken.metrics.iter().filter(|metric| metric.unit == "ns");
    let times: Vec<&str> = times.map(|metric| metric.name.as_str()).collect();
    assert_eq!(times, ["latency_p50", "latency_p75", "latency_p90", "latency_p95"]);
    assert!(warnings[0].contains("more than 1% of the requests failed"), "{warnings:?}");
    let (working, warnings) = session(&[clean_load().with_outcomes(fail, 1, US).run]);
    assert!(working.metric("latency_p99_9").is_some() && working.metric("latency_max").is_none());
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_load_without_successes_is_stored_as_a_failure() {
    let made = MadeLoad::closed(1).with_outcomes(
        RequestOutcome::Failed(speedwell_model::load::outcomes::ErrorClass::ConnectRefused),
        5,
        US,
    );
    let (session, _) = session(&[made.run]);
    assert!(session.runs.is_empty());
    let failure = &session.failures[0];
    assert_eq!(failure.cause.to_string(), "no request succeeded");
    assert_eq!(failure.replay, "speedwell load http://127.0.0.1:8080/hello");
}

/// The same load of two servers in `rounds` rounds, the second server first in every other round.
fn rounds(rounds: u32) -> Vec<LoadRun> {
    let mut loads = Vec::new();
    for round in 0..rounds {
        for at in 0..2 {
            let mut run = clean_load().run;
            let port = 8080 + (at + round) % 2;
            run.label = format!("http://127.0.0.1:{port}/hello");
            run.url = run.label.clone();
            (run.round, run.slot) = (round, loads.len() as u32);
            loads.push(run);
        }
    }
    loads
}

#[test]
fn addresses_become_cases_in_one_round_and_variants_in_several() {
    let (once, _) = session(&rounds(1));
    assert_eq!(once.variants.len(), 1);
    let ids: Vec<String> = once.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(
        ids,
        ["http://127.0.0.1:8080/hello concurrency=4", "http://127.0.0.1:8081/hello concurrency=4"]
    );

    let (repeated, _) = session(&rounds(3));
    let names: Vec<&str> = repeated.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["http://127.0.0.1:8080/hello", "http://127.0.0.1:8081/hello"]);
    assert_eq!(repeated.design.baseline, names[0]);
    let places: Vec<(u32, u32, &str)> =
        repeated.runs.iter().map(|run| (run.slot, run.block, &*run.variant)).collect();
    assert_eq!(places[1], (1, 0, names[1]));
    assert_eq!(places[2], (2, 1, names[1]));
    let same = |run: &speedwell_model::Run| run.case.id() == "/hello concurrency=4";
    assert!(repeated.runs.iter().all(same));
}

#[test]
fn the_json_of_a_report_is_read_back_without_loss() {
    let loads = [clean_load().run, troubled_load().run];
    let bytes = json(&loads);
    assert!(load_session::recognizes(&JsonContent::new(&bytes)));
    assert_eq!(load_session::read_loads(&bytes).unwrap(), loads);
    let sessions = speedwell_formats::read("x.json", &bytes).unwrap();
    assert_eq!(sessions[0].state, SessionState::Imported);
    assert_eq!(speedwell_model::load::measurement::stored_loads(&sessions[0]).unwrap(), loads);
    // On one line, as other programs write JSON, it is not a JSON line of ours.
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let line = serde_json::to_vec(&value).unwrap();
    assert_eq!(speedwell_formats::read("x.json", &line).unwrap()[0].runs.len(), 2);
}

#[test]
fn json_of_a_report_cut_short_or_without_its_loads_is_refused_with_a_hint() {
    let bytes = json(&[clean_load().run]);
    let cut = speedwell_formats::read("x.json", &bytes[..bytes.len() - 40]).unwrap_err();
    let words = format!("{cut:#}");
    assert!(words.contains("cannot read 'x.json' as speedwell load JSON"), "{words}");
    let mut value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    value["loads"] = serde_json::json!([]);
    let empty = speedwell_formats::read("x.json", value.to_string().as_bytes()).unwrap_err();
    assert!(format!("{empty:#}").contains("it contains no loads"), "{empty:#}");
}

#[test]
fn loads_survive_the_store_and_json_lines_without_loss() {
    let loads = [clean_load().run, troubled_load().run];
    let (session, _) = session(&loads);
    let mut store = Store::in_memory().unwrap();
    let number = store.insert_session(&session).unwrap();
    let stored = store.load_session(number).unwrap();
    assert_eq!(stored.runs, session.runs);
    assert_eq!(speedwell_model::load::measurement::stored_loads(&stored).unwrap(), loads);

    let mut lines = Vec::new();
    speedwell_formats::json_lines::write(&stored, &mut lines).unwrap();
    let again = speedwell_formats::read("x.jsonl", &lines).unwrap();
    assert_eq!(again[0].runs, session.runs);
}

#[test]
fn rows_of_single_requests_are_not_copied_into_sessions() {
    let mut run = clean_load().run;
    run.measured.rows.push(speedwell_model::load::measurement::RequestRecord {
        index: 0,
        kind: 0,
        intended_ns: None,
        begun_ns: 0,
        sent_ns: None,
        first_byte_ns: None,
        end_ns: 1,
        outcome: RequestOutcome::Ok,
        status: 200,
        body_bytes: 0,
        wire_bytes: 0,
        is_reused: false,
    });
    let (session, _) = session(&[run]);
    assert!(
        speedwell_model::load::measurement::stored_loads(&session).unwrap()[0]
            .measured
            .rows
            .is_empty()
    );
}

#[test]
fn parts_of_one_load_add_up() {
    let whole = load_session::merge_load_parts(vec![clean_load().run, clean_load().run]).unwrap();
    let PaceFacts::Closed { concurrency, .. } = whole.requested.pace else {
        panic!("{:?}", whole.requested.pace)
    };
    assert_eq!((concurrency, whole.requested.processes), (8, 2));
    assert_eq!(whole.measured.totals.outcomes.attempts(), 20_000);
    // Twice the requests in the same time, and still no more than requested.
    let found = speedwell_analysis::load::analyze_load(&whole);
    assert!((found.throughput_per_s.unwrap() - 7999.2).abs() < 0.01);
    assert!(!found.concurrency.is_short);

    let mut other = clean_load().run;
    other.url.push_str("/else");
    let error = load_session::merge_load_parts(vec![clean_load().run, other]).unwrap_err();
    assert!(error.to_string().contains("not parts of the same load"), "{error}");
    let error = load_session::merge_load_parts(vec![clean_load().run, MadeLoad::open(1.0).run])
        .unwrap_err();
    assert!(error.to_string().contains("on a schedule"), "{error}");
}

/// The log that `--hdr` writes for a load.
fn log(load: &LoadRun) -> String {
    let LoadLatency::Open(latency) = &load.measured.totals.latency else { panic!("an open load") };
    let mut rows = Vec::new();
    let row = |tag: String, times| HistogramLogRow { tag, start_ns: 0, length_ns: S, times };
    for (outcome, times) in latency.requests.iter() {
        let tag = |quantity: &str| format!("{quantity}/{}", outcome.name());
        rows.push(row(tag("service"), &times.sent.service));
        rows.push(row(tag("response"), &times.response));
    }
    rows.push(row("lag/all".into(), &latency.lag));
    write_log(0, &rows).unwrap()
}

#[test]
fn a_log_of_histograms_is_a_table_of_percentiles() {
    let load = troubled_load().run;
    let text = log(&load);
    let mut warnings = Vec::new();
    let session = &speedwell_formats::read_with_warnings("x.hlog", text.as_bytes(), &mut warnings)
        .unwrap()[0];
    assert_eq!(warnings, Vec::<String>::new());
    let ids: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(ids[0], "load");
    assert!(ids.contains(&"load outcome=timeout.total".to_owned()), "{ids:?}");
    let LoadLatency::Open(latency) = &load.measured.totals.latency else { panic!() };
    let near = |metric: &str, expected: u64| {
        let found = value(session, 0, metric).unwrap();
        let expected = expected as f64;
        assert!((found - expected).abs() <= expected / 1000.0, "{metric}: {found} for {expected}");
    };
    near("latency_p99", latency.requests.ok().sent.service.quantile(990_000).unwrap().ns);
    near("response_p99_9", latency.requests.merge_all().response.quantile(999_000).unwrap().ns);
    near("lag_p50", latency.lag.quantile(500_000).unwrap().ns);
    // A thousand successful responses in a second.
    assert_eq!(value(session, 0, "requests_per_second"), Some(1000.0));
}

#[test]
fn histograms_of_other_programs_become_one_case_per_tag() {
    let mut text = String::new();
    for line in log(&troubled_load().run).lines() {
        let line = line.replace("Tag=service/ok", "Tag=read").replace("Tag=lag/all", "Tag=write");
        let is_kept =
            line.starts_with(['#', '"']) || line.contains("=read,") || line.contains("=write,");
        if is_kept {
            writeln!(text, "{line}").unwrap();
            // A second interval with the same values.
            if line.contains("=read,") {
                writeln!(text, "{line}").unwrap();
            }
        }
    }
    let mut warnings = Vec::new();
    let session = &speedwell_formats::read_with_warnings("x.hlog", text.as_bytes(), &mut warnings)
        .unwrap()[0];
    assert_eq!(warnings, ["'x.hlog': its times are taken as nanoseconds"]);
    let cases: Vec<Case> = session.runs.iter().map(|run| (*run.case).clone()).collect();
    assert_eq!(cases, [Case::new("read", vec![]), Case::new("write", vec![])]);
    assert_eq!(session.runs[0].samples[0].iterations, Some(2000.0));
}

#[test]
fn load_files_are_reported_the_same_before_and_after_import() {
    let project = TempProject::new();
    std::fs::write(project.path("x.json"), json(&[clean_load().run])).unwrap();
    let shown = project.run(&["report", "x.json", "-v"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("10,000 attempted = 10,000 ok: balanced"), "{}", shown.stdout);
    let imported = project.run(&["import", "x.json"]);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let stored = project.run(&["report", "@latest", "-v"]).stdout;
    assert_eq!(stored.replace("  session        @1\n", ""), shown.stdout);
    std::fs::write(project.path("x.hlog"), log(&troubled_load().run)).unwrap();
    let log = project.run(&["report", "x.hlog"]);
    assert!(log.stdout.contains("response_p99"), "{}", log.stdout);
}
