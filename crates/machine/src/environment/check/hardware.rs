//! Checks clocks and timers, as well as power and heat. Servers and virtual machines usually do not
//! report power and heat.

use super::finding::{Check, CheckState, Finding, finding, judge_figure};
use crate::environment::file_tree::FileTree;
use crate::environment::system::{self, CLOCK_FOLDER, clock_source, is_processor};
use rustix::time::{ClockId, clock_getres};
use speedwell_model::median;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Checks of power and heat, for machines that report them.
pub(super) const SENSOR_CHECKS: &[Check] = &[
    ("battery", check_battery),
    ("temperature", check_temperature),
    ("thermal throttling", check_throttling),
];

/// Checks whether the machine runs on battery. If it does, the firmware may lower frequencies at
/// any time.
pub(crate) fn check_battery(tree: &FileTree) -> Option<Finding> {
    const SUPPLIES: &str = "/sys/class/power_supply";
    let state_of = |name: &String| {
        let kind = tree.read_text(format!("{SUPPLIES}/{name}/type"))?;
        // A battery of scope "Device" belongs to a mouse or a keyboard.
        let scope = tree.read_text(format!("{SUPPLIES}/{name}/scope"));
        let is_ours = kind == "Battery" && scope.as_deref() != Some("Device");
        is_ours.then(|| tree.read_text(format!("{SUPPLIES}/{name}/status")))?
    };
    let states: Vec<String> = tree.list_names(SUPPLIES).iter().filter_map(state_of).collect();
    let state = match states.iter().any(|state| state == "Discharging") {
        _ if states.is_empty() => return None,
        true => CheckState::Bad,
        false => CheckState::Good,
    };
    finding(state, states.join(", ").to_lowercase(), "connect the machine to its power supply")
}

/// A temperature sensor. Its limit is the lowest temperature at which the machine is slowed down.
struct ThermalZone {
    name: String,
    now_c: f64,
    limit_c: Option<f64>,
}

impl ThermalZone {
    fn degrees_left(&self) -> f64 {
        self.limit_c.map_or(f64::INFINITY, |limit| limit - self.now_c)
    }
}

/// There is a warning if a temperature is less than this many degrees below its limit.
const THROTTLING_MARGIN_C: f64 = 5.0;

/// Checks the sensor that is nearest to its limit, or the hottest sensor if none has a limit.
fn check_temperature(tree: &FileTree) -> Option<Finding> {
    let zone = thermal_zones(tree).into_iter().min_by(|a, b| {
        a.degrees_left().total_cmp(&b.degrees_left()).then(b.now_c.total_cmp(&a.now_c))
    })?;
    let state = match zone.degrees_left() {
        degrees_left if degrees_left <= 0.0 => CheckState::Bad,
        degrees_left if degrees_left < THROTTLING_MARGIN_C => CheckState::Warning,
        _ => CheckState::Good,
    };
    let limit = zone.limit_c.map(|limit| format!(", throttles at {limit:.0}"));
    let description =
        format!("{} at {:.0} degrees Celsius{}", zone.name, zone.now_c, limit.unwrap_or_default());
    finding(state, description, "let the machine cool down, and check its fans")
}

fn thermal_zones(tree: &FileTree) -> Vec<ThermalZone> {
    const ZONES: &str = "/sys/class/thermal";
    let celsius =
        |path: String| tree.read_value::<f64>(path).map(|millidegrees| millidegrees / 1000.0);
    let zone = |zone: String| {
        let folder = format!("{ZONES}/{zone}");
        let limits = (0..16).filter_map(|n| {
            let kind = tree.read_text(format!("{folder}/trip_point_{n}_type"))?;
            let is_throttling = matches!(kind.as_str(), "passive" | "hot" | "critical");
            is_throttling.then(|| celsius(format!("{folder}/trip_point_{n}_temp")))?
        });
        Some(ThermalZone {
            now_c: celsius(format!("{folder}/temp"))?,
            // Some firmware reports 0 or less if there is no limit.
            limit_c: limits.filter(|&limit| limit > 0.0).reduce(f64::min),
            name: tree.read_text(format!("{folder}/type")).unwrap_or(zone),
        })
    };
    let names = tree.list_names(ZONES).into_iter().filter(|name| name.starts_with("thermal_zone"));
    names.filter_map(zone).collect()
}

/// Returns how often the most throttled core was throttled since boot; `None` if the hardware does
/// not count this.
pub(crate) fn throttle_count(tree: &FileTree) -> Option<u64> {
    const CPU: &str = "/sys/devices/system/cpu";
    let names = tree.list_names(CPU);
    let counts = names.iter().filter(|name| is_processor(name)).filter_map(|name| {
        tree.read_value::<u64>(format!("{CPU}/{name}/thermal_throttle/core_throttle_count"))
    });
    counts.max()
}

fn check_throttling(tree: &FileTree) -> Option<Finding> {
    let max_count = throttle_count(tree)?;
    let state = if max_count == 0 { CheckState::Good } else { CheckState::Warning };
    finding(
        state,
        format!("a core was throttled {max_count} times since boot"),
        "let the machine cool down between sessions, or switch turbo off",
    )
}

/// Checks of clocks and timers.
pub(super) const CLOCK_CHECKS: &[Check] = &[
    ("clock source", check_clock_source),
    ("clock cost", |_| check_clock_cost(read_cost_ns(), resolution_ns())),
    ("timer lateness", |tree| {
        check_lateness(&measure_lateness_ns(), tree.read_value("/proc/self/timerslack_ns"))
    }),
];

/// Clock sources that can be read without entering the kernel. With any other source, each reading
/// costs a system call or an access to a slow device.
const FAST_SOURCES: &[&str] =
    &["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase"];

fn check_clock_source(tree: &FileTree) -> Option<Finding> {
    let (current, available) = clock_source(tree)?;
    let state =
        if FAST_SOURCES.contains(&current.as_str()) { CheckState::Good } else { CheckState::Bad };
    let remedy = match available.iter().find(|name| FAST_SOURCES.contains(&name.as_str())) {
        Some(fast_source) => {
            format!("echo {fast_source} | sudo tee {CLOCK_FOLDER}/current_clocksource")
        }
        None => "boot with tsc=reliable, or search dmesg for why the tsc was rejected".to_owned(),
    };
    finding(state, format!("'{current}'"), remedy)
}

/// Assesses the cost of reading the clock: 20 to 50 ns in fast user-space code, hundreds of
/// nanoseconds with a system call.
fn check_clock_cost(cost_ns: f64, resolution_ns: Option<u64>) -> Option<Finding> {
    let cost_state = judge_figure(cost_ns, 150.0, 1000.0);
    let is_coarse = resolution_ns.is_some_and(|ns| ns > 1_000);
    let resolution_state = if is_coarse { CheckState::Bad } else { CheckState::Good };
    let step = resolution_ns.map(|ns| format!(", resolution {ns} ns")).unwrap_or_default();
    finding(
        cost_state.max(resolution_state),
        format!("{cost_ns:.0} ns per reading{step}"),
        format!("cat {CLOCK_FOLDER}/available_clocksource, and switch to tsc if available"),
    )
}

/// Measures the cost of reading the clock. Uses the fastest of several batches, because
/// interruptions only make a batch slower.
fn read_cost_ns() -> f64 {
    const READINGS: u32 = 2_000;
    let batch = || {
        let start = Instant::now();
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
        start.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// Returns the resolution that the kernel reports for its monotonic clock.
fn resolution_ns() -> Option<u64> {
    let step = Duration::try_from(clock_getres(ClockId::Monotonic)).ok()?;
    u64::try_from(step.as_nanos()).ok()
}

/// Measures how late a sleep of 1 ms ends. Returns 50 measurements.
fn measure_lateness_ns() -> Vec<f64> {
    const SLEEP: Duration = Duration::from_millis(1);
    let lateness_ns = |_| {
        let start = Instant::now();
        thread::sleep(SLEEP);
        start.elapsed().saturating_sub(SLEEP).as_nanos() as f64
    };
    (0..50).map(lateness_ns).collect()
}

/// Assesses how late timers are. The kernel may delay a timer by its slack, 50 us by default.
/// Waking up takes some tens of microseconds more. Timers start and end sample windows, so a single
/// sleep that ends more than 2 ms late causes a warning.
fn check_lateness(late_ns: &[f64], slack_ns: Option<u64>) -> Option<Finding> {
    let mut sorted = late_ns.to_vec();
    let typical_us = median(&mut sorted).unwrap_or(0.0) / 1e3;
    let worst_us = sorted.last().copied().unwrap_or(0.0) / 1e3;
    let state = match (typical_us, worst_us) {
        (typical, _) if typical > 2_000.0 => CheckState::Bad,
        (typical, worst) if typical > 500.0 || worst > 2_000.0 => CheckState::Warning,
        _ => CheckState::Good,
    };
    let slack = slack_ns.map(|ns| format!(", slack {} µs", ns / 1000)).unwrap_or_default();
    finding(
        state,
        format!("a sleep ends {typical_us:.0} µs late, at worst {worst_us:.0} µs{slack}"),
        "stop other programs; for a virtual machine, use dedicated processors",
    )
}

// Checks the processors: their frequencies, whether cores are shared, and how many processors are
// available.

pub(super) const PROCESSOR_CHECKS: &[Check] = &[
    ("cpu governor", check_governor),
    ("turbo", check_turbo),
    ("smt", check_smt),
    ("processors", check_processor_count),
    ("cpu quota", check_quota),
    ("virtual machine", check_virtual_machine),
];

/// Checks the frequency governors. All except `performance` and `userspace` may change the
/// frequency during a benchmark. The first samples are then slower, and results depend on what ran
/// before.
fn check_governor(tree: &FileTree) -> Option<Finding> {
    let governors = system::governors(tree);
    if governors.is_empty() {
        let description = match system::detect_hypervisor(tree) {
            Some(_) => "left to the host of this virtual machine",
            None => "no frequency control available",
        };
        return finding(CheckState::Unknown, description, "");
    }
    let is_fixed = governors.keys().all(|name| name == "performance" || name == "userspace");
    let counts: Vec<String> =
        governors.iter().map(|(name, count)| format!("'{name}' on {count}")).collect();
    let state = if is_fixed { CheckState::Good } else { CheckState::Warning };
    finding(
        state,
        format!("{} processors", counts.join(", ")),
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}

/// Checks whether turbo is enabled. Turbo frequencies depend on the temperature, and on how many
/// other cores are busy.
fn check_turbo(tree: &FileTree) -> Option<Finding> {
    let turbo = system::turbo_state(tree)?;
    let (state, found) = if turbo.is_enabled {
        (CheckState::Warning, "on: the frequency follows temperature and load")
    } else {
        (CheckState::Good, "off")
    };
    finding(state, found, turbo.off_command)
}

/// Checks whether two threads share a core. If they do, they slow each other down by an amount that
/// depends on their work.
fn check_smt(tree: &FileTree) -> Option<Finding> {
    let (state, found) = if system::smt_active(tree)? {
        (CheckState::Warning, "on: two threads share a core")
    } else {
        (CheckState::Good, "off, or one thread per core")
    };
    finding(state, found, "echo off | sudo tee /sys/devices/system/cpu/smt/control")
}

/// Checks the number of processors. If there is only one, it must run the benchmark and everything
/// else, including Speedwell.
fn check_processor_count(tree: &FileTree) -> Option<Finding> {
    let available = system::available_count(tree)?;
    let online = system::online_count(tree).unwrap_or(available);
    let state = if available > 1 { CheckState::Good } else { CheckState::Warning };
    let remedy = match online {
        1 => "measure on a machine with at least two processors".to_owned(),
        _ => format!("taskset --cpu-list --pid 0-{} $$", online - 1),
    };
    finding(state, format!("{available} of {online} online processors available"), remedy)
}

/// Checks for a quota of CPU time. When a control group has used up its quota, the kernel stops its
/// processes until the next period. Results then contain pauses of up to 100 ms.
fn check_quota(tree: &FileTree) -> Option<Finding> {
    let Some(limit) = system::cpu_limit(tree) else {
        return finding(CheckState::Good, "no limit", "");
    };
    let (state, throttled) = match limit.throttled_periods {
        Some(0) => (CheckState::Warning, "; this limit has not been reached so far".to_owned()),
        Some(periods) => {
            (CheckState::Bad, format!("; this limit has been reached in {periods} periods so far"))
        }
        None => (CheckState::Warning, String::new()),
    };
    let remedy = match system::detect_container(tree) {
        Some(kind) if kind == "docker" || kind == "podman" => {
            format!("start the container with '{kind} run --cpuset-cpus 0-1' instead of '--cpus'")
        }
        _ => limit.lift_command,
    };
    finding(state, format!("limited to {} processors{throttled}", limit.cpus), remedy)
}

fn check_virtual_machine(tree: &FileTree) -> Option<Finding> {
    let (state, found) = match system::detect_hypervisor(tree) {
        None => (CheckState::Good, "none detected".to_owned()),
        Some(kind) => (
            CheckState::Warning,
            format!("hypervisor {kind}: the host may slow this machine down at any time"),
        ),
    };
    // Nothing on this machine can remedy it.
    Some(Finding { state, found, remedy: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;

    #[test]
    fn machines_without_sensors_get_no_checks() {
        assert!(SENSOR_CHECKS.iter().all(|(_, check)| check(&machine(&[])).is_none()));
    }

    #[test]
    fn running_on_battery_is_bad_but_a_mouse_does_not_matter() {
        let check_of = |status| {
            check_battery(&machine(&[
                ("/sys/class/power_supply/AC/type", "Mains"),
                ("/sys/class/power_supply/BAT0/type", "Battery"),
                ("/sys/class/power_supply/BAT0/status", status),
                ("/sys/class/power_supply/hid-1/type", "Battery"),
                ("/sys/class/power_supply/hid-1/scope", "Device"),
                ("/sys/class/power_supply/hid-1/status", "Discharging"),
            ]))
            .unwrap()
        };
        assert_eq!(check_of("Discharging").state, CheckState::Bad);
        let charged = check_of("Full");
        assert_eq!((charged.state, charged.found.as_str()), (CheckState::Good, "full"));
    }

    #[test]
    fn the_zone_nearest_to_its_limit_is_shown() {
        let check_of = |package| {
            check_temperature(&machine(&[
                ("/sys/class/thermal/thermal_zone0/type", "acpitz"),
                ("/sys/class/thermal/thermal_zone0/temp", "60000"),
                ("/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp"),
                ("/sys/class/thermal/thermal_zone1/temp", package),
                ("/sys/class/thermal/thermal_zone1/trip_point_0_type", "passive"),
                ("/sys/class/thermal/thermal_zone1/trip_point_0_temp", "90000"),
                ("/sys/class/thermal/thermal_zone1/trip_point_1_type", "critical"),
                ("/sys/class/thermal/thermal_zone1/trip_point_1_temp", "105000"),
            ]))
            .unwrap()
        };
        let cool = check_of("55000");
        assert_eq!(cool.found, "x86_pkg_temp at 55 degrees Celsius, throttles at 90");
        assert_eq!(cool.state, CheckState::Good);
        assert_eq!(check_of("87000").state, CheckState::Warning);
        assert_eq!(check_of("91000").state, CheckState::Bad);
    }

    #[test]
    fn throttling_since_the_start_is_counted() {
        let machine = machine(&[
            ("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "0"),
            ("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "7"),
        ]);
        let check = check_throttling(&machine).unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.found.contains("7 times") && check.remedy.is_some());
    }

    #[test]
    fn the_remedy_for_a_slow_clock_source_is_an_available_fast_one() {
        let check_of = |current, known| {
            check_clock_source(&machine(&[
                ("/sys/devices/system/clocksource/clocksource0/current_clocksource", current),
                ("/sys/devices/system/clocksource/clocksource0/available_clocksource", known),
            ]))
            .unwrap()
        };
        assert_eq!(check_of("tsc\n", "tsc hpet").state, CheckState::Good);
        let slow = check_of("hpet\n", "hpet tsc acpi_pm\n");
        assert_eq!((slow.state, slow.found.as_str()), (CheckState::Bad, "'hpet'"));
        let command = format!("echo tsc | sudo tee {CLOCK_FOLDER}/current_clocksource");
        assert_eq!(slow.remedy, Some(command));
        assert!(check_of("acpi_pm", "acpi_pm").remedy.unwrap().contains("dmesg"));
        assert!(check_clock_source(&machine(&[])).is_none());
    }

    #[test]
    fn expensive_and_coarse_clocks_are_reported() {
        assert_eq!(check_clock_cost(25.0, Some(1)).unwrap().state, CheckState::Good);
        assert_eq!(check_clock_cost(400.0, Some(1)).unwrap().state, CheckState::Warning);
        assert_eq!(check_clock_cost(25.0, Some(4_000_000)).unwrap().state, CheckState::Bad);
        assert_eq!(
            check_clock_cost(25.4, Some(1)).unwrap().found,
            "25 ns per reading, resolution 1 ns"
        );
    }

    #[test]
    fn one_late_timer_is_a_warning_and_all_late_are_bad() {
        let mut late = vec![60e3; 50];
        assert_eq!(check_lateness(&late, Some(50_000)).unwrap().state, CheckState::Good);
        late[7] = 5e6;
        let check = check_lateness(&late, Some(50_000)).unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(check.found, "a sleep ends 60 µs late, at worst 5000 µs, slack 50 µs");
        assert_eq!(check_lateness(&[3e6; 50], None).unwrap().state, CheckState::Bad);
    }

    #[test]
    fn this_machines_clock_can_be_measured() {
        assert!((1.0..1e5).contains(&read_cost_ns()));
        assert!(resolution_ns().is_some());
        assert_eq!(measure_lateness_ns().len(), 50);
    }

    const CPU: &str = "/sys/devices/system/cpu";

    #[test]
    fn a_governor_that_changes_frequencies_causes_a_warning() {
        let files = |second| {
            machine(&[
                ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
                ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", second),
            ])
        };
        let check = check_governor(&files("powersave")).unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(check.found, "'performance' on 1, 'powersave' on 1 processors");
        assert!(check.remedy.unwrap().starts_with("echo performance | sudo tee"));
        let check = check_governor(&files("performance")).unwrap();
        assert_eq!((check.state, check.remedy), (CheckState::Good, None));
        assert_eq!(check_governor(&machine(&[])).unwrap().state, CheckState::Unknown);
    }

    #[test]
    fn turbo_is_switched_off_through_the_driver_in_use() {
        let check =
            check_turbo(&machine(&[("/sys/devices/system/cpu/intel_pstate/no_turbo", "0")]))
                .unwrap();
        let command = format!("echo 1 | sudo tee {CPU}/intel_pstate/no_turbo");
        assert_eq!((check.state, check.remedy), (CheckState::Warning, Some(command)));
        let check =
            check_turbo(&machine(&[("/sys/devices/system/cpu/cpufreq/boost", "0")])).unwrap();
        assert_eq!((check.state, check.remedy), (CheckState::Good, None));
    }

    #[test]
    fn shared_cores_cause_a_warning() {
        let state = |active| {
            check_smt(&machine(&[("/sys/devices/system/cpu/smt/active", active)])).unwrap().state
        };
        assert_eq!((state("1"), state("0")), (CheckState::Warning, CheckState::Good));
    }

    #[test]
    fn a_single_processor_is_too_few() {
        let check_of = |online, allowed| {
            check_processor_count(&machine(&[
                ("/sys/devices/system/cpu/online", online),
                ("/proc/self/status", allowed),
            ]))
            .unwrap()
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
            .unwrap()
        };
        let check = check_of("nr_periods 9\nnr_throttled 3\n");
        assert_eq!(check.state, CheckState::Bad);
        assert_eq!(
            check.found,
            "limited to 1.5 processors; this limit has been reached in 3 periods so far"
        );
        assert_eq!(check.remedy.as_deref(), Some("echo max | sudo tee /sys/fs/cgroup/cpu.max"));
        assert_eq!(check_of("nr_throttled 0").state, CheckState::Warning);
        assert_eq!(check_quota(&machine(&[])).unwrap().state, CheckState::Good);
    }

    #[test]
    fn a_virtual_machine_is_named() {
        let check = check_virtual_machine(&machine(&[("/sys/hypervisor/type", "xen")])).unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.found.contains("xen"));
        assert_eq!(check_virtual_machine(&machine(&[])).unwrap().state, CheckState::Good);
    }
}
