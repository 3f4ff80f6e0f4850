//! A whole file: context and rows.
//!
//! Decides how much of a large file is in memory at once: its rows are taken one by one. The entry
//! point is [`File::read`].

use super::Row;
use crate::foreign::json::{self, Node};
use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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
            serde_json::from_str::<Outline<'_>>(text).map(File::of)
        })?
    }

    fn of(outline: Outline<'_>) -> Result<File> {
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
pub(super) fn must_be_known(context: &Value) -> Result<()> {
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
