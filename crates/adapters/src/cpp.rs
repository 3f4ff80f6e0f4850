//! Compiles C++ source files that include `speedwell.hpp`, and drives the compiled programs over
//! the harness protocol.
//!
//! A variant's program is the compiler, and the variant's arguments are compiler flags. One command
//! can therefore compare two builds of the same source. `compile.rs` decides when to recompile.

use super::compile::{self, BuildRecipe, CompileFailure, unpack_harness, variable_words};
use super::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use super::layout::{LinkRecord, ObjectFiles, RunLayout};
use super::protocol::{self, draft_job};
use super::snippet::default_program as default_compiler;
use super::{LanguageHarness, RunOutcome, program, sources};
use speedwell_model::{SnippetLanguage, Variant};
use std::path::{Path, PathBuf};

/// Default flags of every file. Flags of the file or variant follow these and take precedence.
const DEFAULT_FLAGS: [&str; 3] = ["-std=c++17", "-O2", "-pthread"];

/// Prefix of a comment line with flags that a file needs.
const FLAGS_PREFIX: &str = "// speedwell: flags ";

/// Harness for C++ source files.
pub struct CppHarness;

impl LanguageHarness for CppHarness {
    fn describe_source(
        &self,
        source: &BenchmarkSource,
        request: &DescribeRequest,
    ) -> BenchmarkDescription {
        match build_benchmark(source, &request.program, &request.variant, RunLayout::default()) {
            Ok((built, _)) => {
                let mut plain = program::plain_command(&built, source);
                plain.environment = request.variant.environment.clone();
                let spec = program::with_channel(plain.clone());
                let listing = plain.args(["--list"]);
                protocol::describe_file(
                    source,
                    request,
                    &spec,
                    &listing,
                    &draft_job(source, request),
                )
            }
            Err(compile_failure) => BenchmarkDescription {
                failure: Some(compile_failure.into_failure(source, None)),
                ..BenchmarkDescription::default()
            },
        }
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        match build_benchmark(&job.source, &setting.program, setting.variant, setting.layout) {
            Ok((built, linking)) => {
                let plain = program::plain_command(&built, &job.source);
                let mut attempt = program::perform_case(job, setting, plain);
                // The linked program no longer exists when a user reads the failure.
                if let (Some(linking), Some(failure)) = (&linking, &mut attempt.failure) {
                    failure.replay = linking.prepend_link(&failure.replay);
                }
                attempt.with_linking(linking)
            }
            Err(compile_failure) => RunOutcome {
                interrupted: compile_failure.interrupted,
                failure: Some(compile_failure.into_failure(&job.source, Some((job, setting)))),
                ..RunOutcome::default()
            },
        }
    }

    fn prepare_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) {
        let _ = build_benchmark(&job.source, &setting.program, setting.variant, setting.layout);
    }

    fn default_program(&self, _source: &BenchmarkSource) -> PathBuf {
        default_compiler(SnippetLanguage::Cpp)
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Builds the program of `source` under `variant`. The harness takes far longer to compile than
/// most benchmarks. It therefore becomes a separate object, which other benchmark files and later
/// versions of this file reuse.
fn build_benchmark(
    source: &BenchmarkSource,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(PathBuf, Option<LinkRecord>), CompileFailure> {
    let header = unpack_harness(&sources::CPP)?;
    let default_flags = DEFAULT_FLAGS.map(str::to_owned).into_iter();
    // In `CXX='ccache g++'`, the words after the first are arguments of every compiler call.
    let compiler_words = variable_words("CXX", &[]).into_iter().skip(1);
    let mut flags: Vec<String> = match variant.program {
        Some(_) => default_flags.collect(),
        None => compiler_words.chain(default_flags).collect(),
    };
    flags.extend(variable_words("CXXFLAGS", &variant.environment));
    flags.extend(read_flags(&source.file));
    flags.extend(variant.arguments.iter().cloned());
    flags.extend(layout.compiler_flags());
    let harness = BuildRecipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: header.join("main.cpp"),
        directory: header.clone(),
        header,
        environment: variant.environment.clone(),
    };
    let main = compile::build_program(&harness)?;
    let mut benchmark_flags = [&flags[..], &["-DSPEEDWELL_NO_MAIN".to_owned()]].concat();
    benchmark_flags.push(match layout.build {
        Some(_) => "-c".to_owned(),
        None => main.to_string_lossy().into_owned(),
    });
    let built = compile::build_program(&BuildRecipe {
        flags: benchmark_flags,
        file: source.file.clone(),
        directory: source.directory.clone(),
        ..harness
    })?;
    let objects = ObjectFiles {
        compiler,
        files: vec![built.clone(), main],
        flags: &flags,
        directory: &source.directory,
        environment: &variant.environment,
    };
    objects.program_of(layout.build, built)
}

/// Returns the flags that a file requests in its comments.
fn read_flags(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(FLAGS_PREFIX));
    lines.flat_map(|words| shell_words::split(words).unwrap_or_default()).collect()
}
