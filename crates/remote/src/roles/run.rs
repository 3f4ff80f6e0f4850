//! Performs one run of an experiment whose roles run on different machines. Each role has its own
//! connection to this process. Services start before the target, and the load machines send the
//! load. Start at [`perform_placed_run`]; [`keep_services`] runs services that several runs share.
//! [`RoleConnection::open`] connects this process to one role on another machine.
//!
//! The folder of the definition file lies elsewhere on the machines, so a [`FolderMapping`] rewrites
//! the paths of the programs that are started there.

use super::worker::{LoadReply, RequestedLoad, WorkerEvent};
use crate::load::LoadGenerators;
use crate::machines::{FleetEngine, ROLE_SUBCOMMAND, ServiceRequest, TargetRequest, WorkerRequest};
use anyhow::{Result, bail};
use speedwell_adapters::plan::RelocationMap;
use speedwell_config::fleet::FleetFile;
use speedwell_engine::execution::experiment::{
    self, RunReport, StageResult, stage_error, stage_failure, wait_for_loss,
};
use speedwell_engine::execution::load::{build_job, wrap_measured};
use speedwell_load::load::LoadShare;
use speedwell_machine::process;
use speedwell_machine::worker::WorkerConnection;
use speedwell_model::assignment::{
    BackingService, PlaceholderValue, ProofSource, RunAssignment, ScopedServices, TargetProgram,
};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use speedwell_model::{MachinePlacement, PlacedMachine};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks whether a service has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// After the target has failed, wait this long for the end of a service that may be the cause.
const SERVICE_END_DELAY: Duration = Duration::from_millis(300);

/// Performs a run on the machines where its roles are placed.
pub fn perform_placed_run(
    assignment: &RunAssignment,
    placement: &MachinePlacement,
    seed: u64,
) -> RunReport {
    let mut report = RunReport::default();
    report.performed.failure = run_placed(assignment, placement, seed, &mut report).err();
    report
}

fn run_placed(
    assignment: &RunAssignment,
    placement: &MachinePlacement,
    seed: u64,
    report: &mut RunReport,
) -> StageResult<()> {
    if assignment.profile.is_some() {
        let reason = "profiles are recorded on a single machine, but [place] uses other machines";
        return Err(stage_failure(RunStage::Profile, reason));
    }
    let services = PlacedServices::new(placement, &assignment.place.kept)?;
    let mut run = PlacedRun { assignment, seed, services, load_failure: None };
    let started = run.services.start(&assignment.services, assignment.place.ports);
    let result = started.and_then(|()| run.run_target(report));
    let lost_service = match &result {
        Err(_) if !process::is_interrupt_requested() => run.services.find_lost_service(),
        _ => None,
    };
    let end_result = run.services.end_all(report);
    lost_service.map_or_else(|| result.and(end_result), Err)
}

/// Starts services, reports their addresses through `ready`, and keeps them alive until this
/// process is interrupted or a service is lost. Returns notes and any failure.
pub fn keep_services(
    keeping: &ScopedServices,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
) -> StageReport {
    let mut report = RunReport::default();
    let result = match &keeping.place.placement {
        None => experiment::run_shared_services(keeping, ready, &mut report),
        Some(placement) => keep_placed_services(keeping, placement, ready, &mut report),
    };
    report.performed.failure = result.err();
    report.performed
}

/// Does the same as [`keep_services`], but on the machines where the services are placed.
fn keep_placed_services(
    keeping: &ScopedServices,
    placement: &MachinePlacement,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
    report: &mut RunReport,
) -> StageResult<()> {
    let mut services = PlacedServices::new(placement, &keeping.place.kept)?;
    let known_count = services.placeholders.len();
    let result = services.start(&keeping.services, keeping.place.ports).and_then(|()| {
        ready(&services.placeholders[known_count..]);
        wait_for_loss(|| services.find_failure())
    });
    result.and(services.end_all(report))
}

/// Services on the machines where they are placed.
struct PlacedServices<'a> {
    placement: &'a MachinePlacement,
    file: FleetFile,
    engine: FleetEngine,
    /// Placeholders known so far.
    placeholders: Vec<PlaceholderValue>,
    started: Vec<RoleConnection>,
}

impl<'a> PlacedServices<'a> {
    /// Starts nothing yet. The target's host is known already, and so are the addresses in `kept`,
    /// which belong to services that outlive the target.
    fn new(
        placement: &'a MachinePlacement,
        kept: &[PlaceholderValue],
    ) -> StageResult<PlacedServices<'a>> {
        let file = FleetFile::read(&placement.fleet).map_err(stage_error(RunStage::Start))?;
        let host = ("target.host".to_owned(), placement.of_target().address.to_string());
        Ok(PlacedServices {
            placement,
            engine: FleetEngine::from_file(&file).within_allocation(placement.allocation.as_ref()),
            file,
            placeholders: [&[host], kept].concat(),
            started: Vec::new(),
        })
    }

    /// Starts each service on its machine and adds its address to the placeholders. A service may
    /// need the services before it, so they start one after the other.
    fn start(&mut self, services: &[BackingService], ports: Option<(u16, u16)>) -> StageResult<()> {
        for service in services {
            let machine = self.placement.of_service(&service.name);
            let mapping = FolderMapping { from: &self.placement.root, to: &machine.root };
            let request = WorkerRequest::RunService(Box::new(ServiceRequest {
                service: mapping.map_service(service.clone()).fill_placeholders(&self.placeholders),
                address: machine.address,
                ports,
                folder: machine.folder.clone(),
            }));
            let name = format!("service '{}'", service.name);
            let role = RoleConnection::open(&mut self.engine, machine, &name, &request)?;
            let port = match role.next_event()? {
                WorkerEvent::Ready(port) => port,
                other => return Err(role.start_failure(other)),
            };
            let placeholder = |key: &str, text: String| (format!("{}.{key}", service.name), text);
            self.placeholders.push(placeholder("host", machine.address.to_string()));
            self.placeholders.push(placeholder("port", port.to_string()));
            self.started.push(role);
        }
        Ok(())
    }

    fn find_failure(&self) -> Option<StageFailure> {
        self.started.iter().find_map(RoleConnection::find_failure)
    }

    /// Returns the failure of a service whose loss made the target fail, if any. The end of the
    /// service may be noticed a little later than the failure of the target.
    fn find_lost_service(&self) -> Option<StageFailure> {
        let begin = Instant::now();
        loop {
            let lost = self.find_failure();
            if lost.is_some() || self.started.is_empty() || begin.elapsed() > SERVICE_END_DELAY {
                return lost;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn end_all(self, report: &mut RunReport) -> StageResult<()> {
        let mut result = Ok(());
        for service in self.started.into_iter().rev() {
            result = result.and(service.end_service(&mut report.performed.notes));
        }
        result
    }
}

struct PlacedRun<'a> {
    assignment: &'a RunAssignment,
    seed: u64,
    services: PlacedServices<'a>,
    /// Why the load could not be sent.
    load_failure: Option<String>,
}

impl PlacedRun<'_> {
    /// Runs the target and sends the loads that it requests.
    fn run_target(&mut self, report: &mut RunReport) -> StageResult<()> {
        let placement = self.services.placement;
        let machine = placement.of_target();
        let mapping = FolderMapping { from: &placement.root, to: &machine.root };
        let mut placeholders = self.services.placeholders.clone();
        placeholders.push(("host".to_owned(), machine.address.to_string()));
        let filled = self.assignment.clone().fill_placeholders(&placeholders);
        let mut assignment = mapping.map_assignment(filled);
        assignment.services.clear();
        assignment.place.placement = None;
        let request = WorkerRequest::RunTarget(Box::new(TargetRequest {
            assignment,
            seed: self.seed,
            address: machine.address,
            folder: machine.folder.clone(),
        }));
        let target = RoleConnection::open(&mut self.services.engine, machine, "target", &request)?;
        loop {
            match target.next_event()? {
                WorkerEvent::Load(load_request) => {
                    let result = self.send_load(&load_request, &target);
                    self.load_failure = result.as_ref().err().map(|error| format!("{error:#}"));
                    target.send_outcome(&match result {
                        Ok(run) => LoadReply::Sent(Box::new(run)),
                        Err(error) => LoadReply::NotSent(format!("{error:#}")),
                    });
                }
                WorkerEvent::StopLoad => {}
                WorkerEvent::Done(outcome) => {
                    *report = *outcome;
                    let failure = report.performed.failure.take();
                    return failure
                        .map_or(Ok(()), |failure| Err(self.attribute_failure(&target, failure)));
                }
                other => return Err(target.start_failure(other)),
            }
        }
    }

    /// Attributes a failure to the machines that send the load, or to the target.
    fn attribute_failure(&self, target: &RoleConnection, failure: StageFailure) -> StageFailure {
        match (&self.load_failure, failure.stage) {
            (Some(lost), RunStage::Warmup | RunStage::Load) if failure.reason.contains(&**lost) => {
                StageFailure { reason: lost.clone(), ..failure }
            }
            (_, RunStage::Served) => StageFailure {
                reason: format!("load from {}: {}", self.names_of_load(), failure.reason),
                ..failure
            },
            _ => target.with_role_name(failure),
        }
    }

    fn names_of_load(&self) -> String {
        let MachinePlacement { machines, load, .. } = self.services.placement;
        let names = load.iter().map(|index| format!("'{}'", machines[*index].name));
        names.collect::<Vec<String>>().join(", ")
    }

    /// Sends a load from the machines that have the role `load`. The load ends early if the target
    /// or a service is lost.
    fn send_load(&self, load_request: &RequestedLoad, target: &RoleConnection) -> Result<LoadRun> {
        let PlacedServices { placement, file, started, .. } = &self.services;
        // Every machine needs at least one of the load's connections, or it has nothing to send.
        let max_machines = load_request.spec.concurrency.unwrap_or(u32::MAX).max(1) as usize;
        let machines = (placement.load.iter().take(max_machines)).map(|index| {
            let machine = &placement.machines[*index];
            (machine.name.clone(), machine.program.clone())
        });
        let engine = FleetEngine::from_file(file).within_allocation(placement.allocation.as_ref());
        let mut generators = LoadGenerators { engine, machines: machines.collect() };
        let spec = generators.combined_spec(&load_request.spec);
        let job = build_job(&spec, load_request.seed, LoadShare::ONLY)?;
        let roles = started.iter().chain([target]);
        let alarms: Vec<&AtomicBool> = roles.map(|role| &*role.alarm).collect();
        let result = process::with_stop_flag(
            || alarms.iter().any(|alarm| alarm.load(Ordering::Relaxed)),
            |stop| generators.send_load(&job, stop, &mut |_| ()),
        )?;
        let lost = result.parts.iter().find_map(|part| Some((part, part.lost.as_ref()?)));
        if let Some((part, reason)) = lost {
            bail!(
                "load from '{}': connection lost after {} requests: {reason}",
                part.machine,
                part.attempted
            );
        }
        if let Some(loss) = result.losses.first() {
            bail!("load from {loss}");
        }
        let mut run = wrap_measured(&job, result.measured);
        run.parts = result.parts;
        Ok(run)
    }
}

/// A local folder and its counterpart on the machine.
#[derive(Debug, Clone, Copy)]
struct FolderMapping<'a> {
    from: &'a Path,
    to: &'a Path,
}

impl FolderMapping<'_> {
    /// Rewrites the paths of a target. Also rewrites the paths of files that prove that the variant
    /// took effect.
    fn map_assignment(self, mut assignment: RunAssignment) -> RunAssignment {
        self.map_target(&mut assignment.target);
        for proof in &mut assignment.proofs {
            if let ProofSource::File(file) = &mut proof.place {
                *file = self.map_path(file);
            }
        }
        assignment
    }

    fn map_service(self, mut service: BackingService) -> BackingService {
        self.map_target(&mut service.program);
        for argument in service.ready.iter_mut().flatten() {
            *argument = self.map_text(argument);
        }
        service
    }

    fn map_target(self, target: &mut TargetProgram) {
        target.directory = self.map_path(&target.directory);
        for string in target.strings_mut() {
            *string = self.map_text(string);
        }
    }

    fn map_path(self, path: &Path) -> PathBuf {
        RelocationMap::new([(self.from.to_owned(), self.to.to_owned())]).map_path(path)
    }

    /// Rewrites the folder wherever it occurs in a string, as in `--data=/here/x`.
    fn map_text(self, text: &str) -> String {
        let (from, to) = (self.from.to_string_lossy(), self.to.to_string_lossy());
        let is_name_character = |c: char| c.is_alphanumeric() || "._-".contains(c);
        let (mut result, mut unprocessed) = (String::new(), text);
        while let Some(position) = unprocessed.find(&*from) {
            let (before, after) = (&unprocessed[..position], &unprocessed[position + from.len()..]);
            let follows_name = before.chars().next_back().is_some_and(is_name_character);
            let is_folder = !follows_name && !after.starts_with(is_name_character);
            result.push_str(before);
            result.push_str(if is_folder { &to } else { &from });
            unprocessed = after;
        }
        result + unprocessed
    }
}

/// Interval between checks for an interrupt by the user.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long to wait until a role and everything that it started have ended.
const END_GRACE: Duration = Duration::from_secs(30);

/// A role of an experiment on its machine. The role ends when this value is dropped.
pub(super) struct RoleConnection {
    /// Name in messages, for example `target` or `service 'db'`.
    name: String,
    machine: String,
    connection: Arc<WorkerConnection>,
    events: Receiver<Result<WorkerEvent>>,
    /// Set when a running load has to end: when the role asks to stop the load, or when the role
    /// itself ends.
    alarm: Arc<AtomicBool>,
}

impl RoleConnection {
    /// Starts this program on a machine, and sends `request` to it. `name` is the name of the role
    /// in messages.
    ///
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn open(
        engine: &mut FleetEngine,
        machine: &PlacedMachine,
        name: &str,
        request: &WorkerRequest,
    ) -> StageResult<RoleConnection> {
        let connect_failure = |error: anyhow::Error| {
            let reason = format!("{name} on '{}': cannot connect: {error:#}", machine.name);
            stage_failure(RunStage::Start, reason)
        };
        let connection = engine.start_worker(&machine.name, &machine.program, &[ROLE_SUBCOMMAND]);
        let connection = Arc::new(connection.map_err(connect_failure)?);
        // If the connection has failed, the next message gives the reason.
        let _ = connection.send(request);
        let alarm = Arc::new(AtomicBool::new(false));
        Ok(RoleConnection {
            name: name.to_owned(),
            machine: machine.name.clone(),
            events: receive_events(Arc::clone(&connection), Arc::clone(&alarm)),
            connection,
            alarm,
        })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Fails if the connection breaks or the user interrupts.
    pub fn next_event(&self) -> StageResult<WorkerEvent> {
        loop {
            if process::is_interrupt_requested() {
                return Err(self.end_failure("interrupted"));
            }
            match self.events.recv_timeout(INTERRUPT_POLL_INTERVAL) {
                Ok(Ok(event)) => return Ok(event),
                Ok(Err(error)) => {
                    let reason = self.connection.end(Some(&error)).reason().unwrap_or_default();
                    return Err(self.end_failure(&format!("connection lost: {reason}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.end_failure("connection lost"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the failure that made a service unusable, if any.
    pub fn find_failure(&self) -> Option<StageFailure> {
        if !self.alarm.load(Ordering::Relaxed) {
            return None;
        }
        let failure = match self.next_event() {
            Ok(WorkerEvent::Done(outcome)) => {
                outcome.performed.failure.map(|failure| self.with_role_name(failure))
            }
            Ok(_) => None,
            Err(failure) => Some(failure),
        };
        Some(failure.unwrap_or_else(|| self.end_failure("it has ended")))
    }

    /// Sends the outcome of a load to the role that requested it.
    pub fn send_outcome(&self, reply: &LoadReply) {
        self.alarm.store(false, Ordering::Relaxed);
        // The next message reports a broken connection.
        let _ = self.connection.send(reply);
    }

    /// Ends a service. Appends the notes of its final report to `notes`.
    ///
    /// # Errors
    /// Fails if the final report of the service contains a failure.
    pub fn end_service(self, notes: &mut Vec<String>) -> StageResult<()> {
        self.connection.close(END_GRACE);
        let final_report = self.events.iter().find_map(|event| match event {
            Ok(WorkerEvent::Done(outcome)) => Some(outcome.performed),
            _ => None,
        });
        let Some(performed) = final_report else {
            return Ok(());
        };
        let attributed = |note: &String| format!("{} on '{}': {note}", self.name, self.machine);
        notes.extend(performed.notes.iter().map(attributed));
        performed.failure.map_or(Ok(()), |failure| Err(self.with_role_name(failure)))
    }

    fn end_failure(&self, reason: &str) -> StageFailure {
        self.with_role_name(stage_failure(RunStage::Alive, reason))
    }

    /// Returns why a role did not start: the failure that it reports, or that it sent something
    /// unexpected.
    pub fn start_failure(&self, event: WorkerEvent) -> StageFailure {
        let reported = match event {
            WorkerEvent::Done(outcome) => outcome.performed.failure,
            _ => None,
        };
        let unexpected = || stage_failure(RunStage::Start, "it sent an unexpected message");
        self.with_role_name(reported.unwrap_or_else(unexpected))
    }

    /// Prefixes the reason with the role and its machine.
    pub fn with_role_name(&self, failure: StageFailure) -> StageFailure {
        StageFailure {
            reason: format!("{} on '{}': {}", self.name, self.machine, failure.reason),
            ..failure
        }
    }
}

impl Drop for RoleConnection {
    /// Waits until everything that the role started has ended.
    fn drop(&mut self) {
        self.connection.close(END_GRACE);
    }
}

/// Receives messages in a thread. Raises the alarm when the role ends or asks to stop a load.
fn receive_events(
    connection: Arc<WorkerConnection>,
    alarm: Arc<AtomicBool>,
) -> Receiver<Result<WorkerEvent>> {
    let (sender, events) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let event = connection.receive();
            let is_last = matches!(event, Err(_) | Ok(WorkerEvent::Done(_)));
            if is_last || matches!(event, Ok(WorkerEvent::StopLoad)) {
                alarm.store(true, Ordering::Relaxed);
            }
            if sender.send(event).is_err() || is_last {
                break;
            }
        }
    });
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_within_the_folder_are_mapped() {
        let moved = FolderMapping { from: Path::new("/home/a/web"), to: Path::new("/var/b") };
        for (here, there) in [
            ("/home/a/web/server.js", "/var/b/server.js"),
            ("--data=/home/a/web", "--data=/var/b"),
            ("/home/a/web:/home/a/web/lib", "/var/b:/var/b/lib"),
            ("/home/a/web2/x", "/home/a/web2/x"),
            ("/mnt/home/a/web", "/mnt/home/a/web"),
            ("node", "node"),
        ] {
            let found = moved.map_text(here);
            assert_eq!(found, there);
        }
        assert_eq!(moved.map_path(Path::new("/home/a/web")), Path::new("/var/b"));
        assert_eq!(moved.map_path(Path::new("/home/a/web/x")), Path::new("/var/b/x"));
        assert_eq!(moved.map_path(Path::new("/usr/bin")), Path::new("/usr/bin"));
    }
}
