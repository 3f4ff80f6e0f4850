//! Benchmarks of other frameworks, driven by adapters: listed, executed one by one in fresh
//! processes, and parsed.
//!
//! Decides how one case is started and how its output is handled. Options of a framework are
//! declared in `crates/harness/suites/*.toml`; `results::foreign::suites` parses its output. Start
//! at [`Suites`]; at [`Known`] for how files are recognized, at `build.rs` for packages that are
//! built first.

mod build;
mod command;
mod known;
mod list;
mod place;
mod read;
pub mod stored;
mod without_adapter;

pub(crate) use known::files_like;
pub use known::{Known, is_elf, is_wrapper, shipped};
pub use without_adapter::{explain_framework, framework_without_adapter};

use crate::compile::Failed;
use crate::job::{Description, Job, Request, Setting, Source};
use crate::{Attempt, Harness, Observation, Tell};
use anyhow::{Result, anyhow, bail};
use build::Built;
use command::{Filling, PIPE, with_places};
use list::{Asking, parameters, select};
use place::{Collected, Place};
use read::last_lines;
use speedwell_model::{Case, Cause, Division, Variant};
use speedwell_process::{Ended, Scratch, Spec, run};
use speedwell_suite::adapter::Adapter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Harness for all adapters.
pub struct Suites;

impl Harness for Suites {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let built = match programs(source, &request.program, &request.variant) {
            Ok(built) => built,
            Err(failed) => {
                return Description {
                    failure: Some(failed.failure(source, None)),
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
            description.warnings.extend(described.warnings);
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
                    failure: Some(failed.failure(&job.source, Some((job, setting)))),
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

/// Returns the requested option that the framework of a file does not support, if any.
pub fn meaningless_option(source: &Source, asked: Division) -> Option<&'static str> {
    // For a package, only the programs built from it have options.
    let adapter = source.adapter().filter(|own| own.keys.build.is_none())?;
    command::without_meaning(adapter, asked)
}

/// Builds the programs of a package under a variant, unless this process has done so. Ignores other
/// targets.
///
/// # Errors
/// It does not compile, or its tool is missing.
pub fn build(source: &Source, variant: &Variant, tell: Tell<'_>) -> Result<()> {
    let Some(adapter) = source.adapter().filter(|own| own.keys.build.is_some()) else {
        return Ok(());
    };
    let usual = || Suites.usual_program(&source.under(variant));
    let program = variant.program.clone().unwrap_or_else(usual);
    let source = source.under(variant);
    let built = build::programs(
        (adapter, &source.user_suites),
        &source.file,
        &program,
        variant,
        tell,
    );
    built.map(drop).map_err(|failed| {
        anyhow!(
            "'{}' of '{}' {}",
            source.name,
            variant.name,
            words_of(&failed)
        )
    })
}

/// Explains why nothing was built, and how to repeat it.
fn words_of(failed: &Failed) -> String {
    let Failed { cause, replay, .. } = failed;
    match replay.as_str() {
        "" => cause.to_string(),
        line => format!("{cause}\nhint: repeat it with: {line}"),
    }
}

/// Returns the only program built from a package folder, and its adapter.
///
/// # Errors
/// It cannot be built, or has several programs.
pub fn program_of_package(
    (adapter, known): (&Adapter, &Known),
    folder: &Path,
    variant: &Variant,
    tell: Tell<'_>,
) -> Result<(PathBuf, Arc<Adapter>)> {
    let tool = adapter.keys.program.clone().unwrap_or_default();
    let shown = folder.display();
    let own = known.of_user();
    let built = build::programs((adapter, own), folder, Path::new(&tool), variant, tell);
    let built = built.map_err(|failed| anyhow!("'{shown}' {}", words_of(&failed)))?;
    match &built[..] {
        [only] => Ok((only.program.clone(), only.adapter.clone())),
        several => bail!(
            "the package '{shown}' has {} programs of benchmarks, and one is compared with another\nhint: \
             --old rev:A --new rev:B compares revisions of a package with all that it has",
            several.len()
        ),
    }
}

/// Returns the programs of a target: itself, or those built from it.
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
    let own = &source.user_suites;
    let built = build::programs((&adapter, own), &source.file, program, variant, &|_| ())?;
    for built in &built {
        if let Some(word) = command::refused(&built.adapter, &variant.arguments) {
            return Err(refused(&built.adapter, word));
        }
    }
    Ok(built)
}

fn refused(adapter: &Adapter, word: &str) -> Failed {
    Failed::before_start(refused_option(adapter, word))
}

/// Explains why an option of the user is rejected.
fn refused_option(adapter: &Adapter, option: &str) -> Cause {
    let reason = format!(
        "does not take '{option}' of {}: cases are chosen with --filter and --set, and results are kept by Speedwell",
        adapter.name
    );
    Cause::Invalid { reason }
}

/// Performs one case in a fresh process.
fn perform(job: &Job, setting: &Setting<'_>, built: &Built, scratch: &Scratch) -> Attempt {
    let (adapter, keys) = (&built.adapter, &built.adapter.keys);
    let name = job.name_under(&setting.variant.name);
    let options = match &keys.trial {
        Some(words) if job.test => words.clone(),
        _ => command::options(adapter, setting.asked),
    };
    let options = command::without_given(options, &setting.variant.arguments);
    let common = built
        .filling(&job.source, setting.variant)
        .case(name, job.case.as_ref(), keys)
        .words("options", options);
    let command = with_places(&keys.run, &["options", "arguments"]);
    let spec_of = |filling: &Filling| Spec {
        limit: setting.limit,
        ..built.process(&command, filling, setting.variant)
    };
    let plain = spec_of(&read::by_hand(common.clone()));
    let output = scratch.path("results");
    let own = common
        .path("output", &output)
        .path("scratch", scratch.folder())
        .text("pipe", PIPE);
    let place = Place::from_adapter(adapter);
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
    let own_case = job.case.clone();
    let case = own_case.unwrap_or_else(|| Case::new(name, Vec::new()));
    let written = place.written(&collected, scratch, &output);
    let printed = match place {
        Place::Stdout => String::from_utf8_lossy(&collected.0).into_owned(),
        _ => outcome.stdout.text(),
    };
    let (mut seen, mut fault) = read::observation(adapter, name, &case, &written);
    if seen.is_none() && outcome.ended == Ended::Exit(0) {
        let skip = read::skip(adapter, &printed).or(fault.take_if(|fault| fault.is_skip()));
        if job.test && keys.trial.is_some() && skip.is_none() {
            // Frameworks write no results when they only try a case.
            (seen, fault) = (Some(Observation::new(case, Vec::new())), None);
        }
        fault = skip.or(fault);
    }
    let is_empty = |seen: &Observation| seen.samples.is_empty();
    let said = fault
        .clone()
        .filter(|_| seen.as_ref().is_some_and(is_empty));
    let seen = seen.filter(|_| said.is_none()).into_iter().collect();
    let mut attempt = Attempt::new(&plain, &outcome, seen, fault, job, setting);
    attempt.stdout = printed;
    if attempt.failure.is_some() {
        attempt.observations.retain(|seen| !seen.samples.is_empty());
    }
    explain(&mut attempt, said);
    attempt
}

/// Prefers the framework's own error over its exit status, which says less.
fn explain(attempt: &mut Attempt, said: Option<Cause>) {
    let stdout = &attempt.stdout;
    let Some(failure) = &mut attempt.failure else {
        return;
    };
    if matches!(failure.cause, Cause::Exit { .. }) {
        failure.cause = said.unwrap_or(failure.cause.clone());
    }
    if failure.stderr_tail.is_empty() {
        failure.stderr_tail = last_lines(stdout);
    }
}
