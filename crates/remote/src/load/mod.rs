//! Sends one load from several machines. Each machine sends its part of the load, all machines
//! start at an agreed time, and their measurements are merged.
//!
//! A latency is a difference of times on one machine, so clock offsets do not affect it. Clock
//! offsets only affect when a machine starts and how its timeline is aligned with the others. Start
//! at [`LoadGenerators`]; [`worker`] runs on the other machines.

mod link;
pub mod worker;

use crate::fleet::{FleetRequest, select_machines};
use crate::machines::{FleetEngine, FleetMachine, program};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::own_program;
use speedwell_engine::execution::load::{
    CombinedResult, GeneratorState, LOAD_SUBCOMMAND, LoadJob, LoadSnapshot, StartSignal,
    WorkerAssignment, follow_generators,
};
use speedwell_machine::process;
use speedwell_machine::worker::{ClockOffset, WorkerEnd, now_ns};
use speedwell_model::load::measurement::{LoadMeasurement, ThreadReport};
use speedwell_model::load::run::LoadPart;
use speedwell_model::load::spec::LoadSpec;
use std::sync::atomic::AtomicBool;

/// Time from the announcement of the start to the start itself. [`choose_start`] adds an allowance
/// for the time that the announcement takes to arrive.
const START_LEAD_NS: i64 = 300_000_000;
/// Maximum number of ssh connections. Each connection is a local process of 8 MiB.
pub(crate) const MAX_MACHINES: usize = 64;

/// Machines that send loads.
#[derive(Debug)]
pub struct LoadGenerators {
    engine: FleetEngine,
    machines: Vec<GeneratorMachine>,
}

#[derive(Debug)]
struct GeneratorMachine {
    name: String,
    program: String,
}

impl LoadGenerators {
    /// Selects the requested machines and sends this program to each of them.
    ///
    /// # Errors
    /// Fails if no machine is available or a load cannot be sent from other machines.
    pub fn new(fleet: &FleetRequest, specs: &[LoadSpec]) -> Result<LoadGenerators> {
        specs.iter().try_for_each(check_portable)?;
        let mut engine = FleetEngine::from_file(&fleet.file);
        let fleet_machines = engine.list_machines()?;
        let machines = select_machines(&fleet_machines, fleet)?;
        ensure!(
            machines.len() <= MAX_MACHINES,
            "a load can be sent from at most {MAX_MACHINES} machines, not {}\nhint: --generator-count \
             {MAX_MACHINES}",
            machines.len()
        );
        let program = program::program_to_send(&own_program());
        let mut prepare = |machine: FleetMachine| -> Result<GeneratorMachine> {
            let path = program::send_program(&mut engine, &machine, &program)
                .with_context(|| format!("'{}' cannot send a load", machine.name))?;
            Ok(GeneratorMachine {
                name: machine.name,
                program: path.to_string_lossy().into_owned(),
            })
        };
        let machines: Result<Vec<GeneratorMachine>> =
            machines.into_iter().map(&mut prepare).collect();
        Ok(LoadGenerators { machines: machines?, engine })
    }

    /// Creates generators on known machines. Each machine is given by its name and the path of this
    /// program there.
    pub(crate) fn on_machines(
        engine: FleetEngine,
        machines: impl IntoIterator<Item = (String, String)>,
    ) -> LoadGenerators {
        let machine = |(name, program)| GeneratorMachine { name, program };
        LoadGenerators { engine, machines: machines.into_iter().map(machine).collect() }
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
    ) -> Result<CombinedResult> {
        // Every machine gets the same number of generators.
        let assignments = WorkerAssignment::whole(job, true).divide(self.machines.len() as u32);
        let mut connections = Vec::new();
        for GeneratorMachine { name, program } in &self.machines {
            let connection = self.engine.start_worker(name, program, &[LOAD_SUBCOMMAND]);
            connections.push(connection.with_context(|| format!("'{name}' cannot be reached"))?);
        }
        let states = follow_generators(&connections, &assignments, &choose_start, stop, watch);
        let names: Vec<&str> = self.machines.iter().map(|machine| machine.name.as_str()).collect();
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
) -> Result<CombinedResult> {
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
    Ok(CombinedResult {
        measured: merged.context("no machine measured anything")?,
        losses,
        parts,
        began_ns: Vec::new(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_engine::execution::load::{GeneratorReady, GeneratorReport};
    use speedwell_model::load::latency::{IntendedStart, RequestOutcome, RequestTimes};
    use speedwell_model::load::measurement::{LoadTimeline, RequestTotals, TimelineTick};

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
                measured,
                began_ns: vec![began_ns - offset_ns],
                losses: Vec::new(),
                link: None,
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
