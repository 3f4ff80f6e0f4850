//! Reads JSON files that google/benchmark writes, in version 1 of its schema
//! (`json_schema_version`).
//!
//! Decides the meaning of the keys of a row and of the context, for imported files and measured
//! programs alike. Bounds the memory for large files by reading rows one by one. Start at
//! [`GoogleBenchmarkFile`], or at [`ResultFile`], which reads a file without converting it.

use crate::foreign::json::{self, JsonNode};
use crate::foreign::suites::ReportedResult;
use crate::foreign::to_sentence;
use anyhow::{Context, Result, anyhow, ensure};
use indexmap::IndexSet;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use speedwell_model::{Environment, FailureCause, MeasuredProgram, Metric, MetricDirection};
use std::sync::Arc;

mod entry;
mod row;

pub use entry::{FileEntries, GoogleBenchmarkEntry, ResultFile};
pub use row::{GoogleBenchmarkRow, RowKind, nanoseconds_per};

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
        load: (context.elements_of("load_avg")?.iter())
            .map(JsonNode::number)
            .collect::<Result<Vec<f64>>>()?
            .try_into()
            .ok(),
        ..Environment::default()
    };
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
    let reported = names.into_iter().filter_map(|name| read_benchmark(name, &file));
    Ok(reported
        .map(|mut reported| {
            reported.notes.extend(remark.clone());
            reported
        })
        .collect())
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
