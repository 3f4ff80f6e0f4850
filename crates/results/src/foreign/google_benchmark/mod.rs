//! JSON of google/benchmark programs, `json_schema_version` 1 of the library's JSON reporter.
//!
//! Decides the meaning of the keys of a row and of the context, for imported files and measured
//! programs alike. Bounds the memory for large files by reading rows one by one. Start at [`File`],
//! or at [`ResultFile`] for an unconverted file.

use crate::foreign::json::{self, Node};
use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use speedwell_model::{Better, Metric};

pub mod context;
mod entry;
mod row;

pub use entry::{Entry, ResultFile, Results};
pub use row::{Kind, Row, ns_per};

/// Returns the `--benchmark_filter` for exactly this benchmark. The library accepts POSIX extended
/// or ECMAScript expressions, so only characters that are special in both are escaped.
pub fn filter(name: &str) -> String {
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
pub struct File {
    /// Machine, library, program; null if the file has none.
    pub context: Value,
    /// Repetitions and aggregates, in file order.
    pub rows: Vec<Row>,
}

/// The keys that are read, with unparsed rows.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(default)]
    context: Value,
    #[serde(borrow)]
    benchmarks: Option<Vec<&'a RawValue>>,
}

impl File {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The file is not JSON or has another version, or a value is missing, unknown or of the wrong
    /// type; the message names its location.
    pub fn read(bytes: &[u8]) -> Result<File> {
        json::with_text(bytes, |text| {
            serde_json::from_str::<Outline<'_>>(text).map(File::from_outline)
        })?
    }

    fn from_outline(outline: Outline<'_>) -> Result<File> {
        let context = outline.context;
        must_be_known(&context)?;
        let rows = outline
            .benchmarks
            .context("the key 'benchmarks' is missing")?;
        let rows = rows.iter().enumerate().map(row).collect::<Result<_>>()?;
        Ok(File { context, rows })
    }
}

/// Rejects a file of another version; accepts one without a version.
fn must_be_known(context: &Value) -> Result<()> {
    let version = Node::at("context".to_owned(), context).get("json_schema_version");
    if let Some(version) = version {
        ensure!(
            version.number()? == SCHEMA_VERSION,
            "its json_schema_version is {}; {SCHEMA_VERSION} is known",
            version.value()
        );
    }
    Ok(())
}

fn row((index, text): (usize, &&RawValue)) -> Result<Row> {
    serde_json::from_str(text.get()).map_err(|error| {
        // Line and column would refer to the row's text; its index is more useful.
        let error = error.to_string();
        let message = error
            .rsplit_once(" at line ")
            .map_or(&*error, |(message, _)| message);
        anyhow!("in 'benchmarks[{index}]': {message}")
    })
}

/// Wall time per iteration.
pub const REAL_TIME: &str = "real_time";
/// CPU time per iteration.
pub const CPU_TIME: &str = "cpu_time";

/// Times, and counters of the library itself: name, unit, direction. The rates come from
/// `SetItemsProcessed` and `SetBytesProcessed`, the others from a memory manager.
const KNOWN: [(&str, &str, Better); 8] = [
    (REAL_TIME, "ns", Better::Lower),
    (CPU_TIME, "ns", Better::Lower),
    ("items_per_second", "1/s", Better::Higher),
    ("bytes_per_second", "B/s", Better::Higher),
    ("allocs_per_iter", "", Better::Lower),
    ("max_bytes_used", "B", Better::Lower),
    ("total_allocated_bytes", "B", Better::Lower),
    ("net_heap_growth", "B", Better::Lower),
];

/// Suffixes of hardware events, whose names are defined by libpfm; all of them are costs.
const EVENTS: [&str; 4] = ["cycles", "instructions", "misses", "faults"];

/// Returns the metric of a time or counter. Counters have no unit, so only the name can tell the
/// direction.
pub fn metric(name: &str) -> Metric {
    if let Some((_, unit, better)) = KNOWN.iter().find(|(known, ..)| *known == name) {
        return Metric::new(name, *unit, *better);
    }
    let lower = name.to_ascii_lowercase();
    if EVENTS.iter().any(|event| lower.ends_with(event)) {
        return Metric::new(name, "", Better::Lower);
    }
    let unit = if lower.ends_with("_per_second") {
        "1/s"
    } else {
        ""
    };
    let is_rate = Better::of_unit(name) == Better::Higher;
    let better = if is_rate {
        Better::Higher
    } else {
        Better::Unknown
    };
    Metric::new(name, unit, better)
}
