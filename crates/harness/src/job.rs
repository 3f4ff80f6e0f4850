//! What is to be described or performed: plain data that a plan can store and a later session resume.

use crate::experiment::KeptServices;
use crate::layout::RunLayout;
use anyhow::Context;
use regex::Regex;
use serde::{Deserialize, Serialize};
use speedwell_model::{
    Case, Clock, Counting, Division, Event, Failure, Language, Samples, Snippet, Value, Variant,
};
use speedwell_process::CpuSet;
use speedwell_suite::Definition;
use speedwell_suite::adapter::Adapter;
use speedwell_suite::experiment::Experiment;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which harness performs a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A Node.js file whose folder has its own `common.js`, driven over Node's own channel.
    NodeCore,
    /// A Node.js file that uses our package, driven over the harness protocol.
    Node,
    /// Benchmarks of another suite, driven by its own options as an adapter says.
    Suite,
    /// A C++ source file that uses our header; it is compiled, then driven over the protocol.
    Cpp,
    /// A program that somebody has built with our C++ header, driven over the protocol.
    Program,
    /// A Python file that uses our package, driven over the protocol.
    Python,
    /// A definition file of HTTP loads that are measured as benchmark files are.
    Load,
    /// A definition file of an experiment, which is measured by itself.
    Experiment,
    /// A snippet, measured by the harness of its language.
    #[serde(rename = "code")]
    Snippet(Language),
    /// Exact numbers from a text file, for tests of the whole program.
    Fake,
}

impl Kind {
    /// Whether a file may hold more than one benchmark, each with a name of its own.
    pub fn holds_several(self) -> bool {
        use Kind::*;
        matches!(self, Suite | Cpp | Program | Python | Load | Experiment)
    }
}

/// A benchmark file and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Who performs it.
    pub kind: Kind,
    /// `group/name` as far as it can be told from outside.
    pub name: String,
    /// Absolute path of the file.
    pub file: PathBuf,
    /// The folder that holds the groups.
    pub root: PathBuf,
    /// Working directory of its processes.
    pub directory: PathBuf,
    /// What a definition file says. It is read once for a session, so that all runs are of the same text; a
    /// plan keeps it once for all its jobs, in its design.
    #[serde(skip)]
    pub definition: Option<Arc<Definition>>,
    /// How the suite is driven that it belongs to, if it is another's.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::suites::stored"
    )]
    pub suite: Option<Arc<Adapter>>,
    /// Suites of the user that programs which are built out of it may belong to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_suites: Vec<Arc<Adapter>>,
    /// Whether the file is an artifact of a build, such as a jar or a bundle, and no text of the user's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_artifact: bool,
}

impl Source {
    /// A file below `root`, named after its path from there unless another name is given later.
    pub(crate) fn new(kind: Kind, file: &Path, root: &Path, directory: &Path) -> Source {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
        Source {
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

    /// How the suite is driven that it belongs to.
    pub(crate) fn adapter(&self) -> Option<&Adapter> {
        self.suite.as_deref()
    }

    /// Whether it is a program or another file that somebody has built, or a package that is built: all of it is what is
    /// measured.
    pub fn is_program(&self) -> bool {
        let is_built = |own: &Adapter| own.keys.program.is_none() || own.keys.build.is_some();
        self.is_artifact || self.kind == Kind::Program || self.adapter().is_some_and(is_built)
    }

    /// Whether its file is read once for a session, as definition files are, or is no file, as for snippets.
    pub(crate) fn is_read_once(&self) -> bool {
        matches!(self.kind, Kind::Load | Kind::Experiment | Kind::Snippet(_))
    }

    /// The same file as the variant has it: its own artifact, or that of its revision, where it has one.
    pub fn under(&self, variant: &Variant) -> Cow<'_, Source> {
        if variant.worktree.is_none() && variant.artifact.is_none() {
            return Cow::Borrowed(self);
        }
        let own = |path: &Path| variant.path_of(path).into_owned();
        Cow::Owned(Source {
            file: variant.artifact.clone().unwrap_or_else(|| own(&self.file)),
            root: own(&self.root),
            directory: own(&self.directory),
            ..self.clone()
        })
    }

    /// What is typed to mean it.
    pub fn operand(&self) -> String {
        let file = self.file.to_string_lossy();
        match self.adapter() {
            Some(own) if own.keys.recognise.is_none() => format!("{}:{file}", own.name),
            _ => file.into_owned(),
        }
    }

    /// What the definition file says.
    ///
    /// # Errors
    /// It is none, or has not been read.
    pub fn definition(&self) -> anyhow::Result<&Definition> {
        let definition = self.definition.as_deref();
        definition.with_context(|| format!("'{}' has not been read", self.file.display()))
    }
}

/// What a description is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The program of the baseline.
    pub program: PathBuf,
    /// The baseline itself, for harnesses whose files have to be built before they can be asked.
    pub variant: Variant,
    /// Values that replace declared ones, in the order given.
    pub sets: Vec<(String, String)>,
    /// Which benchmarks are wanted, for harnesses that execute a benchmark to learn its cases.
    pub names: NamePatterns,
    /// Whether small values are wanted that only show whether the file works.
    pub trial: Trial,
    /// Who makes HTTP loads where nobody names a tool.
    pub usual_tool: UsualTool,
    /// Time limit of the description.
    pub limit: Duration,
}

/// Patterns of the names of benchmarks, of which some are wanted.
#[derive(Debug, Clone, Default)]
pub struct NamePatterns {
    /// One of these has to match, if there are any.
    pub filters: Vec<Regex>,
    /// None of these may match.
    pub excludes: Vec<Regex>,
}

impl NamePatterns {
    /// Decides which benchmarks are executed to learn their cases, whose names begin with that of their benchmark.
    ///
    /// A filter that matches names chooses among them, as `go test -bench` does; one that matches none is looked for in the cases
    /// of all.
    pub fn choose(&self, names: &[String]) -> Vec<bool> {
        let matching = |filter: &Regex| names.iter().any(|name| filter.is_match(name));
        let finds_all = self.filters.is_empty() || !self.filters.iter().all(matching);
        let is_wanted =
            |name: &String| finds_all || self.filters.iter().any(|filter| filter.is_match(name));
        // A pattern that matches in front of a slash does so whatever stands behind it, unless it looks for the end of the name.
        let any_case = |name: &String| format!("{name}/\u{e000}\u{e001}");
        let is_excluded = |name: &String| {
            let mut excludes = self.excludes.iter();
            excludes.any(|exclude| exclude.is_match(name) && exclude.is_match(&any_case(name)))
        };
        (names.iter())
            .map(|name| is_wanted(name) && !is_excluded(name))
            .collect()
    }
}

/// Who makes HTTP loads where neither the file nor the user names a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UsualTool {
    /// Our own generator.
    #[default]
    Speedwell,
    /// The one that Node core would take: drop-ins measure as their originals do.
    AsNodeCore,
}

impl Request {
    /// The user's values as `name=value`.
    pub fn assignments(&self) -> Vec<String> {
        self.sets
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}

/// Trying instead of measuring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trial {
    /// Measure.
    #[default]
    No,
    /// The one case that the file itself chooses for trials.
    Own,
    /// Every combination of the values that are words, with the file's small numbers.
    EveryWord,
}

/// How a job is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// One process that executes exactly one case.
    Direct,
    /// The file starts its cases itself; all of them make one run.
    Parent,
}

/// One case of a file, ready to be performed any number of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The file.
    pub source: Source,
    /// The case's id as far as it is known before the first run.
    pub label: String,
    /// How it is started.
    pub route: Route,
    /// Flags for the program.
    pub flags: Vec<String>,
    /// `name=value` for every parameter, in the order recorded.
    pub arguments: Vec<String>,
    /// What variants call the case, by variant, where that is not its own name: parts of programs
    /// that are compared with each other have other names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(String, String)>,
    /// What its suite calls the case, if it is another's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_suite: Option<SuiteCase>,
    /// Whether this is a trial with small values.
    pub test: bool,
    /// HTTP tool that the process may see in `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_tool: Option<String>,
    /// Why it cannot be performed on this machine, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The case with the declared kinds of its values, where the description tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// The snippet that is measured, where it is the same under every variant.
    #[serde(rename = "code", default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// How its runs are divided, where it is otherwise than by the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// In a trial the same case with the values that are measured, where the trial's are smaller: a
    /// small value may contradict another parameter.
    #[serde(skip)]
    pub measured: Option<Box<Job>>,
}

impl Job {
    /// How many workers its case asks for; one where it does not say.
    pub fn workers(&self) -> u32 {
        self.case.as_ref().and_then(Case::workers).unwrap_or(1)
    }

    /// The snippet that is measured under the variant, with the values of the case in the place of their names.
    pub fn snippet_under<'a>(&'a self, variant: &'a Variant) -> Option<Cow<'a, Snippet>> {
        let own = variant.snippet.as_ref().or(self.snippet.as_ref())?;
        let values = self.case.as_ref().map(|case| case.values.as_slice());
        Some(own.filled(values.unwrap_or_default()))
    }

    /// The same job with the files of the variant.
    pub fn under(&self, variant: &Variant) -> Cow<'_, Job> {
        if variant.worktree.is_none() && variant.artifact.is_none() {
            return Cow::Borrowed(self);
        }
        let own = |path: PathBuf| variant.path_of(&path).into_owned();
        let snippet = self.snippet.clone().map(|snippet| Snippet {
            paths: snippet.paths.into_iter().map(own).collect(),
            ..snippet
        });
        Cow::Owned(Job {
            source: self.source.under(variant).into_owned(),
            snippet,
            ..self.clone()
        })
    }

    /// What the variant calls the case.
    pub fn name_under(&self, variant: &str) -> &str {
        let own = self.names.iter().find(|(known, _)| known == variant);
        own.map_or(self.own_name(), |(_, name)| name)
    }

    /// What its program calls the case.
    pub fn own_name(&self) -> &str {
        (self.in_suite.as_ref()).map_or(&self.label, |own| &own.name)
    }

    /// What the variant calls the benchmark of the case: the name without the values, which are the
    /// same under every variant.
    pub fn benchmark_under(&self, variant: &str) -> Option<&str> {
        let case = self.case.as_ref()?;
        let id = case.id();
        let values = id.strip_prefix(&case.benchmark).unwrap_or_default();
        let own = self.name_under(variant).strip_suffix(values);
        Some(own.unwrap_or(&case.benchmark))
    }

    /// The case as far as the label tells it, with the kinds of its values guessed.
    pub fn label_as_case(&self) -> Option<Case> {
        let values = self.label.strip_prefix(&self.source.name)?;
        Case::with_values(&self.source.name, values).ok()
    }
}

/// A case as its suite knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteCase {
    /// What chooses it on the command line.
    pub name: String,
    /// The program that it is in, where a package has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A declared parameter with the values that occur.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The distinct values of all cases, in order of appearance.
    pub values: Vec<Value>,
}

/// What a description found.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// The cases, in the order of the file.
    pub jobs: Vec<Job>,
    /// Declared parameters.
    pub parameters: Vec<Parameter>,
    /// Why there are none, or a case that cannot be performed here.
    pub failure: Option<Failure>,
    /// Whole sentences the user should read.
    pub warnings: Vec<String>,
    /// Versions of the program that was asked and of its parts, where it told them.
    pub versions: BTreeMap<String, String>,
    /// Versions of other suites, by their names.
    pub suites: BTreeMap<String, String>,
    /// Files that were loaded to learn this, where the language tells.
    pub loaded: Vec<PathBuf>,
}

/// The circumstances of one execution.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    /// What it is executed under.
    pub variant: &'a Variant,
    /// The resolved program.
    pub program: PathBuf,
    /// Position in the plan.
    pub slot: u32,
    /// How many runs of this job and variant the plan has before this one.
    pub ordinal: u32,
    /// How often the slot was executed before, because a run was disturbed.
    pub repeated: u32,
    /// What random choices of the run follow from; the same for all runs of a block, so that all variants do the
    /// same work.
    pub seed: u64,
    /// Time limit.
    pub limit: Duration,
    /// How it is divided, where the harness owns the loop.
    pub samples: Samples,
    /// What of that was asked for; the rest is as usual.
    pub asked: Division,
    /// Whether it is a series from the first iteration on: nothing is done between samples but the reference loop.
    pub is_series: bool,
    /// Processors it may use.
    pub pin: Option<&'a CpuSet>,
    /// How its program is laid out in memory.
    pub layout: RunLayout,
    /// The experiment that the run belongs to.
    pub experiment: Option<&'a Experiment>,
    /// The services of the experiment that runs share, with the place of the case and the block that the run belongs to;
    /// without them every run has its own.
    pub kept: Option<(&'a KeptServices, (usize, u32))>,
    /// How instructions are counted, if they are and not time.
    pub counting: Option<&'a Counting>,
    /// The clock that is compared. A harness that is slow to find its clock of processor time looks for it if it is this one.
    pub clock: Clock,
}

/// Progress before the first run, reported by several threads.
pub type Tell<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_chooses_benchmarks_by_name_or_else_among_their_cases() {
        let names = ["p/Sum", "p/Sort", "p/Zip"].map(str::to_owned);
        let chosen = |filters: &[&str], excludes: &[&str]| {
            let read = |patterns: &[&str]| -> Vec<Regex> {
                let patterns = patterns.iter();
                patterns.map(|one| Regex::new(one).unwrap()).collect()
            };
            let patterns = NamePatterns {
                filters: read(filters),
                excludes: read(excludes),
            };
            let chosen = names.iter().zip(patterns.choose(&names));
            let chosen: Vec<&str> = chosen
                .filter(|(_, is)| *is)
                .map(|(name, _)| &name[2..])
                .collect();
            chosen.join(" ")
        };
        assert_eq!(chosen(&[], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["Sum"], &[]), "Sum");
        assert_eq!(chosen(&["gzip"], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["Zip/gzip", "Sum"], &[]), "Sum Sort Zip");
        assert_eq!(chosen(&["^p/S"], &["Sort"]), "Sum");
        assert_eq!(
            chosen(&[], &["Sort$"]),
            "Sum Sort Zip",
            "its cases are called otherwise"
        );
    }
}
