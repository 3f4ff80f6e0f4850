//! Stores points. A point summarizes one series in one session, so that a trend can be shown
//! without reading runs. If a session measured several revisions, each revision has its own point.
//!
//! Points are derived from sessions. A session without points gets them when its history is first
//! queried.

use super::Store;
use super::browse::read_machine;
use super::database::{Database, Error, SqlParam, SqlRow, SqlStatement, sql, sql_params};
use super::read::{parse_json, read_metric};
use anyhow::{Context, Result};
use serde::Deserialize;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::{
    HistoryPoint, Machine, PointKind, Revision, RevisionMarker, SeriesKey, SessionPoint,
    SessionPoints,
};
use std::collections::{BTreeMap, HashMap};

/// Maximum lead of a machine's clock, in milliseconds. A clock that is further ahead is considered
/// wrong.
const MAX_AHEAD_MS: i64 = 86_400_000;

/// Returns the start time to use for a session that claims to have started at `started_unix_ms`. If
/// that time is more than a day in the future, returns `now_unix_ms`, the time at which the session
/// is first read. Otherwise, the point of a machine whose clock is years ahead would remain the
/// newest point for all these years.
pub fn credible_start(started_unix_ms: i64, now_unix_ms: i64) -> i64 {
    let is_in_future = started_unix_ms > now_unix_ms.saturating_add(MAX_AHEAD_MS);
    if is_in_future { now_unix_ms } else { started_unix_ms }
}

/// Value of the columns called `project`. It is always the same, because each project has tables of
/// its own.
pub(super) const PROJECT: i64 = 1;

/// A series and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSeries {
    /// Number of the series.
    pub number: i64,
    /// Case, variant and metric.
    pub key: SeriesKey,
    /// Whether its metric is the primary metric of at least one session.
    pub is_primary: bool,
}

/// Environment facts, as names and values, and the sessions that share them.
pub type SharedFacts = (Vec<(String, String)>, Vec<i64>);

/// A point, with the numbers of the rows to which it refers.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    /// Number of the series.
    pub series: i64,
    /// Number of the session.
    pub session: i64,
    /// When the session began, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// Number of the revision, if known.
    pub revision: Option<i64>,
    /// Number of the machine.
    pub machine: i64,
    /// The point.
    pub point: HistoryPoint,
}

impl Store {
    /// Returns the sessions without points, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_sessions_without_points(&self) -> Result<Vec<i64>> {
        let sql = sql!("SELECT session FROM pending_summary ORDER BY session DESC");
        self.query_rows(sql, sql_params![], |row| row.get(0))
    }

    /// Returns the numbers of up to `max_count` sessions that are dated more than a day in the
    /// future, earliest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn sessions_in_future(&self, max_count: i64) -> Result<Vec<i64>> {
        let sql = sql!(
            "SELECT number FROM session WHERE started_unix_ms >= $1 ORDER BY started_unix_ms LIMIT $2"
        );
        let from = unix_time_ms().saturating_add(MAX_AHEAD_MS + 1);
        self.query_rows(sql, sql_params![from, max_count], |row| row.get(0))
    }

    /// Stores the points of a session.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn store_points(&mut self, session: i64, points: &SessionPoints) -> Result<()> {
        self.transact(|file| {
            let sql = sql!("SELECT started_unix_ms FROM session WHERE number = $1");
            let recorded: i64 = file.query_value(sql, sql_params![session])?;
            let started = credible_start(recorded, unix_time_ms());
            let machine = upsert_machine(file, &points.machine, started)?;
            let facts = serde_json::to_string(&points.environment_facts)?;
            let sql = sql!(
                "INSERT INTO session_machine (session, machine, environment_facts)
                 VALUES ($1, $2, $3) ON CONFLICT (session) DO UPDATE SET
                     machine = excluded.machine, environment_facts = excluded.environment_facts"
            );
            file.execute(sql, sql_params![session, machine, &facts])?;
            file.execute(sql!("DELETE FROM point WHERE session = $1"), sql_params![session])?;
            let rows = point_rows(file, (session, started, machine), &points.points)?;
            let insert = sql!(
                "INSERT INTO point (series, at_unix_ms, session, seq, revision, machine,
                     value, low, high, runs, spread, kind, dirty, benchmark_digest) {{rows:14}}"
            );
            file.insert(insert, &rows)?;
            Ok(())
        })
    }

    /// Returns the points of these series, ordered by series and the start of their sessions.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_points(&self, series: &[i64]) -> Result<Vec<StoredPoint>> {
        let sql = sql!(
            "SELECT at_unix_ms, session, revision, machine, value, low, high, runs, spread, kind,
                    dirty, benchmark_digest, series
             FROM point WHERE series IN {{numbers:1}} ORDER BY series, at_unix_ms, session, seq"
        );
        let numbers = serde_json::to_string(series)?;
        self.query_rows(sql, sql_params![&numbers], read_point)
    }

    /// Returns up to `max_points` points of a series, from the latest sessions, ordered like those
    /// of [`Store::load_points`].
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_newest_points(&self, series: i64, max_points: usize) -> Result<Vec<StoredPoint>> {
        let sql = sql!(
            "SELECT at_unix_ms, session, revision, machine, value, low, high, runs, spread, kind,
                    dirty, benchmark_digest, series
             FROM point WHERE series = $1
             ORDER BY at_unix_ms DESC, session DESC, seq DESC LIMIT $2"
        );
        let mut points: Vec<StoredPoint> =
            self.query_rows(sql, sql_params![series, max_points], read_point)?;
        points.reverse();
        Ok(points)
    }

    /// Returns the case, metric and revision of each point that the machine with the ID `machine`
    /// measured. Leaves out points that change detection ignores.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn revisions_measured_on(&self, machine: &str) -> Result<Vec<[String; 3]>> {
        let sql = sql!(
            "SELECT DISTINCT series.case_id, series.metric, revision.id FROM point
             JOIN machine ON machine.number = point.machine
             JOIN series ON series.number = point.series
             JOIN revision ON revision.number = point.revision
             WHERE machine.id = $1 AND point.dirty = 0 AND point.kind NOT IN ('confirm', 'bisect')"
        );
        let read = |row: SqlRow<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?]);
        self.query_rows(sql, sql_params![machine], read)
    }

    /// Returns the spreads of the points that a machine measured in the sessions from number
    /// `first_session` on, by series and oldest first. Points without a spread are left out.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn spreads_on_machine(
        &self,
        machine: i64,
        first_session: i64,
    ) -> Result<BTreeMap<i64, Vec<f64>>> {
        // The sessions are few, and their points are found by session.
        let sql = sql!(
            "SELECT point.series, point.spread FROM session_machine
             JOIN point ON point.session = session_machine.session
             WHERE session_machine.machine = $1 AND session_machine.session >= $2
             AND point.spread IS NOT NULL
             ORDER BY point.series, point.session, point.seq"
        );
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let params = sql_params![machine, first_session];
        let rows: Vec<(i64, f64)> = self.query_rows(sql, params, read)?;
        let mut by_series: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        for (series, spread) in rows {
            by_series.entry(series).or_default().push(spread);
        }
        Ok(by_series)
    }

    /// Returns the failures of the sessions that measured revisions of a branch.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn line_failures(&self, branch: &str) -> Result<LineFailures> {
        // The join starts from the failures, because there are fewer of them than revisions of the
        // branch.
        let sql = sql!(
            "SELECT position, committed_unix_ms, revision.id, session.number, failure.detail, design
             FROM failure CROSS JOIN session CROSS JOIN origin CROSS JOIN revision
             CROSS JOIN branch_revision
             WHERE session.number = failure.session
             AND origin.session = failure.session AND origin.dirty = 0
             AND revision.id = origin.revision AND revision.project = $1
             AND branch_revision.revision = revision.number AND branch_revision.branch = $2
             AND skipped = 0 ORDER BY position, session.number"
        );
        let failures: Vec<Option<(RevisionMarker, FailureKeys)>> =
            self.query_rows(sql, sql_params![PROJECT, branch], |row| {
                let design: DesignKeys = parse_json(row.get(5)?)?;
                if matches!(design.purpose.as_deref(), Some("confirm" | "bisect")) {
                    return Ok(None);
                }
                let marker = RevisionMarker {
                    position: row.get(0)?,
                    committed_unix_ms: row.get(1)?,
                    revision: row.get(2)?,
                    session: row.get(3)?,
                };
                Ok(Some((marker, parse_json(row.get(4)?)?)))
            })?;
        Ok(LineFailures { failures: failures.into_iter().flatten().collect() })
    }

    /// Returns revisions that failed to build during a backfill, with the build command and the
    /// session.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn failed_backfills(&self) -> Result<Vec<(String, String, i64)>> {
        // The text filter excludes most sessions cheaply. The purpose is checked exactly below.
        let sql = sql!(
            "SELECT origin.revision, variants, session.number, design, failure.detail FROM session
             JOIN origin ON origin.session = session.number
             JOIN failure ON failure.session = session.number
             WHERE design LIKE '%backfill%' ORDER BY session.number, failure.seq"
        );
        let rows: Vec<Option<(String, String, i64)>> =
            self.query_rows(sql, sql_params![], |row| {
                let design: DesignKeys = parse_json(row.get(3)?)?;
                let failure: FailureKeys = parse_json(row.get(4)?)?;
                let is_build = failure.step.as_deref() == Some("build");
                if !is_build || design.purpose.as_deref() != Some("backfill") {
                    return Ok(None);
                }
                Ok(Some((row.get(0)?, build_command(row.get(1)?)?, row.get(2)?)))
            })?;
        let mut found: Vec<(String, String, i64)> = rows.into_iter().flatten().collect();
        found.dedup_by_key(|(_, _, session)| *session);
        Ok(found)
    }

    /// Returns all series, in the order in which they were first stored.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_series(&self) -> Result<Vec<StoredSeries>> {
        let sql = sql!(
            "SELECT number, case_id, variant, metric, unit, better, seq FROM series
             WHERE project = $1 ORDER BY number"
        );
        self.read_series(sql, sql_params![PROJECT])
    }

    /// Returns the series of a case, by the name under which it was measured, in the same order as
    /// [`Store::list_series`].
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn series_of_case(&self, case: &str) -> Result<Vec<StoredSeries>> {
        let sql = sql!(
            "SELECT number, case_id, variant, metric, unit, better, seq FROM series
             WHERE project = $1 AND case_id = $2 ORDER BY number"
        );
        self.read_series(sql, sql_params![PROJECT, case])
    }

    fn read_series(
        &self,
        sql: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<Vec<StoredSeries>> {
        self.query_rows(sql, params, |row| {
            let is_primary = row.get::<i64>(6)? == 0;
            Ok(StoredSeries { number: row.get(0)?, key: read_series_key(row, 1)?, is_primary })
        })
    }

    /// Returns the number of the machine that measured a session; `None` if the session has no
    /// points yet.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn session_machine(&self, session: i64) -> Result<Option<i64>> {
        let sql = sql!("SELECT machine FROM session_machine WHERE session = $1");
        self.query_first(sql, sql_params![session], |row| row.get(0))
    }

    /// Returns a machine by its number.
    ///
    /// # Errors
    /// Fails if no machine has that number, or on database errors.
    pub fn find_machine(&self, number: i64) -> Result<Machine> {
        let sql = sql!("SELECT id, name, label, class FROM machine WHERE number = $1");
        let found = self.query_first(sql, sql_params![number], |row| read_machine(row, 0))?;
        found.with_context(|| format!("machine {number} does not exist"))
    }

    /// Returns the facts about a session's environment that can affect results.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn environment_facts(&self, session: i64) -> Result<Vec<(String, String)>> {
        let sql = sql!("SELECT environment_facts FROM session_machine WHERE session = $1");
        let facts =
            self.query_first(sql, sql_params![session], |row| Ok(parse_json(row.get(0)?)?))?;
        Ok(facts.unwrap_or_default())
    }

    /// Returns the distinct sets of environment facts of these sessions, each with the sessions
    /// that share it. Sessions without points are omitted.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn facts_by_sessions(&self, sessions: &[i64]) -> Result<Vec<SharedFacts>> {
        let sql = sql!(
            "SELECT environment_facts, session FROM session_machine WHERE session IN {{numbers:1}}
             ORDER BY session"
        );
        let numbers = serde_json::to_string(sessions)?;
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Vec<(String, i64)> = self.query_rows(sql, sql_params![&numbers], read)?;
        let mut sets: HashMap<String, Vec<i64>> = HashMap::new();
        for (text, session) in found {
            sets.entry(text).or_default().push(session);
        }
        sets.into_iter().map(|(text, sessions)| Ok((parse_json(&text)?, sessions))).collect()
    }

    /// Returns the distinct sets of facts of the newest thousand sessions on a machine.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn machine_facts(&self, machine: i64) -> Result<Vec<Vec<(String, String)>>> {
        let sql = sql!(
            "SELECT DISTINCT environment_facts FROM (
                 SELECT environment_facts FROM session_machine WHERE machine = $1
                 ORDER BY session DESC LIMIT 1000) AS newest
             ORDER BY environment_facts"
        );
        self.query_rows(sql, sql_params![machine], |row| Ok(parse_json(row.get(0)?)?))
    }
}

/// Reads a point from a row with the columns of [`Store::load_points`].
fn read_point(row: SqlRow<'_>) -> Result<StoredPoint, Error> {
    let low: Option<f64> = row.get(5)?;
    Ok(StoredPoint {
        series: row.get(12)?,
        at_unix_ms: row.get(0)?,
        session: row.get(1)?,
        revision: row.get(2)?,
        machine: row.get(3)?,
        point: HistoryPoint {
            value: row.get(4)?,
            interval: low.zip(row.get(6)?),
            runs: row.get(7)?,
            spread: row.get(8)?,
            // Change detection ignores points of this kind, so a kind that only a later version
            // knows becomes this kind.
            kind: PointKind::from_name(row.get(9)?).unwrap_or(PointKind::Confirm),
            is_dirty: row.get(10)?,
            benchmark_digest: row.get(11)?,
        },
    })
}

/// Reads the key of a series from the columns case_id, variant, metric, unit and better, starting
/// at `column`.
pub(super) fn read_series_key(row: SqlRow<'_>, column: usize) -> Result<SeriesKey, Error> {
    Ok(SeriesKey {
        case: row.get(column)?,
        variant: row.get(column + 1)?,
        metric: read_metric(row, column + 2)?,
    })
}

/// Failures of the sessions that measured revisions of a branch, in the order of these revisions.
#[derive(Debug, Clone, Default)]
pub struct LineFailures {
    failures: Vec<(RevisionMarker, FailureKeys)>,
}

impl LineFailures {
    /// Returns a marker for each session in which the case failed under the variant.
    pub fn of_case(&self, case: &str, variant: &str) -> Vec<RevisionMarker> {
        let failures = self.failures.iter().filter(|(_, keys)| keys.concerns(case, variant));
        let mut failed: Vec<_> = failures.map(|(marker, _)| marker.clone()).collect();
        failed.dedup();
        failed
    }
}

#[derive(Debug, Clone, Deserialize)]
struct FailureKeys {
    step: Option<String>,
    case: Option<String>,
    variant: Option<String>,
}

impl FailureKeys {
    /// Returns whether the failure concerns the case and variant. A failed build affects all cases,
    /// and a failure without a variant affects all variants.
    fn concerns(&self, case: &str, variant: &str) -> bool {
        let concerns_case =
            self.case.as_deref() == Some(case) || self.step.as_deref() == Some("build");
        concerns_case && self.variant.as_deref().is_none_or(|name| name == variant)
    }
}

#[derive(Deserialize)]
struct DesignKeys {
    purpose: Option<String>,
}

/// Returns the build command of the first stored variant; empty if the variant has none.
fn build_command(variants: &str) -> Result<String> {
    let variants: serde_json::Value = parse_json(variants)?;
    let command = variants.pointer("/0/worktree/build/command").and_then(serde_json::Value::as_str);
    Ok(command.unwrap_or_default().to_owned())
}

/// Inserts the series and revisions of points, and returns the rows of the points, given the number,
/// start and machine of their session. A revision that occurs repeatedly is inserted once.
fn point_rows<'p>(
    file: &Database,
    (session, started_unix_ms, machine): (i64, i64, i64),
    points: &'p [SessionPoint],
) -> Result<Vec<[SqlParam<'p>; 14]>> {
    // A session that measured several revisions has several points in a series.
    let mut next_indices: HashMap<i64, i64> = HashMap::new();
    let mut revisions: HashMap<&str, (&Revision, i64)> = HashMap::new();
    let mut rows = Vec::with_capacity(points.len());
    for SessionPoint { series, metric_index, revision, point } in points {
        let series = upsert_series(file, series, *metric_index)?;
        let mut revision_number = None;
        if let Some(revision) = revision {
            let existing = revisions.get(&*revision.id);
            let number = match existing.filter(|(existing, _)| *existing == revision) {
                Some((_, number)) => *number,
                None => upsert_revision(file, revision)?,
            };
            revisions.insert(&revision.id, (revision, number));
            revision_number = Some(number);
        }
        let index = *(next_indices.entry(series)).and_modify(|index| *index += 1).or_insert(0);
        rows.push(*sql_params![
            series,
            started_unix_ms,
            session,
            index,
            revision_number,
            machine,
            point.value,
            point.interval.map(|bounds| bounds.0),
            point.interval.map(|bounds| bounds.1),
            point.runs,
            point.spread,
            point.kind.name(),
            point.is_dirty,
            &point.benchmark_digest,
        ]);
    }
    Ok(rows)
}

/// Returns the number of a machine, inserting the machine if needed. Tries an update first, because
/// on PostgreSQL an upsert that conflicts uses up a number and leaves a gap.
fn upsert_machine(file: &Database, machine: &Machine, session_start_ms: i64) -> Result<i64, Error> {
    find_or_insert(
        file,
        sql!(
            "UPDATE machine SET
                 first_unix_ms = CASE WHEN $1 < first_unix_ms THEN $1 ELSE first_unix_ms END,
                 last_unix_ms = CASE WHEN $1 > last_unix_ms THEN $1 ELSE last_unix_ms END
             WHERE id = $2 RETURNING number"
        ),
        sql_params![session_start_ms, &machine.id],
        sql!(
            "INSERT INTO machine (id, name, label, class, first_unix_ms, last_unix_ms)
             VALUES ($1, $2, $3, $4, $5, $5)
             ON CONFLICT (id) DO UPDATE SET last_unix_ms = excluded.last_unix_ms
             RETURNING number"
        ),
        sql_params![&machine.id, &machine.name, &machine.label, &machine.class, session_start_ms],
    )
}

/// Returns the number of a series, inserting the series if needed. `metric_index` is the index of
/// its metric in the session. Looks the series up first, because that is cheaper than an upsert.
pub(super) fn upsert_series(
    file: &Database,
    key: &SeriesKey,
    metric_index: usize,
) -> Result<i64, Error> {
    let row = sql_params![
        PROJECT,
        &key.case,
        &key.variant,
        &key.metric.name,
        &key.metric.unit,
        key.metric.better.name(),
        metric_index,
    ];
    find_or_insert(
        file,
        sql!(
            "SELECT number FROM series WHERE project = $1 AND case_id = $2 AND variant = $3
             AND metric = $4 AND unit = $5 AND better = $6 AND seq <= $7"
        ),
        row,
        sql!(
            "INSERT INTO series (project, case_id, variant, metric, unit, better, seq)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (project, case_id, variant, metric, unit, better) DO UPDATE SET
                 seq = CASE WHEN excluded.seq < series.seq
                         THEN excluded.seq ELSE series.seq END
             RETURNING number"
        ),
        row,
    )
}

/// Returns the number of a revision, inserting the revision if needed. Adds facts to a stored
/// revision that lacks the tree or the commit time; never removes facts.
pub(super) fn upsert_revision(file: &Database, revision: &Revision) -> Result<i64> {
    let parents = (!revision.parents.is_empty()).then(|| serde_json::to_string(&revision.parents));
    Ok(find_or_insert(
        file,
        sql!(
            "SELECT number FROM revision WHERE project = $1 AND id = $2
             AND (tree IS NOT NULL OR CAST($3 AS TEXT) IS NULL)
             AND (committed_unix_ms IS NOT NULL OR CAST($4 AS BIGINT) IS NULL)"
        ),
        sql_params![PROJECT, &revision.id, &revision.tree, revision.committed_unix_ms],
        sql!(
            "INSERT INTO revision (project, id, tree, parents, committed_unix_ms, subject)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (project, id) DO UPDATE SET
                 tree = coalesce(excluded.tree, revision.tree),
                 parents = coalesce(excluded.parents, revision.parents),
                 committed_unix_ms = coalesce(excluded.committed_unix_ms,
                                              revision.committed_unix_ms),
                 subject = coalesce(excluded.subject, revision.subject)
             RETURNING number"
        ),
        sql_params![
            PROJECT,
            &revision.id,
            &revision.tree,
            &parents.transpose()?,
            revision.committed_unix_ms,
            &revision.subject,
        ],
    )?)
}

/// Returns the number that `find` selects, or else the number of the row that `insert` inserts.
fn find_or_insert(
    file: &Database,
    find: &'static SqlStatement,
    find_params: &[SqlParam<'_>],
    insert: &'static SqlStatement,
    insert_params: &[SqlParam<'_>],
) -> Result<i64, Error> {
    match file.query_first(find, find_params, |row| row.get(0))? {
        Some(number) => Ok(number),
        None => file.query_value(insert, insert_params),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Metric, MetricDirection, SessionState};

    /// Stores a session that started at `at_unix_ms`, with a point of each kind in series 1.
    fn store_session(store: &mut Store, at_unix_ms: i64) -> i64 {
        let mut session = FakeSession::with_fixed_blocks(&["default"], 1).build();
        session.runs.clear();
        session.id = format!("session of {at_unix_ms}");
        session.state = SessionState::Imported;
        session.started_unix_ms = at_unix_ms;
        let number = store.insert_session(&session).unwrap();
        let point = |place: usize| SessionPoint {
            series: SeriesKey {
                case: "bench n=1".into(),
                variant: "default".into(),
                metric: Metric::new("time", "s", MetricDirection::Lower),
            },
            metric_index: 0,
            revision: (place > 0)
                .then(|| Revision { id: format!("r{at_unix_ms}"), ..Revision::default() }),
            point: HistoryPoint {
                value: at_unix_ms as f64 + 0.1,
                interval: (place > 1).then_some((0.5, f64::INFINITY)),
                runs: 3 + place as u32,
                spread: (place > 2).then_some(0.02),
                kind: PointKind::ALL[place],
                is_dirty: place == 3,
                benchmark_digest: (place > 0).then(|| format!("work {}", place % 2)),
            },
        };
        let points = SessionPoints {
            machine: Machine { id: "lab".into(), name: None, label: None, class: None },
            environment_facts: Vec::new(),
            points: (0..PointKind::ALL.len()).map(point).collect(),
        };
        store.store_points(number, &points).unwrap();
        number
    }

    #[test]
    fn a_session_dated_in_the_future_is_not_the_newest_for_ever() {
        const YEAR_2100: i64 = 4_102_444_800_000;
        for backend in test_backends() {
            let mut store = backend.open();
            let session = store_session(&mut store, YEAR_2100);
            let next = store_session(&mut store, unix_time_ms());
            let mut sessions: Vec<i64> =
                store.load_points(&[1]).unwrap().iter().map(|point| point.session).collect();
            sessions.dedup();
            assert_eq!(
                sessions,
                [session, next],
                "the later session is read, and its point comes last"
            );
            assert_eq!(store.sessions_in_future(9).unwrap(), [session]);
            assert_eq!(store.load_session(session).unwrap().started_unix_ms, YEAR_2100);
        }
    }

    #[test]
    fn start_times_more_than_a_day_ahead_count_as_now() {
        let now = 1_800_000_000_000;
        let hours = |hours: i64| now + hours * 3_600_000;
        for (started, counts_as) in [(-500, -500), (0, 0), (23, 23), (25, 0), (600_000, 0)] {
            let begun = credible_start(hours(started), now);
            assert_eq!(begun, hours(counts_as), "{started} h");
        }
    }

    #[test]
    fn the_newest_points_come_in_the_order_of_their_sessions() {
        for backend in test_backends() {
            let mut store = backend.open();
            let sessions = [10, 30, 40].map(|at| store_session(&mut store, at));
            store_session(&mut store, 20);
            let points = store.load_points(&[1]).unwrap();
            assert_eq!(points.len(), 20);
            assert!(points.is_sorted_by_key(|point| point.at_unix_ms));
            assert_eq!(store.load_newest_points(1, 7).unwrap(), points[13..]);
            store.delete_untracked(sessions[0]).unwrap();
            assert_eq!(store.load_points(&[1]).unwrap(), points[5..]);
        }
    }
}
