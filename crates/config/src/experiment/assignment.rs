//! Builds the assignment of one run from the sections of a group ([`GroupSource`]), for one case and
//! one variant. Fills all placeholders whose values are known before the run, and applies the
//! changes of the variant to the target: its command, directory and environment
//! ([`environment_changes`]). Start at [`Experiment::assignment`] or, for loads defined as
//! `[benchmark.NAME]`, at [`Experiment::load_assignment`].

use super::place::{self, DeclaredService, ServiceKeys, ServiceReadyKeys};
use super::target::{
    self, CommandArguments, EnvironmentKeys, StopKeys, TargetKeys, VariableChange, VariableValue,
};
use super::variant::{VariantKeys, VariantSource};
use super::{Experiment, GroupSource, load};
use crate::file_part::{FilePart, NodeContent, NodePath, NodeTable, TreeNode};
use crate::placeholders::{self, PlaceholderMap};
use crate::value::TextOrTable;
use anyhow::{Context, Result, bail, ensure};
use speedwell_model::assignment::{
    AssignedPlace, BackingService, EnvVarChange, RunAssignment, ServiceScope, TargetProgram,
    TargetWork,
};
use speedwell_model::experiment::{BenchmarkGroup, GroupKind, repeated_variant};
use speedwell_model::{Case, as_milliseconds};
use std::path::{Path, PathBuf};

/// Keys of `[group.target]` that only servers have.
const SERVER_KEYS: [&str; 5] = ["port", "network", "ready", "stop", "expect_processes"];

impl Experiment {
    /// Returns the texts of a group.
    fn group_source(&self, group: &BenchmarkGroup) -> Result<&GroupSource> {
        let index = self.groups.iter().position(|other| other.name == group.name);
        let source = index.and_then(|index| self.group_sources.get(index));
        source.with_context(|| format!("unknown group '{}'", group.name))
    }

    /// Returns the texts of a variant.
    fn variant_source(&self, variant: &str) -> Result<&VariantSource> {
        Ok(&self.variant_sources[super::variant::find_variant(&self.variants, variant)?])
    }

    /// Returns the assignment of a run of a case under a variant. `{port}` and `{host}` stay
    /// unexpanded.
    ///
    /// # Errors
    /// Fails if the variant does not exist, or the group consists of benchmark files. All other
    /// errors were reported when the file was read.
    pub fn assignment(
        &self,
        group: &BenchmarkGroup,
        case: &Case,
        variant: &str,
        seed: u64,
    ) -> Result<RunAssignment> {
        let name = &group.name;
        if group.kind == GroupKind::Function {
            bail!("'{name}' consists of benchmark files, which a harness runs");
        }
        let variant = self.variant_source(variant)?;
        if group.kind == GroupKind::Load {
            let variant = self.harness_variant(&variant.name, &|name| std::env::var(name).ok())?;
            return self.load_assignment(group, case, &variant, None);
        }
        let source = self.group_source(group)?;
        let sections = source.sections_of(case);
        let placeholders =
            self.run_placeholders((group.name.as_str(), source), case, variant, seed, &sections)?;
        let filled = placeholders.fill_node(&variant.patch, &variant.place)?;
        let patch_part = FilePart::new(&variant.place, &filled);
        let patch: VariantKeys = patch_part.read_part()?;
        let has_program = has_program(&sections, variant);
        let context = TargetContext { group, case, variant: &variant.name, has_program };
        let unfilled = TreeNode { line: source.line, content: NodeContent::Table(sections) };
        let filled_group = placeholders.fill_node(&unfilled, &source.place)?;
        let part = FilePart::new(&source.place, &filled_group);
        let Some(target_part) = part.part("target") else {
            return Err(part.missing_key("target", "[group.target] with command = [...]"));
        };
        let keys: TargetKeys = target_part.read_part()?;
        let target = self.resolve_target((&keys, &target_part), (&patch, &patch_part), &context)?;
        let is_server = group.kind == GroupKind::Server;
        let work = if is_server {
            self.server_work(&keys, (&part, &target_part), &target.directory)?
        } else {
            refuse_server_keys(&target_part, group)?;
            TargetWork::Command
        };
        let services =
            (self.services.iter()).map(|service| self.resolve_service(service, &placeholders));
        let proofs = load::resolve_proofs(&patch_part, &target.directory, is_server)?;
        Ok(RunAssignment {
            target,
            work,
            proofs,
            figures: target::target_figures(&part)?,
            also: group.also.clone(),
            processors: self.shares,
            profile: None,
            services: services.collect::<Result<_>>()?,
            place: AssignedPlace {
                kept: Vec::new(),
                ports: self.place.as_ref().and_then(|place| place.ports),
                placement: self.placement.as_ref().map(|placement| Box::new(placement.for_a_run())),
            },
        })
    }

    /// Resolves the target with the changes of a variant. The placeholders of both must already be
    /// filled.
    fn resolve_target(
        &self,
        (keys, part): (&TargetKeys, &FilePart),
        (patch, patch_part): (&VariantKeys, &FilePart),
        context: &TargetContext,
    ) -> Result<TargetProgram> {
        let mut environment = environment_changes(&keys.env, part)?;
        environment.extend(environment_changes(&patch.env, patch_part)?);
        let limit = keys.timeout.map_or(self.plan.timeout, |limit| limit.0);
        let parameters = &context.group.parameters;
        Ok(TargetProgram {
            command: resolve_command(keys, part, patch, context)?,
            directory: self.resolve_folder(patch.cwd.as_ref().or(keys.cwd.as_ref())),
            environment,
            expected_exit: target::expected_exit(keys, part, context.case, parameters)?,
            limit_ms: as_milliseconds(limit),
        })
    }

    /// Returns the path of a folder without `.` components; without a folder, the folder of the file.
    fn resolve_folder(&self, folder: Option<&String>) -> PathBuf {
        let join = |folder: &String| self.root.join(folder).components().collect();
        folder.map_or_else(|| self.root.clone(), join)
    }

    /// Returns a service for one run. Fills all placeholders whose values are known before a run.
    fn resolve_service(
        &self,
        declared: &DeclaredService,
        known: &PlaceholderMap,
    ) -> Result<BackingService> {
        let filled = known.fill_node(&declared.node, &declared.place)?;
        let part = FilePart::new(&declared.place, &filled);
        let keys: ServiceKeys = part.read_part()?;
        let stop: StopKeys = part.read_key("stop")?.unwrap_or_default();
        let ready_keys: Option<ServiceReadyKeys> = part.read_key("ready")?;
        let (ready, within) = match ready_keys {
            None => (None, None),
            Some(TextOrTable::Text(time)) => (None, Some(time)),
            Some(TextOrTable::Table(asked)) => {
                (asked.command.map(|command| command.argv()), asked.within)
            }
        };
        let directory = self.resolve_folder(keys.cwd.as_ref());
        if self.place.is_some() {
            let name = format!("the service '{}'", declared.name);
            place::ensure_below(&self.root, &directory, &name)?;
        }
        Ok(BackingService {
            name: declared.name.clone(),
            program: TargetProgram {
                command: keys.command.argv(),
                directory,
                environment: environment_changes(&keys.env, &part)?,
                expected_exit: 0,
                limit_ms: as_milliseconds(self.plan.timeout),
            },
            ready,
            within_ms: target::ready_limit_ms(within),
            stop: stop.resolve_stop(),
            scope: declared.scope,
        })
    }

    /// Rejects a private network if a service outlives the run, and adapts the server to the
    /// placement. `folder` is the working directory of the target.
    fn server_work(
        &self,
        keys: &TargetKeys,
        (group, target): (&FilePart, &FilePart),
        folder: &Path,
    ) -> Result<TargetWork> {
        let mut service = target::resolve_service(keys, group, &self.root)?;
        let outliving = self.services.iter().find(|declared| declared.scope != ServiceScope::Run);
        if let Some(declared) = outliving.filter(|_| service.private_network) {
            let message = format!(
                "network = \"private\" creates a network for one run, but the service '{}' lasts longer\n\
                 hint: leave out 'network', or the service's 'scope'",
                declared.name
            );
            return Err(target.error_at_key("network", message));
        }
        if let Some(place) = &self.place {
            place.adapt_server(&mut service, group, (&self.root, folder))?;
        }
        Ok(TargetWork::Server(Box::new(service)))
    }

    /// Returns the values of placeholders for a case under a variant. A name that the variant
    /// defines hides the same name in `[params]`.
    fn run_placeholders(
        &self,
        (group, source): (&str, &GroupSource),
        case: &Case,
        variant: &VariantSource,
        seed: u64,
        sections: &NodeTable,
    ) -> Result<PlaceholderMap> {
        let mut defined = self.general.clone();
        defined.define_value("seed", seed.to_string());
        defined.defer_value("port");
        defined.defer_value("host");
        defined.set_owner(format!(" in the group '{group}' under the variant '{}'", variant.name));
        case.values.iter().for_each(|(name, value)| defined.define_value(name, value.plain()));
        variant.define_placeholders(&mut defined)?;
        let program = variant.patch.as_table().and_then(|patch| patch.get("program"));
        if let Some((program, line)) = program.and_then(|node| Some((node.as_text()?, node.line))) {
            let program =
                defined.fill_placeholders(program, line, &variant.place.child_key("program"))?;
            defined.define_value("program", program);
        }
        // Unless defined elsewhere, `{path}` is the path that the load requests. Readiness checks
        // can then use it, too.
        if defined.fill_placeholders("{path}", None, &source.place).is_err()
            && let Some(path) = load_path(sections, &defined, &source.place)?
        {
            defined.define_value("path", path);
        }
        Ok(defined)
    }

    /// Returns the variant in the form used by harnesses of benchmark files. A harness can only set
    /// environment variables, not extend them. If the variant extends a variable, `current` looks
    /// up its value in our own environment.
    ///
    /// # Errors
    /// Fails if the variant does not exist, or requires something that a harness cannot do.
    pub fn harness_variant(
        &self,
        variant: &str,
        current: &dyn Fn(&str) -> Option<String>,
    ) -> Result<speedwell_model::Variant> {
        let mut found = self.declared_variant(variant, current)?;
        let default_program = || self.program.clone().map(Into::into);
        found.program = found.program.or_else(default_program);
        Ok(found)
    }

    /// Like [`Experiment::harness_variant`], but without the file's default program.
    ///
    /// # Errors
    /// Fails if the variant does not exist, or requires something that a harness cannot do.
    pub fn declared_variant(
        &self,
        variant: &str,
        current: &dyn Fn(&str) -> Option<String>,
    ) -> Result<speedwell_model::Variant> {
        let variant = self.variant_source(variant)?;
        let mut defined = self.general.clone();
        defined.set_owner(format!(" under the variant '{}'", variant.name));
        variant.define_placeholders(&mut defined)?;
        let filled = defined.fill_node(&variant.patch, &variant.place)?;
        let part = FilePart::new(&variant.place, &filled);
        if let Some(key) = ["command", "cwd"].iter().find(|key| part.has(key)) {
            let message = format!("'{key}' of the variant '{}' does not apply", variant.name);
            let hint = "program = \"node\"";
            let message = format!("{message} to benchmark files and loads\nhint: {hint}");
            return Err(part.error_at_key(key, message));
        }
        let patch: VariantKeys = part.read_part()?;
        let mut found = speedwell_model::Variant::plain(&variant.name);
        found.program = patch.program.map(Into::into);
        found.arguments = patch.args.iter().flat_map(CommandArguments::to_strings).collect();
        for change in environment_changes(&patch.env, &part)? {
            let (name, value) = change.apply(current);
            let Some(value) = value else {
                let message = format!("'{name}' cannot be unset for benchmark files");
                return Err(part.error_at_key("env", message));
            };
            found.environment.push((name.to_owned(), value));
        }
        Ok(found)
    }
}

/// Resolves the `env` table of `part` to a list of changes, in the order of the file.
fn environment_changes(
    environment: &EnvironmentKeys,
    part: &FilePart,
) -> Result<Vec<EnvVarChange>> {
    let resolve = |(name, variable): (&String, &VariableValue)| {
        let env = part.part("env").unwrap_or_else(|| part.clone());
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("'{name}' is not a valid variable name");
            return Err(env.error_at_key(name, message));
        }
        let name = name.clone();
        Ok(match variable {
            VariableValue::Value(value) | VariableValue::Change(VariableChange::Set(value)) => {
                EnvVarChange::Set(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Append(value)) => {
                EnvVarChange::Append(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Prepend(value)) => {
                EnvVarChange::Prepend(name, value.program_text())
            }
            VariableValue::Change(VariableChange::Unset(true)) => EnvVarChange::Unset(name),
            VariableValue::Change(VariableChange::Unset(false)) => {
                return Err(env.value_error(&name, "has 'unset = false', which changes nothing"));
            }
        })
    };
    environment.iter().map(resolve).collect()
}

/// Inputs of [`Experiment::resolve_target`] besides the keys of the target and of the variant.
struct TargetContext<'a> {
    group: &'a BenchmarkGroup,
    case: &'a Case,
    /// Name of the variant.
    variant: &'a str,
    /// Whether the command has the placeholder `{program}`. If so, a variant's program does not
    /// replace the first argument.
    has_program: bool,
}

/// Returns the variant's command, or else the target's. In the target's command, the variant's
/// program replaces the first argument, unless `{program}` marks its place. The variant's arguments
/// come last.
fn resolve_command(
    keys: &TargetKeys,
    part: &FilePart,
    patch: &VariantKeys,
    context: &TargetContext,
) -> Result<Vec<String>> {
    let Some(declared) = patch.command.as_ref().or(keys.command.as_ref()) else {
        let variant = context.variant;
        let hint = format!("command = [\"node\", \"app.js\"], there or in the variant '{variant}'");
        return Err(part.missing_key("command", &hint));
    };
    let mut command = declared.argv();
    if let Some(program) = &patch.program
        && !context.has_program
        && let Some(first) = command.first_mut()
    {
        first.clone_from(program);
    }
    command.extend(patch.args.iter().flat_map(CommandArguments::to_strings));
    Ok(command)
}

// Loads in the short form, `[benchmark.NAME]`.

impl Experiment {
    /// Returns the assignment of one run of a load, for one case. `program` replaces `{program}`,
    /// which otherwise stays unexpanded. `{port}` always stays unexpanded.
    ///
    /// # Errors
    /// Fails if a setting is invalid for the case, or if a change of the variant would have no
    /// effect.
    pub fn load_assignment(
        &self,
        group: &BenchmarkGroup,
        case: &Case,
        variant: &speedwell_model::Variant,
        program: Option<&Path>,
    ) -> Result<RunAssignment> {
        let declared = self.find_declared(&variant.name);
        let source = self.group_source(group)?;
        let mut sections = source.sections.clone();
        let variant_keys = declared.iter().flat_map(|declared| &declared.load);
        sections.extend(variant_keys.map(|(key, node)| (key.clone(), node.clone())));
        let node = TreeNode { line: source.line, content: NodeContent::Table(sections) };
        self.check_server(&FilePart::new(&source.place, &node), variant, program)?;
        let defined = self.load_placeholders(group, case, variant, program)?;
        let filled = defined.fill_node(&node, &source.place)?;
        let part = FilePart::new(&source.place, &filled);
        let spec = load::resolve_benchmark_load(&part, &self.root)?;
        if spec.url.is_empty() {
            let hint = "url = \"http://127.0.0.1:{port}/\", there or in every variant";
            return Err(part.missing_key("url", hint));
        }
        let to_change =
            |(name, value): &(String, String)| EnvVarChange::Set(name.clone(), value.clone());
        Ok(RunAssignment {
            target: TargetProgram {
                command: Vec::new(),
                directory: self.root.clone(),
                environment: variant.environment.iter().map(to_change).collect(),
                expected_exit: 0,
                limit_ms: as_milliseconds(self.plan.timeout),
            },
            work: TargetWork::Load(Box::new(spec)),
            proofs: Vec::new(),
            figures: Vec::new(),
            also: Vec::new(),
            processors: self.shares,
            profile: None,
            services: Vec::new(),
            place: AssignedPlace::default(),
        })
    }

    /// Returns the variant declared under that name. A control is measured a second time under a
    /// name that no file declares; for such a name, returns the control itself.
    fn find_declared(&self, name: &str) -> Option<&VariantSource> {
        let find = |name: &str| self.variant_sources.iter().find(|variant| variant.name == name);
        find(name).or_else(|| find(repeated_variant(name)))
    }

    fn load_placeholders(
        &self,
        group: &BenchmarkGroup,
        case: &Case,
        variant: &speedwell_model::Variant,
        program: Option<&Path>,
    ) -> Result<PlaceholderMap> {
        let mut defined = self.general.clone();
        defined.defer_value("port");
        defined.set_owner(format!(" in [benchmark.{}]", group.name));
        case.values.iter().for_each(|(name, value)| defined.define_value(name, value.plain()));
        if let Some(declared) = self.find_declared(&variant.name) {
            declared.define_placeholders(&mut defined)?;
        }
        match program {
            Some(program) => {
                defined.define_value("program", shell_line(program, &variant.arguments))
            }
            None => defined.defer_value("program"),
        }
        Ok(defined)
    }

    /// Rejects a variant whose changes would have no effect, because a server would then be
    /// compared with itself.
    fn check_server(
        &self,
        part: &FilePart,
        variant: &speedwell_model::Variant,
        program: Option<&Path>,
    ) -> Result<()> {
        let name = &variant.name;
        let default_program = self.program.as_ref().map(Path::new);
        let has_own_program =
            variant.program.is_some() && variant.program.as_deref() != default_program;
        let is_named = has_own_program || !variant.arguments.is_empty();
        let Some(serve) = part.get("serve").filter(|node| node.as_text().is_some()) else {
            ensure!(
                !is_named && variant.environment.is_empty(),
                "the variant '{name}' changes the server, but {} does not start one\n\
                 hint: set 'serve' to the command that starts the server",
                part.heading()
            );
            return Ok(());
        };
        let uses_program = placeholders::uses_placeholder(serve, "program");
        ensure!(
            !is_named || uses_program,
            "the variant '{name}' sets a program or arguments, but 'serve' does not use \
             '{{program}}'"
        );
        let is_known = program.is_none() || variant.program.is_some() || default_program.is_some();
        ensure!(
            !uses_program || is_known,
            "'{{program}}' is not defined\n\
             hint: set program = \"node\" at the top of the file, or in the variant"
        );
        Ok(())
    }
}

/// Returns program and arguments of a variant as a shell command line.
fn shell_line(program: &Path, arguments: &[String]) -> String {
    let first = program.to_string_lossy();
    let others = arguments.iter().map(String::as_str);
    shell_words::join(std::iter::once(&*first).chain(others))
}

/// Whether the command to execute has the placeholder `{program}`.
fn has_program(sections: &NodeTable, variant: &VariantSource) -> bool {
    let replacement = variant.patch.as_table().and_then(|patch| patch.get("command"));
    let command = replacement.or_else(|| sections.get("target")?.as_table()?.get("command"));
    command.is_some_and(|command| placeholders::uses_placeholder(command, "program"))
}

/// Rejects server keys in a group of another kind.
fn refuse_server_keys(target: &FilePart, group: &BenchmarkGroup) -> Result<()> {
    let Some(key) = SERVER_KEYS.iter().find(|key| target.has(key)) else { return Ok(()) };
    let message = format!("'{key}' does not apply to a command");
    let hint = format!("if the group '{}' is a server, set kind = \"server\"", group.name);
    Err(target.error_at_key(key, format!("{message}\nhint: {hint}")))
}

/// Returns the path that the load requests; `None` if the group has no load.
fn load_path(
    sections: &NodeTable,
    placeholders: &PlaceholderMap,
    place: &NodePath,
) -> Result<Option<String>> {
    let load = sections.get("load").and_then(TreeNode::as_table);
    let text = |key: &str| {
        let node = load.and_then(|load| load.get(key))?;
        Some((node.as_text()?, node.line))
    };
    let load_place = place.child_key("load");
    if let Some((path, line)) = text("path") {
        return placeholders.fill_placeholders(path, line, &load_place.child_key("path")).map(Some);
    }
    let Some((url, line)) = text("url") else { return Ok(load.map(|_| "/".to_owned())) };
    let url = placeholders.fill_placeholders(url, line, &load_place.child_key("url"))?;
    Ok(load::path_of(&url).map(str::to_owned))
}
