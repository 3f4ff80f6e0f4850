//! Background work of a server: computes missing points of sessions, so that no page waits for
//! them.

use speedwell_measure::history::summarise;
use speedwell_results::store::Store;
use speedwell_serve::Stopper;
use speedwell_serve::blocking::give_way;
use speedwell_web::Site;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Sessions summarized before other writers get their turn.
const AT_ONCE: usize = 20;
/// How often to look for new sessions.
const LOOKED: Duration = Duration::from_secs(5);

/// Runs until the server stops. Failures are retried; pages report what is wrong with a store.
pub fn keep_up(site: Arc<Site>, stopper: Stopper) {
    std::thread::spawn(move || {
        give_way();
        while !stopper.is_stopped() {
            let stores = site.stores().unwrap_or_default();
            let left: usize = stores
                .iter()
                .map(|path| summarised(path).unwrap_or(0))
                .sum();
            let waits = if left > 0 { Duration::ZERO } else { LOOKED };
            for _ in 0..waits.as_millis() / 100 {
                if stopper.is_stopped() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    });
}

/// Summarizes some sessions of a store; returns how many are left. Does nothing during a
/// measurement, which it would disturb.
fn summarised(path: &Path) -> anyhow::Result<usize> {
    if Store::server(path).is_none() && !path.is_file() {
        return Ok(0);
    }
    let viewed = Store::open_to_view(path)?;
    let is_measured = viewed.running(1)?;
    let is_measured = is_measured.iter().any(|session| !session.is_killed);
    if is_measured || viewed.sessions_without_points()?.is_empty() {
        return Ok(0);
    }
    drop(viewed);
    summarise(&mut Store::open(path)?, AT_ONCE)
}
