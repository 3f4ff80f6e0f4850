//! The tables of the results file and the steps that lead from one version of them to the next.
//!
//! The version is SQLite's `user_version`. A step, once released, is never edited: a change of the
//! tables is a new step at the end of [`STEPS`]. The tables are meant to be read by other programs
//! too, so names are whole words and every unit is in the column's name.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours among SQLite files: the letters `SPWL`.
pub(super) const APPLICATION_ID: i32 = 0x5350_574c;

/// Step `n` (from 0) leads from version `n` to version `n + 1`.
pub(super) const STEPS: &[&str] = &[FIRST, CALIBRATION, LOAD, PROFILE, COUNTS, RECORDER];

/// `run` and `sample` are clustered by session (`WITHOUT ROWID`), because a session is read as a
/// whole and written at its end only. A stored run then touches two pages: that a slot is done is
/// noted in its rows and has a table of its own for the rare slot that has no row.
const FIRST: &str = r#"
CREATE TABLE session (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice, even after a deletion
    id TEXT NOT NULL UNIQUE,
    started_unix_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    command TEXT NOT NULL,                     -- JSON array of words
    design TEXT NOT NULL,                      -- JSON
    variants TEXT NOT NULL,                    -- JSON array
    environment TEXT NOT NULL,                 -- JSON
    plan TEXT                                  -- JSON; absent in imported sessions
) STRICT;

CREATE TABLE tag (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_name ON tag (name, session);

CREATE TABLE metric (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    PRIMARY KEY (session, place),
    UNIQUE (session, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE benchmark_case (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,                          -- canonical: parameters sorted by name
    benchmark TEXT NOT NULL,
    parameters TEXT NOT NULL,                  -- JSON array of [name, value] in reported order
    UNIQUE (id, parameters)
) STRICT;

CREATE TABLE run (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,                    -- order of execution, from 0
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    variant TEXT NOT NULL,
    slot INTEGER NOT NULL,
    block INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    user_ns INTEGER,
    system_ns INTEGER,
    max_rss_bytes INTEGER,
    involuntary_switches INTEGER,
    notes TEXT,                                -- JSON array of sentences
    slot_done INTEGER NOT NULL,                -- 0: cut off; resuming repeats the slot
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (                          -- all samples of one run and metric
    session INTEGER NOT NULL,
    place INTEGER NOT NULL,                    -- of the run
    metric INTEGER NOT NULL,                   -- place of the metric
    readings BLOB NOT NULL,                    -- f64, little endian
    elapsed_ns BLOB,                           -- u64, little endian; all bits set: not told
    iterations BLOB,                           -- f64, little endian; see samples.rs: not told
    positions BLOB,                            -- u32, little endian; absent: 0, 1, 2 ...
    PRIMARY KEY (session, place, metric),
    FOREIGN KEY (session, place) REFERENCES run ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    slot INTEGER,
    slot_done INTEGER NOT NULL,                -- as in run
    skipped INTEGER NOT NULL,                  -- 1: the benchmark cannot run here, and says so
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE empty_slot (                      -- done, but gave neither run nor failure
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    slot INTEGER NOT NULL,
    PRIMARY KEY (session, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE case_decided (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    id TEXT NOT NULL,
    saved_runs INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
"#;

/// How often each machine took a thing for different from itself. The result follows from the counts,
/// so it is never stored: it is there for other programs to read.
const CALIBRATION: &str = r#"
CREATE TABLE calibration (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    host TEXT,
    cpu TEXT,                                  -- processor model
    cpus INTEGER,                              -- processors available
    started_unix_ms INTEGER NOT NULL,
    comparisons INTEGER NOT NULL,
    false_alarms INTEGER NOT NULL,
    expected_low INTEGER NOT NULL,             -- false alarms to be expected: from
    expected_high INTEGER NOT NULL,            -- to
    result TEXT NOT NULL AS (CASE
        WHEN false_alarms < expected_low THEN 'too few false alarms'
        WHEN false_alarms > expected_high THEN 'too many false alarms'
        ELSE 'calibrated' END) VIRTUAL
) STRICT;
CREATE INDEX calibration_by_machine ON calibration (host, session);
"#;

/// Everything known of a run that was an HTTP load, beside its samples: histograms, counts of every
/// outcome, the course over time. In a table of its own, because only reports about that run read it.
const LOAD: &str = r#"
CREATE TABLE load (
    session INTEGER NOT NULL,
    place INTEGER NOT NULL,                    -- of the run
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place),
    FOREIGN KEY (session, place) REFERENCES run ON DELETE CASCADE
) STRICT;
"#;

/// Where cases spent their time, by runs that were recorded and not timed: folded stacks, or the reason
/// why there are none.
const PROFILE: &str = r#"
CREATE TABLE profile (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    variant TEXT NOT NULL,
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place),
    UNIQUE (session, benchmark_case, variant)
) STRICT;
"#;

/// How many runs each case has in each session, so that a list of sessions reads no runs. Kept by the database
/// itself, whoever writes.
const COUNTS: &str = r#"
CREATE TABLE session_case (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    runs INTEGER NOT NULL,
    ended_unix_ms INTEGER NOT NULL,            -- of the last run
    PRIMARY KEY (session, benchmark_case)
) STRICT, WITHOUT ROWID;
INSERT INTO session_case
SELECT session, benchmark_case, count(*), max(started_unix_ms + wall_ns / 1000000) FROM run
GROUP BY session, benchmark_case;
CREATE TRIGGER run_counted AFTER INSERT ON run BEGIN
    INSERT INTO session_case
    VALUES (new.session, new.benchmark_case, 1, new.started_unix_ms + new.wall_ns / 1000000)
    ON CONFLICT DO UPDATE SET runs = runs + 1,
                              ended_unix_ms = max(ended_unix_ms, excluded.ended_unix_ms);
END;
CREATE TRIGGER run_uncounted AFTER DELETE ON run BEGIN
    UPDATE session_case SET runs = runs - 1
    WHERE session = old.session AND benchmark_case = old.benchmark_case;
    DELETE FROM session_case
    WHERE session = old.session AND benchmark_case = old.benchmark_case AND runs = 0;
END;
"#;

/// The process that records a session, so that a session whose process was killed is known from one that is being
/// measured.
const RECORDER: &str = r#"
CREATE TABLE recorder (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    machine TEXT,                              -- machine-id
    boot TEXT,                                 -- the kernel's boot_id
    numbering TEXT,                            -- the namespace of process numbers
    pid INTEGER NOT NULL,
    started_ticks INTEGER                      -- since the machine started
) STRICT;
"#;

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
