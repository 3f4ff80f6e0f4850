//! Per-client concurrency limit for expensive requests, so that one client does not make all others
//! wait. Start at [`Shares::take`].

use crate::blocking::{Patience, waited};
use crate::refusal::Refusal;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Limits the concurrent requests of each client; clients wait only for their own requests.
#[derive(Debug, Clone)]
pub struct Shares {
    at_once: usize,
    waiting: usize,
    patience: Patience,
    held: Arc<Mutex<HashMap<String, Holder>>>,
}

/// State of a client that holds or waits for shares.
#[derive(Debug)]
struct Holder {
    free: Arc<Semaphore>,
    asking: usize,
}

/// Permission to run one request, released on drop.
#[derive(Debug)]
pub struct Share {
    _permit: Option<OwnedSemaphorePermit>,
    place: Place,
}

/// A client's place among those that hold or wait, released on drop.
#[derive(Debug)]
struct Place {
    who: String,
    held: Arc<Mutex<HashMap<String, Holder>>>,
}

impl Shares {
    /// Allows each client `at_once` shares, and `waiting` further requests that wait for one.
    pub fn new(at_once: usize, waiting: usize, patience: Patience) -> Shares {
        Shares {
            at_once,
            waiting,
            patience,
            held: Arc::default(),
        }
    }

    /// Acquires a share for this client, waiting until one is free.
    ///
    /// # Errors
    /// 503 if too many requests of this client wait already, or no share becomes free in time.
    pub async fn take(&self, who: &str) -> Result<Share, Refusal> {
        let (free, place) = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let holder = held.entry(who.to_owned()).or_insert_with(|| Holder {
                free: Arc::new(Semaphore::new(self.at_once)),
                asking: 0,
            });
            if holder.asking >= self.at_once + self.waiting {
                let what = "there are too many such requests of yours at once";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1));
            }
            holder.asking += 1;
            let place = Place {
                who: who.to_owned(),
                held: Arc::clone(&self.held),
            };
            (Arc::clone(&holder.free), place)
        };
        let own = timeout(self.patience.waiting, free.acquire_owned()).await;
        let own = own.map_err(|_| waited("yours", self.patience))?;
        Ok(Share {
            // The semaphore is never closed.
            _permit: own.ok(),
            place,
        })
    }
}

impl Share {
    /// Returns the client that holds the share.
    pub fn who(&self) -> &str {
        &self.place.who
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = held.get_mut(&self.who) {
            holder.asking -= 1;
            if holder.asking == 0 {
                held.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::time::Duration;
    use tokio::time::advance;

    const PATIENCE: Patience = Patience {
        waiting: Duration::from_secs(10),
        working: Duration::from_secs(600),
    };

    /// Polls a future once; true if it is still pending.
    fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test]
    async fn each_has_so_many_shares_and_waits_for_his_own() {
        let shares = Shares::new(2, 1, PATIENCE);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let first = shares.take("a").await.unwrap();
        let _second = shares.take("a").await.unwrap();
        let mut third = Box::pin(shares.take("a"));
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let refusal = shares.take("a").await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        assert_eq!(shares.take("b").await.unwrap().who(), "b");
        drop(first);
        drop(third.await.unwrap());
        // A request that is dropped while it waits gives up its place.
        let _again = shares.take("a").await.unwrap();
        let mut gone = Box::pin(shares.take("a"));
        assert!(gone.as_mut().poll(&mut cx).is_pending());
        drop(gone);
        let mut next = Box::pin(shares.take("a"));
        assert!(next.as_mut().poll(&mut cx).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_his_own_requests_is_refused_after_some_time_and_asks_again() {
        let shares = Shares::new(1, 2, PATIENCE);
        let first = shares.take("a").await.unwrap();
        let mut second = Box::pin(shares.take("a"));
        assert!(is_pending(&mut second));
        advance(PATIENCE.waiting - Duration::from_secs(1)).await;
        let mut third = Box::pin(shares.take("a"));
        assert!(is_pending(&mut second) && is_pending(&mut third));
        advance(Duration::from_secs(1)).await;
        let refusal = second.await.unwrap_err();
        assert_eq!(
            (refusal.status.as_u16(), refusal.retry_after_s),
            (503, Some(5))
        );
        assert_eq!(
            refusal.what,
            "this waited longer than 10 s for earlier requests of yours"
        );
        // The place is free again, and the request that came later is next.
        let fourth = Box::pin(shares.take("a"));
        drop(first);
        drop(third.await.unwrap());
        fourth.await.unwrap();
    }
}
