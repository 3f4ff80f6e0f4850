//! The lines of a session, split into parts that fit into one request each: in memory, or in a file
//! if there are many. Start at [`Lines`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

/// Bytes per part, unless a single line is longer.
const PART: usize = 1 << 20;
/// Number of lines per recorded offset in a file.
const EVERY: u64 = 1024;

/// The lines of a session.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    /// ID of the session.
    pub id: &'a str,
    /// All lines with their newlines; the first is the header.
    pub text: Text<'a>,
    /// SHA-256 of the lines, in hexadecimal.
    pub sha256: &'a str,
}

/// Where the lines are stored.
#[derive(Debug, Clone, Copy)]
pub enum Text<'a> {
    /// In memory.
    Here(&'a [u8]),
    /// In a file.
    Filed(&'a Filed),
}

/// A file of lines that is read in parts.
#[derive(Debug)]
pub struct Filed {
    file: File,
    count: u64,
    /// Offset of every 1024th line, starting with the first.
    marks: Vec<u64>,
}

impl<'a> Text<'a> {
    /// The whole text, unless it is longer than `most` bytes or in a file.
    pub(crate) fn at_once(self, most: usize) -> Option<&'a [u8]> {
        match self {
            Text::Here(text) => (text.len() <= most).then_some(text),
            Text::Filed(_) => None,
        }
    }

    /// Number of lines.
    pub(crate) fn count(self) -> u64 {
        match self {
            Text::Here(text) => memchr::memchr_iter(b'\n', text).count() as u64,
            Text::Filed(filed) => filed.count,
        }
    }

    /// Returns the lines from a number on, as many as fit into one part; empty at the end. The
    /// header goes alone.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn part(self, from: u64) -> io::Result<Cow<'a, [u8]>> {
        match self {
            Text::Here(text) => Ok(Cow::Borrowed(part_of(text, from))),
            Text::Filed(filed) => filed.part(from).map(Cow::Owned),
        }
    }
}

fn part_of(text: &[u8], from: u64) -> &[u8] {
    let mut ends = memchr::memchr_iter(b'\n', text).map(|at| at + 1);
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
            break;
        }
    }
    &text[start..end]
}

impl Filed {
    /// Fills an empty file with the lines that `write` produces.
    ///
    /// # Errors
    /// Fails if the file cannot be written or `write` fails.
    pub fn write<E: From<io::Error>>(
        file: File,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Filed, E> {
        let (count, marks) = {
            let mut counted = Counted {
                to: BufWriter::with_capacity(PART, &file),
                bytes: 0,
                count: 0,
                marks: vec![0],
            };
            write(&mut counted)?;
            counted.flush()?;
            (counted.count, counted.marks)
        };
        Ok(Filed { file, count, marks })
    }

    /// All bytes in order, in chunks.
    pub fn chunks(&self) -> impl Iterator<Item = io::Result<Vec<u8>>> + '_ {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let mut chunk = vec![0; PART];
            let read = self.file.read_at(&mut chunk, offset);
            if let Ok(count) = read {
                offset += count as u64;
                chunk.truncate(count);
            }
            let chunk = read.map(|_| chunk);
            chunk
                .map(|own| (!own.is_empty()).then_some(own))
                .transpose()
        })
    }

    fn part(&self, from: u64) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        let Some(&offset) = self.marks.get((from / EVERY) as usize) else {
            return Ok(part);
        };
        let rest = Rest {
            file: &self.file,
            offset,
        };
        let mut rest = BufReader::with_capacity(PART, rest);
        for _ in 0..from % EVERY {
            rest.skip_until(b'\n')?;
        }
        loop {
            let before = part.len();
            if rest.read_until(b'\n', &mut part)? == 0 || from == 0 {
                return Ok(part);
            }
            if before > 0 && part.len() > PART {
                part.truncate(before);
                return Ok(part);
            }
        }
    }
}

/// A file being written, with the count and offsets of its lines.
struct Counted<'a> {
    to: BufWriter<&'a File>,
    bytes: u64,
    count: u64,
    marks: Vec<u64>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        for end in memchr::memchr_iter(b'\n', &bytes[..written]) {
            self.count += 1;
            if self.count.is_multiple_of(EVERY) {
                self.marks.push(self.bytes + end as u64 + 1);
            }
        }
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The content of a file from an offset on.
struct Rest<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Rest<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_whole_lines_and_together_all_of_them() {
        let long = "a".repeat(PART);
        let text = format!("header\n1\n2\n{long}\n4\n");
        let lines = Text::Here(text.as_bytes());
        assert_eq!(lines.count(), 5);
        let part = |from: u64| part_of(text.as_bytes(), from);
        assert_eq!(part(0), b"header\n");
        assert_eq!(part(1), b"1\n2\n");
        assert_eq!(part(3).len(), PART + 1);
        assert_eq!(part(4), b"4\n");
        assert_eq!((part(5), part(9)), (&b""[..], &b""[..]));
    }

    #[test]
    fn a_file_has_the_parts_of_the_same_lines_in_memory() {
        let line = |at: usize| format!("{at} {}\n", "x".repeat(at * 7919 % 3001));
        let mut text: String = (0..5000).map(line).collect();
        text += &line(PART / 2).replace('x', &"y".repeat(2000));
        text += "last\n";
        let file = tempfile::tempfile().expect("a file");
        let filed = Filed::write(file, |out| {
            // Writes need not end at line ends.
            text.as_bytes()
                .chunks(1013)
                .try_for_each(|some| out.write_all(some))
        });
        let filed = filed.expect("it can be written");
        let (here, there) = (Text::Here(text.as_bytes()), Text::Filed(&filed));
        assert_eq!((there.count(), there.at_once(usize::MAX)), (5002, None));
        let (mut from, mut parts) = (0, 0);
        while from < here.count() {
            let part = there.part(from).expect("it can be read");
            assert_eq!(part, here.part(from).expect("it is there"), "from {from}");
            from += Text::Here(&part).count();
            parts += 1;
        }
        assert!(parts > 5, "{parts}");
        for from in [1, 1023, 1024, 1025, 4999, 5001, 5002, 9999] {
            assert_eq!(there.part(from).ok(), here.part(from).ok(), "from {from}");
        }
        let chunks: Result<Vec<Vec<u8>>, io::Error> = filed.chunks().collect();
        assert_eq!(chunks.expect("it can be read").concat(), text.as_bytes());
    }
}
