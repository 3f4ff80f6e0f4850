//! Builds `/PROJECT/live` and `/PROJECT/sessions/ID/live`, which show running sessions.
//!
//! The pages show verdicts only for decided cases. A verdict taken between the planned interim
//! analyses would be wrong more often than stated.

use crate::dashboard::page::content::{PageContent, PageContext, PageOutcome, PageResult};
use crate::dashboard::page::session::{check_runs, find_session};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use speedwell_analysis as analysis;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{Session, SessionState};
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, Document, LiveCase, LiveState, ReportBlock};
use std::collections::BTreeMap;

/// Maximum number of sessions shown.
const MAX_SESSIONS: usize = 20;

/// Query keys. `every` reloads the page periodically, for browsers without scripts.
const QUERY_KEYS: [&str; 1] = ["every"];

/// Shows the running loads, and the newest sessions that are running or were killed.
pub fn live_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&QUERY_KEYS)?;
    let running = context.store.running_sessions(MAX_SESSIONS)?;
    let (killed, running): (Vec<SessionOverview>, Vec<SessionOverview>) =
        running.into_iter().partition(|session| session.is_killed);
    let loads = context.store.list_live_loads()?;
    let mut document = Document::new("live");
    document.push(ReportBlock::Headline(match (running.len(), loads.len()) {
        (0, 0) => "nothing is being measured".to_owned(),
        (0, count) => format!("{} running", report::format_count(count, "load is", "loads are")),
        (count, _) => {
            format!("{} running", report::format_count(count, "session is", "sessions are"))
        }
    }));
    document.append_document(report::report_live_loads(&loads, unix_ms()));
    if !running.is_empty() {
        document.append_document(context.list_sessions(&running));
    }
    if !killed.is_empty() {
        document.push_heading(2, "Killed");
        document.append_document(context.list_sessions(&killed));
    }
    let links = running.iter().map(|session| {
        let live = format!("{}/live", context.session_href(&session.id));
        PageLink::new(live, format!("watch @{}", session.number))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("live"), "live")],
        links: links.collect(),
        events: Some(context.page_href("sessions/any/events")),
        ..PageContent::from_document(document)
    }
    .into())
}

/// Shows a running session. If the session has ended, redirects to its report.
pub fn session_live_page(context: PageContext<'_>) -> PageResult {
    let id = context.name;
    context.query.check_names(&QUERY_KEYS)?;
    let overview = find_session(context, id)?;
    if overview.state != SessionState::Running {
        return Ok(PageOutcome::Redirect(context.session_href(id)));
    }
    check_runs(&[&overview])?;
    progress_page(context, &overview).map(PageOutcome::from)
}

/// Shows the progress of a session.
fn progress_page(
    context: PageContext<'_>,
    overview: &SessionOverview,
) -> Result<PageContent, HttpError> {
    let finished = context.store.finished_slots(overview.number)?;
    let mut session = context.store.load_session(overview.number)?;
    if !finished.is_empty() {
        // Drop runs that ended after `finished` was read, because the headline does not count them.
        session.runs.retain(|run| finished.contains(&run.slot));
    }
    let decided = context.store.decided_cases(overview.number)?;
    let planned = (context.project.lookups.planned)(context.store, overview.number)?;
    let saved: usize = decided.values().sum();
    let now_unix_ms = unix_ms();
    let verdicts = decided_verdicts(context, &session, &decided)?;
    let last_run_end =
        session.runs.iter().map(|run| run.started_unix_ms + (run.wall_ns / 1_000_000) as i64).max();
    let state = LiveState {
        number: overview.number,
        is_killed: overview.is_killed,
        done: finished.len(),
        planned: planned.slots.saturating_sub(saved),
        started_unix_ms: overview.started_unix_ms,
        last_sign_unix_ms: last_run_end.unwrap_or(overview.started_unix_ms),
        now_unix_ms,
        timeout_ms: planned.timeout_ms,
        cases: count_case_runs(&session, &verdicts),
    };
    let mut document = report::report_live(&state);
    document.append_document(report::report_failures(
        &session.failures,
        context.report_options().verbosity,
    ));
    let own_href = context.session_href(&overview.id);
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(context.page_href("live"), "live"),
            PageLink::new(format!("{own_href}/live"), format!("@{}", overview.number)),
        ],
        links: vec![PageLink::new(own_href.clone(), "report so far")],
        events: Some(format!("{own_href}/events")),
        ..PageContent::from_document(document)
    })
}

/// Counts the runs per case, in order of first run.
fn count_case_runs(session: &Session, verdicts: &BTreeMap<String, String>) -> Vec<LiveCase> {
    let mut cases: Vec<LiveCase> = Vec::new();
    for run in &session.runs {
        let id = run.case.id();
        match cases.iter_mut().find(|case| case.id == id) {
            Some(case) => case.runs += 1,
            None => cases.push(LiveCase { verdict: verdicts.get(&id).cloned(), id, runs: 1 }),
        }
    }
    cases
}

/// Returns the verdicts of decided cases. A case without a comparison gets the verdict `decided`.
fn decided_verdicts(
    context: PageContext<'_>,
    session: &Session,
    decided: &BTreeMap<String, usize>,
) -> Result<BTreeMap<String, String>, HttpError> {
    let mut verdicts = BTreeMap::new();
    if decided.is_empty() {
        return Ok(verdicts);
    }
    let part = session.with_runs(|run| decided.contains_key(&run.case.id()));
    let settings = (context.project.lookups.settings)(&[])?;
    let findings = analysis::analyze_session(&part, &settings);
    for case in decided.keys() {
        verdicts.insert(case.clone(), "decided".to_owned());
    }
    for row in findings.comparisons.iter().flat_map(|comparison| &comparison.rows) {
        let verdict = match &row.withheld {
            Some(withheld) => withheld.to_string(),
            None => row.verdict.to_string(),
        };
        verdicts.insert(row.case.id(), verdict);
    }
    Ok(verdicts)
}
