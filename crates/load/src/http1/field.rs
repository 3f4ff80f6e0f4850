//! One line of a head: the status line, or a header field. Only the three fields that decide about
//! framing and the connection are looked into; of the others only the syntax is checked.

use super::ReplyError;
use super::framing::{Facts, Length};

/// The bytes of a token (RFC 9110, section 5.6.2).
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// Whether bytes can still become a status line: as early as the first byte for a peer that does
/// not speak HTTP.
pub(super) fn begins_like_http(bytes: &[u8]) -> bool {
    const START: &[u8] = b"HTTP/";
    let length = bytes.len().min(START.len());
    bytes[..length] == START[..length]
}

/// `HTTP/1.1 200 OK`; the blank before an empty reason phrase is often missing, which harms nobody.
pub(super) fn status_line(line: &[u8], facts: &mut Facts) -> Result<(), ReplyError> {
    let (b"HTTP/1.", [minor @ b'0'..=b'9', b' ', a, b, c, reason @ ..]) =
        line.split_at_checked(7).ok_or(ReplyError::StatusLine)?
    else {
        return Err(ReplyError::StatusLine);
    };
    let digits = [a, b, c].map(|byte| byte.wrapping_sub(b'0'));
    let are_digits = digits.iter().all(|digit| *digit < 10);
    if !are_digits || digits[0] == 0 || !matches!(reason.first(), None | Some(b' ')) {
        return Err(ReplyError::StatusLine);
    }
    facts.is_http_1_0 = *minor == b'0';
    facts.status = digits
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(*digit));
    Ok(())
}

/// How many bytes of a line are a token. Eight at a time as long as they are letters and hyphens,
/// which names are made of; one at a time where they are not.
fn token_length(line: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = line[at..].first_chunk::<8>() {
        let others = neither_letter_nor_hyphen(u64::from_le_bytes(*word));
        if others == 0 {
            at += 8;
            continue;
        }
        let other = (others.trailing_zeros() / 8) as usize;
        at += other;
        if !is_token_byte(word[other]) {
            return at;
        }
        at += 1;
    }
    let rest = &line[at..];
    let end = rest.iter().position(|byte| !is_token_byte(*byte));
    at + end.unwrap_or(rest.len())
}

/// The highest bit of each byte that is neither. As in `scan`, no sum carries into the next byte.
fn neither_letter_nor_hyphen(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    let lower = (word | (0x20 * ONES)) & LOW;
    let from_a = lower + (0x80 - 0x61) * ONES;
    let behind_z = lower + (0x80 - 0x7b) * ONES;
    let not_hyphen = ((word ^ (0x2d * ONES)) & LOW) + LOW;
    ((!(from_a & !behind_z) & not_hyphen) | word) & !LOW
}

/// Splits a header field at its colon and notes what it says. No blank may precede the colon: RFC
/// 9112, section 5.1. A folded value still contains its line ends, which count as blanks (section
/// 5.2).
pub(super) fn field<'a>(
    line: &'a [u8],
    facts: &mut Facts,
) -> Result<(&'a [u8], &'a [u8]), ReplyError> {
    let length = token_length(line);
    if length == 0 || line.get(length) != Some(&b':') {
        return Err(ReplyError::Header);
    }
    let (name, value) = (&line[..length], &line[length + 1..]);
    match length {
        10 if name.eq_ignore_ascii_case(b"connection") => connection(value, facts),
        14 if name.eq_ignore_ascii_case(b"content-length") => content_length(value, facts),
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => codings(value, facts),
        _ => {}
    }
    Ok((name, value))
}

/// A value without the blanks around it, those of folded lines included.
pub(super) fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(first) = value.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let last = value.iter().rposition(|byte| !is_blank(byte));
    &value[first..=last.unwrap_or(first)]
}

fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim)
}

fn connection(value: &[u8], facts: &mut Facts) {
    // What most servers write, letter by letter, needs no list.
    if value == b" keep-alive" {
        facts.keep_alive = true;
        return;
    }
    for option in elements(value) {
        facts.close |= option.eq_ignore_ascii_case(b"close");
        facts.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
    }
}

/// Section 6.3, rule 5: a list of equal values is one value.
fn content_length(value: &[u8], facts: &mut Facts) {
    // One number behind one blank, as most servers write it, needs no list.
    let only = value.strip_prefix(b" ").and_then(number);
    if let (Length::Absent, Some(bytes)) = (facts.length, only) {
        facts.length = Length::Given(bytes);
        return;
    }
    for element in elements(value) {
        facts.length = match (facts.length, number(element)) {
            (Length::Conflict, _) => Length::Conflict,
            (Length::Unreadable, _) | (_, None) => Length::Unreadable,
            (Length::Given(known), Some(bytes)) if known != bytes => Length::Conflict,
            (_, Some(bytes)) => Length::Given(bytes),
        };
    }
}

/// Digits only: no sign, no blank inside, nothing that does not fit.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// `identity` is no coding (RFC 2616, section 3.6): RFC 9112 dropped the word, old servers did not.
fn codings(value: &[u8], facts: &mut Facts) {
    for element in elements(value) {
        let name = element.split(|byte| *byte == b';').next().map(trim);
        match name {
            None | Some(b"") => {}
            Some(name) if name.eq_ignore_ascii_case(b"identity") => {}
            Some(name) => {
                facts.codings += 1;
                facts.is_chunked_last = name.eq_ignore_ascii_case(b"chunked");
                facts.chunked_codings += u32::from(facts.is_chunked_last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_at_the_first_byte_that_is_none_wherever_it_stands() {
        for byte in 0..=255u8 {
            for at in 0..19 {
                let mut line = *b"Content-Type-Is-Abc";
                line[at] = byte;
                let expected = if is_token_byte(byte) { line.len() } else { at };
                assert_eq!(token_length(&line), expected, "{byte} at {at}");
            }
        }
        assert_eq!(token_length(b""), 0);
    }
}
