//! Finds benchmark files and decides their kind.
//!
//! A folder with a `common.js` next to its groups is a Node.js core folder. That project's rules
//! apply: all folders except `fixtures` and `node_modules` are groups, names that begin with `.` or
//! `_` are hidden, and a folder with `index.js` is one benchmark. Any other folder is searched for
//! benchmark files.

use crate::{
    BenchmarkSource, KnownAdapters, SourceKind, builtin_adapter, explain_framework,
    framework_without_adapter,
};
use anyhow::{Context, bail, ensure};
use speedwell_config::LazyDefinition;
use speedwell_config::adapter::SuiteAdapter;
use speedwell_config::experiment::{DefinitionForm, definition_form};
use speedwell_machine::process::resolve_program;
use speedwell_model::{Variant, nearest_name, quote};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let path = find_path(target, context)?;
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
            // A wrapper script may start any program. Most such programs use google/benchmark.
            let suite = adapters.recognize(&path).or_else(|| builtin_adapter("google-benchmark"));
            Ok(source_of_program(&path, suite, context))
        } else {
            classify_file(&path, context)
        };
        let hint = || is_command(target).then(|| command_hint(target));
        let refusal =
            || format!("'{target}' is not a benchmark file{}", hint().unwrap_or_default());
        vec![source.with_context(refusal)?]
    } else if let Some(root) = core_root(&path) {
        core_folder(&path, &root)?
    } else {
        find_in_folder(&path, context)?
    };
    if let (true, Some(file)) = (found.is_empty(), foreign_file(&path)) {
        let (file, name) = file;
        let shown = file.strip_prefix(cwd).unwrap_or(&file).to_string_lossy();
        bail!(
            "no benchmarks found in '{target}': cannot measure '{shown}': {}",
            explain_framework(name, &shown)
        );
    }
    if found.is_empty() {
        bail!(
            "no benchmarks found in '{target}'\n\
             hint: a benchmark is a JavaScript file that calls createBenchmark, a C++ file that \
             includes speedwell.hpp, a Python file that imports speedwell, a definition file \
             (.toml), or a file of another benchmark framework (docs/reference/suites.md); the \
             folder of a benchmark file is its group"
        );
    }
    Ok(found)
}

/// Finds a file in or below the folder that belongs to a framework without an adapter. Returns the
/// file and the name of the framework.
fn foreign_file(folder: &Path) -> Option<(PathBuf, &'static str)> {
    let inside = visible_entries(folder).ok()?;
    let files = inside.iter().filter(|entry| entry.is_file());
    let mut foreign =
        files.filter_map(|file| Some((file.clone(), framework_without_adapter(file)?)));
    foreign.next().or_else(|| {
        let mut folders = inside.iter().filter(|entry| {
            entry.is_dir() && entry.file_name().is_some_and(|name| name != "node_modules")
        });
        folders.find_map(|folder| foreign_file(folder))
    })
}

fn find_path(target: &str, context: TargetContext<'_>) -> anyhow::Result<PathBuf> {
    let TargetContext { cwd, adapters } = context;
    let candidates = [cwd.join(target), cwd.join("benchmark").join(target)];
    if let Some(candidate) = candidates.iter().find(|candidate| candidate.exists()) {
        return Ok(candidate.clone());
    }
    let groups = groups_near(cwd);
    let near = nearest_name(target, &groups).cloned();
    let hint = match (adapters.suggest_adapter(target), near.or_else(|| similar_file(target, cwd)))
    {
        (Some(hint), _) => hint,
        (None, Some(name)) => format!("\nhint: did you mean '{name}'?"),
        (None, None) if is_command(target) => command_hint(target),
        (None, None) if groups.is_empty() => String::new(),
        (None, None) => format!("\nhint: groups here are {}", groups.join(", ")),
    };
    bail!("no file, folder or group '{target}'{hint}");
}

/// Suggests the file or folder next to `path` with the most similar name.
pub fn similar_file(path: &str, cwd: &Path) -> Option<String> {
    let path = Path::new(path);
    let names: Vec<String> = visible_entries(&cwd.join(path.parent()?))
        .ok()?
        .iter()
        .filter_map(|entry| Some(entry.file_name()?.to_str()?.to_owned()))
        .collect();
    let near = nearest_name(path.file_name()?.to_str()?, &names)?;
    Some(path.with_file_name(near).to_string_lossy().into_owned())
}

/// Whether `text` begins with the name or path of an executable program.
pub fn is_command(text: &str) -> bool {
    let words = shell_words::split(text).unwrap_or_default();
    let program = words.first().map(Path::new);
    program.is_some_and(|program| resolve_program(program).is_ok())
}

/// Returns a hint on how to measure a command.
fn command_hint(command: &str) -> String {
    format!("\nhint: to measure it as a command: speedwell eval sh {}", quote(command))
}

/// Returns the names of the groups, for hints, if the current folder or its `benchmark` folder is a
/// Node.js core folder.
fn groups_near(cwd: &Path) -> Vec<String> {
    let root = [cwd.to_owned(), cwd.join("benchmark")];
    let Some(root) = root.iter().find(|folder| folder.join("common.js").is_file()) else {
        return Vec::new();
    };
    let names = core_groups(root).unwrap_or_default();
    names.iter().filter_map(|group| Some(group.file_name()?.to_str()?.to_owned())).collect()
}

/// Returns the Node.js core folder that is `path` itself or contains the group `path`.
fn core_root(path: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join("common.js").is_file();
    path.ancestors().take(2).find(is_root).map(Path::to_owned)
}

fn core_folder(path: &Path, root: &Path) -> anyhow::Result<Vec<BenchmarkSource>> {
    let groups = if path == root { core_groups(root)? } else { vec![path.to_owned()] };
    let mut found = Vec::new();
    for group in groups {
        for entry in visible_entries(&group)? {
            let file = if entry.is_dir() { entry.join("index.js") } else { entry.clone() };
            if file.is_file() && file.extension().is_some_and(|e| e == "js") {
                found.push(core_source(&entry, file, root));
            }
        }
        found.extend(
            visible_entries(&group)?.into_iter().filter_map(|file| fake_source(&file, root)),
        );
    }
    Ok(found)
}

fn core_groups(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let hidden = |name: &str| name == "fixtures" || name == "node_modules";
    let folders = visible_entries(root)?.into_iter().filter(|entry| entry.is_dir());
    Ok(folders
        .filter(|folder| !folder.file_name().is_some_and(|name| hidden(&name.to_string_lossy())))
        .collect())
}

/// Creates a source for the script `file` of the Node.js core folder `root`. The benchmark is named
/// after `entry`, which is the script itself or its folder.
pub fn core_source(entry: &Path, file: PathBuf, root: &Path) -> BenchmarkSource {
    // Node.js core scripts expect the root of the checkout as working directory.
    let directory = root.parent().unwrap_or(root);
    BenchmarkSource { file, ..BenchmarkSource::new(SourceKind::NodeCore, entry, root, directory) }
}

fn fake_source(file: &Path, root: &Path) -> Option<BenchmarkSource> {
    (file.extension()? == "fake").then(|| BenchmarkSource::new(SourceKind::Fake, file, root, root))
}

/// Visible entries of a folder, sorted by name.
fn visible_entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder '{}'", folder.display()))?;
    let mut found: Vec<PathBuf> = read
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with(['.', '_']))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
}

/// Finds benchmark files in a folder other than a Node.js core folder. The group of a file is the
/// folder that contains it.
fn find_in_folder(path: &Path, context: TargetContext<'_>) -> anyhow::Result<Vec<BenchmarkSource>> {
    if let Some(suite) = context.adapters.recognize(path) {
        return Ok(vec![suite_source(path, suite, context)]);
    }
    let mut found = Vec::new();
    for entry in visible_entries(path)? {
        if entry.is_dir() {
            if entry.file_name().is_none_or(|name| name != "node_modules" && name != "fixtures") {
                let inner = if core_root(&entry).is_some_and(|root| root == entry) {
                    core_folder(&entry, &entry)?
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
    let mut found = Vec::new();
    add_go_packages(&folder, context, &mut found)?;
    ensure!(
        !found.is_empty(),
        "no Go package with benchmarks in '{target}'\n\
         hint: a benchmark is a function 'BenchmarkX(b *testing.B)' in a '_test.go' file"
    );
    Ok(found)
}

fn add_go_packages(
    folder: &Path,
    context: TargetContext<'_>,
    found: &mut Vec<BenchmarkSource>,
) -> anyhow::Result<()> {
    let suite = context.adapters.recognize(folder);
    found.extend(
        suite
            .filter(|suite| suite.name == "go-package")
            .map(|suite| suite_source(folder, suite, context)),
    );
    for entry in visible_entries(folder)?.into_iter().filter(|entry| entry.is_dir()) {
        let name = entry.file_name().unwrap_or_default();
        let is_link = entry.is_symlink();
        let is_module = entry.join("go.mod").is_file();
        if name != "vendor" && name != "testdata" && !is_link && !is_module {
            add_go_packages(&entry, context, found)?;
        }
    }
    Ok(())
}

fn classify_own_kind(file: &Path, context: TargetContext<'_>) -> anyhow::Result<BenchmarkSource> {
    // Names consist of group and file, so the root is two levels up.
    let root = file.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
    if let Some(source) = fake_source(file, &root) {
        return Ok(source);
    }
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let source = |kind| BenchmarkSource::new(kind, file, &root, context.cwd);
    if crate::is_program_with_harness(file) {
        return Ok(source_of_program(file, None, context));
    }
    if extension == "toml" {
        return definition_source(file);
    }
    let languages = ["js", "cjs", "mjs", "ts", "cts", "mts", "cpp", "cc", "cxx", "py"];
    if declares_types_only(file) {
        bail!("a file with only type declarations has no benchmarks");
    }
    if !languages.contains(&extension) {
        bail!("benchmarks in '.{extension}' files are not supported");
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
        "py" => bail!("it does not import speedwell"),
        "cpp" | "cc" | "cxx" if has_line(&["#include"]) => return Ok(source(SourceKind::Cpp)),
        "cpp" | "cc" | "cxx" => bail!("it does not include speedwell.hpp"),
        _ => {}
    }
    if let Some(root) = core_root_of(file, &text) {
        let is_index = file.file_name().is_some_and(|name| name == "index.js");
        let entry = if is_index { file.parent().unwrap_or(file) } else { file };
        return Ok(core_source(entry, file.to_owned(), root));
    }
    if !text.contains("createBenchmark") {
        bail!("it does not call createBenchmark");
    }
    Ok(source(SourceKind::Node))
}

/// Reads a definition file. Its commands start in the folder of the file. The names of its
/// benchmarks do not include this folder.
fn definition_source(file: &Path) -> anyhow::Result<BenchmarkSource> {
    let definition = LazyDefinition::new(speedwell_config::read_source(file, &[])?);
    let name = definition.experiment()?.name.clone();
    let folder = file.parent().unwrap_or(Path::new("/"));
    Ok(BenchmarkSource {
        name,
        definition: Some(Arc::new(definition)),
        ..BenchmarkSource::new(SourceKind::Load, file, folder, folder)
    })
}

/// Returns the experiment among `targets`, if there is one.
///
/// # Errors
/// Fails if `targets` contains both an experiment and other targets.
pub fn find_experiment(targets: &[String], cwd: &Path) -> anyhow::Result<Option<PathBuf>> {
    let is_experiment = |target: &&String| {
        let path = cwd.join(target);
        path.is_file() && definition_form(&path) == Some(DefinitionForm::Experiment)
    };
    match targets.iter().find(is_experiment) {
        Some(target) if targets.len() > 1 => bail!(
            "the experiment '{target}' cannot be combined with other targets\n\
             hint: run them one after the other"
        ),
        found => Ok(found.map(|target| cwd.join(target))),
    }
}

/// Collects the variants that definition files among `sources` declare.
///
/// # Errors
/// Fails if a file declares variants, but other benchmarks are to be measured as well.
pub fn declared_variants(sources: &[BenchmarkSource]) -> anyhow::Result<Vec<Variant>> {
    let mut declared = Vec::new();
    for source in sources.iter().filter(|source| source.kind == SourceKind::Load) {
        let experiment = source.definition()?.experiment()?;
        let current = |name: &str| std::env::var(name).ok();
        let variants = experiment.variants.iter();
        for variant in variants.filter(|variant| variant.is_declared) {
            declared.push(experiment.declared_variant(&variant.name, &current)?);
        }
    }
    if sources.len() > 1 && !declared.is_empty() {
        bail!(
            "a definition file with variants cannot be combined with other benchmarks\n\
             hint: run the files one after the other"
        );
    }
    Ok(declared)
}

/// Creates a source for a built program. Its folder is a build folder, not a group, and is not part
/// of case names, so two builds in two folders have the same cases.
pub fn program_source(
    file: &Path,
    suite: Option<Arc<SuiteAdapter>>,
    cwd: &Path,
) -> BenchmarkSource {
    let adapters = KnownAdapters::default();
    source_of_program(file, suite, TargetContext { cwd, adapters: &adapters })
}

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

/// Whether the file is text by git's rule: no NUL byte near its beginning.
pub fn is_text(file: &Path) -> bool {
    const MAX_BYTES: u64 = 8000;
    let mut beginning = Vec::new();
    let read =
        fs::File::open(file).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut beginning));
    read.is_ok() && !beginning.contains(&0)
}

/// Finds the Node.js core folder of a single file. The file is in one of the folder's groups, or
/// requires the folder's `common.js` by a relative path.
fn core_root_of<'a>(file: &'a Path, text: &str) -> Option<&'a Path> {
    let has_library = |folder: &&Path| folder.join("common.js").is_file();
    let group_root = file.ancestors().nth(2).filter(has_library);
    let endings = ["/common'", "/common.js'", "/common\"", "/common.js\""];
    let requires_library = endings.iter().any(|ending| text.contains(ending));
    group_root.or_else(|| {
        let mut ancestors = file.ancestors().skip(1).take(4);
        ancestors.find(has_library).filter(|_| requires_library)
    })
}

/// Whether the file holds only TypeScript declarations, such as `index.d.ts`.
fn declares_types_only(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default();
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    ending.ends_with("ts") && Path::new(stem).extension().is_some_and(|inner| inner == "d")
}
