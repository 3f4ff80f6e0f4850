//! Finds benchmarks and their cases from command-line operands: files, folders, groups, programs.
//!
//! Start at [`discover_benchmarks`], which asks every file for its cases, and checks the user's
//! values against the parameters that the files declare. [`target`] finds benchmark files and their
//! kinds, and [`BenchmarkSelection`] holds the user's filters and values. [`programs`] pairs the
//! benchmarks of the programs in a comparison. A [`BenchmarkPart`] limits a comparison to some of a
//! program's benchmarks.

mod programs;
mod target;

pub use programs::{ComparisonSide, find_common_benchmarks as common_benchmarks};
pub use target::{
    core_source, declared_variants, find_all_sources, find_experiment, find_sources, is_command,
    is_text, similar_file,
};

use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DefaultLoadTool,
    DescribeRequest, NamePatterns, ProgressReporter, SourceKind, StartMode, TrialMode,
};
use crate::run_outcome::{describing_failure, invalid_cause};
use anyhow::{Context as _, bail};
use regex::{Captures, Regex};
use speedwell_config::LazyDefinition;
use speedwell_machine::process::{begin_activity, check_interrupted, is_interrupt_requested};
use speedwell_model::{
    Case, DefinitionFile, FailureCause, ParameterValue, SessionEvent, StepFailure, ValueKind,
    Variant, nearest_name, quote,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The benchmarks of one program whose names match a pattern.
#[derive(Debug, Clone)]
pub struct BenchmarkPart(Regex);

impl BenchmarkPart {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Fails if the pattern is invalid; the message shows where.
    pub fn parse(pattern: &str) -> Result<BenchmarkPart, regex::Error> {
        Regex::new(pattern).map(BenchmarkPart)
    }

    /// Whether the pattern matches the name of a benchmark.
    pub fn contains(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Text of the pattern.
    pub fn pattern(&self) -> &str {
        self.0.as_str()
    }

    /// Replaces matches of the pattern in the name with `word`. Text captured by groups is appended
    /// to the word: if a pattern captures a size, names with different sizes stay different.
    pub fn rename_matches(&self, name: &str, word: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let captured: Vec<&str> =
                found.iter().skip(1).flatten().map(|group| group.as_str()).collect();
            if captured.is_empty() {
                word.to_owned()
            } else {
                format!("{word}({})", captured.join(","))
            }
        };
        self.0.replace_all(name, replace).into_owned()
    }
}

/// Returns the word that replaces whatever the programs' patterns match in benchmark names, such as
/// `[jemalloc|mimalloc]`. After the replacement, benchmarks of different programs have equal names.
/// Returns `None` if a program has no pattern, or if all patterns are equal: the names then agree
/// without a replacement.
pub fn shared_word(parts: &[Option<&BenchmarkPart>]) -> Option<String> {
    let patterns: Vec<&str> = parts.iter().flatten().map(|part| part.pattern()).collect();
    let differ = patterns.windows(2).any(|pair| pair[0] != pair[1]);
    (patterns.len() == parts.len() && differ).then(|| format!("[{}]", patterns.join("|")))
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
        let has = |name: &str, wanted: &str| case.value(name).is_some_and(|v| v.plain() == wanted);
        let allowed = |name: &str| self.sets.iter().any(|(n, wanted)| n == name && has(n, wanted));
        let named = self.sets.iter().map(|(name, _)| name.as_str());
        let mut used = named.filter(|name| case.value(name).is_some());
        self.selects_name(&case.benchmark) && used.all(allowed)
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
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refusal = || {
                let number = index + 1;
                format!("cannot parse line {number}, '{line}': expected 'group/file NAME=VALUE'")
            };
            let before_equals = line.split_once('=').with_context(refusal)?.0;
            let (name, words) = match before_equals.rsplit_once(' ') {
                Some((name, _)) => (name.trim_end(), &line[name.len()..]),
                None => ("", line),
            };
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
        match ParameterValue::parse(value, ValueKind::Number).filter(|_| with_suffix) {
            Some(number) => number.to_string(),
            None => value.to_owned(),
        }
    }
}

/// Time limit for describing a file.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(15);

/// Parameters that benchmarks read without declaring them.
const UNDECLARED_PARAMETERS: [&str; 2] = ["benchmarker", "CPUSET"];

/// All cases of all selected benchmarks.
#[derive(Debug, Clone, Default)]
pub struct DiscoveredBenchmarks {
    /// Cases in the order of targets and files.
    pub jobs: Vec<BenchmarkJob>,
    /// Files that could not be described, with the reason.
    pub failures: Vec<StepFailure>,
    /// Warnings for the user, as whole sentences.
    pub warnings: Vec<String>,
    /// Number of benchmark files considered.
    pub files: usize,
    /// Versions of the baseline's program and its components, if files reported them.
    pub versions: BTreeMap<String, String>,
    /// Versions of benchmark frameworks other than Speedwell, by name.
    pub suites: BTreeMap<String, String>,
}

/// Describes the benchmarks of `sources` under `baseline`. `reporter` receives notices of builds,
/// and the numbers of described files and of all files.
///
/// # Errors
/// Fails if no benchmark is left after filtering, if one of the user's values is for a parameter
/// that no benchmark declares or is not of the declared type, or if two files have a benchmark of
/// the same name.
pub fn discover_benchmarks(
    mut sources: Vec<BenchmarkSource>,
    selection: &BenchmarkSelection,
    baseline: &Variant,
    reporter: ProgressReporter<'_>,
) -> anyhow::Result<DiscoveredBenchmarks> {
    // A file with several benchmarks must be described to learn their names.
    sources.retain(|source| source.kind.may_hold_several() || selection.selects_name(&source.name));
    if sources.is_empty() {
        bail!("no benchmarks found\nhint: --filter and --exclude are matched against 'group/name'");
    }
    let described = describe_sources(&sources, selection, baseline, reporter);
    check_interrupted()?;
    check_values(&described.iter().collect::<Vec<_>>(), &selection.sets)?;
    for (path, sets) in &selection.of_files {
        let descriptions: Vec<_> = sources
            .iter()
            .zip(&described)
            .filter(|(source, _)| source.file.starts_with(path))
            .map(|(_, description)| description)
            .collect();
        check_values(&descriptions, sets)?;
    }
    for (source, description) in sources.iter().zip(&described) {
        let sets: Vec<_> = selection.of_benchmark(&source.name).cloned().collect();
        check_values(&[description], &sets).with_context(|| format!("in '{}'", source.name))?;
    }
    let mut suite =
        DiscoveredBenchmarks { files: sources.len(), ..DiscoveredBenchmarks::default() };
    let mut unwanted = BTreeSet::new();
    for description in described {
        for job in description.jobs {
            let name = job.case.as_ref().map_or(&job.source.name, |case| &case.benchmark);
            if !job.source.kind.may_hold_several() || selection.selects_name(name) {
                suite.jobs.push(job);
            } else {
                unwanted.insert(format!("'{name}'"));
            }
        }
        suite.failures.extend(description.failure);
        suite.versions.extend(description.versions);
        suite.suites.extend(description.suites);
        suite.warnings.extend(description.warnings);
    }
    if suite.jobs.is_empty() && suite.failures.is_empty() && !unwanted.is_empty() {
        let names: Vec<String> = unwanted.into_iter().collect();
        bail!(
            "--filter and --exclude leave no benchmarks\nhint: the files contain {}",
            names.join(", ")
        );
    }
    reject_duplicates(&suite.jobs)?;
    Ok(suite)
}

/// Rejects two files with a benchmark of the same name: their results would be merged.
fn reject_duplicates(jobs: &[BenchmarkJob]) -> anyhow::Result<()> {
    let mut by_label: HashMap<&str, &BenchmarkJob> = HashMap::new();
    for job in jobs.iter().filter(|job| job.source.kind.may_hold_several()) {
        if let Some(other) = by_label.insert(&job.label, job)
            && other.source.file != job.source.file
        {
            bail!(
                "'{}' and '{}' both have a benchmark '{}'\nhint: 'speedwell compare' measures them \
                 against each other",
                other.source.file.display(),
                job.source.file.display(),
                job.label
            );
        }
    }
    Ok(())
}

/// Describes all files. Several files are described at the same time, because nothing is measured.
pub fn describe_sources(
    sources: &[BenchmarkSource],
    selection: &BenchmarkSelection,
    baseline: &Variant,
    reporter: ProgressReporter<'_>,
) -> Vec<BenchmarkDescription> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let slots: Vec<Mutex<BenchmarkDescription>> =
        sources.iter().map(|_| Mutex::default()).collect();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(sources.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let source = sources.get(index).filter(|_| !is_interrupt_requested());
                    let Some(source) = source else { break };
                    let description = describe_source(source, selection, baseline, reporter);
                    if let Ok(mut slot) = slots[index].lock() {
                        *slot = description;
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    reporter(&SessionEvent::Described { done, all: sources.len() });
                }
            });
        }
    });
    slots.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collect()
}

fn describe_source(
    source: &BenchmarkSource,
    selection: &BenchmarkSelection,
    baseline: &Variant,
    reporter: ProgressReporter<'_>,
) -> BenchmarkDescription {
    let _activity = begin_activity(format!("listing {}", source.name));
    let harness = crate::harness_for(source.kind);
    // Benchmark files are taken from the checkout, but a program may exist only in the worktree
    // where its revision was built.
    let request = DescribeRequest {
        source: if source.is_program() {
            source.under(baseline).into_owned()
        } else {
            source.clone()
        },
        program: crate::resolve_program_for(source, baseline),
        variant: baseline.clone(),
        sets: selection.sets_of(&source.name, &source.file),
        names: NamePatterns {
            filters: selection.filters.clone(),
            excludes: selection.excludes.clone(),
        },
        trial: selection.trial,
        usual_tool: selection.usual_tool,
        limit: DESCRIBE_TIMEOUT,
    };
    // A failed build is reported when the cases are described.
    let _ = crate::build_if_package(source, baseline, reporter);
    let mut description = harness.describe_source(&request);
    description.jobs.iter_mut().for_each(|job| job.source = source.clone());
    if let Some(reason) = invalid_parameter_name(&description) {
        description.jobs.clear();
        description.parameters.clear();
        description.failure = Some(StepFailure {
            replay: format!("speedwell run {} --list", quote(&source.file.to_string_lossy())),
            ..describing_failure(source, invalid_cause(reason), String::new())
        });
    }
    description
}

/// Explains why a parameter name is invalid, and how to fix it.
fn invalid_parameter_name(description: &BenchmarkDescription) -> Option<String> {
    let cases = description.jobs.iter().filter_map(|job| job.case.as_ref());
    let used = cases.flat_map(|case| case.values.iter().map(|(name, _)| name.as_str()));
    let declared = description.parameters.iter().map(|parameter| parameter.name.as_str());
    used.chain(declared).find_map(|name| {
        let reason = Case::refuses_name(name)?;
        let shown = name.escape_debug();
        Some(format!("has an invalid parameter '{shown}': {reason}; rename it in its declaration"))
    })
}

/// Rejects values that would silently be misinterpreted: values of an undeclared parameter, and
/// text where numbers are declared. Given text instead of a number, Node.js core would measure NaN
/// iterations.
fn check_values(
    described: &[&BenchmarkDescription],
    sets: &[(String, String)],
) -> anyhow::Result<()> {
    let whole_files = described
        .iter()
        .flat_map(|d| &d.jobs)
        .any(|job| job.route == StartMode::Parent && job.source.kind != SourceKind::Fake);
    let declared: Vec<&DeclaredParameter> = described.iter().flat_map(|d| &d.parameters).collect();
    for (name, value) in sets {
        let matching: Vec<&&DeclaredParameter> =
            declared.iter().filter(|p| p.name == *name).collect();
        if matching.is_empty() && !UNDECLARED_PARAMETERS.contains(&name.as_str()) && !whole_files {
            if let Some(failure) = described.iter().find_map(|d| d.failure.as_ref()) {
                bail!("'{}' {}", failure.benchmark, failure.cause);
            }
            bail!(
                "no selected benchmark has a parameter '{name}'{}",
                suggest_parameter(name, &declared)
            );
        }
        let has_only_numbers = |p: &&&DeclaredParameter| {
            p.values.iter().all(|v| matches!(v, ParameterValue::Number(_)))
        };
        let expects_number = !matching.is_empty() && matching.iter().all(has_only_numbers);
        if expects_number && ParameterValue::parse(value, ValueKind::Number).is_none() {
            bail!("cannot set the parameter '{name}' to '{value}': expected a number");
        }
    }
    Ok(())
}

fn suggest_parameter(name: &str, declared: &[&DeclaredParameter]) -> String {
    let mut names: Vec<String> = declared.iter().map(|p| p.name.clone()).collect();
    names.sort();
    names.dedup();
    match nearest_name(name, &names) {
        Some(near) => format!("\nhint: did you mean '{near}'?"),
        None if names.is_empty() => String::new(),
        None => format!("\nhint: the parameters are {}", names.join(", ")),
    }
}

impl DiscoveredBenchmarks {
    /// Returns the definition files of the HTTP loads, with the text that was read.
    pub fn definitions(&self) -> Vec<DefinitionFile> {
        let mut found: Vec<DefinitionFile> = Vec::new();
        for job in self.jobs.iter().filter(|job| job.source.kind == SourceKind::Load) {
            let source = job.source.definition.as_deref().map(LazyDefinition::source);
            if let Some(definition) = source.filter(|new| !found.contains(new)) {
                found.push(definition.clone());
            }
        }
        found
    }

    /// Failures other than skipped benchmarks.
    pub fn hard_failures(&self) -> impl Iterator<Item = &StepFailure> {
        self.failures
            .iter()
            .filter(|failure| !matches!(failure.cause, FailureCause::Skipped { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_parts_share_a_name_and_keep_their_captures() {
        let part = |pattern: &str| BenchmarkPart::parse(pattern).unwrap();
        let (a, b) = (part("BM_memcpy"), part(r"BM_copy/(\d+)"));
        assert_eq!(shared_word(&[Some(&a), None]), None);
        assert_eq!(shared_word(&[Some(&a), Some(&a)]), None);
        let word = shared_word(&[Some(&a), Some(&b)]).unwrap();
        assert_eq!(word, r"[BM_memcpy|BM_copy/(\d+)]");
        assert_eq!(a.rename_matches("BM_memcpy/8", "[x]"), "[x]/8");
        assert_eq!(b.rename_matches("BM_copy/8", "[x]"), "[x](8)");
        assert_eq!(
            part("$1").rename_matches("a", "[x]"),
            "a",
            "the word is not expanded as a template"
        );
        assert_eq!(
            part("a").rename_matches("a", "$0"),
            "$0",
            "the word is not expanded as a template"
        );
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
