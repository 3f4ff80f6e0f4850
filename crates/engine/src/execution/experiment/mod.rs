//! Performs one run of an experiment in a process of its own: receives the assignment, starts a fresh
//! process tree, checks that the intended variant is running, measures it, stops all processes, and
//! sends the report.
//!
//! Decides the order of stages and which failure belongs to which stage. This module knows nothing
//! about definition files and plans: a [`RunAssignment`] is the whole input, and a [`RunReport`] is
//! the result. A run needs a process of its own, because it may enter another network namespace.
//! Start at [`serve_request`]; `lifecycle.rs` has the stages of a server. [`target_spec`] builds the
//! command of a target with its environment.
//!
//! Services that a target depends on, such as a database, are ready before the target starts, and
//! are stopped after it has ended ([`start_service`]).
//!
//! A [`RunSite`] describes where a run is executed. Isolation gives a run's target and its load
//! separate processors, and a network namespace with only a loopback device. In such a namespace, a
//! fixed port is free, and no other process can answer for the server (network_namespaces(7)).
//! Entering the namespace affects the whole process, which must still have a single thread.

mod assertions;
mod lifecycle;
mod loads;
mod metrics;

pub use metrics::{RunReport, StageResult, stage_error, stage_failure};

use crate::execution::load::{build_job, send_load, wrap_measured};
use crate::execution::server::{ReadinessFailure, TAIL_LINES, UNLIMITED, wait_until_ready};
use anyhow::Context;
use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::Signal;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use speedwell_adapters::ProtocolMessage;
use speedwell_load::load::{LoadShare, ServerAddress};
use speedwell_machine::process::{
    self, CpuSet, ProcessEnd, ProcessOutcome, ProcessSpec, ServiceProcess, ShutdownPolicy,
};
use speedwell_model::MachinePlacement;
use speedwell_model::assignment::{
    AssignedPlace, BackingService, PlaceholderValue, ProcessorShares, RunAssignment,
    ScopedServices, StopSignal, TargetProgram, TargetWork,
};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks whether a service has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of one readiness command of a service.
const READY_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for a request on the private channel (docs/reference/protocol.md, "Transport"), performs
/// it, and sends the result. A request is a run, or services that several runs share.
///
/// `perform_placed_run` performs a run whose roles are placed on machines. `keep_services` passes
/// the addresses of services to its callback, and keeps the services running until this process is
/// interrupted.
///
/// # Errors
/// Fails if this process was started without a private channel, or if the channel is closed.
pub fn serve_request(
    perform_placed_run: impl FnOnce(&RunAssignment, &MachinePlacement, u64) -> RunReport,
    keep_services: impl FnOnce(&ScopedServices, &mut dyn FnMut(&[PlaceholderValue])) -> StageReport,
) -> anyhow::Result<()> {
    let (commands, mut events) =
        open_private_channel().context("this command is internal to Speedwell")?;
    let lines = BufReader::new(commands).split(b'\n').map_while(Result::ok);
    let mut messages = lines.filter_map(|line| ProtocolMessage::parse(&line));
    let found = messages.find(|message| matches!(message.verb.as_str(), "run" | "keep"));
    let request = found.context("received no request")?;
    process::adopt_orphans();
    process::install_handlers()?;
    if request.verb == "keep" {
        thread::spawn(move || {
            // Further input is ignored; the services end when the channel is closed.
            messages.for_each(drop);
            process::request_interrupt();
        });
        return keep_requested(&request, &mut events, keep_services);
    }
    let text = request.get("assignment").context("the request has no assignment")?;
    let assignment: RunAssignment = serde_json::from_str(&text)?;
    let seed = request.parse_number("seed").unwrap_or(0);
    let result = match &assignment.place.placement {
        None => perform_run(&assignment, seed),
        Some(placement) => perform_placed_run(&assignment, placement, seed),
    };
    let mut response =
        ProtocolMessage::new("performed").with("json", serde_json::to_string(&result.performed)?);
    if let Some(load) = &result.load {
        response = response.with("load", serde_json::to_string(load)?);
    }
    if let Some(profile) = &result.profile {
        response = response.with("profile", serde_json::to_string(profile)?);
    }
    events.write_all(response.to_string().as_bytes())?;
    Ok(events.write_all(ProtocolMessage::new("end").to_string().as_bytes())?)
}

/// Opens the two pipes that connect this process with its parent. `SPEEDWELL_FDS` names their file
/// descriptors. The function opens the pipes again by their paths in /proc, because this needs no
/// unsafe code.
fn open_private_channel() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (input, output) =
        names.split_once(',').context("SPEEDWELL_FDS does not name two descriptors")?;
    let path = |number: &str| format!("/proc/self/fd/{number}");
    Ok((File::open(path(input))?, OpenOptions::new().write(true).open(path(output))?))
}

/// Keeps the requested services running with `keep_services`. Reports their addresses, and how they
/// ended.
fn keep_requested(
    request: &ProtocolMessage,
    events: &mut File,
    keep_services: impl FnOnce(&ScopedServices, &mut dyn FnMut(&[PlaceholderValue])) -> StageReport,
) -> anyhow::Result<()> {
    let services = request.get("services").context("the request has no services")?;
    let keeping: ScopedServices = serde_json::from_str(&services)?;
    let mut send_result = Ok(());
    let performed = keep_services(&keeping, &mut |addresses: &[PlaceholderValue]| {
        send_result = send_addresses(addresses, events);
    });
    send_result?;
    let ended = ProtocolMessage::new("ended").with("json", serde_json::to_string(&performed)?);
    Ok(events.write_all(ended.to_string().as_bytes())?)
}

fn send_addresses(addresses: &[PlaceholderValue], events: &mut File) -> anyhow::Result<()> {
    let ready = ProtocolMessage::new("ready").with("places", serde_json::to_string(addresses)?);
    Ok(events.write_all(ready.to_string().as_bytes())?)
}

/// Performs a run on this machine, drawing random choices from `seed`. A failure is part of the
/// report. Enters a private network if the assignment requests one, which needs a process with a
/// single thread; adds a note if that is not permitted.
fn perform_run(assignment: &RunAssignment, seed: u64) -> RunReport {
    let mut report = RunReport::default();
    if let TargetWork::Server(service) = &assignment.work
        && service.private_network
        && let Err(error) = enter_network_namespace()
    {
        report.performed.notes.push(format!(
            "A private network is not permitted here ({error}); the run used the network of the \
             machine."
        ));
    }
    let (services, place) = (&assignment.services, &assignment.place);
    let result = with_services(services, place, &mut report, |_, placeholders, report| {
        let filled = assignment.clone().fill_placeholders(placeholders);
        run_target(&filled, &RunSite::default(), seed, report)
    });
    report.performed.failure = result.err();
    report
}

/// Runs services on this machine until an interrupt tells the process to stop them. Once all
/// services are ready, calls `ready` with their addresses.
///
/// # Errors
/// Returns the stage that failed, for example because a service ended by itself.
pub fn run_shared_services(
    scope: &ScopedServices,
    ready: &mut dyn FnMut(&[PlaceholderValue]),
    report: &mut RunReport,
) -> StageResult<()> {
    with_services(&scope.services, &scope.place, report, |services, _, _| {
        let addresses = services.iter().flat_map(RunningService::placeholders);
        ready(&addresses.collect::<Vec<PlaceholderValue>>());
        wait_for_loss(|| find_lost_service(services))
    })
}

/// Starts services on this machine, calls `work` with them and with all placeholders, and stops the
/// services in reverse order.
fn with_services(
    services: &[BackingService],
    place: &AssignedPlace,
    report: &mut RunReport,
    work: impl FnOnce(&[RunningService], &[PlaceholderValue], &mut RunReport) -> StageResult<()>,
) -> StageResult<()> {
    let site = RunSite::default();
    let mut placeholders = site.placeholders();
    placeholders.extend_from_slice(&place.kept);
    let mut started: Vec<RunningService> = Vec::new();
    // A service may need the services before it.
    for service in services {
        let filled = service.clone().fill_placeholders(&placeholders);
        let running = start_service(&filled, &site, place.ports)
            .map_err(|failure| name_service(&service.name, failure))?;
        placeholders.extend(running.placeholders());
        started.push(running);
    }
    let result = work(&started, &placeholders, report);
    let lost_service = find_lost_service(&started);
    let mut stop_result = Ok(());
    for service in started.into_iter().rev() {
        let name = service.name.clone();
        let stopped = service.stop(report).map_err(|failure| name_service(&name, failure));
        stop_result = stop_result.and(stopped);
    }
    // The loss of a service takes precedence over a failure of the target, because the loss may be
    // the cause.
    lost_service.map_or_else(|| result.and(stop_result), Err)
}

/// A service that is ready.
#[derive(Debug)]
pub struct RunningService {
    name: String,
    service: ServiceProcess,
    host: String,
    port: u16,
}

/// Starts a service and waits until it is ready.
///
/// # Errors
/// Returns the stage that failed.
pub fn start_service(
    service: &BackingService,
    site: &RunSite<'_>,
    ports: Option<(u16, u16)>,
) -> StageResult<RunningService> {
    let port = lifecycle::pick_port(None, ports, site)?;
    let host = site.host().to_string();
    let address = [("host".to_owned(), host.clone()), ("port".to_owned(), port.to_string())];
    let definition = service.clone().fill_placeholders(&address);
    let spec = ProcessSpec {
        shutdown: shutdown(&definition.stop),
        limit: UNLIMITED,
        ..target_spec(&definition.program, Some(port))
    };
    let ready_spec = definition.ready.as_ref().map(|command| ready_command(&spec, command));
    let program = spec.program.display().to_string();
    let begin = Instant::now();
    let service = ServiceProcess::start(spec)
        .map_err(|error| stage_failure(RunStage::Start, format!("'{program}': {error}")))?;
    let limit = Duration::from_millis(definition.within_ms);
    let result = wait_until_ready(&service, begin, limit, || match &ready_spec {
        Some(spec) => run_ready_command(spec),
        None => lifecycle::find_listener(site, port, service.pid()).map(drop),
    });
    match result {
        Ok(_) => Ok(RunningService { name: definition.name, service, host, port }),
        Err(failure) => {
            Err(stop_failed(service, stage_failure(RunStage::Ready, failure.reason(limit))))
        }
    }
}

impl RunningService {
    /// Returns the placeholders for the address of the service.
    fn placeholders(&self) -> [PlaceholderValue; 2] {
        [
            (format!("{}.host", self.name), self.host.clone()),
            (format!("{}.port", self.name), self.port.to_string()),
        ]
    }

    /// Returns the port of the service.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a failure if the service has ended by itself.
    pub fn find_failure(&self) -> Option<StageFailure> {
        let has_ended = self.service.has_ended() && !process::is_interrupt_requested();
        has_ended.then(|| stage_failure(RunStage::Alive, "it ended by itself"))
    }

    /// Stops the service.
    ///
    /// # Errors
    /// Fails if the service had to be killed.
    pub fn stop(self, report: &mut RunReport) -> StageResult<()> {
        let outcome = stop_service(self.service)?;
        report.performed.notes.extend(outcome.describe_leftovers());
        if outcome.shutdown.is_some_and(|shutdown| shutdown.was_killed) {
            let reason = "it did not stop when requested and was killed";
            return Err(StageFailure {
                stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
                ..stage_failure(RunStage::Stop, reason)
            });
        }
        Ok(())
    }
}

/// Adds the name of a service to the reason for its failure.
fn name_service(name: &str, failure: StageFailure) -> StageFailure {
    StageFailure { reason: format!("service '{name}': {}", failure.reason), ..failure }
}

/// Returns the failure of the first service that has ended by itself.
fn find_lost_service(services: &[RunningService]) -> Option<StageFailure> {
    let named_failure = |service: &RunningService| {
        service.find_failure().map(|failure| name_service(&service.name, failure))
    };
    services.iter().find_map(named_failure)
}

/// Waits until the process is interrupted or `find_loss` finds a failure.
///
/// # Errors
/// Returns the failure that `find_loss` found.
pub fn wait_for_loss(find_loss: impl Fn() -> Option<StageFailure>) -> StageResult<()> {
    while !process::is_interrupt_requested() {
        if let Some(failure) = find_loss() {
            return Err(failure);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Builds a readiness command with the directory and environment of the service.
fn ready_command(service_spec: &ProcessSpec, command: &[String]) -> ProcessSpec {
    let mut parts = command.iter().cloned();
    let mut spec = ProcessSpec::new(parts.next().unwrap_or_default()).args(parts);
    spec.limit = READY_COMMAND_TIMEOUT;
    spec.directory.clone_from(&service_spec.directory);
    spec.environment.clone_from(&service_spec.environment);
    spec.unset.clone_from(&service_spec.unset);
    spec
}

fn run_ready_command(spec: &ProcessSpec) -> Result<(), ReadinessFailure> {
    let program = spec.program.display();
    let outcome = process::run_child(spec, &mut ())
        .map_err(|error| ReadinessFailure::Never(format!("cannot start '{program}': {error}")))?;
    match outcome.ended {
        ProcessEnd::Exit(0) => Ok(()),
        _ => {
            let last_line = outcome.stderr.last_lines(1);
            Err(ReadinessFailure::NotYet(format!("'{program}': {} {last_line}", outcome.ended)))
        }
    }
}

fn stop_service(service: ServiceProcess) -> StageResult<ProcessOutcome> {
    service.stop_and_wait().map_err(|error| stage_failure(RunStage::Stop, error.to_string()))
}

/// Stops a process that failed, and adds its last stderr lines to the failure. If the process had
/// already ended, also adds its exit to the reason.
fn stop_failed(service: ServiceProcess, mut failure: StageFailure) -> StageFailure {
    let has_ended = service.has_ended();
    if let Ok(outcome) = service.stop_and_wait() {
        if has_ended {
            failure.reason = format!("{}: {}", failure.reason, outcome.ended);
        }
        failure.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
    }
    failure
}

/// Runs a target at this site. The services that the target needs must be ready already.
///
/// # Errors
/// The error names the stage that failed. `report` then contains the results up to that stage.
pub fn run_target(
    assignment: &RunAssignment,
    site: &RunSite<'_>,
    seed: u64,
    report: &mut RunReport,
) -> StageResult<()> {
    let (target, pin) = (&assignment.target, divide_processors(assignment.processors, report));
    match &assignment.work {
        TargetWork::Command => {
            let spec = ProcessSpec { pin, ..target_spec(target, None) };
            lifecycle::run_command(assignment, spec, report)
        }
        TargetWork::Server(service) => {
            let port = lifecycle::pick_port(service.port, assignment.place.ports, site)?;
            let policy = shutdown(&service.stop);
            let spec = ProcessSpec { pin, shutdown: policy, ..target_spec(target, Some(port)) };
            lifecycle::run_server(assignment, service, (seed, site), (port, spec), report)
        }
        TargetWork::Load(spec) => {
            let port = lifecycle::pick_port(None, None, &RunSite::default())?;
            let fill = |text: &str| text.replace("{port}", &port.to_string());
            let spec = spec.clone().fill_placeholders(&fill);
            let server = spec.serve.as_deref().map(|line| {
                let command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
                let target = TargetProgram { command, ..target.clone() };
                ProcessSpec { limit: UNLIMITED, pin, ..target_spec(&target, Some(port)) }
            });
            loads::send_load(&spec, server, seed, report)
        }
    }
}

/// Builds the command. Replaces `{port}` in its arguments and environment variables with `port`.
fn target_spec(target: &TargetProgram, port: Option<u16>) -> ProcessSpec {
    let port = port.map(|port| ("port".to_owned(), port.to_string()));
    let target = target.clone().fill_placeholders(port.as_slice());
    let mut words = target.command.into_iter();
    let mut spec = ProcessSpec::new(words.next().unwrap_or_default()).args(words);
    spec.directory = Some(target.directory);
    spec.limit = Duration::from_millis(target.limit_ms);
    // The target may itself be a harness. It must not use the private channel of this process.
    spec.unset.push("SPEEDWELL_FDS".into());
    for change in &target.environment {
        let (name, value) = change.apply(|name| spec.variable(name));
        spec.environment.retain(|(variable, _)| variable != name);
        match value {
            Some(value) => spec.environment.push((name.to_owned(), value)),
            None => spec.unset.push(name.to_owned()),
        }
    }
    spec
}

/// Sends a load, with its seed, to the server listening at an address, until the load is complete
/// or the flag is set. Fails if the load cannot be sent completely.
type LoadSender<'a> =
    &'a (dyn Fn(&LoadSpec, u64, SocketAddr, &AtomicBool) -> anyhow::Result<LoadRun> + Sync);

/// Sends a load from this process.
fn send_locally(
    spec: &LoadSpec,
    seed: u64,
    address: SocketAddr,
    stop: &AtomicBool,
) -> anyhow::Result<LoadRun> {
    let mut job = build_job(spec, seed, LoadShare::ONLY)?;
    // A name such as 'localhost' can resolve to several addresses; use the one on which the server
    // listens.
    job.load.target.addresses = vec![ServerAddress::Internet(address)];
    let measured = send_load(&job, stop, &mut |_| ())?;
    Ok(wrap_measured(&job, measured))
}

/// The network address of the machine that executes a run, and the sender of the run's loads.
pub struct RunSite<'a> {
    /// Address at which other machines reach this machine; servers must listen on it. `None` stands
    /// for the loopback address.
    pub address: Option<IpAddr>,
    /// Sends the loads of the run.
    pub sender: LoadSender<'a>,
}

impl Default for RunSite<'_> {
    fn default() -> Self {
        RunSite { address: None, sender: &send_locally }
    }
}

impl RunSite<'_> {
    /// Returns the address at which other machines reach this machine, or the loopback address.
    pub fn host(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Returns the placeholders for the address of this machine, which runs the target.
    fn placeholders(&self) -> Vec<PlaceholderValue> {
        let host = self.host().to_string();
        vec![("host".to_owned(), host.clone()), ("target.host".to_owned(), host)]
    }

    /// Returns the addresses at which a server with this port may listen.
    pub fn listen_addresses(&self, port: u16) -> Vec<ServerAddress> {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let addresses = self.address.map_or(loopback.to_vec(), |address| vec![address]);
        let server_address = |ip: IpAddr| ServerAddress::Internet(SocketAddr::new(ip, port));
        addresses.into_iter().map(server_address).collect()
    }
}

/// Returns how to stop a server. The fallback to `TERM` is never needed, because definition files
/// accept only signals that have a name.
fn shutdown(stop: &StopSignal) -> ShutdownPolicy {
    ShutdownPolicy {
        signal: Signal::from_named_raw(stop.signal).unwrap_or(Signal::TERM),
        grace: Duration::from_millis(stop.grace_ms),
    }
}

/// Enters a new network namespace and brings up its loopback device. A process without the
/// privilege to do so first enters a new user namespace, if the kernel allows that
/// (user_namespaces(7)).
///
/// # Errors
/// Fails if the kernel does not permit or does not support network namespaces.
fn enter_network_namespace() -> io::Result<()> {
    let network = UnshareFlags::NEWNET;
    // SAFETY: the file descriptor table stays shared, and this process still has one thread.
    unsafe {
        unshare_unsafe(network).or_else(|_| unshare_unsafe(UnshareFlags::NEWUSER | network))?;
    }
    raise_loopback()
}

/// Brings up the loopback device. Does the same as `ip link set lo up` (netdevice(7)).
fn raise_loopback() -> io::Result<()> {
    let (domain, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = socket_with(domain, SocketType::DGRAM, flags, None)?;
    // SAFETY: ifreq is plain data; the name is shorter than its field and NUL-terminated. For this
    // request, the kernel reads an ifreq.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (target, source) in request.ifr_name.iter_mut().zip(b"lo") {
            *target = *source as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let set_flags = Setter::<{ libc::SIOCSIFFLAGS as Opcode }, libc::ifreq>::new(request);
        Ok(ioctl(&socket, set_flags)?)
    }
}

/// Binds this thread, and the load generator that it starts, to the load's processors. Returns the
/// target's processors.
///
/// Returns `None`, which allows all processors, if no shares were assigned or the system cannot
/// provide them. In the second case, also adds a note to the report.
fn divide_processors(shares: Option<ProcessorShares>, report: &mut RunReport) -> Option<CpuSet> {
    let shares = shares?;
    let divide = || -> Result<CpuSet, String> {
        let usable = CpuSet::usable_by_thread().map_err(|error| error.to_string())?;
        let (target, load) = split_cpus(&usable, shares)
            .ok_or_else(|| format!("only {} can be used", usable.cpus().len()))?;
        load.bind_thread().map_err(|error| error.to_string())?;
        Ok(target)
    };
    let note_undivided = |reason: String| {
        report.performed.notes.push(format!(
            "The processors were not divided between the target and the load: {reason}."
        ));
    };
    divide().map_err(note_undivided).ok()
}

/// Gives the target the first processors and the load the last ones, because adjacent processors
/// may be hyperthreads of one core.
fn split_cpus(usable: &CpuSet, shares: ProcessorShares) -> Option<(CpuSet, CpuSet)> {
    let cpus = usable.cpus();
    let (target, load) = (shares.target as usize, shares.load as usize);
    let begin = cpus.len().checked_sub(load)?;
    (target <= begin).then(|| {
        let part = |cpus: &[usize]| cpus.iter().copied().collect();
        (part(&cpus[..target]), part(&cpus[begin..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::assignment::EnvVarChange;

    fn target(environment: Vec<EnvVarChange>) -> TargetProgram {
        TargetProgram {
            command: ["node", "--port={port}"].map(str::to_owned).to_vec(),
            directory: "/x".into(),
            environment,
            expected_exit: 0,
            limit_ms: 1000,
        }
    }

    #[test]
    fn changes_of_a_variable_are_applied_in_order() {
        let text = |a: &str| a.to_owned();
        let changes = vec![
            EnvVarChange::Set(text("OPTIONS"), text("-a")),
            EnvVarChange::Append(text("OPTIONS"), text("--port {port}")),
            EnvVarChange::Prepend(text("MY_PATH"), text("/new")),
            EnvVarChange::Append(text("MY_PATH"), text("/last")),
            EnvVarChange::Unset(text("HOME")),
        ];
        let spec = target_spec(&target(changes), Some(81));
        assert_eq!(spec.arguments, ["--port=81"]);
        assert_eq!(
            spec.environment,
            [("OPTIONS", "-a --port 81"), ("MY_PATH", "/new:/last")]
                .map(|(name, value)| (text(name), text(value)))
        );
        assert_eq!(spec.unset, ["SPEEDWELL_FDS", "HOME"]);
    }
}

#[cfg(test)]
mod site_tests {
    use super::*;

    #[test]
    fn the_target_has_the_first_usable_processors_and_the_load_the_last() {
        let usable: CpuSet = "2-5,8".parse().unwrap();
        let shares = |target, load| ProcessorShares { target, load };
        let known = |(target, load): (CpuSet, CpuSet)| [String::from(target), String::from(load)];
        let some = split_cpus(&usable, shares(3, 1)).map(known);
        assert_eq!(some, Some(["2,3,4", "8"].map(str::to_owned)));
        let all = split_cpus(&usable, shares(3, 2)).map(known);
        assert_eq!(all, Some(["2,3,4", "5,8"].map(str::to_owned)));
        for (target, load) in [(5, 1), (1, 6)] {
            assert_eq!(split_cpus(&usable, shares(target, load)), None);
        }
    }

    #[test]
    fn shares_beyond_the_processors_are_noted() {
        let mut done = RunReport::default();
        assert_eq!(divide_processors(None, &mut done), None);
        assert_eq!(done.performed.notes, [""; 0]);
        let shares = ProcessorShares { target: 100_000, load: 1 };
        assert_eq!(divide_processors(Some(shares), &mut done), None);
        let note = &done.performed.notes[0];
        assert!(note.contains("were not divided"), "{note}");
    }
}
