//! The representations that a header block consists of (RFC 7541, section 6), found without looking
//! into their texts and without any table.

use super::{huffman, integer};

/// A string as it stands in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) is_huffman: bool,
    pub(crate) coded: &'a [u8],
}

impl<'a> Text<'a> {
    #[inline]
    fn read(bytes: &mut &'a [u8]) -> Option<Text<'a>> {
        let is_huffman = bytes.first()? & 0x80 != 0;
        let length = integer::decode(bytes, 7)? as usize;
        let (coded, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(Text { is_huffman, coded })
    }

    /// Hands a text in the Huffman code over, byte by byte. `None` if it is no such code.
    pub(crate) fn decode(self, take: impl FnMut(u8)) -> Option<()> {
        huffman::decode(self.coded, take)
    }

    /// Appends the text itself. `None` if it is no Huffman code.
    pub(crate) fn append_to(self, out: &mut Vec<u8>) -> Option<()> {
        if self.is_huffman {
            return huffman::decode(self.coded, |byte| out.push(byte));
        }
        out.extend_from_slice(self.coded);
        Some(())
    }

    /// Writes the text into a small buffer and gives the part of it that was filled. `None` if it
    /// does not fit or is no Huffman code.
    #[inline]
    pub(crate) fn within(self, buffer: &mut [u8]) -> Option<&[u8]> {
        let mut length = 0;
        let mut fits = true;
        let mut take = |byte| match buffer.get_mut(length) {
            Some(place) => {
                *place = byte;
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
pub(crate) enum Name<'a> {
    /// That of the entry with this index.
    Indexed(u32),
    Literal(Text<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation<'a> {
    /// Name and value of an entry.
    Indexed(u32),
    Literal {
        name: Name<'a>,
        value: Text<'a>,
        /// The field becomes an entry of the dynamic table.
        is_kept: bool,
    },
    /// The dynamic table gets this maximum size.
    SizeUpdate(u32),
}

/// Goes through a block.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(block: &'a [u8]) -> Reader<'a> {
        Reader { rest: block }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips literals whose names have one of these indices, a bit for each, as long as index and
    /// length have the forms that nearly all of them have. `true` if there were any.
    #[inline]
    pub(crate) fn skip_literals(&mut self, indices: u64) -> bool {
        let before = self.rest.len();
        loop {
            let (index, length, rest) = match self.rest {
                // With indexing: the index is in the first byte (section 6.2.1).
                [first @ 0x41..0x7f, length, rest @ ..] => (*first & 0x3f, *length, rest),
                // Without, or never: an index from 15 on is in the second (section 6.2.2).
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

    /// The next representation. `None` if it is cut or malformed.
    #[inline]
    pub(crate) fn read(&mut self) -> Option<Representation<'a>> {
        let first = *self.rest.first()?;
        let rest = &mut self.rest;
        match first {
            0x80.. => Some(Representation::Indexed(integer::decode(rest, 7)?)),
            0x20..0x40 => Some(Representation::SizeUpdate(integer::decode(rest, 5)?)),
            // Without indexing and never indexed differ for intermediaries only.
            _ => {
                let is_kept = first & 0x40 != 0;
                let name = match integer::decode(rest, if is_kept { 6 } else { 4 })? {
                    0 => Name::Literal(Text::read(rest)?),
                    index => Name::Indexed(index),
                };
                Some(Representation::Literal {
                    name,
                    value: Text::read(rest)?,
                    is_kept,
                })
            }
        }
    }
}
