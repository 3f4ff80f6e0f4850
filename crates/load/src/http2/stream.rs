//! One stream: what is known of its response, and what is left of its request.

use crate::http1::{Asked, Phase, Summary};
use std::sync::Arc;

/// A body of which something is still to be sent.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) body: Arc<Vec<u8>>,
    /// The first byte that has not been put to the output.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct Stream {
    /// The stream's identifier; 0 if the place is free.
    pub(super) id: u32,
    /// What the caller calls it.
    pub(super) token: u32,
    pub(super) asked: Asked,
    pub(super) phase: Phase,
    /// What the body must be long, if that was said and means anything.
    pub(super) content_length: Option<u64>,
    /// The response has no body whatever its fields say (RFC 9110, section 6.4.1).
    pub(super) is_bodiless: bool,
    pub(super) summary: Summary,
    /// Bytes of DATA that arrived since the peer was last told to go on.
    pub(super) uncredited: u32,
    /// Bytes that the peer takes; below zero after it made its window smaller.
    pub(super) send_window: i64,
    pub(super) upload: Option<Upload>,
    /// It waits in the queue of uploads.
    pub(super) is_queued: bool,
}

impl Stream {
    pub(super) fn new(id: u32, token: u32, asked: Asked, send_window: u32) -> Stream {
        Stream {
            id,
            token,
            asked,
            phase: Phase::FirstByte,
            content_length: None,
            is_bodiless: false,
            summary: Summary::default(),
            uncredited: 0,
            send_window: i64::from(send_window),
            upload: None,
            is_queued: false,
        }
    }

    /// The final head is complete.
    pub(super) fn begin_body(&mut self, status: u16, content_length: Option<u64>) {
        self.phase = Phase::Body;
        self.summary.status = status;
        self.is_bodiless = matches!(status, 204 | 304) || self.asked == Asked::Head;
        let is_tunnel = self.asked == Asked::Connect && status / 100 == 2;
        self.content_length = if self.is_bodiless {
            Some(0)
        } else if is_tunnel {
            // RFC 9110, section 9.3.6: the field means nothing there.
            None
        } else {
            content_length
        };
    }

    /// Whether the body may have got as long as it is.
    pub(super) fn is_within_length(&self) -> bool {
        self.content_length
            .is_none_or(|length| self.summary.body_bytes <= length)
    }

    /// Whether the body may end where it does.
    pub(super) fn is_at_length(&self) -> bool {
        self.content_length
            .is_none_or(|length| self.summary.body_bytes == length)
    }
}
