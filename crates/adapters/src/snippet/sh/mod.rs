//! Measures shell commands. Their harness is this program itself, started with a hidden command.
//!
//! Each iteration is one process. Commands that contain shell syntax are executed by a shell, and
//! so are the commands compared with them. Other commands are started directly. Execution times
//! include the cost of the shell, which is also measured and reported separately. This cost is not
//! subtracted: otherwise, a fast command could have times of zero or less, which cannot be
//! compared. The drop-in for hyperfine builds its commands and times its shell with this module,
//! too. Start at [`serve_protocol`].
//!
//! A [`WorkerPool`] starts the workers of one run together, observes them, and stops them together.
//! Each worker executes the command repeatedly, and records the time and the number of executions
//! at every deadline: at the end of the warm-up and of each time window.

mod session;

pub use session::serve_protocol;

use crate::ProtocolMessage;
use crate::cache::find_in_path;
use anyhow::{Context, ensure};
use speedwell_machine::process::{
    OutputTail, ProcessEnd, ProcessStopwatch, TimedExecution, resolve_program,
};
use speedwell_model::FailureCause;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Hidden command that starts this program as a harness.
pub const HARNESS_COMMAND: &str = "harness-sh";

/// Characters with a meaning only in a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`*?[]#~{}!\n\\";

/// The last output of commands on stderr, if this process is a harness and they do not show it.
static COMMAND_STDERR: OnceLock<OutputTail> = OnceLock::new();

/// Minimum time for measuring the shell itself.
const MIN_SHELL_TIME: Duration = Duration::from_millis(40);
/// Minimum number of executions for measuring the shell itself.
const MIN_SHELL_RUNS: usize = 10;

/// Whether only a shell can execute the line, because it contains shell syntax or does not begin
/// with a program.
pub fn needs_shell(line: &str) -> bool {
    let argv = shell_words::split(line).unwrap_or_default();
    has_shell_syntax(line) || argv.first().is_none_or(|program| !is_program(program))
}

/// Returns the program that executes a line, unless a shell does.
pub fn direct_program(line: &str) -> Option<PathBuf> {
    let argv = shell_words::split(line).ok().filter(|_| !needs_shell(line))?;
    argv.into_iter().next().map(PathBuf::from)
}

/// Whether the line contains shell syntax outside of single quotes.
fn has_shell_syntax(line: &str) -> bool {
    let (mut in_single, mut in_double) = (false, false);
    line.chars().any(|c| {
        in_single ^= c == '\'' && !in_double;
        in_double ^= c == '"' && !in_single;
        !in_single && SHELL_CHARACTERS.contains(c)
    })
}

/// Returns the first word of a line without shell syntax if it is neither a program nor a builtin
/// nor an assignment of the shell, so that the line cannot be executed.
pub fn unknown_command(line: &str) -> Option<String> {
    let argv = shell_words::split(line).ok().filter(|_| !has_shell_syntax(line))?;
    let word = argv.into_iter().next().filter(|word| !word.contains('='))?;
    let is_unknown = if word.contains('/') {
        resolve_program(Path::new(&word)).is_err()
    } else {
        // If there is no shell, the first run reports the error.
        let lookup = Command::new("sh").args(["-c", "command -v \"$0\"", &word]).output();
        lookup.is_ok_and(|lookup| !lookup.status.success())
    };
    is_unknown.then_some(word)
}

/// Remark on exit status 127 of a shell (POSIX, 2.8.2).
const NOT_FOUND: &str = " (command not found?)";
/// Remark on exit status 126 of a shell (POSIX, 2.8.2).
const NOT_EXECUTABLE: &str = " (command not executable?)";

/// Whether a run failed because its command could not be started.
pub fn is_not_started(cause: &FailureCause) -> bool {
    let has_remark =
        |reason: &String| [NOT_FOUND, NOT_EXECUTABLE].iter().any(|end| reason.ends_with(end));
    matches!(cause, FailureCause::Invalid { reason } if has_remark(reason))
}

/// A command line, and how it is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// A program and its arguments; never empty.
    argv: Vec<String>,
    /// Whether a shell executes it.
    pub in_shell: bool,
    /// Whether its output goes to this program's own output instead of being discarded.
    pub is_shown: bool,
    /// Whether an exit status other than 0 is a success, unless the command was not started.
    pub ignores_failure: bool,
}

impl ShellCommand {
    /// Creates the command for a line; `shell` executes it if necessary, or always with
    /// `force_shell`.
    pub fn new(line: &str, shell: &str, force_shell: bool) -> ShellCommand {
        match ShellCommand::without_shell(line) {
            Ok(command) if !force_shell && !needs_shell(line) => command,
            _ => ShellCommand::through_shell(line, &[shell.to_owned()]),
        }
    }

    /// Creates the command for a line that a shell executes. `shell` is a program, followed by its
    /// arguments.
    pub fn through_shell(line: &str, shell: &[String]) -> ShellCommand {
        let shell_arguments = ["-c".to_owned(), line.to_owned()];
        let argv = shell.iter().cloned().chain(shell_arguments).collect();
        ShellCommand { argv, in_shell: true, is_shown: false, ignores_failure: false }
    }

    /// Creates the command for a line that begins with the program to start.
    ///
    /// # Errors
    /// Fails if a quote is not closed, or the line is empty.
    pub fn without_shell(line: &str) -> anyhow::Result<ShellCommand> {
        let argv = shell_words::split(line).with_context(|| format!("in '{line}'"))?;
        ensure!(!argv.is_empty(), "an empty command cannot be executed");
        Ok(ShellCommand { argv, in_shell: false, is_shown: false, ignores_failure: false })
    }

    /// Returns the process to start. It has no input. If `is_shown` is not set, its output is
    /// discarded, except for the end of stderr in a harness.
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null());
        if !self.is_shown {
            let stderr = COMMAND_STDERR.get().and_then(|tail| tail.next_stream().ok());
            command.stdout(Stdio::null()).stderr(stderr.unwrap_or_else(Stdio::null));
        }
        command
    }

    /// Executes the command in a process group of its own, so that [`ProcessStopwatch::stop`] kills
    /// all of its processes.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
    pub fn time_execution(&self, stopwatch: &ProcessStopwatch) -> io::Result<TimedExecution> {
        stopwatch.time_process(self.to_command().process_group(0))
    }

    /// Executes the command once without timing. `Err` describes the failure.
    pub fn execute_once(&self, stopwatch: &ProcessStopwatch) -> Result<(), String> {
        match self.time_execution(stopwatch) {
            Ok(timed) => self.report_failure(timed.ended).map_or(Ok(()), Err),
            Err(error) => Err(format!("'{}': {error}", self.argv[0])),
        }
    }

    /// Describes how the command failed, if it did and failures count. Repeats the end of its
    /// stderr on our own, which Speedwell reads.
    fn report_failure(&self, ended: ProcessEnd) -> Option<String> {
        let is_started = !matches!(ended, ProcessEnd::Exit(126 | 127));
        let failure = describe_failure(ended).filter(|_| !(self.ignores_failure && is_started))?;
        if let Some(tail) = COMMAND_STDERR.get().filter(|_| !self.is_shown) {
            let _ = io::stderr().write_all(&tail.last_output());
        }
        Some(failure)
    }
}

/// Describes how a command failed, if it did.
pub fn describe_failure(ended: ProcessEnd) -> Option<String> {
    let remark = match ended {
        ProcessEnd::Exit(0) => return None,
        ProcessEnd::Exit(126) => NOT_EXECUTABLE,
        ProcessEnd::Exit(127) => NOT_FOUND,
        _ => "",
    };
    Some(format!("{ended}{remark}"))
}

/// Times executions of an empty line in a shell: at least `min_runs` executions, for at least
/// `min_time`. `shell` is a program, followed by its arguments.
///
/// # Errors
/// Fails if there is no such shell.
pub fn time_empty_line(
    shell: &[String],
    min_runs: usize,
    min_time: Duration,
) -> io::Result<Vec<TimedExecution>> {
    let (empty, stopwatch) = (ShellCommand::through_shell("", shell), ProcessStopwatch::default());
    let begin = Instant::now();
    let mut executions = Vec::new();
    while executions.len() < min_runs || begin.elapsed() < min_time {
        executions.push(stopwatch.time_process(&mut empty.to_command())?);
    }
    Ok(executions)
}

/// Cost of an empty command in the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellCost {
    /// Median wall time, in nanoseconds.
    pub wall_ns: u64,
    /// Median processor time in user and kernel mode, in nanoseconds.
    pub cpu_ns: u64,
    /// Interquartile range of the processor time, in nanoseconds.
    pub cpu_spread_ns: u64,
}

impl ShellCost {
    /// Measures the cost; by a single execution in a rehearsal.
    ///
    /// # Errors
    /// Fails if there is no such shell.
    pub fn measure_shell(shell: &str, is_rehearsal: bool) -> io::Result<ShellCost> {
        let (min_runs, min_time) =
            if is_rehearsal { (1, Duration::ZERO) } else { (MIN_SHELL_RUNS, MIN_SHELL_TIME) };
        let executions = time_empty_line(&[shell.to_owned()], min_runs, min_time)?;
        let walls = executions.iter().map(|timed| timed.wall_ns).collect();
        let cpus = executions.iter().map(|timed| timed.usage.cpu_ns()).collect();
        Ok(ShellCost::from_times(walls, cpus))
    }

    /// Computes the cost from the times of executions of an empty command; there must be at least
    /// one.
    fn from_times(mut walls: Vec<u64>, mut cpus: Vec<u64>) -> ShellCost {
        walls.sort_unstable();
        cpus.sort_unstable();
        let quartile = |numerator: usize| cpus[(cpus.len() - 1) * numerator / 4];
        ShellCost {
            wall_ns: walls[walls.len() / 2],
            cpu_ns: cpus[cpus.len() / 2],
            cpu_spread_ns: quartile(3) - quartile(1),
        }
    }

    /// Subtracts the shell's processor time from the processor time of a command. Returns `None` if
    /// the difference is within the variation of the shell's own time. Such a difference is noise,
    /// often zero or less, and cannot be compared.
    pub fn subtract_from(&self, cpu_ns: f64) -> Option<f64> {
        let difference_ns = cpu_ns - self.cpu_ns as f64;
        (difference_ns > self.cpu_spread_ns as f64 && difference_ns > 0.0).then_some(difference_ns)
    }
}

/// Whether a word names a program instead of a shell builtin.
fn is_program(word: &str) -> bool {
    if word.contains('/') {
        return PathBuf::from(word).is_file();
    }
    find_in_path(word).is_some()
}

/// Message to the control thread.
enum ControlMessage {
    /// Command from Speedwell.
    Command(ProtocolMessage),
    /// Speedwell has closed the channel.
    End,
    /// The worker with this index has passed a deadline. Contains the time, and the number of
    /// executions until then.
    Point(usize, (u64, u64)),
    /// The worker with this index has finished.
    Back(usize, Box<WorkerReport>),
}

/// What all workers of a job execute.
#[derive(Debug)]
struct ExecutionTask {
    /// The measured command.
    order: ShellCommand,
    /// Command executed untimed before each execution.
    prepare: Option<ShellCommand>,
    /// Cost of the shell itself in each execution, if a shell executes the command.
    shell: Option<ShellCost>,
}

/// How a run is divided into samples.
#[derive(Debug, Clone, Copy)]
enum RunDivision {
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
struct SharedRun {
    /// Common start.
    epoch: Instant,
    division: RunDivision,
    /// Number of workers that have not recorded all their points. All workers continue until this
    /// number is zero.
    unfinished: AtomicUsize,
    /// Set to stop all workers.
    is_over: AtomicBool,
}

/// Report of one worker.
#[derive(Debug, Default)]
struct WorkerReport {
    /// For each deadline: the time since the epoch, without unmeasured time, and the number of
    /// executions until then.
    points: Vec<(u64, u64)>,
    /// Times of executions after the warm-up.
    times: RecordedTimes,
    /// User time of the same executions.
    user_ns: u64,
    /// Kernel time of the same executions.
    system_ns: u64,
    /// Largest resident set of the same executions.
    max_rss_bytes: u64,
    /// Greatest delay of a point after its deadline.
    late_ns: u64,
    /// How the measured command or its preparation failed.
    failure: Option<String>,
}

/// Executes the command repeatedly, as one of the workers of a run. Returns when all workers have
/// enough points, when the run is stopped, or when this worker's command fails. `on_point` receives
/// every point.
fn run_worker(
    work: &ExecutionTask,
    shared: &SharedRun,
    stopwatch: &ProcessStopwatch,
    on_point: &dyn Fn((u64, u64)),
) -> WorkerReport {
    let deadline_ns = match shared.division {
        RunDivision::Windows { interval_ns, warmup_ns: 0, .. } => interval_ns,
        RunDivision::Windows { warmup_ns, .. } => warmup_ns,
        RunDivision::Executions(_) => 0,
    };
    let report = WorkerReport::default();
    let mut worker = RunningWorker {
        shared,
        report,
        unmeasured_ns: 0,
        count: 0,
        deadline_ns,
        is_finished: false,
    };
    if let RunDivision::Windows { warmup_ns: 0, .. } = shared.division {
        worker.report.points.push((0, 0));
        on_point((0, 0));
    }
    while !shared.is_over.load(Ordering::SeqCst) {
        match worker.execute_prepared(work, stopwatch) {
            Ok(Some(timed)) => worker.record_execution(timed).into_iter().for_each(on_point),
            Ok(None) => break,
            Err(reason) => {
                worker.report.failure = Some(reason);
                break;
            }
        }
        if worker.has_all_points() {
            worker.finish();
            if shared.unfinished.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    }
    worker.finish();
    if let RunDivision::Executions(_) = shared.division {
        // Without deadlines, a single point gives the length of the sample.
        let point = (worker.measured_ns(), worker.count);
        worker.report.points.push(point);
    }
    worker.report
}

/// A worker and its progress.
struct RunningWorker<'a> {
    shared: &'a SharedRun,
    report: WorkerReport,
    /// Time spent on unmeasured work.
    unmeasured_ns: u64,
    count: u64,
    deadline_ns: u64,
    is_finished: bool,
}

impl RunningWorker<'_> {
    /// Performs one execution with its preparation; `None` if it was stopped.
    fn execute_prepared(
        &mut self,
        work: &ExecutionTask,
        stopwatch: &ProcessStopwatch,
    ) -> Result<Option<TimedExecution>, String> {
        if let Some(prepare) = &work.prepare {
            let begin = Instant::now();
            let prepared = prepare.execute_once(stopwatch);
            self.unmeasured_ns += begin.elapsed().as_nanos() as u64;
            if stopwatch.is_stopped() {
                return Ok(None);
            }
            prepared.map_err(|reason| format!("failed in prepare: {reason}"))?;
        }
        let outcome = work.order.time_execution(stopwatch);
        if stopwatch.is_stopped() {
            return Ok(None);
        }
        let timed = outcome.map_err(|error| format!("could not be started: {error}"))?;
        work.order.report_failure(timed.ended).map_or(Ok(Some(timed)), Err)
    }

    /// Records an execution. Returns the point if it passed a deadline.
    fn record_execution(&mut self, timed: TimedExecution) -> Option<(u64, u64)> {
        self.count += 1;
        let division = self.shared.division;
        let report = &mut self.report;
        let is_warm = !report.points.is_empty() || matches!(division, RunDivision::Executions(_));
        if is_warm && !self.is_finished {
            report.times.add(timed.wall_ns);
            report.user_ns += timed.usage.user_ns;
            report.system_ns += timed.usage.system_ns;
            report.max_rss_bytes = report.max_rss_bytes.max(timed.usage.max_rss_bytes);
        }
        let RunDivision::Windows { interval_ns, warmup_ns, samples } = division else {
            return None;
        };
        let now_ns = self.measured_ns();
        if now_ns < self.deadline_ns || self.report.points.len() as u64 > samples {
            return None;
        }
        self.report.late_ns = self.report.late_ns.max(now_ns - self.deadline_ns);
        self.report.points.push((now_ns, self.count));
        let finished_windows = (now_ns - warmup_ns) / interval_ns;
        self.deadline_ns = warmup_ns + (finished_windows + 1) * interval_ns;
        Some((now_ns, self.count))
    }

    /// Time since the epoch without unmeasured time.
    fn measured_ns(&self) -> u64 {
        let elapsed_ns = self.shared.epoch.elapsed().as_nanos() as u64;
        elapsed_ns.saturating_sub(self.unmeasured_ns)
    }

    fn has_all_points(&self) -> bool {
        match self.shared.division {
            RunDivision::Windows { samples, .. } => self.report.points.len() as u64 > samples,
            RunDivision::Executions(count) => self.count >= count,
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.shared.unfinished.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A worker to be started.
struct WorkerSlot {
    /// Index of its job in the run.
    job: usize,
    /// What the worker executes.
    work: Arc<ExecutionTask>,
    /// Stopwatch of its processes.
    stopwatch: Arc<ProcessStopwatch>,
}

/// Progress of all workers of a job when the last of them passed a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobProgress {
    /// Index of the job in the run.
    job: usize,
    /// Index of the deadline, from 0.
    k: usize,
    /// Time at which the last worker passed the deadline.
    t_ns: u64,
    /// Executions of all workers.
    count: u64,
    workers: usize,
}

/// The running workers.
struct WorkerPool {
    slots: Vec<WorkerSlot>,
    shared: Arc<SharedRun>,
    points: Vec<Vec<(u64, u64)>>,
    passed_deadlines: Vec<usize>,
    finished_reports: Vec<Option<WorkerReport>>,
}

impl WorkerPool {
    /// Starts a thread for every slot. A message is sent through `sender` when a worker finishes
    /// and, if `streams`, for every point.
    fn start(
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

    /// Records that a worker has passed a deadline. If it was the last of its job, returns the
    /// job's progress.
    fn record_point(&mut self, index: usize, point: (u64, u64)) -> Option<JobProgress> {
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
    fn stop_all(&self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.slots.iter().for_each(|slot| slot.stopwatch.stop());
    }

    /// Returns the reports of the workers, grouped by job.
    fn reports(self, jobs: usize) -> Vec<Vec<WorkerReport>> {
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
#[derive(Debug, Clone, Default)]
struct RecordedTimes {
    /// Every time whose index is a multiple of 2^`halvings`.
    sampled: Vec<u64>,
    halvings: u32,
    /// Number of all recorded times, including dropped ones.
    count: u64,
}

impl RecordedTimes {
    /// Records a time.
    fn add(&mut self, ns: u64) {
        if self.count.is_multiple_of(1 << self.halvings) {
            self.sampled.push(ns);
        }
        self.count += 1;
        if self.sampled.len() == MAX_KEPT_TIMES {
            self.halve();
        }
    }

    /// Adds the times of another worker or sample.
    fn merge(&mut self, other: &RecordedTimes) {
        while self.halvings < other.halvings {
            self.halve();
        }
        let step = 1 << (self.halvings - other.halvings);
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
        self.halvings += 1;
    }

    /// Minimum, 5%, 25% and 50% quantiles in picoseconds; empty if no times were recorded.
    fn quantiles_ps(&self) -> Vec<String> {
        let mut sorted = self.sampled.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
        let quantile_ps = |fraction: f64| sorted[(fraction * last as f64).round() as usize] * 1000;
        [0.0, 0.05, 0.25, 0.5].map(|fraction| quantile_ps(fraction).to_string()).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_started_only_if_the_command_needs_one() {
        for plain in ["sleep 1", "ls -l 'a b'", "/bin/true", "ls '*|$x' b=1"] {
            assert!(!needs_shell(plain), "{plain}");
            assert!(!ShellCommand::new(plain, "sh", false).in_shell, "{plain}");
        }
        for line in
            ["sleep 1 | cat", "A=1 ls", "cd", "nothing-of-that-name", "ls *", "echo $HOME", "ls 'a"]
        {
            assert!(needs_shell(line), "{line}");
        }
        assert!(needs_shell("ls \"'\" *") && needs_shell("ls 'a' $b"));
        assert_eq!(direct_program("sleep 1"), Some("sleep".into()));
        assert_eq!(direct_program("sleep 1 | cat"), None);
        assert!(ShellCommand::new("sleep 1", "bash", true).in_shell);
    }

    #[test]
    fn a_command_is_unknown_if_neither_a_program_nor_a_builtin_has_its_name() {
        for known in ["sleep 1", "/bin/true", "cd", "A=1 nothing-of-that-name", "{x} a"] {
            assert_eq!(unknown_command(known), None, "{known}");
        }
        for unknown in ["nothing-of-that-name -x", "/bin", "./nothing.py"] {
            assert_eq!(unknown_command(unknown).as_deref(), unknown.split(' ').next());
        }
    }

    #[test]
    fn shell_cost_is_subtracted_only_from_times_beyond_its_spread() {
        let shell = ShellCost::from_times(vec![3, 1, 2], vec![900, 1_000, 1_100, 1_050, 950]);
        assert_eq!((shell.wall_ns, shell.cpu_ns, shell.cpu_spread_ns), (2, 1_000, 100));
        assert_eq!(shell.subtract_from(5_000.0), Some(4_000.0));
        for noise in [1_100.0, 1_000.0, 700.0] {
            assert_eq!(shell.subtract_from(noise), None, "{noise}");
        }
        let alike = ShellCost::from_times(vec![1], vec![1_000]);
        assert_eq!(alike.subtract_from(1_000.0), None, "never zero");
    }
}

#[cfg(test)]
mod worker_tests {
    use super::*;

    #[test]
    fn quantiles_stay_when_only_some_times_are_kept() {
        let mut times = RecordedTimes::default();
        for ns in 0..1_000_000 {
            times.add(ns);
        }
        assert_eq!(times.count, 1_000_000);
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
        assert_eq!(all.count, 1_075_000);
        // 75,000 times are below 3000 ns. The other 1,000,000 are spread evenly from 3000 to 4000
        // ns, and the median is the 462,500th of them.
        let median: f64 = all.quantiles_ps()[3].parse().unwrap();
        assert!((median / 1000.0 - 3462.5).abs() < 5.0, "{median}");
        assert_eq!(all.quantiles_ps()[0], "0");
    }
}
