//! Implements `speedwell fleet status`, `collect`, `cancel` and `clean` for sessions with detached
//! workers, and for experiments whose roles (target, services and load) run on several machines.
//! Such an experiment is measured by a process that stays connected to the machines.

use crate::options::{ComparisonArgs, MeasureTask, OutputArgs, StoreArgs, fleet_file, hide_unused};
use crate::run::report_stored;
use crate::{CommandStatus, status, stored_session};
use anyhow::Result;
use clap::Args;
use speedwell_remote::fleet::{DetachedAction, ShardStatus, clean_up, reattach_session};
use speedwell_remote::roles::{MeasuringProcess, PlacedSession, RoleStatus};
use speedwell_report::{self as report, RoleRow, ShardRow};
use speedwell_store::{ShardState, Store};

/// Where to print results, and where the session is stored.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "tag no_save")))]
struct SessionPlaces {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl SessionPlaces {
    /// Returns a task that shows a session of this store.
    fn task(&self) -> MeasureTask {
        let (output, store) = (self.output.clone(), self.store.clone());
        MeasureTask { output, store, ..MeasureTask::default() }
    }
}

/// Session to show.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Session to wait for.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Session to cancel.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Session, e.g. @31
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Sessions whose files are removed.
#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Session, e.g. @31 [default: all unused for 14 days]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    places: SessionPlaces,
}

/// Shows the progress of a session.
///
/// # Errors
/// Fails if there is no such session, or its machines do not respond.
pub fn show_status(args: &StatusArgs) -> Result<CommandStatus> {
    attend_session(&args.session, &args.places.task(), DetachedAction::Report)
}

/// Waits for the end of a session, and reports it.
///
/// # Errors
/// Fails if there is no such session, or its machines do not respond.
pub fn collect_session(args: &CollectArgs) -> Result<CommandStatus> {
    let task = MeasureTask {
        settings: args.comparison.analysis_settings(&[], None),
        fail_on: args.comparison.fail_on,
        ..args.places.task()
    };
    attend_session(&args.session, &task, DetachedAction::Wait)
}

/// Cancels a session.
///
/// # Errors
/// Fails if there is no such session, it has ended, or its machines do not respond.
pub fn cancel_session(args: &CancelArgs) -> Result<CommandStatus> {
    attend_session(&args.session, &args.places.task(), DetachedAction::Cancel)
}

/// Performs `action` on a session: shows its progress, waits for its end and reports it, or cancels
/// it.
fn attend_session(
    session: &str,
    task: &MeasureTask,
    action: DetachedAction,
) -> Result<CommandStatus> {
    let store = task.store.open_to_read()?;
    let number = stored_session::find_session(&store, session)?.number;
    if let Some(placed) = PlacedSession::find(&store, number)? {
        return attend_placed((&store, number), &placed, task, action);
    }
    drop(store);
    let (mut store, file) = (task.store.open_store()?, fleet_file()?);
    let shards = reattach_session(
        &mut store,
        number,
        &file,
        (&task.settings, action),
        &mut task.progress_display(),
    )?;
    if action == DetachedAction::Wait {
        let is_unfinished = |status: &ShardStatus| {
            !matches!(status.shard.state, ShardState::Done | ShardState::Lost)
        };
        let status = if shards.iter().any(is_unfinished) {
            status::print_note(&format!(
                "the workers of @{number} continue; wait for them with: speedwell fleet collect @{number}"
            ));
            CommandStatus::INTERRUPTED
        } else {
            CommandStatus::DONE
        };
        let gate = report_stored((&store, number), task)?;
        gate.store_line(number, &mut store)?;
        return Ok(status.combine_with_gate(gate.exit_status()));
    }
    task.output.print_document(&report::list_fleet_shards(&shard_rows(&shards)))?;
    if action == DetachedAction::Cancel {
        status::print_note(&format!(
            "completed runs are stored; resume with: speedwell run --resume @{number}"
        ));
    }
    Ok(CommandStatus::DONE)
}

/// Removes the files that sessions left on machines.
///
/// # Errors
/// Fails if the session is being measured, or a machine cannot be reached.
pub fn clean_machines(args: &CleanArgs) -> Result<CommandStatus> {
    let removed_files = match &args.session {
        Some(session) => {
            let store = args.places.store.open_to_read()?;
            let number = stored_session::find_session(&store, session)?.number;
            match PlacedSession::find(&store, number)? {
                Some(placed) => placed.clean(&store)?,
                None => clean_up(Some((&store, number)), &fleet_file()?)?,
            }
        }
        None => clean_up(None, &fleet_file()?)?,
    };
    let rows: Vec<(String, u32, u64)> = removed_files
        .into_iter()
        .map(|(machine, removed)| (machine, removed.sessions, removed.bytes))
        .collect();
    args.places.output.print_document(&report::list_fleet_cleaned(&rows))?;
    Ok(CommandStatus::DONE)
}

fn shard_rows(shards: &[ShardStatus]) -> Vec<ShardRow> {
    let row = |(place, status): (u32, &ShardStatus)| ShardRow {
        place,
        machine: status.machine.clone(),
        state: status.shard.state.name().to_owned(),
        cases: status.shard.jobs.len(),
        blocks: status.blocks,
        attempt: status.shard.attempt,
        said: status.engine_status.clone().unwrap_or_default(),
    };
    (0..).zip(shards).map(row).collect()
}

/// Does the same as [`attend_session`] for a session whose roles run on several machines.
fn attend_placed(
    (store, number): (&Store, i64),
    placed_session: &PlacedSession,
    task: &MeasureTask,
    action: DetachedAction,
) -> Result<CommandStatus> {
    match action {
        DetachedAction::Report => {
            let process = placed_session.measuring_process(store)?;
            task.output
                .print_document(&report::list_fleet_roles(&role_rows(placed_session, process)?))?;
            let finished_runs = store.finished_slots(number)?.len();
            status::print_note(&format!(
                "session @{number}: {finished_runs} of {} runs are done; {}",
                placed_session.planned,
                next_step(number, process)
            ));
            Ok(CommandStatus::DONE)
        }
        DetachedAction::Wait => {
            let process = placed_session.wait(store)?;
            let status = if process == MeasuringProcess::Complete {
                CommandStatus::DONE
            } else {
                status::print_note(&next_step(number, process));
                CommandStatus::INTERRUPTED
            };
            let gate = report_stored((store, number), task)?;
            gate.store_line(number, &mut task.store.open_store()?)?;
            Ok(status.worse_of(gate.exit_status()))
        }
        DetachedAction::Cancel => {
            placed_session.cancel(store)?;
            if !task.output.quiet {
                status::print_note(&format!(
                    "the machines of session @{number} are free again; {}",
                    next_step(number, placed_session.measuring_process(store)?)
                ));
            }
            Ok(CommandStatus::DONE)
        }
    }
}

/// Returns the machine of each role, with the state of the session.
fn role_rows(placed_session: &PlacedSession, process: MeasuringProcess) -> Result<Vec<RoleRow>> {
    let state = match process {
        MeasuringProcess::Here(_) | MeasuringProcess::Elsewhere => "running",
        MeasuringProcess::Interrupted => "interrupted",
        MeasuringProcess::Complete => "done",
    };
    let row = |part: RoleStatus| RoleRow {
        role: part.role,
        machine: part.machine,
        address: part.address,
        state: state.to_owned(),
        said: part.engine_status.unwrap_or_default(),
    };
    Ok(placed_session.role_statuses()?.into_iter().map(row).collect())
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
