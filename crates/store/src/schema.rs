//! Defines the tables of the store: `schema/sqlite.sql` for a file, `schema/postgres.sql` for a
//! server.
//!
//! Decides which versions of the tables can be used. In a file, the version is SQLite's
//! `user_version`; on a server, it is the row of the table `speedwell_schema`. Every change to the
//! tables is a new step at the end of [`STEPS`], in the SQL of both back ends. A released step is
//! never edited.

use anyhow::{Result, bail};

/// One change of the tables. The first step creates them.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaStep {
    /// SQL for SQLite.
    pub sqlite: &'static str,
    /// SQL for PostgreSQL.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL needs it"))]
    pub postgres: &'static str,
}

/// All steps, in the order in which they are applied.
pub(super) const STEPS: &[SchemaStep] = &[SchemaStep {
    sqlite: include_str!("schema/sqlite.sql"),
    postgres: include_str!("schema/postgres.sql"),
}];

/// Added to the number of steps, so that the first step leads to version 101. Unreleased versions
/// of Speedwell, whose tables differ, used the numbers 1 to 18.
const VERSION_OFFSET: i64 = 100;

/// Returns the version of a database to which this number of steps was applied.
pub(super) fn version_after(steps: usize) -> i64 {
    VERSION_OFFSET + steps as i64
}

/// Returns the number of steps that were applied to a database of this version; 0 for a new
/// database, whose version is 0.
pub(super) fn applied_steps(version: i64) -> usize {
    usize::try_from(version.saturating_sub(VERSION_OFFSET)).unwrap_or(0)
}

/// Owner and version of a database, as stated in the database itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseOwner {
    /// Created by this program, with this number of steps. A database without tables has 0 steps.
    Ours(usize),
    /// Created by an unreleased version of this program. Holds the version of the tables.
    Unreleased(i64),
    /// Created by a newer version of this program. Holds the version of the tables.
    Newer(i64),
    /// A database of another program.
    Foreign,
}

impl DatabaseOwner {
    /// Returns the owner of a database without tables or with tables of this program.
    pub fn of_version(version: i64) -> DatabaseOwner {
        match version {
            ..=0 => DatabaseOwner::Ours(0),
            1..=VERSION_OFFSET => DatabaseOwner::Unreleased(version),
            _ if applied_steps(version) > STEPS.len() => DatabaseOwner::Newer(version),
            _ => DatabaseOwner::Ours(applied_steps(version)),
        }
    }

    /// Returns the number of steps that were applied to the database.
    ///
    /// # Errors
    /// Fails if this program cannot use the database.
    pub fn usable_steps(self) -> Result<usize> {
        match self {
            DatabaseOwner::Ours(steps) => Ok(steps),
            DatabaseOwner::Unreleased(version) => bail!(
                "it was written by an unreleased version of speedwell (format {version})\n\
                 hint: write a backup with the last unreleased version (speedwell serve backup \
                 FILE), and restore it into another store with this one (speedwell serve restore \
                 FILE --db STORE)"
            ),
            DatabaseOwner::Newer(version) => bail!(
                "it was written by a newer speedwell (format {version}; this one reads up to {})\n\
                 hint: update speedwell, or choose another file with --db FILE",
                version_after(STEPS.len())
            ),
            DatabaseOwner::Foreign => {
                bail!("it belongs to another program\nhint: choose another file with --db FILE")
            }
        }
    }
}
