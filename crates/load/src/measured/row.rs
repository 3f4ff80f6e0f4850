//! One request by itself.

use crate::latency::Outcome;
use serde::{Deserialize, Serialize};

/// One request, with times in nanoseconds from the start of the load, the warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its number in the load, from 0.
    pub index: u64,
    /// Its kind, as a place in [`crate::load::Kinds::all`].
    pub kind: u16,
    /// When it was due, in an open load.
    pub intended_ns: Option<u64>,
    /// When it was taken up: the attempt to connect, if one was needed for it, else sending.
    pub begun_ns: u64,
    /// When it was sent; absent when it never was.
    pub sent_ns: Option<u64>,
    /// When the first byte of its answer came.
    pub first_byte_ns: Option<u64>,
    /// When it ended.
    pub end_ns: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// The status of its whole answer, else 0.
    pub status: u16,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes of the whole answer.
    pub wire_bytes: u64,
    /// It went over a connection that had been used before.
    pub is_reused: bool,
}
