//! Stops a server from any thread, with its connections and event streams.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Stops a server from another thread. Clones stop the same server.
#[derive(Clone)]
pub struct Stopper(Arc<Stopping>);

struct Stopping {
    is_over: watch::Sender<bool>,
    others: Mutex<Vec<Box<dyn EndsAsWell>>>,
}

/// Something that ends with the server, and may be gone before.
pub(crate) trait EndsAsWell: Send {
    fn is_gone(&self) -> bool;
    fn end(&self);
}

impl Stopper {
    /// Creates a stopper for a server that does not exist yet.
    pub fn new() -> Stopper {
        Stopper(Arc::new(Stopping {
            is_over: watch::Sender::new(false),
            others: Mutex::default(),
        }))
    }

    /// Stops accepting connections; requests in flight get the time of [`crate::Limits::stop`].
    pub fn stop(&self) {
        self.0.is_over.send_replace(true);
        let others = std::mem::take(&mut *self.others());
        for other in others {
            other.end();
        }
    }

    /// Whether [`Stopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.is_over.borrow()
    }

    /// Registers something that ends when the server stops; ends it now if the server has stopped.
    pub(crate) fn also_ends(&self, other: impl EndsAsWell + 'static) {
        let mut others = self.others();
        if self.is_stopped() {
            drop(others);
            other.end();
        } else {
            others.retain(|other| !other.is_gone());
            others.push(Box::new(other));
        }
    }

    fn others(&self) -> MutexGuard<'_, Vec<Box<dyn EndsAsWell>>> {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_over = self.0.is_over.subscribe();
        // The sender outlives the future: whoever waits holds a stopper too.
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
