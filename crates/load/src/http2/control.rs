//! Control frames: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, and forbidden ones.

use super::frame::{self, HEAD_BYTES, Head, MAX_31, flag, kind};
use super::{Connection, ConnectionError, ErrorCode, Event, Settings, StreamError};

/// Limit of the output that a peer may provoke before accepting any of it: nearly four thousand
/// PING responses. Otherwise a peer that keeps sending but never reads would exhaust memory on each
/// of its connections.
const MAX_PROVOKED_BYTES: usize = 1 << 16;

impl Connection {
    pub(super) fn control(
        &mut self,
        head: &Head,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        // SETTINGS, PING and GOAWAY apply to the connection, the others to a stream, and
        // WINDOW_UPDATE to either (sections 6.3 to 6.9).
        let is_of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let is_of_either = head.kind == kind::WINDOW_UPDATE;
        if !is_of_either && is_of_connection != (head.stream == 0) {
            return Err(ConnectionError::Stream);
        }
        match head.kind {
            kind::SETTINGS if head.has(flag::ACK) => {
                self.is_acknowledged = true;
                sized::<0>(payload).map(|_| ())
            }
            kind::SETTINGS => self.settings(payload, on),
            kind::PING => self.ping(head, sized(payload)?),
            kind::GOAWAY => self.go_away(payload, on),
            kind::WINDOW_UPDATE => self.window_update(head.stream, sized(payload)?, on),
            kind::RST_STREAM => self.reset(head.stream, sized(payload)?, on),
            kind::PRIORITY => sized::<5>(payload).map(|_| ()),
            kind::PUSH_PROMISE => Err(ConnectionError::Push),
            _ => Ok(()),
        }
    }

    /// Accounts for output provoked by the peer.
    pub(super) fn provoke(&mut self, bytes: usize) -> Result<(), ConnectionError> {
        self.provoked_bytes += bytes;
        if self.provoked_bytes > MAX_PROVOKED_BYTES {
            Err(ConnectionError::Flood)
        } else {
            Ok(())
        }
    }

    fn settings(
        &mut self,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        let old = self.peer;
        self.peer = old.changed(payload, !self.has_peer_settings)?;
        self.has_peer_settings = true;
        // Before any frame that relies on the new values: many servers apply the old ones until
        // then.
        Settings::push_ack(self.output.tail());
        // A table size reduction must be announced in the next block (RFC 7541, section 4.2). Our
        // table is always empty, which takes one byte to announce.
        self.resets_table |= self.peer.table_size < old.table_size.min(4096);
        // The windows of open streams change by the difference and may become negative (section
        // 6.9.2).
        let change = i64::from(self.peer.stream_window) - i64::from(old.stream_window);
        if change != 0 {
            let mut resumed = Vec::new();
            for (place, stream) in self.streams.iter_mut() {
                stream.send_window += change;
                if stream.send_window > i64::from(MAX_31) {
                    return Err(ConnectionError::FlowControl);
                }
                if stream.upload.is_some() {
                    resumed.push(place);
                }
            }
            resumed.into_iter().for_each(|place| self.resume(place));
            self.pump();
        }
        on(Event::Settings);
        self.provoke(HEAD_BYTES)
    }

    fn ping(&mut self, head: &Head, payload: &[u8; 8]) -> Result<(), ConnectionError> {
        if head.has(flag::ACK) {
            return Ok(());
        }
        frame::push(self.output.tail(), kind::PING, flag::ACK, 0, payload);
        self.provoke(HEAD_BYTES + 8)
    }

    fn go_away(
        &mut self,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        let (start, _debug_data) = payload
            .split_first_chunk::<8>()
            .ok_or(ConnectionError::FrameSize)?;
        let [a, b, c, d, e, f, g, h] = *start;
        let named = u32::from_be_bytes([a, b, c, d]) & MAX_31;
        let code = ErrorCode(u32::from_be_bytes([e, f, g, h]));
        // The stream may be lowered later, but never raised (section 6.8).
        let last_stream = self.going.map_or(named, |(known, _)| known.min(named));
        self.going = Some((last_stream, code));
        on(Event::GoAway { last_stream, code });
        let behind: Vec<u32> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.id > last_stream)
            .map(|(place, _)| place)
            .collect();
        for place in behind {
            self.fail(place, StreamError::GoAway(code), on);
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        id: u32,
        payload: &[u8; 4],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        let more = i64::from(u32::from_be_bytes(*payload) & MAX_31);
        let limit = i64::from(MAX_31);
        if id == 0 {
            match self.send_window + more {
                _ if more == 0 => return Err(ConnectionError::NoIncrement),
                window if window > limit => return Err(ConnectionError::FlowControl),
                _ => {}
            }
            self.send_window += more;
        } else {
            self.check_opened(id)?;
            let Some(place) = self.streams.find(id) else {
                return Ok(());
            };
            let stream = self.streams.at(place);
            let why = match stream.send_window + more {
                _ if more == 0 => Some(StreamError::NoIncrement),
                window if window > limit => Some(StreamError::Window),
                _ => None,
            };
            if let Some(why) = why {
                self.fail(place, why, on);
                return self.provoke(HEAD_BYTES + 4);
            }
            stream.send_window += more;
            self.resume(place);
        }
        self.pump();
        Ok(())
    }

    fn reset(
        &mut self,
        id: u32,
        payload: &[u8; 4],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        self.check_opened(id)?;
        // A stream that has ended may still be reset, for instance because the server does not want
        // the rest of its request (section 8.1).
        if let Some(place) = self.streams.find(id) {
            let why = match ErrorCode(u32::from_be_bytes(*payload)) {
                ErrorCode::REFUSED_STREAM => StreamError::Refused,
                code => StreamError::Reset(code),
            };
            self.fail(place, why, on);
        }
        Ok(())
    }
}

/// Requires a payload of this length.
fn sized<const N: usize>(payload: &[u8]) -> Result<&[u8; N], ConnectionError> {
    payload.try_into().map_err(|_| ConnectionError::FrameSize)
}
