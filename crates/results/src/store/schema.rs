//! The tables of the results file and the steps that lead from one version of them to the next.
//!
//! The version is SQLite's `user_version`. A step, once released, is never edited: a change of the
//! tables is a new step at the end of [`STEPS`]. The tables are meant to be read by other programs
//! too, so names are whole words and every unit is in the column's name.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours among SQLite files: the letters `SPWL`.
pub(super) const APPLICATION_ID: i32 = 0x5350_574c;

/// Step `n` (from 0) leads from version `n` to version `n + 1`.
pub(super) const STEPS: &[&str] = &[
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
];

/// `run` and `sample` are clustered by session (`WITHOUT ROWID`), because a session is read as a
/// whole and written at its end only. A stored run then touches two pages: that a slot is done is
/// noted in its rows and has a table of its own for the rare slot that has no row.
const FIRST: &str = include_str!("steps/1-sessions.sql");

/// How often each machine took a thing for different from itself. The result follows from the counts,
/// so it is never stored: it is there for other programs to read.
const CALIBRATION: &str = include_str!("steps/2-calibration.sql");

/// Everything known of a run that was an HTTP load, beside its samples: histograms, counts of every
/// outcome, the course over time. In a table of its own, because only reports about that run read it.
const LOAD: &str = include_str!("steps/3-load.sql");

/// Where cases spent their time, by runs that were recorded and not timed: folded stacks, or the reason
/// why there are none.
const PROFILE: &str = include_str!("steps/4-profile.sql");

/// How many runs each case has in each session, so that a list of sessions reads no runs. Kept by the database
/// itself, whoever writes.
const COUNTS: &str = include_str!("steps/5-counts.sql");

/// The process that records a session, so that a session whose process was killed is known from one that is being
/// measured.
const RECORDER: &str = include_str!("steps/6-recorder.sql");

/// The code that a session measured, where that is known.
const ORIGIN: &str = include_str!("steps/7-origin.sql");

/// Which build of a source each run executed, and by how much builds of one source differ: later sessions with one build
/// are compared with that.
const BUILDS: &str = include_str!("steps/8-builds.sql");

/// What the kernel said of each run, and the rule by which it was put aside.
const DISTURBANCE: &str = include_str!("steps/9-disturbance.sql");

/// Results over time: one point for what each session says of each series, the lines of revisions they lie on, and what
/// changed there. Points and walks follow from sessions; judgements, renames and remarks are what people said.
const HISTORY: &str = include_str!("steps/10-history.sql");

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

/// Tells whose file this is. This is the first read of the file, so that something that is not a
/// database at all fails here.
pub(super) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    // One transaction: another program may be creating the tables at this moment.
    let moment = connection.unchecked_transaction()?;
    let number = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version")?.max(0) as usize;
    let application = number("PRAGMA application_id")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    Ok(match (application == i64::from(APPLICATION_ID), tables) {
        (false, 0) => Kind::Ours(0),
        (false, _) => Kind::Foreign,
        (true, _) if version > STEPS.len() => Kind::Newer(version),
        (true, _) => Kind::Ours(version),
    })
}

/// Takes every step that the file lacks, all or nothing.
///
/// The version is read again under the write lock: of two programs that open a fresh file at the
/// same time only one creates the tables.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let missing = steps.iter().skip(version.max(0) as usize);
    if missing.len() > 0 {
        for step in missing {
            change.execute_batch(step)?;
        }
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", steps.len() as i64)?;
    }
    change.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_file_catches_up_with_all_steps_it_has_not_seen_and_keeps_its_rows() {
        let mut file = Connection::open_in_memory().unwrap();
        let old = ["CREATE TABLE a (x INTEGER)"];
        migrate(&mut file, &old).unwrap();
        file.execute("INSERT INTO a VALUES (7)", []).unwrap();

        let new = [
            old[0],
            "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 1",
            "UPDATE a SET y = x + 1",
        ];
        migrate(&mut file, &new).unwrap();

        assert_eq!(version(&file), 3);
        let row = file.query_row("SELECT x, y FROM a", [], |r| Ok((r.get(0)?, r.get(1)?)));
        assert_eq!(row.unwrap(), (7, 8));
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_at_its_old_version() {
        let mut file = Connection::open_in_memory().unwrap();
        let steps = [
            "CREATE TABLE a (x)",
            "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)",
        ];
        assert!(migrate(&mut file, &steps).is_err());
        assert_eq!(version(&file), 0);
        assert_eq!(
            kind(&file).unwrap(),
            Kind::Ours(0),
            "no table may be left behind"
        );
    }

    #[test]
    fn a_file_from_before_calibrations_keeps_its_sessions_and_learns_to_hold_them() {
        let mut file = Connection::open_in_memory().unwrap();
        migrate(&mut file, &STEPS[..1]).unwrap();
        assert_eq!(version(&file), 1);
        let session = "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                       environment) VALUES ('a', 5, 'complete', '[]', '{}', '[]', '{}')";
        file.execute(session, []).unwrap();

        migrate(&mut file, STEPS).unwrap();

        assert_eq!(version(&file), STEPS.len() as i64);
        file.pragma_update(None, "foreign_keys", true).unwrap();
        let result = |alarms: u32| -> String {
            let row = "INSERT OR REPLACE INTO calibration (session, started_unix_ms, comparisons,
                       false_alarms, expected_low, expected_high)
                       SELECT number, started_unix_ms, 200, ?1, 4, 16 FROM session RETURNING result";
            file.query_row(row, [alarms], |row| row.get(0)).unwrap()
        };
        assert_eq!(result(3), "too few false alarms");
        assert_eq!(result(16), "calibrated");
        assert_eq!(result(17), "too many false alarms");
        file.execute("DELETE FROM session", []).unwrap();
        let left: i64 = file
            .query_row("SELECT count(*) FROM calibration", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 0, "a calibration without its session proves nothing");
    }

    #[test]
    fn the_file_tells_whose_it_is() {
        let mut file = Connection::open_in_memory().unwrap();
        assert_eq!(kind(&file).unwrap(), Kind::Ours(0));
        migrate(&mut file, STEPS).unwrap();
        assert_eq!(kind(&file).unwrap(), Kind::Ours(STEPS.len()));
        file.pragma_update(None, "user_version", 99).unwrap();
        assert_eq!(kind(&file).unwrap(), Kind::Newer(99));

        let other = Connection::open_in_memory().unwrap();
        other.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
        assert_eq!(kind(&other).unwrap(), Kind::Foreign);
    }
}
