//! Stops a server, its connections and its event streams from any thread.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Stops a server from another thread. Clones stop the same server.
#[derive(Clone)]
pub struct ServerStopper(Arc<StopState>);

struct StopState {
    stop_signal: watch::Sender<bool>,
    listeners: Mutex<Vec<Box<dyn StopListener>>>,
}

/// Something that ends when the server stops.
pub(crate) trait StopListener: Send {
    fn is_gone(&self) -> bool;
    fn on_stop(&self);
}

impl ServerStopper {
    /// Creates a stopper for a server that does not exist yet.
    pub fn new() -> ServerStopper {
        ServerStopper(Arc::new(StopState {
            stop_signal: watch::Sender::new(false),
            listeners: Mutex::default(),
        }))
    }

    /// Makes the server stop accepting connections. Requests in flight may take up to
    /// [`crate::http::ServerLimits::stop_timeout`] to complete.
    pub fn stop(&self) {
        self.0.stop_signal.send_replace(true);
        let listeners = std::mem::take(&mut *self.lock_listeners());
        for listener in listeners {
            listener.on_stop();
        }
    }

    /// Whether [`ServerStopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.stop_signal.borrow()
    }

    /// Registers something that ends when the server stops. If the server has stopped, ends it at
    /// once.
    pub(crate) fn add_listener(&self, listener: impl StopListener + 'static) {
        let mut listeners = self.lock_listeners();
        if self.is_stopped() {
            drop(listeners);
            listener.on_stop();
        } else {
            listeners.retain(|listener| !listener.is_gone());
            listeners.push(Box::new(listener));
        }
    }

    fn lock_listeners(&self) -> MutexGuard<'_, Vec<Box<dyn StopListener>>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server stops.
    pub(crate) fn wait_until_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop_signal = self.0.stop_signal.subscribe();
        // The sender outlives this future, because the waiting task also holds a stopper.
        async move { drop(stop_signal.wait_for(|is_stopped| *is_stopped).await) }
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
