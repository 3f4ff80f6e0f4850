//! Keeps the journal of a tuner, the process that changes settings of the machine. Every change is
//! recorded in a file before it is made, so that any later process can undo it.
//!
//! Only one process writes the journal at a time. It holds a lock, which the kernel releases if the
//! process dies. A reboot clears the folder of the journal, just as it resets the settings.
//! Everyone can read the journal: sessions record which knobs are set, but usually do not run as
//! root. Start at [`TuneLock::acquire`] and [`TuneJournal::restore_all`].

use super::knobs::TUNE_CGROUP;
use super::machine::{SettingChange, TunableMachine, is_same};
use crate::environment::file_tree::FileTree;
use crate::process::{self, ProcessIdentity, unix_time_ms};
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, kill_process, pidfd_open};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write, stdin, stdout};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

const JOURNAL_FOLDER: &str = "/run/speedwell";
pub(crate) const JOURNAL_FILE: &str = "/run/speedwell/tune.json";

/// The changes made by a tuner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TuneJournal {
    /// Boot ID of the kernel at the time of the changes (random(4)).
    pub(super) boot_id: Option<String>,
    /// Process that made the changes.
    pub(super) tuner: ProcessIdentity,
    /// Process that restores the settings if no other process does.
    pub(super) guard: ProcessIdentity,
    /// Command line of the tuner.
    pub command: String,
    /// Deadline for restoring the settings, in milliseconds since the Unix epoch.
    pub until_unix_ms: Option<i64>,
    /// Whether the settings persist after the tuner has ended.
    pub(super) stays: bool,
    /// Knobs whose settings have the desired values, whether or not they had to be changed.
    pub knobs: Vec<String>,
    /// Settings, in the order of their changes.
    pub entries: Vec<JournalEntry>,
}

/// A setting that was changed, or is being changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// File of the setting.
    pub path: String,
    /// Previous value; `None` for a control group that did not exist before, and for a file in such
    /// a group.
    pub old: Option<String>,
    /// New value.
    pub new: String,
    /// Whether the new value has been written.
    pub done: bool,
}

/// A setting with the outcome of its restoration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSetting {
    /// File of the setting.
    pub path: String,
    /// Value before the change.
    pub old: String,
    /// Outcome of the restoration.
    pub outcome: RestoreOutcome,
}

/// Outcome of restoring a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The setting has its previous value.
    Done,
    /// Another process has since changed the setting to this value. The value is kept.
    LeftAlone(String),
    /// The setting no longer exists, e.g. for a processor that was switched off.
    Gone,
    /// The kernel refused, for this reason.
    Refused(String),
}

/// Exclusive access to the journal and the settings of a machine.
#[derive(Debug)]
pub struct TuneLock<'m> {
    pub(super) machine: &'m TunableMachine,
    folder: File,
}

impl TuneLock<'_> {
    /// Waits for exclusive access.
    ///
    /// # Errors
    /// Fails if the journal's folder cannot be created or is writable by others.
    pub fn acquire(machine: &TunableMachine) -> Result<TuneLock<'_>> {
        let folder = machine.tree.resolve(JOURNAL_FOLDER);
        let created = DirBuilder::new().mode(0o755).recursive(true).create(&folder);
        let shown_path = folder.display();
        created.with_context(|| {
            format!("cannot create the folder '{shown_path}', so nothing was changed")
        })?;
        let file = File::open(&folder).with_context(|| format!("cannot open '{shown_path}'"))?;
        let owner = file.metadata()?;
        if owner.uid() != geteuid().as_raw() || owner.mode() & 0o022 != 0 {
            bail!(
                "'{shown_path}' is writable by other users, so its journal cannot be trusted\nhint: \
                 sudo rm -r '{shown_path}'"
            );
        }
        // Sessions of other users must be able to read the folder, regardless of the umask.
        file.set_permissions(Permissions::from_mode(0o755))?;
        flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("cannot lock '{shown_path}'"))?;
        Ok(TuneLock { machine, folder: file })
    }

    /// Returns the journal. If it is from before the last boot, removes it and returns `None`.
    ///
    /// # Errors
    /// Fails if the journal cannot be parsed.
    pub fn current_journal(&self) -> Result<Option<TuneJournal>> {
        match TuneJournal::read_stored(&self.machine.tree)? {
            Some(journal) if journal.is_stale(&self.machine.tree) => {
                self.remove_journal()?;
                Ok(None)
            }
            journal => Ok(journal),
        }
    }

    /// Saves the journal durably: the file is atomically replaced and synced to disk.
    pub(super) fn save_journal(&self, journal: &TuneJournal) -> Result<()> {
        let file = self.machine.tree.resolve(JOURNAL_FILE);
        let draft = file.with_extension("draft");
        let write = || -> std::io::Result<()> {
            let mut out = File::create(&draft)?;
            out.set_permissions(Permissions::from_mode(0o644))?;
            out.write_all(&serde_json::to_vec_pretty(journal)?)?;
            out.sync_all()?;
            self.machine.test_step();
            fs::rename(&draft, &file)?;
            self.folder.sync_all()?;
            self.machine.test_step();
            Ok(())
        };
        write().with_context(|| format!("cannot write '{}'", file.display()))
    }

    fn remove_journal(&self) -> Result<()> {
        self.machine.test_step();
        let file = self.machine.tree.resolve(JOURNAL_FILE);
        fs::remove_file(&file).with_context(|| format!("cannot remove '{}'", file.display()))?;
        self.machine.test_step();
        Ok(())
    }
}

impl TuneJournal {
    /// Reads the stored journal, regardless of its age.
    ///
    /// # Errors
    /// Fails if the journal cannot be parsed.
    fn read_stored(tree: &FileTree) -> Result<Option<TuneJournal>> {
        let file = tree.resolve(JOURNAL_FILE);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read '{}'", file.display()));
            }
        };
        let journal = serde_json::from_slice(&text).with_context(|| {
            format!(
                "cannot parse the journal '{0}'\nhint: sudo rm '{0}', then reboot to restore the \
                 settings",
                file.display()
            )
        })?;
        Ok(Some(journal))
    }

    /// Reads the journal of a machine. Returns `None` if the journal is from before the last boot.
    ///
    /// # Errors
    /// Fails if the journal cannot be parsed.
    pub(crate) fn read(tree: &FileTree) -> Result<Option<TuneJournal>> {
        Ok(TuneJournal::read_stored(tree)?.filter(|journal| !journal.is_stale(tree)))
    }

    /// Whether this process made the changes.
    pub fn is_own(&self) -> bool {
        self.tuner == ProcessIdentity::current_process()
    }

    /// Whether the machine was rebooted after the changes. A reboot also resets the settings.
    pub(super) fn is_stale(&self, tree: &FileTree) -> bool {
        self.boot_id != boot_id(tree)
    }

    /// Describes the process whose changes are in effect.
    pub fn holder(&self) -> String {
        let description = format!("process {} ({})", self.tuner.pid, self.command);
        let is_gone = |process: &ProcessIdentity| process.has_ended() == Some(true);
        match (is_gone(&self.tuner), is_gone(&self.guard)) {
            (false, _) => description,
            (true, false) if self.stays => {
                format!("{description}, which has ended and left its settings in place")
            }
            (true, false) => {
                format!("{description}, which died; its guard is restoring the settings")
            }
            (true, true) => format!("{description}, which died together with its guard"),
        }
    }

    /// Restores all settings in reverse order and removes the journal. Keeps the journal for
    /// settings that the kernel refuses to restore, unless `forgets` is set.
    ///
    /// # Errors
    /// Fails if the journal cannot be written.
    pub fn restore_all(
        mut self,
        lock: &TuneLock<'_>,
        forgets: bool,
    ) -> Result<Vec<RestoredSetting>> {
        let machine = lock.machine;
        let restored = self.entries.iter().rev().map(|entry| RestoredSetting {
            path: entry.path.clone(),
            old: entry.old.clone().unwrap_or_default(),
            outcome: entry.restore_entry(machine),
        });
        let mut settings: Vec<RestoredSetting> = restored.collect();
        // Restoring one setting may change another that was restored earlier: the governor is
        // restored after turbo, and may change it again. Therefore every setting is checked, and
        // written again if necessary.
        for setting in settings.iter_mut().filter(|setting| setting.outcome == RestoreOutcome::Done)
        {
            let current = machine.current_value(&setting.path);
            if current.is_some_and(|current| !is_same(&setting.path, &current, &setting.old)) {
                let result =
                    machine.write_setting(&setting.path, SettingChange::Value(&setting.old));
                setting.outcome = restore_outcome(machine, result);
            }
        }
        let refused: Vec<&str> = settings
            .iter()
            .filter(|setting| matches!(setting.outcome, RestoreOutcome::Refused(_)))
            .map(|setting| setting.path.as_str())
            .collect();
        if refused.is_empty() || forgets {
            lock.remove_journal()?;
        } else {
            self.entries.retain(|entry| refused.contains(&entry.path.as_str()));
            lock.save_journal(&self)?;
        }
        Ok(settings)
    }

    /// Kills the guard. The caller must hold the lock, which the guard needs to restore settings.
    /// The guard is therefore not killed in the middle of restoring them.
    pub fn dismiss_guard(&self, _lock: &TuneLock<'_>) {
        let guard = Pid::from_raw(self.guard.pid).filter(|_| self.guard.has_ended() == Some(false));
        if let Some(guard) = guard {
            let _ = kill_process(guard, Signal::KILL);
        }
    }

    /// Returns the milliseconds until the deadline for restoring the settings: 0 if it has passed,
    /// `None` without a time limit.
    pub fn left_ms(&self) -> Option<u64> {
        Some(u64::try_from(self.until_unix_ms? - unix_time_ms()).unwrap_or(0))
    }
}

impl JournalEntry {
    /// Returns the current value of the setting.
    pub fn current_value(&self, machine: &TunableMachine) -> Option<String> {
        machine.current_value(&self.path)
    }

    /// Describes whether the setting still has its new value.
    pub fn describe_state(&self, machine: &TunableMachine) -> &'static str {
        match machine.current_value(&self.path) {
            None => "gone",
            Some(_) if self.path == TUNE_CGROUP => "set",
            Some(current) if is_same(&self.path, &current, &self.new) => "set",
            Some(_) => "changed since",
        }
    }

    fn restore_entry(&self, machine: &TunableMachine) -> RestoreOutcome {
        let Some(old) = &self.old else {
            // The control files in our own control group disappear together with the group.
            if self.path != TUNE_CGROUP || machine.current_value(TUNE_CGROUP).is_none() {
                return RestoreOutcome::Done;
            }
            let removed = move_processes_up(machine)
                .and_then(|()| machine.write_setting(TUNE_CGROUP, SettingChange::Remove));
            return restore_outcome(machine, removed);
        };
        let Some(current) = machine.current_value(&self.path) else { return RestoreOutcome::Gone };
        if is_same(&self.path, &current, old) {
            return RestoreOutcome::Done;
        }
        // If the setting does not have our new value either, another process has changed it. This
        // conclusion requires that our change was completed (`done`): if the tuner died while
        // writing, we do not know which value the kernel stored.
        if self.done && !is_same(&self.path, &current, &self.new) {
            return RestoreOutcome::LeftAlone(current);
        }
        restore_outcome(machine, machine.write_setting(&self.path, SettingChange::Value(old)))
    }
}

fn restore_outcome(machine: &TunableMachine, result: std::io::Result<()>) -> RestoreOutcome {
    match result {
        Ok(()) => RestoreOutcome::Done,
        Err(error) => RestoreOutcome::Refused(machine.explain_refusal(&error)),
    }
}

/// Moves the processes of our control group to the parent group, because a group that contains
/// processes cannot be removed.
fn move_processes_up(machine: &TunableMachine) -> std::io::Result<()> {
    let file = format!("{TUNE_CGROUP}/cgroup.procs");
    let parent = "/sys/fs/cgroup/cgroup.procs";
    let processes = machine.tree.read_text(file).unwrap_or_default();
    for process in processes.lines() {
        match machine.write_setting(parent, SettingChange::Value(process)) {
            // This error means that the process has ended.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            result => result?,
        }
    }
    Ok(())
}

pub(super) fn boot_id(tree: &FileTree) -> Option<String> {
    tree.read_text("/proc/sys/kernel/random/boot_id")
}

// The code below runs the guard of a tuner. The guard is another process, which restores the settings
// if the tuner ends without restoring them.
//
// The guard executes this program with a hidden subcommand, in a session of its own (setsid(2)). A
// pidfd of the tuner (pidfd_open(2)) is its standard input and shows when the tuner ends. The tuner
// changes nothing until the guard has reported that it is running. Start at [`start_guard`], which
// the tuner calls, and [`run_guard`], which the guard executes.

/// Hidden subcommand that runs the guard.
pub const GUARD_COMMAND: &str = "tune-guard";

/// Starts the guard of this process; returns the identity of the guard. After `limit`, the guard
/// restores the settings even if this process is still running.
///
/// # Errors
/// Fails if the guard cannot be started.
pub fn start_guard(machine: &TunableMachine, limit: Option<Duration>) -> Result<ProcessIdentity> {
    let begin = || -> Result<ProcessIdentity> {
        let end = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(GUARD_COMMAND).arg(std::path::absolute(&machine.root)?);
        if let Some(limit) = limit {
            command.arg(limit.as_millis().to_string());
        }
        let output = process::spawn_detached(command.stdin(end))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    begin().context("cannot start the process that restores the settings, so nothing was changed")
}

/// Waits for the end of the tuner, the time limit, or a signal, and then restores the settings if
/// necessary. If the settings are to outlive the tuner, waits only for the time limit or a signal.
///
/// # Errors
/// Fails if the settings cannot be restored.
pub fn run_guard(machine: &TunableMachine, limit: Option<Duration>) -> Result<()> {
    process::install_handlers()?;
    let guard = ProcessIdentity::current_process();
    println!("{}", serde_json::to_string(&guard)?);
    stdout().flush()?;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let tuner = stdin();
    let mut events = vec![PollFd::new(&tuner, PollFlags::IN)];
    loop {
        wait_for_event(&mut events, deadline);
        let lock = TuneLock::acquire(machine)?;
        let Some(journal) = lock.current_journal()?.filter(|journal| journal.guard == guard) else {
            return Ok(());
        };
        let is_over =
            deadline.is_some_and(|end| Instant::now() >= end) || process::is_interrupt_requested();
        if !journal.stays || is_over {
            return journal.restore_all(&lock, false).map(drop);
        }
        events.clear();
    }
}

/// Waits until one of these descriptors is ready, the deadline passes, or a signal arrives.
fn wait_for_event(events: &mut [PollFd<'_>], deadline: Option<Instant>) {
    while !process::is_interrupt_requested() {
        let remaining = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = remaining.and_then(|remaining| Timespec::try_from(remaining).ok());
        if poll(events, timeout.as_ref()).is_ok() {
            return;
        }
    }
}
