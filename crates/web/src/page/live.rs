//! `/PROJECT/live` and `/PROJECT/sessions/ID/live`: sessions that are being measured.
//!
//! Shows verdicts of decided cases only. A verdict inspected between the planned looks would have a
//! higher error rate than stated.

use super::session::{check_runs, known};
use super::{Outcome, Page, Visit};
use crate::refusal::Refusal;
use crate::site::unix_ms;
use speedwell_analysis as analysis;
use speedwell_model::{Session, State};
use speedwell_report::html::Link;
use speedwell_report::{self as report, Block, Document, LiveCase, LiveState};
use speedwell_results::store::Overview;
use std::collections::BTreeMap;

/// Maximum number of sessions shown.
const ROWS: usize = 20;

/// Query keys: `every` reloads the page periodically, for browsers without scripts.
const NAMES: [&str; 1] = ["every"];

/// Shows everything that is being measured.
pub fn all(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&NAMES)?;
    let running = visit.store.running(ROWS)?;
    let (killed, running): (Vec<Overview>, Vec<Overview>) =
        running.into_iter().partition(|session| session.is_killed);
    let loads = visit.store.live_loads()?;
    let mut document = Document::new("live");
    document.push(Block::Headline(match (running.len(), loads.len()) {
        (0, 0) => "nothing is being measured".to_owned(),
        (0, some) => format!(
            "{} carried out just now",
            report::count(some, "load is", "loads are")
        ),
        (some, _) => format!(
            "{} measured just now",
            report::count(some, "session is", "sessions are")
        ),
    }));
    document.append(report::live_loads(&loads, unix_ms()));
    if !running.is_empty() {
        document.append(visit.list(&running));
    }
    if !killed.is_empty() {
        document.push_heading(2, "Killed");
        document.append(visit.list(&killed));
    }
    let links = running.iter().map(|session| {
        let live = format!("{}/live", visit.session(&session.id));
        Link::new(live, format!("watch @{}", session.number))
    });
    Ok(Page {
        crumbs: vec![Link::new(visit.href("live"), "live")],
        links: links.collect(),
        events: Some(visit.href("sessions/any/events")),
        ..Page::of(document)
    })
}

/// Shows one session while it is being measured; afterwards redirects to its report.
pub fn one(visit: Visit<'_>, id: &str) -> Result<Outcome, Refusal> {
    visit.query.check(&NAMES)?;
    let known = known(visit, id)?;
    if known.state != State::Running {
        return Ok(Outcome::Elsewhere(visit.session(id)));
    }
    check_runs(&[&known])?;
    progress_page(visit, &known).map(Outcome::from)
}

/// Shows the progress of a session.
fn progress_page(visit: Visit<'_>, known: &Overview) -> Result<Page, Refusal> {
    let finished = visit.store.finished_slots(known.number)?;
    let mut session = visit.store.session(known.number)?;
    if !finished.is_empty() {
        // Those that have ended since would be in the table, and not in the headline.
        session.runs.retain(|run| finished.contains(&run.slot));
    }
    let decided = visit.store.decided_cases(known.number)?;
    let planned = (visit.project.lookups.planned)(visit.store, known.number)?;
    let saved: usize = decided.values().sum();
    let now_unix_ms = unix_ms();
    let verdicts = verdicts(visit, &session, &decided)?;
    let last = session
        .runs
        .iter()
        .map(|run| run.started_unix_ms + (run.wall_ns / 1_000_000) as i64)
        .max();
    let state = LiveState {
        number: known.number,
        is_killed: known.is_killed,
        done: finished.len(),
        planned: planned.slots.saturating_sub(saved),
        started_unix_ms: known.started_unix_ms,
        last_sign_unix_ms: last.unwrap_or(known.started_unix_ms),
        now_unix_ms,
        timeout_ms: planned.timeout_ms,
        cases: cases(&session, &verdicts),
    };
    let mut document = report::live(&state);
    document.append(report::failures(
        &session.failures,
        visit.output().verbosity,
    ));
    let own = visit.session(&known.id);
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("live"), "live"),
            Link::new(format!("{own}/live"), format!("@{}", known.number)),
        ],
        links: vec![Link::new(own.clone(), "its report so far")],
        events: Some(format!("{own}/events")),
        ..Page::of(document)
    })
}

/// Counts the runs per case, in order of first run.
fn cases(session: &Session, verdicts: &BTreeMap<String, String>) -> Vec<LiveCase> {
    let mut cases: Vec<LiveCase> = Vec::new();
    for run in &session.runs {
        let id = run.case.id();
        let at = cases.iter().position(|case| case.id == id);
        let at = at.unwrap_or_else(|| {
            cases.push(LiveCase {
                verdict: verdicts.get(&id).cloned(),
                id,
                runs: 0,
            });
            cases.len() - 1
        });
        cases[at].runs += 1;
    }
    cases
}

/// Returns the verdicts of decided cases, which are those of the look that decided them.
fn verdicts(
    visit: Visit<'_>,
    session: &Session,
    decided: &BTreeMap<String, usize>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut verdicts = BTreeMap::new();
    if decided.is_empty() {
        return Ok(verdicts);
    }
    let part = session.part(|run| decided.contains_key(&run.case.id()));
    let settings = (visit.project.lookups.settings)(&[])?;
    let findings = analysis::analyse(&part, &settings);
    for case in decided.keys() {
        verdicts.insert(case.clone(), "decided".to_owned());
    }
    for row in findings.comparisons.iter().flat_map(|found| &found.rows) {
        let verdict = match &row.withheld {
            Some(withheld) => withheld.to_string(),
            None => row.verdict.to_string(),
        };
        verdicts.insert(row.case.id(), verdict);
    }
    Ok(verdicts)
}
