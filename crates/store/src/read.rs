//! Loads stored sessions. Leaves out superseded runs, whose cases were started again on another
//! machine. Also decides how the samples of a run are packed into arrays of bytes.

use super::Store;
use super::database::{
    Database, Error, FromColumn, SqlParam, SqlRow, SqlStatement, TransactionPurpose, sql,
    sql_params,
};
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use speedwell_formats::json_lines::{self, InternedNames};
use speedwell_model::{
    Case, Metric, MetricDirection, NoiseCalibration, ProfileRecording, ResourceUsage, Run, Sample,
    Session, SessionState,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::sync::Arc;

/// A session that is being measured.
#[derive(Debug, Clone)]
pub struct SessionProgress {
    /// The session with its runs so far.
    pub session: Session,
    /// The completed slots; see [`Store::finished_slots`].
    pub finished_slots: BTreeSet<u32>,
    /// The decided cases; see [`Store::decided_cases`].
    pub decided_cases: BTreeMap<String, usize>,
}

impl Store {
    /// Loads a session.
    ///
    /// # Errors
    /// Fails if there is no such session, on database errors, or if the database holds data that
    /// this version cannot read.
    pub fn load_session(&self, number: i64) -> Result<Session> {
        // Use one transaction, to get a consistent snapshot of a session that is being recorded.
        self.read_snapshot(|_| self.load_in_transaction(number))
    }

    /// Loads a session together with the slots and cases that are complete, from one snapshot. The
    /// parts of a session that is being recorded therefore agree.
    ///
    /// # Errors
    /// Fails like [`Store::load_session`].
    pub fn load_progress(&self, number: i64) -> Result<SessionProgress> {
        self.read_snapshot(|_| {
            Ok(SessionProgress {
                session: self.load_in_transaction(number)?,
                finished_slots: self.finished_slots(number)?,
                decided_cases: self.decided_cases(number)?,
            })
        })
    }

    /// Runs `work`, whose queries all read the same snapshot. None of them may open a snapshot of its
    /// own, as those that load a session do.
    ///
    /// # Errors
    /// Fails if `work` fails, or on database errors.
    pub fn with_snapshot<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.read_snapshot(|_| work())
    }

    /// Runs `work` in a transaction that reads a consistent snapshot.
    pub(super) fn read_snapshot<T>(&self, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let read = self.database.transaction(TransactionPurpose::Reading, work);
        read.map_err(|error| self.to_user_error(error))
    }

    /// Writes a session of any size as JSON Lines, one run at a time. Writes the same lines as
    /// [`json_lines::write`] for the session from [`Store::load_session`].
    ///
    /// # Errors
    /// Fails if there is no such session, on database errors, or if `out` cannot be written.
    pub fn write_lines(&self, number: i64, out: &mut dyn Write) -> Result<()> {
        self.read_snapshot(|file| {
            let session = self.load_header_and_failures(number)?;
            let count = sql!("SELECT count(*) FROM run WHERE session = $1 AND superseded IS NULL");
            let runs = file.query_value(count, sql_params![number])?;
            let mut reader = RunReader::new(file, &session);
            json_lines::write_streaming((&session, runs), out, |write| {
                reader.for_each_run(number, &mut |run| write(&run))
            })
        })
    }

    /// Loads a session without its runs. A session may have millions of runs.
    ///
    /// # Errors
    /// Fails like [`Store::load_session`].
    pub fn load_session_without_runs(&self, number: i64) -> Result<Session> {
        self.read_snapshot(|_| self.load_header_and_failures(number))
    }

    /// Loads the runs of some slots (positions of runs in the plan) of a session, in order of
    /// execution.
    ///
    /// # Errors
    /// Fails like [`Store::load_session`].
    pub fn load_slot_runs(&self, number: i64, slots: &BTreeSet<u32>) -> Result<Vec<Run>> {
        self.read_snapshot(|file| {
            let session = self.load_header(number)?;
            RunReader::new(file, &session).slot_runs(number, slots)
        })
    }

    /// Loads a session within an open transaction.
    pub(super) fn load_in_transaction(&self, number: i64) -> Result<Session> {
        let mut session = self.load_header_and_failures(number)?;
        let mut reader = RunReader::new(&self.database, &session);
        session.runs = reader
            .all_runs(number)
            .with_context(|| format!("cannot read the runs of session @{number}"))?;
        Ok(session)
    }

    /// Loads a session without its runs, within an open transaction.
    pub(super) fn load_header_and_failures(&self, number: i64) -> Result<Session> {
        let file = &self.database;
        let mut session = self.load_header(number)?;
        let failures = sql!("SELECT detail FROM failure WHERE session = $1 ORDER BY seq");
        session.failures = load_jsons(file, failures, number)?;
        session.profiles = load_profiles(file, number)?;
        Ok(session)
    }

    /// Returns the plan passed to [`Store::begin_recording`]; `None` for imported sessions.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn session_plan(&self, number: i64) -> Result<Option<String>> {
        self.session_column(sql!("SELECT plan FROM session WHERE number = $1"), number)
    }

    /// Returns the completed slots, which will not run again.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn finished_slots(&self, number: i64) -> Result<BTreeSet<u32>> {
        self.session_state(number)?;
        // A slot is complete if its rows are marked as done, or if it is recorded as empty.
        let sql = sql!(
            "SELECT slot FROM run WHERE session = $1 AND slot_done <> 0
             UNION SELECT slot FROM failure
             WHERE session = $1 AND slot_done <> 0 AND slot IS NOT NULL
             UNION SELECT slot FROM empty_slot WHERE session = $1"
        );
        self.query_rows(sql, sql_params![number], |row| row.get(0))
    }

    /// Returns the completed slots that produced neither a run nor a failure.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn empty_slots(&self, number: i64) -> Result<BTreeSet<u32>> {
        self.session_state(number)?;
        let sql = sql!("SELECT slot FROM empty_slot WHERE session = $1");
        self.query_rows(sql, sql_params![number], |row| row.get(0))
    }

    /// Returns the ids of the cases that need no more runs, with the number of planned runs
    /// that were skipped for each.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn decided_cases(&self, number: i64) -> Result<BTreeMap<String, usize>> {
        self.session_state(number)?;
        let sql = sql!("SELECT case_id, saved_runs FROM decided_case WHERE session = $1");
        self.query_rows(sql, sql_params![number], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the state of the session.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn session_state(&self, number: i64) -> Result<SessionState> {
        let sql = sql!("SELECT state FROM session WHERE number = $1");
        let name: String = self.session_column(sql, number)?;
        parse_state(&name)
    }

    fn session_column<T: for<'a> FromColumn<'a>>(
        &self,
        statement: &'static SqlStatement,
        number: i64,
    ) -> Result<T> {
        let found = self.query_first(statement, sql_params![number], |row| row.get(0))?;
        found.with_context(|| format!("session @{number} does not exist"))
    }

    /// Returns the first row of a query, if any.
    pub(super) fn query_first<T>(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
        read: impl FnOnce(SqlRow<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>> {
        self.explain(self.database.query_first(statement, params, read))
    }

    /// Returns the rows of a query.
    pub(super) fn query_rows<T, C: FromIterator<T>>(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
        read: impl FnMut(SqlRow<'_>) -> Result<T, Error>,
    ) -> Result<C> {
        self.explain(self.database.query(statement, params, read))
    }

    /// Executes one statement in a transaction of its own.
    pub(super) fn execute(
        &mut self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<()> {
        self.transact(|file| Ok(file.execute(statement, params)?))
    }

    fn load_header(&self, number: i64) -> Result<Session> {
        let sql = sql!(
            "SELECT id, started_unix_ms, state, command, design, variants, environment
             FROM session WHERE number = $1"
        );
        let found = self.query_first(sql, sql_params![number], |row| {
            Ok(Session {
                id: row.get(0)?,
                number: Some(number),
                started_unix_ms: row.get(1)?,
                state: parse_state(row.get(2)?)?,
                command: parse_json(row.get(3)?)?,
                design: parse_json(row.get(4)?)?,
                variants: parse_json(row.get(5)?)?,
                environment: parse_json(row.get(6)?)?,
                ..Session::default()
            })
        })?;
        let session = found.with_context(|| format!("session @{number} does not exist"))?;
        let tags = sql!("SELECT name FROM tag WHERE session = $1 ORDER BY seq");
        let metrics = sql!("SELECT name, unit, better FROM metric WHERE session = $1 ORDER BY seq");
        let origin = sql!("SELECT detail FROM origin WHERE session = $1");
        let calibration = sql!(
            "SELECT session, started_unix_ms, comparisons, false_alarms, expected_low, expected_high
             FROM calibration WHERE session = $1"
        );
        let machines = sql!("SELECT detail FROM fleet_machine WHERE session = $1 ORDER BY seq");
        let key = sql_params![number];
        Ok(Session {
            tags: self.query_rows(tags, key, |row| row.get(0))?,
            metrics: self.query_rows(metrics, key, |row| read_metric(row, 0))?,
            origin: load_jsons(&self.database, origin, number)?.pop(),
            calibration: self.query_first(calibration, key, |row| read_calibration(row, 0))?,
            machines: load_jsons(&self.database, machines, number)?,
            ..session
        })
    }
}

/// Reads a calibration from the columns session, started_unix_ms, comparisons, false_alarms,
/// expected_low and expected_high, starting at `column`.
pub(super) fn read_calibration(row: SqlRow<'_>, column: usize) -> Result<NoiseCalibration, Error> {
    Ok(NoiseCalibration {
        session: row.get(column)?,
        started_unix_ms: row.get(column + 1)?,
        comparisons: row.get(column + 2)?,
        false_alarms: row.get(column + 3)?,
        expected_low: row.get(column + 4)?,
        expected_high: row.get(column + 5)?,
    })
}

/// Parses a JSON column from the rows of a session.
fn load_jsons<T: DeserializeOwned>(
    file: &Database,
    statement: &'static SqlStatement,
    session: i64,
) -> Result<Vec<T>, Error> {
    file.query(statement, sql_params![session], |row| Ok(parse_json(row.get(0)?)?))
}

/// Reads a metric from the columns name, unit and better, starting at `column`.
pub(super) fn read_metric(row: SqlRow<'_>, column: usize) -> Result<Metric, Error> {
    let (name, better): (String, &str) = (row.get(column)?, row.get(column + 2)?);
    let direction = MetricDirection::from_name(better)
        .with_context(|| format!("unknown direction '{better}' of the metric '{name}'"))?;
    Ok(Metric { name, unit: row.get(column + 1)?, better: direction })
}

/// Reads runs with their samples, for a whole session, one case or some slots.
pub(super) struct RunReader<'a> {
    names: RunNames<'a>,
    metrics: Vec<Arc<str>>,
    unpacking: SampleUnpacker,
}

impl<'a> RunReader<'a> {
    /// Creates a reader for runs of `session`.
    pub fn new(file: &'a Database, session: &Session) -> RunReader<'a> {
        let metrics = session.metrics.iter().map(|metric| metric.name.as_str().into()).collect();
        RunReader { names: RunNames::new(file), metrics, unpacking: SampleUnpacker::default() }
    }

    fn all_runs(&mut self, session: i64) -> Result<Vec<Run>> {
        let mut found = Vec::new();
        self.for_each_run(session, &mut |run| {
            found.push(run);
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes all runs to `visit` in order of execution, one at a time.
    pub fn for_each_run(
        &mut self,
        session: i64,
        visit: &mut dyn FnMut(Run) -> Result<()>,
    ) -> Result<()> {
        let runs = sql!(
            "SELECT seq, benchmark_case, variant, slot, block, started_unix_ms, wall_ns, user_ns,
                    system_ns, max_rss_bytes, involuntary_switches, notes, load.detail, build,
                    voluntary_switches, minor_faults, major_faults, migrations, kernel_stats,
                    rejected_by,
                    machine
             FROM run LEFT JOIN load USING (session, seq)
             WHERE session = $1 AND superseded IS NULL ORDER BY seq"
        );
        let samples = sql!(
            "SELECT seq, metric, readings, elapsed_ns, iterations, positions
             FROM sample WHERE session = $1 ORDER BY seq, metric"
        );
        self.read_runs([runs, samples], sql_params![session], &mut |_, run| visit(run))
    }

    /// Returns the runs of one case in order of execution, each with its index in the session.
    pub fn case_runs(&mut self, session: i64, case: i64) -> Result<Vec<(i64, Run)>> {
        let runs = sql!(
            "SELECT seq, benchmark_case, variant, slot, block, started_unix_ms, wall_ns, user_ns,
                    system_ns, max_rss_bytes, involuntary_switches, notes, load.detail, build,
                    voluntary_switches, minor_faults, major_faults, migrations, kernel_stats,
                    rejected_by,
                    machine
             FROM run {{by:run_by_case}} LEFT JOIN load USING (session, seq)
             WHERE session = $1 AND benchmark_case = $2 AND superseded IS NULL ORDER BY seq"
        );
        let samples = sql!(
            "SELECT sample.seq, metric, readings, elapsed_ns, iterations, positions
             FROM run {{by:run_by_case}} CROSS JOIN sample
             WHERE run.session = $1 AND run.benchmark_case = $2 AND run.superseded IS NULL
             AND sample.session = run.session AND sample.seq = run.seq
             ORDER BY run.seq, metric"
        );
        let mut found = Vec::new();
        self.read_runs([runs, samples], sql_params![session, case], &mut |row_index, run| {
            found.push((row_index, run));
            Ok(())
        })?;
        Ok(found)
    }

    fn slot_runs(&mut self, session: i64, slots: &BTreeSet<u32>) -> Result<Vec<Run>> {
        let runs = sql!(
            "SELECT seq, benchmark_case, variant, slot, block, started_unix_ms, wall_ns, user_ns,
                    system_ns, max_rss_bytes, involuntary_switches, notes, load.detail, build,
                    voluntary_switches, minor_faults, major_faults, migrations, kernel_stats,
                    rejected_by,
                    machine
             FROM run LEFT JOIN load USING (session, seq)
             WHERE session = $1 AND slot IN ({{numbers:2}}) AND superseded IS NULL ORDER BY seq"
        );
        let samples = sql!(
            "SELECT seq, metric, readings, elapsed_ns, iterations, positions
             FROM run JOIN sample USING (session, seq)
             WHERE session = $1 AND slot IN ({{numbers:2}}) AND superseded IS NULL
             ORDER BY seq, metric"
        );
        let numbers = serde_json::to_string(slots)?;
        let mut found = Vec::new();
        self.read_runs([runs, samples], sql_params![session, &numbers], &mut |_, run| {
            found.push(run);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads the rows of both queries in one pass, and adds the samples to their runs. Both queries
    /// return rows in the order of the runs. This is cheap, because both tables are clustered by
    /// session and run.
    fn read_runs(
        &mut self,
        [runs, samples]: [&'static SqlStatement; 2],
        params: &[SqlParam<'_>],
        visit: &mut dyn FnMut(i64, Run) -> Result<()>,
    ) -> Result<()> {
        let file = self.names.file;
        let mut samples_statement = file.prepare(samples)?;
        let mut sample_rows = samples_statement.query(params)?;
        let mut sample_row = sample_rows.next()?;
        let mut statement = file.prepare(runs)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let row_index: i64 = row.get(0)?;
            while let Some(sample) = sample_row.filter(|sample| {
                sample.get(0).is_ok_and(|sample_row_index: i64| sample_row_index <= row_index)
            }) {
                // Skip the samples of superseded runs.
                if sample.get::<i64>(0)? == row_index {
                    unpack_samples(&sample, &self.metrics, &mut self.unpacking)?;
                }
                sample_row = sample_rows.next()?;
            }
            visit(row_index, read_run(&row, &mut self.names, self.unpacking.take_samples())?)?;
        }
        Ok(())
    }
}

fn load_profiles(file: &Database, session: i64) -> Result<Vec<ProfileRecording>, Error> {
    let sql =
        sql!("SELECT benchmark_case, variant, detail FROM profile WHERE session = $1 ORDER BY seq");
    let mut names = RunNames::new(file);
    file.query(sql, sql_params![session], |row| {
        let case = Case::clone(&*names.intern_case(row.get(0)?)?);
        Ok(ProfileRecording { case, variant: row.get(1)?, profile: parse_json(row.get(2)?)? })
    })
}

fn unpack_samples(row: &SqlRow<'_>, metrics: &[Arc<str>], into: &mut SampleUnpacker) -> Result<()> {
    let metric_index: i64 = row.get(1)?;
    let found = usize::try_from(metric_index).ok().and_then(|index| metrics.get(index));
    let metric = found.with_context(|| format!("samples of an unknown metric {metric_index}"))?;
    let stored = PackedSamples {
        readings: row.get::<Option<_>>(2)?.unwrap_or_default(),
        elapsed_ns: row.get(3)?,
        iterations: row.get(4)?,
        positions: row.get(5)?,
    };
    into.add_metric(metric, &stored);
    Ok(())
}

fn read_run(row: &SqlRow<'_>, names: &mut RunNames<'_>, samples: Vec<Sample>) -> Result<Run> {
    let usage = match row.get(7)? {
        None => None,
        Some(user_ns) => Some(ResourceUsage {
            user_ns,
            system_ns: row.get(8)?,
            max_rss_bytes: row.get(9)?,
            involuntary_switches: row.get(10)?,
            voluntary_switches: row.get(14)?,
            minor_faults: row.get(15)?,
            major_faults: row.get(16)?,
            migrations: row.get(17)?,
        }),
    };
    Ok(Run {
        case: names.intern_case(row.get(1)?)?,
        variant: names.variants.intern_name(row.get(2)?),
        slot: row.get(3)?,
        block: row.get(4)?,
        build: row.get(13)?,
        started_unix_ms: row.get(5)?,
        wall_ns: row.get(6)?,
        usage,
        kernel_stats: row.get::<Option<&str>>(18)?.map(parse_json).transpose()?,
        rejected_by: row.get(19)?,
        machine: row.get(20)?,
        samples,
        notes: row.get::<Option<&str>>(11)?.map_or(Ok(Vec::new()), parse_json)?,
        load: row.get::<Option<&str>>(12)?.map(Arc::from),
    })
}

/// Interns cases and names of variants, so that all runs of a case share one [`Case`], and all runs
/// of a variant share one name.
struct RunNames<'a> {
    file: &'a Database,
    cases: HashMap<i64, Arc<Case>>,
    variants: InternedNames,
}

impl<'a> RunNames<'a> {
    fn new(file: &'a Database) -> RunNames<'a> {
        RunNames { file, cases: HashMap::new(), variants: InternedNames::default() }
    }

    fn intern_case(&mut self, number: i64) -> Result<Arc<Case>> {
        if let Some(case) = self.cases.get(&number) {
            return Ok(case.clone());
        }
        let sql = sql!("SELECT benchmark, parameters FROM benchmark_case WHERE number = $1");
        let read = |row: SqlRow<'_>| Ok((row.get::<String>(0)?, row.get::<String>(1)?));
        let found = self.file.query_first(sql, sql_params![number], read)?;
        let (benchmark, parameters) = found.ok_or(Error::NoRow)?;
        let case = Arc::new(Case::new(benchmark, parse_json(&parameters)?));
        self.cases.insert(number, case.clone());
        Ok(case)
    }
}

pub(super) fn parse_state(name: &str) -> Result<SessionState> {
    SessionState::from_name(name).with_context(|| format!("unknown session state '{name}'"))
}

pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).with_context(|| format!("cannot parse the stored JSON '{text}'"))
}

/// Marks an unknown duration. As a duration, the value would be 584 years.
const NO_ELAPSED: u64 = u64::MAX;
/// Marks an unknown iteration count: a quiet NaN with a payload that no arithmetic produces.
const NO_ITERATIONS: u64 = 0x7ff8_0000_5350_574c;

/// All samples of one metric in one run, bit for bit.
///
/// Any program can read little-endian arrays (`numpy.frombuffer`, `struct.unpack`). If a fact about
/// a sample is missing, the array contains a marker instead. An array that would contain only
/// markers is omitted, because most harnesses report values only.
#[derive(Debug)]
pub(super) struct PackedSamples<T> {
    /// Values of the samples.
    pub readings: T,
    /// Durations of the samples; `None` if no duration is known.
    pub elapsed_ns: Option<T>,
    /// Iteration counts of the samples; `None` if no count is known.
    pub iterations: Option<T>,
    /// Indices of the samples among all samples of the run; `None` if they are 0, 1, 2 ...
    pub positions: Option<T>,
}

/// Groups the samples of a run by metric, and packs each group. Metrics are in the order of their
/// first samples.
pub(super) fn pack_samples(run: &Run) -> Vec<(Arc<str>, PackedSamples<Vec<u8>>)> {
    let mut metrics: Vec<(Arc<str>, Vec<usize>)> = Vec::new();
    for (position, sample) in run.samples.iter().enumerate() {
        match metrics.iter_mut().find(|(metric, _)| *metric == sample.metric) {
            Some((_, positions)) => positions.push(position),
            None => metrics.push((sample.metric.clone(), vec![position])),
        }
    }
    metrics
        .into_iter()
        .map(|(metric, positions)| (metric, pack_metric(&run.samples, &positions)))
        .collect()
}

fn pack_metric(samples: &[Sample], positions: &[usize]) -> PackedSamples<Vec<u8>> {
    let encode = |bits: fn(&Sample) -> u64| -> Vec<u8> {
        positions.iter().flat_map(|&position| bits(&samples[position]).to_le_bytes()).collect()
    };
    let has_any = |is_known: fn(&Sample) -> bool| {
        positions.iter().any(|&position| is_known(&samples[position]))
    };
    let is_contiguous =
        positions.iter().enumerate().all(|(expected, &position)| expected == position);
    PackedSamples {
        readings: encode(|sample| sample.value.to_bits()),
        elapsed_ns: has_any(|sample| sample.elapsed_ns.is_some())
            .then(|| encode(|sample| sample.elapsed_ns.unwrap_or(NO_ELAPSED))),
        iterations: has_any(|sample| sample.iterations.is_some())
            .then(|| encode(|sample| sample.iterations.map_or(NO_ITERATIONS, f64::to_bits))),
        positions: (!is_contiguous).then(|| {
            positions.iter().flat_map(|&position| (position as u32).to_le_bytes()).collect()
        }),
    }
}

/// Collects the samples of a run, metric by metric.
#[derive(Default)]
struct SampleUnpacker {
    samples: Vec<(u32, Sample)>,
}

impl SampleUnpacker {
    /// Adds the samples of a metric.
    fn add_metric(&mut self, metric: &Arc<str>, stored: &PackedSamples<&[u8]>) {
        let mut elapsed = stored.elapsed_ns.map(le_words);
        let mut iterations = stored.iterations.map(le_words);
        let mut positions = stored.positions.map(|bytes| bytes.as_chunks().0.iter());
        for (index, value) in le_words(stored.readings).enumerate() {
            let stored_position = positions.as_mut().and_then(Iterator::next);
            let elapsed_ns = elapsed.as_mut().and_then(Iterator::next);
            let iteration_count = iterations.as_mut().and_then(Iterator::next);
            let sample = Sample {
                metric: metric.clone(),
                value: f64::from_bits(value),
                elapsed_ns: elapsed_ns.filter(|&ns| ns != NO_ELAPSED),
                iterations: iteration_count
                    .filter(|&count| count != NO_ITERATIONS)
                    .map(f64::from_bits),
            };
            let position = stored_position.map_or(index as u32, |bytes| u32::from_le_bytes(*bytes));
            self.samples.push((position, sample));
        }
    }

    /// Removes and returns the samples in the order in which the run reported them.
    fn take_samples(&mut self) -> Vec<Sample> {
        self.samples.sort_by_key(|(position, _)| *position);
        self.samples.drain(..).map(|(_, sample)| sample).collect()
    }
}

/// Returns the 8-byte words of an array. An incomplete last word is dropped.
fn le_words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(metric: &str, value: f64) -> Sample {
        Sample { metric: metric.into(), value, elapsed_ns: None, iterations: None }
    }

    fn run_with(samples: Vec<Sample>) -> Run {
        Run { samples, ..Run::empty(Case::new("g/b", Vec::new()), "a", 0, 0) }
    }

    fn round_trip(samples: Vec<Sample>) -> Vec<Sample> {
        let mut unpacking = SampleUnpacker::default();
        for (metric, packed) in pack_samples(&run_with(samples)) {
            let stored = PackedSamples {
                readings: &packed.readings[..],
                elapsed_ns: packed.elapsed_ns.as_deref(),
                iterations: packed.iterations.as_deref(),
                positions: packed.positions.as_deref(),
            };
            unpacking.add_metric(&metric, &stored);
        }
        unpacking.take_samples()
    }

    #[test]
    fn bare_values_of_one_metric_cost_eight_bytes_each() {
        let packed = pack_samples(&run_with(vec![sample_of("t", 1.5), sample_of("t", 2.5)]));
        let [(name, only)] = packed.as_slice() else { panic!("{packed:?}") };
        assert_eq!((&**name, only.readings.len()), ("t", 16));
        assert_eq!(only.readings[..8], 1.5f64.to_le_bytes());
        assert!(only.elapsed_ns.is_none() && only.iterations.is_none() && only.positions.is_none());
    }

    #[test]
    fn interleaved_metrics_keep_their_order() {
        let samples: Vec<Sample> = ["t", "p99", "t", "errors", "p99", "t"]
            .iter()
            .zip(0..)
            .map(|(metric, value)| sample_of(metric, f64::from(value)))
            .collect();
        assert_eq!(round_trip(samples.clone()), samples);
    }

    #[test]
    fn optional_fields_of_single_samples_survive_packing() {
        let mut samples = vec![sample_of("t", 1.0), sample_of("t", 2.0), sample_of("t", 3.0)];
        samples[1].elapsed_ns = Some(0);
        samples[2].iterations = Some(1e6);
        assert_eq!(round_trip(samples.clone()), samples);
    }

    #[test]
    fn special_floating_point_values_keep_every_bit() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 4.0];
        let mut samples: Vec<Sample> = odd.iter().map(|&value| sample_of("t", value)).collect();
        samples[0].iterations = Some(f64::NAN);
        let back = round_trip(samples);
        let bits = |value: f64| value.to_bits();
        assert_eq!(back.iter().map(|s| bits(s.value)).collect::<Vec<_>>(), odd.map(bits));
        assert!(back[0].iterations.is_some_and(f64::is_nan), "a NaN differs from a missing count");
        assert_eq!(back[1].iterations, None);
    }
}
