//! Builds the benchmark programs of a package, with a single command or with cargo. The tool
//! decides for itself what to rebuild; each Speedwell process calls it once per package and
//! variant. Start at [`target_programs`], which returns each of them as a [`BuiltProgram`].
//!
//! Built programs are copied to the cache folder. The copies have names that depend on their
//! content, so that a rebuild never replaces a program that is being measured.

use super::command::{CollectedOutput, PlaceholderValues, check_options};
use super::registry::{
    KnownAdapters, builtin_adapter, explain_framework, framework_without_adapter,
};
use crate::cache::{self, cache_folder};
use crate::compile::{io_failure, remove_unused, run_compiler};
use crate::failure::HarnessFailure;
use crate::job::{BenchmarkSource, ProgressReporter};
use anyhow::{anyhow, bail};
use serde::Deserialize;
use speedwell_config::adapter::{BuildStep, SuiteAdapter};
use speedwell_machine::process::{
    ChannelKind, ProcessEnd, ProcessSpec, ScratchFolder, begin_activity, resolve_program, run_child,
};
use speedwell_model::{SessionEvent, Variant};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// A built program of a framework.
#[derive(Debug, Clone)]
pub struct BuiltProgram {
    /// Path in the cache folder.
    pub program: PathBuf,
    /// Adapter with which the program is listed and executed.
    pub adapter: Arc<SuiteAdapter>,
    /// Name of the bench target, if cargo built the program.
    pub target: Option<String>,
    /// Folder in which the language's tool would start the program.
    pub folder: PathBuf,
}

impl BuiltProgram {
    /// Returns the values for the placeholders in the adapter's commands. `source` is the benchmark
    /// file or folder.
    pub fn placeholder_values(&self, source: &Path, variant: &Variant) -> PlaceholderValues {
        let folder = if source.is_dir() { Some(source) } else { source.parent() };
        PlaceholderValues::default()
            .path("program", &self.program)
            .path("file", source)
            .path("folder", folder.unwrap_or(Path::new("/")))
            // Listing writes no results. A replay by hand may write results to this folder.
            .text("scratch", "/tmp/speedwell-results")
            .words("arguments", variant.arguments.clone())
    }

    /// Builds the process of a command.
    pub fn build_process(
        &self,
        command: &[String],
        filling: &PlaceholderValues,
        variant: &Variant,
    ) -> ProcessSpec {
        let mut words = filling.fill(command).into_iter();
        let mut spec = ProcessSpec::new(words.next().unwrap_or_default()).args(words);
        let declared = self.adapter.keys.environment.iter();
        spec.environment =
            declared.map(|(name, value)| (name.clone(), filling.fill_text(value))).collect();
        spec.environment.extend(variant.environment.iter().cloned());
        spec.directory = Some(self.folder.clone());
        spec
    }
}

/// Returns the programs of a target: the target itself, or the programs built from it.
pub(super) fn target_programs(
    source: &BenchmarkSource,
    program: &Path,
    variant: &Variant,
) -> BuildOutcome {
    let adapter = source.suite.clone().ok_or_else(|| {
        let shown = source.file.display();
        HarnessFailure::invalid(format!("'{shown}' belongs to no known suite"))
    })?;
    check_options(&adapter, &variant.arguments)?;
    if adapter.keys.build.is_none() {
        return Ok(vec![BuiltProgram {
            program: program.to_owned(),
            adapter,
            target: None,
            folder: source.directory.clone(),
        }]);
    }
    let user_suites = &source.user_suites;
    let built = build_programs((&adapter, user_suites), &source.file, program, variant, &|_| ())?;
    built.iter().try_for_each(|built| check_options(&built.adapter, &variant.arguments))?;
    Ok(built)
}

/// Builds the programs of a package under a variant, before it is known which of its cases will
/// run. `program` is the tool that builds them. Does nothing if the source is not a package, or if
/// this process has already built the programs.
///
/// # Errors
/// Fails if the package does not compile, or its tool is missing.
pub fn build_if_package(
    source: &BenchmarkSource,
    program: &Path,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> anyhow::Result<()> {
    let Some(adapter) = source.adapter().filter(|adapter| adapter.keys.build.is_some()) else {
        return Ok(());
    };
    let source = source.under(variant);
    let built =
        build_programs((adapter, &source.user_suites), &source.file, program, variant, reporter);
    built.map(drop).map_err(|failure| {
        anyhow!("'{}' of '{}' {}", source.name, variant.name, explain_build_failure(&failure))
    })
}

/// Explains why nothing was built, and how to repeat the build.
fn explain_build_failure(failure: &HarnessFailure) -> String {
    let HarnessFailure { cause, replay, .. } = failure;
    match replay.as_str() {
        "" => cause.to_string(),
        command => format!("{cause}\nhint: repeat it with: {command}"),
    }
}

/// Returns the only program built from a package folder, and its adapter.
///
/// # Errors
/// Fails if the package cannot be built, or has several programs.
pub fn build_single_program(
    (adapter, adapters): (&SuiteAdapter, &KnownAdapters),
    folder: &Path,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> anyhow::Result<(PathBuf, Arc<SuiteAdapter>)> {
    let tool = adapter.keys.program.clone().unwrap_or_default();
    let shown = folder.display();
    let user_adapters = adapters.user_adapters();
    let built =
        build_programs((adapter, user_adapters), folder, Path::new(&tool), variant, reporter)
            .map_err(|failure| anyhow!("'{shown}' {}", explain_build_failure(&failure)))?;
    match &built[..] {
        [only] => Ok((only.program.clone(), only.adapter.clone())),
        several => bail!(
            "the package '{shown}' has {} benchmark programs; expected one\n\
             hint: --old rev:A --new rev:B compares revisions of a package with all its programs",
            several.len()
        ),
    }
}

/// Build timeout: compiling all dependencies of a package may take a long time on a small machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(3600);

type BuildOutcome = Result<Vec<BuiltProgram>, HarnessFailure>;

/// Inputs of a build: folder, tool, adapter, and variables of the variant.
type BuildKey = (PathBuf, PathBuf, String, Vec<(String, String)>);

static BUILT_PROGRAMS: Mutex<Option<HashMap<BuildKey, Arc<OnceLock<BuildOutcome>>>>> =
    Mutex::new(None);

/// Builds the programs of a package under a variant. The adapter of each program is one of the
/// user's (`user_adapters`) or a built-in one. Later calls return the same programs. `reporter`
/// receives a notice when building begins.
///
/// # Errors
/// Fails if the tool is missing or rejects the package, if it builds no benchmark program, or if a
/// program belongs to an unsupported framework.
fn build_programs(
    (adapter, user_adapters): (&SuiteAdapter, &[Arc<SuiteAdapter>]),
    folder: &Path,
    tool: &Path,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> BuildOutcome {
    let key =
        (folder.to_owned(), tool.to_owned(), adapter.name.clone(), variant.environment.clone());
    let slot = {
        let mut guard = BUILT_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        guard.get_or_insert_default().entry(key).or_default().clone()
    };
    let build = || -> BuildOutcome {
        let target = folder.file_name().unwrap_or(folder.as_os_str());
        reporter(&SessionEvent::Building {
            target: &target.to_string_lossy(),
            variant: &variant.name,
        });
        let adapters =
            KnownAdapters::new(&[], folder).unwrap_or_default().with_user_adapters(user_adapters);
        let tool = resolve_program(tool).map_err(|error| {
            HarnessFailure::start_failed(format!("{error:#}{}", adapter.install_hint()))
        })?;
        let mut spec = ProcessSpec::new(&tool);
        spec.environment = variant.environment.clone();
        spec.directory = Some(folder.to_owned());
        spec.limit = BUILD_TIMEOUT;
        match &adapter.keys.build {
            Some(BuildStep::Command(command)) => {
                build_with_command((adapter, &adapters), command, spec)
            }
            _ => build_with_cargo(&adapters, spec),
        }
    };
    slot.get_or_init(build).clone()
}

/// Builds with a single command.
fn build_with_command(
    (adapter, adapters): (&SuiteAdapter, &KnownAdapters),
    command: &[String],
    spec: ProcessSpec,
) -> BuildOutcome {
    let folder = spec.directory.clone().unwrap_or_default();
    let scratch =
        ScratchFolder::new().map_err(|error| HarnessFailure::start_failed(format!("{error:#}")))?;
    let output = scratch.path("built");
    let filling = PlaceholderValues::default()
        .path("program", &spec.program)
        .path("folder", &folder)
        .path("file", &folder);
    let spec_with = |output: &Path| {
        let mut words = filling.clone().path("output", output).fill(command).into_iter();
        ProcessSpec {
            program: words.next().unwrap_or_default().into(),
            arguments: words.collect(),
            ..spec.clone()
        }
    };
    let replay = spec_with(Path::new("/tmp/built"));
    run_compiler(&spec_with(&output), &replay)?;
    let missing_program = |reason: String| HarnessFailure::invalid(reason).with_replay(&replay);
    if !output.is_file() {
        // `go test -c` produces nothing for a package without tests.
        return Err(missing_program("produced no benchmark program".to_owned()));
    }
    let recognised = adapters.recognize(&output);
    let finished = recognised.filter(|adapter| adapter.keys.build.is_none());
    let adapter = finished.ok_or_else(|| {
        missing_program(format!(
            "produced a program that belongs to no known suite (built with '{}')",
            adapter.name
        ))
    })?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(vec![BuiltProgram {
        program: copy_to_cache(&output, &name)?,
        adapter,
        target: None,
        folder,
    }])
}

/// A message from cargo about something it has built.
#[derive(Deserialize)]
struct CargoArtifact {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<CargoTarget>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
}

/// Builds every bench target of a cargo package or workspace.
fn build_with_cargo(adapters: &KnownAdapters, mut spec: ProcessSpec) -> BuildOutcome {
    let words = ["bench", "--no-run", "--bench", "*"];
    let replay = spec.clone().args(words);
    spec = spec.args(words).args(["--message-format=json-render-diagnostics"]);
    spec.channel = ChannelKind::Stdout;
    let mut output = CollectedOutput::default();
    let folder =
        spec.directory.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let _activity = begin_activity(format!("compiling {folder} with cargo"));
    let outcome = run_child(&spec, &mut output)
        .map_err(|error| HarnessFailure::start_failed(error.to_string()).with_replay(&replay))?;
    if outcome.ended != ProcessEnd::Exit(0) {
        let stderr = outcome.stderr.last_lines(20);
        let line = stderr.lines().find(|line| line.starts_with("error"));
        let message = line.unwrap_or("cargo gave no reason").to_owned();
        let failure = HarnessFailure::of_compiler(&spec, &outcome, &message, stderr);
        return Err(failure.with_replay(&replay));
    }
    let mut built = Vec::new();
    for line in output.0.split(|&byte| byte == b'\n') {
        let Ok(artifact) = serde_json::from_slice::<CargoArtifact>(line) else { continue };
        let (Some(program), Some(target)) = (artifact.executable, artifact.target) else {
            continue;
        };
        if target.kind.iter().any(|kind| kind == "bench") {
            let package = artifact.manifest_path.as_deref().and_then(Path::parent);
            built.push(from_cargo_target(adapters, &program, target.name, package)?);
        }
    }
    if built.is_empty() {
        let failure = HarnessFailure::invalid("has no bench target that cargo builds");
        return Err(failure.with_replay(&replay));
    }
    Ok(built)
}

fn from_cargo_target(
    adapters: &KnownAdapters,
    program: &Path,
    target: String,
    folder: Option<&Path>,
) -> Result<BuiltProgram, HarnessFailure> {
    let recognised = adapters.recognize(program);
    if let (None, Some(framework)) = (&recognised, framework_without_adapter(program)) {
        let explanation = explain_framework(framework, &program.to_string_lossy());
        return Err(HarnessFailure::invalid(format!(
            "has a bench target '{target}' that cannot be measured: {explanation}"
        )));
    }
    let adapter = recognised.or_else(|| builtin_adapter("libtest"));
    let missing = || HarnessFailure::start_failed("the adapter 'libtest' is missing".to_owned());
    Ok(BuiltProgram {
        program: copy_to_cache(program, &target)?,
        adapter: adapter.ok_or_else(missing)?,
        folder: folder.unwrap_or(Path::new("/")).to_owned(),
        target: Some(target),
    })
}

/// Copies the program to the cache folder, under a name that depends on its content.
fn copy_to_cache(program: &Path, name: &str) -> Result<PathBuf, HarnessFailure> {
    let folder = cache_folder().join("suites");
    let copy = || -> std::io::Result<PathBuf> {
        let content = fs::read(program)?;
        let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, &content).simple().to_string();
        let cached = folder.join(format!("{name}-{digest}"));
        fs::create_dir_all(&folder)?;
        if cached.exists() {
            cache::mark_used(&cached);
            return Ok(cached);
        }
        remove_unused(&folder);
        let draft = cache::draft_of(&cached);
        let moved = fs::copy(program, &draft).and_then(|_| fs::rename(&draft, &cached));
        moved.inspect_err(|_| cache::remove_entry(&draft)).map(|()| cached)
    };
    copy().map_err(|error| io_failure(&folder, &error))
}
