//! Tests every knob on different machines: the setting is missing, already as desired, different,
//! refused in several ways, changed by another process, or belongs to an offline processor.

use super::*;
use crate::environment::file_tree::fake;
use std::fs;

/// A machine on which every knob can be applied.
const MACHINE: &[(&str, &str)] = &[
    ("/sys/devices/system/cpu/online", "0-3"),
    ("/sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0 1"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "800000"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "3200000"),
    ("/sys/devices/system/cpu/cpufreq/policy2/affected_cpus", "2 3"),
    ("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "schedutil"),
    ("/sys/devices/system/cpu/cpufreq/policy2/scaling_min_freq", "900000"),
    ("/sys/devices/system/cpu/cpufreq/policy2/scaling_max_freq", "2400000"),
    ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
    ("/sys/devices/system/cpu/smt/control", "on"),
    ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2"),
    ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
    ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2"),
    ("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3"),
    ("/sys/devices/system/cpu/cpu1/online", "1"),
    ("/proc/sys/kernel/random/boot_id", "first"),
    ("/proc/sys/kernel/randomize_va_space", "0"),
    ("/proc/irq/default_smp_affinity", "f"),
    ("/proc/irq/24/smp_affinity_list", "0-3"),
    ("/proc/irq/25/smp_affinity_list", "0-2"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
    ("/proc/sys/vm/swappiness", "60"),
    ("/proc/sys/kernel/numa_balancing", "1"),
    ("/proc/sys/kernel/timer_migration", "1"),
    ("/proc/sys/kernel/nmi_watchdog", "1"),
    ("/proc/sys/kernel/watchdog", "1"),
    ("/proc/sys/kernel/perf_event_max_sample_rate", "100000"),
];

/// Additional files for version 2 control groups.
const GROUPS: &[(&str, &str)] = &[
    ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
    ("/sys/fs/cgroup/cgroup.subtree_control", "cpu"),
    ("/sys/fs/cgroup/cgroup.procs", "1"),
];

const GROUP_ANSWERS: &str = "\
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cpuset.cpus 0
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cpuset.cpus.partition member
/sys/fs/cgroup/speedwell also /sys/fs/cgroup/speedwell/cgroup.procs 7";

fn request(knob: &str) -> TuneRequest {
    // The minimum frequency is raised only with turbo off.
    let turbo = (knob == "minimum-frequency").then(|| "turbo".to_owned());
    TuneRequest {
        knobs: turbo.into_iter().chain([knob.to_owned()]).collect(),
        cpus: Some(vec![2, 3]),
        has_command: true,
        stops_services: false,
    }
}

fn machine(folder: &fake::FakeMachine) -> TunableMachine {
    TunableMachine::open(folder.0.path(), None).unwrap()
}

fn state<'a>(plan: &'a TunePlan, knob: &str) -> &'a KnobState {
    plan.knobs.iter().find(|one| one.knob.name == knob).unwrap()
}

/// Settings of a knob on [`MACHINE`], with current and desired values.
fn settings(knob: &str) -> Vec<KnobSetting> {
    let folder = fake::machine(MACHINE);
    let plan = plan(&machine(&folder), &request(knob)).unwrap();
    state(&plan, knob).settings.clone()
}

/// Knobs whose files always exist.
fn knobs_of_files() -> impl Iterator<Item = &'static str> {
    let names = KNOBS.iter().map(|knob| knob.name);
    names.filter(|name| !["priority", "own-cpus"].contains(name))
}

/// [`MACHINE`] with the files of a knob changed by `change`, which returns `None` to remove a file.
fn changed_machine(
    knob: &str,
    change: impl Fn(&KnobSetting) -> Option<String>,
) -> fake::FakeMachine {
    let folder = fake::machine(MACHINE);
    for setting in settings(knob) {
        let path = folder.resolve(&setting.path);
        match change(&setting) {
            Some(value) => fs::write(path, value).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    folder
}

/// [`MACHINE`] with a kernel that gives the same response to every write of a knob.
fn answering(knob: &str, says: &str) -> fake::FakeMachine {
    let folder = fake::machine(MACHINE);
    let answers = settings(knob).into_iter().map(|one| format!("{} {says}\n", one.path));
    fs::write(folder.resolve("/answers"), answers.collect::<String>()).unwrap();
    folder
}

/// All files of a machine except the journal.
fn files(folder: &fake::FakeMachine) -> Vec<(String, String)> {
    fn below(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, found);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.to_string_lossy().into_owned(), text.trim().to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    for top in ["proc", "sys"] {
        below(&folder.resolve(top), &mut found);
    }
    found.sort();
    found
}

fn nobody() -> ProcessIdentity {
    ProcessIdentity { pid: 0, ..ProcessIdentity::current_process() }
}

fn apply(lock: &TuneLock<'_>, request: &TuneRequest) -> TunePlan {
    let mut plan = plan(lock.machine, request).unwrap();
    plan.apply(lock, nobody(), "speedwell tune", true, None).unwrap();
    plan
}

fn turn(folder: &fake::FakeMachine, knob: &str) -> KnobState {
    let machine = machine(folder);
    let plan = apply(&TuneLock::acquire(&machine).unwrap(), &request(knob));
    plan.knobs.into_iter().find(|one| one.knob.name == knob).unwrap()
}

/// Restores everything and returns the failures.
fn reset(folder: &fake::FakeMachine) -> Vec<RestoredSetting> {
    let machine = machine(folder);
    let lock = TuneLock::acquire(&machine).unwrap();
    let all = lock.current_journal().unwrap().unwrap().restore_all(&lock, true).unwrap();
    assert!(lock.current_journal().unwrap().is_none(), "the journal is gone");
    all.into_iter().filter(|one| one.outcome != RestoreOutcome::Done).collect()
}

#[test]
fn a_setting_with_another_value_is_changed_and_put_back() {
    for knob in knobs_of_files() {
        let folder = fake::machine(MACHINE);
        let before = files(&folder);
        let state = turn(&folder, knob);
        assert_eq!((state.outcome, state.note.as_str()), (KnobOutcome::Set, ""), "{knob}");
        let held = machine(&folder);
        for setting in &state.settings {
            assert_eq!(
                held.current_value(&setting.path).as_deref(),
                Some(&*setting.after),
                "{knob}"
            );
            assert_ne!(setting.before.as_deref(), Some(&*setting.after), "{knob}");
        }
        assert_eq!(reset(&folder), [], "{knob}");
        assert_eq!(files(&folder), before, "{knob}");
    }
}

#[test]
fn a_setting_that_already_has_its_desired_value_is_not_touched() {
    for knob in knobs_of_files() {
        let folder = changed_machine(knob, |setting| Some(setting.after.clone()));
        let state = turn(&folder, knob);
        match (knob, state.outcome) {
            // There is nothing left to switch off.
            ("smt", outcome) => assert_ne!(outcome, KnobOutcome::Set),
            (_, outcome) => assert_eq!(outcome, KnobOutcome::Already, "{knob}"),
        }
        let journal = current_changes(&machine(&folder)).unwrap().unwrap();
        let touched =
            |entry: &&JournalEntry| state.settings.iter().any(|one| one.path == entry.path);
        assert_eq!(journal.entries.iter().find(touched), None, "{knob}");
    }
}

#[test]
fn an_absent_setting_is_reported_as_missing_or_left_to_the_host() {
    for knob in knobs_of_files() {
        let folder = match knob {
            "smt" => changed_machine("turbo", |setting| Some(setting.before.clone().unwrap())),
            _ => changed_machine(knob, |_| None),
        };
        if knob == "smt" {
            fs::remove_file(folder.resolve("/sys/devices/system/cpu/smt/control")).unwrap();
        }
        let request = request(knob);
        let note = |folder: &fake::FakeMachine| {
            let plan = plan(&machine(folder), &request).unwrap();
            let state = state(&plan, knob);
            assert_eq!(state.outcome, KnobOutcome::Cannot, "{knob}");
            state.note.clone()
        };
        assert_eq!(note(&folder), "not on this machine", "{knob}");
        fs::create_dir_all(folder.resolve("/sys/hypervisor")).unwrap();
        fs::write(folder.resolve("/sys/hypervisor/type"), "xen").unwrap();
        assert_eq!(note(&folder), "controlled by the host (hypervisor xen)", "{knob}");
    }
}

#[test]
fn settings_that_may_not_be_written_are_detected_without_writing() {
    for (says, words) in [("EACCES", "the kernel does not allow it"), ("EROFS", "read-only here")] {
        for knob in knobs_of_files() {
            let folder = answering(knob, says);
            let before = files(&folder);
            let request = request(knob);
            let planned_state = |folder: &fake::FakeMachine| {
                let plan = plan(&machine(folder), &request).unwrap();
                let state = state(&plan, knob);
                (state.outcome, state.note.clone())
            };
            assert_eq!(planned_state(&folder), (KnobOutcome::Cannot, words.to_owned()), "{knob}");
            fs::write(folder.resolve("/.dockerenv"), "").unwrap();
            let note = "read-only in this container: change it on the host".to_owned();
            assert_eq!(planned_state(&folder), (KnobOutcome::Cannot, note), "{knob}");
            turn(&folder, knob);
            reset(&folder);
            assert_eq!(files(&folder), before, "{knob}");
        }
    }
}

#[test]
fn settings_refused_by_the_device_are_reported_and_not_recorded() {
    for (says, words) in
        [("EIO", "the device does not support it"), ("EBUSY", "in use by something else")]
    {
        for knob in knobs_of_files() {
            let folder = answering(knob, says);
            let before = files(&folder);
            let state = turn(&folder, knob);
            assert_eq!((state.outcome, &*state.note), (KnobOutcome::Cannot, words), "{knob}");
            let journal = current_changes(&machine(&folder)).unwrap().unwrap();
            let refused =
                |entry: &JournalEntry| state.settings.iter().any(|one| one.path == entry.path);
            assert!(!journal.entries.iter().any(refused), "{knob}");
            reset(&folder);
            assert_eq!(files(&folder), before, "{knob}");
        }
    }
}

#[test]
fn one_interrupt_that_cannot_be_moved_does_not_hinder_the_others() {
    let folder = fake::machine(MACHINE);
    fs::write(folder.resolve("/answers"), "/proc/irq/24/smp_affinity_list EIO\n").unwrap();
    let state = turn(&folder, "irq");
    assert_eq!(state.outcome, KnobOutcome::Set);
    assert_eq!(state.note, "1 of 3 settings: the device does not support it");
    let value_of = |path| machine(&folder).current_value(path).unwrap();
    assert_eq!(value_of("/proc/irq/24/smp_affinity_list"), "0-3");
    assert_eq!(value_of("/proc/irq/25/smp_affinity_list"), "0-1");
    assert_eq!(value_of("/proc/irq/default_smp_affinity"), "3");
}

#[test]
fn settings_changed_by_others_are_left_alone() {
    for knob in knobs_of_files() {
        let folder = fake::machine(MACHINE);
        let state = turn(&folder, knob);
        let theirs = |path: &str| if path.contains("/irq/") { "2" } else { "77" };
        for setting in &state.settings {
            fs::write(folder.resolve(&setting.path), theirs(&setting.path)).unwrap();
        }
        let changed_settings = reset(&folder);
        assert_eq!(changed_settings.len(), state.settings.len(), "{knob}");
        for one in changed_settings {
            let value = theirs(&one.path).to_owned();
            assert_eq!(machine(&folder).current_value(&one.path).as_ref(), Some(&value));
            assert_eq!(one.outcome, RestoreOutcome::LeftAlone(value), "{knob}");
        }
    }
}

#[test]
fn settings_put_back_by_hand_are_not_reported() {
    for knob in knobs_of_files() {
        let folder = fake::machine(MACHINE);
        for setting in turn(&folder, knob).settings {
            fs::write(folder.resolve(&setting.path), setting.before.unwrap()).unwrap();
        }
        assert_eq!(reset(&folder), [], "{knob}");
    }
}

#[test]
fn settings_of_offline_or_removed_processors_are_skipped() {
    for knob in ["governor", "minimum-frequency"] {
        let folder = fake::machine(MACHINE);
        fs::write(folder.resolve("/sys/devices/system/cpu/online"), "0-1").unwrap();
        let state = turn(&folder, knob);
        let paths: Vec<&str> = state.settings.iter().map(|one| one.path.as_str()).collect();
        assert!(matches!(paths[..], [one] if one.contains("policy0")), "{paths:?}");
        fs::remove_dir_all(folder.resolve("/sys/devices/system/cpu/cpufreq/policy0")).unwrap();
        let results = reset(&folder);
        assert!(
            matches!(&results[..], [one] if one.outcome == RestoreOutcome::Gone),
            "{results:?}"
        );
    }
    let folder = fake::machine(MACHINE);
    fs::write(folder.resolve("/sys/devices/system/cpu/online"), "0,2-3").unwrap();
    assert_eq!(turn(&folder, "irq").settings[0].after, "1", "interrupts go to those online");
    let plan = plan(&machine(&folder), &request("smt")).unwrap();
    assert_eq!(state(&plan, "smt").outcome, KnobOutcome::Cannot, "its sibling is gone already");
}

#[test]
fn the_minimum_frequency_is_not_raised_while_turbo_is_on() {
    let folder = answering("turbo", "EIO");
    let state = turn(&folder, "minimum-frequency");
    assert_eq!((state.outcome, &*state.note), (KnobOutcome::Cannot, "only with turbo off"));
    let alone = TuneRequest { knobs: vec!["minimum-frequency".into()], ..TuneRequest::default() };
    let found = plan(&machine(&fake::machine(MACHINE)), &alone).unwrap();
    let found = found.knobs.iter().find(|one| one.knob.name == "minimum-frequency");
    assert_eq!(found.unwrap().note, "only with turbo off");
}

#[test]
fn the_minimum_frequency_uses_the_maximum_after_turbo_is_off() {
    let folder = fake::machine(MACHINE);
    let highest = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
    let answer = format!("/sys/devices/system/cpu/intel_pstate/no_turbo also {highest} 2000000\n");
    fs::write(folder.resolve("/answers"), answer).unwrap();
    let state = turn(&folder, "minimum-frequency");
    assert_eq!(state.settings[0].after, "2000000");
}

#[test]
fn turbo_is_restored_even_if_the_restored_governor_changes_it() {
    let folder = fake::machine(MACHINE);
    let before = files(&folder);
    let turbo = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let governor = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    fs::write(folder.resolve("/answers"), format!("{governor} also {turbo} 1\n")).unwrap();
    let machine = machine(&folder);
    let request =
        TuneRequest { knobs: vec!["governor".into(), "turbo".into()], ..TuneRequest::default() };
    apply(&TuneLock::acquire(&machine).unwrap(), &request);
    reset(&folder);
    assert_eq!(files(&folder), before);
}

#[test]
fn smt_is_switched_off_only_if_at_least_two_processors_remain() {
    let smt = |files: &[(&str, &str)], cpus: Option<Vec<u32>>| {
        let folder = fake::machine(MACHINE);
        for (path, text) in files {
            fs::write(folder.resolve(path), text).unwrap();
        }
        let request = TuneRequest { cpus, ..request("smt") };
        let plan = plan(&machine(&folder), &request).unwrap();
        let state = state(&plan, "smt");
        let files = state.settings.iter().map(|one| format!("{} {}", one.path, one.after));
        (files.collect::<Vec<_>>().join(", "), state.note.clone())
    };
    let control = "/sys/devices/system/cpu/smt/control off".to_owned();
    assert_eq!(smt(&[], None), (control, String::new()));
    let sibling = "/sys/devices/system/cpu/cpu1/online 0".to_owned();
    assert_eq!(smt(&[], Some(vec![2, 3])), (sibling, String::new()), "never processor 0");
    let two_online = [("/sys/devices/system/cpu/online", "0,2")];
    assert_eq!(smt(&two_online, None).1, "fewer than two processors would be left");
    let unsupported = [("/sys/devices/system/cpu/smt/control", "notsupported")];
    assert_eq!(smt(&unsupported, None).1, "not on this machine");
}

#[test]
fn own_cpus_sets_up_a_control_group_that_reset_removes() {
    let folder = fake::machine(&[MACHINE, GROUPS, &[("/answers", GROUP_ANSWERS)]].concat());
    let machine = machine(&folder);
    let plan = apply(&TuneLock::acquire(&machine).unwrap(), &request("own-cpus"));
    let state = state(&plan, "own-cpus");
    assert_eq!((state.outcome, state.note.as_str()), (KnobOutcome::Set, ""));
    let group_value = |name: &str| machine.current_value(&format!("{TUNE_CGROUP}/{name}"));
    assert_eq!(group_value("cpuset.cpus").as_deref(), Some("2-3"));
    assert_eq!(group_value("cpuset.cpus.partition").as_deref(), Some("isolated"));
    plan.enter_own_cpus(&machine).unwrap();
    assert_eq!(group_value("cgroup.procs").as_deref(), Some("0"), "the writer itself");
    // A process that remains in the group moves back to the root group.
    fs::write(folder.resolve(format!("{TUNE_CGROUP}/cgroup.procs")), "7\n").unwrap();
    assert_eq!(reset(&folder), []);
    assert_eq!(group_value("cpuset.cpus"), None);
    assert_eq!(machine.current_value("/sys/fs/cgroup/cgroup.procs").as_deref(), Some("7"));
    assert_eq!(
        machine.current_value("/sys/fs/cgroup/cgroup.subtree_control").as_deref(),
        Some("-cpuset")
    );
}

/// A machine whose kernel responds to partitions in this way.
fn with_partition(answers: &str) -> fake::FakeMachine {
    let answers = format!("{GROUP_ANSWERS}\n{answers}");
    fake::machine(&[MACHINE, GROUPS, &[("/answers", &answers)]].concat())
}

#[test]
fn a_partition_that_the_kernel_calls_invalid_is_a_failure() {
    let partition = format!("{TUNE_CGROUP}/{PARTITION_FILE}");
    let value = "isolated invalid (Cpu list in cpuset.cpus not exclusive)";
    let folder = with_partition(&format!("{partition} holds {value}"));
    let state = turn(&folder, "own-cpus");
    assert_eq!(
        state.note,
        format!("1 of 4 settings: its value is '{value}' instead of 'isolated'")
    );
    assert_eq!(reset(&folder), []);
}

#[test]
fn processors_that_cannot_be_isolated_still_get_a_root_partition() {
    let folder = with_partition(&format!("{TUNE_CGROUP}/{PARTITION_FILE} refuses isolated"));
    let state = turn(&folder, "own-cpus");
    assert_eq!((state.outcome, state.note.as_str()), (KnobOutcome::Set, ""));
    let partition = machine(&folder).current_value(&format!("{TUNE_CGROUP}/{PARTITION_FILE}"));
    assert_eq!(partition.as_deref(), Some("root"));
    assert_eq!(reset(&folder), []);
}

#[test]
fn memory_comes_from_the_numa_node_of_the_processors() {
    let nodes = [
        ("/sys/devices/system/node/online", "0-1"),
        ("/sys/devices/system/cpu/cpu2/node1/cpulist", "2-3"),
        ("/sys/devices/system/cpu/cpu3/node1/cpulist", "2-3"),
    ];
    let folder = fake::machine(&[MACHINE, GROUPS, &nodes].concat());
    let plan = plan(&machine(&folder), &request("own-cpus")).unwrap();
    let settings = &state(&plan, "own-cpus").settings;
    let memory = settings.iter().find(|one| one.path.ends_with("cpuset.mems"));
    assert_eq!(memory.unwrap().after, "1");
}

#[test]
fn running_daemons_and_battery_power_cause_plan_warnings() {
    let warnings_of = |files: &[(&str, &str)], knob: &str| {
        let folder = fake::machine(&[MACHINE, files].concat());
        let machine = machine(&folder);
        plan_warnings(&machine, &plan(&machine, &request(knob)).unwrap())
    };
    let daemon = [("/proc/77/comm", "irqbalance")];
    assert!(warnings_of(&daemon, "irq")[0].contains("'irqbalance' is running"));
    assert!(warnings_of(&daemon, "swap").is_empty());
    let folder = fake::machine(&[MACHINE, &daemon, &[("/service:irqbalance", "active")]].concat());
    let machine = machine(&folder);
    let stops = TuneRequest { stops_services: true, ..request("irq") };
    let lock = TuneLock::acquire(&machine).unwrap();
    let plan_with = apply(&lock, &stops);
    assert!(plan_warnings(&machine, &plan_with).is_empty());
    assert_eq!(machine.current_value("service:irqbalance").as_deref(), Some("inactive"));
    drop(lock);
    assert_eq!(reset(&folder), []);
    assert_eq!(machine.current_value("service:irqbalance").as_deref(), Some("active"));
    let battery = [
        ("/sys/class/power_supply/BAT0/type", "Battery"),
        ("/sys/class/power_supply/BAT0/status", "Discharging"),
    ];
    assert!(warnings_of(&battery, "swap")[0].contains("on battery"));
}

#[test]
fn no_process_is_moved_unless_own_cpus_was_requested() {
    let empty_group = [("/sys/fs/cgroup/speedwell/cgroup.procs", "")];
    let folder = fake::machine(&[MACHINE, GROUPS, &empty_group].concat());
    let machine = machine(&folder);
    let plan = apply(&TuneLock::acquire(&machine).unwrap(), &request("swap"));
    plan.enter_own_cpus(&machine).unwrap();
    let processes = machine.current_value("/sys/fs/cgroup/speedwell/cgroup.procs");
    assert_eq!(processes.as_deref(), Some(""));
}

#[test]
fn own_cpus_is_unavailable_with_control_groups_v1() {
    let folder = fake::machine(MACHINE);
    let plan = plan(&machine(&folder), &request("own-cpus")).unwrap();
    let state = state(&plan, "own-cpus");
    assert_eq!(state.outcome, KnobOutcome::Cannot);
    assert!(state.note.contains("--pin"), "{}", state.note);
}

#[test]
fn a_journal_from_before_a_reboot_is_removed() {
    let folder = fake::machine(MACHINE);
    turn(&folder, "swap");
    let machine = machine(&folder);
    assert_eq!(list_changed_knobs(&machine.tree).as_deref(), Some("swap"));
    fs::write(folder.resolve("/proc/sys/kernel/random/boot_id"), "second").unwrap();
    assert_eq!(list_changed_knobs(&machine.tree), None, "sessions do not note it");
    let lock = TuneLock::acquire(&machine).unwrap();
    assert!(lock.current_journal().unwrap().is_none());
    assert!(!folder.resolve("/run/speedwell/tune.json").exists());
}

#[test]
fn an_interrupted_write_is_restored_whatever_the_current_value() {
    let folder = fake::machine(MACHINE);
    turn(&folder, "swap");
    let file = folder.resolve("/run/speedwell/tune.json");
    let text = fs::read_to_string(&file).unwrap().replace("\"done\": true", "\"done\": false");
    fs::write(&file, text).unwrap();
    fs::write(folder.resolve("/proc/sys/vm/swappiness"), "2").unwrap();
    assert_eq!(reset(&folder), []);
    assert_eq!(machine(&folder).current_value("/proc/sys/vm/swappiness").as_deref(), Some("60"));
}

#[test]
fn settings_that_cannot_be_restored_stay_in_the_journal() {
    let folder = fake::machine(MACHINE);
    turn(&folder, "timers");
    fs::write(folder.resolve("/answers"), "/proc/sys/kernel/timer_migration EIO\n").unwrap();
    let machine = machine(&folder);
    let lock = TuneLock::acquire(&machine).unwrap();
    let restored = lock.current_journal().unwrap().unwrap().restore_all(&lock, false).unwrap();
    let refused = RestoreOutcome::Refused("the device does not support it".into());
    assert_eq!(restored[0].outcome, refused);
    assert_eq!(lock.current_journal().unwrap().unwrap().entries.len(), 1);
}

#[test]
fn a_missing_required_option_is_an_error_only_for_requested_knobs() {
    let folder = fake::machine(MACHINE);
    let bare = |knobs: &[&str]| TuneRequest {
        knobs: knobs.iter().map(|name| (*name).to_owned()).collect(),
        ..TuneRequest::default()
    };
    let error = plan(&machine(&folder), &bare(&["irq"])).unwrap_err();
    assert_eq!(error.to_string(), "'irq' needs --cpus CPUS");
    let plan = plan(&machine(&folder), &bare(&[])).unwrap();
    let found = |name| (state(&plan, name).outcome, state(&plan, name).note.clone());
    assert_eq!(found("irq"), (KnobOutcome::OnRequest, "needs --cpus CPUS".into()));
    assert_eq!(found("smt"), (KnobOutcome::OnRequest, String::new()));
}

#[test]
fn a_journal_folder_writable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = fake::machine(MACHINE);
    turn(&folder, "swap");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.resolve("/run/speedwell"), open).unwrap();
    let machine = machine(&folder);
    let error = TuneLock::acquire(&machine).unwrap_err().to_string();
    assert!(error.contains("is writable by other users"), "{error}");
}
