//! Limits the concurrent expensive requests of each client, so that one client does not make all
//! others wait. Start at [`ClientLimiter::acquire_permit`].

use crate::http::blocking::{QueueTimeouts, queue_timeout_error};
use crate::http::http_error::HttpError;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Limits the concurrent requests of each client. A client waits only for its own requests.
#[derive(Debug, Clone)]
pub struct ClientLimiter {
    max_concurrent: usize,
    max_waiting: usize,
    timeouts: QueueTimeouts,
    queues: Arc<Mutex<HashMap<String, ClientQueue>>>,
}

/// Requests of one client that are running or waiting.
#[derive(Debug)]
struct ClientQueue {
    permits: Arc<Semaphore>,
    pending: usize,
}

/// Permission to run one request. Dropping the permit lets the next request run.
#[derive(Debug)]
pub struct ClientPermit {
    _permit: Option<OwnedSemaphorePermit>,
    place: QueuePlace,
}

/// Place of one request in its client's queue. The request counts until the place is dropped.
#[derive(Debug)]
struct QueuePlace {
    client: String,
    queues: Arc<Mutex<HashMap<String, ClientQueue>>>,
}

impl ClientLimiter {
    /// Allows each client `max_concurrent` running requests and `max_waiting` waiting requests.
    pub fn new(
        max_concurrent: usize,
        max_waiting: usize,
        timeouts: QueueTimeouts,
    ) -> ClientLimiter {
        ClientLimiter { max_concurrent, max_waiting, timeouts, queues: Arc::default() }
    }

    /// Acquires a permit for this client, waiting until one is free.
    ///
    /// # Errors
    /// Returns 503 if too many of this client's requests are waiting, or if no permit becomes free
    /// in time.
    pub async fn acquire_permit(&self, client: &str) -> Result<ClientPermit, HttpError> {
        let (permits, place) = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = queues.entry(client.to_owned()).or_insert_with(|| ClientQueue {
                permits: Arc::new(Semaphore::new(self.max_concurrent)),
                pending: 0,
            });
            if queue.pending >= self.max_concurrent + self.max_waiting {
                let message = "you have too many concurrent requests of this kind";
                return Err(
                    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(1)
                );
            }
            queue.pending += 1;
            let place = QueuePlace { client: client.to_owned(), queues: Arc::clone(&self.queues) };
            (Arc::clone(&queue.permits), place)
        };
        let permit = timeout(self.timeouts.queued, permits.acquire_owned())
            .await
            .map_err(|_| queue_timeout_error("your earlier requests", self.timeouts))?;
        Ok(ClientPermit {
            // The semaphore is never closed.
            _permit: permit.ok(),
            place,
        })
    }
}

impl ClientPermit {
    /// Returns the client that holds the permit.
    pub fn client_key(&self) -> &str {
        &self.place.client
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get_mut(&self.client) {
            queue.pending -= 1;
            if queue.pending == 0 {
                queues.remove(&self.client);
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

    const TIMEOUTS: QueueTimeouts =
        QueueTimeouts { queued: Duration::from_secs(10), running: Duration::from_secs(600) };

    /// Polls a future once. Returns whether it is still pending.
    fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test]
    async fn each_client_has_a_limit_and_waits_for_its_own_requests() {
        let limiter = ClientLimiter::new(2, 1, TIMEOUTS);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let first = limiter.acquire_permit("a").await.unwrap();
        let _second = limiter.acquire_permit("a").await.unwrap();
        let mut third = Box::pin(limiter.acquire_permit("a"));
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let refusal = limiter.acquire_permit("a").await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        assert_eq!(limiter.acquire_permit("b").await.unwrap().client_key(), "b");
        drop(first);
        drop(third.await.unwrap());
        // A request that is dropped while it waits no longer counts.
        let _reacquired = limiter.acquire_permit("a").await.unwrap();
        let mut dropped = Box::pin(limiter.acquire_permit("a"));
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
        drop(dropped);
        let mut next = Box::pin(limiter.acquire_permit("a"));
        assert!(next.as_mut().poll(&mut cx).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_too_long_is_refused_and_may_ask_again() {
        let limiter = ClientLimiter::new(1, 2, TIMEOUTS);
        let first = limiter.acquire_permit("a").await.unwrap();
        let mut second = Box::pin(limiter.acquire_permit("a"));
        assert!(is_pending(&mut second));
        advance(TIMEOUTS.queued - Duration::from_secs(1)).await;
        let mut third = Box::pin(limiter.acquire_permit("a"));
        assert!(is_pending(&mut second) && is_pending(&mut third));
        advance(Duration::from_secs(1)).await;
        let refusal = second.await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after_s), (503, Some(5)));
        assert_eq!(
            refusal.message,
            "the request waited longer than 10 s for your earlier requests"
        );
        // The request that timed out no longer counts, so the later request is next.
        let fourth = Box::pin(limiter.acquire_permit("a"));
        drop(first);
        drop(third.await.unwrap());
        fourth.await.unwrap();
    }
}
