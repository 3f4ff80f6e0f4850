//! Streams sessions that are being measured to viewers, as events.
//!
//! The recorder commits every slot, so the store itself signals progress: a database server
//! notifies at once, a file is polled four times a second, and both only while somebody watches. A
//! page is rendered once for all its viewers. Start at [`stream`].

use crate::access::Caller;
use crate::address::{Format, Place};
use crate::answer::rendered;
use crate::frame::Around;
use crate::link::encoded;
use crate::page::{Outcome, Visit, page};
use crate::project::Project;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::site::Site;
use axum::body::Body;
use axum::http::{HeaderMap, Response};
use serde_json::json;
use speedwell_results::store::Store;
use speedwell_serve::Stopper;
use speedwell_serve::events::{Event, Hub};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time to wait for a change before checking whether anyone still watches.
const ASKED: Duration = Duration::from_millis(250);

/// Minimum time between two updates of a page.
const SENT: Duration = Duration::from_secs(1);

/// Update interval without changes, because the page shows how long ago something happened.
const SENT_ANYWAY: Duration = Duration::from_secs(5);

/// Name of all sessions in the address of a stream.
const ANY: &str = "any";

/// Viewers, keyed by what they watch.
#[derive(Debug)]
pub struct Watchers {
    hubs: Mutex<HashMap<String, Hub>>,
    stopper: Stopper,
}

impl Watchers {
    /// Creates a state without viewers.
    pub fn new(stopper: &Stopper) -> Watchers {
        Watchers {
            hubs: Mutex::default(),
            stopper: stopper.clone(),
        }
    }

    /// Returns the number of viewers.
    pub fn viewers(&self) -> usize {
        self.hubs().values().map(Hub::viewers).sum()
    }

    fn hubs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Hub>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Streams the events of a session, or of everything that is being measured.
pub async fn stream(
    site: &Arc<Site>,
    project: &Arc<Project>,
    id: &str,
    headers: &HeaderMap,
) -> Response<Body> {
    let place = place_of(id);
    let looked = {
        let (site, project, place) = (site.clone(), project.clone(), place.clone());
        let light = site.light.clone();
        light.run(move || looked_at(&site, &project, &place)).await
    };
    let look = match looked {
        Ok(Ok(look)) => look,
        Ok(Err(refusal)) => {
            let status = refusal.status;
            return speedwell_serve::Refusal::new(status, refusal.words).answer(headers);
        }
        Err(refusal) => return refusal.answer(headers),
    };
    let first = match look {
        Look::Running(event) => event,
        Look::Over => {
            let hub = Hub::new();
            let answer = hub.stream(headers, || vec![over()]);
            hub.end();
            return answer;
        }
    };
    let mut hubs = project.live.hubs();
    let is_known = hubs.contains_key(id);
    let hub = hubs.entry(id.to_owned()).or_insert_with(|| {
        // Not `over`, because the session continues: browsers reconnect by themselves, to the next
        // server.
        let last = Event::new("stopped", "the server ends");
        Hub::new().ends_with(&project.live.stopper, last)
    });
    let hub = hub.clone();
    let answer = hub.stream(headers, || vec![first]);
    if !is_known {
        let (site, project, id) = (site.clone(), project.clone(), id.to_owned());
        std::thread::spawn(move || watch(&site, &project, &id, &hub));
    }
    answer
}

/// The last event of a stream.
fn over() -> Event {
    Event::new("over", "it is not being measured any more")
}

fn place_of(id: &str) -> Place {
    if id == ANY {
        Place::Live
    } else {
        Place::SessionLive(id.to_owned())
    }
}

/// State of a live page.
enum Look {
    /// The page, as an event.
    Running(Event),
    /// There is nothing left to watch.
    Over,
}

/// Renders the page that all viewers share, as seen by an anonymous caller.
fn looked_at(site: &Site, project: &Project, place: &Place) -> Result<Look, Refusal> {
    let query = Query::default();
    let caller = Caller::default();
    let outcome = project.read(|store| {
        let visit = Visit {
            site,
            project,
            caller: &caller,
            store,
            query: &query,
            format: Format::Page,
        };
        page(visit, place)
    })?;
    let Outcome::Page(page) = outcome else {
        return Ok(Look::Over);
    };
    let name = &project.name;
    let path = match place {
        Place::SessionLive(id) => format!("/{name}/sessions/{}/live", encoded(id)),
        _ => format!("/{name}/live"),
    };
    let around = Around {
        site,
        project,
        caller: &caller,
    };
    let html = rendered(&around, Some(place), &page, Format::Page, &path, &query)?;
    let data = json!({ "html": String::from_utf8_lossy(&html) });
    Ok(Look::Running(Event::new("progress", data.to_string())))
}

/// Sends the page again after each change, until nobody watches or the session is over.
fn watch(site: &Site, project: &Project, id: &str, hub: &Hub) {
    let place = place_of(id);
    // A store that cannot be read now is opened again in the next iteration.
    let mut store = Store::open_to_watch(project.path()).ok();
    let mut version = version_of(store.as_ref());
    let mut sent = Instant::now();
    while is_watched(project, id, hub) {
        let waited = store.as_ref().map(|store| store.await_change(ASKED));
        if !matches!(waited, Some(Ok(()))) {
            std::thread::sleep(ASKED);
            store = Store::open_to_watch(project.path()).ok();
        }
        let now = version_of(store.as_ref());
        let is_due = (now != version && sent.elapsed() >= SENT) || sent.elapsed() >= SENT_ANYWAY;
        if !is_due {
            continue;
        }
        version = now;
        sent = Instant::now();
        match looked_at(site, project, &place) {
            Ok(Look::Running(event)) => {
                hub.send(event);
            }
            Ok(Look::Over) => {
                project.live.hubs().remove(id);
                hub.send(over());
                hub.end();
                return;
            }
            Err(_) => {}
        }
    }
}

fn version_of(store: Option<&Store>) -> Option<i64> {
    store?.data_version().ok()
}

/// Whether anyone still watches; if not, removes the hub under the lock, so that the next viewer
/// creates a new one.
fn is_watched(project: &Project, id: &str, hub: &Hub) -> bool {
    let mut hubs = project.live.hubs();
    let is_watched = hub.viewers() > 0 && !project.live.stopper.is_stopped();
    if !is_watched {
        hubs.remove(id);
    }
    is_watched
}
