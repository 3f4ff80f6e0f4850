//! What a time or counter of a row measures. The file has only its name.
//!
//! Decides unit and good direction from the names that the library itself gives, and admits when
//! it guesses. Start at [`metric`].

use speedwell_model::{Better, Metric};

/// Wall time per iteration.
pub const REAL_TIME: &str = "real_time";
/// CPU time per iteration.
pub const CPU_TIME: &str = "cpu_time";

/// Times, and counters of the library itself: name, unit, good direction. The rates come from
/// `SetItemsProcessed` and `SetBytesProcessed`, the others from a memory manager.
const KNOWN: [(&str, &str, Better); 8] = [
    (REAL_TIME, "ns", Better::Lower),
    (CPU_TIME, "ns", Better::Lower),
    ("items_per_second", "1/s", Better::Higher),
    ("bytes_per_second", "B/s", Better::Higher),
    ("allocs_per_iter", "", Better::Lower),
    ("max_bytes_used", "B", Better::Lower),
    ("total_allocated_bytes", "B", Better::Lower),
    ("net_heap_growth", "B", Better::Lower),
];

/// Hardware events, whose names libpfm decides; all of them are costs.
const EVENTS: [&str; 4] = ["cycles", "instructions", "misses", "faults"];

/// The metric of a time or counter, and whether its direction is more than a guess.
pub fn metric(name: &str) -> (Metric, bool) {
    if let Some((_, unit, better)) = KNOWN.iter().find(|(known, ..)| *known == name) {
        return (Metric::new(name, *unit, *better), true);
    }
    if name.ends_with("_per_second") {
        return (Metric::new(name, "1/s", Better::Higher), true);
    }
    let lower = name.to_ascii_lowercase();
    let is_event = EVENTS.iter().any(|event| lower.ends_with(event));
    (Metric::new(name, "", Better::Lower), is_event)
}
