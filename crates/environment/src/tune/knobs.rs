//! The knobs: settings of a machine that `tune` may change, their desired values, and their
//! purpose.
//!
//! A knob specifies desired values; `mod.rs` decides whether they differ from the current ones and
//! whether the kernel accepts them. Knobs are applied in the order of the list: activating a
//! governor may change the turbo setting (Intel's driver does), and the maximum frequency is known
//! only once turbo is off. Start at [`KNOBS`].

use super::machine::Machine;
use crate::processors::{self, is_processor, list_of, numbers};
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";
const KERNEL: &str = "/proc/sys/kernel";
/// Root of the version 2 control groups, and the group that `tune` creates.
const GROUPS: &str = "/sys/fs/cgroup";
pub(super) const OWN_GROUP: &str = "/sys/fs/cgroup/speedwell";

/// A request to `tune`.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Names of knobs; if empty, the default ones.
    pub knobs: Vec<String>,
    /// Processors reserved for measuring; the others are for everything else.
    pub cpus: Option<Vec<u32>>,
    /// Whether a command is started to which the settings apply.
    pub has_command: bool,
    /// Whether to stop services that counteract a knob.
    pub stops_services: bool,
}

impl Request {
    /// Whether a knob was named, or is a default one if none was named.
    pub(super) fn wants(&self, knob: &Knob) -> bool {
        if self.knobs.is_empty() {
            knob.is_usual
        } else {
            self.knobs.iter().any(|name| name == knob.name)
        }
    }

    fn names(&self, knob: &str) -> bool {
        self.knobs.is_empty() || self.knobs.iter().any(|name| name == knob)
    }
}

/// A knob: settings changed together for one purpose.
#[derive(Debug)]
pub struct Knob {
    /// Name on the command line.
    pub name: &'static str,
    /// Effect of the knob.
    pub effect: &'static str,
    /// Whether it is applied by default. The others take something away that users may miss.
    pub is_usual: bool,
    /// Determines its settings and their desired values.
    pub(super) find: fn(&Machine, &Request) -> Result<Vec<Wish>, Missing>,
}

/// A setting with its desired value.
#[derive(Debug)]
pub(super) struct Wish {
    pub path: String,
    pub value: Value,
}

/// Desired value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// The value of another setting at the time of the change.
    SameAs(String),
    /// The path is a control group to create.
    Group,
}

/// Why a knob has no settings.
#[derive(Debug)]
pub(super) enum Missing {
    /// A required option is missing.
    Option(&'static str),
    /// There is nothing to change on this machine.
    Here(String),
}

/// All knobs, in the order in which they are applied.
pub const KNOBS: [Knob; 14] = [
    Knob {
        name: "governor",
        effect: "the frequency no longer follows the load",
        is_usual: true,
        find: |machine, _| policies(machine, "scaling_governor", |_| text("performance")),
    },
    Knob {
        name: "turbo",
        effect: "the frequency no longer follows temperature and neighbours",
        is_usual: true,
        find: turbo,
    },
    Knob {
        name: "minimum-frequency",
        effect: "with turbo off, the frequency stays at its maximum",
        is_usual: true,
        find: minimum_frequency,
    },
    Knob {
        name: "smt",
        effect: "no two threads share a core",
        is_usual: false,
        find: smt,
    },
    Knob {
        name: "aslr",
        effect: "stays on: one layout for all runs would be precise and wrong",
        is_usual: true,
        find: |machine, _| one(machine, &format!("{KERNEL}/randomize_va_space"), "2"),
    },
    Knob {
        name: "irq",
        effect: "interrupts go to the processors that are not measured on",
        is_usual: true,
        find: interrupts,
    },
    Knob {
        name: "own-cpus",
        effect: "the command has processors that the scheduler gives to nothing else",
        is_usual: true,
        find: own_cpus,
    },
    Knob {
        name: "huge-pages",
        effect: "only programs that ask for huge pages get them, not those that are lucky",
        is_usual: true,
        find: |machine, _| {
            one(
                machine,
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "madvise",
            )
        },
    },
    Knob {
        name: "swap",
        effect: "memory in use is written out last; swap stays available",
        is_usual: true,
        find: |machine, _| one(machine, "/proc/sys/vm/swappiness", "1"),
    },
    Knob {
        name: "numa",
        effect: "the kernel does not move memory between nodes, nor unmap it to see who uses it",
        is_usual: true,
        find: |machine, _| one(machine, &format!("{KERNEL}/numa_balancing"), "0"),
    },
    Knob {
        name: "timers",
        effect: "timers stay on the processor that set them",
        is_usual: true,
        find: |machine, _| one(machine, &format!("{KERNEL}/timer_migration"), "0"),
    },
    Knob {
        name: "watchdog",
        effect: "no interrupt and no counter for the kernel's search for lock-ups",
        is_usual: true,
        find: watchdog,
    },
    Knob {
        name: "perf-rate",
        effect: "sampling by perf costs at most one interrupt a second; so --profile gets one sample a second",
        is_usual: false,
        find: |machine, _| {
            one(
                machine,
                &format!("{KERNEL}/perf_event_max_sample_rate"),
                "1",
            )
        },
    },
    Knob {
        name: "priority",
        effect: "the command goes before ordinary work (nice -10)",
        is_usual: true,
        // Not a setting of the machine: the tuner raises its own priority, and the command inherits
        // it.
        find: |_, request| needs_command(request).map(|()| Vec::new()),
    },
];

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn wish(path: impl Into<String>, value: &str) -> Wish {
    Wish {
        path: path.into(),
        value: text(value),
    }
}

fn absent<T>(machine: &Machine) -> Result<T, Missing> {
    Err(Missing::Here(machine.words_for_absent()))
}

fn here<T>(words: impl Into<String>) -> Result<T, Missing> {
    Err(Missing::Here(words.into()))
}

/// Filters the settings that exist.
fn all(machine: &Machine, wishes: Vec<Wish>) -> Result<Vec<Wish>, Missing> {
    let there = |wish: &Wish| machine.held(&wish.path).is_some();
    let there: Vec<Wish> = wishes.into_iter().filter(there).collect();
    if there.is_empty() {
        absent(machine)
    } else {
        Ok(there)
    }
}

fn one(machine: &Machine, path: &str, value: &str) -> Result<Vec<Wish>, Missing> {
    all(machine, vec![wish(path, value)])
}

pub(super) fn online(machine: &Machine) -> Vec<u32> {
    let list = machine.tree.text(format!("{CPU}/online"));
    numbers(&list.unwrap_or_default())
}

/// Returns a file for every frequency policy with a processor online. A policy covers one or more
/// processors; if the driver has none, each processor has its own files.
fn policies(
    machine: &Machine,
    file: &str,
    value: impl Fn(&str) -> Value,
) -> Result<Vec<Wish>, Missing> {
    let online = online(machine);
    let is_online = |cpus: &[u32]| cpus.iter().any(|cpu| online.contains(cpu));
    let mut folders: Vec<String> = machine.tree.names(&format!("{CPU}/cpufreq"));
    folders.retain(|name| name.starts_with("policy"));
    let mut folders: Vec<String> = folders
        .into_iter()
        .map(|name| format!("{CPU}/cpufreq/{name}"))
        .filter(|folder| {
            let cpus = machine.tree.text(format!("{folder}/affected_cpus"));
            cpus.is_none_or(|cpus| is_online(&numbers(&cpus.replace(' ', ","))))
        })
        .collect();
    if folders.is_empty() {
        let names = machine.tree.names(CPU);
        let cpus = names.iter().filter(|name| is_processor(name));
        let alive = cpus.filter(|name| is_online(&numbers(&name[3..])));
        folders = alive.map(|name| format!("{CPU}/{name}/cpufreq")).collect();
    }
    let wishes = folders.iter().map(|folder| Wish {
        path: format!("{folder}/{file}"),
        value: value(folder),
    });
    all(machine, wishes.collect())
}

fn turbo(machine: &Machine, _: &Request) -> Result<Vec<Wish>, Missing> {
    // Intel's own driver has a separate switch, which makes the generic one ineffective.
    one(machine, &format!("{CPU}/intel_pstate/no_turbo"), "1")
        .or_else(|_| one(machine, &format!("{CPU}/cpufreq/boost"), "0"))
}

/// Whether turbo is enabled.
pub(super) fn has_turbo(machine: &Machine) -> bool {
    processors::turbo(&machine.tree).is_some_and(|turbo| turbo.on)
}

pub(super) const WITH_TURBO: &str = "with turbo off only";

fn minimum_frequency(machine: &Machine, request: &Request) -> Result<Vec<Wish>, Missing> {
    if has_turbo(machine) && !request.names("turbo") {
        return here(WITH_TURBO);
    }
    policies(machine, "scaling_min_freq", |folder| {
        Value::SameAs(format!("{folder}/scaling_max_freq"))
    })
}

/// With `--cpus`, switches off only the siblings of those; otherwise keeps one thread per core. The
/// first processor cannot be switched off.
fn smt(machine: &Machine, request: &Request) -> Result<Vec<Wish>, Missing> {
    let online = online(machine);
    let siblings = |cpu: u32| {
        let list = machine
            .tree
            .text(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"));
        list.map_or_else(|| vec![cpu], |list| numbers(&list))
    };
    let keeps: BTreeSet<u32> = match &request.cpus {
        None => online
            .iter()
            .filter_map(|cpu| siblings(*cpu).first().copied())
            .collect(),
        Some(cpus) => {
            let shared = |cpu: &u32| {
                let threads = siblings(*cpu);
                *cpu != 0 && !cpus.contains(cpu) && threads.iter().any(|one| cpus.contains(one))
            };
            online.iter().copied().filter(|cpu| !shared(cpu)).collect()
        }
    };
    let go: Vec<u32> = online
        .iter()
        .copied()
        .filter(|cpu| !keeps.contains(cpu))
        .collect();
    let control = format!("{CPU}/smt/control");
    match machine.held(&control).as_deref() {
        None | Some("notsupported" | "notimplemented") => return absent(machine),
        Some("off" | "forceoff") => return here("off already"),
        Some(_) if keeps.len() < 2 => return here("fewer than two processors would be left"),
        Some(_) => {}
    }
    if request.cpus.is_none() {
        return Ok(vec![wish(control, "off")]);
    }
    if go.is_empty() {
        return here("no core of --cpus has a second thread that can go");
    }
    Ok(go
        .iter()
        .map(|cpu| wish(format!("{CPU}/cpu{cpu}/online"), "0"))
        .collect())
}

fn needs_command(request: &Request) -> Result<(), Missing> {
    if request.has_command {
        Ok(())
    } else {
        Err(Missing::Option("a command, after '--'"))
    }
}

const NEEDS_CPUS: Missing = Missing::Option("--cpus CPUS");

/// The service that moves interrupts.
const BALANCER: &str = "service:irqbalance";

fn interrupts(machine: &Machine, request: &Request) -> Result<Vec<Wish>, Missing> {
    let Some(own) = &request.cpus else {
        return Err(NEEDS_CPUS);
    };
    let others: Vec<u32> = online(machine)
        .into_iter()
        .filter(|cpu| !own.contains(cpu))
        .collect();
    let list = list_of(&others);
    let names = machine.tree.names("/proc/irq");
    let lines = names.iter().filter(|name| name.parse::<u32>().is_ok());
    // First in the list, so that it is restarted last.
    let balancer = wish(BALANCER, "inactive");
    let mut wishes: Vec<Wish> = request
        .stops_services
        .then_some(balancer)
        .into_iter()
        .collect();
    wishes.push(wish("/proc/irq/default_smp_affinity", &mask(&others)));
    wishes.extend(lines.map(|line| wish(format!("/proc/irq/{line}/smp_affinity_list"), &list)));
    all(machine, wishes)
}

/// Formats a set of processors in hexadecimal, in groups of eight digits, as the kernel expects.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |index: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == index);
        bits.fold(0u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let groups: Vec<String> = (0..words)
        .rev()
        .map(|index| format!("{:08x}", word(index)))
        .collect();
    let text = groups.join(",");
    text.trim_start_matches(['0', ',']).to_owned()
}

/// Creates a version 2 control group with exclusive processors (kernel documentation,
/// `admin-guide/cgroup-v2.rst`, "cpuset.cpus.partition").
fn own_cpus(machine: &Machine, request: &Request) -> Result<Vec<Wish>, Missing> {
    let Some(own) = &request.cpus else {
        return Err(NEEDS_CPUS);
    };
    needs_command(request)?;
    let controllers = machine.tree.text(format!("{GROUPS}/cgroup.controllers"));
    if !controllers.is_some_and(|names| names.split(' ').any(|name| name == "cpuset")) {
        return here("needs control groups of version 2 with 'cpuset': measure with --pin instead");
    }
    let file = |name: &str| format!("{OWN_GROUP}/{name}");
    let mut wishes = vec![
        wish(format!("{GROUPS}/cgroup.subtree_control"), "+cpuset"),
        Wish {
            path: OWN_GROUP.to_owned(),
            value: Value::Group,
        },
        wish(file("cpuset.cpus"), &list_of(own)),
    ];
    // Memory of another node is slower, and the amount used varies from run to run.
    let nodes = nodes_of(machine, own);
    let is_divided = machine.tree.text("/sys/devices/system/node/online");
    if is_divided.is_some_and(|list| numbers(&list).len() > 1) && !nodes.is_empty() {
        wishes.push(wish(file("cpuset.mems"), &list_of(&nodes)));
    }
    wishes.push(wish(file(PARTITION), "isolated"));
    Ok(wishes)
}

/// Control file that determines how far a group's processors are exclusive.
pub(super) const PARTITION: &str = "cpuset.cpus.partition";

/// Returns the memory nodes of these processors.
fn nodes_of(machine: &Machine, cpus: &[u32]) -> Vec<u32> {
    let names = cpus
        .iter()
        .flat_map(|cpu| machine.tree.names(&format!("{CPU}/cpu{cpu}")));
    let nodes = names.filter_map(|name| name.strip_prefix("node")?.parse().ok());
    nodes.collect()
}

fn watchdog(machine: &Machine, _: &Request) -> Result<Vec<Wish>, Missing> {
    let watchdogs = ["nmi_watchdog", "watchdog"];
    let wishes = watchdogs.map(|name| wish(format!("{KERNEL}/{name}"), "0"));
    all(machine, wishes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_groups_of_eight_digits() {
        assert_eq!(mask(&[0, 1, 3]), "b");
        assert_eq!(mask(&[4, 33]), "2,00000010");
        assert_eq!(mask(&[32]), "1,00000000");
    }
}
