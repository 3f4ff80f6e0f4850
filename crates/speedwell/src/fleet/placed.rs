//! The same commands for experiments whose roles run on several machines: another process measures
//! them and holds the connections to their machines.

use crate::conclude::report_stored;
use crate::options::{MeasureTask, OutputArgs};
use crate::{CommandStatus, status};
use anyhow::Result;
use speedwell_measure::roles::{MeasuringProcess, PlacedSession};
use speedwell_report::{self as report, RoleRow};
use speedwell_results::store::Store;

/// Shows the machine of each role, and who measures.
pub fn show_roles(
    store: &Store,
    number: i64,
    own: &PlacedSession,
    output: &OutputArgs,
) -> Result<CommandStatus> {
    let measured = own.measuring_process(store)?;
    let state = match measured {
        MeasuringProcess::Here(_) | MeasuringProcess::Elsewhere => "running",
        MeasuringProcess::Interrupted => "interrupted",
        MeasuringProcess::Complete => "done",
    };
    let rows: Vec<RoleRow> = (own.role_statuses()?.into_iter())
        .map(|part| RoleRow {
            part: part.role,
            machine: part.machine,
            address: part.address,
            state: state.to_owned(),
            said: part.engine_status.unwrap_or_default(),
        })
        .collect();
    output.print_document(&report::list_fleet_roles(&rows))?;
    let done = store.finished_slots(number)?.len();
    status::print_note(&format!(
        "session @{number}: {done} of {} runs are done; {}",
        own.planned,
        next_step(number, measured)
    ));
    Ok(CommandStatus::DONE)
}

/// Describes what can be done with a session.
fn next_step(number: i64, measured: MeasuringProcess) -> String {
    match measured {
        MeasuringProcess::Here(process) => format!(
            "process {process} is measuring it; 'speedwell fleet cancel @{number}' stops it"
        ),
        MeasuringProcess::Elsewhere => "a process on another machine is measuring it".to_owned(),
        MeasuringProcess::Interrupted => {
            format!("measure the rest with: speedwell run --resume @{number}")
        }
        MeasuringProcess::Complete => format!("'speedwell report @{number}' shows it"),
    }
}

/// Waits for the end of a session, and reports it.
pub fn collect_session(
    store: &Store,
    number: i64,
    own: &PlacedSession,
    task: &MeasureTask,
) -> Result<CommandStatus> {
    let measured = own.wait(store)?;
    let ended = if measured == MeasuringProcess::Complete {
        CommandStatus::DONE
    } else {
        status::print_note(&next_step(number, measured));
        CommandStatus::INTERRUPTED
    };
    Ok(ended.worse_of(report_stored((store, number), task)?))
}

/// Cancels a session, and prints the next step.
pub fn cancel_session(
    store: &Store,
    number: i64,
    own: &PlacedSession,
    output: &OutputArgs,
) -> Result<CommandStatus> {
    own.cancel(store)?;
    if !output.quiet {
        status::print_note(&format!(
            "the machines of session @{number} are free again; {}",
            next_step(number, own.measuring_process(store)?)
        ));
    }
    Ok(CommandStatus::DONE)
}
