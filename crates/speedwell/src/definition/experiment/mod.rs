//! Experiments: definition files with groups, variants that patch a target, claims and gates.
//!
//! It decides what such a file may say, and what each run has to do; everything is checked when the
//! file is read, down to the last case under the last variant. Nothing is executed here. The grammar
//! is in docs/experiments.md. Start at [`read`] and [`Experiment`]; [`Experiment::assignment`] is in
//! `resolve.rs`.

mod cases;
mod claim;
mod compare;
pub mod control;
mod environment;
mod figure;
mod group;
mod metrics;
#[cfg(test)]
mod mistakes;
mod output;
mod params;
mod plan;
mod profile;
#[cfg(test)]
mod programs;
mod proof;
mod requirement;
mod resolve;
mod service;
mod spot;
#[cfg(test)]
mod stories;
mod target;
mod traffic;
mod variant;
mod verify;
mod vocabulary;
mod written;

pub use claim::Claim;
pub use compare::Compare;
pub use group::{Group, Kind, Seed};
pub use output::{Output, Series};
pub use plan::{Pins, Plan};
pub use profile::{Profile, Tool, When};
pub use requirement::{Need, Requirement};
pub use spot::Spot;
pub use variant::Variant;

use super::blanks;
use super::keys::Keys;
use super::tree::{self, Node};
use crate::model::Value;
use crate::model::assignment::Shares;
use anyhow::Result;
use params::Settings;
use std::path::{Path, PathBuf};
use vocabulary::Vocabulary;

/// The version of the grammar.
const SCHEMA: u64 = 1;

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
    program: Option<String>,
    /// Blanks that mean the same in all cases.
    general: Vocabulary,
}

/// Whether the file is an experiment: TOML with a line `[[group]]`, or JSON with a list `group` of
/// tables that have a `kind`.
pub fn is_one(file: &Path) -> bool {
    let ending = file.extension().unwrap_or_default();
    if ending != "toml" && ending != "json" {
        return false;
    }
    let Ok(text) = std::fs::read_to_string(file) else {
        return false;
    };
    match ending == "toml" {
        true => text
            .lines()
            .any(|line| line.trim_start().starts_with("[[group]]")),
        // Large files of results are not worth reading as a tree.
        false => {
            text.contains("\"group\"") && tree::of_json(&text).is_ok_and(|tree| has_groups(&tree))
        }
    }
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

/// Reads an experiment; see [`super::source`] and [`Experiment::of`].
///
/// # Errors
/// It cannot be read, or says something that has no meaning; messages name the line.
pub fn read(file: &Path, set: &[(String, String)]) -> Result<Experiment> {
    Experiment::of(&super::source(file, set)?)
}

fn of_tree(
    tree: &Node,
    stem: &str,
    root: &Path,
    set: &[(String, String)],
    usable: u32,
) -> Result<Experiment> {
    let top = Keys::top(tree)?;
    let (name, question) = head(&top, stem)?;
    let settings = Settings::new(set);
    let plan = plan::read(&top)?;
    let shares = plan.pins.and_then(|pins| pins.divide(usable));
    let cpus = shares.map_or(usable, |shares| shares.target);
    let params = params::read(&top, &settings, cpus)?;
    let program = top.text("program")?;
    let general = general(root, cpus, &params, program.as_deref());
    let mut used = Vec::new();
    tree.visit_texts(&mut |text| used.extend(blanks::names(text)));
    let variants = variant::read(&top, &used)?;
    plan::check(&top, &variants)?;
    let requirements = requirement::read(&top, root, &general)?;
    let mut experiment = Experiment {
        groups: groups(&top, &name, root, &general, &settings)?,
        compare: compare::read(&top, &variants)?,
        name,
        question,
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
        program,
        general,
    };
    check_settings(&experiment, &settings)?;
    check_runs(&mut experiment, &top)?;
    judged(&mut experiment, &top)?;
    top.finish()?;
    Ok(experiment)
}

/// Schema, name and question.
fn head(top: &Keys, stem: &str) -> Result<(String, Option<String>)> {
    let schema = top.whole("schema", 1)?.unwrap_or(SCHEMA);
    if schema != SCHEMA {
        let message = format!("the schema {schema} is not known to this version");
        return Err(top.error("schema", format!("{message}\nhint: schema = {SCHEMA}")));
    }
    if top.has("benchmark") {
        let message = "[benchmark.NAME] belongs to the other form of definition files";
        let hint = "a load is a [[group]] with kind = \"server\" here";
        return Err(top.error("benchmark", format!("{message}\nhint: {hint}")));
    }
    let name = top.text("name")?.unwrap_or_else(|| stem.to_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(top.error("name", format!("the name '{name}' is empty or has blanks")));
    }
    Ok((name, top.text("question")?))
}

fn general(
    root: &Path,
    cpus: u32,
    params: &[(String, Value)],
    program: Option<&str>,
) -> Vocabulary {
    let mut words = Vocabulary::default();
    words.say("root", root.display().to_string());
    words.say("cpus", cpus.to_string());
    if let Some(program) = program {
        words.say("program", program);
    }
    for (name, value) in params {
        words.say(name, value.plain());
    }
    words
}

fn groups(
    top: &Keys,
    experiment: &str,
    root: &Path,
    general: &Vocabulary,
    settings: &Settings,
) -> Result<Vec<Group>> {
    let mut found: Vec<Group> = Vec::new();
    for (at, keys) in top.list("group")?.iter().enumerate() {
        let mut group = group::read(keys, at, experiment, general, settings)?;
        if found.iter().any(|known| known.name == group.name) {
            let message = format!("there are two groups with the name '{}'", group.name);
            return Err(keys.error("name", message));
        }
        group.settle(root);
        found.push(group);
    }
    match found.is_empty() {
        true => Err(top.missing("group", "what is measured begins with a line [[group]]")),
        false => Ok(found),
    }
}

/// Refuses to set what does not exist, and names that mean two things.
fn check_settings(experiment: &Experiment, settings: &Settings) -> Result<()> {
    let own = experiment.params.iter().map(|(name, _)| name);
    let mut known: Vec<String> = own.cloned().collect();
    for group in &experiment.groups {
        for (name, _) in &group.parameters {
            let is_param = experiment.params.iter().any(|(known, _)| known == name);
            let of_variant =
                |variant: &&Variant| variant.blanks.iter().any(|(own, ..)| own == name);
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
            return Err(super::keys::at(
                group.line,
                format!("{message} and also {other}"),
            ));
        }
    }
    settings.check(&known)
}

/// Resolves every case under every variant, so that nothing is found out later, and decides the
/// metrics of the groups.
fn check_runs(experiment: &mut Experiment, top: &Keys) -> Result<()> {
    let keys = top.list("group")?;
    for (at, keys) in keys.iter().enumerate() {
        let group = &experiment.groups[at];
        let mut own = None;
        for variant in &experiment.variants {
            for case in &group.cases {
                let assignment = experiment.assignment(group, case, &variant.name, 0)?;
                let metrics = assignment.figures.into_iter().map(|figure| figure.metric);
                own.get_or_insert_with(|| metrics.collect::<Vec<_>>());
            }
            if group.kind == Kind::Function {
                experiment.harness_variant(&variant.name, &|_| None)?;
            }
        }
        experiment.groups[at].decide_metrics(&own.unwrap_or_default(), keys)?;
    }
    Ok(())
}

/// Reads what refers to metrics of groups.
fn judged(experiment: &mut Experiment, top: &Keys) -> Result<()> {
    let Experiment {
        groups,
        variants,
        params,
        ..
    } = &*experiment;
    let gates = compare::gates(top, groups)?;
    let claims = claim::read(top, variants, groups, params)?;
    let pairs = experiment.compare.all_pairs();
    let profile = profile::read(top, variants, groups, &pairs)?;
    let outputs = output::read(top, variants)?;
    experiment.compare.gates = gates;
    experiment.claims = claims;
    experiment.profile = profile;
    experiment.outputs = outputs;
    Ok(())
}

impl Experiment {
    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The group that a case belongs to. Cases of benchmark files belong to none that is known.
    pub fn group_of(&self, case: &crate::model::Case) -> Option<&Group> {
        self.groups.iter().find(|group| group.cases.contains(case))
    }

    /// All groups with their cases, in order. None are known of benchmark files.
    pub fn cases(&self) -> impl Iterator<Item = (&Group, &[crate::model::Case])> {
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
