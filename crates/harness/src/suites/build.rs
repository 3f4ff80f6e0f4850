//! Builds benchmark programs from a package folder with the tool of its language.
//!
//! That tool tracks dependencies, so it is called once in the life of this process. Built programs
//! are copied to the cache folder under a name that depends on their content, so that a program
//! that is being measured is never replaced. Start at [`programs`].

use super::command::Filling;
use super::known::{Known, shipped};
use super::place::Collected;
use super::without_adapter::{explain_framework, framework_without_adapter};
use crate::Tell;
use crate::cache::{self, cache_folder};
use crate::compile::{Failed, call, remove_unused};
use crate::job::Source;
use serde::Deserialize;
use speedwell_model::{Cause, Event, Variant};
use speedwell_process::{Ended, Scratch, Spec, begin_activity, replay, resolve, run};
use speedwell_suite::adapter::{Adapter, Build};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// Build timeout: compiling all dependencies of a package may take long on a small machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// A built program.
#[derive(Debug, Clone)]
pub struct Built {
    /// Path in the cache folder.
    pub program: PathBuf,
    /// Adapter that drives it.
    pub adapter: Arc<Adapter>,
    /// Target name in its package, if there are several.
    pub target: Option<String>,
    /// Folder in which its tool would start it.
    pub folder: PathBuf,
}

impl Built {
    /// Values for the placeholders of its commands.
    pub fn filling(&self, source: &Source, variant: &Variant) -> Filling {
        let folder = source.file.parent().unwrap_or(Path::new("/"));
        let folder = if source.file.is_dir() {
            &source.file
        } else {
            folder
        };
        Filling::default()
            .path("program", &self.program)
            .path("file", &source.file)
            .path("folder", folder)
            // Listing writes no results, and neither does a replay by hand.
            .text("scratch", "/tmp/speedwell-results")
            .words("arguments", variant.arguments.clone())
    }

    /// Builds the process of a command.
    pub fn process(&self, command: &[String], filling: &Filling, variant: &Variant) -> Spec {
        let mut words = filling.fill(command).into_iter();
        let mut spec = Spec::new(words.next().unwrap_or_default()).args(words);
        let own = self.adapter.keys.environment.iter();
        spec.environment = own
            .map(|(name, value)| (name.clone(), filling.fill_text(value)))
            .collect();
        spec.environment.extend(variant.environment.iter().cloned());
        spec.directory = Some(self.folder.clone());
        spec
    }
}

type Outcome = Result<Vec<Built>, Failed>;

/// Inputs of a build: folder, tool, adapter, and variables of the variant.
type Key = (PathBuf, PathBuf, String, Vec<(String, String)>);

static BUILT: Mutex<Option<HashMap<Key, Arc<OnceLock<Outcome>>>>> = Mutex::new(None);

/// Builds the programs of a package under a variant, driven by the user's adapters (`own`) or
/// built-in ones. Later calls return the same programs; `tell` receives a notice when building
/// begins.
///
/// # Errors
/// The tool is missing or rejects the package, or none of the programs belongs to a known
/// framework.
pub fn programs(
    (adapter, own): (&Adapter, &[Arc<Adapter>]),
    folder: &Path,
    tool: &Path,
    variant: &Variant,
    tell: Tell<'_>,
) -> Outcome {
    let key = (
        folder.to_owned(),
        tool.to_owned(),
        adapter.name.clone(),
        variant.environment.clone(),
    );
    let place = {
        let mut guard = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        guard
            .get_or_insert_default()
            .entry(key)
            .or_default()
            .clone()
    };
    let build = || {
        let target = folder.file_name().unwrap_or(folder.as_os_str());
        tell(&Event::Building {
            target: &target.to_string_lossy(),
            variant: &variant.name,
        });
        build((adapter, own), folder, tool, variant)
    };
    place.get_or_init(build).clone()
}

fn build(
    (adapter, own): (&Adapter, &[Arc<Adapter>]),
    folder: &Path,
    tool: &Path,
    variant: &Variant,
) -> Outcome {
    let known = Known::new(&[], folder).unwrap_or_default().after(own);
    let tool = resolve(tool)
        .map_err(|error| Failed::start(format!("{error:#}{}", adapter.install_hint())))?;
    let mut spec = Spec::new(&tool);
    spec.environment = variant.environment.clone();
    spec.directory = Some(folder.to_owned());
    spec.limit = LIMIT;
    match &adapter.keys.build {
        Some(Build::Command(command)) => by_command((adapter, &known), command, spec),
        _ => by_cargo(&known, spec),
    }
}

/// Builds with a single command.
fn by_command((adapter, known): (&Adapter, &Known), command: &[String], mut spec: Spec) -> Outcome {
    let folder = spec.directory.clone().unwrap_or_default();
    let scratch = scratch()?;
    let output = scratch.path("built");
    let filling = Filling::default()
        .path("program", &spec.program)
        .path("folder", &folder)
        .path("file", &folder);
    let words = |output: &Path| {
        let words = filling.clone().path("output", output).fill(command);
        words.into_iter()
    };
    let mut shown = spec.clone();
    let place = |spec: &mut Spec, mut words: std::vec::IntoIter<String>| {
        spec.program = words.next().unwrap_or_default().into();
        spec.arguments = words.collect();
    };
    place(&mut shown, words(Path::new("/tmp/built")));
    place(&mut spec, words(&output));
    call(&spec, &shown)?;
    let unmade = |reason: String| Failed {
        replay: replay(&shown),
        ..Failed::before_start(Cause::Invalid { reason })
    };
    if !output.is_file() {
        // `go test -c` produces nothing for a package without tests.
        return Err(unmade("made no program of its benchmarks".to_owned()));
    }
    let recognised = known.recognise(&output);
    let of_suite = recognised.filter(|own| own.keys.build.is_none());
    let adapter = of_suite.ok_or_else(|| {
        unmade(format!(
            "made a program by '{}' that belongs to no known suite",
            adapter.name
        ))
    })?;
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(vec![Built {
        program: kept(&output, &name)?,
        adapter,
        target: None,
        folder,
    }])
}

/// A message of cargo about something it has built.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds every bench target of a package or workspace.
fn by_cargo(known: &Known, mut spec: Spec) -> Outcome {
    let words = ["bench", "--no-run", "--bench", "*"];
    let shown = spec.clone().args(words);
    spec = spec
        .args(words)
        .args(["--message-format=json-render-diagnostics"]);
    spec.channel = speedwell_process::Channel::Stdout;
    let mut output = Collected::default();
    let failed = |cause, output: String, interrupted| Failed {
        cause,
        output,
        replay: replay(&shown),
        interrupted,
    };
    let folder = spec.directory.as_deref().and_then(Path::file_name);
    let folder = folder.unwrap_or_default().to_string_lossy();
    let _activity = begin_activity(format!("compiling {folder} with cargo"));
    let outcome = run(&spec, &mut output).map_err(|error| {
        failed(
            Cause::Start {
                reason: error.to_string(),
            },
            String::new(),
            false,
        )
    })?;
    if outcome.ended != Ended::Exit(0) {
        let said = outcome.stderr.last_lines(20);
        let line = said.lines().find(|line| line.starts_with("error"));
        let reason = format!(
            "does not compile: {}",
            line.unwrap_or("cargo gave no reason")
        );
        let cause = match outcome.ended {
            Ended::Exit(_) => Cause::Invalid { reason },
            _ => outcome.cause(LIMIT).unwrap_or(Cause::Silent),
        };
        return Err(failed(cause, said, outcome.ended == Ended::Interrupted));
    }
    let mut built = Vec::new();
    for line in output.0.split(|&byte| byte == b'\n') {
        let Ok(artifact) = serde_json::from_slice::<Artifact>(line) else {
            continue;
        };
        let (Some(program), Some(target)) = (artifact.executable, artifact.target) else {
            continue;
        };
        if target.kind.iter().any(|kind| kind == "bench") {
            let manifest = artifact.manifest_path.as_deref().and_then(Path::parent);
            built.push(of_cargo(known, &program, target.name, manifest)?);
        }
    }
    if built.is_empty() {
        let reason = "has no bench target that cargo builds".to_owned();
        return Err(failed(Cause::Invalid { reason }, String::new(), false));
    }
    Ok(built)
}

fn of_cargo(
    known: &Known,
    program: &Path,
    target: String,
    folder: Option<&Path>,
) -> Result<Built, Failed> {
    let recognised = known.recognise(program);
    if let (None, Some(framework)) = (&recognised, framework_without_adapter(program)) {
        let why = explain_framework(framework, &program.to_string_lossy());
        let reason = format!("has a bench target '{target}' that cannot be measured: {why}");
        return Err(Failed::before_start(Cause::Invalid { reason }));
    }
    let adapter = recognised.or_else(|| shipped("libtest"));
    let missing = || Failed::start("the adapter 'libtest' is missing".to_owned());
    Ok(Built {
        program: kept(program, &target)?,
        adapter: adapter.ok_or_else(missing)?,
        folder: folder.unwrap_or(Path::new("/")).to_owned(),
        target: Some(target),
    })
}

fn scratch() -> Result<Scratch, Failed> {
    Scratch::new().map_err(|error| Failed::start(format!("{error:#}")))
}

/// Copies the program to the cache folder, under a name that depends on its content.
fn kept(program: &Path, name: &str) -> Result<PathBuf, Failed> {
    let folder = cache_folder().join("suites");
    let cannot = |error: std::io::Error| Failed::start(format!("'{}': {error}", folder.display()));
    let content = fs::read(program).map_err(cannot)?;
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, &content)
        .simple()
        .to_string();
    let kept = folder.join(format!("{name}-{digest}"));
    fs::create_dir_all(&folder).map_err(cannot)?;
    if let Ok(known) = fs::File::open(&kept) {
        // Updates the time of last use, which decides when it is removed.
        let _ = known.set_modified(SystemTime::now());
        return Ok(kept);
    }
    remove_unused(&folder);
    let draft = folder.join(format!("draft-{digest}-{}", std::process::id()));
    let moved = fs::copy(program, &draft).and_then(|_| fs::rename(&draft, &kept));
    moved
        .inspect_err(|_| cache::remove(&draft))
        .map_err(cannot)?;
    Ok(kept)
}
