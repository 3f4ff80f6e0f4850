//! Header blocks: put together from HEADERS and CONTINUATION frames (RFC 9113, sections 6.2 and
//! 6.10), and what they mean for the stream (section 8.1).

use super::frame::{HEAD_BYTES, Head, flag};
use super::hpack::{Decoded, Decoder, ENTRIES, Fields, Name, Reader, Representation, Text};
use super::{Connection, ConnectionError, Event, Fault, StreamError};
use crate::http1::{Phase, is_token_byte};
use std::fmt;

/// CONTINUATION frames of one block. A block within our limits needs five of the smallest maximum
/// size; floods of empty ones never end.
const MAX_CONTINUATIONS: u32 = 64;

/// A header block whose end is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingBlock {
    pub(super) stream: u32,
    ends_stream: bool,
    continuations: u32,
    /// Bytes of its frames so far, heads and padding included.
    wire_bytes: u64,
}

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
        // Blocks of streams that we gave up change the table as well.
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

    /// Acts on the block of an open stream.
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

/// The part of a HEADERS frame that belongs to the block: without padding, and without the priority,
/// which means nothing any more (RFC 9113, section 5.3.2).
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

// The header block of a response: its status and the length of its body at once, its fields when
// somebody asks for them. As long as no table is used a block is only walked through: all names are
// looked at, but of the values only those of `:status` and `content-length`; RFC 7541 lets one skip a
// text by its length. What the walk sees decides about the response. Values are checked by
// [`HeaderBlock::read`].

/// Indices of the static table: what only requests have, `:status`, and two more that matter.
const FIRST_STATUS: u32 = 8;
const LAST_STATUS: u32 = 14;
const CONTENT_LENGTH: u32 = 28;
const TRANSFER_ENCODING: u32 = 57;
/// A bit for each index of the static table whose name is allowed and means nothing to the walk.
const MEANINGLESS: u64 = (1 << (ENTRIES + 1))
    - (1 << (LAST_STATUS + 1))
    - (1 << CONTENT_LENGTH)
    - (1 << TRANSFER_ENCODING);

/// The fields of a head, decoded or not.
///
/// When no table is used, values have not been looked at until they are read here.
#[derive(Debug, Clone, Copy)]
pub struct HeaderBlock<'a> {
    source: Source<'a>,
    max_list_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    /// A block that needs no table.
    Coded(&'a [u8]),
    Decoded(&'a Fields),
}

/// Why the fields of a block cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unreadable {
    /// A text is no Huffman code.
    Compression,
    /// There is more than [`super::Settings::max_header_bytes`] allows.
    TooLarge,
    /// A value has characters that no field has (RFC 9113, section 8.2.1).
    Value,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Unreadable::Compression => "the header block cannot be decompressed",
            Unreadable::TooLarge => "the header fields are too large",
            Unreadable::Value => "the value of a header field is malformed",
        })
    }
}

impl std::error::Error for Unreadable {}

impl<'a> HeaderBlock<'a> {
    pub(super) fn coded(block: &'a [u8], max_list_bytes: usize) -> HeaderBlock<'a> {
        HeaderBlock {
            source: Source::Coded(block),
            max_list_bytes,
        }
    }

    pub(super) fn decoded(fields: &'a Fields, max_list_bytes: usize) -> HeaderBlock<'a> {
        HeaderBlock {
            source: Source::Decoded(fields),
            max_list_bytes,
        }
    }

    /// All fields, `:status` included; `memory` is used if they are not decoded yet.
    ///
    /// # Errors
    /// The response is malformed, which nobody had looked for before.
    pub fn read<'b>(&self, memory: &'b mut Fields) -> Result<&'b Fields, Unreadable>
    where
        'a: 'b,
    {
        let fields: &'b Fields = match self.source {
            Source::Decoded(fields) => fields,
            Source::Coded(block) => {
                match Decoder::new(0).decode(block, memory, self.max_list_bytes) {
                    Decoded::Whole => memory,
                    Decoded::TooLarge => return Err(Unreadable::TooLarge),
                    Decoded::Malformed => return Err(Unreadable::Compression),
                }
            }
        };
        if fields.iter().all(|(_, value)| is_value(value)) {
            Ok(fields)
        } else {
            Err(Unreadable::Value)
        }
    }
}

/// RFC 9113, section 8.2.1: no NUL, CR or LF, no blank at either end.
fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

/// What a name means for the reading of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Status,
    ContentLength,
    Other,
    /// No response may have it.
    Forbidden,
}

impl Meaning {
    /// Of a name in the static table; `None` if there is no such entry.
    #[inline]
    fn of_index(index: u32) -> Option<Meaning> {
        Some(match index {
            0 => return None,
            FIRST_STATUS..=LAST_STATUS => Meaning::Status,
            CONTENT_LENGTH => Meaning::ContentLength,
            1..FIRST_STATUS | TRANSFER_ENCODING => Meaning::Forbidden,
            _ if index > ENTRIES => return None,
            _ => Meaning::Other,
        })
    }

    /// Names are tokens in lower case (RFC 9113, section 8.2.1), and those that speak of an HTTP/1
    /// connection are out of place (section 8.2.2).
    fn of_name(name: &[u8]) -> Meaning {
        match name {
            b":status" => Meaning::Status,
            b"content-length" => Meaning::ContentLength,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Meaning::Forbidden,
            _ if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte)) => {
                Meaning::Forbidden
            }
            _ => Meaning::Other,
        }
    }

    /// `None` if the text is no Huffman code.
    fn of_text(name: Text) -> Option<Meaning> {
        if !name.is_huffman {
            return Some(Meaning::of_name(name.coded));
        }
        // Names that mean something to us are short; of longer ones only the letters matter.
        let (mut buffer, mut length, mut is_name) = ([0; 32], 0, true);
        name.decode(|byte| {
            is_name &= is_name_byte(byte);
            if let Some(place) = buffer.get_mut(length) {
                *place = byte;
            }
            length += 1;
        })?;
        Some(match buffer.get(..length) {
            Some(name) => Meaning::of_name(name),
            None if is_name => Meaning::Other,
            None => Meaning::Forbidden,
        })
    }
}

fn is_name_byte(byte: u8) -> bool {
    is_token_byte(byte) && !byte.is_ascii_uppercase()
}

/// Which part of a response a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    Trailers,
}

/// What a block says about the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// 0 in trailers.
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    /// A field that is no pseudo-header field was seen.
    is_past_pseudo: bool,
}

impl Facts {
    /// Walks through a block of a peer that may use no table.
    pub(super) fn walk(block: &[u8], part: Part) -> Result<Facts, Fault> {
        let compression = Fault::Connection(ConnectionError::Compression);
        let mut facts = Facts::default();
        let mut reader = Reader::new(block);
        let mut is_at_start = true;
        loop {
            if reader.skip_literals(MEANINGLESS) {
                facts.is_past_pseudo = true;
                is_at_start = false;
            }
            if reader.is_at_end() {
                break;
            }
            match reader.read().ok_or(compression)? {
                // The table cannot be larger than we allow, and only a block's first bytes resize it.
                Representation::SizeUpdate(0) if is_at_start => continue,
                Representation::SizeUpdate(_) => return Err(compression),
                Representation::Indexed(index) => {
                    match Meaning::of_index(index).ok_or(compression)? {
                        Meaning::Status => facts.status(status_of(index), part)?,
                        // The entry's value is empty, which is no number.
                        Meaning::ContentLength if part == Part::Head => {
                            return Err(StreamError::Header.into());
                        }
                        Meaning::Forbidden => return Err(StreamError::Header.into()),
                        _ => facts.is_past_pseudo = true,
                    }
                }
                Representation::Literal { name, value, .. } => {
                    let meaning = match name {
                        Name::Indexed(index) => Meaning::of_index(index),
                        Name::Literal(text) => Meaning::of_text(text),
                    };
                    match meaning.ok_or(compression)? {
                        Meaning::Other => facts.is_past_pseudo = true,
                        meaning => {
                            // 2^64 has 20 digits.
                            let mut buffer = [0; 20];
                            let value = value.within(&mut buffer).unwrap_or(b"");
                            facts.take(meaning, value, part)?;
                        }
                    }
                }
            }
            is_at_start = false;
        }
        facts.checked(part)
    }

    /// Looks through fields that have been decoded.
    pub(super) fn from_fields(fields: &Fields, part: Part) -> Result<Facts, Fault> {
        let mut facts = Facts::default();
        for (name, value) in fields.iter() {
            facts.take(Meaning::of_name(name), value, part)?;
            if !is_value(value) {
                return Err(StreamError::Header.into());
            }
        }
        facts.checked(part)
    }

    fn take(&mut self, meaning: Meaning, value: &[u8], part: Part) -> Result<(), StreamError> {
        match meaning {
            Meaning::Status => return self.status(number(value), part),
            Meaning::Forbidden => return Err(StreamError::Header),
            Meaning::ContentLength if part == Part::Head => {
                let length = number(value).ok_or(StreamError::Header)?;
                if self.content_length.is_some_and(|known| known != length) {
                    return Err(StreamError::LengthConflict);
                }
                self.content_length = Some(length);
            }
            _ => {}
        }
        self.is_past_pseudo = true;
        Ok(())
    }

    /// Trailers have no pseudo-header fields (RFC 9113, section 8.1), heads begin with theirs
    /// (section 8.3), which is one (section 8.3.2).
    fn status(&mut self, status: Option<u64>, part: Part) -> Result<(), StreamError> {
        if part == Part::Trailers || self.is_past_pseudo {
            return Err(StreamError::Header);
        }
        match status {
            Some(status @ 100..=999) if self.status == 0 => self.status = status as u16,
            _ => return Err(StreamError::Status),
        }
        Ok(())
    }

    fn checked(self, part: Part) -> Result<Facts, Fault> {
        match part {
            Part::Head if self.status == 0 => Err(StreamError::Status.into()),
            _ => Ok(self),
        }
    }
}

/// The last head that was walked through. Servers answer the same request with the same bytes until
/// the date changes, and comparing them costs a tenth of walking.
#[derive(Debug, Default)]
pub(super) struct Walked {
    block: Vec<u8>,
    facts: Facts,
}

impl Walked {
    /// As [`Facts::walk`] of a head.
    #[inline]
    pub(super) fn facts(&mut self, block: &[u8]) -> Result<Facts, Fault> {
        // A head is never empty, so one that equals the block was walked through.
        if self.block != block || block.is_empty() {
            self.block.clear();
            self.facts = Facts::walk(block, Part::Head)?;
            self.block.extend_from_slice(block);
        }
        Ok(self.facts)
    }
}

fn status_of(index: u32) -> Option<u64> {
    const STATUS: [u64; 7] = [200, 204, 206, 304, 400, 404, 500];
    STATUS.get((index - FIRST_STATUS) as usize).copied()
}

/// Digits only, and not more than fit.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
