//! Splits a CSV record off the front of a byte slice, without copying.
//!
//! Decides what a field is: bare, or in double quotes with inner quotes doubled, optionally
//! surrounded by blanks, so that `a,b` and `a, b` are the same. Knows no columns. Distinguishes
//! text that is not a record from a record that extends beyond the slice. Start at [`scan`].

use memchr::{memchr, memchr2};
use std::borrow::Cow;

/// Position of a field in the scanned bytes, without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    start: usize,
    end: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bare,
    Quoted,
    /// Quoted, with doubled quotes inside.
    Doubled,
}

impl Field {
    /// Returns the bytes of the field as in `record`; doubled quotes stay doubled.
    pub fn raw<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[self.start..self.end]
    }

    /// Appends the bytes of the field to `out`, with doubled quotes undoubled.
    pub fn append_to(&self, record: &[u8], out: &mut Vec<u8>) {
        let mut rest = self.raw(record);
        if self.kind == Kind::Doubled {
            while let Some(at) = memchr(b'"', rest) {
                out.extend_from_slice(&rest[..=at]);
                rest = &rest[at + 2..];
            }
        }
        out.extend_from_slice(rest);
    }

    /// Returns the field as text; invalid UTF-8 is replaced.
    pub fn text<'a>(&self, record: &'a [u8]) -> Cow<'a, str> {
        if self.kind != Kind::Doubled {
            return String::from_utf8_lossy(self.raw(record));
        }
        let mut bytes = Vec::with_capacity(self.end - self.start);
        self.append_to(record, &mut bytes);
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the start of the field in its record.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns whether the field was quoted, which makes `16` a text.
    pub fn is_quoted(&self) -> bool {
        self.kind != Kind::Bare
    }
}

/// Result of [`scan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// A record of this many bytes, including its line end.
    Record(usize),
    /// The record extends beyond the bytes.
    Unfinished,
    /// The first line does not start a record.
    NotARecord,
}

/// Splits the record at the front of `bytes` into fields.
///
/// `last` means that no more bytes follow, so that the end of the bytes ends the record.
pub fn scan(bytes: &[u8], last: bool, fields: &mut Vec<Field>) -> Scan {
    fields.clear();
    let mut at = 0;
    loop {
        at += blanks(&bytes[at..]);
        let next = match bytes.get(at) {
            Some(b'"') => quoted(bytes, at + 1, fields),
            Some(_) => bare(bytes, at, last, fields),
            None if last => {
                fields.push(Field {
                    start: at,
                    end: at,
                    kind: Kind::Bare,
                });
                return Scan::Record(at);
            }
            None => return Scan::Unfinished,
        };
        match next {
            Next::Separator(after) => match separator(&bytes[after..], last) {
                Separator::Comma(length) => at = after + length,
                Separator::LineEnd(length) => return Scan::Record(after + length),
                Separator::Unknown => return Scan::Unfinished,
                Separator::None => return Scan::NotARecord,
            },
            Next::Unfinished if last => return Scan::NotARecord,
            Next::Unfinished => return Scan::Unfinished,
        }
    }
}

enum Next {
    /// The field is complete; a separator must follow at this position.
    Separator(usize),
    Unfinished,
}

fn quoted(bytes: &[u8], start: usize, fields: &mut Vec<Field>) -> Next {
    let mut kind = Kind::Quoted;
    let mut at = start;
    while let Some(found) = memchr(b'"', &bytes[at..]) {
        let quote = at + found;
        if bytes.get(quote + 1) != Some(&b'"') {
            fields.push(Field {
                start,
                end: quote,
                kind,
            });
            return Next::Separator(quote + 1);
        }
        kind = Kind::Doubled;
        at = quote + 2;
    }
    Next::Unfinished
}

fn bare(bytes: &[u8], start: usize, last: bool, fields: &mut Vec<Field>) -> Next {
    let end = match memchr2(b',', b'\n', &bytes[start..]) {
        Some(length) => start + length,
        None if last => bytes.len(),
        None => return Next::Unfinished,
    };
    let trimmed = bytes[start..end].trim_ascii_end().len();
    fields.push(Field {
        start,
        end: start + trimmed,
        kind: Kind::Bare,
    });
    Next::Separator(end)
}

enum Separator {
    Comma(usize),
    LineEnd(usize),
    /// More bytes are needed to decide.
    Unknown,
    None,
}

fn separator(bytes: &[u8], last: bool) -> Separator {
    let skipped = blanks(bytes);
    match &bytes[skipped..] {
        [b',', ..] => Separator::Comma(skipped + 1),
        [b'\n', ..] => Separator::LineEnd(skipped + 1),
        [b'\r', b'\n', ..] => Separator::LineEnd(skipped + 2),
        [] | [b'\r'] if last => Separator::LineEnd(bytes.len()),
        [] | [b'\r'] => Separator::Unknown,
        _ => Separator::None,
    }
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte == b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> (Scan, Vec<String>) {
        let mut fields = Vec::new();
        let scan = scan(bytes, true, &mut fields);
        (
            scan,
            fields
                .iter()
                .map(|field| field.text(bytes).into_owned())
                .collect(),
        )
    }

    #[test]
    fn both_spacings_give_the_same_fields() {
        let (_, tight) = texts(b"\"a\",\"b c\",1.5\n");
        let (_, wide) = texts(b"\"a\", \"b c\", 1.5\r\n");
        assert_eq!(tight, ["a", "b c", "1.5"]);
        assert_eq!(tight, wide);
    }

    #[test]
    fn doubled_quotes_and_line_breaks_belong_to_the_field() {
        let (scan, fields) = texts(b"\"a\"\"b\",\"g\nh\"\nnext");
        assert_eq!(fields, ["a\"b", "g\nh"]);
        assert_eq!(scan, Scan::Record(13));
    }

    #[test]
    fn a_record_that_goes_on_is_told_from_one_that_is_none() {
        let mut fields = Vec::new();
        assert_eq!(scan(b"\"a\",\"b", false, &mut fields), Scan::Unfinished);
        assert_eq!(scan(b"\"a\",1", false, &mut fields), Scan::Unfinished);
        assert_eq!(scan(b"\"a\",\"b", true, &mut fields), Scan::NotARecord);
        assert_eq!(scan(b"\"a\" b\n", false, &mut fields), Scan::NotARecord);
        assert_eq!(
            scan(b"\"a\"", false, &mut fields),
            Scan::Unfinished,
            "the quote may be doubled"
        );
    }

    #[test]
    fn the_last_record_needs_no_line_end() {
        assert_eq!(texts(b"\"a\",2").1, ["a", "2"]);
        assert_eq!(texts(b"a,").1, ["a", ""]);
    }
}
