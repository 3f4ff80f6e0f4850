//! Handles received frames by their type: DATA, HEADERS and CONTINUATION, and control frames. Also
//! sends the bodies of requests.
//!
//! A DATA frame carries a part of a body, reduces the flow-control windows, and may end the
//! response.

use super::connection::{IncomingFrame, PendingHeaderBlock};
use super::frame::{
    self, FrameHead, HEAD_BYTES, INITIAL_WINDOW_BYTES, MAX_31_BITS, MIN_MAX_FRAME_BYTES, flag, kind,
};
use super::header_block::{BlockFacts, BlockPart, HeaderBlock};
use super::streams::BodyUpload;
use super::{
    Http2Connection, Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Fault, Http2Request,
    Http2StreamError,
};
use crate::http1::ResponsePhase;

impl Http2Connection {
    /// Handles the head of a DATA frame or of a frame of unknown type.
    #[inline]
    pub(super) fn begin_payload(
        &mut self,
        head: &FrameHead,
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let is_data = head.kind == kind::DATA;
        let incoming = IncomingFrame {
            stream: if is_data { head.stream } else { 0 },
            remaining: head.length,
            padding: 0,
            awaits_padding: is_data && head.has_flag(flag::PADDED),
            ends_stream: is_data && head.has_flag(flag::END_STREAM),
        };
        if is_data {
            self.check_opened(head.stream)?;
            if incoming.awaits_padding && head.length == 0 {
                return Err(Http2ConnectionError::FrameSize);
            }
            let slot = self.charge_windows(head, on_event)?;
            if let Some(slot) = slot.filter(|_| incoming.ends_stream && head.length == 0) {
                self.end_stream(slot, on_event);
            }
        }
        if head.length > 0 {
            self.incoming = Some(incoming);
        }
        Ok(())
    }

    /// Handles an unpadded DATA frame that arrived in one piece, as nearly all small frames do.
    /// This combines [`Http2Connection::begin_payload`] and [`Http2Connection::read_payload`] in
    /// one step.
    #[inline]
    pub(super) fn complete_data(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        self.check_opened(head.stream)?;
        if let Some(slot) = self.charge_windows(head, on_event)?
            && (payload.is_empty() || self.deliver_data(slot, payload, on_event))
            && head.has_flag(flag::END_STREAM)
        {
            self.end_stream(slot, on_event);
        }
        Ok(())
    }

    /// Charges a frame, including its padding, to the windows of its stream and of the connection
    /// (RFC 9113, section 6.9.1). Data is consumed immediately, so half-used windows are enlarged
    /// again. The connection's window is also charged for frames of cancelled streams. Returns the
    /// slot of the stream if the stream is open and may have a body.
    #[inline]
    fn charge_windows(
        &mut self,
        head: &FrameHead,
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<Option<u32>, Http2ConnectionError> {
        let window = self.settings.connection_window;
        self.uncredited += head.length;
        if self.uncredited > window {
            return Err(Http2ConnectionError::FlowControl);
        }
        if self.uncredited > window / 2 {
            frame::push_window_update(self.output.append_buffer(), 0, self.uncredited);
            self.count_provoked(HEAD_BYTES + 4)?;
            self.uncredited = 0;
        }
        let Some(slot) = self.streams.find_slot(head.stream) else {
            return Ok(None);
        };
        let stream = self.streams.stream_mut(slot);
        if stream.phase != ResponsePhase::Body {
            self.fail_stream(slot, Http2StreamError::Order, on_event);
            self.count_provoked(HEAD_BYTES + 4)?;
            return Ok(None);
        }
        stream.summary.framing_bytes += HEAD_BYTES as u64;
        stream.uncredited += head.length;
        let window = self.settings.stream_window;
        // Until the peer has acknowledged our settings, it may still use the initial window.
        let limit = if self.is_acknowledged { window } else { window.max(INITIAL_WINDOW_BYTES) };
        if stream.uncredited > limit {
            return Err(Http2ConnectionError::FlowControl);
        }
        if stream.uncredited > window / 2 && !head.has_flag(flag::END_STREAM) {
            let credit = std::mem::take(&mut stream.uncredited);
            frame::push_window_update(self.output.append_buffer(), head.stream, credit);
            self.count_provoked(HEAD_BYTES + 4)?;
        }
        Ok(Some(slot))
    }

    /// Processes the available part of the frame; returns the bytes that follow the frame.
    #[inline]
    pub(super) fn read_payload<'a>(
        &mut self,
        bytes: &'a [u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<&'a [u8], Http2ConnectionError> {
        let Some(mut incoming) = self.incoming.take() else {
            return Ok(bytes);
        };
        let slot = self.streams.find_slot(incoming.stream);
        let mut read = 0;
        if incoming.awaits_padding
            && let Some(padding) = bytes.first()
        {
            incoming.awaits_padding = false;
            incoming.padding = u32::from(*padding);
            incoming.remaining -= 1;
            read = 1;
            if incoming.padding > incoming.remaining {
                return Err(Http2ConnectionError::Padding);
            }
            if let Some(slot) = slot {
                self.streams.stream_mut(slot).summary.framing_bytes +=
                    1 + u64::from(incoming.padding);
            }
        }
        let rest = &bytes[read..];
        let data = rest.len().min((incoming.remaining - incoming.padding) as usize);
        if data > 0
            && let Some(slot) = slot
        {
            // If the stream fails here, its later data is skipped.
            let _ = self.deliver_data(slot, &rest[..data], on_event);
        }
        let taken = rest.len().min(incoming.remaining as usize);
        incoming.remaining -= taken as u32;
        incoming.padding = incoming.padding.min(incoming.remaining);
        if incoming.remaining > 0 {
            self.incoming = Some(incoming);
        } else if incoming.ends_stream
            && let Some(slot) = self.streams.find_slot(incoming.stream)
        {
            self.end_stream(slot, on_event);
        }
        Ok(&rest[taken..])
    }

    /// Reports a part of a body as an event. If the body is too long, fails the stream and returns
    /// false.
    #[inline]
    fn deliver_data(
        &mut self,
        slot: u32,
        bytes: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> bool {
        let stream = self.streams.stream_mut(slot);
        stream.summary.body_bytes += bytes.len() as u64;
        if !stream.fits_length() {
            self.fail_stream(slot, Http2StreamError::Length, on_event);
            return false;
        }
        let token = stream.token;
        on_event(Http2Event::Data { token, bytes });
        true
    }

    /// Handles the end of a stream after the peer has announced it.
    #[inline]
    pub(super) fn end_stream(&mut self, slot: u32, on_event: &mut impl FnMut(Http2Event)) {
        let reusable = !self.is_draining();
        let stream = self.streams.stream_mut(slot);
        if !stream.matches_length() {
            return self.fail_stream(slot, Http2StreamError::Length, on_event);
        }
        let (token, mut summary) = (stream.token, stream.summary);
        summary.reusable = reusable;
        if stream.upload.is_some() {
            // A response may complete before the request does (RFC 9113, section 8.1). The rest of
            // the request is then pointless.
            frame::push_reset(self.output.append_buffer(), stream.id, Http2ErrorCode::CANCEL);
        }
        self.free_slot(slot);
        on_event(Http2Event::Ended { token, summary });
    }

    /// Fails a stream. Resets the stream unless the peer has reset it or will not process it.
    pub(super) fn fail_stream(
        &mut self,
        slot: u32,
        why: Http2StreamError,
        on_event: &mut impl FnMut(Http2Event),
    ) {
        let stream = self.streams.stream_mut(slot);
        let (id, token) = (stream.id, stream.token);
        if let Some(code) = why.code() {
            frame::push_reset(self.output.append_buffer(), id, code);
        }
        self.free_slot(slot);
        on_event(Http2Event::Failed { token, why });
    }
}

// Request bodies are sent as fast as the output is drained, within the windows of stream and
// connection (RFC 9113, section 6.9), and in frames that the peer accepts.

/// Body data is appended to the output only while the output holds fewer bytes than this. The limit
/// is enough for any send buffer, and large bodies are never copied as a whole.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

impl Http2Connection {
    /// Starts sending the body of a new stream, as far as the windows permit.
    pub(super) fn start_upload(&mut self, slot: u32, request: &Http2Request) {
        let body = request.body();
        let length = body.len() as i64;
        let stream = self.streams.stream_mut(slot);
        let is_short = body.len() <= MIN_MAX_FRAME_BYTES as usize
            && length <= stream.send_window
            && length <= self.send_window;
        if is_short && self.uploads.is_empty() {
            stream.send_window -= length;
            self.send_window -= length;
            let id = stream.id;
            frame::push_frame(self.output.append_buffer(), kind::DATA, flag::END_STREAM, id, body);
            return;
        }
        stream.upload = Some(BodyUpload { body: request.shared_body(), offset: 0 });
        stream.is_queued = true;
        self.uploads.push_back(slot);
        self.pump_uploads();
    }

    /// Requeues a stream after its window was enlarged.
    pub(super) fn resume_upload(&mut self, slot: u32) {
        let stream = self.streams.stream_mut(slot);
        if stream.upload.is_some() && !stream.is_queued && stream.send_window > 0 {
            stream.is_queued = true;
            self.uploads.push_back(slot);
        }
    }

    /// Appends frames to the output, one per stream in turn, while windows and output permit.
    pub(super) fn pump_uploads(&mut self) {
        while self.send_window > 0
            && self.output.pending_bytes().len() < MAX_OUTPUT_BYTES
            && let Some(slot) = self.uploads.pop_front()
        {
            let stream = self.streams.stream_mut(slot);
            stream.is_queued = false;
            let Some(upload) = &mut stream.upload else {
                continue;
            };
            let remaining = upload.body.len() - upload.offset;
            let window = stream.send_window.min(self.send_window).max(0);
            // Use small frames even if the peer accepts larger ones, so that streams take turns.
            let length = remaining
                .min(MIN_MAX_FRAME_BYTES as usize)
                .min(usize::try_from(window).unwrap_or(usize::MAX));
            if length == 0 {
                continue;
            }
            let flags = if length == remaining { flag::END_STREAM } else { 0 };
            let piece = &upload.body[upload.offset..upload.offset + length];
            frame::push_frame(self.output.append_buffer(), kind::DATA, flags, stream.id, piece);
            upload.offset += length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            if length == remaining {
                stream.upload = None;
            } else {
                self.resume_upload(slot);
            }
        }
    }
}

// The functions below assemble header blocks from HEADERS and CONTINUATION frames (RFC 9113,
// sections 6.2 and 6.10) and apply them to the stream (section 8.1).

/// Maximum number of CONTINUATION frames per block. A block of 64 KiB, the default limit, fits into
/// five frames of the size that every peer accepts. The maximum stops floods of empty frames.
const MAX_CONTINUATIONS: u32 = 64;

impl Http2Connection {
    #[inline]
    pub(super) fn handle_headers(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let slot = self.find_opened(head.stream)?;
        let fragment = block_fragment(head, payload)?;
        let pending = PendingHeaderBlock {
            stream: head.stream,
            ends_stream: head.has_flag(flag::END_STREAM),
            continuations: 0,
            wire_bytes: (HEAD_BYTES + payload.len()) as u64,
        };
        if let Some(slot) = slot {
            let stream = self.streams.stream_mut(slot);
            if stream.phase == ResponsePhase::FirstByte {
                stream.phase = ResponsePhase::Head;
                let token = stream.token;
                on_event(Http2Event::FirstByte { token });
            }
        }
        if head.has_flag(flag::END_HEADERS) {
            return self.handle_block(slot, &pending, fragment, on_event);
        }
        self.block.clear();
        self.pending = Some(pending);
        self.append_fragment(fragment)
    }

    pub(super) fn handle_continuation(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let Some(pending) = &mut self.pending else {
            return Err(Http2ConnectionError::Continuation);
        };
        pending.continuations += 1;
        pending.wire_bytes += (HEAD_BYTES + payload.len()) as u64;
        if pending.continuations > MAX_CONTINUATIONS {
            return Err(Http2ConnectionError::Flood);
        }
        self.append_fragment(payload)?;
        if head.has_flag(flag::END_HEADERS)
            && let Some(pending) = self.pending.take()
        {
            let block = std::mem::take(&mut self.block);
            let slot = self.streams.find_slot(pending.stream);
            let result = self.handle_block(slot, &pending, &block, on_event);
            self.block = block;
            return result;
        }
        Ok(())
    }

    fn append_fragment(&mut self, fragment: &[u8]) -> Result<(), Http2ConnectionError> {
        self.block.extend_from_slice(fragment);
        let is_within = self.block.len() <= self.settings.max_header_bytes as usize;
        is_within.then_some(()).ok_or(Http2ConnectionError::Flood)
    }

    #[inline]
    fn handle_block(
        &mut self,
        slot: Option<u32>,
        pending: &PendingHeaderBlock,
        block: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2ConnectionError> {
        let max_bytes = self.settings.max_header_bytes as usize;
        if block.len() > max_bytes {
            return Err(Http2ConnectionError::Flood);
        }
        // Decode the blocks of cancelled streams, too, because they change the compression table.
        if let Some(decoder) = &mut self.decoder {
            decoder.decode(block, &mut self.fields, max_bytes)?;
        }
        let Some(slot) = slot else {
            return Ok(());
        };
        match self.apply_block(slot, pending, block, on_event) {
            Ok(()) if pending.ends_stream => self.end_stream(slot, on_event),
            Ok(()) => {}
            Err(Http2Fault::Connection(error)) => return Err(error),
            Err(Http2Fault::Stream(error)) => {
                self.fail_stream(slot, error, on_event);
                self.count_provoked(HEAD_BYTES + 4)?;
            }
        }
        Ok(())
    }

    /// Applies the header block of an open stream.
    fn apply_block(
        &mut self,
        slot: u32,
        pending: &PendingHeaderBlock,
        block: &[u8],
        on_event: &mut impl FnMut(Http2Event),
    ) -> Result<(), Http2Fault> {
        let stream = self.streams.stream_mut(slot);
        let part = match stream.phase {
            ResponsePhase::Body => BlockPart::Trailers,
            _ => BlockPart::Head,
        };
        let facts = match self.decoder {
            None if part == BlockPart::Head => self.walked.cached_facts(block)?,
            None => BlockFacts::scan_block(block, part)?,
            Some(_) => BlockFacts::from_fields(&self.fields, part)?,
        };
        let token = stream.token;
        match (part, facts.status) {
            (BlockPart::Trailers, _) if !pending.ends_stream => Err(Http2StreamError::Order.into()),
            (BlockPart::Trailers, _) => {
                stream.summary.framing_bytes += pending.wire_bytes;
                Ok(())
            }
            (_, 101) => Err(Http2StreamError::Order.into()),
            (_, 100..200) if pending.ends_stream => Err(Http2StreamError::Order.into()),
            (_, status @ 100..200) => {
                stream.summary.head_bytes += pending.wire_bytes;
                stream.summary.interim += 1;
                on_event(Http2Event::Interim { token, status });
                Ok(())
            }
            (_, status) => {
                stream.summary.head_bytes += pending.wire_bytes;
                stream.begin_body(status, facts.content_length);
                let max_bytes = self.settings.max_header_bytes as usize;
                let block = match self.decoder {
                    None => HeaderBlock::coded(block, max_bytes),
                    Some(_) => HeaderBlock::decoded(&self.fields, max_bytes),
                };
                on_event(Http2Event::Head { token, status, block });
                Ok(())
            }
        }
    }
}

/// Returns the block fragment of a HEADERS frame, without padding and without the obsolete priority
/// (RFC 9113, section 5.3.2).
#[inline]
fn block_fragment<'a>(
    head: &FrameHead,
    payload: &'a [u8],
) -> Result<&'a [u8], Http2ConnectionError> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has_flag(flag::PADDED) {
        let (first, behind) = rest.split_first().ok_or(Http2ConnectionError::FrameSize)?;
        (padding, rest) = (usize::from(*first), behind);
    }
    if head.has_flag(flag::PRIORITY) {
        rest = rest.get(5..).ok_or(Http2ConnectionError::FrameSize)?;
    }
    let length = rest.len().checked_sub(padding);
    length.map(|length| &rest[..length]).ok_or(Http2ConnectionError::Padding)
}

// The functions below handle control frames: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, and
// forbidden ones.

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
        let is_within = self.provoked_bytes <= MAX_PROVOKED_BYTES;
        is_within.then_some(()).ok_or(Http2ConnectionError::Flood)
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
        frame::push_frame(self.output.append_buffer(), kind::SETTINGS, flag::ACK, 0, &[]);
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
            let Some(slot) = self.find_opened(id)? else {
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
        // A server may reset a stream that has ended, for instance because it does not want the
        // rest of the request (section 8.1).
        if let Some(slot) = self.find_opened(id)? {
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
