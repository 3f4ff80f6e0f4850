//! Implements the static and the dynamic table of header fields. The dynamic table (RFC 7541,
//! sections 2.3.2 and 4) stores its bytes consecutively in a buffer. The unused start of the buffer
//! is reclaimed occasionally, so that nothing is allocated once the table has been full.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
struct DynamicEntry {
    start: usize,
    name_bytes: usize,
    value_bytes: usize,
}

impl DynamicEntry {
    fn size(&self) -> usize {
        self.name_bytes + self.value_bytes + ENTRY_OVERHEAD_BYTES
    }
}

#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The entries, oldest first.
    entries: VecDeque<DynamicEntry>,
    bytes: Vec<u8>,
    size: usize,
    max_size: usize,
}

impl DynamicTable {
    pub(super) fn new(max_size: usize) -> DynamicTable {
        DynamicTable { entries: VecDeque::new(), bytes: Vec::new(), size: 0, max_size }
    }

    /// Returns name and value; index 0 is the newest entry.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let position = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(position)?;
        let value = entry.start + entry.name_bytes;
        Some((&self.bytes[entry.start..value], &self.bytes[value..value + entry.value_bytes]))
    }

    pub(super) fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_to(max_size);
    }

    /// Inserts an entry. An entry larger than the table empties the table. This is not an error
    /// (RFC 7541, section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.max_size {
            self.evict_to(0);
            return;
        }
        self.evict_to(self.max_size - size);
        self.reclaim_space();
        self.entries.push_back(DynamicEntry {
            start: self.bytes.len(),
            name_bytes: name.len(),
            value_bytes: value.len(),
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    fn evict_to(&mut self, max_size: usize) {
        while self.size > max_size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
        }
    }

    /// Moves the used bytes to the start of the buffer once the unused bytes there exceed the
    /// maximum size of the table.
    fn reclaim_space(&mut self) {
        let start = self.entries.front().map_or(self.bytes.len(), |entry| entry.start);
        if start > self.max_size {
            self.bytes.drain(..start);
            for entry in &mut self.entries {
                entry.start -= start;
            }
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
pub(super) fn find_static(name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
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
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 32;
