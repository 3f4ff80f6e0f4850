//! What the benchmarks of three suites measure.

/// How much one operation does; variants of a comparison set it.
pub fn amount() -> u64 {
    let set = std::env::var("WORK").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// Does so much.
pub fn work(amount: u64) -> u64 {
    (0..amount).fold(0, |sum, step| std::hint::black_box(sum ^ step.wrapping_mul(31)))
}
