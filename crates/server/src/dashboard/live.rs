//! Streams events about running sessions to viewers.
//!
//! The recorder commits after every planned run, so the store itself shows progress. A database
//! server sends notifications; a file is polled four times per second. The store is watched only
//! while there are viewers. Each update is rendered once for all viewers. Start at
//! [`stream_updates`].

use crate::dashboard::access::CallerIdentity;
use crate::dashboard::address::PageFormat;
use crate::dashboard::link::encode_segment;
use crate::dashboard::page::content::{PageContext, PageOutcome};
use crate::dashboard::page::live::{live_page, session_live_page};
use crate::dashboard::project::HostedProject;
use crate::dashboard::query::PageQuery;
use crate::dashboard::request::RequestContext;
use crate::dashboard::responses::PageLayout;
use crate::dashboard::site::SiteState;
use crate::http::HttpError;
use crate::http::events::{EventHub, ServerEvent};
use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse;
use serde_json::json;
use speedwell_store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
pub fn stream_updates(context: &RequestContext, project: &Arc<HostedProject>) -> Response<Body> {
    let (site, id, headers) = (&context.site, &context.name, &context.headers);
    let first_event = match render_live_page(site, project, id) {
        Ok(LiveRendering::Running(event)) => event,
        Ok(LiveRendering::Over) => {
            let hub = EventHub::new();
            let response = hub.stream_response(headers, || vec![over_event()]);
            hub.end_streams();
            return response;
        }
        // A client that follows events cannot show a page.
        Err(error) => return HttpError::new(error.status, error.message).into_response(),
    };
    let mut hubs = project.live.lock_hubs();
    let is_known = hubs.contains_key(id);
    let hub = hubs
        .entry(id.clone())
        .or_insert_with(|| {
            // The event is not `over`, because the session continues. Browsers reconnect once a
            // server runs again.
            let final_event = ServerEvent::new("stopped", "the server is stopping");
            EventHub::new().end_with_stopper(&project.live.stopper, final_event)
        })
        .clone();
    let response = hub.stream_response(headers, || vec![first_event]);
    if !is_known {
        let (site, project, id) = (site.clone(), project.clone(), id.clone());
        std::thread::spawn(move || publish_updates(&site, &project, &id, &hub));
    }
    response
}

/// Returns the event that tells viewers that the session has ended.
fn over_event() -> ServerEvent {
    ServerEvent::new("over", "the session has ended")
}

/// State of a live page.
enum LiveRendering {
    /// The page, as an event.
    Running(ServerEvent),
    /// There is nothing left to watch.
    Over,
}

/// Renders the page for an anonymous caller, because all viewers share it.
fn render_live_page(
    site: &SiteState,
    project: &HostedProject,
    id: &str,
) -> Result<LiveRendering, HttpError> {
    let (query, caller) = (PageQuery::default(), CallerIdentity::default());
    let is_session = id != ALL_SESSIONS;
    let outcome = project.with_reader(|store| {
        let context = PageContext {
            site,
            project,
            caller: &caller,
            store,
            name: id,
            query: &query,
            format: PageFormat::Page,
        };
        if is_session { session_live_page(context) } else { live_page(context) }
    })?;
    let PageOutcome::Page(page) = outcome else {
        return Ok(LiveRendering::Over);
    };
    let path = if is_session {
        format!("/{}/sessions/{}/live", project.name, encode_segment(id))
    } else {
        format!("/{}/live", project.name)
    };
    let layout = PageLayout {
        site,
        project,
        caller: &caller,
        section: Some("live"),
        path: &path,
        query: &query,
    };
    let html = layout.render_page(&page, PageFormat::Page)?;
    let data = json!({ "html": String::from_utf8_lossy(&html) });
    Ok(LiveRendering::Running(ServerEvent::new("progress", data.to_string())))
}

/// Sends the page again after changes, but at most once per second, and every five seconds while
/// nothing changes. Ends when the last viewer leaves, the session ends or the server stops.
fn publish_updates(site: &SiteState, project: &HostedProject, id: &str, hub: &EventHub) {
    // If the store cannot be opened, the next iteration tries again.
    let mut store = Store::open_to_watch(project.path()).ok();
    let mut version = store_version(store.as_ref());
    let mut last_update = Instant::now();
    while has_viewers(project, id, hub) {
        let wait_result = store.as_ref().map(|store| store.wait_for_change(POLL_INTERVAL));
        if !matches!(wait_result, Some(Ok(()))) {
            std::thread::sleep(POLL_INTERVAL);
            store = Store::open_to_watch(project.path()).ok();
        }
        let current_version = store_version(store.as_ref());
        let is_due = (current_version != version && last_update.elapsed() >= MIN_UPDATE_INTERVAL)
            || last_update.elapsed() >= IDLE_UPDATE_INTERVAL;
        if !is_due {
            continue;
        }
        version = current_version;
        last_update = Instant::now();
        match render_live_page(site, project, id) {
            Ok(LiveRendering::Running(event)) => {
                hub.send_event(event);
            }
            Ok(LiveRendering::Over) => {
                project.live.lock_hubs().remove(id);
                hub.send_event(over_event());
                hub.end_streams();
                return;
            }
            Err(_) => {}
        }
    }
}

fn store_version(store: Option<&Store>) -> Option<i64> {
    store?.data_version().ok()
}

/// Whether there are still viewers. Removes a hub without viewers under the lock, so that the next
/// viewer creates a new hub.
fn has_viewers(project: &HostedProject, id: &str, hub: &EventHub) -> bool {
    let mut hubs = project.live.lock_hubs();
    let is_watched = hub.count_viewers() > 0 && !project.live.stopper.is_stopped();
    if !is_watched {
        hubs.remove(id);
    }
    is_watched
}
