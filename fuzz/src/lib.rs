//! What every fuzz target does: bytes are read as one format, and what comes out must hold.
//!
//! The targets are named after the formats. `scripts/fuzz` gives each a corpus of recorded files and
//! executes them one after the other.

pub mod served;

#[path = "../../crates/speedwell/tests/it/invariants.rs"]
mod invariants;

/// Reads `bytes` as the format of that name.
///
/// # Panics
/// Something does not hold, or there is no such format.
pub fn check(format: &str, bytes: &[u8]) {
    let format = speedwell_formats::FORMATS
        .iter()
        .find(|known| known.name == format)
        .unwrap_or_else(|| panic!("no format is called '{format}'"));
    // An error is a good outcome, too: what it must be like is part of the check.
    let _ = invariants::check(format, bytes);
}

/// Checks what a reader of a suite made of its bytes: every sample is a number of a metric that is declared, and a
/// message says something.
///
/// # Panics
/// Something does not hold.
pub fn check_suite(read: anyhow::Result<Vec<speedwell_formats::foreign::suites::ReportedResult>>) {
    let reported = match read {
        Ok(reported) => reported,
        Err(error) => {
            let message = format!("{error:#}");
            // It may quote whatever the bytes say; a panic ends the target by itself.
            assert!(!message.is_empty());
            return;
        }
    };
    for one in reported {
        for sample in &one.samples {
            let is_declared = one
                .metrics
                .iter()
                .any(|metric| *metric.name == *sample.metric);
            assert!(is_declared, "{sample:?}");
            let is_finite = |number: f64| number.is_finite();
            assert!(is_finite(sample.value), "{sample:?}");
            assert!(sample.iterations.is_none_or(is_finite), "{sample:?}");
        }
    }
}
