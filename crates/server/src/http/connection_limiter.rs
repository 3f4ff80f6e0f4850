//! Limits connections, in total and per address. Evicts silent connections when all slots are
//! taken.
//!
//! A connection is silent until it has sent its first request. If all slots are taken, a new
//! connection evicts the connection that has been silent longest. This hardly ever affects
//! browsers, which send their request immediately. A connection that has sent a request keeps its
//! slot.
//!
//! Each address has two quotas: a general one that is open to any connection, and a login quota for
//! authenticated connections. The login quota exists because many users may share an address. An
//! IPv6 /64 network counts as one address. [`ConnectionLimiter::acquire_slot`],
//! [`ConnectionPermit::is_within_quota`] and [`ConnectionPermit::record_login`] decide which quota
//! a connection counts towards.

use crate::http::options::{ServerLimits, address_group};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections that receive a 503 response, for lack of a slot, at the same time.
/// Further connections are closed without a response.
const MAX_REJECTIONS: usize = 64;

/// Limits and current number of connections.
pub(crate) struct ConnectionLimiter {
    slots: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    logged_in: usize,
    state: Mutex<LimiterState>,
    /// Permits for sending 503 to connections without a slot.
    pub(crate) rejections: Arc<Semaphore>,
}

/// Slots in use.
#[derive(Default)]
struct LimiterState {
    by_address: HashMap<IpAddr, AddressCounts>,
    /// Connections that have not sent a request yet, in order of arrival.
    silent: BTreeMap<u64, Arc<ConnectionSlot>>,
    next: u64,
}

/// Number of connections of one address.
#[derive(Default)]
struct AddressCounts {
    /// Connections in the general quota.
    general: usize,
    /// Connections in the login quota. They are authenticated, or their next request must carry
    /// credentials.
    login: usize,
}

/// Holds the slot of a connection, and releases it on drop.
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    slot: Arc<ConnectionSlot>,
    number: u64,
}

struct ConnectionSlot {
    address: Option<IpAddr>,
    /// Whether the connection counts towards the general quota. Changed only while
    /// [`LimiterState`] is locked.
    is_within: AtomicBool,
    /// `None` after eviction.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    evicted: Notify,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: &ServerLimits) -> ConnectionLimiter {
        let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        ConnectionLimiter {
            slots: Arc::new(Semaphore::new(connections)),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            per_address: limits.connections_per_address,
            logged_in: limits.connections_logged_in,
            state: Mutex::default(),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
        }
    }

    /// Returns a slot. If no slot is free, evicts a silent connection. Returns `None` if there is
    /// none to evict, or if the address has exhausted both quotas.
    pub(crate) fn acquire_slot(
        self: &Arc<ConnectionLimiter>,
        address: Option<IpAddr>,
    ) -> Option<ConnectionPermit> {
        let address = address.map(address_group);
        let mut state = lock(&self.state);
        let counts = address.and_then(|address| state.by_address.get(&address));
        let (general, login) = counts.map_or((0, 0), |counts| (counts.general, counts.login));
        let is_within = general < self.per_address;
        if address.is_some() && !is_within && login >= self.logged_in {
            return None;
        }
        let free = Arc::clone(&self.slots).try_acquire_owned().ok();
        let permit = free.or_else(|| state.evict_silent())?;
        if let Some(address) = address {
            let counts = state.by_address.entry(address).or_default();
            *counts.count_mut(is_within) += 1;
        }
        let number = state.next;
        state.next += 1;
        let slot = Arc::new(ConnectionSlot {
            address,
            is_within: AtomicBool::new(is_within),
            permit: Mutex::new(Some(permit)),
            evicted: Notify::new(),
        });
        state.silent.insert(number, Arc::clone(&slot));
        drop(state);
        Some(ConnectionPermit { limiter: Arc::clone(self), slot, number })
    }

    /// Waits until all slots are free.
    pub(crate) async fn wait_until_empty(&self) {
        // The semaphore is never closed.
        drop(self.slots.acquire_many(self.connections).await);
    }
}

impl AddressCounts {
    fn count_mut(&mut self, is_within: bool) -> &mut usize {
        if is_within { &mut self.general } else { &mut self.login }
    }
}

impl LimiterState {
    /// Evicts the connection that has been silent longest and returns its permit.
    fn evict_silent(&mut self) -> Option<OwnedSemaphorePermit> {
        let (_, slot) = self.silent.pop_first()?;
        slot.evicted.notify_one();
        let permit = lock(&slot.permit).take()?;
        self.remove_slot(&slot);
        Some(permit)
    }

    /// Removes a connection from the counts of its address.
    fn remove_slot(&mut self, slot: &ConnectionSlot) {
        let Some(address) = slot.address else { return };
        if let Some(counts) = self.by_address.get_mut(&address) {
            *counts.count_mut(slot.is_within.load(Ordering::Relaxed)) -= 1;
            if counts.general + counts.login == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Moves a connection to the other quota of its address.
    fn move_to_quota(&mut self, slot: &ConnectionSlot, is_within: bool) {
        // An evicted connection no longer counts.
        if lock(&slot.permit).is_none() {
            return;
        }
        let Some(counts) = slot.address.and_then(|address| self.by_address.get_mut(&address))
        else {
            return;
        };
        *counts.count_mut(!is_within) -= 1;
        *counts.count_mut(is_within) += 1;
        slot.is_within.store(is_within, Ordering::Relaxed);
    }
}

impl ConnectionPermit {
    /// Records that the client has sent a request, which protects the slot from eviction.
    pub(crate) fn mark_active(&self) {
        lock(&self.limiter.state).silent.remove(&self.number);
    }

    /// Whether the connection counts towards the general quota. If that quota has room again, first
    /// moves the connection to it.
    pub(crate) fn is_within_quota(&self) -> bool {
        if self.slot.is_within.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = lock(&self.limiter.state);
        let address = self.slot.address;
        let counts = address.and_then(|address| state.by_address.get(&address));
        if counts.is_none_or(|counts| counts.general >= self.limiter.per_address) {
            return false;
        }
        state.move_to_quota(&self.slot, true);
        true
    }

    /// Moves the connection, which is now authenticated, to the login quota if that has room.
    pub(crate) fn record_login(&self) {
        let mut state = lock(&self.limiter.state);
        let address = self.slot.address;
        let counts = address.and_then(|address| state.by_address.get(&address));
        let has_room = counts.is_some_and(|counts| counts.login < self.limiter.logged_in);
        if has_room && self.slot.is_within.load(Ordering::Relaxed) {
            state.move_to_quota(&self.slot, false);
        }
    }

    /// Waits until the slot is evicted.
    pub(crate) async fn wait_until_evicted(&self) {
        self.slot.evicted.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.limiter.state);
        state.silent.remove(&self.number);
        // An evicted connection no longer counts.
        if let Some(permit) = lock(&self.slot.permit).take() {
            state.remove_slot(&self.slot);
            drop(permit);
        }
    }
}

/// Locks a mutex. Ignores poisoning, because no holder leaves the data half updated.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
