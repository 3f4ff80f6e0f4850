//! Runs blocking work, such as database queries, on a limited number of threads with a short queue.
//!
//! A longer queue would only make every client wait. If the queue is full, a request is rejected
//! immediately with `Retry-After`. [`BlockingPool::run_within`] also rejects requests that have
//! waited too long. Work is not started if its client has disconnected. A
//! [`ClientLimiter`] limits the expensive requests of each client, so that one client does not make
//! all others wait.

use crate::http::{HttpError, lock};
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Default queue length.
pub const QUEUE_LENGTH: usize = 64;

/// `Retry-After`, in seconds, for requests that timed out in the queue or while running.
const RETRY_AFTER_S: u64 = 5;

/// Timeouts for expensive requests.
#[derive(Debug, Clone, Copy)]
pub struct QueueTimeouts {
    /// Maximum wait before the work starts. The limit applies to each of two waits: the wait for a
    /// permit of [`crate::http::blocking::ClientLimiter`], and the wait for a thread.
    pub queued: Duration,
    /// Maximum wait while the work runs.
    pub running: Duration,
}

/// Limits the threads of the runtime that run blocking work of one kind. All clones share the
/// limits.
///
/// ```
/// use speedwell_server::http::blocking::{BlockingPool, QUEUE_LENGTH};
/// use speedwell_server::http::HttpError;
///
/// async fn handler(readers: BlockingPool) -> Result<String, HttpError> {
///     readers.run(|| "what the database says".to_owned()).await
/// }
/// # let pool = BlockingPool::new(4, QUEUE_LENGTH);
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # assert_eq!(runtime.block_on(handler(pool)), Ok("what the database says".to_owned()));
/// ```
#[derive(Debug, Clone)]
pub struct BlockingPool {
    queue: WorkQueue,
}

impl BlockingPool {
    /// Creates a pool of `threads` threads, with a queue of length `queue`.
    pub fn new(threads: usize, queue: usize) -> BlockingPool {
        BlockingPool { queue: WorkQueue::new(threads, queue) }
    }

    /// Runs `work` on a thread of the pool and returns its result.
    ///
    /// # Errors
    /// Returns 503 if the queue is full, and 500 if the work panics. Handlers can return the error
    /// as their response.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        run_with(self.acquire_permits().await?, work).await
    }

    /// Runs `work` with timeouts. Work that does not start in time is dropped. Work that runs for
    /// too long continues after the error, because it may cache its result for the next request.
    ///
    /// # Errors
    /// Returns the same errors as [`BlockingPool::run`], and 503 if a timeout expires.
    pub async fn run_within<T: Send + 'static>(
        &self,
        timeouts: QueueTimeouts,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let permits = timeout(timeouts.queued, self.acquire_permits())
            .await
            .map_err(|_| queue_timeout_error("earlier requests", timeouts))??;
        timeout(timeouts.running, run_with(permits, work)).await.map_err(|_| {
            let message = format!("the request takes longer than {} s", timeouts.running.as_secs());
            HttpError::new(StatusCode::SERVICE_UNAVAILABLE, message)
                .with_hint("the computation continues; retry to get its result")
                .with_retry_after(RETRY_AFTER_S)
        })?
    }

    async fn acquire_permits(&self) -> Result<WorkPermits, HttpError> {
        self.queue.acquire_permits("too many concurrent requests").await
    }
}

async fn run_with<T: Send + 'static>(
    permits: WorkPermits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpError> {
    let running = spawn_blocking(move || {
        let result = work();
        drop(permits);
        result
    });
    running
        .await
        .map_err(|_| HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal server error"))
}

/// Returns the error for work that did not start in time. `whose` describes the requests ahead of
/// it.
fn queue_timeout_error(whose: &str, timeouts: QueueTimeouts) -> HttpError {
    let seconds = timeouts.queued.as_secs();
    let message = format!("the request waited longer than {seconds} s for {whose}");
    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(RETRY_AFTER_S)
}

/// Lowers the priority of the calling thread. On Linux, nice(2) does not affect other threads.
pub fn lower_priority() {
    // Lowering the priority needs no privileges.
    let _ = rustix::process::nice(10);
}

/// Requests that run or wait to run.
#[derive(Debug, Clone)]
struct WorkQueue {
    /// Permits to wait or run.
    places: Arc<Semaphore>,
    /// Permits to run.
    running: Arc<Semaphore>,
}

/// The permits of a request that may run. They are free again when it is dropped.
pub type WorkPermits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl WorkQueue {
    fn new(max_running: usize, max_waiting: usize) -> WorkQueue {
        WorkQueue {
            places: Arc::new(Semaphore::new(max_running + max_waiting)),
            running: Arc::new(Semaphore::new(max_running)),
        }
    }

    /// Waits until a request may run. Fails with the message if too many are waiting.
    async fn acquire_permits(&self, rejection: &str) -> Result<WorkPermits, HttpError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            HttpError::new(StatusCode::SERVICE_UNAVAILABLE, rejection).with_retry_after(1)
        })?;
        // The semaphore is never closed.
        Ok((place, Arc::clone(&self.running).acquire_owned().await.ok()))
    }
}

/// Limits the concurrent requests of each client. A client waits only for its own requests.
#[derive(Debug)]
pub struct ClientLimiter {
    max_concurrent: usize,
    max_waiting: usize,
    timeouts: QueueTimeouts,
    queues: Mutex<HashMap<String, WorkQueue>>,
}

impl ClientLimiter {
    /// Allows each client `max_concurrent` running requests and `max_waiting` waiting requests.
    pub fn new(
        max_concurrent: usize,
        max_waiting: usize,
        timeouts: QueueTimeouts,
    ) -> ClientLimiter {
        ClientLimiter { max_concurrent, max_waiting, timeouts, queues: Mutex::default() }
    }

    /// Acquires a permit for this client, waiting until one is free. The request counts towards its
    /// client's limit while it waits, and until the permit is dropped.
    ///
    /// # Errors
    /// Returns 503 if too many of this client's requests are waiting, or if no permit becomes free
    /// in time.
    pub async fn acquire_permit(&self, client: &str) -> Result<WorkPermits, HttpError> {
        let queue = {
            let mut queues = lock(&self.queues);
            // Only the queues of clients with requests are kept.
            queues.retain(|_, queue| Arc::strong_count(&queue.places) > 1);
            let new_queue = || WorkQueue::new(self.max_concurrent, self.max_waiting);
            queues.entry(client.to_owned()).or_insert_with(new_queue).clone()
        };
        timeout(
            self.timeouts.queued,
            queue.acquire_permits("you have too many concurrent requests of this kind"),
        )
        .await
        .map_err(|_| queue_timeout_error("your earlier requests", self.timeouts))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use tokio::sync::oneshot;
    use tokio::time::advance;

    #[tokio::test]
    async fn a_full_queue_refuses_and_an_empty_one_does_not() {
        let pool = BlockingPool::new(1, 2);
        let (release, held) = channel::<()>();
        let (begun, begins) = oneshot::channel();
        let busy = {
            let pool = pool.clone();
            tokio::spawn(async move {
                pool.run(move || {
                    begun.send(()).unwrap();
                    held.recv().unwrap();
                })
                .await
            })
        };
        begins.await.unwrap();
        let (first, second) = (pool.run(|| 1), pool.run(|| 2));
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        let refusal = pool.run(|| 3).await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after_s), (503, Some(1)));
        release.send(()).unwrap();
        assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
        busy.await.unwrap().unwrap();
    }

    const PATIENCE: QueueTimeouts =
        QueueTimeouts { queued: Duration::from_secs(10), running: Duration::from_secs(600) };

    #[tokio::test]
    async fn work_that_takes_too_long_is_reported_and_goes_on() {
        let pool = BlockingPool::new(1, 2);
        let (release, held) = channel::<()>();
        let (done, ends) = oneshot::channel();
        let work = move || {
            held.recv().unwrap();
            done.send(7).unwrap();
        };
        let none = QueueTimeouts { running: Duration::ZERO, queued: Duration::from_secs(600) };
        let refusal = pool.run_within(none, work).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        release.send(()).unwrap();
        assert_eq!(ends.await, Ok(7));
        let quick = pool.run_within(PATIENCE, || 5).await;
        assert_eq!(quick, Ok(5));
    }

    /// Polls a future once. Returns whether it is still pending.
    fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_no_thread_begins_in_time_is_refused_and_never_begun() {
        let pool = BlockingPool::new(1, 8);
        let (release, held) = channel::<()>();
        let mut busy = Box::pin(pool.run(move || held.recv().unwrap()));
        assert!(is_pending(&mut busy));
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let count = move || counted.fetch_add(1, Ordering::Relaxed);
        let mut late = Box::pin(pool.run_within(PATIENCE, count));
        assert!(is_pending(&mut late));
        advance(PATIENCE.queued).await;
        let refusal = late.await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after_s), (503, Some(5)));
        release.send(()).unwrap();
        busy.await.unwrap();
        pool.run(|| ()).await.unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn work_whose_client_has_gone_is_not_begun() {
        let pool = BlockingPool::new(1, 8);
        let done = Arc::new(AtomicUsize::new(0));
        let (release, held) = channel::<()>();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut first = Box::pin(pool.run(move || held.recv().unwrap()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        for _ in 0..5 {
            let done = Arc::clone(&done);
            let mut gone = Box::pin(pool.run(move || done.fetch_add(1, Ordering::Relaxed)));
            assert!(gone.as_mut().poll(&mut cx).is_pending());
        }
        release.send(()).unwrap();
        first.await.unwrap();
        pool.run(|| ()).await.unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error_response_and_the_thread_continues() {
        let pool = BlockingPool::new(1, 8);
        let refusal = pool.run(|| std::panic::panic_any("on purpose")).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 500);
        assert_eq!(pool.run(|| 5).await, Ok(5));
    }

    const TIMEOUTS: QueueTimeouts =
        QueueTimeouts { queued: Duration::from_secs(10), running: Duration::from_secs(600) };

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
        drop(limiter.acquire_permit("b").await.unwrap());
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
        drop(fourth.await.unwrap());
    }
}
