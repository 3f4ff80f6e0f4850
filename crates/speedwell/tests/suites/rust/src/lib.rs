//! The work measured by the benchmarks of three suites.

use std::path::PathBuf;
use std::time::Duration;

/// Amount of work of one operation: 1000 times the factor in `WORK`. If `HOLD` names a file, waits
/// until the file is gone.
pub fn amount() -> u64 {
    let hold = std::env::var_os("HOLD")
        .map(PathBuf::from)
        .unwrap_or_default();
    while hold.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let factor = std::env::var("WORK").ok();
    1000 * factor.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Does this much work.
pub fn work(amount: u64) -> u64 {
    (0..amount).fold(0, |sum, step| {
        std::hint::black_box(sum ^ step.wrapping_mul(31))
    })
}
