//! Points: what every session says of each series, kept so that a trend reads no runs.
//!
//! They follow from sessions. A session that has none yet gets them when somebody looks at history.

use super::Store;
use super::read::{better_of, from_json};
use super::session_writer::better_name;
use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, Row, params};
use speedwell_model::{
    Landmark, Machine, Metric, Point, PointKind, Revision, SeriesKey, SessionPoints,
};
use std::collections::HashMap;

/// The project that a local file is about.
pub(super) const PROJECT: i64 = 1;

/// A series with its number in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSeries {
    /// Its number.
    pub number: i64,
    /// What is measured.
    pub key: SeriesKey,
    /// Whether its metric is the primary one of the newest session.
    pub is_primary: bool,
}

/// A point as it lies in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    /// Number of the series.
    pub series: i64,
    /// Number of the session.
    pub session: i64,
    /// When the session began, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// Number of the revision, where it is known.
    pub revision: Option<i64>,
    /// Number of the machine.
    pub machine: i64,
    /// What was measured.
    pub point: Point,
}

impl Store {
    /// The sessions whose points are missing, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn sessions_without_points(&self) -> anyhow::Result<Vec<i64>> {
        let sql = "SELECT number FROM session WHERE state IN ('complete', 'imported')
                   AND number NOT IN (SELECT session FROM session_machine) ORDER BY number DESC";
        self.rows(sql, [], |row| row.get(0))
    }

    /// Keeps the points of a session.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn keep_points(&mut self, session: i64, of: &SessionPoints) -> anyhow::Result<()> {
        self.change(|file| {
            let at: i64 = file
                .prepare_cached("SELECT started_unix_ms FROM session WHERE number = ?1")?
                .query_row([session], |row| row.get(0))?;
            let machine = keep_machine(file, &of.machine, at)?;
            file.execute(
                "INSERT OR REPLACE INTO session_machine (session, machine, surroundings)
                 VALUES (?1, ?2, ?3)",
                params![session, machine, serde_json::to_string(&of.circumstances)?],
            )?;
            // A session with several revisions of one thing has several points in a series.
            let mut places: HashMap<i64, i64> = HashMap::new();
            file.execute("DELETE FROM point WHERE session = ?1", [session])?;
            for found in &of.points {
                let series = keep_series(file, &found.series, found.place)?;
                let revision = found.revision.as_ref();
                let revision = revision
                    .map(|known| keep_revision(file, known))
                    .transpose()?;
                let place = *(places.entry(series))
                    .and_modify(|place| *place += 1)
                    .or_insert(0);
                let point = &found.point;
                file.prepare_cached(
                    "INSERT INTO point (series, at_unix_ms, session, place, revision, machine,
                         value, low, high, runs, spread, kind, dirty, work)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                )?
                .execute(params![
                    series,
                    at,
                    session,
                    place,
                    revision,
                    machine,
                    point.value,
                    point.interval.map(|ends| ends.0),
                    point.interval.map(|ends| ends.1),
                    point.runs,
                    point.spread,
                    point.kind.name(),
                    point.is_dirty,
                    point.work,
                ])?;
            }
            Ok(())
        })
    }

    /// Cases with the revisions of which a machine has a point of them in which changes are looked for.
    ///
    /// # Errors
    /// The file fails.
    pub fn measured_on(&self, machine: &str) -> anyhow::Result<Vec<(String, String)>> {
        let sql = "SELECT DISTINCT series.case_id, revision.id FROM point
                   JOIN machine ON machine.number = point.machine
                   JOIN series ON series.number = point.series
                   JOIN revision ON revision.number = point.revision
                   WHERE machine.id = ?1 AND NOT point.dirty AND point.kind NOT IN ('confirm', 'bisect')";
        self.rows(sql, [machine], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The sessions on a line in which a case of a variant failed.
    ///
    /// # Errors
    /// The file fails.
    pub fn failures_on(
        &self,
        branch: &str,
        case: &str,
        variant: &str,
    ) -> anyhow::Result<Vec<Landmark>> {
        let sql =
            "SELECT DISTINCT position, committed_unix_ms, revision.id, session.number FROM failure
                   JOIN session ON session.number = failure.session
                   JOIN origin ON origin.session = failure.session AND NOT origin.dirty
                   JOIN revision ON revision.id = origin.revision AND revision.project = ?1
                   JOIN line ON line.revision = revision.number AND line.branch = ?2
                   WHERE NOT skipped AND (failure.detail ->> '$.case' = ?3 OR failure.detail ->> '$.step' = 'build')
                   AND coalesce(failure.detail ->> '$.variant', ?4) = ?4
                   AND coalesce(design ->> '$.purpose', '') NOT IN ('confirm', 'bisect')
                   ORDER BY position, session.number";
        self.rows(sql, params![PROJECT, branch, case, variant], |row| {
            Ok(Landmark {
                position: row.get(0)?,
                committed_unix_ms: row.get(1)?,
                revision: row.get(2)?,
                session: row.get(3)?,
            })
        })
    }

    /// Revisions that could not be built when their points were to be measured later, with the command and the session.
    ///
    /// # Errors
    /// The file fails.
    pub fn failed_backfills(&self) -> anyhow::Result<Vec<(String, String, i64)>> {
        let sql = "SELECT origin.revision, coalesce(variants ->> '$[0].worktree.build.command', ''), session.number
                   FROM session JOIN origin ON origin.session = session.number
                   WHERE design ->> '$.purpose' = 'backfill' AND EXISTS (
                       SELECT 1 FROM failure WHERE failure.session = session.number AND detail ->> '$.step' = 'build')
                   ORDER BY session.number";
        self.rows(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// All series, in the order of their first session.
    ///
    /// # Errors
    /// The file fails.
    pub fn series(&self) -> anyhow::Result<Vec<StoredSeries>> {
        let sql = "SELECT number, case_id, variant, metric, unit, better, place FROM series
                   WHERE project = ?1 ORDER BY number";
        let read = |row: &Row<'_>| {
            let key = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            let better: String = row.get(5)?;
            Ok((row.get(0)?, key, better, row.get::<_, i64>(6)? == 0))
        };
        type Known = (i64, (String, String, String, String), String, bool);
        let known: Vec<Known> = self.rows(sql, [PROJECT], read)?;
        known
            .into_iter()
            .map(
                |(number, (case, variant, name, unit), better, is_primary)| {
                    let better = better_of(&better, &name)?;
                    let metric = Metric { name, unit, better };
                    Ok(StoredSeries {
                        number,
                        key: SeriesKey {
                            case,
                            variant,
                            metric,
                        },
                        is_primary,
                    })
                },
            )
            .collect()
    }

    /// The points of a series, in the order of their sessions' beginnings.
    ///
    /// # Errors
    /// The file fails.
    pub fn points(&self, series: i64) -> anyhow::Result<Vec<StoredPoint>> {
        let sql = "SELECT at_unix_ms, session, revision, machine, value, low, high, runs, spread, kind, dirty, work
                   FROM point WHERE series = ?1 ORDER BY at_unix_ms, session";
        self.rows(sql, [series], |row| {
            let low: Option<f64> = row.get(5)?;
            Ok(StoredPoint {
                series,
                at_unix_ms: row.get(0)?,
                session: row.get(1)?,
                revision: row.get(2)?,
                machine: row.get(3)?,
                point: Point {
                    value: row.get(4)?,
                    interval: low.zip(row.get(6)?),
                    runs: row.get(7)?,
                    spread: row.get(8)?,
                    kind: kind_of(row.get_ref(9)?.as_str()?),
                    is_dirty: row.get(10)?,
                    work: row.get(11)?,
                },
            })
        })
    }

    /// A machine by its number.
    ///
    /// # Errors
    /// The file fails, or there is none of that number.
    pub fn machine(&self, number: i64) -> anyhow::Result<Machine> {
        let sql = "SELECT id, name, label, class FROM machine WHERE number = ?1";
        let found = self.first_row(sql, [number], |row| {
            Ok(Machine {
                id: row.get(0)?,
                name: row.get(1)?,
                label: row.get(2)?,
                class: row.get(3)?,
            })
        })?;
        found.with_context(|| format!("there is no machine {number}"))
    }

    /// The facts that can move figures, as they were in a session.
    ///
    /// # Errors
    /// The file fails.
    pub fn circumstances(&self, session: i64) -> anyhow::Result<Vec<(String, String)>> {
        let sql = "SELECT surroundings FROM session_machine WHERE session = ?1";
        let text: Option<String> = self.first_row(sql, [session], |row| row.get(0))?;
        text.as_deref().map_or(Ok(Vec::new()), from_json)
    }
}

/// A kind that a later version may have added is not searched by mistake: it is taken for a selected sample.
fn kind_of(name: &str) -> PointKind {
    let known = PointKind::NAMES.iter().find(|(_, known)| *known == name);
    known.map_or(PointKind::Confirm, |(kind, _)| *kind)
}

fn keep_machine(file: &Connection, machine: &Machine, at: i64) -> rusqlite::Result<i64> {
    file.prepare_cached(
        "INSERT INTO machine (id, name, label, class, first_unix_ms, last_unix_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?5)
         ON CONFLICT (id) DO UPDATE SET first_unix_ms = min(first_unix_ms, ?5),
                                        last_unix_ms = max(last_unix_ms, ?5)
         RETURNING number",
    )?
    .query_row(
        params![machine.id, machine.name, machine.label, machine.class, at],
        |row| row.get(0),
    )
}

fn keep_series(file: &Connection, key: &SeriesKey, place: usize) -> rusqlite::Result<i64> {
    file.prepare_cached(
        "INSERT INTO series (project, case_id, variant, metric, unit, better, place)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET place = min(place, ?7) RETURNING number",
    )?
    .query_row(
        params![
            PROJECT,
            key.case,
            key.variant,
            key.metric.name,
            key.metric.unit,
            better_name(key.metric.better),
            place as i64,
        ],
        |row| row.get(0),
    )
}

/// The number of a revision. What is known of it grows, and is never forgotten.
pub(super) fn keep_revision(file: &Connection, revision: &Revision) -> anyhow::Result<i64> {
    let known = file
        .prepare_cached(
            "SELECT number FROM revision WHERE project = ?1 AND id = ?2
             AND (tree IS NOT NULL OR ?3 IS NULL) AND (committed_unix_ms IS NOT NULL OR ?4 IS NULL)",
        )?
        .query_row(
            params![PROJECT, revision.id, revision.tree, revision.committed_unix_ms],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    let parents = (!revision.parents.is_empty()).then(|| serde_json::to_string(&revision.parents));
    Ok(file
        .prepare_cached(
            "INSERT INTO revision (project, id, tree, parents, committed_unix_ms, subject)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (project, id) DO UPDATE SET
                 tree = coalesce(?3, tree), parents = coalesce(?4, parents),
                 committed_unix_ms = coalesce(?5, committed_unix_ms),
                 subject = coalesce(?6, subject)
             RETURNING number",
        )?
        .query_row(
            params![
                PROJECT,
                revision.id,
                revision.tree,
                parents.transpose()?,
                revision.committed_unix_ms,
                revision.subject,
            ],
            |row| row.get(0),
        )?)
}
