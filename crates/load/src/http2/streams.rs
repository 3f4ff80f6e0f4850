//! The open streams of a connection.
//!
//! Streams are stored in reusable slots. A slot is found from the stream ID by open addressing with
//! linear probing (Robin Hood hashing; Celis, Larson and Munro 1985): IDs increase by two, so half
//! an ID is as good as a hash value, and most entries are at their home position. One stream that
//! stays open while millions pass costs an occasional probe and no memory.

use crate::http1::{MethodKind, ResponsePhase, ResponseSummary};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, Default)]
struct TableEntry {
    /// 0 if free.
    id: u32,
    place: u32,
}

#[derive(Debug)]
pub(super) struct StreamTable {
    places: Vec<StreamState>,
    free: Vec<u32>,
    /// The length is a power of two; at most half are in use.
    addresses: Vec<TableEntry>,
    open: usize,
}

impl StreamTable {
    pub(super) fn new() -> StreamTable {
        StreamTable {
            places: Vec::new(),
            free: Vec::new(),
            addresses: vec![TableEntry::default(); 64],
            open: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }

    fn home_index(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.addresses.len() - 1)
    }

    fn next_index(&self, at: usize) -> usize {
        (at + 1) & (self.addresses.len() - 1)
    }

    /// Inserts a stream whose ID is not in use; returns its slot.
    #[inline]
    pub(super) fn insert(&mut self, stream: StreamState) -> u32 {
        if (self.open + 1) * 2 > self.addresses.len() {
            self.grow_table();
        }
        let id = stream.id;
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = stream;
                place
            }
            None => {
                self.places.push(stream);
                (self.places.len() - 1) as u32
            }
        };
        self.insert_entry(TableEntry { id, place });
        self.open += 1;
        place
    }

    /// Distance of an entry from its home position.
    fn probe_distance(&self, at: usize) -> usize {
        at.wrapping_sub(self.home_index(self.addresses[at].id)) & (self.addresses.len() - 1)
    }

    /// Inserts an entry; the one farther from home keeps its position. A lookup may therefore stop
    /// at an entry nearer to its home than the searched one would be, and closing a gap may stop at
    /// an entry that is at home.
    fn insert_entry(&mut self, mut address: TableEntry) {
        let mut at = self.home_index(address.id);
        let mut way = 0;
        while self.addresses[at].id != 0 {
            let other = self.probe_distance(at);
            if other < way {
                std::mem::swap(&mut self.addresses[at], &mut address);
                way = other;
            }
            at = self.next_index(at);
            way += 1;
        }
        self.addresses[at] = address;
    }

    fn grow_table(&mut self) {
        let twice = self.addresses.len() * 2;
        let old = std::mem::replace(&mut self.addresses, vec![TableEntry::default(); twice]);
        old.into_iter()
            .filter(|address| address.id != 0)
            .for_each(|address| self.insert_entry(address));
    }

    #[inline]
    fn entry_index(&self, id: u32) -> Option<usize> {
        let mut at = self.home_index(id);
        let mut way = 0;
        // Terminates because at least half of the entries are free.
        loop {
            match self.addresses[at].id {
                found if found == id => return Some(at),
                0 => return None,
                _ if self.probe_distance(at) < way => return None,
                _ => at = self.next_index(at),
            }
            way += 1;
        }
    }

    /// Returns the slot of an open stream.
    #[inline]
    pub(super) fn find_slot(&self, id: u32) -> Option<u32> {
        if id == 0 {
            return None;
        }
        self.entry_index(id).map(|at| self.addresses[at].place)
    }

    #[inline]
    pub(super) fn stream_mut(&mut self, place: u32) -> &mut StreamState {
        &mut self.places[place as usize]
    }

    /// Takes time linear in the open streams: used after a timeout or a lost connection, not for
    /// every response.
    pub(super) fn find_token(&self, token: u32) -> Option<(u32, &StreamState)> {
        self.iter().find(|(_, stream)| stream.token == token)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &StreamState)> {
        let numbered = (0..).zip(&self.places);
        numbered.filter(|(_, stream)| stream.id != 0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut StreamState)> {
        let numbered = (0..).zip(&mut self.places);
        numbered.filter(|(_, stream)| stream.id != 0)
    }

    /// Frees the slot of an open stream.
    #[inline]
    pub(super) fn remove(&mut self, place: u32) {
        let stream = &mut self.places[place as usize];
        let id = std::mem::take(&mut stream.id);
        stream.upload = None;
        if let Some(at) = self.entry_index(id).filter(|_| id != 0) {
            self.close_gap(at);
            self.free.push(place);
            self.open -= 1;
        }
    }

    /// Frees an entry and moves those after it nearer to their homes.
    fn close_gap(&mut self, mut gap: usize) {
        loop {
            let next = self.next_index(gap);
            let address = self.addresses[next];
            if address.id == 0 || self.probe_distance(next) == 0 {
                break;
            }
            self.addresses[gap] = address;
            gap = next;
        }
        self.addresses[gap] = TableEntry::default();
    }
}

// A stream: the state of its response, and the rest of its request.

/// A partially sent body.
#[derive(Debug)]
pub(super) struct BodyUpload {
    pub(super) body: Arc<Vec<u8>>,
    /// The first byte that has not been appended to the output.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct StreamState {
    /// Stream ID; 0 if the slot is free.
    pub(super) id: u32,
    /// The caller's name for the stream.
    pub(super) token: u32,
    pub(super) method: MethodKind,
    pub(super) phase: ResponsePhase,
    /// Required body length, if announced and meaningful.
    pub(super) content_length: Option<u64>,
    /// Whether the response has no body whatever its fields say (RFC 9110, section 6.4.1).
    pub(super) is_bodiless: bool,
    pub(super) summary: ResponseSummary,
    /// DATA bytes received since the last WINDOW_UPDATE.
    pub(super) uncredited: u32,
    /// Bytes that the peer accepts; negative after it reduced its window.
    pub(super) send_window: i64,
    pub(super) upload: Option<BodyUpload>,
    /// Whether it is in the queue of uploads.
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

    /// Handles the completed final head.
    pub(super) fn begin_body(&mut self, status: u16, content_length: Option<u64>) {
        self.phase = ResponsePhase::Body;
        self.summary.status = status;
        self.is_bodiless = matches!(status, 204 | 304) || self.method == MethodKind::Head;
        let is_tunnel = self.method == MethodKind::Connect && status / 100 == 2;
        self.content_length = if self.is_bodiless {
            Some(0)
        } else if is_tunnel {
            // The field is meaningless there (RFC 9110, section 9.3.6).
            None
        } else {
            content_length
        };
    }

    /// Whether the body has not exceeded its length.
    pub(super) fn fits_length(&self) -> bool {
        self.content_length
            .is_none_or(|length| self.summary.body_bytes <= length)
    }

    /// Whether the body may end here.
    pub(super) fn matches_length(&self) -> bool {
        self.content_length
            .is_none_or(|length| self.summary.body_bytes == length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};
    use std::collections::BTreeMap;

    #[test]
    fn streams_are_found_as_in_a_map_however_they_come_and_go() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut streams = StreamTable::new();
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        let mut id = 1;
        for _ in 0..30_000 {
            let wanted = random.next_u32() % 200;
            // Usually the oldest streams are removed, but some stay very long.
            if known.len() > wanted as usize {
                let skip = (random.next_u32() % 4) as usize * known.len() / 5;
                let (gone, place) = known.iter().nth(skip).map(|(a, b)| (*a, *b)).unwrap();
                known.remove(&gone);
                streams.remove(place);
                assert_eq!(streams.find_slot(gone), None);
            } else {
                let place = streams.insert(StreamState::new(id, id * 7, MethodKind::Body, 0));
                known.insert(id, place);
                id += 2;
            }
            assert_eq!(streams.len(), known.len());
            let probe = random.next_u32() % (id + 4);
            assert_eq!(streams.find_slot(probe), known.get(&probe).copied());
        }
        assert!(
            known
                .iter()
                .all(|(id, place)| streams.find_slot(*id) == Some(*place))
        );
        assert_eq!(streams.iter().count(), known.len());
        assert!(streams.places.len() <= 201 && streams.addresses.len() <= 512);
    }
}
