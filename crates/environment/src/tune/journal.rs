//! The journal: what was changed, on disk before it is changed, so that whoever comes next can put it back.
//!
//! One process at a time writes it, under a lock that the kernel takes away from a process that dies. It lies where a
//! restart of the machine empties the folder, as it empties the settings. Everybody may read it, because sessions note
//! which knobs are set and are mostly measured without root. Start at [`Lock::take`] and [`Journal::restore`].

use super::knobs::OWN_GROUP;
use super::machine::{Change, Machine, is_same};
use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde::{Deserialize, Serialize};
use speedwell_process::{Identity, unix_ms};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

/// Where it lies, below the root.
const FOLDER: &str = "/run/speedwell";
pub(crate) const FILE: &str = "/run/speedwell/tune.json";

/// What a tuner has changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Journal {
    /// The kernel's life in which it was changed (random(4)).
    pub(super) boot_id: Option<String>,
    /// Who changed it.
    pub(super) tuner: Identity,
    /// Who puts it back if nobody else does.
    pub(super) guard: Identity,
    /// The tuner's command line.
    pub command: String,
    /// When the settings are put back at the latest, in milliseconds since the Unix epoch.
    pub until_unix_ms: Option<i64>,
    /// Whether the settings stay when the tuner has ended.
    pub(super) stays: bool,
    /// The knobs that are as they should be, whether they had to be turned or not.
    pub knobs: Vec<String>,
    /// The settings, in the order in which they were changed.
    pub entries: Vec<Entry>,
}

/// One setting that was changed, or is just being changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its file.
    pub path: String,
    /// What it held; `None` for a control group that did not exist, and what is in it.
    pub old: Option<String>,
    /// What it holds now.
    pub new: String,
    /// Whether it has been written.
    pub done: bool,
}

/// A setting that was put back, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Its file.
    pub path: String,
    /// What it held before it was changed.
    pub old: String,
    /// The outcome.
    pub outcome: Restoration,
}

/// What came of putting a setting back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restoration {
    /// It holds what it held before.
    Done,
    /// Somebody changed it meanwhile to this, and it stays so.
    LeftAlone(String),
    /// It is gone, as the files of a processor that was switched off.
    Gone,
    /// The kernel refused, for this reason.
    Refused(String),
}

/// The right to change the journal and the settings of a machine.
#[derive(Debug)]
pub struct Lock<'m> {
    pub(super) machine: &'m Machine,
    folder: File,
}

impl Lock<'_> {
    /// Waits until nobody else has it.
    ///
    /// # Errors
    /// The folder of the journal cannot be made, or others may write to it.
    pub fn take(machine: &Machine) -> Result<Lock<'_>> {
        let folder = machine.tree.path(FOLDER);
        let made = DirBuilder::new()
            .mode(0o755)
            .recursive(true)
            .create(&folder);
        let shown = folder.display();
        made.with_context(|| {
            format!("cannot make the folder '{shown}', and nothing is changed without it")
        })?;
        let file = File::open(&folder).with_context(|| format!("cannot open '{shown}'"))?;
        let owner = file.metadata()?;
        if owner.uid() != geteuid().as_raw() || owner.mode() & 0o022 != 0 {
            bail!(
                "others may write to '{shown}', and what lies there would be believed\nhint: sudo rm -r '{shown}'"
            );
        }
        // Sessions are measured by others as well, whatever the mask of whoever tunes.
        file.set_permissions(Permissions::from_mode(0o755))?;
        flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("cannot lock '{shown}'"))?;
        Ok(Lock {
            machine,
            folder: file,
        })
    }

    /// The journal, unless it is from before the machine was started: such a one is removed.
    ///
    /// # Errors
    /// It cannot be understood.
    pub fn journal(&self) -> Result<Option<Journal>> {
        match Journal::stored(&self.machine.tree)? {
            Some(journal) if journal.is_stale(&self.machine.tree) => {
                self.remove()?;
                Ok(None)
            }
            other => Ok(other),
        }
    }

    /// Writes it down so that it outlives us: a file is either the old or the new one, and is on disk.
    pub(super) fn save(&self, journal: &Journal) -> Result<()> {
        let file = self.machine.tree.path(FILE);
        let draft = file.with_extension("draft");
        let write = || -> std::io::Result<()> {
            let mut out = File::create(&draft)?;
            out.set_permissions(Permissions::from_mode(0o644))?;
            out.write_all(&serde_json::to_vec_pretty(journal)?)?;
            out.sync_all()?;
            self.machine.step();
            fs::rename(&draft, &file)?;
            self.folder.sync_all()?;
            self.machine.step();
            Ok(())
        };
        write().with_context(|| format!("cannot write '{}'", file.display()))
    }

    fn remove(&self) -> Result<()> {
        self.machine.step();
        let file = self.machine.tree.path(FILE);
        fs::remove_file(&file).with_context(|| format!("cannot remove '{}'", file.display()))?;
        self.machine.step();
        Ok(())
    }
}

impl Journal {
    /// The journal that lies there, whatever its age.
    ///
    /// # Errors
    /// It cannot be understood.
    fn stored(tree: &Tree) -> Result<Option<Journal>> {
        let file = tree.path(FILE);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read '{}'", file.display()));
            }
        };
        let journal = serde_json::from_slice(&text).with_context(|| {
            format!(
                "cannot understand the journal '{0}'\nhint: sudo rm '{0}', and restart the machine to have its settings back",
                file.display()
            )
        })?;
        Ok(Some(journal))
    }

    /// The journal of a machine, unless it is from before the machine was started.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(crate) fn read(tree: &Tree) -> Result<Option<Journal>> {
        Ok(Journal::stored(tree)?.filter(|journal| !journal.is_stale(tree)))
    }

    /// Whether this process has changed the settings.
    pub fn is_own(&self) -> bool {
        self.tuner == Identity::own()
    }

    /// Whether the machine was started since: then its settings are new as well.
    pub(super) fn is_stale(&self, tree: &Tree) -> bool {
        self.boot_id != boot_id(tree)
    }

    /// Who holds the machine, in words.
    pub fn holder(&self) -> String {
        let who = format!("process {} ({})", self.tuner.pid, self.command);
        let is_gone = |process: &Identity| process.has_ended() == Some(true);
        match (is_gone(&self.tuner), is_gone(&self.guard)) {
            (false, _) => who,
            (true, false) if self.stays => {
                format!("{who}, which has ended and let the settings stay")
            }
            (true, false) => {
                format!("{who}, which was ended; its guard is putting the settings back")
            }
            (true, true) => format!("{who}, which was ended together with its guard"),
        }
    }

    /// Puts every setting back, the last one first, and removes the journal. What the kernel refuses stays in it, unless
    /// `forgets`.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn restore(mut self, lock: &Lock<'_>, forgets: bool) -> Result<Vec<Restored>> {
        let machine = lock.machine;
        let mut all: Vec<Restored> = self
            .entries
            .iter()
            .rev()
            .map(|entry| Restored {
                path: entry.path.clone(),
                old: entry.old.clone().unwrap_or_default(),
                outcome: entry.restore(machine),
            })
            .collect();
        // A governor that comes back may have set the turbo switch anew, which came back before it.
        for one in all
            .iter_mut()
            .filter(|one| one.outcome == Restoration::Done)
        {
            let held = machine.held(&one.path);
            if held.is_some_and(|held| !is_same(&one.path, &held, &one.old)) {
                let again = machine.write(&one.path, Change::Value(&one.old));
                one.outcome = outcome(machine, again);
            }
        }
        let is_refused = |one: &Restored| matches!(one.outcome, Restoration::Refused(_));
        let refused: Vec<&str> = all
            .iter()
            .filter(|one| is_refused(one))
            .map(|one| one.path.as_str())
            .collect();
        if refused.is_empty() || forgets {
            lock.remove()?;
        } else {
            self.entries
                .retain(|entry| refused.contains(&entry.path.as_str()));
            lock.save(&self)?;
        }
        Ok(all)
    }

    /// Ends the guard, which may be done by whoever has the lock: it is waiting then.
    pub fn dismiss_guard(&self, _lock: &Lock<'_>) {
        let guard = Pid::from_raw(self.guard.pid).filter(|_| self.guard.has_ended() == Some(false));
        if let Some(guard) = guard {
            let _ = kill_process(guard, Signal::KILL);
        }
    }

    /// Milliseconds until the settings are put back at the latest; 0 when that is over.
    pub fn left_ms(&self) -> Option<u64> {
        Some(u64::try_from(self.until_unix_ms? - unix_ms()).unwrap_or(0))
    }
}

impl Entry {
    /// What the setting holds now.
    pub fn held(&self, machine: &Machine) -> Option<String> {
        machine.held(&self.path)
    }

    /// Whether it still holds what it was changed to, in words.
    pub fn standing(&self, machine: &Machine) -> &'static str {
        match machine.held(&self.path) {
            None => "gone",
            Some(_) if self.path == OWN_GROUP => "set",
            Some(held) if is_same(&self.path, &held, &self.new) => "set",
            Some(_) => "changed since",
        }
    }

    fn restore(&self, machine: &Machine) -> Restoration {
        let Some(old) = &self.old else {
            // What is in a control group of ours goes with it.
            if self.path != OWN_GROUP || machine.held(OWN_GROUP).is_none() {
                return Restoration::Done;
            }
            let removed = empty(machine).and_then(|()| machine.write(OWN_GROUP, Change::Remove));
            return outcome(machine, removed);
        };
        let Some(held) = machine.held(&self.path) else {
            return Restoration::Gone;
        };
        if is_same(&self.path, &held, old) {
            return Restoration::Done;
        }
        // A tuner that died while it wrote cannot say what the kernel made of it.
        if self.done && !is_same(&self.path, &held, &self.new) {
            return Restoration::LeftAlone(held);
        }
        outcome(machine, machine.write(&self.path, Change::Value(old)))
    }
}

fn outcome(machine: &Machine, done: std::io::Result<()>) -> Restoration {
    match done {
        Ok(()) => Restoration::Done,
        Err(error) => Restoration::Refused(machine.words_for(&error)),
    }
}

/// Moves the processes of our control group to the group above, as one with processes cannot be removed.
fn empty(machine: &Machine) -> std::io::Result<()> {
    let file = format!("{OWN_GROUP}/cgroup.procs");
    let above = "/sys/fs/cgroup/cgroup.procs";
    let processes = machine.tree.text(file).unwrap_or_default();
    for process in processes.lines() {
        match machine.write(above, Change::Value(process)) {
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            done => done?,
        }
    }
    Ok(())
}

/// The kernel's life.
pub(super) fn boot_id(tree: &Tree) -> Option<String> {
    tree.text("/proc/sys/kernel/random/boot_id")
}
