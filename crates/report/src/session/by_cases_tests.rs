//! The report of a session is the same whether its runs are read all at once or in parts.

use super::{StudyChoice, report_session, report_session_in_parts};
use crate::Document;
use crate::charts::MAX_DRAWN_RUNS;
use crate::format::{Csv, Json, Markdown, RenderDocument, TextFormat};
use crate::output::{OutputOptions, Verbosity};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings};
use speedwell_fixtures::FakeSession;
use speedwell_model::{Case, Metric, MetricDirection, Sample, Session, SessionState};
use speedwell_store::{LARGE_SESSION, Store};
use std::sync::Arc;

/// The cases of every session. [`build_session`] removes the runs of `only/new` under the variant
/// `old`, so parts differ in size.
const CASES: [&str; 6] = [
    "text/find len=10 kind=short",
    "text/find len=1000 kind=short",
    "url/parse kind=short",
    "only/new kind=short",
    "url/join kind=short",
    "path/join kind=short",
];

/// A session in which the cases take turns.
fn build_session(story: FakeSession) -> Session {
    let mut session = CASES
        .iter()
        .zip(0..)
        .fold(story, |story, (id, number)| {
            let factor = move |variant: &str| match variant {
                "new" => 1.0 + 0.03 * f64::from(number),
                "newest" => 0.9,
                _ => 1.0,
            };
            story.add_noisy_case(id, 0.01, factor)
        })
        .build();
    session.runs.retain(|run| &*run.variant != "old" || run.case.benchmark != "only/new");
    // Every block has all cases, each time in a different order.
    let turn = |case: &Case, block: u32| (case.id().len() as u32 * 7 + block * 5) % 11;
    session.runs.sort_by_key(|run| (run.block, turn(&run.case, run.block)));
    for (run, slot) in session.runs.iter_mut().zip(0..) {
        run.slot = slot;
        run.notes = vec!["Said of every run.".to_owned()];
        if slot % 17 == 0 {
            run.notes.insert(0, "Said of some runs.".to_owned());
        }
    }
    session
}

/// The report of a stored session in every format without pictures: read as a whole, and in parts
/// of at least `at_once` runs.
fn render_both(session: &Session, settings: &AnalysisSettings, at_once: usize) -> [String; 2] {
    let mut store = Store::in_memory().unwrap();
    let number = store.insert_session(session).unwrap();
    let output = OutputOptions { verbosity: Verbosity::Verbose, ..OutputOptions::default() };
    let mark = |_: &mut AnalysisFindings| {};
    let stored = store.load_session(number).unwrap();
    let study = StudyChoice::default();
    let at_a_time = report_session((None, &stored, None), &study, settings, &output, mark).unwrap();
    let by_cases = store.with_session_by_cases(number, |stored| {
        assert!(analysis::can_be_divided(stored.header(), stored.cases()));
        stored.set_part_size(at_once);
        let parts = |visit: &mut dyn FnMut(&Session)| stored.for_each_part(visit);
        let header = (stored.header(), stored.total_runs());
        report_session_in_parts(header, parts, settings, &output, mark)
    });
    [at_a_time, by_cases.unwrap()].map(|document| render_formats(&document))
}

fn render_formats(document: &Document) -> String {
    let formats: [&dyn RenderDocument; 4] = [
        &TextFormat { width: Some(100), color: false, brief: false },
        &Markdown::default(),
        &Csv,
        &Json,
    ];
    let mut all = Vec::new();
    for format in formats {
        format.render(document, &mut all).unwrap();
    }
    String::from_utf8(all).unwrap()
}

/// Asserts that both reports are equal for parts of any size; returns the text.
fn assert_same_report(session: &Session, settings: &AnalysisSettings) -> String {
    let [whole, single] = render_both(session, settings, 1);
    assert_eq!(whole, single, "case by case");
    let [_, pairs] = render_both(session, settings, session.runs.len() / 3);
    assert_eq!(whole, pairs, "two cases at a time");
    whole
}

#[test]
fn fixed_runs_give_the_same_report_by_case_and_as_a_whole() {
    let session = build_session(FakeSession::with_fixed_blocks(&["old", "new", "newest"], 10));
    let text = assert_same_report(&session, &AnalysisSettings::default());
    assert!(text.contains("better") && text.contains("worse"), "{text}");
    assert!(text.contains("Said of every run."), "{text}");
    assert!(text.contains("only/new"), "{text}");
}

#[test]
fn a_sequential_test_gives_the_same_report_by_case_and_as_a_whole() {
    let session = build_session(FakeSession::sequential(&["old", "new"], 13));
    let text = assert_same_report(&session, &AnalysisSettings::default());
    assert!(text.contains("Decided at"), "{text}");
}

#[test]
fn a_single_variant_gives_the_same_report_by_case_and_as_a_whole() {
    let session = build_session(FakeSession::with_fixed_blocks(&["old"], 5));
    assert_same_report(&session, &AnalysisSettings::default());
}

#[test]
fn several_metrics_give_the_same_report_by_case_and_as_a_whole() {
    let mut session = build_session(FakeSession::with_fixed_blocks(&["old", "new"], 6));
    session.metrics.push(Metric::new("memory", "B", MetricDirection::Lower));
    for run in &mut session.runs {
        run.samples.push(Sample {
            metric: Arc::from("memory"),
            value: 1e6 + f64::from(run.slot % 7),
            elapsed_ns: None,
            iterations: None,
        });
    }
    let settings = AnalysisSettings {
        metrics: vec!["all".to_owned(), "none of it".to_owned()],
        ..AnalysisSettings::default()
    };
    let text = assert_same_report(&session, &settings);
    assert!(text.contains("memory"), "{text}");
}

#[test]
fn an_interrupted_session_gives_the_same_report_by_case_and_as_a_whole() {
    let machines = [("m1", "a"), ("m2", "a"), ("m3", "a")];
    let mut session = build_session(FakeSession::with_fixed_blocks(&["old", "new"], 15));
    session.machines = FakeSession::with_fixed_blocks(&["old"], 15)
        .distribute_over_machines(&machines)
        .build()
        .machines;
    for run in &mut session.runs {
        run.machine = Some(run.block / 5);
    }
    session.state = SessionState::Interrupted;
    let text = assert_same_report(&session, &AnalysisSettings::default());
    assert!(text.contains("was interrupted after"), "{text}");
    assert!(text.contains("m2"), "{text}");
}

#[test]
fn a_record_that_was_copied_into_another_case_is_found() {
    let mut session = build_session(FakeSession::with_fixed_blocks(&["old", "new"], 6));
    let sample = |value: f64| Sample {
        metric: Arc::from("throughput"),
        value,
        elapsed_ns: None,
        iterations: None,
    };
    for run in &mut session.runs {
        let value = run.samples[0].value;
        run.samples = vec![sample(value), sample(value * 1.01), sample(value * 0.97)];
    }
    let first_of = |benchmark: &str| {
        let mut runs = session.runs.iter();
        runs.position(|run| run.case.benchmark == benchmark).unwrap()
    };
    let (from, to) = (first_of("text/find"), first_of("url/join"));
    session.runs[to].samples = session.runs[from].samples.clone();
    let text = assert_same_report(&session, &AnalysisSettings::default());
    assert!(text.contains("are equal to the last digit in all 3 figures"), "{text}");
}

#[test]
fn sessions_with_comparisons_across_cases_are_not_divided() {
    let mut session = build_session(FakeSession::with_fixed_blocks(&["old", "new"], 2));
    let cases: Vec<Case> = CASES.iter().map(|id| Case::parse(id).unwrap()).collect();
    assert!(analysis::can_be_divided(&session, &cases));
    session.metrics.push(Metric::new("latency_mean", "ns", MetricDirection::Lower));
    assert!(!analysis::can_be_divided(&session, &cases));
    session.metrics.pop();
    session.state = SessionState::Imported;
    assert!(!analysis::can_be_divided(&session, &cases));
}

#[test]
fn charts_are_drawn_up_to_the_size_of_a_large_session() {
    assert_eq!(MAX_DRAWN_RUNS, LARGE_SESSION);
}
