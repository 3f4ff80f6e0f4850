//! Resolves targets to paths, lists folders, and reads definition files.
//!
//! A folder with a `common.js` next to its groups is a Node.js core folder. That project's rules
//! apply: all folders except `fixtures` and `node_modules` are groups, names that begin with `.` or
//! `_` are hidden, and a folder with `index.js` is one benchmark. Any other folder is searched for
//! benchmark files.

use crate::cache::cache_folder;
use crate::job::{BenchmarkSource, SourceKind};
use crate::suites::{KnownAdapters, framework_without_adapter};
use anyhow::{Context, anyhow, bail};
use speedwell_config::LazyDefinition;
use speedwell_config::experiment::{DefinitionForm, definition_form};
use speedwell_machine::process::resolve_program;
use speedwell_model::{Variant, nearest_name, quote};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Finds a file in or below the folder that belongs to a framework without an adapter. Returns the
/// file and the name of the framework.
pub fn foreign_file(folder: &Path) -> Option<(PathBuf, &'static str)> {
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

/// Returns the file or folder that `target` denotes.
pub fn find_path(target: &str, cwd: &Path, adapters: &KnownAdapters) -> anyhow::Result<PathBuf> {
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

/// Reads a file that the user has named.
///
/// # Errors
/// Fails if the file cannot be read. If it does not exist, the message suggests a similar name.
pub fn read_named_file(file: &Path) -> anyhow::Result<Vec<u8>> {
    let name = file.to_string_lossy();
    fs::read(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let near = similar_file(&name, Path::new("."));
            let hint = near.map(|near| format!("\nhint: did you mean '{near}'?"));
            anyhow!("cannot read '{name}': no such file{}", hint.unwrap_or_default())
        }
        _ => anyhow!("cannot read '{name}': {error}"),
    })
}

/// Whether `text` begins with the name or path of an executable program.
pub fn is_command(text: &str) -> bool {
    let words = shell_words::split(text).unwrap_or_default();
    let program = words.first().map(Path::new);
    program.is_some_and(|program| resolve_program(program).is_ok())
}

/// Returns the shell command that starts the script at `path`, which the user typed as `typed`.
/// Returns `None` for other files.
pub fn script_command(typed: &str, path: &Path) -> Option<String> {
    let interpreter = match path.extension()?.to_str()? {
        "py" => "python3",
        "js" | "mjs" | "cjs" => "node",
        "rb" => "ruby",
        "pl" => "perl",
        program @ ("sh" | "php" | "lua") => program,
        _ => return None,
    };
    path.is_file().then(|| format!("{interpreter} {}", quote(typed)))
}

/// Returns a hint on how to measure a command.
pub fn command_hint(command: &str) -> String {
    format!("\nhint: to measure it as a command: speedwell time {}", quote(command))
}

/// Returns the names of the groups, for hints, if the current folder or its `benchmark` folder is a
/// Node.js core folder.
fn groups_near(cwd: &Path) -> Vec<String> {
    let folders = [cwd.to_owned(), cwd.join("benchmark")];
    let Some(root) = folders.iter().find(|folder| is_core_root(folder)) else { return Vec::new() };
    let names = core_groups(root).unwrap_or_default();
    names.iter().filter_map(|group| Some(group.file_name()?.to_str()?.to_owned())).collect()
}

fn is_core_root(folder: &Path) -> bool {
    folder.join("common.js").is_file()
}

/// Returns the Node.js core folder that is `path` itself or contains the group `path`.
pub fn core_root(path: &Path) -> Option<PathBuf> {
    path.ancestors().take(2).find(|folder| is_core_root(folder)).map(Path::to_owned)
}

pub fn core_folder(path: &Path, root: &Path) -> anyhow::Result<Vec<BenchmarkSource>> {
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
    let is_hidden = |entry: &Path| entry.ends_with("fixtures") || entry.ends_with("node_modules");
    let entries = visible_entries(root)?.into_iter();
    Ok(entries.filter(|entry| entry.is_dir() && !is_hidden(entry)).collect())
}

/// Creates a source for the script `file` of the Node.js core folder `root`. The benchmark is named
/// after `entry`, which is the script itself or its folder.
pub fn core_source(entry: &Path, file: PathBuf, root: &Path) -> BenchmarkSource {
    // Node.js core scripts expect the root of the checkout as working directory.
    let directory = root.parent().unwrap_or(root);
    BenchmarkSource { file, ..BenchmarkSource::new(SourceKind::NodeCore, entry, root, directory) }
}

pub fn fake_source(file: &Path, root: &Path) -> Option<BenchmarkSource> {
    (file.extension()? == "fake").then(|| BenchmarkSource::new(SourceKind::Fake, file, root, root))
}

/// Visible entries of a folder, sorted by name, without the cache folder.
pub fn visible_entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder '{}'", folder.display()))?;
    let mut found: Vec<PathBuf> = read
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with(['.', '_']))
        .map(|entry| entry.path())
        .filter(|path| !is_cache(path))
        .collect();
    found.sort();
    Ok(found)
}

/// Whether this is the cache folder, which holds harnesses and builds.
fn is_cache(path: &Path) -> bool {
    let is_named_alike = || {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("speedwell") && path.is_dir()
    };
    let is_same = |folder: PathBuf| cache_folder().canonicalize().is_ok_and(|own| own == folder);
    is_named_alike() && path.canonicalize().is_ok_and(is_same)
}

/// Reads a definition file. Its commands start in the folder of the file. The names of its
/// benchmarks do not include this folder.
pub fn definition_source(file: &Path) -> anyhow::Result<BenchmarkSource> {
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
pub fn core_root_of<'a>(file: &'a Path, text: &str) -> Option<&'a Path> {
    let has_library = |folder: &&Path| is_core_root(folder);
    let group_root = file.ancestors().nth(2).filter(has_library);
    let endings = ["/common'", "/common.js'", "/common\"", "/common.js\""];
    let requires_library = endings.iter().any(|ending| text.contains(ending));
    group_root.or_else(|| {
        let mut ancestors = file.ancestors().skip(1).take(4);
        ancestors.find(has_library).filter(|_| requires_library)
    })
}

/// Whether the file holds only TypeScript declarations, such as `index.d.ts`.
pub fn declares_types_only(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default();
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    ending.ends_with("ts") && Path::new(stem).extension().is_some_and(|inner| inner == "d")
}
