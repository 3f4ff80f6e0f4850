//! The same commands for experiments whose roles run on several machines: another process measures
//! them and holds the connections to their machines.

use crate::conclude::conclude_stored;
use crate::options::{OutputArgs, Task};
use crate::{Status, status};
use anyhow::Result;
use speedwell_measure::roles::{Measured, PlacedSession};
use speedwell_report::{self as report, PartRow};
use speedwell_results::store::Store;

/// Shows the machine of each role, and who measures.
pub fn show(
    store: &Store,
    number: i64,
    own: &PlacedSession,
    output: &OutputArgs,
) -> Result<Status> {
    let measured = own.measured(store)?;
    let state = match measured {
        Measured::Here(_) | Measured::Elsewhere => "running",
        Measured::Interrupted => "interrupted",
        Measured::Complete => "done",
    };
    let rows: Vec<PartRow> = (own.parts()?.into_iter())
        .map(|part| PartRow {
            part: part.part,
            machine: part.machine,
            address: part.address,
            state: state.to_owned(),
            said: part.said.unwrap_or_default(),
        })
        .collect();
    output.print(&report::fleet_parts(&rows))?;
    let done = store.finished_slots(number)?.len();
    status::note(&format!(
        "session @{number}: {done} of {} runs are done; {}",
        own.planned,
        follows(number, measured)
    ));
    Ok(Status::DONE)
}

/// Describes what can be done with a session.
fn follows(number: i64, measured: Measured) -> String {
    match measured {
        Measured::Here(process) => format!(
            "process {process} measures it, and 'speedwell fleet cancel @{number}' ends that"
        ),
        Measured::Elsewhere => "a process of another machine measures it".to_owned(),
        Measured::Interrupted => {
            format!("have the rest measured with: speedwell run --resume @{number}")
        }
        Measured::Complete => format!("'speedwell report @{number}' shows it"),
    }
}

/// Waits for the end of a session, and reports it.
pub fn collect(store: &Store, number: i64, own: &PlacedSession, task: &Task) -> Result<Status> {
    let measured = own.wait(store)?;
    let ended = if measured == Measured::Complete {
        Status::DONE
    } else {
        status::note(&follows(number, measured));
        Status::INTERRUPTED
    };
    Ok(ended.or(conclude_stored((store, number), task)?))
}

/// Ends a session, and says what is kept.
pub fn cancel(
    store: &Store,
    number: i64,
    own: &PlacedSession,
    output: &OutputArgs,
) -> Result<Status> {
    own.cancel(store)?;
    if !output.quiet {
        status::note(&format!(
            "the machines of session @{number} are free again; {}",
            follows(number, own.measured(store)?)
        ));
    }
    Ok(Status::DONE)
}
