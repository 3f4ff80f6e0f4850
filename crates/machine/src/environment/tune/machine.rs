//! Reads and changes the settings of a machine for `tune`. [`TunableMachine::write_setting`] is the
//! only function in this program that writes a setting.
//!
//! A setting is a kernel file with one value. The kernel often shows more than it accepts (`always
//! [madvise] never`) or uses another notation. Values are therefore compared in the form that
//! [`TunableMachine::current_value`] returns. A root folder other than `/` simulates a machine. Its
//! file `answers` defines how the simulated kernel responds. In tests of robustness, a simulated
//! machine can also kill the tuner at a given step.

use crate::environment::file_tree::FileTree;
use crate::environment::system::{self, format_cpu_list, parse_cpu_list};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::process::{Signal, geteuid, getpid, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine whose settings can be changed.
#[derive(Debug)]
pub struct TunableMachine {
    pub(super) tree: FileTree,
    pub(super) root: PathBuf,
    /// Responses of a simulated kernel to writes to these paths.
    answers: Vec<(String, SimulatedResponse)>,
    steps_left: Option<AtomicU32>,
}

/// Response of a simulated kernel to a write.
#[derive(Debug)]
enum SimulatedResponse {
    /// The write fails.
    Error(Errno),
    /// The kernel rejects this value.
    Refuses(String),
    /// After a write, the file contains this value instead of the written one.
    Holds(String),
    /// A write also changes another file, given by its path and its new value.
    Also(String, String),
}

impl TunableMachine {
    /// Opens this machine (`/`) or a folder that simulates a machine. On a simulated machine, the
    /// `dies_at`-th call of `test_step` (counting from 1) kills this process; `None` means that no
    /// call does so.
    ///
    /// # Errors
    /// Fails if the folder's `answers` cannot be parsed.
    pub fn open(root: &Path, dies_at: Option<u32>) -> io::Result<TunableMachine> {
        let is_real = root == Path::new("/");
        let answers = match fs::read_to_string(root.join("answers")) {
            Ok(text) if !is_real => text.lines().map(parse_answer).collect::<io::Result<_>>()?,
            _ => Vec::new(),
        };
        Ok(TunableMachine {
            tree: FileTree::with_root(root),
            root: root.to_owned(),
            answers,
            steps_left: dies_at.filter(|_| !is_real).map(AtomicU32::new),
        })
    }

    /// Whether the machine is simulated by a folder.
    fn is_rehearsal(&self) -> bool {
        self.root != Path::new("/")
    }

    /// Whether this process is permitted to change settings.
    pub fn may_change(&self) -> bool {
        self.is_rehearsal() || geteuid().is_root()
    }

    pub(super) fn explain_absent(&self) -> String {
        match system::detect_hypervisor(&self.tree) {
            Some(kind) => format!("controlled by the host (hypervisor {kind})"),
            None => "not on this machine".to_owned(),
        }
    }

    pub(super) fn explain_refusal(&self, error: &io::Error) -> String {
        let is_inside = system::detect_container(&self.tree).is_some();
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) if is_inside => {
                "read-only in this container: change it on the host".to_owned()
            }
            Some(Errno::ROFS) => "read-only here".to_owned(),
            Some(Errno::ACCESS | Errno::PERM) => "the kernel does not allow it".to_owned(),
            Some(Errno::IO) => "the device does not support it".to_owned(),
            Some(Errno::BUSY) => "in use by something else".to_owned(),
            Some(Errno::INVAL) => "the kernel does not accept this value here".to_owned(),
            _ => error.to_string(),
        }
    }

    /// Returns the value of a setting in the form that the kernel accepts; `None` if the setting
    /// does not exist.
    pub(super) fn current_value(&self, path: &str) -> Option<String> {
        if let Some(service) = self.service_name(path) {
            let answer = Command::new("systemctl").args(["is-active", service]).output();
            return Some(String::from_utf8_lossy(&answer.ok()?.stdout).trim().to_owned());
        }
        if self.tree.resolve(path).is_dir() {
            return Some(String::new());
        }
        Some(to_input_form(path, &self.tree.read_text(path)?))
    }

    /// Checks, without writing, that an existing setting can be changed.
    pub(super) fn check_writable(&self, path: &str) -> Result<(), io::Error> {
        if self.service_name(path).is_some() {
            return Ok(());
        }
        let file = self.tree.resolve(path);
        if let Some(SimulatedResponse::Error(error @ (Errno::ACCESS | Errno::ROFS))) =
            self.find_answer(path)
        {
            return Err((*error).into());
        }
        if statvfs(&file)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(Errno::ROFS.into());
        }
        if fs::metadata(&file)?.permissions().mode() & 0o222 == 0 {
            return Err(Errno::ACCESS.into());
        }
        Ok(())
    }

    /// Changes a setting, or creates or removes a control group. No other function in this program
    /// does so.
    ///
    /// # Errors
    /// Fails with the kernel's error, or with systemctl's message if the setting is a service.
    pub(super) fn write_setting(&self, path: &str, change: SettingChange<'_>) -> io::Result<()> {
        self.test_step();
        if let Some(SimulatedResponse::Error(error)) = self.find_answer(path) {
            return Err((*error).into());
        }
        let file = self.tree.resolve(path);
        match change {
            SettingChange::Value(value) if self.service_name(path).is_some() => {
                switch_service(&path[SERVICE_PREFIX.len()..], value)?;
            }
            SettingChange::Value(value) => {
                let written_value = match self.find_answer(path) {
                    Some(SimulatedResponse::Refuses(refused)) if refused == value => {
                        return Err(Errno::INVAL.into());
                    }
                    Some(SimulatedResponse::Holds(other)) => other,
                    _ => value,
                };
                let mut file = OpenOptions::new().write(true).truncate(true).open(file)?;
                // The kernel takes one value per call of write(2), so there is only one call. The
                // newline is needed because an empty write would not reach the kernel.
                file.write_all(format!("{written_value}\n").as_bytes())?;
            }
            SettingChange::Make => fs::create_dir(file)?,
            // On a real machine, the files in a group disappear with its folder. In a simulated
            // group, they must be removed, too.
            SettingChange::Remove if self.is_rehearsal() => return fs::remove_dir_all(file),
            SettingChange::Remove => return fs::remove_dir(file),
        }
        for (_, response) in self.answers.iter().filter(|(written, _)| written == path) {
            if let SimulatedResponse::Also(other, value) = response {
                fs::write(self.tree.resolve(other), format!("{value}\n"))?;
            }
        }
        self.test_step();
        Ok(())
    }

    /// Returns the service whose state a setting represents; `None` if the setting is a file. On a
    /// simulated machine, all settings are files.
    fn service_name<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(SERVICE_PREFIX).filter(|_| !self.is_rehearsal())
    }

    /// Kills this process if a test chose this call with `dies_at` ([`Self::open`]).
    pub(super) fn test_step(&self) {
        if let Some(steps_left) = &self.steps_left
            && steps_left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    fn find_answer(&self, path: &str) -> Option<&SimulatedResponse> {
        let answer = self.answers.iter().find(|(written, _)| written == path);
        answer.map(|(_, response)| response)
    }
}

/// Path prefix of settings that represent the state of a service instead of a file.
pub(super) const SERVICE_PREFIX: &str = "service:";

/// Starts or stops a service (systemctl(1)).
fn switch_service(service: &str, value: &str) -> io::Result<()> {
    let verb = if value == "active" { "start" } else { "stop" };
    let output = Command::new("systemctl").args([verb, service]).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[derive(Debug, Clone, Copy)]
pub(super) enum SettingChange<'a> {
    Value(&'a str),
    Make,
    Remove,
}

/// Parses a line of `answers`: `PATH ERROR` (such as `PATH EIO`), `PATH refuses VALUE`, `PATH holds
/// TEXT` or `PATH also PATH TEXT`.
fn parse_answer(line: &str) -> io::Result<(String, SimulatedResponse)> {
    let fields: Vec<&str> = line.splitn(4, ' ').collect();
    let response = match fields[..] {
        [_, "EACCES"] => SimulatedResponse::Error(Errno::ACCESS),
        [_, "EROFS"] => SimulatedResponse::Error(Errno::ROFS),
        [_, "EIO"] => SimulatedResponse::Error(Errno::IO),
        [_, "EBUSY"] => SimulatedResponse::Error(Errno::BUSY),
        [_, "refuses", value] => SimulatedResponse::Refuses(value.to_owned()),
        [_, "holds", ..] => SimulatedResponse::Holds(fields[2..].join(" ")),
        [_, "also", other, text] => SimulatedResponse::Also(other.to_owned(), text.to_owned()),
        _ => return Err(io::Error::other(format!("cannot parse simulated answer '{line}'"))),
    };
    Ok((fields[0].to_owned(), response))
}

/// Whether two values of a setting are equal. Processor masks are compared without regard to
/// commas, leading zeros and the case of digits.
pub(super) fn is_same(path: &str, first: &str, second: &str) -> bool {
    let digits = |mask: &str| mask.replace(',', "").trim_start_matches('0').to_lowercase();
    first == second || path.ends_with("/default_smp_affinity") && digits(first) == digits(second)
}

/// Converts a value from the kernel's output form to its input form.
fn to_input_form(path: &str, kernel_value: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "smp_affinity_list" | "cpuset.cpus" | "cpuset.mems" => {
            format_cpu_list(&parse_cpu_list(kernel_value))
        }
        // The kernel shows a list of enabled controllers, but accepts changes such as `+cpuset`.
        "cgroup.subtree_control" => {
            let is_on = kernel_value.split(' ').any(|word| matches!(word, "cpuset" | "+cpuset"));
            if is_on { "+cpuset" } else { "-cpuset" }.to_owned()
        }
        _ => {
            let choice = kernel_value.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            choice.map_or(kernel_value, |(choice, _)| choice).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake;

    #[test]
    fn kernel_output_is_converted_to_the_form_that_the_kernel_accepts() {
        for (path, shown, written) in [
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never", "madvise"),
            ("/proc/irq/9/smp_affinity_list", "3,0-1", "0-1,3"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "cpuset memory", "+cpuset"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "memory", "-cpuset"),
            ("/proc/sys/vm/swappiness", "60", "60"),
        ] {
            assert_eq!(to_input_form(path, shown), written, "{path}");
        }
        let mask = "/proc/irq/default_smp_affinity";
        assert!(is_same(mask, "00000002,0000000F", "2,0000000f") && !is_same(mask, "1f", "f"));
        assert!(!is_same("/proc/sys/vm/swappiness", "01", "1"));
    }

    #[test]
    fn a_fake_machine_simulates_the_responses_of_the_kernel() {
        let folder = fake::machine(&[
            ("/a", "1\n"),
            ("/b", "1\n"),
            ("/c", "1\n"),
            ("/answers", "/a EIO\n/b holds isolated invalid (no cpu)\n/c also /a 7\n"),
        ]);
        let machine = TunableMachine::open(folder.0.path(), None).unwrap();
        let error = machine.write_setting("/a", SettingChange::Value("2")).unwrap_err();
        assert_eq!(machine.explain_refusal(&error), "the device does not support it");
        machine.write_setting("/b", SettingChange::Value("isolated")).unwrap();
        assert_eq!(machine.current_value("/b").unwrap(), "isolated invalid (no cpu)");
        machine.write_setting("/c", SettingChange::Value("2")).unwrap();
        assert_eq!(machine.current_value("/a").as_deref(), Some("7"));
        let missing = machine.write_setting("/d", SettingChange::Value("2")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "no file is created");
    }
}
