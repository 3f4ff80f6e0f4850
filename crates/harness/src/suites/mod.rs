//! Benchmarks of other suites, driven as their adapters say: listed, executed one by one in fresh processes, and read.
//!
//! Decides how one case of such a suite is started and what becomes of its output. What a suite's options are is said by
//! `crates/harness/suites/*.toml`, what its output means by `results::foreign::suites`. Start at [`Suites`]; at [`Known`] for how
//! files are recognised, at `build.rs` for packages that are built first.

mod build;
mod command;
mod known;
mod read;

pub use known::{Known, shipped};

use crate::attempt::{not_described, start_reason};
use crate::compile::Failed;
use crate::job::{Description, Job, Parameter, Request, Setting, Source, SuiteCase};
use crate::protocol::draft;
use crate::{Attempt, Harness, Observation};
use build::Built;
use command::{Filling, PIPE, with_places};
use read::Listed;
use speedwell_model::{Case, Cause, Failure, Step, Value, Variant};
use speedwell_process::{Channel, Conversation, Ended, Next, Scratch, Spec, run};
use speedwell_suite::adapter::{Adapter, Version};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Learning the cases within a case executes it.
const EXPANDING: Duration = Duration::from_secs(120);

/// The harness for all of them.
pub struct Suites;

/// Whether the file is a program or library of this system.
pub fn is_elf(file: &Path) -> bool {
    begins_with(file, b"\x7fELF")
}

/// Whether the file may be executed and is a script, which may start a program of google/benchmark.
pub fn is_wrapper(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0, |data| data.permissions().mode());
    mode & 0o111 != 0 && begins_with(file, b"#!")
}

fn begins_with(file: &Path, magic: &[u8]) -> bool {
    let mut beginning = vec![0; magic.len()];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == magic
}

impl Harness for Suites {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let built = match programs(source, &request.program, &request.variant) {
            Ok(built) => built,
            Err(failed) => {
                return Description {
                    failure: Some(not_built(source, failed, None)),
                    ..Description::default()
                };
            }
        };
        let mut description = Description::default();
        for built in &built {
            let described = Asking {
                source,
                request,
                built,
            }
            .describe();
            description.jobs.extend(described.jobs);
            description.failure = description.failure.or(described.failure);
            description.suites.extend(described.suites);
        }
        description.parameters = parameters(&description.jobs);
        select(&mut description, &request.sets);
        description
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let plain = Spec::new(&setting.program);
        let wanted = job.in_suite.as_ref().and_then(|own| own.target.as_deref());
        let built = match programs(&job.source, &setting.program, setting.variant) {
            Ok(built) => built
                .into_iter()
                .find(|built| built.target.as_deref() == wanted),
            Err(failed) => {
                return Attempt {
                    interrupted: failed.interrupted,
                    failure: Some(not_built(&job.source, failed, Some((job, setting)))),
                    ..Attempt::default()
                };
            }
        };
        let Some(built) = built else {
            let reason = format!("has no benchmark program '{}'", wanted.unwrap_or_default());
            return Attempt::refused(&plain, &reason, job, setting);
        };
        match Scratch::new() {
            Ok(scratch) => perform(job, setting, &built, &scratch),
            Err(error) => Attempt::refused(&plain, &format!("{error:#}"), job, setting),
        }
    }

    fn prepare(&self, job: &Job, setting: &Setting<'_>) {
        let _ = programs(&job.source, &setting.program, setting.variant);
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        let program = source
            .adapter()
            .and_then(|adapter| adapter.keys.program.clone());
        program.map_or_else(|| source.file.clone(), PathBuf::from)
    }

    fn has_version(&self, source: &Source) -> bool {
        source
            .adapter()
            .is_some_and(|adapter| adapter.keys.program.is_some())
    }

    fn divides_runs(&self) -> bool {
        true
    }

    fn records_series(&self) -> bool {
        false
    }
}

/// Of what was asked for, the option that means nothing to the suite of a file.
pub fn meaningless_option(
    source: &Source,
    asked: speedwell_model::Division,
) -> Option<&'static str> {
    command::without_meaning(source.adapter()?, asked)
}

/// The programs of a target: itself, or what is built out of it.
fn programs(source: &Source, program: &Path, variant: &Variant) -> Result<Vec<Built>, Failed> {
    let adapter = source.suite.clone().ok_or_else(|| {
        let reason = format!("'{}' belongs to no known suite", source.file.display());
        Failed::before_start(Cause::Invalid { reason })
    })?;
    if let Some(word) = command::refused(&adapter, &variant.arguments) {
        return Err(refused(&adapter, word));
    }
    if adapter.keys.build.is_none() {
        return Ok(vec![Built {
            program: program.to_owned(),
            adapter,
            target: None,
            folder: source.directory.clone(),
        }]);
    }
    let built = build::programs(&adapter, &source.file, program, variant)?;
    for built in &built {
        if let Some(word) = command::refused(&built.adapter, &variant.arguments) {
            return Err(refused(&built.adapter, word));
        }
    }
    Ok(built)
}

fn refused(adapter: &Adapter, word: &str) -> Failed {
    let reason = format!(
        "does not take '{word}' of {}: cases are chosen with --filter, and results are kept by Speedwell",
        adapter.name
    );
    Failed::before_start(Cause::Invalid { reason })
}

fn not_built(source: &Source, failed: Failed, of: Option<(&Job, &Setting<'_>)>) -> Failure {
    Failure {
        step: if of.is_some() {
            Step::Run
        } else {
            Step::Describe
        },
        benchmark: source.name.clone(),
        case: of.map(|(job, _)| job.label.clone()),
        variant: of.map(|(_, setting)| setting.variant.name.clone()),
        slot: of.map(|(_, setting)| setting.slot),
        cause: failed.cause,
        stderr_tail: failed.output,
        replay: failed.replay,
    }
}

/// What fills commands of every kind.
fn filling(built: &Built, source: &Source, variant: &Variant) -> Filling {
    let folder = source.file.parent().unwrap_or(Path::new("/"));
    Filling::default()
        .path("program", &built.program)
        .path("file", &source.file)
        .path(
            "folder",
            if source.file.is_dir() {
                &source.file
            } else {
                folder
            },
        )
        .words("arguments", variant.arguments.clone())
}

/// The process of a command.
fn process(built: &Built, command: &[String], filling: &Filling, variant: &Variant) -> Spec {
    let mut words = filling.fill(command).into_iter();
    let mut spec = Spec::new(words.next().unwrap_or_default()).args(words);
    let own = built.adapter.keys.environment.iter();
    spec.environment = own
        .map(|(name, value)| (name.clone(), filling.fill_text(value)))
        .collect();
    spec.environment.extend(variant.environment.iter().cloned());
    spec.directory = Some(built.folder.clone());
    spec
}

/// One program that is asked for its cases.
struct Asking<'a> {
    source: &'a Source,
    request: &'a Request,
    built: &'a Built,
}

impl Asking<'_> {
    fn describe(&self) -> Description {
        let keys = &self.built.adapter.keys;
        let spec = self.spec(&keys.list, &Filling::default(), self.request.limit);
        let mut cases = match self.ask(&spec) {
            Ok(cases) => cases,
            Err(description) => return *description,
        };
        if !keys.expand.is_empty() {
            cases = cases
                .into_iter()
                .flat_map(|case| self.expanded(case))
                .collect();
        }
        if cases.is_empty() {
            let how = speedwell_process::replay(&Spec {
                directory: None,
                environment: Vec::new(),
                ..spec.clone()
            });
            let reason = format!("lists no benchmarks; it was asked with: {how}");
            return not_described(self.source, Cause::Invalid { reason }, &spec, None);
        }
        let version = self
            .version()
            .map(|version| (self.built.adapter.name.clone(), version));
        Description {
            jobs: cases.into_iter().map(|case| self.job(case)).collect(),
            suites: version.into_iter().collect(),
            ..Description::default()
        }
    }

    fn spec(&self, command: &[String], more: &Filling, limit: Duration) -> Spec {
        let variant = &self.request.variant;
        let filling = filling(self.built, self.source, variant).and(more);
        Spec {
            limit,
            channel: Channel::Stdout,
            ..process(self.built, command, &filling, variant)
        }
    }

    fn ask(&self, spec: &Spec) -> Result<Vec<Listed>, Box<Description>> {
        let mut output = Collected::default();
        let outcome = match run(spec, &mut output) {
            Ok(outcome) => outcome,
            Err(error) => {
                let reason = start_reason(spec, &error);
                return Err(Box::new(not_described(
                    self.source,
                    Cause::Start { reason },
                    spec,
                    None,
                )));
            }
        };
        let read = read::cases(&self.built.adapter, &output.0);
        let unread = |error: &anyhow::Error| Cause::Invalid {
            reason: format!("its list of benchmarks cannot be read: {error:#}"),
        };
        let cause = outcome
            .cause(spec.limit)
            .or_else(|| read.as_ref().err().map(unread));
        match (cause, read) {
            (None, Ok(cases)) => Ok(cases),
            (cause, _) => {
                let cause = cause.unwrap_or(Cause::Silent);
                Err(Box::new(not_described(
                    self.source,
                    cause,
                    spec,
                    Some(&outcome),
                )))
            }
        }
    }

    /// The cases in a listed one. One that fails stays as it is listed: executing it shows how it fails.
    fn expanded(&self, listed: Listed) -> Vec<Listed> {
        let adapter = &self.built.adapter;
        let own = Filling::default().case(&listed.name, Some(&listed.case), &adapter.keys);
        let spec = self.spec(&adapter.keys.expand, &own, EXPANDING);
        let mut output = Collected::default();
        let is_over = run(&spec, &mut output).is_ok_and(|outcome| outcome.ended == Ended::Exit(0));
        let results = read::results(adapter, &output.0).unwrap_or_default();
        let inner: Vec<Listed> = results.into_iter().filter_map(read::listed).collect();
        // Of a benchmark that panicked, some of its own may be missing.
        if inner.is_empty() || !is_over {
            vec![listed]
        } else {
            inner
        }
    }

    fn version(&self) -> Option<String> {
        match self.built.adapter.keys.version.as_ref()? {
            Version::Content(pattern) => known::version_in(&self.built.program, pattern)
                .ok()
                .flatten(),
            Version::Command(command) => {
                let mut output = Collected::default();
                let spec = self.spec(command, &Filling::default(), self.request.limit);
                run(&spec, &mut output).ok()?;
                let text = String::from_utf8_lossy(&output.0).into_owned();
                let version = regex::Regex::new(r"\d+(?:\.\w+)+").ok()?;
                version.find(&text).map(|found| found.as_str().to_owned())
            }
        }
    }

    fn job(&self, listed: Listed) -> Job {
        let Listed { name, mut case } = listed;
        if let Some(target) = &self.built.target {
            case.benchmark = format!("{target}/{}", case.benchmark);
        }
        Job {
            label: case.id(),
            arguments: (case.values.iter())
                .map(|(name, value)| format!("{name}={}", value.plain()))
                .collect(),
            case: Some(case),
            in_suite: Some(SuiteCase {
                name,
                target: self.built.target.clone(),
            }),
            ..draft(self.source, self.request)
        }
    }
}

/// The parameters of all cases with the values that occur.
fn parameters(jobs: &[Job]) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    let cases = jobs.iter().filter_map(|job| job.case.as_ref());
    for (name, value) in cases.flat_map(|case| &case.values) {
        match found.iter_mut().find(|known| known.name == *name) {
            Some(known) if known.values.contains(value) => {}
            Some(known) => known.values.push(value.clone()),
            None => found.push(Parameter {
                name: name.clone(),
                values: vec![value.clone()],
            }),
        }
    }
    found
}

/// Keeps the cases with the values that were asked for: a suite decides itself which ones there are.
fn select(description: &mut Description, sets: &[(String, String)]) {
    let fits = |name: &str, value: &Value| {
        let mut wanted = sets.iter().filter(|(known, _)| known == name).peekable();
        wanted.peek().is_none() || wanted.any(|(_, wanted)| *wanted == value.plain())
    };
    description.jobs.retain(|job| {
        let values = job.case.iter().flat_map(|case| &case.values);
        values.into_iter().all(|(name, value)| fits(name, value))
    });
}

/// One case in a fresh process.
fn perform(job: &Job, setting: &Setting<'_>, built: &Built, scratch: &Scratch) -> Attempt {
    let (adapter, keys) = (&built.adapter, &built.adapter.keys);
    let name = job.name_under(&setting.variant.name);
    let options = match &keys.trial {
        Some(words) if job.test => words.clone(),
        _ => command::options(adapter, setting.asked),
    };
    let common = filling(built, &job.source, setting.variant)
        .case(name, job.case.as_ref(), keys)
        .words(
            "options",
            command::without_given(options, &setting.variant.arguments),
        );
    let command = with_places(&keys.run, &["options", "arguments"]);
    let spec_of = |filling: &Filling| Spec {
        limit: setting.limit,
        ..process(built, &command, filling, setting.variant)
    };
    let plain = spec_of(&read::by_hand(common.clone()));
    let output = scratch.path("results");
    let own = common
        .path("output", &output)
        .path("scratch", scratch.folder())
        .text("pipe", PIPE);
    let place = Place::of(adapter);
    let spec = Spec {
        channel: place.channel(),
        pin: setting.pin.cloned(),
        ..spec_of(&own)
    };
    let mut collected = Collected::default();
    let outcome = match run(&setting.layout.apply(&spec), &mut collected) {
        Ok(outcome) => outcome,
        Err(error) => return Attempt::not_started(&plain, &error, job, setting),
    };
    let case = job
        .case
        .clone()
        .unwrap_or_else(|| Case::new(name, Vec::new()));
    let written = place.written(&collected, scratch, &output);
    let is_tried = job.test && keys.trial.is_some();
    let mut said = None;
    let (seen, fault) = match read::observation(adapter, name, &case, &written) {
        // Suites that only try a case write no results of it.
        (None, Some(_)) if is_tried => (Some(Observation::new(case, Vec::new())), None),
        (Some(seen), Some(cause)) if seen.samples.is_empty() => {
            said = Some(cause.clone());
            (None, Some(cause))
        }
        read => read,
    };
    let seen = seen.into_iter().collect();
    let mut attempt = Attempt::new(&plain, &outcome, seen, fault, job, setting);
    if place == Place::Stdout {
        attempt.stdout = String::from_utf8_lossy(&collected.0).into_owned();
    }
    if attempt.failure.is_some() {
        attempt.observations.retain(|seen| !seen.samples.is_empty());
    }
    explain(&mut attempt, said);
    attempt
}

/// A suite that says itself what went wrong says more than the status that its process ends with.
fn explain(attempt: &mut Attempt, said: Option<Cause>) {
    let stdout = &attempt.stdout;
    let Some(failure) = &mut attempt.failure else {
        return;
    };
    if matches!(failure.cause, Cause::Exit { .. }) {
        failure.cause = said.unwrap_or(failure.cause.clone());
    }
    if failure.stderr_tail.is_empty() {
        let lines: Vec<&str> = stdout.trim_end().lines().collect();
        failure.stderr_tail = lines[lines.len().saturating_sub(20)..].join("\n");
    }
}

/// Where the results of a process come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Stdout,
    Pipe,
    File,
    /// A file below the folder of the run.
    Like(String),
}

impl Place {
    fn of(adapter: &Adapter) -> Place {
        let has = |place: &str| adapter.keys.run.iter().any(|word| word.contains(place));
        match &adapter.keys.output {
            Some(glob) => Place::Like(glob.clone()),
            None if has("{output}") => Place::File,
            None if has("{pipe}") => Place::Pipe,
            None => Place::Stdout,
        }
    }

    fn channel(&self) -> Channel {
        match self {
            Place::Stdout => Channel::Stdout,
            Place::Pipe => Channel::Pipe("SPEEDWELL_RESULTS"),
            Place::File | Place::Like(_) => Channel::None,
        }
    }

    fn written(&self, collected: &Collected, scratch: &Scratch, output: &Path) -> Vec<u8> {
        match self {
            Place::Stdout | Place::Pipe => collected.0.clone(),
            Place::File => fs::read(output).unwrap_or_default(),
            Place::Like(glob) => {
                let found = known::files_like(scratch.folder(), glob);
                found
                    .first()
                    .and_then(|file| fs::read(file).ok())
                    .unwrap_or_default()
            }
        }
    }
}

/// Everything that came over the line.
#[derive(Default)]
struct Collected(Vec<u8>);

impl Conversation for Collected {
    fn received(&mut self, line: &[u8]) -> Next {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        Next::Wait
    }
}

/// How a plan keeps an adapter: a shipped one by its name, any other one whole.
pub mod stored {
    use super::{Adapter, Arc, shipped};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Name(String),
        Whole(Arc<Adapter>),
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(
        adapter: &Option<Arc<Adapter>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let stored = adapter.as_ref().map(|adapter| {
            let is_shipped = shipped(&adapter.name).is_some_and(|own| own == *adapter);
            if is_shipped {
                Stored::Name(adapter.name.clone())
            } else {
                Stored::Whole(adapter.clone())
            }
        });
        stored.serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// No adapter of that name is shipped.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Arc<Adapter>>, D::Error> {
        match Option::<Stored>::deserialize(from)? {
            Some(Stored::Name(name)) => {
                let unknown = || serde::de::Error::custom(format!("there is no suite '{name}'"));
                shipped(&name).map(Some).ok_or_else(unknown)
            }
            Some(Stored::Whole(adapter)) => Ok(Some(adapter)),
            None => Ok(None),
        }
    }
}
