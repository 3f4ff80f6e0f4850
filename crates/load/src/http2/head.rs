//! Assembles header blocks from HEADERS and CONTINUATION frames (RFC 9113, sections 6.2 and 6.10)
//! and applies them to the stream (section 8.1).

use super::connection::PendingHeaderBlock;
use super::frame::{FrameHead, HEAD_BYTES, flag};
use super::header_block::{BlockFacts, BlockPart, HeaderBlock};
use super::hpack::DecodeResult;
use super::{Http2Connection, Http2ConnectionError, Http2Event, Http2Fault, Http2StreamError};
use crate::http1::ResponsePhase;

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
        self.check_opened(head.stream)?;
        let fragment = block_fragment(head, payload)?;
        let pending = PendingHeaderBlock {
            stream: head.stream,
            ends_stream: head.has_flag(flag::END_STREAM),
            continuations: 0,
            wire_bytes: (HEAD_BYTES + payload.len()) as u64,
        };
        let slot = self.streams.find_slot(head.stream);
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
        if self.block.len() > self.settings.max_header_bytes as usize {
            Err(Http2ConnectionError::Flood)
        } else {
            Ok(())
        }
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
            match decoder.decode(block, &mut self.fields, max_bytes) {
                DecodeResult::Whole => {}
                DecodeResult::TooLarge => return Err(Http2ConnectionError::Flood),
                DecodeResult::Malformed => return Err(Http2ConnectionError::Compression),
            }
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
