//! The head of a frame (RFC 9113, section 4.1), and the frames that are written.

use super::ErrorCode;

/// Bytes of a frame before its payload.
pub(super) const HEAD_BYTES: usize = 9;

/// The largest payload that every peer accepts (section 6.5.2).
pub(super) const MIN_MAX_FRAME_BYTES: u32 = 16_384;
/// The largest payload that a peer may announce to accept.
pub(super) const MAX_MAX_FRAME_BYTES: u32 = 16_777_215;
/// The largest window, the largest stream identifier (sections 5.1.1 and 6.9.1).
pub(super) const MAX_31: u32 = 0x7fff_ffff;

pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0;
    pub(in super::super) const HEADERS: u8 = 1;
    pub(in super::super) const PRIORITY: u8 = 2;
    pub(in super::super) const RST_STREAM: u8 = 3;
    pub(in super::super) const SETTINGS: u8 = 4;
    pub(in super::super) const PUSH_PROMISE: u8 = 5;
    pub(in super::super) const PING: u8 = 6;
    pub(in super::super) const GOAWAY: u8 = 7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 8;
    pub(in super::super) const CONTINUATION: u8 = 9;
}

pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 1;
    pub(in super::super) const END_STREAM: u8 = 1;
    pub(in super::super) const END_HEADERS: u8 = 4;
    pub(in super::super) const PADDED: u8 = 8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// The first nine bytes of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Bytes of the payload.
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    #[inline]
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Head {
        let [a, b, c, kind, flags, s, t, u, v] = *bytes;
        Head {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & MAX_31,
        }
    }

    pub(super) fn bytes(&self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let head = Head {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&head.bytes());
    out.extend_from_slice(payload);
}

/// Appends a RST_STREAM frame.
pub(super) fn push_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    push(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

/// Appends a WINDOW_UPDATE frame; stream 0 is the connection.
pub(super) fn push_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    push(out, kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}
