//! The dynamic table (RFC 7541, sections 2.3.2 and 4). Its bytes lie one behind the other in a
//! buffer whose free beginning is reclaimed now and then, so that nothing is allocated once the
//! table has been full.

use super::fields::ENTRY_OVERHEAD_BYTES;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    name_bytes: usize,
    value_bytes: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.name_bytes + self.value_bytes + ENTRY_OVERHEAD_BYTES
    }
}

#[derive(Debug)]
pub(super) struct Table {
    /// Oldest first.
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    size: usize,
    max_size: usize,
}

impl Table {
    pub(super) fn new(max_size: usize) -> Table {
        Table {
            entries: VecDeque::new(),
            bytes: Vec::new(),
            size: 0,
            max_size,
        }
    }

    /// Name and value; 0 is the newest entry.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(place)?;
        let value = entry.start + entry.name_bytes;
        Some((
            &self.bytes[entry.start..value],
            &self.bytes[value..value + entry.value_bytes],
        ))
    }

    pub(super) fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict(max_size);
    }

    /// An entry larger than the table empties it, which is no error (section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.max_size {
            self.evict(0);
            return;
        }
        self.evict(self.max_size - size);
        self.reclaim();
        self.entries.push_back(Entry {
            start: self.bytes.len(),
            name_bytes: name.len(),
            value_bytes: value.len(),
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    fn evict(&mut self, max_size: usize) {
        while self.size > max_size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
        }
    }

    /// Moves what is left to the beginning when more bytes lie idle before it than the table holds.
    fn reclaim(&mut self) {
        let start = self
            .entries
            .front()
            .map_or(self.bytes.len(), |entry| entry.start);
        if start > self.max_size {
            self.bytes.drain(..start);
            for entry in &mut self.entries {
                entry.start -= start;
            }
        }
    }
}
