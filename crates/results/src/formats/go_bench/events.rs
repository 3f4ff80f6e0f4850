//! The output of `go test -json`: the same lines, wrapped in events.
//!
//! Decides how the text is put together again: packages are tested at the same time, so their
//! events are mixed. It must not know what the lines mean. The format is that of `go doc test2json`.

use crate::foreign::{json, utf8};
use anyhow::{Context, Result};
use indexmap::IndexMap;
use serde::Deserialize;

/// What is needed of an event; others have no output.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Package", default)]
    package: String,
    #[serde(rename = "Output", default)]
    output: String,
}

/// Whether bytes are events.
pub fn is_events(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').next();
    let keys = json::keys(first.unwrap_or_default());
    keys.contains(&(1, b"Action"))
}

/// What was printed, package by package.
///
/// # Errors
/// A line is no event; the message names it.
pub fn output(bytes: &[u8]) -> Result<String> {
    let mut packages: IndexMap<String, String> = IndexMap::new();
    for (line, number) in utf8(bytes)?.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(line).with_context(|| {
            format!("line {number} is no event of go test -json\nhint: is the file cut short?")
        })?;
        packages
            .entry(event.package)
            .or_default()
            .push_str(&event.output);
    }
    Ok(packages.into_values().collect())
}
