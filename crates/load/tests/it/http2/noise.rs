//! Invariants of any server output, however it is split. Also used by the fuzz target, so this file
//! depends on nothing else.

use speedwell_load::http1::{MethodKind, RequestParts, ResponsePhase, ResponseSummary};
use speedwell_load::http2::hpack::FieldList;
use speedwell_load::http2::{
    Http2Connection, Http2ConnectionError, Http2Event, Http2Request, Http2Settings,
    Http2StreamError, UrlScheme,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The history of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Story {
    pub begun: bool,
    pub interim: Vec<u16>,
    pub status: u16,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
    pub ended: Option<ResponseSummary>,
    pub failed: Option<Http2StreamError>,
}

/// The result of a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stories: BTreeMap<u32, Story>,
    pub result: Result<(), Http2ConnectionError>,
    pub output: Vec<u8>,
    pub phases: Vec<ResponsePhase>,
    pub capacity: usize,
}

/// The requests of the streams, used cyclically; encoded once, for the speed of the fuzz target.
pub fn requests() -> &'static [Http2Request] {
    static REQUESTS: OnceLock<Vec<Http2Request>> = OnceLock::new();
    REQUESTS.get_or_init(encode_requests)
}

fn encode_requests() -> Vec<Http2Request> {
    let parts = |method, body| RequestParts {
        method,
        target: "/",
        host: "h",
        body,
        ..RequestParts::default()
    };
    let body = vec![b'x'; 70_000];
    [
        parts("GET", None),
        parts("HEAD", None),
        parts("POST", Some(&body[..10])),
        parts("POST", Some(&body)),
    ]
    .iter()
    .map(|parts| Http2Request::new(parts, UrlScheme::Http).unwrap_or_default())
    .collect()
}

/// Small enough for short streams to exceed them.
pub fn small(table_size: u32) -> Http2Settings {
    Http2Settings {
        table_size,
        stream_window: 300,
        max_header_bytes: 600,
        ..Http2Settings::default()
    }
}

/// Feeds these pieces to a connection with streams of every kind in flight; token 4 is cancelled.
///
/// # Panics
/// Panics if a stream is lost, ends twice, or has events after its end.
pub fn read<'a>(settings: &Http2Settings, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let requests = requests();
    let mut connection = Http2Connection::new(settings);
    let mut stories = BTreeMap::new();
    for (token, request) in (0..).zip(requests.iter().chain(requests)) {
        assert!(connection.open_stream(request, token));
        stories.insert(token, Story::default());
    }
    connection.cancel_stream(4);
    stories.remove(&4);
    let mut result = Ok(());
    for piece in pieces {
        result = connection.feed(piece, &mut |event| note(&mut stories, event));
        if let Err(error) = result {
            assert_eq!(connection.feed(piece, &mut |_| panic!("it is broken")), Err(error));
            break;
        }
    }
    let open: Vec<u32> = stories
        .iter()
        .filter(|(_, story)| story.ended.is_none() && story.failed.is_none())
        .map(|(token, _)| *token)
        .collect();
    let mut known: Vec<u32> = connection.open_tokens().collect();
    known.sort_unstable();
    assert_eq!(known, open, "a stream is open, or it ended once");
    assert_eq!(connection.open_streams(), open.len());
    for (token, story) in &mut stories {
        // How much of a failed body was delivered depends on the splitting; complete ones must
        // match exactly.
        match story.ended {
            Some(summary) => assert_eq!(summary.body_bytes, story.body.len() as u64),
            None => story.body.clear(),
        }
        assert_eq!(connection.phase(*token) == ResponsePhase::Idle, !known.contains(token));
    }
    Outcome {
        phases: (0..8).map(|token| connection.phase(token)).collect(),
        capacity: connection.capacity(),
        output: connection.output().to_vec(),
        stories,
        result,
    }
}

fn note(stories: &mut BTreeMap<u32, Story>, event: Http2Event) {
    let token = match &event {
        Http2Event::FirstByte { token }
        | Http2Event::Interim { token, .. }
        | Http2Event::Head { token, .. }
        | Http2Event::Data { token, .. }
        | Http2Event::Ended { token, .. }
        | Http2Event::Failed { token, .. } => *token,
        Http2Event::Settings | Http2Event::GoAway { .. } => return,
    };
    let Some(story) = stories.get_mut(&token) else {
        panic!("nothing is said of a cancelled stream");
    };
    assert!(story.ended.is_none() && story.failed.is_none(), "it has ended");
    assert!(story.begun || !matches!(event, Http2Event::Interim { .. } | Http2Event::Head { .. }));
    match event {
        Http2Event::FirstByte { .. } => assert!(!std::mem::replace(&mut story.begun, true)),
        Http2Event::Interim { status, .. } => story.interim.push(status),
        Http2Event::Head { status, block, .. } => {
            assert_eq!(story.status, 0, "there is one final head");
            story.status = status;
            if let Some(fields) = block.decode_fields(&mut FieldList::default()) {
                let pairs = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
                story.fields = pairs.collect();
                let first = fields.iter().next().map(|(name, _)| name);
                assert_eq!(first, Some(&b":status"[..]));
            }
        }
        Http2Event::Data { bytes, .. } => {
            assert!(story.status != 0 && !bytes.is_empty());
            story.body.extend(bytes);
        }
        Http2Event::Ended { summary, .. } => story.ended = Some(summary),
        Http2Event::Failed { why, .. } => story.failed = Some(why),
        Http2Event::Settings | Http2Event::GoAway { .. } => {}
    }
}

/// Reads a stream as a whole, byte by byte and in pieces.
///
/// # Panics
/// Panics if the results differ.
pub fn check(table_size: u32, stream: &[u8], length: usize) -> Outcome {
    let settings = small(table_size);
    let whole = read(&settings, [stream]);
    assert_eq!(read(&settings, stream.chunks(1)), whole, "byte by byte");
    assert_eq!(read(&settings, stream.chunks(length.max(1))), whole, "cut every {length}");
    for (token, story) in &whole.stories {
        let method = requests()[*token as usize % 4].method();
        assert!(method != MethodKind::Head || story.body.is_empty());
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::frames::{END, END_HEADERS, block, frame, settings};
    use super::{Http2StreamError, check};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    /// A frame of any type with mostly sensible contents.
    fn random_frame(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mut pick = |end: u32| random.next_u32() % end;
        let stream = match pick(20) {
            0 => pick(40),
            _ => pick(8) * 2 + 1,
        };
        let flags = match pick(10) {
            0 => pick(256) as u8,
            1..4 => END | END_HEADERS,
            _ => END_HEADERS,
        };
        let status =
            ["200", "204", "103", "500", "101", "x"][(pick(8) as usize).min(pick(6) as usize)];
        let fields = [
            (":status", status),
            ("content-length", ["0", "3", "9"][pick(3) as usize]),
            ("A", "upper"),
            ("server", "s"),
        ];
        let from = usize::from(pick(6) == 0);
        let to = from + 1 + usize::from(pick(2) == 0) + usize::from(pick(12) == 0);
        let word = pick(1000).to_be_bytes();
        let any = |length: u32| vec![b'd'; length as usize];
        match pick(16) {
            0..6 => frame(1, flags, stream, &block(&fields[from..to])),
            6..11 => frame(0, flags & END, stream, &any([0, 3, 9, 200][pick(4) as usize])),
            11 if pick(3) == 0 => frame(3, 0, stream, &word),
            12 => frame(8, 0, stream * pick(2), &word),
            13 => frame(6, flags & END, 0, &any(8)),
            14 if pick(8) == 0 => {
                frame(7, 0, 0, &[0, 0, 0, pick(20) as u8, 0, 0, 0, pick(9) as u8])
            }
            15 => match pick(4) {
                0 => frame(9, flags, stream, &any(pick(9))),
                1 => settings(&[(pick(7) as u16, pick(100_000))]),
                _ => frame(pick(20) as u8, pick(256) as u8, stream * pick(2), &any(pick(30))),
            },
            _ => frame(0, flags & (END | 8), stream, b"\x02da\0\0"),
        }
    }

    /// Recorded from nghttpd 1.52; the first byte, which tells the fuzz target whether a table was
    /// allowed, was added.
    #[test]
    fn recorded_connections_are_read_however_they_are_cut() {
        let recorded = [
            (0, &include_bytes!("recorded/nghttpd.h2")[..]),
            (4096, include_bytes!("recorded/nghttpd-table.h2")),
        ];
        for (table_size, bytes) in recorded {
            for length in [2, 3, 9, 10, 100] {
                let outcome = check(table_size, &bytes[1..], length);
                let ended =
                    |token: u32| outcome.stories[&token].ended.map(|summary| summary.status);
                assert_eq!([0, 1, 2, 3].map(ended), [Some(200); 4]);
                assert_eq!([6, 7].map(ended), [Some(200); 2]);
                // nghttpd answers HEAD for a missing file with a page.
                assert_eq!(outcome.stories[&5].failed, Some(Http2StreamError::Length));
                assert_eq!(outcome.stories[&0].body, b"Hello, world!\n");
                assert_eq!(outcome.stories[&3].body, [b'y'; 100]);
                assert_eq!(outcome.result, Ok(()));
            }
        }
    }

    #[test]
    fn no_stream_is_lost_with_random_frames_in_pieces_of_any_size() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let (mut ended, mut failed, mut open, mut broken) = (0, 0, 0, 0);
        for turn in 0..1500u32 {
            let mut stream = settings(&[]);
            if turn % 3 > 0 {
                stream.extend(frame(4, END, 0, &[]));
            }
            for _ in 0..random.next_u32() % 30 {
                stream.extend(random_frame(&mut random));
            }
            if turn % 5 == 0 {
                let at = random.next_u32() as usize % stream.len();
                stream[at] = random.next_u32() as u8;
            }
            let table_size = if turn % 2 == 0 { 0 } else { 4096 };
            let outcome = check(table_size, &stream, random.next_u32() as usize % 40);
            broken += u32::from(outcome.result.is_err());
            for story in outcome.stories.values() {
                match (story.ended, story.failed) {
                    (Some(_), _) => ended += 1,
                    (_, Some(_)) => failed += 1,
                    _ => open += 1,
                }
            }
        }
        let counts = [ended, failed, open, broken];
        assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
    }
}
