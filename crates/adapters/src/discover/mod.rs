//! Finds benchmarks and their cases from command-line operands: files, folders, groups, programs.
//!
//! [`find_all_sources`] finds benchmark files and decides their kinds. [`discover_benchmarks`] asks
//! every file for its cases, and checks the user's values against the parameters that the files
//! declare. `target.rs` knows paths and folders, including the folders of Node.js core, and
//! `comparison.rs` pairs the benchmarks of the sides of a comparison.

mod comparison;
mod target;

pub use crate::job::BenchmarkSelection;
pub use crate::part::{BenchmarkPart, shared_word};
pub use comparison::{
    CaseDivision, ComparisonSide, divide_cases, find_common_benchmarks as common_benchmarks,
};
pub use target::{
    core_source, declared_variants, find_experiment, is_command, is_text, read_named_file,
    script_command, similar_file,
};

use crate::failure::HarnessFailure;
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    ProgressReporter, SourceKind, StartMode,
};
use crate::snippet::{example_call, is_module};
use crate::suites::{KnownAdapters, builtin_adapter, explain_framework, framework_without_adapter};
use anyhow::{Context as _, bail, ensure};
use speedwell_config::LazyDefinition;
use speedwell_config::adapter::SuiteAdapter;
use speedwell_config::experiment::{DefinitionForm, definition_form};
use speedwell_machine::process::{
    begin_activity, check_interrupted, is_interrupt_requested, resolve_program,
};
use speedwell_model::{
    Case, DefinitionFile, ParameterValue, SessionEvent, SnippetLanguage, StepFailure, ValueKind,
    Variant, nearest_name, quote,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The folder to which targets are relative, and the known adapters for other frameworks.
#[derive(Clone, Copy)]
struct TargetContext<'a> {
    cwd: &'a Path,
    adapters: &'a KnownAdapters,
}

/// Finds every benchmark file that one of `targets` denotes, and reads the definition files among
/// them.
///
/// # Errors
/// See [`find_sources`].
pub fn find_all_sources(targets: &[String], cwd: &Path) -> anyhow::Result<Vec<BenchmarkSource>> {
    let adapters = KnownAdapters::new(targets, cwd)?;
    let found: anyhow::Result<Vec<_>> =
        targets.iter().map(|target| find_sources(target, cwd, &adapters)).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Finds every benchmark file that `target` denotes. The target is a file, a folder, `FOLDER/...`
/// for Go packages, `SUITE:PATH` with a framework in `adapters`, or the name of a group in the
/// current folder or its `benchmark` folder. For a file that defines adapters, the result is empty.
///
/// # Errors
/// Fails if `target` does not exist, or has no benchmarks.
pub fn find_sources(
    target: &str,
    cwd: &Path,
    adapters: &KnownAdapters,
) -> anyhow::Result<Vec<BenchmarkSource>> {
    let context = TargetContext { cwd, adapters };
    if let Some((suite, path)) = adapters.split_operand(target)
        && !cwd.join(target).exists()
    {
        let path = fs::canonicalize(cwd.join(path))
            .with_context(|| format!("cannot resolve the path '{path}'"))?;
        return Ok(vec![suite_source(&path, suite, context)]);
    }
    if let Some(folder) = target.strip_suffix("...") {
        return go_packages(target, &cwd.join(folder), context);
    }
    let path = target::find_path(target, cwd, adapters)?;
    let path = fs::canonicalize(&path)
        .with_context(|| format!("cannot resolve the path '{}'", path.display()))?;
    let found = if path.is_file() {
        match definition_form(&path) {
            Some(DefinitionForm::Experiment) => {
                // Its definition and its benchmark files are read when it is planned.
                let folder = path.parent().unwrap_or(Path::new("/"));
                let kind = SourceKind::Experiment;
                return Ok(vec![BenchmarkSource::new(kind, &path, folder, folder)]);
            }
            Some(DefinitionForm::Suites) => return Ok(Vec::new()),
            _ => {}
        }
        let source = if crate::is_wrapper(&path) && path.extension().is_none_or(|e| e == "sh") {
            let suite = adapters.recognize(&path).or_else(|| builtin_adapter("google-benchmark"));
            Ok(source_of_program(&path, suite, context))
        } else {
            classify_file(&path, context)
        };
        let hint = || is_command(target).then(|| target::command_hint(target));
        let refusal =
            || format!("'{target}' is not a benchmark file{}", hint().unwrap_or_default());
        vec![source.with_context(refusal)?]
    } else if let Some(root) = target::core_root(&path) {
        target::core_folder(&path, &root)?
    } else {
        find_in_folder(&path, context)?
    };
    if !found.is_empty() {
        return Ok(found);
    }
    if let Some((file, name)) = target::foreign_file(&path) {
        let shown = file.strip_prefix(cwd).unwrap_or(&file).to_string_lossy();
        bail!(
            "no benchmarks found in '{target}': cannot measure '{shown}': {}",
            explain_framework(name, &shown)
        );
    }
    bail!(
        "no benchmarks found in '{target}'\n\
         hint: a benchmark is a JavaScript file that calls createBenchmark, a C++ file that \
         includes speedwell.hpp, a Python file that imports speedwell, a definition file (.toml), \
         or a file of another benchmark framework (docs/reference/suites.md); the folder of a \
         benchmark file is its group"
    )
}

/// Finds benchmark files in a folder other than a Node.js core folder. The group of a file is the
/// folder that contains it.
fn find_in_folder(path: &Path, context: TargetContext<'_>) -> anyhow::Result<Vec<BenchmarkSource>> {
    if let Some(suite) = context.adapters.recognize(path) {
        return Ok(vec![suite_source(path, suite, context)]);
    }
    let mut found = Vec::new();
    for entry in target::visible_entries(path)? {
        if entry.is_dir() {
            if entry.file_name().is_none_or(|name| name != "node_modules" && name != "fixtures") {
                let inner = if target::core_root(&entry).is_some_and(|root| root == entry) {
                    target::core_folder(&entry, &entry)?
                } else {
                    find_in_folder(&entry, context)?
                };
                found.extend(inner);
            }
        } else if definition_form(&entry) == Some(DefinitionForm::Benchmarks) {
            found.push(classify_file(&entry, context)?);
        } else if let Ok(source) = classify_file(&entry, context)
            // A program built next to a source file is not a benchmark of its own.
            && source.kind != SourceKind::Program
        {
            found.push(source);
        }
    }
    Ok(found)
}

/// Classifies a single file: the user's adapters take precedence, then Speedwell's own formats,
/// then built-in adapters.
fn classify_file(file: &Path, context: TargetContext<'_>) -> anyhow::Result<BenchmarkSource> {
    if let Some(suite) = context.adapters.recognize_by_user(file) {
        return Ok(suite_source(file, suite, context));
    }
    classify_own_kind(file, context).or_else(|error| {
        if let Some(suite) = context.adapters.recognize(file) {
            return Ok(suite_source(file, suite, context));
        }
        match framework_without_adapter(file) {
            Some(name) => bail!("{}", explain_framework(name, &file.to_string_lossy())),
            None => Err(error),
        }
    })
}

/// Finds Go packages in and below a folder. As in `go test ./...`, nested modules, `vendor`,
/// `testdata`, and folders whose names begin with a dot or an underscore are excluded.
fn go_packages(
    target: &str,
    folder: &Path,
    context: TargetContext<'_>,
) -> anyhow::Result<Vec<BenchmarkSource>> {
    let folder = fs::canonicalize(folder)
        .with_context(|| format!("cannot resolve the folder of '{target}'"))?;
    let found = go_packages_below(&folder, context)?;
    ensure!(
        !found.is_empty(),
        "no Go package with benchmarks in '{target}'\n\
         hint: a benchmark is a function 'BenchmarkX(b *testing.B)' in a '_test.go' file"
    );
    Ok(found)
}

fn go_packages_below(
    folder: &Path,
    context: TargetContext<'_>,
) -> anyhow::Result<Vec<BenchmarkSource>> {
    let suite = context.adapters.recognize(folder).filter(|suite| suite.name == "go-package");
    let mut found: Vec<_> =
        suite.map(|suite| suite_source(folder, suite, context)).into_iter().collect();
    let is_included = |entry: &PathBuf| {
        let is_excluded = entry.ends_with("vendor") || entry.ends_with("testdata");
        entry.is_dir() && !is_excluded && !entry.is_symlink() && !entry.join("go.mod").is_file()
    };
    for entry in target::visible_entries(folder)?.into_iter().filter(is_included) {
        found.extend(go_packages_below(&entry, context)?);
    }
    Ok(found)
}

fn classify_own_kind(file: &Path, context: TargetContext<'_>) -> anyhow::Result<BenchmarkSource> {
    // Names consist of group and file, so the root is two levels up.
    let root = file.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
    if let Some(source) = target::fake_source(file, &root) {
        return Ok(source);
    }
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let source = |kind| BenchmarkSource::new(kind, file, &root, context.cwd);
    if crate::is_program_with_harness(file) {
        return Ok(source_of_program(file, None, context));
    }
    if extension == "toml" {
        return target::definition_source(file);
    }
    let languages = ["js", "cjs", "mjs", "ts", "cts", "mts", "cpp", "cc", "cxx", "py"];
    if target::declares_types_only(file) {
        bail!("a file with only type declarations has no benchmarks");
    }
    match extension {
        "" if resolve_program(file).is_ok() => {
            bail!("it is a program of no benchmark framework that Speedwell knows")
        }
        "" => bail!("it is a file without an extension"),
        _ if !languages.contains(&extension) => {
            bail!("Speedwell knows no benchmarks in '.{extension}' files")
        }
        _ => {}
    }
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    let has_line = |begins: &[&str]| {
        let lines = text.lines().map(str::trim_start);
        lines
            .filter(|line| begins.iter().any(|begin| line.starts_with(begin)))
            .any(|line| line.contains("speedwell"))
    };
    match extension {
        "py" if has_line(&["import ", "from "]) => return Ok(source(SourceKind::Python)),
        "py" => bail!(
            "it is a Python file that does not import speedwell{}",
            plain_source_hints(SnippetLanguage::Python, &text, file, context.cwd)
        ),
        "cpp" | "cc" | "cxx" if has_line(&["#include"]) => return Ok(source(SourceKind::Cpp)),
        "cpp" | "cc" | "cxx" => bail!("it is a C++ file that does not include speedwell.hpp"),
        _ => {}
    }
    if let Some(root) = target::core_root_of(file, &text) {
        let is_index = file.file_name().is_some_and(|name| name == "index.js");
        let entry = if is_index { file.parent().unwrap_or(file) } else { file };
        return Ok(core_source(entry, file.to_owned(), root));
    }
    if !text.contains("createBenchmark") {
        bail!(
            "it is a JavaScript file that calls no createBenchmark{}",
            plain_source_hints(SnippetLanguage::Node, &text, file, context.cwd)
        );
    }
    Ok(source(SourceKind::Node))
}

/// Returns hints on how to measure a function of a file without benchmarks, or the whole file.
fn plain_source_hints(language: SnippetLanguage, text: &str, file: &Path, cwd: &Path) -> String {
    let typed = file.strip_prefix(cwd).unwrap_or(file).to_string_lossy();
    let call = example_call(language, text, None).filter(|_| is_module(language, file, text));
    let function = call.map(|call| {
        let named = quote(&format!("@{typed}"));
        format!(
            "\nhint: to measure a function: speedwell eval {language} --init {named} {}",
            quote(&call)
        )
    });
    let whole = script_command(&typed, file).map(|command| {
        format!("\nhint: to measure the whole file: speedwell time {}", quote(&command))
    });
    [function, whole].into_iter().flatten().collect()
}

/// Creates a source for a built program. Its folder is a build folder, not a group, and is not part
/// of case names, so two builds in two folders have the same cases.
fn source_of_program(
    file: &Path,
    suite: Option<Arc<SuiteAdapter>>,
    context: TargetContext<'_>,
) -> BenchmarkSource {
    match suite {
        Some(suite) => suite_source(file, suite, context),
        None => {
            let root = file.parent().unwrap_or(Path::new("/"));
            BenchmarkSource::new(SourceKind::Program, file, root, context.cwd)
        }
    }
}

/// Creates a source for a file or package folder of another framework. A package runs in its own
/// folder.
fn suite_source(
    path: &Path,
    suite: Arc<SuiteAdapter>,
    context: TargetContext<'_>,
) -> BenchmarkSource {
    let root = path.parent().unwrap_or(Path::new("/"));
    let directory = if path.is_dir() { path } else { context.cwd };
    let is_built = suite.keys.build.is_some();
    let user_suites = context.adapters.user_adapters().iter().filter(|_| is_built).cloned();
    BenchmarkSource {
        user_suites: user_suites.collect(),
        suite: Some(suite),
        is_artifact: path.is_file() && !is_text(path),
        ..BenchmarkSource::new(SourceKind::Suite, path, root, directory)
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
    keep_parts(&mut suite.jobs, &selection.parts)?;
    reject_duplicates(&suite.jobs)?;
    Ok(suite)
}

/// Keeps only the named cases of files from which the user named some, as in `FILE::NAME`.
///
/// # Errors
/// Fails if a name matches no case.
fn keep_parts(
    jobs: &mut Vec<BenchmarkJob>,
    parts: &[(PathBuf, BenchmarkPart)],
) -> anyhow::Result<()> {
    let mut kept: Vec<(&PathBuf, BenchmarkPart)> = Vec::new();
    for (path, part) in parts {
        let in_path = jobs.iter().filter(|job| job.source.file.starts_with(path));
        let cases: Vec<Case> = in_path.map(BenchmarkJob::described_case).collect();
        let narrowed = part.narrowed_to(&cases);
        // A file that could not be described has no cases; its failure is reported instead.
        let is_found = cases.is_empty() || cases.iter().any(|case| narrowed.contains(case));
        ensure!(is_found, part.explain_no_match(&cases));
        kept.push((path, narrowed));
    }
    jobs.retain(|job| {
        let mut own = kept.iter().filter(|(path, _)| job.source.file.starts_with(path)).peekable();
        let case = job.described_case();
        own.peek().is_none() || own.any(|(_, part)| part.contains(&case))
    });
    Ok(())
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
    let finished = AtomicUsize::new(0);
    let descriptions = Mutex::new(HashMap::new());
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(sources.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let source = sources.get(index).filter(|_| !is_interrupt_requested());
                    let Some(source) = source else { break };
                    let description = describe_source(source, selection, baseline, reporter);
                    if let Ok(mut described) = descriptions.lock() {
                        described.insert(index, description);
                    }
                    let done = finished.fetch_add(1, Ordering::Relaxed) + 1;
                    reporter(&SessionEvent::Described { done, all: sources.len() });
                }
            });
        }
    });
    let mut described = descriptions.into_inner().unwrap_or_default();
    (0..sources.len()).map(|index| described.remove(&index).unwrap_or_default()).collect()
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
        selection: selection.clone(),
        limit: DESCRIBE_TIMEOUT,
    };
    // A failed build is reported when the cases are described.
    let _ = crate::build_if_package(source, &request.program, baseline, reporter);
    let described = harness.describe_source(&request);
    let mut description = described.unwrap_or_else(|failure| BenchmarkDescription {
        failure: Some(failure.in_description(source)),
        ..BenchmarkDescription::default()
    });
    description.jobs.iter_mut().for_each(|job| job.source = source.clone());
    if let Some(reason) = invalid_parameter_name(&description) {
        description.jobs.clear();
        description.parameters.clear();
        let replay = format!("speedwell run {} --list", quote(&source.file.to_string_lossy()));
        let failure = HarnessFailure { replay, ..HarnessFailure::invalid(reason) };
        description.failure = Some(failure.in_description(source));
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
}
