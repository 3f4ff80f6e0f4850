//! Changes the settings of a machine so that it measures with less noise, and puts them back.
//!
//! The only part of this program that writes to the machine. [`plan()`] says what each knob (`knobs.rs`) would change;
//! [`Plan::apply`] changes it, each setting written to the journal (`journal.rs`) before it is changed; a guard
//! (`guard.rs`) puts everything back if the tuner cannot. All writing is one function (`machine.rs`).

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

/// A knob of this machine: what it would change, or has changed, or why it cannot.
#[derive(Debug)]
pub struct KnobState {
    /// The knob.
    pub knob: &'static Knob,
    /// Where it stands.
    pub outcome: Outcome,
    /// What is to be known besides: what was refused, or what it needs.
    pub note: String,
    /// Its settings on this machine.
    pub settings: Vec<Setting>,
    refusal: String,
}

/// Where a knob, or a setting, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is to be changed.
    Planned,
    /// It was changed.
    Set,
    /// It was as it should be.
    Already,
    /// It is not changed unless somebody asks.
    OnRequest,
    /// It cannot be changed here.
    Cannot,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its file.
    pub path: String,
    /// What it held before; `None` for a control group that does not exist.
    pub before: Option<String>,
    /// What it should hold.
    pub after: String,
    /// Where it stands.
    pub outcome: Outcome,
    value: Value,
}

/// What is to be changed on a machine, and what it held when the plan was made.
#[derive(Debug)]
pub struct Plan {
    /// The knobs that were named, or all, in the order in which they are turned.
    pub knobs: Vec<KnobState>,
}

/// What each knob would change. Nothing is changed.
///
/// # Errors
/// A knob was named that needs an option besides.
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
    /// What is to be written now.
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

    /// Where the knob stands, from where its settings stand.
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
    /// Whether there is a setting to change.
    pub fn has_work(&self) -> bool {
        self.settings(&[Outcome::Planned])
    }

    /// Whether some setting is as it should be, or will be.
    pub fn has_effect(&self) -> bool {
        self.settings(&[Outcome::Planned, Outcome::Set, Outcome::Already])
    }

    fn settings(&self, stand: &[Outcome]) -> bool {
        let mut settings = self.knobs.iter().flat_map(|knob| &knob.settings);
        settings.any(|setting| stand.contains(&setting.outcome))
    }

    /// Changes the settings. `stays` says whether they outlive this process; `limit` is the guard's.
    ///
    /// # Errors
    /// The journal cannot be written; what was changed until then is put back by the guard.
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

    /// Moves this process to its own processors, if it has got some; a command that it starts has the same.
    ///
    /// # Errors
    /// The kernel refuses.
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
                // Its processors are its own then, but the scheduler still balances them.
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

    /// To this process, from which the command inherits it.
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

/// Before ordinary work, after what the kernel needs (setpriority(2)).
const PRIORITY: i32 = -10;

/// Changes one setting: into the journal, to the machine, and what came of it into the journal. The inner error is a
/// refusal in words, after which the setting is as it was.
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
            // What the kernel made of it is not what was wished for. If it cannot go back either, there is nothing
            // that a journal could do.
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

/// Reads a setting back. A number may have been rounded to what the hardware can do; anything else has to be what was
/// written.
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

/// What is changed on a machine now, and by whom; `None` where nothing is.
///
/// # Errors
/// The journal cannot be understood.
pub fn status(machine: &Machine) -> Result<Option<Journal>> {
    Journal::read(&machine.tree)
}

/// The knobs that are set on a machine, in one text; `None` where nothing is changed.
pub(super) fn knobs_set(tree: &Tree) -> Option<String> {
    let journal = Journal::read(tree).ok()??;
    Some(journal.knobs.join(", "))
}

/// Checks that processors may be kept free: they are online, and some are left for everything else.
///
/// # Errors
/// They are not.
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

/// Sentences about what works against the settings of a plan.
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

/// What threatens figures and cannot be set: whether the processors had to slow themselves down.
#[derive(Debug, Clone, Copy)]
pub struct Heat(Option<u64>);

impl Heat {
    /// That of this moment.
    pub fn now(machine: &Machine) -> Heat {
        Heat(throttled(&machine.tree))
    }

    /// A sentence, if it became worse since.
    pub fn compare(self, machine: &Machine) -> Option<String> {
        let more = throttled(&machine.tree)?.checked_sub(self.0?)?;
        (more > 0).then(|| {
            format!("A core slowed itself down {more} times meanwhile because it was too hot: expect noisy figures.")
        })
    }
}
