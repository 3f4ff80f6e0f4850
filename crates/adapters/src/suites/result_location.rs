//! Reads the results that a process writes to stdout, to a pipe, or to a file. Other modules
//! interpret the results. Start at [`ResultLocation`].

use super::registry::files_matching;
use speedwell_config::adapter::SuiteAdapter;
use speedwell_machine::process::{ChannelKind, ChildConversation, NextStep, ScratchFolder};
use std::fs;
use std::path::Path;

/// Where a process writes its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultLocation {
    /// Standard output.
    Stdout,
    /// Descriptor 3.
    Pipe,
    /// The file `{output}`.
    File,
    /// A file whose name matches this glob, in the folder of the run.
    Like(String),
}

impl ResultLocation {
    /// Returns the place to which an adapter's command writes results.
    pub fn from_adapter(adapter: &SuiteAdapter) -> ResultLocation {
        let has =
            |placeholder: &str| adapter.keys.run.iter().any(|word| word.contains(placeholder));
        match &adapter.keys.output {
            Some(glob) => ResultLocation::Like(glob.clone()),
            None if has("{output}") => ResultLocation::File,
            None if has("{pipe}") => ResultLocation::Pipe,
            None => ResultLocation::Stdout,
        }
    }

    /// Channel that the process needs to report its results.
    pub fn required_channel(&self) -> ChannelKind {
        match self {
            ResultLocation::Stdout => ChannelKind::Stdout,
            ResultLocation::Pipe => ChannelKind::Pipe("SPEEDWELL_RESULTS"),
            ResultLocation::File | ResultLocation::Like(_) => ChannelKind::None,
        }
    }

    /// Reads the results from this location.
    pub fn read_results(
        &self,
        collected: &CollectedOutput,
        scratch: &ScratchFolder,
        output: &Path,
    ) -> Vec<u8> {
        match self {
            ResultLocation::Stdout | ResultLocation::Pipe => collected.0.clone(),
            ResultLocation::File => fs::read(output).unwrap_or_default(),
            ResultLocation::Like(glob) => {
                let files = files_matching(scratch.folder(), glob);
                files.first().and_then(|file| fs::read(file).ok()).unwrap_or_default()
            }
        }
    }
}

/// Collects everything received over the channel.
#[derive(Default)]
pub struct CollectedOutput(pub Vec<u8>);

impl ChildConversation for CollectedOutput {
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        NextStep::Wait
    }
}
