//! Connects pages to the functions of the command line, with its references and defaults.

use crate::options::{ComparisonArgs, usual_threshold};
use crate::pull_answer::{self, Answer};
use crate::{Status, operand, source};
use anyhow::anyhow;
use clap::{Args, FromArgMatches};
use regex::Regex;
use speedwell_analysis::Settings;
use speedwell_analysis::history::History;
use speedwell_forge::State;
use speedwell_harness::plan::Plan;
use speedwell_measure::history::{HistoryRequest, history, summarise};
use speedwell_measure::reference;
use speedwell_report::mark_known;
use speedwell_report::sources::Labelled;
use speedwell_results::store::{Store, Trouble};
use speedwell_web::{Course, Gate, Lookups, Planned, Source};
use std::path::Path;

/// Functions that pages call.
pub const LOOKUPS: Lookups = Lookups {
    session: |store, word| Ok(reference::find(store, word)?.number),
    sources,
    settings,
    gate,
    planned,
    summarise: |path| derive(path, |store| summarise(store, AT_ONCE)),
    history: course,
};

/// Sessions summarized while a request waits; the background thread handles the rest.
const AT_ONCE: usize = 200;

/// Maximum number of points per series on a page.
const POINTS: usize = 5_000;

fn sources(store: &Store, words: &[String]) -> anyhow::Result<Vec<Source>> {
    let operands = operand::parse_stored(words)?;
    let sources = source::read_stored(&operands, store)?;
    let named = sources.into_iter().map(|(source, taken_for)| Source {
        label: source.label,
        session: source.session,
        variant: source.variant,
        taken_for,
    });
    Ok(named.collect())
}

fn gate(store: &Store, words: &[String], options: &[(&str, &str)]) -> anyhow::Result<Gate> {
    let comparison = comparison(options)?;
    let answer = compared(store, &sources(store, words)?, &comparison)?;
    Ok(Gate {
        status: match answer.state {
            State::Failure => Status::NO.code(),
            State::Error => Status::COULD_NOT.code(),
            State::Success | State::Pending => Status::DONE.code(),
        },
        words: answer.description,
    })
}

/// Compares the sources.
pub(super) fn compared(
    store: &Store,
    found: &[Source],
    comparison: &ComparisonArgs,
) -> anyhow::Result<Answer> {
    let labelled: Vec<Labelled<'_>> = found
        .iter()
        .map(|one| (one.label.clone(), &one.session, one.variant.clone()))
        .collect();
    let sessions = found.iter().map(|one| &one.session);
    let settings = comparison.settings(&[], None);
    pull_answer::of_comparison(&labelled, &settings, comparison.fail_on, |findings| {
        mark_known(findings, sessions, store);
    })
}

/// Builds the settings from comparison options.
fn settings(options: &[(&str, &str)]) -> anyhow::Result<Settings> {
    Ok(comparison(options)?.settings(&[], None))
}

/// Parses comparison options like the command line.
///
/// # Errors
/// If there is no such option, or its value is invalid.
pub fn comparison(options: &[(&str, &str)]) -> anyhow::Result<ComparisonArgs> {
    let words = options
        .iter()
        .map(|(name, value)| format!("--{name}={value}"));
    let grammar = clap::Command::new("compare").no_binary_name(true);
    let read = ComparisonArgs::augment_args(grammar).try_get_matches_from(words);
    let read = read.and_then(|matches| ComparisonArgs::from_arg_matches(&matches));
    read.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow!("{}", first.trim_start_matches("error: "))
    })
}

fn course(path: &Path, course: &Course, missing: usize) -> anyhow::Result<History> {
    let exactly = |case: &String| Regex::new(&format!("^{}$", regex::escape(case)));
    let request = HistoryRequest {
        branch: course.branch.clone(),
        filters: course.case.iter().map(exactly).collect::<Result<_, _>>()?,
        metrics: course.metrics.clone(),
        threshold: usual_threshold()?,
        whole_course: course.is_whole,
        missing: Some(missing),
        most_points: Some(POINTS),
        ..HistoryRequest::default()
    };
    derive(path, |store| history(store, &request))
}

/// Runs `work`, which stores derived data. If the disk is full, it runs on a copy of the store, so
/// that results can still be viewed.
fn derive<T>(path: &Path, work: impl Fn(&mut Store) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let done = work(&mut Store::open_to_derive(path)?);
    match done {
        Err(error) if Trouble::of(&error) == Trouble::Full && Store::server(path).is_none() => {
            work(&mut Store::open_copy_to_derive(path)?)
        }
        done => done,
    }
}

fn planned(store: &Store, number: i64) -> anyhow::Result<Planned> {
    let Some(text) = store.plan(number)? else {
        return Ok(Planned::default());
    };
    // The plan may have an unknown version; the runs can still be shown.
    let Ok(plan) = serde_json::from_str::<Plan>(&text) else {
        return Ok(Planned::default());
    };
    Ok(Planned {
        slots: if plan.is_search {
            0
        } else {
            plan.slots().len()
        },
        timeout_ms: plan.sampling.timeout_ms,
    })
}
