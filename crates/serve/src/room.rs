//! Connection limits, in total and per address, and eviction when all slots are taken.
//!
//! A connection that has not sent a request yet can be evicted in favor of a new one, the longest
//! silent first: browsers send their request at once. A connection that is being answered, or has
//! been, keeps its slot.
//!
//! Each address has two quotas: one for any connection, and one for those that log in, because many
//! people may share an address. [`Room::place`], [`Place::is_within`] and [`Place::note_login`]
//! decide which quota a connection counts towards.

use crate::options::{Limits, counted_as};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections without a slot that get a 503 at once; further ones are just
/// closed.
const TURNED_AWAY: usize = 64;

/// Limits and current number of connections.
pub(crate) struct Room {
    places: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    logged_in: usize,
    taken: Mutex<Taken>,
    /// Permits for sending 503 to connections without a slot.
    pub(crate) turned_away: Arc<Semaphore>,
}

/// Slots in use.
#[derive(Default)]
struct Taken {
    by_address: HashMap<IpAddr, AddressCounts>,
    /// Connections that have not sent a request yet, in order of arrival.
    silent: BTreeMap<u64, Arc<Seat>>,
    next: u64,
}

/// Number of connections of one address.
#[derive(Default)]
struct AddressCounts {
    /// In the quota for any connection.
    within: usize,
    /// In the quota for logins: logged in, or expected to log in with the next request.
    beyond: usize,
}

/// A connection's slot, released on drop.
pub(crate) struct Place {
    room: Arc<Room>,
    seat: Arc<Seat>,
    number: u64,
}

struct Seat {
    address: Option<IpAddr>,
    /// Whether it counts towards the quota for any connection; changed only while [`Taken`] is
    /// locked.
    is_within: AtomicBool,
    /// `None` after eviction.
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
            logged_in: limits.connections_logged_in,
            taken: Mutex::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
        }
    }

    /// Returns a slot unless the address has exhausted both quotas. Evicts a silent connection if
    /// no slot is free.
    pub(crate) fn place(self: &Arc<Room>, address: Option<IpAddr>) -> Option<Place> {
        let address = address.map(counted_as);
        let mut taken = lock(&self.taken);
        let counts = address.and_then(|address| taken.by_address.get(&address));
        let (within, beyond) = counts.map_or((0, 0), |counts| (counts.within, counts.beyond));
        let is_within = within < self.per_address;
        if address.is_some() && !is_within && beyond >= self.logged_in {
            return None;
        }
        let free = Arc::clone(&self.places).try_acquire_owned().ok();
        let permit = free.or_else(|| taken.vacated())?;
        if let Some(address) = address {
            let counts = taken.by_address.entry(address).or_default();
            *counts.of(is_within) += 1;
        }
        let number = taken.next;
        taken.next += 1;
        let seat = Arc::new(Seat {
            address,
            is_within: AtomicBool::new(is_within),
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

    /// Waits until all slots are free.
    pub(crate) async fn is_empty(&self) {
        // The semaphore is never closed.
        drop(self.places.acquire_many(self.connections).await);
    }
}

impl AddressCounts {
    fn of(&mut self, is_within: bool) -> &mut usize {
        if is_within {
            &mut self.within
        } else {
            &mut self.beyond
        }
    }
}

impl Taken {
    /// Evicts the connection that has been silent longest and returns its permit.
    fn vacated(&mut self) -> Option<OwnedSemaphorePermit> {
        let (_, seat) = self.silent.pop_first()?;
        seat.given_up.notify_one();
        let permit = lock(&seat.permit).take()?;
        self.forget(&seat);
        Some(permit)
    }

    /// Decrements the count of the slot's address.
    fn forget(&mut self, seat: &Seat) {
        let Some(address) = seat.address else { return };
        if let Some(counts) = self.by_address.get_mut(&address) {
            *counts.of(seat.is_within.load(Ordering::Relaxed)) -= 1;
            if counts.within + counts.beyond == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Moves a connection to the other quota of its address.
    fn move_to(&mut self, seat: &Seat, is_within: bool) {
        // An evicted connection no longer counts.
        if lock(&seat.permit).is_none() {
            return;
        }
        let Some(counts) = seat.address.and_then(|one| self.by_address.get_mut(&one)) else {
            return;
        };
        *counts.of(!is_within) -= 1;
        *counts.of(is_within) += 1;
        seat.is_within.store(is_within, Ordering::Relaxed);
    }
}

impl Place {
    /// Records that the client has sent a request, which protects the slot from eviction.
    pub(crate) fn keep(&self) {
        lock(&self.room.taken).silent.remove(&self.number);
    }

    /// Whether the connection counts towards the quota for any connection. Moves it there if that
    /// quota has room again.
    pub(crate) fn is_within(&self) -> bool {
        if self.seat.is_within.load(Ordering::Relaxed) {
            return true;
        }
        let mut taken = lock(&self.room.taken);
        let address = self.seat.address;
        let counts = address.and_then(|address| taken.by_address.get(&address));
        if counts.is_none_or(|counts| counts.within >= self.room.per_address) {
            return false;
        }
        taken.move_to(&self.seat, true);
        true
    }

    /// Moves the connection to the quota for logins, which frees its place in the quota for any
    /// connection.
    pub(crate) fn note_login(&self) {
        let mut taken = lock(&self.room.taken);
        let address = self.seat.address;
        let counts = address.and_then(|address| taken.by_address.get(&address));
        let has_room = counts.is_some_and(|counts| counts.beyond < self.room.logged_in);
        if has_room && self.seat.is_within.load(Ordering::Relaxed) {
            taken.move_to(&self.seat, false);
        }
    }

    /// Waits until the slot is evicted.
    pub(crate) async fn is_given_up(&self) {
        self.seat.given_up.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.room.taken);
        taken.silent.remove(&self.number);
        // An evicted connection no longer counts.
        if let Some(permit) = lock(&self.seat.permit).take() {
            taken.forget(&self.seat);
            drop(permit);
        }
    }
}

/// Ignores poisoning: no holder leaves the data half updated.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
