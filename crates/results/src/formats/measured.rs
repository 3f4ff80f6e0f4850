//! HTTP loads that we carried out, as a session, and the JSON of their report read back.
//!
//! Decides what a load is called among cases and variants, and which of its figures become metrics.
//! Names are those of `load_report`, so that a load compares with what other tools reported of theirs.
//! Everything else that is known of a load stays with its run. Start at [`session`].
//!
//! Several addresses in a single round are cases beside each other: one run of each says nothing about
//! a difference. Loaded in several rounds they are variants of one case, because that is why somebody
//! repeats them in turn, and the first is the baseline.

mod figures;
mod parts;

pub(super) use figures::times;
pub use parts::merge_parts;

use super::imported::{Imported, VARIANT};
use crate::foreign::json;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use speedwell_model::load_run::LoadRun;
use speedwell_model::{Cause, Environment, Run, Session, State, Variant};
use std::sync::Arc;

/// The loads as one session, in the order in which they were carried out. `label` is what the user calls
/// them together. Words typed, tags, environment, order and seed are for the caller to fill in.
///
/// # Errors
/// There are none.
pub fn session(label: &str, loads: &[LoadRun], warnings: &mut Vec<String>) -> Result<Session> {
    let mut imported = Imported::default();
    let names = Names::of(loads);
    let mut ordered: Vec<&LoadRun> = loads.iter().collect();
    ordered.sort_by_key(|load| load.slot);
    let mut remarks = Vec::new();
    for load in &ordered {
        add(load, &names, &mut imported, &mut remarks)?;
    }
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    let began = loads.iter().map(|load| load.measured.began_epoch_ms).min();
    let began = began.and_then(|ms| i64::try_from(ms).ok());
    let mut session = imported.into_session(label, Environment::default(), began)?;
    let is_interrupted = loads.iter().any(|load| load.measured.is_interrupted);
    session.state = if is_interrupted {
        State::Interrupted
    } else {
        State::Complete
    };
    if let Names::Variants { labels, .. } = &names {
        session.variants = labels.iter().map(Variant::plain).collect();
        session.design.baseline = labels.first().cloned().unwrap_or_default();
    }
    Ok(session)
}

/// What the loads are told apart by.
enum Names {
    /// Each address is a case.
    Cases,
    /// Each address is a variant of this benchmark.
    Variants {
        benchmark: String,
        labels: Vec<String>,
    },
}

impl Names {
    fn of(loads: &[LoadRun]) -> Names {
        let mut labels: Vec<String> = Vec::new();
        for load in loads {
            if !labels.contains(&load.label) {
                labels.push(load.label.clone());
            }
        }
        let is_repeated = loads.iter().any(|load| load.round > 0);
        if labels.len() > 1 && is_repeated {
            Names::Variants {
                benchmark: shared(loads),
                labels,
            }
        } else {
            Names::Cases
        }
    }
}

/// What the addresses have in common: the path, else the server, else that they were loaded.
fn shared(loads: &[LoadRun]) -> String {
    let same = |part: fn(&str) -> &str| {
        let mut parts = loads.iter().map(|load| part(&load.url));
        let first = parts.next()?;
        parts.all(|other| other == first).then(|| first.to_owned())
    };
    let path = same(|url| parts(url).1);
    path.or_else(|| same(|url| parts(url).0))
        .unwrap_or_else(|| "load".to_owned())
}

/// Server and path of an address.
fn parts(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find('/').map_or(url.len(), |at| host + at);
    (&url[..path], &url[path..])
}

fn add(
    load: &LoadRun,
    names: &Names,
    imported: &mut Imported,
    remarks: &mut Vec<String>,
) -> Result<()> {
    let mut report = figures::report(load);
    if let Names::Variants { benchmark, .. } = names {
        report.target.clone_from(benchmark);
    }
    if load.measured.totals.outcomes.succeeded() == 0 {
        let case = report.case();
        let reason = "no request was answered well".to_owned();
        imported.failure(&case, Cause::Invalid { reason }, replay(load));
        return Ok(());
    }
    report.add(imported, remarks);
    let run = imported.last().context("a load is a run")?;
    finish(run, load, names)
}

/// What a report of a tool does not tell of its run.
fn finish(run: &mut Run, load: &LoadRun, names: &Names) -> Result<()> {
    run.variant = match names {
        Names::Cases => VARIANT.into(),
        Names::Variants { .. } => load.label.as_str().into(),
    };
    (run.slot, run.block) = (load.slot, load.round);
    run.started_unix_ms = i64::try_from(load.measured.began_epoch_ms).unwrap_or(0);
    let warnings = load.warnings.iter();
    run.notes.extend(warnings.cloned());
    let mut kept = load.clone();
    // A row for every request belongs into a file of its own, not into every copy of a session.
    kept.measured.rows.clear();
    run.load = Some(Arc::from(serde_json::to_string(&kept)?));
    Ok(())
}

/// What one would type to repeat it, as far as it is known here.
fn replay(load: &LoadRun) -> String {
    format!("speedwell load {}", speedwell_model::quote(&load.url))
}

/// The part of a report's JSON that is read back.
#[derive(Deserialize)]
struct Document {
    loads: Vec<LoadRun>,
}

/// Whether bytes are the JSON of a report of loads.
pub fn recognises(bytes: &[u8]) -> bool {
    let keys = json::keys(super::beginning(bytes));
    let has = |depth: u32, key: &str| keys.contains(&(depth, key.as_bytes()));
    has(1, "speedwell") && has(2, "schema") && has(1, "load_summaries")
}

/// The loads of a report's JSON, exactly as they were measured.
///
/// # Errors
/// It is no JSON, or no report of loads of a version that is known.
pub fn read_loads(bytes: &[u8]) -> Result<Vec<LoadRun>> {
    let document: Document = json::with_text(bytes, |text| serde_json::from_str(text))?;
    ensure!(!document.loads.is_empty(), "there are no loads in it");
    Ok(document.loads)
}

/// The report's JSON as a session that holds its loads.
///
/// # Errors
/// As for [`read_loads`].
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let session = session(label, &read_loads(bytes)?, warnings)?;
    Ok(Session {
        state: State::Imported,
        ..session
    })
}

/// The loads that a session holds, in the order of its runs.
///
/// # Errors
/// One was written by a version that measured other things.
pub fn loads_of(session: &Session) -> Result<Vec<LoadRun>> {
    let kept = session.runs.iter().filter_map(|run| run.load.as_deref());
    kept.map(|text| serde_json::from_str(text).context("cannot read what is kept of a load"))
        .collect()
}
