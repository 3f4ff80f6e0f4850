//! Implements HPACK header compression (RFC 7541). The decoder is complete. The encoder does only
//! what requests need, and never uses a dynamic table.
//!
//! This module decides what the bytes of a header block mean, not which fields a response must
//! have. Start at [`HpackDecoder`].

mod huffman;

use super::Http2ConnectionError;
use std::collections::VecDeque;

/// Initial size of the dynamic table in bytes (RFC 9113, section 6.5.2).
const INITIAL_SIZE: usize = 4096;

/// Decodes the header blocks of a connection in order.
#[derive(Debug)]
pub struct HpackDecoder {
    table: DynamicTable,
    /// Our SETTINGS_HEADER_TABLE_SIZE, the upper limit for size updates.
    limit: usize,
}

impl HpackDecoder {
    /// Creates a decoder for a peer that may use a table of this many bytes.
    pub fn new(table_size: u32) -> HpackDecoder {
        let limit = table_size as usize;
        HpackDecoder { table: DynamicTable::new(limit.min(INITIAL_SIZE)), limit }
    }

    /// Decodes a block, replacing the previous contents of `fields`. `max_list_bytes` limits the
    /// total size of the names and values, plus 32 bytes per field (RFC 9113, section 6.5.2).
    ///
    /// # Errors
    /// Fails if the block is malformed, or the fields exceed the limit. Later blocks cannot be
    /// decoded then (section 4.3).
    pub fn decode(
        &mut self,
        block: &[u8],
        fields: &mut FieldList,
        max_list_bytes: usize,
    ) -> Result<(), Http2ConnectionError> {
        fields.clear();
        let mut reader = BlockReader::new(block);
        while !reader.is_at_end() {
            let representation = reader.next_representation();
            let decoded = representation.and_then(|found| self.decode_field(found, fields));
            decoded.ok_or(Http2ConnectionError::Compression)?;
            let overhead_bytes = fields.ends.len() * ENTRY_OVERHEAD_BYTES;
            if fields.bytes.len() + overhead_bytes > max_list_bytes {
                return Err(Http2ConnectionError::Flood);
            }
        }
        Ok(())
    }

    fn decode_field(
        &mut self,
        representation: FieldRepresentation,
        fields: &mut FieldList,
    ) -> Option<()> {
        match representation {
            FieldRepresentation::SizeUpdate(size) => {
                // A size update is allowed only at the start of a block (section 4.2) and within
                // our limit (section 6.3).
                let size = size as usize;
                if !fields.ends.is_empty() || size > self.limit {
                    return None;
                }
                self.table.resize(size);
            }
            FieldRepresentation::Indexed(index) => {
                let (name, value) = self.lookup_entry(index)?;
                fields.bytes.extend_from_slice(name);
                let name_end = fields.bytes.len();
                fields.bytes.extend_from_slice(value);
                fields.end_field(name_end);
            }
            FieldRepresentation::Literal { name, value, is_kept } => {
                self.decode_literal(name, value, fields)?;
                if is_kept {
                    let (name, value) = fields.last_field();
                    self.table.insert(name, value);
                }
            }
        }
        Some(())
    }

    fn decode_literal(
        &self,
        name: FieldName,
        value: CodedText,
        fields: &mut FieldList,
    ) -> Option<()> {
        let text = &mut fields.bytes;
        match name {
            FieldName::Indexed(index) => text.extend_from_slice(self.lookup_entry(index)?.0),
            FieldName::Literal(name) => name.append_to(text)?,
        }
        let name_end = text.len();
        value.append_to(text)?;
        fields.end_field(name_end);
        Some(())
    }

    fn lookup_entry(&self, index: u32) -> Option<(&[u8], &[u8])> {
        if index <= STATIC_ENTRIES {
            return static_entry(index).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        }
        self.table.get((index - STATIC_ENTRIES - 1) as usize)
    }
}

// Decoded header fields are kept in memory that is reused for later blocks.

/// The fields of a header block in order, including pseudo-header fields.
#[derive(Debug, Clone, Default)]
pub struct FieldList {
    bytes: Vec<u8>,
    /// Ends of the name and value of each field. A name starts where the previous value ends.
    ends: Vec<(usize, usize)>,
}

impl FieldList {
    /// Iterates over names and values, in the order of the block.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(name_end, end)| {
            let field = (&self.bytes[start..*name_end], &self.bytes[*name_end..*end]);
            start = *end;
            field
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Completes a field after its name and value have been appended. The name ends at `name_end`.
    fn end_field(&mut self, name_end: usize) {
        self.ends.push((name_end, self.bytes.len()));
    }

    fn last_field(&self) -> (&[u8], &[u8]) {
        let (start, (name_end, end)) = match *self.ends.as_slice() {
            [.., (_, start), last] => (start, last),
            [last] => (0, last),
            [] => return (&[], &[]),
        };
        (&self.bytes[start..name_end], &self.bytes[name_end..end])
    }
}

// The functions below encode the header fields of requests. The encoded bytes can be reused on
// every connection, because they never refer to a dynamic table.

/// Announces that our encoder's dynamic table has size zero from now on (RFC 7541, section 6.3). If
/// the peer has reduced the table size, the next block must start with this (section 4.2).
pub(super) const SIZE_UPDATE_ZERO: u8 = 0x20;

/// Bit pattern of literals that intermediaries must not index (section 7.1.3).
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0;
const INDEXED: u8 = 0x80;

/// Appends a field with its name in lowercase.
pub fn encode_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let name = name.to_ascii_lowercase();
    let found = find_static(&name, value);
    if let Some((index, true)) = found {
        encode_integer(out, INDEXED, 7, index);
        return;
    }
    let pattern = match name.as_slice() {
        b"authorization" | b"cookie" | b"proxy-authorization" => NEVER_INDEXED,
        _ => WITHOUT_INDEXING,
    };
    match found {
        Some((index, _)) => encode_integer(out, pattern, 4, index),
        None => {
            out.push(pattern);
            encode_text(out, &name);
        }
    }
    encode_text(out, value);
}

/// Appends a string, Huffman-coded if that is shorter.
fn encode_text(out: &mut Vec<u8>, text: &[u8]) {
    let coded_bytes = huffman::encoded_len(text);
    if coded_bytes < text.len() {
        encode_integer(out, 0x80, 7, coded_bytes);
        huffman::encode(out, text);
    } else {
        encode_integer(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}

// The code below parses the representations that make up a header block (RFC 7541, section 6),
// without decoding their strings and without any table.

/// A string as encoded in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodedText<'a> {
    pub(crate) is_huffman: bool,
    pub(crate) coded: &'a [u8],
}

impl<'a> CodedText<'a> {
    #[inline]
    fn read_text(bytes: &mut &'a [u8]) -> Option<CodedText<'a>> {
        let is_huffman = bytes.first()? & 0x80 != 0;
        let length = decode_integer(bytes, 7)? as usize;
        let (coded, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(CodedText { is_huffman, coded })
    }

    /// Decodes a Huffman-coded string and passes its bytes to `take`. `None` if it is invalid.
    pub(crate) fn decode_huffman(self, take: impl FnMut(u8)) -> Option<()> {
        huffman::decode(self.coded, take)
    }

    /// Appends the decoded string. `None` if its Huffman code is invalid.
    pub(crate) fn append_to(self, out: &mut Vec<u8>) -> Option<()> {
        if self.is_huffman {
            return huffman::decode(self.coded, |byte| out.push(byte));
        }
        out.extend_from_slice(self.coded);
        Some(())
    }

    /// Decodes the string into a small buffer and returns the filled part. `None` if the string
    /// does not fit or its Huffman code is invalid.
    #[inline]
    pub(crate) fn decode_into(self, buffer: &mut [u8]) -> Option<&[u8]> {
        let mut length = 0;
        let mut fits = true;
        let mut take = |byte| match buffer.get_mut(length) {
            Some(target) => {
                *target = byte;
                length += 1;
            }
            None => fits = false,
        };
        if self.is_huffman {
            huffman::decode(self.coded, take)?
        } else {
            self.coded.iter().for_each(|byte| take(*byte))
        }
        fits.then_some(&buffer[..length])
    }
}

/// The name of a literal field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldName<'a> {
    /// Name of the entry with this index.
    Indexed(u32),
    Literal(CodedText<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldRepresentation<'a> {
    /// Name and value of the entry with this index.
    Indexed(u32),
    Literal {
        name: FieldName<'a>,
        value: CodedText<'a>,
        /// Whether the field becomes an entry of the dynamic table.
        is_kept: bool,
    },
    /// The dynamic table gets this maximum size.
    SizeUpdate(u32),
}

/// Reads the representations of a block.
#[derive(Debug, Clone)]
pub(crate) struct BlockReader<'a> {
    rest: &'a [u8],
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(block: &'a [u8]) -> BlockReader<'a> {
        BlockReader { rest: block }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips literals whose names have an index in the bit set `indices`. Stops at a literal whose
    /// index or length does not have its most common encoding. Returns whether any literals were
    /// skipped.
    #[inline]
    pub(crate) fn skip_literals(&mut self, indices: u64) -> bool {
        let before = self.rest.len();
        loop {
            let (index, length, rest) = match self.rest {
                // With indexing: the index is in the first byte (section 6.2.1).
                [first @ 0x41..0x7f, length, rest @ ..] => (*first & 0x3f, *length, rest),
                // Without indexing, or never indexed: an index of 15 or more is in the second byte
                // (section 6.2.2).
                [0x0f | 0x1f, more @ 0..47, length, rest @ ..] => (more + 15, *length, rest),
                _ => break,
            };
            let bytes = usize::from(length & 0x7f);
            if indices >> index & 1 == 0 || bytes == 0x7f || bytes > rest.len() {
                break;
            }
            self.rest = &rest[bytes..];
        }
        self.rest.len() < before
    }

    /// Reads the next representation. `None` if it is truncated or malformed.
    #[inline]
    pub(crate) fn next_representation(&mut self) -> Option<FieldRepresentation<'a>> {
        let first = *self.rest.first()?;
        let rest = &mut self.rest;
        match first {
            0x80.. => Some(FieldRepresentation::Indexed(decode_integer(rest, 7)?)),
            0x20..0x40 => Some(FieldRepresentation::SizeUpdate(decode_integer(rest, 5)?)),
            // "Without indexing" and "never indexed" differ only for intermediaries.
            _ => {
                let is_kept = first & 0x40 != 0;
                let name = match decode_integer(rest, if is_kept { 6 } else { 4 })? {
                    0 => FieldName::Literal(CodedText::read_text(rest)?),
                    index => FieldName::Indexed(index),
                };
                Some(FieldRepresentation::Literal {
                    name,
                    value: CodedText::read_text(rest)?,
                    is_kept,
                })
            }
        }
    }
}

// The functions below read and write HPACK integers (RFC 7541, section 5.1). These consist of a
// prefix within the first byte, then groups of seven bits.

/// Largest integer that is accepted. RFC 7541 demands a limit. If a block is within our other
/// limits, no index, length or table size in it comes near this limit.
const MAX_INTEGER: u64 = u32::MAX as u64;

/// Reads an integer with a prefix of this many bits and advances past it. `None` if the integer is
/// truncated, too large, or longer than six bytes.
#[inline]
fn decode_integer(bytes: &mut &[u8], prefix_bits: u32) -> Option<u32> {
    let (first, rest) = bytes.split_first()?;
    let mask = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & mask;
    *bytes = rest;
    if prefix < mask { Some(prefix) } else { decode_continuation(bytes, mask) }
}

fn decode_continuation(bytes: &mut &[u8], mask: u32) -> Option<u32> {
    let mut value = u64::from(mask);
    // Five groups hold 35 bits, more than `MAX_INTEGER` needs; longer encodings are padded with
    // zeros.
    for group in 0..5 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value += u64::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return u32::try_from(value.min(MAX_INTEGER + 1)).ok();
        }
    }
    None
}

/// Appends an integer whose prefix occupies the bits that `pattern` leaves free.
fn encode_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

// The code below implements the static and the dynamic table of header fields. The dynamic table
// (RFC 7541, sections 2.3.2 and 4) reuses the memory of evicted entries, so that nothing is allocated
// once the table has been full.

#[derive(Debug)]
struct DynamicEntry {
    /// The name, followed by the value.
    text: Vec<u8>,
    name_bytes: usize,
}

#[derive(Debug)]
struct DynamicTable {
    /// The entries, oldest first.
    entries: VecDeque<DynamicEntry>,
    /// Memory of evicted entries.
    spare: Vec<Vec<u8>>,
    size: usize,
    max_size: usize,
}

impl DynamicTable {
    fn new(max_size: usize) -> DynamicTable {
        DynamicTable { entries: VecDeque::new(), spare: Vec::new(), size: 0, max_size }
    }

    /// Returns name and value; index 0 is the newest entry.
    fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let position = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(position)?;
        Some(entry.text.split_at(entry.name_bytes))
    }

    fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_to(max_size);
    }

    /// Inserts an entry. An entry larger than the table empties the table. This is not an error
    /// (RFC 7541, section 4.4).
    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.max_size {
            self.evict_to(0);
            return;
        }
        self.evict_to(self.max_size - size);
        let mut text = self.spare.pop().unwrap_or_default();
        text.clear();
        text.extend_from_slice(name);
        text.extend_from_slice(value);
        self.entries.push_back(DynamicEntry { text, name_bytes: name.len() });
        self.size += size;
    }

    fn evict_to(&mut self, max_size: usize) {
        while self.size > max_size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.text.len() + ENTRY_OVERHEAD_BYTES;
            self.spare.push(entry.text);
        }
    }
}

// The static table (RFC 7541, appendix A).

/// Number of static entries; indices of the dynamic table follow.
pub(crate) const STATIC_ENTRIES: u32 = 61;

/// Returns the static entry at an index from 1 to [`STATIC_ENTRIES`].
pub(crate) fn static_entry(index: u32) -> Option<(&'static str, &'static str)> {
    let position = usize::try_from(index).ok()?.checked_sub(1)?;
    STATIC_TABLE.get(position).copied()
}

/// Returns the index of a static entry with this name, and whether the entry also has this value.
fn find_static(name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    let is_named = |entry: &&(usize, &(&str, &str))| entry.1.0.as_bytes() == name;
    let mut named = STATIC_TABLE.iter().enumerate().filter(|entry| is_named(&entry));
    let first = named.clone().next()?;
    let exact = named.find(|(_, entry)| entry.1.as_bytes() == value);
    Some(match exact {
        Some((position, _)) => (position + 1, true),
        None => (first.0 + 1, false),
    })
}

static STATIC_TABLE: [(&str, &str); STATIC_ENTRIES as usize] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Bytes by which the size of an entry exceeds its name and value (RFC 7541, section 4.1). The same
/// applies to SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, section 6.5.2).
const ENTRY_OVERHEAD_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn text(decoder: &mut HpackDecoder, block: &str) -> String {
        let mut fields = FieldList::default();
        let decoded = decoder.decode(&hex(block), &mut fields, 4096);
        assert_eq!(decoded, Ok(()));
        let line = |(name, value): (&[u8], &[u8])| {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            format!("{name}: {value}\n")
        };
        fields.iter().map(line).collect()
    }

    const REQUESTS: [&str; 3] = [
        ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
        ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
         custom-key: custom-value\n",
    ];

    #[test]
    fn requests_of_rfc_7541_appendix_c_3_and_c_4_are_decoded() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let huffman = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for blocks in [plain, huffman] {
            let mut decoder = HpackDecoder::new(4096);
            for (block, expected) in blocks.iter().zip(REQUESTS) {
                assert_eq!(text(&mut decoder, block), expected);
            }
        }
    }

    #[test]
    fn literals_of_rfc_7541_appendix_c_2_are_decoded() {
        let of = |block| text(&mut HpackDecoder::new(4096), block);
        let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        assert_eq!(of(custom), "custom-key: custom-header\n");
        assert_eq!(of("040c 2f73 616d 706c 652f 7061 7468"), ":path: /sample/path\n");
        assert_eq!(of("1008 7061 7373 776f 7264 0673 6563 7265 74"), "password: secret\n");
        assert_eq!(of("82"), ":method: GET\n");
    }

    #[test]
    fn invalid_blocks_are_malformed_or_too_large() {
        let of = |table_size, block: &[u8]| {
            HpackDecoder::new(table_size).decode(block, &mut FieldList::default(), 100)
        };
        // An index of 0, an index beyond both tables, a truncated string, a table size above the
        // limit, and a size update after a field.
        for block in [&[0x80][..], &[0xbe], &[0x00, 0x05, b'a'], &[0x3f, 0xff, 0x7f], &[0x88, 0x20]]
        {
            assert_eq!(of(4096, block), Err(Http2ConnectionError::Compression), "{block:?}");
        }
        assert_eq!(of(0, &[0x20, 0x88]), Ok(()));
        assert_eq!(of(0, &[0x21, 0x88]), Err(Http2ConnectionError::Compression));
        assert_eq!(of(4096, &[0x88; 3]), Err(Http2ConnectionError::Flood));
    }

    #[test]
    fn integers_of_rfc_7541_appendix_c_1_round_trip() {
        for (prefix_bits, value, expected) in
            [(5, 10, &[10][..]), (5, 1337, &[31, 154, 10]), (8, 42, &[42])]
        {
            let mut out = Vec::new();
            encode_integer(&mut out, 0, prefix_bits, value);
            assert_eq!(out, expected);
            assert_eq!(decode_integer(&mut &out[..], prefix_bits), Some(value as u32));
        }
    }

    #[test]
    fn integers_round_trip_and_oversized_integers_are_rejected() {
        for value in (0..70_000).chain([u32::MAX as usize - 1, u32::MAX as usize]) {
            for prefix_bits in 4..=7 {
                let mut out = Vec::new();
                encode_integer(&mut out, 0, prefix_bits, value);
                let mut rest = &out[..];
                assert_eq!(decode_integer(&mut rest, prefix_bits), Some(value as u32));
                assert!(rest.is_empty());
                assert_eq!(decode_integer(&mut &out[..out.len() - 1], prefix_bits), None);
            }
        }
        let mut out = Vec::new();
        encode_integer(&mut out, 0, 5, u32::MAX as usize + 1);
        assert_eq!(decode_integer(&mut &out[..], 5), None);
        assert_eq!(decode_integer(&mut &[31, 128, 128, 128, 128, 128, 0][..], 5), None);
    }
}
