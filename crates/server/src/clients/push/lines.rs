//! Holds the lines of a session, in memory or, if there are many, in a file. Reads them in parts
//! that fit into one request. Start at [`SessionLines`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

/// Maximum number of bytes per part. A longer line is a part by itself.
const PART_BYTES: usize = 1 << 20;
/// Number of lines between recorded offsets in a file.
const LINES_PER_OFFSET: u64 = 1024;

/// The lines of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionLines<'a> {
    /// ID of the session.
    pub id: &'a str,
    /// All lines with their newlines. The first line is the header.
    pub text: LineSource<'a>,
    /// SHA-256 of the lines, in hexadecimal.
    pub sha256: &'a str,
}

/// Where the lines are stored.
#[derive(Debug, Clone, Copy)]
pub enum LineSource<'a> {
    /// In memory.
    InMemory(&'a [u8]),
    /// In a file.
    InFile(&'a LineFile),
}

/// A file of lines that is read in parts.
#[derive(Debug)]
pub struct LineFile {
    file: File,
    count: u64,
    /// Offset of every 1024th line, starting with the first.
    offsets: Vec<u64>,
}

impl<'a> LineSource<'a> {
    /// Returns the complete text if it is in memory and has at most `max_bytes` bytes.
    pub(crate) fn within_limit(self, max_bytes: usize) -> Option<&'a [u8]> {
        match self {
            LineSource::InMemory(text) => (text.len() <= max_bytes).then_some(text),
            LineSource::InFile(_) => None,
        }
    }

    /// Returns the number of lines.
    pub(crate) fn line_count(self) -> u64 {
        match self {
            LineSource::InMemory(text) => memchr::memchr_iter(b'\n', text).count() as u64,
            LineSource::InFile(file) => file.count,
        }
    }

    /// Returns as many lines as fit into one part, starting with line `from`. The result is empty
    /// after the last line. The header is a part by itself.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn read_part(self, from: u64) -> io::Result<Cow<'a, [u8]>> {
        match self {
            LineSource::InMemory(text) => Ok(Cow::Borrowed(slice_part(text, from))),
            LineSource::InFile(file) => file.read_part(from).map(Cow::Owned),
        }
    }
}

fn slice_part(text: &[u8], from: u64) -> &[u8] {
    let mut ends = memchr::memchr_iter(b'\n', text).map(|index| index + 1);
    let start = match from {
        0 => 0,
        from => match ends.nth(from as usize - 1) {
            Some(start) => start,
            None => return &[],
        },
    };
    let mut end = start;
    for next in ends {
        if end > start && next - start > PART_BYTES {
            break;
        }
        end = next;
        if from == 0 {
            break;
        }
    }
    &text[start..end]
}

impl LineFile {
    /// Fills an empty file with the lines that `write` produces.
    ///
    /// # Errors
    /// Fails if the file cannot be written or `write` fails.
    pub fn write<E: From<io::Error>>(
        file: File,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<LineFile, E> {
        let (count, offsets) = {
            let mut counted = LineCountingWriter {
                out: BufWriter::with_capacity(PART_BYTES, &file),
                bytes: 0,
                count: 0,
                offsets: vec![0],
            };
            write(&mut counted)?;
            counted.flush()?;
            (counted.count, counted.offsets)
        };
        Ok(LineFile { file, count, offsets })
    }

    /// Returns all bytes in order, in chunks.
    pub fn chunks(&self) -> impl Iterator<Item = io::Result<Vec<u8>>> + '_ {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let mut chunk = vec![0; PART_BYTES];
            let read = self.file.read_at(&mut chunk, offset);
            if let Ok(count) = read {
                offset += count as u64;
                chunk.truncate(count);
            }
            let chunk = read.map(|_| chunk);
            chunk.map(|chunk| (!chunk.is_empty()).then_some(chunk)).transpose()
        })
    }

    fn read_part(&self, from: u64) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        let Some(&offset) = self.offsets.get((from / LINES_PER_OFFSET) as usize) else {
            return Ok(part);
        };
        let tail = FileTail { file: &self.file, offset };
        let mut reader = BufReader::with_capacity(PART_BYTES, tail);
        for _ in 0..from % LINES_PER_OFFSET {
            reader.skip_until(b'\n')?;
        }
        loop {
            let before = part.len();
            if reader.read_until(b'\n', &mut part)? == 0 || from == 0 {
                return Ok(part);
            }
            if before > 0 && part.len() > PART_BYTES {
                part.truncate(before);
                return Ok(part);
            }
        }
    }
}

struct LineCountingWriter<'a> {
    out: BufWriter<&'a File>,
    bytes: u64,
    count: u64,
    offsets: Vec<u64>,
}

impl Write for LineCountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        for end in memchr::memchr_iter(b'\n', &bytes[..written]) {
            self.count += 1;
            if self.count.is_multiple_of(LINES_PER_OFFSET) {
                self.offsets.push(self.bytes + end as u64 + 1);
            }
        }
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The content of a file from an offset on.
struct FileTail<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FileTail<'_> {
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
    fn upload_parts_consist_of_whole_lines() {
        let long = "a".repeat(PART_BYTES);
        let text = format!("header\n1\n2\n{long}\n4\n");
        let lines = LineSource::InMemory(text.as_bytes());
        assert_eq!(lines.line_count(), 5);
        let part = |from: u64| slice_part(text.as_bytes(), from);
        assert_eq!(part(0), b"header\n");
        assert_eq!(part(1), b"1\n2\n");
        assert_eq!(part(3).len(), PART_BYTES + 1);
        assert_eq!(part(4), b"4\n");
        assert_eq!((part(5), part(9)), (&b""[..], &b""[..]));
    }

    #[test]
    fn a_file_is_split_into_the_same_parts_as_text_in_memory() {
        let line = |index: usize| format!("{index} {}\n", "x".repeat(index * 7919 % 3001));
        let mut text: String = (0..5000).map(line).collect();
        text += &line(PART_BYTES / 2).replace('x', &"y".repeat(2000));
        text += "last\n";
        let file = tempfile::tempfile().expect("a file");
        let line_file = LineFile::write(file, |out| {
            // Writes need not end at line ends.
            text.as_bytes().chunks(1013).try_for_each(|chunk| out.write_all(chunk))
        });
        let line_file = line_file.expect("it can be written");
        let (in_memory, in_file) =
            (LineSource::InMemory(text.as_bytes()), LineSource::InFile(&line_file));
        assert_eq!((in_file.line_count(), in_file.within_limit(usize::MAX)), (5002, None));
        let (mut from, mut parts) = (0, 0);
        while from < in_memory.line_count() {
            let part = in_file.read_part(from).expect("it can be read");
            assert_eq!(part, in_memory.read_part(from).expect("it is there"), "from {from}");
            from += LineSource::InMemory(&part).line_count();
            parts += 1;
        }
        assert!(parts > 5, "{parts}");
        for from in [1, 1023, 1024, 1025, 4999, 5001, 5002, 9999] {
            assert_eq!(in_file.read_part(from).ok(), in_memory.read_part(from).ok(), "from {from}");
        }
        let chunks: Result<Vec<Vec<u8>>, io::Error> = line_file.chunks().collect();
        assert_eq!(chunks.expect("it can be read").concat(), text.as_bytes());
    }
}
