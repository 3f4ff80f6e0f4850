//! Header blocks: assembles them from HEADERS and CONTINUATION frames (RFC 9113, sections 6.2 and
//! 6.10) and applies them to the stream (section 8.1).

use super::connection::PendingBlock;
use super::frame::{HEAD_BYTES, Head, flag};
use super::header_block::{Facts, HeaderBlock, Part};
use super::hpack::Decoded;
use super::{Connection, ConnectionError, Event, Fault, StreamError};
use crate::http1::Phase;

/// Maximum number of CONTINUATION frames per block. A block within our limits needs five of the
/// smallest maximum size; this stops floods of empty ones.
const MAX_CONTINUATIONS: u32 = 64;

impl Connection {
    #[inline]
    pub(super) fn headers(
        &mut self,
        head: &Head,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        self.check_opened(head.stream)?;
        let fragment = fragment(head, payload)?;
        let begun = PendingBlock {
            stream: head.stream,
            ends_stream: head.has(flag::END_STREAM),
            continuations: 0,
            wire_bytes: (HEAD_BYTES + payload.len()) as u64,
        };
        let place = self.streams.find(head.stream);
        if let Some(place) = place {
            let stream = self.streams.at(place);
            if stream.phase == Phase::FirstByte {
                stream.phase = Phase::Head;
                let token = stream.token;
                on(Event::FirstByte { token });
            }
        }
        if head.has(flag::END_HEADERS) {
            return self.whole_block(place, &begun, fragment, on);
        }
        self.block.clear();
        self.pending = Some(begun);
        self.append(fragment)
    }

    pub(super) fn continuation(
        &mut self,
        head: &Head,
        payload: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        let Some(pending) = &mut self.pending else {
            return Err(ConnectionError::Continuation);
        };
        pending.continuations += 1;
        pending.wire_bytes += (HEAD_BYTES + payload.len()) as u64;
        if pending.continuations > MAX_CONTINUATIONS {
            return Err(ConnectionError::Flood);
        }
        self.append(payload)?;
        if head.has(flag::END_HEADERS)
            && let Some(pending) = self.pending.take()
        {
            let block = std::mem::take(&mut self.block);
            let place = self.streams.find(pending.stream);
            let done = self.whole_block(place, &pending, &block, on);
            self.block = block;
            return done;
        }
        Ok(())
    }

    fn append(&mut self, fragment: &[u8]) -> Result<(), ConnectionError> {
        self.block.extend_from_slice(fragment);
        if self.block.len() > self.settings.max_header_bytes as usize {
            Err(ConnectionError::Flood)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn whole_block(
        &mut self,
        place: Option<u32>,
        pending: &PendingBlock,
        block: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), ConnectionError> {
        let max_bytes = self.settings.max_header_bytes as usize;
        if block.len() > max_bytes {
            return Err(ConnectionError::Flood);
        }
        // Blocks of cancelled streams change the table, too.
        if let Some(decoder) = &mut self.decoder {
            match decoder.decode(block, &mut self.fields, max_bytes) {
                Decoded::Whole => {}
                Decoded::TooLarge => return Err(ConnectionError::Flood),
                Decoded::Malformed => return Err(ConnectionError::Compression),
            }
        }
        let Some(place) = place else {
            return Ok(());
        };
        match self.take_block(place, pending, block, on) {
            Ok(()) if pending.ends_stream => self.end_stream(place, on),
            Ok(()) => {}
            Err(Fault::Connection(error)) => return Err(error),
            Err(Fault::Stream(why)) => {
                self.fail(place, why, on);
                self.provoke(HEAD_BYTES + 4)?;
            }
        }
        Ok(())
    }

    /// Applies the header block of an open stream.
    fn take_block(
        &mut self,
        place: u32,
        pending: &PendingBlock,
        block: &[u8],
        on: &mut impl FnMut(Event),
    ) -> Result<(), Fault> {
        let stream = self.streams.at(place);
        let part = match stream.phase {
            Phase::Body => Part::Trailers,
            _ => Part::Head,
        };
        let facts = match self.decoder {
            None if part == Part::Head => self.walked.facts(block)?,
            None => Facts::walk(block, part)?,
            Some(_) => Facts::from_fields(&self.fields, part)?,
        };
        let token = stream.token;
        match (part, facts.status) {
            (Part::Trailers, _) if !pending.ends_stream => Err(StreamError::Order.into()),
            (Part::Trailers, _) => {
                stream.summary.framing_bytes += pending.wire_bytes;
                Ok(())
            }
            (_, 101) => Err(StreamError::Order.into()),
            (_, 100..200) if pending.ends_stream => Err(StreamError::Order.into()),
            (_, status @ 100..200) => {
                stream.summary.head_bytes += pending.wire_bytes;
                stream.summary.interim += 1;
                on(Event::Interim { token, status });
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
                on(Event::Head {
                    token,
                    status,
                    block,
                });
                Ok(())
            }
        }
    }
}

/// Returns the block fragment of a HEADERS frame, without padding and without the obsolete priority
/// (RFC 9113, section 5.3.2).
#[inline]
fn fragment<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], ConnectionError> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has(flag::PADDED) {
        let (first, behind) = rest.split_first().ok_or(ConnectionError::FrameSize)?;
        (padding, rest) = (usize::from(*first), behind);
    }
    if head.has(flag::PRIORITY) {
        rest = rest.get(5..).ok_or(ConnectionError::FrameSize)?;
    }
    let length = rest.len().checked_sub(padding);
    length
        .map(|length| &rest[..length])
        .ok_or(ConnectionError::Padding)
}
