//! Measures the runs of a snippet: each in a fresh process ([`SnippetHarness`]), or in one process
//! that several snippets share, where they take turns or run at the same time
//! ([`SharedProcesses`]).
//!
//! A shared process is started before the first run, and loads its snippets. Between runs, the
//! workers wait and keep their state. Each measurement is reported as a run of its own, with a note.

use super::live_harness::{
    CommandAnswer, LiveHarness, calibrate_command, error_cause, load_command, run_command,
    workers_command,
};
use super::timing::parse_timing;
use super::{build_with_layout, is_module};
use crate::counting::{CountingInputs, perform_counted};
use crate::failure::{HarnessFailure, converse};
use crate::job::{BenchmarkJob, RunContext};
use crate::run_outcome::{add_metric, harness_warnings};
use crate::wire::EventLog;
use crate::{LanguageHarness, ProtocolMessage, RunOutcome, RunResult};
use speedwell_machine::process::{ProcessSpec, is_interrupt_requested, shell_line, unix_time_ms};
use speedwell_model::{
    ComparedClock, ErlangNodes, FailureCause, InstructionCounting, Metric, MetricDirection,
    SampleDivision, SamplingOptions, Snippet, SnippetLanguage, SnippetTiming, StepFailure, Variant,
};
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::time::{Duration, Instant};

/// Job name in the protocol.
const JOB_NAME: &str = "code";

/// Code that takes less time than this many empty iterations was probably optimized away.
const MIN_EMPTY_RATIO: f64 = 3.0;

/// Harness for snippets.
pub struct SnippetHarness;

impl LanguageHarness for SnippetHarness {
    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let snippet = setting.job.snippet_under(setting.variant).ok_or_else(|| {
            let spec = ProcessSpec::new("speedwell").args(["eval"]);
            HarnessFailure::invalid("no code to measure").with_replay(&spec)
        })?;
        let built = build_with_layout(&snippet, &setting.program, setting.variant, setting.layout);
        let (mut spec, linking) = built.map_err(|mut failure| {
            if failure.replay.is_empty() {
                failure.replay = shell_line(&replay_command(&snippet, setting));
            }
            failure
        })?;
        if setting.sampling.clock == ComparedClock::Cpu {
            spec = disable_spinning(spec, snippet.language);
        }
        let attempt = perform_snippet(&snippet, spec, setting)
            .unwrap_or_else(|failure| RunOutcome::from_failure(failure, setting));
        Ok(attempt.with_linking(linking))
    }

    fn prepare_job(&self, setting: &RunContext<'_>) {
        if let Some(snippet) = setting.job.snippet_under(setting.variant) {
            let _ = build_with_layout(&snippet, &setting.program, setting.variant, setting.layout);
        }
    }
}

/// Makes idle Erlang schedulers sleep immediately. Otherwise they would wait in a busy loop for a
/// while, and the loop would count as processor time.
fn disable_spinning(spec: ProcessSpec, language: SnippetLanguage) -> ProcessSpec {
    const FLAGS: &str = "ERL_ZFLAGS";
    let is_beam = matches!(language, SnippetLanguage::Erlang | SnippetLanguage::Elixir);
    let is_set = spec.environment.iter().any(|(name, _)| name == FLAGS);
    if !is_beam || is_set || std::env::var_os(FLAGS).is_some() {
        return spec;
    }
    spec.env(FLAGS, "+sbwt none +sbwtdcpu none +sbwtdio none")
}

fn perform_snippet(
    snippet: &Snippet,
    mut spec: ProcessSpec,
    setting: &RunContext<'_>,
) -> Result<RunOutcome, HarnessFailure> {
    let job = setting.job;
    spec.limit = setting.limit();
    spec.pin = setting.pin.cloned();
    spec.directory = Some(job.source.directory.clone());
    if let Some(counting) = setting.counting {
        return count_instructions(snippet, &spec, counting, setting);
    }
    let compares_cpu = setting.sampling.clock == ComparedClock::Cpu;
    let run = run_command(&[JOB_NAME.to_owned()], &setting.samples, setting.is_series)
        .with_some("cpu", compares_cpu.then_some(1));
    let is_rehearsal = setting.is_rehearsal && snippet.language == SnippetLanguage::Sh;
    let load = load_command(JOB_NAME, snippet).with_some("rehearsal", is_rehearsal.then_some(1));
    let workers = workers_command(JOB_NAME, job.worker_count());
    let mut events = EventLog::new([load, calibrate_command(JOB_NAME), workers, run]);
    events.shows_output = snippet.shows_output;
    let mut plain = replay_command(snippet, setting);
    plain.limit = setting.limit();
    let outcome = converse(&spec, &spec, &mut events)?;
    let timing = parse_timing(JOB_NAME, events.all_events(), &setting.samples);
    let result = timing.map(|timing| {
        let mut result = to_observation(&timing, job);
        events.events_of("metric").for_each(|metric| add_metric(&mut result, metric));
        result.notes.extend(collect_warnings(&events, &timing));
        result
    });
    let silent = result.is_none().then_some(FailureCause::Silent);
    let fault = events.first("error").and_then(error_cause).or(silent);
    Ok(RunOutcome::from_process(&plain, &outcome, result, fault, setting))
}

/// Counts the instructions of a snippet instead of measuring its time.
fn count_instructions(
    snippet: &Snippet,
    spec: &ProcessSpec,
    counting: &InstructionCounting,
    setting: &RunContext<'_>,
) -> Result<RunOutcome, HarnessFailure> {
    let plain = replay_command(snippet, setting);
    let commands = |samples: &SampleDivision| {
        EventLog::new([
            load_command(JOB_NAME, snippet),
            workers_command(JOB_NAME, 1),
            run_command(&[JOB_NAME.to_owned()], samples, false),
        ])
    };
    let observe = |events: &EventLog| {
        let timing = parse_timing(JOB_NAME, events.all_events(), &setting.samples);
        let result = timing.map(|timing| to_observation(&timing, setting.job));
        let silent = || FailureCause::invalid("did not report that the case was performed");
        let silent = result.is_none().then(silent);
        (result, events.error_cause().or(silent))
    };
    let (plain, commands, observe) = (&plain, &commands, &observe);
    perform_counted(&CountingInputs { setting, counting, spec, plain, commands, observe })
}

/// Converts the timing of one run to metrics. The first metric is compared, unless processor times
/// are compared instead. If the harness reports batches, the first metric is the time of the median
/// batch, which other activity on the machine hardly affects. Otherwise, the first metric is the
/// throughput.
pub fn to_observation(timing: &SnippetTiming, job: &BenchmarkJob) -> RunResult {
    let case = job.known_case();
    let mut result = RunResult::new(case, Vec::new());
    let time = |name: &str| Metric::new(name, "ns", MetricDirection::Lower);
    if let Some(batches) = &timing.batches {
        result.add_value(time(Metric::TIME_MEDIAN), batches.median_ns);
        result.add_value(time(Metric::TIME_P5), batches.p5_ns);
    }
    result.metrics.extend([Metric::throughput(), time(Metric::TIME)]);
    for window in &timing.windows {
        let elapsed_ns = window.elapsed_ns.round() as u64;
        result.add_throughput(window.per_s, elapsed_ns, window.iterations);
    }
    if let Some(time_ns) = timing.time_ns() {
        result.add_value(time(Metric::TIME), time_ns);
    }
    result.add_cpu_times(&timing.cpu_ns);
    let reference = time(Metric::REFERENCE_TIME);
    let times = timing.reference_ns.iter();
    times.for_each(|&value| result.add_value(reference.clone(), value));
    result
}

/// Returns the warnings of the harness, and a warning about code that seems to do nothing.
fn collect_warnings(events: &EventLog, timing: &SnippetTiming) -> Vec<String> {
    let ready = events.first("ready");
    let mut warnings = ready.map(harness_warnings).unwrap_or_default();
    let empty = events.first("calibrated");
    let empty_ns = empty.and_then(|event| Some(event.parse_number::<f64>("empty_ps")? / 1000.0));
    warnings.extend(folded_warning(timing, empty_ns, events.first("loaded")));
    warnings.extend(events.events_of("log").filter_map(|log| log.get("text")));
    warnings
}

/// Warns about code that takes hardly longer than an empty iteration: a compiler may have removed
/// the code. No warning is given if the harness's event `loaded` rules that out.
pub fn folded_warning(
    timing: &SnippetTiming,
    empty_ns: Option<f64>,
    loaded: Option<&ProtocolMessage>,
) -> Option<String> {
    let folds = loaded.and_then(|loaded| loaded.parse_number::<u32>("folds")) != Some(0);
    let is_folded = folds && timing.batches?.median_ns < MIN_EMPTY_RATIO * empty_ns?;
    is_folded.then(|| Snippet::FOLDED.to_owned())
}

/// Builds the failure of a process that several runs share.
pub fn shared_process_failure(failure: HarnessFailure, setting: &RunContext<'_>) -> StepFailure {
    let snippet = setting.job.snippet_under(setting.variant);
    let spec = snippet
        .map_or_else(|| ProcessSpec::new("speedwell"), |snippet| replay_command(&snippet, setting));
    failure.with_replay(&spec).in_run(setting)
}

/// Builds the command that measures the snippet again, without any others.
fn replay_command(snippet: &Snippet, setting: &RunContext<'_>) -> ProcessSpec {
    let is_plain_command = snippet.language == SnippetLanguage::Sh
        && [&snippet.init, &snippet.init_worker, &snippet.done].iter().all(|hook| hook.is_none())
        && snippet.paths.is_empty();
    let mut spec = ProcessSpec::new("speedwell");
    spec = if is_plain_command {
        spec.args(["time"])
    } else {
        spec.args(["eval", &snippet.language.to_string()])
    };
    spec = spec.args([&snippet.runner]);
    let hooks = [
        ("--init", &snippet.init),
        ("--init-worker", &snippet.init_worker),
        ("--prepare", &snippet.prepare),
        ("--done", &snippet.done),
    ];
    for (option, hook) in hooks {
        spec = spec.args(hook.iter().flat_map(|text| [option, text]));
    }
    if let Some(count) = snippet.warmup {
        spec = spec.args(["--warmup", &count.to_string()]);
    }
    for (index, path) in snippet.paths.iter().enumerate() {
        let name = path.to_string_lossy();
        // The first path may be a module that '--init @FILE' named.
        let text = fs::read_to_string(path).unwrap_or_default();
        let is_init =
            index == 0 && snippet.init.is_none() && is_module(snippet.language, path, &text);
        spec = if is_init {
            spec.args(["--init", &format!("@{name}")])
        } else {
            spec.args(["--path", &name])
        };
    }
    spec = match &snippet.nodes {
        None => spec,
        Some(ErlangNodes::Local(count)) => spec.args(["--nodes", &count.to_string()]),
        // Omits the cookie: a report may be public.
        Some(ErlangNodes::Remote { name, .. }) => spec.args(["--node", name]),
    };
    spec = spec.args(["--runs", "1"]);
    let limit = setting.limit();
    if limit != SamplingOptions::USUAL_TIMEOUT {
        let limit = match limit.subsec_millis() {
            0 => format!("{}s", limit.as_secs()),
            _ => format!("{}ms", limit.as_millis()),
        };
        spec = spec.args(["--timeout", &limit]);
    }
    spec
}

/// Note for readers of the results.
const NOTE: &str = "All snippets were measured in one process, so the results do not show \
                    differences between processes.";

/// Processes that several snippets share, one for each case.
pub struct SharedProcesses<'a> {
    variants: &'a [Variant],
    at_once: bool,
    processes: HashMap<String, SharedProcess>,
}

/// A process with the snippets of one case.
struct SharedProcess {
    harness: Option<LiveHarness>,
    /// Job names in the protocol, by variant.
    jobs: HashMap<String, String>,
    /// Faults of snippets, or of the process as a whole, by variant.
    faults: HashMap<String, HarnessFailure>,
    empty_ns: Option<f64>,
    /// The harness's reply for each loaded snippet, by job name.
    loaded: HashMap<String, ProtocolMessage>,
    /// Results from joint runs that no caller has requested yet, by variant.
    pending: HashMap<String, VecDeque<RunOutcome>>,
}

impl<'a> SharedProcesses<'a> {
    /// Prepares to measure the snippets of these variants; if `at_once`, they run at the same time.
    pub fn new(variants: &'a [Variant], at_once: bool) -> SharedProcesses<'a> {
        SharedProcesses { variants, at_once, processes: HashMap::new() }
    }

    /// Measures the snippet of one variant, or returns its result from an earlier joint run.
    pub fn perform_run(&mut self, setting: &RunContext<'_>) -> RunOutcome {
        let (variants, at_once) = (self.variants, self.at_once);
        let process = self
            .processes
            .entry(setting.job.label.clone())
            .or_insert_with(|| SharedProcess::start(variants, setting));
        let name = &setting.variant.name;
        if let Some(ready) = process.pending.get_mut(name).and_then(VecDeque::pop_front) {
            return ready;
        }
        let wanted: Vec<&Variant> =
            if at_once { variants.iter().collect() } else { vec![setting.variant] };
        process.run_variants(&wanted, setting);
        let outcome = process.pending.get_mut(name).and_then(VecDeque::pop_front);
        outcome.unwrap_or_default()
    }
}

impl Drop for SharedProcesses<'_> {
    fn drop(&mut self) {
        for harness in self.processes.values_mut().filter_map(|process| process.harness.take()) {
            // All runs have been reported; this only executes 'done' and cleans up.
            let _ = harness.shut_down();
        }
    }
}

impl SharedProcess {
    fn start(variants: &[Variant], setting: &RunContext<'_>) -> SharedProcess {
        let job = setting.job;
        let numbered = variants.iter().enumerate();
        let mut process = SharedProcess {
            harness: None,
            jobs: numbered
                .map(|(index, variant)| (variant.name.clone(), format!("code{index}")))
                .collect(),
            faults: HashMap::new(),
            empty_ns: None,
            loaded: HashMap::new(),
            pending: HashMap::new(),
        };
        let first = variants.iter().find_map(|variant| job.snippet_under(variant));
        let (program, folder) = (&setting.program, &job.source.directory);
        let started = first.ok_or_else(silent_failure).and_then(|snippet| {
            LiveHarness::open(&snippet, program, setting.variant, folder, setting.pin)
        });
        match started {
            Ok((harness, _)) => {
                process.harness = Some(harness);
                for variant in variants {
                    if let Some(snippet) = job.snippet_under(variant)
                        && let Err(failure) =
                            process.load_snippet(variant, &snippet, job.worker_count())
                    {
                        process.faults.insert(variant.name.clone(), failure);
                    }
                }
            }
            Err(failure) => process.fail_all(variants, &failure),
        }
        process
    }

    fn load_snippet(
        &mut self,
        variant: &Variant,
        snippet: &Snippet,
        workers: u32,
    ) -> Result<(), HarnessFailure> {
        let job = &self.jobs[&variant.name];
        let harness = self.harness.as_mut().ok_or_else(silent_failure)?;
        let answer = harness.load_snippet(job, snippet)?.check_fault(job)?;
        self.loaded.extend(answer.first("loaded").map(|loaded| (job.clone(), loaded.clone())));
        if self.empty_ns.is_none() {
            self.empty_ns = harness.measure_empty(job)?;
        }
        harness.set_workers(job, workers)?.check_fault(job).map(drop)
    }

    /// Marks the snippets of these variants as failed, because their process has ended.
    fn fail_all<'v>(
        &mut self,
        variants: impl IntoIterator<Item = &'v Variant>,
        failure: &HarnessFailure,
    ) {
        self.harness = None;
        for variant in variants {
            self.faults.entry(variant.name.clone()).or_insert_with(|| failure.clone());
        }
    }

    fn run_variants(&mut self, wanted: &[&Variant], setting: &RunContext<'_>) {
        let (started_unix_ms, begin) = (unix_time_ms(), Instant::now());
        let runnable = wanted.iter().filter(|variant| !self.faults.contains_key(&variant.name));
        let jobs: Vec<String> = runnable.map(|variant| self.jobs[&variant.name].clone()).collect();
        let answer = match &mut self.harness {
            Some(harness) if !jobs.is_empty() => {
                let expected = expected_duration(&setting.samples, setting.limit());
                let ran = harness.run_jobs(&jobs, &setting.samples, false, expected, &mut |_| {});
                ran.unwrap_or_else(|failure| {
                    self.fail_all(wanted.iter().copied(), &failure);
                    CommandAnswer::default()
                })
            }
            _ => CommandAnswer::default(),
        };
        for variant in wanted {
            let mut attempt = self.build_outcome(variant, &answer, setting);
            attempt.started_unix_ms = started_unix_ms;
            attempt.wall_ns = begin.elapsed().as_nanos() as u64;
            attempt.interrupted = is_interrupt_requested();
            self.pending.entry(variant.name.clone()).or_default().push_back(attempt);
        }
    }

    fn build_outcome(
        &mut self,
        variant: &Variant,
        answer: &CommandAnswer,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let job_name = &self.jobs[&variant.name];
        let result = answer.timing(job_name, &setting.samples).map(|timing| {
            let mut result = to_observation(&timing, setting.job);
            result.notes.push(NOTE.to_owned());
            let loaded = self.loaded.get(job_name);
            result.notes.extend(folded_warning(&timing, self.empty_ns, loaded));
            result
        });
        let reported = answer.find_fault(job_name).map(HarnessFailure::from);
        let earlier = self.faults.get(&variant.name).cloned();
        let fault = earlier.or(reported).or_else(|| result.is_none().then(silent_failure));
        let failure = fault.map(|fault| {
            let setting = RunContext { variant, ..setting.clone() };
            shared_process_failure(fault, &setting)
        });
        RunOutcome { observations: result.into_iter().collect(), failure, ..RunOutcome::default() }
    }
}

/// Returns how long a run is expected to take, at most `timeout`. If the number of iterations is
/// fixed, returns `timeout`. If a single iteration takes longer than the planned duration of a
/// sample, the run takes longer than expected.
pub fn expected_duration(samples: &SampleDivision, timeout: Duration) -> Duration {
    samples.planned_time().map_or(timeout, |time| time.min(timeout))
}

fn silent_failure() -> HarnessFailure {
    FailureCause::Silent.into()
}
