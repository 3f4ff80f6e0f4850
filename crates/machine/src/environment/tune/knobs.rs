//! Lists the knobs of `tune`. A knob is a group of settings with their desired values and their
//! purpose.
//!
//! `mod.rs` decides whether the desired values differ from the current ones, and whether the kernel
//! accepts them. The order of the knobs matters: with Intel's driver, activating a governor may
//! change the turbo setting, and the maximum frequency is known only once turbo is off. Start at
//! [`KNOBS`].

use super::machine::TunableMachine;
use crate::environment::system::{self, format_cpu_list, is_processor, parse_cpu_list};
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";
const KERNEL: &str = "/proc/sys/kernel";
/// Root folder of the version 2 control groups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// The control group that `tune` creates.
pub(super) const TUNE_CGROUP: &str = "/sys/fs/cgroup/speedwell";

/// A request to `tune`.
#[derive(Debug, Clone, Default)]
pub struct TuneRequest {
    /// Names of the requested knobs; an empty list requests the default knobs.
    pub knobs: Vec<String>,
    /// Processors reserved for measuring; everything else runs on the other processors.
    pub cpus: Option<Vec<u32>>,
    /// Whether `tune` also starts a command, which then runs with the changed settings.
    pub has_command: bool,
    /// Whether to stop services that counteract a knob.
    pub stops_services: bool,
}

impl TuneRequest {
    /// Whether the request names the knob, or names no knobs and this is a default knob.
    pub(super) fn includes_knob(&self, knob: &TuneKnob) -> bool {
        self.mentions_knob(knob.name) && (knob.is_usual || !self.knobs.is_empty())
    }

    pub(super) fn mentions_knob(&self, knob: &str) -> bool {
        self.knobs.is_empty() || self.knobs.iter().any(|name| name == knob)
    }
}

/// The settings of a knob, or why it has none.
type FoundSettings = Result<Vec<DesiredSetting>, MissingReason>;
type FindSettings = fn(&TunableMachine, &TuneRequest) -> FoundSettings;

/// A knob: settings changed together for one purpose.
#[derive(Debug)]
pub struct TuneKnob {
    /// Name on the command line.
    pub name: &'static str,
    /// Effect of the knob.
    pub effect: &'static str,
    /// Whether the knob is applied by default. Other knobs disable something that users may miss.
    pub is_usual: bool,
    /// Determines the settings of the knob and their desired values.
    pub(super) find: FindSettings,
}

/// The path of a setting, with its desired value.
pub(super) type DesiredSetting = (String, DesiredValue);

/// Desired value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DesiredValue {
    Text(String),
    /// The value that the setting at this path has at the time of the change.
    SameAs(String),
    /// No value: the path is a control group to create.
    Group,
}

/// Why a knob has no settings.
#[derive(Debug)]
pub(super) enum MissingReason {
    /// A required option is missing.
    Option(&'static str),
    /// The knob cannot change anything on this machine, for the given reason.
    Here(String),
}

/// All knobs, in the order in which they are applied.
pub const KNOBS: [TuneKnob; 14] = [
    usual("governor", "the frequency no longer follows the load", |machine, _| {
        policy_settings(machine, "scaling_governor", |_| text_value("performance"))
    }),
    usual("turbo", "the frequency no longer depends on temperature and other cores", turbo_setting),
    usual(
        "minimum-frequency",
        "with turbo off, the frequency stays at its maximum",
        minimum_frequency,
    ),
    on_request("smt", "no two threads share a core", smt_settings),
    usual(
        "aslr",
        "stays on: with a single layout, results would be precise but biased",
        |machine, _| single_setting(machine, &format!("{KERNEL}/randomize_va_space"), "2"),
    ),
    usual("irq", "interrupts go to processors outside --cpus", interrupt_settings),
    usual(
        "own-cpus",
        "the scheduler runs nothing else on the command's processors",
        own_cpu_settings,
    ),
    usual("huge-pages", "only programs that request huge pages get them", |machine, _| {
        single_setting(machine, "/sys/kernel/mm/transparent_hugepage/enabled", "madvise")
    }),
    usual("swap", "memory in use is swapped out last; swap stays available", |machine, _| {
        single_setting(machine, "/proc/sys/vm/swappiness", "1")
    }),
    usual(
        "numa",
        "the kernel does not move memory between nodes, nor unmap it to see who uses it",
        |machine, _| single_setting(machine, &format!("{KERNEL}/numa_balancing"), "0"),
    ),
    usual("timers", "timers stay on the processor that set them", |machine, _| {
        single_setting(machine, &format!("{KERNEL}/timer_migration"), "0")
    }),
    usual(
        "watchdog",
        "the kernel's lockup detector uses no interrupts and no counter",
        watchdog_settings,
    ),
    on_request(
        "perf-rate",
        "perf interrupts at most once a second, so --profile gets one sample a second",
        |machine, _| single_setting(machine, &format!("{KERNEL}/perf_event_max_sample_rate"), "1"),
    ),
    // This knob changes no setting of the machine. The tuner raises its own priority, and the
    // command inherits it.
    usual("priority", "the command has priority over ordinary work (nice -10)", |_, request| {
        needs_command(request).map(|()| Vec::new())
    }),
];

/// A knob that is applied by default.
const fn usual(name: &'static str, effect: &'static str, find: FindSettings) -> TuneKnob {
    TuneKnob { name, effect, is_usual: true, find }
}

/// A knob that is applied only if it is named.
const fn on_request(name: &'static str, effect: &'static str, find: FindSettings) -> TuneKnob {
    TuneKnob { name, effect, is_usual: false, find }
}

fn text_value(value: &str) -> DesiredValue {
    DesiredValue::Text(value.to_owned())
}

fn desired_text(path: impl Into<String>, value: &str) -> DesiredSetting {
    (path.into(), text_value(value))
}

fn missing_setting<T>(machine: &TunableMachine) -> Result<T, MissingReason> {
    Err(MissingReason::Here(machine.explain_absent()))
}

fn missing_here<T>(note: impl Into<String>) -> Result<T, MissingReason> {
    Err(MissingReason::Here(note.into()))
}

/// Returns the desired settings that exist on the machine.
///
/// # Errors
/// Fails if none of them exists.
fn existing_settings(machine: &TunableMachine, desired: Vec<DesiredSetting>) -> FoundSettings {
    let existing = |(path, _): &DesiredSetting| machine.current_value(path).is_some();
    let existing: Vec<DesiredSetting> = desired.into_iter().filter(existing).collect();
    if existing.is_empty() { missing_setting(machine) } else { Ok(existing) }
}

fn single_setting(machine: &TunableMachine, path: &str, value: &str) -> FoundSettings {
    existing_settings(machine, vec![desired_text(path, value)])
}

pub(super) fn online_cpus(machine: &TunableMachine) -> Vec<u32> {
    let list = machine.tree.read_text(format!("{CPU}/online"));
    parse_cpu_list(&list.unwrap_or_default())
}

/// Returns the setting `file` of every frequency policy that has an online processor. A policy
/// covers one or more processors; if the driver has no policies, each processor has its own files.
fn policy_settings(
    machine: &TunableMachine,
    file: &str,
    value: impl Fn(&str) -> DesiredValue,
) -> FoundSettings {
    let online = online_cpus(machine);
    let is_online = |cpus: &[u32]| cpus.iter().any(|cpu| online.contains(cpu));
    let names = machine.tree.list_names(&format!("{CPU}/cpufreq"));
    let mut folders: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with("policy"))
        .map(|name| format!("{CPU}/cpufreq/{name}"))
        .filter(|folder| {
            let cpus = machine.tree.read_text(format!("{folder}/affected_cpus"));
            cpus.is_none_or(|cpus| is_online(&parse_cpu_list(&cpus.replace(' ', ","))))
        })
        .collect();
    if folders.is_empty() {
        let names = machine.tree.list_names(CPU);
        let cpus = names.iter().filter(|name| is_processor(name));
        let online_names = cpus.filter(|name| is_online(&parse_cpu_list(&name[3..])));
        folders = online_names.map(|name| format!("{CPU}/{name}/cpufreq")).collect();
    }
    let wishes = folders.iter().map(|folder| (format!("{folder}/{file}"), value(folder)));
    existing_settings(machine, wishes.collect())
}

fn turbo_setting(machine: &TunableMachine, _: &TuneRequest) -> FoundSettings {
    // Intel's driver has a switch of its own and ignores the generic switch.
    single_setting(machine, &format!("{CPU}/intel_pstate/no_turbo"), "1")
        .or_else(|_| single_setting(machine, &format!("{CPU}/cpufreq/boost"), "0"))
}

pub(super) fn has_turbo(machine: &TunableMachine) -> bool {
    system::turbo_state(&machine.tree).is_some_and(|turbo| turbo.is_enabled)
}

pub(super) const WITH_TURBO: &str = "only with turbo off";

fn minimum_frequency(machine: &TunableMachine, request: &TuneRequest) -> FoundSettings {
    if has_turbo(machine) && !request.mentions_knob("turbo") {
        return missing_here(WITH_TURBO);
    }
    policy_settings(machine, "scaling_min_freq", |folder| {
        DesiredValue::SameAs(format!("{folder}/scaling_max_freq"))
    })
}

/// Returns the settings that switch threads off. With `--cpus`, only threads that share a core with
/// one of the listed processors are switched off. Without `--cpus`, one thread per core stays on.
/// The first processor cannot be switched off.
fn smt_settings(machine: &TunableMachine, request: &TuneRequest) -> FoundSettings {
    let online = online_cpus(machine);
    let siblings = |cpu: u32| {
        let list = machine.tree.read_text(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"));
        list.map_or_else(|| vec![cpu], |list| parse_cpu_list(&list))
    };
    let kept_cpus: BTreeSet<u32> = match &request.cpus {
        None => online.iter().filter_map(|cpu| siblings(*cpu).first().copied()).collect(),
        Some(cpus) => {
            let shared = |cpu: &u32| {
                let threads = siblings(*cpu);
                *cpu != 0
                    && !cpus.contains(cpu)
                    && threads.iter().any(|thread| cpus.contains(thread))
            };
            online.iter().copied().filter(|cpu| !shared(cpu)).collect()
        }
    };
    let surplus: Vec<u32> = online.iter().copied().filter(|cpu| !kept_cpus.contains(cpu)).collect();
    let control = format!("{CPU}/smt/control");
    match machine.current_value(&control).as_deref() {
        None | Some("notsupported" | "notimplemented") => return missing_setting(machine),
        Some("off" | "forceoff") => return missing_here("already off"),
        Some(_) if kept_cpus.len() < 2 => {
            return missing_here("fewer than two processors would be left");
        }
        Some(_) => {}
    }
    if request.cpus.is_none() {
        return Ok(vec![desired_text(control, "off")]);
    }
    if surplus.is_empty() {
        return missing_here("no core of --cpus has a second thread that can be switched off");
    }
    Ok(surplus.iter().map(|cpu| desired_text(format!("{CPU}/cpu{cpu}/online"), "0")).collect())
}

fn needs_command(request: &TuneRequest) -> Result<(), MissingReason> {
    if request.has_command { Ok(()) } else { Err(MissingReason::Option("a command, after '--'")) }
}

const NEEDS_CPUS: MissingReason = MissingReason::Option("--cpus CPUS");

/// The service that distributes interrupts over all processors.
const IRQ_BALANCER: &str = "service:irqbalance";

fn interrupt_settings(machine: &TunableMachine, request: &TuneRequest) -> FoundSettings {
    let Some(reserved) = &request.cpus else { return Err(NEEDS_CPUS) };
    let others: Vec<u32> =
        online_cpus(machine).into_iter().filter(|cpu| !reserved.contains(cpu)).collect();
    let list = format_cpu_list(&others);
    let names = machine.tree.list_names("/proc/irq");
    let interrupts = names.iter().filter(|name| name.parse::<u32>().is_ok());
    // Settings are restored in reverse order. Being first here, the service is restarted last.
    let balancer = request.stops_services.then(|| desired_text(IRQ_BALANCER, "inactive"));
    let mask = desired_text("/proc/irq/default_smp_affinity", &cpu_mask(&others));
    let affinities = interrupts
        .map(|number| desired_text(format!("/proc/irq/{number}/smp_affinity_list"), &list));
    existing_settings(machine, balancer.into_iter().chain([mask]).chain(affinities).collect())
}

/// Formats a set of processors as the kernel expects: a hexadecimal bit mask in groups of eight
/// digits.
fn cpu_mask(cpus: &[u32]) -> String {
    let word_count = cpus.iter().max().map_or(1, |max| max / 32 + 1);
    let word = |index: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == index);
        bits.fold(0u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let groups: Vec<String> =
        (0..word_count).rev().map(|index| format!("{:08x}", word(index))).collect();
    let text = groups.join(",");
    text.trim_start_matches(['0', ',']).to_owned()
}

/// Returns the settings that create a version 2 control group with exclusive processors (kernel
/// documentation, `admin-guide/cgroup-v2.rst`, "cpuset.cpus.partition").
fn own_cpu_settings(machine: &TunableMachine, request: &TuneRequest) -> FoundSettings {
    let Some(reserved) = &request.cpus else { return Err(NEEDS_CPUS) };
    needs_command(request)?;
    let controllers = machine.tree.read_text(format!("{CGROUP_ROOT}/cgroup.controllers"));
    if !controllers.is_some_and(|names| names.split(' ').any(|name| name == "cpuset")) {
        return missing_here("needs cgroup v2 with 'cpuset': measure with --pin instead");
    }
    let file = |name: &str| format!("{TUNE_CGROUP}/{name}");
    let mut wishes = vec![
        desired_text(format!("{CGROUP_ROOT}/cgroup.subtree_control"), "+cpuset"),
        (TUNE_CGROUP.to_owned(), DesiredValue::Group),
        desired_text(file("cpuset.cpus"), &format_cpu_list(reserved)),
    ];
    // Memory of another node is slower, and the fraction of memory that comes from there varies
    // from run to run.
    let nodes = memory_nodes(machine, reserved);
    let is_divided = machine.tree.read_text("/sys/devices/system/node/online");
    if is_divided.is_some_and(|list| parse_cpu_list(&list).len() > 1) && !nodes.is_empty() {
        wishes.push(desired_text(file("cpuset.mems"), &format_cpu_list(&nodes)));
    }
    wishes.push(desired_text(file(PARTITION_FILE), "isolated"));
    Ok(wishes)
}

/// Control file of a group. It determines whether the group has its processors to itself, and
/// whether the scheduler still balances load over them.
pub(super) const PARTITION_FILE: &str = "cpuset.cpus.partition";

fn memory_nodes(machine: &TunableMachine, cpus: &[u32]) -> Vec<u32> {
    let names = cpus.iter().flat_map(|cpu| machine.tree.list_names(&format!("{CPU}/cpu{cpu}")));
    let nodes = names.filter_map(|name| name.strip_prefix("node")?.parse().ok());
    nodes.collect()
}

fn watchdog_settings(machine: &TunableMachine, _: &TuneRequest) -> FoundSettings {
    let watchdogs = ["nmi_watchdog", "watchdog"];
    let wishes = watchdogs.map(|name| desired_text(format!("{KERNEL}/{name}"), "0"));
    existing_settings(machine, wishes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_groups_of_eight_digits() {
        assert_eq!(cpu_mask(&[0, 1, 3]), "b");
        assert_eq!(cpu_mask(&[4, 33]), "2,00000010");
        assert_eq!(cpu_mask(&[32]), "1,00000000");
    }
}
