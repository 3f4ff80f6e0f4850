//! Gathers bundles. A bundle is a sorted list of all files that a machine needs, with the digests
//! of their contents. Bundles with the same files have the same ID. Equal contents are sent only
//! once.
//!
//! This module also validates lists: no entry may escape the folder in which the bundle is laid
//! out. Lists are checked when a bundle is gathered and when it is unpacked. Start at
//! [`FileBundle::gather`]; [`super::content_store`] is the receiving end.

use anyhow::{Context, Result, bail, ensure};
use ring::digest::{self, SHA256};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Size limit for all benchmark files together. A folder that exceeds the limit probably contains
/// files that no benchmark needs.
pub const MAX_BENCHMARK_BYTES: u64 = 256 << 20;

/// Folders that benchmarks never read.
const EXCLUDED_FOLDERS: [&str; 2] = [".git", ".speedwell"];

/// A file in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BundleEntry {
    /// Path in the bundle: relative, with `/`, without `.` and `..`.
    pub path: String,
    /// Whether the file is executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Something to put into a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    /// A folder. Inside a git repository, the bundle gets the files that git tracks or does not
    /// ignore. If there are none, or outside a repository, the bundle gets all files except those
    /// in `.git`, `.speedwell`, and folders that hold files sent to this machine.
    Folder {
        /// Path on this machine.
        from: PathBuf,
        /// Path in the bundle.
        to: String,
    },
    /// An executable.
    Program {
        /// Path on this machine.
        from: PathBuf,
        /// Path in the bundle.
        to: String,
    },
    /// A file that exists only in memory.
    Text {
        /// Content of the file.
        text: String,
        /// Path in the bundle.
        to: String,
    },
}

/// A list of files, with the local source of each file's content.
#[derive(Debug, Clone, Default)]
pub struct FileBundle {
    /// The files, sorted by path.
    pub entries: Vec<BundleEntry>,
    contents: BTreeMap<String, ContentSource>,
    /// One sentence for each file that is in a folder but cannot be sent, with the reason.
    pub skipped_files: Vec<String>,
    /// Number and size of the files from the user's folders, without programs.
    pub folder_size: BundleSize,
}

/// Number and size of the files from the user's folders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BundleSize {
    /// Number of files.
    pub files: usize,
    /// Total size in bytes.
    pub bytes: u64,
}

impl fmt::Display for BundleSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} {files}, ", self.files)?;
        match self.bytes {
            bytes @ ..1024 => write!(f, "{bytes} bytes"),
            bytes @ ..1_048_576 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{} MiB", bytes >> 20),
        }
    }
}

#[derive(Debug, Clone)]
enum ContentSource {
    File(PathBuf),
    Text(String),
}

impl FileBundle {
    /// Reads and hashes all files. Skips files in a folder if they cannot be sent; see
    /// [`FileBundle::skipped_files`].
    ///
    /// # Errors
    /// Fails if a program or a folder cannot be read, or if the files exceed
    /// [`MAX_BENCHMARK_BYTES`].
    pub fn gather(sources: &[BundleSource]) -> Result<FileBundle> {
        let mut bundle = FileBundle::default();
        let mut benchmark_files: Vec<(u64, PathBuf)> = Vec::new();
        for source in sources {
            match source {
                BundleSource::Folder { from, to } => {
                    for file in list_files(from)? {
                        match bundle.add_folder_file(&file, from, to) {
                            Ok(bytes) => benchmark_files.push((bytes, from.join(&file))),
                            Err(error) => bundle.skipped_files.push(format!("{error:#}")),
                        }
                    }
                }
                BundleSource::Program { from, to } => {
                    let path = fs::canonicalize(from)
                        .with_context(|| format!("cannot find '{}'", from.display()))?;
                    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
                    bundle.add_file(&path, to.clone(), &folder)?;
                }
                BundleSource::Text { text, to } => {
                    let (path, bytes) = (to.clone(), text.len() as u64);
                    let sha256 = encode_hex(digest::digest(&SHA256, text.as_bytes()).as_ref());
                    let entry = BundleEntry { path, is_program: false, sha256, bytes };
                    bundle.add_entry(entry, ContentSource::Text(text.clone()));
                }
            }
        }
        bundle.folder_size = BundleSize {
            files: benchmark_files.len(),
            bytes: benchmark_files.iter().map(|(bytes, _)| bytes).sum(),
        };
        check_size_limit(benchmark_files)?;
        bundle.entries.sort();
        bundle.entries.dedup();
        validate_entries(&bundle.entries)?;
        Ok(bundle)
    }

    /// Adds a file of a folder and returns its size.
    fn add_folder_file(&mut self, file: &Path, folder: &Path, to: &str) -> Result<u64> {
        let path = folder.join(file);
        let name_error = || format!("'{}' has a name that is not UTF-8", path.display());
        let relative_path = file.to_str().with_context(name_error)?;
        self.add_file(&path, format!("{to}/{relative_path}"), folder)
    }

    /// Adds a file and returns its size. The file must be in `folder`.
    fn add_file(&mut self, from: &Path, to: String, folder: &Path) -> Result<u64> {
        let error_context = || format!("cannot send '{}'", from.display());
        let real_path = fs::canonicalize(from).with_context(error_context)?;
        let folder = fs::canonicalize(folder).with_context(error_context)?;
        ensure!(
            real_path.starts_with(&folder),
            "'{}' is a link to '{}', which is outside the folder that is sent",
            from.display(),
            real_path.display()
        );
        let metadata = fs::metadata(&real_path).with_context(error_context)?;
        ensure!(
            metadata.is_file(),
            "'{}' is {}, not a regular file",
            from.display(),
            describe_file_type(metadata.file_type())
        );
        let entry = BundleEntry {
            path: to,
            is_program: metadata.permissions().mode() & 0o100 != 0,
            sha256: hash_reader(&mut File::open(&real_path).with_context(error_context)?)
                .with_context(error_context)?,
            bytes: metadata.len(),
        };
        self.add_entry(entry, ContentSource::File(real_path));
        Ok(metadata.len())
    }

    fn add_entry(&mut self, entry: BundleEntry, content: ContentSource) {
        self.contents.insert(entry.sha256.clone(), content);
        self.entries.push(entry);
    }

    /// Opens the content with this digest.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or if the bundle has no content with this digest.
    pub fn open_content(&self, sha256: &str) -> Result<Box<dyn Read + '_>> {
        Ok(match self.contents.get(sha256) {
            Some(ContentSource::File(path)) => Box::new(
                File::open(path).with_context(|| format!("cannot read '{}'", path.display()))?,
            ),
            Some(ContentSource::Text(text)) => Box::new(text.as_bytes()),
            None => bail!("the bundle has no content with digest {sha256}"),
        })
    }
}

fn describe_file_type(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_fifo() => "a named pipe",
        _ => "a device",
    }
}

/// Returns the ID of a bundle with these entries: the digest of the list.
pub fn bundle_id(entries: &[BundleEntry]) -> String {
    let mut context = digest::Context::new(&SHA256);
    for entry in entries {
        let mode = if entry.is_program { 'x' } else { '-' };
        let line = format!("{} {mode} {} {}\n", entry.path, entry.sha256, entry.bytes);
        context.update(line.as_bytes());
    }
    encode_hex(context.finish().as_ref())
}

/// Checks a list of entries, which may come from another machine: all paths must stay within one
/// folder.
///
/// # Errors
/// Fails if the list is not sorted or a digest is malformed. Also fails if a path is absolute, is
/// not normalized, leaves the folder or occurs twice, or if one of its parent folders is listed as
/// a file.
pub fn validate_entries(entries: &[BundleEntry]) -> Result<()> {
    for pair in entries.windows(2) {
        ensure!(pair[0].path < pair[1].path, "the bundle has two files named '{}'", pair[1].path);
    }
    let is_digest = |text: &str| {
        text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let paths: BTreeSet<&Path> = entries.iter().map(|entry| Path::new(&entry.path)).collect();
    for entry in entries {
        let is_name = |part: &str| !["", ".", ".."].contains(&part);
        ensure!(
            entry.path.split('/').all(is_name) && !entry.path.contains(['\n', '\0']),
            "the bundle has an invalid path '{}'",
            entry.path.escape_debug()
        );
        ensure!(is_digest(&entry.sha256), "'{}' has no valid digest", entry.path);
        let mut parents = Path::new(&entry.path).ancestors().skip(1);
        ensure!(!parents.any(|parent| paths.contains(parent)), "'{}' is inside a file", entry.path);
    }
    Ok(())
}

/// Enforces [`MAX_BENCHMARK_BYTES`]. The error names the largest files.
fn check_size_limit(mut files: Vec<(u64, PathBuf)>) -> Result<()> {
    let total: u64 = files.iter().map(|(bytes, _)| bytes).sum();
    if total <= MAX_BENCHMARK_BYTES {
        return Ok(());
    }
    files.sort();
    let describe =
        |(bytes, path): &(u64, PathBuf)| format!("  {} MiB  {}", bytes >> 20, path.display());
    let largest: Vec<String> = files.iter().rev().take(5).map(describe).collect();
    bail!(
        "the benchmark folders hold {} MiB, but at most {} MiB are sent to a machine; the largest \
         files:\n{}\nhint: exclude them with git's ignore files, or put a 'speedwell.toml' into \
         the benchmark folder: only the folder that contains it is sent",
        total >> 20,
        MAX_BENCHMARK_BYTES >> 20,
        largest.join("\n")
    )
}

/// Lists the files of a folder, as paths relative to the folder.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if let Some(files) = list_git_files(folder) {
        // Git lists a deleted file until the deletion is staged.
        return Ok(files.into_iter().filter(|file| folder.join(file).exists()).collect());
    }
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(relative_folder) = folders.pop() {
        let path = folder.join(&relative_folder);
        let error_context = || format!("cannot read the folder '{}'", path.display());
        for entry in fs::read_dir(&path).with_context(error_context)? {
            let entry = entry.with_context(error_context)?;
            let name = relative_folder.join(entry.file_name());
            let is_sent = !EXCLUDED_FOLDERS.iter().any(|excluded| entry.file_name() == *excluded)
                && !is_fleet_folder(&entry.path());
            if is_sent && entry.file_type().with_context(error_context)?.is_dir() {
                folders.push(name);
            } else if is_sent {
                files.push(name);
            }
        }
    }
    Ok(files)
}

/// Subfolders of a fleet folder.
pub(crate) const FLEET_SUBFOLDERS: [&str; 3] = ["objects", "bundles", "sessions"];

/// Whether this folder holds files that were sent to this machine.
fn is_fleet_folder(folder: &Path) -> bool {
    FLEET_SUBFOLDERS.iter().all(|subfolder| folder.join(subfolder).is_dir())
}

/// Lists the files that git tracks or does not ignore. Returns `None` outside a repository.
fn list_git_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["ls-files", "-z", "--cached", "--others"]);
    let output = git.arg("--exclude-standard").output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let files: Vec<PathBuf> = names.split_terminator('\0').map(PathBuf::from).collect();
    // If git lists no files, it ignores the whole folder. The user named the folder explicitly, so
    // the caller must list all its files.
    (output.status.success() && !files.is_empty()).then_some(files)
}

/// Returns the SHA-256 of the remaining input, in hexadecimal.
pub(crate) fn hash_reader(reader: &mut dyn Read) -> io::Result<String> {
    let mut context = digest::Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(encode_hex(context.finish().as_ref())),
            count => context.update(&buffer[..count]),
        }
    }
}

pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::{BundleEntry, BundleSource, FileBundle, bundle_id, validate_entries};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    fn create_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn gather_folder(folder: &Path) -> anyhow::Result<FileBundle> {
        FileBundle::gather(&[BundleSource::Folder { from: folder.into(), to: "files/0".into() }])
    }

    const FILES: [(&str, &str); 3] = [("b.js", "b"), ("a/x.js", "x"), ("a/y.js", "x")];

    #[test]
    fn the_id_depends_on_names_contents_and_executable_bits_alone() {
        let one = create_folder(&FILES);
        let id = bundle_id(&gather_folder(one.path()).unwrap().entries);
        let mut files = FILES;
        files.reverse();
        let other = create_folder(&files);
        let old = SystemTime::now() - Duration::from_secs(100_000);
        let file = fs::File::open(other.path().join("b.js")).unwrap();
        file.set_modified(old).unwrap();
        assert_eq!(bundle_id(&gather_folder(other.path()).unwrap().entries), id);
        fs::set_permissions(other.path().join("b.js"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(
            bundle_id(&gather_folder(other.path()).unwrap().entries),
            id,
            "the executable bit counts"
        );
        let changed = create_folder(&[("b.js", "c"), ("a/x.js", "x"), ("a/y.js", "x")]);
        assert_ne!(bundle_id(&gather_folder(changed.path()).unwrap().entries), id);
        let renamed = create_folder(&[("c.js", "b"), ("a/x.js", "x"), ("a/y.js", "x")]);
        assert_ne!(bundle_id(&gather_folder(renamed.path()).unwrap().entries), id);
    }

    #[test]
    fn files_ignored_by_git_are_not_sent() {
        let folder = create_folder(&[("a.js", "a"), ("big.log", "z"), (".gitignore", "*.log\n")]);
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.arg("-C").arg(folder.path()).args(words).output().unwrap()
        };
        assert!(git(&["init", "-q"]).status.success());
        let bundle = gather_folder(folder.path()).unwrap();
        let paths: Vec<&str> = bundle.entries.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(paths, ["files/0/.gitignore", "files/0/a.js"]);
    }

    #[test]
    fn links_within_the_folder_are_sent_as_files() {
        let folder = create_folder(&FILES);
        symlink("b.js", folder.path().join("inner.js")).unwrap();
        let bundle = gather_folder(folder.path()).unwrap();
        let inner = bundle.entries.iter().find(|e| e.path == "files/0/inner.js");
        assert_eq!(inner.unwrap().bytes, 1);
    }

    #[test]
    fn files_that_cannot_be_sent_are_skipped_and_named() {
        let folder = create_folder(&FILES);
        let all = gather_folder(folder.path()).unwrap();
        assert!(all.skipped_files.is_empty());
        assert_eq!(all.folder_size.to_string(), "3 files, 3 bytes");
        let inside = |name: &str| folder.path().join(name);
        symlink("/etc/passwd", inside("outer.js")).unwrap();
        symlink("nothing", inside("dangling.js")).unwrap();
        let _socket = UnixListener::bind(inside("a/socket")).unwrap();
        let odd_name = folder.path().join(OsStr::from_bytes(b"\xff.js"));
        fs::write(odd_name, "odd").unwrap();
        let bundle = gather_folder(folder.path()).unwrap();
        let told = bundle.skipped_files.join("\n");
        for part in [
            "outer.js' is a link to '/etc/passwd', which is outside the folder that is sent",
            "cannot send '",
            "dangling.js'",
            "a/socket' is a socket, not a regular file",
            "has a name that is not UTF-8",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(bundle.skipped_files.len(), 4);
        assert_eq!(bundle_id(&bundle.entries), bundle_id(&all.entries));
    }

    #[test]
    fn hostile_lists_are_refused() {
        let entry = |path: &str| BundleEntry {
            path: path.into(),
            is_program: false,
            sha256: "0".repeat(64),
            bytes: 0,
        };
        for path in
            ["/etc/passwd", "../x", "a/../../x", "", ".", "a/./b", "a//b", "a/", "a\nb", "a\0b"]
        {
            assert!(validate_entries(&[entry(path)]).is_err(), "{path:?}");
        }
        assert!(validate_entries(&[entry("a"), entry("a/b")]).is_err(), "a file in a file");
        assert!(validate_entries(&[entry("a"), entry("a-b"), entry("a/b")]).is_err());
        assert!(validate_entries(&[entry("a"), entry("a")]).is_err(), "twice");
        assert!(validate_entries(&[entry("b"), entry("a")]).is_err(), "not sorted");
        let upper = BundleEntry { sha256: "A".repeat(64), ..entry("a") };
        assert!(validate_entries(&[upper]).is_err());
        assert!(validate_entries(&[entry("a/..b"), entry("ü/b c.js")]).is_ok());
    }

    #[test]
    fn a_refusal_of_a_large_bundle_names_its_largest_files() {
        let sum =
            super::check_size_limit(vec![(super::MAX_BENCHMARK_BYTES + 1, "data.bin".into())]);
        let refusal = sum.unwrap_err().to_string();
        assert!(refusal.contains("256 MiB  data.bin") && refusal.contains("hint: "), "{refusal}");
    }
}
