//! Manages an HTTP/2 connection for its owner: opens streams, produces output and consumes input.
//!
//! This module knows nothing about sockets, the time, or the meaning of tokens. The frames of the
//! input are handled in `incoming`, which also sends the bodies of requests. Start at
//! [`Http2Connection::feed`].

use super::frame::{
    self, FrameHead, HEAD_BYTES, MAX_31_BITS, MIN_MAX_FRAME_BYTES, OutputQueue, PeerSettings, flag,
    kind,
};
use super::header_block::HeadCache;
use super::hpack::{FieldList, HpackDecoder};
use super::streams::{StreamState, StreamTable};
use super::{Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Request, Http2Settings};
use crate::http1::ResponsePhase;
use std::collections::VecDeque;

/// A connection to a server.
///
/// ```
/// use speedwell_load::http1::RequestParts;
/// use speedwell_load::http2::{Http2Connection, Http2Event, Http2Request, UrlScheme, Http2Settings};
///
/// let parts = RequestParts { method: "GET", target: "/", host: "h", ..RequestParts::default() };
/// let request = Http2Request::new(&parts, UrlScheme::Http)?;
/// let mut connection = Http2Connection::new(&Http2Settings::default());
/// assert!(connection.open_stream(&request, 7));
/// let sent = connection.output().len();
/// connection.mark_sent(sent);
/// // SETTINGS, then HEADERS with `:status: 200` (0x88) and nothing else, which ends stream 1.
/// let answer = *b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88";
/// let mut status = 0;
/// let result = connection.feed(&answer, &mut |event| {
///     if let Http2Event::Ended { token: 7, summary } = event {
///         status = summary.status;
///     }
/// });
/// assert_eq!((result, status, connection.open_streams()), (Ok(()), 200, 0));
/// # Ok::<(), speedwell_load::http1::InvalidRequest>(())
/// ```
#[derive(Debug)]
pub struct Http2Connection {
    pub(super) settings: Http2Settings,
    pub(super) peer: PeerSettings,
    pub(super) streams: StreamTable,
    pub(super) output: OutputQueue,
    /// Bytes of output provoked by the peer since the peer last accepted any output.
    pub(super) provoked_bytes: usize,
    pub(super) next_id: u32,
    /// Number of bytes that we may still send on all streams together.
    pub(super) send_window: i64,
    /// DATA bytes received since the last WINDOW_UPDATE.
    pub(super) uncredited: u32,
    /// Slots of streams whose own windows permit sending more of their request bodies.
    pub(super) uploads: VecDeque<u32>,
    /// The last stream that the peer will process, and the error code of its GOAWAY.
    pub(super) go_away: Option<(u32, Http2ErrorCode)>,
    pub(super) broken: Option<Http2ConnectionError>,
    pub(super) has_peer_settings: bool,
    /// Whether the peer has acknowledged our settings.
    pub(super) is_acknowledged: bool,
    /// Whether the next header block must announce that we use no compression table.
    pub(super) resets_table: bool,
    /// The beginning of a frame that arrives in pieces: the bytes received so far.
    pub(super) carry: Vec<u8>,
    /// A DATA or unknown frame whose payload is incomplete.
    pub(super) incoming: Option<IncomingFrame>,
    /// An incomplete header block. `block` holds the part of it that has arrived.
    pub(super) pending: Option<PendingHeaderBlock>,
    pub(super) block: Vec<u8>,
    /// Decoder for the peer's header compression; `None` if the peer must not use a compression
    /// table.
    pub(super) decoder: Option<HpackDecoder>,
    pub(super) fields: FieldList,
    pub(super) walked: HeadCache,
}

/// A frame whose payload is processed as it arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncomingFrame {
    /// Stream ID; 0 for frames of unknown type.
    pub(super) stream: u32,
    /// Remaining bytes of the payload.
    pub(super) remaining: u32,
    /// How many of the remaining bytes are padding.
    pub(super) padding: u32,
    /// Whether the next byte is the padding length.
    pub(super) awaits_padding: bool,
    pub(super) ends_stream: bool,
}

/// A header block whose end is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingHeaderBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) continuations: u32,
    /// Bytes of its frames so far, including frame heads and padding.
    pub(super) wire_bytes: u64,
}

impl Http2Connection {
    /// Creates a connection whose output starts with the preface and the settings.
    pub fn new(settings: &Http2Settings) -> Http2Connection {
        let peer = PeerSettings::defaults();
        let mut output = OutputQueue::default();
        settings.push_greeting(output.append_buffer());
        Http2Connection {
            settings: *settings,
            peer,
            streams: StreamTable::new(),
            output,
            provoked_bytes: 0,
            next_id: 1,
            send_window: i64::from(peer.stream_window),
            uncredited: 0,
            uploads: VecDeque::new(),
            go_away: None,
            broken: None,
            has_peer_settings: false,
            is_acknowledged: false,
            resets_table: false,
            carry: Vec::new(),
            incoming: None,
            pending: None,
            block: Vec::new(),
            decoder: (settings.table_size > 0).then(|| HpackDecoder::new(settings.table_size)),
            fields: FieldList::default(),
            walked: HeadCache::default(),
        }
    }

    /// Number of streams that can be opened now: the peer's limit minus the number of open streams,
    /// or 0 when [`Http2Connection::is_draining`]. Until the peer announces its limit, 100 is
    /// assumed, the minimum that RFC 9113 (section 6.5.2) recommends. The peer may refuse some of
    /// the streams that are opened before [`Http2Connection::is_ready`].
    pub fn capacity(&self) -> usize {
        if self.is_draining() {
            return 0;
        }
        let ids = ((MAX_31_BITS - self.next_id) / 2 + 1) as usize;
        let allowed = self.peer.max_streams as usize;
        allowed.saturating_sub(self.streams.len()).min(ids)
    }

    /// Whether the peer has announced its settings and accepts streams.
    pub fn is_ready(&self) -> bool {
        self.has_peer_settings && !self.is_draining()
    }

    /// Whether no further streams can be opened: the peer sent GOAWAY, the stream IDs are used up,
    /// or the connection has failed.
    pub fn is_draining(&self) -> bool {
        self.go_away.is_some() || self.broken.is_some() || self.next_id > MAX_31_BITS
    }

    /// Opens a stream for a request. The token is the caller's name for the stream and must not be
    /// in use on this connection. Parts of the body that exceed the windows are sent later
    /// automatically. Returns false without doing anything if [`Http2Connection::capacity`] is 0.
    pub fn open_stream(&mut self, request: &Http2Request, token: u32) -> bool {
        if self.capacity() == 0 {
            return false;
        }
        let id = self.next_id;
        self.next_id += 2;
        let resets_table = std::mem::take(&mut self.resets_table);
        request.push_head(self.output.append_buffer(), id, resets_table);
        let window = self.peer.stream_window;
        let slot = self.streams.insert(StreamState::new(id, token, request.method(), window));
        if !request.body().is_empty() {
            self.start_upload(slot, request);
        }
        true
    }

    /// Cancels a stream: resets it and ignores whatever arrives on it later. Has no effect if no
    /// open stream has this token.
    pub fn cancel_stream(&mut self, token: u32) {
        if let Some((slot, stream)) = self.streams.find_token(token) {
            frame::push_reset(self.output.append_buffer(), stream.id, Http2ErrorCode::CANCEL);
            self.free_slot(slot);
        }
    }

    /// Pending output.
    pub fn output(&self) -> &[u8] {
        self.output.pending_bytes()
    }

    /// Marks this many bytes of [`Http2Connection::output`] as sent.
    pub fn mark_sent(&mut self, bytes: usize) {
        self.output.mark_sent(bytes);
        if bytes > 0 {
            self.provoked_bytes = 0;
            self.pump_uploads();
        }
    }

    /// Processes all of `bytes`, the next part of the received data, and reports events. The data
    /// may be split at any byte.
    ///
    /// # Errors
    /// Fails if the peer violates the protocol. A GOAWAY frame is then appended to the output, and
    /// open streams remain available from [`Http2Connection::open_tokens`]. Later calls return the
    /// same error.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.read_frames(bytes, on_event).inspect_err(|error| self.fail_connection(*error))
    }

    fn fail_connection(&mut self, error: Http2ConnectionError) {
        self.broken = Some(error);
        self.uploads.clear();
        // The peer opened no streams, so the ID of the last processed stream is 0 (RFC 9113,
        // section 6.8).
        let mut payload = [0; 8];
        payload[4..].copy_from_slice(&error.code().0.to_be_bytes());
        frame::push_frame(self.output.append_buffer(), frame::kind::GOAWAY, 0, 0, &payload);
    }

    /// Progress of a stream's response, i.e. where a loss of the connection or a timeout would
    /// interrupt it now. [`ResponsePhase::Idle`] if no open stream has this token.
    pub fn phase(&self, token: u32) -> ResponsePhase {
        let found = self.streams.find_token(token);
        found.map_or(ResponsePhase::Idle, |(_, stream)| stream.phase)
    }

    /// Whether the rest of a stream's body waits for the peer to enlarge a window. A timeout then
    /// counts as a flow-control stall.
    pub fn waits_for_window(&self, token: u32) -> bool {
        self.streams.find_token(token).is_some_and(|(_, stream)| {
            stream.upload.is_some() && (stream.send_window <= 0 || self.send_window <= 0)
        })
    }

    /// Number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Tokens of the open streams.
    pub fn open_tokens(&self) -> impl Iterator<Item = u32> {
        self.streams.iter().map(|(_, stream)| stream.token)
    }

    /// Whether the peer has announced the end of the connection with GOAWAY. If the connection is
    /// lost now, requests on open streams fail with the class `h2.goaway`.
    pub fn has_announced_end(&self) -> bool {
        self.broken.is_none() && self.go_away.is_some()
    }

    pub(super) fn free_slot(&mut self, slot: u32) {
        if self.streams.stream_mut(slot).is_queued {
            self.uploads.retain(|queued| *queued != slot);
        }
        self.streams.remove(slot);
    }
}

// Input is split into frames. A frame in one piece is read in place. A frame in several pieces is
// buffered until the rest arrives, but the pieces of DATA frames and of unknown frames are
// processed immediately.

impl Http2Connection {
    pub(super) fn read_frames(
        &mut self,
        mut bytes: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        while !bytes.is_empty() {
            bytes = if self.incoming.is_some() {
                self.read_payload(bytes, on_event)?
            } else if self.carry.is_empty() {
                self.read_frame(bytes, on_event)?
            } else {
                self.read_rest_of_frame(bytes, on_event)?
            };
        }
        Ok(())
    }

    /// Processes a frame from its first byte; returns the remaining bytes.
    #[inline]
    fn read_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<&'a [u8], Http2ConnectionError> {
        let Some((start, behind)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            self.carry.extend_from_slice(bytes);
            return Ok(&[]);
        };
        let head = FrameHead::read(start);
        self.check_frame_head(&head, start)?;
        match behind.split_at_checked(head.length as usize) {
            Some((payload, behind)) => {
                match head.kind {
                    kind::HEADERS => self.handle_headers(&head, payload, on_event)?,
                    kind::DATA if !head.has_flag(flag::PADDED) => {
                        self.complete_data(&head, payload, on_event)?
                    }
                    _ if is_streamed(head.kind) => {
                        self.begin_payload(&head, on_event)?;
                        self.read_payload(payload, on_event)?;
                    }
                    _ => self.dispatch_frame(&head, payload, on_event)?,
                }
                Ok(behind)
            }
            None if is_streamed(head.kind) => {
                self.begin_payload(&head, on_event)?;
                Ok(behind)
            }
            None => {
                self.carry.extend_from_slice(bytes);
                Ok(&[])
            }
        }
    }

    /// Completes the buffered frame as far as the bytes permit; returns the remaining bytes.
    fn read_rest_of_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<&'a [u8], Http2ConnectionError> {
        let had_head = self.carry.len() >= HEAD_BYTES;
        let bytes = self.fill_carry(HEAD_BYTES, bytes);
        let Some(start) = self.carry.first_chunk::<HEAD_BYTES>().copied() else {
            return Ok(bytes);
        };
        let head = FrameHead::read(&start);
        if !had_head {
            self.check_frame_head(&head, &start)?;
            if is_streamed(head.kind) {
                self.carry.clear();
                self.begin_payload(&head, on_event)?;
                return Ok(bytes);
            }
        }
        let frame_length = HEAD_BYTES + head.length as usize;
        let bytes = self.fill_carry(frame_length, bytes);
        if self.carry.len() == frame_length {
            let carry = std::mem::take(&mut self.carry);
            let result = self.dispatch_frame(&head, &carry[HEAD_BYTES..], on_event);
            self.carry = carry;
            self.carry.clear();
            result?;
        }
        Ok(bytes)
    }

    /// Extends the buffer to this length, or as far as the bytes permit; returns the remaining
    /// bytes.
    fn fill_carry<'a>(&mut self, length: usize, bytes: &'a [u8]) -> &'a [u8] {
        let missing = length.saturating_sub(self.carry.len()).min(bytes.len());
        let (piece, behind) = bytes.split_at(missing);
        self.carry.extend_from_slice(piece);
        behind
    }

    /// Checks whether a frame is valid, as far as its head alone can show. `start` holds the bytes
    /// of the head.
    #[inline]
    fn check_frame_head(
        &self,
        head: &FrameHead,
        start: &[u8; HEAD_BYTES],
    ) -> Result<(), Http2ConnectionError> {
        if !self.has_peer_settings {
            if start.starts_with(b"HTTP/") {
                return Err(Http2ConnectionError::NotHttp2);
            }
            if head.kind != kind::SETTINGS || head.flags & 1 != 0 {
                return Err(Http2ConnectionError::NoSettings);
            }
        }
        if head.length > MIN_MAX_FRAME_BYTES {
            return Err(Http2ConnectionError::FrameSize);
        }
        let continues = head.kind == kind::CONTINUATION;
        match &self.pending {
            None if continues => Err(Http2ConnectionError::Continuation),
            Some(pending) if !continues || pending.stream != head.stream => {
                Err(Http2ConnectionError::Continuation)
            }
            _ => Ok(()),
        }
    }

    fn dispatch_frame(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        match head.kind {
            kind::HEADERS => self.handle_headers(head, payload, on_event),
            kind::CONTINUATION => self.handle_continuation(head, payload, on_event),
            _ => self.handle_control(head, payload, on_event),
        }
    }

    /// Checks that we have opened the stream before. Frames on idle streams are errors (RFC 9113,
    /// section 5.1), and so are frames on streams with even IDs: only the peer could open these,
    /// but it is not allowed to.
    pub(super) fn check_opened(&self, stream: u32) -> Result<(), Http2ConnectionError> {
        let is_opened = stream % 2 == 1 && stream < self.next_id;
        is_opened.then_some(()).ok_or(Http2ConnectionError::Stream)
    }

    /// Returns the slot of a stream that we have opened before, or `None` if the stream has ended.
    pub(super) fn find_opened(&self, stream: u32) -> Result<Option<u32>, Http2ConnectionError> {
        self.check_opened(stream)?;
        Ok(self.streams.find_slot(stream))
    }
}

/// Whether the payload of a frame is processed as it arrives instead of being buffered. This
/// applies to DATA frames and to unknown types, which are skipped (RFC 9113, section 4.1).
fn is_streamed(kind: u8) -> bool {
    kind == kind::DATA || kind > kind::CONTINUATION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::RequestParts;
    use crate::http2::UrlScheme;

    #[test]
    fn no_stream_can_be_opened_once_all_stream_ids_are_used_up() {
        let parts =
            RequestParts { method: "GET", target: "/", host: "h", ..RequestParts::default() };
        let request = Http2Request::new(&parts, UrlScheme::Http).unwrap();
        let mut connection = Http2Connection::new(&Http2Settings::default());
        connection.next_id = MAX_31_BITS - 2;
        assert_eq!(connection.capacity(), 2);
        assert!(connection.open_stream(&request, 0));
        assert_eq!(connection.capacity(), 1);
        assert!(connection.open_stream(&request, 1));
        assert!(connection.output().ends_with(&request_frame_end()));
        assert_eq!((connection.capacity(), connection.is_draining()), (0, true));
        assert!(!connection.open_stream(&request, 2));
        // SETTINGS, and the response on the last possible stream.
        let answer = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\x7f\xff\xff\xff\x88";
        let mut ended = Vec::new();
        let result = connection.feed(answer, &mut |event| {
            if let Http2Event::Ended { token, .. } = event {
                ended.push(token);
            }
        });
        assert_eq!((result, ended), (Ok(()), vec![1]));
    }

    /// Stream 2^31 - 1, and the header block of the request.
    fn request_frame_end() -> [u8; 10] {
        *b"\x7f\xff\xff\xff\x82\x86\x01\x01h\x84"
    }
}
