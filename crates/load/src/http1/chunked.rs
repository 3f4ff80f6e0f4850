//! The chunked transfer coding (RFC 9112, section 7.1), byte by byte, with data taken in one step.
//!
//! Like curl it takes a bare LF for a line end and blanks after a chunk size. Extensions are
//! skipped; trailer fields are checked for their syntax and otherwise ignored.

use super::ReplyError;
use super::field::is_token_byte;

/// Bytes of one chunk-size line with its extensions, and of all trailers together. RFC 9112 asks
/// for a limit and names none; no server known to us comes near it.
const MAX_LINE_BYTES: u32 = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first digit of a chunk size.
    Size,
    SizeDigits,
    /// Blanks after the size.
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

/// How far a chunked body has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of the chunk that are still to come.
    left: u64,
    line_bytes: u32,
}

impl Chunked {
    pub(super) fn new() -> Chunked {
        Chunked {
            state: State::Size,
            left: 0,
            line_bytes: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads until the body ends or the bytes do; gives how many were read. Data is handed over.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, ReplyError> {
        let mut at = 0;
        while self.state != State::Done {
            let Some(byte) = bytes.get(at) else { break };
            if self.state == State::Data {
                let rest = &bytes[at..];
                let length =
                    usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
                data(&rest[..length]);
                self.left -= length as u64;
                at += length;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.next(*byte)?;
            self.line_bytes += 1;
            if self.line_bytes > MAX_LINE_BYTES {
                return Err(ReplyError::Chunk);
            }
            at += 1;
        }
        Ok(at)
    }

    fn next(&mut self, byte: u8) -> Result<State, ReplyError> {
        let is_text = byte == b'\t' || (byte >= 32 && byte != 127);
        Ok(match (self.state, byte) {
            (State::Size | State::SizeDigits, b) if b.is_ascii_hexdigit() => {
                self.digit(b)?;
                State::SizeDigits
            }
            (State::SizeDigits | State::SizeBlank, b' ' | b'\t') => State::SizeBlank,
            (State::SizeDigits | State::SizeBlank, b';') => State::Extension,
            (State::SizeDigits | State::SizeBlank | State::Extension, b'\r') => State::SizeEnd,
            (State::SizeDigits | State::SizeBlank | State::Extension | State::SizeEnd, b'\n') => {
                self.after_size()
            }
            (State::Extension, _) if is_text => State::Extension,
            (State::DataCr, b'\r') => State::DataEnd,
            (State::DataCr | State::DataEnd, b'\n') => {
                self.line_bytes = 0;
                State::Size
            }
            (State::Trailer, b'\r') => State::End,
            (State::Trailer | State::End, b'\n') => State::Done,
            (State::TrailerName, b':') => State::TrailerValue,
            (State::Trailer | State::TrailerName, b) if is_token_byte(b) => State::TrailerName,
            (State::TrailerValue, b'\r') => State::TrailerEnd,
            (State::TrailerValue | State::TrailerEnd, b'\n') => State::Trailer,
            (State::TrailerValue, _) if is_text => State::TrailerValue,
            _ => return Err(ReplyError::Chunk),
        })
    }

    fn digit(&mut self, byte: u8) -> Result<(), ReplyError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        let shifted = self.left.checked_mul(16).ok_or(ReplyError::Chunk)?;
        self.left = shifted + u64::from(digit);
        Ok(())
    }

    fn after_size(&mut self) -> State {
        self.line_bytes = 0;
        match self.left {
            0 => State::Trailer,
            _ => State::Data,
        }
    }
}
