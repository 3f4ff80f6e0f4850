//! Parts of one load, sent at the same time by several generators that were started by hand, added up.

use anyhow::{Result, bail, ensure};
use speedwell_model::load_run::{LoadRun, PaceFacts};

/// One load out of the parts that several generators sent at the same time, such as on several
/// machines.
///
/// # Errors
/// There are none, or they were not the same load: another address, pace or end.
pub fn merge_parts(parts: Vec<LoadRun>) -> Result<LoadRun> {
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else {
        bail!("there are no loads to merge");
    };
    for part in parts {
        ensure!(
            part.url == whole.url,
            "a load of '{}' and one of '{}' are not parts of the same load",
            whole.url,
            part.url
        );
        add_pace(&mut whole.asked.pace, &part.asked.pace)?;
        whole.asked.requests = whole
            .asked
            .requests
            .zip(part.asked.requests)
            .map(|(one, other)| one + other);
        whole.asked.processes += part.asked.processes;
        whole.is_partial |= part.is_partial;
        for warning in part.warnings {
            if !whole.warnings.contains(&warning) {
                whole.warnings.push(warning);
            }
        }
        whole.measured.merge(part.measured);
    }
    Ok(whole)
}

/// Adds clients or rates: each generator was told its part only.
fn add_pace(mine: &mut PaceFacts, theirs: &PaceFacts) -> Result<()> {
    match (mine, theirs) {
        (
            PaceFacts::Closed { concurrency, .. },
            PaceFacts::Closed {
                concurrency: other, ..
            },
        ) => *concurrency += other,
        (
            PaceFacts::Open {
                stages,
                connections,
                most_connections,
                ..
            },
            PaceFacts::Open {
                stages: other_stages,
                connections: other,
                most_connections: other_most,
                ..
            },
        ) => {
            ensure!(
                stages.len() == other_stages.len(),
                "their schedules have {} and {} stages",
                stages.len(),
                other_stages.len()
            );
            for (stage, other) in stages.iter_mut().zip(other_stages) {
                stage.from_per_s += other.from_per_s;
                stage.to_per_s += other.to_per_s;
            }
            *connections += other;
            *most_connections += other_most;
        }
        _ => bail!("one was sent when it was due and another waited for answers"),
    }
    Ok(())
}
