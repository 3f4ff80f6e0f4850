//! Describes benchmark files: asks every file for its cases, and checks the user's values against
//! the parameters that the files declare.

use super::BenchmarkSelection;
use crate::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    NamePatterns, ProgressReporter, SourceKind,
};
use anyhow::{Context as _, bail};
use speedwell_config::LazyDefinition;
use speedwell_machine::process::{begin_activity, check_interrupted, is_interrupt_requested};
use speedwell_model::quote;
use speedwell_model::{
    Case, DefinitionFile, FailureCause, ParameterValue, SessionEvent, SessionStep, StepFailure,
    Variant, nearest_name,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
    /// Versions of the other frameworks, by framework name.
    pub suites: BTreeMap<String, String>,
}

/// Describes the benchmarks of `sources` under `baseline`. `reporter` receives notices of builds,
/// and the numbers of described files and of all files.
///
/// # Errors
/// Fails if no benchmark is left after filtering, if no benchmark accepts one of the user's values,
/// or if two files have a benchmark of the same name.
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
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_interrupt_requested() {
                        break;
                    }
                    let description = describe_source(source, selection, baseline, reporter);
                    let index = sources.iter().position(|other| std::ptr::eq(other, source));
                    if let Some(Ok(mut slot)) = index.map(|index| slots[index].lock()) {
                        *slot = description;
                    }
                    reporter(&SessionEvent::Described {
                        done: done.fetch_add(1, Ordering::Relaxed) + 1,
                        all: sources.len(),
                    });
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
    let request = DescribeRequest {
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
    // Benchmark files are taken from the checkout, but a program may exist only in the worktree
    // where its revision was built.
    let mut description = if source.is_program() {
        let mut described = harness.describe_source(&source.under(baseline), &request);
        let restore_source = |job: &mut BenchmarkJob| job.source = source.clone();
        described.jobs.iter_mut().for_each(restore_source);
        described
    } else {
        harness.describe_source(source, &request)
    };
    if let Some(reason) = invalid_parameter_name(&description) {
        description.jobs.clear();
        description.parameters.clear();
        description.failure = Some(StepFailure {
            step: SessionStep::Describe,
            benchmark: source.name.clone(),
            case: None,
            variant: None,
            slot: None,
            cause: FailureCause::Invalid { reason },
            stderr_tail: String::new(),
            replay: format!("speedwell run {} --list", quote(&source.file.to_string_lossy())),
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
        .any(|job| job.route == crate::StartMode::Parent && job.source.kind != SourceKind::Fake);
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
        if expects_number
            && ParameterValue::parse(value, speedwell_model::ValueKind::Number).is_none()
        {
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
