//! Checks how busy the machine is with other work, and how much the durations of equal work vary.

use crate::environment::activity::{self, PressureResource};
use crate::environment::check::{CheckResult, CheckState};
use crate::environment::file_tree::FileTree;
use crate::environment::{control_group, processors, system};
use speedwell_model::median;
use std::hint::black_box;
use std::time::Instant;

/// Shell command that shows the processes that use the processors.
const SHOW_BUSY_COMMAND: &str = "ps -eo pid,pcpu,pmem,args --sort=-pcpu | head";

pub(super) fn run_checks(tree: &FileTree) -> Vec<CheckResult> {
    let mut checks = vec![check_load(tree)];
    checks.extend(PressureResource::ALL.map(|resource| check_pressure(tree, resource)));
    checks.extend([check_steal(tree), check_free_memory(tree), check_swap(tree)]);
    checks
}

/// Assesses a number for which lower values are better.
fn judge_figure(figure: f64, warning_limit: f64, bad_limit: f64) -> CheckState {
    match figure {
        figure if figure > bad_limit => CheckState::Bad,
        figure if figure > warning_limit => CheckState::Warning,
        _ => CheckState::Good,
    }
}

/// Checks the load, which counts the tasks that run or wait. A load of up to a quarter of the
/// processors is normal background activity. Above three quarters, the benchmark probably has to
/// share its processor.
fn check_load(tree: &FileTree) -> CheckResult {
    const NAME: &str = "load";
    let Some([now, _, _]) = activity::load_average(tree) else {
        return CheckResult::not_reported(NAME);
    };
    let cpus = processors::available_count(tree).unwrap_or(1);
    let state = judge_figure(now / f64::from(cpus), 0.25, 0.75);
    CheckResult::new(NAME, state, format!("{now:.2} over the last minute, on {cpus} processors"))
        .with_remedy(SHOW_BUSY_COMMAND)
}

fn check_pressure(tree: &FileTree, resource: PressureResource) -> CheckResult {
    let name = format!("{} pressure", resource.name());
    let Some(percent) = activity::pressure_percent(tree, resource) else {
        return CheckResult::not_reported(name);
    };
    let (warning_limit, bad_limit) = resource.limits_percent();
    let description = format!("tasks waited in {percent:.1} % of the last 10 seconds");
    CheckResult::new(name, judge_figure(percent, warning_limit, bad_limit), description)
        .with_remedy(match resource {
            PressureResource::Cpu => SHOW_BUSY_COMMAND,
            PressureResource::Memory => "ps -eo pid,pmem,rss,args --sort=-rss | head",
            PressureResource::Io => "ps -eo pid,stat,wchan:20,args | awk '$2 ~ /D/'",
        })
}

/// Checks what percentage of the time the host stole. More runs do not help if this percentage
/// exceeds the smallest difference that a comparison can resolve.
fn check_steal(tree: &FileTree) -> CheckResult {
    const NAME: &str = "stolen time";
    let Some(percent) = activity::steal_percent(tree) else {
        return CheckResult::not_reported(NAME);
    };
    let description = format!("{percent:.2} % of the processor time since boot");
    CheckResult::new(NAME, judge_figure(percent, 0.5, 5.0), description).with_remedy(
        "move this virtual machine to a dedicated host or to a plan without shared processors",
    )
}

fn check_free_memory(tree: &FileTree) -> CheckResult {
    const NAME: &str = "free memory";
    let Some(memory) = system::memory_state(tree) else {
        return CheckResult::not_reported(NAME);
    };
    let limit = control_group::memory_limit_bytes(tree).filter(|&limit| limit < memory.total_bytes);
    let used_percent =
        100.0 - memory.available_bytes as f64 / memory.total_bytes.max(1) as f64 * 100.0;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let limit_note =
        limit.map(|limit| format!(", limited to {:.1} GiB", gib(limit))).unwrap_or_default();
    let description = format!(
        "{:.1} of {:.1} GiB available{limit_note}",
        gib(memory.available_bytes),
        gib(memory.total_bytes)
    );
    CheckResult::new(NAME, judge_figure(used_percent, 90.0, 97.0), description)
        .with_remedy("ps -eo pid,pmem,rss,args --sort=-rss | head")
}

/// Checks whether pages are swapped out. An access to such a page takes a hundred thousand times
/// longer than an access to memory.
fn check_swap(tree: &FileTree) -> CheckResult {
    const NAME: &str = "swap";
    let Some(memory) = system::memory_state(tree) else {
        return CheckResult::not_reported(NAME);
    };
    match memory.swap_used_bytes {
        0 => CheckResult::new(NAME, CheckState::Good, "not in use"),
        used => CheckResult::new(NAME, CheckState::Warning, format!("{} MiB in use", used >> 20))
            .with_remedy("sudo swapoff --all && sudo swapon --all"),
    }
}

const MEASUREMENTS: usize = 200;
/// Approximate duration of one measurement.
const TARGET_NS: f64 = 1e6;

pub(super) fn check_noise() -> CheckResult {
    judge_noise(&measure_ns())
}

/// Measures repeatedly how long the same work takes. The work touches no memory and calls nothing,
/// so any variation comes from the machine: from frequencies, interrupts or other processes.
fn measure_ns() -> Vec<f64> {
    let time = |rounds: u64| {
        let start = Instant::now();
        black_box(spin_rounds(black_box(rounds)));
        start.elapsed().as_nanos() as f64
    };
    // Of a few attempts, the fastest is the least disturbed.
    const TRIAL: u64 = 100_000;
    let trial_ns = (0..10).map(|_| time(TRIAL)).fold(f64::INFINITY, f64::min).max(1.0);
    let rounds = (TARGET_NS / trial_ns * TRIAL as f64) as u64;
    (0..MEASUREMENTS).map(|_| time(rounds)).collect()
}

/// Computes a chain of multiplications (the generator of Knuth's MMIX). Each multiplication needs
/// the result of the previous one, so the processor can neither overlap nor skip them.
fn spin_rounds(rounds: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..rounds {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    state
}

/// Assesses the coefficient of variation of the durations. Thirty runs per variant detect a change
/// of 0.7 % at a coefficient of 1 %, and a change of 3.8 % at 5 % (crates/stats/DERIVATIONS.md,
/// "Power"). Above 5 %, most comparisons are inconclusive.
fn judge_noise(durations_ns: &[f64]) -> CheckResult {
    let mut sorted = durations_ns.to_vec();
    let (Some(typical), Some(&fastest), Some(&slowest)) =
        (median(&mut sorted), sorted.first(), sorted.last())
    else {
        return CheckResult::not_reported("noise");
    };
    let count = durations_ns.len() as f64;
    let mean = durations_ns.iter().sum::<f64>() / count;
    let squares = durations_ns.iter().map(|duration| (duration - mean).powi(2)).sum::<f64>();
    let variation_percent = (squares / (count - 1.0).max(1.0)).sqrt() / mean * 100.0;
    let state = match variation_percent {
        percent if percent > 5.0 => CheckState::Bad,
        percent if percent > 1.0 => CheckState::Warning,
        _ => CheckState::Good,
    };
    let description = format!(
        "the same work takes {:.2} ms, varying by {variation_percent:.2} %, slowest/fastest {:.2}",
        typical / 1e6,
        slowest / fastest
    );
    CheckResult::new("noise", state, description).with_remedy(
        "fix the other findings first; then pin the benchmark to idle processors with --pin",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;

    #[test]
    fn load_is_judged_against_the_processors_that_are_ours() {
        let check_of = |figure, cpus| {
            check_load(&machine(&[
                ("/proc/loadavg", figure),
                ("/sys/devices/system/cpu/online", cpus),
            ]))
        };
        assert_eq!(check_of("0.90 0 0", "0-7").state, CheckState::Good);
        assert_eq!(check_of("0.90 0 0", "0-1").state, CheckState::Warning);
        let bad = check_of("1.80 0 0", "0-1");
        assert_eq!(bad.state, CheckState::Bad);
        assert_eq!(bad.found, "1.80 over the last minute, on 2 processors");
        assert_eq!(bad.remedy.as_deref(), Some(SHOW_BUSY_COMMAND));
    }

    #[test]
    fn memory_pressure_weighs_more_than_waiting_for_a_processor() {
        let line = "some avg10=3.00 avg60=0.80 avg300=7.59 total=1\n";
        let machine = machine(&[("/proc/pressure/memory", line), ("/proc/pressure/cpu", line)]);
        assert_eq!(check_pressure(&machine, PressureResource::Memory).state, CheckState::Warning);
        assert_eq!(check_pressure(&machine, PressureResource::Cpu).state, CheckState::Good);
        assert_eq!(check_pressure(&machine, PressureResource::Io).state, CheckState::Unknown);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let state = |line| check_steal(&machine(&[("/proc/stat", line)])).state;
        assert_eq!(state("cpu  90 0 0 100 0 0 0 10 0 0\n"), CheckState::Warning);
        assert_eq!(state("cpu  80 0 0 100 0 0 0 20 0 0\n"), CheckState::Bad);
        assert_eq!(state("cpu  90 0 0 100 0 0 0 0 0 0\n"), CheckState::Good);
    }

    #[test]
    fn memory_shortage_and_swap_in_use_cause_warnings() {
        let machine = machine(&[(
            "/proc/meminfo",
            "MemTotal: 8388608 kB\nMemAvailable: 524288 kB\nSwapTotal: 4096 kB\nSwapFree: 2048 kB\n",
        )]);
        let memory = check_free_memory(&machine);
        assert_eq!(
            (memory.state, memory.found.as_str()),
            (CheckState::Warning, "0.5 of 8.0 GiB available")
        );
        let swap = check_swap(&machine);
        assert_eq!((swap.state, swap.found.as_str()), (CheckState::Warning, "2 MiB in use"));
        assert_eq!(swap.remedy.as_deref(), Some("sudo swapoff --all && sudo swapon --all"));
    }

    #[test]
    fn noise_is_the_coefficient_of_variation() {
        // The mean is 1 ms, and every duration deviates from it by 20 us. The standard deviation is
        // 20.05 us.
        let uneven: Vec<f64> =
            (0..200).map(|n| 1e6 + if n % 2 == 0 { 2e4 } else { -2e4 }).collect();
        let check = judge_noise(&uneven);
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(
            check.found,
            "the same work takes 1.00 ms, varying by 2.01 %, slowest/fastest 1.04"
        );
        assert_eq!(judge_noise(&[1e6; 200]).state, CheckState::Good);
        let mut wild = vec![1e6; 200];
        wild[3] = 5e6;
        assert_eq!(judge_noise(&wild).state, CheckState::Bad);
        assert_eq!(judge_noise(&[]).state, CheckState::Unknown);
    }

    #[test]
    fn the_work_takes_about_as_long_as_intended() {
        let durations = measure_ns();
        assert_eq!(durations.len(), MEASUREMENTS);
        let fastest = durations.iter().copied().fold(f64::INFINITY, f64::min);
        // The fastest duration must be near the target. A busy machine can only make it longer, so
        // the upper limit is generous.
        assert!((TARGET_NS / 3.0..TARGET_NS * 30.0).contains(&fastest), "{fastest} ns");
    }
}
