//! Measures a session on other machines: divides the plan among them, sends what they need, and
//! merges the results into one session, as a single machine would have written it.
//!
//! A comparison never spans machines: all blocks of a case are measured on the same one or, with
//! [`FleetRequest::each`], every machine measures all cases in its own blocks. Start at
//! [`carry_out`]; [`worker`] is the remote side.

mod contents;
mod coordinator;
pub(crate) mod detached;
mod doubles;
pub mod left;
mod loss;
pub(crate) mod order;
pub(crate) mod send;
mod stream;
mod waiting;
pub mod worker;

use super::session::{MeasuredSession, header, read_back};
use super::{Listener, Plans, SessionRequest};
use anyhow::{Context, bail, ensure};
use coordinator::{Coordinator, Machine};
use doubles::Doubles;
use order::{order_of, spool_of, stop_of};
use speedwell_fleet::bundle::Bundle;
use speedwell_fleet::{Engine, FleetMachine, JobId, MachineState, place};
use speedwell_harness::plan::Plan;
use speedwell_model::{Event, Length, Runs, SessionMachine, Stopping};
use speedwell_process as process;
use speedwell_results::store::{Merger, ParcelState, Store, StoredParcel};
use speedwell_runner::Ended;
use speedwell_suite::fleet::FleetFile;
use speedwell_suite::labels::Labels;
use std::collections::BTreeSet;
use std::fs;
use stream::{Source, Stream};

pub use detached::{Attendance, ParcelStatus, attend, clean_here, clean_up};
pub use send::receive;

/// With [`FleetRequest::each`]: minimum runs per variant on one machine, and the target for all
/// machines together.
const FEWEST_ON_EACH: u32 = 8;
const TOGETHER: u32 = 32;

/// Assumed overhead of a process, in seconds; accurate enough to divide the work.
const OF_A_PROCESS_S: f64 = 0.1;

/// Options for measuring on other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRequest {
    /// The fleet file.
    pub file: FleetFile,
    /// Labels of the machines to use; a resumed session uses its own machines.
    pub on: Option<Labels>,
    /// Number of machines to use; all if `None`.
    pub machines: Option<u32>,
    /// Whether every machine measures all cases.
    pub each: bool,
    /// Whether to exit once the work is handed out.
    pub detach: bool,
}

/// Measures the plan on other machines and reads the session back.
///
/// # Errors
/// Fails if the plan cannot be sent, no machine is fit, or the store or the engine fails. Failing
/// benchmarks and lost machines are recorded in the session.
pub fn carry_out(
    plans: Plans,
    fleet: &FleetRequest,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> anyhow::Result<MeasuredSession> {
    let mut engine = Engine::of_file(&fleet.file);
    let Plans {
        mut plan,
        suite,
        resumed,
        ..
    } = plans;
    contents::check(&plan)?;
    let known = engine.machines()?;
    let number = resumed.map(|earlier| earlier.number);
    let (machines, parcels) = match number {
        Some(number) => taken_up(store, number, &known)?,
        None => dealt(&mut plan, fleet, &known)?,
    };
    let bundle = contents::gather(&plan)?;
    send::warn_of_left_out(&bundle, listener)?;
    let mut begun = header(&plan, suite, request);
    if let Some(number) = number {
        begun.id = store.session_without_runs(number)?.id;
    }
    let machines = sent(&mut engine, fleet, machines, &bundle, &begun.id, listener)?;
    begun.machines = machines.iter().map(|own| named(&own.known)).collect();
    let id = begun.id.clone();
    let mut merger = match number {
        Some(number) => store.resume_merging(number)?,
        None => store.begin_merging(&begun, &serde_json::to_string(&plan)?, &parcels)?,
    };
    let number = merger.number();
    if let Some(url) = &request.push {
        merger.owe(url, process::unix_ms())?;
    }
    announce(&plan, &merger, listener)?;
    let mut coordinator = Coordinator {
        engine: &mut engine,
        merger: &mut merger,
        listener: &mut *listener,
        plan: &plan,
        settings: &request.settings,
        session: id,
        tasks: next_task(&machines),
        tries: vec![0; parcels.len()],
        machines,
        parcels,
        attempts: Vec::new(),
        doubles: Doubles::default(),
        streams: Vec::new(),
        jobs: BTreeSet::new(),
        manner: fleet.manner(),
    };
    let ended = take_up(&mut coordinator, true).and_then(|()| {
        if fleet.detach {
            return coordinator.submit().map(|_| Ended::Interrupted);
        }
        coordinator.run()
    });
    let is_whole = matches!(ended, Ok(Ended::Complete));
    conclude(merger, listener, is_whole)?;
    read_back(store, number, ended, plan.slots().len())
}

/// Reports to the listener how much there is to do and how much is done.
fn announce(plan: &Plan, merger: &Merger<'_>, listener: &mut Listener<'_>) -> anyhow::Result<()> {
    listener.observe(&Event::Started {
        runs: plan.slots().len(),
        is_upper_bound: plan.may_need_fewer_runs(),
        cases: plan.jobs.len(),
        done: merger.store().finished_slots(merger.number())?.len(),
    })
}

/// Closes the session, or leaves it open to be resumed.
fn conclude(
    mut merger: Merger<'_>,
    listener: &mut Listener<'_>,
    is_whole: bool,
) -> anyhow::Result<()> {
    merger.finish(!is_whole)?;
    listener.observe(&Event::Finished {
        interrupted: !is_whole,
    })?;
    drop(merger);
    process::forget_interrupt();
    Ok(())
}

fn taken_up(
    store: &Store,
    number: i64,
    known: &[FleetMachine],
) -> anyhow::Result<(Vec<FleetMachine>, Vec<StoredParcel>)> {
    let machines = machines_of(&store.session_without_runs(number)?.machines, known)?;
    Ok((machines, store.parcels(number)?))
}

/// Selects machines for a new session and assigns the cases to them.
fn dealt(
    plan: &mut Plan,
    fleet: &FleetRequest,
    known: &[FleetMachine],
) -> anyhow::Result<(Vec<FleetMachine>, Vec<StoredParcel>)> {
    let machines = chosen(known, fleet)?;
    if fleet.each {
        repeat_on_each(plan, machines.len() as u32);
    }
    let parcels = divided(plan, &machines, fleet.each);
    Ok((machines, parcels))
}

/// Follows the attempts that an earlier coordinator started, reading their spools from the
/// beginning. With `waits`, withdraws earlier requests to stop, and connections stay open until the
/// workers have ended.
fn take_up(coordinator: &mut Coordinator<'_, '_, '_>, waits: bool) -> anyhow::Result<()> {
    let shared = |machine: &&Machine| machine.is_shared && waits;
    for machine in coordinator.machines.iter().filter(shared) {
        let stop = stop_of(&machine.folder);
        if stop.exists() {
            fs::remove_file(&stop)
                .with_context(|| format!("cannot remove '{}'", stop.display()))?;
        }
    }
    let mut lines: BTreeSet<(u32, JobId)> = BTreeSet::new();
    for place in 0..coordinator.parcels.len() as u32 {
        let parcel = coordinator.parcels[place as usize].clone();
        let is_out = matches!(parcel.state, ParcelState::Sent | ParcelState::Running);
        let machine = &coordinator.machines[parcel.machine as usize];
        let Some(job) = parcel.engine_id.map(JobId).filter(|_| is_out) else {
            continue;
        };
        if lines.contains(&(parcel.machine, job.clone())) {
            coordinator.follow(place, job, Source::Stream, true)?;
            continue;
        }
        let (name, folder) = (machine.known.name.clone(), machine.folder.clone());
        let own = (0..).zip(&coordinator.parcels).filter(|(_, own)| {
            let is_out = matches!(own.state, ParcelState::Sent | ParcelState::Running);
            is_out && own.machine == parcel.machine && own.engine_id.as_ref() == Some(&job.0)
        });
        let spools: Vec<String> = own.map(|(own, _)| coordinator.spool_name(own)).collect();
        let line = (coordinator.engine).take_up(&name, &folder, (&job, &spools), waits)?;
        if let Some(line) = line {
            coordinator.streams.push(Stream::new(line));
            lines.insert((parcel.machine, job.clone()));
            coordinator.follow(place, job, Source::Stream, true)?;
            continue;
        }
        // The attempt of a broken connection delivers nothing more and ends at once.
        let file = spool_of(&folder, place, parcel.attempt);
        coordinator.follow(place, job, Source::file(file), true)?;
    }
    Ok(())
}

/// First task number that no request file uses.
fn next_task(machines: &[Machine]) -> u32 {
    let of_folder = |machine: &Machine| {
        (0..)
            .find(|&task| !order_of(&machine.folder, task).exists())
            .unwrap_or(0)
    };
    let shared = machines.iter().filter(|machine| machine.is_shared);
    shared.map(of_folder).max().unwrap_or(0)
}

/// Selects the fit machines with the requested labels, sorted by name.
pub(crate) fn chosen(
    known: &[FleetMachine],
    fleet: &FleetRequest,
) -> anyhow::Result<Vec<FleetMachine>> {
    let on = fleet
        .on
        .as_ref()
        .context("which machines are meant is not said\nhint: --on LABELS")?;
    let mut names: Vec<String> = Vec::new();
    for machine in known {
        names.push(machine.name.clone());
        names.extend(machine.labels.iter().cloned());
    }
    names.sort();
    names.dedup();
    on.ensure_known(&names)?;
    let is_meant = |machine: &&FleetMachine| {
        on.fits(&|name| machine.name == name || machine.labels.iter().any(|label| label == name))
    };
    let meant: Vec<&FleetMachine> = known.iter().filter(is_meant).collect();
    ensure!(!meant.is_empty(), "no machine has these labels together");
    let is_fit = |machine: &&&FleetMachine| !matches!(machine.state, MachineState::Unfit(_));
    let mut fit: Vec<FleetMachine> = meant
        .iter()
        .filter(is_fit)
        .map(|&one| one.clone())
        .collect();
    // Prefer free machines.
    fit.sort_by(|one, other| {
        let key =
            |machine: &FleetMachine| (machine.state != MachineState::Free, machine.name.clone());
        key(one).cmp(&key(other))
    });
    let wanted = fleet
        .machines
        .map_or(fit.len().max(1), |wanted| wanted as usize);
    if fit.len() < wanted {
        let reasons = meant.iter().filter_map(|machine| match &machine.state {
            MachineState::Unfit(reason) => Some(format!("\n  {}: {reason}", machine.name)),
            _ => None,
        });
        bail!(
            "{} of the {} machines that are meant can be had, and {wanted} are needed{}",
            fit.len(),
            meant.len(),
            reasons.collect::<String>()
        );
    }
    fit.truncate(wanted);
    fit.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(fit)
}

/// The current state of a session's machines.
fn machines_of(
    session: &[SessionMachine],
    known: &[FleetMachine],
) -> anyhow::Result<Vec<FleetMachine>> {
    let find = |own: &SessionMachine| {
        let found = known.iter().find(|known| known.name == own.name).cloned();
        found.with_context(|| format!("the fleet has no machine '{}' any more", own.name))
    };
    session.iter().map(find).collect()
}

/// The record of a machine until it reports more about itself.
fn named(machine: &FleetMachine) -> SessionMachine {
    SessionMachine {
        id: machine.name.clone(),
        name: machine.name.clone(),
        labels: machine.labels.clone(),
        ..SessionMachine::default()
    }
}

/// Makes every machine measure all cases with a fixed number of runs: a sequential rule would have
/// to judge all machines together.
fn repeat_on_each(plan: &mut Plan, machines: u32) {
    plan.strata = machines;
    if let Stopping::Sequential { .. } = plan.design.stopping {
        let share = TOGETHER.div_ceil(machines).next_multiple_of(2);
        let runs = share.max(FEWEST_ON_EACH);
        plan.design.stopping = Stopping::Fixed { runs };
        plan.sampling.runs = Runs::Fixed(runs);
    }
}

fn divided(plan: &Plan, machines: &[FleetMachine], each: bool) -> Vec<StoredParcel> {
    let length = |job: &speedwell_harness::Job| expected_s(plan, job);
    let cases: Vec<(&str, f64)> = (plan.jobs.iter())
        .map(|job| (job.label.as_str(), length(job)))
        .collect();
    let names: Vec<&str> = machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    let placed = place::place(&cases, &names);
    let mut parcels = Vec::new();
    for machine in 0..machines.len() {
        let is_own = |case: &usize| each || placed[*case] == machine;
        let own = (0..cases.len())
            .filter(is_own)
            .map(|case| (case as u32, cases[case].1));
        for jobs in place::cut(own) {
            parcels.push(StoredParcel {
                machine: machine as u32,
                jobs,
                stratum: if each { machine as u32 } else { 0 },
                attempt: 0,
                engine_id: None,
                state: ParcelState::Waiting,
            });
        }
    }
    parcels
}

/// Estimates the duration of a case from the plan, in seconds.
fn expected_s(plan: &Plan, job: &speedwell_harness::Job) -> f64 {
    let samples = job.samples.unwrap_or(plan.sampling.samples);
    let measured_ns = match samples.length {
        Length::TimeNs(ns) => ns as f64 * f64::from(samples.count),
        Length::Iterations(_) => 0.0,
    };
    let run_s = (measured_ns + samples.warmup_ns as f64) / 1e9 + OF_A_PROCESS_S;
    run_s * f64::from(plan.runs_per_variant()) * plan.variants.len() as f64
}

fn sent(
    engine: &mut Engine,
    fleet: &FleetRequest,
    machines: Vec<FleetMachine>,
    bundle: &Bundle,
    session: &str,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Vec<Machine>> {
    let mut ready = Vec::new();
    for known in machines {
        send::note_sending(bundle, &known.name, listener)?;
        let is_shared = send::is_shared(&fleet.file);
        let (folder, bundle) = if is_shared {
            send::here(bundle, session, &known)
        } else {
            send::there(engine, bundle, session, &known)
        }
        .with_context(|| format!("'{}' cannot be sent what it needs", known.name))?;
        ready.push(Machine {
            known,
            folder,
            bundle,
            is_shared,
            failures: 0,
        });
    }
    Ok(ready)
}
