//! Definition files: groups, variants that patch a target, claims and gates. A file with `[benchmark.NAME]` only is the
//! short form of one whose groups are loads.
//!
//! It decides what such a file may say, and what each run has to do; everything is checked when the
//! file is read, down to the last case under the last variant. Nothing is executed here. The grammar
//! is in docs/guide/experiments.md. Start at [`read`] and [`Experiment`]; [`Experiment::assignment`] is in
//! `resolve.rs`.

mod benchmark;
mod cases;
mod claim;
mod compare;
pub mod control;
mod environment;
mod figure;
mod group;
mod loaded;
mod metrics;
mod output;
mod params;
mod plan;
mod profile;
mod proof;
mod renamed;
mod requirement;
mod resolve;
mod service;
mod spot;
mod target;
#[cfg(test)]
mod tests;
mod traffic;
mod variant;
mod verify;
mod vocabulary;
mod written;

pub use claim::Claim;
pub use compare::Compare;
pub use group::{Group, Kind, Seed};
pub use metrics::in_ms;
pub use output::{Output, Series};
pub use plan::{Pins, Plan};
pub use profile::{Profile, Tool, When};
pub use requirement::{Need, Requirement};
pub use spot::Spot;
pub use variant::Variant;

use super::blanks;
use super::keys::Keys;
use super::tree::{self, Node};
use anyhow::Result;
use params::Settings;
use speedwell_model::Value;
use speedwell_model::assignment::Shares;
use std::path::{Path, PathBuf};
use vocabulary::Vocabulary;

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
    /// Blanks that mean the same in all cases.
    general: Vocabulary,
}

/// Keys of the file that make an experiment of it, which is measured by itself and has a report of its own. Without
/// any, its loads are measured and reported as benchmark files are.
const OF_AN_EXPERIMENT: [&str; 10] = [
    "group", "schema", "question", "params", "requires", "plan", "compare", "claim", "profile",
    "output",
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
        let is_one =
            text.contains("\"group\"") && tree::of_json(&text).is_ok_and(|tree| has_groups(&tree));
        return is_one.then_some(Form::Experiment);
    }
    let has = |begin: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with(begin))
    };
    if has("[[group]]") {
        return Some(Form::Experiment);
    }
    has("[benchmark").then(|| match tree::of_toml(&text) {
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
    let (name, question, is_old) = head(&top, stem)?;
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
        groups: groups(&top, &name, root, (&general, is_old), &settings)?,
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
    check_proofs(&experiment)?;
    judged(&mut experiment, &top)?;
    top.finish()?;
    Ok(experiment)
}

/// Name and question, and whether the schema is an older one, as it is where nothing is said.
fn head(top: &Keys, stem: &str) -> Result<(String, Option<String>, bool)> {
    let schema = top.whole("schema", 1)?.unwrap_or(1);
    if schema > SCHEMA {
        let message = format!("the schema {schema} is not known to this version");
        return Err(top.error("schema", format!("{message}\nhint: schema = {SCHEMA}")));
    }
    let name = top.text("name")?.unwrap_or_else(|| stem.to_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(top.error("name", format!("the name '{name}' is empty or has blanks")));
    }
    Ok((name, top.text("question")?, schema < SCHEMA))
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
    (general, is_old): (&Vocabulary, bool),
    settings: &Settings,
) -> Result<Vec<Group>> {
    let mut found: Vec<Group> = Vec::new();
    let (long, short) = (top.list("group")?, top.tables("benchmark")?);
    let long = long.iter().enumerate().map(|(at, keys)| {
        let group = group::read(keys, at, experiment, general, settings, is_old);
        (keys, group)
    });
    let short = short
        .iter()
        .map(|keys| (keys, benchmark::read(keys, experiment, settings)));
    for (keys, group) in long.chain(short) {
        let mut group = group?;
        if found.iter().any(|known| known.name == group.name) {
            let message = format!("there are two groups with the name '{}'", group.name);
            return Err(keys.error("name", message));
        }
        group.settle(root);
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
    let (long, short) = (top.list("group")?, top.tables("benchmark")?);
    for (at, keys) in long.iter().chain(&short).enumerate() {
        let group = &experiment.groups[at];
        let mut own = None;
        for variant in &experiment.variants {
            for case in &group.cases {
                let assignment = experiment.assignment(group, case, &variant.name, 0)?;
                let metrics = assignment.figures.into_iter().map(|figure| figure.metric);
                own.get_or_insert_with(|| metrics.collect::<Vec<_>>());
            }
            if matches!(group.kind, Kind::Function | Kind::Load) {
                experiment.harness_variant(&variant.name, &|_| None)?;
            }
        }
        experiment.groups[at].decide_metrics(&own.unwrap_or_default(), keys)?;
    }
    Ok(())
}

/// Refuses a proof that nothing looks for: a harness and a load of the short form have no place to see it.
fn check_proofs(experiment: &Experiment) -> Result<()> {
    let looks = |group: &Group| !matches!(group.kind, Kind::Function | Kind::Load);
    if experiment.groups.iter().any(looks) {
        return Ok(());
    }
    for variant in &experiment.variants {
        let keys = Keys::below(&variant.path, &variant.patch)?;
        if keys.has("assert") {
            let message = format!(
                "no group checks the 'assert' of the variant '{}': this file has only functions and short loads\n\
                 hint: write the load as [[group]] with kind = \"server\"",
                variant.name
            );
            return Err(keys.error("assert", message));
        }
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
