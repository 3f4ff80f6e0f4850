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
mod dispatch;
pub mod experiment;
mod failure;
mod fake;
mod job;
mod layout;
mod lexer;
mod node;
mod part;
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
pub use dispatch::{harness_for, has_version, resolve_program_for};
pub use failure::HarnessFailure;
pub use job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DefaultLoadTool,
    DescribeRequest, ProgressReporter, RunContext, SourceKind, StartMode, SuiteCase, TrialMode,
};
pub use layout::{LinkRecord, LinkedBuild, RunLayout, build_cost, remove_builds};
pub use program::is_harness as is_program_with_harness;
pub use reported_values::RunResult;
pub use run_outcome::{DescribeResult, LanguageHarness, RunOutcome};
pub use sources::own_program;
pub use suites::{
    KnownAdapters, build_if_package, build_single_program, builtin_adapter, explain_framework,
    files_matching, framework_without_adapter, is_elf, is_script, is_wrapper, unsupported_option,
};
pub use wire::ProtocolMessage;
pub use work::fingerprint_benchmarks;
