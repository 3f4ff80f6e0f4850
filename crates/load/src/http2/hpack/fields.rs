//! Header fields after decoding, in memory that is used again for the next block.

use std::ops::Range;

/// What an entry weighs beside its name and value, in bytes (RFC 7541, section 4.1; the same figure
/// counts for SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113, section 6.5.2).
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The fields of a header block, in their order, pseudo-header fields included.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where the name and the value of each field end. A name begins where the last value ended.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// None.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Names and values, in the order of the block.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(name_end, end)| {
            let field = (&self.bytes[start..*name_end], &self.bytes[*name_end..*end]);
            start = *end;
            field
        })
    }

    /// The first value of a field; its name must be in lower case.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|(known, _)| *known == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The size of the list as limits count it.
    pub(super) fn list_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * ENTRY_OVERHEAD_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Where the text of the next name or value goes.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a field of which the name up to `name_end` and the value have been appended.
    pub(super) fn end_field(&mut self, name_end: usize) {
        self.ends.push((name_end, self.bytes.len()));
    }

    /// Where the bytes of the last field are: name and value.
    pub(super) fn last(&self) -> (&[u8], &[u8]) {
        let start = self.start_of_last();
        let Some((name_end, end)) = self.ends.last() else {
            return (&[], &[]);
        };
        (
            &self.bytes[Range {
                start,
                end: *name_end,
            }],
            &self.bytes[*name_end..*end],
        )
    }

    fn start_of_last(&self) -> usize {
        match self.ends.len() {
            0 | 1 => 0,
            count => self.ends[count - 2].1,
        }
    }
}
