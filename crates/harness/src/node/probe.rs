//! Enumeration of a Node.js file: its own code computes its cases, nothing is measured.
//!
//! A preload replaces the fork that would start a case and hands over what would have been
//! started. Filters, groups and future options of the original come for free, because it is the
//! original that runs.

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

/// What the preload hands over when the process ends.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Enumeration {
    pub cases: Vec<Recorded>,
    #[serde(default)]
    pub needs_parent: bool,
    #[serde(default)]
    pub error: Option<Thrown>,
    /// The parameters that the file declares, where its library could be observed.
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
    /// Files that were loaded or read to learn this.
    pub fn loaded(&self) -> &[PathBuf] {
        &self.depends.files
    }
}

/// A parameter as the file declares it.
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
    /// In a trial the same case with the values that are measured; see [`crate::Job::measured`].
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

/// How an enumeration went.
pub(super) enum Probed {
    /// The file told its cases.
    Cases(Enumeration),
    /// It did not end, or cannot tell: all its cases must be executed together.
    NeedsParent,
    /// It failed or says that it cannot run here.
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
    // A failure is repeated without us.
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

/// Where a variant has its modules: what a file loads depends on it, though what it declares depends on no variable.
pub fn search_path(variant: &Variant) -> Option<(String, String)> {
    let mut variables = variant.environment.iter();
    variables
        .find(|(name, _)| name == remembered::SEARCH_PATH)
        .cloned()
}

/// What the record depends on, if it is one of cases.
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
        // Only records of cases are remembered.
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

/// Takes the one line that the preload hands over.
struct Handed(Option<Enumeration>);

impl Conversation for Handed {
    fn received(&mut self, line: &[u8]) -> Next {
        if let Ok(handed) = serde_json::from_slice(line) {
            self.0 = Some(handed);
        }
        Next::Wait
    }
}

/// Why a script that reported nothing cannot run here, if it says so.
pub fn skip_reason(output: &str) -> Option<String> {
    output
        .contains("Binding failed to load")
        .then(|| "its native addon is not built (Binding failed to load)".to_owned())
}
