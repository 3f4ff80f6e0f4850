//! Changes settings of a machine so that it measures with less noise, and restores them.
//!
//! The only part of this program that writes to the machine. [`plan()`] determines what each knob
//! (`knobs.rs`) would change; [`Plan::apply`] makes the changes, each recorded in the journal
//! (`journal.rs`) first; a guard (`guard.rs`) restores everything if the tuner cannot. All writes
//! go through one function (`machine.rs`).

pub mod guard;
mod journal;
#[cfg(test)]
mod knob_tests;
mod knobs;
mod machine;

pub use journal::{Entry, Journal, Lock, Restoration, Restored};
pub use knobs::{KNOBS, Knob, Request};
pub use machine::Machine;

use crate::check::{State, battery, throttled};
use crate::processors::list_of;
use crate::tree::Tree;
use anyhow::{Result, bail};
use journal::boot_id;
use knobs::{Missing, OWN_GROUP, PARTITION, Value, WITH_TURBO, Wish, has_turbo, online};
use machine::{Change, SERVICE, is_same};
use rustix::process::setpriority_process;
use speedwell_process::{Identity, unix_ms};
use std::time::Duration;

/// State of a knob on this machine: what it would change or has changed, or why it cannot.
#[derive(Debug)]
pub struct KnobState {
    /// The knob.
    pub knob: &'static Knob,
    /// State of the knob.
    pub outcome: Outcome,
    /// Additional information, such as a refusal or a requirement.
    pub note: String,
    /// Its settings on this machine.
    pub settings: Vec<Setting>,
    refusal: String,
}

/// State of a knob or a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// To be changed.
    Planned,
    /// It was changed.
    Set,
    /// Already had the desired value.
    Already,
    /// Changed only on request.
    OnRequest,
    /// Cannot be changed here.
    Cannot,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// File of the setting.
    pub path: String,
    /// Previous value; `None` for a control group that does not exist.
    pub before: Option<String>,
    /// Desired value.
    pub after: String,
    /// State of the setting.
    pub outcome: Outcome,
    value: Value,
}

/// Planned changes of a machine, and the values at planning time.
#[derive(Debug)]
pub struct Plan {
    /// The named knobs, or all, in the order in which they are applied.
    pub knobs: Vec<KnobState>,
}

/// Determines what each knob would change, without changing anything.
///
/// # Errors
/// Fails if a named knob requires an option that is missing.
pub fn plan(machine: &Machine, request: &Request) -> Result<Plan> {
    let is_shown = |knob: &&Knob| request.knobs.is_empty() || request.wants(knob);
    let knobs = KNOBS.iter().filter(is_shown);
    let knobs = knobs.map(|knob| find(machine, request, knob));
    Ok(Plan {
        knobs: knobs.collect::<Result<_>>()?,
    })
}

fn find(machine: &Machine, request: &Request, knob: &'static Knob) -> Result<KnobState> {
    let state = |outcome, note: String| KnobState {
        knob,
        outcome,
        note,
        settings: Vec::new(),
        refusal: String::new(),
    };
    if !request.wants(knob) {
        return Ok(state(Outcome::OnRequest, String::new()));
    }
    let wishes = match (knob.find)(machine, request) {
        Ok(wishes) => wishes,
        Err(Missing::Here(note)) => return Ok(state(Outcome::Cannot, note)),
        Err(Missing::Option(what)) if request.knobs.is_empty() => {
            return Ok(state(Outcome::OnRequest, format!("needs {what}")));
        }
        Err(Missing::Option(what)) => bail!("'{}' needs {what}", knob.name),
    };
    let mut found = KnobState {
        settings: wishes
            .into_iter()
            .map(|wish| setting(machine, wish))
            .collect(),
        ..state(Outcome::Planned, String::new())
    };
    for index in 0..found.settings.len() {
        let setting = &found.settings[index];
        let exists = setting.before.is_some();
        let closed = machine.is_closed(&setting.path);
        if let Err(error) = closed
            && setting.outcome == Outcome::Planned
            && exists
        {
            found.refuse(index, &machine.words_for(&error));
        }
    }
    found.conclude();
    Ok(found)
}

fn setting(machine: &Machine, Wish { path, value }: Wish) -> Setting {
    let before = machine.held(&path);
    let after = value.now(machine);
    let is_as_wished = match (&before, &value) {
        (Some(_), Value::Group) => true,
        (Some(before), _) => is_same(&path, before, &after),
        (None, _) => false,
    };
    let outcome = if is_as_wished {
        Outcome::Already
    } else {
        Outcome::Planned
    };
    Setting {
        path,
        before,
        after,
        outcome,
        value,
    }
}

impl Value {
    /// Returns the value to write now.
    fn now(&self, machine: &Machine) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::SameAs(other) => machine.held(other).unwrap_or_default(),
            Value::Group => "a group of its own".to_owned(),
        }
    }
}

impl KnobState {
    fn refuse(&mut self, index: usize, why: &str) {
        self.settings[index].outcome = Outcome::Cannot;
        if self.refusal.is_empty() {
            self.refusal = why.to_owned();
        }
    }

    /// Derives the state of the knob from its settings.
    fn conclude(&mut self) {
        let count = |outcome| {
            self.settings
                .iter()
                .filter(|one| one.outcome == outcome)
                .count()
        };
        let (refused, all) = (count(Outcome::Cannot), self.settings.len());
        self.outcome = match self.outcome {
            outcome @ (Outcome::OnRequest | Outcome::Cannot) => outcome,
            _ if count(Outcome::Planned) > 0 => Outcome::Planned,
            _ if count(Outcome::Set) > 0 => Outcome::Set,
            _ if all > 0 && refused == all => Outcome::Cannot,
            outcome if all == 0 => outcome,
            _ => Outcome::Already,
        };
        if refused == all && all > 0 {
            self.note = self.refusal.clone();
        } else if refused > 0 {
            self.note = format!("{refused} of {all}: {}", self.refusal);
        }
    }
}

impl Plan {
    /// Whether there are settings to change.
    pub fn has_work(&self) -> bool {
        self.settings(&[Outcome::Planned])
    }

    /// Whether some setting has, or will have, its desired value.
    pub fn has_effect(&self) -> bool {
        self.settings(&[Outcome::Planned, Outcome::Set, Outcome::Already])
    }

    fn settings(&self, stand: &[Outcome]) -> bool {
        let mut settings = self.knobs.iter().flat_map(|knob| &knob.settings);
        settings.any(|setting| stand.contains(&setting.outcome))
    }

    /// Changes the settings. `stays` makes them outlive this process; `limit` is the time limit of
    /// the guard.
    ///
    /// # Errors
    /// Fails if the journal cannot be written; the guard then restores earlier changes.
    pub fn apply(
        &mut self,
        lock: &Lock<'_>,
        guard: Identity,
        command: &str,
        stays: bool,
        limit: Option<Duration>,
    ) -> Result<()> {
        let until = limit.map(|limit| unix_ms().saturating_add(limit.as_millis() as i64));
        let mut journal = Journal {
            boot_id: boot_id(&lock.machine.tree),
            tuner: Identity::own(),
            guard,
            command: command.to_owned(),
            until_unix_ms: until,
            stays: false,
            knobs: Vec::new(),
            entries: Vec::new(),
        };
        for knob in &mut self.knobs {
            knob.turn(lock, &mut journal)?;
            if matches!(knob.outcome, Outcome::Set | Outcome::Already) {
                journal.knobs.push(knob.knob.name.to_owned());
            }
        }
        journal.stays = stays;
        lock.save(&journal)
    }

    /// Moves this process to its own processors, if it got any; its child processes inherit them.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn enter_own_cpus(&self, machine: &Machine) -> Result<()> {
        let is_own =
            |setting: &Setting| setting.value == Value::Group && setting.outcome != Outcome::Cannot;
        if self
            .knobs
            .iter()
            .flat_map(|knob| &knob.settings)
            .any(is_own)
        {
            machine.write(&format!("{OWN_GROUP}/cgroup.procs"), Change::Value("0"))?;
        }
        Ok(())
    }
}

impl KnobState {
    fn turn(&mut self, lock: &Lock<'_>, journal: &mut Journal) -> Result<()> {
        let machine = lock.machine;
        if self.knob.name == "minimum-frequency"
            && self.outcome == Outcome::Planned
            && has_turbo(machine)
        {
            self.outcome = Outcome::Cannot;
            self.note = WITH_TURBO.to_owned();
            return Ok(());
        }
        for index in 0..self.settings.len() {
            if self.settings[index].outcome != Outcome::Planned {
                continue;
            }
            let setting = &mut self.settings[index];
            setting.after = setting.value.now(machine);
            let mut changed = change(lock, journal, setting)?;
            if changed.is_err() && setting.path.ends_with(PARTITION) {
                // Fallback: exclusive processors, which the scheduler still balances.
                setting.after = "root".to_owned();
                changed = change(lock, journal, setting)?.or(changed);
            }
            match changed {
                Ok(()) => setting.outcome = Outcome::Set,
                Err(why) => self.refuse(index, &why),
            }
        }
        self.conclude();
        if self.settings.is_empty() && self.outcome == Outcome::Planned {
            self.give_priority();
        }
        Ok(())
    }

    /// Raises the priority of this process, which the command inherits.
    fn give_priority(&mut self) {
        match setpriority_process(None, PRIORITY) {
            Ok(()) => self.outcome = Outcome::Set,
            Err(_) => {
                self.outcome = Outcome::Cannot;
                self.note = "the kernel does not allow it".to_owned();
            }
        }
    }
}

/// Above ordinary processes, below what the kernel needs (setpriority(2)).
const PRIORITY: i32 = -10;

/// Changes a setting: records it in the journal, writes it, and records the outcome. The inner
/// error explains a refusal, after which the setting is unchanged.
fn change(
    lock: &Lock<'_>,
    journal: &mut Journal,
    setting: &mut Setting,
) -> Result<Result<(), String>> {
    let machine = lock.machine;
    let is_group = setting.value == Value::Group;
    journal.entries.push(Entry {
        path: setting.path.clone(),
        old: setting.before.clone(),
        new: setting.after.clone(),
        done: false,
    });
    lock.save(journal)?;
    let change = if is_group {
        Change::Make
    } else {
        Change::Value(&setting.after)
    };
    let refusal = match machine.write(&setting.path, change) {
        Err(error) => Some(machine.words_for(&error)),
        Ok(()) => differs(machine, setting),
    };
    if let Some(why) = refusal {
        if let Some(before) = &setting.before
            && machine.held(&setting.path).as_ref() != Some(before)
        {
            // The kernel set another value than desired. If that cannot be undone either, a journal
            // entry would not help.
            let _ = machine.write(&setting.path, Change::Value(before));
        }
        journal.entries.pop();
        lock.save(journal)?;
        return Ok(Err(why));
    }
    if let Some(entry) = journal.entries.last_mut() {
        entry.new = setting.after.clone();
        entry.done = true;
    }
    lock.save(journal)?;
    Ok(Ok(()))
}

/// Reads a setting back and explains a mismatch. A number may have been rounded to what the
/// hardware supports; anything else must match what was written.
fn differs(machine: &Machine, setting: &mut Setting) -> Option<String> {
    if setting.value == Value::Group {
        return None;
    }
    let held = machine.held(&setting.path)?;
    if is_same(&setting.path, &held, &setting.after) {
        return None;
    }
    let are_numbers = [&held, &setting.after]
        .iter()
        .all(|value| value.parse::<u64>().is_ok());
    if are_numbers && setting.before.as_ref() != Some(&held) {
        setting.after = held;
        return None;
    }
    Some(format!("it holds '{held}' instead of '{}'", setting.after))
}

/// Returns the current changes of a machine and who made them; `None` if there are none.
///
/// # Errors
/// Fails if the journal cannot be parsed.
pub fn status(machine: &Machine) -> Result<Option<Journal>> {
    Journal::read(&machine.tree)
}

/// Returns the names of the knobs set on a machine, comma-separated; `None` if nothing is changed.
pub(super) fn knobs_set(tree: &Tree) -> Option<String> {
    let journal = Journal::read(tree).ok()??;
    Some(journal.knobs.join(", "))
}

/// Checks that these processors can be reserved: they are online, and others remain.
///
/// # Errors
/// Fails otherwise.
pub fn check_cpus(machine: &Machine, cpus: &[u32]) -> Result<()> {
    let online = online(machine);
    let list = list_of(&online);
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        bail!("processor {cpu} of --cpus is not online\nhint: online are {list}");
    }
    if online.iter().all(|cpu| cpus.contains(cpu)) {
        bail!(
            "--cpus names all processors, and none is left for everything else\nhint: online are {list}"
        );
    }
    Ok(())
}

/// Warnings about what counteracts the settings of a plan.
pub fn warnings(machine: &Machine, plan: &Plan) -> Vec<String> {
    let tree = &machine.tree;
    let moves_interrupts = |knob: &KnobState| {
        let fits = matches!(knob.outcome, Outcome::Planned | Outcome::Set);
        let stops = knob
            .settings
            .iter()
            .any(|setting| setting.path.starts_with(SERVICE));
        knob.knob.name == "irq" && fits && !stops
    };
    let is_running = |name: &str| {
        let processes = tree.names("/proc");
        let mut numbers = processes
            .iter()
            .filter(|process| process.parse::<u32>().is_ok());
        numbers.any(|process| tree.text(format!("/proc/{process}/comm")).as_deref() == Some(name))
    };
    let mut warnings = Vec::new();
    if plan.knobs.iter().any(moves_interrupts) && is_running("irqbalance") {
        warnings.push(
            "'irqbalance' is running and moves interrupts back: --services stops it meanwhile."
                .to_owned(),
        );
    }
    if battery(tree).is_some_and(|battery| battery.state == State::Bad) {
        warnings.push(
            "The machine runs on battery: its firmware lowers frequencies as it sees fit."
                .to_owned(),
        );
    }
    warnings
}

/// Thermal throttling, a threat to results that cannot be tuned.
#[derive(Debug, Clone, Copy)]
pub struct Heat(Option<u64>);

impl Heat {
    /// Reads the current throttling count.
    pub fn now(machine: &Machine) -> Heat {
        Heat(throttled(&machine.tree))
    }

    /// Returns a warning if throttling has occurred since.
    pub fn compare(self, machine: &Machine) -> Option<String> {
        let more = throttled(&machine.tree)?.checked_sub(self.0?)?;
        (more > 0).then(|| {
            format!("A core slowed itself down {more} times meanwhile because it was too hot: expect noisy figures.")
        })
    }
}
