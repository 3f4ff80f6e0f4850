//! Invariants of any byte stream, however it is split. Also used by the fuzz target.

use speedwell_load::http1::{
    HeadLimits, MethodKind, ResponseEnd, ResponseError, ResponseReader, ResponseSummary,
    ResponseWatch,
};

/// Everything read from a connection until it ended or failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub ended: Vec<ResponseSummary>,
    pub bodies: Vec<Vec<u8>>,
    /// The first Content-Type value of each response.
    pub content_types: Vec<Option<Vec<u8>>>,
    pub ending: Result<ResponseEnd, ResponseError>,
}

impl Outcome {
    fn new() -> Outcome {
        Outcome {
            ended: Vec::new(),
            bodies: Vec::new(),
            content_types: Vec::new(),
            ending: Ok(ResponseEnd::Idle),
        }
    }
}

/// Small enough for short streams to exceed them.
pub const LIMITS: HeadLimits = HeadLimits { head_bytes: 600, fields: 12 };

/// Reads a connection that delivers these pieces and then ends, while awaiting responses to
/// requests with these methods in order, as with pipelining.
///
/// # Panics
/// Panics if the progress does not add up.
pub fn read<'a>(methods: &[MethodKind], pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut reply = ResponseReader::new(LIMITS);
    let mut watch = ResponseWatch::new(1 << 16, &["content-type"]);
    let mut outcome = Outcome::new();
    let mut methods = methods.iter();
    if let Some(first) = methods.next() {
        reply.expect_response(*first);
    }
    let mut consumed_bytes = 0;
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let progress = match reply.feed_watched(rest, Some(&mut watch)) {
                Ok(progress) => progress,
                Err(error) => {
                    assert_eq!(reply.feed(rest), Err(error), "an error stays");
                    assert_eq!(reply.end_connection(), Err(error), "an error stays at the end");
                    outcome.ending = Err(error);
                    return outcome;
                }
            };
            assert!(progress.consumed <= rest.len(), "more taken than given");
            consumed_bytes += progress.consumed as u64;
            rest = &rest[progress.consumed..];
            match progress.ended {
                None => assert!(rest.is_empty(), "bytes left over inside a response"),
                Some(summary) => {
                    outcome.ended.push(summary);
                    outcome.bodies.push(watch.body().to_vec());
                    let value = watch.value("Content-Type").map(<[u8]>::to_vec);
                    outcome.content_types.push(value);
                    if let Some(next) = methods.next() {
                        reply.expect_response(*next);
                    }
                }
            }
        }
    }
    let ending = reply.end_connection();
    if let Ok(ResponseEnd::Complete(summary) | ResponseEnd::InBody(summary)) = ending {
        outcome.bodies.push(watch.body().to_vec());
        assert_eq!(watch.body().len() as u64, summary.body_bytes.min(1 << 16));
    }
    outcome.ending = ending;
    assert_eq!(outcome.wire_bytes(), consumed_bytes, "bytes got lost");
    outcome
}

impl Outcome {
    fn wire_bytes(&self) -> u64 {
        let last = match self.ending {
            Ok(
                ResponseEnd::InHead(last) | ResponseEnd::InBody(last) | ResponseEnd::Complete(last),
            ) => last.wire_bytes(),
            _ => 0,
        };
        self.ended.iter().map(ResponseSummary::wire_bytes).sum::<u64>() + last
    }
}

/// Splits a stream into pieces of these lengths, which repeat cyclically.
pub fn cut<'a>(stream: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = stream;
    let mut turn = 0;
    std::iter::from_fn(move || {
        let length = lengths[turn % lengths.len()].clamp(1, rest.len().max(1));
        turn += 1;
        (!rest.is_empty()).then(|| {
            let (piece, behind) = rest.split_at(length);
            rest = behind;
            piece
        })
    })
}

/// Reads a stream as a whole, byte by byte and in pieces, and returns the result.
///
/// # Panics
/// Panics if the results differ.
pub fn check(methods: &[MethodKind], stream: &[u8], lengths: &[usize]) -> Outcome {
    let whole = read(methods, [stream]);
    assert_eq!(read(methods, cut(stream, &[1])), whole, "byte by byte");
    assert_eq!(read(methods, cut(stream, lengths)), whole, "cut {lengths:?}");
    whole
}
