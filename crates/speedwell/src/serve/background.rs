//! Computes missing history points of sessions on a background thread of the server, so that no
//! page has to wait for them.

use crate::history::project::summarize_sessions;
use speedwell_server::dashboard::SiteState;
use speedwell_server::http::ServerStopper;
use speedwell_server::http::blocking::lower_priority;
use speedwell_store::Store;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of sessions to summarize before other writers get a turn.
const SESSIONS_PER_WRITE: usize = 20;
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Starts a thread that summarizes new sessions until the server stops. The thread retries after a
/// failure and does not report it, because the dashboard's pages show store errors.
pub fn spawn_summarizer(site: Arc<SiteState>, stopper: ServerStopper) {
    std::thread::spawn(move || {
        lower_priority();
        while !stopper.is_stopped() {
            let stores = site.store_paths().unwrap_or_default();
            let remaining: usize =
                stores.iter().map(|path| summarize_store(path).unwrap_or(0)).sum();
            let pause = if remaining > 0 { Duration::ZERO } else { CHECK_INTERVAL };
            for _ in 0..pause.as_millis() / 100 {
                if stopper.is_stopped() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    });
}

/// Summarizes some sessions of a store; returns how many remain. Does nothing while a session is
/// being measured, because the work would disturb that measurement.
fn summarize_store(path: &Path) -> anyhow::Result<usize> {
    if Store::server_address(path).is_none() && !path.is_file() {
        return Ok(0);
    }
    let store = Store::open_to_view(path)?;
    let running = store.running_sessions(1)?;
    let is_measuring = running.iter().any(|session| !session.is_killed);
    if is_measuring || store.find_sessions_without_points()?.is_empty() {
        return Ok(0);
    }
    drop(store);
    summarize_sessions(&mut Store::open(path)?, SESSIONS_PER_WRITE)
}
