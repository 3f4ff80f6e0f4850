//! Stores the open streams of a connection.
//!
//! Streams are stored in reusable slots. A hash table with open addressing and linear probing finds
//! the slot of a stream ID (Robin Hood hashing; Celis, Larson and Munro 1985). IDs increase by two,
//! so the ID divided by two serves as the hash value. The hash value determines the home position
//! of an entry, and most entries are in their home positions. If one stream stays open while
//! millions of others open and close, it costs an occasional extra probe, but no memory.

use crate::http1::{MethodKind, ResponsePhase, ResponseSummary};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, Default)]
struct TableEntry {
    /// 0 if free.
    id: u32,
    slot: u32,
}

#[derive(Debug)]
pub(super) struct StreamTable {
    slots: Vec<StreamState>,
    free_slots: Vec<u32>,
    /// Hash table from stream IDs to slots. Its length is a power of two; at most half of the
    /// entries are in use.
    entries: Vec<TableEntry>,
    open: usize,
}

impl StreamTable {
    pub(super) fn new() -> StreamTable {
        StreamTable {
            slots: Vec::new(),
            free_slots: Vec::new(),
            entries: vec![TableEntry::default(); 64],
            open: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }

    fn home_index(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.entries.len() - 1)
    }

    fn next_index(&self, index: usize) -> usize {
        (index + 1) & (self.entries.len() - 1)
    }

    /// Inserts a stream whose ID is not in use; returns its slot.
    #[inline]
    pub(super) fn insert(&mut self, stream: StreamState) -> u32 {
        if (self.open + 1) * 2 > self.entries.len() {
            self.grow_table();
        }
        let id = stream.id;
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot as usize] = stream;
                slot
            }
            None => {
                self.slots.push(stream);
                (self.slots.len() - 1) as u32
            }
        };
        self.insert_entry(TableEntry { id, slot });
        self.open += 1;
        slot
    }

    /// Distance of an entry from its home position.
    fn probe_distance(&self, index: usize) -> usize {
        index.wrapping_sub(self.home_index(self.entries[index].id)) & (self.entries.len() - 1)
    }

    /// Inserts an entry. If two entries compete for a position, the position goes to the entry that
    /// is farther from its home position. A lookup may therefore stop at an entry that is nearer to
    /// its home position than the wanted entry would be. A loop that closes a gap may stop at the
    /// first entry in its home position.
    fn insert_entry(&mut self, mut entry: TableEntry) {
        let mut index = self.home_index(entry.id);
        let mut distance = 0;
        while self.entries[index].id != 0 {
            let other_distance = self.probe_distance(index);
            if other_distance < distance {
                std::mem::swap(&mut self.entries[index], &mut entry);
                distance = other_distance;
            }
            index = self.next_index(index);
            distance += 1;
        }
        self.entries[index] = entry;
    }

    fn grow_table(&mut self) {
        let new_length = self.entries.len() * 2;
        let old = std::mem::replace(&mut self.entries, vec![TableEntry::default(); new_length]);
        old.into_iter().filter(|entry| entry.id != 0).for_each(|entry| self.insert_entry(entry));
    }

    #[inline]
    fn entry_index(&self, id: u32) -> Option<usize> {
        let mut index = self.home_index(id);
        let mut distance = 0;
        // Terminates because at least half of the entries are free.
        loop {
            match self.entries[index].id {
                found if found == id => return Some(index),
                0 => return None,
                _ if self.probe_distance(index) < distance => return None,
                _ => index = self.next_index(index),
            }
            distance += 1;
        }
    }

    /// Returns the slot of an open stream.
    #[inline]
    pub(super) fn find_slot(&self, id: u32) -> Option<u32> {
        if id == 0 {
            return None;
        }
        self.entry_index(id).map(|index| self.entries[index].slot)
    }

    #[inline]
    pub(super) fn stream_mut(&mut self, slot: u32) -> &mut StreamState {
        &mut self.slots[slot as usize]
    }

    /// Finds an open stream by its token, in time proportional to the number of slots. Callers need
    /// this after a timeout or a lost connection, but not for every response.
    pub(super) fn find_token(&self, token: u32) -> Option<(u32, &StreamState)> {
        self.iter().find(|(_, stream)| stream.token == token)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &StreamState)> {
        let numbered = (0..).zip(&self.slots);
        numbered.filter(|(_, stream)| stream.id != 0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut StreamState)> {
        let numbered = (0..).zip(&mut self.slots);
        numbered.filter(|(_, stream)| stream.id != 0)
    }

    /// Frees the slot of an open stream.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        let stream = &mut self.slots[slot as usize];
        let id = std::mem::take(&mut stream.id);
        stream.upload = None;
        if let Some(index) = self.entry_index(id).filter(|_| id != 0) {
            self.close_gap(index);
            self.free_slots.push(slot);
            self.open -= 1;
        }
    }

    /// Frees an entry and moves the entries after it nearer to their home positions.
    fn close_gap(&mut self, mut gap: usize) {
        loop {
            let next = self.next_index(gap);
            let entry = self.entries[next];
            if entry.id == 0 || self.probe_distance(next) == 0 {
                break;
            }
            self.entries[gap] = entry;
            gap = next;
        }
        self.entries[gap] = TableEntry::default();
    }
}

// The types below describe one stream: the state of its response, and the part of its request that
// has not been sent yet.

/// A partially sent body.
#[derive(Debug)]
pub(super) struct BodyUpload {
    pub(super) body: Arc<Vec<u8>>,
    /// Position of the first byte that has not been appended to the output.
    pub(super) offset: usize,
}

#[derive(Debug)]
pub(super) struct StreamState {
    /// Stream ID; 0 if the slot is free.
    pub(super) id: u32,
    /// Number by which the caller identifies the stream.
    pub(super) token: u32,
    pub(super) method: MethodKind,
    pub(super) phase: ResponsePhase,
    /// Required body length; `None` if the response announces no length or turns the stream into a
    /// tunnel.
    pub(super) content_length: Option<u64>,
    /// Whether the response has no body, whatever its header fields say (RFC 9110, section 6.4.1).
    pub(super) is_bodiless: bool,
    pub(super) summary: ResponseSummary,
    /// DATA bytes received since the last WINDOW_UPDATE.
    pub(super) uncredited: u32,
    /// Bytes that the peer accepts on this stream; can be negative after the peer reduced its
    /// window.
    pub(super) send_window: i64,
    pub(super) upload: Option<BodyUpload>,
    /// Whether the stream is in the queue of uploads.
    pub(super) is_queued: bool,
}

impl StreamState {
    pub(super) fn new(id: u32, token: u32, method: MethodKind, send_window: u32) -> StreamState {
        StreamState {
            id,
            token,
            method,
            phase: ResponsePhase::FirstByte,
            content_length: None,
            is_bodiless: false,
            summary: ResponseSummary::default(),
            uncredited: 0,
            send_window: i64::from(send_window),
            upload: None,
            is_queued: false,
        }
    }

    /// Handles the complete head of the final response.
    pub(super) fn begin_body(&mut self, status: u16, content_length: Option<u64>) {
        self.phase = ResponsePhase::Body;
        self.summary.status = status;
        self.is_bodiless = matches!(status, 204 | 304) || self.method == MethodKind::Head;
        let is_tunnel = self.method == MethodKind::Connect && status / 100 == 2;
        self.content_length = if self.is_bodiless {
            Some(0)
        } else if is_tunnel {
            // Content-Length has no meaning for a tunnel (RFC 9110, section 9.3.6).
            None
        } else {
            content_length
        };
    }

    /// Whether the data received so far fits into the required body length.
    pub(super) fn fits_length(&self) -> bool {
        self.content_length.is_none_or(|length| self.summary.body_bytes <= length)
    }

    /// Whether the body may end after the data received so far.
    pub(super) fn matches_length(&self) -> bool {
        self.content_length.is_none_or(|length| self.summary.body_bytes == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};
    use std::collections::BTreeMap;

    #[test]
    fn lookups_agree_with_a_map_as_streams_come_and_go() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut streams = StreamTable::new();
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut id = 1;
        for _ in 0..30_000 {
            let wanted = random.next_u32() % 200;
            // The removed stream is one of the older ones, so some streams stay open for a long
            // time.
            if known.len() > wanted as usize {
                let skip = (random.next_u32() % 4) as usize * known.len() / 5;
                let (gone, slot) = known.iter().nth(skip).map(|(a, b)| (*a, *b)).unwrap();
                known.remove(&gone);
                streams.remove(slot);
                assert_eq!(streams.find_slot(gone), None);
            } else {
                let slot = streams.insert(StreamState::new(id, id * 7, MethodKind::Body, 0));
                known.insert(id, slot);
                id += 2;
            }
            assert_eq!(streams.len(), known.len());
            let probe = random.next_u32() % (id + 4);
            assert_eq!(streams.find_slot(probe), known.get(&probe).copied());
        }
        assert!(known.iter().all(|(id, slot)| streams.find_slot(*id) == Some(*slot)));
        assert_eq!(streams.iter().count(), known.len());
        assert!(streams.slots.len() <= 201 && streams.entries.len() <= 512);
    }
}
