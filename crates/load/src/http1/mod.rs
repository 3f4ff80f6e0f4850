//! Implements an HTTP/1.1 client without sockets. It works on byte slices (RFC 9110 and RFC 9112).
//!
//! [`Http1Request`] encodes a request once, to be sent any number of times. [`ResponseReader`]
//! accepts received data in pieces of any size. It determines the end and the size of each
//! response, and whether the connection can be reused. Neither type knows about time, sockets or
//! the purpose of a request. Nothing is allocated per request, except when a connection receives a
//! head in pieces for the first time. Start at [`ResponseReader`].

mod head;
mod request;

pub use head::{MethodKind, ResponseEnd, ResponseError, ResponseSummary, ResponseWatch};
pub(crate) use head::{is_token_byte, parse_number};
pub(crate) use request::validate_parts;
pub use request::{ConnectionOption, Http1Request, Http1Version, InvalidRequest, RequestParts};

use head::{BodyFraming, HeadScanner};

/// Limits for heads. No normal response reaches the defaults, which only stop a server that sends
/// an endless head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes per head, including status line and empty line.
    pub head_bytes: usize,
    /// Header fields per head.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes: 64 * 1024, fields: 1000 }
    }
}

/// Progress of the awaited response. It tells where a reset or timeout interrupted the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponsePhase {
    /// No response is awaited.
    Idle,
    /// No byte has arrived.
    FirstByte,
    /// The head is incomplete, or only interim responses have arrived.
    Head,
    /// The head is complete, the body is not.
    Body,
}

/// Result of [`ResponseReader::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedProgress {
    /// Number of bytes that belonged to the response: all of them, if the response has not ended.
    pub consumed: usize,
    /// Summary of the response, if it ended.
    pub ended: Option<ResponseSummary>,
}

#[derive(Debug, Clone, Copy)]
enum ReaderState {
    Idle,
    Head,
    Length(u64),
    Chunked(ChunkedReader),
    UntilEof,
    Broken(ResponseError),
}

/// Reads the responses of one connection in sequence.
///
/// [`ResponseReader::expect_response`] announces a response, and [`ResponseReader::feed`] processes
/// received data. With pipelining, announce the next response when one has ended, and then feed the
/// bytes that were not consumed.
///
/// ```
/// use speedwell_load::http1::{MethodKind, ResponseReader};
///
/// let mut reply = ResponseReader::default();
/// reply.expect_response(MethodKind::Body);
/// assert!(reply.feed(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap().ended.is_none());
/// let progress = reply.feed(b"ngth: 5\r\n\r\nhelloHTTP/1.1 ...").unwrap();
/// let summary = progress.ended.unwrap();
/// assert_eq!((progress.consumed, summary.status, summary.body_bytes), (16, 200, 5));
/// assert!(summary.reusable);
/// ```
#[derive(Debug)]
pub struct ResponseReader {
    state: ReaderState,
    method: MethodKind,
    scan: HeadScanner,
    summary: ResponseSummary,
    limits: HeadLimits,
    /// A head that arrived in pieces, from its first byte.
    carry: Vec<u8>,
    has_answered: bool,
}

impl Default for ResponseReader {
    fn default() -> Self {
        ResponseReader::new(HeadLimits::default())
    }
}

impl ResponseReader {
    /// Creates a reader for a new connection.
    pub fn new(limits: HeadLimits) -> ResponseReader {
        ResponseReader {
            state: ReaderState::Idle,
            method: MethodKind::Body,
            scan: HeadScanner::default(),
            summary: ResponseSummary::default(),
            limits,
            carry: Vec::new(),
            has_answered: false,
        }
    }

    /// Resets the reader for a new connection, keeping its memory.
    pub fn reset(&mut self) {
        self.carry.clear();
        let carry = std::mem::take(&mut self.carry);
        *self = ResponseReader { carry, ..ResponseReader::new(self.limits) };
    }

    /// Announces the response to a request that was sent. Has no effect while another response is
    /// awaited or after an error.
    pub fn expect_response(&mut self, method: MethodKind) {
        if let ReaderState::Idle = self.state {
            self.method = method;
            self.summary = ResponseSummary::default();
            self.scan = HeadScanner::default();
            self.state = ReaderState::Head;
        }
    }

    /// Processes received data, up to the end of the response and no further.
    ///
    /// # Errors
    /// Fails if the data is not a valid response or no response is awaited. Later calls return the
    /// same error.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<FeedProgress, ResponseError> {
        self.feed_watched(bytes, None)
    }

    /// Same as [`ResponseReader::feed`], but also passes the response to `watch`, if there is one.
    /// Pass the same watch until the response has ended.
    ///
    /// # Errors
    /// See [`ResponseReader::feed`].
    pub fn feed_watched(
        &mut self,
        bytes: &[u8],
        mut watch: Option<&mut ResponseWatch>,
    ) -> Result<FeedProgress, ResponseError> {
        if let Some(watch) = &mut watch
            && self.phase() == ResponsePhase::FirstByte
        {
            watch.clear();
        }
        let mut consumed = 0;
        loop {
            let rest = &bytes[consumed..];
            if rest.is_empty() {
                return Ok(FeedProgress { consumed, ended: None });
            }
            let step = match self.state {
                ReaderState::Head => self.read_head(rest, watch.as_deref_mut()),
                ReaderState::Idle if self.has_answered => Err(ResponseError::Extra),
                ReaderState::Idle => Err(ResponseError::Early),
                ReaderState::Broken(error) => Err(error),
                _ => self.read_body(rest, watch.as_deref_mut()),
            };
            match step {
                Ok(read) => consumed += read,
                Err(error) => {
                    self.state = ReaderState::Broken(error);
                    return Err(error);
                }
            }
            if let ReaderState::Length(0) = self.state {
                self.state = ReaderState::Idle;
                self.has_answered = true;
                return Ok(FeedProgress { consumed, ended: Some(self.summary) });
            }
        }
    }

    /// Progress of the awaited response.
    pub fn phase(&self) -> ResponsePhase {
        match self.state {
            ReaderState::Idle => ResponsePhase::Idle,
            ReaderState::Head if self.summary.head_bytes == 0 => ResponsePhase::FirstByte,
            ReaderState::Head => ResponsePhase::Head,
            ReaderState::Length(_) | ReaderState::Chunked(_) | ReaderState::UntilEof => {
                ResponsePhase::Body
            }
            ReaderState::Broken(_) if self.summary.status == 0 => ResponsePhase::Head,
            ReaderState::Broken(_) => ResponsePhase::Body,
        }
    }

    /// Handles the end of the connection and returns its effect on the awaited response. Call
    /// [`ResponseReader::reset`] before reusing the reader for another connection.
    ///
    /// # Errors
    /// Fails if the response has already been found to be malformed.
    pub fn end_connection(&mut self) -> Result<ResponseEnd, ResponseError> {
        let summary = ResponseSummary { reusable: false, ..self.summary };
        let ending = match (self.state, self.phase()) {
            (ReaderState::Broken(error), _) => return Err(error),
            (ReaderState::UntilEof, _) => ResponseEnd::Complete(summary),
            (_, ResponsePhase::Idle) => ResponseEnd::Idle,
            (_, ResponsePhase::FirstByte) => ResponseEnd::BeforeFirstByte,
            (_, ResponsePhase::Head) => ResponseEnd::InHead(summary),
            (_, ResponsePhase::Body) => ResponseEnd::InBody(summary),
        };
        self.state = ReaderState::Idle;
        Ok(ending)
    }

    /// Reads the available part of the head, and processes the head once it is complete. Returns
    /// the number of bytes read.
    fn read_head(
        &mut self,
        bytes: &[u8],
        mut watch: Option<&mut ResponseWatch>,
    ) -> Result<usize, ResponseError> {
        let (read, is_complete) = self.scan_lines(bytes, watch.as_deref_mut())?;
        self.summary.head_bytes += read as u64;
        if !is_complete {
            return Ok(read);
        }
        self.carry.clear();
        let facts = self.scan.facts;
        match facts.status {
            101 => return Err(ResponseError::Switched),
            100..200 => {
                self.summary.interim += 1;
                self.summary.interim_status = facts.status;
                self.scan = HeadScanner::default();
                if let Some(watch) = watch {
                    watch.clear();
                }
                return Ok(read);
            }
            _ => {}
        }
        let framing = facts.body_framing(self.method)?;
        self.summary.status = facts.status;
        self.summary.reusable = facts.is_reusable(framing, self.method);
        self.summary.until_eof = framing == BodyFraming::UntilEof;
        self.summary.doubtful_framing = facts.is_doubtful();
        self.state = match framing {
            BodyFraming::Length(bytes) => ReaderState::Length(bytes),
            BodyFraming::Chunked => ReaderState::Chunked(ChunkedReader::default()),
            BodyFraming::UntilEof => ReaderState::UntilEof,
        };
        Ok(read)
    }

    /// Scans the head in place if it starts in these bytes. Otherwise, appends the bytes to the
    /// buffered part first. Returns the number of bytes read and whether the head is complete.
    fn scan_lines(
        &mut self,
        bytes: &[u8],
        mut watch: Option<&mut ResponseWatch>,
    ) -> Result<(usize, bool), ResponseError> {
        let HeadLimits { head_bytes, fields } = self.limits;
        if self.carry.is_empty() {
            let window = &bytes[..bytes.len().min(head_bytes)];
            if let Some(end) = self.scan.scan(window, fields, watch)? {
                return Ok((end, true));
            }
            self.carry.extend_from_slice(window);
            return self.check_size_limit(bytes.len());
        }
        let mut read = 0;
        while read < bytes.len() && self.carry.len() < head_bytes {
            // Append line by line, so that no bytes of the body are copied.
            let rest = &bytes[read..];
            let line = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(rest.len(), |at| at + 1)
                .min(head_bytes - self.carry.len());
            self.carry.extend_from_slice(&rest[..line]);
            read += line;
            let end = self.scan.scan(&self.carry, fields, watch.as_deref_mut())?;
            if end.is_some() {
                return Ok((read, true));
            }
        }
        self.check_size_limit(read)
    }

    /// Rejects a head that has reached the size limit without an end.
    fn check_size_limit(&self, read: usize) -> Result<(usize, bool), ResponseError> {
        let is_within = self.carry.len() < self.limits.head_bytes;
        is_within.then_some((read, false)).ok_or(ResponseError::HeadTooLarge)
    }

    /// Reads the available part of the body. When the body is complete, the state is
    /// [`ReaderState::Length`] with 0.
    fn read_body(
        &mut self,
        bytes: &[u8],
        watch: Option<&mut ResponseWatch>,
    ) -> Result<usize, ResponseError> {
        let (read, payload) = if let ReaderState::Chunked(chunked) = &mut self.state {
            let (mut payload, mut watch) = (0, watch);
            let read = chunked.feed(bytes, |data| {
                payload += data.len() as u64;
                if let Some(watch) = watch.as_deref_mut() {
                    watch.add_data(data);
                }
            })?;
            if chunked.state == ChunkState::Done {
                self.state = ReaderState::Length(0);
            }
            (read, payload)
        } else {
            // In the state `UntilEof`, all bytes belong to the body.
            let mut read = bytes.len();
            if let ReaderState::Length(remaining) = &mut self.state {
                read = usize::try_from(*remaining).map_or(read, |remaining| remaining.min(read));
                *remaining -= read as u64;
            }
            if let Some(watch) = watch {
                watch.add_data(&bytes[..read]);
            }
            (read, read as u64)
        };
        self.summary.body_bytes += payload;
        self.summary.framing_bytes += read as u64 - payload;
        Ok(read)
    }
}

// The code below reads the chunked transfer coding (RFC 9112, section 7.1), byte by byte except for
// data. Like curl, it accepts a bare LF as line end and blanks after a chunk size. Extensions are
// skipped; trailer fields are checked for syntax and otherwise ignored.

/// Limit for a chunk-size line with its extensions, and for all trailers together. RFC 9112 demands
/// a limit but gives no number. No known server comes near this limit.
const MAX_LINE_BYTES: u32 = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ChunkState {
    /// Before the first digit of a chunk size.
    #[default]
    Size,
    SizeDigits,
    SizeBlank,
    Extension,
    /// After the CR of a chunk-size line.
    SizeEnd,
    Data,
    DataCr,
    DataEnd,
    /// At the start of a trailer line.
    Trailer,
    TrailerName,
    TrailerValue,
    /// After the CR of a trailer line.
    TrailerEnd,
    /// After the CR of the empty line.
    End,
    Done,
}

/// Progress of reading a chunked body.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkedReader {
    state: ChunkState,
    /// Remaining bytes of the chunk.
    remaining: u64,
    line_bytes: u32,
}

impl ChunkedReader {
    /// Reads until the body ends or `bytes` are used up, and returns the number of bytes read.
    /// Passes the contents of chunks to `data`.
    fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, ResponseError> {
        let mut position = 0;
        while self.state != ChunkState::Done {
            let Some(byte) = bytes.get(position) else {
                break;
            };
            if self.state == ChunkState::Data {
                let rest = &bytes[position..];
                let length = usize::try_from(self.remaining)
                    .map_or(rest.len(), |remaining| remaining.min(rest.len()));
                data(&rest[..length]);
                self.remaining -= length as u64;
                position += length;
                if self.remaining == 0 {
                    self.state = ChunkState::DataCr;
                }
                continue;
            }
            self.state = self.next_state(*byte)?;
            self.line_bytes += 1;
            if self.line_bytes > MAX_LINE_BYTES {
                return Err(ResponseError::Chunk);
            }
            position += 1;
        }
        Ok(position)
    }

    fn next_state(&mut self, byte: u8) -> Result<ChunkState, ResponseError> {
        use ChunkState::*;
        let is_text = byte == b'\t' || (byte >= 32 && byte != 127);
        Ok(match (self.state, byte) {
            (Size | SizeDigits, b) if b.is_ascii_hexdigit() => {
                let digit = char::from(b).to_digit(16).map_or(0, u64::from);
                let shifted = self.remaining.checked_mul(16).ok_or(ResponseError::Chunk)?;
                self.remaining = shifted + digit;
                SizeDigits
            }
            (SizeDigits | SizeBlank, b' ' | b'\t') => SizeBlank,
            (SizeDigits | SizeBlank, b';') => Extension,
            (SizeDigits | SizeBlank | Extension, b'\r') => SizeEnd,
            (SizeDigits | SizeBlank | Extension | SizeEnd, b'\n') => {
                self.line_bytes = 0;
                if self.remaining == 0 { Trailer } else { Data }
            }
            (Extension, _) if is_text => Extension,
            (DataCr, b'\r') => DataEnd,
            (DataCr | DataEnd, b'\n') => {
                self.line_bytes = 0;
                Size
            }
            (Trailer, b'\r') => End,
            (Trailer | End, b'\n') => Done,
            (TrailerName, b':') => TrailerValue,
            (Trailer | TrailerName, b) if is_token_byte(b) => TrailerName,
            (TrailerValue, b'\r') => TrailerEnd,
            (TrailerValue | TrailerEnd, b'\n') => Trailer,
            (TrailerValue, _) if is_text => TrailerValue,
            _ => return Err(ResponseError::Chunk),
        })
    }
}
