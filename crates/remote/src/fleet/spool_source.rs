//! Reads the lines of spools. The lines come from growing files in a directly accessible folder, or
//! from the output of a remote worker, which sends one spool after the other.

use anyhow::Context;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Maximum number of bytes read at once. Longer lines arrive in several pieces.
const MAX_PIECE_BYTES: u64 = 1 << 20;

pub(super) enum SpoolSource {
    /// A file, and the offset up to which it has been read.
    File { path: PathBuf, read: u64 },
    /// A [`SpoolStream`], which several attempts share.
    Stream,
}

impl SpoolSource {
    /// Reads a spool file from its beginning.
    pub fn from_file(path: PathBuf) -> SpoolSource {
        SpoolSource::File { path, read: 0 }
    }

    /// Reads the bytes appended to the file since the last read. Returns nothing for a stream.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub fn read(&mut self) -> anyhow::Result<Vec<u8>> {
        let SpoolSource::File { path, read } = self else {
            return Ok(Vec::new());
        };
        // The file appears when its attempt starts.
        let Ok(mut file) = File::open(&*path) else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(*read))
            .and_then(|_| file.read_to_end(&mut bytes))
            .with_context(|| format!("cannot read the spool '{}'", path.display()))?;
        *read += bytes.len() as u64;
        Ok(bytes)
    }
}

/// The output of a remote worker, with one spool after the other.
pub(super) struct SpoolStream {
    lines: Receiver<Vec<u8>>,
    /// Shard and attempt of the spool being received.
    current: Option<(u32, u32)>,
    has_ended: bool,
}

#[derive(Deserialize)]
struct FirstLine {
    spool: SpoolId,
}

#[derive(Deserialize)]
struct SpoolId {
    shard: u32,
    attempt: u32,
}

impl SpoolStream {
    /// Reads lines in a thread that ends with the output.
    pub fn new(output: ChildStdout) -> SpoolStream {
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            let mut read = |line: &mut Vec<u8>| {
                let mut limited = output.by_ref().take(MAX_PIECE_BYTES);
                limited.read_until(b'\n', line).is_ok_and(|read| read > 0)
            };
            while read(&mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        SpoolStream { lines, current: None, has_ended: false }
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the lines received since the last call, each with its shard and attempt.
    pub fn lines(&mut self) -> Vec<((u32, u32), Vec<u8>)> {
        let mut received = Vec::new();
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => line,
                Err(error) => {
                    self.has_ended |= error == TryRecvError::Disconnected;
                    break;
                }
            };
            if line.starts_with(b"{\"spool\":")
                && let Ok(first_line) = serde_json::from_slice::<FirstLine>(&line)
            {
                self.current = Some((first_line.spool.shard, first_line.spool.attempt));
            }
            if let Some(spool_id) = self.current {
                received.push((spool_id, line));
            }
        }
        received
    }
}
