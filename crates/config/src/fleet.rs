//! Reads `fleet.toml`, which lists the machines of a fleet and names the engine that provides them.
//!
//! This module decides what the file may contain and where it is found; other code checks whether a
//! machine responds. Values are checked so that none can be taken for an option or be interpreted
//! by a shell. Start at [`FleetFile::find`].

use super::file_part::{self, FilePart, nearest_hint};
use super::labels::is_name;
use super::project;
use anyhow::{Context, Result};
use serde::Deserialize;
use speedwell_model::parse_duration;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Name of the file.
pub const FLEET_FILE_NAME: &str = "fleet.toml";

/// What provides machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// An OpenSSH connection to each machine.
    Ssh,
    /// The Slurm queue.
    Slurm,
    /// This machine under several names, for trying out a fleet. The names are used one after the
    /// other.
    Local,
}

/// A fleet as described by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFile {
    /// Path of the file.
    pub file: PathBuf,
    /// What provides machines.
    pub engine: EngineKind,
    /// Folder shared by all machines and this one.
    pub folder: Option<PathBuf>,
    /// Options of Slurm.
    pub slurm: SlurmOptions,
    /// File that replaces `~/.ssh/config`.
    pub ssh_config: Option<PathBuf>,
    /// Declared machines.
    pub machines: Vec<MachineEntry>,
}

/// Options of Slurm allocations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Partition.
    pub partition: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Reservation.
    pub reservation: Option<String>,
    /// Time limit of a job.
    pub time: Option<Duration>,
    /// Processor frequencies, as in Slurm's `--cpu-freq`.
    pub cpu_freq: Option<String>,
    /// Number of cores reserved for the system.
    pub core_spec: Option<u16>,
}

/// One `[[machine]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineEntry {
    /// Host for ssh, node for Slurm.
    pub name: String,
    /// Labels, which several machines may share.
    pub labels: Vec<String>,
    /// Folder for Speedwell's files on the machine.
    pub folder: Option<PathBuf>,
    /// Path of a Speedwell executable on the machine. Needed if the machine cannot run a copy of
    /// this executable, which would otherwise be sent to it.
    pub binary: Option<PathBuf>,
    /// Address at which other machines reach the machine, if it differs from the address used here.
    pub address: Option<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetKeys {
    engine: EngineKind,
    folder: Option<String>,
    partition: Option<String>,
    account: Option<String>,
    reservation: Option<String>,
    time: Option<String>,
    cpu_freq: Option<String>,
    core_spec: Option<u16>,
    ssh_config: Option<PathBuf>,
    #[serde(default)]
    machine: Vec<MachineKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineKeys {
    name: String,
    #[serde(default)]
    labels: Vec<String>,
    folder: Option<String>,
    binary: Option<String>,
    address: Option<String>,
}

/// Keys that only Slurm supports.
const SLURM_KEYS: [&str; 6] =
    ["partition", "account", "reservation", "time", "cpu_freq", "core_spec"];

impl FleetFile {
    /// Finds the file in the nearest folder from `cwd` up to the root of the project. If there is
    /// none, reads the user's file in the folder `settings`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is invalid.
    pub fn find(cwd: &Path, settings: Option<&Path>) -> Result<Option<FleetFile>> {
        let root = project::project_root(cwd).unwrap_or(cwd);
        let folders = cwd.ancestors().take_while(|folder| folder.starts_with(root));
        let mut candidates = folders.chain(settings).map(|folder| folder.join(FLEET_FILE_NAME));
        let found = candidates.find(|file| file.is_file());
        found.map(|file| FleetFile::read(&file)).transpose()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is invalid.
    pub fn read(file: &Path) -> Result<FleetFile> {
        let read = || FleetFile::parse(file, &std::fs::read_to_string(file)?);
        read().with_context(|| format!("in '{}'", file.display()))
    }

    fn parse(file: &Path, text: &str) -> Result<FleetFile> {
        let tree = file_part::parse_toml(text)?;
        let top = FilePart::top(&tree);
        let keys: FleetKeys = top.read_part()?;
        if keys.engine != EngineKind::Slurm {
            if let Some(key) = SLURM_KEYS.iter().find(|key| top.has(key)) {
                return Err(
                    top.error_at_key(key, format!("the key '{key}' requires engine = \"slurm\""))
                );
            }
            if keys.machine.is_empty() {
                let hint = "[[machine]]\nname = \"lab-1\"";
                return Err(top.error_at_key(
                    "engine",
                    format!("this engine requires machines, but the file lists none\nhint: {hint}"),
                ));
            }
        }
        if keys.engine != EngineKind::Ssh && top.has("ssh_config") {
            let message = "the key 'ssh_config' requires engine = \"ssh\"";
            return Err(top.error_at_key("ssh_config", message));
        }
        let folder = check_folder(&top, "folder", keys.folder)?;
        let slurm = SlurmOptions {
            partition: check_optional_name(&top, "partition", keys.partition)?,
            account: check_optional_name(&top, "account", keys.account)?,
            reservation: check_optional_name(&top, "reservation", keys.reservation)?,
            time: parse_time(&top, keys.time)?,
            cpu_freq: check_frequencies(&top, keys.cpu_freq)?,
            core_spec: keys.core_spec,
        };
        let resolve = |path: PathBuf| file.parent().unwrap_or(Path::new("")).join(path);
        Ok(FleetFile {
            file: file.to_owned(),
            engine: keys.engine,
            folder,
            slurm,
            ssh_config: keys.ssh_config.map(resolve),
            machines: read_machines(&top, keys.machine)?,
        })
    }
}

fn read_machines(top: &FilePart<'_>, tables: Vec<MachineKeys>) -> Result<Vec<MachineEntry>> {
    let mut machines: Vec<MachineEntry> = Vec::new();
    for (part, keys) in top.list_items("machine").iter().zip(tables) {
        let is_known = machines.iter().any(|other| other.name == keys.name);
        if is_known {
            return Err(part.value_error(
                "name",
                format!("repeats the name of another machine: '{}'", keys.name),
            ));
        }
        machines.push(MachineEntry {
            folder: check_folder(part, "folder", keys.folder)?,
            binary: check_folder(part, "binary", keys.binary)?,
            address: parse_address(part, keys.address)?,
            name: check_name(part, "name", keys.name)?,
            labels: (keys.labels.into_iter())
                .map(|label| check_name(part, "labels", label))
                .collect::<Result<_>>()?,
        });
    }
    Ok(machines)
}

fn check_optional_name(
    part: &FilePart<'_>,
    key: &str,
    text: Option<String>,
) -> Result<Option<String>> {
    text.map(|text| check_name(part, key, text)).transpose()
}

fn check_name(part: &FilePart<'_>, key: &str, text: String) -> Result<String> {
    if is_name(&text) {
        return Ok(text);
    }
    let hint = match text.split_once('@') {
        Some(_) => "set the user, port and key of a host in ~/.ssh/config",
        None => "use at most 64 letters, digits and . _ -, beginning with a letter or digit",
    };
    Err(part.value_error(key, format!("cannot be '{text}'\nhint: {hint}")))
}

fn parse_address(part: &FilePart<'_>, text: Option<String>) -> Result<Option<IpAddr>> {
    let read = |text: String| {
        let error = |_| {
            part.value_error(
                "address",
                format!("must be an IP address such as \"10.0.0.5\", not '{text}'"),
            )
        };
        text.parse::<IpAddr>().map_err(error)
    };
    text.map(read).transpose()
}

/// Checks that the text is an absolute path without characters that a shell or tar would interpret.
fn check_folder(part: &FilePart<'_>, key: &str, text: Option<String>) -> Result<Option<PathBuf>> {
    let Some(text) = text else { return Ok(None) };
    let path = PathBuf::from(&text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    let is_path =
        |component: Component<'_>| matches!(component, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && text.bytes().all(is_plain) && path.components().all(is_path) {
        return Ok(Some(path));
    }
    let hint = "use an absolute path of letters, digits and . _ - + @, such as /var/tmp/speedwell";
    Err(part.value_error(key, format!("cannot be '{text}'\nhint: {hint}")))
}

fn parse_time(part: &FilePart<'_>, text: Option<String>) -> Result<Option<Duration>> {
    let Some(text) = text else { return Ok(None) };
    let read = parse_duration(&text).filter(|time| *time >= Duration::from_secs(60));
    let error = || {
        part.value_error(
            "time",
            format!("must be a time of at least one minute such as \"2h\", not '{text}'"),
        )
    };
    read.map(Some).ok_or_else(error)
}

/// Checks frequencies like `2000000`, `low-medium`, `performance`: words and numbers joined by `-`
/// and `:`.
fn check_frequencies(part: &FilePart<'_>, text: Option<String>) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-:".contains(&byte);
    let starts_with_word = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if starts_with_word && text.bytes().all(is_plain) {
        return Ok(Some(text));
    }
    let names = ["performance", "powersave", "low", "medium", "high"].map(str::to_owned);
    let hint = nearest_hint(&text, &names);
    Err(part.value_error("cpu_freq", format!("cannot be '{text}'\nhint: {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FleetFile, String> {
        FleetFile::parse(Path::new("/p/fleet.toml"), text).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_ssh_fleet_names_its_machines() {
        let fleet = read(
            "engine = \"ssh\"\nssh_config = \"hosts\"\n[[machine]]\nname = \"lab-1\"\nlabels = [\"lab\", \"zen4\"]\n\
             [[machine]]\nname = \"lab-2\"\nfolder = \"/var/tmp/sw\"\nbinary = \"/opt/speedwell\"",
        )
        .unwrap();
        assert_eq!(fleet.engine, EngineKind::Ssh);
        assert_eq!(fleet.ssh_config, Some("/p/hosts".into()));
        let [first, second] = &fleet.machines[..] else {
            panic!("{fleet:?}");
        };
        assert_eq!((first.name.as_str(), first.labels.join(" ")), ("lab-1", "lab zen4".into()));
        assert_eq!(second.folder, Some("/var/tmp/sw".into()));
        assert_eq!(second.binary, Some("/opt/speedwell".into()));
    }

    #[test]
    fn slurm_needs_no_machines_and_takes_options() {
        let fleet = read(
            "engine = \"slurm\"\nfolder = \"/shared/speedwell\"\npartition = \"bench\"\ntime = \"2h\"\n\
             cpu_freq = \"high:performance\"\ncore_spec = 1",
        )
        .unwrap();
        assert_eq!(fleet.folder, Some("/shared/speedwell".into()));
        assert_eq!(fleet.slurm.partition.as_deref(), Some("bench"));
        assert_eq!(fleet.slurm.time, Some(Duration::from_secs(7200)));
        assert_eq!(fleet.slurm.cpu_freq.as_deref(), Some("high:performance"));
        assert_eq!(fleet.slurm.core_spec, Some(1));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let ssh = |rest: &str| format!("engine = \"ssh\"\n[[machine]]\nname = \"a\"\n{rest}");
        for (text, expected) in [
            ("", "has no key 'engine'"),
            ("engine = \"ray\"", "'ray'"),
            ("engine = \"ssh\"", "but the file lists none"),
            ("engine = \"ssh\"\npartition = \"x\"", "line 2: the key 'partition' requires engine"),
            ("engine = \"slurm\"\nssh_config = \"x\"", "line 2: the key 'ssh_config' requires"),
            ("engine = \"slurm\"\npartitoin = \"x\"", "did you mean 'partition'?"),
            ("engine = \"slurm\"\ntime = \"soon\"", "line 2: the key 'time'"),
            ("engine = \"slurm\"\ncpu_freq = \"$(id)\"", "line 2: the key 'cpu_freq'"),
            ("engine = \"slurm\"\npartition = \"--uid=0\"", "cannot be '--uid=0'"),
            (&ssh("lables = []"), "did you mean 'labels'?"),
            (&ssh("labels = [\"a b\"]"), "cannot be 'a b'"),
            (&ssh("folder = \"tmp\""), "an absolute path"),
            (&ssh("folder = \"/tmp/../etc\""), "an absolute path"),
            (&ssh("folder = \"/tmp/$(id)\""), "an absolute path"),
            (&ssh("[[machine]]\nname = \"a\""), "line 5: the key 'name'"),
            (&ssh("[[machine]]\nname = \"-oProxyCommand=x\""), "line 5"),
            (&ssh("[[machine]]\nname = \"me@b\""), "of a host in ~/.ssh/config"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn the_projects_fleet_file_takes_precedence_over_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let (project, user) = (folder.path().join("project"), folder.path().join("user"));
        let inside = project.join("a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&user).unwrap();
        std::fs::write(project.join("speedwell.toml"), "").unwrap();
        std::fs::write(folder.path().join(FLEET_FILE_NAME), "engine = \"slurm\"").unwrap();
        let find = || FleetFile::find(&inside, Some(&user)).unwrap();
        assert_eq!(find(), None);
        std::fs::write(user.join(FLEET_FILE_NAME), "engine = \"slurm\"").unwrap();
        assert_eq!(find().unwrap().file, user.join(FLEET_FILE_NAME));
        std::fs::write(project.join(FLEET_FILE_NAME), "engine = \"slurm\"\npartition = \"p\"")
            .unwrap();
        assert_eq!(find().unwrap().file, project.join(FLEET_FILE_NAME));
    }
}
