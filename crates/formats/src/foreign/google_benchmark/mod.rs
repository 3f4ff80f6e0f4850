//! Reads JSON files that google/benchmark writes, in version 1 of its schema
//! (`json_schema_version`).
//!
//! Decides the meaning of the keys of a row and of the context, for imported files and measured
//! programs alike. A row is a repetition, or an aggregate over several repetitions; a number under a
//! key that the library itself does not write is a counter. A large file has hundreds of thousands
//! of rows, so they are read one by one, directly from the text. Start at [`GoogleBenchmarkFile`],
//! or at [`ResultFile`], which reads a file without converting it.

use crate::foreign::json::{self, JsonNode};
use crate::foreign::suites::ReportedResult;
use crate::foreign::to_sentence;
use anyhow::{Context, Result, anyhow, ensure};
use indexmap::IndexSet;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{self, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use speedwell_model::{
    Environment, FailureCause, MeasuredProgram, Metric, MetricDirection, Sample,
};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

mod entry;

pub use entry::{FileEntries, GoogleBenchmarkEntry, ResultFile};

/// Returns the `--benchmark_filter` for exactly this benchmark. The library accepts POSIX extended
/// or ECMAScript expressions, so only characters that are special in both are escaped.
pub fn exact_filter(name: &str) -> String {
    let escape = |character: char| match character {
        special if "\\^$.|?*+()[]{}".contains(special) => format!("\\{special}"),
        other => other.into(),
    };
    format!("^{}$", name.chars().map(escape).collect::<String>())
}

/// The only version of the schema so far.
const SCHEMA_VERSION: f64 = 1.0;

/// Content of a file.
#[derive(Debug)]
pub struct GoogleBenchmarkFile {
    /// Description of machine, library and program; null if the file has none.
    pub context: Value,
    /// Repetitions and aggregates, in file order.
    pub rows: Vec<GoogleBenchmarkRow>,
}

/// The keys of a file that are read. The rows remain unparsed JSON.
#[derive(Deserialize)]
struct FileOutline<'a> {
    #[serde(default)]
    context: Value,
    #[serde(borrow)]
    benchmarks: Option<Vec<&'a RawValue>>,
}

impl GoogleBenchmarkFile {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Fails if the file is not JSON, has an unsupported schema version, or has a missing or
    /// invalid value; the message names the location of the value.
    pub fn read(bytes: &[u8]) -> Result<GoogleBenchmarkFile> {
        json::read_lenient(bytes, |text| {
            serde_json::from_str::<FileOutline<'_>>(text).map(GoogleBenchmarkFile::from_outline)
        })?
    }

    fn from_outline(outline: FileOutline<'_>) -> Result<GoogleBenchmarkFile> {
        let context = outline.context;
        check_version(&context)?;
        let benchmarks = outline.benchmarks.context("the key 'benchmarks' is missing")?;
        let rows = benchmarks.iter().enumerate().map(parse_row).collect::<Result<_>>()?;
        Ok(GoogleBenchmarkFile { context, rows })
    }
}

/// Rejects a file whose schema has another version; accepts a file that states no version.
fn check_version(context: &Value) -> Result<()> {
    let version = JsonNode::at_location("context".to_owned(), context).get("json_schema_version");
    if let Some(version) = version {
        ensure!(
            version.number()? == SCHEMA_VERSION,
            "unsupported json_schema_version {}: expected {SCHEMA_VERSION}",
            version.value()
        );
    }
    Ok(())
}

fn parse_row((index, text): (usize, &&RawValue)) -> Result<GoogleBenchmarkRow> {
    serde_json::from_str(text.get()).map_err(|error| {
        // The error counts its line and column from the start of the row, so replace them with the
        // index of the row.
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        anyhow!("in 'benchmarks[{index}]': {message}")
    })
}

/// Wall time per iteration.
pub const REAL_TIME: &str = "real_time";
/// CPU time per iteration.
pub const CPU_TIME: &str = "cpu_time";

/// The metrics that the library itself defines, each with its name, unit and direction. The two
/// rates come from `SetItemsProcessed` and `SetBytesProcessed`, and the last four metrics from a
/// memory manager.
const KNOWN_METRICS: [(&str, &str, MetricDirection); 8] = [
    (REAL_TIME, "ns", MetricDirection::Lower),
    (CPU_TIME, "ns", MetricDirection::Lower),
    ("items_per_second", "1/s", MetricDirection::Higher),
    ("bytes_per_second", "B/s", MetricDirection::Higher),
    ("allocs_per_iter", "", MetricDirection::Lower),
    ("max_bytes_used", "B", MetricDirection::Lower),
    ("total_allocated_bytes", "B", MetricDirection::Lower),
    ("net_heap_growth", "B", MetricDirection::Lower),
];

/// Endings of the names that libpfm gives to hardware events. For all of these events, fewer are
/// better.
const EVENT_SUFFIXES: [&str; 4] = ["cycles", "instructions", "misses", "faults"];

/// Returns the metric of a time or counter. Counters have no unit, so the direction can only be
/// inferred from the name.
pub fn metric_for_name(name: &str) -> Metric {
    if let Some((_, unit, better)) =
        KNOWN_METRICS.iter().find(|(known_name, ..)| *known_name == name)
    {
        return Metric::new(name, *unit, *better);
    }
    let lower = name.to_ascii_lowercase();
    if EVENT_SUFFIXES.iter().any(|event| lower.ends_with(event)) {
        return Metric::new(name, "", MetricDirection::Lower);
    }
    let unit = if lower.ends_with("_per_second") { "1/s" } else { "" };
    let is_rate = MetricDirection::of_unit(name) == MetricDirection::Higher;
    let better = if is_rate { MetricDirection::Higher } else { MetricDirection::Unknown };
    Metric::new(name, unit, better)
}

/// Keys that are read separately or are irrelevant for comparisons. Any other key whose value is a
/// string is stored as a fact of the environment, because the library writes custom context
/// (`--benchmark_context`) next to its own keys.
const NON_FACT_KEYS: [&str; 3] = ["date", "host_name", "executable"];

/// Returns the environment of the measurement, with the executable as the program of `variant`.
///
/// # Errors
/// Fails if a known key has a value of the wrong type.
pub fn read_environment(context: &JsonNode<'_>, variant: &str) -> Result<Environment> {
    let flag = |key: &str| context.get(key).map(|node| node.is_true());
    let mut environment = Environment {
        host: context.text_of("host_name")?.map(str::to_owned),
        cpus: context.number_of("num_cpus")?.map(|count| count as u32),
        aslr: flag("aslr_enabled"),
        ..Environment::default()
    };
    let averages = context.elements_of("load_avg")?;
    let load = averages.iter().map(JsonNode::number).collect::<Result<Vec<f64>>>()?;
    environment.load = load.try_into().ok();
    let facts = &mut environment.facts;
    for (key, value) in context.members().filter(|(key, _)| !NON_FACT_KEYS.contains(key)) {
        let fact = value.as_str().map(|fact| (key.to_owned(), fact.to_owned()));
        facts.extend(fact);
    }
    let mhz =
        context.number_of("mhz_per_cpu")?.map(|mhz| ("mhz_per_cpu".to_owned(), mhz.to_string()));
    facts.extend(mhz);
    facts.extend(format_caches(context)?.map(|caches| ("caches".to_owned(), caches)));
    let scaling = flag("cpu_scaling_enabled").map(|on| if on { "on" } else { "off" });
    facts.extend(scaling.map(|state| ("cpu_scaling".to_owned(), state.to_owned())));
    environment.programs.extend(context.text_of("executable")?.map(|path| MeasuredProgram {
        variant: variant.to_owned(),
        path: path.into(),
        ..MeasuredProgram::default()
    }));
    Ok(environment)
}

/// Formats caches like `L1 Data 32768 B, L2 Unified 1048576 B shared by 2`.
fn format_caches(context: &JsonNode<'_>) -> Result<Option<String>> {
    let mut caches = Vec::new();
    for cache in context.elements_of("caches")? {
        let level = cache.require("level")?.number()?;
        let kind = cache.require("type")?.text()?;
        let size = cache.require("size")?.number()?;
        let sharing = cache.number_of("num_sharing")?.filter(|count| *count > 1.0);
        let shared = sharing.map_or(String::new(), |count| format!(" shared by {count}"));
        caches.push(format!("L{level} {kind} {size} B{shared}"));
    }
    Ok((!caches.is_empty()).then(|| caches.join(", ")))
}

/// Returns when the program ran; `None` if the date has no UTC offset, as in old files.
pub fn started_unix_ms(context: &JsonNode<'_>) -> Option<i64> {
    let date = context.get("date")?.text().ok()?;
    let date: Timestamp = date.parse().ok()?;
    Some(date.as_second() * 1_000)
}

/// Returns problems that affect all figures. The library warns about the same problems at run time.
pub fn context_warnings(context: &JsonNode<'_>) -> Vec<String> {
    let mut remarks = Vec::from_iter(debug_build_warning(context));
    if context.get("cpu_scaling_enabled").is_some_and(|node| node.is_true()) {
        remarks.push("CPU frequency scaling was enabled while measuring".to_owned());
    }
    remarks
}

/// Returns a warning if the library itself was built without optimization.
pub fn debug_build_warning(context: &JsonNode<'_>) -> Option<String> {
    let build = context.get("library_build_type")?;
    (build.value() == "debug")
        .then(|| "the benchmark library is a debug build, so times are too long".to_owned())
}

/// Note on a run whose wall time says little about the code.
const WAITING_NOTE: &str = "Wall time was more than a tenth above CPU time: the machine was busy, \
     or the code waits; --metric cpu_time shows CPU time.";

/// Reason for the failure of benchmarks that have the same name.
const SAME_NAME_REASON: &str = "several benchmarks of the program have this name, and nothing tells them apart; give each a unique name";

/// Parses the JSON that one process of a program writes. The repetitions of a benchmark are its
/// samples. If the JSON contains only aggregates, the median is stored as the only sample.
///
/// # Errors
/// Fails if the bytes are not JSON as the library writes it; the message names the location.
pub fn read_reported(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let file = GoogleBenchmarkFile::read(bytes)?;
    let context = JsonNode::at_location("context".to_owned(), &file.context);
    let remark = debug_build_warning(&context).map(|remark| to_sentence(&remark));
    let names: IndexSet<&str> = file.rows.iter().map(|row| row.name.as_str()).collect();
    let mut reported: Vec<ReportedResult> =
        names.into_iter().filter_map(|name| read_benchmark(name, &file)).collect();
    reported.iter_mut().for_each(|reported| reported.notes.extend(remark.clone()));
    Ok(reported)
}

fn read_benchmark(name: &str, file: &GoogleBenchmarkFile) -> Option<ReportedResult> {
    let named_rows = || file.rows.iter().filter(|row| row.name == name);
    let mut rows: Vec<&GoogleBenchmarkRow> =
        named_rows().filter(|row| !row.is_aggregate()).collect();
    if rows.is_empty() {
        rows.extend(named_rows().find(|row| row.is_center("median")));
    }
    let mut reported = ReportedResult {
        notes: rows.first()?.figure_notes(),
        cause: rows.iter().find_map(|row| row.failure_cause()),
        ..ReportedResult::new(Some(name.to_owned()))
    };
    if rows.iter().any(|row| row.place != rows[0].place) {
        reported.cause = Some(FailureCause::invalid(SAME_NAME_REASON));
        return Some(reported);
    }
    if rows.iter().filter(|row| row.is_waiting() == Some(true)).count() > rows.len() / 2 {
        reported.notes.push(WAITING_NOTE.to_owned());
    }
    let mut metrics: Vec<(Metric, Arc<str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.failure_cause().is_none()) {
        reported.samples.extend(row.to_samples(|name| {
            if let Some((_, existing)) = metrics.iter().find(|(existing, _)| existing.name == name)
            {
                return existing.clone();
            }
            let shared: Arc<str> = Arc::from(name);
            metrics.push((metric_for_name(name), shared.clone()));
            shared
        }));
    }
    reported.metrics = metrics.into_iter().map(|(metric, _)| metric).collect();
    if let Some(reason) = reported.find_fault() {
        reported.samples.clear();
        reported.cause = Some(FailureCause::invalid(reason));
    }
    Some(reported)
}

const AGGREGATE_SUFFIXES: [&str; 6] = ["_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"];

/// Kind of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowKind {
    /// A repetition.
    Iteration,
    /// An aggregate over several repetitions, with its name, such as `median`.
    Aggregate(String),
    /// The row does not state its kind, as in files from before version 1.5 of the library.
    Unspecified,
}

/// A row.
#[derive(Debug)]
pub struct GoogleBenchmarkRow {
    /// Name of the benchmark with arguments and number of threads. In old files, the name of an
    /// aggregate includes a suffix such as `_mean`.
    pub name: String,
    /// Kind of the row.
    pub kind: RowKind,
    /// Iterations over all threads; for an aggregate, the number of repetitions.
    pub iterations: Option<f64>,
    /// Number of threads.
    pub threads: f64,
    /// Wall time per iteration.
    pub real_ns: Option<f64>,
    /// CPU time per iteration.
    pub cpu_ns: Option<f64>,
    /// Counters in file order.
    pub counters: Vec<(String, f64)>,
    /// Results of fitting a complexity to the times of a whole family: the coefficients (BigO) and
    /// the error (RMS).
    pub fit: Vec<(Metric, f64)>,
    /// Complexity of a family, such as `NlgN`.
    pub big_o: Option<String>,
    /// Index of the family in the program, and of the benchmark in its family, if stated.
    /// Repetitions of one benchmark share both numbers; two benchmarks with the same name do not.
    pub place: Option<(u64, u64)>,
    error: Option<String>,
    skipped: Option<String>,
    /// The label set by the program.
    pub label: Option<String>,
}

impl GoogleBenchmarkRow {
    /// Returns whether the row is an aggregate over several repetitions.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, RowKind::Aggregate(_)) || !self.fit.is_empty()
    }

    /// Returns whether the row is the aggregate with the given name, such as `median`, and has a
    /// time.
    pub fn is_center(&self, name: &str) -> bool {
        self.real_ns.is_some() && self.kind == RowKind::Aggregate(name.to_owned())
    }

    /// Returns the name without the suffix of aggregates; `None` if the name has no such suffix.
    pub fn base_name(&self) -> Option<&str> {
        AGGREGATE_SUFFIXES.iter().find_map(|end| self.name.strip_suffix(end))
    }

    /// Returns why the row has no result, if it has none.
    pub fn failure_cause(&self) -> Option<FailureCause> {
        match (&self.error, &self.skipped) {
            (Some(message), _) => Some(FailureCause::invalid(message)),
            (None, Some(reason)) => Some(FailureCause::Skipped { reason: reason.clone() }),
            (None, None) if self.real_ns.is_none() => {
                Some(FailureCause::invalid("real_time is missing"))
            }
            (None, None) => None,
        }
    }

    /// Returns the times and counters of the row. The function `metric` declares the metric with
    /// the given name, and returns the name as a string that all samples share.
    pub fn to_samples(&self, mut metric: impl FnMut(&str) -> Arc<str>) -> Vec<Sample> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate());
        let elapsed_ns = self.elapsed_ns();
        let times = [(REAL_TIME, self.real_ns, elapsed_ns), (CPU_TIME, self.cpu_ns, None)];
        let mut samples = Vec::with_capacity(times.len() + self.counters.len());
        for (name, value, elapsed_ns) in times {
            let sample = |value| Sample { metric: metric(name), value, elapsed_ns, iterations };
            samples.extend(value.map(sample));
        }
        samples.extend(self.counters.iter().map(|(name, value)| Sample {
            metric: metric(name),
            value: *value,
            elapsed_ns: None,
            iterations: None,
        }));
        samples
    }

    /// Returns whether the wall time of an iteration exceeds its CPU time by more than 10%. In
    /// that case the machine was busy, or the code sleeps or waits for I/O, and wall time says
    /// little about the code. Returns `None` with several threads or manual timing, where the two
    /// times need not agree.
    pub fn is_waiting(&self) -> Option<bool> {
        let comparable = self.threads <= 1.0 && !self.name.contains("/manual_time");
        let (real_ns, cpu_ns) = self.real_ns.zip(self.cpu_ns).filter(|_| comparable)?;
        Some(real_ns > 1.1 * cpu_ns)
    }

    /// Returns the duration of the measured section; `None` for an aggregate, and with several
    /// threads, whose iterations may have overlapped.
    pub fn elapsed_ns(&self) -> Option<u64> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate() && self.threads <= 1.0);
        iterations.zip(self.real_ns).map(|(iterations, each)| (iterations * each) as u64)
    }

    /// Returns notes on the figures of the row.
    pub fn figure_notes(&self) -> Vec<String> {
        let label = self.label.iter().map(|label| format!("Its label is '{label}'."));
        let aggregate = match &self.kind {
            RowKind::Aggregate(name) => Some(format!(
                "This is the {name} of {} repetitions, which are not in the file.",
                self.iterations.map_or("some".to_owned(), |count| count.to_string())
            )),
            _ => None,
        };
        label.chain(aggregate).collect()
    }
}

/// Keys that the library itself writes and that are not needed here.
const UNUSED_KEYS: [&str; 3] = ["repetitions", "repetition_index", "aggregate_unit"];

impl<'de> Deserialize<'de> for GoogleBenchmarkRow {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<GoogleBenchmarkRow, D::Error> {
        source.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = GoogleBenchmarkRow;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GoogleBenchmarkRow, A::Error> {
        let mut members = RowKeys::default();
        while let Some(BorrowedText(key)) = map.next_key::<BorrowedText<'de>>()? {
            members.read_key(&key, &mut map)?;
        }
        members.into_row()
    }
}

/// Values of the keys read so far. A null value is treated as absent, because null stands for a
/// number that is not finite.
#[derive(Default)]
struct RowKeys<'de> {
    name: Option<BorrowedText<'de>>,
    run_name: Option<BorrowedText<'de>>,
    run_type: Option<BorrowedText<'de>>,
    aggregate_name: Option<BorrowedText<'de>>,
    threads: Option<f64>,
    iterations: Option<f64>,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    time_unit: Option<BorrowedText<'de>>,
    real_coefficient: Option<f64>,
    cpu_coefficient: Option<f64>,
    rms: Option<f64>,
    big_o: Option<BorrowedText<'de>>,
    error_occurred: bool,
    error_message: Option<BorrowedText<'de>>,
    skipped: bool,
    skip_message: Option<BorrowedText<'de>>,
    label: Option<BorrowedText<'de>>,
    family_index: Option<f64>,
    per_family_instance_index: Option<f64>,
    counters: Vec<(String, f64)>,
}

impl<'de> RowKeys<'de> {
    fn read_key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = next_value(key, map)?,
            "run_name" => self.run_name = next_value(key, map)?,
            "run_type" => self.run_type = next_value(key, map)?,
            "aggregate_name" => self.aggregate_name = next_value(key, map)?,
            "threads" => self.threads = next_value(key, map)?,
            "iterations" => self.iterations = next_value(key, map)?,
            "real_time" => self.real_time = next_value(key, map)?,
            "cpu_time" => self.cpu_time = next_value(key, map)?,
            "time_unit" => self.time_unit = next_value(key, map)?,
            "real_coefficient" => self.real_coefficient = next_value(key, map)?,
            "cpu_coefficient" => self.cpu_coefficient = next_value(key, map)?,
            "rms" => self.rms = next_value(key, map)?,
            "big_o" => self.big_o = next_value(key, map)?,
            "error_message" => self.error_message = next_value(key, map)?,
            "skip_message" => self.skip_message = next_value(key, map)?,
            "label" => self.label = next_value(key, map)?,
            "family_index" => self.family_index = next_value(key, map)?,
            "per_family_instance_index" => self.per_family_instance_index = next_value(key, map)?,
            _ if UNUSED_KEYS.contains(&key) => drop(map.next_value::<IgnoredAny>()?),
            _ => {
                // A number is a counter, which may have any name.
                let text = map.next_value::<&RawValue>()?.get();
                match (key, text) {
                    ("error_occurred", "true") => self.error_occurred = true,
                    ("skipped", "true") => self.skipped = true,
                    _ if text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
                        let value = serde_json::from_str(text).map_err(A::Error::custom)?;
                        self.counters.push((key.to_owned(), value));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the results of a fit over a family, each with its metric.
    fn fit_figures(&self, ns_per_unit: f64) -> Vec<(Metric, f64)> {
        let figures = [
            ("real_coefficient", "ns", self.real_coefficient, ns_per_unit),
            ("cpu_coefficient", "ns", self.cpu_coefficient, ns_per_unit),
            ("rms", "", self.rms, 1.0),
        ];
        let metric = |(name, unit, figure, factor): (&str, &str, Option<f64>, f64)| {
            Some((Metric::new(name, unit, MetricDirection::Lower), figure? * factor))
        };
        figures.into_iter().filter_map(metric).collect()
    }

    fn into_row<E: de::Error>(self) -> Result<GoogleBenchmarkRow, E> {
        let factor = match self.real_time.or(self.cpu_time) {
            None if self.big_o.is_none() => 1.0,
            _ => ns_per_unit(self.time_unit.as_ref().map(|text| &*text.0))?,
        };
        let fit_figures = self.fit_figures(factor);
        let into_owned = |text: Option<BorrowedText<'de>>| text.map(|text| text.0.into_owned());
        let name = into_owned(self.name).ok_or_else(|| E::custom("the key 'name' is missing"))?;
        let kind = match self.run_type.as_ref().map(|text| &*text.0) {
            Some("aggregate") => {
                RowKind::Aggregate(into_owned(self.aggregate_name).unwrap_or_default())
            }
            Some(_) => RowKind::Iteration,
            None => RowKind::Unspecified,
        };
        let name = if fit_figures.is_empty() {
            name
        } else {
            // Old files have no key `run_name`, so the name of the family must be taken from the
            // name of the row.
            let mut suffixes = ["_BigO", "_RMS"].into_iter();
            suffixes.find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
        };
        let reason = |is_so: bool, message| is_so.then(|| into_owned(message).unwrap_or_default());
        Ok(GoogleBenchmarkRow {
            name: into_owned(self.run_name).unwrap_or(name),
            kind,
            iterations: self.iterations,
            threads: self.threads.unwrap_or(1.0),
            real_ns: self.real_time.map(|time| time * factor),
            cpu_ns: self.cpu_time.map(|time| time * factor),
            counters: self.counters,
            fit: fit_figures,
            big_o: into_owned(self.big_o),
            place: (self.family_index.zip(self.per_family_instance_index))
                .map(|(family, instance)| (family as u64, instance as u64)),
            error: reason(self.error_occurred, self.error_message),
            skipped: reason(self.skipped, self.skip_message),
            label: into_owned(self.label).filter(|label| !label.is_empty()),
        })
    }
}

/// Reads the value of a key. The value must have the type `T` or be null.
fn next_value<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    key: &str,
    map: &mut A,
) -> Result<Option<T>, A::Error> {
    let value = map.next_value::<Option<T>>();
    value.map_err(|error| A::Error::custom(format!("'{key}': {error}")))
}

fn ns_per_unit<E: de::Error>(unit: Option<&str>) -> Result<f64, E> {
    let unit = unit.ok_or_else(|| E::custom("the key 'time_unit' is missing"))?;
    nanoseconds_per(unit)
        .ok_or_else(|| E::custom(format!("'time_unit' is '{unit}', not ns, us, ms or s")))
}

/// Returns the nanoseconds in a unit that the library writes; `None` for any other unit.
pub fn nanoseconds_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// A string that is copied only if it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
