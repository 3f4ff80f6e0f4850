//! Checks out and builds each revision once, in a linked worktree in the cache folder, so that the
//! user's checkout stays as it is.
//!
//! Git's metadata of a worktree (gitrepository-layout(5)) is in the cache folder as well. The
//! user's repository therefore never shows a trace of Speedwell, even if Speedwell was killed.
//!
//! This module decides which folder belongs to a revision and its build command, and when a
//! worktree is used again or evicted. It knows nothing about measurements.
//!
//! The folder around a worktree is locked while the worktree is built (exclusive lock) or measured
//! (shared lock). The kernel releases the lock when the process ends, so a worktree that a killed
//! process left behind is not locked. An incomplete worktree has no `BUILT_MARKER`.
//!
//! Start at [`Checkout::find`], then [`prepare_worktree`].

use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::cache_folder;
use speedwell_machine::environment::{GitError, GitRepository, REPOSITORY_VARIABLES};
use speedwell_machine::process::{
    ProcessEnd, ProcessSpec, begin_activity, is_interrupt_requested, run_child,
};
use speedwell_model::{BuildCommand, UncommittedChanges, VariantWorktree, nearest_name, quote};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum number of worktrees kept, including those in use.
const MAX_WORKTREES: usize = 8;

/// Timeout of a query to git; a query that exceeds it counts as failed.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a checkout: a large repository takes long on a busy machine.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of lines that a message shows from the output of a failed build.
const MAX_SHOWN_LINES: usize = 20;

/// File that marks a worktree as complete and built; its modification time is the time of the last
/// use.
const BUILT_MARKER: &str = "built";

/// File with the whole output of a build.
const OUTPUT_FILE: &str = "output";

/// Folder with git's metadata of the worktree.
const GIT_FOLDER: &str = "git";

/// Folder that keeps the revision's own files, as checked out and built, while other files replace
/// them in the worktree.
const ORIGINALS_FOLDER: &str = "originals";

/// Format version of a worktree and its metadata. A worktree with another version is built again.
const FORMAT_VERSION: u32 = 2;

/// File that lists which files of the worktree were replaced, for example by files of the user's
/// checkout.
const REPLACED_LIST: &str = "placed";

/// Locks held by this process, each with the folder that it locks.
static HELD_LOCKS: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// The user's checkout.
#[derive(Debug, Clone)]
pub struct Checkout {
    /// Root folder.
    pub root: PathBuf,
    /// Current folder, relative to the root.
    pub inside: PathBuf,
    /// The repository's git folder, shared by all its worktrees.
    repository: PathBuf,
}

/// A commit, or the working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedCommit {
    /// Full commit id.
    pub id: String,
    /// Tree id: commits with the same tree have the same files, apart from `changes`.
    pub tree: String,
    /// Changes of the working tree since the commit.
    pub changes: Option<UncommittedChanges>,
}

impl Checkout {
    /// Finds the checkout that contains the folder.
    ///
    /// # Errors
    /// Fails if no checkout contains the folder, or if git is missing.
    pub fn find(folder: &Path) -> Result<Checkout> {
        let query = ["rev-parse", "--show-toplevel", "--git-common-dir", "--show-prefix"];
        let answer = query_git(folder, &query).map_err(|error| match error {
            error @ GitError::Says(_) => anyhow::Error::new(error).context(format!(
                "'{}' is not in a checkout of a git repository",
                folder.display()
            )),
            error => error.into(),
        })?;
        let mut lines = answer.lines();
        let mut next = || lines.next().unwrap_or_default();
        let (root, repository, inside) = (next().into(), next(), next().into());
        Ok(Checkout { inside, repository: folder.join(repository).canonicalize()?, root })
    }

    /// Resolves a revision, as the user typed it, to a commit.
    ///
    /// # Errors
    /// Fails if there is no such commit; the message suggests the nearest known name.
    pub fn resolve_commit(&self, typed: &str) -> Result<ResolvedCommit> {
        let [commit, tree] = ["commit", "tree"].map(|kind| format!("{typed}^{{{kind}}}"));
        let query = ["rev-parse", "--revs-only", "--end-of-options", &commit, &tree, "--"];
        let answer = match query_git(&self.root, &query) {
            Err(error) if !matches!(error, GitError::Says(_)) => return Err(error.into()),
            answer => answer.unwrap_or_default(),
        };
        // A range yields several commits, some of them with a prefix.
        let is_id = |id: &&str| id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match answer.lines().collect::<Vec<&str>>()[..] {
            [id, tree] if [id, tree].iter().all(is_id) => {
                Ok(ResolvedCommit { id: id.to_owned(), tree: tree.to_owned(), changes: None })
            }
            _ => bail!("unknown revision '{typed}'{}", self.suggest_revision(typed)),
        }
    }

    /// Resolves the files of the checkout as they are now: the commit that is checked out, and the
    /// uncommitted changes, untracked files included. Files that git ignores do not count.
    ///
    /// # Errors
    /// Fails if there is no commit, or a file cannot be read.
    pub fn resolve_working_tree(&self) -> Result<ResolvedCommit> {
        let head = self.resolve_commit("HEAD")?;
        let files = changed_files(&self.root, &head.id)?;
        let digest = digest_files(&self.root, &files)?;
        let changes = UncommittedChanges { files: files.len(), digest };
        Ok(ResolvedCommit { changes: Some(changes).filter(|changes| changes.files > 0), ..head })
    }

    fn suggest_revision(&self, typed: &str) -> String {
        let names = ["for-each-ref", "--format=%(refname:short)"];
        let mut names: Vec<String> =
            query_git(&self.root, &names).unwrap_or_default().lines().map(str::to_owned).collect();
        names.push("HEAD".to_owned());
        let shallow = query_git(&self.root, &["rev-parse", "--is-shallow-repository"]);
        let is_shallow = shallow.is_ok_and(|answer| answer == "true");
        let base = typed.split(['~', '^', '@', ':']).next().unwrap_or_default();
        let is_too_old = names.iter().any(|name| name == base);
        match nearest_name(typed, &names) {
            Some(nearest) if !is_too_old => format!("\nhint: did you mean '{nearest}'?"),
            _ if is_shallow => {
                "\nhint: this clone is shallow; 'git fetch --unshallow' fetches older revisions"
                    .into()
            }
            _ if is_too_old => format!("\nhint: 'git log {base}' lists its commits"),
            _ => "\nhint: name a branch, a tag or a commit, as in 'git log REVISION'".into(),
        }
    }

    /// Whether tracked files differ from the commit that is checked out.
    pub fn has_changes(&self) -> bool {
        let arguments = ["status", "--porcelain", "--untracked-files=no"];
        query_git(&self.root, &arguments).is_ok_and(|changes| !changes.is_empty())
    }

    /// Describes the worktree of a commit; [`prepare_worktree`] creates it.
    pub fn describe_worktree(
        &self,
        typed: &str,
        commit: &ResolvedCommit,
        build: Option<&BuildCommand>,
    ) -> VariantWorktree {
        let mut identity = DefaultHasher::new();
        (&self.repository, &commit.id).hash(&mut identity);
        build.map(|build| (&build.command, &build.directory)).hash(&mut identity);
        if let Some(changes) = &commit.changes {
            changes.hash(&mut identity);
        }
        let entry = cache_folder().join("worktrees").join(format!("{:016x}", identity.finish()));
        VariantWorktree {
            revision: commit.id.clone(),
            typed: typed.to_owned(),
            checkout: self.root.clone(),
            folder: entry.join(commit.id.get(..12).unwrap_or(&commit.id)),
            build: build.cloned(),
            changes: commit.changes.clone(),
            commits: None,
        }
    }
}

/// Returns the files of the checkout that differ from the commit, relative to its root and sorted.
fn changed_files(checkout: &Path, commit: &str) -> Result<Vec<PathBuf>> {
    let tracked = ["diff", "--name-only", "--no-renames", "-z", commit, "--"];
    let untracked = ["ls-files", "--others", "--exclude-standard", "-z"];
    let mut files = BTreeSet::new();
    for query in [&tracked[..], &untracked] {
        let output = query_git(checkout, query).context("cannot list the uncommitted changes")?;
        let paths = output.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from);
        // The store changes with every session, and is not part of the code.
        files.extend(paths.filter(|path| path.iter().all(|part| part != ".speedwell")));
    }
    Ok(files.into_iter().collect())
}

/// Returns a digest of the names, kinds and contents of these files. A deleted file, and a folder
/// (a submodule), count by name only.
fn digest_files(folder: &Path, files: &[PathBuf]) -> Result<String> {
    let mut digest = DefaultHasher::new();
    for file in files {
        let path = folder.join(file);
        let error_context = || format!("cannot read '{}'", path.display());
        file.hash(&mut digest);
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_file() => {
                (data.mode() & 0o111).hash(&mut digest);
                fs::read(&path).with_context(error_context)?.hash(&mut digest);
            }
            Ok(data) if data.is_symlink() => {
                fs::read_link(&path).with_context(error_context)?.hash(&mut digest);
            }
            _ => {}
        }
    }
    Ok(format!("{:016x}", digest.finish()))
}

/// Makes the checked-out commit in the worktree equal to the working tree of the checkout.
fn copy_changes(worktree: &VariantWorktree, changes: &UncommittedChanges) -> Result<()> {
    let files = changed_files(&worktree.checkout, &worktree.revision)?;
    // Remove everything first: a link may have become a folder.
    for path in files.iter().map(|file| worktree.folder.join(file)) {
        if fs::symlink_metadata(&path).is_ok_and(|data| !data.is_dir()) {
            fs::remove_file(&path)?;
        }
    }
    for file in &files {
        let [from, to] = [&worktree.checkout, &worktree.folder].map(|folder| folder.join(file));
        let Some(data) = fs::symlink_metadata(&from).ok().filter(|data| !data.is_dir()) else {
            continue;
        };
        let error_context = || format!("cannot copy '{}'", from.display());
        fs::create_dir_all(to.parent().unwrap_or(&to)).with_context(error_context)?;
        if data.is_symlink() {
            symlink(fs::read_link(&from)?, &to).with_context(error_context)?;
        } else {
            fs::copy(&from, &to).with_context(error_context)?;
        }
    }
    ensure!(
        digest_files(&worktree.folder, &files)? == changes.digest,
        "its files have changed since the session began\nhint: start a new session"
    );
    Ok(())
}

/// Makes sure that the worktree exists and is built, and locks it until [`release_worktree`] or the
/// end of this process. Passes `note` a message before waiting and before building.
///
/// # Errors
/// Fails if the commit cannot be checked out or built.
pub fn prepare_worktree(
    worktree: &VariantWorktree,
    note: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let entry = WorktreeEntry::of_worktree(worktree)?;
    if held_locks().iter().any(|(folder, _)| *folder == entry.0) {
        return Ok(());
    }
    let mut is_waiting = false;
    loop {
        ensure!(!is_interrupt_requested(), "interrupted before '{}' was built", worktree.typed);
        let lock = entry.open_folder()?;
        let may_be_used = || entry.is_same_folder(&lock) && entry.is_built(worktree);
        if may_be_used() && lock.try_lock_shared().is_ok() && may_be_used() {
            entry.update_last_use();
            held_locks().push((entry.0, lock));
            return Ok(());
        }
        if lock.try_lock().is_ok() {
            if entry.is_same_folder(&lock) && !entry.is_built(worktree) {
                entry.create(worktree, note)?;
            }
            continue;
        }
        if !is_waiting {
            note(&format!(
                "waiting for another Speedwell process to create the worktree of '{}'",
                worktree.typed
            ))?;
            is_waiting = true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Unlocks the worktree, so that it may be evicted.
pub fn release_worktree(worktree: &VariantWorktree) {
    if let Ok(entry) = WorktreeEntry::of_worktree(worktree) {
        held_locks().retain(|(folder, _)| *folder != entry.0);
    }
}

/// Replaces the contents of files of the worktree, and restores all other files that an earlier
/// session replaced.
///
/// # Errors
/// Fails if a file cannot be written, or if another process is measuring the worktree with
/// different contents of a file.
pub fn replace_files(
    worktree: &VariantWorktree,
    replacements: &[(PathBuf, Vec<u8>)],
) -> Result<()> {
    let entry = WorktreeEntry::of_worktree(worktree)?;
    loop {
        let mut others = entry.replaced_files();
        others.retain(|path| replacements.iter().all(|(replaced, _)| replaced != path));
        let differs =
            |(path, content): &&(PathBuf, Vec<u8>)| fs::read(path).ok().as_ref() != Some(content);
        let different: Vec<_> = replacements.iter().filter(differs).collect();
        if others.is_empty() && different.is_empty() {
            return Ok(());
        }
        let locks = held_locks();
        let lock = locks.iter().find(|(folder, _)| *folder == entry.0);
        let (_, lock) =
            lock.context("the worktree was not prepared before its files were replaced")?;
        if lock.try_lock().is_err() {
            let mut files = different.iter().map(|(path, _)| path).chain(&others);
            let file = files.next().and_then(|path| path.strip_prefix(&worktree.folder).ok());
            bail!(
                "another Speedwell process is measuring '{}' with a different '{}'\nhint: wait \
                 until it has finished",
                worktree.typed,
                file.unwrap_or(Path::new("")).display()
            );
        }
        entry.replace_and_restore(worktree, &others, replacements)?;
        // The lock is not held while it changes from exclusive to shared, so another process may
        // replace files in between. The loop therefore checks everything once more.
        lock.lock_shared()?;
    }
}

/// Returns the artifacts among the given files of the checkout. An artifact is a file that each
/// revision must build for itself: git ignores it in the checkout, or the build of the worktree has
/// produced it and git does not track it there.
pub fn find_artifacts(worktree: &VariantWorktree, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let is_inside = |path: &&PathBuf| path.starts_with(&worktree.checkout) && path.is_file();
    let checkout_files: Vec<PathBuf> = files.iter().filter(is_inside).cloned().collect();
    let ignored = ["--others", "--ignored", "--exclude-standard"];
    let mut artifacts: BTreeSet<PathBuf> =
        list_files(&worktree.checkout, &ignored, &checkout_files);
    if let (Some(_), Ok(entry)) = (&worktree.build, WorktreeEntry::of_worktree(worktree)) {
        let worktree_files: Vec<PathBuf> =
            files.iter().filter_map(|file| worktree.path_of(file)).collect();
        let replaced = entry.replaced_files();
        let is_built_here = |path: &PathBuf| {
            !replaced.contains(path) || entry.original_path(worktree, path).is_file()
        };
        let untracked = list_files(&worktree.folder, &["--others"], &worktree_files).into_iter();
        artifacts.extend(untracked.filter(is_built_here).filter_map(|path| {
            Some(worktree.checkout.join(path.strip_prefix(&worktree.folder).ok()?))
        }));
    }
    artifacts
}

/// Returns which of the files `git ls-files` lists with these options; without any, the files that
/// git tracks.
pub fn list_files(folder: &Path, options: &[&str], files: &[PathBuf]) -> BTreeSet<PathBuf> {
    const MAX_FILES: usize = 200;
    let mut listed = BTreeSet::new();
    for chunk in files.chunks(MAX_FILES) {
        let names: Vec<&str> = chunk.iter().filter_map(|file| file.to_str()).collect();
        let command = ["--literal-pathspecs", "ls-files", "-z"];
        let arguments = [&command[..], options, &["--"][..], &names[..]].concat();
        let output = query_git(folder, &arguments).unwrap_or_default();
        let paths = output.split('\0').filter(|path| !path.is_empty());
        listed.extend(paths.map(|path| folder.join(path)));
    }
    listed
}

fn held_locks() -> MutexGuard<'static, Vec<(PathBuf, File)>> {
    HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entry of the cache: the folder that holds a worktree and its metadata.
struct WorktreeEntry(PathBuf);

impl WorktreeEntry {
    fn of_worktree(worktree: &VariantWorktree) -> Result<WorktreeEntry> {
        let folder = worktree.folder.parent().context("the worktree has no folder of its own")?;
        Ok(WorktreeEntry(folder.to_owned()))
    }

    /// Opens the folder, which serves as the lock.
    fn open_folder(&self) -> Result<File> {
        let error_context = || format!("cannot create the folder '{}'", self.0.display());
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.0).with_context(error_context)?;
        File::open(&self.0).with_context(error_context)
    }

    /// Whether the path still names the folder that was opened: the previous lock holder may have
    /// removed it.
    fn is_same_folder(&self, lock: &File) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let opened = lock.metadata().ok().map(identity);
        opened.is_some() && opened == fs::metadata(&self.0).ok().map(identity)
    }

    fn is_built(&self, worktree: &VariantWorktree) -> bool {
        let built = fs::read_to_string(self.0.join(BUILT_MARKER));
        built.is_ok_and(|built| built == worktree_identity(worktree)) && worktree.folder.is_dir()
    }

    fn update_last_use(&self) {
        if let Ok(built) = File::options().append(true).open(self.0.join(BUILT_MARKER)) {
            let _ = built.set_modified(SystemTime::now());
        }
    }

    fn last_used(&self) -> Option<SystemTime> {
        fs::metadata(self.0.join(BUILT_MARKER)).ok()?.modified().ok()
    }

    /// Removes what earlier attempts left behind, then checks out the commit and builds it.
    fn create(
        &self,
        worktree: &VariantWorktree,
        note: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        self.remove_contents();
        self.evict_unused();
        let description = format!("revision '{}' ({})", worktree.typed, worktree.short_revision());
        let error_context = || format!("cannot check out {description}");
        self.link_repository(worktree).with_context(error_context)?;
        let reset = ["reset", "--quiet", "--hard", &worktree.revision];
        change_files(&worktree.folder, &reset).with_context(error_context)?;
        update_submodules(&worktree.checkout, &worktree.folder).with_context(error_context)?;
        if let Some(changes) = &worktree.changes {
            copy_changes(worktree, changes).with_context(error_context)?;
        }
        if let Some(build) = &worktree.build {
            note(&format!("building {description}: {}", build.command))?;
            let _activity = begin_activity(format!("building {description}"));
            self.run_build(build, worktree)
                .with_context(|| format!("cannot build {description}"))?;
        }
        let marker = self.0.join(BUILT_MARKER);
        fs::write(&marker, worktree_identity(worktree))
            .with_context(|| format!("cannot write '{}'", marker.display()))
    }

    /// Creates a worktree of the repository without any files, as `git worktree add --no-checkout`
    /// does.
    fn link_repository(&self, worktree: &VariantWorktree) -> Result<()> {
        let mut repository = worktree.checkout.join(".git");
        // In a linked worktree and in a submodule, it is a file.
        if !repository.is_dir() {
            let query = ["rev-parse", "--git-common-dir"];
            repository = worktree.checkout.join(query_git(&worktree.checkout, &query)?);
        }
        let repository = repository.canonicalize()?;
        let git_folder = self.0.join(GIT_FOLDER);
        let link = worktree.folder.join(".git");
        for folder in [&git_folder, &worktree.folder] {
            fs::create_dir(folder)?;
        }
        let line_of = |path: &Path| [path.as_os_str().as_encoded_bytes(), b"\n"].concat();
        fs::write(git_folder.join("HEAD"), format!("{}\n", worktree.revision))?;
        fs::write(git_folder.join("commondir"), line_of(&repository))?;
        fs::write(git_folder.join("gitdir"), line_of(&link))?;
        fs::write(&link, [b"gitdir: ", &line_of(&git_folder)[..]].concat())?;
        Ok(())
    }

    fn run_build(&self, build: &BuildCommand, worktree: &VariantWorktree) -> Result<()> {
        let directory = worktree.folder.join(&build.directory);
        ensure!(
            directory.is_dir(),
            "it has no folder '{}'\nhint: start Speedwell in a folder that every revision has",
            build.directory.display()
        );
        let command = fill_placeholders(&build.command, worktree);
        let spec = ProcessSpec {
            environment: worktree_variables(worktree),
            directory: Some(directory),
            limit: Duration::from_millis(build.limit_ms),
            unset: REPOSITORY_VARIABLES.map(str::to_owned).to_vec(),
            // Merges both streams, so that related lines stay together.
            ..ProcessSpec::new("sh").args(["-c", &format!("exec 2>&1\n{command}")])
        };
        let outcome = run_child(&spec, &mut ()).context("cannot start 'sh'")?;
        let output = self.0.join(OUTPUT_FILE);
        fs::write(&output, outcome.stdout.text())
            .with_context(|| format!("cannot write '{}'", output.display()))?;
        let output_message = match outcome.stdout.last_lines(MAX_SHOWN_LINES) {
            text if text.is_empty() => " without output".to_owned(),
            text => format!(" and printed:\n{text}"),
        };
        let end_message = match outcome.ended {
            ProcessEnd::Exit(0) => return Ok(()),
            ProcessEnd::Interrupted => bail!("interrupted"),
            ProcessEnd::Timeout => {
                format!("timed out after {} s (--build-timeout)", build.limit_ms.div_ceil(1000))
            }
            end => end.to_string(),
        };
        bail!(
            "{} {end_message}{output_message}\nhint: the full output of the build is in '{}', and the \
             worktree is '{}'",
            quote(&build.command),
            output.display(),
            worktree.folder.display()
        )
    }

    /// Lists the files that may differ from the revision.
    fn replaced_files(&self) -> Vec<PathBuf> {
        let paths = fs::read_to_string(self.0.join(REPLACED_LIST)).unwrap_or_default();
        paths.lines().map(PathBuf::from).collect()
    }

    /// Restores `others` from the revision, and writes the replacements.
    fn replace_and_restore(
        &self,
        worktree: &VariantWorktree,
        others: &[PathBuf],
        replacements: &[(PathBuf, Vec<u8>)],
    ) -> Result<()> {
        let error_context = |path: &Path| format!("cannot write '{}'", path.display());
        let already_replaced = self.replaced_files();
        let is_first = |path: &Path| already_replaced.iter().all(|replaced| replaced != path);
        for (path, _) in replacements.iter().filter(|(path, _)| is_first(path) && path.is_file()) {
            // Save the revision's own file, because perhaps only its build can produce the file.
            let original = self.original_path(worktree, path);
            let folder = original.parent().unwrap_or(&self.0);
            let kept = fs::create_dir_all(folder).and_then(|()| fs::copy(path, &original));
            kept.with_context(|| error_context(path))?;
        }
        // Record the files before replacing them. If this process is killed in between, the next
        // process knows which files may have been replaced.
        let all_replaced: BTreeSet<&PathBuf> =
            already_replaced.iter().chain(replacements.iter().map(|(path, _)| path)).collect();
        self.record_replaced(all_replaced.into_iter())?;
        for path in others {
            // Remove the file even if the revision has no file of its own to put in its place.
            let _ = fs::remove_file(path);
            let original = self.original_path(worktree, path);
            if original.is_file() {
                fs::rename(&original, path).with_context(|| error_context(path))?;
            }
        }
        for (path, content) in replacements {
            let folder = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder).with_context(|| error_context(path))?;
            ensure!(
                folder.canonicalize()?.starts_with(worktree.folder.canonicalize()?),
                "{}: a link in revision '{}' points outside its worktree",
                error_context(path),
                worktree.typed
            );
            let draft = path.with_extension("speedwell-draft");
            let write = || fs::write(&draft, content).and_then(|()| fs::rename(&draft, path));
            write().with_context(|| error_context(path))?;
        }
        self.record_replaced(replacements.iter().map(|(path, _)| path))
    }

    /// Returns the path at which the revision's own file is kept while another file replaces it.
    fn original_path(&self, worktree: &VariantWorktree, path: &Path) -> PathBuf {
        self.0.join(ORIGINALS_FOLDER).join(path.strip_prefix(&worktree.folder).unwrap_or(path))
    }

    fn record_replaced<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
        let lines: Vec<String> = paths.map(|path| format!("{}\n", path.display())).collect();
        fs::write(self.0.join(REPLACED_LIST), lines.concat())
            .context("cannot record which files were replaced")
    }

    /// Evicts unfinished worktrees, and as many of the least recently used worktrees as needed to
    /// make room for one more. Worktrees in use are locked and stay.
    fn evict_unused(&self) {
        let siblings = self.0.parent().and_then(|parent| fs::read_dir(parent).ok());
        let folders = siblings.into_iter().flatten().flatten().map(|sibling| sibling.path());
        let other_folders = folders.filter(|folder| *folder != self.0);
        let mut others: Vec<WorktreeEntry> = other_folders.map(WorktreeEntry).collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.last_used()));
        for (index, evicted) in others.iter().enumerate() {
            if index + 1 < MAX_WORKTREES && evicted.last_used().is_some() {
                continue;
            }
            // Stays locked until it is removed, so that no other process starts to use it.
            if let Ok(lock) = File::open(&evicted.0)
                && lock.try_lock().is_ok()
            {
                evicted.remove_contents();
                let _ = fs::remove_dir(&evicted.0);
            }
        }
    }

    /// Removes the worktree and git's metadata of it. If something cannot be removed, the next
    /// attempt to create the worktree fails and reports it.
    fn remove_contents(&self) {
        let _ = fs::remove_file(self.0.join(BUILT_MARKER));
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Returns a text that identifies the revision, the changes and the build of a worktree.
fn worktree_identity(worktree: &VariantWorktree) -> String {
    let build = match &worktree.build {
        Some(build) => format!("{}\n{}", build.directory.display(), build.command),
        None => String::new(),
    };
    let digest = worktree.changes.as_ref().map_or("", |changes| changes.digest.as_str());
    format!("{FORMAT_VERSION}\n{}{digest}\n{build}\n", worktree.revision)
}

/// Returns the environment variables that builds and measured processes get.
pub fn worktree_variables(worktree: &VariantWorktree) -> Vec<(String, String)> {
    let folder = worktree.folder.to_string_lossy().into_owned();
    vec![
        ("SPEEDWELL_REVISION".to_owned(), worktree.revision.clone()),
        ("SPEEDWELL_WORKTREE".to_owned(), folder),
    ]
}

/// Expands placeholders of the command; `${worktree}` is left to the shell.
fn fill_placeholders(command: &str, worktree: &VariantWorktree) -> String {
    let mut filled = command.to_owned();
    let folder = worktree.folder.to_string_lossy();
    for (name, value) in [("{worktree}", quote(&folder)), ("{revision}", worktree.revision.clone())]
    {
        let variable = format!("${name}");
        let parts = filled.split(&variable).map(|part| part.replace(name, &value));
        filled = parts.collect::<Vec<String>>().join(&variable);
    }
    filled
}

/// Checks out submodules from the user's checkout, which needs no network. Skips submodules that
/// the user has not checked out.
fn update_submodules(checkout: &Path, folder: &Path) -> Result<()> {
    if !folder.join(".gitmodules").is_file() {
        return Ok(());
    }
    let paths = ["config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
    for line in query_git(folder, &paths).unwrap_or_default().lines() {
        let Some((key, path)) = line.split_once(' ') else { continue };
        let name = key.trim_end_matches(".path");
        let source = checkout.join(path);
        if !source.join(".git").exists() {
            continue;
        }
        let url = format!("{name}.url={}", source.display());
        let update =
            ["-c", "protocol.file.allow=always", "-c", &url, "submodule", "update", "--", path];
        change_files(folder, &update).with_context(|| format!("in its submodule '{path}'"))?;
        update_submodules(&source, &folder.join(path))?;
    }
    Ok(())
}

/// Runs a git command that only reads, and returns its output.
fn query_git(folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    GitRepository::for_folder(folder, QUERY_TIMEOUT).git_output(arguments)
}

/// Runs a git command that changes files.
fn change_files(folder: &Path, arguments: &[&str]) -> Result<(), GitError> {
    GitRepository::for_folder(folder, CHECKOUT_TIMEOUT).git_output(arguments).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeRepo;

    /// Creates a repository with a file `speed`, and prepares a worktree of its first commit.
    /// Returns `None` if git is missing.
    fn create_worktree(folder: &Path) -> Option<VariantWorktree> {
        let checkout = folder.join("checkout");
        let history = FakeRepo::init(&checkout)?;
        history.write_file("speed", "first").commit_all("one");
        let found = Checkout::find(&checkout).unwrap();
        let commit = found.resolve_commit("HEAD").unwrap();
        let mut worktree = found.describe_worktree("HEAD", &commit, None);
        worktree.folder = folder.join("cache/entry/tree");
        prepare_worktree(&worktree, &mut |_| Ok(())).unwrap();
        Some(worktree)
    }

    #[test]
    fn files_of_a_session_replace_worktree_files_until_the_next_session() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = create_worktree(folder.path()) else { return };
        let path = |name: &str| worktree.folder.join(name);
        let text = |name: &str| fs::read_to_string(path(name)).ok();
        fs::write(path("artifact"), "built").unwrap();
        let wanted = |name: &str| (path(name), b"mine".to_vec());
        let files = ["speed", "new/other", "artifact"];
        replace_files(&worktree, &files.map(wanted)).unwrap();
        assert_eq!(files.map(text), [const { Some("mine") }; 3].map(|own| own.map(str::to_owned)));
        replace_files(&worktree, &files.map(wanted)).unwrap();
        replace_files(&worktree, &[wanted("third")]).unwrap();
        let restored = [Some("first"), None, Some("built")];
        assert_eq!(files.map(text), restored.map(|own| own.map(str::to_owned)));
        let entry = WorktreeEntry::of_worktree(&worktree).unwrap();
        let another = entry.open_folder().unwrap();
        another.lock_shared().unwrap();
        replace_files(&worktree, &[wanted("third")]).expect("nothing changes");
        let told = replace_files(&worktree, &[]).unwrap_err().to_string();
        assert!(
            told.starts_with(
                "another Speedwell process is measuring 'HEAD' with a different 'third'"
            ),
            "{told}"
        );
        assert_eq!(text("third"), Some("mine".into()));
    }

    #[test]
    fn the_repository_of_the_user_does_not_know_the_worktree() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = create_worktree(folder.path()) else { return };
        let listed = |at: &Path| query_git(at, &["worktree", "list"]).unwrap();
        assert_eq!(listed(&worktree.checkout).lines().count(), 1);
        assert!(!worktree.checkout.join(".git/worktrees").exists());
        // The worktree is still a checkout of its own, for builds that query git.
        assert_eq!(query_git(&worktree.folder, &["rev-parse", "HEAD"]).unwrap(), worktree.revision);
        assert_eq!(query_git(&worktree.folder, &["status", "--porcelain"]).unwrap(), "");
    }

    #[test]
    fn the_working_tree_is_copied_with_everything_that_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = folder.path().join("checkout");
        let Some(history) = FakeRepo::init(&checkout) else { return };
        for name in ["changed", "deleted", "becomes-folder", "kept", ".gitignore"] {
            history.write_file(name, "ignored\n");
        }
        history.commit_all("one");
        let found = Checkout::find(&checkout).unwrap();
        let clean = found.resolve_working_tree().unwrap();
        assert_eq!(clean, found.resolve_commit("HEAD").unwrap());
        assert!(["HEAD..HEAD", "^HEAD"].iter().all(|range| found.resolve_commit(range).is_err()));
        for gone in ["deleted", "becomes-folder"] {
            fs::remove_file(checkout.join(gone)).unwrap();
        }
        for name in ["changed", "becomes-folder/x", "new/one", "ignored", ".speedwell/results.db"] {
            history.write_file(name, "mine");
        }
        symlink("kept", checkout.join("link")).unwrap();
        let commit = found.resolve_working_tree().unwrap();
        assert_eq!(commit.changes.as_ref().map(|changes| changes.files), Some(6));
        let mut worktree = found.describe_worktree("working tree", &commit, None);
        assert_ne!(worktree.folder, found.describe_worktree("HEAD", &clean, None).folder);
        worktree.folder = folder.path().join("cache/entry/tree");
        prepare_worktree(&worktree, &mut |_| Ok(())).unwrap();
        let text = |name: &str| fs::read_to_string(worktree.folder.join(name)).ok();
        for (name, expected) in [
            ("changed", Some("mine")),
            ("becomes-folder/x", Some("mine")),
            ("new/one", Some("mine")),
            ("link", Some("ignored\n")),
            ("kept", Some("ignored\n")),
            ("deleted", None),
            ("ignored", None),
            (".speedwell/results.db", None),
        ] {
            assert_eq!(text(name).as_deref(), expected, "{name}");
        }
        // An edit afterwards is another version, and the old one cannot be made again.
        history.write_file("changed", "again");
        assert_ne!(found.resolve_working_tree().unwrap(), commit);
        release_worktree(&worktree);
        fs::remove_dir_all(folder.path().join("cache")).unwrap();
        let error = prepare_worktree(&worktree, &mut |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").contains("have changed since the session began"), "{error:#}");
    }

    #[test]
    fn a_link_that_leads_out_of_the_worktree_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = create_worktree(folder.path()) else { return };
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, worktree.folder.join("link")).unwrap();
        let wanted = (worktree.folder.join("link/speed"), b"mine".to_vec());
        let told = replace_files(&worktree, &[wanted]).unwrap_err().to_string();
        assert!(told.contains("points outside its worktree"), "{told}");
        assert!(!outside.join("speed").exists());
    }

    #[test]
    fn placeholders_of_a_build_are_filled_and_variables_of_the_shell_are_not() {
        let worktree = VariantWorktree {
            revision: "abc".into(),
            typed: "main".into(),
            checkout: "/repo".into(),
            folder: "/a b/tree".into(),
            build: None,
            changes: None,
            commits: None,
        };
        let filled = fill_placeholders(
            "cd {worktree} && x ${worktree} {a,b} {revision}{revision}",
            &worktree,
        );
        assert_eq!(filled, "cd '/a b/tree' && x ${worktree} {a,b} abcabc");
    }
}
