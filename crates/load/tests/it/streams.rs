//! Random streams of pipelined responses whose properties are known from their generation.

use super::pieces::{check, read};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_load::http1::{MethodKind, ResponseEnd, ResponseSummary};
use std::path::Path;

/// A seeded source of random choices.
pub struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }

    pub fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// Replaces, inserts or removes a byte; the new one is often significant for parsing.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        let index = self.below(bytes.len().max(1)).min(bytes.len());
        let marks = b"\r\n\t :;,0aF\0\x7f";
        let byte = match self.below(2) {
            0 => marks[self.below(marks.len())],
            _ => self.below(256) as u8,
        };
        match self.below(3) {
            0 => bytes.insert(index, byte),
            1 if index < bytes.len() => bytes[index] = byte,
            _ if index < bytes.len() => drop(bytes.remove(index)),
            _ => {}
        }
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    /// Returns a chunked body and its payload.
    pub fn chunked(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut body, mut payload) = (Vec::new(), Vec::new());
        for _ in 0..self.below(4) {
            let length = 1 + self.below(40);
            let data = self.bytes(length);
            let size = match self.below(2) {
                0 => format!("{length:x}"),
                _ => format!("00{length:X}"),
            };
            let extension = self.of(&["", "", " ", ";a", ";a=\"b\";c"]);
            body.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
            payload.extend_from_slice(&data);
        }
        body.extend_from_slice(b"0\r\n");
        for _ in 0..self.below(3) {
            body.extend_from_slice(self.of(&["Sum: 1\r\n", "X-Y:\tz \r\n"]).as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        (body, payload)
    }

    /// Returns a response, its request's method, and the expected summary and payload.
    fn response(&mut self) -> (Vec<u8>, MethodKind, ResponseSummary, Vec<u8>) {
        let methods = [MethodKind::Body, MethodKind::Body, MethodKind::Head][self.below(3)];
        let interim = self.below(3);
        let mut head = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(interim);
        let close = self.below(4) == 0;
        head += self.of(&["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 \r\nServer: x\r\n"]);
        head += if close { "cOnnection: foo, Close\r\n" } else { "" };
        let is_chunked = self.below(2) == 0;
        let (mut body, mut payload) = if is_chunked {
            self.chunked()
        } else {
            let length = self.below(90);
            let body = self.bytes(length);
            (body.clone(), body)
        };
        head += &if is_chunked {
            "TRANSFER-encoding:chunked\r\n\r\n".to_owned()
        } else {
            format!("Content-Length: {} \r\nA: b\r\n\r\n", body.len())
        };
        if methods == MethodKind::Head {
            (body, payload) = (Vec::new(), Vec::new());
        }
        let summary = ResponseSummary {
            status: 200,
            head_bytes: head.len() as u64,
            body_bytes: payload.len() as u64,
            framing_bytes: (body.len() - payload.len()) as u64,
            interim: interim as u32,
            interim_status: if interim > 0 { 103 } else { 0 },
            reusable: !close,
            until_eof: false,
            doubtful_framing: false,
        };
        ([head.as_bytes(), &body].concat(), methods, summary, payload)
    }
}

#[test]
fn pipelined_responses_are_told_apart_wherever_the_stream_is_cut() {
    let mut draw = Draw::new(3);
    for _ in 0..2000 {
        let responses: Vec<_> = (0..1 + draw.below(5)).map(|_| draw.response()).collect();
        let stream: Vec<u8> = responses.iter().flat_map(|r| r.0.clone()).collect();
        let methods: Vec<MethodKind> = responses.iter().map(|r| r.1).collect();
        let lengths = [1 + draw.below(200), 1 + draw.below(20), 1 + draw.below(3)];
        let outcome = check(&methods, &stream, &lengths);
        assert_eq!(outcome.ending, Ok(ResponseEnd::Idle));
        assert!(outcome.ended.iter().eq(responses.iter().map(|r| &r.2)));
        assert!(outcome.bodies.iter().eq(responses.iter().map(|r| &r.3)));
    }
}

#[test]
fn damaged_streams_are_judged_alike_in_whole_and_in_pieces() {
    let mut draw = Draw::new(4);
    let mut broken = 0;
    for _ in 0..5000 {
        let responses: Vec<_> = (0..1 + draw.below(3)).map(|_| draw.response()).collect();
        let mut stream: Vec<u8> = responses.iter().flat_map(|r| r.0.clone()).collect();
        let methods: Vec<MethodKind> = responses.iter().map(|r| r.1).collect();
        for _ in 0..1 + draw.below(4) {
            draw.damage(&mut stream);
        }
        stream.truncate(stream.len() - draw.below(stream.len() / 2));
        let lengths = [1 + draw.below(200), 1 + draw.below(20)];
        broken += usize::from(check(&methods, &stream, &lengths).ending.is_err());
    }
    assert!(broken > 1000, "only {broken} of the streams were broken");
}

/// The seeds of the fuzz target; the first byte of each selects the requests.
#[test]
fn every_seed_of_the_fuzz_target_holds_at_least_one_response() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        let methods = match bytes[0] {
            b'h' => [MethodKind::Head; 3],
            _ => [MethodKind::Body; 3],
        };
        let outcome = read(&methods, [&bytes[1..]]);
        let is_complete = matches!(outcome.ending, Ok(ResponseEnd::Complete(_)));
        assert!(is_complete || !outcome.ended.is_empty(), "{entry:?}: {outcome:?}");
        seeds += 1;
    }
    assert_eq!(seeds, 5);
}
