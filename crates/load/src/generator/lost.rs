//! How a connection ended, and what that means for the requests on it.

use super::sent::Sent;
use crate::http1::Phase;
use crate::outcomes::ErrorClass;

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
