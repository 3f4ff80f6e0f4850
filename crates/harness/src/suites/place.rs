//! Source of a process's results: stdout, a pipe, or a file. Must not know what they mean. Start at
//! [`Place`].

use super::known::files_like;
use speedwell_process::{Channel, Conversation, Next, Scratch};
use speedwell_suite::adapter::Adapter;
use std::fs;
use std::path::Path;

/// Where a process writes its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Standard output.
    Stdout,
    /// Descriptor 3.
    Pipe,
    /// The file `{output}`.
    File,
    /// A file in the folder of the run that matches this glob.
    Like(String),
}

impl Place {
    /// Result location of an adapter's command.
    pub fn from_adapter(adapter: &Adapter) -> Place {
        let has = |place: &str| adapter.keys.run.iter().any(|word| word.contains(place));
        match &adapter.keys.output {
            Some(glob) => Place::Like(glob.clone()),
            None if has("{output}") => Place::File,
            None if has("{pipe}") => Place::Pipe,
            None => Place::Stdout,
        }
    }

    /// Channel that it needs.
    pub fn channel(&self) -> Channel {
        match self {
            Place::Stdout => Channel::Stdout,
            Place::Pipe => Channel::Pipe("SPEEDWELL_RESULTS"),
            Place::File | Place::Like(_) => Channel::None,
        }
    }

    /// Reads what was written there.
    pub fn written(&self, collected: &Collected, scratch: &Scratch, output: &Path) -> Vec<u8> {
        match self {
            Place::Stdout | Place::Pipe => collected.0.clone(),
            Place::File => fs::read(output).unwrap_or_default(),
            Place::Like(glob) => {
                let found = files_like(scratch.folder(), glob);
                found
                    .first()
                    .and_then(|file| fs::read(file).ok())
                    .unwrap_or_default()
            }
        }
    }
}

/// Collects everything received over the channel.
#[derive(Default)]
pub struct Collected(pub Vec<u8>);

impl Conversation for Collected {
    fn received(&mut self, line: &[u8]) -> Next {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        Next::Wait
    }
}
