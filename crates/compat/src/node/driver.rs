//! Provides what the drop-ins for `run.js`, `compare.js`, `scatter.js` and `calibrate-n.js` have in
//! common while they measure: they follow a session, assign results to scripts, and report failures.
//!
//! Decides the exit status and the order of messages on standard error. Each drop-in owns one
//! [`NodeDriver`], and decides for itself how to write results. The test of
//! [`NodeProgress::format_line`] shows examples of the progress line of `compare.js`.

use crate::console::{DropInConsole, EXIT_INTERRUPTED, ParsedArguments};
use anyhow::Result;
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::MeasuredRate;
use speedwell_model::{FailureCause, Metric, Run, SessionEvent, SessionStep, StepFailure};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// State of a drop-in while it follows a session.
pub struct NodeDriver<'a> {
    tool: &'static str,
    /// Output for results.
    pub out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    terminal: Option<Box<dyn Write + Send>>,
    progress: Option<ProgressLine>,
    /// Finds the script to which an event belongs.
    pub scripts: ScriptNames,
    /// Failures so far.
    pub failures: ChildFailures,
    /// Scripts with their numbers of cases, if known.
    planned: Vec<(String, Option<usize>)>,
    /// Scripts with a result or a reported failure.
    reported: HashSet<String>,
    /// Number of executions of each case: runs times variants.
    passes: usize,
    /// Whether several programs are compared.
    has_several_programs: bool,
}

impl<'a> NodeDriver<'a> {
    /// Creates a driver that prints on `console`. If `shows_progress` is set and the console
    /// permits it, there is a progress line.
    pub fn new(
        tool: &'static str,
        request: &ScriptsRequest,
        console: &'a mut DropInConsole<'_>,
        shows_progress: bool,
    ) -> NodeDriver<'a> {
        NodeDriver {
            tool,
            out: &mut *console.stdout,
            err: &mut *console.stderr,
            terminal: console.progress.take_if(|_| shows_progress),
            progress: None,
            scripts: ScriptNames {
                names: request.scripts.iter().map(|script| script.name.clone()).collect(),
                ..ScriptNames::default()
            },
            failures: ChildFailures::default(),
            planned: Vec::new(),
            reported: HashSet::new(),
            passes: request.runs as usize * request.variants.len(),
            has_several_programs: request.variants.len() > 1,
        }
    }

    /// Handles an event in the way that is common to all drop-ins: updates the progress line, and
    /// reports failures.
    ///
    /// # Errors
    /// Fails if a stream is closed.
    pub fn handle_event(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        match event {
            SessionEvent::Planned { benchmark, cases } => {
                self.planned.push(((*benchmark).to_owned(), *cases));
            }
            SessionEvent::Started { .. } => {
                if let Some(terminal) = self.terminal.take() {
                    let progress = NodeProgress::new(&self.planned, self.passes);
                    self.progress = Some(ProgressLine::start(progress, terminal));
                }
            }
            SessionEvent::RunStarted { slot, label, .. } => {
                if let Some(script) = self.scripts.record_slot(*slot, label)
                    && let Some(line) = &self.progress
                {
                    line.update(|progress| progress.start_case(script));
                }
            }
            SessionEvent::RunFinished(run) => {
                let script = self.scripts.script_of_run(run).to_owned();
                self.complete_case(&script);
                self.reported.insert(script);
            }
            SessionEvent::Failed(failure) => self.report_failure(failure)?,
            SessionEvent::Finished { interrupted } => self.finish_session(*interrupted)?,
            _ => {}
        }
        Ok(())
    }

    /// Writes a message on standard error.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn print_message(&mut self, message: &str) -> io::Result<()> {
        self.clear_progress();
        writeln!(self.err, "{}: {message}", self.tool)
    }

    /// Warns if the command line contains the word `test`, which has a meaning only for `run.js`.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn warn_about_test(&mut self, arguments: &ParsedArguments<'_>) -> io::Result<()> {
        if arguments.has("test") {
            self.print_message("warning: the word 'test' has no effect here")?;
        }
        Ok(())
    }

    /// Reports that an analysis was requested but no case has a result.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn report_no_results(&mut self) -> io::Result<()> {
        self.print_message("nothing to analyse: no case has a result")?;
        self.failures.record_other_error();
        Ok(())
    }

    /// Clears the progress line, so that a message can be printed in its place.
    fn clear_progress(&self) {
        if let Some(line) = &self.progress {
            let _ = write!(lock_shared(&line.shared).out, "{CLEAR_LINE}");
        }
    }

    fn complete_case(&self, script: &str) {
        if let Some(line) = &self.progress {
            line.update(|progress| progress.complete_case(script));
        }
    }

    fn report_failure(&mut self, failure: &StepFailure) -> Result<()> {
        self.clear_progress();
        self.failures.report(self.tool, failure, self.has_several_programs, self.err)?;
        let script = self.scripts.script_of_step(failure.slot, &failure.benchmark).to_owned();
        if failure.step != SessionStep::Describe {
            self.complete_case(&script);
        }
        self.reported.insert(script);
        Ok(())
    }

    fn finish_session(&mut self, interrupted: bool) -> Result<()> {
        self.failures.interrupted = interrupted;
        if let Some(line) = self.progress.take()
            && !interrupted
        {
            line.update(|progress| progress.finished = true);
        }
        for (script, cases) in std::mem::take(&mut self.planned) {
            if cases == Some(0) && !self.reported.contains(&script) {
                self.print_message(&format!("warning: '{script}' has no cases"))?;
            }
        }
        Ok(())
    }
}

/// Returns the throughput samples of a run. Node.js core's scripts print one row for each sample.
pub fn throughput_samples(run: &Run) -> impl Iterator<Item = MeasuredRate> {
    let samples = run.samples.iter().filter(|sample| &*sample.metric == Metric::THROUGHPUT);
    samples.map(|sample| MeasuredRate { rate: sample.value, elapsed_ns: sample.elapsed_ns })
}

/// Names of the scripts of a request, and which script each started slot (planned run) executes.
#[derive(Debug, Clone, Default)]
pub struct ScriptNames {
    /// In the order of the request.
    names: Vec<String>,
    script_by_slot: HashMap<u32, usize>,
}

impl ScriptNames {
    /// Records which script a slot executes, according to `label`, the label of its run. Returns
    /// the name of the script; `None` if no script matches.
    pub fn record_slot(&mut self, slot: u32, label: &str) -> Option<&str> {
        let script = self.find_script(label)?;
        self.script_by_slot.insert(slot, script);
        Some(&self.names[script])
    }

    /// Returns the name of the script that a run executed. If the script is unknown, returns the
    /// name that the run reports.
    pub fn script_of_run<'a>(&'a self, run: &'a Run) -> &'a str {
        self.script_of_step(Some(run.slot), &run.case.benchmark)
    }

    /// Returns the name of the script of a step, or `benchmark` if the script is unknown.
    pub fn script_of_step<'a>(&'a self, slot: Option<u32>, benchmark: &'a str) -> &'a str {
        let started_script = slot.and_then(|slot| self.script_by_slot.get(&slot).copied());
        let script = started_script.or_else(|| self.find_script(benchmark));
        script.map_or(benchmark, |script| &self.names[script])
    }

    fn find_script(&self, label: &str) -> Option<usize> {
        self.names.iter().position(|name| {
            let suffix = label.strip_prefix(name.as_str());
            suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with([' ', '/']))
        })
    }
}

/// Exit status after a timeout. `timeout(1)` uses the same status.
const TIMED_OUT: i32 = 124;

/// Failures so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildFailures {
    first: Option<i32>,
    interrupted: bool,
}

impl ChildFailures {
    /// Records a failure (unless the case was only skipped), and writes what happened and how to
    /// reproduce it. If `names_variant` is set, the message names the variant.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn report(
        &mut self,
        tool: &str,
        failure: &StepFailure,
        names_variant: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let name = failure.case.as_deref().unwrap_or(&failure.benchmark);
        let variant = match &failure.variant {
            Some(variant) if names_variant => format!(" ({variant})"),
            _ => String::new(),
        };
        writeln!(out, "{tool}: '{name}'{variant}: {}", failure.cause)?;
        for line in failure.stderr_tail.lines() {
            writeln!(out, "  | {line}")?;
        }
        if !failure.replay.is_empty() {
            writeln!(out, "  hint: repeat it with: {}", failure.replay)?;
        }
        if !failure.cause.is_skip() {
            self.first.get_or_insert(cause_status(&failure.cause));
        }
        Ok(())
    }

    /// Records an error other than a failed process.
    pub fn record_other_error(&mut self) {
        self.first.get_or_insert(1);
    }

    /// Returns the exit status of the drop-in.
    pub fn exit_status(&self) -> i32 {
        if self.interrupted { EXIT_INTERRUPTED } else { self.first.unwrap_or(0) }
    }
}

fn cause_status(cause: &FailureCause) -> i32 {
    match cause {
        FailureCause::Exit { code } if *code != 0 => *code,
        FailureCause::Signal { signal } => 128 + signal,
        FailureCause::Timeout { .. } => TIMED_OUT,
        _ => 1,
    }
}

/// Clears the line and moves the cursor to its beginning (ECMA-48: EL 2, CHA 1).
const CLEAR_LINE: &str = "\x1b[2K\x1b[1G";

/// Progress of a request.
#[derive(Debug, Clone)]
pub struct NodeProgress {
    scripts: Vec<PlannedScript>,
    /// Number of executions of each case: runs times variants.
    passes: usize,
    current: usize,
    finished: bool,
}

/// A script, its number of cases, and the number of executions so far.
#[derive(Debug, Clone)]
struct PlannedScript {
    name: String,
    cases: usize,
    done: usize,
}

impl NodeProgress {
    /// Creates the progress before the first run. The number of cases is `None` for scripts that
    /// could not be planned; `passes` is the number of executions of each case.
    pub fn new(scripts: &[(String, Option<usize>)], passes: usize) -> NodeProgress {
        let planned = |(name, cases): &(String, Option<usize>)| PlannedScript {
            name: name.clone(),
            cases: cases.unwrap_or(0),
            done: 0,
        };
        let scripts = scripts.iter().map(planned).collect();
        NodeProgress { scripts, passes, current: 0, finished: false }
    }

    /// Records that a case of `script` has started.
    pub fn start_case(&mut self, script: &str) {
        if let Some(index) = self.scripts.iter().position(|planned| planned.name == script) {
            self.current = index;
        }
    }

    /// Records that a case of `script` was executed once, successfully or not.
    pub fn complete_case(&mut self, script: &str) {
        self.start_case(script);
        if let Some(planned) = self.scripts.get_mut(self.current) {
            planned.done = (planned.done + 1).min(planned.cases * self.passes);
        }
    }

    /// Formats the line at a time `elapsed` after the start.
    pub fn format_line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_nanos().div_ceil(1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let files = self.scripts.len();
        let is_complete = |(index, script): &(usize, &PlannedScript)| {
            let has_ended = script.cases > 0 || *index < self.current || self.finished;
            has_ended && script.done >= script.cases * self.passes
        };
        let files_done = self.scripts.iter().enumerate().filter(is_complete).count();
        let current = self.scripts.get(self.current);
        let (executions, cases, name) =
            current.map_or((0, 0, ""), |script| (script.done, script.cases, &*script.name));
        let runs_done = if self.finished { self.passes } else { executions / cases.max(1) };
        // Passes over all cases of a script, including the completed fraction of the current pass.
        let passes = |script: &PlannedScript| script.done as f64 / script.cases.max(1) as f64;
        let passes_done: f64 = self.scripts.iter().map(passes).sum();
        let fraction =
            if self.finished { 1.0 } else { passes_done / (files * self.passes).max(1) as f64 };
        // The addend exceeds the rounding errors, which could otherwise lower 50 % to 49 %.
        let percent = (fraction * 100.0 + 1e-9).floor();
        format!(
            "[{hours:02}:{minutes:02}:{:02}|% {percent:>3}| {} files | {} runs | {} configs]: {} ",
            seconds % 60,
            format_fraction(files_done, files),
            format_fraction(runs_done, self.passes),
            format_fraction(executions % cases.max(1), cases),
            if self.finished { "Done\n" } else { name },
        )
    }
}

fn format_fraction(part: usize, total: usize) -> String {
    let total_text = total.to_string();
    format!("{part:>width$}/{total_text}", width = total_text.len())
}

/// Progress line on a terminal.
pub struct ProgressLine {
    shared: Arc<Mutex<SharedProgress>>,
    stop: Sender<()>,
    ticker: Option<JoinHandle<()>>,
}

struct SharedProgress {
    progress: NodeProgress,
    started: Instant,
    out: Box<dyn Write + Send>,
}

impl SharedProgress {
    fn draw_line(&mut self) -> io::Result<()> {
        let line = self.progress.format_line(self.started.elapsed());
        write!(self.out, "{CLEAR_LINE}{line}")?;
        self.out.flush()
    }
}

impl ProgressLine {
    /// Shows `progress` on `out`, and redraws it every second.
    pub fn start(progress: NodeProgress, out: Box<dyn Write + Send>) -> ProgressLine {
        let shared =
            Arc::new(Mutex::new(SharedProgress { progress, started: Instant::now(), out }));
        let (stop, stopped) = mpsc::channel();
        let ticker_shared = shared.clone();
        let ticker = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                // If the terminal is gone, measuring continues.
                let _ = lock_shared(&ticker_shared).draw_line();
            }
        });
        ProgressLine { shared, stop, ticker: Some(ticker) }
    }

    /// Changes the progress and redraws it.
    pub fn update(&self, change: impl FnOnce(&mut NodeProgress)) {
        let mut shared = lock_shared(&self.shared);
        change(&mut shared.progress);
        let _ = shared.draw_line();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

/// Locks the state, even if it is poisoned: a panic of another thread leaves the state consistent.
fn lock_shared(shared: &Mutex<SharedProgress>) -> MutexGuard<'_, SharedProgress> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Case, SessionStep};

    fn run(slot: u32, benchmark: &str) -> Run {
        Run::empty(Case::new(benchmark, Vec::new()), "old", slot, 0)
    }

    #[test]
    fn a_result_belongs_to_the_script_whatever_name_it_carries() {
        let mut names = ScriptNames {
            names: ["http/server.js", "napi/string"].map(str::to_owned).into(),
            ..ScriptNames::default()
        };
        assert_eq!(names.record_slot(3, "http/server.js n=1"), Some("http/server.js"));
        assert_eq!(names.script_of_run(&run(3, "http/_client.js")), "http/server.js");
        assert_eq!(names.script_of_run(&run(4, "napi/string/index.js")), "napi/string");
        assert_eq!(names.script_of_run(&run(5, "napi/strings.js")), "napi/strings.js");
    }

    fn failure(cause: FailureCause) -> StepFailure {
        StepFailure {
            step: SessionStep::Run,
            benchmark: "zz/a.js".into(),
            case: Some("zz/a.js n=1".into()),
            variant: Some("old".into()),
            slot: None,
            cause,
            stderr_tail: "Error: no\n    at main".into(),
            replay: "node a.js n=1".into(),
        }
    }

    fn status_after(causes: Vec<FailureCause>) -> i32 {
        let mut failures = ChildFailures::default();
        for cause in causes {
            failures.report("run.js", &failure(cause), true, &mut Vec::new()).unwrap();
        }
        failures.exit_status()
    }

    #[test]
    fn the_first_failure_decides_the_exit_status() {
        let exit = |code| FailureCause::Exit { code };
        assert_eq!(status_after(vec![]), 0);
        assert_eq!(status_after(vec![exit(3), exit(4)]), 3);
        assert_eq!(status_after(vec![FailureCause::Timeout { limit_ms: 5 }, exit(4)]), 124);
        assert_eq!(status_after(vec![FailureCause::Start { reason: "no".into() }]), 1);
    }

    #[test]
    fn a_child_killed_by_a_signal_gives_status_128_plus_the_signal() {
        assert_eq!(status_after(vec![FailureCause::Signal { signal: 9 }]), 137);
    }

    #[test]
    fn a_child_that_reports_nothing_fails() {
        assert_eq!(status_after(vec![FailureCause::Silent]), 1);
    }

    #[test]
    fn a_skipped_benchmark_does_not_fail() {
        assert_eq!(status_after(vec![FailureCause::Skipped { reason: "no addon".into() }]), 0);
    }

    #[test]
    fn the_message_names_case_variant_and_how_to_repeat_it() {
        let mut out = Vec::new();
        let mut failures = ChildFailures::default();
        failures
            .report("run.js", &failure(FailureCause::Signal { signal: 9 }), true, &mut out)
            .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "run.js: 'zz/a.js n=1' (old): was killed by signal 9 (SIGKILL)\n  | Error: no\n  |     \
             at main\n  hint: repeat it with: node a.js n=1\n"
        );
    }

    fn progress() -> NodeProgress {
        let script = |name: &str, cases| (name.to_owned(), Some(cases));
        NodeProgress::new(&[script("url/a.js", 12), script("url/b.js", 3)], 60)
    }

    #[test]
    fn the_progress_line_matches_the_original() {
        let mut progress = progress();
        progress.start_case("url/a.js");
        assert_eq!(
            progress.format_line(Duration::ZERO),
            "[00:00:00|%   0| 0/2 files |  0/60 runs |  0/12 configs]: url/a.js "
        );
        for _ in 0..12 * 5 + 7 {
            progress.complete_case("url/a.js");
        }
        assert_eq!(
            progress.format_line(Duration::from_millis(3_661_200)),
            "[01:01:02|%   4| 0/2 files |  5/60 runs |  7/12 configs]: url/a.js "
        );
        for _ in 0..12 * 60 {
            progress.complete_case("url/a.js");
        }
        progress.complete_case("url/b.js");
        assert_eq!(
            progress.format_line(Duration::from_secs(7)),
            "[00:00:07|%  50| 1/2 files |  0/60 runs | 1/3 configs]: url/b.js "
        );
        for _ in 1..3 * 60 {
            progress.complete_case("url/b.js");
        }
        progress.finished = true;
        assert_eq!(
            progress.format_line(Duration::from_secs(8)),
            "[00:00:08|% 100| 2/2 files | 60/60 runs | 0/3 configs]: Done\n "
        );
    }

    #[test]
    fn the_line_is_rewritten_at_every_event() {
        #[derive(Clone, Default)]
        struct Terminal(Arc<Mutex<Vec<u8>>>);
        impl Write for Terminal {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let terminal = Terminal::default();
        let line = ProgressLine::start(progress(), Box::new(terminal.clone()));
        line.update(|progress| progress.start_case("url/b.js"));
        line.update(|progress| progress.finished = true);
        drop(line);
        let output = String::from_utf8(terminal.0.lock().unwrap().clone()).unwrap();
        assert_eq!(output.matches(CLEAR_LINE).count(), 2);
        assert!(output.contains("]: url/b.js ") && output.ends_with("]: Done\n "), "{output:?}");
    }
}
