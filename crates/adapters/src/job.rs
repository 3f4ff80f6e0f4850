//! Defines the inputs for selecting benchmarks, for describing a benchmark file (asking it for its
//! cases) and for performing a case. The inputs are plain data, which a plan stores so that its
//! session can be resumed.

use crate::layout::RunLayout;
use crate::part::BenchmarkPart;
use crate::shared_services::SharedServicePool;
use anyhow::{Context, bail};
use regex::Regex;
use serde::{Deserialize, Serialize};
use speedwell_config::LazyDefinition;
use speedwell_config::adapter::SuiteAdapter;
use speedwell_machine::process::CpuSet;
use speedwell_model::{
    Case, InstructionCounting, ParameterValue, SampleDivision, SamplingOptions, SessionEvent,
    Snippet, SnippetLanguage, StepFailure, ValueKind, Variant,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Kind of a benchmark file, which selects its harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A Node.js file of a Node.js core folder (one with `common.js`), driven over Node.js's own
    /// channel.
    NodeCore,
    /// A Node.js file that uses the npm package `speedwell`, driven over the harness protocol.
    Node,
    /// Benchmarks of another framework. An adapter describes the framework's options.
    Suite,
    /// A C++ source file that includes `speedwell.hpp`. It is compiled, and the resulting program
    /// is driven over the protocol.
    Cpp,
    /// A prebuilt program whose C++ source includes `speedwell.hpp`, driven over the protocol.
    Program,
    /// A Python file that imports the package `speedwell`, driven over the protocol.
    Python,
    /// A definition file of HTTP loads that are measured like benchmark files.
    Load,
    /// A definition file of an experiment, which is measured separately.
    Experiment,
    /// A snippet, measured by the harness of its language.
    #[serde(alias = "code")]
    Snippet(SnippetLanguage),
    /// Made-up numbers from a text file, for tests of the whole program.
    Fake,
}

impl SourceKind {
    /// Whether a file may hold several benchmarks, each with its own name.
    pub fn may_hold_several(self) -> bool {
        use SourceKind::*;
        matches!(self, Suite | Cpp | Program | Python | Load | Experiment)
    }

    /// Whether the harness divides a run into samples as `--samples`, `--time`, `--iterations` and
    /// `--warmup` request.
    pub fn divides_runs(self) -> bool {
        use SourceKind::*;
        matches!(self, Suite | Cpp | Program | Python | Snippet(_))
    }

    /// Whether the harness can record a series from the first iteration on.
    pub fn records_series(self) -> bool {
        use SourceKind::*;
        matches!(self, Cpp | Program | Python | Snippet(_) | Fake)
    }
}

/// A benchmark file and its location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSource {
    /// Kind of the file, which selects its harness.
    pub kind: SourceKind,
    /// Name of the benchmark (`group/name`), as far as it is known without executing the file.
    pub name: String,
    /// Absolute path of the file.
    pub file: PathBuf,
    /// Folder to which `name` is relative. Its subfolders are the groups.
    pub root: PathBuf,
    /// Working directory of the benchmark's processes.
    pub directory: PathBuf,
    /// Parsed definition file. The file is read once per session, so that all runs use the same
    /// text. A plan stores this text in its design, once for all jobs.
    #[serde(skip)]
    pub definition: Option<Arc<LazyDefinition>>,
    /// Adapter for the file's benchmark framework, if the file uses one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::suites::serialize_adapter",
        deserialize_with = "crate::suites::deserialize_adapter"
    )]
    pub suite: Option<Arc<SuiteAdapter>>,
    /// The user's adapters that may apply to programs built from this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_suites: Vec<Arc<SuiteAdapter>>,
    /// Whether the file is a build artifact, such as a jar or a bundle, instead of the user's
    /// source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_artifact: bool,
}

impl BenchmarkSource {
    /// Creates a source below `root`, named after its relative path unless it is renamed later.
    pub fn new(kind: SourceKind, file: &Path, root: &Path, directory: &Path) -> BenchmarkSource {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
        BenchmarkSource {
            kind,
            name: name.replace('\\', "/"),
            file: file.to_owned(),
            root: root.to_owned(),
            directory: directory.to_owned(),
            definition: None,
            suite: None,
            user_suites: Vec::new(),
            is_artifact: false,
        }
    }

    /// Adapter for the file's benchmark framework, if the file uses one.
    pub(crate) fn adapter(&self) -> Option<&SuiteAdapter> {
        self.suite.as_deref()
    }

    /// Whether the file as a whole is measured: it is a prebuilt program or artifact, or a package
    /// that is built first.
    pub fn is_program(&self) -> bool {
        let is_built =
            |adapter: &SuiteAdapter| adapter.keys.program.is_none() || adapter.keys.build.is_some();
        self.is_artifact || self.kind == SourceKind::Program || self.adapter().is_some_and(is_built)
    }

    /// Returns the variant's version of the file: its own artifact, or the file in its worktree.
    pub fn under(&self, variant: &Variant) -> Cow<'_, BenchmarkSource> {
        if variant.worktree.is_none() && variant.artifact.is_none() {
            return Cow::Borrowed(self);
        }
        let relocated = |path: &Path| variant.path_of(path).into_owned();
        Cow::Owned(BenchmarkSource {
            file: variant.artifact.clone().unwrap_or_else(|| relocated(&self.file)),
            root: relocated(&self.root),
            directory: relocated(&self.directory),
            ..self.clone()
        })
    }

    /// Returns the command-line operand that selects this source.
    pub fn to_operand(&self) -> String {
        let file = self.file.to_string_lossy();
        match self.adapter() {
            Some(adapter) if adapter.keys.recognise.is_none() => format!("{}:{file}", adapter.name),
            _ => file.into_owned(),
        }
    }

    /// Returns the parsed definition file.
    ///
    /// # Errors
    /// Fails if the source is not a definition file, or the file has not been read.
    pub fn definition(&self) -> anyhow::Result<&LazyDefinition> {
        let definition = self.definition.as_deref();
        definition.with_context(|| format!("'{}' has not been read", self.file.display()))
    }
}

/// Request to describe a file.
#[derive(Debug, Clone)]
pub struct DescribeRequest {
    /// The file.
    pub source: BenchmarkSource,
    /// Program of the baseline.
    pub program: PathBuf,
    /// The baseline itself, for harnesses that must build a file before they can describe it.
    pub variant: Variant,
    /// Values that replace the declared values of parameters, in the given order.
    pub sets: Vec<(String, String)>,
    /// The user's selection. Its patterns are for harnesses that execute a benchmark to learn its
    /// cases.
    pub selection: BenchmarkSelection,
    /// Time limit of the description.
    pub limit: Duration,
}

/// Selection options.
#[derive(Debug, Clone, Default)]
pub struct BenchmarkSelection {
    /// Keeps a benchmark if any of these patterns matches its name. Without patterns, keeps all.
    pub filters: Vec<Regex>,
    /// Drops a benchmark if any of these patterns matches its name.
    pub excludes: Vec<Regex>,
    /// Parameters with their values, in the given order. A parameter with several values is
    /// measured with each of them.
    pub sets: Vec<(String, String)>,
    /// Values for single benchmarks, by file name (`group/name.js`). For the same parameter, they
    /// take precedence over the values for all benchmarks.
    pub of_benchmarks: Vec<(String, (String, String))>,
    /// Values for all benchmark files at or below a path, used instead of `sets`.
    pub of_files: Vec<(PathBuf, Vec<(String, String)>)>,
    /// Cases to keep of the benchmark files at or below a path, as in `FILE::NAME`.
    pub parts: Vec<(PathBuf, BenchmarkPart)>,
    /// Whether and how cases are tried with small values instead of measured.
    pub trial: TrialMode,
    /// HTTP client for loads that do not name a client.
    pub usual_tool: DefaultLoadTool,
}

impl BenchmarkSelection {
    /// Whether the benchmark of that name is selected.
    pub fn selects_name(&self, name: &str) -> bool {
        let any = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(name));
        (self.filters.is_empty() || any(&self.filters)) && !any(&self.excludes)
    }

    /// Decides which benchmarks are executed to learn their cases. The name of a case begins with
    /// the name of its benchmark.
    ///
    /// If there are filters and each matches the name of some benchmark, only the matching
    /// benchmarks are executed, as in `go test -bench`. If a filter matches no benchmark, it may
    /// still match cases, so all benchmarks are executed.
    pub fn select_benchmarks(&self, names: &[String]) -> Vec<bool> {
        let matching = |filter: &Regex| names.iter().any(|name| filter.is_match(name));
        let finds_all = self.filters.is_empty() || !self.filters.iter().all(matching);
        let is_wanted =
            |name: &String| finds_all || self.filters.iter().any(|filter| filter.is_match(name));
        // A pattern excludes a whole benchmark only if it also matches the name followed by a slash
        // and any text. A pattern with an anchor at the end of the name excludes no benchmark.
        let any_case = |name: &String| format!("{name}/\u{e000}\u{e001}");
        let is_excluded = |name: &String| {
            let mut excludes = self.excludes.iter();
            excludes.any(|exclude| exclude.is_match(name) && exclude.is_match(&any_case(name)))
        };
        (names.iter()).map(|name| is_wanted(name) && !is_excluded(name)).collect()
    }

    /// Returns the values for a file. A value for this file alone replaces the parameter's values
    /// for all files.
    pub fn sets_of(&self, name: &str, file: &Path) -> Vec<(String, String)> {
        let file_entry = self.of_files.iter().find(|(path, _)| file.starts_with(path));
        let mut sets = file_entry.map_or(&self.sets, |(_, sets)| sets).clone();
        let replacements: Vec<_> = self.of_benchmark(name).cloned().collect();
        sets.retain(|(key, _)| replacements.iter().all(|(replaced, _)| replaced != key));
        sets.extend(replacements);
        sets
    }

    /// Values for the benchmark file of that name alone.
    pub fn of_benchmark(&self, name: &str) -> impl Iterator<Item = &(String, String)> {
        let values = self.of_benchmarks.iter();
        values.filter(move |(key, _)| key == name).map(|(_, set)| set)
    }

    /// Whether a measured case is selected, judging by the name of its benchmark and by its
    /// parameter values.
    pub fn selects_case(&self, case: &Case) -> bool {
        let is_permitted = |(name, value): &(String, ParameterValue)| {
            permits_value(&self.sets, name, &value.plain())
        };
        self.selects_name(&case.benchmark) && case.values.iter().all(is_permitted)
    }

    /// Parses `NAME=V[,V...]`, the argument of `--set`.
    ///
    /// # Errors
    /// Fails if the argument has no `=` or an empty name.
    pub fn parse_set(text: &str) -> anyhow::Result<Vec<(String, String)>> {
        match text.split_once('=') {
            Some((name, values)) if !name.is_empty() => Ok(values
                .split(',')
                .map(|value| (name.to_owned(), Self::expand_number(value)))
                .collect()),
            _ => bail!("cannot parse '{text}': expected NAME=VALUE[,VALUE...]"),
        }
    }

    /// Adds the values in lines such as `buffers/copy.js n=1000 len=16`. Such a line gives values
    /// for the named benchmark file alone. The values of a line without a name apply to all files.
    /// Ignores empty lines and lines that begin with `#`.
    ///
    /// # Errors
    /// Fails if a line has no value; the message gives the number of the line.
    pub fn add_lines(&mut self, text: &str) -> anyhow::Result<()> {
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refusal = || {
                let number = index + 1;
                format!("cannot parse line {number}, '{line}': expected 'group/file NAME=VALUE'")
            };
            let before_equals = line.split_once('=').with_context(refusal)?.0;
            let name = before_equals.rsplit_once(' ').map(|(name, _)| name);
            let (name, words) =
                name.map_or(("", line), |name| (name.trim_end(), &line[name.len()..]));
            for (parameter, value) in Case::with_values(name, words).with_context(refusal)?.values {
                let set = (parameter, Self::expand_number(&value.plain()));
                if name.is_empty() {
                    self.sets.push(set)
                } else {
                    self.of_benchmarks.push((name.to_owned(), set))
                }
            }
        }
        Ok(())
    }

    /// Expands `10k` and `2M`, because benchmarks read plain numbers; leaves other strings
    /// unchanged.
    pub fn expand_number(value: &str) -> String {
        let with_suffix = value.ends_with(['k', 'M', 'G']);
        let number = ParameterValue::parse(value, ValueKind::Number).filter(|_| with_suffix);
        number.map_or_else(|| value.to_owned(), |number| number.to_string())
    }
}

/// Whether the user's values permit this value of a parameter: it is among them, or there are none
/// for the parameter.
pub(crate) fn permits_value(sets: &[(String, String)], name: &str, value: &str) -> bool {
    let mut wanted = sets.iter().filter(|(key, _)| key == name).peekable();
    wanted.peek().is_none() || wanted.any(|(_, wanted)| wanted == value)
}

/// Client of HTTP loads if neither the file nor the user names one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefaultLoadTool {
    /// The built-in generator.
    #[default]
    Speedwell,
    /// The tool that Node.js core would use, for our drop-in replacements of its scripts.
    AsNodeCore,
}

impl DescribeRequest {
    /// Returns the user's values as `name=value`.
    pub fn assignments(&self) -> Vec<String> {
        self.sets.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Builds a job without values: the common part of all cases of a file.
    pub(crate) fn draft_job(&self) -> BenchmarkJob {
        BenchmarkJob {
            test: self.selection.trial != TrialMode::No,
            ..BenchmarkJob::new(self.source.clone(), &self.source.name)
        }
    }

    /// Builds the job of a case with known values.
    pub(crate) fn job_for_case(&self, case: Case) -> BenchmarkJob {
        let values = case.values.iter();
        BenchmarkJob {
            label: case.id(),
            arguments: values.map(|(name, value)| format!("{name}={}", value.plain())).collect(),
            case: Some(case),
            ..self.draft_job()
        }
    }
}

/// Whether to try a file instead of measuring it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrialMode {
    /// Measure.
    #[default]
    No,
    /// Perform only the case that the file itself selects for trials.
    Own,
    /// Perform every combination of non-numeric values, with the small numbers that the file uses
    /// for trials.
    EveryWord,
}

/// How a job is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartMode {
    /// One process that executes exactly one case.
    Direct,
    /// The file starts its cases itself; all of them together form one run.
    Parent,
}

/// One case of a file, which can be performed any number of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkJob {
    /// The file.
    pub source: BenchmarkSource,
    /// The case id, as far as it is known before the first run.
    pub label: String,
    /// How the job is started.
    pub route: StartMode,
    /// Flags for the program.
    pub flags: Vec<String>,
    /// `name=value` for every parameter, in the order in which the case records the values.
    pub arguments: Vec<String>,
    /// Pairs of variant and case name, for the variants under which the case has another name than
    /// [`BenchmarkJob::own_name`]. A comparison may pair benchmarks with different names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(String, String)>,
    /// The jobs of variants that perform a benchmark or parameter value of their own, by the names
    /// of the variants. Their results belong to this job's case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sides: Vec<(String, BenchmarkJob)>,
    /// How the framework identifies the case, if the case belongs to a framework.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_suite: Option<SuiteCase>,
    /// Whether this is a trial with small values.
    pub test: bool,
    /// HTTP tool that the process uses. Its `PATH` hides the other HTTP tools that we support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_tool: Option<String>,
    /// Why the job cannot be performed on this machine; `None` if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The case with declared value kinds, if the description gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// The measured snippet, if all variants share it.
    #[serde(alias = "code", default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// How the job's runs are divided into samples, if this differs from the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleDivision>,
    /// In a trial with smaller values, the same case with its regular values. It is performed if
    /// the trial fails, because a small value may contradict another parameter.
    #[serde(skip)]
    pub measured: Option<Box<BenchmarkJob>>,
}

impl BenchmarkJob {
    /// Whether the job measures a snippet, alone or as one of several variants.
    pub fn is_snippet(&self) -> bool {
        matches!(self.source.kind, SourceKind::Snippet(_))
    }

    /// Creates a job that only starts the program, without flags, arguments or a case.
    pub fn new(source: BenchmarkSource, label: &str) -> BenchmarkJob {
        BenchmarkJob {
            source,
            label: label.to_owned(),
            route: StartMode::Direct,
            flags: Vec::new(),
            arguments: Vec::new(),
            names: Vec::new(),
            sides: Vec::new(),
            in_suite: None,
            test: false,
            http_tool: None,
            unavailable: None,
            case: None,
            snippet: None,
            samples: None,
            measured: None,
        }
    }

    /// Returns the case; without values if the description does not give it.
    pub(crate) fn known_case(&self) -> Case {
        self.case.clone().unwrap_or_else(|| Case::new(&self.source.name, Vec::new()))
    }

    /// Returns the case; if the description does not give it, the case that the label names.
    pub(crate) fn described_case(&self) -> Case {
        let from_label = || self.label_as_case().unwrap_or_else(|| Case::new(&self.label, vec![]));
        self.case.clone().unwrap_or_else(from_label)
    }

    /// Returns the job that the variant performs.
    pub fn for_variant(&self, variant: &str) -> &BenchmarkJob {
        self.sides.iter().find(|(name, _)| name == variant).map_or(self, |(_, job)| job)
    }

    /// Number of workers that the case requests; one by default.
    pub fn worker_count(&self) -> u32 {
        self.case.as_ref().and_then(Case::workers).unwrap_or(1)
    }

    /// Returns the snippet measured under the variant, with the values of the case substituted.
    pub fn snippet_under<'a>(&'a self, variant: &'a Variant) -> Option<Cow<'a, Snippet>> {
        let snippet = variant.snippet.as_ref().or(self.snippet.as_ref())?;
        let values = self.case.as_ref().map(|case| case.values.as_slice());
        Some(snippet.with_defaults(values.unwrap_or_default()))
    }

    /// Returns the job with the files of the variant.
    pub fn under(&self, variant: &Variant) -> Cow<'_, BenchmarkJob> {
        if variant.worktree.is_none() && variant.artifact.is_none() {
            return Cow::Borrowed(self);
        }
        let relocated = |path: PathBuf| variant.path_of(&path).into_owned();
        let snippet = self.snippet.clone().map(|snippet| Snippet {
            paths: snippet.paths.into_iter().map(relocated).collect(),
            ..snippet
        });
        Cow::Owned(BenchmarkJob {
            source: self.source.under(variant).into_owned(),
            snippet,
            ..self.clone()
        })
    }

    /// Name of the case under the variant.
    pub fn name_under(&self, variant: &str) -> &str {
        let renamed = self.names.iter().find(|(key, _)| key == variant);
        renamed.map_or(self.own_name(), |(_, name)| name)
    }

    /// Name of the case in its program.
    pub fn own_name(&self) -> &str {
        (self.in_suite.as_ref()).map_or(&self.label, |suite_case| &suite_case.name)
    }

    /// Name of the benchmark under the variant: the name of the case without parameter values.
    pub fn benchmark_under(&self, variant: &str) -> Option<&str> {
        let case = self.case.as_ref()?;
        let id = case.id();
        let values = id.strip_prefix(&case.benchmark).unwrap_or_default();
        let benchmark = self.name_under(variant).strip_suffix(values);
        Some(benchmark.unwrap_or(&case.benchmark))
    }

    /// Parses the label as a case, guessing the kinds of its values.
    pub fn label_as_case(&self) -> Option<Case> {
        let values = self.label.strip_prefix(&self.source.name)?;
        Case::with_values(&self.source.name, values).ok()
    }
}

/// A case as its framework identifies it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteCase {
    /// Name that selects the case on the command line.
    pub name: String,
    /// The program that contains the case, if a package has several programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A declared parameter with its values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DeclaredParameter {
    /// Parameter name.
    pub name: String,
    /// Distinct values of all cases, in order of appearance.
    pub values: Vec<ParameterValue>,
}

impl DeclaredParameter {
    /// Collects the parameters of all cases, given the values of one case after another.
    pub(crate) fn collect(
        values: impl IntoIterator<Item = (String, ParameterValue)>,
    ) -> Vec<DeclaredParameter> {
        let mut found: Vec<DeclaredParameter> = Vec::new();
        for (name, value) in values {
            match found.iter_mut().find(|parameter| parameter.name == name) {
                Some(parameter) if parameter.values.contains(&value) => {}
                Some(parameter) => parameter.values.push(value),
                None => found.push(DeclaredParameter { name, values: vec![value] }),
            }
        }
        found
    }
}

/// Result of a description.
#[derive(Debug, Clone, Default)]
pub struct BenchmarkDescription {
    /// Cases in the order of the file.
    pub jobs: Vec<BenchmarkJob>,
    /// Declared parameters.
    pub parameters: Vec<DeclaredParameter>,
    /// Why there are no cases, or why a case cannot be performed here.
    pub failure: Option<StepFailure>,
    /// Warnings for the user, as whole sentences.
    pub warnings: Vec<String>,
    /// Versions of the program and its components, if it reported them.
    pub versions: BTreeMap<String, String>,
    /// Versions of benchmark frameworks other than Speedwell, by name.
    pub suites: BTreeMap<String, String>,
    /// Files loaded during the description, if the language reports them.
    pub loaded: Vec<PathBuf>,
}

/// Context of one run. A slot is a planned run.
#[derive(Debug, Clone)]
pub struct RunContext<'a> {
    /// The job that the variant performs.
    pub job: &'a BenchmarkJob,
    /// The variant.
    pub variant: &'a Variant,
    /// The resolved program.
    pub program: PathBuf,
    /// Position of the run in the plan.
    pub slot: u32,
    /// Number of runs of this job and variant that precede the run in the plan.
    pub ordinal: u32,
    /// Number of earlier executions of the slot that were disturbed.
    pub repeated: u32,
    /// Seed of the run's random choices, shared by all runs of a block, so that all variants do the
    /// same work.
    pub seed: u64,
    /// The sampling options of the session: the run's time limit, the parts of the division that
    /// the user requested, and the compared clock. Some harnesses set up the processor-time clock
    /// only if that clock is compared, because the set-up is slow.
    pub sampling: &'a SamplingOptions,
    /// Division into samples, if the harness controls the loop.
    pub samples: SampleDivision,
    /// Whether to record a series from the first iteration on. Only the reference loop then runs
    /// between samples.
    pub is_series: bool,
    /// Whether the run is a rehearsal, whose figures nobody sees.
    pub is_rehearsal: bool,
    /// Processors that the run may use.
    pub pin: Option<&'a CpuSet>,
    /// Memory layout of the run's program.
    pub layout: RunLayout,
    /// Services that several runs of the experiment share, followed by the indexes of this run's
    /// case and block. `None` if every run starts its own services.
    pub kept: Option<(&'a SharedServicePool, (usize, u32))>,
    /// How to count instructions; `None` to measure time.
    pub counting: Option<&'a InstructionCounting>,
}

impl RunContext<'_> {
    /// Time limit of the run.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(self.sampling.timeout_ms)
    }
}

/// Reports progress before the first run, from several threads.
pub type ProgressReporter<'a> = &'a (dyn Fn(&SessionEvent<'_>) + Sync);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_filtered_by_name_unless_a_pattern_may_match_cases() {
        let names = ["p/Sum", "p/Sort", "p/Zip"].map(str::to_owned);
        let chosen = |filters: &[&str], excludes: &[&str]| {
            let read = |patterns: &[&str]| -> Vec<Regex> {
                let patterns = patterns.iter();
                patterns.map(|pattern| Regex::new(pattern).unwrap()).collect()
            };
            let patterns = BenchmarkSelection {
                filters: read(filters),
                excludes: read(excludes),
                ..BenchmarkSelection::default()
            };
            let chosen = names.iter().zip(patterns.select_benchmarks(&names));
            let chosen: Vec<&str> = chosen
                .filter(|(_, is_selected)| *is_selected)
                .map(|(name, _)| &name[2..])
                .collect();
            chosen.join(" ")
        };
        assert_eq!(chosen(&[], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["Sum"], &[]), "Sum");
        assert_eq!(chosen(&["gzip"], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["Zip/gzip", "Sum"], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["^p/S"], &["Sort"]), "Sum");
        assert_eq!(chosen(&[], &["Sort$"]), "Sum Sort Zip", "its cases have longer names");
    }

    #[test]
    fn measured_cases_are_chosen_by_name_and_value() {
        let case = |id: &str| Case::parse(id).unwrap();
        let selection = BenchmarkSelection {
            filters: vec![Regex::new("copy").unwrap()],
            sets: BenchmarkSelection::parse_set("len=1k,16").unwrap(),
            ..BenchmarkSelection::default()
        };
        assert!(selection.selects_case(&case("g/copy len=16 type=utf8")));
        assert!(
            selection.selects_case(&case("g/copy len=1000"))
                && selection.selects_case(&case("g/copy"))
        );
        assert!(
            !selection.selects_case(&case("g/copy len=64"))
                && !selection.selects_case(&case("g/fill len=16"))
        );
    }

    #[test]
    fn lines_of_a_file_give_values_to_single_benchmarks_or_to_all() {
        let mut selection = BenchmarkSelection::default();
        let text = "# a remark\n\nlen=16\n  g/my file.js n=10k kind=\"a b\"\ng/b.js n=5\n";
        selection.add_lines(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        selection.sets.push(pair("n", "1"));
        let sets = |name| selection.sets_of(name, Path::new("/x"));
        assert_eq!(
            sets("g/my file.js"),
            [pair("len", "16"), pair("n", "10000"), pair("kind", "a b")]
        );
        assert_eq!(sets("g/b.js"), [pair("len", "16"), pair("n", "5")]);
        assert_eq!(sets("g/c.js"), [pair("len", "16"), pair("n", "1")]);
        for text in ["g/b.js", "x=1\ng/b.js 5 n", "g/b.js n=\"x"] {
            let error = BenchmarkSelection::default().add_lines(text).unwrap_err();
            assert!(error.to_string().starts_with("cannot parse line "), "{text}: {error}");
        }
    }

    #[test]
    fn large_numbers_may_be_written_short() {
        let pair = |value: &str| ("n".to_owned(), value.to_owned());
        let sets = BenchmarkSelection::parse_set("n=10k,2M,1e3,utf8").unwrap();
        assert_eq!(sets, [pair("10000"), pair("2000000"), pair("1e3"), pair("utf8")]);
        assert!(
            BenchmarkSelection::parse_set("n").is_err()
                && BenchmarkSelection::parse_set("=1").is_err()
        );
    }
}
