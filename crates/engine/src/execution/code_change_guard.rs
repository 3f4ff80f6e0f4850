//! Rejects a run if its code changed during the session: otherwise, one verdict would cover two
//! different programs.
//!
//! Compares the size, modification time and inode of each file with those before the first run. If
//! any of them differs, the content of a small file decides. `adapters::code_files` selects the
//! files. Start at [`CodeChangeGuard::check_files`]. A [`ChecksumLedger`] compares what the code
//! computed.

use speedwell_adapters::{self as adapters, BenchmarkJob, RunResult};
use speedwell_model::{FailureCause, Variant};
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file that is compared by content if its metadata differ. A file that was
/// rewritten with the same content has not changed.
const MAX_READ_BYTES: u64 = 1 << 20;

/// Metadata that distinguishes two states of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: (i64, i64),
    inode: u64,
}

/// State of a file before the first run that depends on it.
#[derive(Debug, Clone)]
struct CodeFile {
    path: PathBuf,
    stamp: Option<FileStamp>,
    content: Option<u64>,
}

/// Remembers the code files of all runs so far. The key is the source file of the benchmark and the
/// name of the variant, with the label of a job that has a snippet.
#[derive(Debug, Default)]
pub(super) struct CodeChangeGuard {
    files: HashMap<(PathBuf, String), Vec<CodeFile>>,
}

impl CodeChangeGuard {
    /// Returns a failure if the code of the next run differs from the code of earlier runs.
    pub fn check_files(&mut self, job: &BenchmarkJob, variant: &Variant) -> Option<FailureCause> {
        // Each job with a snippet has files of its own.
        let name = match &job.snippet {
            Some(_) => format!("{}\n{}", variant.name, job.label),
            None => variant.name.clone(),
        };
        let key = (job.source.file.clone(), name);
        let files = self.files.entry(key).or_insert_with(|| {
            let program = adapters::resolve_program_for(&job.source, variant);
            let files = adapters::code_files(job, variant, &program);
            files.into_iter().map(CodeFile::new).collect()
        });
        let changed = files.iter_mut().find_map(|file| file.has_changed().then_some(file))?;
        Some(FailureCause::Invalid {
            reason: format!(
                "'{}' changed during the measurement: later runs would measure different code",
                changed.path.display()
            ),
        })
    }
}

impl CodeFile {
    fn new(path: PathBuf) -> CodeFile {
        CodeFile { stamp: FileStamp::read_metadata(&path), content: hash_content(&path), path }
    }

    fn has_changed(&mut self) -> bool {
        let current = FileStamp::read_metadata(&self.path);
        if current == self.stamp {
            return false;
        }
        let is_same = self.content.is_some() && hash_content(&self.path) == self.content;
        if is_same {
            self.stamp = current;
        }
        !is_same
    }
}

impl FileStamp {
    fn read_metadata(path: &Path) -> Option<FileStamp> {
        let metadata = fs::metadata(path).ok()?;
        Some(FileStamp {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: metadata.ino(),
        })
    }
}

/// Hashes the content of a small file; returns `None` for a large one or one that cannot be read.
fn hash_content(path: &Path) -> Option<u64> {
    let size = fs::metadata(path).ok()?.len();
    if size > MAX_READ_BYTES {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Remembers the first checksum of every case, and its variant, for comparison with later
/// checksums.
#[derive(Debug, Default)]
pub(super) struct ChecksumLedger(HashMap<String, (String, String)>);

impl ChecksumLedger {
    /// Records the checksum of a result. Returns a failure if it differs from the first checksum of
    /// the case.
    pub fn record_checksum(&mut self, result: &RunResult, variant: &str) -> Option<FailureCause> {
        let checksum = result.check.as_ref()?;
        let entry = self.0.entry(result.case.id());
        let (first, first_variant) =
            entry.or_insert_with(|| (checksum.clone(), variant.to_owned()));
        (first != checksum).then(|| FailureCause::Invalid {
            reason: format!("computed '{checksum}', but '{first_variant}' computed '{first}'"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_rewritten_with_the_same_content_is_unchanged() {
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
