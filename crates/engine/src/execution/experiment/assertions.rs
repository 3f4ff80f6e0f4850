//! Searches for the proofs that a variant took effect. Without a proof, a module that silently
//! failed to load would seem to have no overhead.

use super::{StageResult, stage_failure};
use regex::Regex;
use speedwell_machine::process::{ChildConversation, NextStep, OutputStream, WaitClock};
use speedwell_model::assignment::{ProofSource, VariantProof};
use speedwell_model::stage_report::RunStage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Total time to wait for proofs once the target is ready. A target may write its proofs shortly
/// after it begins to listen.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Where to search for proofs.
pub struct ProofSources<'a> {
    /// Output of the target.
    pub output: &'a CapturedOutput,
    /// Working directory of the target.
    pub directory: &'a Path,
    /// Start of the target; files written before it are ignored.
    pub since: SystemTime,
    /// Clock for waiting.
    pub clock: WaitClock,
    /// Requests a path from the target and returns the body.
    pub ask: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Searches for the proofs that are due now: at the exit of the target if `at_exit` is set,
/// otherwise once the target is ready.
///
/// # Errors
/// Fails if a proof is missing.
pub fn check_proofs(
    proofs: &[VariantProof],
    at_exit: bool,
    sources: &ProofSources,
) -> StageResult<()> {
    let stage = if at_exit { RunStage::ProofAtExit } else { RunStage::Proof };
    let deadline = sources.clock.now() + PROOF_TIMEOUT;
    for proof in proofs.iter().filter(|proof| proof.at_exit == at_exit) {
        let pattern = Regex::new(&proof.pattern)
            .map_err(|error| stage_failure(stage, format!("'{}': {error}", proof.pattern)))?;
        loop {
            let problem = match read_source(&proof.place, sources) {
                Ok(text) if pattern.is_match(&text) => break,
                Ok(_) => format!("nothing in {} matches", describe_source(&proof.place)),
                Err(problem) => {
                    format!("cannot search {} ({problem}) for", describe_source(&proof.place))
                }
            };
            if at_exit || sources.clock.now() > deadline {
                let reason =
                    format!("{problem} '{}': the variant did not take effect", proof.pattern);
                return Err(stage_failure(stage, reason));
            }
            sources.clock.wait(POLL_INTERVAL);
        }
    }
    Ok(())
}

fn describe_source(source: &ProofSource) -> String {
    match source {
        ProofSource::Stdout => "the target's stdout".to_owned(),
        ProofSource::Stderr => "the target's stderr".to_owned(),
        ProofSource::File(file) => format!("the file '{}'", file.display()),
        ProofSource::Http(path) => format!("the response to '{path}'"),
    }
}

fn read_source(source: &ProofSource, sources: &ProofSources) -> Result<String, String> {
    match source {
        ProofSource::Stdout => Ok(sources.output.stream_text(OutputStream::Stdout)),
        ProofSource::Stderr => Ok(sources.output.stream_text(OutputStream::Stderr)),
        ProofSource::File(file) => read_fresh_file(&sources.directory.join(file), sources.since),
        ProofSource::Http(path) => (sources.ask)(path),
    }
}

/// Reads a file if it was written after `since`.
fn read_fresh_file(file: &Path, since: SystemTime) -> Result<String, String> {
    let modified = std::fs::metadata(file)
        .and_then(|metadata| metadata.modified())
        .map_err(|error| error.to_string())?;
    // Timestamps of files are coarser than the system clock, so a new file can seem slightly older
    // than the run.
    if modified + Duration::from_millis(20) < since {
        return Err("it is older than the run".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Prefix of an output line that is a mark. The name of the mark follows the prefix.
const MARK_PREFIX: &str = "mark:";

/// Number of bytes of each stream that are searched for proofs and marks; later output is ignored.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

/// Output of a process on stdout and stderr, shared with the thread that reads it.
#[derive(Debug, Clone, Default)]
pub struct CapturedOutput(Arc<Mutex<OutputBuffer>>);

#[derive(Debug, Default)]
struct OutputBuffer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Start of the current line in each stream.
    line_starts: [usize; 2],
    marks: BTreeMap<String, Instant>,
}

impl CapturedOutput {
    /// Returns the captured text of one stream.
    pub fn stream_text(&self, stream: OutputStream) -> String {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match stream {
            OutputStream::Stdout => &buffer.stdout,
            OutputStream::Stderr => &buffer.stderr,
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns the time at which the first line with this mark arrived.
    pub fn mark_time(&self, name: &str) -> Option<Instant> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.marks.get(name).copied()
    }
}

impl OutputBuffer {
    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let now = Instant::now();
        let (captured, line_start) = match stream {
            OutputStream::Stdout => (&mut self.stdout, &mut self.line_starts[0]),
            OutputStream::Stderr => (&mut self.stderr, &mut self.line_starts[1]),
        };
        let room = MAX_SEARCHED_BYTES.saturating_sub(captured.len());
        captured.extend_from_slice(&bytes[..bytes.len().min(room)]);
        while let Some(length) = captured[*line_start..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&captured[*line_start..*line_start + length]);
            if let Some(name) = line.strip_prefix(MARK_PREFIX) {
                let mark = name.split_whitespace().next().unwrap_or_default();
                self.marks.entry(mark.to_owned()).or_insert(now);
            }
            *line_start += length + 1;
        }
    }
}

impl ChildConversation for CapturedOutput {
    fn handle_line(&mut self, _line: &[u8]) -> NextStep {
        NextStep::Wait
    }

    fn observe_output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.push(stream, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_lines_split_across_reads() {
        let mut output = CapturedOutput::default();
        output.observe_output(OutputStream::Stderr, b"hello\nmar");
        assert_eq!(output.mark_time("throw"), None);
        output.observe_output(OutputStream::Stdout, b"k:throw\n");
        assert_eq!(output.mark_time("throw"), None, "a line does not continue in another stream");
        output.observe_output(OutputStream::Stderr, b"k:throw now\nmark:throw\n");
        let first = output.mark_time("throw").unwrap();
        output.observe_output(OutputStream::Stderr, b"mark:throw\n");
        assert_eq!(output.mark_time("throw"), Some(first), "the first counts");
        assert_eq!(output.stream_text(OutputStream::Stdout), "k:throw\n");
    }

    #[test]
    fn proofs_are_retried_until_a_timeout_except_at_exit() {
        let proof = |at_exit| VariantProof {
            place: ProofSource::Http("/version".to_owned()),
            pattern: "^v2$".to_owned(),
            at_exit,
        };
        let (output, clock) = (CapturedOutput::default(), WaitClock::movable());
        // Each response advances the clock by a quarter of the timeout.
        let asked = std::cell::Cell::new(0);
        let checked = |at_exit, good_at| {
            asked.set(0);
            let ask = |_: &str| {
                clock.advance(PROOF_TIMEOUT / 4);
                asked.set(asked.get() + 1);
                Ok(if asked.get() == good_at { "v2" } else { "v1" }.to_owned())
            };
            let evidence = ProofSources {
                output: &output,
                directory: Path::new("/"),
                since: SystemTime::now(),
                clock,
                ask: &ask,
            };
            check_proofs(&[proof(at_exit)], at_exit, &evidence).map_err(|why| why.reason)
        };
        assert_eq!(checked(false, 4), Ok(()));
        let reason = checked(false, 100).unwrap_err();
        assert!(reason.contains("did not take effect"), "{reason}");
        assert_eq!(asked.get(), 5, "the last request is sent after the timeout");
        assert!(checked(true, 2).is_err() && asked.get() == 1);
    }
}
