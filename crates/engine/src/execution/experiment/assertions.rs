//! Checks that the intended variant is measured. Searches for the proofs that it took effect
//! ([`check_proofs`]): without a proof, a module that silently failed to load would seem to have no
//! overhead. Sends a single request to check that the intended server answers and that its response
//! is correct ([`check_response`]); the probe before a load is in `load/mod.rs`.

use super::metrics::{CapturedOutput, StageResult, stage_failure};
use crate::execution::load;
use regex::Regex;
use serde_json::{Map, Value};
use speedwell_load::generator::{self, ProbeResponse};
use speedwell_load::load::LoadShare;
use speedwell_machine::process::{self, OutputStream, WaitClock};
use speedwell_model::assignment::{BodyRule, ProofSource, ResponseCheck, VariantProof};
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::RunStage;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    let metadata = std::fs::metadata(file).map_err(|error| error.to_string())?;
    let modified = metadata.modified().map_err(|error| error.to_string())?;
    // Timestamps of files are coarser than the system clock, so a new file can seem slightly older
    // than the run.
    if modified + Duration::from_millis(20) < since {
        return Err("it is older than the run".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Maximum number of bytes that a message shows from a wrong body.
const MAX_SHOWN_BYTES: usize = 120;

/// Sends one request of this load to `url`, or to the path that the rules name, and checks the
/// response.
///
/// # Errors
/// Fails if there is no response, or if the response violates the rules.
pub fn check_response(rules: &ResponseCheck, load: &LoadSpec, url: &str) -> Result<(), String> {
    let url = rules.path.as_ref().map_or_else(|| url.to_owned(), |path| replace_path(url, path));
    let probe = send_single_request(&LoadSpec { url: url.clone(), ..load.clone() })?;
    let contains_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&probe.facts.status);
    if !rules.statuses.iter().any(contains_status) {
        return Err(format!("'{url}' answered {}{}", probe.facts.status, body_excerpt(&probe)));
    }
    let Some(body_rule) = &rules.body else { return Ok(()) };
    check_body(body_rule, &probe)
        .map_err(|violation| format!("the body of '{url}' {violation}{}", body_excerpt(&probe)))
}

/// Sends a plain GET request.
///
/// # Errors
/// Fails if there is no response.
pub fn send_get(url: &str) -> Result<ProbeResponse, String> {
    send_single_request(&LoadSpec { url: url.to_owned(), ..LoadSpec::default() })
}

/// Sends one request of a load.
fn send_single_request(spec: &LoadSpec) -> Result<ProbeResponse, String> {
    let single = spec.clone().single_request();
    // The seed is unused: a single request involves no random choice.
    let job = load::build_job(&single, 0, LoadShare::ONLY).map_err(|error| format!("{error:#}"))?;
    generator::send_probe(&job.load, process::interrupt_flag())
        .map_err(|error| format!("no response from '{}': {error}", spec.url))
}

/// Returns the URL with another path.
pub fn replace_path(url: &str, path: &str) -> String {
    let host_start = url.find("://").map_or(0, |index| index + 3);
    let path_start = url[host_start..].find('/').map_or(url.len(), |index| host_start + index);
    format!("{}/{}", &url[..path_start], path.trim_start_matches('/'))
}

fn body_excerpt(probe: &ProbeResponse) -> String {
    if probe.body.is_empty() {
        return String::new();
    }
    let excerpt = &probe.body[..probe.body.len().min(MAX_SHOWN_BYTES)];
    let excerpt = String::from_utf8_lossy(excerpt);
    format!("; the body begins with '{}'", excerpt.trim_end())
}

/// Explains how a body violates the rule, if it does.
fn check_body(rule: &BodyRule, probe: &ProbeResponse) -> Result<(), String> {
    let text = String::from_utf8_lossy(&probe.body);
    let json = || {
        serde_json::from_slice::<Value>(&probe.body)
            .map_err(|error| format!("is not JSON ({error})"))
    };
    let (is_met, violation) = match rule {
        BodyRule::Regex(pattern) => {
            let regex = Regex::new(pattern)
                .map_err(|error| format!("cannot be matched with '{pattern}': {error}"))?;
            (regex.is_match(&text), format!("does not match '{pattern}'"))
        }
        BodyRule::Contains(substring) => {
            (text.contains(substring.as_str()), format!("does not contain '{substring}'"))
        }
        BodyRule::Json(expected) => (json()? == *expected, format!("is not {expected}")),
        BodyRule::JsonLength(count) => {
            let actual = json()?;
            let length = actual
                .as_array()
                .map(Vec::len)
                .or(actual.as_object().map(Map::len))
                .ok_or("is neither an array nor an object")?;
            (length as u64 == *count, format!("has {length} entries instead of {count}"))
        }
        BodyRule::Bytes(count) => {
            let bytes = probe.facts.body_bytes;
            (bytes == *count, format!("has {bytes} bytes instead of {count}"))
        }
    };
    if is_met { Ok(()) } else { Err(violation) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
