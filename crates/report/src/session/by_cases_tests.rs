//! The report of a session is the same whether its runs are read all at once or in parts.

use super::{StudyChoice, in_parts, whole};
use crate::format::{Csv, Json, Markdown, Render, Text};
use crate::output::{Output, Verbosity};
use crate::{Document, MOST_DRAWN_RUNS};
use speedwell_analysis::{self as analysis, Findings, Settings};
use speedwell_fixtures::Story;
use speedwell_model::{Better, Case, Metric, Sample, Session, State};
use speedwell_results::store::{LARGE_SESSION, Store};
use std::sync::Arc;

/// Cases of different sizes, so that no two parts are alike: one with one run per side, a quick
/// one, a slow one.
const CASES: [&str; 6] = [
    "text/find len=10 kind=short",
    "text/find len=1000 kind=short",
    "url/parse kind=short",
    "only/new kind=short",
    "url/join kind=short",
    "path/join kind=short",
];

/// A session in which the cases take turns.
fn measured(story: Story) -> Session {
    let mut session = CASES
        .iter()
        .zip(0..)
        .fold(story, |story, (id, number)| {
            let factor = move |variant: &str| match variant {
                "new" => 1.0 + 0.03 * f64::from(number),
                "newest" => 0.9,
                _ => 1.0,
            };
            story.noisy(id, 0.01, factor)
        })
        .session();
    session
        .runs
        .retain(|run| &*run.variant != "old" || run.case.benchmark != "only/new");
    // Every block has all cases, each time in a different order.
    let turn = |case: &Case, block: u32| (case.id().len() as u32 * 7 + block * 5) % 11;
    session
        .runs
        .sort_by_key(|run| (run.block, turn(&run.case, run.block)));
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
fn both(session: &Session, settings: &Settings, at_once: usize) -> [String; 2] {
    let mut store = Store::in_memory().unwrap();
    let number = store.insert(session).unwrap();
    let output = Output {
        verbosity: Verbosity::Verbose,
        ..Output::default()
    };
    let mark = |_: &mut Findings| {};
    let stored = store.session(number).unwrap();
    let study = StudyChoice::default();
    let at_a_time = whole((None, &stored), &study, settings, &output, mark).unwrap();
    let by_cases = store.by_cases(number, |stored| {
        assert!(analysis::can_be_divided(stored.header(), stored.cases()));
        stored.read_at_once(at_once);
        let parts = |visit: &mut dyn FnMut(&Session)| stored.parts(visit);
        let header = (stored.header(), stored.runs());
        in_parts(header, parts, settings, &output, mark)
    });
    [at_a_time, by_cases.unwrap()].map(|document| written(&document))
}

fn written(document: &Document) -> String {
    let formats: [&dyn Render; 4] = [
        &Text {
            width: Some(100),
            color: false,
            brief: false,
        },
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
fn agreed(session: &Session, settings: &Settings) -> String {
    let [whole, single] = both(session, settings, 1);
    assert_eq!(whole, single, "case by case");
    let [_, pairs] = both(session, settings, session.runs.len() / 3);
    assert_eq!(whole, pairs, "two cases at a time");
    whole
}

#[test]
fn verdicts_of_a_fixed_number_of_runs_are_the_same() {
    let session = measured(Story::fixed(&["old", "new", "newest"], 10));
    let text = agreed(&session, &Settings::default());
    assert!(text.contains("better") && text.contains("worse"), "{text}");
    assert!(text.contains("Said of every run."), "{text}");
    assert!(text.contains("only/new"), "{text}");
}

#[test]
fn verdicts_of_a_sequential_test_are_the_same() {
    let session = measured(Story::blocks(&["old", "new"], 13));
    let text = agreed(&session, &Settings::default());
    assert!(text.contains("Decided at"), "{text}");
}

#[test]
fn summaries_of_a_single_variant_are_the_same() {
    let session = measured(Story::fixed(&["old"], 5));
    agreed(&session, &Settings::default());
}

#[test]
fn several_metrics_are_the_same() {
    let mut session = measured(Story::fixed(&["old", "new"], 6));
    session
        .metrics
        .push(Metric::new("memory", "B", Better::Lower));
    for run in &mut session.runs {
        run.samples.push(Sample {
            metric: Arc::from("memory"),
            value: 1e6 + f64::from(run.slot % 7),
            elapsed_ns: None,
            iterations: None,
        });
    }
    let settings = Settings {
        metrics: vec!["all".to_owned(), "none of it".to_owned()],
        ..Settings::default()
    };
    let text = agreed(&session, &settings);
    assert!(text.contains("memory"), "{text}");
}

#[test]
fn machines_and_an_early_end_are_the_same() {
    let machines = [("m1", "a"), ("m2", "a"), ("m3", "a")];
    let mut session = measured(Story::fixed(&["old", "new"], 15));
    session.machines = Story::fixed(&["old"], 15)
        .machines(&machines)
        .session()
        .machines;
    for run in &mut session.runs {
        run.machine = Some(run.block / 5);
    }
    session.state = State::Interrupted;
    let text = agreed(&session, &Settings::default());
    assert!(text.contains("was interrupted after"), "{text}");
    assert!(text.contains("m2"), "{text}");
}

#[test]
fn a_record_that_was_copied_into_another_case_is_found() {
    let mut session = measured(Story::fixed(&["old", "new"], 6));
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
        runs.position(|run| run.case.benchmark == benchmark)
            .unwrap()
    };
    let (from, to) = (first_of("text/find"), first_of("url/join"));
    session.runs[to].samples = session.runs[from].samples.clone();
    let text = agreed(&session, &Settings::default());
    assert!(
        text.contains("are equal to the last digit in all 3 figures"),
        "{text}"
    );
}

#[test]
fn what_holds_cases_against_each_other_is_read_as_a_whole() {
    let mut session = measured(Story::fixed(&["old", "new"], 2));
    let cases: Vec<Case> = CASES.iter().map(|id| Case::parse(id).unwrap()).collect();
    assert!(analysis::can_be_divided(&session, &cases));
    session
        .metrics
        .push(Metric::new("latency_mean", "ns", Better::Lower));
    assert!(!analysis::can_be_divided(&session, &cases));
    session.metrics.pop();
    session.state = State::Imported;
    assert!(!analysis::can_be_divided(&session, &cases));
}

#[test]
fn pages_end_where_sessions_are_large() {
    assert_eq!(MOST_DRAWN_RUNS, LARGE_SESSION);
}
