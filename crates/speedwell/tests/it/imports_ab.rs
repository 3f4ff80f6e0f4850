//! Reports of ab with implausible figures, and its report in HTML.

use super::project::repository;
use speedwell_analysis::validity::{self, KnownFacts};
use speedwell_model::Session;

fn text(name: &str) -> String {
    let folder = repository().join("crates/speedwell/tests/golden/ab");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn read(text: &str) -> (Session, Vec<String>) {
    let mut warnings = Vec::new();
    let mut sessions =
        speedwell_formats::read_with_warnings("f", text.as_bytes(), &mut warnings).unwrap();
    (sessions.remove(0), warnings)
}

/// All findings about the figures, as text.
fn finding_texts(session: &Session) -> Vec<String> {
    let found = validity::check_session(session, &KnownFacts::default());
    found.into_iter().map(|finding| finding.says).collect()
}

/// A published test of a server in six layouts, 8000 requests with -c 250 each, with 6667 bodies
/// that differ in length from the first: seconds, requests per second, and mean time in
/// milliseconds.
const PUBLISHED: [(&str, f64, f64, u32); 6] = [
    ("red", 36.856, 217.06, 1129),
    ("green", 25.150, 318.09, 585),
    ("blue", 24.310, 329.08, 748),
    ("purple", 25.967, 308.08, 409),
    ("brown", 7.852, 1018.79, 234),
    ("cyan", 8.162, 980.10, 124),
];

#[test]
fn text_around_pasted_reports_is_ignored() {
    let report = text("ab_pasted_22.txt");
    let page =
        format!("Skip to content\nCreated: 19 March\n{}\nSign up: it is free", report.trim_end());
    let (alone, mut expected) = read(&report);
    let (around, mut warnings) = read(&page);
    assert_eq!(around.runs, alone.runs);
    for told in [&mut expected, &mut warnings] {
        told.retain(|one| one.contains("cut short") || one.contains("no results"));
    }
    assert_eq!(warnings, expected);
    // A truncated report is still reported.
    let whole = report.find("100%").unwrap();
    assert!(read(&report[..whole]).1.iter().any(|one| one.contains("cut short")));
}

fn pasted_report(seconds: f64, rate: f64, mean_ms: u32) -> String {
    let report = text("ab_pasted_22.txt");
    let lines = report.lines().map(|line| match line.split_once(':') {
        Some(("Concurrency Level", _)) => "Concurrency Level: 250".to_owned(),
        Some(("Time taken for tests", _)) => format!("Time taken for tests: {seconds} seconds"),
        Some(("Complete requests", _)) => "Complete requests: 8000".to_owned(),
        Some(("Failed requests", _)) => "Failed requests: 6667".to_owned(),
        Some(("(Connect", _)) => "(Connect: 0, Receive: 0, Length: 6667, Exceptions: 0)".to_owned(),
        Some(("Requests per second", _)) => {
            format!("Requests per second: {rate} [#/sec] (mean)")
        }
        Some(("Total", _)) => format!("Total: 1 {mean_ms} 1.0 {mean_ms} {mean_ms}"),
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn connections_that_were_idle_are_noticed_also_where_lengths_vary() {
    for (name, seconds, rate, mean_ms) in PUBLISHED {
        let (session, warnings) = read(&pasted_report(seconds, rate, mean_ms));
        assert!(
            warnings.iter().all(|warning| warning.contains("whole multiples of 1 ms")),
            "said once, and not here: {warnings:?}"
        );
        let warnings = finding_texts(&session);
        let lengths = "6667 of 8000 requests failed only because of their body length";
        assert!(warnings.iter().any(|warning| warning.contains(lengths)), "{name}: {warnings:?}");
        let idle = warnings.iter().find(|warning| warning.contains("Only "));
        let expected = match name {
            "green" => Some("Only 186.1 of 250"),
            "purple" => Some("Only 126.0 of 250"),
            "cyan" => Some("Only 121.5 of 250"),
            _ => None,
        };
        match (idle, expected) {
            (None, None) => {}
            (Some(idle), Some(expected)) => assert!(idle.contains(expected), "{name}: {idle}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn figures_that_cannot_belong_together_are_noticed() {
    // Twice as many requests in flight as there were connections.
    let (_, warnings) = read(&pasted_report(8.0, 1000.0, 500));
    let words = "499.5 requests in flight on 250 connections";
    assert!(warnings.iter().any(|warning| warning.contains(words)), "{warnings:?}");
    let few =
        text("ab_slow.out").replace("Concurrency Level:      10", "Concurrency Level:      250");
    let (session, _) = read(&few);
    assert_eq!(finding_texts(&session), ["100 requests cannot keep 250 in flight."]);
}

#[test]
fn an_html_report_has_the_figures_of_a_text_report() {
    let (session, warnings) = read(&text("ab_html.out"));
    assert_eq!(warnings, [""; 0]);
    let run = &session.runs[0];
    assert_eq!(run.case.id(), "http://127.0.0.1:18195/slow concurrency=6");
    // The figures as in the file.
    for (metric, value) in [
        ("throughput", 149.84),
        ("bytes_per_second", 12.15 * 1024.0),
        ("latency_min", 20e6),
        ("latency_mean", 35e6),
        ("processing_max", 50e6),
        ("http_errors", 0.0),
    ] {
        assert_eq!(run.value_of(metric), Some(value), "{metric}");
    }
    assert_eq!(session.environment.facts["server_software"], "demo/1");
}

#[test]
fn failures_that_html_does_not_name_are_not_taken_for_length_failures() {
    // ab -w names three of its four kinds.
    let row =
        "<tr ><td colspan=4 bgcolor=white >   (Connect: 0, Length: 0, Exceptions: 0)</td></tr>\n";
    let page = text("ab_html.out")
        .replace(
            "Failed requests:</th><td colspan=2 bgcolor=white>0<",
            "Failed requests:</th><td colspan=2 bgcolor=white>6<",
        )
        .replace(
            "<tr ><th colspan=2 bgcolor=white>Keep-Alive",
            &format!("{row}<tr ><th colspan=2 bgcolor=white>Keep-Alive"),
        );
    let (session, _) = read(&page);
    assert_eq!(finding_texts(&session), ["6 of 60 requests failed (6 errors)."]);
}
