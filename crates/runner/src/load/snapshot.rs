//! How a load stands, for a live view: a few figures that travel cheaply between processes.

use serde::{Deserialize, Serialize};
use speedwell_load::generator::Progress;
use speedwell_load::measured::Tick;

/// A look at a load in its course.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the start, the warm-up included.
    pub at_ns: u64,
    /// The load is in its warm-up.
    pub is_warmup: bool,
    /// Requests begun since the end of the warm-up, or so far within it.
    pub attempted: u64,
    /// Requests that failed since then.
    pub errors: u64,
    /// Length of the last interval in nanoseconds.
    pub interval_ns: u64,
    /// What happened in the last interval.
    pub tick: Tick,
}

impl Snapshot {
    /// A look at one generator.
    pub fn of(progress: &Progress) -> Snapshot {
        Snapshot {
            at_ns: progress.at_ns,
            is_warmup: progress.is_warmup,
            attempted: progress.so_far.outcomes.attempts(),
            errors: progress.so_far.outcomes.all_errors(),
            interval_ns: progress.interval_ns,
            tick: progress.tick.clone(),
        }
    }

    /// Several generators that send parts of the same load, as one.
    pub fn together(parts: &[Snapshot]) -> Snapshot {
        let mut all = Snapshot::default();
        for part in parts {
            all.at_ns = all.at_ns.max(part.at_ns);
            all.is_warmup |= part.is_warmup;
            all.attempted += part.attempted;
            all.errors += part.errors;
            all.interval_ns = all.interval_ns.max(part.interval_ns);
            all.tick.ok += part.tick.ok;
            all.tick.errors += part.tick.errors;
            all.tick.p50_ns = all.tick.p50_ns.max(part.tick.p50_ns);
            all.tick.p99_ns = all.tick.p99_ns.max(part.tick.p99_ns);
            all.tick.most_ns = all.tick.most_ns.max(part.tick.most_ns);
        }
        all
    }
}
