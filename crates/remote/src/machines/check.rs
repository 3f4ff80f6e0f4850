//! Checks whether a machine is fit for measurements. Reports its identity, clock offset, sources of
//! noise and speed probe. Start at [`check_machine`]; [`report_machine`] runs on the checked
//! machine.

use crate::machines::{FleetEngine, FleetMachine, MachineIdentity};
use crate::messages::{ROLE_SUBCOMMAND, WorkerRequest};
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use speedwell_machine::environment::{self, CheckState};
use speedwell_machine::worker::ClockOffset;
use speedwell_model::SpeedProbe;
use std::hint::black_box;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steps of the integer work. They take about 50 ms on a Xeon.
const INTEGER_STEPS: u32 = 18_000_000;
/// Words of the memory ring. Its 32 MiB exceed the cache per core of most processors.
const RING_WORDS: usize = 4 << 20;
/// Steps of the walk through the ring. Each step depends on the previous one. All steps take about
/// 50 ms on a Xeon.
const WALK_STEPS: u32 = 400_000;

/// A machine's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReport {
    /// The machine's identity.
    pub identity: MachineIdentity,
    /// Results of the individual checks.
    pub checks: Vec<MachineCheck>,
    /// Times of two fixed pieces of work.
    pub speed_probe: SpeedProbe,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCheck {
    /// Name of the check.
    pub name: String,
    /// Whether the finding impairs measurements. If so, the machine is unfit.
    pub is_problem: bool,
    /// Whether the user should know about the finding.
    pub is_warning: bool,
    /// The finding in words.
    pub found: String,
    /// How to fix the problem; empty if there is nothing to do.
    pub remedy: String,
}

/// Checks a machine. `program` is the path of our program on that machine.
///
/// # Errors
/// Fails if the machine cannot be reached or the program does not run there.
pub fn check_machine(
    engine: &mut FleetEngine,
    machine: &FleetMachine,
    program: &Path,
) -> Result<(ClockOffset, MachineReport)> {
    let program = program.to_string_lossy();
    let connection = engine.start_worker(&machine.name, &program, &[ROLE_SUBCOMMAND])?;
    let result = connection.query_clock().and_then(|offset| {
        connection.send(&WorkerRequest::Check)?;
        Ok((offset, connection.receive()?))
    });
    connection.finish(result).map_err(|reason| {
        anyhow!(
            "the program does not run on the machine: {reason:#}\nhint: in the machine's table in \
             the fleet file, write binary = \"/path/to/a/program/that/runs/there\""
        )
    })
}

/// Checks this machine.
pub(crate) fn report_machine() -> MachineReport {
    let checks =
        environment::run_all_checks(Path::new("/")).into_iter().map(|check| MachineCheck {
            name: check.name.to_string(),
            is_problem: check.state == CheckState::Bad,
            is_warning: check.state == CheckState::Warning,
            found: check.found,
            remedy: check.remedy.unwrap_or_default(),
        });
    MachineReport {
        checks: checks.collect(),
        identity: MachineIdentity::of_this_machine().0,
        speed_probe: probe_speed(),
    }
}

/// Times two fixed pieces of work on this machine. The result, a speed probe, reveals a machine that
/// is slower than usual, whatever the benchmark.
fn probe_speed() -> SpeedProbe {
    let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = Instant::now();
    black_box(run_integer_chain(black_box(INTEGER_STEPS)));
    let integer_ns = begin.elapsed().as_nanos();
    let ring = build_ring(RING_WORDS);
    let begin = Instant::now();
    black_box(walk_ring(&ring, black_box(WALK_STEPS)));
    let memory_ns = begin.elapsed().as_nanos();
    SpeedProbe {
        at_unix_ms: i64::try_from(unix_time.as_millis()).unwrap_or(i64::MAX),
        integer_ns: u64::try_from(integer_ns).unwrap_or(u64::MAX),
        memory_ns: u64::try_from(memory_ns).unwrap_or(u64::MAX),
    }
}

/// Computes a chain of dependent multiplications and shifts (xorshift64*, Vigna 2016).
fn run_integer_chain(steps: u32) -> u64 {
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..steps {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state = state.wrapping_mul(2_685_821_657_736_338_717);
    }
    state
}

/// Returns a permutation with a single cycle, in which neighbors are far apart. The permutation is
/// a full-period LCG (Hull and Dobell 1962): the multiplier minus one is a multiple of 4, the
/// increment is odd, and `count` is a power of 2.
fn build_ring(count: usize) -> Vec<usize> {
    let next = |index: usize| index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % count;
    (0..count).map(next).collect()
}

fn walk_ring(ring: &[usize], steps: u32) -> usize {
    (0..steps).fold(0, |index, _| ring[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_walk_visits_every_element() {
        let ring = build_ring(1 << 10);
        let mut seen = vec![false; ring.len()];
        let mut place = 0;
        for _ in 0..ring.len() {
            seen[place] = true;
            place = ring[place];
        }
        assert!(place == 0 && seen.iter().all(|seen| *seen));
    }

    #[test]
    fn both_times_of_a_probe_are_measured() {
        let probe = probe_speed();
        assert!(probe.integer_ns > 1_000_000 && probe.memory_ns > 1_000_000, "{probe:?}");
        // Ten times the steps take longer, so the optimizer has not removed the work.
        let time = |steps: u32| {
            let begun = Instant::now();
            black_box(run_integer_chain(black_box(steps)));
            begun.elapsed()
        };
        let best = |steps: u32| (0..5).map(|_| time(steps)).min().unwrap_or_default();
        assert!(best(2_000_000) > best(200_000));
    }
}
