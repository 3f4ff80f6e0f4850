//! What every fuzz target does: bytes are read as one format, and what comes out must hold.
//!
//! The targets are named after the formats. `scripts/fuzz` gives each a corpus of recorded files and
//! executes them one after the other.

#[path = "../../crates/speedwell/tests/it/invariants.rs"]
mod invariants;

/// Reads `bytes` as the format of that name.
///
/// # Panics
/// Something does not hold, or there is no such format.
pub fn check(format: &str, bytes: &[u8]) {
    let format = speedwell_results::formats::FORMATS
        .iter()
        .find(|known| known.name == format)
        .unwrap_or_else(|| panic!("no format is called '{format}'"));
    // An error is a good outcome, too: what it must be like is part of the check.
    let _ = invariants::check(format, bytes);
}
