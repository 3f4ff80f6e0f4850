//! Text of benchmarks of Rust's own test harness: `test NAME ... bench:       1,234 ns/iter (+/- 56)`.
//!
//! The figure is a median over the samples of the harness, which it does not print; since Rust 1.79 with two decimals.

use super::{Reported, nanoseconds};
use crate::foreign::utf8;
use anyhow::{Context, Result};
use speedwell_model::{Case, Cause};

/// Reads what a benchmark program printed.
///
/// # Errors
/// Not UTF-8, or a figure that is none.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let mut found = Vec::new();
    for line in utf8(bytes)?.lines() {
        let Some((name, said)) =
            (line.strip_prefix("test ")).and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        // '<- benchmark' and the like are no part of the name.
        let mut reported = Reported::new(Some(name.trim().to_owned()));
        let said = said.trim();
        if let Some(figures) = said.strip_prefix("bench:") {
            let word = figures.split_whitespace().next().unwrap_or_default();
            let value: f64 = (word.replace(',', "").parse())
                .ok()
                .with_context(|| format!("'{word}' in the line '{line}' is not a number"))?;
            reported.add(&nanoseconds(), value, None);
        } else if said.starts_with("FAILED") || said.starts_with("failed") {
            reported.cause = Some(Cause::Invalid {
                reason: "failed".to_owned(),
            });
        } else if said.starts_with("ignored") {
            let reason = said.trim_start_matches("ignored").trim_start_matches(", ");
            reported.cause = Some(Cause::Skipped {
                reason: reason.to_owned(),
            });
        } else {
            continue;
        }
        found.push(reported);
    }
    Ok(found)
}

/// The benchmarks in a list: `NAME: benchmark`, one a line. Criterion writes its list in the same way.
pub fn list(text: &str) -> Vec<Case> {
    let names = text
        .lines()
        .filter_map(|line| line.strip_suffix(": benchmark"));
    names.map(|name| Case::new(name, Vec::new())).collect()
}
