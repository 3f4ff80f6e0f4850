//! Checks that fuzz targets share: reads bytes as one format and checks what comes out.
//!
//! Targets are named after the formats. `scripts/fuzz` gives each a corpus of recorded files and
//! executes them one after the other.

pub mod served;

#[path = "../../crates/speedwell/tests/it/invariants.rs"]
mod invariants;

/// Reads `bytes` as the format with this name.
///
/// # Panics
/// Panics if an invariant is violated, or the format is unknown.
pub fn check(format: &str, bytes: &[u8]) {
    let format = speedwell_formats::FORMATS
        .iter()
        .find(|known| known.name == format)
        .unwrap_or_else(|| panic!("unknown format '{format}'"));
    // An error is a good outcome, too; `invariants` checks its message.
    let _ = invariants::check(format, bytes);
}

/// Checks the results that a reader of a framework's output returns: each sample is finite and
/// belongs to a declared metric. An error must have a message.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn check_suite(read: anyhow::Result<Vec<speedwell_formats::foreign::suites::ReportedResult>>) {
    let reported = match read {
        Ok(reported) => reported,
        Err(error) => {
            assert!(!format!("{error:#}").is_empty());
            return;
        }
    };
    for result in reported {
        for sample in &result.samples {
            let is_declared = result.metrics.iter().any(|metric| *metric.name == *sample.metric);
            assert!(is_declared, "{sample:?}");
            assert!(sample.value.is_finite(), "{sample:?}");
            assert!(sample.iterations.is_none_or(f64::is_finite), "{sample:?}");
        }
    }
}
