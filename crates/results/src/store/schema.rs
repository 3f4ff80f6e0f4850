//! The tables of the results file and the steps that lead from one version of them to the next.
//!
//! The version is SQLite's `user_version`. A step, once released, is never edited: a change of the
//! tables is a new step at the end of [`STEPS`]. The tables are meant to be read by other programs
//! too, so names are whole words and every unit is in the column's name.

use anyhow::bail;

/// One step.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "a server alone needs what differs")
)]
pub(super) struct Step {
    /// As SQLite reads it.
    pub text: &'static str,
    /// Where that is not what PostgreSQL needs, its types and such words aside.
    pub differs: Differs,
}

/// What PostgreSQL needs in a step.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "a server alone needs it")
)]
pub(super) enum Differs {
    /// The same, in its words.
    Not,
    /// Another text.
    Instead(&'static str),
    /// The same, and this.
    And(&'static str),
}

impl Step {
    /// A step that is the same for both.
    pub const fn same(text: &'static str) -> Step {
        Step {
            text,
            differs: Differs::Not,
        }
    }
}

/// Step `n` (from 0) leads from version `n` to version `n + 1`.
pub(super) const STEPS: &[Step] = &[
    FIRST,
    CALIBRATION,
    LOAD,
    PROFILE,
    COUNTS,
    RECORDER,
    ORIGIN,
    BUILDS,
    DISTURBANCE,
    HISTORY,
    SERVER,
    FLEET,
    SERVED,
    CASES,
    PACKS,
    LOOKS,
    COUNTS_TOGETHER,
];

/// `run` and `sample` are clustered by session (`WITHOUT ROWID`), because a session is read as a
/// whole and written at its end only. A stored run then touches two pages: that a slot is done is
/// noted in its rows and has a table of its own for the rare slot that has no row.
const FIRST: Step = Step::same(include_str!("steps/1-sessions.sql"));

/// How often each machine took a thing for different from itself. The result follows from the counts,
/// so it is never stored: it is there for other programs to read.
const CALIBRATION: Step = Step::same(include_str!("steps/2-calibration.sql"));

/// Everything known of a run that was an HTTP load, beside its samples: histograms, counts of every
/// outcome, the course over time. In a table of its own, because only reports about that run read it.
const LOAD: Step = Step::same(include_str!("steps/3-load.sql"));

/// Where cases spent their time, by runs that were recorded and not timed: folded stacks, or the reason
/// why there are none.
const PROFILE: Step = Step::same(include_str!("steps/4-profile.sql"));

/// How many runs each case has in each session, so that a list of sessions reads no runs. Kept by the database
/// itself, whoever writes.
const COUNTS: Step = Step {
    text: include_str!("steps/5-counts.sql"),
    differs: Differs::Instead(include_str!("steps/5-counts.postgres.sql")),
};

/// The process that records a session, so that a session whose process was killed is known from one that is being
/// measured.
const RECORDER: Step = Step::same(include_str!("steps/6-recorder.sql"));

/// The code that a session measured, where that is known.
const ORIGIN: Step = Step::same(include_str!("steps/7-origin.sql"));

/// Which build of a source each run executed, and by how much builds of one source differ: later sessions with one build
/// are compared with that.
const BUILDS: Step = Step::same(include_str!("steps/8-builds.sql"));

/// What the kernel said of each run, and the rule by which it was put aside.
const DISTURBANCE: Step = Step::same(include_str!("steps/9-disturbance.sql"));

/// Results over time: one point for what each session says of each series, the lines of revisions they lie on, and what
/// changed there. Points and walks follow from sessions; judgements, renames and remarks are what people said.
const HISTORY: Step = Step {
    text: include_str!("steps/10-history.sql"),
    // Where a number was given, the server counts from before it.
    differs: Differs::And("ALTER TABLE project ALTER COLUMN number RESTART WITH 2;"),
};

/// What a server of a team needs: who may do what and who did it, sessions that are arriving, are to be pushed or were
/// deleted, comments that were posted. Each project of a server has all tables of its own; tokens and what was done with
/// them lie in those that the server was started with.
const SERVER: Step = Step::same(include_str!("steps/11-server.sql"));

/// Sessions on several machines: which there were, what each got to do, and whose every block is. The run of a session without
/// such machines says nothing of them, as before.
const FLEET: Step = Step::same(include_str!("steps/12-fleet.sql"));

/// What a server says on pull requests by itself, and which sessions measured each benchmark, so that a list of benchmarks
/// reads no list of sessions. The latter is kept by the database itself, whoever writes.
const SERVED: Step = Step {
    text: include_str!("steps/13-served.sql"),
    differs: Differs::Instead(include_str!("steps/13-served.postgres.sql")),
};

/// Where the runs of each case are: a session of millions of runs is read case by case.
const CASES: Step = Step::same(include_str!("steps/14-cases.sql"));

/// What is kept so that a long course is neither read nor searched from its beginning again. Both follow from the points, and
/// the database itself forgets what no longer does.
const PACKS: Step = Step {
    text: include_str!("steps/15-packs.sql"),
    differs: Differs::Instead(include_str!("steps/15-packs.postgres.sql")),
};

/// What is kept so that no look reads a list of all sessions: which of them have each variant, and which have no points yet. Kept
/// by the database itself, whoever writes.
const LOOKS: Step = Step {
    text: include_str!("steps/16-looks.sql"),
    differs: Differs::Instead(include_str!("steps/16-looks.postgres.sql")),
};

/// Counts runs that come together at once, on a server: SQLite counts a row as quickly as many.
const COUNTS_TOGETHER: Step = Step {
    text: "",
    differs: Differs::Instead(include_str!("steps/17-counts.postgres.sql")),
};

/// What the file's marks say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ours, at this version; a file without any table is ours at version 0.
    Ours(usize),
    /// Ours, but a later version than this program knows.
    Newer(usize),
    /// A database of some other program.
    Foreign,
}

/// The version of tables that this program can use.
pub(super) fn known_version(kind: Kind) -> anyhow::Result<usize> {
    match kind {
        Kind::Ours(version) => Ok(version),
        Kind::Newer(version) => bail!(
            "it was written by a newer speedwell (format {version}, this one knows {})\n\
             hint: update speedwell, or choose another one with --db FILE",
            STEPS.len()
        ),
        Kind::Foreign => {
            bail!("it is a database of another program\nhint: choose another file with --db FILE")
        }
    }
}
