//! Work that blocks, such as asking a database: threads of its own, and a short queue in front of them.
//!
//! A queue that grows only makes everybody wait; so beyond its length requests are refused at once, with the time after
//! which to try again. Work whose client has gone meanwhile is not begun.

use crate::error::Error;
use crate::refusal::Refusal;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Work that waits, unless given otherwise.
pub const QUEUE: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// Threads that do what blocks. Clones share them; they end with the last clone.
///
/// ```
/// use speedwell_serve::blocking::{Pool, QUEUE};
/// use speedwell_serve::Refusal;
///
/// async fn handler(readers: Pool) -> Result<String, Refusal> {
///     readers.run(|| "what the database says".to_owned()).await
/// }
/// # let pool = Pool::new("readers", 4, QUEUE)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # assert_eq!(runtime.block_on(handler(pool)), Ok("what the database says".to_owned()));
/// # Ok::<(), speedwell_serve::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    queue: SyncSender<Work>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool(..)")
    }
}

impl Pool {
    /// So many threads of this name, and a queue of this length in front of them.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn new(name: &str, threads: usize, queue: usize) -> Result<Pool, Error> {
        let (queue, waiting) = sync_channel::<Work>(queue);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads.max(1) {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread
                .spawn(move || work(&waiting))
                .map_err(Error::Threads)?;
        }
        Ok(Pool { queue })
    }

    /// What this work gives, once a thread has done it.
    ///
    /// # Errors
    /// 503 when the queue is full, 500 when the work panicked. Both are answers of a handler.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (done, result) = oneshot::channel();
        let work: Work = Box::new(move || {
            if done.is_closed() {
                return;
            }
            // What the work has touched is its own matter; the thread goes on with other work.
            if let Ok(value) = catch_unwind(AssertUnwindSafe(work)) {
                drop(done.send(value));
            }
        });
        match self.queue.try_send(work) {
            Ok(()) => result.await.map_err(|_| {
                let what = "the server made a mistake with this request";
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, what)
            }),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                let what = "there are too many requests at once";
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1))
            }
        }
    }
}

impl Pool {
    /// As [`Pool::run`], for what may take long: whoever asks is told so after some time of work, which goes on, so that what
    /// it keeps is there when it is asked for again. Waiting for a thread does not count.
    ///
    /// # Errors
    /// As for [`Pool::run`]; 503 when the time is over.
    pub async fn run_within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (begins, begun) = oneshot::channel();
        let running = self.run(move || {
            // Whoever asked may have gone.
            let _ = begins.send(());
            work()
        });
        let too_long = async {
            match begun.await {
                Ok(()) => tokio::time::sleep(limit).await,
                // It was refused, which is the answer.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = running => done,
            () = too_long => {
                let what = format!("this takes longer than {} s", limit.as_secs());
                let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what);
                Err(refusal.hint("it goes on, and is there once it is done").retry_after(5))
            }
        }
    }
}

/// Shares of a pool: whoever asks has but so many at once, and waits for his own, not for those of others.
#[derive(Debug, Clone)]
pub struct Shares {
    at_once: usize,
    waiting: usize,
    held: Arc<Mutex<HashMap<String, Holder>>>,
}

/// Who has shares or waits for some.
#[derive(Debug)]
struct Holder {
    free: Arc<Semaphore>,
    asking: usize,
}

/// The right to do one thing, until it is dropped.
#[derive(Debug)]
pub struct Share {
    _permit: Option<OwnedSemaphorePermit>,
    place: Place,
}

/// A place among those who ask; it is free again when it is dropped.
#[derive(Debug)]
struct Place {
    who: String,
    held: Arc<Mutex<HashMap<String, Holder>>>,
}

impl Shares {
    /// So many at once for each, and so many that may wait.
    pub fn new(at_once: usize, waiting: usize) -> Shares {
        Shares {
            at_once,
            waiting,
            held: Arc::default(),
        }
    }

    /// A share for somebody, once one is free.
    ///
    /// # Errors
    /// 503 when too many of the same wait.
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
        // Nobody closes it.
        let permit = free.acquire_owned().await.ok();
        Ok(Share {
            _permit: permit,
            place,
        })
    }
}

impl Share {
    /// Whose it is.
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

/// From now on the calling thread waits for whoever else has work: on Linux each thread has a priority of its own (nice(2)).
/// For what is done while nobody waits for it.
pub fn give_way() {
    // A thread may always give up a priority.
    let _ = rustix::process::nice(10);
}

fn work(waiting: &Mutex<Receiver<Work>>) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn a_full_queue_refuses_and_an_empty_one_does_not() {
        let pool = Pool::new("test", 1, 2).unwrap();
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
        assert_eq!(
            (refusal.status.as_u16(), refusal.retry_after_s),
            (503, Some(1))
        );
        release.send(()).unwrap();
        assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
        busy.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn each_has_so_many_shares_and_waits_for_his_own() {
        let shares = Shares::new(2, 1);
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
        // Who gave up waiting does not wait any more.
        let _again = shares.take("a").await.unwrap();
        let mut gone = Box::pin(shares.take("a"));
        assert!(gone.as_mut().poll(&mut cx).is_pending());
        drop(gone);
        let mut next = Box::pin(shares.take("a"));
        assert!(next.as_mut().poll(&mut cx).is_pending());
    }

    #[tokio::test]
    async fn what_takes_too_long_is_said_so_and_goes_on() {
        let pool = Pool::new("test", 1, 2).unwrap();
        let (release, held) = channel::<()>();
        let (done, ends) = oneshot::channel();
        let work = move || {
            held.recv().unwrap();
            done.send(7).unwrap();
        };
        let refusal = pool.run_within(Duration::ZERO, work).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        release.send(()).unwrap();
        assert_eq!(ends.await, Ok(7));
        let quick = pool.run_within(Duration::from_secs(600), || 5).await;
        assert_eq!(quick, Ok(5));
    }

    #[tokio::test]
    async fn work_whose_client_has_gone_is_not_begun() {
        let pool = Pool::new("test", 1, 8).unwrap();
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
    async fn a_panic_is_an_answer_and_the_thread_goes_on() {
        let pool = Pool::new("test", 1, 8).unwrap();
        let refusal = pool
            .run(|| std::panic::panic_any("on purpose"))
            .await
            .unwrap_err();
        assert_eq!(refusal.status.as_u16(), 500);
        assert_eq!(pool.run(|| 5).await, Ok(5));
    }
}
