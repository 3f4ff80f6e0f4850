//! What compilers other than those of C make of generated sources: a folder, made once for each content,
//! compiler and set of flags.

use super::super::cache_folder;
use super::super::compile::{self, Failed, LIMIT};
use speedwell_model::Cause;
use speedwell_process::{Spec, run};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Sources and the call of a compiler, which is executed in the folder where they lie.
#[derive(Debug, Clone)]
pub struct Making {
    /// Begins the name of the folder.
    pub stem: &'static str,
    /// Name and content of each file.
    pub files: Vec<(String, String)>,
    pub compiler: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Whatever else decides what will be made: versions, above all.
    pub identity: String,
}

impl Making {
    /// The folder with the sources and what was made of them.
    ///
    /// # Errors
    /// The compiler cannot be started, or refuses the sources.
    pub fn make(&self) -> Result<PathBuf, Failed> {
        static DRAFTS: AtomicU32 = AtomicU32::new(0);
        if let Some(folder) = self.find() {
            return Ok(folder);
        }
        let cache = cache_folder().join("code");
        let name = self.name();
        let folder = cache.join(&name);
        // Written beside and moved into place in one step: others may make the same at once.
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = cache.join(format!("draft-{name}-{}-{number}", std::process::id()));
        let made = self.make_in(&draft, &cache);
        if made.is_err() || fs::rename(&draft, &folder).is_err() {
            let _ = fs::remove_dir_all(&draft);
        }
        made.map(|()| folder)
    }

    /// The folder, if it was made before.
    pub fn find(&self) -> Option<PathBuf> {
        let folder = cache_folder().join("code").join(self.name());
        if !folder.is_dir() {
            return None;
        }
        // The time of last use, which decides what is removed one day.
        if let Ok(file) = fs::File::open(&folder) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(folder)
    }

    fn make_in(&self, draft: &Path, cache: &Path) -> Result<(), Failed> {
        let cannot = |error: std::io::Error| {
            let reason = format!("'{}': {error}", draft.display());
            Failed::before_start(Cause::Start { reason })
        };
        fs::create_dir_all(draft).map_err(cannot)?;
        compile::remove_unused(cache);
        for (name, content) in &self.files {
            fs::write(draft.join(name), content).map_err(cannot)?;
        }
        let mut spec = Spec::new(&self.compiler).args(self.arguments.iter().cloned());
        spec.environment = self.environment.clone();
        spec.directory = Some(draft.to_owned());
        spec.limit = LIMIT;
        compile::call(&spec, &spec)
    }

    /// The name of the folder, which tells apart whatever goes into it.
    fn name(&self) -> String {
        let mut hash = DefaultHasher::new();
        let called = (&self.compiler, &self.arguments, &self.environment);
        (called, &self.files, &self.identity).hash(&mut hash);
        format!("{}-{:016x}", self.stem, hash.finish())
    }
}

/// Tells whether something in folders of the user has changed, by name, size and time of each file. A program is
/// made of these files as well, and no list says of which.
pub fn state_of(folders: &[PathBuf]) -> String {
    // More than any folder of modules has; a whole disk must not be searched through.
    const MOST: usize = 20_000;
    let mut hash = DefaultHasher::new();
    let mut waiting: Vec<PathBuf> = folders.to_vec();
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let mut inside: Vec<PathBuf> = fs::read_dir(&path)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        inside.sort();
        for entry in inside {
            seen += 1;
            match fs::symlink_metadata(&entry) {
                Ok(data) if data.is_dir() && seen < MOST => waiting.push(entry),
                Ok(data) => (entry, data.len(), data.modified().ok()).hash(&mut hash),
                Err(_) => {}
            }
        }
    }
    format!("{:016x}", hash.finish())
}

/// What a program says of its version: asked once, and as wide as its file is the same.
pub fn version(program: &Path, arguments: &[&str]) -> Result<String, Failed> {
    static KNOWN: Mutex<Option<HashMap<(PathBuf, String), String>>> = Mutex::new(None);
    let key = (program.to_owned(), arguments.join(" "));
    let mut guard = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = guard.get_or_insert_default();
    if let Some(version) = known.get(&key) {
        return Ok(version.clone());
    }
    let spec = Spec::new(program).args(arguments.iter().copied());
    let outcome = run(&spec, &mut ()).map_err(|error| {
        let reason = format!("the compiler '{}': {error}", program.display());
        Failed::before_start(Cause::Start { reason })
    })?;
    let said = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    known.insert(key, said.clone());
    Ok(said)
}
