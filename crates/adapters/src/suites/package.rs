//! Builds the programs of a package before it is known which of its cases will run.

use super::{KnownAdapters, build_programs};
use crate::ProgressReporter;
use crate::compile::CompileFailure;
use crate::job::BenchmarkSource;
use anyhow::{anyhow, bail};
use speedwell_config::adapter::SuiteAdapter;
use speedwell_model::Variant;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Builds the programs of a package under a variant. Does nothing if the source is not a package,
/// or if this process has already built the programs.
///
/// # Errors
/// Fails if the package does not compile, or its tool is missing.
pub fn build_if_package(
    source: &BenchmarkSource,
    variant: &Variant,
    reporter: ProgressReporter<'_>,
) -> anyhow::Result<()> {
    let Some(adapter) = source.adapter().filter(|adapter| adapter.keys.build.is_some()) else {
        return Ok(());
    };
    let source = source.under(variant);
    let tool = adapter.keys.program.as_ref().map(PathBuf::from);
    let default_program = || tool.unwrap_or_else(|| source.file.clone());
    let program = variant.program.clone().unwrap_or_else(default_program);
    let built =
        build_programs((adapter, &source.user_suites), &source.file, &program, variant, reporter);
    built.map(drop).map_err(|error| {
        anyhow!("'{}' of '{}' {}", source.name, variant.name, describe_failure(&error))
    })
}

/// Explains why nothing was built, and how to repeat the build.
fn describe_failure(error: &CompileFailure) -> String {
    let CompileFailure { cause, replay, .. } = error;
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
            .map_err(|error| anyhow!("'{shown}' {}", describe_failure(&error)))?;
    match &built[..] {
        [only] => Ok((only.program.clone(), only.adapter.clone())),
        several => bail!(
            "the package '{shown}' has {} benchmark programs; expected one\n\
             hint: --old rev:A --new rev:B compares revisions of a package with all its programs",
            several.len()
        ),
    }
}
