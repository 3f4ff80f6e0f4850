//! The lines of a session, cut into parts that one request each can carry.

use std::io::Write;

/// The lines of a session.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    /// Its identity.
    pub id: &'a str,
    /// All lines with their ends; the first is the header.
    pub text: &'a [u8],
    /// The SHA-256 of them, in hexadecimal digits.
    pub sha256: &'a str,
}

/// Bytes of a part, unless a single line is longer.
const PART: usize = 1 << 20;

impl<'a> Lines<'a> {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        memchr::memchr_iter(b'\n', self.text).count() as u64
    }

    /// The lines from a number on, as many as one part carries; nothing at the end.
    pub(crate) fn part(&self, from: u64) -> &'a [u8] {
        let mut ends = memchr::memchr_iter(b'\n', self.text).map(|at| at + 1);
        let start = match from {
            0 => 0,
            from => match ends.nth(from as usize - 1) {
                Some(start) => start,
                None => return &[],
            },
        };
        let mut end = start;
        for next in ends {
            if end > start && next - start > PART {
                break;
            }
            end = next;
            if from == 0 {
                // The header goes alone.
                break;
            }
        }
        &self.text[start..end]
    }
}

/// Text packed by gzip, and whether it is: what becomes smaller beyond belief would be taken for a bomb, and goes as it is.
pub(crate) fn packed(text: &[u8]) -> (Vec<u8>, bool) {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = packer.write_all(text).and_then(|()| packer.finish());
    match written {
        // A limit of the server is 100.
        Ok(packed) if packed.len() < text.len() && packed.len() * 80 > text.len() => (packed, true),
        _ => (text.to_vec(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Lines<'_> {
        Lines {
            id: "x",
            text,
            sha256: "",
        }
    }

    #[test]
    fn parts_hold_whole_lines_and_together_all_of_them() {
        let long = "a".repeat(PART);
        let text = format!("header\n1\n2\n{long}\n4\n");
        let lines = lines(text.as_bytes());
        assert_eq!(lines.count(), 5);
        assert_eq!(lines.part(0), b"header\n");
        assert_eq!(lines.part(1), b"1\n2\n");
        assert_eq!(lines.part(3).len(), PART + 1);
        assert_eq!(lines.part(4), b"4\n");
        assert_eq!((lines.part(5), lines.part(9)), (&b""[..], &b""[..]));
    }

    #[test]
    fn what_looks_like_a_bomb_is_not_packed() {
        assert!(!packed(&vec![b'0'; 1 << 20]).1);
        let text: Vec<u8> = (0..20_000_u32)
            .flat_map(|n| format!("{}\n", n * 7919).into_bytes())
            .collect();
        let (small, is_packed) = packed(&text);
        assert!(is_packed && small.len() < text.len() / 2);
    }
}
