//! Enumerates the cases of a Node.js file by running its own code, without measuring.
//!
//! A preload replaces the fork that would start a case, and hands over what would have been
//! started. Filters, groups and future options of the original work without further support,
//! because the original itself runs.

use crate::job::{Request, Source};
use crate::remembered::{self, Depends, Origin};
use crate::sources;
use serde::Deserialize;
use speedwell_model::{Cause, Value, Variant};
use speedwell_process::{Channel, Conversation, Ended, Next, Outcome, Spec};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Variables of other roles that must not leak into a process.
pub(super) const FOREIGN: [&str; 6] = [
    "NODE_RUN_BENCHMARK_FN",
    "NODE_CHANNEL_FD",
    "NODE_CHANNEL_SERIALIZATION_MODE",
    "SPEEDWELL_FDS",
    "SPEEDWELL_PROBE_FD",
    "NODE_BENCHMARK_FLAGS",
];

/// Output of the preload at the end of the process.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Enumeration {
    pub cases: Vec<Recorded>,
    #[serde(default)]
    pub needs_parent: bool,
    #[serde(default)]
    pub error: Option<Thrown>,
    /// Parameters that the file declares, if its library could be observed.
    #[serde(default)]
    pub declared: Option<Vec<Declared>>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    #[serde(default)]
    program: PathBuf,
    #[serde(default)]
    depends: Depends,
}

impl Enumeration {
    /// Files that were loaded or read during the enumeration.
    pub fn loaded(&self) -> &[PathBuf] {
        &self.depends.files
    }
}

/// A parameter as declared by the file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Declared {
    pub name: String,
    pub values: Vec<Value>,
}

/// One case that would have been started.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Recorded {
    pub args: Vec<String>,
    #[serde(rename = "execArgv")]
    pub flags: Vec<String>,
    /// In a trial, the same case with its regular values; see [`crate::Job::measured`].
    #[serde(skip)]
    pub measured: Option<Box<Recorded>>,
}

/// An exception that ended the enumeration.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Thrown {
    #[serde(default)]
    pub class: String,
    #[serde(default)]
    pub message: String,
}

/// Result of an enumeration.
pub(super) enum Probed {
    /// The file listed its cases.
    Cases(Enumeration),
    /// It did not end, or cannot list them: all its cases must be executed together.
    NeedsParent,
    /// It failed, or reports that it cannot run here.
    Failed(Cause, Spec, Box<Option<Outcome>>),
}

/// Starts `source` under the preload with these arguments.
pub(super) fn probe(source: &Source, request: &Request, arguments: Vec<String>) -> Probed {
    let mut spec = Spec::new(&request.program);
    spec.directory = Some(source.directory.clone());
    spec.unset = FOREIGN.map(str::to_owned).to_vec();
    spec.limit = request.limit;
    let folder = match sources::NODE.folder() {
        Ok(folder) => folder,
        Err(cause) => return Probed::Failed(cause, spec, Box::new(None)),
    };
    spec.channel = Channel::Pipe("SPEEDWELL_PROBE_FD");
    spec.arguments = vec![
        "-r".into(),
        folder.join("probe.cjs").to_string_lossy().into_owned(),
        source.file.to_string_lossy().into_owned(),
    ];
    spec.arguments.extend(arguments);
    // Replay command without the preload.
    let bare = Spec {
        channel: Channel::None,
        arguments: spec.arguments[2..].to_vec(),
        ..spec.clone()
    };
    let mut spec = super::http_tool::with_surroundings(spec, None);
    spec.environment.extend(search_path(&request.variant));
    let mut handed = Handed(None);
    match remembered::ask(&spec, &mut handed, dependencies_in) {
        Ok(outcome) => judge(handed.0, bare, outcome),
        Err(error) => {
            let reason = crate::attempt::start_reason(&spec, &error);
            Probed::Failed(Cause::Start { reason }, bare, Box::new(None))
        }
    }
}

/// Returns the module search path of a variant. It determines what a file loads; other variables do
/// not affect its declarations.
pub fn search_path(variant: &Variant) -> Option<(String, String)> {
    let mut variables = variant.environment.iter();
    variables
        .find(|(name, _)| name == remembered::SEARCH_PATH)
        .cloned()
}

/// Returns what an enumeration depends on, if it succeeded.
fn dependencies_in(line: &[u8]) -> Option<Origin> {
    let handed: Enumeration = serde_json::from_slice(line).ok()?;
    let good = handed.error.is_none() && !handed.needs_parent && !handed.cases.is_empty();
    good.then_some(Origin {
        program: handed.program,
        depends: handed.depends,
    })
}

fn judge(handed: Option<Enumeration>, spec: Spec, outcome: Option<Outcome>) -> Probed {
    let Some(outcome) = outcome else {
        // Only successful enumerations are cached.
        return handed.map_or(Probed::NeedsParent, Probed::Cases);
    };
    if matches!(
        outcome.ended,
        Ended::Timeout | Ended::Lingered | Ended::Interrupted
    ) {
        return Probed::NeedsParent;
    }
    let output = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    let nothing = handed.as_ref().is_none_or(|handed| handed.cases.is_empty());
    if nothing && let Some(reason) = skip_reason(&output) {
        return Probed::Failed(Cause::Skipped { reason }, spec, Box::new(Some(outcome)));
    }
    let thrown = handed.as_ref().and_then(|handed| handed.error.as_ref());
    let cause = thrown.map(|thrown| Cause::Invalid {
        reason: format!(
            "{}: {}",
            thrown.class,
            thrown.message.lines().next().unwrap_or_default()
        ),
    });
    if let Some(cause) = cause.or_else(|| outcome.cause(spec.limit)) {
        return Probed::Failed(cause, spec, Box::new(Some(outcome)));
    }
    match handed {
        Some(handed) if !handed.needs_parent => Probed::Cases(handed),
        _ => Probed::NeedsParent,
    }
}

/// Receives the single line of the preload.
struct Handed(Option<Enumeration>);

impl Conversation for Handed {
    fn received(&mut self, line: &[u8]) -> Next {
        if let Ok(handed) = serde_json::from_slice(line) {
            self.0 = Some(handed);
        }
        Next::Wait
    }
}

/// Explains why a script that reported nothing cannot run here, if it says so.
pub fn skip_reason(output: &str) -> Option<String> {
    output
        .contains("Binding failed to load")
        .then(|| "its native addon is not built (Binding failed to load)".to_owned())
}
