//! Checks the processors: their frequencies, whether cores are shared, and how many processors are
//! available.

use crate::environment::check::{CheckResult, CheckState};
use crate::environment::file_tree::FileTree;
use crate::environment::{control_group, processors, system};

pub(super) fn run_checks(tree: &FileTree) -> Vec<CheckResult> {
    vec![
        check_governor(tree),
        check_turbo(tree),
        check_smt(tree),
        check_processor_count(tree),
        check_quota(tree),
        check_virtual_machine(tree),
    ]
}

/// Checks the frequency governors. All except `performance` and `userspace` may change the
/// frequency during a benchmark. The first samples are then slower, and results depend on what ran
/// before.
fn check_governor(tree: &FileTree) -> CheckResult {
    const NAME: &str = "cpu governor";
    let governors = processors::governors(tree);
    if governors.is_empty() {
        let description = match system::detect_hypervisor(tree) {
            Some(_) => "left to the host of this virtual machine",
            None => "no frequency control available",
        };
        return CheckResult::new(NAME, CheckState::Unknown, description);
    }
    let is_fixed = governors.keys().all(|name| name == "performance" || name == "userspace");
    let counts: Vec<String> =
        governors.iter().map(|(name, count)| format!("'{name}' on {count}")).collect();
    let state = if is_fixed { CheckState::Good } else { CheckState::Warning };
    CheckResult::new(NAME, state, format!("{} processors", counts.join(", "))).with_remedy(
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}

/// Checks whether turbo is enabled. Turbo frequencies depend on the temperature, and on how many
/// other cores are busy.
fn check_turbo(tree: &FileTree) -> CheckResult {
    const NAME: &str = "turbo";
    match processors::turbo_state(tree) {
        None => CheckResult::not_reported(NAME),
        Some(turbo) if turbo.is_enabled => CheckResult::new(
            NAME,
            CheckState::Warning,
            "on: the frequency follows temperature and load",
        )
        .with_remedy(turbo.off_command),
        Some(_) => CheckResult::new(NAME, CheckState::Good, "off"),
    }
}

/// Checks whether two threads share a core. If they do, they slow each other down by an amount that
/// depends on their work.
fn check_smt(tree: &FileTree) -> CheckResult {
    const NAME: &str = "smt";
    match processors::smt_active(tree) {
        None => CheckResult::not_reported(NAME),
        Some(true) => CheckResult::new(NAME, CheckState::Warning, "on: two threads share a core")
            .with_remedy("echo off | sudo tee /sys/devices/system/cpu/smt/control"),
        Some(false) => CheckResult::new(NAME, CheckState::Good, "off, or one thread per core"),
    }
}

/// Checks the number of processors. If there is only one, it must run the benchmark and everything
/// else, including Speedwell.
fn check_processor_count(tree: &FileTree) -> CheckResult {
    const NAME: &str = "processors";
    let Some(available) = processors::available_count(tree) else {
        return CheckResult::not_reported(NAME);
    };
    let online = processors::online_count(tree).unwrap_or(available);
    let state = if available > 1 { CheckState::Good } else { CheckState::Warning };
    let remedy = match online {
        1 => "measure on a machine with at least two processors".to_owned(),
        _ => format!("taskset --cpu-list --pid 0-{} $$", online - 1),
    };
    CheckResult::new(NAME, state, format!("{available} of {online} online processors available"))
        .with_remedy(remedy)
}

/// Checks for a quota of CPU time. When a control group has used up its quota, the kernel stops its
/// processes until the next period. Results then contain pauses of up to 100 ms.
fn check_quota(tree: &FileTree) -> CheckResult {
    const NAME: &str = "cpu quota";
    let Some(limit) = control_group::cpu_limit(tree) else {
        return CheckResult::new(NAME, CheckState::Good, "no limit");
    };
    let (state, throttled) = match limit.throttled_periods {
        Some(0) => (CheckState::Warning, "; this limit has not been reached so far".to_owned()),
        Some(periods) => {
            (CheckState::Bad, format!("; this limit has been reached in {periods} periods so far"))
        }
        None => (CheckState::Warning, String::new()),
    };
    let found = format!("limited to {} processors{throttled}", limit.cpus);
    CheckResult::new(NAME, state, found).with_remedy(match system::detect_container(tree) {
        Some(kind) if kind == "docker" || kind == "podman" => {
            format!("start the container with '{kind} run --cpuset-cpus 0-1' instead of '--cpus'")
        }
        _ => limit.lift_command,
    })
}

fn check_virtual_machine(tree: &FileTree) -> CheckResult {
    const NAME: &str = "virtual machine";
    match system::detect_hypervisor(tree) {
        None => CheckResult::new(NAME, CheckState::Good, "none detected"),
        Some(kind) => CheckResult::new(
            NAME,
            CheckState::Warning,
            format!("hypervisor {kind}: the host may slow this machine down at any time"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;

    const CPU: &str = "/sys/devices/system/cpu";

    #[test]
    fn a_governor_that_changes_frequencies_causes_a_warning() {
        let files = |second| {
            machine(&[
                ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
                ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", second),
            ])
        };
        let check = check_governor(&files("powersave"));
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(check.found, "'performance' on 1, 'powersave' on 1 processors");
        assert!(check.remedy.unwrap().starts_with("echo performance | sudo tee"));
        let check = check_governor(&files("performance"));
        assert_eq!((check.state, check.remedy), (CheckState::Good, None));
        assert_eq!(check_governor(&machine(&[])).state, CheckState::Unknown);
    }

    #[test]
    fn turbo_is_switched_off_through_the_driver_in_use() {
        let check =
            check_turbo(&machine(&[("/sys/devices/system/cpu/intel_pstate/no_turbo", "0")]));
        let command = format!("echo 1 | sudo tee {CPU}/intel_pstate/no_turbo");
        assert_eq!((check.state, check.remedy), (CheckState::Warning, Some(command)));
        let check = check_turbo(&machine(&[("/sys/devices/system/cpu/cpufreq/boost", "0")]));
        assert_eq!((check.state, check.remedy), (CheckState::Good, None));
    }

    #[test]
    fn shared_cores_cause_a_warning() {
        let state =
            |active| check_smt(&machine(&[("/sys/devices/system/cpu/smt/active", active)])).state;
        assert_eq!((state("1"), state("0")), (CheckState::Warning, CheckState::Good));
    }

    #[test]
    fn a_single_processor_is_too_few() {
        let check_of = |online, allowed| {
            check_processor_count(&machine(&[
                ("/sys/devices/system/cpu/online", online),
                ("/proc/self/status", allowed),
            ]))
        };
        let pinned = check_of("0-3", "Cpus_allowed_list:\t2");
        assert_eq!(
            (pinned.state, pinned.found.as_str()),
            (CheckState::Warning, "1 of 4 online processors available")
        );
        assert_eq!(pinned.remedy.as_deref(), Some("taskset --cpu-list --pid 0-3 $$"));
        assert_eq!(check_of("0-3", "Cpus_allowed_list:\t0-3").state, CheckState::Good);
    }

    #[test]
    fn a_quota_that_has_been_reached_is_bad() {
        let check_of = |stat| {
            check_quota(&machine(&[
                ("/proc/self/cgroup", "0::/"),
                ("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 none rw"),
                ("/sys/fs/cgroup/cpu.max", "150000 100000"),
                ("/sys/fs/cgroup/cpu.stat", stat),
            ]))
        };
        let check = check_of("nr_periods 9\nnr_throttled 3\n");
        assert_eq!(check.state, CheckState::Bad);
        assert_eq!(
            check.found,
            "limited to 1.5 processors; this limit has been reached in 3 periods so far"
        );
        assert_eq!(check.remedy.as_deref(), Some("echo max | sudo tee /sys/fs/cgroup/cpu.max"));
        assert_eq!(check_of("nr_throttled 0").state, CheckState::Warning);
        assert_eq!(check_quota(&machine(&[])).state, CheckState::Good);
    }

    #[test]
    fn a_virtual_machine_is_named() {
        let check = check_virtual_machine(&machine(&[("/sys/hypervisor/type", "xen")]));
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.found.contains("xen"));
        assert_eq!(check_virtual_machine(&machine(&[])).state, CheckState::Good);
    }
}
