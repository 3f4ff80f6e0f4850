//! What pages ask of the program around them: everything that needs a repository, the options of the command line, or a file
//! that is written.

use speedwell_analysis::Settings;
use speedwell_analysis::history::History;
use speedwell_model::Session;
use speedwell_results::store::Store;
use std::path::Path;

/// An option of a comparison by its name on the command line, with its value.
pub type Choice<'a> = (&'a str, &'a str);

/// Questions with their answers, so that a page says the same as the command of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Lookups {
    /// The number of the session that a word such as `@latest` or `@base` means.
    pub session: fn(&Store, &str) -> anyhow::Result<i64>,
    /// The sources that words mean. No word may be the name of a file.
    pub sources: fn(&Store, &[String]) -> anyhow::Result<Vec<Source>>,
    /// The settings of a comparison, by the names of their options.
    pub settings: fn(&[Choice<'_>]) -> anyhow::Result<Settings>,
    /// What a command that compares two sessions with these options would end with, and its answer in a line.
    pub gate: fn(&Store, &[String], &[Choice<'_>]) -> anyhow::Result<Gate>,
    /// What a session that is being measured has planned.
    pub planned: fn(&Store, i64) -> anyhow::Result<Planned>,
    /// Gives sessions of the store at a path the points that they lack, as many as are made while somebody waits; says how many
    /// are left.
    pub summarise: fn(&Path) -> anyhow::Result<usize>,
    /// Results over time from the store at a path, in which what follows from sessions is kept, as
    /// `speedwell history` does. The last is how many sessions lack points.
    pub history: fn(&Path, &Course, usize) -> anyhow::Result<History>,
}

/// One side of a comparison.
#[derive(Debug)]
pub struct Source {
    /// What it is called.
    pub label: String,
    /// Its results.
    pub session: Session,
    /// The variant that was picked.
    pub variant: Option<String>,
    /// What its word was taken for, where that is not plain.
    pub taken_for: Option<String>,
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The exit status of the command: 0, 1 where it refuses, 2 where something failed.
    pub status: i32,
    /// Why, in a line.
    pub words: String,
}

/// Which series are wanted over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Course {
    /// The branch that is the line.
    pub branch: Option<String>,
    /// The id of the only case.
    pub case: Option<String>,
    /// Names of metrics; the primary ones if there are none.
    pub metrics: Vec<String>,
    /// Also what else can be said of the whole course.
    pub is_whole: bool,
}

/// The plan of a session, as far as those who watch it need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Planned {
    /// How many slots it has at most; 0 if that is not known.
    pub slots: usize,
    /// How long a run may take, in milliseconds; 0 if that is not known.
    pub timeout_ms: u64,
}
