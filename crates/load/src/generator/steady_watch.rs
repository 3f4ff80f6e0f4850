//! Finds the moment from which a load is steady, and lets the threads end.

use super::Progress;
use super::worker::TICK_NS;
use crate::load::{Load, Steady};
use crate::measured::Tick;
use std::sync::atomic::{AtomicU64, Ordering};

/// Looks at the course of a load that is to end when it is steady.
pub(super) struct SteadyWatch<'a> {
    steady: Option<Steady>,
    ticks: Vec<Tick>,
    end_ns: &'a AtomicU64,
}

impl<'a> SteadyWatch<'a> {
    /// Sets `end_ns` when the moment has come.
    pub fn new(load: &Load, end_ns: &'a AtomicU64) -> SteadyWatch<'a> {
        SteadyWatch {
            steady: load.steady,
            ticks: Vec::new(),
            end_ns,
        }
    }

    /// Another interval is over.
    pub fn see(&mut self, progress: &Progress) {
        let Some(steady) = self.steady.filter(|_| !progress.is_warmup) else {
            return;
        };
        self.ticks.push(progress.tick.clone());
        if steady.is_met(&self.ticks) {
            // The threads look at every tick: by the one after the next all of them know.
            self.end_ns
                .store(progress.at_ns + 2 * TICK_NS, Ordering::Relaxed);
            self.steady = None;
        }
    }
}
