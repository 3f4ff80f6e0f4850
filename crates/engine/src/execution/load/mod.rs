//! Runs HTTP loads. Unless the user disables it, each load begins with a probe request, which is
//! not part of the measurement.
//!
//! This module knows nothing about the command line, the store or reports. Start at [`run_load`],
//! which starts the server of a load, sends the load and stops the server; [`LoadRun`] is its
//! complete result.

mod barrier;
mod build;
mod facts;
mod generators;
mod requests;
mod run;
mod target;
mod tool;

pub use barrier::StartSignal;
pub use build::{LoadJob, build_job, stop_condition, stop_condition_with_warmup};
pub use facts::protocol_name;
pub use generators::{
    CombinedResult, GeneratorEvent, GeneratorReady, GeneratorReport, GeneratorState,
    LOAD_SUBCOMMAND, LoadSnapshot, WorkerAssignment, follow_generators, run_generators, send_load,
};
pub use run::{
    LoadNotice, SendLoad, run_load, run_load_with_sender, run_load_with_server, wrap_measured,
};
pub use speedwell_model::load::run::{
    KindFacts, LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, RuleFacts, ServerOutcome,
    StageFacts, TimeoutFacts, TlsFacts,
};
pub use target::format_address;
pub use target::{TargetUrl, parse_host_and_port};
pub use tool::{load_with_tool, load_with_tool_beside};

/// A time limit longer than any load. Processes of a load need no limit: servers are stopped, and
/// tools and generators end by themselves or on Ctrl-C.
pub const UNLIMITED: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 3600);
