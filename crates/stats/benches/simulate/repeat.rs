//! Parallel repetitions.

/// Runs `task` for every repetition on all cores and collects the results in order.
pub fn repeat_parallel<T: Send>(repetitions: u64, task: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let share = repetitions.div_ceil(cores);
    let task = &task;
    std::thread::scope(|scope| {
        let part = |core: u64| core * share..((core + 1) * share).min(repetitions);
        let threads: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || part(core).map(task).collect::<Vec<T>>()))
            .collect();
        let done = threads.into_iter().map(|thread| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.flatten().collect()
    })
}
