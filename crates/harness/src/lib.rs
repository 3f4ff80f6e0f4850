//! The other side: programs in the language of the code under test that perform cases.
//!
//! A [`Harness`] answers two questions: which cases has this file ([`Harness::describe`]), and what
//! does one fresh process report for one of them ([`Harness::perform`]). It knows neither plans nor
//! stores. A new language is one file here and one folder under `harness/`.

use std::path::PathBuf;

mod attempt;
mod cache;
pub mod code;
mod compile;
mod cpp;
pub mod discover;
mod events;
pub mod experiment;
mod fake;
mod google_benchmark;
mod job;
mod node;
pub mod plan;
mod program;
mod protocol;
mod python;
mod remembered;
mod report;
mod sources;
mod wire;

pub use attempt::{Attempt, Observation};
pub use cache::{cache_folder, cache_warning};
pub use google_benchmark::{is_elf, is_google_benchmark, is_wrapper};
pub use job::{
    Description, Job, Kind, Parameter, Request, Route, Setting, Source, Trial, UsualTool,
};
pub use program::is_harness as is_program_with_harness;
pub use wire::Message;

/// A language's way of describing and performing benchmarks.
pub trait Harness: Sync {
    /// Finds the cases of a file without measuring anything.
    fn describe(&self, source: &Source, request: &Request) -> Description;

    /// Executes one job in a fresh process.
    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt;

    /// The program used when a variant names none.
    fn usual_program(&self, source: &Source) -> PathBuf;

    /// Whether a variant's program may be asked for its version: a benchmark program might take the
    /// question for an order to measure.
    fn has_version(&self) -> bool {
        true
    }

    /// Whether the harness decides how long a sample is and how many a run has.
    fn divides_runs(&self) -> bool {
        false
    }
}

/// The harness of that kind.
pub fn of(kind: Kind) -> &'static dyn Harness {
    match kind {
        Kind::NodeCore => &node::core::NodeCore,
        Kind::Node => &node::Node,
        Kind::GoogleBenchmark => &google_benchmark::GoogleBenchmark,
        Kind::Cpp => &cpp::Cpp,
        Kind::Program => &program::Program,
        Kind::Python => &python::Python,
        Kind::Load | Kind::Experiment => &experiment::Experiments,
        Kind::Code(language) => code::harness(language),
        Kind::Fake => &fake::Fake,
    }
}

/// `$SPEEDWELL_PROGRAM`, which whoever embeds the library sets, else the program that runs; its bare
/// name where the system does not tell.
pub fn own_program() -> PathBuf {
    let set = std::env::var_os("SPEEDWELL_PROGRAM").filter(|value| !value.is_empty());
    set.map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("speedwell"))
}
