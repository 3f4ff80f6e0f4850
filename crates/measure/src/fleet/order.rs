//! The request for a worker: one line of JSON for one attempt at one shard. The plan itself is in
//! the bundle.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use speedwell_analysis::Settings;
use speedwell_harness::plan::{Parcel, Plan, Prefixes};
use speedwell_model::Run;
use speedwell_results::spool::{self, Slots};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Path of the plan in a bundle.
pub const PLAN: &str = "plan.json";
/// Path of the program in a bundle.
pub const PROGRAM: &str = "bin/speedwell";
/// Placeholder for the bundle's folder in the paths of its plan; the actual folder is unknown when
/// the bundle is made.
pub const ROOT: &str = "/speedwell-bundle";

/// A request for one attempt at one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// ID of the session.
    pub session: String,
    /// Folder of the bundle on the machine.
    pub bundle: PathBuf,
    /// Index of the shard in the session.
    pub place: u32,
    /// Number of the attempt.
    pub attempt: u32,
    /// Name of the machine in the fleet.
    pub machine: String,
    /// Labels of the machine.
    pub labels: Vec<String>,
    /// The part of the plan to measure.
    pub parcel: Parcel,
    /// Slots that earlier attempts completed.
    pub done: BTreeSet<u32>,
    /// Completed slots that failed.
    pub failed: BTreeSet<u32>,
    /// Their runs, as lines of a spool.
    pub earlier: Vec<String>,
    /// Settings that decide when a case needs no more runs.
    pub settings: Settings,
}

impl Order {
    /// Parses the runs of earlier attempts.
    ///
    /// # Errors
    /// Fails if a line is malformed.
    pub fn earlier_runs(&self) -> anyhow::Result<Vec<Run>> {
        spool::runs_of_lines(&self.earlier)
    }

    /// Loads the part of the session's plan to measure, with the paths of this machine.
    ///
    /// # Errors
    /// Fails if the bundle has no plan, or the plan no such part.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        let file = self.bundle.join(PLAN);
        let read =
            || -> anyhow::Result<Plan> { Ok(serde_json::from_str(&fs::read_to_string(&file)?)?) };
        let plan = read().with_context(|| format!("cannot read '{}'", file.display()))?;
        // Benchmarks get the real path, not the symlink that leads there.
        let bundle = fs::canonicalize(&self.bundle)?;
        let here = Prefixes::new([(PathBuf::from(ROOT), bundle)]);
        plan.relocated(&here).part(&self.parcel)
    }

    /// Path of its spool in the session's folder.
    pub fn spool(&self, folder: &Path) -> PathBuf {
        spool_of(folder, self.place, self.attempt)
    }
}

/// Path of an attempt's spool in a session's folder.
pub fn spool_of(folder: &Path, place: u32, attempt: u32) -> PathBuf {
    folder
        .join("spools")
        .join(format!("{place}.{attempt}.jsonl"))
}

/// Path of the file that tells an attempt's worker, should it be alive, that another attempt
/// replaces it.
pub fn over_of(folder: &Path, place: u32, attempt: u32) -> PathBuf {
    folder
        .join("spools")
        .join(format!("{place}.{attempt}.over"))
}

/// Path of a task's request in a session's folder.
pub fn order_of(folder: &Path, task: u32) -> PathBuf {
    folder.join("orders").join(format!("{task}.json"))
}

/// Path of the file that tells the workers of a session to stop after their current block.
pub fn stop_of(folder: &Path) -> PathBuf {
    folder.join("stop")
}

/// The slots that a spool of this part may contain.
pub(super) fn slots_of(part: &Plan) -> Slots {
    let expected = part.slots().into_iter().map(|slot| {
        let variant = part.variants[slot.variant].name.clone();
        (
            slot.index,
            (part.place_in_whole(slot.job), slot.block, variant),
        )
    });
    expected.collect()
}
