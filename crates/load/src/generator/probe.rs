//! One request before the load: what the server answers, in full.

use super::StartError;
use crate::books::Class;
use crate::load::{Address, Load};
use std::sync::atomic::AtomicBool;

/// What was agreed with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// The group of the key exchange, such as `X25519`.
    pub group: Option<String>,
    /// What ALPN agreed on, such as `h2`.
    pub alpn: Option<String>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What was connected to.
    pub address: Address,
    /// What was agreed with TLS.
    pub tls: Option<TlsFacts>,
    /// The status.
    pub status: u16,
    /// The values of the header fields Server, Content-Type and Location, in this order.
    pub server: Option<String>,
    /// See [`Probe::server`].
    pub content_type: Option<String>,
    /// See [`Probe::server`].
    pub location: Option<String>,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// Bytes of the whole body.
    pub body_bytes: u64,
    /// Bytes of the whole answer.
    pub wire_bytes: u64,
    /// The server lets the connection be used again.
    pub is_reusable: bool,
    /// Making the connection, in nanoseconds.
    pub connect_ns: u64,
    /// From sending to the last byte, in nanoseconds.
    pub service_ns: u64,
    /// The answer is one that counts as success.
    pub is_success: bool,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing could be sent.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The request failed.
    #[error("{}", .0.sentence())]
    Failed(Class),
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Sends the first request of a load, once, over a connection of its own.
///
/// # Errors
/// There was no whole answer.
pub fn probe(_load: &Load, _stop: &AtomicBool) -> Result<Probe, ProbeError> {
    Err(ProbeError::Interrupted)
}
