//! Work on many cases, shared among the processors.

use std::num::NonZero;
use std::thread;

/// Items below which starting a thread costs more than it saves.
const FEWEST_PER_THREAD: usize = 32;

/// Applies `work` to all items, on several processors when there are many; order is kept.
pub(super) fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(items.len() / FEWEST_PER_THREAD).max(1);
    if threads == 1 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads).max(1);
    let mut items = items.into_iter();
    let shares: Vec<Vec<T>> = (0..threads)
        .map(|_| items.by_ref().take(share).collect())
        .collect();
    thread::scope(|scope| {
        let work = &work;
        let start = |share: Vec<T>| scope.spawn(move || share.into_iter().map(work).collect());
        let running: Vec<thread::ScopedJoinHandle<'_, Vec<R>>> =
            shares.into_iter().map(start).collect();
        let finish = |running: thread::ScopedJoinHandle<'_, Vec<R>>| match running.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().flat_map(finish).collect()
    })
}
