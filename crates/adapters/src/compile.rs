//! Compiles a C or C++ file once for each combination of content, compiler and flags.
//!
//! The name of a program in the cache folder depends on all inputs, so a compilation never replaces
//! a program that is being measured. Each compilation also writes a list of the headers that it
//! read (`-MMD`). With this list, the next call can tell whether a header has changed. Start at
//! [`build_program`]; for languages other than C and C++, start at [`GeneratedBuild`], which
//! compiles generated sources in a folder.

use crate::cache::{
    self, cache_folder, hash_name, hash_value, locate_program, mark_used, sorted_entries,
};
use crate::failure::HarnessFailure;
use speedwell_machine::process::{
    ProcessEnd, ProcessOutcome, ProcessSpec, begin_activity, run_child,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Time limit of a compiler.
pub(super) const COMPILER_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum number of lines of compiler output to keep, from its beginning, because the first error
/// matters most.
const MAX_ERROR_LINES: usize = 20;

/// Programs that have not been used for this long are removed.
const MAX_UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Everything that determines the program.
#[derive(Debug, Clone, Hash, PartialEq, Eq)]
pub(super) struct BuildRecipe {
    pub compiler: PathBuf,
    pub flags: Vec<String>,
    /// Folder in which the compiler searches for headers of the harness, such as `speedwell.hpp`.
    pub header: PathBuf,
    pub file: PathBuf,
    pub directory: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// Splits the value of a variable into words as a shell does. A value in `environment` takes
/// precedence over the environment of this process.
pub(super) fn variable_words(name: &str, environment: &[(String, String)]) -> Vec<String> {
    let entry = environment.iter().find(|(variable, _)| variable == name);
    let text = entry.map(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok());
    text.and_then(|text| shell_words::split(&text).ok()).unwrap_or_default()
}

/// Result of a build in this process; empty until the build is finished.
type BuildSlot = Arc<OnceLock<Result<PathBuf, HarnessFailure>>>;

fn build_slot(recipe: &BuildRecipe) -> BuildSlot {
    static BUILDS: Mutex<Option<HashMap<BuildRecipe, BuildSlot>>> = Mutex::new(None);
    let mut guard = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_default().entry(recipe.clone()).or_default().clone()
}

/// Returns the program of a recipe, and compiles it first if necessary. Later calls return the same
/// program even if its source has changed since, because one session measures one program.
///
/// # Errors
/// Fails if the compiler cannot be started, or rejects the file.
pub(super) fn build_program(recipe: &BuildRecipe) -> Result<PathBuf, HarnessFailure> {
    let compile = || find_or_compile(recipe, &cache_folder().join("cpp"));
    build_slot(recipe).get_or_init(compile).clone()
}

/// Returns the program of a recipe if any process has compiled it before. As with
/// [`build_program`], later calls return the same program.
pub(super) fn find_program(recipe: &BuildRecipe) -> Option<PathBuf> {
    let slot = build_slot(recipe);
    let result = match slot.get() {
        Some(result) => result,
        None => {
            let found = find_cached(recipe, &cache_folder().join("cpp"))?;
            slot.get_or_init(|| Ok(found))
        }
    };
    result.as_ref().ok().cloned()
}

fn find_cached(recipe: &BuildRecipe, cache: &Path) -> Option<PathBuf> {
    let input_list = recipe.input_list_path(cache);
    let inputs = fs::read_to_string(&input_list).ok()?;
    let inputs: Vec<PathBuf> = inputs.lines().map(PathBuf::from).collect();
    let program = recipe.program_path(cache, &inputs);
    if inputs.is_empty() || !program.is_file() {
        return None;
    }
    mark_used(&program);
    mark_used(&input_list);
    Some(program)
}

fn find_or_compile(recipe: &BuildRecipe, cache: &Path) -> Result<PathBuf, HarnessFailure> {
    if let Some(program) = find_cached(recipe, cache) {
        return Ok(program);
    }
    let stem = recipe.file_stem();
    let draft =
        cache.join(format!("draft-{stem}-{:016x}-{}", recipe.hash_inputs(), std::process::id()));
    let spec = recipe.compiler_command(&draft);
    let failed_at = |error: std::io::Error, path: &Path| {
        io_failure(path, &error).with_replay(&recipe.replay_command())
    };
    fs::create_dir_all(cache).map_err(|error| failed_at(error, cache))?;
    remove_unused(cache);
    let compiled = run_compiler(&spec, &recipe.replay_command());
    let rules = rules_path(&draft);
    let inputs = parse_prerequisites(&fs::read_to_string(&rules).unwrap_or_default(), recipe);
    // A compiler that rejects the file may nevertheless have written the list of headers.
    let _ = fs::remove_file(&rules);
    compiled.inspect_err(|_| cache::remove_entry(&draft))?;
    let program = recipe.program_path(cache, &inputs);
    let list = recipe.input_list_path(cache);
    let names: Vec<_> = inputs.iter().map(|path| path.to_string_lossy()).collect();
    fs::write(&list, names.join("\n")).map_err(|error| failed_at(error, &list))?;
    fs::rename(&draft, &program).map_err(|error| failed_at(error, &program))?;
    Ok(program)
}

/// Path of the file to which the compiler writes the names of all files that it read. The name of a
/// benchmark may contain a dot, after which it must not be cut off.
fn rules_path(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(".d");
    path.into()
}

/// Runs a compiler; `replay` is the equivalent command to show to the user.
///
/// # Errors
/// Fails if the compiler cannot be started, or rejects its input.
pub(super) fn run_compiler(spec: &ProcessSpec, replay: &ProcessSpec) -> Result<(), HarnessFailure> {
    let _activity = begin_activity(describe_call(spec));
    let outcome = start_compiler(spec).map_err(|failure| failure.with_replay(replay))?;
    if outcome.ended == ProcessEnd::Exit(0) {
        return Ok(());
    }
    let output = format!("{}{}", outcome.stderr.text(), outcome.stdout.text());
    let first_lines: Vec<&str> = output.lines().take(MAX_ERROR_LINES).collect();
    let message = first_error(&output);
    let failure = HarnessFailure::of_compiler(spec, &outcome, &message, first_lines.join("\n"));
    Err(failure.with_replay(replay))
}

fn start_compiler(spec: &ProcessSpec) -> Result<ProcessOutcome, HarnessFailure> {
    run_child(spec, &mut ()).map_err(|error| {
        let reason = format!("the compiler '{}': {error}", spec.program.display());
        HarnessFailure::start_failed(reason)
    })
}

/// Returns the failure of a file or folder that cannot be accessed.
pub(super) fn io_failure(path: &Path, error: &std::io::Error) -> HarnessFailure {
    HarnessFailure::start_failed(format!("'{}': {error}", path.display()))
}

/// Describes a compiler call in a few words: `compiling copy.cpp with c++`.
fn describe_call(spec: &ProcessSpec) -> String {
    let folder = spec.directory.clone().unwrap_or_default();
    let files = spec.arguments.iter().map(|argument| folder.join(argument));
    let source = files.into_iter().find(|path| path.is_file());
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    format!("compiling {} with {}", name(&source.unwrap_or(folder)), name(&spec.program))
}

/// Extracts the message of the first error.
fn first_error(output: &str) -> String {
    // rustc numbers its errors: 'error[E0425]: ...'.
    let message_start = |line: &'_ str| {
        let start = line.find("error:").or_else(|| line.find("error["))?;
        line[start..].find(':').map(|colon| start + colon + 1)
    };
    let error =
        output.lines().find_map(|message| message_start(message).map(|start| &message[start..]));
    // Go's output begins with a line '# PACKAGE'.
    let first_line = output.lines().find(|message| !message.starts_with('#'));
    let message = error.or(first_line).unwrap_or("no reason given");
    message.trim().to_owned()
}

/// Parses the prerequisites of a make rule (`target: file file \ file`); spaces in names are
/// escaped.
fn parse_prerequisites(rule: &str, recipe: &BuildRecipe) -> Vec<PathBuf> {
    let prerequisites = rule.split_once(": ").map_or("", |(_, files)| files);
    let names = prerequisites.replace("\\\n", " ").replace("\\ ", "\0");
    let paths = names.split_whitespace().map(|name| name.replace('\0', " "));
    let mut inputs: Vec<PathBuf> = paths.map(|name| recipe.directory.join(name)).collect();
    if inputs.is_empty() {
        inputs.push(recipe.file.clone());
    }
    inputs
}

/// Removes entries that have not been used for a long time, and drafts of killed compilations.
pub(super) fn remove_unused(cache: &Path) {
    cache::remove_drafts(cache);
    cache::remove_old(cache, MAX_UNUSED_AGE, |_| true);
}

impl BuildRecipe {
    /// Hashes everything but file contents. A new compiler version under the same name changes the
    /// hash.
    fn hash_inputs(&self) -> u64 {
        let metadata = fs::canonicalize(locate_program(&self.compiler)).and_then(fs::metadata);
        hash_value(&(self, metadata.ok().map(|data| (data.len(), data.modified().ok()))))
    }

    fn hash_contents(&self, inputs: &[PathBuf]) -> u64 {
        let content = |input: &PathBuf| hash_value(&(input, fs::read(input).ok()));
        let contents: Vec<u64> = inputs.iter().map(content).collect();
        hash_value(&(self.hash_inputs(), contents))
    }

    fn file_stem(&self) -> Cow<'_, str> {
        self.file.file_stem().unwrap_or_default().to_string_lossy()
    }

    /// Path of the file that lists the inputs of the last compilation.
    fn input_list_path(&self, cache: &Path) -> PathBuf {
        cache.join(format!("{}-{:016x}.inputs", self.file_stem(), self.hash_inputs()))
    }

    /// Path of the program built from these inputs.
    fn program_path(&self, cache: &Path, inputs: &[PathBuf]) -> PathBuf {
        let content = self.hash_contents(inputs);
        cache.join(format!("{}-{content:016x}", self.file_stem()))
    }

    /// Builds the compiler command. Flags follow the file, because a linker searches a library only
    /// for symbols that the preceding files need.
    fn compiler_command(&self, output: &Path) -> ProcessSpec {
        let rules = rules_path(output);
        let mut spec = ProcessSpec::new(&self.compiler)
            .args([self.file.to_string_lossy()])
            .args(&self.flags)
            .args(["-I", &self.header.to_string_lossy(), "-o", &output.to_string_lossy()])
            .args(["-MMD", "-MF", &rules.to_string_lossy()]);
        spec.environment = self.environment.clone();
        spec.directory = Some(self.directory.clone());
        spec.limit = COMPILER_TIMEOUT;
        spec
    }

    /// Returns the equivalent command to show to the user. This command does not write a list of
    /// headers.
    fn replay_command(&self) -> ProcessSpec {
        let mut spec = self.compiler_command(Path::new("/dev/null"));
        spec.arguments.truncate(spec.arguments.len() - 3);
        spec
    }
}

/// Generated sources and a compiler command. The command runs in the folder of the sources.
#[derive(Debug, Clone, Default)]
pub struct GeneratedBuild {
    /// Prefix of the name of the folder in which the sources are compiled.
    pub stem: &'static str,
    /// Name and content of each file.
    pub files: Vec<(String, String)>,
    pub compiler: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Further inputs that determine the result, such as the version of the compiler.
    pub identity: String,
}

impl GeneratedBuild {
    /// Compiles the sources if necessary. Returns the folder with the sources and the compiler's
    /// output.
    ///
    /// # Errors
    /// Fails if the compiler cannot be started, or rejects the sources.
    pub fn compile(&self) -> Result<PathBuf, HarnessFailure> {
        self.compile_below(&cache_folder().join("code"))
    }

    /// Does the same as [`GeneratedBuild::compile`], but in the cache folder `cache`.
    ///
    /// # Errors
    /// Fails if the compiler cannot be started, or rejects the sources.
    pub fn compile_below(&self, cache: &Path) -> Result<PathBuf, HarnessFailure> {
        if let Some(folder) = self.find_below(cache) {
            return Ok(folder);
        }
        let folder = cache.join(self.folder_name());
        cache::fill_folder(&folder, |draft| self.compile_in(draft, cache))?;
        Ok(folder)
    }

    /// Returns the folder if the sources were compiled before.
    pub fn find_compiled(&self) -> Option<PathBuf> {
        self.find_below(&cache_folder().join("code"))
    }

    fn find_below(&self, cache: &Path) -> Option<PathBuf> {
        let folder = cache.join(self.folder_name());
        folder.is_dir().then(|| {
            mark_used(&folder);
            folder
        })
    }

    fn compile_in(&self, draft: &Path, cache: &Path) -> Result<(), HarnessFailure> {
        let write_files = || {
            fs::create_dir_all(draft)?;
            remove_unused(cache);
            let mut files = self.files.iter();
            files.try_for_each(|(name, content)| fs::write(draft.join(name), content))
        };
        write_files().map_err(|error| io_failure(draft, &error))?;
        let spec = self.compiler_command(draft);
        run_compiler(&spec, &spec)
    }

    /// Builds the compiler command, with the sources in `folder`.
    pub fn compiler_command(&self, folder: &Path) -> ProcessSpec {
        let mut spec = ProcessSpec::new(&self.compiler).args(self.arguments.iter().cloned());
        spec.environment = self.environment.clone();
        spec.directory = Some(folder.to_owned());
        spec.limit = COMPILER_TIMEOUT;
        spec
    }

    /// Returns the folder's name, which contains a hash of all inputs.
    fn folder_name(&self) -> String {
        let command = (&self.compiler, &self.arguments, &self.environment);
        format!("{}-{}", self.stem, hash_name(&(command, &self.files, &self.identity)))
    }
}

/// Hashes the name, size and modification time of every file in the user's folders: a program may
/// depend on any file.
pub fn hash_folders(folders: &[PathBuf]) -> String {
    // Realistic module folders are below this limit. It keeps us from scanning a whole disk.
    const MAX_ENTRIES: usize = 20_000;
    let mut found = Vec::new();
    let mut pending: Vec<PathBuf> = folders.to_vec();
    let mut entry_count = 0;
    while let Some(path) = pending.pop() {
        for entry in sorted_entries(&path) {
            entry_count += 1;
            match fs::symlink_metadata(&entry) {
                Ok(data) if data.is_dir() && entry_count < MAX_ENTRIES => pending.push(entry),
                Ok(data) => found.push((entry, data.len(), data.modified().ok())),
                Err(_) => {}
            }
        }
    }
    hash_name(&found)
}

/// Returns a program's version output, cached for the life of this process.
pub fn program_version(program: &Path, arguments: &[&str]) -> Result<String, HarnessFailure> {
    static VERSIONS: Mutex<Option<HashMap<(PathBuf, String), String>>> = Mutex::new(None);
    let key = (program.to_owned(), arguments.join(" "));
    let mut guard = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let versions = guard.get_or_insert_default();
    if let Some(version) = versions.get(&key) {
        return Ok(version.clone());
    }
    let spec = ProcessSpec::new(program).args(arguments.iter().copied());
    let outcome = start_compiler(&spec)?;
    let output = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    versions.insert(key, output.clone());
    Ok(output)
}

/// Returns the program `name` in the folder of `program`, or just the name if it is not there.
pub fn adjacent_program(program: &Path, name: &str) -> PathBuf {
    let adjacent = resolve_links(program).with_file_name(name);
    if adjacent.is_file() { adjacent } else { PathBuf::from(name) }
}

/// Locates a program and follows links to it.
pub fn resolve_links(program: &Path) -> PathBuf {
    let location = locate_program(program);
    fs::canonicalize(&location).unwrap_or(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_recipe() -> BuildRecipe {
        BuildRecipe {
            compiler: "c++".into(),
            flags: vec!["-O2".into()],
            header: "/h".into(),
            file: "/b/a b.cpp".into(),
            directory: "/w".into(),
            environment: Vec::new(),
        }
    }

    #[test]
    fn the_make_rule_written_by_a_compiler_names_every_input() {
        let rule = "/c/draft: /b/a\\ b.cpp /h/speedwell.hpp \\\n  near.hpp\n";
        let expected = ["/b/a b.cpp", "/h/speedwell.hpp", "/w/near.hpp"].map(PathBuf::from);
        assert_eq!(parse_prerequisites(rule, &test_recipe()), expected);
        assert_eq!(parse_prerequisites("", &test_recipe()), [PathBuf::from("/b/a b.cpp")]);
    }

    #[test]
    fn the_first_error_is_extracted_from_compiler_output() {
        let output =
            "In file included from x:\nx.cpp:3:1: error: expected ';'\nx.cpp:9: error: more\n";
        assert_eq!(first_error(output), "expected ';'");
        assert_eq!(first_error("/usr/bin/ld: cannot find -lx\n"), "/usr/bin/ld: cannot find -lx");
        let go = "# example.com/tiny\nx_test.go:11:9: expected type, found newline\nFAIL\n";
        assert_eq!(first_error(go), "x_test.go:11:9: expected type, found newline");
    }

    #[test]
    fn a_compilation_is_announced_by_its_first_file_or_else_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("copy.cpp"), "").unwrap();
        let mut spec = ProcessSpec::new("/usr/bin/c++").args(["-O2", "copy.cpp", "-o", "copy"]);
        spec.directory = Some(folder.path().to_owned());
        assert_eq!(describe_call(&spec), "compiling copy.cpp with c++");
        let mut spec = ProcessSpec::new("go").args(["test", "-c"]);
        spec.directory = Some("/src/buffer".into());
        assert_eq!(describe_call(&spec), "compiling buffer with go");
    }

    #[test]
    fn every_input_changes_the_identity() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("near.hpp");
        fs::write(&input, "1").unwrap();
        let with = |recipe: &BuildRecipe| recipe.hash_contents(std::slice::from_ref(&input));
        let first = with(&test_recipe());
        assert_eq!(first, with(&test_recipe()));
        let flags = vec!["-O3".into()];
        assert_ne!(first, with(&BuildRecipe { flags, ..test_recipe() }));
        fs::write(&input, "2").unwrap();
        assert_ne!(first, with(&test_recipe()));
    }
}
