//! A request from being taken up to its end.

use super::clock::NEVER;
use crate::http1::Asked;
use crate::latency::{Intended, Times};
use crate::load::Timeouts;
use crate::outcomes::ErrorClass;

/// A request that was taken up and has no end yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// Its number in the load.
    pub index: u64,
    /// Its kind.
    pub kind: u16,
    /// When it was due; in a closed load, when it was taken up.
    pub intended_ns: u64,
    /// How late the generator alone made it, once it is sent.
    pub own_lag_ns: u64,
    /// When it was taken up.
    pub begun_ns: u64,
    /// When it was sent, or [`NEVER`].
    pub sent_ns: u64,
    /// When the first byte of its answer came, or [`NEVER`].
    pub first_byte_ns: u64,
    /// It belongs to the warm-up.
    pub is_warmup: bool,
    /// It is not the first on its connection.
    pub is_reused: bool,
    /// It was sent once before.
    pub is_retry: bool,
    /// What its answer depends on.
    pub asked: Asked,
    /// It ends its connection.
    pub closes: bool,
}

impl Sent {
    pub fn is_sent(&self) -> bool {
        self.sent_ns != NEVER
    }

    /// When it was to be sent.
    pub fn intended(&self) -> Intended {
        Intended {
            due_ns: self.intended_ns,
            own_lag_ns: self.own_lag_ns,
        }
    }

    /// Its times, if it ends now.
    pub fn times(&self, end_ns: u64) -> Times {
        Times {
            sent_ns: self.sent_ns,
            first_byte_ns: self.first_byte(),
            end_ns,
        }
    }

    /// The limit that it has passed, if any.
    pub fn over(&self, limits: Timeouts, now_ns: u64) -> Option<ErrorClass> {
        let age_ns = now_ns.saturating_sub(self.sent_ns);
        let is_over = |limit: Option<u64>| limit.is_some_and(|limit| age_ns >= limit);
        if is_over(limits.total_ns) {
            return Some(ErrorClass::TimeoutTotal);
        }
        let is_silent = self.first_byte_ns == NEVER;
        (is_silent && is_over(limits.first_byte_ns)).then_some(ErrorClass::TimeoutFirstByte)
    }

    pub fn first_byte(&self) -> Option<u64> {
        (self.first_byte_ns != NEVER).then_some(self.first_byte_ns)
    }
}
