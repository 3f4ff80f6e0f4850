//! Parses the representations that make up a header block (RFC 7541, section 6), without decoding
//! their strings and without any table.

use super::huffman;

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
pub(super) fn decode_integer(bytes: &mut &[u8], prefix_bits: u32) -> Option<u32> {
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
pub(super) fn encode_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
