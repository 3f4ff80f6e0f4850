//! Carries out HTTP loads and says what was asked for beside what was measured.
//!
//! It does not know the words typed, the store or reports. Start reading at [`carry_out`], one load
//! from the server's start to its end; [`LoadRun`] is all that is known of it afterwards.

mod carry_out;
mod facts;
mod glimpse;
mod processes;
mod served;
mod url;
mod verify;
mod worker;

pub use crate::model::load_run::{
    KindFacts, LoadFacts, LoadRun, PaceFacts, ProbeFacts, RuleFacts, ServerOutcome, StageFacts,
    TimeoutFacts, TlsFacts,
};
pub use carry_out::{LoadJob, Manner, Notice, Ready, Serve, carry_out, generate};
pub use facts::{facts_of, protocol};
pub use glimpse::Glimpse;
pub use processes::WorkerCommand;
pub use url::{Url, host_and_port};
pub use verify::Seen;
pub use worker::{private_line, work};
