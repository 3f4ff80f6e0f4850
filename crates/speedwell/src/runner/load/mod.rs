//! Carries out HTTP loads and says what was asked for beside what was measured.
//!
//! It does not know the words typed, the store or reports. Start reading at [`LoadRun`], which is all
//! that is known of one load.

pub use crate::model::load_run::{
    KindFacts, LoadFacts, LoadRun, PaceFacts, ProbeFacts, RuleFacts, ServerOutcome, StageFacts,
    TimeoutFacts, TlsFacts,
};
