//! Finds which code each variant measures: its own version of a benchmark, files of the user's
//! checkout, or the same code as another variant.
//!
//! This module decides what to record with every variant, so that the analysis knows which results
//! cannot be compared. It also decides what to warn about before measuring. Start at
//! [`record_benchmarks`] and [`identical_warnings`].

use crate::execution::worktree;
use anyhow::{Result, bail};
use speedwell_adapters::discover::{self, BenchmarkSelection, DiscoveredBenchmarks};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{
    BenchmarkJob, BenchmarkSource, ModuleLog, ProgressReporter, SourceKind, code_files,
    fingerprint_benchmarks, is_javascript, is_python, resolve_program_for,
};
use speedwell_model::{Variant, VariantWorktree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that list packages, each with the command that installs these packages.
const INSTALLERS: [(&str, &str); 5] = [
    ("package-lock.json", "npm ci"),
    ("yarn.lock", "yarn install --frozen-lockfile"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("bun.lock", "bun install --frozen-lockfile"),
    ("package.json", "npm install"),
];

/// Records with every variant fingerprints of the code that its benchmarks run, and which files its
/// revision loads from the checkout instead of from its worktree.
///
/// # Errors
/// Fails if the benchmarks of a revision need packages that are not installed in its worktree.
pub fn record_benchmarks(
    variants: &mut [Variant],
    suite: &mut DiscoveredBenchmarks,
    selection: &BenchmarkSelection,
    reporter: ProgressReporter<'_>,
) -> Result<()> {
    for variant in variants.iter_mut() {
        variant.work = fingerprint_benchmarks(&suite.jobs, variant);
        variant.checkout_files = find_strays(variant, &suite.jobs, selection, reporter)?;
    }
    suite.warnings.extend(strays_warning(variants));
    Ok(())
}

/// Finds project files that the benchmarks load from the checkout. Listing the cases shows which
/// files are loaded. Files that are named in JavaScript sources are included too, because some are
/// loaded only while measuring.
fn find_strays(
    variant: &Variant,
    jobs: &[BenchmarkJob],
    selection: &BenchmarkSelection,
    reporter: ProgressReporter<'_>,
) -> Result<Vec<String>> {
    let Some(worktree) = &variant.worktree else { return Ok(Vec::new()) };
    let mut sources: Vec<BenchmarkSource> = Vec::new();
    let mut loaded: BTreeSet<PathBuf> = BTreeSet::new();
    for job in jobs.iter().filter(|job| !job.source.is_program()) {
        let source = job.source.under(variant).into_owned();
        if !sources.contains(&source) {
            let program = resolve_program_for(&job.source, variant);
            let code = code_files(job, variant, &program).into_iter();
            loaded.extend(code.filter(|file| is_javascript(file)));
            sources.push(source);
        }
    }
    let is_script =
        |source: &BenchmarkSource| is_javascript(&source.file) || is_python(&source.file);
    let (suite_sources, mut sources): (Vec<BenchmarkSource>, Vec<BenchmarkSource>) = (sources
        .into_iter())
    .partition(|source| source.kind == SourceKind::Suite && is_script(source));
    let mut scripts = suite_sources.iter().filter(|source| is_javascript(&source.file));
    if let Some(missing) = scripts.find_map(|source| missing_packages(source, worktree)) {
        bail!(missing);
    }
    if !suite_sources.is_empty() {
        let log = ModuleLog::new(worktree)?;
        discover::describe_sources(&suite_sources, selection, &log.observed(variant), reporter);
        loaded.extend(log.files());
    }
    sources.retain(|source| {
        matches!(source.kind, SourceKind::Node | SourceKind::NodeCore | SourceKind::Python)
    });
    let described = discover::describe_sources(&sources, selection, variant, reporter);
    for (source, description) in sources.iter().zip(described) {
        let missing = description.failure.as_ref().and_then(|_| missing_packages(source, worktree));
        if let Some(missing) = missing {
            bail!(missing);
        }
        loaded.extend(description.loaded);
    }
    let folder = worktree.folder.canonicalize().unwrap_or_else(|_| worktree.folder.clone());
    let is_stray =
        |path: &PathBuf| path.starts_with(&worktree.checkout) && !path.starts_with(&folder);
    let loaded: Vec<PathBuf> = loaded.into_iter().filter(is_stray).collect();
    let tracked = worktree::list_files(&worktree.checkout, &[], &loaded).into_iter();
    let relative = |path: PathBuf| {
        let relative = path.strip_prefix(&worktree.checkout).ok()?;
        Some(relative.to_string_lossy().into_owned())
    };
    Ok(tracked.filter_map(relative).collect())
}

/// Returns an explanation if JavaScript packages are installed in the checkout but not in the
/// worktree.
fn missing_packages(source: &BenchmarkSource, worktree: &VariantWorktree) -> Option<String> {
    let inside = source.file.strip_prefix(&worktree.folder).ok()?;
    let is_missing = |folder: &&Path| {
        let [checkout_folder, worktree_folder] =
            [worktree.checkout.join(folder), worktree.folder.join(folder)];
        worktree_folder.join("package.json").is_file()
            && checkout_folder.join("node_modules").is_dir()
            && !worktree_folder.join("node_modules").exists()
    };
    let folder = inside.ancestors().skip(1).find(is_missing)?;
    let worktree_folder = worktree.folder.join(folder);
    let (_, command) = INSTALLERS.iter().find(|(list, _)| worktree_folder.join(list).is_file())?;
    let command = if folder.as_os_str().is_empty() {
        (*command).to_owned()
    } else {
        format!("cd {} && {command}", folder.display())
    };
    Some(format!(
        "the packages of revision '{}' ({}) are not installed: no '{}'\nhint: --build '{command}' \
         installs them in every revision",
        worktree.typed,
        worktree.short_revision(),
        folder.join("node_modules").display()
    ))
}

/// Returns a warning if variants load files from the checkout. The results of such variants do not
/// belong to their revisions.
fn strays_warning(variants: &[Variant]) -> Option<String> {
    let affected: Vec<&Variant> =
        variants.iter().filter(|variant| !variant.checkout_files.is_empty()).collect();
    let files = affected.first()?.checkout_files.join(", ");
    let names: Vec<String> = affected.iter().map(|variant| format!("'{}'", variant.name)).collect();
    let (verb, revisions) = match names.len() {
        1 => ("loads", "its revision"),
        _ => ("load", "their revisions"),
    };
    Some(format!(
        "{} {verb} {files} from the checkout instead of from {revisions}, so there is no verdict. \
         The cause is a path in the benchmark, a variable, or an installed package that points to \
         the checkout.",
        names.join(" and ")
    ))
}

/// Warns about candidates whose programs and files have the same bytes as the baseline's, but other
/// paths.
pub fn identical_warnings(variants: &[Variant], jobs: &[BenchmarkJob]) -> Vec<String> {
    let (Some((baseline, candidates)), Some(_)) = (variants.split_first(), jobs.first()) else {
        return Vec::new();
    };
    let is_copy = |job: &BenchmarkJob, candidate: &Variant| {
        let sides = [baseline, candidate];
        let [baseline_files, candidate_files] =
            sides.map(|variant| measured_files(&job.source, variant));
        baseline_files != candidate_files && have_same_bytes(&baseline_files, &candidate_files)
    };
    let is_same = |candidate: &&Variant| {
        are_typed_alike(baseline, candidate) && jobs.iter().all(|job| is_copy(job, candidate))
    };
    let sentence = |variant: &Variant| {
        let names = [&*baseline.name, &variant.name];
        let is_revision = variant.worktree.is_some();
        let unless = if is_revision { "unless it reads other files of its revision, " } else { "" };
        identical_warning(names, "are the same program, byte for byte", unless)
    };
    candidates.iter().filter(is_same).map(sentence).collect()
}

/// Returns the known files that determine the measured code: the program and the build artifact.
fn measured_files(source: &BenchmarkSource, variant: &Variant) -> Vec<PathBuf> {
    let program = resolve_program_for(source, variant);
    let file = source.under(variant).file.clone();
    let has_artifact = source.is_artifact && file != program;
    [Some(program), has_artifact.then_some(file)].into_iter().flatten().collect()
}

/// Whether the user typed the same arguments, variables and snippet for two variants. The paths of
/// their programs may differ.
fn are_typed_alike(left: &Variant, right: &Variant) -> bool {
    let is_alike = typed_variables(left).eq(typed_variables(right));
    is_alike && left.arguments == right.arguments && left.snippet == right.snippet
}

/// Whether all variants run all cases with the same program, byte for byte, on the same files.
pub fn are_identical(plan: &SessionPlan) -> bool {
    let Some((first, others)) = plan.variants.split_first() else { return false };
    let is_same = |job: &BenchmarkJob, other: &Variant| {
        let source = &job.source;
        let files = [first, other].map(|variant| variant.path_of(&source.file));
        let [first_files, other_files] =
            [first, other].map(|variant| measured_files(source, variant));
        job.sides.is_empty()
            && are_typed_alike(first, other)
            && (source.is_program() || files[0] == files[1])
            && have_same_bytes(&first_files, &other_files)
    };
    !others.is_empty()
        && !plan.jobs.is_empty()
        && (plan.jobs.iter()).all(|job| others.iter().all(|other| is_same(job, other)))
}

/// Returns the environment variables of a variant, except the variables that every revision gets.
/// In the returned values, a placeholder replaces the folder of the variant.
fn typed_variables(variant: &Variant) -> impl Iterator<Item = (String, String)> + use<'_> {
    let worktree = variant.worktree.as_ref();
    let automatic = worktree.map(worktree::worktree_variables).unwrap_or_default();
    let folder = worktree.map(|worktree| worktree.folder.to_string_lossy().into_owned());
    let variables = variant.environment.iter();
    variables.filter(move |variable| !automatic.contains(variable)).map(move |(name, value)| {
        let replaced = folder.as_ref().map(|folder| value.replace(folder.as_str(), "{worktree}"));
        (name.clone(), replaced.unwrap_or_else(|| value.clone()))
    })
}

/// Whether each file has the same bytes as its counterpart.
fn have_same_bytes(left: &[PathBuf], right: &[PathBuf]) -> bool {
    let length = |path: &Path| fs::metadata(path).map(|data| data.len()).ok();
    let bytes = |path: &Path| fs::read(path).ok();
    let is_same = |(left, right): (&PathBuf, &PathBuf)| {
        length(left) == length(right)
            && bytes(left).is_some_and(|left_bytes| bytes(right) == Some(left_bytes))
    };
    left.iter().zip(right).all(is_same)
}

/// Formats a warning that two variants are the same. `how` says in what respect, and `unless` names
/// an exception; it is empty if there is none.
pub fn identical_warning([baseline, candidate]: [&str; 2], how: &str, unless: &str) -> String {
    format!(
        "'{baseline}' and '{candidate}' {how}: {unless}this is an A/A comparison, and every difference is noise."
    )
}
