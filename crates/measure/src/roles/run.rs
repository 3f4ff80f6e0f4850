//! One run of an experiment whose roles run on different machines, each with its own connection to
//! this process. Services start before the target, and the load machines send the load. Start at
//! [`perform_run`]; [`keep_services`] runs services that several runs share.

use super::line::RoleConnection;
use super::relocate::FolderMapping;
use super::worker::{
    LoadReply, RequestedLoad, RoleOutcome, ServiceRequest, TargetRequest, WorkerEvent,
    WorkerRequest,
};
use crate::load::machines::LoadGenerators;
use anyhow::{Result, bail};
use speedwell_fleet::FleetEngine;
use speedwell_load::load::LoadShare;
use speedwell_model::MachinePlacement;
use speedwell_model::assignment::{
    BackingService, PlaceholderValue, RunAssignment, ScopedServices,
};
use speedwell_model::load_run::LoadRun;
use speedwell_model::performed::{RunStage, StageFailure, StageReport};
use speedwell_process as process;
use speedwell_runner::experiment::{self, RunReport, StageResult, stage_failure, wait_for_loss};
use speedwell_runner::load::{build_job, wrap_measured};
use speedwell_suite::fleet::FleetFile;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval for reasons to end a load.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long after its consequences the end of a service may be noticed.
const SERVICE_END_DELAY: Duration = Duration::from_millis(300);

/// Performs a run, on this machine or on those where its roles are placed.
pub fn perform_run(assignment: &RunAssignment, seed: u64) -> RunReport {
    let Some(placement) = &assignment.placement else {
        return experiment::perform_run(assignment, seed);
    };
    let mut done = RunReport::default();
    let ended = run_placed(assignment, placement, seed, &mut done);
    done.performed.failure = ended.err();
    done
}

fn run_placed(
    assignment: &RunAssignment,
    placement: &MachinePlacement,
    seed: u64,
    done: &mut RunReport,
) -> StageResult<()> {
    if assignment.profile.is_some() {
        let reason = "profiles are recorded on a single machine, but [place] uses others";
        return Err(stage_failure(RunStage::Profile, reason));
    }
    let file = FleetFile::read(&placement.fleet)
        .map_err(|error| stage_failure(RunStage::Start, format!("{error:#}")))?;
    let mut run = PlacedRun {
        assignment,
        placement,
        seed,
        engine: FleetEngine::from_file(&file).within_allocation(placement.allocation.as_ref()),
        file,
        placeholders: initial_placeholders(placement, &assignment.kept),
        load_failure: None,
    };
    let mut services: Vec<RoleConnection> = Vec::new();
    let wanted = (&assignment.services[..], assignment.ports);
    let engine = &mut run.engine;
    let ended = match start_services(
        engine,
        placement,
        wanted,
        &mut run.placeholders,
        &mut services,
    ) {
        Ok(()) => run.run_target(&services, done),
        Err(why) => Err(why),
    };
    let lost = match &ended {
        Err(_) if !process::is_interrupt_requested() => find_lost_service(&services),
        _ => None,
    };
    let stopped = end_all(services, done);
    match lost {
        Some(why) => Err(why),
        None => ended.and(stopped),
    }
}

/// Starts services, reports their addresses by `ready`, and keeps them alive until this process is
/// interrupted or one is lost. Returns notes and any failure.
pub fn keep_services(
    keeping: &ScopedServices,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
) -> StageReport {
    let mut done = RunReport::default();
    let ended = match &keeping.placement {
        None => experiment::run_shared_services(keeping, ready, &mut done),
        Some(placement) => keep_placed_services(keeping, placement, ready, &mut done),
    };
    done.performed.failure = ended.err();
    done.performed
}

/// Like [`keep_services`], on the machines where the services are placed.
fn keep_placed_services(
    keeping: &ScopedServices,
    placement: &MachinePlacement,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
    done: &mut RunReport,
) -> StageResult<()> {
    let file = FleetFile::read(&placement.fleet)
        .map_err(|error| stage_failure(RunStage::Start, format!("{error:#}")))?;
    let mut engine = FleetEngine::from_file(&file).within_allocation(placement.allocation.as_ref());
    let mut placeholders = initial_placeholders(placement, &keeping.kept);
    let before = placeholders.len();
    let mut services: Vec<RoleConnection> = Vec::new();
    let wanted = (&keeping.services[..], keeping.ports);
    let ended = start_services(
        &mut engine,
        placement,
        wanted,
        &mut placeholders,
        &mut services,
    )
    .and_then(|()| {
        ready(&placeholders[before..]);
        wait_for_loss(|| services.iter().find_map(RoleConnection::find_failure))
    });
    let stopped = end_all(services, done);
    ended.and(stopped)
}

/// Placeholders known before anything starts: the target's host, and services that outlive the
/// target.
fn initial_placeholders(
    placement: &MachinePlacement,
    kept: &[PlaceholderValue],
) -> Vec<PlaceholderValue> {
    let host = placement.of_target().address.to_string();
    let mut known = vec![("target.host".to_owned(), host)];
    known.extend_from_slice(kept);
    known
}

/// Starts services one after the other, each on its machine, since later ones may need earlier
/// ones. Adds their addresses to `blanks`.
fn start_services(
    engine: &mut FleetEngine,
    placement: &MachinePlacement,
    (services, ports): (&[BackingService], Option<(u16, u16)>),
    blanks: &mut Vec<PlaceholderValue>,
    started: &mut Vec<RoleConnection>,
) -> StageResult<()> {
    for service in services {
        let machine = placement.of_service(&service.name);
        let moved = FolderMapping {
            from: &placement.root,
            to: &machine.root,
        };
        let order = WorkerRequest::Serve(Box::new(ServiceRequest {
            service: moved.map_service(service.clone()).fill_placeholders(blanks),
            address: machine.address,
            ports,
            folder: machine.folder.clone(),
        }));
        let name = format!("service '{}'", service.name);
        let there = (machine.name.as_str(), machine.program.as_str());
        let role = RoleConnection::open(engine, there, &name, &order)?;
        let port = match role.next_event()? {
            WorkerEvent::Ready(port) => port,
            WorkerEvent::Done(done) => return Err(role.with_role_name(outcome_failure(*done))),
            _ => return Err(role.with_role_name(unexpected_message())),
        };
        let blank = |what: &str, text: String| (format!("{}.{what}", service.name), text);
        blanks.push(blank("host", machine.address.to_string()));
        blanks.push(blank("port", port.to_string()));
        started.push(role);
    }
    Ok(())
}

fn end_all(services: Vec<RoleConnection>, done: &mut RunReport) -> StageResult<()> {
    let mut ended = Ok(());
    for service in services.into_iter().rev() {
        let own = service.end_service(&mut done.performed.notes);
        ended = ended.and(own);
    }
    ended
}

/// The service whose loss made the target fail. Its end may be noticed a little later than the
/// failure.
fn find_lost_service(services: &[RoleConnection]) -> Option<StageFailure> {
    let begin = Instant::now();
    loop {
        let lost = services.iter().find_map(RoleConnection::find_failure);
        if lost.is_some() || services.is_empty() || begin.elapsed() > SERVICE_END_DELAY {
            return lost;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

struct PlacedRun<'a> {
    assignment: &'a RunAssignment,
    placement: &'a MachinePlacement,
    seed: u64,
    file: FleetFile,
    engine: FleetEngine,
    /// Placeholders known so far.
    placeholders: Vec<PlaceholderValue>,
    /// Why the load could not be sent.
    load_failure: Option<String>,
}

impl PlacedRun<'_> {
    /// Runs the target and sends the loads that it requests.
    fn run_target(&mut self, services: &[RoleConnection], done: &mut RunReport) -> StageResult<()> {
        let machine = self.placement.of_target();
        let moved = FolderMapping {
            from: &self.placement.root,
            to: &machine.root,
        };
        let mut blanks = self.placeholders.clone();
        blanks.push(("host".to_owned(), machine.address.to_string()));
        let assignment = RunAssignment {
            services: Vec::new(),
            placement: None,
            ..moved.map_assignment(self.assignment.clone().fill_placeholders(&blanks))
        };
        let order = WorkerRequest::Perform(Box::new(TargetRequest {
            assignment,
            seed: self.seed,
            address: machine.address,
            folder: machine.folder.clone(),
        }));
        let there = (machine.name.as_str(), machine.program.as_str());
        let target = RoleConnection::open(&mut self.engine, there, "target", &order)?;
        loop {
            match target.next_event()? {
                WorkerEvent::Load(wanted) => {
                    let sent = self.send_load(&wanted, &target, services);
                    self.load_failure = sent.as_ref().err().map(|error| format!("{error:#}"));
                    target.send_outcome(&match sent {
                        Ok(run) => LoadReply::Sent(Box::new(run)),
                        Err(error) => LoadReply::NotSent(format!("{error:#}")),
                    });
                }
                WorkerEvent::StopLoad => {}
                WorkerEvent::Done(finished) => {
                    let RoleOutcome { performed, load } = *finished;
                    (done.performed, done.load) = (performed, load);
                    let why = done.performed.failure.take();
                    return why.map_or(Ok(()), |why| Err(self.attribute_failure(&target, why)));
                }
                _ => return Err(target.with_role_name(unexpected_message())),
            }
        }
    }

    /// Attributes a failure to the machines that send the load, or to the target.
    fn attribute_failure(&self, target: &RoleConnection, why: StageFailure) -> StageFailure {
        let is_of_load = |failure: &String| why.reason.contains(failure.as_str());
        match (&self.load_failure, why.stage) {
            (Some(failure), RunStage::Warmup | RunStage::Load) if is_of_load(failure) => {
                StageFailure {
                    reason: failure.clone(),
                    ..why
                }
            }
            (_, RunStage::Served) => StageFailure {
                reason: format!("load from {}: {}", self.names_of_load(), why.reason),
                ..why
            },
            _ => target.with_role_name(why),
        }
    }

    fn names_of_load(&self) -> String {
        let name = |at: &usize| format!("'{}'", self.placement.machines[*at].name);
        let names: Vec<String> = self.placement.load.iter().map(name).collect();
        names.join(", ")
    }

    /// Sends a load from its machines. It ends early if the target or a service is lost.
    fn send_load(
        &self,
        wanted: &RequestedLoad,
        target: &RoleConnection,
        services: &[RoleConnection],
    ) -> Result<LoadRun> {
        // A machine without a connection would have nothing to send.
        let most = wanted.spec.concurrency.unwrap_or(u32::MAX).max(1) as usize;
        let machines = (self.placement.load.iter().take(most)).map(|at| {
            let machine = &self.placement.machines[*at];
            (machine.name.clone(), machine.program.clone())
        });
        let engine = FleetEngine::from_file(&self.file)
            .within_allocation(self.placement.allocation.as_ref());
        let mut generators = LoadGenerators::on_machines(engine, machines);
        let job = build_job(
            &generators.combined_spec(&wanted.spec),
            wanted.seed,
            LoadShare::ONLY,
        )?;
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let alarms: Vec<&AtomicBool> = (services.iter().chain([target]))
            .map(RoleConnection::alarm)
            .collect();
        let sent = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let has_alarm = alarms.iter().any(|alarm| alarm.load(Ordering::Relaxed));
                    if has_alarm || process::is_interrupt_requested() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    thread::sleep(POLL_INTERVAL);
                }
            });
            let sent = generators.send_load(&job, &stop, &mut |_| ());
            over.store(true, Ordering::Relaxed);
            sent
        })?;
        if let Some((part, why)) =
            (sent.parts.iter()).find_map(|part| Some((part, part.lost.as_ref()?)))
        {
            bail!(
                "load from '{}': connection lost after {} requests: {why}",
                part.machine,
                part.attempted
            );
        }
        if let Some(loss) = sent.losses.first() {
            bail!("load from {loss}");
        }
        let mut run = wrap_measured(&job, sent.measured);
        run.parts = sent.parts;
        Ok(run)
    }
}

pub(super) fn outcome_failure(done: RoleOutcome) -> StageFailure {
    done.performed.failure.unwrap_or_else(unexpected_message)
}

pub(super) fn unexpected_message() -> StageFailure {
    stage_failure(RunStage::Start, "it sent an unexpected message")
}
