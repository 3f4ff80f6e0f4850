//! Reattaches to a session with detached workers: reports its progress, waits for its end or
//! cancels it. The shards recorded in the store identify the workers. Start at
//! [`reattach_session`].

use super::coordinator::{Attachment, DetachedAction, WorkerMachine, is_settled, is_submitted};
use super::{coordinate, current_machines, upload};
use crate::machines::clean::{self, CleanSummary};
use crate::machines::{FleetEngine, FleetMachine, content_store};
use crate::messages::{ROLE_SUBCOMMAND, WorkerRequest};
use anyhow::{Context, ensure};
use speedwell_adapters::own_program;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::AnalysisSettings;
use speedwell_config::fleet::FleetFile;
use speedwell_engine::EventListener;
use speedwell_machine::process;
use speedwell_model::Session;
use speedwell_store::{Store, StoredShard};
use std::collections::BTreeSet;

/// Progress of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// Name of the machine that measures the shard.
    pub machine: String,
    /// The record of the shard in the store.
    pub shard: StoredShard,
    /// Number of blocks of the shard in the store.
    pub blocks: usize,
    /// Status that the engine reports for the job of the shard, or the reason why the latest
    /// attempt ended early.
    pub engine_status: Option<String>,
}

/// Collects the results of a session's workers, then performs `action`.
///
/// # Errors
/// Fails if the session was not distributed, if another process manages it, or if the engine or the
/// store cannot be accessed.
pub fn reattach_session(
    store: &mut Store,
    number: i64,
    file: &FleetFile,
    (settings, action): (&AnalysisSettings, DetachedAction),
    listener: &mut EventListener<'_>,
) -> anyhow::Result<Vec<ShardStatus>> {
    process::install_handlers()?;
    let shards = session_shards(store, number)?;
    if shards.iter().all(|stored| is_settled(stored.state)) {
        ensure!(action != DetachedAction::Cancel, "session @{number} has ended: nothing to cancel");
        return shard_statuses(store, number, Vec::new());
    }
    let text = store.session_plan(number)?.context("the session has no plan")?;
    let plan: SessionPlan = serde_json::from_str(&text)?;
    let session = store.load_session_without_runs(number)?;
    let mut engine = FleetEngine::from_file(file);
    let machines = session_machines(&session, &engine.known_machines()?, file)?;
    let merger = store.resume_recording(number)?;
    let (inputs, attachment) = ((&plan, settings), Attachment::Watching(action));
    let work = (machines, shards);
    let (_, statuses) =
        coordinate(engine, merger, inputs, session.id, work, attachment, listener)??;
    shard_statuses(store, number, statuses)
}

/// The session's machines, each with the session's folder.
fn session_machines(
    session: &Session,
    fleet_machines: &[FleetMachine],
    file: &FleetFile,
) -> anyhow::Result<Vec<WorkerMachine>> {
    let machines = current_machines(&session.machines, fleet_machines)?;
    let machine = |machine: FleetMachine| {
        let folder = machine.folder.join("sessions").join(&session.id);
        WorkerMachine {
            bundle: folder.join(content_store::BUNDLE_LINK),
            folder,
            fleet_machine: machine,
            is_shared: upload::is_shared(file),
            failures: 0,
        }
    };
    Ok(machines.into_iter().map(machine).collect())
}

fn session_shards(store: &Store, number: i64) -> anyhow::Result<Vec<StoredShard>> {
    let shards = store.list_shards(number)?;
    ensure!(
        !shards.is_empty(),
        "session @{number} was measured on this machine only\nhint: 'speedwell report @{number}' \
         shows it"
    );
    Ok(shards)
}

/// Returns the status of each shard according to the store. `statuses` adds what the engine
/// reports, by shard index.
fn shard_statuses(
    store: &Store,
    number: i64,
    statuses: Vec<(u32, String)>,
) -> anyhow::Result<Vec<ShardStatus>> {
    let machines = store.load_session_without_runs(number)?.machines;
    let blocks = store.merged_blocks(number)?;
    let status = |(shard, stored): (u32, StoredShard)| ShardStatus {
        machine: machines
            .get(stored.machine as usize)
            .map(|machine| machine.name.clone())
            .unwrap_or_default(),
        blocks: (blocks.iter()).filter(|(_, origin)| origin.shard == shard).count(),
        engine_status: (statuses.iter())
            .find(|(status_shard, _)| *status_shard == shard)
            .map(|(_, text)| text.clone()),
        shard: stored,
    };
    Ok((0..).zip(store.list_shards(number)?).map(status).collect())
}

/// Removes the files of a session from its machines. Without a session, removes everything older
/// than two weeks from all machines. Returns a summary per machine. A folder shared by several
/// machines is listed once, under the first of them.
///
/// # Errors
/// Fails if the session is still being measured or a machine cannot be reached.
pub fn clean_up(
    session: Option<(&Store, i64)>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, CleanSummary)>> {
    let mut engine = FleetEngine::from_file(file);
    let mut machines = engine.known_machines()?;
    let mut id = None;
    if let Some((store, number)) = session {
        let shards = session_shards(store, number)?;
        ensure!(
            !shards.iter().any(|stored| is_submitted(stored.state)),
            "session @{number} is still being measured\nhint: 'speedwell fleet collect @{number}' waits for its end, \
             'speedwell fleet cancel @{number}' ends it"
        );
        let session = store.load_session_without_runs(number)?;
        machines = current_machines(&session.machines, &machines)?;
        id = Some(session.id);
    }
    clean_machines(&mut engine, machines, id.as_deref(), file)
}

/// Removes the files of a session from these machines. Without a session, removes all old files.
pub(crate) fn clean_machines(
    engine: &mut FleetEngine,
    machines: impl IntoIterator<Item = FleetMachine>,
    session: Option<&str>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, CleanSummary)>> {
    let mut cleaned_folders = BTreeSet::new();
    let mut summaries = Vec::new();
    for machine in machines {
        let summary = if !upload::is_shared(file) {
            clean_there(engine, &machine, session)
        } else if cleaned_folders.insert(machine.folder.clone()) {
            clean::clean_folder(&machine.folder, session)
        } else {
            continue;
        };
        let error_context = || format!("cannot clean '{}'", machine.name);
        summaries.push((machine.name.clone(), summary.with_context(error_context)?));
    }
    Ok(summaries)
}

fn clean_there(
    engine: &mut FleetEngine,
    machine: &FleetMachine,
    session: Option<&str>,
) -> anyhow::Result<CleanSummary> {
    let program_file = content_store::program_to_send(&own_program());
    let program = content_store::send_program(engine, machine, &program_file)?;
    let (folder, session) = (machine.folder.clone(), session.map(str::to_owned));
    engine
        .start_worker(&machine.name, &program.to_string_lossy(), &[ROLE_SUBCOMMAND])?
        .request(&WorkerRequest::Clean { folder, session })
}
