//! Checks of the clock that times are read from, and of the timer that intervals wait for.

use super::{Check, State};
use crate::system::{CLOCK, clock_source};
use crate::tree::Tree;
use speedwell_model::median;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

pub(super) fn checks(tree: &Tree) -> Vec<Check> {
    let mut checks = vec![source(tree), cost(read_cost_ns(), resolution_ns())];
    let slack: Option<u64> = tree.value("/proc/self/timerslack_ns");
    checks.push(lateness(&measure_lateness_ns(), slack));
    checks
}

/// Sources that are read without entering the kernel; all others cost a system call or an access
/// to a slow device at every reading.
const FAST: &[&str] = &[
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "timebase",
];

fn source(tree: &Tree) -> Check {
    const NAME: &str = "clock source";
    let Some((current, known)) = clock_source(tree) else {
        return Check::unknown(NAME);
    };
    let state = if FAST.contains(&current.as_str()) {
        State::Good
    } else {
        State::Bad
    };
    let remedy = match known.iter().find(|name| FAST.contains(&name.as_str())) {
        Some(better) => format!("echo {better} | sudo tee {CLOCK}/current_clocksource"),
        None => {
            "boot with tsc=reliable, or look into dmesg for why the tsc was rejected".to_owned()
        }
    };
    Check::new(NAME, state, format!("'{current}'")).remedy(remedy)
}

/// A reading in fast user-space code takes some 20 to 50 ns; a system call takes hundreds.
fn cost(cost_ns: f64, resolution_ns: Option<u64>) -> Check {
    let state = match cost_ns {
        cost if cost > 1000.0 => State::Bad,
        cost if cost > 150.0 => State::Warning,
        _ => State::Good,
    };
    let state = state.max(match resolution_ns {
        Some(ns) if ns > 1_000 => State::Bad,
        _ => State::Good,
    });
    let step = resolution_ns
        .map(|ns| format!(", resolution {ns} ns"))
        .unwrap_or_default();
    Check::new(
        "clock cost",
        state,
        format!("{cost_ns:.0} ns a reading{step}"),
    )
    .remedy(format!(
        "cat {CLOCK}/available_clocksource, and switch to tsc if it is there"
    ))
}

/// What one reading of the clock costs. The fastest of several batches, because an interruption
/// only ever makes a batch slower.
fn read_cost_ns() -> f64 {
    const READINGS: u32 = 2_000;
    let batch = || {
        let begun = Instant::now();
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
        begun.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// The resolution that the kernel claims for its monotonic clock.
fn resolution_ns() -> Option<u64> {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `step` is a valid place for the one `timespec` that the call writes.
    let status = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut step) };
    let nanoseconds = i128::from(step.tv_sec) * 1_000_000_000 + i128::from(step.tv_nsec);
    (status == 0).then(|| u64::try_from(nanoseconds).ok())?
}

/// How late a sleep of 1 ms ends, 50 times.
fn measure_lateness_ns() -> Vec<f64> {
    const SLEEP: Duration = Duration::from_millis(1);
    let once = |_| {
        let begun = Instant::now();
        thread::sleep(SLEEP);
        begun.elapsed().saturating_sub(SLEEP).as_nanos() as f64
    };
    (0..50).map(once).collect()
}

/// The kernel may delay a timer by its slack, 50 us by default; a wake-up adds some tens more.
/// Windows of samples are cut by such timers: from 2 ms on a late one is warned of anyway.
fn lateness(late_ns: &[f64], slack_ns: Option<u64>) -> Check {
    let mut sorted = late_ns.to_vec();
    let typical_us = median(&mut sorted).unwrap_or(0.0) / 1e3;
    let worst_us = sorted.last().copied().unwrap_or(0.0) / 1e3;
    let state = match (typical_us, worst_us) {
        (typical, _) if typical > 2_000.0 => State::Bad,
        (typical, worst) if typical > 500.0 || worst > 2_000.0 => State::Warning,
        _ => State::Good,
    };
    let slack = slack_ns
        .map(|ns| format!(", slack {} us", ns / 1000))
        .unwrap_or_default();
    let found = format!("a sleep ends {typical_us:.0} us late, at worst {worst_us:.0} us{slack}");
    Check::new("timer lateness", state, found)
        .remedy("stop other programs; on a virtual machine ask for dedicated processors")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake::machine;

    #[test]
    fn a_slow_source_is_exchanged_for_the_fast_one_that_is_there() {
        let check_of = |current, known| {
            source(&machine(&[
                (
                    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                    current,
                ),
                (
                    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                    known,
                ),
            ]))
        };
        assert_eq!(check_of("tsc\n", "tsc hpet").state, State::Good);
        let slow = check_of("hpet\n", "hpet tsc acpi_pm\n");
        assert_eq!((slow.state, slow.found.as_str()), (State::Bad, "'hpet'"));
        let command = format!("echo tsc | sudo tee {CLOCK}/current_clocksource");
        assert_eq!(slow.remedy, Some(command));
        assert!(
            check_of("acpi_pm", "acpi_pm")
                .remedy
                .unwrap()
                .contains("dmesg")
        );
        assert_eq!(source(&machine(&[])).state, State::Unknown);
    }

    #[test]
    fn expensive_and_coarse_clocks_are_told() {
        assert_eq!(cost(25.0, Some(1)).state, State::Good);
        assert_eq!(cost(400.0, Some(1)).state, State::Warning);
        assert_eq!(cost(25.0, Some(4_000_000)).state, State::Bad);
        assert_eq!(
            cost(25.4, Some(1)).found,
            "25 ns a reading, resolution 1 ns"
        );
    }

    #[test]
    fn one_late_timer_is_a_warning_and_all_late_are_bad() {
        let mut late = vec![60e3; 50];
        assert_eq!(lateness(&late, Some(50_000)).state, State::Good);
        late[7] = 5e6;
        let check = lateness(&late, Some(50_000));
        assert_eq!(check.state, State::Warning);
        assert_eq!(
            check.found,
            "a sleep ends 60 us late, at worst 5000 us, slack 50 us"
        );
        assert_eq!(lateness(&[3e6; 50], None).state, State::Bad);
    }

    #[test]
    fn this_machines_clock_can_be_measured() {
        assert!((1.0..1e5).contains(&read_cost_ns()));
        assert!(resolution_ns().is_some());
        assert_eq!(measure_lateness_ns().len(), 50);
    }
}
