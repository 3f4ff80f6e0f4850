//! Describes a request that was started, and what the end of its connection means for it.

use super::clock::NEVER;
use crate::http1::{MethodKind, ResponsePhase};
use crate::load::RequestTimeouts;
use speedwell_model::load::latency::{IntendedStart, RequestTimes};
use speedwell_model::load::outcomes::ErrorClass;

/// A request that was started and has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedRequest {
    /// Sequence number in the load.
    pub index: u64,
    pub kind: u16,
    /// Scheduled start; in a closed load, the actual start.
    pub intended_ns: u64,
    /// Delay caused by the generator alone; set when the request is sent.
    pub own_lag_ns: u64,
    /// When processing started.
    pub begun_ns: u64,
    /// When the request was sent, or [`NEVER`].
    pub sent_ns: u64,
    /// When the first byte of the response arrived, or [`NEVER`].
    pub first_byte_ns: u64,
    /// Whether the request belongs to the warm-up.
    pub is_warmup: bool,
    /// Whether the request is not the first on its connection.
    pub is_reused: bool,
    /// Whether the request was sent before, on a connection that was lost.
    pub is_retry: bool,
    /// Determines how the response is framed.
    pub method: MethodKind,
    /// Whether the request asks to close its connection.
    pub closes: bool,
}

impl StartedRequest {
    pub fn is_sent(&self) -> bool {
        self.sent_ns != NEVER
    }

    pub fn intended_start(&self) -> IntendedStart {
        IntendedStart { due_ns: self.intended_ns, own_lag_ns: self.own_lag_ns }
    }

    /// The times of the request if it ends at `end_ns`.
    pub fn times_until(&self, end_ns: u64) -> RequestTimes {
        RequestTimes { sent_ns: self.sent_ns, first_byte_ns: self.first_byte(), end_ns }
    }

    /// Error class of an exceeded timeout, if any.
    pub fn exceeded_timeout(&self, limits: RequestTimeouts, now_ns: u64) -> Option<ErrorClass> {
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

// The types below describe how a connection ended, and what this means for its requests.

/// State of a connection after received bytes were processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputOutcome {
    Open,
    /// The last response ended the connection.
    Closed,
    /// Unsolicited bytes arrived.
    Stray,
    /// The server announced that it closes the connection because no request arrived.
    Goodbye,
    /// The received data cannot be parsed any further.
    Broken(ErrorClass),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionLoss {
    /// The peer closed the connection.
    End,
    /// The connection was closed without close_notify.
    Truncated,
    Reset,
    /// The peer had announced the end with its last response.
    Announced,
    /// An error with its own class. With HTTP/1, it counts as the failure of the oldest request
    /// only.
    Failed(ErrorClass),
    /// The load generator closed the connection.
    ClosedByUs,
}

impl ConnectionLoss {
    /// Error class of the request whose response was awaited.
    pub fn error_class(self, sent: &StartedRequest, phase: ResponsePhase) -> ErrorClass {
        let before = is_before_first_byte(phase);
        match (self, phase) {
            (ConnectionLoss::Failed(class), _) => class,
            (ConnectionLoss::Reset, ResponsePhase::Head) => ErrorClass::ResetInHead,
            (ConnectionLoss::Reset, ResponsePhase::Body) => ErrorClass::ResetInBody,
            (ConnectionLoss::Reset, _) => ErrorClass::ResetBeforeFirstByte,
            (_, _) if before && sent.is_reused => ErrorClass::EofStale,
            (_, _) if before => ErrorClass::EofFirst,
            (_, ResponsePhase::Head) => ErrorClass::EofInHead,
            (_, _) => ErrorClass::EofInBody,
        }
    }

    /// Error class of a request that waits behind the oldest one, without any response data.
    /// Returns `None` if the loss counts only against the oldest request, or if we closed the
    /// connection ourselves.
    pub fn pending_error_class(self, sent: &StartedRequest) -> Option<ErrorClass> {
        match self {
            ConnectionLoss::Failed(_) | ConnectionLoss::ClosedByUs => None,
            _ => Some(self.error_class(sent, ResponsePhase::FirstByte)),
        }
    }

    /// Whether the server probably closed an idle connection while the request was on its way. Such
    /// a request was not processed.
    pub fn is_stale(self, sent: &StartedRequest, phase: ResponsePhase) -> bool {
        matches!(self, ConnectionLoss::End | ConnectionLoss::Truncated | ConnectionLoss::Reset)
            && sent.is_reused
            && is_before_first_byte(phase)
    }
}

/// Whether no part of a response had arrived in this phase.
pub(super) fn is_before_first_byte(phase: ResponsePhase) -> bool {
    matches!(phase, ResponsePhase::Idle | ResponsePhase::FirstByte)
}
