//! Carries out a load.
//!
//! Every thread has its own connections, requests, histograms and part of the schedule, and shares
//! nothing with the others that is written to while it measures. Start reading at [`run`], then
//! `worker`, the loop of a thread, then `connection`.

mod batcher;
mod channel;
mod clock;
mod connection;
mod connection_facts;
mod core;
mod key_bits;
mod lost;
mod mailbox;
mod multiplex;
mod pacing;
mod pipeline;
mod poll;
mod probe;
mod progress;
mod protocol;
#[cfg(feature = "http3")]
mod quic;
mod recorder;
mod self_check;
mod sent;
mod socket;
mod source;
mod threads;
mod worker;

pub use connection_facts::TlsFacts;
pub use probe::{Probe, ProbeError, probe};
pub use progress::Progress;

use crate::load::{KindsError, Load, TlsError};
use crate::measured::Measured;
use std::sync::atomic::AtomicBool;

/// Why a load could not be begun. What happens afterwards is in its counts.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A request cannot be written.
    #[error(transparent)]
    Kinds(#[from] KindsError),
    /// The operating system refused something that a generator cannot do without.
    #[error("cannot {what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the operating system said.
        why: std::io::Error,
    },
    /// The load makes no sense.
    #[error("{0}")]
    Load(&'static str),
}

impl StartError {
    fn waiting(why: std::io::Error) -> StartError {
        StartError::System {
            what: "wait for sockets",
            why,
        }
    }
}

/// Carries out a load from begin to end. `stop` ends it early: what is under way is then cancelled.
///
/// # Errors
/// It could not be begun.
pub fn run(
    load: &Load,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Measured, StartError> {
    threads::run(load, stop, watch)
}
