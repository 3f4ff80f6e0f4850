//! A folder with benchmarks, and the command run in it.

use super::back_ends::StorePlace;
use super::fleet_program;
use super::suite_projects::build_folder;
use rusqlite::OpenFlags;
use speedwell_fixtures::write_program;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A temporary project, deleted when the test ends.
pub struct TempProject {
    folder: tempfile::TempDir,
    /// Value of `--db`, if it is not the project's own file.
    db: Option<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
    sends_itself: bool,
}

#[derive(Debug)]
pub struct CommandResult {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl TempProject {
    /// Creates an empty project with its own store.
    pub fn new() -> TempProject {
        TempProject::in_folder(tempfile::tempdir().unwrap())
    }

    /// Creates an empty project whose path is the same at every execution of the tests, so that
    /// Speedwell finds the programs in its cache folder that it compiled from the same files last
    /// time. A name is for one test.
    pub fn at_constant_path(name: &str) -> TempProject {
        // The tests of another checkout may run at the same time.
        let mut hash = DefaultHasher::new();
        env!("CARGO_TARGET_TMPDIR").hash(&mut hash);
        let name = format!("speedwell-{name}-{:016x}", hash.finish());
        // An aborted test has left it.
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&name));
        let folder = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir();
        TempProject::in_folder(folder.unwrap())
    }

    fn in_folder(folder: tempfile::TempDir) -> TempProject {
        std::fs::create_dir(folder.path().join(".speedwell")).unwrap();
        TempProject { folder, db: None, variables: Vec::new(), sends_itself: false }
    }

    /// Sets an environment variable for every command.
    pub fn with_variable(mut self, name: &'static str, value: PathBuf) -> TempProject {
        self.variables.push((name, value));
        self
    }

    /// Sends the program itself to the machines of a fleet, rather than a script that starts it.
    pub fn sending_itself(self) -> TempProject {
        TempProject { sends_itself: true, ..self }
    }

    pub fn storing_in(self, place: &StorePlace) -> TempProject {
        TempProject { db: Some(place.path()), ..self }
    }

    pub fn with(self, path: &str, text: &str) -> TempProject {
        let file = self.path(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self
    }

    /// Adds a program.
    pub fn with_program(self, path: &str, text: &str) -> TempProject {
        write_program(&self.path(path), text);
        self
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn program(&self) -> &'static Path {
        match (self.path("fleet.toml").exists(), self.sends_itself) {
            (false, _) => Path::new(fleet_program::BUILT_PROGRAM),
            (true, false) => fleet_program::sending_script(),
            (true, true) => fleet_program::sending_itself(),
        }
    }

    /// A command, ready to run in the project.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.args(words).current_dir(self.folder.path());
        command
            .env_remove("SPEEDWELL_DB")
            .env_remove("GITHUB_ACTIONS")
            .env_remove("GITLAB_CI")
            .env("NO_COLOR", "1")
            // Go compiles its standard library once for the tests of all working copies, and links
            // without debug information.
            .env("GOCACHE", build_folder().join("go"))
            .env("GOFLAGS", "-ldflags=-w")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if let Some(db) = &self.db {
            command.env("SPEEDWELL_DB", db);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> CommandResult {
        CommandResult::from(self.command(words).output().unwrap())
    }

    /// Number of runs stored so far. Asking the program repeatedly would take processor time from
    /// what is measured.
    pub fn stored_runs(&self) -> usize {
        self.count_rows("run")
    }

    /// Number of sessions started so far.
    pub fn stored_sessions(&self) -> usize {
        self.count_rows("session")
    }

    /// Number of rows of a table of the project's own store.
    fn count_rows(&self, table: &str) -> usize {
        let file = self.path(".speedwell/results.db");
        let store = rusqlite::Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let count = |store: rusqlite::Connection| {
            store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        };
        // At first there is no file, and then no table.
        store.and_then(count).unwrap_or(0)
    }

    /// Runs the command with `text` on stdin.
    pub fn run_with_input(&self, words: &[&str], text: &[u8]) -> CommandResult {
        use std::io::Write;
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let text = text.to_vec();
        let writer = std::thread::spawn(move || {
            // The command may reject its arguments before it reads.
            let _ = stdin.write_all(&text);
        });
        let answer = CommandResult::from(child.wait_with_output().unwrap());
        writer.join().unwrap();
        answer
    }
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> CommandResult {
        CommandResult {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl CommandResult {
    /// Asserts the exit status, showing everything if it differs.
    #[track_caller]
    pub fn expect_status(self, status: i32) -> CommandResult {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    #[track_caller]
    pub fn expect_stdout(self, texts: &[&str]) -> CommandResult {
        for text in texts {
            assert!(self.stdout.contains(text), "no {text:?} on stdout of {self:#?}");
        }
        self
    }

    #[track_caller]
    pub fn expect_stderr(self, texts: &[&str]) -> CommandResult {
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} on stderr of {self:#?}");
        }
        self
    }
}

/// Returns whether `product` is newer than these files and the files in these folders.
pub fn is_current(product: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let Ok(made) = changed(product) else {
        return false;
    };
    let inside = inputs.iter().flat_map(std::fs::read_dir).flatten();
    let inside = inside.map(|entry| entry.unwrap().path());
    let mut all = inputs.iter().cloned().chain(inside);
    all.all(|input| changed(&input).is_ok_and(|time| time < made))
}

/// Asserts that a text is what its file in `tests/golden` holds; SPEEDWELL_UPDATE_GOLDEN=1 rewrites
/// the file.
#[track_caller]
pub fn expect_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SPEEDWELL_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let differing: Vec<&str> =
        text.lines().filter(|line| !expected.lines().any(|known| known == *line)).collect();
    assert!(
        text == expected,
        "{name} differs from its golden file (SPEEDWELL_UPDATE_GOLDEN=1 writes it anew); new lines:\n{}",
        differing.join("\n")
    );
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The machine's Node.js, if it has one; tests that need it report that they are skipped.
pub fn node() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("node")).find(|f| f.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no 'node' in PATH");
    }
    found
}
