//! `speedwell fleet status`, `collect`, `cancel` and `clean`, for sessions with detached workers.

use super::placed;
use crate::conclude::conclude_stored;
use crate::options::{ComparisonArgs, OutputArgs, StoreArgs, Task, fleet_file};
use crate::progress::Progress;
use crate::{Status, status};
use anyhow::Result;
use clap::Args;
use speedwell_analysis::Settings;
use speedwell_measure::fleet::{Attendance, ParcelStatus, attend, clean_up};
use speedwell_measure::reference;
use speedwell_measure::roles::PlacedSession;
use speedwell_model::Session;
use speedwell_report::{self as report, ParcelRow};
use speedwell_results::store::{ParcelState, Store};

/// Session to show.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The session, such as @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Session to wait for.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The session, such as @31
    #[arg(value_name = "SESSION", default_value = "@latest")]
    session: String,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl CollectArgs {
    /// Returns what to report, and how.
    fn task(&self) -> Task {
        Task {
            settings: self.comparison.settings(&[], None),
            fail_on: self.comparison.fail_on,
            output: self.output.clone(),
            store: self.store.clone(),
            ..Task::default()
        }
    }
}

/// Session to cancel.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The session, such as @31
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Sessions whose files are removed.
#[derive(Debug, Args)]
pub struct CleanArgs {
    /// The session, e.g. @31 [default: all untouched for 14 days]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Prints the number of a detached session, and how to follow it.
///
/// # Errors
/// If standard output cannot be written.
pub fn left(session: &Session, ended: Status) -> Result<Status> {
    if ended == Status::COULD_NOT {
        return Ok(ended);
    }
    let number = session.number.unwrap_or_default();
    status::say(format!("@{number}\n"))?;
    status::note(&format!(
        "the work is handed out; 'speedwell fleet status @{number}' shows how far it is, 'speedwell fleet collect \
         @{number}' waits for its end and reports"
    ));
    Ok(Status::DONE)
}

/// Shows the progress of a session.
///
/// # Errors
/// If there is no such session, or its machines do not respond.
pub fn show(args: &StatusArgs) -> Result<Status> {
    if let Some((store, number, own)) = placed_session(&args.session, &args.store)? {
        return placed::show(&store, number, &own, &args.output);
    }
    let parcels = attended(
        (args.session.as_str(), Attendance::Look),
        &args.store,
        &Settings::default(),
        &mut Progress::new(&args.output),
    )?;
    args.output
        .print(&report::fleet_parcels(&rows(&parcels.2)))?;
    Ok(Status::DONE)
}

/// Waits for the end of a session, and reports it.
///
/// # Errors
/// If there is no such session, or its machines do not respond.
pub fn collect(args: &CollectArgs) -> Result<Status> {
    if let Some((store, number, own)) = placed_session(&args.session, &args.store)? {
        return placed::collect(&store, number, &own, &args.task());
    }
    let task = args.task();
    let asked = (args.session.as_str(), Attendance::Wait);
    let (store, number, parcels) =
        attended(asked, &args.store, &task.settings, &mut task.progress())?;
    let is_open = |state| !matches!(state, ParcelState::Done | ParcelState::Lost);
    let ended = if parcels.iter().any(|one| is_open(one.parcel.state)) {
        status::note(&format!(
            "its workers go on; wait for them with: speedwell fleet collect @{number}"
        ));
        Status::INTERRUPTED
    } else {
        Status::DONE
    };
    Ok(ended.of_gate(conclude_stored((&store, number), &task)?))
}

/// Cancels a session.
///
/// # Errors
/// If there is no such session, it has ended, or its machines do not respond.
pub fn cancel(args: &CancelArgs) -> Result<Status> {
    if let Some((store, number, own)) = placed_session(&args.session, &args.store)? {
        return placed::cancel(&store, number, &own, &args.output);
    }
    let asked = (args.session.as_str(), Attendance::Cancel);
    let progress = &mut Progress::new(&args.output);
    let (_, number, parcels) = attended(asked, &args.store, &Settings::default(), progress)?;
    args.output.print(&report::fleet_parcels(&rows(&parcels)))?;
    status::note(&format!(
        "what was measured is kept, resume with: speedwell run --resume @{number}"
    ));
    Ok(Status::DONE)
}

/// Removes the files that sessions left on machines.
///
/// # Errors
/// If the session is still being measured, or a machine cannot be reached.
pub fn clean(args: &CleanArgs) -> Result<Status> {
    let cleaned = match &args.session {
        Some(session) => {
            let store = args.store.open_to_read()?;
            let number = reference::find(&store, session)?.number;
            match PlacedSession::find(&store, number)? {
                Some(own) => own.clean(&store)?,
                None => clean_up(Some((&store, number)), &fleet_file()?)?,
            }
        }
        None => clean_up(None, &fleet_file()?)?,
    };
    let rows = cleaned.into_iter();
    let rows = rows.map(|(machine, gone)| (machine, gone.sessions, gone.bytes));
    let rows: Vec<(String, u32, u64)> = rows.collect();
    args.output.print(&report::fleet_cleaned(&rows))?;
    Ok(Status::DONE)
}

/// Returns the session, if its roles run on several machines.
fn placed_session(session: &str, store: &StoreArgs) -> Result<Option<(Store, i64, PlacedSession)>> {
    let store = store.open_to_read()?;
    let number = reference::find(&store, session)?.number;
    let own = PlacedSession::find(&store, number)?;
    Ok(own.map(|own| (store, number, own)))
}

/// Shows, waits for or cancels a session of the store.
fn attended(
    (session, how): (&str, Attendance),
    store: &StoreArgs,
    settings: &Settings,
    progress: &mut Progress,
) -> Result<(Store, i64, Vec<ParcelStatus>)> {
    let mut store = store.open()?;
    let number = reference::find(&store, session)?.number;
    let file = fleet_file()?;
    let (_, parcels) = attend(&mut store, number, &file, (settings, how), progress)?;
    Ok((store, number, parcels))
}

fn rows(parcels: &[ParcelStatus]) -> Vec<ParcelRow> {
    let row = |(place, own): (u32, &ParcelStatus)| ParcelRow {
        place,
        machine: own.machine.clone(),
        state: own.parcel.state.name().to_owned(),
        cases: own.parcel.jobs.len(),
        blocks: own.blocks,
        attempt: own.parcel.attempt,
        said: own.said.clone().unwrap_or_default(),
    };
    (0..).zip(parcels).map(row).collect()
}
