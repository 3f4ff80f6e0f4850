//! Decodes header blocks, one after the other, with the dynamic table that the peer fills.

use super::fields::Fields;
use super::fixed::{ENTRIES, entry};
use super::representation::{Name, Reader, Representation, Text};
use super::table::Table;

/// Size of the dynamic table that both sides assume at first, in bytes (RFC 9113, section 6.5.2).
const INITIAL_SIZE: usize = 4096;

/// How the decoding of a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All fields are there.
    Whole,
    /// The fields take more room than allowed. Later blocks cannot be decoded, because the rest of
    /// this one was not.
    TooLarge,
    /// It cannot be decoded, and no later block can (RFC 9113, section 4.3).
    Malformed,
}

/// Decodes the header blocks of one connection in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What we announced as SETTINGS_HEADER_TABLE_SIZE: the most that an update may ask for.
    limit: usize,
}

impl Decoder {
    /// For a peer that may use a table of so many bytes.
    pub fn new(table_size: u32) -> Decoder {
        let limit = table_size as usize;
        Decoder {
            table: Table::new(limit.min(INITIAL_SIZE)),
            limit,
        }
    }

    /// Puts the fields of a block in the place of those that were there. `max_list_bytes` counts
    /// names, values and 32 for each field (RFC 9113, section 6.5.2).
    pub fn decode(&mut self, block: &[u8], fields: &mut Fields, max_list_bytes: usize) -> Decoded {
        fields.clear();
        let mut reader = Reader::new(block);
        while !reader.is_at_end() {
            let Some(representation) = reader.read() else {
                return Decoded::Malformed;
            };
            if self.take(representation, fields).is_none() {
                return Decoded::Malformed;
            }
            if fields.list_bytes() > max_list_bytes {
                return Decoded::TooLarge;
            }
        }
        Decoded::Whole
    }

    fn take(&mut self, representation: Representation, fields: &mut Fields) -> Option<()> {
        match representation {
            Representation::SizeUpdate(size) => {
                // Section 4.2: only at the beginning of a block; section 6.3: within our limit.
                let size = size as usize;
                if !fields.is_empty() || size > self.limit {
                    return None;
                }
                self.table.resize(size);
            }
            Representation::Indexed(index) => {
                let (name, value) = self.entry(index)?;
                let text = fields.text();
                text.extend_from_slice(name);
                let name_end = text.len();
                text.extend_from_slice(value);
                fields.end_field(name_end);
            }
            Representation::Literal {
                name,
                value,
                is_kept,
            } => {
                self.literal(name, value, fields)?;
                if is_kept {
                    let (name, value) = fields.last();
                    self.table.insert(name, value);
                }
            }
        }
        Some(())
    }

    fn literal(&self, name: Name, value: Text, fields: &mut Fields) -> Option<()> {
        let text = fields.text();
        match name {
            Name::Indexed(index) => text.extend_from_slice(self.entry(index)?.0),
            Name::Literal(name) => name.append_to(text)?,
        }
        let name_end = text.len();
        value.append_to(text)?;
        fields.end_field(name_end);
        Some(())
    }

    fn entry(&self, index: u32) -> Option<(&[u8], &[u8])> {
        if index <= ENTRIES {
            return entry(index).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        }
        self.table.get((index - ENTRIES - 1) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    fn text(decoder: &mut Decoder, block: &str) -> String {
        let mut fields = Fields::new();
        let decoded = decoder.decode(&hex(block), &mut fields, 4096);
        assert_eq!(decoded, Decoded::Whole);
        let line = |(name, value): (&[u8], &[u8])| {
            let (name, value) = (
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value),
            );
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
    fn the_requests_of_rfc_7541_appendix_c_3_and_c_4() {
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
            let mut decoder = Decoder::new(4096);
            for (block, expected) in blocks.iter().zip(REQUESTS) {
                assert_eq!(text(&mut decoder, block), expected);
            }
        }
    }

    #[test]
    fn the_literals_of_rfc_7541_appendix_c_2() {
        let of = |block| text(&mut Decoder::new(4096), block);
        let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        assert_eq!(of(custom), "custom-key: custom-header\n");
        assert_eq!(
            of("040c 2f73 616d 706c 652f 7061 7468"),
            ":path: /sample/path\n"
        );
        assert_eq!(
            of("1008 7061 7373 776f 7264 0673 6563 7265 74"),
            "password: secret\n"
        );
        assert_eq!(of("82"), ":method: GET\n");
    }

    #[test]
    fn what_cannot_be_decoded_is_said_so() {
        let of = |table_size, block: &[u8]| {
            Decoder::new(table_size).decode(block, &mut Fields::new(), 100)
        };
        // An index of 0, one behind both tables, a cut text, a table beyond what was allowed, a
        // table that changes behind a field.
        for block in [
            &[0x80][..],
            &[0xbe],
            &[0x00, 0x05, b'a'],
            &[0x3f, 0xff, 0x7f],
            &[0x88, 0x20],
        ] {
            assert_eq!(of(4096, block), Decoded::Malformed, "{block:?}");
        }
        assert_eq!(of(0, &[0x20, 0x88]), Decoded::Whole);
        assert_eq!(of(0, &[0x21, 0x88]), Decoded::Malformed);
        assert_eq!(of(4096, &[0x88; 3]), Decoded::TooLarge);
    }
}
