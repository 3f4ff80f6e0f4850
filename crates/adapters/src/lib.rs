//! Lists and performs the cases of benchmarks, with one harness for each language or framework.
//!
//! A [`LanguageHarness`] lists the cases of a file ([`LanguageHarness::describe_source`]) and runs
//! one of them in a fresh process ([`LanguageHarness::perform_job`]). To support another language,
//! add its harness to `program.rs` or to a file of its own, add one folder to `languages/`, and
//! extend [`harness_for`].

mod cache;
mod code_files;
mod compile;
mod counting;
pub mod discover;
pub mod experiment;
mod failure;
mod fake;
mod job;
mod layout;
mod lexer;
mod node;
pub mod plan;
mod program;
mod reported_values;
mod run_outcome;
mod shared_services;
pub mod snippet;
mod sources;
mod suites;
mod wire;
mod work;

pub use cache::{cache_folder, cache_warning};
pub use code_files::{ModuleLog, code_files, is_javascript, is_python};
pub use counting::check_countable;
pub use discover::is_text;
pub use failure::HarnessFailure;
pub use job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DefaultLoadTool,
    DescribeRequest, ProgressReporter, RunContext, SourceKind, StartMode, SuiteCase, TrialMode,
};
pub use layout::{LinkRecord, LinkedBuild, RunLayout, build_cost, remove_builds};
pub use program::is_harness as is_program_with_harness;
pub use reported_values::RunResult;
pub use run_outcome::{LanguageHarness, RunOutcome};
pub use sources::own_program;
pub use suites::{
    KnownAdapters, build_if_package, build_single_program, builtin_adapter, explain_framework,
    files_matching, framework_without_adapter, is_elf, is_script, is_wrapper, unsupported_option,
};
pub use wire::ProtocolMessage;
pub use work::fingerprint_benchmarks;

use speedwell_model::{SnippetLanguage, Variant};
use std::path::PathBuf;

/// Returns the program that performs the cases of a file under a variant.
pub fn resolve_program_for(source: &BenchmarkSource, variant: &Variant) -> PathBuf {
    variant.program.clone().unwrap_or_else(|| default_program(&source.under(variant)))
}

/// Returns the program to start for variants that do not name one.
fn default_program(source: &BenchmarkSource) -> PathBuf {
    let own_file = || source.file.clone();
    match source.kind {
        SourceKind::NodeCore | SourceKind::Node => PathBuf::from("node"),
        SourceKind::Suite => {
            let program = source.adapter().and_then(|adapter| adapter.keys.program.as_ref());
            program.map_or_else(own_file, PathBuf::from)
        }
        SourceKind::Cpp => snippet::default_program(SnippetLanguage::Cpp),
        SourceKind::Program => own_file(),
        SourceKind::Python => PathBuf::from("python3"),
        SourceKind::Load | SourceKind::Experiment => experiment::default_program(source),
        SourceKind::Snippet(language) => snippet::default_program(language),
        SourceKind::Fake => PathBuf::from("true"),
    }
}

/// Whether a variant's program may be queried for its version. A benchmark program might interpret
/// this query as a command to measure.
pub fn has_version(source: &BenchmarkSource) -> bool {
    match source.kind {
        SourceKind::Suite => source.adapter().is_some_and(|adapter| adapter.keys.program.is_some()),
        kind => kind != SourceKind::Snippet(SnippetLanguage::Sh),
    }
}

/// Returns the harness for files of this kind.
pub fn harness_for(kind: SourceKind) -> &'static dyn LanguageHarness {
    match kind {
        SourceKind::NodeCore => &node::core::NodeCoreHarness,
        SourceKind::Node => &node::NodeHarness,
        SourceKind::Suite => &suites::FrameworkHarness,
        SourceKind::Cpp => &program::CppHarness,
        SourceKind::Program => &program::ProgramHarness,
        SourceKind::Python => &program::PythonHarness,
        SourceKind::Load | SourceKind::Experiment => &experiment::ExperimentHarness,
        SourceKind::Snippet(_) => &snippet::SnippetHarness,
        SourceKind::Fake => &fake::FakeHarness,
    }
}
