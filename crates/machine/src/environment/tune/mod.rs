//! Changes settings of a machine to reduce the noise of measurements, and restores the settings.
//!
//! This is the only part of the program that changes the machine's settings. [`plan()`] determines
//! what each knob (`knobs.rs`) would change. [`TunePlan::apply`] makes the changes, and records
//! each one in the journal (`journal.rs`) before making it. A guard (also there) restores
//! everything if the tuner cannot. All writes go through one function (`machine.rs`).

mod journal;
#[cfg(test)]
mod knob_tests;
mod knobs;
mod machine;

pub use journal::{
    GUARD_COMMAND, JournalEntry, RestoreOutcome, RestoredSetting, TuneJournal, TuneLock, run_guard,
    start_guard,
};
pub use knobs::{KNOBS, TuneKnob, TuneRequest};
pub use machine::TunableMachine;

use crate::environment::check::{CheckState, check_battery, throttle_count};
use crate::environment::file_tree::FileTree;
use crate::environment::system::format_cpu_list;
use crate::process::{ProcessIdentity, unix_time_ms};
use anyhow::{Result, bail};
use journal::boot_id;
use knobs::{
    DesiredSetting, DesiredValue, MissingReason, PARTITION_FILE, TUNE_CGROUP, WITH_TURBO,
    has_turbo, online_cpus,
};
use machine::{SERVICE_PREFIX, SettingChange, is_same};
use rustix::process::setpriority_process;
use std::time::Duration;

/// State of a knob on this machine: what it would change or has changed, or why it cannot.
#[derive(Debug)]
pub struct KnobState {
    /// The knob.
    pub knob: &'static TuneKnob,
    /// State of the knob.
    pub outcome: KnobOutcome,
    /// Additional information, such as a refusal or a requirement.
    pub note: String,
    /// Settings of the knob on this machine.
    pub settings: Vec<KnobSetting>,
    refusal: String,
}

/// State of a knob or a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnobOutcome {
    /// Will be changed.
    Planned,
    /// Was changed.
    Set,
    /// Already has the desired value.
    Already,
    /// Changed only on request.
    OnRequest,
    /// Cannot be changed here.
    Cannot,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnobSetting {
    /// File of the setting, or `service:NAME`.
    pub path: String,
    /// Previous value; `None` for a control group that does not exist yet, and for a file of such a
    /// group.
    pub before: Option<String>,
    /// Desired value.
    pub after: String,
    /// State of the setting.
    pub outcome: KnobOutcome,
    value: DesiredValue,
}

/// Planned changes to the settings of a machine, with their values at the time of planning.
#[derive(Debug)]
pub struct TunePlan {
    /// The knobs named in the request, or else all knobs, in the order in which they are applied.
    pub knobs: Vec<KnobState>,
}

/// Determines what each knob would change, without changing anything.
///
/// # Errors
/// Fails if a named knob requires an option that is missing.
pub fn plan(machine: &TunableMachine, request: &TuneRequest) -> Result<TunePlan> {
    let knobs = KNOBS
        .iter()
        .filter(|knob| request.mentions_knob(knob.name))
        .map(|knob| find_knob(machine, request, knob))
        .collect::<Result<_>>()?;
    Ok(TunePlan { knobs })
}

fn find_knob(
    machine: &TunableMachine,
    request: &TuneRequest,
    knob: &'static TuneKnob,
) -> Result<KnobState> {
    let state = |outcome, note: String| KnobState {
        knob,
        outcome,
        note,
        settings: Vec::new(),
        refusal: String::new(),
    };
    if !request.includes_knob(knob) {
        return Ok(state(KnobOutcome::OnRequest, String::new()));
    }
    let desired = match (knob.find)(machine, request) {
        Ok(desired) => desired,
        Err(MissingReason::Here(note)) => return Ok(state(KnobOutcome::Cannot, note)),
        Err(MissingReason::Option(option)) if request.knobs.is_empty() => {
            return Ok(state(KnobOutcome::OnRequest, format!("needs {option}")));
        }
        Err(MissingReason::Option(option)) => bail!("'{}' needs {option}", knob.name),
    };
    let mut knob_state = state(KnobOutcome::Planned, String::new());
    for setting in desired.into_iter().map(|setting| desired_setting(machine, setting)) {
        let is_change = setting.outcome == KnobOutcome::Planned && setting.before.is_some();
        let writable = machine.check_writable(&setting.path);
        knob_state.settings.push(setting);
        if let Err(error) = writable
            && is_change
        {
            let last = knob_state.settings.len() - 1;
            knob_state.mark_refused(last, &machine.explain_refusal(&error));
        }
    }
    knob_state.update_outcome();
    Ok(knob_state)
}

fn desired_setting(machine: &TunableMachine, (path, value): DesiredSetting) -> KnobSetting {
    let before = machine.current_value(&path);
    let after = value.current_text(machine);
    let is_as_desired = match (&before, &value) {
        (Some(_), DesiredValue::Group) => true,
        (Some(before), _) => is_same(&path, before, &after),
        (None, _) => false,
    };
    let outcome = if is_as_desired { KnobOutcome::Already } else { KnobOutcome::Planned };
    KnobSetting { path, before, after, outcome, value }
}

impl DesiredValue {
    fn current_text(&self, machine: &TunableMachine) -> String {
        match self {
            DesiredValue::Text(text) => text.clone(),
            DesiredValue::SameAs(other) => machine.current_value(other).unwrap_or_default(),
            DesiredValue::Group => "a separate group".to_owned(),
        }
    }
}

impl KnobState {
    fn mark_refused(&mut self, index: usize, reason: &str) {
        self.settings[index].outcome = KnobOutcome::Cannot;
        if self.refusal.is_empty() {
            self.refusal = reason.to_owned();
        }
    }

    /// Derives the state of the knob from its settings.
    fn update_outcome(&mut self) {
        let count =
            |outcome| self.settings.iter().filter(|setting| setting.outcome == outcome).count();
        let (refused, total) = (count(KnobOutcome::Cannot), self.settings.len());
        self.outcome = match self.outcome {
            outcome @ (KnobOutcome::OnRequest | KnobOutcome::Cannot) => outcome,
            _ if count(KnobOutcome::Planned) > 0 => KnobOutcome::Planned,
            _ if count(KnobOutcome::Set) > 0 => KnobOutcome::Set,
            _ if total > 0 && refused == total => KnobOutcome::Cannot,
            outcome if total == 0 => outcome,
            _ => KnobOutcome::Already,
        };
        if refused == total && total > 0 {
            self.note = self.refusal.clone();
        } else if refused > 0 {
            self.note = format!("{refused} of {total} settings: {}", self.refusal);
        }
    }
}

impl TunePlan {
    /// Whether there are settings to change.
    pub fn has_work(&self) -> bool {
        self.has_setting_in(&[KnobOutcome::Planned])
    }

    /// Whether at least one setting has, or will have, its desired value.
    pub fn has_effect(&self) -> bool {
        self.has_setting_in(&[KnobOutcome::Planned, KnobOutcome::Set, KnobOutcome::Already])
    }

    fn has_setting_in(&self, outcomes: &[KnobOutcome]) -> bool {
        let mut settings = self.knobs.iter().flat_map(|knob| &knob.settings);
        settings.any(|setting| outcomes.contains(&setting.outcome))
    }

    /// Changes the settings. With `stays`, the changes outlive this process. In any case, the guard
    /// restores the previous values after `limit`.
    ///
    /// # Errors
    /// Fails if the journal cannot be written; the guard then reverts the changes made so far.
    pub fn apply(
        &mut self,
        lock: &TuneLock<'_>,
        guard: ProcessIdentity,
        command: &str,
        stays: bool,
        limit: Option<Duration>,
    ) -> Result<()> {
        let until = limit.map(|limit| unix_time_ms().saturating_add(limit.as_millis() as i64));
        let mut journal = TuneJournal {
            boot_id: boot_id(&lock.machine.tree),
            tuner: ProcessIdentity::current_process(),
            guard,
            command: command.to_owned(),
            until_unix_ms: until,
            stays: false,
            knobs: Vec::new(),
            entries: Vec::new(),
        };
        for knob in &mut self.knobs {
            knob.apply_knob(lock, &mut journal)?;
            if matches!(knob.outcome, KnobOutcome::Set | KnobOutcome::Already) {
                journal.knobs.push(knob.knob.name.to_owned());
            }
        }
        journal.stays = stays;
        lock.save_journal(&journal)
    }

    /// Moves this process to the reserved processors, if there are any. Its child processes then
    /// also run on these processors.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn enter_own_cpus(&self, machine: &TunableMachine) -> Result<()> {
        let is_own = |setting: &KnobSetting| {
            setting.value == DesiredValue::Group && setting.outcome != KnobOutcome::Cannot
        };
        if self.knobs.iter().flat_map(|knob| &knob.settings).any(is_own) {
            machine
                .write_setting(&format!("{TUNE_CGROUP}/cgroup.procs"), SettingChange::Value("0"))?;
        }
        Ok(())
    }
}

impl KnobState {
    fn apply_knob(&mut self, lock: &TuneLock<'_>, journal: &mut TuneJournal) -> Result<()> {
        let machine = lock.machine;
        if self.knob.name == "minimum-frequency"
            && self.outcome == KnobOutcome::Planned
            && has_turbo(machine)
        {
            self.outcome = KnobOutcome::Cannot;
            self.note = WITH_TURBO.to_owned();
            return Ok(());
        }
        for index in 0..self.settings.len() {
            if self.settings[index].outcome != KnobOutcome::Planned {
                continue;
            }
            let setting = &mut self.settings[index];
            setting.after = setting.value.current_text(machine);
            let mut changed = change_setting(lock, journal, setting)?;
            if changed.is_err() && setting.path.ends_with(PARTITION_FILE) {
                // As a fallback, request exclusive processors with load balancing by the scheduler.
                setting.after = "root".to_owned();
                changed = change_setting(lock, journal, setting)?.or(changed);
            }
            match changed {
                Ok(()) => setting.outcome = KnobOutcome::Set,
                Err(reason) => self.mark_refused(index, &reason),
            }
        }
        self.update_outcome();
        if self.settings.is_empty() && self.outcome == KnobOutcome::Planned {
            self.raise_priority();
        }
        Ok(())
    }

    /// Raises the priority of this process. The command inherits this priority.
    fn raise_priority(&mut self) {
        match setpriority_process(None, COMMAND_PRIORITY) {
            Ok(()) => self.outcome = KnobOutcome::Set,
            Err(_) => {
                self.outcome = KnobOutcome::Cannot;
                self.note = "the kernel does not allow it".to_owned();
            }
        }
    }
}

/// Nice value of the command (setpriority(2)). The command takes precedence over ordinary
/// processes, but not over those of the kernel.
const COMMAND_PRIORITY: i32 = -10;

/// Changes a setting: records it in the journal, writes it, and records the outcome. After a
/// refusal, the setting is unchanged, and the inner error explains the refusal.
fn change_setting(
    lock: &TuneLock<'_>,
    journal: &mut TuneJournal,
    setting: &mut KnobSetting,
) -> Result<Result<(), String>> {
    let machine = lock.machine;
    let is_group = setting.value == DesiredValue::Group;
    journal.entries.push(JournalEntry {
        path: setting.path.clone(),
        old: setting.before.clone(),
        new: setting.after.clone(),
        done: false,
    });
    lock.save_journal(journal)?;
    let change = if is_group { SettingChange::Make } else { SettingChange::Value(&setting.after) };
    let refusal = match machine.write_setting(&setting.path, change) {
        Err(error) => Some(machine.explain_refusal(&error)),
        Ok(()) => read_back_mismatch(machine, setting),
    };
    if let Some(reason) = refusal {
        if let Some(before) = &setting.before
            && machine.current_value(&setting.path).as_ref() != Some(before)
        {
            // The kernel set a value other than the desired one, so restore the previous value. If
            // this fails, a journal entry would not help either.
            let _ = machine.write_setting(&setting.path, SettingChange::Value(before));
        }
        journal.entries.pop();
        lock.save_journal(journal)?;
        return Ok(Err(reason));
    }
    if let Some(entry) = journal.entries.last_mut() {
        entry.new = setting.after.clone();
        entry.done = true;
    }
    lock.save_journal(journal)?;
    Ok(Ok(()))
}

/// Reads a setting back and explains a mismatch. The kernel may have rounded a number to what the
/// hardware supports. Any other value must match what was written.
fn read_back_mismatch(machine: &TunableMachine, setting: &mut KnobSetting) -> Option<String> {
    if setting.value == DesiredValue::Group {
        return None;
    }
    let current = machine.current_value(&setting.path)?;
    if is_same(&setting.path, &current, &setting.after) {
        return None;
    }
    let are_numbers = [&current, &setting.after].iter().all(|value| value.parse::<u64>().is_ok());
    if are_numbers && setting.before.as_ref() != Some(&current) {
        setting.after = current;
        return None;
    }
    Some(format!("its value is '{current}' instead of '{}'", setting.after))
}

/// Returns the changes in effect on a machine, and the process that made them; `None` without
/// changes.
///
/// # Errors
/// Fails if the journal cannot be parsed.
pub fn current_changes(machine: &TunableMachine) -> Result<Option<TuneJournal>> {
    TuneJournal::read(&machine.tree)
}

/// Returns the names of the knobs set on a machine, comma-separated; `None` if nothing is changed.
pub(super) fn list_changed_knobs(tree: &FileTree) -> Option<String> {
    let journal = TuneJournal::read(tree).ok()??;
    Some(journal.knobs.join(", "))
}

/// Checks that these processors can be reserved.
///
/// # Errors
/// Fails if one of the processors is not online, or if no other processor would remain.
pub fn check_cpus(machine: &TunableMachine, cpus: &[u32]) -> Result<()> {
    let online = online_cpus(machine);
    let list = format_cpu_list(&online);
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        bail!("processor {cpu} of --cpus is not online\nhint: the online processors are {list}");
    }
    if online.iter().all(|cpu| cpus.contains(cpu)) {
        bail!(
            "--cpus includes all online processors, so none is left for everything else\nhint: \
             the online processors are {list}"
        );
    }
    Ok(())
}

/// Returns warnings about what counteracts the settings of a plan.
pub fn plan_warnings(machine: &TunableMachine, plan: &TunePlan) -> Vec<String> {
    let tree = &machine.tree;
    let moves_interrupts = |knob: &KnobState| {
        let fits = matches!(knob.outcome, KnobOutcome::Planned | KnobOutcome::Set);
        let stops = knob.settings.iter().any(|setting| setting.path.starts_with(SERVICE_PREFIX));
        knob.knob.name == "irq" && fits && !stops
    };
    let is_running = |name: &str| {
        let processes = tree.list_names("/proc");
        let mut numbers = processes.iter().filter(|process| process.parse::<u32>().is_ok());
        numbers
            .any(|process| tree.read_text(format!("/proc/{process}/comm")).as_deref() == Some(name))
    };
    let mut warnings = Vec::new();
    if plan.knobs.iter().any(moves_interrupts) && is_running("irqbalance") {
        warnings.push(
            "'irqbalance' is running and moves interrupts back: use --services to stop it for the \
             duration."
                .to_owned(),
        );
    }
    if check_battery(tree).is_some_and(|battery| battery.state == CheckState::Bad) {
        warnings.push(
            "The machine runs on battery: its firmware may lower frequencies at any time."
                .to_owned(),
        );
    }
    warnings
}

/// How often a core was throttled because of its temperature. Throttling threatens results, and
/// tuning cannot prevent it.
#[derive(Debug, Clone, Copy)]
pub struct ThrottleCount(Option<u64>);

impl ThrottleCount {
    /// Reads the current throttling count.
    pub fn now(machine: &TunableMachine) -> ThrottleCount {
        ThrottleCount(throttle_count(&machine.tree))
    }

    /// Returns a warning if throttling has occurred since `self` was read.
    pub fn compare(self, machine: &TunableMachine) -> Option<String> {
        let events = throttle_count(&machine.tree)?.checked_sub(self.0?)?;
        (events > 0).then(|| {
            format!(
                "A core was throttled {events} times because of its temperature: expect noisy \
                     results."
            )
        })
    }
}
