//! What a child wrote on a standard stream, of which the beginning and the end are kept. Start at [`Capture`].

use std::collections::VecDeque;

/// Bytes kept of the beginning, and as many of the end.
const KEPT_BYTES: usize = 64 * 1024;

/// The captured beginning and end of a stream. A child may write gigabytes; we keep 128 KiB.
#[derive(Debug, Default, Clone)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
}

impl Capture {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let space = KEPT_BYTES - self.head.len().min(KEPT_BYTES);
        let (head, rest) = bytes.split_at(space.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last KEPT_BYTES of what is left can survive, however much came at once.
        let rest = &rest[rest.len().saturating_sub(KEPT_BYTES)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(KEPT_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How much the child wrote in all.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Everything kept, with a remark where the middle is missing.
    pub fn text(&self) -> String {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if kept < self.total_bytes {
            let missing = self.total_bytes - kept;
            bytes.extend_from_slice(format!("\n[... {missing} bytes left out ...]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last `lines` lines, without trailing blank ones.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.trim_end().lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut capture = Capture::default();
        capture.push(b"first\n");
        for _ in 0..1000 {
            capture.push(&[b'x'; 4096]);
        }
        capture.push(b"\nlast\n");
        let text = capture.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 3 * KEPT_BYTES);
        assert_eq!(capture.total_bytes(), 6 + 1000 * 4096 + 6);
        assert_eq!(capture.last_lines(1), "last");
    }

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = Capture::default();
        capture.push(b"one\ntwo\n\n");
        assert_eq!(capture.text(), "one\ntwo\n\n");
        assert_eq!(capture.last_lines(5), "one\ntwo");
    }
}
