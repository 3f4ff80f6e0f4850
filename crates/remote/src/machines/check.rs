//! Checks whether a machine is fit for measurements. Reports its identity, clock offset, sources of
//! noise and speed probe. Start at [`check_machine`]; [`report_machine`] runs on the checked
//! machine.
//!
//! An identity survives a reboot or a change of host name, and differs between machines
//! ([`MachineIdentity::of_this_machine`]).

use super::bundle::encode_hex;
use crate::machines::{FleetEngine, FleetMachine, ROLE_SUBCOMMAND, WorkerRequest};
use anyhow::{Result, anyhow};
use ring::digest;
use serde::{Deserialize, Serialize};
use speedwell_machine::environment::{self, CheckState};
use speedwell_machine::worker::ClockOffset;
use speedwell_model::{Environment, SpeedProbe};
use std::fs;
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

/// The machine ID must not be exposed (machine-id(5)). It is hashed with this prefix, and the hash
/// is useless for other applications.
const SALT: &str = "speedwell-machine";
const DIGITS: usize = 16;

/// Identity of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// 16 hexadecimal digits.
    pub id: String,
    /// Host name.
    pub host: String,
    /// Processor model and count, memory in GiB and architecture. The analysis treats machines of
    /// the same class as a sample of all such machines.
    pub class: String,
    /// Warning if the identity may change or be shared with another machine.
    pub warning: Option<String>,
}

impl MachineIdentity {
    /// Identifies this machine, and captures its environment.
    pub fn of_this_machine() -> (MachineIdentity, Environment) {
        let environment = environment::capture_environment(&[]);
        (MachineIdentity::from_environment(Path::new("/"), &environment), environment)
    }

    /// Identifies a machine by its environment and by the files below `root` (normally `/`).
    fn from_environment(root: &Path, environment: &Environment) -> MachineIdentity {
        let read = |file: &str| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            let number = text.trim().to_ascii_lowercase();
            let is_number =
                number.len() >= DIGITS && number.bytes().any(|byte| byte != b'0' && byte != b'-');
            is_number.then_some(number)
        };
        let host = environment.host.clone().unwrap_or_else(|| "unknown".to_owned());
        let machine_number =
            read("etc/machine-id").or_else(|| read("sys/class/dmi/id/product_uuid"));
        let warning = machine_number.is_none().then(|| {
            "The machine has no machine-id(5): it is identified by its host name.".to_owned()
        });
        let number = machine_number.as_deref().unwrap_or(&host);
        let digest = digest::digest(&digest::SHA256, [SALT, number].concat().as_bytes());
        MachineIdentity {
            id: encode_hex(digest.as_ref())[..DIGITS].to_owned(),
            class: machine_class(environment),
            host,
            warning,
        }
    }
}

/// Joins the known facts, as in `AMD EPYC 7B13, 2 processors, 24 GiB, x86_64`.
fn machine_class(environment: &Environment) -> String {
    const GIB: u64 = 1 << 30;
    let cpus = environment.cpus.map(|cpus| match cpus {
        1 => "1 processor".to_owned(),
        _ => format!("{cpus} processors"),
    });
    // Round, because the memory reserved by firmware and kernel varies a little between boots.
    let memory = environment.memory_bytes.map(|bytes| format!("{} GiB", (bytes + GIB / 2) / GIB));
    let parts = [environment.cpu.clone(), cpus, memory, Some(std::env::consts::ARCH.to_owned())];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
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

#[cfg(test)]
mod identity_tests {
    use super::*;

    fn environment(host: &str) -> Environment {
        Environment {
            host: Some(host.to_owned()),
            cpu: Some("EPYC".to_owned()),
            cpus: Some(2),
            memory_bytes: Some(24_680_000_000),
            ..Environment::default()
        }
    }

    fn identity(files: &[(&str, &str)], host: &str) -> MachineIdentity {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        MachineIdentity::from_environment(root.path(), &environment(host))
    }

    #[test]
    fn a_machine_id_survives_renaming_and_does_not_reveal_its_source() {
        let number = "0123456789abcdef0123456789abcdef";
        let one = identity(&[("etc/machine-id", &format!("{number}\n"))], "a");
        let renamed = identity(&[("etc/machine-id", number)], "b");
        assert_eq!(one.id, renamed.id);
        // printf speedwell-machine0123456789abcdef0123456789abcdef | sha256sum
        assert_eq!(one.id, "838c5430ab4b505d");
        assert!(!number.contains(&one.id) && one.warning.is_none());
        assert_eq!(one.class, format!("EPYC, 2 processors, 23 GiB, {}", std::env::consts::ARCH));
        let other = identity(&[("etc/machine-id", "0123456789abcdef0123456789abcdee")], "a");
        assert_ne!(one.id, other.id);
    }

    #[test]
    fn firmware_or_host_name_identifies_a_machine_without_a_machine_id() {
        let uuid = ("sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8052-B4C04F564433\n");
        let firmware = identity(&[("etc/machine-id", ""), uuid], "a");
        assert_eq!(firmware.warning, identity(&[uuid], "b").warning);
        assert_eq!(firmware.id, identity(&[uuid], "b").id);
        // Some firmware reports only zeros.
        let zeros = ("sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000000");
        let host = identity(&[zeros], "a");
        assert_eq!(host.id, identity(&[], "a").id);
        assert_ne!(host.id, identity(&[], "b").id);
        assert!(
            host.warning.is_some_and(|warning| warning.contains("identified by its host name"))
        );
    }
}
