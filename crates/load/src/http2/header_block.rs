//! The header block of a response: extracts the status and the content length immediately, other
//! fields on demand.
//!
//! As long as no table is used, a block is only scanned: all names are checked, but only the values
//! of `:status` and `content-length` are read, since RFC 7541 permits skipping a string by its
//! length. The scan decides the fate of the response. Values are checked by [`HeaderBlock::read`].

use super::hpack::{Decoded, Decoder, ENTRIES, Fields, Name, Reader, Representation, Text};
use super::{ConnectionError, Fault, StreamError};
use crate::http1::{is_token_byte, number};
use std::fmt;

/// Indices into the static table: request-only entries, `:status`, and two more of interest.
const FIRST_STATUS: u32 = 8;
const LAST_STATUS: u32 = 14;
const CONTENT_LENGTH: u32 = 28;
const TRANSFER_ENCODING: u32 = 57;
/// Bit set of static table indices whose names are allowed and irrelevant to the scan.
const MEANINGLESS: u64 = (1 << (ENTRIES + 1))
    - (1 << (LAST_STATUS + 1))
    - (1 << CONTENT_LENGTH)
    - (1 << TRANSFER_ENCODING);

/// The fields of a head, decoded or not.
///
/// Without a table, values are not checked before they are read here.
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
    /// A string is not a valid Huffman code.
    Compression,
    /// The fields exceed [`super::Settings::max_header_bytes`].
    TooLarge,
    /// A value contains invalid characters (RFC 9113, section 8.2.1).
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

    /// Returns all fields, including `:status`; decodes them into `memory` unless they are decoded
    /// already.
    ///
    /// # Errors
    /// Fails if a value is malformed, which was not checked before.
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

/// Whether a value has no NUL, CR or LF and no surrounding blanks (RFC 9113, section 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

/// Relevance of a field name for reading a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Status,
    ContentLength,
    Other,
    /// Not allowed in responses.
    Forbidden,
}

impl Meaning {
    /// Meaning of a name in the static table; `None` if there is no such entry.
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

    /// Meaning of a name. Names are lowercase tokens (RFC 9113, section 8.2.1), and
    /// connection-specific fields of HTTP/1 are forbidden (section 8.2.2).
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

    /// Meaning of a coded name; `None` if it is not a valid Huffman code.
    fn of_text(name: Text) -> Option<Meaning> {
        if !name.is_huffman {
            return Some(Meaning::of_name(name.coded));
        }
        // Relevant names are short; longer ones only need valid characters.
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

/// The part of a response that a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    Trailers,
}

/// The information in a block that affects the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// 0 in trailers.
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    /// Whether a regular field has been seen.
    is_past_pseudo: bool,
}

impl Facts {
    /// Scans a block from a peer that may not use a table.
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
                // The table cannot exceed our limit, and only the start of a block may resize it.
                Representation::SizeUpdate(0) if is_at_start => continue,
                Representation::SizeUpdate(_) => return Err(compression),
                Representation::Indexed(index) => {
                    match Meaning::of_index(index).ok_or(compression)? {
                        Meaning::Status => facts.status(status_of(index), part)?,
                        // The value of this entry is empty, i.e. not a number.
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

    /// Examines decoded fields.
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

    /// Records the status. Trailers have no pseudo-header fields (RFC 9113, section 8.1); heads
    /// start with theirs (section 8.3), of which there is exactly one (section 8.3.2).
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

/// Cache of the last scanned head. Servers answer the same request with the same bytes until the
/// date changes, and comparing takes a tenth of the time of scanning.
#[derive(Debug, Default)]
pub(super) struct Walked {
    block: Vec<u8>,
    facts: Facts,
}

impl Walked {
    /// Same as [`Facts::walk`] for a head.
    #[inline]
    pub(super) fn facts(&mut self, block: &[u8]) -> Result<Facts, Fault> {
        // A valid head is never empty, so a cached one that equals the block has been scanned.
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
