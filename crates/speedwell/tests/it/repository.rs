//! A project that is a git repository, and the command run in it.

use super::programs::PROGRAM;
use super::project::{CommandResult, TempProject};
use speedwell_fixtures::FakeRepo;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

/// Builds the program `bench` from `bench.in`, with the cost in `cost`, and records the built
/// revision in the file at `$LOG`.
const BUILD: &str =
    "sed \"s/TIME/$(cat cost)/; s/TIME/$(cat cost)/; s/TIME/$(cat cost)/\" bench.in > bench &&
chmod +x bench && echo $SPEEDWELL_REVISION >> \"$LOG\"";

/// Preamble of a test program: counts its starts beside `$LOG`, and signals its parent at those
/// that [`TestRepository::with_signal`] names.
pub const COUNTED: &str = "test -z \"$AT\" || {
    echo start >> \"$LOG.starts\"
    case \" $AT \" in *\" $(wc -l < \"$LOG.starts\") \"*) kill -$SIGNAL $PPID; sleep 100 ;; esac
}";

/// The arguments that measure the program of [`TestRepository::with_program`].
pub const BENCH: [&str; 3] = ["--build", "sh build.sh", "./bench"];

/// A project with a git history, and a folder beside it. Git ignores the project's store.
pub struct TestRepository {
    pub project: TempProject,
    history: FakeRepo,
    outside: tempfile::TempDir,
}

impl Deref for TestRepository {
    type Target = FakeRepo;

    fn deref(&self) -> &FakeRepo {
        &self.history
    }
}

impl TestRepository {
    /// A project without commits; `None`, with a message, without git.
    pub fn new() -> Option<TestRepository> {
        let project = TempProject::new();
        let history = FakeRepo::init(&project.path(""))?;
        history.write_file(".git/info/exclude", ".speedwell\n");
        Some(TestRepository { project, history, outside: tempfile::tempdir().unwrap() })
    }

    /// A project whose first commit has a program that is built by [`BENCH`]; its benchmarks take
    /// as many microseconds as the file `cost` says.
    pub fn with_program(cost: &str) -> Option<TestRepository> {
        let text = PROGRAM
            .replace("NAMES", "BM_copy/8 BM_copy/64")
            .replace("BEFORE", COUNTED)
            .replace("BUILD", "release");
        let repository = TestRepository::new()?
            .with(".gitignore", "bench\n")
            .with("bench.in", &text)
            .with("build.sh", BUILD)
            .with("cost", cost);
        Some(repository.committed("first"))
    }

    /// Adds a file, to be committed.
    pub fn with(self, path: &str, text: &str) -> TestRepository {
        self.write_file(path, text);
        self
    }

    pub fn committed(self, subject: &str) -> TestRepository {
        self.commit_all(subject);
        self
    }

    pub fn outside(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    /// What builds and other processes wrote into the file at `$LOG`.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.outside("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A command in the checkout, with its own cache, and with `$LOG` and `$FLAG` for its children.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(words);
        command
            .env("XDG_CACHE_HOME", self.outside("cache"))
            .env("LOG", self.outside("log"))
            .env("FLAG", self.outside("flag"));
        command
    }

    /// Runs the command, and signals it at these starts of the program.
    pub fn with_signal(&self, words: &[&str], signal: &str, at: &str) -> CommandResult {
        let mut command = self.command(words);
        command.env("SIGNAL", signal).env("AT", at);
        CommandResult::from(command.output().unwrap())
    }

    /// Runs the command in the checkout.
    pub fn run(&self, words: &[&str]) -> CommandResult {
        CommandResult::from(self.command(words).output().unwrap())
    }
}
