//! Checks out and builds revisions once, in linked worktrees in the cache folder instead of the
//! user's checkout.
//!
//! Git's metadata of a worktree (gitrepository-layout(5)) is in the cache folder as well, so the
//! user's repository shows nothing of Speedwell's, even after a killed process.
//!
//! Decides which folder belongs to a revision and its build command, when a build is reused, and
//! which ones are evicted. A lock on the folder around a worktree means that it is being built
//! (exclusive) or measured (shared); the kernel releases it with the process, so leftovers of a
//! killed process are unlocked and unfinished. Must not know about measurements. Start at
//! [`Checkout::find`], then [`prepare_worktree`].

use anyhow::{Context, Result, bail, ensure};
use speedwell_environment::{GitError, GitRepository, REPOSITORY_VARIABLES};
use speedwell_harness::cache_folder;
use speedwell_model::{BuildCommand, VariantWorktree, nearest_name, quote};
use speedwell_process::{
    ProcessEnd, ProcessSpec, begin_activity, is_interrupt_requested, run_child,
};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum number of worktrees kept, including those in use.
const MAX_WORKTREES: usize = 8;

/// Timeout of a query to git; one that exceeds it counts as failed.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a checkout: a large repository takes long on a busy machine.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(600);

/// Lines of a failed build's output that are shown.
const MAX_SHOWN_LINES: usize = 20;

/// Marks a worktree as complete and built; its modification time is the last use.
const BUILT_MARKER: &str = "built";

/// Holds the whole output of a build.
const OUTPUT_FILE: &str = "output";

/// Folder with git's metadata of the worktree.
const GIT_FOLDER: &str = "git";

/// Names the repository in which earlier versions registered a worktree.
const REPOSITORY_FILE: &str = "repository";

/// Folder with the revision's own files, as checked out and built, that others replaced.
const ORIGINALS_FOLDER: &str = "originals";

/// Format version of a worktree and its metadata. Other versions are rebuilt.
const FORMAT_VERSION: u32 = 2;

/// Lists the files that differ from the revision because the benchmark is the user's.
const REPLACED_LIST: &str = "placed";

/// Locks held by this process until it ends, by the folders of the worktrees.
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

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedCommit {
    /// Full commit id.
    pub id: String,
    /// Tree id: commits with the same tree have the same files.
    pub tree: String,
}

impl Checkout {
    /// Finds the checkout that contains the folder.
    ///
    /// # Errors
    /// Fails if there is none, or git is missing.
    pub fn find(here: &Path) -> Result<Checkout> {
        let ask = |question: &[&str]| query_git(here, &[&["rev-parse"], question].concat());
        let root = ask(&["--show-toplevel"]).map_err(|error| {
            let is_answer = matches!(error, GitError::Says(_));
            let error = anyhow::Error::new(error);
            if is_answer {
                let shown = here.display();
                error.context(format!(
                    "'{shown}' is not in a checkout of a git repository"
                ))
            } else {
                error
            }
        })?;
        let repository = ask(&["--git-common-dir"])?;
        Ok(Checkout {
            inside: ask(&["--show-prefix"])?.into(),
            repository: here.join(repository).canonicalize()?,
            root: root.into(),
        })
    }

    /// Resolves a revision as typed to a commit.
    ///
    /// # Errors
    /// Fails if there is none; the message suggests the nearest known name.
    pub fn resolve_commit(&self, typed: &str) -> Result<ResolvedCommit> {
        let ask = |what: &str| {
            let name = format!("{typed}{what}");
            let question = ["rev-parse", "--verify", "--end-of-options", &name];
            query_git(&self.root, &question)
        };
        match ask("^{commit}") {
            Ok(id) => Ok(ResolvedCommit {
                tree: ask("^{tree}")?,
                id,
            }),
            Err(GitError::Says(_)) => {
                bail!("unknown revision '{typed}'{}", self.suggest_revision(typed))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn suggest_revision(&self, typed: &str) -> String {
        let names = ["for-each-ref", "--format=%(refname:short)"];
        let mut names: Vec<String> = query_git(&self.root, &names)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect();
        names.push("HEAD".to_owned());
        let shallow = query_git(&self.root, &["rev-parse", "--is-shallow-repository"]);
        let is_shallow = shallow.is_ok_and(|answer| answer == "true");
        let base = typed.split(['~', '^', '@', ':']).next().unwrap_or_default();
        let is_too_old = names.iter().any(|name| name == base);
        match nearest_name(typed, &names) {
            Some(near) if !is_too_old => format!("\nhint: did you mean '{near}'?"),
            _ if is_shallow => {
                "\nhint: this clone is shallow; 'git fetch --unshallow' brings older revisions"
                    .into()
            }
            _ if is_too_old => format!("\nhint: 'git log {base}' lists its commits"),
            _ => "\nhint: a branch, a tag or a commit, as in 'git log REVISION'".into(),
        }
    }

    /// Whether tracked files differ from the commit that is checked out.
    pub fn has_changes(&self) -> bool {
        let question = ["status", "--porcelain", "--untracked-files=no"];
        query_git(&self.root, &question).is_ok_and(|changes| !changes.is_empty())
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
        build
            .map(|build| (&build.command, &build.directory))
            .hash(&mut identity);
        let entry = cache_folder()
            .join("worktrees")
            .join(format!("{:016x}", identity.finish()));
        VariantWorktree {
            revision: commit.id.clone(),
            typed: typed.to_owned(),
            checkout: self.root.clone(),
            folder: entry.join(commit.id.get(..12).unwrap_or(&commit.id)),
            build: build.cloned(),
        }
    }
}

/// Makes sure that the worktree exists and is built, and locks it until [`release_worktree`] or the
/// end of this process. Passes `note` a sentence before each slow step.
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
        ensure!(
            !is_interrupt_requested(),
            "interrupted before '{}' was built",
            worktree.typed
        );
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

/// Replaces files of the worktree with these texts, and restores files that an earlier session
/// replaced.
///
/// # Errors
/// Fails if a file cannot be written, or another process measures with a different text of it.
pub fn replace_files(worktree: &VariantWorktree, wanted: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let entry = WorktreeEntry::of_worktree(worktree)?;
    loop {
        let others: Vec<PathBuf> = entry
            .replaced_files()
            .into_iter()
            .filter(|path| wanted.iter().all(|(known, _)| known != path))
            .collect();
        let lacks = |(path, text): &&(PathBuf, Vec<u8>)| fs::read(path).ok().as_ref() != Some(text);
        let lacking: Vec<_> = wanted.iter().filter(lacks).collect();
        if others.is_empty() && lacking.is_empty() {
            return Ok(());
        }
        let locks = held_locks();
        let lock = locks.iter().find(|(folder, _)| *folder == entry.0);
        let (_, lock) = lock.context("a worktree is made before files are put into it")?;
        if lock.try_lock().is_err() {
            let mut files = lacking.iter().map(|(path, _)| path).chain(&others);
            let file = files
                .next()
                .and_then(|path| path.strip_prefix(&worktree.folder).ok());
            bail!(
                "another Speedwell process is measuring '{}' with a different '{}'\nhint: wait \
                 until it has finished",
                worktree.typed,
                file.unwrap_or(Path::new("")).display()
            );
        }
        entry.replace_and_restore(worktree, &others, wanted)?;
        // Before the lock is shared again, another process may replace files in turn, so check
        // everything once more.
        lock.lock_shared()?;
    }
}

/// Returns which of the checkout's files are artifacts, which each revision must build itself:
/// files that git ignores in the checkout, and files in no commit that the build of the worktree
/// has produced.
pub fn find_artifacts(worktree: &VariantWorktree, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let inside = |path: &&PathBuf| path.starts_with(&worktree.checkout) && path.is_file();
    let own: Vec<PathBuf> = files.iter().filter(inside).cloned().collect();
    let ignored = ["--others", "--ignored", "--exclude-standard"];
    let mut found: BTreeSet<PathBuf> = list_files(&worktree.checkout, &ignored, &own);
    if let (Some(_), Ok(entry)) = (&worktree.build, WorktreeEntry::of_worktree(worktree)) {
        let there: Vec<PathBuf> = files
            .iter()
            .filter_map(|file| worktree.path_of(file))
            .collect();
        let placed = entry.replaced_files();
        let is_made = |path: &PathBuf| {
            !placed.contains(path) || entry.original_path(worktree, path).is_file()
        };
        let made = list_files(&worktree.folder, &["--others"], &there)
            .into_iter()
            .filter(is_made);
        found.extend(made.filter_map(|path| {
            let inside = path.strip_prefix(&worktree.folder).ok()?;
            Some(worktree.checkout.join(inside))
        }));
    }
    found
}

/// Returns which of the checkout's files its last commit or the index holds.
pub fn find_tracked(checkout: &Path, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    list_files(checkout, &[], files)
}

/// Returns which of the files `git ls-files` lists with these options.
fn list_files(folder: &Path, which: &[&str], files: &[PathBuf]) -> BTreeSet<PathBuf> {
    const AT_ONCE: usize = 200;
    let mut found = BTreeSet::new();
    for chunk in files.chunks(AT_ONCE) {
        let names = chunk.iter().filter_map(|file| file.to_str());
        let words: Vec<&str> = ["--literal-pathspecs", "ls-files", "-z"]
            .into_iter()
            .chain(which.iter().copied())
            .chain(["--"])
            .chain(names)
            .collect();
        let answer = query_git(folder, &words).unwrap_or_default();
        let paths = answer.split('\0').filter(|path| !path.is_empty());
        found.extend(paths.map(|path| folder.join(path)));
    }
    found
}

fn held_locks() -> MutexGuard<'static, Vec<(PathBuf, File)>> {
    HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cache entry: the folder around a worktree, with its metadata.
struct WorktreeEntry(PathBuf);

impl WorktreeEntry {
    fn of_worktree(worktree: &VariantWorktree) -> Result<WorktreeEntry> {
        let folder = worktree
            .folder
            .parent()
            .context("a worktree has its own folder")?;
        Ok(WorktreeEntry(folder.to_owned()))
    }

    /// Opens the folder, which serves as the lock.
    fn open_folder(&self) -> Result<File> {
        let cannot = || format!("cannot create the folder '{}'", self.0.display());
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .with_context(cannot)?;
        File::open(&self.0).with_context(cannot)
    }

    /// Whether it is still the folder that was opened: the previous lock holder may have removed
    /// it.
    fn is_same_folder(&self, lock: &File) -> bool {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        let (own, now) = (lock.metadata(), fs::metadata(&self.0));
        own.is_ok_and(|own| now.is_ok_and(|now| identity(own) == identity(now)))
    }

    fn is_built(&self, worktree: &VariantWorktree) -> bool {
        let built = fs::read_to_string(self.0.join(BUILT_MARKER));
        built.is_ok_and(|built| built == worktree_identity(worktree)) && worktree.folder.is_dir()
    }

    /// Updates the time of last use.
    fn update_last_use(&self) {
        if let Ok(built) = File::options().append(true).open(self.0.join(BUILT_MARKER)) {
            let _ = built.set_modified(SystemTime::now());
        }
    }

    fn last_used(&self) -> Option<SystemTime> {
        fs::metadata(self.0.join(BUILT_MARKER))
            .ok()?
            .modified()
            .ok()
    }

    /// Checks the commit out and builds it, after removing leftovers of earlier attempts.
    fn create(
        &self,
        worktree: &VariantWorktree,
        note: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        self.remove_contents();
        self.evict_unused();
        let named = format!(
            "revision '{}' ({})",
            worktree.typed,
            worktree.short_revision()
        );
        let cannot = || format!("cannot check out {named}");
        self.link_repository(worktree).with_context(cannot)?;
        let reset = ["reset", "--quiet", "--hard", &worktree.revision];
        change_files(&worktree.folder, &reset).with_context(cannot)?;
        update_submodules(&worktree.checkout, &worktree.folder).with_context(cannot)?;
        if let Some(build) = &worktree.build {
            note(&format!("building {named}: {}", build.command))?;
            let _activity = begin_activity(format!("building {named}"));
            self.run_build(build, worktree)
                .with_context(|| format!("cannot build {named}"))?;
        }
        let built = self.0.join(BUILT_MARKER);
        fs::write(&built, worktree_identity(worktree))
            .with_context(|| format!("cannot write '{}'", built.display()))
    }

    /// Makes an empty folder a worktree of the repository, as `git worktree add --no-checkout`
    /// does.
    fn link_repository(&self, worktree: &VariantWorktree) -> Result<()> {
        let repository = query_git(&worktree.checkout, &["rev-parse", "--git-common-dir"])?;
        let repository = worktree.checkout.join(repository).canonicalize()?;
        let own = self.0.join(GIT_FOLDER);
        let link = worktree.folder.join(".git");
        for folder in [&own, &worktree.folder] {
            fs::create_dir(folder)?;
        }
        let line = |path: &Path| [path.as_os_str().as_encoded_bytes(), b"\n"].concat();
        fs::write(own.join("HEAD"), format!("{}\n", worktree.revision))?;
        fs::write(own.join("commondir"), line(&repository))?;
        fs::write(own.join("gitdir"), line(&link))?;
        fs::write(&link, [b"gitdir: ", &line(&own)[..]].concat())?;
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
        let said = match outcome.stdout.last_lines(MAX_SHOWN_LINES) {
            nothing if nothing.is_empty() => " without output".to_owned(),
            lines => format!(" and printed:\n{lines}"),
        };
        let how = match outcome.ended {
            ProcessEnd::Exit(0) => return Ok(()),
            ProcessEnd::Interrupted => bail!("interrupted"),
            ProcessEnd::Timeout => format!(
                "timed out after {} s (--build-timeout)",
                build.limit_ms.div_ceil(1000)
            ),
            other => other.to_string(),
        };
        bail!(
            "{} {how}{said}\nhint: its full output is in '{}', and its folder is '{}'",
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

    /// Restores `others` from the revision, and writes the wanted files.
    fn replace_and_restore(
        &self,
        worktree: &VariantWorktree,
        others: &[PathBuf],
        wanted: &[(PathBuf, Vec<u8>)],
    ) -> Result<()> {
        let cannot = |path: &Path| format!("cannot write '{}'", path.display());
        let before = self.replaced_files();
        let is_first = |path: &Path| before.iter().all(|known| known != path);
        for (path, _) in wanted.iter().filter(|(path, _)| is_first(path)) {
            self.keep_original(worktree, path)
                .with_context(|| cannot(path))?;
        }
        // Recorded first, so that the next process knows what a killed one has begun.
        let all: BTreeSet<PathBuf> = before
            .into_iter()
            .chain(wanted.iter().map(|(path, _)| path.clone()))
            .collect();
        self.record_replaced(all.iter())?;
        for path in others {
            // A file that the revision does not have must be gone.
            let _ = fs::remove_file(path);
            let original = self.original_path(worktree, path);
            if original.is_file() {
                fs::rename(&original, path).with_context(|| cannot(path))?;
            }
        }
        for (path, text) in wanted {
            let folder = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder).with_context(|| cannot(path))?;
            ensure!(
                folder
                    .canonicalize()?
                    .starts_with(worktree.folder.canonicalize()?),
                "{}: a link of revision '{}' points out of its worktree",
                cannot(path),
                worktree.typed
            );
            let draft = path.with_extension("speedwell-draft");
            let write = || fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
            write().with_context(|| cannot(path))?;
        }
        self.record_replaced(wanted.iter().map(|(path, _)| path))
    }

    /// Where the revision's file is kept while another one replaces it.
    fn original_path(&self, worktree: &VariantWorktree, path: &Path) -> PathBuf {
        let inside = path.strip_prefix(&worktree.folder).unwrap_or(path);
        self.0.join(ORIGINALS_FOLDER).join(inside)
    }

    /// Saves the revision's file, which only its build may be able to produce.
    fn keep_original(&self, worktree: &VariantWorktree, path: &Path) -> Result<()> {
        if path.is_file() {
            let original = self.original_path(worktree, path);
            fs::create_dir_all(original.parent().unwrap_or(&self.0))?;
            fs::copy(path, &original)?;
        }
        Ok(())
    }

    fn record_replaced<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
        let lines: Vec<String> = paths.map(|path| format!("{}\n", path.display())).collect();
        fs::write(self.0.join(REPLACED_LIST), lines.concat())
            .context("cannot record which files were replaced")
    }

    /// Evicts the least recently used worktrees to make room for one more, and unfinished ones.
    fn evict_unused(&self) {
        let beside = self.0.parent().and_then(|all| fs::read_dir(all).ok());
        let mut others: Vec<WorktreeEntry> = beside
            .into_iter()
            .flatten()
            .flatten()
            .map(|other| WorktreeEntry(other.path()))
            .filter(|other| other.0 != self.0)
            .collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.last_used()));
        let is_kept = |at: usize, other: &WorktreeEntry| {
            at + 1 < MAX_WORKTREES && other.last_used().is_some()
        };
        for (_, old) in others
            .iter()
            .enumerate()
            .filter(|(at, other)| !is_kept(*at, other))
        {
            let lock = File::open(&old.0);
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                old.remove_contents();
                let _ = fs::remove_dir(&old.0);
            }
        }
    }

    /// Removes the worktree and git's metadata of it. What cannot be removed makes the next attempt
    /// fail, which reports it.
    fn remove_contents(&self) {
        let _ = fs::remove_file(self.0.join(BUILT_MARKER));
        let repository = fs::read_to_string(self.0.join(REPOSITORY_FILE)).map(PathBuf::from);
        for inside in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = inside.path();
            if !path.is_dir() {
                let _ = fs::remove_file(&path);
                continue;
            }
            if let Ok(repository) = &repository {
                let folder = path.to_string_lossy();
                let remove = ["worktree", "remove", "--force", "--force", folder.as_ref()];
                let _ = change_files(repository, &remove);
            }
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Identifies revision and build of a worktree.
fn worktree_identity(worktree: &VariantWorktree) -> String {
    let build = worktree.build.as_ref().map_or(String::new(), |build| {
        format!("{}\n{}", build.directory.display(), build.command)
    });
    format!("{FORMAT_VERSION}\n{}\n{build}\n", worktree.revision)
}

/// Environment variables of builds and measured processes.
pub fn worktree_variables(worktree: &VariantWorktree) -> Vec<(String, String)> {
    let folder = worktree.folder.to_string_lossy().into_owned();
    vec![
        ("SPEEDWELL_REVISION".to_owned(), worktree.revision.clone()),
        ("SPEEDWELL_WORKTREE".to_owned(), folder),
    ]
}

/// Expands placeholders of the command; `${worktree}` is left to the shell.
fn fill_placeholders(command: &str, worktree: &VariantWorktree) -> String {
    let mut text = command.to_owned();
    let folder = worktree.folder.to_string_lossy();
    for (name, value) in [
        ("{worktree}", quote(&folder)),
        ("{revision}", worktree.revision.clone()),
    ] {
        let parts: Vec<&str> = text.split(name).collect();
        let mut filled = parts[0].to_owned();
        for part in &parts[1..] {
            let is_variable = filled.ends_with('$');
            filled.push_str(if is_variable { name } else { &value });
            filled.push_str(part);
        }
        text = filled;
    }
    text
}

/// Checks out submodules from the user's checkout instead of their remotes, without a network.
fn update_submodules(checkout: &Path, folder: &Path) -> Result<()> {
    if !folder.join(".gitmodules").is_file() {
        return Ok(());
    }
    let paths = [
        "config",
        "--file",
        ".gitmodules",
        "--get-regexp",
        r"^submodule\..*\.path$",
    ];
    for line in query_git(folder, &paths).unwrap_or_default().lines() {
        let Some((key, path)) = line.split_once(' ') else {
            continue;
        };
        let name = key.trim_end_matches(".path");
        let own = checkout.join(path);
        if !own.join(".git").exists() {
            continue;
        }
        let url = format!("{name}.url={}", own.display());
        let update = [
            "-c",
            "protocol.file.allow=always",
            "-c",
            &url,
            "submodule",
            "update",
            "--",
            path,
        ];
        change_files(folder, &update).with_context(|| format!("in its submodule '{path}'"))?;
        update_submodules(&own, &folder.join(path))?;
    }
    Ok(())
}

/// Queries git.
fn query_git(folder: &Path, question: &[&str]) -> Result<String, GitError> {
    GitRepository::for_folder(folder, QUERY_TIMEOUT).git_output(question)
}

/// Runs a git command that changes files.
fn change_files(folder: &Path, words: &[&str]) -> Result<(), GitError> {
    GitRepository::for_folder(folder, CHECKOUT_TIMEOUT)
        .git_output(words)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeRepo;

    /// Creates a repository with a file `speed`, and a worktree of its first commit that is ready;
    /// `None` without git.
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
    fn files_of_a_session_are_placed_and_those_of_the_one_before_are_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = create_worktree(folder.path()) else {
            return;
        };
        let path = |name: &str| worktree.folder.join(name);
        let text = |name: &str| fs::read_to_string(path(name)).ok();
        fs::write(path("artifact"), "built").unwrap();
        let wanted = |name: &str| (path(name), b"mine".to_vec());
        let files = ["speed", "new/other", "artifact"];
        replace_files(&worktree, &files.map(wanted)).unwrap();
        assert_eq!(
            files.map(text),
            [const { Some("mine") }; 3].map(|own| own.map(str::to_owned))
        );
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
        let Some(worktree) = create_worktree(folder.path()) else {
            return;
        };
        let listed = |at: &Path| query_git(at, &["worktree", "list"]).unwrap();
        assert_eq!(listed(&worktree.checkout).lines().count(), 1);
        assert!(!worktree.checkout.join(".git/worktrees").exists());
        // It is still a checkout of its own, for builds that query git.
        assert_eq!(
            query_git(&worktree.folder, &["rev-parse", "HEAD"]).unwrap(),
            worktree.revision
        );
        assert_eq!(
            query_git(&worktree.folder, &["status", "--porcelain"]).unwrap(),
            ""
        );
    }

    #[test]
    fn a_link_that_leads_out_of_the_worktree_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = create_worktree(folder.path()) else {
            return;
        };
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, worktree.folder.join("link")).unwrap();
        let wanted = (worktree.folder.join("link/speed"), b"mine".to_vec());
        let told = replace_files(&worktree, &[wanted]).unwrap_err().to_string();
        assert!(told.contains("points out of its worktree"), "{told}");
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
        };
        let filled = fill_placeholders(
            "cd {worktree} && x ${worktree} {a,b} {revision}{revision}",
            &worktree,
        );
        assert_eq!(filled, "cd '/a b/tree' && x ${worktree} {a,b} abcabc");
    }
}
