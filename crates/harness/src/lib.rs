//! Harnesses: programs in the language of the code under test that perform cases.
//!
//! A [`Harness`] answers two questions: which cases does this file have ([`Harness::describe`]),
//! and what does one fresh process report for one of them ([`Harness::perform`])? Knows neither
//! plans nor stores. A new language needs one file here and one folder under `harness/`.

mod attempt;
mod cache;
mod code_files;
mod compile;
pub mod counting;
mod cpp;
pub mod discover;
mod events;
pub mod experiment;
mod fake;
mod harness;
mod job;
mod layout;
mod module_log;
mod node;
pub mod plan;
mod program;
mod protocol;
mod python;
mod remembered;
mod report;
pub mod snippet;
mod sources;
mod suites;
mod wire;
mod work;

pub use attempt::{Attempt, Observation};
pub use cache::{cache_folder, cache_warning};
pub use code_files::code_files;
pub use discover::is_text;
pub use harness::Harness;
pub use job::{
    Description, Job, Kind, NamePatterns, Parameter, Request, Route, Setting, Source, SuiteCase,
    Tell, Trial, UsualTool,
};
pub use layout::{Build, Linking, RunLayout, build_cost, remove_builds};
pub use module_log::ModuleLog;
pub use program::is_harness as is_program_with_harness;
pub use sources::own_program;
pub use suites::{
    Known, build, explain_framework, framework_without_adapter, is_elf, is_wrapper,
    meaningless_option, program_of_package, shipped,
};
pub use wire::Message;
pub use work::fingerprints;

use speedwell_model::Variant;
use std::path::PathBuf;

/// Returns the program that performs a file under a variant.
pub fn program_of(source: &Source, variant: &Variant) -> PathBuf {
    let usual = || for_kind(source.kind).usual_program(&source.under(variant));
    variant.program.clone().unwrap_or_else(usual)
}

/// Returns the harness of that kind.
pub fn for_kind(kind: Kind) -> &'static dyn Harness {
    match kind {
        Kind::NodeCore => &node::core::NodeCore,
        Kind::Node => &node::Node,
        Kind::Suite => &suites::Suites,
        Kind::Cpp => &cpp::Cpp,
        Kind::Program => &program::Program,
        Kind::Python => &python::Python,
        Kind::Load | Kind::Experiment => &experiment::Experiments,
        Kind::Snippet(language) => snippet::harness(language),
        Kind::Fake => &fake::Fake,
    }
}
