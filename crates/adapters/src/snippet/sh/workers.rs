//! Starts the workers of one run together, observes them, and stops them together. Each worker
//! executes the command repeatedly, and records the time and the number of executions at every
//! deadline. Start at [`WorkerPool::start`].

use crate::ProtocolMessage;
use crate::snippet::sh::{ShellCommand, ShellCost, describe_failure};
use speedwell_machine::process::ProcessStopwatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Message to the control thread.
pub enum ControlMessage {
    /// Command from Speedwell.
    Command(ProtocolMessage),
    /// Speedwell has closed the channel.
    End,
    /// A worker has passed a deadline: time and count.
    Point(usize, (u64, u64)),
    /// A worker has finished.
    Back(usize, Box<WorkerReport>),
}

/// What all workers of a job execute.
#[derive(Debug)]
pub struct ExecutionTask {
    /// The measured command.
    pub order: ShellCommand,
    /// Command executed untimed before each execution.
    pub prepare: Option<ShellCommand>,
    /// Cost of the shell itself in each execution, if a shell executes the command.
    pub shell: Option<ShellCost>,
}

/// How a run is divided.
#[derive(Debug, Clone, Copy)]
pub enum RunDivision {
    /// Windows of time.
    Windows {
        /// Length of a window.
        interval_ns: u64,
        /// Number of windows.
        samples: u64,
        /// Time before the first window.
        warmup_ns: u64,
    },
    /// A fixed number of executions.
    Executions(u64),
}

/// A run shared by several workers.
#[derive(Debug)]
pub struct SharedRun {
    /// Common start.
    pub epoch: Instant,
    pub division: RunDivision,
    /// Number of workers that still need points. All workers continue until this number is zero.
    pub unfinished: AtomicUsize,
    /// Set to stop all workers.
    pub is_over: AtomicBool,
}

/// Report of one worker.
#[derive(Debug, Default)]
pub struct WorkerReport {
    /// For each deadline: the time since the epoch, without unmeasured time, and the number of
    /// executions until then.
    pub points: Vec<(u64, u64)>,
    /// Times of executions after the warm-up.
    pub times: RecordedTimes,
    /// User time of the same executions.
    pub user_ns: u64,
    /// Kernel time of the same executions.
    pub system_ns: u64,
    /// Largest resident set of the same executions.
    pub max_rss_bytes: u64,
    /// Greatest delay of a point after its deadline.
    pub late_ns: u64,
    /// How a command failed.
    pub failure: Option<String>,
}

/// Takes part in a run. Returns when all workers have enough points, when the run is stopped, or
/// when this worker's command fails. `on_point` receives every point.
pub fn run_worker(
    work: &ExecutionTask,
    shared: &SharedRun,
    stopwatch: &Arc<ProcessStopwatch>,
    on_point: &dyn Fn((u64, u64)),
) -> WorkerReport {
    let mut report = WorkerReport::default();
    let mut progress = WorkerProgress::new(shared.division);
    if let RunDivision::Windows { warmup_ns: 0, .. } = shared.division {
        report.points.push((0, 0));
        on_point((0, 0));
    }
    while !shared.is_over.load(Ordering::SeqCst) {
        match execute_prepared(work, stopwatch, &mut progress) {
            Ok(Some(timed)) => {
                let previous_len = report.points.len();
                progress.record_execution(timed, shared, &mut report);
                report.points[previous_len..].iter().copied().for_each(on_point);
            }
            Ok(None) => break,
            Err(reason) => {
                report.failure = Some(reason);
                break;
            }
        }
        if progress.has_all_points(&report) {
            if !progress.is_finished {
                progress.is_finished = true;
                shared.unfinished.fetch_sub(1, Ordering::SeqCst);
            }
            if shared.unfinished.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    }
    if !progress.is_finished {
        shared.unfinished.fetch_sub(1, Ordering::SeqCst);
    }
    if let RunDivision::Executions(_) = shared.division {
        // Without deadlines, a single point gives the length of the sample.
        report.points.push((progress.measured_ns(shared), progress.count));
    }
    report
}

/// Progress of a worker.
struct WorkerProgress {
    division: RunDivision,
    /// Time spent on unmeasured work.
    unmeasured_ns: u64,
    count: u64,
    deadline_ns: u64,
    is_finished: bool,
}

impl WorkerProgress {
    fn new(division: RunDivision) -> WorkerProgress {
        let deadline_ns = match division {
            RunDivision::Windows { interval_ns, warmup_ns: 0, .. } => interval_ns,
            RunDivision::Windows { warmup_ns, .. } => warmup_ns,
            RunDivision::Executions(_) => 0,
        };
        WorkerProgress { division, unmeasured_ns: 0, count: 0, deadline_ns, is_finished: false }
    }

    fn record_execution(
        &mut self,
        timed: speedwell_machine::process::TimedExecution,
        shared: &SharedRun,
        report: &mut WorkerReport,
    ) {
        self.count += 1;
        let is_warm =
            !report.points.is_empty() || matches!(self.division, RunDivision::Executions(_));
        if is_warm && !self.is_finished {
            report.times.add(timed.wall_ns);
            report.user_ns += timed.user_ns;
            report.system_ns += timed.system_ns;
            report.max_rss_bytes = report.max_rss_bytes.max(timed.max_rss_bytes);
        }
        let RunDivision::Windows { interval_ns, warmup_ns, samples } = self.division else {
            return;
        };
        let now_ns = self.measured_ns(shared);
        if now_ns >= self.deadline_ns && report.points.len() as u64 <= samples {
            report.late_ns = report.late_ns.max(now_ns - self.deadline_ns);
            report.points.push((now_ns, self.count));
            let finished_windows = (now_ns - warmup_ns) / interval_ns;
            self.deadline_ns = warmup_ns + (finished_windows + 1) * interval_ns;
        }
    }

    /// Time since the epoch without unmeasured time.
    fn measured_ns(&self, shared: &SharedRun) -> u64 {
        let elapsed_ns = shared.epoch.elapsed().as_nanos() as u64;
        elapsed_ns.saturating_sub(self.unmeasured_ns)
    }

    fn has_all_points(&self, report: &WorkerReport) -> bool {
        match self.division {
            RunDivision::Windows { samples, .. } => report.points.len() as u64 > samples,
            RunDivision::Executions(count) => self.count >= count,
        }
    }
}

/// Performs one execution with its preparation; `None` if it was stopped.
fn execute_prepared(
    work: &ExecutionTask,
    stopwatch: &ProcessStopwatch,
    progress: &mut WorkerProgress,
) -> Result<Option<speedwell_machine::process::TimedExecution>, String> {
    if let Some(prepare) = &work.prepare {
        let begin = Instant::now();
        let prepared = prepare.execute_once(stopwatch);
        progress.unmeasured_ns += begin.elapsed().as_nanos() as u64;
        if stopwatch.is_stopped() {
            return Ok(None);
        }
        prepared.map_err(|reason| format!("the preparation {reason}"))?;
    }
    let timed = work.order.time_execution(stopwatch);
    if stopwatch.is_stopped() {
        return Ok(None);
    }
    let timed = timed.map_err(|error| error.to_string())?;
    match describe_failure(timed.ended) {
        Some(reason) => Err(format!("the command {reason}")),
        None => Ok(Some(timed)),
    }
}

/// A worker to be started.
pub struct WorkerSlot {
    /// Index of its job in the run.
    pub job: usize,
    /// What the worker executes.
    pub work: Arc<ExecutionTask>,
    /// Stopwatch of its processes.
    pub stopwatch: Arc<ProcessStopwatch>,
}

/// Progress of all workers of a job when the last of them passed a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    /// Index of the job in the run.
    pub job: usize,
    /// Index of the deadline, from 0.
    pub k: usize,
    /// Time at which the last worker passed the deadline.
    pub t_ns: u64,
    /// Executions of all workers.
    pub count: u64,
    pub workers: usize,
}

/// The running workers.
pub struct WorkerPool {
    slots: Vec<WorkerSlot>,
    shared: Arc<SharedRun>,
    points: Vec<Vec<(u64, u64)>>,
    passed_deadlines: Vec<usize>,
    finished_reports: Vec<Option<WorkerReport>>,
}

impl WorkerPool {
    /// Starts a thread for every slot. A message is sent through `sender` when a worker finishes
    /// and, if `streams`, for every point.
    pub fn start(
        slots: Vec<WorkerSlot>,
        division: RunDivision,
        sender: &Sender<ControlMessage>,
        streams: bool,
    ) -> WorkerPool {
        let shared = Arc::new(SharedRun {
            epoch: Instant::now(),
            division,
            unfinished: AtomicUsize::new(slots.len()),
            is_over: AtomicBool::new(false),
        });
        for (index, slot) in slots.iter().enumerate() {
            slot.stopwatch.resume();
            let (work, stopwatch) = (slot.work.clone(), slot.stopwatch.clone());
            let (shared, sender) = (shared.clone(), sender.clone());
            std::thread::spawn(move || {
                // Sending fails only if the process is about to end, and the receiver is gone.
                let on_point = |point| {
                    if streams {
                        let _ = sender.send(ControlMessage::Point(index, point));
                    }
                };
                let report = run_worker(&work, &shared, &stopwatch, &on_point);
                let _ = sender.send(ControlMessage::Back(index, Box::new(report)));
            });
        }
        WorkerPool {
            points: slots.iter().map(|_| Vec::new()).collect(),
            finished_reports: slots.iter().map(|_| None).collect(),
            passed_deadlines: vec![0; slots.iter().map(|slot| slot.job + 1).max().unwrap_or(0)],
            slots,
            shared,
        }
    }

    /// Whether a worker is still running.
    pub fn is_at_work(&self) -> bool {
        self.finished_reports.iter().any(Option::is_none)
    }

    /// Records the report of a finished worker.
    pub fn record_report(&mut self, index: usize, report: WorkerReport) {
        self.finished_reports[index] = Some(report);
    }

    /// Records that a worker has passed a deadline. If it was the last of its job, returns the
    /// job's progress.
    pub fn record_point(&mut self, index: usize, point: (u64, u64)) -> Option<JobProgress> {
        self.points[index].push(point);
        let job = self.slots[index].job;
        let k = self.passed_deadlines[job];
        let slots = self.slots.iter().zip(&self.points);
        let reached: Vec<(u64, u64)> = slots
            .filter(|(slot, _)| slot.job == job)
            .map(|(_, points)| points.get(k).copied())
            .collect::<Option<_>>()?;
        self.passed_deadlines[job] += 1;
        Some(JobProgress {
            job,
            k,
            t_ns: reached.iter().map(|point| point.0).max().unwrap_or(0),
            count: reached.iter().map(|point| point.1).sum(),
            workers: reached.len(),
        })
    }

    /// Stops all workers.
    pub fn stop_all(&self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.slots.iter().for_each(|slot| slot.stopwatch.stop());
    }

    /// Returns the reports of the workers, grouped by job.
    pub fn reports(self, jobs: usize) -> Vec<Vec<WorkerReport>> {
        let mut reports: Vec<Vec<WorkerReport>> = (0..jobs).map(|_| Vec::new()).collect();
        for (slot, report) in self.slots.iter().zip(self.finished_reports) {
            reports[slot.job].push(report.unwrap_or_default());
        }
        reports
    }
}

/// Maximum number of recorded times that are kept. When it is reached, every other one is dropped.
const MAX_KEPT_TIMES: usize = 1 << 16;

/// Recorded times in nanoseconds.
#[derive(Debug, Clone)]
pub struct RecordedTimes {
    sampled: Vec<u64>,
    stride: u64,
    count: u64,
}

impl Default for RecordedTimes {
    fn default() -> RecordedTimes {
        RecordedTimes { sampled: Vec::new(), stride: 1, count: 0 }
    }
}

impl RecordedTimes {
    /// Records a time.
    pub fn add(&mut self, ns: u64) {
        if self.count.is_multiple_of(self.stride) {
            self.sampled.push(ns);
        }
        self.count += 1;
        if self.sampled.len() == MAX_KEPT_TIMES {
            self.halve();
        }
    }

    /// Adds the times of another worker or sample.
    pub fn merge(&mut self, other: &RecordedTimes) {
        while self.stride < other.stride {
            self.halve();
        }
        let step = (self.stride / other.stride) as usize;
        self.sampled.extend(other.sampled.iter().step_by(step));
        self.count += other.count;
        while self.sampled.len() >= MAX_KEPT_TIMES {
            self.halve();
        }
    }

    /// Drops every other recorded time.
    fn halve(&mut self) {
        let mut index = 0;
        self.sampled.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    /// Number of all recorded times, including dropped ones.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Minimum, 5 %, 25 % and 50 % quantiles in picoseconds; empty if no times were recorded.
    pub fn quantiles_ps(&self) -> Vec<String> {
        let mut sorted = self.sampled.clone();
        sorted.sort_unstable();
        let last = match sorted.len() {
            0 => return Vec::new(),
            length => length - 1,
        };
        let quantile_ps = |fraction: f64| sorted[(fraction * last as f64).round() as usize] * 1000;
        [0.0, 0.05, 0.25, 0.5].map(|fraction| quantile_ps(fraction).to_string()).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stay_when_only_some_times_are_kept() {
        let mut times = RecordedTimes::default();
        for ns in 0..1_000_000 {
            times.add(ns);
        }
        assert_eq!(times.count(), 1_000_000);
        assert!(times.sampled.len() < MAX_KEPT_TIMES);
        let median: f64 = times.quantiles_ps()[3].parse().unwrap();
        assert!((median / 500_000_000.0 - 1.0).abs() < 0.001, "{median}");
        assert!(RecordedTimes::default().quantiles_ps().is_empty());
    }

    #[test]
    fn merged_quantiles_cover_the_times_of_all_workers() {
        let mut all = RecordedTimes::default();
        for worker in 0..4 {
            let mut times = RecordedTimes::default();
            // The last worker has too many times for all of them to be kept.
            let times_per_worker = if worker < 3 { 100_000 / 4 } else { 1_000_000 };
            for at in 0..times_per_worker {
                times.add(1000 * worker + at * 1000 / times_per_worker);
            }
            all.merge(&times);
        }
        assert_eq!(all.count(), 1_075_000);
        // 75,000 times are below 3000 ns. The other 1,000,000 are spread evenly from 3000 to 4000
        // ns, and the median is the 462,500th of them.
        let median: f64 = all.quantiles_ps()[3].parse().unwrap();
        assert!((median / 1000.0 - 3462.5).abs() < 5.0, "{median}");
        assert_eq!(all.quantiles_ps()[0], "0");
    }
}
