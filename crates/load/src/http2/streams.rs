//! Stores the open streams of a connection.
//!
//! Streams are stored in reusable slots. A table finds the slot of a stream ID. IDs increase by two,
//! so the ID divided by two, modulo the length of the table, is the position of its entry. A stream
//! that stays open until its position is needed for a new stream moves to a list, which is searched.
//! The list is short, because few streams last that much longer than others.

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
    /// Slots of streams by ID. The length is a power of two; at most half of the entries are in use.
    entries: Vec<TableEntry>,
    /// Entries of old streams whose positions newer streams have taken.
    displaced: Vec<TableEntry>,
    open: usize,
}

impl StreamTable {
    pub(super) fn new() -> StreamTable {
        StreamTable {
            slots: Vec::new(),
            free_slots: Vec::new(),
            entries: vec![TableEntry::default(); 64],
            displaced: Vec::new(),
            open: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }

    fn entry_mut(&mut self, id: u32) -> &mut TableEntry {
        let index = (id >> 1) as usize & (self.entries.len() - 1);
        &mut self.entries[index]
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

    fn insert_entry(&mut self, entry: TableEntry) {
        let displaced = std::mem::replace(self.entry_mut(entry.id), entry);
        if displaced.id != 0 {
            self.displaced.push(displaced);
        }
    }

    fn grow_table(&mut self) {
        let new_length = self.entries.len() * 2;
        let old = std::mem::replace(&mut self.entries, vec![TableEntry::default(); new_length]);
        let mut all = std::mem::take(&mut self.displaced);
        all.extend(old.into_iter().filter(|entry| entry.id != 0));
        // Newer streams get the positions.
        all.sort_unstable_by_key(|entry| entry.id);
        all.into_iter().for_each(|entry| self.insert_entry(entry));
    }

    /// Returns the slot of an open stream.
    #[inline]
    pub(super) fn find_slot(&self, id: u32) -> Option<u32> {
        if id == 0 {
            return None;
        }
        let entry = &self.entries[(id >> 1) as usize & (self.entries.len() - 1)];
        if entry.id == id {
            return Some(entry.slot);
        }
        self.displaced.iter().find(|entry| entry.id == id).map(|entry| entry.slot)
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
        if id != 0 {
            let entry = self.entry_mut(id);
            if entry.id == id {
                *entry = TableEntry::default();
            } else {
                self.displaced.retain(|entry| entry.id != id);
            }
            self.free_slots.push(slot);
            self.open -= 1;
        }
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
        // Content-Length has no meaning for a tunnel (RFC 9110, section 9.3.6).
        let announced = content_length.filter(|_| !is_tunnel);
        self.content_length = if self.is_bodiless { Some(0) } else { announced };
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
