//! Sends one load from several machines: the generators of each get their part, all start at an
//! agreed time, and their measurements are merged.
//!
//! A latency is a difference of times on one machine, so clock offsets do not affect it. They only
//! affect when a machine starts and how its timeline is aligned with the others. Start at
//! [`LoadGenerators`]; [`worker`] is the remote side.

pub(crate) mod line;
mod link;
pub mod worker;

use crate::fleet::{FleetRequest, select_machines};
use anyhow::{Context, Result, bail, ensure};
use line::{GeneratorConnection, GeneratorState, SharedLoadState};
use speedwell_fleet::{FleetEngine, FleetMachine, clock, program};
use speedwell_harness::own_program;
use speedwell_load::measured::{LoadMeasurement, ThreadReport};
use speedwell_model::load_run::LoadPart;
use speedwell_model::load_spec::LoadSpec;
use speedwell_process as process;
use speedwell_runner::load::{CombinedResult, LoadJob, LoadSnapshot, WorkerAssignment};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval for reasons to end a load.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How far ahead the agreed start is, besides the time that it takes to announce it.
const START_LEAD_NS: i64 = 300_000_000;
/// A sending machine is lost after this silence; it reports its progress ten times per second.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// How long a machine may take to report after the load was stopped, including outstanding
/// responses.
const REPORT_GRACE: Duration = Duration::from_secs(60);
/// Maximum number of ssh connections. Each is a local process of 8 MiB.
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
    /// Selects the requested machines and sends each our program.
    ///
    /// # Errors
    /// Fails if no machine is available or a load cannot be sent from elsewhere.
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
        Ok(LoadGenerators {
            machines: machines?,
            engine,
        })
    }

    /// Creates generators on known machines, given by name and the path of our program there.
    pub(crate) fn on_machines(
        engine: FleetEngine,
        machines: impl IntoIterator<Item = (String, String)>,
    ) -> LoadGenerators {
        let machine = |(name, program)| GeneratorMachine { name, program };
        LoadGenerators {
            engine,
            machines: machines.into_iter().map(machine).collect(),
        }
    }

    /// The load that all machines send together.
    pub fn combined_spec(&self, spec: &LoadSpec) -> LoadSpec {
        let clients = spec.clients.unwrap_or(1) * self.machines.len() as u32;
        LoadSpec {
            clients: Some(clients),
            ..spec.clone()
        }
    }

    /// Sends a load described by [`LoadGenerators::combined_spec`].
    ///
    /// # Errors
    /// Fails if a machine cannot send it or none of them measured anything.
    pub fn send_load(
        &mut self,
        job: &LoadJob,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&LoadSnapshot),
    ) -> Result<CombinedResult> {
        let orders = generator_requests(job, self.machines.len() as u32);
        let mut lines = Vec::new();
        for machine in &self.machines {
            let words = [machine.program.as_str(), worker::COMMAND];
            let child = self.engine.start_command(&machine.name, &words);
            let line = child.and_then(GeneratorConnection::new);
            lines.push(line.with_context(|| format!("'{}' cannot be reached", machine.name))?);
        }
        let board = SharedLoadState::new(lines.len());
        let (lines, ends): (Vec<GeneratorConnection>, Vec<_>) = lines.into_iter().unzip();
        thread::scope(|scope| {
            for (at, (end, order)) in ends.into_iter().zip(&orders).enumerate() {
                let (line, board) = (&lines[at], &board);
                scope.spawn(move || line.follow_load(at, end, order, board));
            }
            if agree_on_start(&lines, &board, stop) {
                monitor_load(&lines, &board, stop, watch);
            }
        });
        let names: Vec<&str> = self.machines.iter().map(|own| own.name.as_str()).collect();
        merge_parts(&names, &orders, board.into_generator_states())
    }
}

/// Rejects options that depend on this machine.
fn check_portable(spec: &LoadSpec) -> Result<()> {
    let is_file = spec.data.as_ref().is_some_and(|data| data.starts_with('@'));
    let of_this_machine = [
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
    let found = of_this_machine.iter().find(|(_, is_given)| *is_given);
    if let Some((name, _)) = found {
        bail!(
            "--{name} refers to this machine, but with --generators others send the load\nhint: leave it \
             out, or leave out --generators"
        );
    }
    ensure!(
        spec.until_steady.is_none(),
        "--until-steady works only with a single generator\nhint: use -t, or leave out --generators"
    );
    Ok(())
}

/// The part of each machine: an equal number of generators.
fn generator_requests(job: &LoadJob, machines: u32) -> Vec<WorkerAssignment> {
    let of = job.processes();
    let count = of / machines.max(1);
    let order = |machine: u32| WorkerAssignment {
        spec: job.spec.clone(),
        seed: job.seed,
        index: machine * count,
        of,
        count,
    };
    (0..machines).map(order).collect()
}

/// Waits until all machines are ready and agrees on a start. None starts if one cannot.
fn agree_on_start(
    lines: &[GeneratorConnection],
    board: &SharedLoadState,
    stop: &AtomicBool,
) -> bool {
    loop {
        let seen = board.wait_for_news(POLL_INTERVAL);
        let is_over = seen.iter().any(|state| state.over.is_some());
        if stop.load(Ordering::Relaxed) || is_over {
            drop(seen);
            board.announce_start(None);
            // One may still be waiting for the server to respond.
            lines.iter().for_each(GeneratorConnection::kill_process);
            return false;
        }
        let round_trips: Option<Vec<u64>> = seen
            .iter()
            .map(|state| state.ready.as_ref())
            .map(|ready| ready.map(|(_, offset)| offset.round_trip_ns))
            .collect();
        let Some(round_trips) = round_trips else {
            continue;
        };
        drop(seen);
        let longest = round_trips.into_iter().max().unwrap_or(0);
        let ahead_ns = START_LEAD_NS.saturating_add_unsigned(4 * longest);
        board.announce_start(Some(clock::now_ns().saturating_add(ahead_ns)));
        return true;
    }
}

/// Follows the load until all connections have ended: reports progress, and stops all machines if
/// one is lost or `stop` is set.
fn monitor_load(
    lines: &[GeneratorConnection],
    board: &SharedLoadState,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) {
    let mut stopped: Option<Instant> = None;
    loop {
        let seen = board.wait_for_news(POLL_INTERVAL);
        if seen.iter().all(|own| own.over.is_some()) {
            return;
        }
        let looks: Vec<LoadSnapshot> = seen.iter().filter_map(|own| own.snapshot.clone()).collect();
        let silent = silent_generators(&seen, stopped);
        let is_lost = seen.iter().any(|own| matches!(own.over, Some(Some(_))));
        drop(seen);
        if looks.len() == lines.len() {
            watch(&LoadSnapshot::combine(&looks));
        }
        silent.into_iter().for_each(|at| lines[at].kill_process());
        if stopped.is_none() && (is_lost || stop.load(Ordering::Relaxed)) {
            stopped = Some(Instant::now());
            for line in lines {
                // Ignore errors: it may have ended.
                let _ = line.send_line("stop");
            }
        }
    }
}

fn silent_generators(seen: &[GeneratorState], stopped: Option<Instant>) -> Vec<usize> {
    let is_silent = |own: &GeneratorState| {
        let too_long = own.heard.is_some_and(|heard| heard.elapsed() > MAX_SILENCE);
        let is_late = stopped.is_some_and(|stopped| stopped.elapsed() > REPORT_GRACE);
        own.over.is_none() && (too_long || is_late)
    };
    (0..seen.len()).filter(|&at| is_silent(&seen[at])).collect()
}

fn merge_parts(
    names: &[&str],
    orders: &[WorkerAssignment],
    seen: Vec<GeneratorState>,
) -> Result<CombinedResult> {
    let has_begun = seen.iter().any(|own| own.reported.is_some());
    if !has_begun {
        return Err(explain_failure(names, &seen));
    }
    let began = |own: &GeneratorState| {
        let offset_ns = own.ready.as_ref().map_or(0, |(_, offset)| offset.offset_ns);
        let began = own.reported.as_ref()?.began_ns.iter().min()?;
        Some(began.saturating_add(offset_ns))
    };
    let first_ns = seen.iter().filter_map(began).min();
    let (mut parts, mut losses) = (Vec::new(), Vec::new());
    let mut whole: Option<LoadMeasurement> = None;
    for ((name, order), own) in names.iter().zip(orders).zip(seen) {
        let later_ns = began(&own)
            .zip(first_ns)
            .map(|(began, first)| began - first);
        parts.push(part_report(name, order, &own, later_ns));
        let Some(reported) = own.reported else {
            continue;
        };
        losses.extend((reported.losses.iter()).map(|loss| format!("{name}: {loss}")));
        let mut measured = reported.measured;
        measured.shift_by(later_ns.unwrap_or(0).unsigned_abs());
        match &mut whole {
            None => whole = Some(measured),
            Some(whole) => whole.merge(measured),
        }
    }
    Ok(CombinedResult {
        measured: whole.context("no machine measured anything")?,
        losses,
        parts,
        began_ns: Vec::new(),
    })
}

fn explain_failure(names: &[&str], seen: &[GeneratorState]) -> anyhow::Error {
    if process::is_interrupt_requested() {
        return process::InterruptedEarly.into();
    }
    let failed = names.iter().zip(seen).filter_map(|(name, own)| {
        let why = own.over.as_ref()?.as_ref()?;
        Some((own.heard, format!("'{name}' cannot send the load: {why}")))
    });
    // The first failure: the other connections were closed because of it.
    match failed.min_by_key(|(heard, _)| *heard) {
        Some((_, why)) => anyhow::anyhow!(why),
        None => anyhow::anyhow!("the load was stopped before it began"),
    }
}

fn part_report(
    name: &str,
    order: &WorkerAssignment,
    own: &GeneratorState,
    began_ns: Option<i64>,
) -> LoadPart {
    let offset = own
        .ready
        .as_ref()
        .map(|(_, offset)| *offset)
        .unwrap_or_default();
    let ready = own.ready.as_ref().map(|(ready, _)| ready);
    let mut part = LoadPart {
        machine: name.to_owned(),
        id: ready.map_or(String::new(), |ready| ready.id.clone()),
        first: order.index,
        processes: order.count,
        offset_ns: offset.offset_ns,
        uncertainty_ns: offset.uncertainty_ns,
        drift_ns: own.after.map(|after| after.offset_ns - offset.offset_ns),
        began_ns,
        connect_ns: ready.and_then(|ready| ready.connect_ns),
        lost: own.over.clone().flatten(),
        ..LoadPart::default()
    };
    if let Some(reported) = &own.reported {
        let measured = &reported.measured;
        let counts = &measured.totals.outcomes;
        let threads = &measured.threads;
        part.attempted = counts.attempts();
        part.ok = counts.succeeded();
        part.errors = counts.all_errors();
        part.elapsed_ns = measured.elapsed_ns;
        part.busiest = threads
            .iter()
            .map(ThreadReport::busy_share)
            .fold(0.0, f64::max);
        part.is_bottleneck = threads.iter().any(ThreadReport::is_bottleneck);
        let verdict = measured.verdict();
        part.own_lag_p99_ns = verdict.map(|own| (own.own_lag_p99_ns, own.own_lag_limit_ns));
        part.link.clone_from(&reported.link);
    } else if let Some(look) = &own.snapshot {
        part.attempted = look.attempted;
        part.errors = look.errors;
        part.elapsed_ns = look.at_ns;
        part.lost = part.lost.or_else(|| Some("it measured nothing".to_owned()));
    }
    part
}

#[cfg(test)]
mod tests {
    use super::worker::{GeneratorReady, GeneratorReport};
    use super::*;
    use speedwell_fleet::clock::ClockOffset;
    use speedwell_load::latency::{IntendedStart, RequestOutcome, RequestTimes};
    use speedwell_load::measured::{LoadTimeline, RequestTotals, TimelineTick};

    /// The measurement of a generator whose successful responses took these times, in nanoseconds.
    fn measured(times: impl Iterator<Item = u64>) -> LoadMeasurement {
        let mut totals = RequestTotals::new(true);
        for end_ns in times {
            totals.outcomes.count_attempt();
            totals.outcomes.count_ok(200);
            let times = RequestTimes {
                sent_ns: 0,
                first_byte_ns: Some(end_ns / 2),
                end_ns,
            };
            totals
                .latency
                .record(RequestOutcome::Ok, IntendedStart::default(), times);
        }
        let ok = totals.outcomes.succeeded();
        LoadMeasurement {
            began_epoch_ms: 0,
            elapsed_ns: 1_000_000_000,
            ok_in_time: ok,
            under_way_ns: Some(0),
            totals,
            warmup: RequestTotals::new(true),
            timeline: LoadTimeline {
                interval_ns: 100_000_000,
                warmup: 0,
                ticks: vec![TimelineTick {
                    ok,
                    ..TimelineTick::default()
                }],
            },
            threads: Vec::new(),
            most_connections: 1,
            reached_most_connections: false,
            is_interrupted: false,
            rows: Vec::new(),
        }
    }

    /// A machine whose clock is this much behind ours and that started at this time of ours.
    fn seen(measured: LoadMeasurement, offset_ns: i64, began_ns: i64) -> GeneratorState {
        let offset = ClockOffset {
            offset_ns,
            ..ClockOffset::default()
        };
        let ready = GeneratorReady {
            id: "0123456789abcdef".to_owned(),
            connect_ns: Some(80_000),
        };
        GeneratorState {
            ready: Some((ready, offset)),
            reported: Some(GeneratorReport {
                measured,
                began_ns: vec![began_ns - offset_ns],
                losses: Vec::new(),
                link: None,
            }),
            after: Some(offset),
            over: Some(None),
            ..GeneratorState::default()
        }
    }

    fn order(index: u32) -> WorkerAssignment {
        WorkerAssignment {
            spec: LoadSpec::default(),
            seed: 1,
            index,
            of: 3,
            count: 1,
        }
    }

    #[test]
    fn three_machines_give_the_percentiles_of_one_generator_with_all_parts() {
        // Times over four orders of magnitude, distributed as requests are.
        let time = |at: u64| 1_000 + (at * 7_919) % 9_973 * (1 + at % 11) * 1_000;
        let whole = measured((0..10_001).map(time));
        let part = |index: u64| measured((0..10_001).filter(|at| at % 3 == index).map(time));
        let machines = [
            seen(part(0), 5_000_000_000, 1_000),
            seen(part(1), -3_000_000, 0),
            seen(part(2), 0, 300_000_000),
        ];
        let orders = [order(0), order(1), order(2)];
        let sent = merge_parts(&["a", "b", "c"], &orders, machines.into()).unwrap();
        assert_eq!(sent.measured.totals, whole.totals);
        let counts: Vec<u64> = sent.parts.iter().map(|part| part.attempted).collect();
        assert_eq!(counts, [3334, 3334, 3333]);
        let began: Vec<Option<i64>> = sent.parts.iter().map(|part| part.began_ns).collect();
        assert_eq!(began, [Some(1_000), Some(0), Some(300_000_000)]);
        // The timeline of the last machine is placed in the fourth interval.
        let ok: Vec<u64> = (sent.measured.timeline.ticks.iter())
            .map(|tick| tick.ok)
            .collect();
        assert_eq!(ok, [6668, 0, 0, 3333]);
        assert!(sent.losses.is_empty());
    }

    #[test]
    fn a_machine_that_is_lost_is_told_with_its_last_look_and_is_in_no_sum() {
        let lost = GeneratorState {
            ready: seen(measured(0..0), 0, 0).ready,
            snapshot: Some(LoadSnapshot {
                at_ns: 1_900_000_000,
                attempted: 1895,
                ..LoadSnapshot::default()
            }),
            over: Some(Some("connection lost".to_owned())),
            ..GeneratorState::default()
        };
        let there = seen(measured(1..11), 0, 0);
        let sent = merge_parts(&["a", "b"], &[order(0), order(1)], vec![lost, there]).unwrap();
        assert_eq!(sent.measured.totals.outcomes.attempts(), 10);
        let part = &sent.parts[0];
        assert_eq!((part.attempted, part.elapsed_ns), (1895, 1_900_000_000));
        assert_eq!(part.lost.as_deref(), Some("connection lost"));
    }

    #[test]
    fn files_of_this_machine_are_not_promised_to_others() {
        let spec = LoadSpec {
            data: Some("@body.json".to_owned()),
            ..LoadSpec::default()
        };
        let refused = check_portable(&spec).unwrap_err().to_string();
        assert!(
            refused.starts_with("--data @FILE refers to this machine"),
            "{refused}"
        );
        let spec = LoadSpec {
            data: Some("a=1".to_owned()),
            ..LoadSpec::default()
        };
        check_portable(&spec).unwrap();
    }
}
