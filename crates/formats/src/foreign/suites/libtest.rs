//! Parses output of Rust's built-in benchmarks: `test NAME ... bench:    1,234 ns/iter (+/- 56)`.
//!
//! The figure is a median over samples that are not printed. Since Rust 1.79, the figure has two
//! decimals.

use super::{ReportedResult, nanoseconds_measure, shorten_line};
use crate::foreign::require_utf8;
use anyhow::{Context, Result, ensure};
use speedwell_model::FailureCause;

/// Parses the output of a benchmark program.
///
/// # Errors
/// Fails if the output is not UTF-8, or a figure is not a number.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let mut results = Vec::new();
    for (line, line_number) in require_utf8(bytes)?.lines().zip(1..) {
        let Some((name, outcome)) =
            (line.strip_prefix("test ")).and_then(|result| result.split_once(" ... "))
        else {
            continue;
        };
        let mut reported = ReportedResult::new(Some(name.trim().to_owned()));
        let outcome = outcome.trim();
        if let Some(figures) = outcome.strip_prefix("bench:") {
            let word = figures.split_whitespace().next().unwrap_or_default();
            let value: f64 = (word.replace(',', "").parse()).ok().with_context(|| {
                format!("line {line_number}: '{}' is not a number", shorten_line(word))
            })?;
            ensure!(
                figures.contains(" ns/iter (") && figures.contains(')'),
                "line {line_number} does not end in 'ns/iter (+/- N)'\nhint: is the file cut short?"
            );
            (reported.add_value(&nanoseconds_measure(), value, None))
                .with_context(|| format!("line {line_number}"))?;
        } else if outcome.starts_with("FAILED") || outcome.starts_with("failed") {
            reported.cause = Some(FailureCause::Invalid { reason: "failed".to_owned() });
        } else if outcome.starts_with("ignored") {
            let reason = outcome.trim_start_matches("ignored").trim_start_matches(", ");
            reported.cause = Some(FailureCause::Skipped { reason: reason.to_owned() });
        } else {
            continue;
        }
        results.push(reported);
    }
    Ok(results)
}

/// Returns whether output ends before the line `test result` of its last program.
pub fn is_cut_short(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    count("running ") > count("test result: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_and_failures_are_named() {
        let text = "\nrunning 3 tests\ntest fold   ... bench:       1,383.17 ns/iter (+/- 361.32)\n\
                    test old ... bench:          12 ns/iter (+/- 0)\ntest panics ... FAILED\n\
                    test slow ... ignored, takes a day\n\ntest result: FAILED. 0 passed\n";
        let read = read(text.as_bytes()).unwrap();
        let names: Vec<&str> = read.iter().filter_map(|result| result.name.as_deref()).collect();
        assert_eq!(names, ["fold", "old", "panics", "slow"]);
        assert_eq!(read[0].samples[0].value, 1383.17);
        assert_eq!(read[1].samples[0].value, 12.0);
        assert!(matches!(read[2].cause, Some(FailureCause::Invalid { .. })));
        let skipped = FailureCause::Skipped { reason: "takes a day".to_owned() };
        assert_eq!(read[3].cause, Some(skipped));
        assert!(super::read(b"test fold ... bench: many ns/iter").is_err());
    }
}
