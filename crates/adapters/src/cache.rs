//! Chooses the cache folder for reproducible files, such as harnesses and compiled programs, and
//! caches descriptions of benchmark files in it.
//!
//! Files in the cache folder are executed. The default folder is therefore used only if no other
//! user can write to it. Otherwise, this process uses a temporary folder.
//!
//! A description lists the cases and parameters of a file. An unchanged file is not queried again.
//! A description depends on the file, on the program that executes the file, on the request, on
//! other files that are read, and on environment variables. The describing process reports these
//! dependencies ([`DescriptionInputs`]), and all of them are compared before a cached description
//! is used. A description with untraceable dependencies is not cached. Start at [`ask_cached`].

use crate::failure::{HarnessFailure, converse};
use serde::{Deserialize, Serialize};
use speedwell_machine::process::{
    ChildConversation, NextStep, ProcessEnd, ProcessOutcome, ProcessSpec, ScratchFolder,
    effective_user_id,
};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Prefix of entries under construction.
const DRAFT_PREFIX: &str = "draft-";

/// Drafts older than this belong to killed processes: no compilation may take that long.
const MAX_DRAFT_AGE: Duration = Duration::from_secs(3600);

/// Returns `$XDG_CACHE_HOME/speedwell`, else `~/.cache/speedwell`, else a folder of this user in
/// the temporary directory. If others could write there, returns a temporary folder of this
/// process.
pub fn cache_folder() -> PathBuf {
    CHOSEN_FOLDER.get_or_init(choose_folder).0.clone()
}

/// Explains in a sentence why the default folder is not used. `None` if it is used, or if no cache
/// folder was needed.
pub fn cache_warning() -> Option<&'static str> {
    CHOSEN_FOLDER.get()?.1.as_deref()
}

static CHOSEN_FOLDER: OnceLock<(PathBuf, Option<String>)> = OnceLock::new();

fn choose_folder() -> (PathBuf, Option<String>) {
    let default = default_folder();
    match unsafe_reason(&default, effective_user_id()) {
        None => (default, None),
        Some(reason) => {
            let warning = format!(
                "The cache folder '{}' is not used: {reason} and could plant code in it. \
                 Everything is unpacked and compiled again.",
                default.display()
            );
            // The folder is private to this process; a later process removes it. Without a
            // temporary folder, the first write reports the error.
            let scratch = ScratchFolder::new().ok().map(|scratch| Box::leak(Box::new(scratch)));
            let folder = scratch.map_or_else(std::env::temp_dir, |own| own.folder().to_owned());
            (folder, Some(warning))
        }
    }
}

fn default_folder() -> PathBuf {
    let folder_variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder_variable("HOME").map(|home| home.join(".cache"));
    match folder_variable("XDG_CACHE_HOME").or_else(home) {
        Some(caches) => caches.join("speedwell"),
        None => std::env::temp_dir().join(format!("speedwell-{}", effective_user_id())),
    }
}

/// Explains, as a sentence fragment, why another user may have written to the folder. Creates a
/// missing folder with access for its owner only. If this fails, the first write reports the error.
fn unsafe_reason(folder: &Path, user: u32) -> Option<String> {
    if let Some(parent) = folder.parent() {
        let _ = fs::create_dir_all(parent);
        // The sticky bit of a shared temporary folder prevents others from renaming its entries.
        let is_shared = |data: &Metadata| is_writable_by_others(data) && data.mode() & 0o1000 == 0;
        let data = fs::metadata(parent).ok();
        if let Some(data) = data.filter(|data| is_foreign_owned(data, user) || is_shared(data)) {
            return Some(format!("{} '{}'", describe_writer(&data, user), parent.display()));
        }
    }
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let link = fs::symlink_metadata(folder).ok()?;
    let data = if link.is_symlink() && !is_foreign_owned(&link, user) {
        fs::metadata(folder).ok()?
    } else {
        link
    };
    let is_unsafe = is_foreign_owned(&data, user) || is_writable_by_others(&data);
    is_unsafe.then(|| format!("{} it", describe_writer(&data, user)))
}

fn is_foreign_owned(data: &Metadata, user: u32) -> bool {
    data.uid() != user && data.uid() != 0
}

/// Whether users other than the owner may write. By convention, a group with the same ID as the
/// owner has no other members.
fn is_writable_by_others(data: &Metadata) -> bool {
    let by_group = data.mode() & 0o020 != 0 && data.gid() != data.uid();
    by_group || data.mode() & 0o002 != 0
}

fn describe_writer(data: &Metadata, user: u32) -> String {
    if is_foreign_owned(data, user) {
        format!("the user with ID {} owns", data.uid())
    } else {
        "other users may write to".to_owned()
    }
}

/// Removes abandoned drafts from a folder.
pub(super) fn remove_drafts(folder: &Path) {
    remove_old(folder, MAX_DRAFT_AGE, |name| name.starts_with(DRAFT_PREFIX));
}

/// Removes the entries of a folder that are older than `age` and whose name is unwanted.
pub(super) fn remove_old(folder: &Path, age: Duration, is_unwanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|data| data.modified());
        let is_old = modified.is_ok_and(|time| time.elapsed().is_ok_and(|passed| passed > age));
        if is_old && is_unwanted(&entry.file_name().to_string_lossy()) {
            remove_entry(&entry.path());
        }
    }
}

/// Returns the entries of a folder, the least recently used first.
pub(super) fn entries_by_age(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut dated: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    dated.sort();
    dated.into_iter().map(|(_, path)| path).collect()
}

/// Returns the path at which `target` is constructed: a unique name in the same folder.
pub(super) fn draft_of(target: &Path) -> PathBuf {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!("{DRAFT_PREFIX}{name}-{}-{number}", std::process::id()))
}

/// Writes a file as a draft and renames it, because other threads and processes may access it.
pub(super) fn write_file(
    file: &Path,
    content: impl AsRef<[u8]>,
    is_executable: bool,
) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    let draft = draft_of(file);
    fs::write(&draft, content)?;
    if is_executable {
        fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    }
    fs::rename(&draft, file)
}

/// Fills a folder as a draft and renames it, because other threads and processes may do the same.
pub(super) fn fill_folder<E>(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let draft = draft_of(folder);
    let filled = fill(&draft);
    if filled.is_err() || fs::rename(&draft, folder).is_err() {
        remove_entry(&draft);
    }
    filled
}

/// Removes a file or folder, ignoring errors.
pub(super) fn remove_entry(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Maximum number of entries; the oldest are evicted.
const MAX_ENTRIES: usize = 2000;

/// Variable that contains the search path of modules; a variant may override it.
pub(super) const SEARCH_PATH: &str = "NODE_PATH";

/// Dependencies of a description, as reported by the process.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct DescriptionInputs {
    /// Files that were loaded or read.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Environment variables that were read.
    #[serde(default, rename = "env")]
    pub environment: Vec<String>,
    /// Whether there were further dependencies that cannot be compared.
    #[serde(default)]
    pub volatile: bool,
}

/// The program and the dependencies of a complete description.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DescriptionOrigin {
    /// Path of the program that executed the file, as reported by the program itself.
    #[serde(default)]
    pub program: PathBuf,
    /// Dependencies of the description.
    #[serde(default)]
    pub depends: DescriptionInputs,
}

#[derive(Serialize, Deserialize)]
struct CachedDescription {
    files: Vec<(PathBuf, u64)>,
    environment: BTreeMap<String, Option<String>>,
    lines: Vec<String>,
}

/// If the cache contains the conversation, replays it and returns `None`. Otherwise, holds the
/// conversation with the process of `spec` and returns the outcome of the process. `origin`
/// extracts the program and the dependencies from the line that completes a successful description.
/// `replay` is the command with which a user can repeat a failure.
pub(super) fn ask_cached<C: ChildConversation>(
    spec: &ProcessSpec,
    replay: &ProcessSpec,
    conversation: &mut C,
    origin: fn(&[u8]) -> Option<DescriptionOrigin>,
) -> Result<Option<ProcessOutcome>, HarnessFailure> {
    let opening = conversation.opening_bytes();
    let slot = CacheSlot::find(spec, &opening);
    if let Some(entry) = slot.as_ref().and_then(|slot| slot.load_entry(spec)) {
        for line in &entry.lines {
            conversation.handle_line(line.as_bytes());
        }
        return Ok(None);
    }
    let mut recorder = RecordingConversation {
        inner: conversation,
        opening,
        find_origin: origin,
        origin: None,
        lines: Some(Vec::new()),
    };
    let outcome = converse(spec, replay, &mut recorder)?;
    if let (Some(slot), Some(origin), Some(lines)) = (slot, recorder.origin, recorder.lines)
        && outcome.ended == ProcessEnd::Exit(0)
    {
        slot.store_entry(spec, &origin, lines);
    }
    Ok(Some(outcome))
}

/// Cache location for one request to one program.
struct CacheSlot {
    file: PathBuf,
    /// The program, with links resolved.
    program: PathBuf,
}

impl CacheSlot {
    /// Finds the slot for the request `opening`; `None` if the program cannot be found.
    fn find(spec: &ProcessSpec, opening: &[u8]) -> Option<CacheSlot> {
        let program = fs::canonicalize(locate_program(&spec.program)).ok()?;
        let metadata = program.metadata().ok()?;
        let mut variables: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"NODE_"))
            .collect();
        variables.sort();
        let set_paths = spec.environment.iter().filter(|(name, _)| name == SEARCH_PATH);
        let directory = spec.directory.as_deref().unwrap_or(Path::new("."));
        let name = hash_name(&(
            (env!("CARGO_PKG_VERSION"), &program, metadata.dev(), metadata.ino(), metadata.len()),
            (metadata.mtime(), metadata.mtime_nsec(), &spec.arguments, directory, opening),
            (set_paths.collect::<Vec<_>>(), variables),
        ));
        let file = cache_folder().join("described").join(name + ".json");
        Some(CacheSlot { file, program })
    }

    /// Returns the entry if none of its dependencies has changed.
    fn load_entry(&self, spec: &ProcessSpec) -> Option<CachedDescription> {
        let entry: CachedDescription = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        let is_same_file =
            |(file, expected): &(PathBuf, u64)| hash_content(file) == Some(*expected);
        let is_same_variable =
            |(name, expected): (&String, &Option<String>)| read_variable(name, spec) == *expected;
        let is_unchanged =
            entry.files.iter().all(is_same_file) && entry.environment.iter().all(is_same_variable);
        is_unchanged.then_some(entry)
    }

    /// Stores the description. Does nothing if dependencies are untraceable, or if the program is a
    /// wrapper that executed another program: it is not known how the wrapper chose that program,
    /// so a later choice may differ.
    fn store_entry(&self, spec: &ProcessSpec, origin: &DescriptionOrigin, lines: Vec<String>) {
        let is_same_program =
            fs::canonicalize(&origin.program).is_ok_and(|program| program == self.program);
        if origin.depends.volatile || origin.depends.files.is_empty() || !is_same_program {
            return;
        }
        let depends = origin.depends.files.iter();
        let files: Option<Vec<(PathBuf, u64)>> =
            depends.map(|file| Some((file.clone(), hash_content(file)?))).collect();
        let Some(files) = files else { return };
        // Variables that we set for the process are not dependencies: their values differ between
        // processes.
        let is_inherited = |name: &&String| {
            spec.environment.iter().all(|(variable, _)| variable != *name)
                && !spec.unset.contains(name)
        };
        let environment = origin.depends.environment.iter().filter(is_inherited);
        let entry = CachedDescription {
            files,
            environment: environment
                .map(|name| (name.clone(), read_variable(name, spec)))
                .collect(),
            lines,
        };
        // If the entry cannot be stored, the file is simply queried again next time.
        if let Ok(text) = serde_json::to_vec(&entry) {
            evict_oldest(self.file.parent().unwrap_or(Path::new(".")));
            let _ = write_file(&self.file, text, false);
        }
    }
}

/// Finds a program in `PATH`.
pub(super) fn find_in_path(program: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|file| file.is_file())
}

/// Finds a bare program name in `PATH`. Returns any other path unchanged.
pub(super) fn locate_program(program: &Path) -> PathBuf {
    let is_bare = program.components().count() < 2;
    let found = if is_bare { find_in_path(program) } else { None };
    found.unwrap_or_else(|| program.to_owned())
}

/// Returns the entries of a folder, sorted by name; none if it cannot be read.
pub(super) fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Updates the time of last use, which decides when an entry of the cache folder is removed.
pub(super) fn mark_used(path: &Path) {
    if let Ok(file) = fs::File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn read_variable(name: &str, spec: &ProcessSpec) -> Option<String> {
    if spec.unset.iter().any(|unset| unset == name) { None } else { std::env::var(name).ok() }
}

fn hash_content(file: &Path) -> Option<u64> {
    Some(hash_value(&fs::read(file).ok()?))
}

/// Hashes a value. The hash detects accidental differences, not malicious ones.
pub(super) fn hash_value(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash of a value as a part of a file name.
pub(super) fn hash_name(value: &impl Hash) -> String {
    format!("{:016x}", hash_value(value))
}

/// If the cache is full, removes the older half of its entries.
fn evict_oldest(folder: &Path) {
    let entries = entries_by_age(folder);
    if entries.len() >= MAX_ENTRIES {
        let oldest = &entries[..entries.len() - MAX_ENTRIES / 2];
        oldest.iter().for_each(|file| remove_entry(file));
    }
}

/// Forwards received lines and records them.
struct RecordingConversation<'a, C> {
    inner: &'a mut C,
    opening: Vec<u8>,
    find_origin: fn(&[u8]) -> Option<DescriptionOrigin>,
    origin: Option<DescriptionOrigin>,
    /// `None` if a line was not UTF-8.
    lines: Option<Vec<String>>,
}

impl<C: ChildConversation> ChildConversation for RecordingConversation<'_, C> {
    fn opening_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        self.origin = self.origin.take().or_else(|| (self.find_origin)(line));
        match std::str::from_utf8(line) {
            Ok(text) => self.lines.iter_mut().for_each(|lines| lines.push(text.to_owned())),
            Err(_) => self.lines = None,
        }
        self.inner.handle_line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_folder_is_made_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".cache/speedwell");
        assert_eq!(unsafe_reason(&cache, effective_user_id()), None);
        assert_eq!(fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_of_another_user_or_open_to_others_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        let reason = |user| unsafe_reason(&cache, user).unwrap_or_default();
        with_mode(&cache, 0o755);
        assert_eq!(reason(effective_user_id()), "");
        // Root is trusted.
        if effective_user_id() != 0 {
            assert!(
                reason(effective_user_id() + 1).contains("owns"),
                "{}",
                reason(effective_user_id() + 1)
            );
        }
        for mode in [0o757, 0o1777] {
            with_mode(&cache, mode);
            assert_eq!(reason(effective_user_id()), "other users may write to it", "{mode:o}");
        }
        with_mode(&cache, 0o700);
        with_mode(home.path(), 0o777);
        assert!(reason(effective_user_id()).starts_with("other users may write to '"));
        with_mode(home.path(), 0o1777);
        assert_eq!(reason(effective_user_id()), "");
    }

    #[test]
    fn a_folder_owned_by_another_user_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        if std::os::unix::fs::chown(&cache, Some(65_534), None).is_err() {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let reason = unsafe_reason(&cache, effective_user_id());
        assert_eq!(reason.unwrap(), "the user with ID 65534 owns it");
    }

    #[test]
    fn old_drafts_go_and_everything_else_stays() {
        let cache = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * MAX_DRAFT_AGE;
        for (name, time) in [("draft-a.d", old), ("draft-b", SystemTime::now()), ("program", old)] {
            let path = cache.path().join(name);
            let file = fs::File::create(path).unwrap();
            file.set_modified(time).unwrap();
        }
        remove_drafts(cache.path());
        let exists = |name: &str| cache.path().join(name).exists();
        assert!(!exists("draft-a.d") && exists("draft-b") && exists("program"));
    }
}
