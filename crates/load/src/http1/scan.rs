//! Finds the lines of a head and its end, in one pass that can stop at any byte and go on later.
//!
//! It decides what a line is: bare LF ends one (RFC 9112, section 2.2), a folded field is one
//! (section 5.2: a user agent unfolds), control characters are in none. What a line says is
//! decided in `field`.

use super::field::{begins_like_http, field, status_line};
use super::framing::Facts;
use super::{ReplyError, Watch};

/// How far a head has been read. Offsets count from its first byte.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    pub(super) facts: Facts,
    /// The next byte to look at.
    at: usize,
    /// Where the line, with those folded into it, begins.
    line: usize,
    /// Where its text ends, if its line end was seen: the next byte tells whether it goes on.
    text_end: Option<usize>,
    fields: usize,
}

impl Scan {
    /// Goes on reading; `head` is everything from the first byte of the head. `Some` tells where
    /// the head ends. Errors come at the same byte however the head was cut into pieces.
    pub(super) fn run(
        &mut self,
        head: &[u8],
        max_fields: usize,
        mut watch: Option<&mut Watch>,
    ) -> Result<Option<usize>, ReplyError> {
        if self.line == 0 && !begins_like_http(head) {
            return Err(ReplyError::NotHttp);
        }
        loop {
            if let Some(end) = self.text_end {
                let Some(next) = head.get(self.at) else {
                    return Ok(None);
                };
                self.text_end = None;
                if !matches!(next, b' ' | b'\t') {
                    self.fields += 1;
                    if self.fields > max_fields {
                        return Err(ReplyError::HeadTooLarge);
                    }
                    let (name, value) = field(&head[self.line..end], &mut self.facts)?;
                    if let Some(watch) = watch.as_deref_mut() {
                        watch.field(name, value);
                    }
                    self.line = self.at;
                }
            }
            let Some(end) = self.line_end(head)? else {
                return Ok(None);
            };
            if self.line == 0 {
                status_line(&head[..end], &mut self.facts)?;
                self.line = self.at;
            } else if end == self.line {
                return Ok(Some(self.at));
            } else {
                self.text_end = Some(end);
            }
        }
    }

    /// Moves behind the next line end and tells where the text before it ends.
    fn line_end(&mut self, head: &[u8]) -> Result<Option<usize>, ReplyError> {
        loop {
            let at = next_control(head, self.at);
            self.at = at;
            match (head.get(at), head.get(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => {
                    self.at = at + 2;
                    return Ok(Some(at));
                }
                (Some(b'\n'), _) => {
                    self.at = at + 1;
                    return Ok(Some(at));
                }
                (Some(b'\t'), _) => self.at = at + 1,
                (None, _) | (Some(b'\r'), None) => return Ok(None),
                _ if self.line == 0 => return Err(ReplyError::StatusLine),
                _ => return Err(ReplyError::Header),
            }
        }
    }
}

/// Where the next byte below 32, or 127, is; the length if there is none. Eight bytes at a time:
/// header values are most of a head, and this is all that is asked of most of their bytes.
#[inline(always)]
fn next_control(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from.min(bytes.len())..];
    let (words, tail) = rest.as_chunks::<8>();
    for (turn, word) in words.iter().enumerate() {
        let found = controls(u64::from_le_bytes(*word));
        if found != 0 {
            return from + turn * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let is_control = |byte: &u8| *byte < 32 || *byte == 127;
    let found = tail.iter().position(is_control).unwrap_or(tail.len());
    from + words.len() * 8 + found
}

/// The highest bit of each byte of a word that is below 32, or 127. Neither sum carries into the
/// next byte: the highest bit of a byte of `printable` is set if its low seven bits are 32 or more,
/// that of `delete` if they are 127.
#[inline(always)]
fn controls(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let low = word & LOW;
    let printable = low + 0x6060_6060_6060_6060;
    let delete = low + 0x0101_0101_0101_0101;
    (!printable | delete) & !word & !LOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_is_found_wherever_it_stands_and_nothing_else() {
        for byte in 0..=255u8 {
            for at in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                let expected = if byte < 32 || byte == 127 { at } else { 20 };
                assert_eq!(next_control(&bytes, 0), expected, "{byte} at {at}");
                assert_eq!(next_control(&bytes, at), expected, "{byte} at {at}");
            }
        }
        assert_eq!(
            next_control(b"\x80\xff\xa0\x7e\x20 ~~\xff\xff\xff\xff\xff\xff\xff\n", 0),
            15
        );
    }
}
