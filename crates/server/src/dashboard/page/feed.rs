//! Builds `/PROJECT/feed.atom`: the open changes of the default branch, and the failed sessions of
//! jobs that run regularly.

use crate::dashboard::address::encode_segment;
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::typed_response;
use crate::dashboard::site::RequestContext;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use speedwell_model::stored::SessionOverview;
use speedwell_report::{AtomFeed, open_change_entries, render_feed, session_entry};
use speedwell_store::SessionFilter;

/// Number of newest sessions that are searched for failed ones.
const MAX_SESSIONS: usize = 200;

/// Answers with the feed.
///
/// # Errors
/// Fails if the query is not empty, or the store cannot be read.
pub fn project_feed(context: &RequestContext) -> Result<Response<Body>, HttpError> {
    let project = context.find_project()?;
    context.parse_query()?.check_names(&[])?;
    let base = format!("{}/{}", context.client.origin, project.name);
    let addresses = |number: i64, case: &str| {
        let trend = format!("{base}/trend?case={}", encode_segment(case));
        [format!("{base}/changes#change-{number}"), trend]
    };
    let mut entries = match project.load_history(&TrendQuery::default()) {
        Ok(history) => open_change_entries(&history, &addresses),
        // There is no branch yet.
        Err(error) if error.status == StatusCode::NOT_FOUND => Vec::new(),
        Err(error) => return Err(error),
    };
    let newest = project
        .with_reader(|store| Ok(store.select_sessions(&SessionFilter::default(), MAX_SESSIONS)?))?;
    let failed = newest.iter().filter(|session| is_failed_nightly(session));
    entries.extend(failed.map(|session| {
        session_entry(session, format!("{base}/sessions/{}", encode_segment(&session.id)))
    }));
    let feed = AtomFeed {
        title: format!("{}: open changes and failed sessions", project.name),
        address: format!("{base}/feed.atom"),
        page: format!("{base}/changes"),
        entries,
    };
    Ok(typed_response(StatusCode::OK, "application/atom+xml", render_feed(&feed)))
}

/// Whether a session failed that was measured on a branch, as by a nightly job, and not for a pull
/// request, whose author sees the failure there.
fn is_failed_nightly(session: &SessionOverview) -> bool {
    let is_of_branch = session
        .origin
        .as_ref()
        .is_some_and(|origin| origin.branch.is_some() && origin.pull.is_none());
    is_of_branch && !session.is_running() && (session.failures > 0 || session.is_killed)
}
