//! Locks a machine for one measuring worker at a time, across all users. The kernel releases the
//! lock when its holder exits for any reason. Roles of experiments share the lock, so several of
//! them can use the machine at once.
//!
//! Waiters queue for a second lock, the ticket. A waiter keeps the ticket until it has the machine
//! lock. A waiter for shared use therefore cannot overtake a waiter for exclusive use. An
//! experiment queues only once for everything it does on the machine. Start at [`LockTicket`].

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use speedwell_machine::worker::WORKER_COMMAND;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Lock file of the machine. All users may open it.
const LOCK_PATH: &str = "/run/lock/speedwell.lock";
/// Name of the lock file in the fleet folder, for machines without `/run/lock`.
const LOCK_FILE_NAME: &str = "speedwell.lock";
/// Name of the ticket's lock file, in the folder of the lock file itself.
pub(crate) const TICKET_FILE_NAME: &str = "speedwell.turn";

/// The right to measure on this machine until this value is dropped or the process ends.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

/// A waiter for the machine lock.
#[derive(Debug)]
pub struct LockTicket {
    lock_path: PathBuf,
    ticket_file: File,
    is_shared: bool,
    holds_ticket: bool,
}

impl MachineLock {
    /// Shares the machine for a role of an experiment. The experiment already holds the lock, so
    /// its roles do not queue. Returns `None` while another process holds the lock exclusively.
    /// `folder` is the fleet folder on this machine.
    ///
    /// # Errors
    /// Fails if no lock file can be created.
    pub fn try_share(folder: &Path) -> Result<Option<MachineLock>> {
        let (file, path) = open_first(&lock_paths(folder))?;
        let is_locked = try_lock(&file, true, &path)?;
        Ok(is_locked.then_some(MachineLock { _file: file }))
    }
}

impl LockTicket {
    /// Requests exclusive use. `folder` is the fleet folder on this machine.
    ///
    /// # Errors
    /// Fails if no lock file can be created.
    pub fn exclusive(folder: &Path) -> Result<LockTicket> {
        LockTicket::open_at(&lock_paths(folder), false)
    }

    /// Requests shared use: others that share the machine may use it at the same time.
    ///
    /// # Errors
    /// Fails if no lock file can be created.
    pub fn shared(folder: &Path) -> Result<LockTicket> {
        LockTicket::open_at(&lock_paths(folder), true)
    }

    fn open_at(paths: &[PathBuf], is_shared: bool) -> Result<LockTicket> {
        let (_, path) = open_first(paths)?;
        let ticket_path = path.with_file_name(TICKET_FILE_NAME);
        let ticket_file = open_lock_file(&ticket_path)
            .with_context(|| format!("cannot open the lock '{}'", ticket_path.display()))?;
        Ok(LockTicket { lock_path: path, ticket_file, is_shared, holds_ticket: false })
    }

    /// Tries to acquire the machine without blocking. Returns `None` if another waiter comes first
    /// or the machine is locked.
    ///
    /// # Errors
    /// Fails if the file system does not support locks.
    pub fn try_acquire(&mut self) -> Result<Option<MachineLock>> {
        self.holds_ticket =
            self.holds_ticket || try_lock(&self.ticket_file, false, &self.lock_path)?;
        if !self.holds_ticket {
            return Ok(None);
        }
        let (file, path) = open_first(std::slice::from_ref(&self.lock_path))?;
        if !try_lock(&file, self.is_shared, &path)? {
            return Ok(None);
        }
        // Pass the ticket to the next waiter.
        self.ticket_file.unlock()?;
        self.holds_ticket = false;
        Ok(Some(MachineLock { _file: file }))
    }

    /// Describes the processes that hold the lock now, as in `process 81 of user 1000 (speedwell
    /// worker shard)`. Leaves out processes that this process cannot see.
    pub fn describe_holders(&self) -> String {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let inode = fs::metadata(&self.lock_path).map(|metadata| metadata.ino());
        let holders = inode.map(|inode| lock_holders(&locks, inode)).unwrap_or_default();
        let descriptions: Vec<String> = holders.into_iter().filter_map(describe_process).collect();
        match descriptions.as_slice() {
            [] => "another process".to_owned(),
            descriptions => descriptions.join(" and "),
        }
    }
}

/// Returns the possible paths of the lock file, in order of preference.
fn lock_paths(folder: &Path) -> [PathBuf; 2] {
    [PathBuf::from(LOCK_PATH), folder.join(LOCK_FILE_NAME)]
}

/// Opens the lock file at the first usable path.
fn open_first(paths: &[PathBuf]) -> Result<(File, PathBuf)> {
    let mut last_error = None;
    for path in paths {
        match open_lock_file(path) {
            Ok(file) => return Ok((file, path.clone())),
            Err(error) => last_error = Some((path, error)),
        }
    }
    let (path, error) = last_error.context("no path for the lock file")?;
    Err(error).with_context(|| format!("cannot open the lock '{}'", path.display()))
}

/// Tries to lock a file without blocking. Returns whether the file was locked.
fn try_lock(file: &File, is_shared: bool, path: &Path) -> Result<bool> {
    let result = if is_shared { file.try_lock_shared() } else { file.try_lock() };
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock '{}'", path.display()))
        }
    }
}

/// Finds the processes that hold a lock on this inode in the contents of /proc/locks
/// (proc_locks(5)).
fn lock_holders(locks: &str, inode: u64) -> Vec<u32> {
    let holder = |line: &str| {
        // 1: FLOCK ADVISORY WRITE 81 00:19:1234 0 EOF
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, file, ..] = fields[..] else {
            return None;
        };
        let is_lock_file = file.rsplit(':').next()?.parse::<u64>() == Ok(inode);
        process.parse::<u32>().ok().filter(|process| is_lock_file && *process > 0)
    };
    locks.lines().filter_map(holder).collect()
}

/// Describes a process. Returns `None` if the process is not visible to this one.
fn describe_process(process: u32) -> Option<String> {
    let command_line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let command_line = String::from_utf8_lossy(&command_line).into_owned();
    let mut arguments = command_line.split('\0').filter(|word| !word.is_empty());
    let program = arguments.next()?.rsplit('/').next()?;
    let user = fs::metadata(format!("/proc/{process}")).ok()?.uid();
    let command = arguments.next();
    let subcommand = arguments.next().filter(|_| command == Some(WORKER_COMMAND));
    let words: Vec<&str> = [Some(program), command, subcommand].into_iter().flatten().collect();
    Some(format!("process {process} of user {user} ({})", words.join(" ")))
}

/// Opens the lock file, and creates it if it is missing. All users must be able to use a file that
/// one of them created. In world-writable directories, however, the kernel may deny opening another
/// user's file for writing or with O_CREAT. The file is therefore opened read-only, which suffices
/// for a lock.
fn open_lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open_existing = || rustix::fs::open(path, flags, Mode::empty());
    let file = open_existing().or_else(|_| {
        let create_flags = flags | OFlags::CREATE | OFlags::EXCL;
        let created = rustix::fs::open(path, create_flags, Mode::from_raw_mode(0o644));
        // Another process may have just created the file.
        created.or_else(|_| open_existing())
    });
    Ok(File::from(file?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_lock_has_only_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("none/lock"), folder.path().join("lock")];
        let want = || LockTicket::open_at(&places, false).unwrap();
        let take = || want().try_acquire().unwrap();
        let first = take().unwrap();
        assert!(take().is_none());
        drop(first);
        let second = take();
        assert!(second.is_some(), "it is given back");
        drop(second);
        // A read-only file works, too.
        let mut permissions = places[1].metadata().unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&places[1], permissions).unwrap();
        assert!(take().is_some());
    }

    #[test]
    fn experiment_parts_share_the_lock_and_exclude_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("lock")];
        let take =
            |is_shared| LockTicket::open_at(&places, is_shared).unwrap().try_acquire().unwrap();
        let parts = [take(true), take(true)];
        assert!(parts.iter().all(Option::is_some));
        assert!(take(false).is_none());
        drop(parts);
        let alone = take(false);
        assert!(alone.is_some() && take(true).is_none());
    }

    #[test]
    fn shared_requests_wait_behind_an_exclusive_request() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("lock")];
        let want = |is_shared| LockTicket::open_at(&places, is_shared).unwrap();
        let experiment = want(true).try_acquire().unwrap().unwrap();
        let mut alone = want(false);
        assert!(alone.try_acquire().unwrap().is_none());
        let mut later = want(true);
        assert!(later.try_acquire().unwrap().is_none(), "it has to wait");
        // Roles of the current experiment do not queue.
        let (file, place) = super::open_first(&places).unwrap();
        assert!(super::try_lock(&file, true, &place).unwrap());
        drop(file);
        drop(experiment);
        assert!(later.try_acquire().unwrap().is_none());
        let alone = alone.try_acquire().unwrap().unwrap();
        assert!(later.try_acquire().unwrap().is_none());
        drop(alone);
        assert!(later.try_acquire().unwrap().is_some());
    }

    #[test]
    fn an_abandoned_exclusive_request_lets_others_pass() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("lock")];
        let want = |is_shared| LockTicket::open_at(&places, is_shared).unwrap();
        let _experiment = want(true).try_acquire().unwrap().unwrap();
        let mut alone = want(false);
        assert!(alone.try_acquire().unwrap().is_none());
        drop(alone);
        assert!(want(true).try_acquire().unwrap().is_some());
    }

    #[test]
    fn holders_of_the_lock_are_named() {
        let known = "1: FLOCK  ADVISORY  READ 81 00:19:1234 0 EOF\n\
            2: POSIX  ADVISORY  WRITE 82 00:19:1234 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 83 00:19:12345 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 84 00:19:1234 0 EOF\n\
            4: FLOCK  ADVISORY  READ 0 00:19:1234 0 EOF\n";
        assert_eq!(lock_holders(known, 1234), [81]);
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("lock")];
        let want = || LockTicket::open_at(&places, false).unwrap();
        let _first = want().try_acquire().unwrap().unwrap();
        let whom = want().describe_holders();
        let own = format!("process {} of user ", std::process::id());
        assert!(whom.starts_with(&own), "{whom}");
        assert_eq!(describe_process(u32::MAX), None);
    }

    #[test]
    fn a_lock_file_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lock");
        // A symlink might lead to anyone's file.
        std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
        let error = LockTicket::open_at(std::slice::from_ref(&place), false).unwrap_err();
        assert!(format!("{error:#}").contains(&place.display().to_string()), "{error:#}");
    }
}
