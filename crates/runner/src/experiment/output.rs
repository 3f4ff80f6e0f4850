//! What the target writes, while it writes it, and when it wrote its marks.

use speedwell_process::{Conversation, Next, Stream};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a line of a mark begins with.
const MARK: &str = "mark:";

/// Bytes of each stream that are searched for proofs; a server that writes more has said enough.
const MOST_BYTES: usize = 1 << 20;

/// A view of the streams that is shared with the thread that listens.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Where the line that is being written begins.
    begun: [usize; 2],
    marks: BTreeMap<String, Instant>,
}

impl Output {
    /// Everything that came over one stream so far.
    pub fn text(&self, stream: Stream) -> String {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match stream {
            Stream::Stdout => &written.stdout,
            Stream::Stderr => &written.stderr,
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// When the first line of a mark came.
    pub fn mark(&self, name: &str) -> Option<Instant> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.marks.get(name).copied()
    }
}

impl Written {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let now = Instant::now();
        let (kept, begun) = match stream {
            Stream::Stdout => (&mut self.stdout, &mut self.begun[0]),
            Stream::Stderr => (&mut self.stderr, &mut self.begun[1]),
        };
        let room = MOST_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        while let Some(length) = kept[*begun..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&kept[*begun..*begun + length]);
            if let Some(name) = line.strip_prefix(MARK) {
                let name = name.split_whitespace().next().unwrap_or_default();
                self.marks.entry(name.to_owned()).or_insert(now);
            }
            *begun += length + 1;
        }
    }
}

impl Conversation for Output {
    fn received(&mut self, _line: &[u8]) -> Next {
        Next::Wait
    }

    fn wrote(&mut self, stream: Stream, bytes: &[u8]) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(stream, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_lines_whatever_pieces_they_come_in() {
        let mut output = Output::default();
        output.wrote(Stream::Stderr, b"hello\nmar");
        assert_eq!(output.mark("throw"), None);
        output.wrote(Stream::Stdout, b"k:throw\n");
        assert_eq!(output.mark("throw"), None, "another stream is another line");
        output.wrote(Stream::Stderr, b"k:throw now\nmark:throw\n");
        let first = output.mark("throw").unwrap();
        output.wrote(Stream::Stderr, b"mark:throw\n");
        assert_eq!(output.mark("throw"), Some(first), "the first counts");
        assert_eq!(output.text(Stream::Stdout), "k:throw\n");
    }
}
