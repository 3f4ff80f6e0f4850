//! Builds the bench targets of a cargo package or workspace ([`build_with_cargo`]), and copies built
//! programs to the cache folder ([`copy_to_cache`]).
//!
//! The copies have names that depend on their content, so that a rebuild never replaces a program
//! that is being measured.

use super::command::CollectedOutput;
use super::registry::{
    KnownAdapters, builtin_adapter, explain_framework, framework_without_adapter,
};
use crate::cache::{self, cache_folder};
use crate::compile::{BuiltProgram, CompileFailure, remove_unused};
use crate::reported_values::invalid_cause;
use serde::Deserialize;
use speedwell_machine::process::{ChannelKind, ProcessEnd, ProcessSpec, begin_activity, run_child};
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

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

/// Builds every bench target of a package or workspace.
///
/// # Errors
/// Fails if cargo fails, if it builds no bench target, or if a target belongs to an unsupported
/// framework.
pub fn build_with_cargo(
    adapters: &KnownAdapters,
    mut spec: ProcessSpec,
) -> Result<Vec<BuiltProgram>, CompileFailure> {
    let words = ["bench", "--no-run", "--bench", "*"];
    let replay = spec.clone().args(words);
    spec = spec.args(words).args(["--message-format=json-render-diagnostics"]);
    spec.channel = ChannelKind::Stdout;
    let mut output = CollectedOutput::default();
    let folder =
        spec.directory.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let _activity = begin_activity(format!("compiling {folder} with cargo"));
    let outcome = run_child(&spec, &mut output)
        .map_err(|error| CompileFailure::start_failed(error.to_string()).with_replay(&replay))?;
    if outcome.ended != ProcessEnd::Exit(0) {
        let stderr = outcome.stderr.last_lines(20);
        let line = stderr.lines().find(|line| line.starts_with("error"));
        let message = line.unwrap_or("cargo gave no reason").to_owned();
        let failure = CompileFailure::from_process(&spec, &outcome, &message, stderr);
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
        let cause = invalid_cause("has no bench target that cargo builds");
        return Err(CompileFailure::before_start(cause).with_replay(&replay));
    }
    Ok(built)
}

fn from_cargo_target(
    adapters: &KnownAdapters,
    program: &Path,
    target: String,
    folder: Option<&Path>,
) -> Result<BuiltProgram, CompileFailure> {
    let recognised = adapters.recognize(program);
    if let (None, Some(framework)) = (&recognised, framework_without_adapter(program)) {
        let explanation = explain_framework(framework, &program.to_string_lossy());
        let reason =
            format!("has a bench target '{target}' that cannot be measured: {explanation}");
        return Err(CompileFailure::before_start(invalid_cause(reason)));
    }
    let adapter = recognised.or_else(|| builtin_adapter("libtest"));
    let missing = || CompileFailure::start_failed("the adapter 'libtest' is missing".to_owned());
    Ok(BuiltProgram {
        program: copy_to_cache(program, &target)?,
        adapter: adapter.ok_or_else(missing)?,
        folder: folder.unwrap_or(Path::new("/")).to_owned(),
        target: Some(target),
    })
}

/// Copies the program to the cache folder, under a name that depends on its content.
///
/// # Errors
/// Fails if the program or the folder cannot be accessed.
pub fn copy_to_cache(program: &Path, name: &str) -> Result<PathBuf, CompileFailure> {
    let folder = cache_folder().join("suites");
    let io_failure = |error: std::io::Error| {
        CompileFailure::start_failed(format!("'{}': {error}", folder.display()))
    };
    let content = fs::read(program).map_err(io_failure)?;
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, &content).simple().to_string();
    let cached = folder.join(format!("{name}-{digest}"));
    fs::create_dir_all(&folder).map_err(io_failure)?;
    if cached.exists() {
        cache::mark_used(&cached);
        return Ok(cached);
    }
    remove_unused(&folder);
    let draft = folder.join(format!("draft-{digest}-{}", std::process::id()));
    let moved = fs::copy(program, &draft).and_then(|_| fs::rename(&draft, &cached));
    moved.inspect_err(|_| cache::remove_entry(&draft)).map_err(io_failure)?;
    Ok(cached)
}
