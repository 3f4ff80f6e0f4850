//! How many connections are open: all together, and from one address; and who makes room when all places are taken.
//!
//! Whoever has a place and has not said yet what is wanted leaves it to whoever comes next, the one that has said nothing for
//! longest first: a browser says it at once. Whoever is being answered, or has been, keeps the place.
//!
//! An address has places of two kinds: some for anybody, and further ones for those that log in, because many people may share
//! an address. Who gets which is decided by [`Room::place`], [`Place::is_within`] and [`Place::note_login`].

use crate::options::{Limits, counted_as};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many connections without a place are answered at once; further ones are closed.
const TURNED_AWAY: usize = 64;

/// How many connections there are and may be.
pub(crate) struct Room {
    places: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    logged_in: usize,
    taken: Mutex<Taken>,
    /// Connections that are being answered that there is no place for them.
    pub(crate) turned_away: Arc<Semaphore>,
}

/// The places that are taken.
#[derive(Default)]
struct Taken {
    by_address: HashMap<IpAddr, AddressCounts>,
    /// Those of connections that have said nothing yet, in the order in which they came.
    silent: BTreeMap<u64, Arc<Seat>>,
    next: u64,
}

/// The connections of one address.
#[derive(Default)]
struct AddressCounts {
    /// Among those that anybody may have.
    within: usize,
    /// Beyond them: logged in, or about to say so.
    beyond: usize,
}

/// What a connection takes up while it is open.
pub(crate) struct Place {
    room: Arc<Room>,
    seat: Arc<Seat>,
    number: u64,
}

struct Seat {
    address: Option<IpAddr>,
    /// Whether it is among those that anybody may have; changed while [`Taken`] is locked.
    is_within: AtomicBool,
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
            logged_in: limits.connections_logged_in,
            taken: Mutex::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
        }
    }

    /// A place, if this address has not got too many, and there is one or somebody makes room.
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

    /// Waits until all places are free.
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
    /// The place of the connection that has been silent longest, which has to end.
    fn vacated(&mut self) -> Option<OwnedSemaphorePermit> {
        let (_, seat) = self.silent.pop_first()?;
        seat.given_up.notify_one();
        let permit = lock(&seat.permit).take()?;
        self.forget(&seat);
        Some(permit)
    }

    /// Counts one less of an address.
    fn forget(&mut self, seat: &Seat) {
        let Some(address) = seat.address else { return };
        if let Some(counts) = self.by_address.get_mut(&address) {
            *counts.of(seat.is_within.load(Ordering::Relaxed)) -= 1;
            if counts.within + counts.beyond == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Counts a connection among the others.
    fn move_to(&mut self, seat: &Seat, is_within: bool) {
        // One that had to make room is not counted any more.
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
    /// Notes that the client has said what it wants.
    pub(crate) fn keep(&self) {
        lock(&self.room.taken).silent.remove(&self.number);
    }

    /// Whether it is among those that anybody of its address may have. One that came beyond them is, once there is one fewer.
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

    /// Notes that the client has logged in: the place that anybody may have is free for another one.
    pub(crate) fn note_login(&self) {
        let mut taken = lock(&self.room.taken);
        let address = self.seat.address;
        let counts = address.and_then(|address| taken.by_address.get(&address));
        let has_room = counts.is_some_and(|counts| counts.beyond < self.room.logged_in);
        if has_room && self.seat.is_within.load(Ordering::Relaxed) {
            taken.move_to(&self.seat, false);
        }
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
            taken.forget(&self.seat);
            drop(permit);
        }
    }
}

/// A lock whose holder has panicked guards nothing that is half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
