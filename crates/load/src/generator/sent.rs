//! A request from being taken up to its end, which may be that of its connection.

use super::clock::NEVER;
use crate::http1::{MethodKind, Phase};
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
    pub method: MethodKind,
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

// How a connection ended, and what that means for the requests on it.

/// What became of a connection when bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// It goes on.
    Open,
    /// Its last answer ended it.
    Closed,
    /// Bytes arrived that no request asked for.
    Stray,
    /// The server says that it closes the connection because nothing was asked for.
    Goodbye,
    /// It cannot be understood any further.
    Broken(ErrorClass),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The other side closed it.
    End,
    /// It was closed without the last word of TLS.
    Truncated,
    /// The other side reset it.
    Reset,
    /// The other side said with its last answer that it would.
    Announced,
    /// A failure that has a class of its own, which the oldest request pays for.
    Failed(ErrorClass),
    /// The load ended it.
    Ours,
}

impl Lost {
    /// The class of the request whose answer was awaited.
    pub fn class(self, sent: &Sent, phase: Phase) -> ErrorClass {
        let before = is_before_first_byte(phase);
        match (self, phase) {
            (Lost::Failed(class), _) => class,
            (Lost::Reset, Phase::Head) => ErrorClass::ResetInHead,
            (Lost::Reset, Phase::Body) => ErrorClass::ResetInBody,
            (Lost::Reset, _) => ErrorClass::ResetBeforeFirstByte,
            (_, _) if before && sent.is_reused => ErrorClass::EofStale,
            (_, _) if before => ErrorClass::EofFirst,
            (_, Phase::Head) => ErrorClass::EofInHead,
            (_, _) => ErrorClass::EofInBody,
        }
    }

    /// The class of a request behind that one, of which nothing had come; `None` when it was given up
    /// by ourselves.
    pub fn class_of_next(self, sent: &Sent) -> Option<ErrorClass> {
        match self {
            Lost::Failed(_) | Lost::Ours => None,
            _ => Some(self.class(sent, Phase::FirstByte)),
        }
    }

    /// Whether the server gave up an idle connection as the request was on its way, so that it was
    /// not begun.
    pub fn is_stale(self, sent: &Sent, phase: Phase) -> bool {
        matches!(self, Lost::End | Lost::Truncated | Lost::Reset)
            && sent.is_reused
            && is_before_first_byte(phase)
    }
}

/// Whether a phase is one in which nothing of an answer had come.
pub(super) fn is_before_first_byte(phase: Phase) -> bool {
    matches!(phase, Phase::Idle | Phase::FirstByte)
}
