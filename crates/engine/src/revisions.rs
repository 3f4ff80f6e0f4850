//! Prepares variants that are revisions of the user's repository: turns the names that the user
//! typed into folders with built programs.
//!
//! This module decides how a revision is named, and which files come from it and which from the
//! user's checkout. `execution::worktree` decides how a revision gets into its folder. Start at
//! [`check_out_revisions`].

use super::measured_code::identical_warning;
use super::{EventListener, RevisionRequest, VariantRequest, emit_warning};
use crate::execution::worktree::{self, Checkout, ResolvedCommit};
use anyhow::{Context, Result, anyhow, bail, ensure};
use speedwell_adapters::discover::{
    self, BenchmarkSelection, DiscoveredBenchmarks, is_command, script_command,
};
use speedwell_adapters::plan::{RelocationMap, SessionPlan};
use speedwell_adapters::{
    BenchmarkJob, BenchmarkSource, KnownAdapters, ProgressReporter, SourceKind, resolve_program_for,
};
use speedwell_config::project::ProjectFile;
use speedwell_machine::environment::{GitRepository, find_fork};
use speedwell_machine::process::{
    adopt_orphans, check_interrupted, install_handlers, resolve_program,
};
use speedwell_model::{
    BuildCommand, CommitsSince, ErrorText, SessionEvent, SessionReference, Variant,
    VariantWorktree, as_milliseconds, quote, short_revision,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// What stands for a revision that is the working tree: git allows no space in a name.
pub const WORKING_TREE: &str = "working tree";

/// Maximum length of a typed revision in the name of a variant; a longer one is cut.
const MAX_TYPED_NAME: usize = 60;

/// Timeout for git to find a merge base.
const MERGE_BASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks out, builds and names every revision of the request, which has at least one. If there is no
/// repository here but the targets are in one, the error says how to measure there.
///
/// # Errors
/// Fails if a revision is unknown, or cannot be checked out or built.
pub fn check_out_revisions(
    request: &VariantRequest,
    targets: &[String],
    listener: &mut EventListener<'_>,
) -> Result<VariantRequest> {
    let mut resolved = VariantRequest { revisions: Vec::new(), ..request.clone() };
    let typed: Vec<&str> = request.revisions.iter().map(|wanted| &*wanted.revision).collect();
    reject_commands(targets, &typed, request.build.build.as_deref())?;
    adopt_orphans();
    install_handlers()?;
    let directory = std::env::current_dir()?;
    let checkout = Checkout::find(&directory).with_context(|| {
        let hint = suggest_checkout(&directory, targets).unwrap_or_default();
        format!("cannot look up revision '{}'{hint}", typed[0])
    })?;
    let build = build_command(request, &checkout)?;
    let commits: Vec<ResolvedCommit> =
        typed.iter().map(|typed| resolve_commit(&checkout, typed)).collect::<Result<_>>()?;
    announce_changes(&checkout, &request.revisions, &commits, listener)?;
    for (revision_request, commit) in request.revisions.iter().zip(&commits) {
        let mut worktree =
            checkout.describe_worktree(&revision_request.revision, commit, build.as_ref());
        if revision_request.revision == WORKING_TREE {
            worktree.commits = commits_since(&checkout, typed[0], [&commits[0], commit]);
        }
        worktree::prepare_worktree(&worktree, &mut |sentence| {
            listener.observe(&SessionEvent::Note(sentence))
        })?;
        let variant = &mut resolved.given[revision_request.variant];
        if let Some(program) = &revision_request.program {
            variant.program = Some(built_program(program, &worktree, &checkout)?);
        }
        redirect_search_paths(&mut variant.environment, &worktree);
        variant.environment.extend(worktree::worktree_variables(&worktree));
        variant.worktree = Some(worktree);
    }
    name_variants(&mut resolved.given, &request.revisions);
    fill_placeholders(&mut resolved, &checkout);
    warn_of_identical(request, &resolved, &commits, listener)?;
    Ok(resolved)
}

/// Warns about revisions with the same files and build as the first one.
fn warn_of_identical(
    request: &VariantRequest,
    resolved: &VariantRequest,
    commits: &[ResolvedCommit],
    listener: &mut EventListener<'_>,
) -> Result<()> {
    let files = |commit: &ResolvedCommit| (commit.tree.clone(), commit.changes.clone());
    let variant_of = |index: usize| request.revisions[index].variant;
    let parts = |index: usize| {
        let variant = &request.given[variant_of(index)];
        (&request.revisions[index].program, &variant.arguments, &variant.environment)
    };
    for index in 1..commits.len() {
        if files(&commits[index]) == files(&commits[0]) && parts(index) == parts(0) {
            let names = [0, index].map(|index| &*resolved.given[variant_of(index)].name);
            let warning = identical_warning(names, "have the same files and the same build", "");
            emit_warning(listener, &warning)?;
        }
    }
    Ok(())
}

/// Notes that a copy of the working tree is measured or, without one, warns that uncommitted changes
/// are not measured, if the user might expect them to be.
fn announce_changes(
    checkout: &Checkout,
    revisions: &[RevisionRequest],
    commits: &[ResolvedCommit],
    listener: &mut EventListener<'_>,
) -> Result<()> {
    if let Some(changes) = commits.iter().find_map(|commit| commit.changes.as_ref()) {
        let number = changes.files;
        let files = if number == 1 { "file" } else { "files" };
        return listener.observe(&SessionEvent::Note(&format!(
            "{WORKING_TREE}, {number} {files} changed: measuring a copy, so editing may go on"
        )));
    }
    let head = checkout.resolve_commit("HEAD")?;
    let at_head = revisions.iter().zip(commits).find(|(_, commit)| **commit == head);
    match at_head.filter(|_| checkout.has_changes()) {
        None => Ok(()),
        Some((request, _)) => emit_warning(
            listener,
            &format!(
                "Uncommitted changes are ignored, except in benchmark files given as targets: '{}' \
                 is the last commit.",
                request.revision
            ),
        ),
    }
}

/// Returns the commits of the candidate, a working tree, that the baseline does not have. `typed` is
/// the baseline as the user typed it.
fn commits_since(
    checkout: &Checkout,
    typed: &str,
    [baseline, candidate]: [&ResolvedCommit; 2],
) -> Option<CommitsSince> {
    let git = GitRepository::for_folder(&checkout.root, MERGE_BASE_TIMEOUT);
    let count = git.commits_after(&baseline.id, &[&candidate.id])?.len();
    let revision = match typed.parse() {
        Ok(SessionReference::Base(branch)) => {
            let target = find_fork(&git, branch.as_deref()).ok()?.target;
            let prefixes = ["refs/heads/", "refs/remotes/"];
            let name = prefixes.iter().find_map(|prefix| target.strip_prefix(prefix));
            name.unwrap_or(&target).to_owned()
        }
        _ => typed.to_owned(),
    };
    (count > 0).then_some(CommitsSince { count, revision })
}

/// Rejects targets that are shell commands, before anything is built. Revisions are in the order in
/// which they are compared.
///
/// # Errors
/// Fails if a target is a command; the hint compares the command at the first two revisions.
pub fn reject_commands(targets: &[String], revisions: &[&str], build: Option<&str>) -> Result<()> {
    let is_typed_command = |target: &&String| {
        target.contains(char::is_whitespace) && !Path::new(target).exists() && is_command(target)
    };
    if let Some(command) = targets.iter().find(is_typed_command) {
        let hint = compare_command_hint(command, revisions, build);
        bail!("'{command}' is a command, not a benchmark{hint}");
    }
    Ok(())
}

/// Returns a hint with the command line that compares a shell command at the first two revisions.
fn compare_command_hint(command: &str, revisions: &[&str], build: Option<&str>) -> String {
    let sides = ["--old", "--new"].into_iter().zip(revisions);
    let sides: String = (sides.filter(|(_, revision)| **revision != WORKING_TREE))
        .map(|(option, revision)| format!(" {option} {}", quote(&format!("rev:{revision}"))))
        .collect();
    let build_option = build.map(|build| format!(" --build {}", quote(build))).unwrap_or_default();
    format!(
        "\nhint: to measure it as a command: speedwell eval sh {}{sides}{build_option}",
        quote(command)
    )
}

/// Returns a hint with the command that works in the checkout of the targets, if they are in one.
fn suggest_checkout(directory: &Path, targets: &[String]) -> Option<String> {
    let first = Path::new(targets.first()?).canonicalize().ok()?;
    let folder = if first.is_dir() { first.as_path() } else { first.parent()? };
    let root = Checkout::find(folder).ok()?.root;
    let relative = |word: &str| {
        let is_target = targets.iter().any(|target| target == word);
        let path = Path::new(word).canonicalize().ok().filter(|_| is_target)?;
        let inside = path.strip_prefix(&root).ok()?.to_string_lossy().into_owned();
        Some(if inside.is_empty() { ".".to_owned() } else { inside })
    };
    let words = std::env::args_os().skip(1).map(|word| {
        let typed = word.to_string_lossy();
        quote(&relative(&typed).unwrap_or_else(|| typed.into_owned()))
    });
    let words: Vec<String> = words.collect();
    let directory = directory.canonicalize().ok()?;
    let folder = root.strip_prefix(directory).unwrap_or(&root).to_string_lossy();
    Some(format!("\nhint: cd {} && speedwell {}", quote(&folder), words.join(" ")))
}

/// Resolves a typed revision: a name that git knows, the merge base with a branch, or the working
/// tree.
///
/// # Errors
/// Fails if there is no such revision.
pub fn resolve_commit(checkout: &Checkout, typed: &str) -> Result<ResolvedCommit> {
    if typed == WORKING_TREE {
        return checkout.resolve_working_tree();
    }
    match typed.parse() {
        Ok(SessionReference::Base(branch)) => {
            let git = GitRepository::for_folder(&checkout.root, MERGE_BASE_TIMEOUT);
            checkout.resolve_commit(&find_fork(&git, branch.as_deref())?.id)
        }
        _ => checkout.resolve_commit(typed),
    }
}

/// Returns the command that builds revisions, and its folder in the worktree. The folder is the
/// counterpart of the current folder or, for a command from the project file, of the folder of that
/// file.
fn build_command(request: &VariantRequest, checkout: &Checkout) -> Result<Option<BuildCommand>> {
    let (command, directory) = match &request.build.build {
        Some(command) => (command.clone(), checkout.inside.clone()),
        None => {
            let directory = checkout.root.join(&checkout.inside);
            let project = ProjectFile::find_file(&directory)?.unwrap_or_default();
            let Some(command) = project.history.build else { return Ok(None) };
            (command, project.folder.strip_prefix(&checkout.root)?.to_owned())
        }
    };
    let limit_ms = as_milliseconds(request.build.build_timeout);
    Ok(Some(BuildCommand { command, directory, limit_ms }))
}

/// Returns the path of a revision's program, which was typed relative to the current folder. A
/// program outside the checkout is the same for all revisions.
fn built_program(typed: &Path, worktree: &VariantWorktree, checkout: &Checkout) -> Result<PathBuf> {
    let path = checkout.root.join(&checkout.inside).join(typed);
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normalized.pop()),
            part => normalized.push(part),
        }
    }
    let program = worktree.path_of(&normalized).unwrap_or(normalized);
    resolve_program(&program).map_err(|_| {
        if !program.is_file() {
            return anyhow!(missing_program_message(typed, worktree));
        }
        anyhow!(
            "'{}' of revision '{}' ({}) cannot be executed",
            typed.display(),
            worktree.typed,
            worktree.short_revision()
        )
    })
}

/// Environment variables with lists of folders that are searched for code.
const SEARCH_PATHS: [&str; 6] =
    ["PYTHONPATH", "NODE_PATH", "CLASSPATH", "PERL5LIB", "RUBYLIB", "LD_LIBRARY_PATH"];

/// Redirects folders in search paths from the checkout to the worktree, so that the revision's code
/// is found. A folder that the worktree does not have stays as it is.
fn redirect_search_paths(environment: &mut Vec<(String, String)>, worktree: &VariantWorktree) {
    for name in SEARCH_PATHS {
        let typed = environment.iter().position(|(key, _)| key == name);
        let inherited = || std::env::var(name).ok();
        let Some(value) = typed.map_or_else(inherited, |index| Some(environment[index].1.clone()))
        else {
            continue;
        };
        let redirect = |folder: &str| {
            let found = worktree.path_of(Path::new(folder)).filter(|found| found.exists());
            found.map_or_else(|| folder.to_owned(), |found| found.to_string_lossy().into_owned())
        };
        let redirected = value.split(':').map(redirect).collect::<Vec<String>>().join(":");
        if redirected != value {
            environment.retain(|(key, _)| key != name);
            environment.push((name.to_owned(), redirected));
        }
    }
}

/// Explains why `target` cannot be measured at the revisions, and how to measure a program or a
/// script as a command. `error` is the reason why it cannot be measured in the checkout.
fn explain_target(
    target: &str,
    here: &Path,
    variants: &[Variant],
    error: anyhow::Error,
) -> anyhow::Error {
    let worktrees: Vec<&VariantWorktree> =
        variants.iter().filter_map(|variant| variant.worktree.as_ref()).collect();
    let Some(worktree) = worktrees.first() else { return error };
    let in_checkout = here.join(target);
    let in_worktree = worktree.path_of(&in_checkout).filter(|path| path.exists());
    let reason = ErrorText::from_error(&error).message;
    let message = match &in_worktree {
        None => {
            let missing = missing_program_message(Path::new(target), worktree);
            let (message, hints) = missing.split_once('\n').unwrap_or((missing.as_str(), ""));
            format!("{message}: {reason}\n{hints}")
        }
        Some(_) if in_checkout.exists() => reason,
        Some(_) => format!(
            "'{target}' of revision '{}' ({}) has no benchmarks that Speedwell knows",
            worktree.typed,
            worktree.short_revision()
        ),
    };
    let path = in_worktree.unwrap_or(in_checkout);
    let command = match script_command(target, &path) {
        Some(command) => Some(command),
        None if path.is_file() && resolve_program(&path).is_ok() => {
            let folder = if target.contains('/') { "" } else { "./" };
            Some(format!("{folder}{}", quote(target)))
        }
        None => is_command(target).then(|| target.to_owned()),
    };
    let typed: Vec<&str> =
        worktrees.iter().map(|worktree| short_revision(&worktree.typed)).collect();
    // The project file's own command needs no option.
    let project = ProjectFile::find_file(here).ok().flatten().unwrap_or_default();
    let built_by = worktree.build.as_ref().map(|build| build.command.as_str());
    let build = built_by.filter(|build| project.history.build.as_deref() != Some(*build));
    let hint = command.map(|command| compare_command_hint(&command, &typed, build));
    anyhow!("{message}{}", hint.unwrap_or_default())
}

fn missing_program_message(typed: &Path, worktree: &VariantWorktree) -> String {
    let hint = match &worktree.build {
        Some(build) => format!("'{}' succeeded, but did not build it", build.command),
        None => "--build COMMAND builds it".to_owned(),
    };
    format!(
        "revision '{}' ({}) has no program '{}'\nhint: {hint}; looked in '{}'",
        worktree.typed,
        worktree.short_revision(),
        typed.display(),
        worktree.folder.display()
    )
}

/// Names variants after the typed revision and its commit, unless they have names of their own.
fn name_variants(variants: &mut [Variant], revisions: &[RevisionRequest]) {
    for wanted in revisions.iter().filter(|wanted| wanted.names_variant) {
        let Some(worktree) = &variants[wanted.variant].worktree else { continue };
        let short = worktree.short_revision();
        let typed: String = wanted.revision.chars().take(MAX_TYPED_NAME).collect();
        let default_name = if typed == WORKING_TREE {
            typed
        } else if typed.len() >= 7 && worktree.revision.starts_with(&typed) {
            short.to_owned()
        } else {
            format!("{typed} ({short})")
        };
        let is_taken = |name: &str| variants.iter().any(|other| other.name == name);
        let mut names = std::iter::once(default_name.clone())
            .chain((2..).map(|n| format!("{default_name} #{n}")));
        // The iterator is infinite, so it always contains a free name.
        variants[wanted.variant].name = names.find(|name| !is_taken(name)).unwrap_or(default_name);
    }
}

/// Replaces `{worktree}` and `{revision}` in the arguments and variables of all variants. For a
/// variant that is not a revision, the worktree is the checkout.
fn fill_placeholders(request: &mut VariantRequest, checkout: &Checkout) {
    let shared = std::mem::take(&mut request.arguments);
    for variant in &mut request.given {
        let worktree = variant.worktree.as_ref();
        let root = worktree.map_or(&checkout.root, |worktree| &worktree.folder);
        let folder = root.to_string_lossy().into_owned();
        let revision = worktree.map_or("", |worktree| &worktree.revision).to_owned();
        variant.arguments.splice(0..0, shared.iter().cloned());
        let values = variant.environment.iter_mut().map(|(_, value)| value);
        for string in variant.arguments.iter_mut().chain(values) {
            *string = string.replace("{worktree}", &folder).replace("{revision}", &revision);
        }
    }
}

/// Turns the variant of one revision into the variant of another revision. Replaces the folder and
/// the revision ID wherever they were filled in.
pub fn move_variant(variant: &Variant, to: &VariantWorktree) -> Variant {
    let Some(from) = &variant.worktree else { return variant.clone() };
    let folders = [from, to].map(|worktree| worktree.folder.to_string_lossy());
    let redirect = |string: &String| {
        string.replace(&*folders[0], &folders[1]).replace(&from.revision, &to.revision)
    };
    let relocation = RelocationMap::new([(from.folder.clone(), to.folder.clone())]);
    let variables = variant.environment.iter();
    Variant {
        program: variant.program.as_ref().map(|program| relocation.map_path(program)),
        arguments: variant.arguments.iter().map(redirect).collect(),
        environment: variables.map(|(name, value)| (name.clone(), redirect(value))).collect(),
        worktree: Some(to.clone()),
        work: BTreeMap::new(),
        checkout_files: Vec::new(),
        ..variant.clone()
    }
}

/// Finds all benchmark files of the targets. A program that does not exist in the checkout is
/// searched for in the worktrees.
///
/// # Errors
/// Fails if nothing has the name of a target, or a target cannot belong to a revision.
pub fn find_sources(
    targets: &[String],
    here: &Path,
    variants: &[Variant],
) -> Result<Vec<BenchmarkSource>> {
    let Some(worktree) = variants.iter().find_map(|variant| variant.worktree.as_ref()) else {
        return discover::find_all_sources(targets, here);
    };
    let adapters = KnownAdapters::new(targets, here)?;
    let mut all_sources = Vec::new();
    for target in targets {
        let built = |variant| built_source(target, here, variant, &adapters);
        let sources = discover::find_sources(target, here, &adapters).or_else(|error| {
            let found = variants.iter().find_map(built);
            found.ok_or_else(|| explain_target(target, here, variants, error))
        });
        all_sources.extend(sources?);
    }
    mark_artifacts(&mut all_sources, variants);
    let takes_target =
        variants.iter().find(|variant| variant.worktree.is_some() && variant.program.is_none());
    for source in &all_sources {
        let file = source.file.display();
        ensure!(
            !matches!(source.kind, SourceKind::Load | SourceKind::Experiment),
            "'{file}' is a definition file, which cannot be measured at revisions\nhint: its \
             variants can name programs"
        );
        ensure!(
            takes_target.is_none() || worktree.path_of(&source.file).is_some(),
            "'{file}' is outside the repository '{}', so revision '{}' does not affect it\nhint: \
             'rev:{}:PROGRAM' names a program built from the revision",
            worktree.checkout.display(),
            worktree.typed,
            worktree.typed
        );
    }
    Ok(all_sources)
}

/// Finds the program of a revision. The returned sources have the paths that they would have in the
/// checkout.
fn built_source(
    target: &str,
    here: &Path,
    variant: &Variant,
    adapters: &KnownAdapters,
) -> Option<Vec<BenchmarkSource>> {
    let worktree = variant.worktree.as_ref()?;
    let directory = worktree.path_of(here)?;
    let in_worktree = worktree.path_of(Path::new(target));
    let target = in_worktree.as_ref().and_then(|path| path.to_str()).unwrap_or(target);
    let mut sources = discover::find_sources(target, &directory, adapters).ok()?;
    for source in &mut sources {
        let in_checkout = |path: &Path| match path.strip_prefix(&worktree.folder) {
            Ok(inside) => worktree.checkout.join(inside),
            Err(_) => path.to_owned(),
        };
        source.file = in_checkout(&source.file);
        source.root = in_checkout(&source.root);
        source.directory = in_checkout(&source.directory);
        // The checkout has no version of the file that all revisions could share.
        source.is_artifact |= source.file.is_absolute() && !source.file.is_dir();
    }
    Some(sources)
}

/// Marks artifacts, which each revision must build itself: files that git ignores in the checkout,
/// and files that the build of a worktree has produced and that are in no commit.
fn mark_artifacts(sources: &mut [BenchmarkSource], variants: &[Variant]) {
    let files: Vec<PathBuf> = sources.iter().map(|source| source.file.clone()).collect();
    for worktree in variants.iter().filter_map(|variant| variant.worktree.as_ref()) {
        let artifacts = worktree::find_artifacts(worktree, &files);
        for source in sources.iter_mut() {
            source.is_artifact |= artifacts.contains(&source.file);
        }
    }
}

/// Copies the user's benchmark files into the worktrees in which they differ or are missing. All
/// revisions are then measured with the same benchmark, which imports the code of each revision by
/// relative paths.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn place_benchmark_files<'a>(
    variants: &[Variant],
    sources: impl Iterator<Item = &'a BenchmarkSource>,
) -> Result<()> {
    let files: BTreeSet<&PathBuf> = sources
        .filter(|source| !source.is_program() && source.file.is_file())
        .map(|source| &source.file)
        .collect();
    for worktree in variants.iter().filter_map(|variant| variant.worktree.as_ref()) {
        let mut copies = Vec::new();
        for file in &files {
            let Some(target) = worktree.path_of(file) else { continue };
            let content =
                fs::read(file).with_context(|| format!("cannot read '{}'", file.display()))?;
            copies.push((target, content));
        }
        worktree::replace_files(worktree, &copies)?;
    }
    Ok(())
}

/// Drops benchmarks that a program lacks in at least one revision, and warns about them. The first
/// variant is the baseline.
///
/// # Errors
/// Fails if a revision lacks a program, or the programs have no benchmark in common.
pub fn keep_common(
    suite: &mut DiscoveredBenchmarks,
    variants: &[Variant],
    selection: &BenchmarkSelection,
    reporter: ProgressReporter<'_>,
) -> Result<()> {
    let mut programs: Vec<BenchmarkSource> = Vec::new();
    for job in suite.jobs.iter().filter(|job| job.source.is_program()) {
        if programs.iter().all(|other| other.file != job.source.file) {
            programs.push(job.source.clone());
        }
    }
    for variant in variants {
        let Some(worktree) = &variant.worktree else { continue };
        for source in &programs {
            ensure!(
                has_source(variant, source),
                missing_program_message(Path::new(&source.name), worktree)
            );
        }
        if variant.name == variants[0].name || programs.is_empty() {
            continue;
        }
        let described = discover::describe_sources(&programs, selection, variant, reporter);
        check_interrupted()?;
        if let Some(failure) = described.iter().find_map(|side| side.failure.as_ref()) {
            bail!("'{}' of '{}' {}", failure.benchmark, variant.name, failure.cause);
        }
        let labels: BTreeSet<&str> =
            described.iter().flat_map(|side| &side.jobs).map(|job| &*job.label).collect();
        let is_common =
            |job: &BenchmarkJob| !job.source.is_program() || labels.contains(&*job.label);
        let (common, unmatched): (Vec<BenchmarkJob>, Vec<BenchmarkJob>) =
            suite.jobs.drain(..).partition(is_common);
        suite.jobs = common;
        if !unmatched.is_empty() {
            let names: Vec<String> =
                unmatched.iter().map(|job| format!("'{}'", job.label)).collect();
            suite.warnings.push(format!(
                "these benchmarks are not measured, because '{}' does not have them: {}",
                variant.name,
                names.join(", ")
            ));
        }
        ensure!(
            !suite.jobs.is_empty(),
            "nothing to compare: the programs of the revisions have no benchmark in common"
        );
    }
    Ok(())
}

/// Whether a variant's revision has the program, package or other built file.
fn has_source(variant: &Variant, source: &BenchmarkSource) -> bool {
    let file = &source.under(variant).file;
    let without_program = Variant { program: None, ..variant.clone() };
    if resolve_program_for(source, &without_program) == *file {
        variant.program.is_some() || resolve_program(file).is_ok()
    } else {
        file.exists()
    }
}

/// Prepares the worktrees of a stored plan again: builds missing ones, and copies the user's
/// benchmark files into them.
///
/// # Errors
/// See [`check_out_revisions`].
pub fn restore_worktrees(plan: &SessionPlan, listener: &mut EventListener<'_>) -> Result<()> {
    for worktree in plan.variants.iter().filter_map(|variant| variant.worktree.as_ref()) {
        worktree::prepare_worktree(worktree, &mut |sentence| {
            listener.observe(&SessionEvent::Note(sentence))
        })?;
    }
    place_benchmark_files(&plan.variants, plan.jobs.iter().map(|job| &job.source))
}
