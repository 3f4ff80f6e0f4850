//! Handles control frames: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, and forbidden ones.

use super::frame::{self, FrameHead, HEAD_BYTES, MAX_31_BITS, flag, kind};
use super::{
    Http2Connection, Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Settings,
    Http2StreamError,
};

/// Limit in bytes of the output that a peer may provoke before it accepts any output: nearly four
/// thousand PING responses. Without a limit, a peer that keeps sending but never reads would
/// exhaust memory.
const MAX_PROVOKED_BYTES: usize = 1 << 16;

impl Http2Connection {
    pub(super) fn handle_control(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        // SETTINGS, PING and GOAWAY apply to the connection, WINDOW_UPDATE to the connection or a
        // stream, and all other frames to a stream (RFC 9113, sections 6.3 to 6.9).
        let is_connection_frame = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let applies_to_both = head.kind == kind::WINDOW_UPDATE;
        if !applies_to_both && is_connection_frame != (head.stream == 0) {
            return Err(Http2ConnectionError::Stream);
        }
        match head.kind {
            kind::SETTINGS if head.has_flag(flag::ACK) => {
                self.is_acknowledged = true;
                sized_payload::<0>(payload).map(|_| ())
            }
            kind::SETTINGS => self.apply_settings(payload, on_event),
            kind::PING => self.handle_ping(head, sized_payload(payload)?),
            kind::GOAWAY => self.handle_go_away(payload, on_event),
            kind::WINDOW_UPDATE => {
                self.handle_window_update(head.stream, sized_payload(payload)?, on_event)
            }
            kind::RST_STREAM => self.handle_reset(head.stream, sized_payload(payload)?, on_event),
            kind::PRIORITY => sized_payload::<5>(payload).map(|_| ()),
            kind::PUSH_PROMISE => Err(Http2ConnectionError::Push),
            _ => Ok(()),
        }
    }

    /// Counts output that the peer has provoked, and fails if it exceeds the limit.
    pub(super) fn count_provoked(&mut self, bytes: usize) -> Result<(), Http2ConnectionError> {
        self.provoked_bytes += bytes;
        if self.provoked_bytes > MAX_PROVOKED_BYTES {
            Err(Http2ConnectionError::Flood)
        } else {
            Ok(())
        }
    }

    fn apply_settings(
        &mut self,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let old = self.peer;
        self.peer = old.apply_changes(payload, !self.has_peer_settings)?;
        self.has_peer_settings = true;
        // Acknowledge before any frame that relies on the new values: many servers apply the old
        // values until they receive the acknowledgement.
        Http2Settings::push_ack(self.output.append_buffer());
        // If the peer reduces the size of our compression table, our next header block must
        // announce the new size (RFC 7541, section 4.2). Our table is always empty, so one byte is
        // enough to announce size 0.
        self.resets_table |= self.peer.table_size < old.table_size.min(4096);
        // The windows of open streams change by the difference between the new and the old initial
        // window, and may become negative (section 6.9.2).
        let change = i64::from(self.peer.stream_window) - i64::from(old.stream_window);
        if change != 0 {
            let mut resumed = Vec::new();
            for (slot, stream) in self.streams.iter_mut() {
                stream.send_window += change;
                if stream.send_window > i64::from(MAX_31_BITS) {
                    return Err(Http2ConnectionError::FlowControl);
                }
                if stream.upload.is_some() {
                    resumed.push(slot);
                }
            }
            resumed.into_iter().for_each(|slot| self.resume_upload(slot));
            self.pump_uploads();
        }
        on_event(Http2Event::Settings);
        self.count_provoked(HEAD_BYTES)
    }

    fn handle_ping(
        &mut self,
        head: &FrameHead,
        payload: &[u8; 8],
    ) -> Result<(), Http2ConnectionError> {
        if head.has_flag(flag::ACK) {
            return Ok(());
        }
        frame::push_frame(self.output.append_buffer(), kind::PING, flag::ACK, 0, payload);
        self.count_provoked(HEAD_BYTES + 8)
    }

    fn handle_go_away(
        &mut self,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let (start, _debug_data) =
            payload.split_first_chunk::<8>().ok_or(Http2ConnectionError::FrameSize)?;
        let [a, b, c, d, e, f, g, h] = *start;
        let announced = u32::from_be_bytes([a, b, c, d]) & MAX_31_BITS;
        let code = Http2ErrorCode(u32::from_be_bytes([e, f, g, h]));
        // A later GOAWAY frame may lower the ID of the last stream, but not raise it (section 6.8).
        let last_stream = self.go_away.map_or(announced, |(previous, _)| previous.min(announced));
        self.go_away = Some((last_stream, code));
        on_event(Http2Event::GoAway { last_stream, code });
        let unprocessed: Vec<u32> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.id > last_stream)
            .map(|(slot, _)| slot)
            .collect();
        for slot in unprocessed {
            self.fail_stream(slot, Http2StreamError::GoAway(code), on_event);
        }
        Ok(())
    }

    fn handle_window_update(
        &mut self,
        id: u32,
        payload: &[u8; 4],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let more = i64::from(u32::from_be_bytes(*payload) & MAX_31_BITS);
        let limit = i64::from(MAX_31_BITS);
        if id == 0 {
            match self.send_window + more {
                _ if more == 0 => return Err(Http2ConnectionError::NoIncrement),
                window if window > limit => return Err(Http2ConnectionError::FlowControl),
                _ => {}
            }
            self.send_window += more;
        } else {
            self.check_opened(id)?;
            let Some(slot) = self.streams.find_slot(id) else {
                return Ok(());
            };
            let stream = self.streams.stream_mut(slot);
            let error = match stream.send_window + more {
                _ if more == 0 => Some(Http2StreamError::NoIncrement),
                window if window > limit => Some(Http2StreamError::Window),
                _ => None,
            };
            if let Some(error) = error {
                self.fail_stream(slot, error, on_event);
                return self.count_provoked(HEAD_BYTES + 4);
            }
            stream.send_window += more;
            self.resume_upload(slot);
        }
        self.pump_uploads();
        Ok(())
    }

    fn handle_reset(
        &mut self,
        id: u32,
        payload: &[u8; 4],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        self.check_opened(id)?;
        // A server may reset a stream that has ended, for instance because it does not want the
        // rest of the request (section 8.1).
        if let Some(slot) = self.streams.find_slot(id) {
            let error = match Http2ErrorCode(u32::from_be_bytes(*payload)) {
                Http2ErrorCode::REFUSED_STREAM => Http2StreamError::Refused,
                code => Http2StreamError::Reset(code),
            };
            self.fail_stream(slot, error, on_event);
        }
        Ok(())
    }
}

/// Returns the payload as an array, or an error if it does not have this length.
fn sized_payload<const N: usize>(payload: &[u8]) -> Result<&[u8; N], Http2ConnectionError> {
    payload.try_into().map_err(|_| Http2ConnectionError::FrameSize)
}
