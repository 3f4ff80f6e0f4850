//! Keeps the last output of processes that are timed, without reading it while they run: a reader
//! would compete with them for the processor. They write to a file in memory.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

/// Length at which the file is emptied while a process writes to it.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// How often the length is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Number of bytes that are returned.
const TAIL_BYTES: u64 = 8 << 10;

/// A file in memory for the output of processes.
#[derive(Debug)]
pub struct OutputTail(File);

impl OutputTail {
    /// Creates the file, and a thread that keeps it short.
    ///
    /// # Errors
    /// Fails if the kernel denies the file or the thread.
    pub fn start() -> io::Result<OutputTail> {
        let file = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        let checked = OutputTail(file.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            loop {
                std::thread::sleep(CHECK_INTERVAL);
                if checked.file_bytes() > MAX_FILE_BYTES {
                    let _ = checked.clear();
                }
            }
        })?;
        Ok(OutputTail(file))
    }

    /// Empties the file and returns a stream for the next process.
    ///
    /// # Errors
    /// Fails if too many files are open.
    pub fn next_stream(&self) -> io::Result<Stdio> {
        self.clear()?;
        self.0.try_clone().map(Stdio::from)
    }

    /// Returns the end of what was written since the last call of [`OutputTail::next_stream`].
    pub fn last_output(&self) -> Vec<u8> {
        let end = self.file_bytes();
        let start = end.saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; (end - start) as usize];
        let count = self.0.read_at(&mut bytes, start).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    fn file_bytes(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Empties the file. The processes that write to it share our offset.
    fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)?;
        (&self.0).rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_end_of_the_last_output_is_returned() {
        let tail = OutputTail::start().unwrap();
        for script in ["echo before >&2", "seq 1 100000 >&2; echo after >&2"] {
            let stream = tail.next_stream().unwrap();
            let status = Command::new("sh").args(["-c", script]).stderr(stream).status().unwrap();
            assert!(status.success(), "{script}");
        }
        let output = String::from_utf8(tail.last_output()).unwrap();
        assert!(output.ends_with("\n100000\nafter\n"), "{output}");
        assert_eq!(output.len(), TAIL_BYTES as usize);
        tail.next_stream().unwrap();
        assert!(tail.last_output().is_empty());
    }
}
