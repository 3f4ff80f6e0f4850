//! Builds the pages about running sessions, and streams their updates to viewers.
//!
//! The recorder commits after every planned run, so the store itself shows progress. A database
//! server sends notifications; a file is polled four times per second. The store is watched only
//! while there are viewers. Each update is rendered once for all viewers. Start at
//! [`stream_updates`].

use crate::dashboard::address::{PageFormat, PageQuery, encode_segment};
use crate::dashboard::page::session::{check_runs, find_session};
use crate::dashboard::page::{PageContent, PageContext, PageHandler, PageLayout, PageResult};
use crate::dashboard::site::{HostedProject, RequestContext, unix_ms};
use crate::dashboard::{CallerIdentity, SiteState};
use crate::http::events::{EventHub, ServerEvent};
use crate::http::{HttpError, lock};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use speedwell_analysis as analysis;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{Session, SessionState};
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, Document, LiveCase, LiveState, ReportBlock};
use speedwell_store::{SessionProgress, Store};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of sessions shown.
const MAX_SESSIONS: usize = 20;

/// Query keys. `every` reloads the page periodically, for browsers without scripts.
const QUERY_KEYS: [&str; 1] = ["every"];

/// Shows the running loads, and the newest sessions that are running or were killed.
pub fn live_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&QUERY_KEYS)?;
    let (running, loads) = context.store.with_snapshot(|| {
        Ok((context.store.running_sessions(MAX_SESSIONS)?, context.store.list_live_loads()?))
    })?;
    let (killed, running): (Vec<SessionOverview>, Vec<SessionOverview>) =
        running.into_iter().partition(|session| session.is_killed);
    let mut document = Document::new("live");
    document.push(ReportBlock::Headline(match (running.len(), loads.len()) {
        (0, 0) => "nothing is being measured".to_owned(),
        (0, count) => format!("{} running", report::format_count(count, "load is", "loads are")),
        (count, _) => {
            format!("{} running", report::format_count(count, "session is", "sessions are"))
        }
    }));
    if running.is_empty() && loads.is_empty() {
        document.push(ReportBlock::Command {
            label: "measure, and watch it here".into(),
            line: "speedwell run FILE --dashboard".into(),
        });
    }
    document.append_document(report::report_live_loads(&loads, unix_ms()));
    if !running.is_empty() {
        document.append_document(context.list_sessions(&running, None));
    }
    if !killed.is_empty() {
        document.push_heading(2, "Killed");
        document.append_document(context.list_sessions(&killed, None));
    }
    let links = running.iter().map(|session| {
        let live = format!("{}/live", context.session_href(&session.id));
        PageLink::new(live, format!("watch @{}", session.number))
    });
    Ok(PageContent {
        crumbs: vec![context.page_link("live", "live")],
        links: links.collect(),
        events: Some(context.page_href("sessions/any/events")),
        progress: report::load_progress(&loads).filter(|_| running.is_empty()),
        ..PageContent::from_document(document)
    })
}

/// Shows a running session. If the session has ended, redirects to its report.
pub fn session_live_page(context: PageContext<'_>) -> PageResult {
    let id = context.name;
    context.query.check_names(&QUERY_KEYS)?;
    let overview = find_session(context, id)?;
    if overview.state != SessionState::Running {
        return Ok(PageContent::redirect_to(context.session_href(id)));
    }
    check_runs(overview.runs)?;
    progress_page(context, &overview)
}

/// Shows the progress of a session. Everything that the page shows of the session comes from one
/// snapshot of the store.
fn progress_page(context: PageContext<'_>, overview: &SessionOverview) -> PageResult {
    let SessionProgress { mut session, finished_slots, decided_cases } =
        context.store.load_progress(overview.number)?;
    if session.state != SessionState::Running {
        return Ok(PageContent::redirect_to(context.session_href(&overview.id)));
    }
    if !finished_slots.is_empty() {
        // Drop runs of incomplete slots, because the headline does not count them.
        session.runs.retain(|run| finished_slots.contains(&run.slot));
    }
    let planned = (context.project.lookups.planned)(context.store, overview.number)?;
    let saved: usize = decided_cases.values().sum();
    let verdicts = decided_verdicts(context, &session, &decided_cases)?;
    let last_run_end =
        session.runs.iter().map(|run| run.started_unix_ms + (run.wall_ns / 1_000_000) as i64).max();
    let state = LiveState {
        number: overview.number,
        is_killed: overview.is_killed,
        done: finished_slots.len(),
        planned: planned.slots.saturating_sub(saved),
        started_unix_ms: overview.started_unix_ms,
        last_sign_unix_ms: last_run_end.unwrap_or(overview.started_unix_ms),
        now_unix_ms: unix_ms(),
        timeout_ms: planned.timeout_ms,
        cases: count_case_runs(&session, &verdicts),
        series: analysis::series_progress(&session),
    };
    let mut document = report::report_live(&state);
    document.append_document(report::report_failures(
        &session.failures,
        context.report_options().verbosity,
    ));
    let own_href = context.session_href(&overview.id);
    Ok(PageContent {
        crumbs: context.crumbs("live", format!("{own_href}/live"), format!("@{}", overview.number)),
        links: vec![PageLink::new(own_href.clone(), "report so far")],
        events: Some(format!("{own_href}/events")),
        progress: Some(state.page_progress()),
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

/// Time to wait for a change before checking whether there are still viewers.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum time between two updates of a page.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Update interval while nothing changes. The page needs updates even then, because it shows how
/// long ago something happened.
const IDLE_UPDATE_INTERVAL: Duration = Duration::from_secs(5);

/// Session id that means all sessions.
const ALL_SESSIONS: &str = "any";

/// Streams the events of one session or of all running sessions.
pub fn stream_updates(context: &RequestContext) -> Result<Response, HttpError> {
    let (site, id, project) = (&context.site, &context.name, context.find_project()?);
    let first_event = match render_live_page(site, &project, id) {
        Ok(Some(event)) => event,
        Ok(None) => {
            let hub = EventHub::default();
            let response = hub.stream_response(over_event());
            hub.end_streams();
            return Ok(response);
        }
        // A client that follows events cannot show a page.
        Err(error) => return Ok(HttpError::new(error.status, error.message).into_response()),
    };
    let mut hubs = lock(&project.hubs);
    let is_known = hubs.contains_key(id);
    let hub = hubs
        .entry(id.clone())
        .or_insert_with(|| {
            // The event is not `over`, because the session continues. Browsers reconnect once a
            // server runs again.
            let final_event = ServerEvent::new("stopped", "the server is stopping");
            let hub = EventHub::with_final_event(final_event);
            project.stopper.add_hub(&hub);
            hub
        })
        .clone();
    let response = hub.stream_response(first_event);
    if !is_known {
        let (site, project, id) = (site.clone(), project.clone(), id.clone());
        std::thread::spawn(move || publish_updates(&site, &project, &id, &hub));
    }
    Ok(response)
}

/// Returns the event that tells viewers that the session has ended.
fn over_event() -> ServerEvent {
    ServerEvent::new("over", "the session has ended")
}

/// Renders the page as an event, for an anonymous caller, because all viewers share it. Returns
/// `None` if there is nothing left to watch.
fn render_live_page(
    site: &SiteState,
    project: &HostedProject,
    id: &str,
) -> Result<Option<ServerEvent>, HttpError> {
    let (query, caller) = (PageQuery::default(), CallerIdentity::default());
    let (build_page, path): (PageHandler, String) = if id == ALL_SESSIONS {
        (live_page, format!("/{}/live", project.name))
    } else {
        (session_live_page, format!("/{}/sessions/{}/live", project.name, encode_segment(id)))
    };
    let layout = PageLayout {
        site,
        project,
        caller: &caller,
        section: Some("live"),
        path: &path,
        query: &query,
    };
    let page = layout.build_page(build_page, id, PageFormat::Page)?;
    if page.redirect.is_some() {
        return Ok(None);
    }
    let html = layout.render_page(&page, PageFormat::Page)?;
    let data = json!({ "html": String::from_utf8_lossy(&html) });
    Ok(Some(ServerEvent::new("progress", data.to_string())))
}

/// Sends the page again after changes, but at most once per second, and every five seconds while
/// nothing changes. Ends when the last viewer leaves, the session ends or the server stops.
fn publish_updates(site: &SiteState, project: &HostedProject, id: &str, hub: &EventHub) {
    // If the store cannot be opened, the next iteration tries again.
    let mut store = Store::open_to_watch(&project.path).ok();
    let data_version = |store: &Option<Store>| store.as_ref()?.data_version().ok();
    let mut version = data_version(&store);
    let mut last_update = Instant::now();
    while has_viewers(project, id, hub) {
        let wait_result = store.as_ref().map(|store| store.wait_for_change(POLL_INTERVAL));
        if !matches!(wait_result, Some(Ok(()))) {
            std::thread::sleep(POLL_INTERVAL);
            store = Store::open_to_watch(&project.path).ok();
        }
        let current_version = data_version(&store);
        let is_due = (current_version != version && last_update.elapsed() >= MIN_UPDATE_INTERVAL)
            || last_update.elapsed() >= IDLE_UPDATE_INTERVAL;
        if !is_due {
            continue;
        }
        version = current_version;
        last_update = Instant::now();
        match render_live_page(site, project, id) {
            Ok(Some(event)) => hub.send_event(event),
            Ok(None) => {
                lock(&project.hubs).remove(id);
                hub.send_event(over_event());
                hub.end_streams();
                return;
            }
            Err(_) => {}
        }
    }
}

/// Whether there are still viewers. Removes a hub without viewers under the lock, so that the next
/// viewer creates a new hub.
fn has_viewers(project: &HostedProject, id: &str, hub: &EventHub) -> bool {
    let mut hubs = lock(&project.hubs);
    let is_watched = hub.count_viewers() > 0 && !project.stopper.is_stopped();
    if !is_watched {
        hubs.remove(id);
    }
    is_watched
}
