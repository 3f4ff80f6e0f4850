//! Reads the header block of a response: extracts the status and the content length immediately,
//! and other fields on demand.
//!
//! Without a compression table, a block is only scanned. The scan checks all names, but only the
//! values of `:status` and `content-length`. A block is accepted if the scan succeeds. The scan
//! skips other values by their length, which RFC 7541 permits; [`HeaderBlock::decode_fields`]
//! checks these values.

use super::hpack::{
    BlockReader, CodedText, FieldList, FieldName, FieldRepresentation, HpackDecoder, STATIC_ENTRIES,
};
use super::{Http2ConnectionError, Http2Fault, Http2StreamError};
use crate::http1::{is_token_byte, parse_number};

/// Indices into the static table: the first and last entries for `:status`, and two more entries of
/// interest. The entries before `:status` occur only in requests.
const FIRST_STATUS: u32 = 8;
const LAST_STATUS: u32 = 14;
const CONTENT_LENGTH: u32 = 28;
const TRANSFER_ENCODING: u32 = 57;
/// Bit set of the static table indices whose names are allowed in responses but do not matter to
/// the scan.
const IRRELEVANT_INDICES: u64 = (1 << (STATIC_ENTRIES + 1))
    - (1 << (LAST_STATUS + 1))
    - (1 << CONTENT_LENGTH)
    - (1 << TRANSFER_ENCODING);

/// The fields of a head, decoded or not.
///
/// Without a compression table, values are checked only when they are read with
/// [`HeaderBlock::decode_fields`].
#[derive(Debug, Clone, Copy)]
pub struct HeaderBlock<'a> {
    source: BlockSource<'a>,
    max_list_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum BlockSource<'a> {
    /// A block that can be decoded without the dynamic table.
    Coded(&'a [u8]),
    Decoded(&'a FieldList),
}

impl<'a> HeaderBlock<'a> {
    pub(super) fn coded(block: &'a [u8], max_list_bytes: usize) -> HeaderBlock<'a> {
        HeaderBlock { source: BlockSource::Coded(block), max_list_bytes }
    }

    pub(super) fn decoded(fields: &'a FieldList, max_list_bytes: usize) -> HeaderBlock<'a> {
        HeaderBlock { source: BlockSource::Decoded(fields), max_list_bytes }
    }

    /// Returns all fields, including `:status`; decodes them into `memory` unless they are decoded
    /// already. `None` if a value is malformed or the fields are too large. The scan of a block
    /// checks neither.
    pub fn decode_fields<'b>(&self, memory: &'b mut FieldList) -> Option<&'b FieldList>
    where
        'a: 'b,
    {
        let fields: &'b FieldList = match self.source {
            BlockSource::Decoded(fields) => fields,
            BlockSource::Coded(block) => {
                HpackDecoder::new(0).decode(block, memory, self.max_list_bytes).ok()?;
                memory
            }
        };
        fields.iter().all(|(_, value)| is_value(value)).then_some(fields)
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
enum FieldMeaning {
    Status,
    ContentLength,
    Other,
    /// Not allowed in responses.
    Forbidden,
}

impl FieldMeaning {
    /// Meaning of a name in the static table; `None` if there is no such entry.
    #[inline]
    fn from_index(index: u32) -> Option<FieldMeaning> {
        Some(match index {
            0 => return None,
            FIRST_STATUS..=LAST_STATUS => FieldMeaning::Status,
            CONTENT_LENGTH => FieldMeaning::ContentLength,
            1..FIRST_STATUS | TRANSFER_ENCODING => FieldMeaning::Forbidden,
            _ if index > STATIC_ENTRIES => return None,
            _ => FieldMeaning::Other,
        })
    }

    /// Meaning of a name. Names are lowercase tokens (RFC 9113, section 8.2.1), and
    /// connection-specific fields of HTTP/1 are forbidden (section 8.2.2).
    fn from_name(name: &[u8]) -> FieldMeaning {
        match name {
            b":status" => FieldMeaning::Status,
            b"content-length" => FieldMeaning::ContentLength,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => FieldMeaning::Forbidden,
            _ if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte)) => {
                FieldMeaning::Forbidden
            }
            _ => FieldMeaning::Other,
        }
    }

    /// Meaning of a coded name; `None` if it is not a valid Huffman code.
    fn from_text(name: CodedText) -> Option<FieldMeaning> {
        if !name.is_huffman {
            return Some(FieldMeaning::from_name(name.coded));
        }
        // Relevant names are short; longer names only need valid characters.
        let (mut buffer, mut length, mut is_name) = ([0; 32], 0, true);
        name.decode_huffman(|byte| {
            is_name &= is_name_byte(byte);
            if let Some(place) = buffer.get_mut(length) {
                *place = byte;
            }
            length += 1;
        })?;
        Some(match buffer.get(..length) {
            Some(name) => FieldMeaning::from_name(name),
            None if is_name => FieldMeaning::Other,
            None => FieldMeaning::Forbidden,
        })
    }
}

fn is_name_byte(byte: u8) -> bool {
    is_token_byte(byte) && !byte.is_ascii_uppercase()
}

/// The part of a response that a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockPart {
    Head,
    Trailers,
}

/// The information in a block that affects the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockFacts {
    /// Status code; 0 in trailers.
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    /// Whether a regular field has been seen, after which no pseudo-header field is allowed.
    is_past_pseudo: bool,
}

impl BlockFacts {
    /// Scans a block from a peer that must not use a compression table.
    pub(super) fn scan_block(block: &[u8], part: BlockPart) -> Result<BlockFacts, Http2Fault> {
        let compression = Http2Fault::Connection(Http2ConnectionError::Compression);
        let mut facts = BlockFacts::default();
        let mut reader = BlockReader::new(block);
        let mut is_at_start = true;
        loop {
            if reader.skip_literals(IRRELEVANT_INDICES) {
                facts.is_past_pseudo = true;
                is_at_start = false;
            }
            if reader.is_at_end() {
                break;
            }
            match reader.next_representation().ok_or(compression)? {
                // Our limit for the size of the table is 0, and only the start of a block may
                // resize the table.
                FieldRepresentation::SizeUpdate(0) if is_at_start => continue,
                FieldRepresentation::SizeUpdate(_) => return Err(compression),
                FieldRepresentation::Indexed(index) => {
                    match FieldMeaning::from_index(index).ok_or(compression)? {
                        FieldMeaning::Status => facts.set_status(indexed_status(index), part)?,
                        // The static entry for `content-length` has an empty value, which is not a
                        // number.
                        FieldMeaning::ContentLength if part == BlockPart::Head => {
                            return Err(Http2StreamError::Header.into());
                        }
                        FieldMeaning::Forbidden => return Err(Http2StreamError::Header.into()),
                        _ => facts.is_past_pseudo = true,
                    }
                }
                FieldRepresentation::Literal { name, value, .. } => {
                    let meaning = match name {
                        FieldName::Indexed(index) => FieldMeaning::from_index(index),
                        FieldName::Literal(text) => FieldMeaning::from_text(text),
                    };
                    match meaning.ok_or(compression)? {
                        FieldMeaning::Other => facts.is_past_pseudo = true,
                        meaning => {
                            // The largest content length, 2^64 - 1, has 20 digits.
                            let mut buffer = [0; 20];
                            let decoded = value.decode_into(&mut buffer).unwrap_or(b"");
                            facts.add_field(meaning, decoded, part)?;
                        }
                    }
                }
            }
            is_at_start = false;
        }
        facts.check_complete(part)
    }

    pub(super) fn from_fields(
        fields: &FieldList,
        part: BlockPart,
    ) -> Result<BlockFacts, Http2Fault> {
        let mut facts = BlockFacts::default();
        for (name, value) in fields.iter() {
            facts.add_field(FieldMeaning::from_name(name), value, part)?;
            if !is_value(value) {
                return Err(Http2StreamError::Header.into());
            }
        }
        facts.check_complete(part)
    }

    fn add_field(
        &mut self,
        meaning: FieldMeaning,
        value: &[u8],
        part: BlockPart,
    ) -> Result<(), Http2StreamError> {
        match meaning {
            FieldMeaning::Status => return self.set_status(parse_number(value), part),
            FieldMeaning::Forbidden => return Err(Http2StreamError::Header),
            FieldMeaning::ContentLength if part == BlockPart::Head => {
                let length = parse_number(value).ok_or(Http2StreamError::Header)?;
                if self.content_length.is_some_and(|known| known != length) {
                    return Err(Http2StreamError::LengthConflict);
                }
                self.content_length = Some(length);
            }
            _ => {}
        }
        self.is_past_pseudo = true;
        Ok(())
    }

    /// Records the status. Trailers have no pseudo-header fields (RFC 9113, section 8.1); heads
    /// start with exactly one, the status (sections 8.3 and 8.3.2).
    fn set_status(&mut self, status: Option<u64>, part: BlockPart) -> Result<(), Http2StreamError> {
        if part == BlockPart::Trailers || self.is_past_pseudo {
            return Err(Http2StreamError::Header);
        }
        match status {
            Some(status @ 100..=999) if self.status == 0 => self.status = status as u16,
            _ => return Err(Http2StreamError::Status),
        }
        Ok(())
    }

    fn check_complete(self, part: BlockPart) -> Result<BlockFacts, Http2Fault> {
        match part {
            BlockPart::Head if self.status == 0 => Err(Http2StreamError::Status.into()),
            _ => Ok(self),
        }
    }
}

/// Cache of the last scanned head. Servers answer the same request with the same bytes until the
/// date changes, and comparing takes a tenth of the time of scanning.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    block: Vec<u8>,
    facts: BlockFacts,
}

impl HeadCache {
    /// Same as [`BlockFacts::scan_block`] for a head.
    #[inline]
    pub(super) fn cached_facts(&mut self, block: &[u8]) -> Result<BlockFacts, Http2Fault> {
        // A valid head is never empty, so a cached block that is equal to this one has been
        // scanned.
        if self.block != block || block.is_empty() {
            self.block.clear();
            self.facts = BlockFacts::scan_block(block, BlockPart::Head)?;
            self.block.extend_from_slice(block);
        }
        Ok(self.facts)
    }
}

fn indexed_status(index: u32) -> Option<u64> {
    const STATUS: [u64; 7] = [200, 204, 206, 304, 400, 404, 500];
    STATUS.get((index - FIRST_STATUS) as usize).copied()
}
