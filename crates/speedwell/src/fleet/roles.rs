//! Implements `speedwell fleet status`, `collect` and `cancel` for experiments whose roles (target,
//! services and load) run on several machines. Such an experiment is measured by a process that
//! stays connected to the machines.

use crate::options::{MeasureTask, OutputArgs};
use crate::session_report::report_stored;
use crate::{CommandStatus, status};
use anyhow::Result;
use speedwell_remote::roles::{MeasuringProcess, PlacedSession};
use speedwell_report::{self as report, RoleRow};
use speedwell_store::Store;

/// Shows the machine of each role, and which process measures the session.
pub fn show_roles(
    store: &Store,
    number: i64,
    placed_session: &PlacedSession,
    output: &OutputArgs,
) -> Result<CommandStatus> {
    let process = placed_session.measuring_process(store)?;
    let state = match process {
        MeasuringProcess::Here(_) | MeasuringProcess::Elsewhere => "running",
        MeasuringProcess::Interrupted => "interrupted",
        MeasuringProcess::Complete => "done",
    };
    let rows: Vec<RoleRow> = (placed_session.role_statuses()?.into_iter())
        .map(|part| RoleRow {
            role: part.role,
            machine: part.machine,
            address: part.address,
            state: state.to_owned(),
            said: part.engine_status.unwrap_or_default(),
        })
        .collect();
    output.print_document(&report::list_fleet_roles(&rows))?;
    let finished_runs = store.finished_slots(number)?.len();
    status::print_note(&format!(
        "session @{number}: {finished_runs} of {} runs are done; {}",
        placed_session.planned,
        next_step(number, process)
    ));
    Ok(CommandStatus::DONE)
}

/// Describes what the user can do next with a session.
fn next_step(number: i64, process: MeasuringProcess) -> String {
    match process {
        MeasuringProcess::Here(process) => format!(
            "process {process} is measuring the session; 'speedwell fleet cancel @{number}' stops it"
        ),
        MeasuringProcess::Elsewhere => {
            "a process on another machine is measuring the session".to_owned()
        }
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
    placed_session: &PlacedSession,
    task: &MeasureTask,
) -> Result<CommandStatus> {
    let process = placed_session.wait(store)?;
    let status = if process == MeasuringProcess::Complete {
        CommandStatus::DONE
    } else {
        status::print_note(&next_step(number, process));
        CommandStatus::INTERRUPTED
    };
    Ok(status.worse_of(report_stored((store, number), task)?))
}

/// Cancels a session, and prints the next step.
pub fn cancel_session(
    store: &Store,
    number: i64,
    placed_session: &PlacedSession,
    output: &OutputArgs,
) -> Result<CommandStatus> {
    placed_session.cancel(store)?;
    if !output.quiet {
        status::print_note(&format!(
            "the machines of session @{number} are free again; {}",
            next_step(number, placed_session.measuring_process(store)?)
        ));
    }
    Ok(CommandStatus::DONE)
}
