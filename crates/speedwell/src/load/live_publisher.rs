//! Publishes the progress of a load for browsers. A thread writes it to the store once a second,
//! and the load never waits for the thread. Start at [`LivePublisher::start_publishing`].

use speedwell_engine::execution::load::LoadSnapshot;
use speedwell_load::pace::StopCondition;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::stored::LoadProgress;
use speedwell_store::Store;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between writes.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of rates kept: one per second, for one minute.
const MAX_RATES: usize = 60;

/// Live progress of the loads of one command; dropping it marks them as finished.
#[derive(Debug)]
pub struct LivePublisher {
    progress: LoadProgress,
    sender: Option<SyncSender<LoadProgress>>,
    writer: Option<JoinHandle<()>>,
    last_sent_at: Instant,
    /// Successful responses since the last write.
    ok: u64,
    /// Measured time since the last write, in nanoseconds.
    ns: u64,
}

impl LivePublisher {
    /// Starts publishing. Nothing is written in the first second of a load. A failed write loses
    /// only the live view.
    pub fn start_publishing(path: PathBuf, command: Vec<String>) -> LivePublisher {
        let (sender, receiver) = sync_channel(1);
        let writer = std::thread::spawn(move || write_progress(&path, &receiver));
        LivePublisher {
            progress: LoadProgress { command, ..LoadProgress::default() },
            sender: Some(sender),
            writer: Some(writer),
            last_sent_at: Instant::now(),
            ok: 0,
            ns: 0,
        }
    }

    /// Starts the next load, with this stop condition.
    pub fn next(&mut self, stop: &StopCondition) {
        self.progress = LoadProgress {
            command: std::mem::take(&mut self.progress.command),
            load: self.progress.load + 1,
            planned_ms: stop.after_ns.map(|ns| ns / 1_000_000),
            planned_requests: stop.after_requests,
            ..LoadProgress::default()
        };
        (self.ok, self.ns) = (0, 0);
        // Delay the first write by a second, because opening the store would disturb the start of
        // the load.
        self.last_sent_at = Instant::now();
    }

    /// Adds a snapshot, and publishes if the interval has passed.
    pub fn add_snapshot(&mut self, snapshot: &LoadSnapshot) {
        self.ok += snapshot.tick.ok;
        self.ns += snapshot.interval_ns;
        // Percentiles of several short intervals cannot be merged, so the last ones are shown.
        self.progress.p50_ns = snapshot.tick.p50_ns.or(self.progress.p50_ns);
        self.progress.p99_ns = snapshot.tick.p99_ns.or(self.progress.p99_ns);
        if self.last_sent_at.elapsed() < PUBLISH_INTERVAL || self.ns == 0 {
            return;
        }
        let rate = self.ok as f64 / (self.ns as f64 / 1e9);
        (self.ok, self.ns) = (0, 0);
        let progress = &mut self.progress;
        progress.rates.push(rate);
        if progress.rates.len() > MAX_RATES {
            progress.rates.remove(0);
        }
        progress.elapsed_ms = snapshot.at_ns / 1_000_000;
        progress.is_warmup = snapshot.is_warmup;
        progress.attempted = snapshot.attempted;
        progress.errors = snapshot.errors;
        self.send_progress();
    }

    fn send_progress(&mut self) {
        self.last_sent_at = Instant::now();
        if let Some(sender) = &self.sender {
            // Drop this progress if the thread is busy with the previous progress.
            let _ = sender.try_send(self.progress.clone());
        }
    }
}

impl Drop for LivePublisher {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_progress(path: &std::path::Path, receiver: &Receiver<LoadProgress>) {
    let Ok(first) = receiver.recv() else { return };
    let Ok(mut store) = Store::open(path) else {
        return;
    };
    let Ok(number) = store.begin_load(&first, unix_time_ms()) else {
        return;
    };
    for progress in receiver {
        let _ = store.update_load(number, &progress, unix_time_ms());
    }
    let _ = store.end_load(number);
}
