//! JSON of google/benchmark programs, `json_schema_version` 1 of the library's JSON reporter.
//!
//! Decides what the members of a row and of the context mean. It must not know whether a file is
//! imported or a program is measured. How much of a large file is in memory at once is decided here, too: its rows are taken one by
//! one. Start at [`File`]; at [`ResultFile`] for a file as it stands.

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

/// A value for `--benchmark_filter` that means this benchmark alone. The library takes POSIX
/// extended or ECMAScript expressions, so nothing is escaped that is not special in both.
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

/// The only layout there has been.
const SCHEMA_VERSION: f64 = 1.0;

/// What a file says.
#[derive(Debug)]
pub struct File {
    /// Machine, library, program; null if the file has none.
    pub context: Value,
    /// Repetitions and aggregates, in the order of the file.
    pub rows: Vec<Row>,
}

/// The members of interest, not looked into.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(default)]
    context: Value,
    #[serde(borrow)]
    benchmarks: Option<Vec<&'a RawValue>>,
}

impl File {
    /// Reads all of a file.
    ///
    /// # Errors
    /// The file is no JSON or of another version, or a value is missing, unknown or of another
    /// type; the message names its place.
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

/// Refuses a file of another version; one that does not say is taken.
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
        // Line and column would be those within the row; its number says more.
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

/// Times, and counters of the library itself: name, unit, good direction. The rates come from
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

/// Hardware events, whose names libpfm decides; all of them are costs.
const EVENTS: [&str; 4] = ["cycles", "instructions", "misses", "faults"];

/// The metric of a time or counter. A counter has no unit, so its name tells the direction, if anything does.
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
