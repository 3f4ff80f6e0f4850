//! Runs HTTP loads, beginning with a probe request outside the measurement.
//!
//! Knows neither the command line, the store nor reports. Start reading at [`carry_out`], one load
//! from server start to end; [`LoadRun`] is its complete result.

mod begin;
mod build;
mod carry_out;
mod facts;
mod processes;
mod requests;
mod target;
mod tool;

pub use begin::Begin;
pub use build::{LoadJob, job, stop, stop_with_warmup};
pub use carry_out::{Notice, Sender, as_run, carry_out, carry_out_beside, carry_out_by};
pub use facts::protocol;
pub use processes::{
    Sent, Share, Snapshot, WORKER_COMMAND, WorkerOrder, generate, private_line, run, work,
};
pub use speedwell_model::load_run::{
    KindFacts, LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, RuleFacts, ServerOutcome,
    StageFacts, TimeoutFacts, TlsFacts,
};
pub use target::shown_address;
pub use target::{Url, host_and_port};
pub use tool::{load_with_tool, load_with_tool_beside};

/// Longer than any load: servers are stopped; tools and generators end by themselves or on Ctrl-C.
pub const UNLIMITED: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 3600);
