//! Reattaches to sessions with detached workers: reports their progress, waits for their end or
//! cancels them. Finds the workers by the shards recorded in the store. Start at [`attend`].

use super::coordinator::{Coordinator, Machine, Manner, is_over};
use super::doubles::Doubles;
use super::{FleetRequest, machines_of, next_task, send, take_up};
use crate::Listener;
use anyhow::{Context, ensure};
use speedwell_analysis::Settings;
use speedwell_fleet::clean::{self, Cleaned, Which};
use speedwell_fleet::{Engine, FleetMachine, depot, program};
use speedwell_harness::own_program;
use speedwell_harness::plan::Plan;
use speedwell_model::Session;
use speedwell_process as process;
use speedwell_results::store::{ParcelState, Store, StoredParcel};
use speedwell_runner::Ended;
use speedwell_suite::fleet::FleetFile;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// What to do with a session that other machines measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// Collect results; the workers continue.
    Look,
    /// Collect results until everything is measured, retrying when a worker is lost.
    Wait,
    /// Stop the workers and collect their results.
    Cancel,
}

/// Progress of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParcelStatus {
    /// Name of its machine.
    pub machine: String,
    /// Its record in the store.
    pub parcel: StoredParcel,
    /// Number of its blocks in the store.
    pub blocks: usize,
    /// The engine's state of its job, or why the latest attempt ended early.
    pub said: Option<String>,
}

/// Collects the results of a session's workers, then waits for, reports on or cancels them.
///
/// # Errors
/// Fails if the session was not distributed, another process attends to it, or the engine or the
/// store fails.
pub fn attend(
    store: &mut Store,
    number: i64,
    file: &FleetFile,
    (settings, how): (&Settings, Attendance),
    listener: &mut Listener<'_>,
) -> anyhow::Result<(Ended, Vec<ParcelStatus>)> {
    process::on_interrupt()?;
    let parcels = parcels_of(store, number)?;
    if parcels.iter().all(|parcel| is_over(parcel.state)) {
        ensure!(
            how != Attendance::Cancel,
            "session @{number} has ended: there is nothing to cancel"
        );
        return Ok((Ended::Complete, statuses(store, number, Vec::new())?));
    }
    let text = store.plan(number)?.context("the session has no plan")?;
    let plan: Plan = serde_json::from_str(&text)?;
    let session = store.session_without_runs(number)?;
    let mut engine = Engine::of_file(file);
    let machines = found_again(&session, &engine.machines()?, file)?;
    let mut merger = store.resume_merging(number)?;
    super::announce(&plan, &merger, listener)?;
    let mut coordinator = Coordinator {
        engine: &mut engine,
        merger: &mut merger,
        listener: &mut *listener,
        plan: &plan,
        settings,
        session: session.id,
        tasks: next_task(&machines),
        tries: vec![0; parcels.len()],
        machines,
        parcels,
        attempts: Vec::new(),
        doubles: Doubles::default(),
        streams: Vec::new(),
        jobs: BTreeSet::new(),
        manner: Manner::Following,
    };
    let done = take_up(&mut coordinator, how != Attendance::Look).and_then(|()| match how {
        Attendance::Wait => Ok((coordinator.run()?, Vec::new())),
        Attendance::Look => coordinator.look(),
        Attendance::Cancel => {
            coordinator.stop(Duration::ZERO)?;
            Ok((Ended::Interrupted, Vec::new()))
        }
    });
    let is_whole = matches!(done, Ok((Ended::Complete, _)));
    super::conclude(merger, listener, is_whole)?;
    let (ended, said) = done?;
    Ok((ended, statuses(store, number, said)?))
}

/// The session's machines, with its folders there.
fn found_again(
    session: &Session,
    known: &[FleetMachine],
    file: &FleetFile,
) -> anyhow::Result<Vec<Machine>> {
    let machines = machines_of(&session.machines, known)?;
    let machine = |known: FleetMachine| {
        let folder = known.folder.join("sessions").join(&session.id);
        Machine {
            bundle: folder.join(depot::BUNDLE),
            folder,
            known,
            is_shared: send::is_shared(file),
            failures: 0,
        }
    };
    Ok(machines.into_iter().map(machine).collect())
}

fn parcels_of(store: &Store, number: i64) -> anyhow::Result<Vec<StoredParcel>> {
    let parcels = store.parcels(number)?;
    ensure!(
        !parcels.is_empty(),
        "session @{number} was measured by this machine alone\nhint: 'speedwell report @{number}' shows it"
    );
    Ok(parcels)
}

/// Status of each shard according to the store; `said` adds further information by shard index.
fn statuses(
    store: &Store,
    number: i64,
    said: Vec<(u32, String)>,
) -> anyhow::Result<Vec<ParcelStatus>> {
    let machines = store.session_without_runs(number)?.machines;
    let blocks = store.merged_blocks(number)?;
    let status = |(place, parcel): (u32, StoredParcel)| ParcelStatus {
        machine: machines
            .get(parcel.machine as usize)
            .map(|machine| machine.name.clone())
            .unwrap_or_default(),
        blocks: (blocks.iter())
            .filter(|(_, origin)| origin.parcel == place)
            .count(),
        said: (said.iter())
            .find(|(own, _)| *own == place)
            .map(|(_, text)| text.clone()),
        parcel,
    };
    Ok((0..).zip(store.parcels(number)?).map(status).collect())
}

/// Removes what a session left on its machines, or everything older than two weeks on all machines.
/// Returns what was removed, by machine. A shared folder is listed once, under the first machine
/// that uses it.
///
/// # Errors
/// Fails if the session is still being measured or a machine cannot be reached.
pub fn clean_up(
    session: Option<(&Store, i64)>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, Cleaned)>> {
    let mut engine = Engine::of_file(file);
    let mut machines = engine.machines()?;
    let mut id = None;
    if let Some((store, number)) = session {
        let parcels = parcels_of(store, number)?;
        let is_out = |parcel: &StoredParcel| {
            matches!(parcel.state, ParcelState::Sent | ParcelState::Running)
        };
        ensure!(
            !parcels.iter().any(is_out),
            "session @{number} is still being measured\nhint: 'speedwell fleet collect @{number}' waits for its end, \
             'speedwell fleet cancel @{number}' ends it"
        );
        let session = store.session_without_runs(number)?;
        machines = machines_of(&session.machines, &machines)?;
        id = Some(session.id);
    }
    clean_machines(&mut engine, machines, id.as_deref(), file)
}

/// Removes a session's files from these machines, or all old files.
pub(crate) fn clean_machines(
    engine: &mut Engine,
    machines: impl IntoIterator<Item = FleetMachine>,
    session: Option<&str>,
    file: &FleetFile,
) -> anyhow::Result<Vec<(String, Cleaned)>> {
    let which = session.map_or(Which::Older(clean::OLD), Which::Named);
    let mut seen = BTreeSet::new();
    let mut cleaned = Vec::new();
    for machine in machines {
        let gone = if !send::is_shared(file) {
            clean_there(engine, &machine, session)
        } else if seen.insert(machine.folder.clone()) {
            clean::clean(&machine.folder, which)
        } else {
            continue;
        };
        let failed = || format!("'{}' cannot be cleaned", machine.name);
        cleaned.push((machine.name.clone(), gone.with_context(failed)?));
    }
    Ok(cleaned)
}

fn clean_there(
    engine: &mut Engine,
    machine: &FleetMachine,
    session: Option<&str>,
) -> anyhow::Result<Cleaned> {
    let program = program::send(engine, machine, &own_program())?;
    let (program, folder) = (program.to_string_lossy(), machine.folder.to_string_lossy());
    let mut words = vec![&*program, "perform-parcel", "--clean", &*folder];
    words.extend(session);
    let mut line = engine.reach(&machine.name, &words)?;
    drop(line.stdin.take());
    let mut complaint = String::new();
    if let Some(mut stderr) = line.stderr.take() {
        stderr.read_to_string(&mut complaint)?;
    }
    let output = line.wait_with_output()?;
    let last = complaint.lines().rfind(|said| !said.trim().is_empty());
    serde_json::from_slice(&output.stdout)
        .with_context(|| last.unwrap_or("the line is cut").to_owned())
}

/// Remote side of cleaning; returns the summary as JSON.
///
/// # Errors
/// Fails if the folder cannot be cleaned.
pub fn clean_here(folder: &Path, session: Option<&str>) -> anyhow::Result<String> {
    let which = session.map_or(Which::Older(clean::OLD), Which::Named);
    Ok(serde_json::to_string(&clean::clean(folder, which)?)?)
}

impl FleetRequest {
    /// How the workers of a new session are attached to this process.
    pub(super) fn manner(&self) -> Manner {
        if self.detach {
            Manner::Leaving
        } else {
            Manner::Held
        }
    }
}
