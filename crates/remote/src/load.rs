//! Sends one load from several machines. Each machine sends its part of the load, all machines
//! start at an agreed time, and their measurements are merged.
//!
//! A latency is a difference of times on one machine, so clock offsets do not affect it. Clock
//! offsets only affect when a machine starts and how its timeline is aligned with the others. Start
//! at [`LoadGenerators`]; [`perform_load`] runs on the other machines.

use crate::fleet::{FleetRequest, select_machines};
use crate::machines::{FleetEngine, FleetMachine, MachineIdentity, content_store};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::own_program;
use speedwell_engine::execution::load::{
    GeneratorEvent, GeneratorReady, GeneratorReport, GeneratorState, LOAD_SUBCOMMAND, LoadJob,
    LoadSnapshot, StartSignal, WorkerAssignment, build_job, drop_unreachable, follow_generators,
    run_generators, send_load, verify_target,
};
use speedwell_load::load::{LoadShare, ServerAddress};
use speedwell_machine::process;
use speedwell_machine::worker::{ClockOffset, WorkerEnd, WorkerLink, now_ns};
use speedwell_model::load::measurement::{LoadMeasurement, LoadPart, ThreadReport};
use speedwell_model::load::spec::LoadSpec;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Time from the announcement of the start to the start itself. [`choose_start`] adds an allowance
/// for the time that the announcement takes to arrive.
const START_LEAD_NS: i64 = 300_000_000;
/// Maximum number of ssh connections. Each connection is a local process of 8 MiB.
pub(crate) const MAX_MACHINES: usize = 64;

/// Machines that send loads.
#[derive(Debug)]
pub struct LoadGenerators {
    pub(crate) engine: FleetEngine,
    /// Name of each machine, and the path of this program there.
    pub(crate) machines: Vec<(String, String)>,
}

impl LoadGenerators {
    /// Selects the requested machines and sends this program to each of them.
    ///
    /// # Errors
    /// Fails if no machine is available or a load cannot be sent from other machines.
    pub fn new(fleet: &FleetRequest, specs: &[LoadSpec]) -> Result<LoadGenerators> {
        specs.iter().try_for_each(check_portable)?;
        let mut engine = FleetEngine::from_file(&fleet.file);
        let machines = select_machines(&engine.list_machines()?, fleet)?;
        ensure!(
            machines.len() <= MAX_MACHINES,
            "a load can be sent from at most {MAX_MACHINES} machines, not {}\nhint: --generator-count \
             {MAX_MACHINES}",
            machines.len()
        );
        let program = content_store::program_to_send(&own_program());
        let mut prepare = |machine: FleetMachine| -> Result<(String, String)> {
            let path = content_store::send_program(&mut engine, &machine, &program)
                .with_context(|| format!("'{}' cannot send a load", machine.name))?;
            Ok((machine.name, path.to_string_lossy().into_owned()))
        };
        let machines: Result<Vec<_>> = machines.into_iter().map(&mut prepare).collect();
        Ok(LoadGenerators { machines: machines?, engine })
    }

    /// Returns the load that all machines send together.
    pub fn combined_spec(&self, spec: &LoadSpec) -> LoadSpec {
        let clients = spec.clients.unwrap_or(1) * self.machines.len() as u32;
        LoadSpec { clients: Some(clients), ..spec.clone() }
    }

    /// Sends a load described by [`LoadGenerators::combined_spec`].
    ///
    /// # Errors
    /// Fails if a machine cannot start its part, or if no machine measured anything.
    pub fn send_load(
        &mut self,
        job: &LoadJob,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&LoadSnapshot),
    ) -> Result<GeneratorReport> {
        // Every machine gets the same number of generators.
        let assignments =
            WorkerAssignment::whole(&job.spec, job.seed, true).divide(self.machines.len() as u32);
        let mut connections = Vec::new();
        for (name, program) in &self.machines {
            let connection = self.engine.start_worker(name, program, &[LOAD_SUBCOMMAND]);
            connections.push(connection.with_context(|| format!("'{name}' cannot be reached"))?);
        }
        let states = follow_generators(&connections, &assignments, &choose_start, stop, watch);
        let names: Vec<&str> = self.machines.iter().map(|(name, _)| name.as_str()).collect();
        merge_parts(&names, &assignments, states)
    }
}

/// Rejects options that depend on this machine or work only with a single generator.
fn check_portable(spec: &LoadSpec) -> Result<()> {
    let is_file = spec.data.as_ref().is_some_and(|data| data.starts_with('@'));
    let local_options = [
        ("data @FILE", is_file),
        ("body-file", spec.body_file.is_some()),
        ("requests", spec.requests.is_some()),
        ("data-rows", spec.data_rows.is_some()),
        ("cacert", spec.cacert.is_some()),
        ("cert", spec.cert.is_some()),
        ("key", spec.key.is_some()),
        ("unix-socket", spec.unix_socket.is_some()),
        ("bind", spec.bind.is_some()),
        ("log-requests", spec.log_requests.is_some()),
    ];
    let given = local_options.iter().find(|(_, is_set)| *is_set);
    if let Some((name, _)) = given {
        bail!(
            "--{name} refers to this machine, but with --generators, other machines send the load\nhint: leave it \
             out, or leave out --generators"
        );
    }
    ensure!(
        spec.until_steady.is_none(),
        "--until-steady works only with a single generator\nhint: use -t, or leave out --generators"
    );
    Ok(())
}

/// Chooses a start that leaves enough time to announce it to the machine with the longest round
/// trip.
fn choose_start(offsets: &[ClockOffset]) -> StartSignal {
    let longest_round_trip = offsets.iter().map(|offset| offset.round_trip_ns).max().unwrap_or(0);
    let ahead_ns = START_LEAD_NS.saturating_add_unsigned(4 * longest_round_trip);
    StartSignal::At(now_ns().saturating_add(ahead_ns))
}

fn merge_parts(
    names: &[&str],
    requests: &[WorkerAssignment],
    states: Vec<GeneratorState>,
) -> Result<GeneratorReport> {
    let has_begun = states.iter().any(|state| state.report.is_some());
    if !has_begun {
        return Err(explain_failure(names, &states));
    }
    let start_ns = |state: &GeneratorState| {
        let offset_ns = state.ready.as_ref().map_or(0, |(_, offset)| offset.offset_ns);
        let start_ns = state.report.as_ref()?.began_ns.iter().min()?;
        Some(start_ns.saturating_add(offset_ns))
    };
    let first_ns = states.iter().filter_map(start_ns).min();
    let (mut parts, mut losses) = (Vec::new(), Vec::new());
    let mut merged: Option<LoadMeasurement> = None;
    for ((name, request), state) in names.iter().zip(requests).zip(states) {
        let later_ns = start_ns(&state).zip(first_ns).map(|(start_ns, first)| start_ns - first);
        parts.push(part_report(name, request, &state, later_ns));
        let Some(report) = state.report else {
            continue;
        };
        losses.extend((report.losses.iter()).map(|loss| format!("{name}: {loss}")));
        let mut measured = report.measured;
        measured.shift_by(later_ns.unwrap_or(0).unsigned_abs());
        match &mut merged {
            None => merged = Some(measured),
            Some(merged) => merged.merge(measured),
        }
    }
    let measured = merged.context("no machine measured anything")?;
    Ok(GeneratorReport { losses, parts, ..GeneratorReport::new(measured) })
}

fn explain_failure(names: &[&str], states: &[GeneratorState]) -> anyhow::Error {
    if process::is_interrupt_requested() {
        return process::InterruptedEarly.into();
    }
    let failures = names.iter().zip(states).filter_map(|(name, state)| {
        let reason = state.end.as_ref()?.reason()?;
        Some((state.last_heard, format!("'{name}' cannot send the load: {reason}")))
    });
    // Report the first failure: it caused the end of the other connections.
    match failures.min_by_key(|(instant, _)| *instant) {
        Some((_, reason)) => anyhow::anyhow!(reason),
        None => anyhow::anyhow!("the load was stopped before it began"),
    }
}

fn part_report(
    name: &str,
    request: &WorkerAssignment,
    state: &GeneratorState,
    began_ns: Option<i64>,
) -> LoadPart {
    let offset = state.ready.as_ref().map(|(_, offset)| *offset).unwrap_or_default();
    let ready = state.ready.as_ref().map(|(ready, _)| ready);
    let mut part = LoadPart {
        machine: name.to_owned(),
        id: ready.map_or(String::new(), |ready| ready.id.clone()),
        first: request.index,
        processes: request.count,
        offset_ns: offset.offset_ns,
        uncertainty_ns: offset.uncertainty_ns,
        drift_ns: state.offset_after.map(|after| after.offset_ns - offset.offset_ns),
        began_ns,
        connect_ns: ready.and_then(|ready| ready.connect_ns),
        lost: state.end.as_ref().and_then(WorkerEnd::reason),
        ..LoadPart::default()
    };
    if let Some(report) = &state.report {
        let measured = &report.measured;
        let counts = &measured.totals.outcomes;
        let threads = &measured.threads;
        part.attempted = counts.attempts();
        part.ok = counts.succeeded();
        part.errors = counts.all_errors();
        part.elapsed_ns = measured.elapsed_ns;
        part.busiest = threads.iter().map(ThreadReport::busy_share).fold(0.0, f64::max);
        part.is_bottleneck = threads.iter().any(ThreadReport::is_bottleneck);
        let verdict = measured.verdict();
        part.own_lag_p99_ns =
            verdict.map(|verdict| (verdict.own_lag_p99_ns, verdict.own_lag_limit_ns));
        part.link.clone_from(&report.link);
    } else if let Some(snapshot) = &state.snapshot {
        part.attempted = snapshot.attempted;
        part.errors = snapshot.errors;
        part.elapsed_ns = snapshot.at_ns;
        part.lost = part.lost.or_else(|| Some("it measured nothing".to_owned()));
    }
    part
}

/// Number of trial connections before a load. A few suffice, because the server's kernel accepts
/// connections by itself. Many trials could overflow the server's accept queue; the kernel silently
/// drops the excess, and retries come seconds later.
const CONNECT_TRIALS: usize = 8;
/// Delay between trial connections, so that the server accepts one before the next arrives.
const CONNECT_DELAY: Duration = Duration::from_millis(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the part of a load that the coordinator assigns to this process.
///
/// # Errors
/// Fails if the connection is lost or the load cannot be sent from here.
pub fn perform_load() -> Result<()> {
    let link = WorkerLink::open()?;
    let assignment: WorkerAssignment = link.receive()?;
    let (index, count) = (assignment.index, assignment.of);
    let mut job = build_job(&assignment.spec, assignment.seed, LoadShare { index, count })?;
    // The parent process has already reported unreachable addresses.
    drop(drop_unreachable(&mut job.load));
    let mut ready = GeneratorReady::default();
    if assignment.is_remote {
        if !assignment.spec.no_verify {
            let part = job.load.part;
            (job, _) = verify_target(job)?;
            job.load.part = part;
        }
        let id = MachineIdentity::of_this_machine().0.id;
        ready = GeneratorReady { id, connect_ns: min_connect_ns(&job) };
    }
    let devices = Path::new(NET_DEVICES);
    let before = assignment.is_remote.then(|| (list_devices(devices), Instant::now()));
    let Some(result) = send_part(&job, assignment, &link, ready)? else {
        return Ok(());
    };
    let link_use = before.and_then(|(before, started)| {
        most_used(&before, &list_devices(devices), started.elapsed().as_secs_f64())
    });
    let report = GeneratorReport { link: link_use, ..result };
    link.send(&GeneratorEvent::Measured(Box::new(report)))?;
    // The coordinator queries the clock once more before it closes the connection.
    link.await_end();
    Ok(())
}

/// Sends the part from this process or from several processes, at the agreed start. Returns `None`
/// if the load does not start.
fn send_part(
    job: &LoadJob,
    assignment: WorkerAssignment,
    link: &WorkerLink,
    ready: GeneratorReady,
) -> Result<Option<GeneratorReport>> {
    let begin = || {
        let sent = link.send(&GeneratorEvent::Ready(ready.clone()));
        sent.and_then(|()| link.receive()).unwrap_or(StartSignal::Never)
    };
    let mut watch = |snapshot: &LoadSnapshot| {
        // A lost snapshot is harmless: if the connection is closed, the load is stopped anyway.
        let _ = link.send(&GeneratorEvent::Progress(snapshot.clone()));
    };
    // The end of the connection, and a request to stop, interrupt this process.
    let stop = process::interrupt_flag();
    if assignment.count > 1 {
        let spec = job.spec.clone();
        let local = WorkerAssignment { spec, is_remote: false, ..assignment };
        return run_generators(&local, &begin, stop, &mut watch).map(Some);
    }
    let Some(began_ns) = begin().wait() else {
        return Ok(None);
    };
    let measured = send_load(job, stop, &mut watch)?;
    Ok(Some(GeneratorReport { began_ns: vec![began_ns], ..GeneratorReport::new(measured) }))
}

/// Returns the shortest time to connect, without TLS. Returns `None` if a connection failed.
fn min_connect_ns(job: &LoadJob) -> Option<u64> {
    let address = job.load.target.addresses.first()?;
    let connect = || {
        let begin = Instant::now();
        match address {
            ServerAddress::Internet(address) => {
                TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map(drop)
            }
            ServerAddress::Unix(path) => UnixStream::connect(path).map(drop),
        }
        .ok()?;
        Some(begin.elapsed().as_nanos() as u64)
    };
    let mut min_ns = connect()?;
    for _ in 1..CONNECT_TRIALS {
        thread::sleep(CONNECT_DELAY);
        if process::is_interrupt_requested() {
            break;
        }
        min_ns = min_ns.min(connect()?);
    }
    Some(min_ns)
}

/// Network devices in sysfs (sysfs-class-net(5)).
const NET_DEVICES: &str = "/sys/class/net";

/// The counters of a device at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkDevice {
    name: String,
    bits_per_s: u64,
    received: u64,
    sent: u64,
}

/// Lists the devices with a known speed. The loopback device has none.
fn list_devices(folder: &Path) -> Vec<NetworkDevice> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let read_number = |file: &str| {
            let text = fs::read_to_string(entry.path().join(file)).ok()?;
            text.trim().parse::<u64>().ok().filter(|number| *number > 0)
        };
        Some(NetworkDevice {
            name: entry.file_name().into_string().ok()?,
            // The file contains Mbit/s, or -1 if the speed is unknown.
            bits_per_s: read_number("speed")? * 1_000_000,
            received: read_number("statistics/rx_bytes").unwrap_or(0),
            sent: read_number("statistics/tx_bytes").unwrap_or(0),
        })
    };
    entries.filter_map(device).collect()
}

/// Returns the device with the highest utilization, and this utilization. Links are full duplex:
/// each direction has the full speed, so the busier direction determines the utilization.
fn most_used(
    before: &[NetworkDevice],
    after: &[NetworkDevice],
    seconds: f64,
) -> Option<(String, f64)> {
    let utilization = |device: &NetworkDevice| {
        let earlier = before.iter().find(|candidate| candidate.name == device.name)?;
        let received = device.received.saturating_sub(earlier.received);
        let sent = device.sent.saturating_sub(earlier.sent);
        let bits = 8.0 * received.max(sent) as f64;
        let utilization = bits / seconds / device.bits_per_s as f64;
        utilization.is_finite().then(|| (device.name.clone(), utilization.min(1.0)))
    };
    after.iter().filter_map(utilization).max_by(|left, right| left.1.total_cmp(&right.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_engine::execution::load::{GeneratorReady, GeneratorReport};
    use speedwell_model::load::latency::{
        IntendedStart, RequestOutcome, RequestTimes, RequestTotals,
    };
    use speedwell_model::load::measurement::{LoadTimeline, TimelineTick};

    /// Returns the measurement of a generator whose successful responses took these times, in
    /// nanoseconds.
    fn measurement(times: impl Iterator<Item = u64>) -> LoadMeasurement {
        let mut totals = RequestTotals::new(true);
        for end_ns in times {
            totals.outcomes.count_attempt();
            totals.outcomes.count_ok(200);
            let times = RequestTimes { sent_ns: 0, first_byte_ns: Some(end_ns / 2), end_ns };
            totals.latency.record(RequestOutcome::Ok, IntendedStart::default(), times);
        }
        let ok = totals.outcomes.succeeded();
        LoadMeasurement {
            began_epoch_ms: 0,
            elapsed_ns: 1_000_000_000,
            ok_in_time: ok,
            in_flight_ns: Some(0),
            totals,
            warmup: RequestTotals::new(true),
            timeline: LoadTimeline {
                interval_ns: 100_000_000,
                warmup: 0,
                ticks: vec![TimelineTick { ok, ..TimelineTick::default() }],
            },
            threads: Vec::new(),
            max_connections: 1,
            reached_max_connections: false,
            is_interrupted: false,
            rows: Vec::new(),
        }
    }

    /// Returns the state of a machine whose clock is behind the local clock by `offset_ns`. The
    /// machine started at `began_ns` by the local clock.
    fn generator_state(measured: LoadMeasurement, offset_ns: i64, began_ns: i64) -> GeneratorState {
        let offset = ClockOffset { offset_ns, ..ClockOffset::default() };
        let ready = GeneratorReady { id: "0123456789abcdef".to_owned(), connect_ns: Some(80_000) };
        GeneratorState {
            ready: Some((ready, offset)),
            report: Some(GeneratorReport {
                began_ns: vec![began_ns - offset_ns],
                ..GeneratorReport::new(measured)
            }),
            offset_after: Some(offset),
            end: Some(WorkerEnd::default()),
            ..GeneratorState::default()
        }
    }

    fn order(index: u32) -> WorkerAssignment {
        let spec = LoadSpec::default();
        WorkerAssignment { spec, seed: 1, index, of: 3, count: 1, is_remote: true }
    }

    #[test]
    fn merged_parts_of_three_machines_equal_a_single_generator() {
        // The times cover four orders of magnitude, as real response times do.
        let time = |at: u64| 1_000 + (at * 7_919) % 9_973 * (1 + at % 11) * 1_000;
        let whole = measurement((0..10_001).map(time));
        let part = |index: u64| measurement((0..10_001).filter(|at| at % 3 == index).map(time));
        let machines = [
            generator_state(part(0), 5_000_000_000, 1_000),
            generator_state(part(1), -3_000_000, 0),
            generator_state(part(2), 0, 300_000_000),
        ];
        let orders = [order(0), order(1), order(2)];
        let sent = merge_parts(&["a", "b", "c"], &orders, machines.into()).unwrap();
        assert_eq!(sent.measured.totals, whole.totals);
        let counts: Vec<u64> = sent.parts.iter().map(|part| part.attempted).collect();
        assert_eq!(counts, [3334, 3334, 3333]);
        let began: Vec<Option<i64>> = sent.parts.iter().map(|part| part.began_ns).collect();
        assert_eq!(began, [Some(1_000), Some(0), Some(300_000_000)]);
        // The timeline of the last machine starts in the fourth interval.
        let ok: Vec<u64> = (sent.measured.timeline.ticks.iter()).map(|tick| tick.ok).collect();
        assert_eq!(ok, [6668, 0, 0, 3333]);
        assert!(sent.losses.is_empty());
    }

    #[test]
    fn a_lost_machine_is_reported_with_its_last_snapshot_and_left_out_of_sums() {
        let lost = GeneratorState {
            ready: generator_state(measurement(0..0), 0, 0).ready,
            snapshot: Some(LoadSnapshot {
                at_ns: 1_900_000_000,
                attempted: 1895,
                ..LoadSnapshot::default()
            }),
            end: Some(WorkerEnd {
                error: Some("connection lost".to_owned()),
                ..WorkerEnd::default()
            }),
            ..GeneratorState::default()
        };
        let there = generator_state(measurement(1..11), 0, 0);
        let sent = merge_parts(&["a", "b"], &[order(0), order(1)], vec![lost, there]).unwrap();
        assert_eq!(sent.measured.totals.outcomes.attempts(), 10);
        let part = &sent.parts[0];
        assert_eq!((part.attempted, part.elapsed_ns), (1895, 1_900_000_000));
        assert_eq!(part.lost.as_deref(), Some("connection lost"));
    }

    #[test]
    fn loads_that_refer_to_local_files_are_refused_for_other_machines() {
        let spec = LoadSpec { data: Some("@body.json".to_owned()), ..LoadSpec::default() };
        let refused = check_portable(&spec).unwrap_err().to_string();
        assert!(refused.starts_with("--data @FILE refers to this machine"), "{refused}");
        let spec = LoadSpec { data: Some("a=1".to_owned()), ..LoadSpec::default() };
        check_portable(&spec).unwrap();
    }
}

#[cfg(test)]
mod link_tests {
    use super::*;

    /// Adds this device to a folder that imitates sysfs.
    fn with_device(folder: &Path, name: &str, speed: &str, received: u64, sent: u64) {
        let place = folder.join(name);
        fs::create_dir_all(place.join("statistics")).unwrap();
        fs::write(place.join("speed"), speed).unwrap();
        fs::write(place.join("statistics/rx_bytes"), format!("{received}\n")).unwrap();
        fs::write(place.join("statistics/tx_bytes"), format!("{sent}\n")).unwrap();
    }

    #[test]
    fn the_busier_direction_of_the_busiest_device_counts() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        with_device(folder, "eth0", "1000\n", 1_000, 1_000);
        with_device(folder, "eth1", "10000\n", 0, 0);
        with_device(folder, "lo", "-1\n", 0, 0);
        let before = list_devices(folder);
        assert_eq!(before.len(), 2, "{before:?}");
        // 112.5 MB in a second are 90% of 1 Gbit/s; twice as much is 18% of 10 Gbit/s.
        with_device(folder, "eth0", "1000\n", 2_000, 112_501_000);
        with_device(folder, "eth1", "10000\n", 225_000_000, 0);
        with_device(folder, "lo", "-1\n", 1 << 40, 0);
        let (name, share) = most_used(&before, &list_devices(folder), 1.0).unwrap();
        assert_eq!(name, "eth0");
        assert!((share - 0.9).abs() < 1e-9, "{share}");
        assert_eq!(most_used(&before, &[], 1.0), None);
    }
}
