//! One fresh process per snippet and run: how `speedwell eval` works, unless several snippets share
//! a process.

use super::live::{Gone, calibrate_command, cause, load_command, run_command, workers_command};
use super::timing::timing;
use super::{laid_out, usual_program};
use crate::attempt::failure;
use crate::compile::Failed;
use crate::counting::{self, Counted};
use crate::events::{Events, add_metric};
use crate::job::{Description, Job, Request, Setting, Source};
use crate::{Attempt, Harness, Message, Observation};
use speedwell_model::{
    Better, Case, Cause, Clock, Counting, Failure, Language, Metric, Nodes, Sample, Samples,
    Sampling, Snippet, SnippetTiming,
};
use speedwell_process::{Spec, run};
use std::path::PathBuf;
use std::sync::Arc;

/// Job name in the protocol.
const JOB: &str = "code";

/// Code faster than this many empty iterations was probably optimized away.
const LEAST_EMPTY: f64 = 3.0;

/// Harness for snippets.
#[derive(Debug, Clone, Copy)]
pub struct OneLiner(pub Language);

/// Returns the harness for snippets in the language.
pub fn harness(language: Language) -> &'static dyn Harness {
    static ALL: [OneLiner; Language::ALL.len()] = {
        let mut all = [OneLiner(Language::Sh); Language::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = OneLiner(Language::ALL[at]);
            at += 1;
        }
        all
    };
    let own = ALL.iter().find(|one| one.0 == language);
    own.unwrap_or(&ALL[0])
}

impl Harness for OneLiner {
    /// Snippets do not describe themselves: the caller creates their jobs.
    fn describe(&self, _source: &Source, _request: &Request) -> Description {
        Description::default()
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let Some(snippet) = job.snippet_under(setting.variant) else {
            let spec = Spec::new("speedwell").args(["eval"]);
            return Attempt::refused(&spec, "there is no code to measure", job, setting);
        };
        match laid_out(&snippet, &setting.program, setting.variant, setting.layout) {
            Ok((mut spec, linking)) => {
                if setting.clock == Clock::Cpu {
                    spec = without_spinning(spec, snippet.language);
                }
                perform(&snippet, spec, job, setting).linked(linking)
            }
            Err(failed) => refused(failed, &snippet, job, setting),
        }
    }

    fn prepare(&self, job: &Job, setting: &Setting<'_>) {
        if let Some(snippet) = job.snippet_under(setting.variant) {
            let _ = laid_out(&snippet, &setting.program, setting.variant, setting.layout);
        }
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        usual_program(self.0)
    }

    fn has_version(&self, _source: &Source) -> bool {
        self.0 != Language::Sh
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Makes idle Erlang schedulers sleep at once: otherwise they spin for a while, which would count
/// as processor time.
fn without_spinning(spec: Spec, language: Language) -> Spec {
    const FLAGS: &str = "ERL_ZFLAGS";
    let is_beam = matches!(language, Language::Erlang | Language::Elixir);
    let is_set = spec.environment.iter().any(|(name, _)| name == FLAGS);
    if !is_beam || is_set || std::env::var_os(FLAGS).is_some() {
        return spec;
    }
    spec.env(FLAGS, "+sbwt none +sbwtdcpu none +sbwtdio none")
}

fn perform(snippet: &Snippet, mut spec: Spec, job: &Job, setting: &Setting<'_>) -> Attempt {
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    spec.directory = Some(job.source.directory.clone());
    if let Some(counting) = setting.counting {
        return count(snippet, &spec, counting, job, setting);
    }
    let mut run_command = run_command(&[JOB.to_owned()], &setting.samples, setting.is_series);
    if setting.clock == Clock::Cpu {
        run_command = run_command.with("cpu", 1);
    }
    let mut events = Events::after([
        load_command(JOB, snippet),
        calibrate_command(JOB),
        workers_command(JOB, job.workers()),
        run_command,
    ])
    .showing(snippet.shows_output);
    let mut plain = by_hand(snippet, setting);
    plain.limit = setting.limit;
    match run(&spec, &mut events) {
        Err(error) => Attempt::not_started(&spec, &error, job, setting),
        Ok(outcome) => {
            let error = events.first("error");
            let seen = timing(JOB, events.every(), &setting.samples).map(|timing| {
                let mut seen = observation(&timing, job);
                for metric in events.events_of("metric") {
                    add_metric(&mut seen, metric);
                }
                seen.notes.extend(warnings(&events, &timing));
                seen
            });
            let silent = seen.is_none().then_some(Cause::Silent);
            let fault = error.and_then(cause).or(silent);
            Attempt::new(
                &plain,
                &outcome,
                seen.into_iter().collect(),
                fault,
                job,
                setting,
            )
        }
    }
}

/// Counts the instructions of a snippet instead of measuring its time.
fn count(
    snippet: &Snippet,
    spec: &Spec,
    counting: &Counting,
    job: &Job,
    setting: &Setting<'_>,
) -> Attempt {
    let plain = by_hand(snippet, setting);
    let counted = Counted {
        job,
        setting,
        counting,
        spec,
        plain: &plain,
    };
    let commands = |samples: &Samples| {
        Events::after([
            load_command(JOB, snippet),
            workers_command(JOB, 1),
            run_command(&[JOB.to_owned()], samples, false),
        ])
    };
    let observe = |events: &Events| {
        let timing = timing(JOB, events.every(), &setting.samples);
        let seen = timing.map(|timing| observation(&timing, job));
        let silent = seen.is_none().then(counting::nothing_said);
        (seen, events.error().or(silent))
    };
    counting::perform(&counted, &commands, &observe)
}

/// Converts the timing of one run to metrics. The first metric is the one compared: the median
/// batch is hardly affected by other activity of the machine.
pub fn observation(timing: &SnippetTiming, job: &Job) -> Observation {
    let case = job.case.clone();
    let case = case.unwrap_or_else(|| Case::new(&job.source.name, Vec::new()));
    let mut seen = Observation::new(case, Vec::new());
    let time = |name: &str| Metric::new(name, "ns", Better::Lower);
    if let Some(batches) = &timing.batches {
        seen.add(time(Metric::TIME_MEDIAN), batches.median_ns);
        seen.add(time(Metric::TIME_P5), batches.p5_ns);
    }
    seen.metrics
        .extend([Metric::throughput(), time(Metric::TIME)]);
    for window in &timing.windows {
        seen.samples.push(Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value: window.per_s,
            elapsed_ns: Some(window.elapsed_ns.round() as u64),
            iterations: Some(window.iterations),
        });
    }
    if let Some(time_ns) = timing.time_ns() {
        seen.add(time(Metric::TIME), time_ns);
    }
    seen.add_cpu_times(&timing.cpu_ns);
    let reference = time(Metric::REFERENCE_TIME);
    let times = timing.reference_ns.iter();
    times.for_each(|&value| seen.add(reference.clone(), value));
    seen
}

/// Warnings of the harness, and about code that seems to do nothing.
fn warnings(events: &Events, timing: &SnippetTiming) -> Vec<String> {
    let ready = events.first("ready");
    let mut warnings = ready.map(crate::events::warnings).unwrap_or_default();
    let empty = events.first("calibrated");
    let empty_ns = empty.and_then(|told| Some(told.number::<f64>("empty_ps")? / 1000.0));
    warnings.extend(fold_warning(timing, empty_ns, events.first("loaded")));
    warnings.extend(events.events_of("log").filter_map(|log| log.get("text")));
    warnings
}

/// Warns about code that takes hardly longer than an empty iteration, unless the harness's `loaded` event
/// excludes that a compiler has removed it.
pub fn fold_warning(
    timing: &SnippetTiming,
    empty_ns: Option<f64>,
    loaded: Option<&Message>,
) -> Option<String> {
    let folds = loaded.and_then(|loaded| loaded.number::<u32>("folds")) != Some(0);
    let is_folded = folds && timing.batches?.median_ns < LEAST_EMPTY * empty_ns?;
    is_folded.then(|| Snippet::FOLDED.to_owned())
}

/// Builds the outcome of a snippet that could not be started.
fn refused(failed: Failed, snippet: &Snippet, job: &Job, setting: &Setting<'_>) -> Attempt {
    let mut failure = failure(
        failed.cause,
        failed.output,
        &by_hand(snippet, setting),
        job,
        setting,
    );
    if !failed.replay.is_empty() {
        failure.replay = failed.replay;
    }
    Attempt {
        interrupted: failed.interrupted,
        failure: Some(failure),
        ..Attempt::default()
    }
}

/// Builds the failure of a process that several runs share.
pub fn failure_of(gone: &Gone, job: &Job, setting: &Setting<'_>) -> Failure {
    let snippet = job.snippet_under(setting.variant);
    let spec = snippet.map_or_else(
        || Spec::new("speedwell"),
        |snippet| by_hand(&snippet, setting),
    );
    let tail = gone.stderr_tail.clone();
    failure(gone.cause.clone(), tail, &spec, job, setting)
}

/// The command that measures the snippet again, alone.
fn by_hand(snippet: &Snippet, setting: &Setting<'_>) -> Spec {
    let mut words = vec![
        "eval".to_owned(),
        snippet.language.to_string(),
        snippet.runner.clone(),
    ];
    let hooks = [
        ("--init", &snippet.init),
        ("--init-worker", &snippet.init_worker),
        ("--prepare", &snippet.prepare),
        ("--done", &snippet.done),
    ];
    for (option, hook) in hooks {
        if let Some(text) = hook {
            words.extend([option.to_owned(), text.clone()]);
        }
    }
    if let Some(count) = snippet.warmup {
        words.extend(["--warmup-count".to_owned(), count.to_string()]);
    }
    for path in &snippet.paths {
        words.extend(["--path".to_owned(), path.to_string_lossy().into_owned()]);
    }
    match &snippet.nodes {
        None => {}
        Some(Nodes::Local(count)) => words.extend(["--nodes".to_owned(), count.to_string()]),
        // Omits the cookie: a report may be public.
        Some(Nodes::Remote { name, .. }) => words.extend(["--node".to_owned(), name.clone()]),
    }
    words.extend(["--runs".to_owned(), "1".to_owned()]);
    if setting.limit != Sampling::USUAL_TIMEOUT {
        let limit = match setting.limit.subsec_millis() {
            0 => format!("{}s", setting.limit.as_secs()),
            _ => format!("{}ms", setting.limit.as_millis()),
        };
        words.extend(["--timeout".to_owned(), limit]);
    }
    Spec::new("speedwell").args(words)
}
