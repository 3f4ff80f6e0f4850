//! Sends one load after the other ([`LoadSender`]), and shows each live: in one line on stderr
//! ([`LiveView`]), and for browsers ([`LivePublisher`]).

use crate::options::LoadArgs;
use crate::progress::format_clock;
use crate::status::{self, clear_line, draw_line};
use speedwell_engine::execution::load::{
    LoadJob, LoadNotice, LoadRun, LoadSnapshot, ProbeFacts, TargetUrl, run_load,
    run_load_with_sender,
};
use speedwell_load::pace::StopCondition;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stored::LoadProgress;
use speedwell_remote::load::LoadGenerators;
use speedwell_report::{self as report, Uncertainty, format_quantity};
use speedwell_store::Store;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Redraw interval, short enough to show stalls, and long enough not to disturb the server.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Number of throughput samples in the sparkline.
const SPARKLINE_LENGTH: usize = 24;

/// Characters of the sparkline, from the lowest bar to the highest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Sends loads one by one.
pub struct LoadSender<'a, 'r> {
    pub seed: u64,
    /// Machines that send the loads instead of this machine.
    pub generators: Option<LoadGenerators>,
    pub reporter: &'a mut LoadReporter<'r>,
}

impl LoadSender<'_, '_> {
    /// Sends one load, which ends at `stop`.
    pub fn send_load(
        &mut self,
        spec: &LoadSpec,
        stop: StopCondition,
        shows_probe: bool,
    ) -> anyhow::Result<LoadRun> {
        self.reporter.start_load(stop);
        let reporter = &mut *self.reporter;
        let mut notify = |notice: LoadNotice<'_>| match notice {
            LoadNotice::Probed(..) if !shows_probe => {}
            notice => reporter.show_notice(notice),
        };
        let run = match &mut self.generators {
            None => run_load(spec, self.seed, &mut notify),
            Some(generators) => {
                let spec = generators.combined_spec(spec);
                let mut send =
                    |job: &LoadJob, stop: &AtomicBool, watch: &mut dyn FnMut(&LoadSnapshot)| {
                        generators.send_load(job, stop, watch)
                    };
                run_load_with_sender(None, &spec, self.seed, &mut send, &mut notify)
            }
        };
        self.reporter.live = None;
        run
    }
}

/// Shows the progress of loads.
pub struct LoadReporter<'a> {
    pub args: &'a LoadArgs,
    pub live: Option<LiveView>,
    pub publisher: Option<LivePublisher>,
}

impl<'a> LoadReporter<'a> {
    /// Creates a reporter. Without `--no-save`, the reporter also publishes the progress for
    /// browsers.
    pub fn new(args: &'a LoadArgs) -> LoadReporter<'a> {
        let path = args.store.database.database_path().ok().filter(|_| !args.store.no_save);
        LoadReporter {
            args,
            live: None,
            publisher: path
                .map(|path| LivePublisher::start_publishing(path, std::env::args().collect())),
        }
    }

    /// Shows the next load, which ends at `stop`.
    fn start_load(&mut self, stop: StopCondition) {
        if let Some(publisher) = &mut self.publisher {
            publisher.next(&stop);
        }
        self.live = self.args.output.shows_progress().then(|| LiveView::new(stop));
    }

    pub fn show_notice(&mut self, notice: LoadNotice<'_>) {
        match notice {
            LoadNotice::Served => {}
            LoadNotice::Standing(snapshot) => {
                if let Some(live) = &mut self.live {
                    live.show_snapshot(snapshot);
                }
                if let Some(publisher) = &mut self.publisher {
                    publisher.add_snapshot(snapshot);
                }
            }
            LoadNotice::Probed(url, facts, protocol) => {
                print_probe(self.args, url, facts, protocol);
            }
            LoadNotice::Warning(warning) => status::print_warning(warning),
        }
    }
}

pub fn print_level(args: &LoadArgs, level: f64, throughput: Option<f64>) {
    if args.output.shows_progress() {
        let displayed = throughput.map_or("nothing".to_owned(), report::format_rate);
        status::print_note(&match args.rate {
            Some(_) => format!("rate {}: {displayed}", report::format_rate(level)),
            None => format!("concurrency {level}: {displayed}"),
        });
    }
}

fn print_probe(args: &LoadArgs, url: &TargetUrl, facts: &ProbeFacts, protocol: &str) {
    if args.output.quiet {
        return;
    }
    for redirect in &facts.redirected_from {
        status::print_note(&format!("'{redirect}' redirects"));
    }
    let server =
        (facts.server.as_ref()).map(|name| format!(", server '{name}'")).unwrap_or_default();
    let tls = (facts.tls.as_ref())
        .map(|tls| format!(", {} {}", tls.version, tls.cipher))
        .unwrap_or_default();
    status::print_note(&format!(
        "'{url}' answers {} with {} bytes of body ({protocol}{server}{tls})",
        facts.status, facts.body_bytes
    ));
}

/// The status line of a load; dropping it clears the line.
#[derive(Debug)]
pub struct LiveView {
    stop: StopCondition,
    last_drawn_at: Option<Instant>,
    totals: SnapshotTotals,
    curve: VecDeque<f64>,
}

/// Totals since the line was last drawn, or the progress was last published.
#[derive(Debug, Default)]
struct SnapshotTotals {
    ok: u64,
    ns: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl LiveView {
    /// Creates a line for a load with this stop condition.
    pub fn new(stop: StopCondition) -> LiveView {
        LiveView {
            stop,
            last_drawn_at: None,
            totals: SnapshotTotals::default(),
            curve: VecDeque::new(),
        }
    }

    /// Adds a snapshot, and redraws if the interval has passed.
    pub fn show_snapshot(&mut self, snapshot: &LoadSnapshot) {
        self.totals.add(snapshot);
        if self.last_drawn_at.is_some_and(|last_drawn_at| last_drawn_at.elapsed() < REDRAW_INTERVAL)
        {
            return;
        }
        self.last_drawn_at = Some(Instant::now());
        let totals = std::mem::take(&mut self.totals);
        self.curve.push_back(totals.throughput());
        if self.curve.len() > SPARKLINE_LENGTH {
            self.curve.pop_front();
        }
        draw_line(&status_text(snapshot, &totals, &self.curve, &self.stop));
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        if self.last_drawn_at.is_some() {
            clear_line();
        }
    }
}

impl SnapshotTotals {
    fn add(&mut self, snapshot: &LoadSnapshot) {
        self.ok += snapshot.tick.ok;
        self.ns += snapshot.interval_ns;
        // Percentiles of several intervals cannot be merged, so show the last median and the
        // largest 99th percentile.
        self.p50_ns = snapshot.tick.p50_ns.or(self.p50_ns);
        self.p99_ns = snapshot.tick.p99_ns.max(self.p99_ns);
    }

    fn throughput(&self) -> f64 {
        if self.ns == 0 { 0.0 } else { self.ok as f64 / (self.ns as f64 / 1e9) }
    }
}

fn status_text(
    snapshot: &LoadSnapshot,
    totals: &SnapshotTotals,
    curve: &VecDeque<f64>,
    stop: &StopCondition,
) -> String {
    let quantity = |value: f64, unit: &str| format_quantity(value, unit, Uncertainty::Unknown);
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| quantity(ns as f64, "ns"));
    let phase =
        if snapshot.is_warmup { "warm-up".to_owned() } else { progress_text(snapshot, stop) };
    let elapsed = format_clock(Duration::from_nanos(snapshot.at_ns));
    format!(
        "[{elapsed}|{phase}] {}  p50 {}  p99 {}  {} errors  {}",
        quantity(totals.throughput(), "1/s"),
        time(totals.p50_ns),
        time(totals.p99_ns),
        snapshot.errors,
        draw_sparkline(curve)
    )
}

/// Formats how much of the load is done, by the stop condition that will be met first.
fn progress_text(snapshot: &LoadSnapshot, stop: &StopCondition) -> String {
    let by_time = stop.after_ns.map(|end_ns| snapshot.at_ns as f64 / end_ns as f64);
    let by_count = stop.after_requests.map(|count| snapshot.attempted as f64 / count as f64);
    match by_time.into_iter().chain(by_count).reduce(f64::max) {
        Some(fraction) => format!("{:>3.0}%", 100.0 * fraction.min(1.0)),
        None => format!("{} requests", snapshot.attempted),
    }
}

/// Draws values as a sparkline from zero to the maximum.
fn draw_sparkline(values: &VecDeque<f64>) -> String {
    let maximum = values.iter().copied().fold(0.0, f64::max);
    let height = |value: &f64| {
        let share = if maximum > 0.0 { value / maximum } else { 0.0 };
        HEIGHTS[(share * (HEIGHTS.len() - 1) as f64).round() as usize]
    };
    values.iter().map(height).collect()
}

/// Interval between writes.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of rates kept: one per second, for one minute.
const MAX_RATES: usize = 60;

/// Live progress of the loads of one command, for browsers. A thread writes it to the store once a
/// second, and the load never waits for the thread. Dropping it marks the loads as finished.
#[derive(Debug)]
pub struct LivePublisher {
    progress: LoadProgress,
    sender: Option<SyncSender<LoadProgress>>,
    writer: Option<JoinHandle<()>>,
    last_sent_at: Instant,
    /// Totals since the last write.
    totals: SnapshotTotals,
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
            totals: SnapshotTotals::default(),
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
        self.totals = SnapshotTotals::default();
        // Delay the first write by a second, because opening the store would disturb the start of
        // the load.
        self.last_sent_at = Instant::now();
    }

    /// Adds a snapshot, and publishes if the interval has passed.
    pub fn add_snapshot(&mut self, snapshot: &LoadSnapshot) {
        self.totals.add(snapshot);
        // Percentiles of several short intervals cannot be merged, so the last ones are shown.
        self.progress.p50_ns = snapshot.tick.p50_ns.or(self.progress.p50_ns);
        self.progress.p99_ns = snapshot.tick.p99_ns.or(self.progress.p99_ns);
        if self.last_sent_at.elapsed() < PUBLISH_INTERVAL || self.totals.ns == 0 {
            return;
        }
        let rate = std::mem::take(&mut self.totals).throughput();
        let progress = &mut self.progress;
        progress.rates.push(rate);
        if progress.rates.len() > MAX_RATES {
            progress.rates.remove(0);
        }
        progress.elapsed_ms = snapshot.at_ns / 1_000_000;
        progress.is_warmup = snapshot.is_warmup;
        progress.attempted = snapshot.attempted;
        progress.errors = snapshot.errors;
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
    let Ok(mut store) = Store::open(path) else { return };
    let Ok(number) = store.begin_load(&first, unix_time_ms()) else { return };
    for progress in receiver {
        let _ = store.update_load(number, &progress, unix_time_ms());
    }
    let _ = store.end_load(number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::load::measurement::TimelineTick;

    #[test]
    fn the_status_line_shows_throughput_latency_errors_and_progress() {
        let snapshot = LoadSnapshot {
            at_ns: 2_500_000_000,
            attempted: 25_000,
            errors: 3,
            interval_ns: 100_000_000,
            tick: TimelineTick {
                ok: 1000,
                p50_ns: Some(500_000),
                p99_ns: Some(2_000_000),
                ..TimelineTick::default()
            },
            ..LoadSnapshot::default()
        };
        let stop = StopCondition { after_requests: None, after_ns: Some(10_000_000_000) };
        let mut totals = SnapshotTotals::default();
        totals.add(&snapshot);
        totals.add(&snapshot);
        let curve = VecDeque::from([0.0, 5_000.0, 10_000.0]);
        assert_eq!(
            status_text(&snapshot, &totals, &curve, &stop),
            "[0:03| 25%] 10.0 k/s  p50 500 µs  p99 2.00 ms  3 errors  ▁▅█"
        );
    }
}
