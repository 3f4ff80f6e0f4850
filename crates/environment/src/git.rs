//! Asks git, which may be slow, absent, or set up to run other programs.
//!
//! Nothing of the repository is changed or locked, no hook and no monitor is started. Start at [`Git`].

use speedwell_process::{Conversation, Ended, Next, Spec, Stream, run};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Answers to a series of questions about the repository of a folder, all within one limit of time.
#[derive(Debug, Clone)]
pub struct Git {
    folder: PathBuf,
    deadline: Instant,
}

/// What keeps git from starting anything else and from writing.
const QUIET: [&str; 5] = [
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
];

/// Collects what comes on standard output, whole.
struct Output(Vec<u8>);

impl Conversation for Output {
    fn received(&mut self, _line: &[u8]) -> Next {
        Next::Wait
    }

    fn wrote(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stdout {
            self.0.extend_from_slice(bytes);
        }
    }
}

impl Git {
    /// Questions about the repository that `folder` belongs to, for `limit` altogether.
    pub fn at(folder: &Path, limit: Duration) -> Git {
        Git {
            folder: folder.to_owned(),
            deadline: Instant::now() + limit,
        }
    }

    /// What git answers, without the line feed at its end; `None` if there is no git or no repository, if it fails, or
    /// if the time is over. Words that are not ours come behind `--end-of-options` or `--`.
    pub fn ask(&self, words: &[&str]) -> Option<String> {
        let words: Vec<&str> = QUIET.iter().chain(words).copied().collect();
        self.answer(Spec::new("git").args(words))
    }

    /// The digest of what is changed and not committed; `None` where nothing is.
    pub fn changes(&self) -> Option<String> {
        let quiet = QUIET.join(" ");
        let diff = format!("git {quiet} diff HEAD --no-ext-diff --no-textconv --binary");
        let line = format!("{diff} --quiet || {diff} | git hash-object --stdin");
        let digest = self.answer(Spec::new("/bin/sh").args(["-c", line.as_str()]))?;
        (!digest.is_empty()).then_some(digest)
    }

    /// The id of the commit that `revision` names.
    pub fn commit_id(&self, revision: &str) -> Option<String> {
        let commit = format!("{revision}^{{commit}}");
        self.ask(&["rev-parse", "--verify", "-q", "--end-of-options", &commit])
    }

    /// The branch that others are merged into, as git names it: `name`, of the remote repository where that has it, or
    /// the one that the remote repository calls its own.
    pub fn target(&self, name: Option<&str>) -> Option<String> {
        let Some(name) = name else {
            return self.ask(&["symbolic-ref", "-q", "refs/remotes/origin/HEAD"]);
        };
        let places = [
            format!("refs/remotes/origin/{name}"),
            format!("refs/heads/{name}"),
        ];
        places
            .into_iter()
            .find(|place| self.commit_id(place).is_some())
    }

    /// Where two lines of commits part.
    pub fn merge_base(&self, one: &str, other: &str) -> Option<String> {
        self.ask(&["merge-base", "--end-of-options", one, other])
    }

    /// The commits that lead to `revision`, itself first, always by the first parent.
    pub fn line_to(&self, revision: &str) -> Vec<String> {
        let words = [
            "rev-list",
            "--first-parent",
            "--end-of-options",
            revision,
            "--",
        ];
        let answer = self.ask(&words).unwrap_or_default();
        answer.lines().map(str::to_owned).collect()
    }

    fn answer(&self, mut spec: Spec) -> Option<String> {
        spec.directory = Some(self.folder.clone());
        spec.limit = self.deadline.checked_duration_since(Instant::now())?;
        // A repository of another one that started us, as in a hook.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            spec.unset.push(name.to_owned());
        }
        let mut output = Output(Vec::new());
        let outcome = run(&spec, &mut output).ok()?;
        let text = String::from_utf8_lossy(&output.0);
        matches!(outcome.ended, Ended::Exit(0)).then(|| text.trim_end_matches('\n').to_owned())
    }
}
