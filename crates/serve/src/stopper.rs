//! Stops a server from any thread, with its connections and event streams.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Stops a server from another thread. Clones stop the same server.
#[derive(Clone)]
pub struct ServerStopper(Arc<StopState>);

struct StopState {
    is_over: watch::Sender<bool>,
    others: Mutex<Vec<Box<dyn StopListener>>>,
}

/// Something that ends with the server, and may be gone before.
pub(crate) trait StopListener: Send {
    fn is_gone(&self) -> bool;
    fn on_stop(&self);
}

impl ServerStopper {
    /// Creates a stopper for a server that does not exist yet.
    pub fn new() -> ServerStopper {
        ServerStopper(Arc::new(StopState {
            is_over: watch::Sender::new(false),
            others: Mutex::default(),
        }))
    }

    /// Stops accepting connections; requests in flight get the time of
    /// [`crate::ServerLimits::stop_timeout`].
    pub fn stop(&self) {
        self.0.is_over.send_replace(true);
        let others = std::mem::take(&mut *self.lock_listeners());
        for other in others {
            other.on_stop();
        }
    }

    /// Whether [`ServerStopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.is_over.borrow()
    }

    /// Registers something that ends when the server stops; ends it now if the server has stopped.
    pub(crate) fn add_listener(&self, other: impl StopListener + 'static) {
        let mut others = self.lock_listeners();
        if self.is_stopped() {
            drop(others);
            other.on_stop();
        } else {
            others.retain(|other| !other.is_gone());
            others.push(Box::new(other));
        }
    }

    fn lock_listeners(&self) -> MutexGuard<'_, Vec<Box<dyn StopListener>>> {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server stops.
    pub(crate) fn wait_until_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_over = self.0.is_over.subscribe();
        // The sender outlives the future: the waiting task holds a stopper, too.
        async move { drop(is_over.wait_for(|over| *over).await) }
    }
}

impl Default for ServerStopper {
    fn default() -> ServerStopper {
        ServerStopper::new()
    }
}

impl fmt::Debug for ServerStopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopper").field(&self.is_stopped()).finish()
    }
}
