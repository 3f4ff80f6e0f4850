//! Checks out and builds revisions once, in linked worktrees in the cache folder instead of the
//! user's checkout.
//!
//! Git's metadata of a worktree (gitrepository-layout(5)) is in the cache folder as well, so the
//! user's repository shows nothing of Speedwell's, even after a killed process.
//!
//! Decides which folder belongs to a revision and its build command, when a build is reused, and
//! which ones are evicted. A lock on the folder around a worktree means that it is being built
//! (exclusive) or measured (shared); the kernel releases it with the process, so leftovers of a
//! killed process are unlocked and unfinished. Must not know what is measured there. Start at
//! [`Checkout::find`], then [`ready`].

use anyhow::{Context, Result, bail, ensure};
use speedwell_environment::{Git, GitError, VARIABLES_OF_A_REPOSITORY};
use speedwell_harness::cache_folder;
use speedwell_model::{Build, Worktree, nearest, quote};
use speedwell_process::{Ended, Spec, begin_activity, interrupted, run};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Maximum number of worktrees kept, including those in use.
const KEPT: usize = 8;

/// Timeout of a query to git; one that exceeds it counts as failed.
const QUESTION: Duration = Duration::from_secs(10);

/// Timeout of a checkout: a large repository takes long on a busy machine.
const CHECKOUT: Duration = Duration::from_secs(600);

/// Lines of a failed build's output that are shown.
const SHOWN_LINES: usize = 20;

/// Marks a worktree as complete and built; its modification time is the last use.
const BUILT: &str = "built";

/// Holds the whole output of a build.
const OUTPUT: &str = "output";

/// Folder with git's metadata of the worktree.
const GIT_FOLDER: &str = "git";

/// Names the repository in which earlier versions registered a worktree.
const REPOSITORY: &str = "repository";

/// Folder with the revision's own files, as checked out and built, that others replaced.
const ORIGINALS: &str = "originals";

/// Format version of a worktree and its metadata. Other versions are rebuilt.
const FORM: u32 = 2;

/// Lists the files that differ from the revision because the benchmark is the user's.
const PLACED: &str = "placed";

/// Locks held by this process until it ends, by the folders of the worktrees.
static IN_USE: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

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
pub struct Commit {
    /// Full commit id.
    pub id: String,
    /// Tree id: commits with the same tree have the same files.
    pub tree: String,
}

impl Checkout {
    /// Finds the checkout that contains the folder.
    ///
    /// # Errors
    /// There is none, or git is missing.
    pub fn find(here: &Path) -> Result<Checkout> {
        let ask = |question: &[&str]| ask(here, &[&["rev-parse"], question].concat());
        let root = ask(&["--show-toplevel"]).map_err(|error| {
            let is_answer = matches!(error, GitError::Says(_));
            let error = anyhow::Error::new(error);
            if is_answer {
                let shown = here.display();
                error.context(format!("'{shown}' is in no checkout of a git repository"))
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
    /// There is none; the message suggests the nearest known name.
    pub fn commit(&self, typed: &str) -> Result<Commit> {
        let ask = |what: &str| {
            let name = format!("{typed}{what}");
            let question = ["rev-parse", "--verify", "--end-of-options", &name];
            ask(&self.root, &question)
        };
        match ask("^{commit}") {
            Ok(id) => Ok(Commit {
                tree: ask("^{tree}")?,
                id,
            }),
            Err(GitError::Says(_)) => {
                bail!("git knows no revision '{typed}'{}", self.hint(typed))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn hint(&self, typed: &str) -> String {
        let names = ["for-each-ref", "--format=%(refname:short)"];
        let names = ask(&self.root, &names).unwrap_or_default();
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.push("HEAD".to_owned());
        let shallow = ask(&self.root, &["rev-parse", "--is-shallow-repository"]);
        let is_shallow = shallow.is_ok_and(|answer| answer == "true");
        let base = typed.split(['~', '^', '@', ':']).next().unwrap_or_default();
        let is_too_old = names.iter().any(|name| name == base);
        match nearest(typed, &names) {
            Some(near) if !is_too_old => format!("\nhint: did you mean '{near}'?"),
            _ if is_shallow => {
                "\nhint: this clone is shallow; 'git fetch --unshallow' brings older revisions"
                    .into()
            }
            _ if is_too_old => format!("\nhint: 'git log {base}' lists the commits that it has"),
            _ => "\nhint: a branch, a tag or a commit, as in 'git log REVISION'".into(),
        }
    }

    /// Whether tracked files differ from the commit that is checked out.
    pub fn is_changed(&self) -> bool {
        let question = ["status", "--porcelain", "--untracked-files=no"];
        ask(&self.root, &question).is_ok_and(|changes| !changes.is_empty())
    }

    /// Describes the worktree of a commit; [`ready`] creates it.
    pub fn worktree(&self, typed: &str, commit: &Commit, build: Option<&Build>) -> Worktree {
        let mut identity = DefaultHasher::new();
        (&self.repository, &commit.id).hash(&mut identity);
        build
            .map(|build| (&build.command, &build.directory))
            .hash(&mut identity);
        let entry = cache_folder()
            .join("worktrees")
            .join(format!("{:016x}", identity.finish()));
        Worktree {
            revision: commit.id.clone(),
            typed: typed.to_owned(),
            checkout: self.root.clone(),
            folder: entry.join(commit.id.get(..12).unwrap_or(&commit.id)),
            build: build.cloned(),
        }
    }
}

/// Makes sure that the worktree exists and is built, and locks it until [`release`] or the end of
/// this process. Passes `note` a sentence before each slow step.
///
/// # Errors
/// The commit cannot be checked out or built.
pub fn ready(worktree: &Worktree, note: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let entry = Entry::of_worktree(worktree)?;
    if in_use().iter().any(|(folder, _)| *folder == entry.0) {
        return Ok(());
    }
    let mut is_waiting = false;
    loop {
        ensure!(
            !interrupted(),
            "interrupted before '{}' was built",
            worktree.typed
        );
        let lock = entry.open()?;
        let may_be_used = || entry.is(&lock) && entry.is_built(worktree);
        if may_be_used() && lock.try_lock_shared().is_ok() && may_be_used() {
            entry.touch();
            in_use().push((entry.0, lock));
            return Ok(());
        }
        if lock.try_lock().is_ok() {
            if entry.is(&lock) && !entry.is_built(worktree) {
                entry.make(worktree, note)?;
            }
            continue;
        }
        if !is_waiting {
            note(&format!(
                "another Speedwell is making the worktree of '{}': waiting for it",
                worktree.typed
            ))?;
            is_waiting = true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Unlocks the worktree, so that it may be evicted.
pub fn release(worktree: &Worktree) {
    if let Ok(entry) = Entry::of_worktree(worktree) {
        in_use().retain(|(folder, _)| *folder != entry.0);
    }
}

/// Replaces files of the worktree with these texts, and restores files that an earlier session
/// replaced.
///
/// # Errors
/// A file cannot be written, or another process measures with a different text of it.
pub fn place(worktree: &Worktree, wanted: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let entry = Entry::of_worktree(worktree)?;
    loop {
        let others: Vec<PathBuf> = entry
            .placed()
            .into_iter()
            .filter(|path| wanted.iter().all(|(known, _)| known != path))
            .collect();
        let lacks = |(path, text): &&(PathBuf, Vec<u8>)| fs::read(path).ok().as_ref() != Some(text);
        let lacking: Vec<_> = wanted.iter().filter(lacks).collect();
        if others.is_empty() && lacking.is_empty() {
            return Ok(());
        }
        let locks = in_use();
        let lock = locks.iter().find(|(folder, _)| *folder == entry.0);
        let (_, lock) = lock.context("a worktree is made before files are put into it")?;
        if lock.try_lock().is_err() {
            let mut files = lacking.iter().map(|(path, _)| path).chain(&others);
            let file = files
                .next()
                .and_then(|path| path.strip_prefix(&worktree.folder).ok());
            bail!(
                "another Speedwell measures '{}' with another text of '{}'\nhint: wait until it has ended",
                worktree.typed,
                file.unwrap_or(Path::new("")).display()
            );
        }
        entry.replace(worktree, &others, wanted)?;
        // Before the lock is shared again, another process may replace files in turn, so check
        // everything once more.
        lock.lock_shared()?;
    }
}

/// Returns which of the checkout's files are artifacts, which each revision must build itself:
/// files that git ignores in the checkout, and files in no commit that the build of the worktree
/// has produced.
pub fn artifacts(worktree: &Worktree, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let inside = |path: &&PathBuf| path.starts_with(&worktree.checkout) && path.is_file();
    let own: Vec<PathBuf> = files.iter().filter(inside).cloned().collect();
    let ignored = ["--others", "--ignored", "--exclude-standard"];
    let mut found: BTreeSet<PathBuf> = listed(&worktree.checkout, &ignored, &own);
    if let (Some(_), Ok(entry)) = (&worktree.build, Entry::of_worktree(worktree)) {
        let there: Vec<PathBuf> = files
            .iter()
            .filter_map(|file| worktree.path_of(file))
            .collect();
        let placed = entry.placed();
        let is_made =
            |path: &PathBuf| !placed.contains(path) || entry.original(worktree, path).is_file();
        let made = listed(&worktree.folder, &["--others"], &there)
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
pub fn tracked(checkout: &Path, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    listed(checkout, &[], files)
}

/// Returns which of the files `git ls-files` lists with these options.
fn listed(folder: &Path, which: &[&str], files: &[PathBuf]) -> BTreeSet<PathBuf> {
    const AT_ONCE: usize = 200;
    let mut found = BTreeSet::new();
    for files in files.chunks(AT_ONCE) {
        let files = files.iter().filter_map(|file| file.to_str());
        let words: Vec<&str> = ["--literal-pathspecs", "ls-files", "-z"]
            .into_iter()
            .chain(which.iter().copied())
            .chain(["--"])
            .chain(files)
            .collect();
        let answer = ask(folder, &words).unwrap_or_default();
        let paths = answer.split('\0').filter(|path| !path.is_empty());
        found.extend(paths.map(|path| folder.join(path)));
    }
    found
}

fn in_use() -> MutexGuard<'static, Vec<(PathBuf, File)>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cache entry: the folder around a worktree, with its metadata.
struct Entry(PathBuf);

impl Entry {
    fn of_worktree(worktree: &Worktree) -> Result<Entry> {
        let folder = worktree.folder.parent();
        let folder = folder.context("a worktree lies in a folder of its own")?;
        Ok(Entry(folder.to_owned()))
    }

    /// Opens the folder, which serves as the lock.
    fn open(&self) -> Result<File> {
        let cannot = || format!("cannot make the folder '{}'", self.0.display());
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
    fn is(&self, lock: &File) -> bool {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        let (own, now) = (lock.metadata(), fs::metadata(&self.0));
        own.is_ok_and(|own| now.is_ok_and(|now| identity(own) == identity(now)))
    }

    fn is_built(&self, worktree: &Worktree) -> bool {
        let built = fs::read_to_string(self.0.join(BUILT));
        built.is_ok_and(|built| built == description(worktree)) && worktree.folder.is_dir()
    }

    /// Updates the time of last use.
    fn touch(&self) {
        if let Ok(built) = File::options().append(true).open(self.0.join(BUILT)) {
            let _ = built.set_modified(SystemTime::now());
        }
    }

    fn last_used(&self) -> Option<SystemTime> {
        fs::metadata(self.0.join(BUILT)).ok()?.modified().ok()
    }

    /// Checks the commit out and builds it, after removing leftovers of earlier attempts.
    fn make(&self, worktree: &Worktree, note: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        self.clear();
        self.make_space();
        let named = format!(
            "revision '{}' ({})",
            worktree.typed,
            worktree.short_revision()
        );
        let cannot = || format!("cannot check out {named}");
        self.link(worktree).with_context(cannot)?;
        let reset = ["reset", "--quiet", "--hard", &worktree.revision];
        change(&worktree.folder, &reset).with_context(cannot)?;
        submodules(&worktree.checkout, &worktree.folder).with_context(cannot)?;
        if let Some(build) = &worktree.build {
            note(&format!("building {named}: {}", build.command))?;
            let _activity = begin_activity(format!("building {named}"));
            self.build(build, worktree)
                .with_context(|| format!("cannot build {named}"))?;
        }
        let built = self.0.join(BUILT);
        fs::write(&built, description(worktree))
            .with_context(|| format!("cannot write '{}'", built.display()))
    }

    /// Makes an empty folder a worktree of the repository, as `git worktree add --no-checkout`
    /// does.
    fn link(&self, worktree: &Worktree) -> Result<()> {
        let repository = ask(&worktree.checkout, &["rev-parse", "--git-common-dir"])?;
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

    fn build(&self, build: &Build, worktree: &Worktree) -> Result<()> {
        let directory = worktree.folder.join(&build.directory);
        ensure!(
            directory.is_dir(),
            "it has no folder '{}'\nhint: start Speedwell in a folder that every revision has",
            build.directory.display()
        );
        let command = filled_in_shell(&build.command, worktree);
        let spec = Spec {
            environment: variables(worktree),
            directory: Some(directory),
            limit: Duration::from_millis(build.limit_ms),
            unset: VARIABLES_OF_A_REPOSITORY.map(str::to_owned).to_vec(),
            // Merges both streams, so that related lines stay together.
            ..Spec::new("sh").args(["-c", &format!("exec 2>&1\n{command}")])
        };
        let outcome = run(&spec, &mut ()).context("cannot start 'sh'")?;
        let output = self.0.join(OUTPUT);
        fs::write(&output, outcome.stdout.text())
            .with_context(|| format!("cannot write '{}'", output.display()))?;
        let said = match outcome.stdout.last_lines(SHOWN_LINES) {
            nothing if nothing.is_empty() => "; it said nothing".to_owned(),
            lines => format!(", after it said:\n{lines}"),
        };
        let how = match outcome.ended {
            Ended::Exit(0) => return Ok(()),
            Ended::Interrupted => bail!("interrupted"),
            Ended::Timeout => format!(
                "was ended after {} s (--build-timeout)",
                build.limit_ms.div_ceil(1000)
            ),
            other => other.to_string(),
        };
        bail!(
            "{} {how}{said}\nhint: its whole output is in '{}', and its folder is '{}'",
            quote(&build.command),
            output.display(),
            worktree.folder.display()
        )
    }

    /// Lists the files that may differ from the revision.
    fn placed(&self) -> Vec<PathBuf> {
        let paths = fs::read_to_string(self.0.join(PLACED)).unwrap_or_default();
        paths.lines().map(PathBuf::from).collect()
    }

    /// Restores `others` from the revision, and writes the wanted files.
    fn replace(
        &self,
        worktree: &Worktree,
        others: &[PathBuf],
        wanted: &[(PathBuf, Vec<u8>)],
    ) -> Result<()> {
        let cannot = |path: &Path| format!("cannot write '{}'", path.display());
        let before = self.placed();
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
        self.note_placed(all.iter())?;
        for path in others {
            // A file that the revision does not have must be gone.
            let _ = fs::remove_file(path);
            let original = self.original(worktree, path);
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
                "{}: a link of revision '{}' leads out of its worktree",
                cannot(path),
                worktree.typed
            );
            let draft = path.with_extension("speedwell-draft");
            let write = || fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
            write().with_context(|| cannot(path))?;
        }
        self.note_placed(wanted.iter().map(|(path, _)| path))
    }

    /// Where the revision's file is kept while another one replaces it.
    fn original(&self, worktree: &Worktree, path: &Path) -> PathBuf {
        let inside = path.strip_prefix(&worktree.folder).unwrap_or(path);
        self.0.join(ORIGINALS).join(inside)
    }

    /// Saves the revision's file, which only its build may be able to produce.
    fn keep_original(&self, worktree: &Worktree, path: &Path) -> Result<()> {
        if path.is_file() {
            let original = self.original(worktree, path);
            fs::create_dir_all(original.parent().unwrap_or(&self.0))?;
            fs::copy(path, &original)?;
        }
        Ok(())
    }

    fn note_placed<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
        let lines: Vec<String> = paths.map(|path| format!("{}\n", path.display())).collect();
        fs::write(self.0.join(PLACED), lines.concat())
            .context("cannot note which files were replaced")
    }

    /// Evicts the least recently used worktrees to make room for one more, and unfinished ones.
    fn make_space(&self) {
        let beside = self.0.parent().and_then(|all| fs::read_dir(all).ok());
        let others = beside
            .into_iter()
            .flatten()
            .flatten()
            .map(|other| Entry(other.path()));
        let mut others: Vec<Entry> = others.filter(|other| other.0 != self.0).collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.last_used()));
        let is_kept = |at: usize, other: &Entry| at + 1 < KEPT && other.last_used().is_some();
        for (_, old) in others
            .iter()
            .enumerate()
            .filter(|(at, other)| !is_kept(*at, other))
        {
            let lock = File::open(&old.0);
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                old.clear();
                let _ = fs::remove_dir(&old.0);
            }
        }
    }

    /// Removes the worktree and git's metadata of it. What cannot be removed makes the next attempt
    /// fail, which reports it.
    fn clear(&self) {
        let _ = fs::remove_file(self.0.join(BUILT));
        let repository = fs::read_to_string(self.0.join(REPOSITORY)).map(PathBuf::from);
        for inside in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = inside.path();
            if !path.is_dir() {
                let _ = fs::remove_file(&path);
                continue;
            }
            if let Ok(repository) = &repository {
                let folder = path.to_string_lossy();
                let remove = ["worktree", "remove", "--force", "--force", folder.as_ref()];
                let _ = change(repository, &remove);
            }
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Identifies revision and build of a worktree.
fn description(worktree: &Worktree) -> String {
    let build = worktree.build.as_ref();
    let build = build.map_or(String::new(), |build| {
        format!("{}\n{}", build.directory.display(), build.command)
    });
    format!("{FORM}\n{}\n{build}\n", worktree.revision)
}

/// Environment variables of builds and measured processes.
pub fn variables(worktree: &Worktree) -> Vec<(String, String)> {
    let folder = worktree.folder.to_string_lossy().into_owned();
    vec![
        ("SPEEDWELL_REVISION".to_owned(), worktree.revision.clone()),
        ("SPEEDWELL_WORKTREE".to_owned(), folder),
    ]
}

/// Expands placeholders of the command; `${worktree}` is left to the shell.
fn filled_in_shell(command: &str, worktree: &Worktree) -> String {
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
fn submodules(checkout: &Path, folder: &Path) -> Result<()> {
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
    for line in ask(folder, &paths).unwrap_or_default().lines() {
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
        change(folder, &update).with_context(|| format!("in its submodule '{path}'"))?;
        submodules(&own, &folder.join(path))?;
    }
    Ok(())
}

/// Queries git.
fn ask(folder: &Path, question: &[&str]) -> Result<String, GitError> {
    Git::at(folder, QUESTION).answer(question)
}

/// Runs a git command that changes files.
fn change(folder: &Path, words: &[&str]) -> Result<(), GitError> {
    Git::at(folder, CHECKOUT).answer(words).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::History;

    /// Creates a repository with a file `speed`, and a worktree of its first commit that is ready;
    /// `None` without git.
    fn made(folder: &Path) -> Option<Worktree> {
        let checkout = folder.join("checkout");
        let history = History::begin(&checkout)?;
        history.write("speed", "first").commit("one");
        let found = Checkout::find(&checkout).unwrap();
        let commit = found.commit("HEAD").unwrap();
        let mut worktree = found.worktree("HEAD", &commit, None);
        worktree.folder = folder.join("cache/entry/tree");
        ready(&worktree, &mut |_| Ok(())).unwrap();
        Some(worktree)
    }

    #[test]
    fn files_of_a_session_are_placed_and_those_of_the_one_before_are_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = made(folder.path()) else {
            return;
        };
        let path = |name: &str| worktree.folder.join(name);
        let text = |name: &str| fs::read_to_string(path(name)).ok();
        fs::write(path("artifact"), "built").unwrap();
        let wanted = |name: &str| (path(name), b"mine".to_vec());
        let files = ["speed", "new/other", "artifact"];
        place(&worktree, &files.map(wanted)).unwrap();
        assert_eq!(
            files.map(text),
            [const { Some("mine") }; 3].map(|own| own.map(str::to_owned))
        );
        place(&worktree, &files.map(wanted)).unwrap();
        place(&worktree, &[wanted("third")]).unwrap();
        let restored = [Some("first"), None, Some("built")];
        assert_eq!(files.map(text), restored.map(|own| own.map(str::to_owned)));
        let entry = Entry::of_worktree(&worktree).unwrap();
        let another = entry.open().unwrap();
        another.lock_shared().unwrap();
        place(&worktree, &[wanted("third")]).expect("nothing changes");
        let told = place(&worktree, &[]).unwrap_err().to_string();
        assert!(
            told.starts_with("another Speedwell measures 'HEAD' with another text of 'third'"),
            "{told}"
        );
        assert_eq!(text("third"), Some("mine".into()));
    }

    #[test]
    fn the_repository_of_the_user_does_not_know_the_worktree() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = made(folder.path()) else {
            return;
        };
        let listed = |at: &Path| ask(at, &["worktree", "list"]).unwrap();
        assert_eq!(listed(&worktree.checkout).lines().count(), 1);
        assert!(!worktree.checkout.join(".git/worktrees").exists());
        // It is a checkout of its own all the same, for builds that query git.
        assert_eq!(
            ask(&worktree.folder, &["rev-parse", "HEAD"]).unwrap(),
            worktree.revision
        );
        assert_eq!(
            ask(&worktree.folder, &["status", "--porcelain"]).unwrap(),
            ""
        );
    }

    #[test]
    fn a_link_that_leads_out_of_the_worktree_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(worktree) = made(folder.path()) else {
            return;
        };
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, worktree.folder.join("link")).unwrap();
        let wanted = (worktree.folder.join("link/speed"), b"mine".to_vec());
        let told = place(&worktree, &[wanted]).unwrap_err().to_string();
        assert!(told.contains("leads out of its worktree"), "{told}");
        assert!(!outside.join("speed").exists());
    }

    #[test]
    fn placeholders_of_a_build_are_filled_and_variables_of_the_shell_are_not() {
        let worktree = Worktree {
            revision: "abc".into(),
            typed: "main".into(),
            checkout: "/repo".into(),
            folder: "/a b/tree".into(),
            build: None,
        };
        let filled = filled_in_shell(
            "cd {worktree} && x ${worktree} {a,b} {revision}{revision}",
            &worktree,
        );
        assert_eq!(filled, "cd '/a b/tree' && x ${worktree} {a,b} abcabc");
    }
}
