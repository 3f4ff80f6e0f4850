//! Handles DATA frames: received parts of bodies, flow-control windows, the end of a response, and
//! request bodies to send.

use super::connection::IncomingFrame;
use super::frame::{
    self, FrameHead, HEAD_BYTES, INITIAL_WINDOW_BYTES, MIN_MAX_FRAME_BYTES, flag, kind,
};
use super::streams::BodyUpload;
use super::{
    Http2Connection, Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Request,
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
    /// again. Frames of cancelled streams also count for the connection. Returns the slot of the
    /// stream if the stream is open and may have a body.
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
