//! Enumerates the cases of a Node.js file by running its own code, without measuring.
//!
//! A preloaded script intercepts the start of each case and reports the case instead. The folder's
//! own `common.js` runs, so its filters, groups and future options work without further support.

use crate::description_cache::{self, DescriptionInputs, DescriptionOrigin};
use crate::job::{BenchmarkSource, DescribeRequest};
use crate::sources;
use serde::Deserialize;
use speedwell_machine::process::{
    ChannelKind, ChildConversation, NextStep, ProcessEnd, ProcessOutcome, ProcessSpec,
};
use speedwell_model::{FailureCause, ParameterValue, Variant};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variables that a process must not inherit, because they would change what it does.
pub(super) const LEAKED_VARIABLES: [&str; 6] = [
    "NODE_RUN_BENCHMARK_FN",
    "NODE_CHANNEL_FD",
    "NODE_CHANNEL_SERIALIZATION_MODE",
    "SPEEDWELL_FDS",
    "SPEEDWELL_PROBE_FD",
    "NODE_BENCHMARK_FLAGS",
];

/// Output of the preloaded script at the end of the process.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EnumeratedCases {
    pub cases: Vec<ObservedCase>,
    #[serde(default)]
    pub needs_parent: bool,
    #[serde(default)]
    pub error: Option<ThrownError>,
    /// Parameters that the file declares, if its library could be observed.
    #[serde(default)]
    pub declared: Option<Vec<ObservedParameter>>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    #[serde(default)]
    program: PathBuf,
    #[serde(default)]
    depends: DescriptionInputs,
}

impl EnumeratedCases {
    /// Files that were loaded or read during the enumeration.
    pub fn loaded(&self) -> &[PathBuf] {
        &self.depends.files
    }
}

/// A parameter as declared by the file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ObservedParameter {
    pub name: String,
    pub values: Vec<ParameterValue>,
}

/// One case that would have been started.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ObservedCase {
    pub args: Vec<String>,
    #[serde(rename = "execArgv")]
    pub flags: Vec<String>,
    /// In a trial, the same case with its regular values; see [`crate::BenchmarkJob::measured`].
    #[serde(skip)]
    pub measured: Option<Box<ObservedCase>>,
}

/// An exception that ended the enumeration.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ThrownError {
    #[serde(default)]
    pub class: String,
    #[serde(default)]
    pub message: String,
}

/// Result of an enumeration.
pub(super) enum ProbeOutcome {
    /// The file listed its cases.
    Cases(EnumeratedCases),
    /// The file did not end, or cannot list its cases, so all of them must be executed together.
    NeedsParent,
    /// The file failed, or reported that it cannot run here.
    Failed(FailureCause, ProcessSpec, Box<Option<ProcessOutcome>>),
}

/// Runs the file of `source` with the preloaded script and these arguments.
pub(super) fn enumerate_cases(
    source: &BenchmarkSource,
    request: &DescribeRequest,
    arguments: Vec<String>,
) -> ProbeOutcome {
    let mut spec = ProcessSpec::new(&request.program);
    spec.directory = Some(source.directory.clone());
    spec.unset = LEAKED_VARIABLES.map(str::to_owned).to_vec();
    spec.limit = request.limit;
    let folder = match sources::NODE.folder() {
        Ok(folder) => folder,
        Err(cause) => return ProbeOutcome::Failed(cause, spec, Box::new(None)),
    };
    spec.channel = ChannelKind::Pipe("SPEEDWELL_PROBE_FD");
    spec.arguments = vec![
        "-r".into(),
        folder.join("probe.cjs").to_string_lossy().into_owned(),
        source.file.to_string_lossy().into_owned(),
    ];
    spec.arguments.extend(arguments);
    // The replay command starts the file without the preloaded script.
    let bare = ProcessSpec {
        channel: ChannelKind::None,
        arguments: spec.arguments[2..].to_vec(),
        ..spec.clone()
    };
    let mut spec = super::http_tool::with_isolated_environment(spec, None);
    spec.environment.extend(search_path(&request.variant));
    let mut enumerated = PreloadOutput(None);
    match description_cache::ask_cached(&spec, &mut enumerated, dependencies_in) {
        Ok(outcome) => interpret_outcome(enumerated.0, bare, outcome),
        Err(error) => {
            let reason = crate::run_outcome::start_reason(&spec, &error);
            ProbeOutcome::Failed(FailureCause::Start { reason }, bare, Box::new(None))
        }
    }
}

/// Returns the module search path of a variant. The path determines what a file loads; other
/// variables do not affect what the file declares.
pub fn search_path(variant: &Variant) -> Option<(String, String)> {
    let mut variables = variant.environment.iter();
    variables.find(|(name, _)| name == description_cache::SEARCH_PATH).cloned()
}

/// Returns what an enumeration depends on, if it succeeded.
fn dependencies_in(line: &[u8]) -> Option<DescriptionOrigin> {
    let enumerated: EnumeratedCases = serde_json::from_slice(line).ok()?;
    let is_complete =
        enumerated.error.is_none() && !enumerated.needs_parent && !enumerated.cases.is_empty();
    is_complete
        .then_some(DescriptionOrigin { program: enumerated.program, depends: enumerated.depends })
}

fn interpret_outcome(
    enumerated: Option<EnumeratedCases>,
    spec: ProcessSpec,
    outcome: Option<ProcessOutcome>,
) -> ProbeOutcome {
    let Some(outcome) = outcome else {
        // Only successful enumerations are cached.
        return enumerated.map_or(ProbeOutcome::NeedsParent, ProbeOutcome::Cases);
    };
    if matches!(outcome.ended, ProcessEnd::Timeout | ProcessEnd::Lingered | ProcessEnd::Interrupted)
    {
        return ProbeOutcome::NeedsParent;
    }
    let output = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    let is_empty = enumerated.as_ref().is_none_or(|enumerated| enumerated.cases.is_empty());
    if is_empty && let Some(reason) = skip_reason(&output) {
        return ProbeOutcome::Failed(
            FailureCause::Skipped { reason },
            spec,
            Box::new(Some(outcome)),
        );
    }
    let thrown = enumerated.as_ref().and_then(|enumerated| enumerated.error.as_ref());
    let cause = thrown.map(|thrown| FailureCause::Invalid {
        reason: format!("{}: {}", thrown.class, thrown.message.lines().next().unwrap_or_default()),
    });
    if let Some(cause) = cause.or_else(|| outcome.failure_cause(spec.limit)) {
        return ProbeOutcome::Failed(cause, spec, Box::new(Some(outcome)));
    }
    match enumerated {
        Some(enumerated) if !enumerated.needs_parent => ProbeOutcome::Cases(enumerated),
        _ => ProbeOutcome::NeedsParent,
    }
}

/// Receives the single line that the preloaded script writes.
struct PreloadOutput(Option<EnumeratedCases>);

impl ChildConversation for PreloadOutput {
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        if let Ok(enumerated) = serde_json::from_slice(line) {
            self.0 = Some(enumerated);
        }
        NextStep::Wait
    }
}

/// If a script reported nothing and its output says that it cannot run here, returns the reason.
pub fn skip_reason(output: &str) -> Option<String> {
    output
        .contains("Binding failed to load")
        .then(|| "its native addon is not built (Binding failed to load)".to_owned())
}
