//! `speedwell tune` on a machine made of files: what it would change, what it changes, and that all
//! settings are restored, however it ended.

use super::project::{CommandResult, TempProject, expect_golden};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A machine with two processors of one thread each, and the settings that `tune` may change there.
const FILES: &[(&str, &str)] = &[
    ("/sys/devices/system/cpu/online", "0-1"),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "800000"),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3200000"),
    ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil"),
    ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq", "800000"),
    ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "3200000"),
    ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
    ("/proc/irq/default_smp_affinity", "3"),
    ("/proc/irq/24/smp_affinity_list", "0-1"),
    ("/proc/irq/25/smp_affinity_list", "0-1"),
    ("/proc/sys/kernel/random/boot_id", "this one"),
    ("/proc/sys/kernel/randomize_va_space", "2"),
    ("/proc/sys/kernel/timer_migration", "1"),
    ("/proc/sys/kernel/watchdog", "1"),
    ("/proc/sys/vm/swappiness", "60"),
    ("/sys/fs/cgroup/cgroup.controllers", "cpuset memory"),
    ("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset"),
    ("/sys/fs/cgroup/cgroup.procs", "0"),
];

/// A governor that resets the turbo switch, an interrupt that cannot be moved, and a cgroup with
/// its files.
const ANSWERS: &str = "\
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor also /sys/devices/system/cpu/intel_pstate/no_turbo 0
/proc/irq/25/smp_affinity_list EIO
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cgroup.procs 0
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cpuset.cpus 0
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cpuset.cpus.partition member
";

struct FileMachine {
    root: TempDir,
    project: TempProject,
}

impl FileMachine {
    fn new() -> FileMachine {
        // The settings of a real machine are in memory, where flushing costs nothing.
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let machine = FileMachine { root: root.unwrap(), project: TempProject::new() };
        for (path, text) in FILES {
            machine.write_setting(path, text);
        }
        machine.write_setting("/answers", ANSWERS);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn write_setting(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read_setting(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    /// Every setting with its value.
    fn settings(&self) -> BTreeMap<PathBuf, String> {
        fn below(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    below(&path, found);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.insert(path, text.trim().to_owned());
                }
            }
        }
        let mut found = BTreeMap::new();
        below(&self.path("proc"), &mut found);
        below(&self.path("sys"), &mut found);
        found
    }

    /// `speedwell tune` with these arguments and the folder as its machine; arguments after `--`
    /// stay last.
    fn command(&self, words: &[&str]) -> Command {
        let root = self.root.path().to_str().unwrap();
        let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let (own, command) = words.split_at(end);
        self.project.command(&[&["tune"], own, &["--root", root], command].concat())
    }

    fn tune(&self, words: &[&str]) -> CommandResult {
        CommandResult::from(self.command(words).output().unwrap())
    }

    fn journal(&self) -> Option<serde_json::Value> {
        let text = fs::read(self.path("/run/speedwell/tune.json")).ok()?;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Waits until the guard has exited, if there is one: the journal names it before anything is
    /// changed.
    fn wait_for_guard(&self) {
        if let Some(journal) = self.journal() {
            wait_for(process_of(&journal, "guard"));
        }
    }
}

/// The id of a process in the journal.
fn process_of(journal: &serde_json::Value, who: &str) -> Pid {
    let pid = journal[who]["pid"].as_i64().unwrap();
    Pid::from_raw(pid as i32).unwrap()
}

fn wait_for(process: Pid) {
    if let Ok(end) = pidfd_open(process, PidfdFlags::empty()) {
        poll(&mut [PollFd::new(&end, PollFlags::IN)], None).unwrap();
    }
}

#[test]
fn a_dry_run_shows_settings_without_changing_them() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let shown = machine.tune(&["--dry-run", "--cpus", "1"]).expect_status(0);
    expect_golden("tune/dry-run.txt", &shown.stdout);
    assert_eq!(machine.settings(), before);
    assert!(!machine.path("/run").exists(), "not even a journal");
}

#[test]
fn settings_stay_until_reset_and_block_other_tuners() {
    let machine = FileMachine::new();
    let before = machine.settings();
    machine.tune(&["governor", "swap"]).expect_status(0);
    assert_eq!(machine.read_setting("/proc/sys/vm/swappiness"), "1");
    let journal = machine.journal().unwrap();
    let status = machine.tune(&["status", "--format", "json"]).expect_status(0).json();
    assert_eq!(status["tuned"]["knobs"], serde_json::json!(["governor", "swap"]));
    let doctor = |machine: &FileMachine| {
        let root = machine.root.path().to_str().unwrap();
        let answer = machine.project.run(&["doctor", "--root", root, "--format", "csv"]);
        let mut lines = answer.stdout.lines();
        lines.find(|line| line.contains(",tuned,")).unwrap().to_owned()
    };
    assert_eq!(doctor(&machine), "ok,tuned,\"governor, swap\",");
    let left = status["tuned"]["left_ms"].as_u64().unwrap();
    assert!(left <= 7_200_000, "two hours at most: {left}");
    let tuner = journal["tuner"]["pid"].as_i64().unwrap();
    machine.tune(&["timers"]).expect_status(2).expect_stderr(&[
        &format!("already tuned by process {tuner} (speedwell tune governor swap)"),
        "hint: sudo speedwell tune reset",
    ]);
    machine.tune(&["reset"]).expect_status(0).expect_stdout(&["restored: 3 settings"]);
    wait_for(process_of(&journal, "guard"));
    assert_eq!(machine.settings(), before);
    machine.tune(&["reset"]).expect_status(0).expect_stdout(&["this machine is not tuned"]);
}

#[test]
fn settings_changed_by_others_are_left_alone_and_reported() {
    let machine = FileMachine::new();
    machine.tune(&["timers", "swap"]).expect_status(0);
    machine.write_setting("/proc/sys/vm/swappiness", "10");
    machine.tune(&["status"]).expect_status(0).expect_stdout(&["changed since"]);
    machine.tune(&["reset"]).expect_status(0).expect_stdout(&[
        "restored: 1 setting",
        "'/proc/sys/vm/swappiness' is left alone: it has since been changed to '10'.",
    ]);
    assert_eq!(machine.read_setting("/proc/sys/vm/swappiness"), "10");
    assert_eq!(machine.read_setting("/proc/sys/kernel/timer_migration"), "1");
}

#[test]
fn a_command_runs_with_the_settings_and_its_status_is_returned() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let look = machine.path("/proc/sys/vm/swappiness");
    let script = format!("cat {}; exit 7", look.display());
    let answer = machine.tune(&["--", "sh", "-c", &script]).expect_status(7);
    assert_eq!(answer.stdout, "1\n", "what the command writes, and nothing else");
    answer.expect_stderr(&["set: governor, turbo", "already: aslr", "cannot: huge-pages"]);
    assert_eq!(machine.settings(), before);
    machine.tune(&["--", "sh", "-c", "kill -9 $$"]).expect_status(137);
    assert_eq!(machine.settings(), before);
    machine.tune(&["--", "no-such-program"]).expect_status(2).expect_stderr(&["no-such-program"]);
    assert_eq!(machine.settings(), before);
}

/// A tuner whose command has started, and waits for a line.
fn start_tuner(machine: &FileMachine, words: &[&str], script: &str) -> Child {
    let script = format!("{script}\necho begun\nread line");
    let words = [words, &["--", "sh", "-c", &script]].concat();
    let mut command = machine.command(&words);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tuner = pipes.spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(tuner.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    tuner.stdout = Some(output.into_inner());
    tuner
}

#[test]
fn the_guard_restores_settings_when_the_tuner_is_killed() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let mut tuner = start_tuner(&machine, &[], "");
    let guard = process_of(&machine.journal().unwrap(), "guard");
    assert_ne!(machine.settings(), before);
    tuner.kill().unwrap();
    tuner.wait().unwrap();
    wait_for(guard);
    assert_eq!(machine.settings(), before);
    assert_eq!(machine.journal(), None);
}

#[test]
fn reset_restores_settings_from_the_journal_without_a_guard() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let mut tuner = start_tuner(&machine, &[], "");
    let guard = process_of(&machine.journal().unwrap(), "guard");
    kill_process(guard, Signal::KILL).unwrap();
    wait_for(guard);
    tuner.kill().unwrap();
    tuner.wait().unwrap();
    assert_ne!(machine.settings(), before);
    machine
        .tune(&["swap"])
        .expect_status(2)
        .expect_stderr(&["died together with its guard", "hint: sudo speedwell tune reset"]);
    machine.tune(&["reset"]).expect_status(0);
    assert_eq!(machine.settings(), before);
}

#[test]
fn a_guard_that_is_terminated_restores_all_settings_first() {
    let machine = FileMachine::new();
    let before = machine.settings();
    machine.tune(&["swap"]).expect_status(0);
    let guard = process_of(&machine.journal().unwrap(), "guard");
    kill_process(guard, Signal::TERM).unwrap();
    wait_for(guard);
    assert_eq!((machine.settings(), machine.journal()), (before, None));
}

#[test]
fn the_guard_restores_settings_when_the_time_limit_of_a_command_ends() {
    let machine = FileMachine::new();
    let before = machine.settings();
    // The time is over when the command starts, or soon after.
    let tuner = start_tuner(&machine, &["--for", "1ms"], "");
    machine.wait_for_guard();
    assert_eq!(machine.settings(), before);
    // Its stdin is closed now, so the command exits.
    let answer = CommandResult::from(tuner.wait_with_output().unwrap());
    answer.expect_stderr(&["The settings were restored before the command ended."]);
}

#[test]
fn a_signal_is_forwarded_to_the_command_whose_exit_is_awaited() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let mut tuner = start_tuner(&machine, &[], "trap 'echo ended; exit 3' TERM");
    let _stays_open = tuner.stdin.take();
    let pid = Pid::from_raw(tuner.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let answer = CommandResult::from(tuner.wait_with_output().unwrap()).expect_status(130);
    assert_eq!(answer.stdout, "ended\n");
    assert_eq!((machine.settings(), machine.journal()), (before, None));
}

#[test]
fn a_command_is_not_executed_if_no_setting_can_be_changed() {
    let machine = FileMachine::new();
    for top in ["proc", "sys"] {
        fs::remove_dir_all(machine.path(top)).unwrap();
    }
    machine.write_setting("/sys/hypervisor/type", "xen");
    let answer = machine.tune(&["--", "echo", "executed"]).expect_status(1);
    assert!(!answer.stdout.contains("executed"));
    answer.expect_stdout(&["controlled by the host (hypervisor xen)"]);
    machine.tune(&["--dry-run"]).expect_status(1);
}

#[test]
fn invalid_arguments_are_refused_with_hints() {
    let machine = FileMachine::new();
    let wrong = |words: &[&str], says: &[&str]| {
        machine.tune(words).expect_status(2).expect_stderr(says);
    };
    wrong(&["tubro"], &["unknown knob 'tubro'", "hint: did you mean 'turbo'?"]);
    wrong(&["x"], &["hint: the knobs are governor, turbo"]);
    wrong(&["irq"], &["'irq' needs --cpus CPUS"]);
    wrong(
        &["--cpus", "5"],
        &["processor 5 of --cpus is not online", "the online processors are 0-1"],
    );
    wrong(&["--cpus", "0,1"], &["none is left for everything else"]);
    wrong(&["own-cpus", "--cpus", "1"], &["'own-cpus' needs a command"]);
    assert!(!machine.path("/run").exists());
}

#[test]
fn the_journal_is_readable_by_everyone_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let machine = FileMachine::new();
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_speedwell")]);
    masked.args(["tune", "swap", "--root"]).arg(machine.root.path());
    assert!(masked.output().unwrap().status.success());
    let mode = |path| fs::metadata(machine.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("/run/speedwell"), 0o755);
    assert_eq!(mode("/run/speedwell/tune.json"), 0o644);
    machine.tune(&["reset"]).expect_status(0);
}

#[test]
fn tuning_without_root_is_refused_with_a_sudo_hint() {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.args(["tune", "timers"]).current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534);
    }
    match command.output() {
        Err(error) => eprintln!("skipped: the program cannot be started by another user: {error}"),
        Ok(output) => {
            CommandResult::from(output)
                .expect_status(2)
                .expect_stderr(&["only root can change", "hint: sudo speedwell tune"]);
        }
    }
}

#[test]
fn a_reset_killed_at_any_step_can_be_repeated() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let mut killed = 0;
    for step in 1.. {
        machine.tune(&["governor", "turbo", "swap"]).expect_status(0);
        let step = step.to_string();
        let output = machine.command(&["reset", "--dies-at", &step]).output().unwrap();
        if output.status.code().is_some() {
            break;
        }
        killed += 1;
        machine.tune(&["reset"]).expect_status(0);
        assert_eq!(machine.settings(), before, "killed at step {step}");
        assert_eq!(machine.journal(), None, "killed at step {step}");
    }
    assert!(killed >= 8, "four settings were written: {killed}");
    assert_eq!(machine.settings(), before);
}

/// Every point of the tuner's life: before and after every write of the journal and of a setting,
/// on the way there and back. The tuner kills itself at the step that the test names, so nothing
/// depends on timing.
#[test]
fn settings_are_restored_after_the_tuner_is_killed_at_any_step() {
    let machine = FileMachine::new();
    let before = machine.settings();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(7);
    let lives: [&[&str]; 3] = [
        &["--cpus", "1", "--", "true"],
        &["governor", "turbo", "minimum-frequency", "swap", "--", "true"],
        &["timers", "watchdog", "irq", "--cpus", "1"],
    ];
    let (mut killed, mut survived) = (0, 0);
    while killed < 200 {
        let life = lives[dice.random_range(0..lives.len())];
        let step = dice.random_range(1..=200).to_string();
        let words = [&["--dies-at", &step][..], life].concat();
        let output: Output = machine.command(&words).output().unwrap();
        match output.status.code() {
            None => killed += 1,
            Some(0) => survived += 1,
            Some(_) => panic!("{:?}", CommandResult::from(output)),
        }
        if output.status.success() && !life.contains(&"--") {
            machine.tune(&["reset"]).expect_status(0);
        }
        machine.wait_for_guard();
        assert_eq!(machine.settings(), before, "{life:?}, killed at step {step}");
        assert_eq!(machine.journal(), None, "{life:?}, killed at step {step}");
    }
    assert!(survived > 10, "the last steps were reached, too: {survived}");
}
