//! Defines the request that a coordinator sends to a worker: one line of JSON for one attempt at
//! one shard. The plan itself is in the bundle.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use speedwell_adapters::plan::{PlanShard, RelocationMap, SessionPlan};
use speedwell_analysis::AnalysisSettings;
use speedwell_formats::spool::{self, ShardSlots};
use speedwell_model::Run;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Path of the plan in a bundle.
pub const PLAN_PATH: &str = "plan.json";
/// Path of the program in a bundle.
pub const PROGRAM_PATH: &str = "bin/speedwell";
/// Placeholder for the bundle's folder in the paths of the plan. The actual folder is unknown when
/// the bundle is made.
pub const BUNDLE_PLACEHOLDER: &str = "/speedwell-bundle";

/// A request for one attempt at one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardRequest {
    /// ID of the session.
    pub session: String,
    /// Folder of the bundle on the machine.
    pub bundle: PathBuf,
    /// Index of the shard in the session.
    pub number: u32,
    /// Number of the attempt.
    pub attempt: u32,
    /// Name of the machine in the fleet.
    pub machine: String,
    /// Labels of the machine.
    pub labels: Vec<String>,
    /// The part of the plan to measure.
    pub shard: PlanShard,
    /// Slots (positions in the plan) that earlier attempts completed.
    pub done: BTreeSet<u32>,
    /// Completed slots that failed.
    pub failed: BTreeSet<u32>,
    /// Runs in the completed slots, as lines of a spool.
    pub earlier: Vec<String>,
    /// Settings that decide when a case needs no more runs.
    pub settings: AnalysisSettings,
}

impl ShardRequest {
    /// Parses the runs of earlier attempts.
    ///
    /// # Errors
    /// Fails if a line is malformed.
    pub fn earlier_runs(&self) -> anyhow::Result<Vec<Run>> {
        spool::parse_runs(&self.earlier)
    }

    /// Loads the part of the session's plan to measure, with the paths of this machine.
    ///
    /// # Errors
    /// Fails if the bundle has no plan, or if this part is not in the plan.
    pub fn load_plan(&self) -> anyhow::Result<SessionPlan> {
        let file = self.bundle.join(PLAN_PATH);
        let read = || -> anyhow::Result<SessionPlan> {
            Ok(serde_json::from_str(&fs::read_to_string(&file)?)?)
        };
        let plan = read().with_context(|| format!("cannot read '{}'", file.display()))?;
        // Benchmarks get the real path of the bundle instead of the symlink.
        let bundle = fs::canonicalize(&self.bundle)?;
        let relocation = RelocationMap::new([(PathBuf::from(BUNDLE_PLACEHOLDER), bundle)]);
        plan.relocated(&relocation).extract_shard(&self.shard)
    }

    /// Path of this attempt's spool, inside the session's folder.
    pub fn spool_path(&self, folder: &Path) -> PathBuf {
        attempt_spool_path(folder, self.number, self.attempt)
    }
}

/// Path of an attempt's spool, inside a session's folder.
pub fn attempt_spool_path(folder: &Path, shard: u32, attempt: u32) -> PathBuf {
    folder.join("spools").join(format!("{shard}.{attempt}.jsonl"))
}

/// Path of the marker file that tells an attempt's worker, if it is alive, that another attempt has
/// replaced this one.
pub fn replaced_marker(folder: &Path, shard: u32, attempt: u32) -> PathBuf {
    folder.join("spools").join(format!("{shard}.{attempt}.over"))
}

/// Path of a task's request, inside a session's folder.
pub fn request_path(folder: &Path, task: u32) -> PathBuf {
    folder.join("orders").join(format!("{task}.json"))
}

/// Path of the file that tells the workers of a session to stop after their current block.
pub fn stop_marker(folder: &Path) -> PathBuf {
    folder.join("stop")
}

/// Returns the slots that a spool may contain for this part of the plan.
pub(super) fn expected_slots(part: &SessionPlan) -> ShardSlots {
    let expected = part.slots().into_iter().map(|slot| {
        let variant = part.variants[slot.variant].name.clone();
        (slot.index, (part.index_in_whole(slot.job), slot.block, variant))
    });
    expected.collect()
}
