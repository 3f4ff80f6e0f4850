//! How many connections are open: all together, and from one address; and who makes room when all places are taken.
//!
//! Whoever has a place and has not said yet what is wanted leaves it to whoever comes next, the one that has said nothing for
//! longest first: a browser says it at once. Whoever is being answered, or has been, keeps the place.

use crate::options::{Limits, counted_as};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many connections without a place are answered at once; further ones are closed.
const TURNED_AWAY: usize = 64;

/// How many connections there are and may be.
pub(crate) struct Room {
    places: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    taken: Mutex<Taken>,
    /// Connections that are being answered that there is no place for them.
    pub(crate) turned_away: Arc<Semaphore>,
}

/// The places that are taken.
#[derive(Default)]
struct Taken {
    by_address: HashMap<IpAddr, usize>,
    /// Those of connections that have said nothing yet, in the order in which they came.
    silent: BTreeMap<u64, Arc<Seat>>,
    next: u64,
}

/// What a connection takes up while it is open.
pub(crate) struct Place {
    room: Arc<Room>,
    seat: Arc<Seat>,
    number: u64,
}

struct Seat {
    address: Option<IpAddr>,
    /// Nothing where somebody else has got it.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    given_up: Notify,
}

impl Room {
    pub(crate) fn new(limits: &Limits) -> Room {
        let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        Room {
            places: Arc::new(Semaphore::new(connections)),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            per_address: limits.connections_per_address,
            taken: Mutex::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
        }
    }

    /// A place, if this address has not got too many, and there is one or somebody makes room.
    pub(crate) fn place(self: &Arc<Room>, address: Option<IpAddr>) -> Option<Place> {
        let address = address.map(counted_as);
        let mut taken = lock(&self.taken);
        if let Some(address) = address
            && taken.by_address.get(&address).copied().unwrap_or(0) >= self.per_address
        {
            return None;
        }
        let free = Arc::clone(&self.places).try_acquire_owned().ok();
        let permit = free.or_else(|| taken.vacated())?;
        if let Some(address) = address {
            *taken.by_address.entry(address).or_default() += 1;
        }
        let number = taken.next;
        taken.next += 1;
        let seat = Arc::new(Seat {
            address,
            permit: Mutex::new(Some(permit)),
            given_up: Notify::new(),
        });
        taken.silent.insert(number, Arc::clone(&seat));
        drop(taken);
        Some(Place {
            room: Arc::clone(self),
            seat,
            number,
        })
    }

    /// Waits until all places are free.
    pub(crate) async fn is_empty(&self) {
        // The semaphore is never closed.
        drop(self.places.acquire_many(self.connections).await);
    }
}

impl Taken {
    /// The place of the connection that has been silent longest, which has to end.
    fn vacated(&mut self) -> Option<OwnedSemaphorePermit> {
        let (_, seat) = self.silent.pop_first()?;
        seat.given_up.notify_one();
        let permit = lock(&seat.permit).take()?;
        self.forget(seat.address);
        Some(permit)
    }

    /// Counts one less of an address.
    fn forget(&mut self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Place {
    /// Notes that the client has said what it wants.
    pub(crate) fn keep(&self) {
        lock(&self.room.taken).silent.remove(&self.number);
    }

    /// Waits until somebody else gets the place.
    pub(crate) async fn is_given_up(&self) {
        self.seat.given_up.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.room.taken);
        taken.silent.remove(&self.number);
        // Who had to make room is not counted any more.
        if let Some(permit) = lock(&self.seat.permit).take() {
            taken.forget(self.seat.address);
            drop(permit);
        }
    }
}

/// A lock whose holder has panicked guards nothing that is half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
