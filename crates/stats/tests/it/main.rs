//! Integration tests: against R, scipy and published tables, as properties, and by simulation.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helper functions too")]

mod bootstrap_coverage;
mod change_points_ruptures;
mod design_limits;
mod distributions_r;
mod layout_components;
mod mann_whitney_scipy;
mod saturation_search_simulated;
mod signed_rank_scipy;
mod simulation;
mod stratified_exact;
mod stratified_properties;
mod trend_golden;
mod trend_simulated;
mod usl_r;
mod welch_anova_r;
mod welch_r;

/// A file of the golden folder.
fn golden_file(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that two numbers agree to a relative error.
#[track_caller]
fn assert_close(value: f64, reference: f64, tolerance: f64, what: &str) {
    let error = (value - reference).abs() / reference.abs().max(f64::MIN_POSITIVE);
    let equal = value == reference || error <= tolerance;
    assert!(equal, "{what}: {value:e} instead of {reference:e}, off by {error:e}");
}
