//! Work that blocks, such as asking a database: threads of its own, and a short queue in front of them.
//!
//! A queue that grows only makes everybody wait; so beyond its length requests are refused at once, with the time after
//! which to try again. So are those that have waited long enough, where the work of others is long. Work whose client has gone
//! meanwhile is not begun.

use crate::error::Error;
use crate::refusal::Refusal;
use axum::http::StatusCode;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Work that waits, unless given otherwise.
pub const QUEUE: usize = 64;

/// Seconds after which to try again what waited or took too long.
const AGAIN_S: u64 = 5;

/// For how long whoever asks for what is expensive gets no answer, at most.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Before it begins; twice, where both a share and a thread are waited for.
    pub waiting: Duration,
    /// While it is worked on.
    pub working: Duration,
}

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
    /// As [`Pool::run`], for what may take long: whoever asks gets an answer after some time of work, which goes on, so that
    /// what it keeps is there for the next request. Work that no thread has begun by its time is not begun any more.
    ///
    /// # Errors
    /// As for [`Pool::run`]; 503 when either time is over.
    pub async fn run_within<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (begins, begun) = oneshot::channel();
        let running = self.run(move || {
            // Whoever asked may have gone.
            let _ = begins.send(());
            work()
        });
        let too_long = async {
            match timeout(patience.waiting, begun).await {
                Ok(Ok(())) => {
                    tokio::time::sleep(patience.working).await;
                    let what = format!("this takes longer than {} s", patience.working.as_secs());
                    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what);
                    let refusal = refusal.hint("it goes on, and is there once it is done");
                    refusal.retry_after(AGAIN_S)
                }
                // It was refused, which is the answer.
                Ok(Err(_)) => std::future::pending().await,
                Err(_) => waited("others", patience),
            }
        };
        tokio::select! {
            biased;
            done = running => done,
            refusal = too_long => Err(refusal),
        }
    }
}

/// What was not begun in time, because of earlier requests of somebody.
pub(crate) fn waited(whose: &str, patience: Patience) -> Refusal {
    let seconds = patience.waiting.as_secs();
    let what = format!("this waited longer than {seconds} s for earlier requests of {whose}");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(AGAIN_S)
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
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use tokio::time::advance;

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

    const PATIENCE: Patience = Patience {
        waiting: Duration::from_secs(10),
        working: Duration::from_secs(600),
    };

    #[tokio::test]
    async fn what_takes_too_long_is_said_so_and_goes_on() {
        let pool = Pool::new("test", 1, 2).unwrap();
        let (release, held) = channel::<()>();
        let (done, ends) = oneshot::channel();
        let work = move || {
            held.recv().unwrap();
            done.send(7).unwrap();
        };
        let none = Patience {
            working: Duration::ZERO,
            waiting: Duration::from_secs(600),
        };
        let refusal = pool.run_within(none, work).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 503);
        release.send(()).unwrap();
        assert_eq!(ends.await, Ok(7));
        let quick = pool.run_within(PATIENCE, || 5).await;
        assert_eq!(quick, Ok(5));
    }

    /// Whether a future has not ended by now.
    fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_no_thread_begins_in_time_is_refused_and_never_begun() {
        let pool = Pool::new("test", 1, 8).unwrap();
        let (release, held) = channel::<()>();
        let mut busy = Box::pin(pool.run(move || held.recv().unwrap()));
        assert!(is_pending(&mut busy));
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let count = move || counted.fetch_add(1, Ordering::Relaxed);
        let mut late = Box::pin(pool.run_within(PATIENCE, count));
        assert!(is_pending(&mut late));
        advance(PATIENCE.waiting).await;
        let refusal = late.await.unwrap_err();
        assert_eq!(
            (refusal.status.as_u16(), refusal.retry_after_s),
            (503, Some(5))
        );
        release.send(()).unwrap();
        busy.await.unwrap();
        pool.run(|| ()).await.unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 0);
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
