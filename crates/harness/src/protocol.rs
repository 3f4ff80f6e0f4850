//! Describes files and performs cases over the harness protocol (docs/reference/protocol.md).
//!
//! All languages with the protocol share this half: which commands are sent, and what the events
//! mean. Each language decides how its process is started, and what a user would type to repeat it.
//! All commands are known before the process starts, so they are sent at once and the process never
//! waits for us. Start with [`describe`] and [`perform`].

use crate::attempt::{not_described, start_reason};
use crate::counting::{self, Counted};
use crate::events::{Events, observation};
use crate::job::{Description, Job, Kind, Parameter, Request, Route, Setting, Source, Trial};
use crate::own_program;
use crate::remembered::{self, Depends, Origin};
use crate::{Attempt, Message, Observation};
use speedwell_model::{Case, Cause, Length, Run, Samples, SteadyRule, Value, ValueKind, Worktree};
use speedwell_process::{Spec, run};
use std::fs;
use std::path::Path;

/// Which side marks start and end of the measured section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    /// The file: it is measured once per process.
    OfTheFile,
    /// The harness: it takes several samples and chooses the number of iterations.
    OfTheHarness,
}

/// Asks the process of `spec` for the cases of a file. Each case becomes a copy of `draft`; `plain`
/// repeats a failure by hand.
pub(super) fn describe(
    source: &Source,
    request: &Request,
    spec: &Spec,
    plain: &Spec,
    draft: &Job,
) -> Description {
    let spec = Spec {
        limit: request.limit,
        ..spec.clone()
    };
    let mut message = Message::new("describe")
        .with("id", 2)
        .with("path", source.file.display())
        .with("root", source.root.display())
        .with_list("args", &request.assignments());
    if request.trial != Trial::No {
        message = message.with("test", 1);
    }
    let mut events = Events::after([message]);
    match remembered::ask(&spec, &mut events, dependencies_in) {
        Err(error) => {
            let reason = start_reason(&spec, &error);
            not_described(source, Cause::Start { reason }, plain, None)
        }
        Ok(outcome) => match events
            .error()
            .or_else(|| outcome.as_ref()?.cause(spec.limit))
        {
            Some(cause) => not_described(source, cause, plain, outcome.as_ref()),
            None => described(source, request, &events, draft),
        },
    }
}

/// Extracts the dependencies of a description from the last event, if the language reports them.
fn dependencies_in(line: &[u8]) -> Option<Origin> {
    let last = Message::parse(line).filter(|message| message.verb == "described")?;
    Some(Origin {
        program: last.get("program")?.into(),
        depends: Depends {
            files: last.list("files").into_iter().map(Into::into).collect(),
            environment: last.list("env"),
            volatile: last.get("volatile").is_some() || last.get("more").is_some(),
        },
    })
}

/// Builds the description of a file that is unreadable or invalid.
pub(super) fn unreadable(source: &Source, error: &anyhow::Error) -> Description {
    let reason = format!("{error:#}");
    not_described(
        source,
        Cause::Invalid { reason },
        &Spec::new(own_program()),
        None,
    )
}

/// Builds a job without values: the common part of all cases of `source`.
pub(super) fn draft(source: &Source, request: &Request) -> Job {
    Job {
        source: source.clone(),
        label: source.name.clone(),
        route: Route::Direct,
        flags: Vec::new(),
        arguments: Vec::new(),
        names: Vec::new(),
        in_suite: None,
        test: request.trial != Trial::No,
        http_tool: None,
        unavailable: None,
        case: None,
        snippet: None,
        samples: None,
        measured: None,
    }
}

/// Builds the job of a case with known values.
pub(super) fn job_of(source: &Source, request: &Request, case: Case) -> Job {
    let values = case.values.iter();
    Job {
        label: case.id(),
        arguments: values
            .map(|(name, value)| format!("{name}={}", value.plain()))
            .collect(),
        case: Some(case),
        ..draft(source, request)
    }
}

/// Performs one case in the process of `spec`. `plain` repeats it by hand.
pub(super) fn perform(
    job: &Job,
    setting: &Setting<'_>,
    spec: &Spec,
    plain: &Spec,
    owner: Loop,
) -> Attempt {
    if let Some(counting) = setting.counting {
        let counted = Counted {
            job,
            setting,
            counting,
            spec,
            plain,
        };
        let commands =
            |samples: &Samples| Events::after([load(job, setting), in_samples(samples, false)]);
        return counting::perform(&counted, &commands, &|events| observation(job, events));
    }
    let worktree = setting.variant.worktree.as_ref();
    let mut run_message = measure(job, setting, owner);
    if let Some(checkout) = worktree.and_then(|own| fs::canonicalize(&own.checkout).ok()) {
        run_message = run_message.with("modules_below", checkout.display());
    }
    let mut events = Events::after([load(job, setting), run_message]);
    match run(&setting.layout.apply(spec), &mut events) {
        Err(error) => Attempt::not_started(spec, &error, job, setting),
        Ok(outcome) => {
            let (mut seen, fault) = observation(job, &events);
            if let (Some(seen), Some(worktree)) = (&mut seen, worktree) {
                seen.notes.extend(stray_note(&events, worktree));
            }
            // For other kinds, a benchmark may report times itself, such as those of a device.
            let is_clocked = job.source.kind == Kind::Node;
            let wall_ns = outcome.wall_ns;
            let fault = fault
                .or_else(|| longer_than_it_lived(seen.as_ref().filter(|_| is_clocked)?, wall_ns));
            let seen = seen.into_iter().collect();
            Attempt::new(plain, &outcome, seen, fault, job, setting)
        }
    }
}

/// A note where modules were loaded from the user's checkout and not from the worktree, which may lie in it.
fn stray_note(events: &Events, worktree: &Worktree) -> Option<String> {
    let [checkout, folder] = [&worktree.checkout, &worktree.folder]
        .map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    let modules = events.first("end")?.list("modules");
    let strays = modules.iter().map(Path::new);
    let strays = strays.filter(|file| !file.starts_with(&folder));
    let mut strays: Vec<String> = strays
        .filter_map(|file| file.strip_prefix(&checkout).ok())
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    strays.sort();
    (!strays.is_empty()).then(|| Run::stray_note(&strays))
}

/// Rejects a section longer than the lifetime of its process: it was not measured.
fn longer_than_it_lived(seen: &Observation, wall_ns: u64) -> Option<Cause> {
    let elapsed = seen.samples.iter().filter_map(|sample| sample.elapsed_ns);
    let longest = elapsed.max().filter(|longest| *longest > wall_ns)?;
    let reason =
        format!("reported a section of {longest} ns, but its process lived for {wall_ns} ns only");
    Some(Cause::Invalid { reason })
}

fn load(job: &Job, setting: &Setting<'_>) -> Message {
    let mut message = Message::new("load")
        .with("id", 2)
        .with("job", "case")
        .with("form", "case")
        .with("path", job.source.file.display())
        .with("root", job.source.root.display());
    if let Some(benchmark) = job.benchmark_under(&setting.variant.name) {
        message = message.with("benchmark", benchmark);
    }
    if job.test {
        message = message.with("test", 1);
    }
    for word in &job.arguments {
        if let Some((name, value)) = word.split_once('=') {
            message = message.with(format!("value.{name}"), value);
        }
    }
    message
}

fn measure(job: &Job, setting: &Setting<'_>, owner: Loop) -> Message {
    // A trial only checks whether the case works.
    if owner == Loop::OfTheFile || job.test {
        return run_case().with("mode", "once");
    }
    in_samples(&setting.samples, setting.is_series)
}

fn run_case() -> Message {
    Message::new("run").with("id", 3).with("jobs", "case")
}

fn in_samples(samples: &Samples, is_series: bool) -> Message {
    let run = run_case().with("samples", samples.count);
    let run = if is_series {
        run.with("mode", "series")
            .with("reference", SteadyRule::REFERENCE_EVERY)
    } else {
        run.with("mode", "timed")
            .with("warmup_ns", samples.warmup_ns)
    };
    match samples.length {
        Length::TimeNs(ns) => run.with("sample_ns", ns),
        Length::Iterations(count) => run.with("loop", count),
    }
}

/// Converts events to the description of a file; its jobs are copies of `draft`.
pub(super) fn described(
    source: &Source,
    request: &Request,
    events: &Events,
    draft: &Job,
) -> Description {
    let mut description = Description::default();
    let last = events.events_of("described").next();
    for list in ["files", "loaded"] {
        let files = last.map(|last| last.list(list)).unwrap_or_default();
        description.loaded.extend(files.into_iter().map(Into::into));
    }
    for benchmark in events.events_of("benchmark") {
        description.parameters.extend(parameters(benchmark));
        let draft = Job {
            flags: benchmark.list("flags"),
            ..draft.clone()
        };
        if benchmark.get("setup").as_deref() == Some("1") {
            // Its set-up must run once before all cases, so the file has to start them itself.
            description.jobs.push(Job {
                route: Route::Parent,
                arguments: request.assignments(),
                flags: Vec::new(),
                ..draft
            });
            continue;
        }
        let name = benchmark.get("name");
        let cases = events
            .events_of("case")
            .filter(|case| case.get("benchmark") == name);
        description
            .jobs
            .extend(cases.map(|case| job(case, benchmark, &draft)));
    }
    let versions = events.first("described").map(|last| last.list("versions"));
    description.versions = versions
        .iter()
        .flatten()
        .filter_map(|word| word.split_once('='))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    if description.jobs.is_empty() && events.first("described").is_some() {
        description.warnings.push(nothing(source, events));
    }
    description
}

/// Explains why a file that describes itself has no cases.
fn nothing(source: &Source, events: &Events) -> String {
    let name = &source.name;
    match events.first("benchmark") {
        Some(_) => format!("'{name}' has no cases: its own filter leaves none."),
        None => format!("'{name}' declares no benchmark."),
    }
}

/// Declared kind of a parameter.
fn kind_of(benchmark: &Message, name: &str) -> ValueKind {
    match benchmark.get(&format!("type.{name}")).as_deref() {
        Some("int" | "float") => ValueKind::Number,
        Some("bool") => ValueKind::Bool,
        _ => ValueKind::Text,
    }
}

fn parameters(benchmark: &Message) -> Vec<Parameter> {
    let names = benchmark
        .keys()
        .filter_map(|key| key.strip_prefix("param."));
    names
        .map(|name| {
            let kind = kind_of(benchmark, name);
            let texts = benchmark.list(&format!("param.{name}"));
            let values = texts
                .iter()
                .filter_map(|text| Value::parse(text, kind))
                .collect();
            Parameter {
                name: name.to_owned(),
                values,
            }
        })
        .collect()
}

fn job(event: &Message, benchmark: &Message, draft: &Job) -> Job {
    let job = job_with(event.list("args"), event, benchmark, draft);
    let measured = event.list("measured");
    Job {
        measured: (!measured.is_empty())
            .then(|| Box::new(job_with(measured, event, benchmark, draft))),
        ..job
    }
}

fn job_with(mut arguments: Vec<String>, event: &Message, benchmark: &Message, draft: &Job) -> Job {
    let pairs = arguments.iter().filter_map(|word| word.split_once('='));
    let values = pairs.map(|(name, text)| {
        let value = Value::parse(text, kind_of(benchmark, name));
        (name.to_owned(), value.unwrap_or_else(|| Value::guess(text)))
    });
    let case = Case::new(event.get("benchmark").unwrap_or_default(), values.collect());
    let more: Vec<String> = draft
        .arguments
        .iter()
        .filter(|word| !arguments.contains(word))
        .cloned()
        .collect();
    arguments.extend(more);
    Job {
        label: case.id(),
        arguments,
        case: Some(case),
        ..draft.clone()
    }
}
