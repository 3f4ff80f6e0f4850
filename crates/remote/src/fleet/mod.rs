//! Measures a session on other machines: divides the plan among them, sends the necessary files,
//! and merges the results into one session. The session has the same form as a session measured on
//! a single machine.
//!
//! A comparison never spans machines: all blocks of a case are measured on the same machine. With
//! [`FleetRequest::on_each_machine`], every machine measures all cases in its own blocks. Start at
//! [`measure_on_fleet`]. [`worker`] runs on the other machines.
//!
//! [`reattach_session`] reattaches to a session with detached workers: reports its progress, waits
//! for its end or cancels it. The shards recorded in the store identify the workers.
//!
//! A case should stay on the machine that has its history. Rendezvous hashing (Thaler and
//! Ravishankar 1998) therefore derives the machine from the names of case and machine
//! (`assign_cases`): adding or removing a machine moves few cases. The load of a machine exceeds
//! 1.25 times the mean only if a single case takes longer than that, or if a case fits on no machine.

pub(crate) mod attempt;
mod coordinator;
mod polling;
pub(crate) mod upload;
pub mod worker;

pub use coordinator::DetachedAction;
pub use upload::receive_bundle;

use crate::machines::bundle::FileBundle;
use crate::machines::clean::{self, CleanSummary};
use crate::machines::{
    FleetEngine, FleetMachine, JobId, MachineState, ROLE_SUBCOMMAND, WorkerRequest, content_store,
};
use anyhow::{Context, Result, bail, ensure};
use attempt::{SpoolStream, StaleAttempts, request_path, stop_marker};
use coordinator::{Attachment, FleetCoordinator, WorkerMachine, is_settled, is_submitted};
use ring::digest::{SHA256, digest};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, own_program};
use speedwell_analysis::AnalysisSettings;
use speedwell_config::fleet::{FleetFile, MachineSelector};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::{
    EventListener, MeasuredSession, PreparedPlan, SessionRequest, session_header,
};
use speedwell_machine::process;
use speedwell_model::{RunCount, SessionEvent, SessionMachine, StoppingDesign};
use speedwell_store::{SessionRecorder, ShardState, Store, StoredShard};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// Minimum number of runs per variant on each machine, if [`FleetRequest::on_each_machine`]
/// replaces a sequential stopping rule.
const MIN_RUNS_PER_MACHINE: u32 = 8;
/// Target number of runs per variant on all machines together, if a sequential stopping rule is
/// replaced.
const TARGET_RUNS: u32 = 32;

/// Assumed overhead of a process, in seconds. It is accurate enough to divide the work.
const PROCESS_OVERHEAD_S: f64 = 0.1;

/// Options for measuring on other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRequest {
    /// The fleet file.
    pub file: FleetFile,
    /// Labels or names of the machines to use. A resumed session uses its original machines
    /// instead.
    pub labels: Option<MachineSelector>,
    /// Number of machines to use; `None` for all usable machines.
    pub machines: Option<u32>,
    /// Whether every machine measures all cases.
    pub on_each_machine: bool,
    /// Whether to exit after handing out the work.
    pub detach: bool,
}

/// Measures the plan on other machines and reads the session back.
///
/// # Errors
/// Fails if the plan cannot be sent, no machine is usable, or the store or the engine fails.
/// Failing benchmarks and lost machines are recorded in the session.
pub fn measure_on_fleet(
    plans: PreparedPlan,
    fleet: &FleetRequest,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<MeasuredSession> {
    let mut engine = FleetEngine::from_file(&fleet.file);
    let PreparedPlan { mut plan, suite, resumed, .. } = plans;
    upload::check_sendable(&plan)?;
    let number = resumed.map(|earlier| earlier.number);
    let (machines, shards) = match number {
        Some(number) => {
            let machines = store.load_session_without_runs(number)?.machines;
            (current_machines(&machines, &engine.known_machines()?)?, store.list_shards(number)?)
        }
        None => {
            let machines = select_machines(&engine.list_machines()?, fleet)?;
            if fleet.on_each_machine {
                repeat_on_each(&mut plan, machines.len() as u32);
            }
            let shards = cut_plan(&plan, &machines, fleet.on_each_machine);
            (machines, shards)
        }
    };
    let bundle = upload::gather_bundle(&plan)?;
    upload::warn_of_left_out(&bundle, listener)?;
    let mut header = session_header(&plan, suite, request);
    if let Some(number) = number {
        header.id = store.load_session_without_runs(number)?.id;
    }
    let machines = send_to_machines(&mut engine, fleet, machines, &bundle, &header.id, listener)?;
    // Nothing has been reported about a machine yet.
    let initial_record = |machine: &WorkerMachine| SessionMachine {
        id: machine.fleet_machine.name.clone(),
        name: machine.fleet_machine.name.clone(),
        labels: machine.fleet_machine.labels.clone(),
        ..SessionMachine::default()
    };
    header.machines = machines.iter().map(initial_record).collect();
    let mut merger = match number {
        Some(number) => store.resume_recording(number)?,
        None => store.begin_merging(&header, &serde_json::to_string(&plan)?, &shards)?,
    };
    let number = merger.number();
    if let Some(url) = &request.push {
        merger.queue_upload(url, process::unix_time_ms())?;
    }
    let attachment = if fleet.detach { Attachment::Detached } else { Attachment::Attached };
    let inputs = (&plan, &request.settings);
    let work = (machines, shards);
    let ended = coordinate(engine, merger, inputs, header.id, work, attachment, listener)?;
    let stored = store.load_measured(number)?;
    Ok(MeasuredSession::new(stored, ended.map(|(ended, _)| ended), plan.slots().len()))
}

/// How measuring ended and, if only a report is wanted, the states of the unfinished shards.
type CoordinatorEnd = Result<(SessionEnd, Vec<(u32, String)>)>;

/// Measures a session as its attachment says, then closes the session, or leaves it open to be
/// resumed.
///
/// # Errors
/// Fails if the session cannot be closed. An error while measuring is part of the result.
fn coordinate(
    engine: FleetEngine,
    merger: SessionRecorder<'_>,
    (plan, settings): (&SessionPlan, &AnalysisSettings),
    session: String,
    (machines, shards): (Vec<WorkerMachine>, Vec<StoredShard>),
    attachment: Attachment,
    listener: &mut EventListener<'_>,
) -> Result<CoordinatorEnd> {
    listener.observe(&SessionEvent::Started {
        runs: plan.slots().len(),
        is_upper_bound: plan.may_need_fewer_runs(),
        cases: plan.jobs.len(),
        done: merger.store().finished_slots(merger.number())?.len(),
    })?;
    let mut coordinator = FleetCoordinator {
        engine,
        merger,
        listener,
        plan,
        settings,
        session,
        next_task: next_task(&machines),
        failed_attempts: vec![0; shards.len()],
        machines,
        shards,
        attempts: Vec::new(),
        stale: StaleAttempts::default(),
        streams: Vec::new(),
        jobs: BTreeSet::new(),
        attachment,
    };
    let follows = attachment != Attachment::Watching(DetachedAction::Report);
    let ended = resume_attempts(&mut coordinator, follows).and_then(|()| match attachment {
        Attachment::Attached | Attachment::Watching(DetachedAction::Wait) => {
            Ok((coordinator.run()?, Vec::new()))
        }
        Attachment::Detached => coordinator.submit().map(|_| (SessionEnd::Interrupted, Vec::new())),
        Attachment::Watching(DetachedAction::Report) => coordinator.collect_status(),
        Attachment::Watching(DetachedAction::Cancel) => {
            coordinator.stop_workers(Duration::ZERO)?;
            Ok((SessionEnd::Interrupted, Vec::new()))
        }
    });
    let is_complete = matches!(ended, Ok((SessionEnd::Complete, _)));
    coordinator.merger.finish_session(!is_complete)?;
    coordinator.listener.observe(&SessionEvent::Finished { interrupted: !is_complete })?;
    process::clear_interrupt();
    Ok(ended)
}

/// Reads the spools of the attempts that an earlier coordinator started, each from its beginning.
/// With `follows`, withdraws earlier requests to stop, and keeps connections open until the
/// workers have ended.
fn resume_attempts(coordinator: &mut FleetCoordinator<'_, '_, '_>, follows: bool) -> Result<()> {
    let is_restarted = |machine: &&WorkerMachine| machine.is_shared && follows;
    for machine in coordinator.machines.iter().filter(is_restarted) {
        let stop = stop_marker(&machine.folder);
        if stop.exists() {
            fs::remove_file(&stop)
                .with_context(|| format!("cannot remove '{}'", stop.display()))?;
        }
    }
    let mut connected: BTreeSet<(u32, JobId)> = BTreeSet::new();
    for shard in 0..coordinator.shards.len() as u32 {
        let stored = coordinator.shards[shard as usize].clone();
        let Some(id) = stored.engine_id.as_ref().filter(|_| is_submitted(stored.state)) else {
            continue;
        };
        let connection_key = (stored.machine, JobId(id.clone()));
        let (job, machine) = (&connection_key.1, &coordinator.machines[stored.machine as usize]);
        let folder = machine.folder.clone();
        if !connected.contains(&connection_key) {
            let is_of_job = |other: &StoredShard| {
                is_submitted(other.state)
                    && other.machine == stored.machine
                    && other.engine_id == stored.engine_id
            };
            let shards = (0..).zip(&coordinator.shards).filter(|(_, other)| is_of_job(other));
            let spools: Vec<String> =
                shards.map(|(shard, _)| coordinator.spool_name(shard)).collect();
            let name = &machine.fleet_machine.name;
            let connection =
                (coordinator.engine).reconnect_job(name, &folder, (job, &spools), follows)?;
            if let Some(connection) = connection {
                coordinator.streams.push(SpoolStream::new(connection));
                connected.insert(connection_key.clone());
            }
        }
        // Without a connection, the spool is read from a file. If the attempt needed a connection,
        // and the connection broke, the attempt delivers nothing more and ends immediately.
        let is_connected = connected.contains(&connection_key);
        let folder = (!is_connected).then_some(&*folder);
        coordinator.follow_spool(shard, connection_key.1, folder, true)?;
    }
    Ok(())
}

/// Returns a task number that is free on every machine whose folder is directly accessible: no
/// request file there has this number.
fn next_task(machines: &[WorkerMachine]) -> u32 {
    let first_free_task = |machine: &WorkerMachine| {
        (0..).find(|&task| !request_path(&machine.folder, task).exists()).unwrap_or(0)
    };
    let shared = machines.iter().filter(|machine| machine.is_shared);
    shared.map(first_free_task).max().unwrap_or(0)
}

/// Selects as many usable machines with the requested labels or names as needed, free machines
/// first. Returns them sorted by name.
pub(crate) fn select_machines(
    fleet_machines: &[FleetMachine],
    fleet: &FleetRequest,
) -> Result<Vec<FleetMachine>> {
    let selector = (fleet.labels.as_ref())
        .context("no machines selected\nhint: select machines with --machines LABELS")?;
    FleetMachine::ensure_known(selector, fleet_machines)?;
    let selected: Vec<&FleetMachine> =
        fleet_machines.iter().filter(|machine| machine.is_in(selector)).collect();
    ensure!(!selected.is_empty(), "no machine matches these labels");
    let is_usable = |machine: &&&FleetMachine| !matches!(machine.state, MachineState::Unfit(_));
    let mut usable: Vec<FleetMachine> =
        selected.iter().filter(is_usable).map(|&machine| machine.clone()).collect();
    usable.sort_by_key(|machine| (machine.state != MachineState::Free, machine.name.clone()));
    let wanted = fleet.machines.map_or(usable.len().max(1), |wanted| wanted as usize);
    if usable.len() < wanted {
        let reasons = selected.iter().filter_map(|machine| match &machine.state {
            MachineState::Unfit(reason) => Some(format!("\n  {}: {reason}", machine.name)),
            _ => None,
        });
        bail!(
            "only {} of the {} matching machines can be used, but {wanted} are needed{}",
            usable.len(),
            selected.len(),
            reasons.collect::<String>()
        );
    }
    usable.truncate(wanted);
    usable.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(usable)
}

/// Returns the session's machines as the fleet lists them now.
fn current_machines(
    session: &[SessionMachine],
    fleet_machines: &[FleetMachine],
) -> Result<Vec<FleetMachine>> {
    let find = |session_machine: &SessionMachine| {
        let machine =
            fleet_machines.iter().find(|machine| machine.name == session_machine.name).cloned();
        machine.with_context(|| format!("machine '{}' has left the fleet", session_machine.name))
    };
    session.iter().map(find).collect()
}

/// Makes every machine measure all cases with a fixed number of runs. A sequential stopping rule
/// would need the results of all machines.
fn repeat_on_each(plan: &mut SessionPlan, machines: u32) {
    plan.strata = machines;
    if let StoppingDesign::Sequential { .. } = plan.design.stopping {
        let runs = TARGET_RUNS.div_ceil(machines).next_multiple_of(2).max(MIN_RUNS_PER_MACHINE);
        plan.design.stopping = StoppingDesign::Fixed { runs };
        plan.sampling.runs = RunCount::Fixed(runs);
    }
}

fn cut_plan(
    plan: &SessionPlan,
    machines: &[FleetMachine],
    on_each_machine: bool,
) -> Vec<StoredShard> {
    let cases: Vec<(&str, f64)> = (plan.jobs.iter())
        .map(|job| (job.label.as_str(), expected_duration_s(plan, job)))
        .collect();
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let assignment = assign_cases(&cases, &names);
    let mut shards = Vec::new();
    for machine in 0..machines.len() {
        let is_on_machine = |case: &usize| on_each_machine || assignment[*case] == machine;
        let cases_of_machine =
            (0..cases.len()).filter(is_on_machine).map(|case| (case as u32, cases[case].1));
        for jobs in cut_into_shards(cases_of_machine) {
            shards.push(StoredShard {
                machine: machine as u32,
                jobs,
                stratum: if on_each_machine { machine as u32 } else { 0 },
                attempt: 0,
                engine_id: None,
                state: ShardState::Waiting,
            });
        }
    }
    shards
}

fn expected_duration_s(plan: &SessionPlan, job: &BenchmarkJob) -> f64 {
    let samples = job.samples.unwrap_or(plan.sampling.samples);
    let warmup = Duration::from_nanos(samples.warmup_ns);
    let run_s = samples.planned_time().unwrap_or(warmup).as_secs_f64() + PROCESS_OVERHEAD_S;
    run_s * f64::from(plan.runs_per_variant()) * plan.variants.len() as f64
}

fn send_to_machines(
    engine: &mut FleetEngine,
    fleet: &FleetRequest,
    machines: Vec<FleetMachine>,
    bundle: &FileBundle,
    session: &str,
    listener: &mut EventListener<'_>,
) -> Result<Vec<WorkerMachine>> {
    let mut ready = Vec::new();
    for fleet_machine in machines {
        upload::note_sending(bundle, &fleet_machine.name, listener)?;
        let sent = upload::send_bundle(engine, &fleet.file, bundle, session, &fleet_machine);
        let (folder, bundle) =
            sent.with_context(|| format!("cannot send the files to '{}'", fleet_machine.name))?;
        let is_shared = upload::is_shared(&fleet.file);
        ready.push(WorkerMachine { fleet_machine, folder, bundle, is_shared, failures: 0 });
    }
    Ok(ready)
}

/// Load limit of a machine, as a multiple of the mean load of all machines.
const MAX_LOAD_RATIO: f64 = 1.25;

/// Target duration of a shard, in seconds. Short shards make the loss of a machine cheap, and give
/// other users of a queue their turn.
const TARGET_SHARD_S: f64 = 600.0;

/// Returns the index of a machine for each case. A case is given by its name and its duration in
/// seconds.
///
/// The longest cases are placed first. A case that exceeds the limit by itself goes to a machine
/// without cases. A case that fits on no machine goes to the least loaded one.
fn assign_cases(cases: &[(&str, f64)], machines: &[&str]) -> Vec<usize> {
    let total_seconds: f64 = cases.iter().map(|(_, seconds)| seconds).sum();
    let limit = MAX_LOAD_RATIO * total_seconds / machines.len().max(1) as f64;
    let mut load = vec![0.0; machines.len()];
    let mut assignment = vec![0; cases.len()];
    let mut longest_first: Vec<usize> = (0..cases.len()).collect();
    longest_first.sort_by(|&left, &right| cases[right].1.total_cmp(&cases[left].1));
    for case in longest_first {
        let (id, seconds) = cases[case];
        let mut preferred: Vec<usize> = (0..machines.len()).collect();
        preferred
            .sort_by_key(|&machine| std::cmp::Reverse(rendezvous_weight(id, machines[machine])));
        let has_room = |machine: &usize| load[*machine] + seconds <= limit.max(seconds);
        let least_loaded = || (0..load.len()).min_by(|&a, &b| load[a].total_cmp(&load[b]));
        let chosen = preferred.iter().copied().find(has_room).or_else(least_loaded);
        if let Some(machine) = chosen {
            assignment[case] = machine;
            load[machine] += seconds;
        }
    }
    assignment
}

/// Weight of a machine for a case (rendezvous hash).
fn rendezvous_weight(case: &str, machine: &str) -> u64 {
    let hash = digest(&SHA256, format!("{case}|{machine}").as_bytes());
    hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Cuts the cases of one machine into shards of about ten minutes, each with at least one case. A
/// case is given by its index and its duration in seconds.
fn cut_into_shards(cases: impl IntoIterator<Item = (u32, f64)>) -> Vec<Vec<u32>> {
    let mut shards: Vec<Vec<u32>> = Vec::new();
    let mut duration_s = f64::INFINITY;
    for (case, seconds) in cases {
        if duration_s + seconds > TARGET_SHARD_S {
            shards.push(Vec::new());
            duration_s = 0.0;
        }
        duration_s += seconds;
        if let Some(last) = shards.last_mut() {
            last.push(case);
        }
    }
    shards
}

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
) -> Result<Vec<ShardStatus>> {
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
    let machine = |fleet_machine: FleetMachine| {
        let folder = fleet_machine.folder.join("sessions").join(&session.id);
        let bundle = folder.join(content_store::BUNDLE_LINK);
        let is_shared = upload::is_shared(file);
        WorkerMachine { fleet_machine, folder, bundle, is_shared, failures: 0 }
    };
    let machines = current_machines(&session.machines, &engine.known_machines()?)?;
    let work = (machines.into_iter().map(machine).collect(), shards);
    let merger = store.resume_recording(number)?;
    let (inputs, attachment) = ((&plan, settings), Attachment::Watching(action));
    let (_, statuses) =
        coordinate(engine, merger, inputs, session.id, work, attachment, listener)??;
    shard_statuses(store, number, statuses)
}

fn session_shards(store: &Store, number: i64) -> Result<Vec<StoredShard>> {
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
) -> Result<Vec<ShardStatus>> {
    let machines = store.load_session_without_runs(number)?.machines;
    let blocks = store.merged_blocks(number)?;
    let name_of = |machine: u32| machines.get(machine as usize).map(|found| found.name.clone());
    let status = |(shard, stored): (u32, StoredShard)| ShardStatus {
        machine: name_of(stored.machine).unwrap_or_default(),
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
) -> Result<Vec<(String, CleanSummary)>> {
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
) -> Result<Vec<(String, CleanSummary)>> {
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
) -> Result<CleanSummary> {
    let program_file = content_store::program_to_send(&own_program());
    let program = content_store::send_program(engine, machine, &program_file)?;
    let (folder, session) = (machine.folder.clone(), session.map(str::to_owned));
    engine
        .start_worker(&machine.name, &program.to_string_lossy(), &[ROLE_SUBCOMMAND])?
        .request(&WorkerRequest::Clean { folder, session })
}

#[cfg(test)]
mod tests {
    use super::{assign_cases, cut_into_shards};

    /// Returns cases with durations from 0.2 to 5 seconds, and names of machines.
    fn example(cases: usize, machines: usize) -> (Vec<(String, f64)>, Vec<String>) {
        let length = |case: usize| 0.2 + 4.8 * ((case * 7919) % 1000) as f64 / 1000.0;
        let cases = (0..cases).map(|case| (format!("g/b n={case}"), length(case)));
        let machines = (0..machines).map(|machine| format!("lab-{machine}"));
        (cases.collect(), machines.collect())
    }

    fn assign_machines(cases: &[(String, f64)], machines: &[String]) -> Vec<String> {
        let cases: Vec<(&str, f64)> = cases.iter().map(|(id, s)| (id.as_str(), *s)).collect();
        let names: Vec<&str> = machines.iter().map(String::as_str).collect();
        let placed = assign_cases(&cases, &names);
        placed.into_iter().map(|at| machines[at].clone()).collect()
    }

    #[test]
    fn no_machine_is_loaded_more_than_a_quarter_above_the_mean() {
        for (count, machines) in [(100, 4), (1000, 10), (7, 3)] {
            let (cases, machines) = example(count, machines);
            let placed = assign_machines(&cases, &machines);
            let mean = cases.iter().map(|(_, s)| s).sum::<f64>() / machines.len() as f64;
            let longest = cases.iter().map(|(_, s)| *s).fold(0.0, f64::max);
            for machine in &machines {
                let own = cases.iter().zip(&placed).filter(|(_, at)| *at == machine);
                let load: f64 = own.map(|((_, s), _)| s).sum();
                assert!(load <= (1.25 * mean).max(longest) + 1e-9, "{machine} {load} {mean}");
            }
        }
    }

    #[test]
    fn adding_or_removing_a_machine_moves_few_cases() {
        let (cases, machines) = example(1000, 11);
        let share_moved = |fewer: &[String], more: &[String]| {
            let (before, after) = (assign_machines(&cases, fewer), assign_machines(&cases, more));
            before.iter().zip(&after).filter(|(a, b)| a != b).count()
        };
        // At least about a tenth of the cases must move.
        assert!(share_moved(&machines[..10], &machines) < 150);
        assert!(share_moved(&machines, &machines[1..]) < 150);
        assert_eq!(share_moved(&machines, &machines), 0);
    }

    #[test]
    fn the_order_of_cases_and_machines_does_not_matter() {
        let (mut cases, mut machines) = example(60, 5);
        for (place, case) in cases.iter_mut().enumerate() {
            // Distinct durations make the placement order unique.
            case.1 += place as f64 * 1e-6;
        }
        let mut before: Vec<(String, String)> = cases
            .iter()
            .map(|(id, _)| id.clone())
            .zip(assign_machines(&cases, &machines))
            .collect();
        cases.reverse();
        machines.reverse();
        let after = cases.iter().map(|(id, _)| id.clone()).zip(assign_machines(&cases, &machines));
        let mut after: Vec<(String, String)> = after.collect();
        before.sort();
        after.sort();
        assert_eq!(before, after);
    }

    #[test]
    fn shards_take_ten_minutes_or_have_one_case() {
        let cases = [(0, 300.0), (1, 300.0), (2, 1.0), (5, 2000.0), (7, 1.0)];
        assert_eq!(cut_into_shards(cases), [vec![0, 1], vec![2], vec![5], vec![7]]);
        assert!(cut_into_shards([]).is_empty());
    }
}
