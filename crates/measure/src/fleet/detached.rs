//! Reattaches to sessions with detached workers: reports their progress, waits for their end or
//! cancels them. Finds the workers by the shards recorded in the store. Start at
//! [`reattach_session`].

use super::coordinator::{Attachment, FleetCoordinator, WorkerMachine, is_settled};
use super::doubles::StaleAttempts;
use super::{FleetRequest, current_machines, next_task, resume_attempts, send};
use crate::EventListener;
use anyhow::{Context, ensure};
use speedwell_analysis::AnalysisSettings;
use speedwell_fleet::clean::{self, CleanSummary, CleanTarget};
use speedwell_fleet::{FleetEngine, FleetMachine, depot, program};
use speedwell_harness::own_program;
use speedwell_harness::plan::SessionPlan;
use speedwell_model::Session;
use speedwell_process as process;
use speedwell_results::store::{ParcelState, Store, StoredParcel};
use speedwell_runner::SessionEnd;
use speedwell_suite::fleet::FleetFile;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// What to do with a session that other machines measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachedAction {
    /// Collect results; the workers continue.
    Report,
    /// Collect results until everything is measured, retrying when a worker is lost.
    Wait,
    /// Stop the workers and collect their results.
    Cancel,
}

/// Progress of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// Name of its machine.
    pub machine: String,
    /// Its record in the store.
    pub shard: StoredParcel,
    /// Number of its blocks in the store.
    pub blocks: usize,
    /// The engine's state of its job, or why the latest attempt ended early.
    pub engine_status: Option<String>,
}

/// Collects the results of a session's workers, then waits for, reports on or cancels them.
///
/// # Errors
/// Fails if the session was not distributed, another process attends to it, or the engine or the
/// store cannot be accessed.
pub fn reattach_session(
    store: &mut Store,
    number: i64,
    file: &FleetFile,
    (settings, how): (&AnalysisSettings, DetachedAction),
    listener: &mut EventListener<'_>,
) -> anyhow::Result<(SessionEnd, Vec<ShardStatus>)> {
    process::install_handlers()?;
    let parcels = session_shards(store, number)?;
    if parcels.iter().all(|parcel| is_settled(parcel.state)) {
        ensure!(
            how != DetachedAction::Cancel,
            "session @{number} has ended: nothing to cancel"
        );
        return Ok((
            SessionEnd::Complete,
            shard_statuses(store, number, Vec::new())?,
        ));
    }
    let text = store
        .session_plan(number)?
        .context("the session has no plan")?;
    let plan: SessionPlan = serde_json::from_str(&text)?;
    let session = store.load_session_without_runs(number)?;
    let mut engine = FleetEngine::from_file(file);
    let machines = session_machines(&session, &engine.list_machines()?, file)?;
    let mut merger = store.resume_merging(number)?;
    super::emit_start(&plan, &merger, listener)?;
    let mut coordinator = FleetCoordinator {
        engine: &mut engine,
        merger: &mut merger,
        listener: &mut *listener,
        plan: &plan,
        settings,
        session: session.id,
        next_task: next_task(&machines),
        failed_attempts: vec![0; parcels.len()],
        machines,
        shards: parcels,
        attempts: Vec::new(),
        stale: StaleAttempts::default(),
        streams: Vec::new(),
        jobs: BTreeSet::new(),
        attachment: Attachment::Watching,
    };
    let done =
        resume_attempts(&mut coordinator, how != DetachedAction::Report).and_then(|()| match how {
            DetachedAction::Wait => Ok((coordinator.run()?, Vec::new())),
            DetachedAction::Report => coordinator.collect_status(),
            DetachedAction::Cancel => {
                coordinator.stop_workers(Duration::ZERO)?;
                Ok((SessionEnd::Interrupted, Vec::new()))
            }
        });
    let is_whole = matches!(done, Ok((SessionEnd::Complete, _)));
    super::finish_merging(merger, listener, is_whole)?;
    let (ended, said) = done?;
    Ok((ended, shard_statuses(store, number, said)?))
}

/// The session's machines, with its folders there.
fn session_machines(
    session: &Session,
    known: &[FleetMachine],
    file: &FleetFile,
) -> anyhow::Result<Vec<WorkerMachine>> {
    let machines = current_machines(&session.machines, known)?;
    let machine = |known: FleetMachine| {
        let folder = known.folder.join("sessions").join(&session.id);
        WorkerMachine {
            bundle: folder.join(depot::BUNDLE_LINK),
            folder,
            fleet_machine: known,
            is_shared: send::is_shared(file),
            failures: 0,
        }
    };
    Ok(machines.into_iter().map(machine).collect())
}

fn session_shards(store: &Store, number: i64) -> anyhow::Result<Vec<StoredParcel>> {
    let parcels = store.list_parcels(number)?;
    ensure!(
        !parcels.is_empty(),
        "session @{number} was measured on this machine only\nhint: 'speedwell report @{number}' \
         shows it"
    );
    Ok(parcels)
}

/// Status of each shard according to the store; `said` adds further information by shard index.
fn shard_statuses(
    store: &Store,
    number: i64,
    said: Vec<(u32, String)>,
) -> anyhow::Result<Vec<ShardStatus>> {
    let machines = store.load_session_without_runs(number)?.machines;
    let blocks = store.merged_blocks(number)?;
    let status = |(place, parcel): (u32, StoredParcel)| ShardStatus {
        machine: machines
            .get(parcel.machine as usize)
            .map(|machine| machine.name.clone())
            .unwrap_or_default(),
        blocks: (blocks.iter())
            .filter(|(_, origin)| origin.parcel == place)
            .count(),
        engine_status: (said.iter())
            .find(|(own, _)| *own == place)
            .map(|(_, text)| text.clone()),
        shard: parcel,
    };
    Ok((0..).zip(store.list_parcels(number)?).map(status).collect())
}

/// Removes what a session left on its machines, or everything older than two weeks on all machines.
/// Returns a summary per machine. A shared folder is listed once, under the first machine that uses
/// it.
///
/// # Errors
/// Fails if the session is still being measured or a machine cannot be reached.
pub fn clean_up(
    session: Option<(&Store, i64)>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, CleanSummary)>> {
    let mut engine = FleetEngine::from_file(file);
    let mut machines = engine.list_machines()?;
    let mut id = None;
    if let Some((store, number)) = session {
        let parcels = session_shards(store, number)?;
        let is_out = |parcel: &StoredParcel| {
            matches!(parcel.state, ParcelState::Sent | ParcelState::Running)
        };
        ensure!(
            !parcels.iter().any(is_out),
            "session @{number} is still being measured\nhint: 'speedwell fleet collect @{number}' waits for its end, \
             'speedwell fleet cancel @{number}' ends it"
        );
        let session = store.load_session_without_runs(number)?;
        machines = current_machines(&session.machines, &machines)?;
        id = Some(session.id);
    }
    clean_machines(&mut engine, machines, id.as_deref(), file)
}

/// Removes a session's files from these machines, or all old files.
pub(crate) fn clean_machines(
    engine: &mut FleetEngine,
    machines: impl IntoIterator<Item = FleetMachine>,
    session: Option<&str>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, CleanSummary)>> {
    let which = session.map_or(
        CleanTarget::Older(clean::SESSION_MAX_AGE),
        CleanTarget::Named,
    );
    let mut seen = BTreeSet::new();
    let mut cleaned = Vec::new();
    for machine in machines {
        let gone = if !send::is_shared(file) {
            clean_there(engine, &machine, session)
        } else if seen.insert(machine.folder.clone()) {
            clean::clean_folder(&machine.folder, which)
        } else {
            continue;
        };
        let failed = || format!("cannot clean '{}'", machine.name);
        cleaned.push((machine.name.clone(), gone.with_context(failed)?));
    }
    Ok(cleaned)
}

fn clean_there(
    engine: &mut FleetEngine,
    machine: &FleetMachine,
    session: Option<&str>,
) -> anyhow::Result<CleanSummary> {
    let sent_program = program::send_program(engine, machine, &own_program())?;
    let (program, folder) = (
        sent_program.to_string_lossy(),
        machine.folder.to_string_lossy(),
    );
    let mut words = vec![&*program, "perform-parcel", "--clean", &*folder];
    words.extend(session);
    let mut line = engine.start_command(&machine.name, &words)?;
    drop(line.stdin.take());
    let mut complaint = String::new();
    if let Some(mut stderr) = line.stderr.take() {
        stderr.read_to_string(&mut complaint)?;
    }
    let output = line.wait_with_output()?;
    let last = complaint.lines().rfind(|said| !said.trim().is_empty());
    serde_json::from_slice(&output.stdout)
        .with_context(|| last.unwrap_or("connection lost").to_owned())
}

/// Remote side of cleaning; returns the summary as JSON.
///
/// # Errors
/// Fails if the folder cannot be cleaned.
pub fn clean_here(folder: &Path, session: Option<&str>) -> anyhow::Result<String> {
    let which = session.map_or(
        CleanTarget::Older(clean::SESSION_MAX_AGE),
        CleanTarget::Named,
    );
    Ok(serde_json::to_string(&clean::clean_folder(folder, which)?)?)
}

impl FleetRequest {
    /// How the workers of a new session are attached to this process.
    pub(super) fn attachment(&self) -> Attachment {
        if self.detach {
            Attachment::Detached
        } else {
            Attachment::Attached
        }
    }
}
