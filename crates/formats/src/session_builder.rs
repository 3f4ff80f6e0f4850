//! Defines the input of a reader, and builds the session for an imported file.
//!
//! Decides the session's design: one variant, and an unknown order of runs. This module knows
//! nothing about file formats. Start at [`SessionBuilder`], or at [`merge_sessions`] to combine
//! several files with results of the same variant. [`FileSessions`] collects the results of many
//! revisions from one file: each point in time becomes a session. The session's id is derived from
//! facts in the file, so reading the file again yields the same sessions.
//!
//! Values from one process, such as repetitions inside a program, should be samples of one run
//! (docs/why/statistics.md, "One value per process"). [`merge_sessions`] joins them into such a
//! run. A session of a single file would then have only one run, so each of its repetitions is
//! stored as a run, with a note.

use anyhow::{Context, Error, Result, bail, ensure};
use indexmap::IndexMap;
use speedwell_model::{
    Case, CodeOrigin, Environment, ErrorText, FailureCause, Metric, MetricDirection, OriginSource,
    ParameterValue, Run, RunOrder, Sample, Session, SessionDesign, SessionState, SessionStep,
    StepFailure, StoppingDesign, Variant,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Name of the only variant.
pub const ONLY_VARIANT: &str = "default";

/// Note that marks a run as one of several repetitions in one process.
pub use speedwell_model::REPETITION as NOTE_ON_REPETITIONS;

/// Warning about a file with repetitions in one process.
pub const REPETITIONS_WARNING: &str = "repetitions of one process are not independent; they are treated as runs here, and a change only counts if it exceeds their range";

/// Returns a warning about metrics whose direction is unknown, if there are any.
pub fn unknown_directions_warning(names: &BTreeSet<String>) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    (!quoted.is_empty()).then(|| {
        format!(
            "it does not state whether more or less of {} is better, so changes have no verdict",
            quoted.join(", ")
        )
    })
}

/// Collects the content of a file. The slots (positions) of the runs follow the order in which the
/// runs are added.
#[derive(Debug, Default)]
pub struct SessionBuilder {
    /// Environment of the measurement.
    pub environment: Environment,
    /// Start of the measurement, in milliseconds since the Unix epoch. If it is unknown, the session
    /// starts now.
    pub started_unix_ms: Option<i64>,
    /// Metrics by their names, which all samples share.
    metrics: IndexMap<Arc<str>, Metric>,
    /// All cases by id, with the number of their runs.
    cases: HashMap<String, (Arc<Case>, u32)>,
    runs: Vec<Run>,
    failures: Vec<StepFailure>,
}

/// A process described in the file.
#[derive(Debug, Default)]
pub struct ImportedProcess {
    /// Lower bound of the running time of the process.
    pub wall_ns: f64,
    /// Measurements of the process.
    pub samples: Vec<Sample>,
    /// Notes on the run.
    pub notes: Vec<String>,
}

impl SessionBuilder {
    /// Declares a metric and returns its name, which all samples share. The first metric is
    /// primary.
    pub fn declare_metric(&mut self, metric: Metric) -> Arc<str> {
        if let Some((name, _)) = self.metrics.get_key_value(metric.name.as_str()) {
            return name.clone();
        }
        let name: Arc<str> = metric.name.as_str().into();
        self.metrics.insert(name.clone(), metric);
        name
    }

    /// Declares a metric, and creates a sample of it with a value only.
    pub fn metric_sample(&mut self, metric: Metric, value: f64) -> Sample {
        value_sample(&self.declare_metric(metric), value)
    }

    /// Adds a run.
    pub fn add_run(&mut self, case: Case, process: ImportedProcess) {
        let slot = self.next_slot();
        let case_entry = self.cases.entry(case.id());
        let (case, count) = case_entry.or_insert_with(|| (case.into(), 0));
        let block = *count;
        *count += 1;
        self.runs.push(Run {
            // Float casts saturate, so absurd values do no harm.
            wall_ns: process.wall_ns as u64,
            samples: process.samples,
            notes: process.notes,
            ..Run::empty(case.clone(), ONLY_VARIANT, slot, block)
        });
    }

    /// Returns the run added last.
    pub fn last_run(&mut self) -> Option<&mut Run> {
        self.runs.last_mut()
    }

    /// Adds a failed run. `replay` is the command that repeats the run, or the part of it that is
    /// known; it may be empty.
    pub fn add_failure(&mut self, case: &Case, cause: FailureCause, replay: String) {
        self.failures.push(StepFailure {
            step: SessionStep::Run,
            benchmark: case.benchmark.clone(),
            case: Some(case.id()),
            variant: Some(ONLY_VARIANT.to_owned()),
            slot: Some(self.next_slot()),
            cause,
            stderr_tail: String::new(),
            replay,
        });
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.failures.is_empty()
    }

    /// Builds the session. `label` is the user's name for the file.
    ///
    /// # Errors
    /// Fails if nothing was added, or a value is invalid.
    pub fn into_session(self, label: &str) -> Result<Session> {
        ensure!(!self.is_empty(), "it contains no results");
        self.validate_values()?;
        let mut session = Session {
            metrics: self.metrics.into_values().collect(),
            environment: self.environment,
            runs: self.runs,
            failures: self.failures,
            ..empty_session(
                label,
                vec![Variant::plain(ONLY_VARIANT)],
                self.cases.values().map(|(_, runs)| *runs).max(),
            )
        };
        session.started_unix_ms = self.started_unix_ms.unwrap_or(session.started_unix_ms);
        Ok(session)
    }

    /// Rejects values that became infinite when they were converted to the unit of their metric.
    fn validate_values(&self) -> Result<()> {
        for run in &self.runs {
            for sample in &run.samples {
                ensure!(
                    sample.value.is_finite() && sample.iterations.is_none_or(f64::is_finite),
                    "a value of the metric '{}' of '{}' is too large",
                    sample.metric,
                    run.case.id()
                );
            }
        }
        Ok(())
    }

    fn next_slot(&self) -> u32 {
        (self.runs.len() + self.failures.len()) as u32
    }
}

/// Creates a session that starts now and has no results. The first variant is the baseline;
/// `most_runs` is the maximum number of runs per case and variant.
pub fn empty_session(label: &str, variants: Vec<Variant>, most_runs: Option<u32>) -> Session {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let baseline = variants.first().map(|variant| variant.name.clone());
    Session {
        id: Uuid::now_v7().to_string(),
        started_unix_ms: now.as_millis() as i64,
        state: SessionState::Imported,
        command: vec!["import".to_owned(), label.to_owned()],
        design: SessionDesign::new(
            RunOrder::Imported,
            StoppingDesign::Fixed { runs: most_runs.unwrap_or(1) },
            &baseline.unwrap_or_default(),
        ),
        variants,
        ..Session::default()
    }
}

/// Creates a sample with a value only.
pub fn value_sample(metric: &Arc<str>, value: f64) -> Sample {
    Sample { metric: metric.clone(), value, elapsed_ns: None, iterations: None }
}

/// Merges sessions into one session with a single variant. From each session, takes the runs of the
/// named variant or, if no variant is named, of the baseline. `label` is the user's name for the
/// result.
///
/// # Errors
/// Fails if there are no sessions, or if two sessions have different units for a metric.
pub fn merge_sessions(label: &str, sessions: Vec<(Session, Option<String>)>) -> Result<Session> {
    let Some((first, _)) = sessions.first() else { bail!("'{label}' contains no results") };
    let ids: Vec<&str> = sessions.iter().map(|(session, _)| session.id.as_str()).collect();
    let mut merged = Session {
        id: ids.join("+"),
        runs: Vec::new(),
        failures: Vec::new(),
        profiles: Vec::new(),
        calibration: None,
        machines: Vec::new(),
        variants: vec![Variant::plain(ONLY_VARIANT)],
        state: SessionState::Imported,
        command: vec!["merge".to_owned(), label.to_owned()],
        ..first.clone()
    };
    let mut counts = HashMap::new();
    for (session, variant) in sessions {
        merge_session(&mut merged, session, variant, &mut counts)?;
    }
    merged.design.order = RunOrder::Imported;
    merged.design.baseline = ONLY_VARIANT.to_owned();
    merged.design.runs_per_block = 1;
    merged.design.stopping =
        StoppingDesign::Fixed { runs: counts.values().copied().max().unwrap_or(1) };
    Ok(merged)
}

fn merge_session(
    merged: &mut Session,
    session: Session,
    variant_name: Option<String>,
    counts: &mut HashMap<String, u32>,
) -> Result<()> {
    for metric in &session.metrics {
        match merged.metric(&metric.name) {
            None => merged.metrics.push(metric.clone()),
            Some(existing) if existing.unit != metric.unit => bail!(
                "its files have different units for '{}': '{}' and '{}'",
                metric.name,
                existing.unit,
                metric.unit
            ),
            Some(_) => {}
        }
    }
    let variant = variant_name.unwrap_or_else(|| session.design.baseline.clone());
    let is_only = session.variants.len() < 2;
    let chosen = session.runs.into_iter().filter(|run| is_only || *run.variant == *variant);
    for mut run in join_repetitions(chosen) {
        let count = counts.entry(run.case.id()).or_default();
        run.block = *count;
        *count += 1;
        run.slot = merged.runs.len() as u32;
        run.variant = ONLY_VARIANT.into();
        merged.runs.push(run);
    }
    merged.failures.extend(session.failures);
    Ok(())
}

/// Joins repetitions in one process: their samples become samples of one run per case.
fn join_repetitions(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    let mut processes: HashMap<String, usize> = HashMap::new();
    for mut run in runs {
        let is_repetition = run.is_repetition();
        run.notes.retain(|note| note != NOTE_ON_REPETITIONS);
        match processes.get(&run.case.id()).filter(|_| is_repetition) {
            Some(&index) => joined[index].samples.extend(run.samples),
            None => {
                if is_repetition {
                    processes.insert(run.case.id(), joined.len());
                }
                joined.push(run);
            }
        }
    }
    joined
}

/// Sets parameters on all cases of a session, replacing existing values.
pub fn set_parameters(session: &mut Session, values: &[(String, ParameterValue)]) {
    if values.is_empty() {
        return;
    }
    session.runs.iter_mut().for_each(|run| run.case = Arc::new(with_parameters(&run.case, values)));
    for failure in &mut session.failures {
        // An id that cannot be parsed was not made from a case, so its parameters are unknown.
        let case = failure.case.as_deref().map(Case::parse);
        if let Some(Ok(case)) = case {
            failure.case = Some(with_parameters(&case, values).id());
        }
    }
}

fn with_parameters(case: &Case, values: &[(String, ParameterValue)]) -> Case {
    let mut extended = case.clone();
    for (name, value) in values {
        extended.values.retain(|(existing, _)| existing != name);
        extended.values.push((name.clone(), value.clone()));
    }
    extended
}

const MAX_QUOTED_CHARS: usize = 60;

/// Lines that were skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Number of skipped lines. Blank lines and headers are not included.
    pub lines: u64,
    /// Beginning of the first skipped line.
    pub first: Option<String>,
}

impl SkippedLines {
    /// Counts a line, unless it is blank.
    pub fn add_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        self.first.get_or_insert_with(|| {
            let text = String::from_utf8_lossy(line);
            text.chars().take(MAX_QUOTED_CHARS).collect()
        });
    }

    /// Returns a warning for the user, if lines were skipped.
    pub fn warning(&self) -> Option<String> {
        let first = self.first.as_deref()?;
        let (lines, were) = match self.lines {
            1 => ("line", "was"),
            _ => ("lines", "were"),
        };
        Some(format!(
            "{} {lines} without a result {were} left out; the first is '{first}'",
            self.lines
        ))
    }
}

/// Counts entries that cannot be read, so that the other entries of the file can be imported.
#[derive(Debug, Default)]
pub struct DroppedEntries {
    count: usize,
    first: Option<Error>,
}

impl DroppedEntries {
    /// Returns the value. Counts and drops an error.
    pub fn ok_or_count<T>(&mut self, read: Result<T>) -> Option<T> {
        let drop_error = |error| {
            self.count += 1;
            self.first.get_or_insert(error);
        };
        read.map_err(drop_error).ok()
    }

    /// Returns a warning about the dropped entries, if there are any.
    ///
    /// # Errors
    /// Fails with the error of the first dropped entry if `is_all` states that no entry could be
    /// read at all.
    pub fn into_warning(self, is_all: bool) -> Result<Option<String>> {
        let Some(first) = self.first else { return Ok(None) };
        if is_all {
            return Err(first);
        }
        let reason = ErrorText::from_error(&first).message;
        Ok(Some(match self.count {
            1 => format!("an entry that cannot be read was left out: {reason}"),
            count => {
                format!(
                    "{count} entries that cannot be read were left out; the first one: {reason}"
                )
            }
        }))
    }
}

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub struct InputFile<'a> {
    /// The name by which the user refers to the file: a path, or `-`.
    pub label: &'a str,
    /// Whole content of the file.
    pub bytes: &'a [u8],
    /// Directions of metrics, for files that do not state them.
    pub better: &'a MetricDirections,
}

static NO_DIRECTIONS: MetricDirections = MetricDirections { all: None, of: BTreeMap::new() };

impl<'a> InputFile<'a> {
    /// Creates a file for whose metrics the user has stated no directions.
    pub fn new(label: &'a str, bytes: &'a [u8]) -> InputFile<'a> {
        InputFile { label, bytes, better: &NO_DIRECTIONS }
    }
}

/// Directions of metrics, as given by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricDirections {
    /// Direction of every metric that has no entry in `of`.
    pub all: Option<MetricDirection>,
    /// Directions of individual metrics, by name.
    pub of: BTreeMap<String, MetricDirection>,
}

impl MetricDirections {
    /// Name that the option `--set` uses for these directions.
    pub const NAME: &'static str = "better";

    /// Parses `better=less` or `better.METRIC=more` from the command line; returns false for any
    /// other name.
    ///
    /// # Errors
    /// Fails if the value is neither `more` nor `less`.
    pub fn set_direction(&mut self, name: &str, value: &str) -> Result<bool> {
        let metric = match name.strip_prefix(MetricDirections::NAME) {
            Some("") => None,
            Some(suffix) if suffix.starts_with('.') => Some(&suffix[1..]),
            _ => return Ok(false),
        };
        let better = match value {
            "less" => MetricDirection::Lower,
            "more" => MetricDirection::Higher,
            other => {
                bail!(
                    "unknown direction '{other}'\nhint: use --set {name}=less or --set {name}=more"
                )
            }
        };
        match metric {
            Some(metric) => drop(self.of.insert(metric.to_owned(), better)),
            None => self.all = Some(better),
        }
        Ok(true)
    }

    /// Returns the direction of a metric, if the user has given one.
    pub fn direction_of(&self, metric: &str) -> Option<MetricDirection> {
        self.of.get(metric).copied().or(self.all)
    }

    /// Returns the direction of a metric for which the file states no direction.
    ///
    /// # Errors
    /// Fails if the user has not given a direction; the message explains how to give one.
    pub fn require_direction(&self, metric: &str) -> Result<MetricDirection> {
        self.direction_of(metric).with_context(|| {
            format!(
                "the file does not state whether more or less of '{metric}' is better\n\
                 hint: speedwell import FILE --set better=less, or --set 'better.{metric}=more' for this metric alone"
            )
        })
    }
}

const MAX_SUBJECT_CHARS: usize = 200;

/// Facts that identify the session of a result.
#[derive(Debug, Clone, Default)]
pub struct PointKey {
    /// Name of the suite, or the name that the file gives to benchmarks that are measured together.
    pub suite: String,
    /// A time or the name of a report. It distinguishes results of the same revision, machine and
    /// environment.
    pub key: String,
    /// Measured code.
    pub origin: CodeOrigin,
    /// Environment of the measurement.
    pub environment: Environment,
    /// Name of the environment, if a machine has several.
    pub environment_name: String,
    /// Start of the measurement.
    pub started_unix_ms: Option<i64>,
}

impl PointKey {
    /// Returns the id of the session, derived from these facts and `format`.
    pub fn session_id(&self, format: &str) -> String {
        let machine = self.environment.machine.as_deref();
        let branch = self.origin.branch.as_deref();
        let facts = [
            format,
            &self.suite,
            &self.origin.revision,
            branch.unwrap_or_default(),
            machine.unwrap_or_default(),
            &self.environment_name,
            &self.key,
        ];
        // Different facts have different JSON texts, and therefore different ids.
        let text = serde_json::json!(facts).to_string();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string()
    }
}

/// Returns the id of a part of an imported session. Part 0 is the session of the first import. Each
/// later import of the file may add a part that holds the new content.
pub fn part_id(id: &str, part: u32) -> String {
    match part {
        0 => id.to_owned(),
        later => format!("{id}.{}", later + 1),
    }
}

/// The sessions of a file, in file order.
#[derive(Debug)]
pub struct FileSessions {
    format: &'static str,
    sessions: IndexMap<String, (CodeOrigin, SessionBuilder)>,
}

impl FileSessions {
    /// Creates an empty collection. `format` names the file format and is part of the session ids.
    pub fn new(format: &'static str) -> FileSessions {
        FileSessions { format, sessions: IndexMap::new() }
    }

    /// Returns the session for these facts, creating it if needed.
    pub fn session_for(&mut self, key: PointKey) -> &mut SessionBuilder {
        let id = key.session_id(self.format);
        let PointKey { origin, environment, started_unix_ms, .. } = key;
        let new = || {
            (origin, SessionBuilder { environment, started_unix_ms, ..SessionBuilder::default() })
        };
        &mut self.sessions.entry(id).or_insert_with(new).1
    }

    /// Returns all non-empty sessions. `label` is the user's name for the file.
    ///
    /// # Errors
    /// Fails if no session has results, or a value is invalid.
    pub fn into_sessions(self, label: &str) -> Result<Vec<Session>> {
        let non_empty = self.sessions.into_iter().filter(|(_, (_, imported))| !imported.is_empty());
        let session = |(id, (origin, imported)): (String, (CodeOrigin, SessionBuilder))| {
            let origin = Some(origin).filter(|origin| !origin.revision.is_empty());
            Ok(Session { id, origin, ..imported.into_session(label)? })
        };
        let sessions: Vec<Session> = non_empty.map(session).collect::<Result<_>>()?;
        ensure!(!sessions.is_empty(), "it contains no results");
        Ok(sessions)
    }
}

/// Creates an origin from a revision named in a file.
pub fn revision_origin(id: &str) -> CodeOrigin {
    CodeOrigin { revision: id.to_owned(), source: OriginSource::File, ..CodeOrigin::default() }
}

/// Returns the first line of a commit message, without control characters and truncated.
pub fn commit_subject(message: &str) -> Option<String> {
    let line = message.lines().next()?.trim();
    let printable = line.chars().filter(|character| !character.is_control());
    let subject: String = printable.take(MAX_SUBJECT_CHARS).collect();
    (!subject.is_empty()).then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported_file(times: &[f64]) -> Session {
        let rows: Vec<String> = times
            .iter()
            .map(|time| {
                format!(
                    r#"{{"name":"a","run_type":"iteration","real_time":{time},"cpu_time":1,"time_unit":"ns"}}"#
                )
            })
            .collect();
        let text = format!(r#"{{"benchmarks":[{}]}}"#, rows.join(","));
        crate::read("f", text.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn each_file_is_a_run_and_its_repetitions_are_samples() {
        let files = [&[1.0, 2.0, 9.0][..], &[4.0], &[5.0, 7.0]];
        let files = files.map(|times| (imported_file(times), None)).to_vec();
        let merged = merge_sessions("old", files).unwrap();
        let values: Vec<f64> =
            merged.runs.iter().filter_map(|run| run.value_of("real_time")).collect();
        assert_eq!(values, [2.0, 4.0, 6.0]);
        let blocks: Vec<(u32, u32)> = merged.runs.iter().map(|run| (run.slot, run.block)).collect();
        assert_eq!(blocks, [(0, 0), (1, 1), (2, 2)]);
        assert!(merged.runs.iter().all(|run| run.notes.is_empty()));
    }

    #[test]
    fn a_metric_has_one_unit() {
        let mut other = imported_file(&[1.0]);
        other.metrics[0].unit = "s".into();
        let error =
            merge_sessions("old", vec![(imported_file(&[1.0]), None), (other, None)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its files have different units for 'real_time': 'ns' and 's'"
        );
    }

    #[test]
    fn a_parameter_is_added_or_replaced() {
        let case = Case::parse("a n=1 len=2").unwrap();
        let case = with_parameters(
            &case,
            &[("n".into(), ParameterValue::Number(5.0)), ("m".into(), ParameterValue::Number(6.0))],
        );
        assert_eq!(case.id(), "a len=2 m=6 n=5");
    }

    #[test]
    fn a_direction_can_be_set_for_all_metrics_or_a_single_one() {
        let mut better = MetricDirections::default();
        assert!(better.require_direction("ops").is_err());
        assert!(better.set_direction("better", "less").unwrap());
        assert!(better.set_direction("better.ops", "more").unwrap());
        assert!(!better.set_direction("betterment", "more").unwrap());
        assert_eq!(better.direction_of("time"), Some(MetricDirection::Lower));
        assert_eq!(better.require_direction("ops").unwrap(), MetricDirection::Higher);
        let error = better.set_direction("better", "up").unwrap_err().to_string();
        assert!(error.starts_with("unknown direction 'up'\nhint: "), "{error}");
    }

    #[test]
    fn session_ids_depend_on_the_suite_the_key_and_the_format() {
        let key_of = |suite: &str, key: &str| PointKey {
            suite: suite.into(),
            key: key.into(),
            ..PointKey::default()
        };
        assert_eq!(key_of("a", "b").session_id("f"), key_of("a", "b").session_id("f"));
        let ids = [
            key_of("a", "b").session_id("f"),
            key_of("ab", "").session_id("f"),
            key_of("a", "b").session_id("g"),
        ];
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(part_id("x", 0), "x");
        assert_eq!(part_id("x", 1), "x.2");
    }

    #[test]
    fn a_commit_subject_is_one_short_line_without_control_characters() {
        assert_eq!(commit_subject("fix \u{1b}[31mred\n\nlong").unwrap(), "fix [31mred");
        assert_eq!(commit_subject(&"x".repeat(500)).unwrap().len(), MAX_SUBJECT_CHARS);
        assert_eq!(commit_subject(" \n"), None);
    }
}
