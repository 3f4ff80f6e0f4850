//! What a worker is told: one line of JSON for one attempt at one parcel. What the session is about lies in its bundle.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use speedwell_analysis::Settings;
use speedwell_harness::plan::{Parcel, Plan, Prefixes};
use speedwell_model::Run;
use speedwell_results::spool::{self, Slots};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the plan lies in a bundle.
pub const PLAN: &str = "plan.json";
/// Where the program lies in a bundle.
pub const PROGRAM: &str = "bin/speedwell";
/// What stands for the bundle's folder in paths of its plan: where it will lie is not known when it is made.
pub const ROOT: &str = "/speedwell-bundle";

/// One attempt at one parcel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The session's identity.
    pub session: String,
    /// The folder of the bundle on the machine.
    pub bundle: PathBuf,
    /// The parcel's place in the session.
    pub place: u32,
    /// Which attempt at it.
    pub attempt: u32,
    /// What the fleet calls the machine, and its labels.
    pub machine: String,
    /// Names that it shares with others.
    pub labels: Vec<String>,
    /// What of the plan it is.
    pub parcel: Parcel,
    /// Slots that earlier attempts brought.
    pub done: BTreeSet<u32>,
    /// Those of them that failed.
    pub failed: BTreeSet<u32>,
    /// Their runs, as lines of a spool.
    pub earlier: Vec<String>,
    /// What decides when a case needs no more runs.
    pub settings: Settings,
}

impl Order {
    /// The runs of earlier attempts.
    ///
    /// # Errors
    /// They are not what they should be.
    pub fn earlier_runs(&self) -> anyhow::Result<Vec<Run>> {
        spool::runs_of_lines(&self.earlier)
    }

    /// What of the session's plan is to be measured, with the paths of this machine.
    ///
    /// # Errors
    /// The bundle has no plan, or not that part.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        let file = self.bundle.join(PLAN);
        let read =
            || -> anyhow::Result<Plan> { Ok(serde_json::from_str(&fs::read_to_string(&file)?)?) };
        let plan = read().with_context(|| format!("cannot read '{}'", file.display()))?;
        // What is measured is told where it lies, not which way leads there.
        let bundle = fs::canonicalize(&self.bundle)?;
        let here = Prefixes::new([(PathBuf::from(ROOT), bundle)]);
        plan.relocated(&here).part(&self.parcel)
    }

    /// Where its spool lies in the folder of the session.
    pub fn spool(&self, folder: &Path) -> PathBuf {
        spool_of(folder, self.place, self.attempt)
    }
}

/// Where the spool of an attempt lies in the folder of a session.
pub fn spool_of(folder: &Path, place: u32, attempt: u32) -> PathBuf {
    folder
        .join("spools")
        .join(format!("{place}.{attempt}.jsonl"))
}

/// What tells the worker of an attempt, should it live, that another one takes its place.
pub fn over_of(folder: &Path, place: u32, attempt: u32) -> PathBuf {
    folder
        .join("spools")
        .join(format!("{place}.{attempt}.over"))
}

/// Where the order of a task lies there.
pub fn order_of(folder: &Path, task: u32) -> PathBuf {
    folder.join("orders").join(format!("{task}.json"))
}

/// What tells the workers of a session to end with their block.
pub fn stop_of(folder: &Path) -> PathBuf {
    folder.join("stop")
}

/// What may come of a part of a plan.
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
