//! Defines the tables of the store, as a list of migrations from each version to the next.
//!
//! In a file, the version is SQLite's `user_version`. A released migration is never edited. Every
//! change to the tables is a new step at the end of [`STEPS`]. Other programs are expected to read
//! the tables, so names are whole words and column names include the unit.

use anyhow::bail;

/// A migration.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only PostgreSQL needs the differences")
)]
pub(super) struct SchemaStep {
    /// SQL for SQLite.
    pub text: &'static str,
    /// How the SQL for PostgreSQL differs, apart from type names and other differences of dialect.
    pub differs: PostgresVariant,
}

/// How a migration differs on PostgreSQL.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL needs it"))]
pub(super) enum PostgresVariant {
    /// PostgreSQL runs the same SQL, translated into its dialect.
    Not,
    /// PostgreSQL runs this SQL instead.
    Instead(&'static str),
    /// PostgreSQL runs the same SQL, translated, and then this SQL.
    And(&'static str),
}

impl SchemaStep {
    /// Creates a migration that is the same for both back ends.
    pub const fn same(text: &'static str) -> SchemaStep {
        SchemaStep { text, differs: PostgresVariant::Not }
    }
}

/// Migration `n` (from 0) leads from version `n` to version `n + 1`.
pub(super) const STEPS: &[SchemaStep] = &[
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
    NAMES,
];

/// `run` and `sample` are clustered by session (`WITHOUT ROWID`), because a session is read as a
/// whole. New rows are added only at the end of a session, so storing a run touches only two pages.
/// The rows of a planned run also say whether it is done. Only a planned run without rows, which is
/// rare, is marked as done in another table.
const FIRST: SchemaStep = SchemaStep::same(include_str!("steps/1-sessions.sql"));

/// Counts of false alarms when a machine is compared with itself. The column `result` derives the
/// verdict from the counts; it exists for other programs.
const CALIBRATION: SchemaStep = SchemaStep::same(include_str!("steps/2-calibration.sql"));

/// Details of an HTTP load run beyond its samples: histograms, counts of every outcome, the
/// progress over time. They are in a separate table, because only reports about that run read them.
const LOAD: SchemaStep = SchemaStep::same(include_str!("steps/3-load.sql"));

/// Profiles of cases, from runs that were recorded and not timed. A profile consists of folded
/// stacks or, if there are none, the reason why.
const PROFILE: SchemaStep = SchemaStep::same(include_str!("steps/4-profile.sql"));

/// Number of runs per case and session, so that listing sessions reads no runs. Triggers keep the
/// number up to date, whichever program writes.
const COUNTS: SchemaStep = SchemaStep {
    text: include_str!("steps/5-counts.sql"),
    differs: PostgresVariant::Instead(include_str!("steps/5-counts.postgres.sql")),
};

/// The process that records a session. It distinguishes a killed session from a session in
/// progress.
const RECORDER: SchemaStep = SchemaStep::same(include_str!("steps/6-recorder.sql"));

/// The measured code of a session, if known.
const ORIGIN: SchemaStep = SchemaStep::same(include_str!("steps/7-origin.sql"));

/// Which build of a source each run executed, and the spread between builds. Later sessions with a
/// single build are compared against this spread.
const BUILDS: SchemaStep = SchemaStep::same(include_str!("steps/8-builds.sql"));

/// Kernel counters of each run and, if the run was rejected, the rule that rejected it.
const DISTURBANCE: SchemaStep = SchemaStep::same(include_str!("steps/9-disturbance.sql"));

/// History: the points of each session and series, the revisions of the branches to which the
/// points belong, and the changes found along these branches. Points and detector states are
/// derived from sessions; triage, renames and notes are user input.
const HISTORY: SchemaStep = SchemaStep {
    text: include_str!("steps/10-history.sql"),
    // PostgreSQL's sequence does not advance for a row inserted with an explicit number.
    differs: PostgresVariant::And("ALTER TABLE project ALTER COLUMN number RESTART WITH 2;"),
};

/// Tables of a team server: tokens and the audit log; sessions that are being uploaded, queued for
/// upload, or deleted; and posted comments. Each project has its own set of all tables; tokens and
/// their audit log are stored only in the first set.
const SERVER: SchemaStep = SchemaStep::same(include_str!("steps/11-server.sql"));

/// Sessions on several machines: the machines, the shards assigned to each, and the origin of every
/// block. The runs of a session on a single machine refer to no machine.
const FLEET: SchemaStep = SchemaStep::same(include_str!("steps/12-fleet.sql"));

/// Comments that the server posts on pull requests, running loads, the state of lines in measured
/// order, and the sessions that measured each benchmark. With the last table, benchmarks can be
/// listed without a scan of all sessions. Triggers keep this table up to date, whichever program
/// writes.
const SERVED: SchemaStep = SchemaStep {
    text: include_str!("steps/13-served.sql"),
    differs: PostgresVariant::Instead(include_str!("steps/13-served.postgres.sql")),
};

/// Index of the runs of each case, because a session with millions of runs is read case by case.
const CASES: SchemaStep = SchemaStep::same(include_str!("steps/14-cases.sql"));

/// Caches that avoid reading and searching a long series from the beginning: packed points and
/// detector states. Both are derived from points. Triggers delete outdated packs; a detector state
/// records which points it has seen.
const PACKS: SchemaStep = SchemaStep {
    text: include_str!("steps/15-packs.sql"),
    differs: PostgresVariant::Instead(include_str!("steps/15-packs.postgres.sql")),
};

/// Tables that avoid scanning all sessions: which sessions have each variant, and which sessions
/// have no points yet. Triggers keep them up to date, whichever program writes.
const LOOKS: SchemaStep = SchemaStep {
    text: include_str!("steps/16-looks.sql"),
    differs: PostgresVariant::Instead(include_str!("steps/16-looks.postgres.sql")),
};

/// On PostgreSQL, counts runs once per statement instead of once per row. SQLite counts row by row
/// just as fast.
const COUNTS_TOGETHER: SchemaStep = SchemaStep {
    text: "",
    differs: PostgresVariant::Instead(include_str!("steps/17-counts.postgres.sql")),
};

/// Renames tables and columns, so that they use common technical terms. The renames are the same
/// for both back ends; their triggers differ.
const NAMES: SchemaStep = SchemaStep {
    text: concat!(include_str!("steps/18-names.sql"), include_str!("steps/18-names.sqlite.sql")),
    differs: PostgresVariant::Instead(concat!(
        include_str!("steps/18-names.sql"),
        include_str!("steps/18-names.postgres.sql")
    )),
};

/// Owner and version of a database, as stated in the database itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseOwner {
    /// Created by this program, at this version. A file without tables is version 0.
    Ours(usize),
    /// Created by a newer version of this program.
    Newer(usize),
    /// A database of another program.
    Foreign,
}

/// Returns the schema version, if this program can use it.
pub(super) fn supported_version(kind: DatabaseOwner) -> anyhow::Result<usize> {
    match kind {
        DatabaseOwner::Ours(version) => Ok(version),
        DatabaseOwner::Newer(version) => bail!(
            "it was written by a newer speedwell (format {version}; this one reads up to {})\n\
             hint: update speedwell, or choose another file with --db FILE",
            STEPS.len()
        ),
        DatabaseOwner::Foreign => {
            bail!("it belongs to another program\nhint: choose another file with --db FILE")
        }
    }
}
