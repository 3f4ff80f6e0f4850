//! Implements HPACK header compression (RFC 7541). The decoder is complete. The encoder does only
//! what requests need, and never uses a dynamic table.
//!
//! This module decides what the bytes of a header block mean, not which fields a response must
//! have. Start at [`HpackDecoder`]; the format of a single field is in `representation`.

mod huffman;
mod representation;
mod table;

pub(super) use representation::{BlockReader, CodedText, FieldName, FieldRepresentation};
pub(super) use table::STATIC_ENTRIES;

use std::ops::Range;
use table::{DynamicTable, ENTRY_OVERHEAD_BYTES, static_entry};

/// Initial size of the dynamic table in bytes (RFC 9113, section 6.5.2).
const INITIAL_SIZE: usize = 4096;

/// Result of decoding a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeResult {
    /// All fields were decoded.
    Whole,
    /// The fields exceed the size limit. Decoding stopped within this block, so later blocks cannot
    /// be decoded.
    TooLarge,
    /// The block is malformed, and no later block can be decoded (RFC 9113, section 4.3).
    Malformed,
}

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

    /// Decodes a block, replacing the previous contents of `fields`. `max_list_bytes` limits names
    /// and values plus 32 bytes per field (RFC 9113, section 6.5.2).
    pub fn decode(
        &mut self,
        block: &[u8],
        fields: &mut FieldList,
        max_list_bytes: usize,
    ) -> DecodeResult {
        fields.clear();
        let mut reader = BlockReader::new(block);
        while !reader.is_at_end() {
            let Some(representation) = reader.next_representation() else {
                return DecodeResult::Malformed;
            };
            if self.decode_field(representation, fields).is_none() {
                return DecodeResult::Malformed;
            }
            if fields.list_bytes() > max_list_bytes {
                return DecodeResult::TooLarge;
            }
        }
        DecodeResult::Whole
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
                if !fields.is_empty() || size > self.limit {
                    return None;
                }
                self.table.resize(size);
            }
            FieldRepresentation::Indexed(index) => {
                let (name, value) = self.lookup_entry(index)?;
                let text = fields.text_buffer();
                text.extend_from_slice(name);
                let name_end = text.len();
                text.extend_from_slice(value);
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
        let text = fields.text_buffer();
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
    /// Creates an empty list.
    pub fn new() -> FieldList {
        FieldList::default()
    }

    /// Iterates over names and values, in the order of the block.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(name_end, end)| {
            let field = (&self.bytes[start..*name_end], &self.bytes[*name_end..*end]);
            start = *end;
            field
        })
    }

    /// Returns the first value of a field; the name must be lowercase.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(candidate, _)| *candidate == name.as_bytes()).map(|(_, value)| value)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Size of the list for comparison with limits.
    fn list_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * ENTRY_OVERHEAD_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Buffer to append the next name or value to.
    fn text_buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Completes a field after its name and value have been appended. The name ends at `name_end`.
    fn end_field(&mut self, name_end: usize) {
        self.ends.push((name_end, self.bytes.len()));
    }

    fn last_field(&self) -> (&[u8], &[u8]) {
        let start = self.start_of_last();
        let Some((name_end, end)) = self.ends.last() else {
            return (&[], &[]);
        };
        (&self.bytes[Range { start, end: *name_end }], &self.bytes[*name_end..*end])
    }

    fn start_of_last(&self) -> usize {
        match self.ends.len() {
            0 | 1 => 0,
            count => self.ends[count - 2].1,
        }
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
    // The static table contains only short names, so a name that does not fit into this buffer is
    // not in the table.
    let mut buffer = [0; 64];
    let lower = buffer.get_mut(..name.len()).map(|lower| {
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        &*lower
    });
    let found = lower.and_then(|lower| table::find_static(lower, value));
    if let Some((index, true)) = found {
        representation::encode_integer(out, INDEXED, 7, index);
        return;
    }
    let pattern = match lower {
        Some(b"authorization" | b"cookie" | b"proxy-authorization") => NEVER_INDEXED,
        _ => WITHOUT_INDEXING,
    };
    match found {
        Some((index, _)) => representation::encode_integer(out, pattern, 4, index),
        None => {
            out.push(pattern);
            match lower {
                Some(lower) => encode_text(out, lower),
                None => encode_text(out, &name.to_ascii_lowercase()),
            }
        }
    }
    encode_text(out, value);
}

/// Appends a string, Huffman-coded if that is shorter.
fn encode_text(out: &mut Vec<u8>, text: &[u8]) {
    let coded_bytes = huffman::encoded_len(text);
    if coded_bytes < text.len() {
        representation::encode_integer(out, 0x80, 7, coded_bytes);
        huffman::encode(out, text);
    } else {
        representation::encode_integer(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn text(decoder: &mut HpackDecoder, block: &str) -> String {
        let mut fields = FieldList::new();
        let decoded = decoder.decode(&hex(block), &mut fields, 4096);
        assert_eq!(decoded, DecodeResult::Whole);
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
            HpackDecoder::new(table_size).decode(block, &mut FieldList::new(), 100)
        };
        // An index of 0, an index beyond both tables, a truncated string, a table size above the
        // limit, and a size update after a field.
        for block in [&[0x80][..], &[0xbe], &[0x00, 0x05, b'a'], &[0x3f, 0xff, 0x7f], &[0x88, 0x20]]
        {
            assert_eq!(of(4096, block), DecodeResult::Malformed, "{block:?}");
        }
        assert_eq!(of(0, &[0x20, 0x88]), DecodeResult::Whole);
        assert_eq!(of(0, &[0x21, 0x88]), DecodeResult::Malformed);
        assert_eq!(of(4096, &[0x88; 3]), DecodeResult::TooLarge);
    }
}
