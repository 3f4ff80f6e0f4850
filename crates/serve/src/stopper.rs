//! The end of a server, from whatever thread: for its connections, and for the event streams that it carries.

use crate::events::{Hub, WeakHub};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Ends a server from another thread. Clones end the same server.
#[derive(Clone)]
pub struct Stopper(Arc<Stopping>);

struct Stopping {
    is_over: watch::Sender<bool>,
    hubs: Mutex<Vec<WeakHub>>,
}

impl Stopper {
    /// A stopper for a server to come.
    pub fn new() -> Stopper {
        Stopper(Arc::new(Stopping {
            is_over: watch::Sender::new(false),
            hubs: Mutex::default(),
        }))
    }

    /// No new connections from now on; requests in flight have the time of [`crate::Limits::stop`].
    pub fn stop(&self) {
        self.0.is_over.send_replace(true);
        let hubs = std::mem::take(&mut *self.hubs());
        for hub in hubs.iter().filter_map(WeakHub::get) {
            hub.end();
        }
    }

    /// Whether [`Stopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.is_over.borrow()
    }

    /// Has the server end this hub when it stops, or now if it has.
    pub(crate) fn also_ends(&self, hub: &Hub) {
        let mut hubs = self.hubs();
        if self.is_stopped() {
            drop(hubs);
            hub.end();
        } else {
            hubs.retain(|hub| hub.get().is_some());
            hubs.push(hub.weak());
        }
    }

    fn hubs(&self) -> MutexGuard<'_, Vec<WeakHub>> {
        self.0.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_over = self.0.is_over.subscribe();
        // The sender cannot be gone: whoever waits has a stopper as well.
        async move { drop(is_over.wait_for(|over| *over).await) }
    }
}

impl Default for Stopper {
    fn default() -> Stopper {
        Stopper::new()
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopper").field(&self.is_stopped()).finish()
    }
}
