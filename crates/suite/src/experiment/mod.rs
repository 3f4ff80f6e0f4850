//! Definition files: groups, variants that patch a target, claims and gates. A file with `[benchmark.NAME]` only is the
//! short form of one whose groups are loads.
//!
//! It decides what such a file may say, and what each run has to do; everything is checked when the
//! file is read, down to the last case under the last variant. Nothing is executed here. The grammar
//! is in docs/reference/experiment-file.md. Every table of the file is a type that derives `Deserialize` and `JsonSchema`, named
//! `...Keys`, whose comments are what editors show. Start at [`FileKeys`] and [`Experiment::parse`];
//! [`Experiment::assignment`] is in `assignment.rs`.
//!
//! A circle of files: `place.rs` reads the services and places of an [`Experiment`], and adds to it what depends on them.

mod assignment;
mod benchmark;
mod claim;
mod command;
mod compare;
mod group;
mod group_metrics;
mod load;
mod metric;
mod output;
mod parameters;
mod place;
mod plan;
mod profile;
mod requirement;
mod selection;
mod target;
#[cfg(test)]
mod tests;
mod variant;
mod verify;

pub use claim::Claim;
pub use compare::Compare;
pub use group::{Group, Seed};
pub use metric::in_ms;
pub use output::{Output, Series};
pub use place::{Place, Role};
pub use plan::{Pins, Plan, is_repetition, repeated_variant, repetition_of};
pub use profile::{Profile, Tool, When};
pub use requirement::{Need, Requirement};
pub use selection::SelectedCase;
pub use target::Kind;
pub use variant::Variant;

use super::part::{Part, at};
use super::placeholders::{self, Placeholders};
use super::tree::{self, Node};
use super::value::{Deferred, Many, Plain, Whole, schema_of};
use crate::adapter::AdapterKeys;
use anyhow::{Context, Result};
use indexmap::IndexMap;
use parameters::Settings;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::Shares;
use speedwell_model::{DefinitionFile, Placement, Value};
use std::path::{Path, PathBuf};

/// The version of the grammar. Before 2, `throughput` counted bytes.
const SCHEMA: u64 = 2;

/// Everything a file says.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// What it calls itself, else the file's name without ending.
    pub name: String,
    /// What it is to answer.
    pub question: Option<String>,
    /// The folder of the file.
    pub root: PathBuf,
    /// Processors that the target may use.
    pub cpus: u32,
    /// How they are divided between the target and the load, if they are.
    pub shares: Option<Shares>,
    /// Parameters with their values.
    pub params: Vec<(String, Value)>,
    /// What must be there.
    pub requirements: Vec<Requirement>,
    /// What is compared, in order, at least one.
    pub variants: Vec<Variant>,
    /// What is measured, in order.
    pub groups: Vec<Group>,
    /// How it is measured.
    pub plan: Plan,
    /// How variants are compared.
    pub compare: Compare,
    /// Sentences that the data must carry.
    pub claims: Vec<Claim>,
    /// How profiles are taken, if they are.
    pub profile: Option<Profile>,
    /// What is shown, in order.
    pub outputs: Vec<Output>,
    /// What `{program}` means where a variant does not say.
    pub program: Option<String>,
    /// Machines of their own for its parts, if it wants them.
    pub place: Option<Place>,
    /// Which machines these are, once they are chosen.
    pub placement: Option<Box<Placement>>,
    /// What targets need beside them, in order.
    services: Vec<place::Declared>,
    /// Placeholders that mean the same in all cases.
    general: Placeholders,
}

/// A definition file of Speedwell: what is measured, what is compared, and which sentences the figures must carry.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Speedwell definition file", extend("anyOf" = [
    { "required": ["group"] }, { "required": ["benchmark"] }, { "required": ["suite"] }
]))]
struct FileKeys {
    /// Where editors find the schema of a file in JSON.
    #[serde(rename = "$schema")]
    _schema_file: Option<String>,
    /// The version of this grammar, today 2. Before 2, `throughput` counted bytes.
    schema: Option<Whole<1>>,
    /// What it calls itself; cases are named `NAME/GROUP`. Usually the file's name without ending.
    name: Option<String>,
    /// What it is to answer: the title of the report.
    question: Option<String>,
    /// What `{program}` means where a variant does not say.
    program: Option<String>,
    /// What must be there, by names: programs of a version, or packages of npm.
    requires: Option<Deferred<IndexMap<String, requirement::RequirementKeys>>>,
    /// Numbers and words that are used as `{name}`. The text "cpus" is the number of processors for the target.
    params: IndexMap<String, Plain>,
    #[schemars(schema_with = "variant::schema")]
    variant: Option<Deferred<()>>,
    /// What is measured, in order.
    group: Many<group::GroupKeys>,
    /// HTTP loads in the short form, by their names.
    benchmark: IndexMap<String, Deferred<benchmark::BenchmarkKeys>>,
    /// What targets need beside them, such as a database, in the order of their starts.
    service: Option<Deferred<Many<place::ServiceKeys>>>,
    /// Machines of `fleet.toml` for the target, services and what sends the load. Usually all are on this one.
    place: Option<place::PlaceKeys>,
    plan: plan::PlanKeys,
    compare: compare::CompareKeys,
    /// Sentences that the figures must carry.
    claim: Many<claim::ClaimKeys>,
    profile: Option<profile::ProfileKeys>,
    /// Tables, charts and forms of the report, in order.
    output: Many<output::OutputKeys>,
    /// Suites whose benchmarks are measured, by their names.
    #[serde(rename = "suite")]
    _suite: IndexMap<String, Deferred<AdapterKeys>>,
}

/// The JSON Schema of definition files, from which editors know keys and values.
pub fn schema() -> String {
    schema_of::<FileKeys>()
}

/// Keys of the file that make an experiment of it, which is measured by itself and has a report of its own. Without
/// any, its loads are measured and reported as benchmark files are.
const OF_AN_EXPERIMENT: [&str; 12] = [
    "group", "schema", "question", "params", "requires", "plan", "compare", "claim", "profile",
    "output", "service", "place",
];

/// Keys of variants that do.
const OF_ITS_VARIANTS: [&str; 6] = ["assert", "label", "color", "colour", "factors", "command"];

/// What a file is measured and reported as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Loads beside other benchmark files.
    Benchmarks,
    /// By itself, with a report of its own.
    Experiment,
    /// Not by itself: it describes suites that other targets are of.
    Suites,
}

/// The form of a definition file, if it is one: TOML with a line `[[group]]` or `[benchmark.NAME]`, or JSON with a
/// list `group` of tables that have a `kind`.
pub fn form(file: &Path) -> Option<Form> {
    let ending = file.extension().unwrap_or_default();
    if ending != "toml" && ending != "json" {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    if ending == "json" {
        // Large files of results are not worth reading as a tree.
        let is_one = text.contains("\"group\"")
            && tree::parse_json(&text).is_ok_and(|tree| has_groups(&tree));
        return is_one.then_some(Form::Experiment);
    }
    let has = |begin: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(begin))
    };
    if has("[[group]]") {
        return Some(Form::Experiment);
    }
    if has("[suite.") && !has("[benchmark") {
        return Some(Form::Suites);
    }
    has("[benchmark").then(|| match tree::parse_toml(&text) {
        Ok(tree) if judges(&tree) => Form::Experiment,
        // What is wrong with it is reported when it is read.
        _ => Form::Benchmarks,
    })
}

fn judges(tree: &Node) -> bool {
    let Some(top) = tree.table() else {
        return false;
    };
    let variants = top.get("variant").map(|node| &node.content);
    let variants: Vec<&Node> = match variants {
        Some(tree::Content::Table(table)) => table.values().collect(),
        Some(tree::Content::List(items)) => items.iter().collect(),
        _ => Vec::new(),
    };
    let keys = variants.into_iter().filter_map(Node::table);
    OF_AN_EXPERIMENT.iter().any(|key| top.contains_key(*key))
        || keys
            .flat_map(|table| table.keys())
            .any(|key| OF_ITS_VARIANTS.contains(&key.as_str()))
}

fn has_groups(tree: &Node) -> bool {
    let groups = tree.table().and_then(|top| top.get("group"));
    groups.is_some_and(|groups| match &groups.content {
        tree::Content::List(items) => {
            let has_kind = |item: &Node| item.table().is_some_and(|item| item.contains_key("kind"));
            items.first().is_some_and(has_kind)
        }
        _ => false,
    })
}

fn resolve(
    tree: &Node,
    stem: &str,
    root: &Path,
    set: &[(String, String)],
    usable: u32,
) -> Result<Experiment> {
    let top = Part::top(tree);
    let mut keys: FileKeys = top.read()?;
    let schema = keys.schema.map_or(1, |schema| schema.0);
    if schema > SCHEMA {
        let message = format!("the schema {schema} is not known to this version");
        return Err(top.error("schema", format!("{message}\nhint: schema = {SCHEMA}")));
    }
    let name = keys.name.take().unwrap_or_else(|| stem.to_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(top.error("name", format!("the name '{name}' is empty or has spaces")));
    }
    let settings = Settings::new(set);
    let plan = plan::resolve(&keys.plan, &top)?;
    let shares = plan.pins.and_then(|pins| pins.divide(usable));
    let cpus = shares.map_or(usable, |shares| shares.target);
    let params = parameters::of_file(&keys.params, &top, &settings, cpus)?;
    let general = general(root, cpus, &params, keys.program.as_deref());
    let mut used = Vec::new();
    tree.visit_texts(&mut |text| used.extend(placeholders::names(text)));
    let variants = variant::read(&top, &used)?;
    plan::check(&plan, &top, &variants)?;
    let requirements = requirement::resolve(&top, root, &general)?;
    let file = group::FileContext {
        experiment: &name,
        root,
        known: &general,
        settings: &settings,
        is_old: schema < SCHEMA,
    };
    let groups = groups(std::mem::take(&mut keys.group.0), &top, &file)?;
    let mut experiment = Experiment {
        compare: compare::resolve(&keys.compare, &top, &variants)?,
        groups,
        name,
        question: keys.question.clone(),
        root: root.to_owned(),
        cpus,
        shares,
        params,
        requirements,
        variants,
        plan,
        claims: Vec::new(),
        profile: None,
        outputs: Vec::new(),
        program: keys.program.clone(),
        place: None,
        placement: None,
        services: place::services(&top, keys.place.is_some())?,
        general,
    };
    experiment.place = place::resolve(keys.place.take(), &top, &experiment)?;
    check_settings(&experiment, &settings)?;
    check_runs(&mut experiment, &top)?;
    check_proofs(&experiment)?;
    judge(&mut experiment, &keys, &top)?;
    Ok(experiment)
}

/// What refers to metrics of groups, which are known when all runs are.
fn judge(experiment: &mut Experiment, keys: &FileKeys, top: &Part) -> Result<()> {
    let (groups, variants) = (&experiment.groups, &experiment.variants);
    let gates = compare::gates(&keys.compare, top, groups)?;
    let claims = claim::resolve(&keys.claim, top, variants, groups, &experiment.params)?;
    let pairs = experiment.compare.all_pairs();
    let profile = keys.profile.as_ref();
    let profile = profile.map(|keys| profile::resolve(keys, top, variants, groups, &pairs));
    let profile = profile.transpose()?.flatten();
    let outputs = output::resolve(&keys.output, top, variants)?;
    experiment.compare.gates = gates;
    experiment.claims = claims;
    experiment.profile = profile;
    experiment.outputs = outputs;
    Ok(())
}

fn general(
    root: &Path,
    cpus: u32,
    params: &[(String, Value)],
    program: Option<&str>,
) -> Placeholders {
    let mut known = Placeholders::default();
    known.define("root", root.display().to_string());
    known.define("cpus", cpus.to_string());
    if let Some(program) = program {
        known.define("program", program);
    }
    for (name, value) in params {
        known.define(name, value.plain());
    }
    known
}

/// Where the groups stand, in order: those of the long form, then those of the short one.
fn group_parts<'a>(top: &Part<'a>) -> Vec<Part<'a>> {
    let long = top.items("group").into_iter();
    long.chain(top.tables("benchmark")).collect()
}

fn groups(
    keys: Vec<group::GroupKeys>,
    top: &Part,
    file: &group::FileContext,
) -> Result<Vec<Group>> {
    let mut found: Vec<Group> = Vec::new();
    let mut long = keys.into_iter();
    for part in group_parts(top) {
        let group = match long.next() {
            Some(keys) => group::resolve(keys, &part, file)?,
            None => benchmark::resolve(&part, file.experiment, file.settings)?,
        };
        if found.iter().any(|known| known.name == group.name) {
            let message = format!("there are two groups with the name '{}'", group.name);
            return Err(part.error("name", message));
        }
        found.push(group);
    }
    let hint = "what is measured begins with a line [[group]] or [benchmark.NAME]";
    if found.is_empty() {
        Err(top.missing("group", hint))
    } else {
        Ok(found)
    }
}

/// Refuses to set what does not exist, and names that mean two things.
fn check_settings(experiment: &Experiment, settings: &Settings) -> Result<()> {
    let own = experiment.params.iter().map(|(name, _)| name);
    let mut known: Vec<String> = own.cloned().collect();
    for group in &experiment.groups {
        for (name, _) in &group.parameters {
            let is_param = experiment.params.iter().any(|(known, _)| known == name);
            let of_variant = |variant: &&Variant| variant.own.iter().any(|(own, ..)| own == name);
            let variant = experiment.variants.iter().find(of_variant);
            let other = match (is_param, variant) {
                (true, _) => "in [params]".to_owned(),
                (_, Some(variant)) => format!("a key of the variant '{}'", variant.name),
                (false, None) => {
                    known.push(name.clone());
                    continue;
                }
            };
            let message = format!("'{name}' is a parameter of the group '{}'", group.name);
            return Err(at(group.line, format!("{message} and also {other}")));
        }
    }
    settings.check(&known)
}

/// Resolves every case under every variant, so that nothing is found out later, and decides the
/// metrics of the groups.
fn check_runs(experiment: &mut Experiment, top: &Part) -> Result<()> {
    let mut shared = place::SharedServices::new(&experiment.services);
    for (at, part) in group_parts(top).iter().enumerate() {
        let group = &experiment.groups[at];
        let mut own = None;
        for variant in &experiment.variants {
            for (place, case) in group.cases.iter().enumerate() {
                let assignment = experiment.assignment(group, case, &variant.name, 0)?;
                shared.add((at, place), assignment.services)?;
                let metrics = assignment.figures.into_iter().map(|figure| figure.metric);
                own.get_or_insert_with(|| metrics.collect::<Vec<_>>());
            }
            if matches!(group.kind, Kind::Function | Kind::Load) {
                experiment.harness_variant(&variant.name, &|_| None)?;
            }
        }
        experiment.groups[at].decide_metrics(&own.unwrap_or_default(), part)?;
    }
    Ok(())
}

/// Refuses a proof that nothing checks: a harness and a load of the short form have no place to see it.
fn check_proofs(experiment: &Experiment) -> Result<()> {
    let checks = |group: &Group| !matches!(group.kind, Kind::Function | Kind::Load);
    if experiment.groups.iter().any(checks) {
        return Ok(());
    }
    for variant in &experiment.variants {
        let part = Part::new(&variant.place, &variant.patch);
        if part.has("assert") {
            let message = format!(
                "no group checks the 'assert' of the variant '{}': this file has only functions and short loads\n\
                 hint: write the load as [[group]] with kind = \"server\"",
                variant.name
            );
            return Err(part.error("assert", message));
        }
    }
    Ok(())
}

impl Experiment {
    /// What the text of a definition file means. The text is stored with every session, so that a report can be made
    /// again when the file has changed.
    ///
    /// # Errors
    /// It says something that has no meaning; messages name the line.
    pub fn parse(source: &DefinitionFile) -> Result<Experiment> {
        let file = &source.file;
        let is_json = file.extension().is_some_and(|ending| ending == "json");
        let tree = if is_json {
            tree::parse_json(&source.text)
        } else {
            tree::parse_toml(&source.text)
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let root = file.parent().unwrap_or(Path::new("/"));
        let read = tree.and_then(|tree| resolve(&tree, &stem, root, &source.set, source.cpus));
        let mut read =
            read.with_context(|| format!("in the definition file '{}'", file.display()))?;
        read.placement.clone_from(&source.placement);
        Ok(read)
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The group that a case belongs to. Cases of benchmark files belong to none that is known.
    pub fn group_of(&self, case: &speedwell_model::Case) -> Option<&Group> {
        let has_it = |group: &&Group| match group.kind {
            // Values that were typed make cases of which the file knows nothing.
            Kind::Load => case.benchmark == format!("{}/{}", self.name, group.name),
            _ => group.cases.contains(case),
        };
        self.groups.iter().find(has_it)
    }

    /// All groups with their cases, in order. None are known of benchmark files.
    pub fn cases(&self) -> impl Iterator<Item = (&Group, &[speedwell_model::Case])> {
        self.groups
            .iter()
            .map(|group| (group, group.cases.as_slice()))
    }

    /// The number that a name in a claim stands for.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.params.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.as_number(),
            None => (name == "cpus").then_some(f64::from(self.cpus)),
        }
    }
}
