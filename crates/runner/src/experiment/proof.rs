//! Checks that a variant took effect: a module that silently failed to load would be measured as
//! "no overhead".

use super::{Fallible, stage_failure};
use regex::Regex;
use speedwell_model::assignment::{Place, Proof};
use speedwell_model::performed::Stage;
use speedwell_process::{Clock, Conversation, Next, Stream};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time to wait for a proof once the target is ready: it may write shortly after it listens.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval for polling a proof.
const PULSE: Duration = Duration::from_millis(10);

/// Where to search for proofs.
pub struct Evidence<'a> {
    /// Output of the target.
    pub output: &'a Output,
    /// Working directory of the target.
    pub directory: &'a Path,
    /// Start of the target; older files are ignored.
    pub since: SystemTime,
    /// Clock for waiting.
    pub clock: Clock,
    /// Requests a path from the target and returns the body.
    pub ask: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Searches for the proofs that are due now.
///
/// # Errors
/// One is missing.
pub fn check(proofs: &[Proof], at_exit: bool, evidence: &Evidence) -> Fallible<()> {
    let stage = if at_exit {
        Stage::ProofAtExit
    } else {
        Stage::Proof
    };
    let until = evidence.clock.now() + PATIENCE;
    for proof in proofs.iter().filter(|proof| proof.at_exit == at_exit) {
        let pattern = Regex::new(&proof.pattern)
            .map_err(|error| stage_failure(stage, format!("'{}': {error}", proof.pattern)))?;
        loop {
            let why = match text_at(&proof.place, evidence) {
                Ok(text) if pattern.is_match(&text) => break,
                Ok(_) => format!("nothing in {} matches", name_of(&proof.place)),
                Err(why) => format!(
                    "{} cannot be read ({why}), where there must be a match of",
                    name_of(&proof.place)
                ),
            };
            if at_exit || evidence.clock.now() > until {
                let reason = format!("{why} '{}': the variant did not take effect", proof.pattern);
                return Err(stage_failure(stage, reason));
            }
            evidence.clock.wait(PULSE);
        }
    }
    Ok(())
}

fn name_of(place: &Place) -> String {
    match place {
        Place::Stdout => "its stdout".to_owned(),
        Place::Stderr => "its stderr".to_owned(),
        Place::File(file) => format!("the file '{}'", file.display()),
        Place::Http(path) => format!("the answer to '{path}'"),
    }
}

fn text_at(place: &Place, evidence: &Evidence) -> Result<String, String> {
    match place {
        Place::Stdout => Ok(evidence.output.text(Stream::Stdout)),
        Place::Stderr => Ok(evidence.output.text(Stream::Stderr)),
        Place::File(file) => fresh(&evidence.directory.join(file), evidence.since),
        Place::Http(path) => (evidence.ask)(path),
    }
}

/// Reads a file if it was written after `since`.
fn fresh(file: &Path, since: SystemTime) -> Result<String, String> {
    let written = std::fs::metadata(file).and_then(|about| about.modified());
    let written = written.map_err(|error| error.to_string())?;
    // File timestamps are coarser than the system clock.
    if written + Duration::from_millis(20) < since {
        return Err("it is older than the run".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Prefix of a mark's line.
const MARK: &str = "mark:";

/// Bytes of each stream that are searched for proofs; later output is ignored.
const MOST_BYTES: usize = 1 << 20;

/// Output of both streams, shared with the thread that reads them.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Start of the current line in each stream.
    begun: [usize; 2],
    marks: BTreeMap<String, Instant>,
}

impl Output {
    /// Returns the captured text of one stream.
    pub fn text(&self, stream: Stream) -> String {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match stream {
            Stream::Stdout => &written.stdout,
            Stream::Stderr => &written.stderr,
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns when the first line of a mark arrived.
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

    #[test]
    fn a_proof_is_waited_for_until_patience_ends_and_one_at_the_exit_is_not() {
        let proof = |at_exit| Proof {
            place: Place::Http("/version".to_owned()),
            pattern: "^v2$".to_owned(),
            at_exit,
        };
        let (output, clock) = (Output::default(), Clock::movable());
        // Each response advances the clock by a quarter of the limit.
        let asked = std::cell::Cell::new(0);
        let checked = |at_exit, good_at| {
            asked.set(0);
            let ask = |_: &str| {
                clock.advance(PATIENCE / 4);
                asked.set(asked.get() + 1);
                Ok(if asked.get() == good_at { "v2" } else { "v1" }.to_owned())
            };
            let evidence = Evidence {
                output: &output,
                directory: Path::new("/"),
                since: SystemTime::now(),
                clock,
                ask: &ask,
            };
            check(&[proof(at_exit)], at_exit, &evidence).map_err(|why| why.reason)
        };
        assert_eq!(checked(false, 4), Ok(()));
        let reason = checked(false, 100).unwrap_err();
        assert!(reason.contains("did not take effect"), "{reason}");
        assert_eq!(asked.get(), 5, "the last look is behind its end");
        assert!(checked(true, 2).is_err() && asked.get() == 1);
    }
}
