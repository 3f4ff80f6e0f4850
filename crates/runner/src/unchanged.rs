//! Refuses runs of code that changed while it was measured: earlier and later runs would be of two programs under one verdict.
//!
//! Decides by the content of small files, and by size, time of change and inode of large ones, as they were before the
//! first run. Which files these are is decided by `harness::code_files`. Start at [`Unchanged::check`].

use speedwell_harness::{self as harness, Job};
use speedwell_model::{Cause, Variant};
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files up to this size are compared by content if they seem to have changed, so that one which is written again as it
/// was counts as the same.
const LARGEST_READ_BYTES: u64 = 1 << 20;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    inode: u64,
}

/// A file as it was before the first run that it decides about.
#[derive(Debug, Clone)]
struct CodeFile {
    path: PathBuf,
    stamp: Option<Stamp>,
    content: Option<u64>,
}

/// The files of all runs so far, by the files of jobs and the names of variants.
#[derive(Debug, Default)]
pub(super) struct Unchanged {
    files: HashMap<(PathBuf, String), Vec<CodeFile>>,
}

impl Unchanged {
    /// Why the next run would be of other code than the runs before it, if it would.
    pub fn check(&mut self, job: &Job, variant: &Variant) -> Option<Cause> {
        let key = (job.source.file.clone(), name_of(job, variant));
        let files = self.files.entry(key).or_insert_with(|| {
            let program = harness::program_of(&job.source, variant);
            let files = harness::code_files(job, variant, &program);
            files.into_iter().map(CodeFile::new).collect()
        });
        let changed = files
            .iter_mut()
            .find_map(|file| file.has_changed().then_some(file))?;
        Some(Cause::Invalid {
            reason: format!(
                "'{}' was changed while it was measured: later runs would be of other code",
                changed.path.display()
            ),
        })
    }
}

/// The variant; jobs with snippets of their own have files of their own.
fn name_of(job: &Job, variant: &Variant) -> String {
    match &job.snippet {
        Some(_) => format!("{}\n{}", variant.name, job.label),
        None => variant.name.clone(),
    }
}

impl CodeFile {
    fn new(path: PathBuf) -> CodeFile {
        CodeFile {
            stamp: Stamp::of(&path),
            content: content_of(&path),
            path,
        }
    }

    fn has_changed(&mut self) -> bool {
        let now = Stamp::of(&self.path);
        if now == self.stamp {
            return false;
        }
        let is_same = self.content.is_some() && content_of(&self.path) == self.content;
        if is_same {
            self.stamp = now;
        }
        !is_same
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let data = fs::metadata(path).ok()?;
        Some(Stamp {
            bytes: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
            inode: data.ino(),
        })
    }
}

/// A hash of a small file's content.
fn content_of(path: &Path) -> Option<u64> {
    let size = fs::metadata(path).ok()?.len();
    if size > LARGEST_READ_BYTES {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_again_as_it_was_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.js");
        fs::write(&path, "one").unwrap();
        let mut file = CodeFile::new(path.clone());
        assert!(!file.has_changed());
        fs::remove_file(&path).unwrap();
        assert!(file.has_changed(), "it is gone");
        fs::write(&path, "one").unwrap();
        assert!(!file.has_changed(), "its content is what it was");
        fs::write(&path, "two").unwrap();
        assert!(file.has_changed());
    }
}
