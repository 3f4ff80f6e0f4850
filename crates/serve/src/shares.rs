//! Per-client concurrency limit for expensive requests, so that one client does not make all others
//! wait. Start at [`ClientLimiter::acquire_share`].

use crate::blocking::{QueueTimeouts, queue_timeout_error};
use crate::refusal::HttpError;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Limits the concurrent requests of each client; clients wait only for their own requests.
#[derive(Debug, Clone)]
pub struct ClientLimiter {
    at_once: usize,
    waiting: usize,
    patience: QueueTimeouts,
    held: Arc<Mutex<HashMap<String, ClientQueue>>>,
}

/// State of a client that holds or waits for shares.
#[derive(Debug)]
struct ClientQueue {
    free: Arc<Semaphore>,
    asking: usize,
}

/// Permission to run one request, released on drop.
#[derive(Debug)]
pub struct ClientPermit {
    _permit: Option<OwnedSemaphorePermit>,
    place: QueuePlace,
}

/// Counts a client's request as running or waiting until dropped.
#[derive(Debug)]
struct QueuePlace {
    who: String,
    held: Arc<Mutex<HashMap<String, ClientQueue>>>,
}

impl ClientLimiter {
    /// Allows each client `at_once` shares, and `waiting` further requests that wait for one.
    pub fn new(at_once: usize, waiting: usize, patience: QueueTimeouts) -> ClientLimiter {
        ClientLimiter {
            at_once,
            waiting,
            patience,
            held: Arc::default(),
        }
    }

    /// Acquires a share for this client, waiting until one is free.
    ///
    /// # Errors
    /// Returns 503 if too many requests of this client wait already, or no share becomes free in
    /// time.
    pub async fn acquire_share(&self, who: &str) -> Result<ClientPermit, HttpError> {
        let (free, place) = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let holder = held.entry(who.to_owned()).or_insert_with(|| ClientQueue {
                free: Arc::new(Semaphore::new(self.at_once)),
                asking: 0,
            });
            if holder.asking >= self.at_once + self.waiting {
                let what = "you have too many concurrent requests of this kind";
                return Err(
                    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, what).with_retry_after(1)
                );
            }
            holder.asking += 1;
            let place = QueuePlace {
                who: who.to_owned(),
                held: Arc::clone(&self.held),
            };
            (Arc::clone(&holder.free), place)
        };
        let permit = timeout(self.patience.queued, free.acquire_owned())
            .await
            .map_err(|_| queue_timeout_error("your earlier requests", self.patience))?;
        Ok(ClientPermit {
            // The semaphore is never closed.
            _permit: permit.ok(),
            place,
        })
    }
}

impl ClientPermit {
    /// Returns the client that holds the share.
    pub fn client_key(&self) -> &str {
        &self.place.who
    }
}

impl Drop for QueuePlace {
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

    const PATIENCE: QueueTimeouts = QueueTimeouts {
        queued: Duration::from_secs(10),
        running: Duration::from_secs(600),
    };

    /// Polls a future once; true if it is still pending.
    fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test]
    async fn each_has_so_many_shares_and_waits_for_his_own() {
        let shares = ClientLimiter::new(2, 1, PATIENCE);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let first = shares.acquire_share("a").await.unwrap();
        let _second = shares.acquire_share("a").await.unwrap();
        let mut third = Box::pin(shares.acquire_share("a"));
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let refusal = shares.acquire_share("a").await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        assert_eq!(shares.acquire_share("b").await.unwrap().client_key(), "b");
        drop(first);
        drop(third.await.unwrap());
        // A request that is dropped while it waits gives up its place.
        let _again = shares.acquire_share("a").await.unwrap();
        let mut gone = Box::pin(shares.acquire_share("a"));
        assert!(gone.as_mut().poll(&mut cx).is_pending());
        drop(gone);
        let mut next = Box::pin(shares.acquire_share("a"));
        assert!(next.as_mut().poll(&mut cx).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_his_own_requests_is_refused_after_some_time_and_asks_again() {
        let shares = ClientLimiter::new(1, 2, PATIENCE);
        let first = shares.acquire_share("a").await.unwrap();
        let mut second = Box::pin(shares.acquire_share("a"));
        assert!(is_pending(&mut second));
        advance(PATIENCE.queued - Duration::from_secs(1)).await;
        let mut third = Box::pin(shares.acquire_share("a"));
        assert!(is_pending(&mut second) && is_pending(&mut third));
        advance(Duration::from_secs(1)).await;
        let refusal = second.await.unwrap_err();
        assert_eq!(
            (refusal.status.as_u16(), refusal.retry_after_s),
            (503, Some(5))
        );
        assert_eq!(
            refusal.message,
            "the request waited longer than 10 s for your earlier requests"
        );
        // The place is free again, and the request that came later is next.
        let fourth = Box::pin(shares.acquire_share("a"));
        drop(first);
        drop(third.await.unwrap());
        fourth.await.unwrap();
    }
}
