//! Reads JSON files that google/benchmark writes, in version 1 of its schema
//! (`json_schema_version`).
//!
//! Decides the meaning of the keys of a row and of the context, for imported files and measured
//! programs alike. Bounds the memory for large files by reading rows one by one. Start at
//! [`GoogleBenchmarkFile`], or at [`ResultFile`], which reads a file without converting it.

use crate::foreign::json::{self, JsonNode};
use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use speedwell_model::{Metric, MetricDirection};

pub mod context;
mod entry;
mod row;

pub use entry::{FileEntries, GoogleBenchmarkEntry, ResultFile};
pub use row::{GoogleBenchmarkRow, RowKind, nanoseconds_per};

/// Returns the `--benchmark_filter` for exactly this benchmark. The library accepts POSIX extended
/// or ECMAScript expressions, so only characters that are special in both are escaped.
pub fn exact_filter(name: &str) -> String {
    let mut pattern = String::from("^");
    for character in name.chars() {
        if "\\^$.|?*+()[]{}".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "$"
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
        let rows = outline
            .benchmarks
            .context("the key 'benchmarks' is missing")?
            .iter()
            .enumerate()
            .map(parse_row)
            .collect::<Result<_>>()?;
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
