//! Reads `fleet.toml`, which lists the machines of a fleet and names the engine that provides them.
//!
//! This module decides what the file may contain and where it is found; other code checks whether a
//! machine responds. Values are checked so that none can be taken for an option or be interpreted
//! by a shell. Start at [`FleetFile::find`]; [`MachineSelector`] selects machines.

use super::file_part::{self, FilePart, nearest_hint};
use super::project;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use speedwell_model::parse_duration;
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
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
        let name = |key: &str, text: Option<String>| {
            text.map(|text| check_name(&top, key, text)).transpose()
        };
        let slurm = SlurmOptions {
            partition: name("partition", keys.partition)?,
            account: name("account", keys.account)?,
            reservation: name("reservation", keys.reservation)?,
            time: keys.time.map(|text| parse_time(&top, &text)).transpose()?,
            cpu_freq: keys.cpu_freq.map(|text| check_frequencies(&top, text)).transpose()?,
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
            address: keys.address.map(|text| parse_address(part, &text)).transpose()?,
            name: check_name(part, "name", keys.name)?,
            labels: (keys.labels.into_iter())
                .map(|label| check_name(part, "labels", label))
                .collect::<Result<_>>()?,
        });
    }
    Ok(machines)
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

fn parse_address(part: &FilePart<'_>, text: &str) -> Result<IpAddr> {
    let message = || format!("must be an IP address such as \"10.0.0.5\", not '{text}'");
    text.parse().map_err(|_| part.value_error("address", message()))
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

fn parse_time(part: &FilePart<'_>, text: &str) -> Result<Duration> {
    let time = parse_duration(text).filter(|time| *time >= Duration::from_secs(60));
    let message = || format!("must be a time of at least one minute such as \"2h\", not '{text}'");
    time.ok_or_else(|| part.value_error("time", message()))
}

/// Checks frequencies like `2000000`, `low-medium`, `performance`: words and numbers joined by `-`
/// and `:`.
fn check_frequencies(part: &FilePart<'_>, text: String) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-:".contains(&byte);
    let starts_with_word = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if starts_with_word && text.bytes().all(is_plain) {
        return Ok(text);
    }
    let hint = nearest_hint(&text, ["performance", "powersave", "low", "medium", "high"]);
    Err(part.value_error("cpu_freq", format!("cannot be '{text}'\nhint: {hint}")))
}

// Selects machines of a fleet by an expression of names and labels, such as `a & !(b | c)`. The
// grammar, from lowest to highest precedence: `a | b`, `a & b`, `!a`, `( ... )`.

/// Maximum length of the name of a machine or label.
const MAX_NAME_LENGTH: usize = 64;
/// Maximum nesting of brackets and `!`.
const MAX_NESTING: usize = 32;

/// Whether `text` can name a machine or a label. A name consists of letters, digits, `.`, `_` and
/// `-`, and begins with a letter or digit. Such a name cannot be mistaken for a command-line
/// option, and a shell does not change it.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= MAX_NAME_LENGTH
        && text.bytes().all(is_inner)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// A selection of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineSelector {
    /// Machines with this name or label.
    Name(String),
    /// Machines outside this selection.
    Not(Box<MachineSelector>),
    /// Machines in both selections.
    And(Box<MachineSelector>, Box<MachineSelector>),
    /// Machines in either selection.
    Or(Box<MachineSelector>, Box<MachineSelector>),
}

impl MachineSelector {
    /// Whether the selection contains a machine; `has` tells whether the machine has the given name
    /// or label.
    pub fn matches_machine(&self, has: &dyn Fn(&str) -> bool) -> bool {
        match self {
            MachineSelector::Name(name) => has(name),
            MachineSelector::Not(inner) => !inner.matches_machine(has),
            MachineSelector::And(left, right) => {
                left.matches_machine(has) && right.matches_machine(has)
            }
            MachineSelector::Or(left, right) => {
                left.matches_machine(has) || right.matches_machine(has)
            }
        }
    }

    /// Returns every name in the selector, in order of appearance.
    pub fn label_names(&self) -> Vec<&str> {
        match self {
            MachineSelector::Name(name) => vec![name],
            MachineSelector::Not(inner) => inner.label_names(),
            MachineSelector::And(left, right) | MachineSelector::Or(left, right) => {
                [left.label_names(), right.label_names()].concat()
            }
        }
    }

    /// Checks that all names in the selector are known.
    ///
    /// # Errors
    /// Fails if a name is not in `known`; the message suggests known ones.
    pub fn ensure_known(&self, known: &[String]) -> Result<()> {
        let is_unknown = |name: &&str| !known.iter().any(|known| known == name);
        if let Some(name) = self.label_names().into_iter().find(is_unknown) {
            let hint = nearest_hint(name, known);
            bail!("unknown machine or label '{name}'\nhint: {hint}");
        }
        Ok(())
    }
}

impl FromStr for MachineSelector {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<MachineSelector> {
        let mut parser = LabelParser { rest: text, depth: 0 };
        let labels = parser.parse_or()?;
        match parser.next_word() {
            "" => Ok(labels),
            word => bail!("unexpected '{word}': expected & or | between names"),
        }
    }
}

impl fmt::Display for MachineSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |labels: &MachineSelector| match labels {
            MachineSelector::Name(_) | MachineSelector::Not(_) => labels.to_string(),
            _ => format!("({labels})"),
        };
        match self {
            MachineSelector::Name(name) => f.write_str(name),
            MachineSelector::Not(negated) => write!(f, "!{}", inner(negated)),
            MachineSelector::And(left, right) => write!(f, "{} & {}", inner(left), inner(right)),
            MachineSelector::Or(left, right) => write!(f, "{} | {}", inner(left), inner(right)),
        }
    }
}

struct LabelParser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> LabelParser<'a> {
    /// Returns the next operator or name; an empty string at the end.
    fn peek_word(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let length = match rest.find(|c: char| c.is_whitespace() || "&|!()".contains(c)) {
            Some(0) => 1,
            end => end.unwrap_or(rest.len()),
        };
        &rest[..length]
    }

    fn next_word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.rest = &self.rest.trim_start()[word.len()..];
        word
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        let is_next = self.peek_word() == operator;
        if is_next {
            self.next_word();
        }
        is_next
    }

    fn parse_or(&mut self) -> Result<MachineSelector> {
        let mut labels = self.parse_and()?;
        while self.take_operator("|") {
            labels = MachineSelector::Or(Box::new(labels), Box::new(self.parse_and()?));
        }
        Ok(labels)
    }

    fn parse_and(&mut self) -> Result<MachineSelector> {
        let mut labels = self.parse_not()?;
        while self.take_operator("&") {
            labels = MachineSelector::And(Box::new(labels), Box::new(self.parse_not()?));
        }
        Ok(labels)
    }

    fn parse_not(&mut self) -> Result<MachineSelector> {
        self.depth += 1;
        ensure!(self.depth <= MAX_NESTING, "parentheses and ! are nested too deeply");
        let labels = match self.next_word() {
            "!" => MachineSelector::Not(Box::new(self.parse_not()?)),
            "(" => {
                let inner = self.parse_or()?;
                ensure!(self.take_operator(")"), "a parenthesis is not closed");
                inner
            }
            operator @ ("&" | "|" | ")") => bail!("expected a name before '{operator}'"),
            "" => bail!("expected a name at the end"),
            name => {
                ensure!(
                    is_name(name),
                    "cannot parse machine name '{name}'\n\
                     hint: names consist of letters, digits and . _ - and are joined by & | ! ( )"
                );
                MachineSelector::Name(name.to_owned())
            }
        };
        self.depth -= 1;
        Ok(labels)
    }
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

    fn selected_indices(text: &str, machines: &[&[&str]]) -> Vec<usize> {
        let labels: MachineSelector = text.parse().unwrap();
        let fits = |names: &[&str]| labels.matches_machine(&|name| names.contains(&name));
        (0..machines.len()).filter(|index| fits(machines[*index])).collect()
    }

    #[test]
    fn machines_are_selected_by_name_or_label() {
        let machines: [&[&str]; 3] = [&["a", "lab", "zen4"], &["b", "lab"], &["c", "load"]];
        assert_eq!(selected_indices("lab", &machines), [0, 1]);
        assert_eq!(selected_indices("lab & zen4", &machines), [0]);
        assert_eq!(selected_indices("lab&!zen4", &machines), [1]);
        assert_eq!(selected_indices("b | c", &machines), [1, 2]);
        assert_eq!(selected_indices("!(lab | load)", &machines), [] as [usize; 0]);
        // & has higher precedence than |.
        assert_eq!(selected_indices("load | lab & zen4", &machines), [0, 2]);
        assert_eq!(selected_indices("(load | lab) & zen4", &machines), [0]);
        assert_eq!(selected_indices("!!lab", &machines), [0, 1]);
    }

    #[test]
    fn printed_selectors_parse_to_the_same_selector() {
        for text in ["a", "!a & b | c", "a & (b | !c)", "!(a | b) & !c"] {
            let labels: MachineSelector = text.parse().unwrap();
            assert_eq!(labels.to_string().parse::<MachineSelector>().unwrap(), labels, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused_with_the_unexpected_part() {
        let deep = "!".repeat(100) + "a";
        for (text, expected) in [
            ("", "expected a name at the end"),
            ("a &", "expected a name at the end"),
            ("& a", "expected a name before '&'"),
            ("a b", "unexpected 'b'"),
            ("(a", "a parenthesis is not closed"),
            ("a)", "unexpected ')'"),
            ("-oProxyCommand=x", "machine name '-oProxyCommand=x'"),
            ("$(id)", "machine name '$'"),
            ("a;b", "machine name 'a;b'"),
            (&deep, "nested too deeply"),
        ] {
            let error = text.parse::<MachineSelector>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_known_name() {
        let known = ["lab", "zen4"].map(str::to_owned);
        let labels: MachineSelector = "lab & !zen5".parse().unwrap();
        let error = labels.ensure_known(&known).unwrap_err().to_string();
        assert_eq!(error, "unknown machine or label 'zen5'\nhint: did you mean 'zen4'?");
        assert!("lab".parse::<MachineSelector>().unwrap().ensure_known(&known).is_ok());
    }

    #[test]
    fn names_cannot_be_options_or_contain_shell_syntax() {
        for name in ["a", "lab-3", "node.example.org", "7", "zen4_fast"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-o", ".a", "a b", "a;b", "a'b", "ä", "a/b", "a\n", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
