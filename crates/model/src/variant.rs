//! The thing compared: program, flags, environment, the revision it is built from, or a snippet with what happens
//! around it. Start at [`Variant`] and [`Snippet`].

use crate::case::Value;
use crate::text::placed;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// One side of a comparison. The baseline is the reference, all others are candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name in tables: `old`, `node22`, `with-module`.
    pub name: String,
    /// The program that performs the cases; `None` means the harness's usual one from `PATH`.
    pub program: Option<PathBuf>,
    /// Arguments given to the program before those of the benchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables set for the measured process only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// The snippet that is measured, where snippets are what is compared.
    #[serde(rename = "code", default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// The revision whose code it is, where that is not the code of the user's checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// The built file that takes the place of the target: a jar, where several are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<PathBuf>,
    /// Fingerprints of what the variant's benchmarks do, by their names: with another one it is other work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, String>,
    /// Files of the project that the variant loads from the user's checkout and not from its revision, as paths from the
    /// checkout's root: figures of such a variant are not those of its revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<String>,
}

impl Variant {
    /// A variant that differs from the usual set-up in nothing but its name.
    pub fn plain(name: impl Into<String>) -> Variant {
        Variant {
            name: name.into(),
            program: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            snippet: None,
            worktree: None,
            artifact: None,
            work: BTreeMap::new(),
            strays: Vec::new(),
        }
    }

    /// Where the file or folder is that this variant uses for one of the user's checkout.
    pub fn path_of<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        let own = self.worktree.as_ref().and_then(|own| own.path_of(path));
        own.map_or(Cow::Borrowed(path), Cow::Owned)
    }
}

/// One revision of a repository in a folder of its own, as somebody builds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The commit, whole.
    pub revision: String,
    /// What was typed for it: `main`.
    pub typed: String,
    /// The root of the user's checkout.
    pub checkout: PathBuf,
    /// The folder that has the files of the revision.
    pub folder: PathBuf,
    /// What builds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
}

impl Worktree {
    /// The commit as people write it.
    pub fn short_revision(&self) -> &str {
        self.revision.get(..7).unwrap_or(&self.revision)
    }

    /// What stands here for a path of the checkout; `None` for a path outside of it.
    pub fn path_of(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(&self.checkout).ok()?;
        Some(self.folder.join(inside))
    }
}

/// How a revision is built.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Build {
    /// What a shell executes.
    pub command: String,
    /// In which folder of the worktree, from its root.
    pub directory: PathBuf,
    /// After this time it is ended, in milliseconds.
    pub limit_ms: u64,
}

/// The languages whose code can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Erlang.
    Erlang,
    /// Elixir.
    Elixir,
    /// JavaScript for Node.js.
    Node,
    /// Python.
    Python,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// Java.
    Java,
    /// Commands of a shell; an iteration is a process.
    Sh,
}

impl Language {
    /// All of them, in the order in which they are listed for users.
    pub const ALL: [Language; 10] = [
        Language::Erlang,
        Language::Elixir,
        Language::Node,
        Language::Python,
        Language::C,
        Language::Cpp,
        Language::Go,
        Language::Rust,
        Language::Java,
        Language::Sh,
    ];

    /// The word for it on the command line and over the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Language::Erlang => "erlang",
            Language::Elixir => "elixir",
            Language::Node => "node",
            Language::Python => "python",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Rust => "rust",
            Language::Java => "java",
            Language::Sh => "sh",
        }
    }

    /// The language of that word.
    pub fn of_word(word: &str) -> Option<Language> {
        Language::ALL
            .into_iter()
            .find(|language| language.word() == word)
    }

    /// Whether code is compiled into a program of its own before it is measured.
    pub fn is_compiled(self) -> bool {
        use Language::*;
        matches!(self, C | Cpp | Go | Rust | Java)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A piece of code that is measured, as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snippet {
    /// What it is written in.
    pub language: Language,
    /// One iteration.
    pub runner: String,
    /// Executed once before the workers exist; gives the shared value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// Executed once in each worker; gives its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_worker: Option<String>,
    /// Executed before every iteration and not measured; commands of a shell alone have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Of a command: whether a shell executes it even if it needs none, because others do and are compared with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_shell: bool,
    /// Of a command: executions before the first that is measured, in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// Of a command: whether what it writes is shown while it is measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shows_output: bool,
    /// Executed once when the workers have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Where the language finds modules, headers or classes, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathBuf>,
    /// Other nodes that it needs, in Erlang and Elixir.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// Nodes of a distributed Erlang system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nodes {
    /// So many on this machine, connected with each other, the measuring one included.
    Local(u32),
    /// A running one, on which the code is executed.
    Remote {
        /// Its name, with its host.
        name: String,
        /// The secret that nodes share; the user's own if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cookie: Option<String>,
    },
}

impl Snippet {
    /// The remark on a run whose snippet does so little that its compiler has probably removed it.
    pub const FOLDED: &str = "An iteration takes less than three times as long as an empty one: the code may have been \
                              folded away.";

    /// A snippet without hooks.
    pub fn new(language: Language, runner: impl Into<String>) -> Snippet {
        Snippet {
            language,
            runner: runner.into(),
            init: None,
            init_worker: None,
            prepare: None,
            in_shell: false,
            warmup: None,
            shows_output: false,
            done: None,
            paths: Vec::new(),
            nodes: None,
        }
    }

    /// The snippet of one case: every `{NAME}` in its texts is the case's value of that parameter. What all snippets have,
    /// their text and the number of workers, are no parameters of the text.
    pub fn filled<'a>(&'a self, values: &[(String, Value)]) -> Cow<'a, Snippet> {
        let is_own = |name: &str| !matches!(name, "code" | "concurrency");
        let own: Vec<(String, String)> = values
            .iter()
            .filter(|(name, _)| is_own(name))
            .map(|(name, value)| (format!("{{{name}}}"), value.plain()))
            .collect();
        if own.is_empty() {
            return Cow::Borrowed(self);
        }
        let fill = |text: &String| placed(text, &own);
        Cow::Owned(Snippet {
            runner: fill(&self.runner),
            init: self.init.as_ref().map(fill),
            init_worker: self.init_worker.as_ref().map(fill),
            prepare: self.prepare.as_ref().map(fill),
            done: self.done.as_ref().map(fill),
            ..self.clone()
        })
    }
}
