//! `eval --watch`: prints throughput, the runtime's own gauges, and the machine's load, one line
//! per second or per interval of `--time`.
//!
//! Lines are data: they go to standard output as text, CSV or JSON. Start at [`run`].

use crate::options::{EvalArgs, join_lines};
use crate::{CommandStatus, status};
use anyhow::{Context, bail, ensure};
use speedwell_adapters::snippet::{CommandAnswer, HarnessFailure, LiveHarness};
use speedwell_adapters::{self as adapters, BenchmarkJob, ProtocolMessage};
use speedwell_engine::PreparedPlan;
use speedwell_engine::eval::{EvalRequest, plan_snippets};
use speedwell_machine::environment::ProcessWatch;
use speedwell_machine::process;
use speedwell_model::{SampleDivision, SampleLength, Variant};
use speedwell_report::{ReportFormat, WatchLine, WatchLines};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Default length of a window.
const DEFAULT_WINDOW: Duration = Duration::from_secs(1);

/// Watches until the user interrupts, or until the requested number of lines is printed.
///
/// # Errors
/// Fails if an option conflicts with watching, or the output cannot be written.
pub fn run(args: &EvalArgs, request: EvalRequest) -> anyhow::Result<CommandStatus> {
    ensure!(
        args.sampling.iterations.is_none(),
        "--watch measures time windows, so --iterations has no effect\nhint: -t 2s sets the length of a window"
    );
    ensure!(
        !args.variants.is_any(),
        "--watch measures a single program\nhint: leave out --variant, --old and --new, or --watch"
    );
    let interval = args.sampling.time.unwrap_or(DEFAULT_WINDOW);
    let samples = SampleDivision {
        count: args.sampling.samples.unwrap_or(u32::MAX),
        length: SampleLength::TimeNs(interval.as_nanos() as u64),
        warmup_ns: args.sampling.warmup_ns().unwrap_or(0),
    };
    let PreparedPlan { plan, .. } =
        plan_snippets(request, &mut args.eval_task().progress_display())?;
    if let Some(pin) = &plan.pin {
        pin.check_usable().context("in --pin")?;
    }
    let snippets = watched_snippets(&plan.jobs, &plan.variants);
    if snippets.len() > 1 && args.language().is_compiled() {
        bail!(
            "{} is compiled, so each snippet is a separate program, but --watch measures a single one\n\
             hint: give one snippet",
            args.language()
        );
    }
    let format = args.results.output.output_format().unwrap_or(ReportFormat::Text);
    match watch_snippets(&snippets, &plan.jobs[0], &samples, interval, format) {
        Ok(written) => written.map(|()| CommandStatus::DONE),
        Err(failure) => {
            warn_failure(&failure, &plan.jobs[0], &plan.variants[0]);
            Ok(CommandStatus::FAILED)
        }
    }
}

/// Lists every snippet with its name and worker count.
fn watched_snippets(jobs: &[BenchmarkJob], variants: &[Variant]) -> Vec<WatchedSnippet> {
    let mut snippets = Vec::new();
    for job in jobs {
        let workers = job.worker_count();
        match &job.snippet {
            Some(snippet) => snippets.push((join_lines(&snippet.runner), snippet.clone(), workers)),
            None => snippets.extend(variants.iter().filter_map(|variant| {
                let snippet = variant.snippet.clone()?;
                Some((variant.name.clone(), snippet, workers))
            })),
        }
    }
    snippets
}

/// A snippet with its name and worker count.
type WatchedSnippet = (String, speedwell_model::Snippet, u32);

/// Watches until all requested samples are taken or standard output is closed. The outer result is
/// an error if the measured process fails, the inner result if a line cannot be written.
fn watch_snippets(
    snippets: &[WatchedSnippet],
    job: &BenchmarkJob,
    samples: &SampleDivision,
    interval: Duration,
    format: ReportFormat,
) -> Result<anyhow::Result<()>, HarnessFailure> {
    let names: Vec<String> = (0..snippets.len()).map(|index| format!("code{index}")).collect();
    let (mut live, gauges, first) = open_process(snippets, &names, job, interval)?;
    let snippet_names = snippets.iter().map(|snippet| snippet.0.clone()).collect();
    let mut state = WatchState {
        process_watch: Some(ProcessWatch::new(live.pid())),
        pid: live.pid(),
        last_counts: BTreeMap::new(),
        gauges: BTreeMap::new(),
        rates: BTreeMap::new(),
        lines: WatchLines::new(format, snippet_names, &gauges),
    };
    let mut write_result =
        first.events.iter().try_for_each(|event| state.apply_event(event, &names));
    if write_result.is_err() {
        return Ok(write_result);
    }
    let unlimited = LiveHarness::MAX_LIFETIME / 4;
    let answer = live.run_jobs(&names, samples, true, unlimited, &mut |event| {
        if write_result.is_ok() {
            write_result = state.apply_event(event, &names);
            if write_result.is_err() {
                process::request_interrupt();
            }
        }
    });
    if write_result.is_err() {
        let shut_down_result = live.shut_down();
        let written = status::ignore_closed_pipe(write_result);
        return if written.is_err() { Ok(written) } else { shut_down_result.map(|_| written) };
    }
    let answer = answer?;
    if let Some(cause) = names.iter().find_map(|name| answer.find_fault(name)) {
        return Err(cause.into());
    }
    for ((name, ..), job) in snippets.iter().zip(&names) {
        let conclusion = state.lines.format_conclusion(name, answer.timing(job, samples).as_ref());
        if let Some(conclusion) = conclusion {
            status::print_note(&conclusion);
        }
    }
    live.shut_down().map(|_| Ok(()))
}

/// Starts a process with all snippets and gauges. Returns the process, the names of the gauges, and
/// their first values.
fn open_process(
    snippets: &[WatchedSnippet],
    names: &[String],
    job: &BenchmarkJob,
    interval: Duration,
) -> Result<(LiveHarness, Vec<String>, CommandAnswer), HarnessFailure> {
    let plain = Variant::plain("watched");
    let program = adapters::resolve_program_for(&job.source, &plain);
    let folder = &job.source.directory;
    let (mut live, ready) = LiveHarness::open(&snippets[0].1, &program, &plain, folder, None)?;
    let gauges = ready.first("ready").map(|ready| ready.list("gauges"));
    for (name, (_, snippet, workers)) in names.iter().zip(snippets) {
        live.load_snippet(name, snippet)?.check_fault(name)?;
        live.set_workers(name, *workers)?.check_fault(name)?;
    }
    let first = live.start_gauges(interval)?;
    Ok((live, gauges.unwrap_or_default(), first))
}

/// The watched process, and the most recent values received from it.
struct WatchState {
    /// `None` if the measured process runs on another machine.
    process_watch: Option<ProcessWatch>,
    /// Id of the measured process.
    pid: i32,
    /// For each job, the time and the iteration count at the last sample.
    last_counts: BTreeMap<String, (u64, u64)>,
    gauges: BTreeMap<String, String>,
    /// Throughput and number of workers, for each job that has reported since the last line.
    rates: BTreeMap<String, (f64, u32)>,
    lines: WatchLines,
}

impl WatchState {
    /// Follows the measured process if it is not the harness itself but, for example, a running
    /// Erlang node.
    fn follow_process(&mut self, pid: Option<i32>) {
        let Some(pid) = pid.filter(|pid| *pid != self.pid) else { return };
        self.pid = pid;
        self.process_watch = (pid > 0).then(|| ProcessWatch::new(pid));
    }

    fn apply_event(&mut self, event: &ProtocolMessage, jobs: &[String]) -> anyhow::Result<()> {
        if event.verb == "gauge" {
            self.follow_process(event.parse_number("pid"));
            let gauge_keys = event.keys().filter(|key| !matches!(*key, "id" | "t_ns" | "pid"));
            for key in gauge_keys {
                let value = event.get(key).unwrap_or_default();
                self.gauges.insert(key.to_owned(), value);
            }
        }
        if event.verb != "sample" {
            return Ok(());
        }
        let job = event.get("job").unwrap_or_default();
        let (Some(t_ns), Some(count)) = (event.parse_number("t_ns"), event.parse_number("count"))
        else {
            return Ok(());
        };
        let (from_ns, before) =
            self.last_counts.insert(job.clone(), (t_ns, count)).unwrap_or((0, 0));
        let workers = event.parse_number::<u32>("workers").unwrap_or(1);
        let seconds = t_ns.saturating_sub(from_ns) as f64 / 1e9;
        let is_first = event.parse_number::<u64>("k") == Some(0);
        if is_first || seconds <= 0.0 {
            return Ok(());
        }
        let per_s = count.saturating_sub(before) as f64 / seconds;
        self.rates.insert(job, (per_s, workers));
        if self.rates.len() < jobs.len() {
            return Ok(());
        }
        let rates = std::mem::take(&mut self.rates);
        let line = WatchLine {
            snippets: jobs.iter().filter_map(|job| rates.get(job).copied()).collect(),
            gauges: self.gauges.clone(),
            machine: self
                .process_watch
                .as_mut()
                .map(ProcessWatch::take_snapshot)
                .unwrap_or_default(),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(self.lines.format_line(&line).as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Reports on standard error what went wrong.
fn warn_failure(failure: &HarnessFailure, job: &BenchmarkJob, variant: &Variant) {
    let text = failure.cause.to_string();
    status::print_warning(&format!(
        "{}: {text}",
        job.snippet.as_ref().map_or(&variant.name, |snippet| &snippet.runner)
    ));
    if !failure.output.is_empty() {
        let tail = speedwell_report::escape_controls(failure.output.trim_end());
        let _ = writeln!(std::io::stderr(), "{tail}");
    }
}
