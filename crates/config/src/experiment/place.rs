//! Reads `[[service]]`, which defines the services that a target needs, and `[place]`, which
//! assigns machines of a fleet to the roles of an experiment: target, services and load.
//!
//! This module decides what a file may contain; other code chooses the machines. Values that are
//! known only when a run begins stay placeholders: `{host}`, `{target.host}`, `{NAME.host}` and
//! `{NAME.port}`. Start at [`resolve_placement`].

use super::target::{CommandText, EnvironmentKeys, StopKeys};
use crate::file_part::{self, FilePart, NodePath, TreeNode, nearest_hint};
use crate::fleet::MachineSelector;
use crate::placeholders;
use crate::value::{DeferredValue, DurationValue, PositiveCount, TextOrTable, checked};
use anyhow::{Result, bail, ensure};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{BackingService, LoadWarmup, ServerWork, ServiceScope};
use speedwell_model::experiment::{BenchmarkGroup, GroupKind};
use speedwell_model::load::spec::LoadClient;
use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

/// Matches placeholders such as `{db.host}`: the name of a service, a dot, and a property.
static SERVICE_PLACEHOLDER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{([A-Za-z_][\w-]*)\.(host|port)\}").ok());
/// URL of a target that runs on the same machine as its load generator.
const LOCAL_TARGET_URL: &str = "http://127.0.0.1:{port}";

/// Machines for the roles of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePlacement {
    /// The target first, then services with a machine of their own, then the load.
    pub roles: Vec<PlacedRole>,
    /// First and last port of the range from which free ports are chosen; `None` for any free port.
    pub ports: Option<(u16, u16)>,
}

/// A role that has machines of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRole {
    /// `target`, `load`, or the name of a service.
    pub name: String,
    /// Selects the machines on which the role may run.
    pub on: MachineSelector,
    /// Number of machines.
    pub machines: u32,
}

/// Machines of the fleet for each role: names and labels joined by `&`, `|`, `!` and brackets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceKeys {
    /// Machine of the target.
    target: LabelsKey,
    /// Machines of the load generators: { on = "load", machines = 2 }, or a string for one machine.
    load: TextOrTable<LabelsKey, LoadMachines>,
    /// Range of {port}: "20000-20999". Default: any free port.
    ports: Option<PortRange>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadMachines {
    /// Machines to choose from.
    on: LabelsKey,
    /// Number of machines. Default: 1.
    machines: Option<PositiveCount>,
}

checked! {
    /// Names and labels.
    struct LabelsKey(MachineSelector) from String as { "type": "string" },
    |text| text.parse::<MachineSelector>().map_err(|error| format!(": {error:#}"))
}

checked! {
    #[derive(Copy)]
    struct PortRange((u16, u16)) from String as { "type": "string", "pattern": r"^\d+ ?- ?\d+$" },
    |text| {
        let ends = text.split_once('-').and_then(|(first, last)| {
            Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
        });
        let error = || format!(": cannot parse port range '{text}'\nhint: \"20000-20999\"");
        ends.filter(|(first, last)| 0 < *first && first <= last).ok_or_else(error)
    }
}

/// A program on which targets depend, such as a database. It starts before the target, either for
/// each run or once for several runs.
// Read twice: when the file is read, and then for each case, with its placeholders filled.
#[expect(dead_code, reason = "some keys are read only with their placeholders filled")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceKeys {
    /// Name of the service: others reach it at {NAME.host} and {NAME.port}.
    name: String,
    /// Machine of the fleet that it runs on, if [place] is given. Default: the target's.
    on: Option<LabelsKey>,
    /// A list of arguments, or a line that is split into arguments; no shell is involved. {port} is
    /// its port, {host} its address.
    pub(super) command: CommandText,
    /// Working directory, below the folder of the file. Default: that folder.
    pub(super) cwd: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub(super) env: EnvironmentKeys,
    /// When the service is ready: with { command = [...], within = "30s" }, when the command
    /// succeeds; with only a time limit, when the service listens on its port.
    ready: Option<DeferredValue<ServiceReadyKeys>>,
    /// How it is stopped: { signal = "SIGINT", grace = "2s" }.
    stop: Option<DeferredValue<StopKeys>>,
    /// Lifetime: with "run", each run starts the service anew; with "block", all runs of the same
    /// case within a block (one round of runs in random order) share it; with "session", all runs
    /// do. Default: "run".
    scope: Option<ScopeKey>,
}

/// Lifetime of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ScopeKey {
    /// Each run starts it anew.
    Run,
    /// All runs of the same case within a block share it.
    Block,
    /// All runs of a session share it.
    Session,
}

impl ScopeKey {
    fn to_scope(self) -> ServiceScope {
        match self {
            ScopeKey::Run => ServiceScope::Run,
            ScopeKey::Block => ServiceScope::Block,
            ScopeKey::Session => ServiceScope::Session,
        }
    }
}

pub(super) type ServiceReadyKeys = TextOrTable<DurationValue, AskedKeys>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedKeys {
    /// Command that succeeds when the service is ready. Without one, listening suffices.
    pub(super) command: Option<CommandText>,
    /// Time limit. Default: "30s".
    pub(super) within: Option<DurationValue>,
}

/// A service as declared in the file; its placeholders are filled for each case.
#[derive(Debug, Clone)]
pub struct DeclaredService {
    pub(super) name: String,
    on: Option<MachineSelector>,
    pub(super) scope: ServiceScope,
    pub(super) place: NodePath,
    pub(super) node: TreeNode,
}

/// Reads the services of a file.
pub fn read_services(top: &FilePart, is_placed: bool) -> Result<Vec<DeclaredService>> {
    let mut found: Vec<DeclaredService> = Vec::new();
    for part in top.list_items("service") {
        let keys: ServiceKeys = part.read_part()?;
        let name = keys.name;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name || ["target", "load"].contains(&name.as_str()) {
            let message = format!("a service cannot be named '{name}'");
            let hint = "use letters, digits and _, beginning with a letter; 'target' and 'load' \
                        are reserved";
            return Err(part.error_at_key("name", format!("{message}\nhint: {hint}")));
        }
        if found.iter().any(|known| known.name == name) {
            return Err(part.error_at_key("name", format!("two services have the name '{name}'")));
        }
        if keys.on.is_some() && !is_placed {
            let hint = "add [place], which assigns machines to the target and the load";
            let message = format!("'on' requires [place]\nhint: {hint}");
            return Err(part.error_at_key("on", message));
        }
        let scope = keys.scope.map_or(ServiceScope::Run, ScopeKey::to_scope);
        check_scope(scope, &part, &found)?;
        found.push(DeclaredService {
            name,
            on: keys.on.map(|on| on.0),
            scope,
            place: part.place.clone(),
            node: part.node.clone(),
        });
    }
    check_service_placeholders(top, &found)?;
    Ok(found)
}

/// Checks the lifetime of a service. Services start in the order of the file, so no service may
/// outlive a service before it.
fn check_scope(scope: ServiceScope, part: &FilePart, others: &[DeclaredService]) -> Result<()> {
    if scope == ServiceScope::Session && placeholders::uses_placeholder(part.node, "seed") {
        let message = "all runs share this service, but {seed} differs in each block\n\
                       hint: scope = \"block\"";
        return Err(part.error_at_key("scope", message));
    }
    let Some(shorter) = others.last().filter(|other| other.scope < scope) else { return Ok(()) };
    let message = format!(
        "services start in the order of the file, but this service would outlive '{}', which is \
         above it\n\
         hint: put services that live longer first",
        shorter.name
    );
    Err(part.error_at_key("scope", message))
}

/// The first definition of each shared service: by name, and for a block service also by the case
/// that it belongs to (index of the group, index in the group).
pub type SharedServices = HashMap<(String, Option<(usize, usize)>), BackingService>;

/// Adds the services of a run to `shared`. Rejects a service that is shared with an earlier run but
/// was defined differently there.
pub fn share_services(
    shared: &mut SharedServices,
    case: (usize, usize),
    services: Vec<BackingService>,
    declared: &[DeclaredService],
) -> Result<()> {
    for service in services.into_iter().filter(|service| service.scope != ServiceScope::Run) {
        let (case, sharers) = match service.scope {
            ServiceScope::Session => (None, "all runs"),
            _ => (Some(case), "the runs of all variants"),
        };
        let name = service.name.clone();
        let first = shared.entry((name.clone(), case)).or_insert_with(|| service.clone());
        if *first == service {
            continue;
        }
        let declared = declared.iter().find(|service| service.name == name);
        let message = format!(
            "{sharers} share the service '{name}', but its definition differs between them\n\
             hint: make the definitions identical, or remove 'scope'"
        );
        return Err(file_part::error_at_line(declared.and_then(|found| found.node.line), message));
    }
    Ok(())
}

/// Rejects placeholders of services that do not exist.
fn check_service_placeholders(top: &FilePart, services: &[DeclaredService]) -> Result<()> {
    let mut names: Vec<String> = vec!["target.host".to_owned()];
    let placeholders_of = |service: &DeclaredService| {
        [format!("{}.host", service.name), format!("{}.port", service.name)]
    };
    names.extend(services.iter().flat_map(placeholders_of));
    let mut unknown = None;
    top.node.visit_texts(&mut |text| {
        let found = SERVICE_PLACEHOLDER.iter().flat_map(|pattern| pattern.captures_iter(text));
        let mut used = found.map(|found| format!("{}.{}", &found[1], &found[2]));
        unknown = unknown.take().or(used.find(|name| !names.contains(name)));
    });
    let Some(name) = unknown else { return Ok(()) };
    let hint = nearest_hint(&name, names);
    bail!("unknown placeholder '{{{name}}}': no [[service]] has that name\nhint: {hint}")
}

/// Resolves the placement, if the file has one.
pub fn resolve_placement(
    keys: Option<PlaceKeys>,
    top: &FilePart,
    (groups, services): (&[BenchmarkGroup], &[DeclaredService]),
    has_pins: bool,
) -> Result<Option<RolePlacement>> {
    let is_server = |group: &&BenchmarkGroup| group.kind == GroupKind::Server;
    let other = groups.iter().find(|group| !is_server(group));
    if let (Some(group), false) = (other, services.is_empty() && keys.is_none()) {
        let key = if keys.is_some() { "place" } else { "service" };
        let message = format!(
            "'{key}' is for servers, but the group '{}' is not a server\n\
             hint: put the group into its own file",
            group.name
        );
        return Err(top.error_at_key(key, message));
    }
    let Some(keys) = keys else { return Ok(None) };
    if has_pins {
        let message = "'cpus' divides the processors of one machine between target and load, but \
                       [place] gives each its own machine\n\
                       hint: leave out 'cpus' of [plan], or [place]";
        return Err(top.error_at_key("place", message));
    }
    if top.has("profile") {
        let message = "profiles require a single machine\nhint: leave out [profile], or [place]";
        return Err(top.error_at_key("place", message));
    }
    let role = |name: &str, on: MachineSelector, machines: u32| PlacedRole {
        name: name.to_owned(),
        on,
        machines,
    };
    let mut roles = vec![role("target", keys.target.0, 1)];
    for service in services {
        roles.extend(service.on.clone().map(|on| role(&service.name, on, 1)));
    }
    roles.push(match keys.load {
        TextOrTable::Text(on) => role("load", on.0, 1),
        TextOrTable::Table(keys) => {
            role("load", keys.on.0, keys.machines.map_or(1, |count| count.0))
        }
    });
    Ok(Some(RolePlacement { roles, ports: keys.ports.map(|ports| ports.0) }))
}

/// Rejects a folder outside `root`, because only `root` is sent to other machines.
pub(super) fn ensure_below(root: &Path, folder: &Path, owner: &str) -> Result<()> {
    let is_plain = |inside: &Path| {
        inside.components().all(|component| matches!(component, Component::Normal(_)))
    };
    ensure!(
        folder.strip_prefix(root).is_ok_and(is_plain),
        "the folder of {owner}, '{}', is outside the folder of the file, but only the folder of \
         the file is sent to other machines",
        folder.display()
    );
    Ok(())
}

impl RolePlacement {
    /// Adapts a server to this placement, and rejects unsupported settings.
    pub(super) fn adapt_server(
        &self,
        service: &mut ServerWork,
        group: &FilePart,
        (root, folder): (&Path, &Path),
    ) -> Result<()> {
        ensure_below(root, folder, "the target")?;
        let spec = &mut service.load.spec;
        let refusals = [
            (
                service.private_network,
                ("target", "network"),
                "network = \"private\" hides the target from other machines, but [place] puts the \
                 load there\nhint: leave out 'network', or [place]",
            ),
            (
                spec.client != LoadClient::Builtin,
                ("load", "client"),
                "other machines support only the built-in load generator\n\
                 hint: leave out 'client', or [place]",
            ),
            (
                spec.body_file.is_some(),
                ("load", "body_file"),
                "body files are not sent to other machines\n\
                 hint: body = \"...\", or leave out [place]",
            ),
            (
                matches!(service.load.warmup, LoadWarmup::SteadyMs(_)),
                ("load", "warmup"),
                "until = \"steady\" requires a single generator on the server's machine, but [place] \
                 puts the load on other machines\nhint: warmup = { duration = \"10s\" }",
            ),
        ];
        if let Some((_, (table, key), message)) = refusals.into_iter().find(|refusal| refusal.0) {
            let part = group.part(table).unwrap_or_else(|| group.clone());
            return Err(part.error_at_key(key, message));
        }
        // A path without a host refers to the target, on whichever machine the target runs.
        spec.url = spec.url.replacen(LOCAL_TARGET_URL, "http://{target.host}:{port}", 1);
        Ok(())
    }
}
