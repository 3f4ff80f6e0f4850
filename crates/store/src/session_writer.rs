//! Writes one session to the database, part by part or as a whole ([`insert_whole`]). Every function
//! expects an open transaction: the caller decides which parts are committed together.

use super::database::{Database, Error, SqlParam, SqlRow, sql, sql_params};
use super::read;
use anyhow::{Context, Result, ensure};
use serde::{Serialize, de::DeserializeOwned};
use speedwell_formats::json_lines;
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::{
    Case, CodeOrigin, Environment, Metric, MetricDirection, NoiseCalibration, ProfileRecording,
    ResourceUsage, Run, Session, SessionMachine, SessionState, StepFailure,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of runs that are inserted at once. This batch is large enough to need few round trips to
/// a database server, and small enough to need much less memory than a whole session.
pub(super) const RUN_BATCH_SIZE: usize = 256;

/// Returns the number of the session with that id, if it exists.
pub(super) fn find_number_by_id(file: &Database, id: &str) -> Result<Option<i64>, Error> {
    let sql = sql!("SELECT number FROM session WHERE id = $1");
    file.query_first(sql, sql_params![id], |row| row.get(0))
}

/// Inserts a new session with all its content; returns its number.
pub(super) fn insert_whole(file: &Database, session: &Session) -> Result<i64> {
    let mut writer = SessionWriter::begin_imported(file, session)?;
    for runs in session.runs.chunks(RUN_BATCH_SIZE) {
        writer.insert_runs(file, runs, true)?;
    }
    for failure in &session.failures {
        writer.insert_failure(file, failure, true)?;
    }
    for recording in &session.profiles {
        writer.upsert_profile(file, recording)?;
    }
    Ok(writer.session)
}

/// Writes one session. Holds the indices of the session's next rows, and the numbers of the metrics
/// and cases that have been written so far.
///
/// The indices and numbers are a cache, and a failed transaction makes them invalid. After a failed
/// transaction, continue with a new writer from [`SessionWriter::open`].
#[derive(Debug)]
pub(super) struct SessionWriter {
    /// Number of the session.
    pub session: i64,
    runs: i64,
    failures: i64,
    metrics: HashMap<Arc<str>, i64>,
    cases: HashMap<(String, String), i64>,
}

/// Number of low bits of a row index. These bits number the rows within a block;
/// [`SessionWriter::seek_to_slot`] derives the high bits from the first slot of the block.
const ROW_BITS_PER_SLOT: u32 = 24;

impl SessionWriter {
    /// Opens a writer that appends to a stored session.
    pub fn open(file: &Database, session: i64) -> Result<SessionWriter, Error> {
        let runs = sql!("SELECT coalesce(max(seq) + 1, 0) FROM run WHERE session = $1");
        let failures = sql!("SELECT coalesce(max(seq) + 1, 0) FROM failure WHERE session = $1");
        Ok(SessionWriter {
            session,
            runs: file.query_value(runs, sql_params![session])?,
            failures: file.query_value(failures, sql_params![session])?,
            metrics: HashMap::new(),
            cases: HashMap::new(),
        })
    }

    /// Inserts everything about `session` except its runs, failures, profiles and calibration.
    pub fn begin(
        file: &Database,
        session: &Session,
        state: SessionState,
        plan: Option<&str>,
    ) -> Result<SessionWriter> {
        let number = file.query_value(
            sql!(
                "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                                      environment, plan)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING number"
            ),
            sql_params![
                &session.id,
                session.started_unix_ms,
                state.name(),
                &to_json("command", &session.command)?,
                &to_json("design", &session.design)?,
                &to_json("variants", &session.variants)?,
                &to_json("environment", &session.environment)?,
                plan,
            ],
        )?;
        let mut writer = SessionWriter::open(file, number)?;
        for (index, tag) in session.tags.iter().enumerate() {
            let insert = sql!("INSERT INTO tag (session, seq, name) VALUES ($1, $2, $3)");
            file.execute(insert, sql_params![writer.session, index, tag])?;
        }
        for metric in &session.metrics {
            writer.declare_metric(file, metric)?;
        }
        if let Some(origin) = &session.origin {
            writer.insert_origin(file, origin)?;
        }
        for (index, machine) in (0..).zip(&session.machines) {
            writer.upsert_machine(file, index, machine)?;
        }
        Ok(writer)
    }

    /// Inserts the header of a session that was measured elsewhere: everything but runs, failures
    /// and profiles.
    pub fn begin_imported(file: &Database, header: &Session) -> Result<SessionWriter> {
        let writer = SessionWriter::begin(file, header, header.state, None)?;
        if let Some(calibration) = header.calibration {
            let session_calibration = NoiseCalibration { session: writer.session, ..calibration };
            insert_calibration(file, &header.environment, &session_calibration)?;
        }
        Ok(writer)
    }

    fn insert_origin(&self, file: &Database, origin: &CodeOrigin) -> Result<()> {
        Ok(file.execute(
            sql!(
                "INSERT INTO origin (session, revision, tree, branch, dirty, detail)
                 VALUES ($1, $2, $3, $4, $5, $6)"
            ),
            sql_params![
                self.session,
                &origin.revision,
                &origin.tree,
                &origin.branch,
                origin.dirty.is_some(),
                &to_json("origin", origin)?,
            ],
        )?)
    }

    /// Inserts or replaces a machine of the session.
    pub fn upsert_machine(
        &self,
        file: &Database,
        index: u32,
        machine: &SessionMachine,
    ) -> Result<()> {
        let insert = sql!(
            "INSERT INTO fleet_machine (session, seq, id, detail) VALUES ($1, $2, $3, $4)
             ON CONFLICT (session, seq) DO UPDATE SET
                 id = excluded.id, detail = excluded.detail"
        );
        let detail = to_json("machine", machine)?;
        Ok(file.execute(insert, sql_params![self.session, index, &machine.id, &detail])?)
    }

    /// Continues with the row indices of the block that starts at `slot`. The indices are derived
    /// from the slot, because blocks arrive in any order but are read in the order of the plan.
    pub fn seek_to_slot(&mut self, slot: u32) {
        let row_index = (i64::from(slot) + 1) << ROW_BITS_PER_SLOT;
        (self.runs, self.failures) = (row_index, row_index);
    }

    /// Records at which position of the plan a metric was first reported; an earlier position
    /// replaces a later one. The primary metric of a session is the first in the plan, but blocks
    /// arrive in any order.
    pub fn record_first_report(
        &self,
        file: &Database,
        name: &str,
        first_report: i64,
    ) -> Result<(), Error> {
        let update = sql!(
            "UPDATE metric SET first_report = $1 WHERE session = $2 AND name = $3
             AND (first_report IS NULL OR first_report > $1)"
        );
        file.execute(update, sql_params![first_report, self.session, name])
    }

    /// Sorts the metrics of a session by the position at which they were first reported. Does
    /// nothing unless blocks were merged, because only then these positions are known.
    pub fn order_metrics(&mut self, file: &Database) -> Result<(), Error> {
        let sql = sql!(
            "SELECT seq FROM metric WHERE session = $1 ORDER BY first_report IS NULL, first_report, seq"
        );
        let ordered: Vec<i64> = file.query(sql, sql_params![self.session], |row| row.get(0))?;
        if ordered.is_sorted() {
            return Ok(());
        }
        // Move the metrics to unused indices first, because two metrics may not share an index even
        // for a moment.
        let first_unused = 1 << ROW_BITS_PER_SLOT;
        for (&seq, new) in ordered.iter().zip(first_unused..) {
            let sql = sql!("UPDATE metric SET seq = $1 WHERE session = $2 AND seq = $3");
            file.execute(sql, sql_params![new, self.session, seq])?;
            let sql = sql!("UPDATE sample SET metric = $1 WHERE session = $2 AND metric = $3");
            file.execute(sql, sql_params![new, self.session, seq])?;
        }
        let sql = sql!("UPDATE metric SET seq = seq - $1 WHERE session = $2");
        file.execute(sql, sql_params![first_unused, self.session])?;
        let update = sql!("UPDATE sample SET metric = metric - $1 WHERE session = $2");
        file.execute(update, sql_params![first_unused, self.session])?;
        self.metrics.clear();
        Ok(())
    }

    /// Records which process records the session.
    pub fn set_recorder(&self, file: &Database, process: &ProcessIdentity) -> Result<(), Error> {
        file.execute(
            sql!(
                "INSERT INTO recorder (session, machine_id, boot_id, pid_namespace, pid,
                      started_ticks)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (session) DO UPDATE SET
                     machine_id = excluded.machine_id, boot_id = excluded.boot_id,
                     pid_namespace = excluded.pid_namespace, pid = excluded.pid,
                     started_ticks = excluded.started_ticks"
            ),
            sql_params![
                self.session,
                &process.machine_id,
                &process.boot_id,
                &process.pid_namespace,
                process.pid,
                process.started_ticks,
            ],
        )
    }

    /// Inserts a metric. If a sample has already added the metric without a unit, sets its unit and
    /// direction.
    ///
    /// # Errors
    /// Fails if the session has a metric of the same name with another unit or direction: its
    /// series would mix different quantities.
    pub fn declare_metric(&mut self, file: &Database, metric: &Metric) -> Result<()> {
        let sql = sql!("SELECT unit, better FROM metric WHERE session = $1 AND name = $2");
        let read = |row: SqlRow<'_>| Ok((row.get::<String>(0)?, row.get::<String>(1)?));
        let existing = file.query_first(sql, sql_params![self.session, &metric.name], read)?;
        let Some((unit, direction)) = existing else {
            return Ok(self.add_metric(file, metric).map(drop)?);
        };
        let better = metric.better.name();
        if unit.is_empty() {
            let sql =
                sql!("UPDATE metric SET unit = $1, better = $2 WHERE session = $3 AND name = $4");
            let params = sql_params![&metric.unit, better, self.session, &metric.name];
            return Ok(file.execute(sql, params)?);
        }
        ensure!(
            unit == metric.unit && direction == better,
            "the unit of the metric '{}' is '{unit}' ({direction} is better) elsewhere in this \
             session, but '{}' ({better} is better) here\n\
             hint: rename one of the two",
            metric.name,
            metric.unit
        );
        Ok(())
    }

    fn add_metric(&mut self, file: &Database, metric: &Metric) -> Result<i64, Error> {
        let insert = sql!(
            "INSERT INTO metric (session, seq, name, unit, better)
             SELECT CAST($1 AS BIGINT), coalesce(max(seq) + 1, 0), CAST($2 AS TEXT),
                    CAST($3 AS TEXT), CAST($4 AS TEXT)
             FROM metric WHERE session = $1 RETURNING seq"
        );
        let params = sql_params![self.session, &metric.name, &metric.unit, metric.better.name()];
        let metric_index = file.query_value(insert, params)?;
        self.metrics.insert(metric.name.as_str().into(), metric_index);
        Ok(metric_index)
    }

    /// Returns the index of a metric. Adds a metric that was not declared. An added metric has no
    /// unit (except for the throughput), and its higher values are taken as better.
    fn metric_index(&mut self, file: &Database, name: &Arc<str>) -> Result<i64, Error> {
        if let Some(&index) = self.metrics.get(name) {
            return Ok(index);
        }
        let sql = sql!("SELECT seq FROM metric WHERE session = $1 AND name = $2");
        let index = file.query_first(sql, sql_params![self.session, name], |row| row.get(0))?;
        match index {
            Some(index) => {
                self.metrics.insert(name.clone(), index);
                Ok(index)
            }
            None if &**name == Metric::THROUGHPUT => self.add_metric(file, &Metric::throughput()),
            None => self.add_metric(file, &Metric::new(&**name, "", MetricDirection::Higher)),
        }
    }

    /// Returns the number of a case, and adds the case if it is new. Sessions share cases. Two
    /// cases that differ only in the order of their parameters have different numbers, because the
    /// order is displayed.
    fn case_number(&mut self, file: &Database, case: &Case) -> Result<i64> {
        let parameters = serde_json::to_string(&json_lines::json_parameters(case))?;
        let key = (case.benchmark.clone(), parameters);
        if let Some(&number) = self.cases.get(&key) {
            return Ok(number);
        }
        let id = case.id();
        let insert = sql!(
            "INSERT INTO benchmark_case (id, benchmark, parameters) VALUES ($1, $2, $3)
             ON CONFLICT DO NOTHING"
        );
        file.execute(insert, sql_params![&id, &key.0, &key.1])?;
        let sql = sql!("SELECT number FROM benchmark_case WHERE id = $1 AND parameters = $2");
        let number = file.query_value(sql, sql_params![&id, &key.1])?;
        self.cases.insert(key, number);
        Ok(number)
    }

    /// Inserts runs with their samples. `is_done` says whether the slots of the runs are complete.
    pub fn insert_runs(&mut self, file: &Database, runs: &[Run], is_done: bool) -> Result<()> {
        let jsons = runs.iter().map(run_json).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::with_capacity(runs.len());
        for (row_index, (run, json)) in (self.runs..).zip(runs.iter().zip(&jsons)) {
            let case = self.case_number(file, &run.case)?;
            rows.push(self.run_row(row_index, case, run, json, is_done));
        }
        let sql = sql!(
            "INSERT INTO run (session, seq, benchmark_case, variant, slot, block,
                 started_unix_ms, wall_ns, user_ns, system_ns, max_rss_bytes,
                 involuntary_switches, notes, slot_done, build, voluntary_switches,
                 minor_faults, major_faults, migrations, kernel_stats, rejected_by, machine)
             {{rows:22}} ON CONFLICT DO NOTHING"
        );
        let inserted = file.insert(sql, &rows)?;
        self.ensure_sole_recorder(inserted == runs.len())?;
        self.insert_samples(file, runs)?;
        for (row_index, run) in (self.runs..).zip(runs) {
            if let Some(load) = &run.load {
                let insert = sql!("INSERT INTO load (session, seq, detail) VALUES ($1, $2, $3)");
                file.execute(insert, sql_params![self.session, row_index, load])?;
            }
        }
        self.runs += runs.len() as i64;
        Ok(())
    }

    /// Returns the row of a run, with the columns of [`SessionWriter::insert_runs`].
    fn run_row<'a>(
        &self,
        row_index: i64,
        case: i64,
        run: &'a Run,
        [notes, kernel_stats]: &'a [Option<String>; 2],
        is_done: bool,
    ) -> [SqlParam<'a>; 22] {
        let usage = run.usage.as_ref();
        let count = |field: fn(&ResourceUsage) -> Option<u64>| usage.and_then(field);
        *sql_params![
            self.session,
            row_index,
            case,
            &run.variant,
            run.slot,
            run.block,
            run.started_unix_ms,
            run.wall_ns,
            count(|usage| Some(usage.user_ns)),
            count(|usage| Some(usage.system_ns)),
            count(|usage| Some(usage.max_rss_bytes)),
            count(|usage| Some(usage.involuntary_switches)),
            notes,
            is_done,
            run.build,
            count(|usage| usage.voluntary_switches),
            count(|usage| usage.minor_faults),
            count(|usage| usage.major_faults),
            count(|usage| usage.migrations),
            kernel_stats,
            &run.rejected_by,
            run.machine,
        ]
    }

    fn insert_samples(&mut self, file: &Database, runs: &[Run]) -> Result<()> {
        let mut packed = Vec::new();
        for (row_index, run) in (self.runs..).zip(runs) {
            for (metric, samples) in read::pack_samples(run) {
                packed.push((row_index, self.metric_index(file, &metric)?, samples));
            }
        }
        let rows = packed.iter().map(|(row_index, metric, packed)| {
            *sql_params![
                self.session,
                *row_index,
                *metric,
                &packed.readings,
                &packed.elapsed_ns,
                &packed.iterations,
                &packed.positions,
            ]
        });
        let rows: Vec<[SqlParam<'_>; 7]> = rows.collect();
        let insert = sql!(
            "INSERT INTO sample (session, seq, metric, readings, elapsed_ns, iterations,
                 positions) {{rows:7}}"
        );
        file.insert(insert, &rows)?;
        Ok(())
    }

    /// Inserts a failure; `is_done` has the same meaning as in [`SessionWriter::insert_runs`].
    pub fn insert_failure(
        &mut self,
        file: &Database,
        failure: &StepFailure,
        is_done: bool,
    ) -> Result<()> {
        let inserted = file.count_changes(
            sql!(
                "INSERT INTO failure (session, seq, slot, slot_done, skipped, detail)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
            ),
            sql_params![
                self.session,
                self.failures,
                failure.slot,
                is_done,
                failure.cause.is_skip(),
                &to_json("failure", failure)?,
            ],
        )?;
        self.ensure_sole_recorder(inserted == 1)?;
        self.failures += 1;
        Ok(())
    }

    /// Inserts a failure that belongs to no slot, unless the session already contains it. For
    /// example, a benchmark that cannot list its cases fails again whenever the session is resumed.
    pub fn insert_failure_once(&mut self, file: &Database, failure: &StepFailure) -> Result<()> {
        let sql = sql!(
            "SELECT EXISTS (SELECT 1 FROM failure
             WHERE session = $1 AND slot IS NULL AND detail = $2)"
        );
        let detail = to_json("failure", failure)?;
        let exists: bool = file.query_value(sql, sql_params![self.session, &detail])?;
        if exists { Ok(()) } else { self.insert_failure(file, failure, true) }
    }

    /// Inserts a profile, replacing an earlier one of the same case and variant.
    pub fn upsert_profile(&mut self, file: &Database, recording: &ProfileRecording) -> Result<()> {
        let case = self.case_number(file, &recording.case)?;
        Ok(file.execute(
            sql!(
                "INSERT INTO profile (session, seq, benchmark_case, variant, detail)
                 SELECT CAST($1 AS BIGINT), coalesce(max(seq) + 1, 0), CAST($2 AS BIGINT),
                        CAST($3 AS TEXT), CAST($4 AS TEXT)
                 FROM profile WHERE session = $1
                 ON CONFLICT (session, benchmark_case, variant)
                 DO UPDATE SET detail = excluded.detail"
            ),
            sql_params![
                self.session,
                case,
                &recording.variant,
                &to_json("profile", &recording.profile)?,
            ],
        )?)
    }

    /// Records that a slot is complete, but yielded no result.
    pub fn mark_empty_slot(&self, file: &Database, slot: u32) -> Result<()> {
        let sql =
            sql!("INSERT INTO empty_slot (session, slot) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        Ok(file.execute(sql, sql_params![self.session, slot])?)
    }

    /// Fails if another recorder has taken the next row index of the session.
    fn ensure_sole_recorder(&self, is_alone: bool) -> Result<()> {
        ensure!(
            is_alone,
            "another speedwell process is recording session @{}\nhint: wait until it has ended",
            self.session
        );
        Ok(())
    }
}

/// Inserts a calibration; see [`super::Store::store_calibration`].
pub(super) fn insert_calibration(
    file: &Database,
    machine: &Environment,
    calibration: &NoiseCalibration,
) -> Result<(), Error> {
    file.execute(
        sql!(
            "INSERT INTO calibration (session, host, cpu, cpus, started_unix_ms,
                 comparisons, false_alarms, expected_low, expected_high)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (session) DO UPDATE SET
                 host = excluded.host, cpu = excluded.cpu, cpus = excluded.cpus,
                 started_unix_ms = excluded.started_unix_ms,
                 comparisons = excluded.comparisons,
                 false_alarms = excluded.false_alarms,
                 expected_low = excluded.expected_low,
                 expected_high = excluded.expected_high"
        ),
        sql_params![
            calibration.session,
            &machine.host,
            &machine.cpu,
            machine.cpus,
            calibration.started_unix_ms,
            calibration.comparisons,
            calibration.false_alarms,
            calibration.expected_low,
            calibration.expected_high,
        ],
    )
}

/// Returns the JSON of a run's notes and of its kernel counters.
fn run_json(run: &Run) -> Result<[Option<String>; 2]> {
    let notes = (!run.notes.is_empty()).then(|| to_json("notes", &run.notes));
    let kernel_stats = run.kernel_stats.as_ref().map(|stats| to_json("kernel counters", stats));
    Ok([notes.transpose()?, kernel_stats.transpose()?])
}

/// Serializes `value` as JSON, ensuring that it can be read back.
fn to_json<T: Serialize + DeserializeOwned>(what: &str, value: &T) -> Result<String> {
    let text = serde_json::to_string(value)?;
    serde_json::from_str::<T>(&text)
        .with_context(|| format!("cannot store the session's {what}: {text}"))?;
    Ok(text)
}
