//! Reads definition files, which contain groups, variants, claims and gates. A variant patches a
//! target. A file with only `[benchmark.NAME]` is the short form of a file whose groups are loads.
//!
//! This module decides what such a file may contain, and builds the assignment of each run.
//! Everything is checked when the file is read, down to the last case under the last variant.
//! Nothing is executed here. The grammar is in docs/reference/experiment-file.md. Every table of
//! the file is read into a type named `...Keys`, which derives `Deserialize` and `JsonSchema`;
//! editors show the comments of these types. Start at [`FileKeys`] and [`Experiment::parse`];
//! [`Experiment::assignment`] is in `assignment.rs`.

mod assignment;
mod claim;
mod group;
mod load;
mod parameters;
mod place;
mod plan;
mod target;
#[cfg(test)]
mod tests;
mod variant;

pub use place::{PlacedRole, RolePlacement};
pub use plan::{ExperimentRequirement, RequirementKind};

use super::file_part::{
    FilePart, NodeContent, NodePath, NodeTable, TreeNode, error_at_line, parse_json, parse_toml,
};
use super::placeholders::{self, PlaceholderMap};
use super::value::{DeferredValue, OneOrMany, PlainValue, WholeNumber, checked, schema_of};
use crate::adapter::AdapterKeys;
use anyhow::{Context, Result, anyhow};
use indexmap::IndexMap;
use parameters::{FileContext, check_set_names, matches_case};
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{ProcessorShares, TargetWork};
use speedwell_model::experiment::{BenchmarkGroup, ExpectedLoad, ExperimentDesign, GroupKind};
use speedwell_model::{Case, DefinitionFile, ParameterValue, Session};
use std::borrow::Cow;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Contents of a definition file: the design of the experiment, and what is needed to run it.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What is measured and compared.
    pub design: ExperimentDesign,
    /// Folder of the file.
    pub root: PathBuf,
    /// Division of processors between target and load, if the two do not share all processors.
    pub shares: Option<ProcessorShares>,
    /// What must be installed.
    pub requirements: Vec<ExperimentRequirement>,
    /// Default value of `{program}`.
    pub program: Option<String>,
    /// Machines requested for the target, services and load generators.
    pub place: Option<RolePlacement>,
    /// Services that targets need, in order.
    services: Vec<place::DeclaredService>,
    /// Placeholders with the same value in all cases.
    general: PlaceholderMap,
    /// Texts of the groups, in the same order.
    group_sources: Vec<GroupSource>,
    /// Texts of the variants, in the same order.
    variant_sources: Vec<variant::VariantSource>,
}

/// The texts of a group, from which its runs are built.
#[derive(Debug, Clone)]
struct GroupSource {
    place: NodePath,
    line: Option<usize>,
    sections: NodeTable,
    overrides: Vec<group::GroupOverride>,
}

impl Deref for Experiment {
    type Target = ExperimentDesign;

    fn deref(&self) -> &ExperimentDesign {
        &self.design
    }
}

/// A definition file of Speedwell: what is measured, what is compared, and which statements the
/// data must support.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Speedwell definition file", extend("anyOf" = [
    { "required": ["group"] }, { "required": ["benchmark"] }, { "required": ["suite"] }
]))]
struct FileKeys {
    /// Where editors find the schema of a JSON file.
    #[serde(rename = "$schema")]
    _schema_file: Option<String>,
    /// Version of this grammar, which is always 2.
    #[serde(rename = "schema")]
    _schema: Option<GrammarVersion>,
    /// Name of the experiment; cases are named `NAME/GROUP`. Default: the file name without
    /// extension.
    name: Option<String>,
    /// Question that the experiment answers: the title of the report.
    question: Option<String>,
    /// Default value of `{program}` for variants.
    program: Option<String>,
    /// What must be installed, by name: programs, with their lowest version if it matters, or npm
    /// packages.
    requires: Option<DeferredValue<IndexMap<String, plan::RequirementKeys>>>,
    /// Numbers and strings that can be used as `{name}`. The string "cpus" stands for the number of
    /// processors for the target.
    params: IndexMap<String, PlainValue>,
    #[schemars(schema_with = "variant::variant_schema")]
    variant: Option<DeferredValue<()>>,
    /// What is measured, in order.
    group: OneOrMany<group::GroupKeys>,
    /// HTTP loads as short tables, by name.
    benchmark: IndexMap<String, DeferredValue<load::BenchmarkKeys>>,
    /// Services that targets need, such as a database, in the order in which they start.
    service: Option<DeferredValue<OneOrMany<place::ServiceKeys>>>,
    /// Machines of `fleet.toml` for the target, services and load generators. By default, all run
    /// on this machine.
    place: Option<place::PlaceKeys>,
    plan: plan::PlanKeys,
    compare: claim::CompareKeys,
    /// Statements that the data must support.
    claim: OneOrMany<claim::ClaimKeys>,
    profile: Option<claim::ProfileKeys>,
    /// Tables, charts and formats of the report, in order.
    output: OneOrMany<plan::OutputKeys>,
    /// Suites whose benchmarks are measured, by name.
    #[serde(rename = "suite")]
    _suite: IndexMap<String, DeferredValue<AdapterKeys>>,
}

checked! {
    /// The only supported version of the grammar.
    struct GrammarVersion(()) from WholeNumber<1> as {
        "type": "integer", "minimum": 2, "maximum": 2
    },
    |version| match version.0 {
        2 => Ok(()),
        other => Err(format!(
            ": this version does not support schema {other}\n\
             hint: set schema = 2, whose keys and metrics are in docs/reference/experiment-file.md"
        )),
    }
}

/// Returns the JSON Schema of definition files, which tells editors the keys and values.
pub fn definition_schema() -> String {
    schema_of::<FileKeys>()
}

/// Keys that make the file an experiment, which is measured separately and has its own report.
/// Without any of them, the file's loads are measured and reported like benchmark files.
const EXPERIMENT_KEYS: [&str; 12] = [
    "group", "schema", "question", "params", "requires", "plan", "compare", "claim", "profile",
    "output", "service", "place",
];

/// Keys of variants that also make the file an experiment.
const EXPERIMENT_VARIANT_KEYS: [&str; 5] = ["assert", "label", "color", "factors", "command"];

/// How a file is measured and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionForm {
    /// Its loads are measured together with other benchmark files.
    Benchmarks,
    /// It is measured separately and has its own report.
    Experiment,
    /// It is not measured on its own: it only defines suites, which other targets use.
    Suites,
}

/// Returns the form of a definition file, if it is one: TOML with a line `[[group]]`,
/// `[benchmark.NAME]` or `[suite.NAME]`, or JSON with a list `group` whose first table has a
/// `kind`.
pub fn definition_form(file: &Path) -> Option<DefinitionForm> {
    let ending = file.extension().unwrap_or_default();
    if ending != "toml" && ending != "json" {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    if ending == "json" {
        // Skip JSON without this key, because parsing a large result file would take long.
        let has_group_list =
            text.contains("\"group\"") && parse_json(&text).is_ok_and(|tree| has_groups(&tree));
        return has_group_list.then_some(DefinitionForm::Experiment);
    }
    let has = |prefix: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(prefix))
    };
    if has("[[group]]") {
        return Some(DefinitionForm::Experiment);
    }
    if has("[suite.") && !has("[benchmark") {
        return Some(DefinitionForm::Suites);
    }
    has("[benchmark").then(|| match parse_toml(&text) {
        Ok(tree) if is_experiment(&tree) => DefinitionForm::Experiment,
        // Errors are reported when the file is read.
        _ => DefinitionForm::Benchmarks,
    })
}

fn is_experiment(tree: &TreeNode) -> bool {
    let Some(top) = tree.as_table() else { return false };
    let variants = top.get("variant").map(|node| &node.content);
    let variants: Vec<&TreeNode> = match variants {
        Some(NodeContent::Table(table)) => table.values().collect(),
        Some(NodeContent::List(items)) => items.iter().collect(),
        _ => Vec::new(),
    };
    let keys = variants.into_iter().filter_map(TreeNode::as_table);
    EXPERIMENT_KEYS.iter().any(|key| top.contains_key(*key))
        || keys
            .flat_map(|table| table.keys())
            .any(|key| EXPERIMENT_VARIANT_KEYS.contains(&key.as_str()))
}

fn has_groups(tree: &TreeNode) -> bool {
    let groups = tree.as_table().and_then(|top| top.get("group"));
    let first = groups.and_then(|groups| match &groups.content {
        NodeContent::List(items) => items.first()?.as_table(),
        _ => None,
    });
    first.is_some_and(|first| first.contains_key("kind"))
}

fn resolve_file(
    tree: &TreeNode,
    stem: &str,
    root: &Path,
    set: &[(String, String)],
    usable: u32,
) -> Result<Experiment> {
    let top = FilePart::top(tree);
    let mut keys: FileKeys = top.read_part()?;
    let name = keys.name.take().unwrap_or_else(|| stem.to_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(top.error_at_key("name", format!("the name '{name}' is empty or has spaces")));
    }
    let plan = plan::resolve_plan(&keys.plan, &top)?;
    let shares = plan.pins.and_then(|pins| pins.divide_processors(usable));
    let cpus = shares.map_or(usable, |shares| shares.target);
    let params = parameters::file_parameters(&keys.params, &top, set, cpus)?;
    let general = general_placeholders(root, cpus, &params, keys.program.as_deref());
    let mut used = Vec::new();
    tree.visit_texts(&mut |text| used.extend(placeholders::placeholder_names(text)));
    let (variants, variant_sources): (Vec<_>, Vec<_>) =
        variant::read_variants(&top, &used)?.into_iter().unzip();
    plan::check_control(&plan, &top, &variants)?;
    let requirements = plan::resolve_requirements(&top, root, &general)?;
    let file = FileContext { experiment: &name, root, known: &general, settings: set };
    let groups = resolve_groups(std::mem::take(&mut keys.group.0), &top, &file)?;
    let (groups, group_sources): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let compare = claim::resolve_compare(&keys.compare, &top, &variants)?;
    let services = place::read_services(&top, keys.place.is_some())?;
    let declared = (groups.as_slice(), services.as_slice());
    let place = place::resolve_placement(keys.place.take(), &top, declared, plan.pins.is_some())?;
    let question = keys.question.clone();
    let mut experiment = Experiment {
        design: ExperimentDesign {
            name,
            question,
            cpus,
            params,
            variants,
            groups,
            plan,
            compare,
            ..ExperimentDesign::default()
        },
        root: root.to_owned(),
        shares,
        requirements,
        program: keys.program.clone(),
        place,
        services,
        general,
        group_sources,
        variant_sources,
    };
    check_settings(&experiment, set)?;
    check_runs(&mut experiment, &top)?;
    check_proofs(&experiment)?;
    resolve_judgments(&mut experiment.design, &keys, &top)?;
    Ok(experiment)
}

/// Resolves keys that refer to metrics of groups. The metrics are known only after all runs have
/// been resolved.
fn resolve_judgments(design: &mut ExperimentDesign, keys: &FileKeys, top: &FilePart) -> Result<()> {
    let (groups, variants) = (&design.groups, &design.variants);
    let gates = claim::resolve_gates(&keys.compare, top, groups)?;
    let claims = claim::resolve_claims(&keys.claim, top, variants, groups, &design.params)?;
    let pairs = design.compare.all_pairs();
    let profile = keys.profile.as_ref();
    let profile = profile.map(|keys| claim::resolve_profile(keys, top, variants, groups, &pairs));
    let profile = profile.transpose()?.flatten();
    let outputs = plan::resolve_outputs(&keys.output, top, variants)?;
    design.compare.gates = gates;
    design.claims = claims;
    design.profile = profile;
    design.outputs = outputs;
    Ok(())
}

fn general_placeholders(
    root: &Path,
    cpus: u32,
    params: &[(String, ParameterValue)],
    program: Option<&str>,
) -> PlaceholderMap {
    let mut defined = PlaceholderMap::default();
    defined.define_value("root", root.display().to_string());
    defined.define_value("cpus", cpus.to_string());
    if let Some(program) = program {
        defined.define_value("program", program);
    }
    for (name, value) in params {
        defined.define_value(name, value.plain());
    }
    defined
}

/// Returns the groups in order: first each `[[group]]`, then each `[benchmark.NAME]`.
fn group_parts<'a>(top: &FilePart<'a>) -> Vec<FilePart<'a>> {
    let long = top.list_items("group").into_iter();
    long.chain(top.child_tables("benchmark")).collect()
}

fn resolve_groups(
    keys: Vec<group::GroupKeys>,
    top: &FilePart,
    file: &FileContext,
) -> Result<Vec<(BenchmarkGroup, GroupSource)>> {
    let mut found: Vec<(BenchmarkGroup, GroupSource)> = Vec::new();
    let mut long = keys.into_iter();
    for part in group_parts(top) {
        let (group, source) = match long.next() {
            Some(keys) => {
                let (group, overrides) = group::resolve_group(keys, &part, file)?;
                (group, GroupSource::of_group(&part, overrides))
            }
            None => {
                let (group, sections) = load::resolve_benchmark(&part, file)?;
                let (place, line) = (part.place.clone(), part.node.line);
                (group, GroupSource { place, line, sections, overrides: Vec::new() })
            }
        };
        if found.iter().any(|(other, _)| other.name == group.name) {
            let message = format!("two groups have the name '{}'", group.name);
            return Err(part.error_at_key("name", message));
        }
        found.push((group, source));
    }
    let hint = "define what to measure in [[group]] or [benchmark.NAME]";
    if found.is_empty() { Err(top.missing_key("group", hint)) } else { Ok(found) }
}

/// Keys that exclude each other: if an override sets the first of a pair, the second is removed.
const ALTERNATIVE_KEYS: [(&str, &str); 4] =
    [("requests", "duration"), ("duration", "requests"), ("url", "path"), ("path", "url")];

impl GroupSource {
    /// Keeps the sections of the `[[group]]` at `part`.
    fn of_group(part: &FilePart, overrides: Vec<group::GroupOverride>) -> GroupSource {
        let read = |name: &str| Some((name.to_owned(), part.get(name)?.clone()));
        let sections = group::OVERRIDABLE_SECTIONS.into_iter().filter_map(read);
        GroupSource {
            place: part.place.clone(),
            line: part.get("name").and_then(|node| node.line),
            sections: sections.collect(),
            overrides,
        }
    }

    /// Returns the sections for one case. A key of an override replaces the same key of the group,
    /// including everything below it; a metric keeps the keys that the override does not name.
    fn sections_of(&self, case: &Case) -> NodeTable {
        let mut patched = self.sections.clone();
        let overrides = self.overrides.iter();
        for exception in overrides.filter(|entry| matches_case(&entry.matches, &case.values)) {
            for (section, patch) in &exception.patch {
                match patched.get_mut(section) {
                    Some(node) => merge_tables(node, patch, section == "metric"),
                    None => insert_key(&mut patched, section, patch),
                }
            }
        }
        patched
    }
}

/// Merges the keys of `patch` into `target`. A key of `patch` replaces the same key of `target`,
/// but if `is_deep` is set and both values are tables, the keys of these tables are merged.
fn merge_tables(target: &mut TreeNode, patch: &TreeNode, is_deep: bool) {
    let (NodeContent::Table(table), Some(keys)) = (&mut target.content, patch.as_table()) else {
        *target = patch.clone();
        return;
    };
    for (key, node) in keys {
        match table.get_mut(key) {
            Some(inner) if is_deep => merge_tables(inner, node, false),
            _ => insert_key(table, key, node),
        }
    }
}

fn insert_key(target: &mut NodeTable, key: &str, node: &TreeNode) {
    for (_, other) in ALTERNATIVE_KEYS.iter().filter(|(set, _)| *set == key) {
        target.shift_remove(*other);
    }
    target.insert(key.to_owned(), node.clone());
}

/// Rejects `--set` for a name that the file does not define. Also rejects group parameters with the
/// name of a file parameter or of a variant's placeholder.
fn check_settings(experiment: &Experiment, settings: &[(String, String)]) -> Result<()> {
    let param_names = experiment.params.iter().map(|(name, _)| name);
    let mut known: Vec<String> = param_names.cloned().collect();
    for (group, source) in experiment.groups.iter().zip(&experiment.group_sources) {
        for (name, _) in &group.parameters {
            let is_param = experiment.params.iter().any(|(param, _)| param == name);
            let has_value = |variant: &&variant::VariantSource| {
                variant.own_values.iter().any(|(key, ..)| key == name)
            };
            let variant = experiment.variant_sources.iter().find(has_value);
            let other = match (is_param, variant) {
                (true, _) => "in [params]".to_owned(),
                (_, Some(variant)) => format!("a key of the variant '{}'", variant.name),
                (false, None) => {
                    known.push(name.clone());
                    continue;
                }
            };
            let message = format!("'{name}' is a parameter of the group '{}'", group.name);
            return Err(error_at_line(source.line, format!("{message} and also {other}")));
        }
    }
    check_set_names(settings, &known)
}

/// Resolves every case under every variant, to find all errors early. Rejects services that differ
/// between runs that share them. Decides the metrics and expected loads of the groups.
fn check_runs(experiment: &mut Experiment, top: &FilePart) -> Result<()> {
    let mut shared = place::SharedServices::new();
    for (group_index, part) in group_parts(top).iter().enumerate() {
        let group = &experiment.groups[group_index];
        let mut own_metrics = None;
        let mut expected_loads = Vec::new();
        for variant in &experiment.variants {
            for (case_index, case) in group.cases.iter().enumerate() {
                let assignment = experiment.assignment(group, case, &variant.name, 0)?;
                let (services, position) = (assignment.services, (group_index, case_index));
                place::share_services(&mut shared, position, services, &experiment.services)?;
                if let (TargetWork::Server(service), true) =
                    (&assignment.work, expected_loads.len() == case_index)
                {
                    expected_loads.push(ExpectedLoad {
                        in_flight: service.load.in_flight(),
                        same_bytes: service.verify.same_bytes,
                    });
                }
                let metrics = assignment.figures.into_iter().map(|figure| figure.metric);
                own_metrics.get_or_insert_with(|| metrics.collect::<Vec<_>>());
            }
            if matches!(group.kind, GroupKind::Function | GroupKind::Load) {
                experiment.harness_variant(&variant.name, &|_| None)?;
            }
        }
        let group = &mut experiment.design.groups[group_index];
        group.expected_loads = expected_loads;
        group::decide_metrics(group, &own_metrics.unwrap_or_default(), part)?;
    }
    Ok(())
}

/// Rejects an `assert` that nothing checks: harnesses and loads in the short form cannot check it.
fn check_proofs(experiment: &Experiment) -> Result<()> {
    let checks =
        |group: &BenchmarkGroup| !matches!(group.kind, GroupKind::Function | GroupKind::Load);
    if experiment.groups.iter().any(checks) {
        return Ok(());
    }
    for variant in &experiment.variant_sources {
        let part = FilePart::new(&variant.place, &variant.patch);
        if part.has("assert") {
            let message = format!(
                "no group checks the 'assert' of the variant '{}': this file has only functions and [benchmark.NAME]\n\
                 hint: write the load as [[group]] with kind = \"server\"",
                variant.name
            );
            return Err(part.error_at_key("assert", message));
        }
    }
    Ok(())
}

impl Experiment {
    /// Parses the text of a definition file. The text is stored with every session, so that a
    /// report can be made again after the file has changed.
    ///
    /// # Errors
    /// Fails if the text is invalid; messages name the line.
    pub fn parse(source: &DefinitionFile) -> Result<Experiment> {
        let file = &source.file;
        let is_json = file.extension().is_some_and(|ending| ending == "json");
        let parse = if is_json { parse_json } else { parse_toml };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let root = file.parent().unwrap_or(Path::new("/"));
        let experiment = parse(&source.text)
            .and_then(|tree| resolve_file(&tree, &stem, root, &source.set, source.cpus));
        let mut experiment =
            experiment.with_context(|| format!("in the definition file '{}'", file.display()))?;
        experiment.design.placement.clone_from(&source.placement);
        Ok(experiment)
    }

    /// Parses the definition of a stored session, if the session is an experiment.
    ///
    /// # Errors
    /// Fails if the definition was stored by a version of Speedwell with a different grammar.
    pub fn of_session(session: &Session) -> Result<Option<Experiment>> {
        session.design.experiment.as_ref().map(Experiment::parse).transpose()
    }
}

/// A definition file that is parsed once, on first use. A session needs the parsed file for every
/// run.
#[derive(Debug)]
pub struct LazyDefinition {
    source: DefinitionFile,
    experiment: OnceLock<Result<Experiment, String>>,
}

impl LazyDefinition {
    /// Creates a definition without parsing it.
    pub fn new(source: DefinitionFile) -> LazyDefinition {
        LazyDefinition { source, experiment: OnceLock::new() }
    }

    /// Creates a definition from a file that has been parsed already.
    pub fn from_parsed(source: DefinitionFile, experiment: Experiment) -> LazyDefinition {
        LazyDefinition { source, experiment: OnceLock::from(Ok(experiment)) }
    }

    /// Returns its text and path.
    pub fn source(&self) -> &DefinitionFile {
        &self.source
    }

    /// Returns the parsed experiment.
    ///
    /// # Errors
    /// Fails if the file is invalid; messages name the line.
    pub fn experiment(&self) -> Result<&Experiment> {
        let parse = || Experiment::parse(&self.source).map_err(|error| format!("{error:#}"));
        let parsed = self.experiment.get_or_init(parse);
        parsed.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Returns the experiment with the values in `set` instead of the values with which the file
    /// was read.
    ///
    /// # Errors
    /// Fails under the same conditions as [`LazyDefinition::experiment`], and if a name does not
    /// exist in the file.
    pub fn experiment_with(&self, set: Vec<(String, String)>) -> Result<Cow<'_, Experiment>> {
        if set == self.source.set {
            return self.experiment().map(Cow::Borrowed);
        }
        let source = self.source.clone();
        Experiment::parse(&DefinitionFile { set, ..source }).map(Cow::Owned)
    }
}

impl PartialEq for LazyDefinition {
    fn eq(&self, other: &LazyDefinition) -> bool {
        self.source == other.source
    }
}

/// Reads the text of a definition file. The pairs in `set` override `[params]` and the parameters
/// of groups; several pairs with the same name give several values.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_source(file: &Path, set: &[(String, String)]) -> Result<DefinitionFile> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the definition file '{shown}'"))?;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    Ok(DefinitionFile {
        file: std::path::absolute(file)?,
        text,
        set: set.to_vec(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        placement: None,
    })
}
