//! Whether a variant took effect. A module that silently failed to load would be measured as "no overhead".

use super::output::Output;
use super::{Fallible, stumble};
use regex::Regex;
use speedwell_model::assignment::{Place, Proof};
use speedwell_model::performed::Stage;
use speedwell_process::Stream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How long a proof may be awaited once the target is ready: it may write a moment after it listens.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks.
const PULSE: Duration = Duration::from_millis(10);

/// Where proofs are looked for.
pub struct Evidence<'a> {
    /// What the target writes.
    pub output: &'a Output,
    /// Its working directory.
    pub directory: &'a Path,
    /// When it was started: older files prove nothing.
    pub since: SystemTime,
    /// The answer to a request for a path.
    pub ask: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Looks for the proofs of this moment.
///
/// # Errors
/// One is missing.
pub fn check(proofs: &[Proof], at_exit: bool, evidence: &Evidence) -> Fallible<()> {
    let stage = if at_exit {
        Stage::ProofAtExit
    } else {
        Stage::Proof
    };
    let begin = Instant::now();
    for proof in proofs.iter().filter(|proof| proof.at_exit == at_exit) {
        let pattern = Regex::new(&proof.pattern)
            .map_err(|error| stumble(stage, format!("'{}': {error}", proof.pattern)))?;
        loop {
            let why = match seen(&proof.place, evidence) {
                Ok(text) if pattern.is_match(&text) => break,
                Ok(_) => format!("nothing in {} matches", told(&proof.place)),
                Err(why) => format!(
                    "{} cannot be read ({why}), where there must be a match of",
                    told(&proof.place)
                ),
            };
            if at_exit || begin.elapsed() > PATIENCE {
                let reason = format!("{why} '{}': the variant did not take effect", proof.pattern);
                return Err(stumble(stage, reason));
            }
            std::thread::sleep(PULSE);
        }
    }
    Ok(())
}

fn told(place: &Place) -> String {
    match place {
        Place::Stdout => "its stdout".to_owned(),
        Place::Stderr => "its stderr".to_owned(),
        Place::File(file) => format!("the file '{}'", file.display()),
        Place::Http(path) => format!("the answer to '{path}'"),
    }
}

fn seen(place: &Place, evidence: &Evidence) -> Result<String, String> {
    match place {
        Place::Stdout => Ok(evidence.output.text(Stream::Stdout)),
        Place::Stderr => Ok(evidence.output.text(Stream::Stderr)),
        Place::File(file) => fresh(&evidence.directory.join(file), evidence.since),
        Place::Http(path) => (evidence.ask)(path),
    }
}

/// A file that was written since then.
fn fresh(file: &Path, since: SystemTime) -> Result<String, String> {
    let written = std::fs::metadata(file).and_then(|about| about.modified());
    let written = written.map_err(|error| error.to_string())?;
    // Clocks of file systems are coarser than those of processes.
    if written + Duration::from_millis(20) < since {
        return Err("it is older than the run".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}
