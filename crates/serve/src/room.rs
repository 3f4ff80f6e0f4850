//! How many connections are open: all together, and from one address.

use crate::options::{Limits, counted_as};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections without a place are answered at once; further ones are closed.
const TURNED_AWAY: usize = 64;

/// How many connections there are and may be.
pub(crate) struct Room {
    places: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// Connections that are being answered that there is no place for them.
    pub(crate) turned_away: Arc<Semaphore>,
}

/// What a connection takes up while it is open.
pub(crate) struct Place {
    room: Arc<Room>,
    address: Option<IpAddr>,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    pub(crate) fn new(limits: &Limits) -> Room {
        let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        Room {
            places: Arc::new(Semaphore::new(connections)),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            per_address: limits.connections_per_address,
            by_address: Mutex::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
        }
    }

    /// A place, if there is one and this address has not got too many.
    pub(crate) fn place(self: &Arc<Room>, address: Option<IpAddr>) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let address = address.map(counted_as);
        if let Some(address) = address {
            let mut counts = self
                .by_address
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(address).or_default();
            if *count >= self.per_address {
                return None;
            }
            *count += 1;
        }
        Some(Place {
            room: Arc::clone(self),
            address,
            _permit: permit,
        })
    }

    /// Waits until all places are free.
    pub(crate) async fn is_empty(&self) {
        // The semaphore is never closed.
        drop(self.places.acquire_many(self.connections).await);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self
            .room
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}
