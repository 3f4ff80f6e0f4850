//! `[[group]]`: what is measured, in which cases.

use super::cases::{self, Override, Parameters, SECTIONS};
use super::metrics;
use super::params::Settings;
use super::vocabulary::Vocabulary;
use crate::keys::{Keys, nearest_of};
use crate::tree::Table;
use anyhow::Result;
use speedwell_model::{Case, Metric, seed_of_step};
use std::path::{Path, PathBuf};

/// What a group does with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It serves, and gets a load.
    Server,
    /// It runs to its end.
    Command,
    /// Benchmark files, measured by their harness.
    Function,
    /// The short form: somebody serves, and gets a load as `speedwell load` sends it.
    Load,
}

impl Kind {
    const NAMES: [(&str, Kind); 4] = [
        ("server", Kind::Server),
        ("command", Kind::Command),
        ("function", Kind::Function),
        ("load", Kind::Load),
    ];

    /// Those that `[[group]]` may have; the other one has a form of its own.
    const OF_GROUPS: [&str; 3] = ["server", "command", "function"];

    /// As it is written.
    pub fn name(self) -> &'static str {
        let found = Kind::NAMES.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }
}

/// Where the seed of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// The same for all variants of a block, another one in the next block.
    PerBlock,
    /// Another one for every run.
    PerRun,
    /// Always this one.
    Fixed(u64),
}

impl Seed {
    /// The seed of the run in a slot, where `of_block` is that of its block.
    pub fn of_run(self, of_block: u64, slot: u32) -> u64 {
        match self {
            Seed::PerBlock => of_block,
            Seed::PerRun => seed_of_step(of_block, slot),
            Seed::Fixed(seed) => seed,
        }
    }
}

/// A group.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// What varies between its cases. For benchmark files: values in the place of declared ones.
    pub parameters: Parameters,
    /// Its cases, in order; none are known of benchmark files.
    pub cases: Vec<Case>,
    /// Its metrics, the headline first. Empty: the harness of the files says.
    pub metrics: Vec<Metric>,
    /// Figures of the operating system that are wanted besides.
    pub also: Vec<String>,
    /// Seeds of its runs.
    pub seed: Seed,
    /// The benchmark files of a group of that kind.
    pub files: Vec<PathBuf>,
    /// Its file has the names of earlier files, in which `throughput` counted bytes.
    pub(super) is_old: bool,
    /// Names of the figures that its target gives.
    pub(super) own: Vec<String>,
    pub(super) path: String,
    pub(super) wanted: Option<Vec<String>>,
    pub(super) sections: Table,
    pub(super) overrides: Vec<Override>,
    pub(super) line: Option<usize>,
}

/// Reads a group of the experiment `experiment`, the one at `at`.
pub fn read(
    keys: &Keys,
    at: usize,
    experiment: &str,
    words: &Vocabulary,
    settings: &Settings,
    is_old: bool,
) -> Result<Group> {
    let name = keys.text("name")?;
    let name = name.ok_or_else(|| keys.missing("name", "name = \"http\""))?;
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || ",=()[]/".contains(c)) {
        let message =
            format!("the name '{name}' is empty or has blanks, commas, slashes or brackets");
        return Err(keys.error("name", message));
    }
    let Some(kind) = keys.choice("kind", &Kind::OF_GROUPS)? else {
        return Err(keys.missing("kind", "kind = \"server\", \"command\" or \"function\""));
    };
    let kind = Kind::NAMES.iter().find(|(name, _)| *name == kind);
    let kind = kind.map_or(Kind::Command, |(_, kind)| *kind);
    let parameters = cases::parameters(keys, words, settings)?;
    let cases = match kind {
        Kind::Function => Vec::new(),
        _ => cases::combine(keys, &format!("{experiment}/{name}"), &parameters, settings)?,
    };
    let group = Group {
        overrides: cases::overrides(keys, &parameters, settings)?,
        sections: sections(keys, kind)?,
        files: files(keys, kind, words)?,
        wanted: keys.texts("metrics")?,
        also: also(keys)?,
        path: format!("group[{at}]"),
        line: keys.node("name").and_then(|node| node.line),
        parameters,
        cases,
        is_old,
        ..Group::new(&name, kind, seed(keys)?, keys)
    };
    keys.finish()?;
    Ok(group)
}

/// Keeps the tables whose texts have blanks, and refuses those that the kind has not.
fn sections(keys: &Keys, kind: Kind) -> Result<Table> {
    let allowed: &[&str] = match kind {
        Kind::Server => &SECTIONS,
        Kind::Command => &["target", "metric"],
        Kind::Function | Kind::Load => &[],
    };
    let mut found = Table::default();
    for section in SECTIONS {
        let Some(node) = keys.node(section) else {
            continue;
        };
        if !allowed.contains(&section) {
            let message = format!("a group of the kind '{}' has no '{section}'", kind.name());
            return Err(keys.error(section, message));
        }
        keys.table(section)?;
        found.insert(section.to_owned(), node.clone());
    }
    let must: &[(&str, &str)] = match kind {
        Kind::Server => &[
            ("target", "[group.target] with command = [...]"),
            ("load", "[group.load] with requests or duration"),
        ],
        Kind::Command => &[("target", "[group.target] with command = [...]")],
        Kind::Function | Kind::Load => &[],
    };
    match must
        .iter()
        .find(|(section, _)| !found.contains_key(*section))
    {
        Some((section, hint)) => Err(keys.missing(section, hint)),
        None => Ok(found),
    }
}

fn files(keys: &Keys, kind: Kind, words: &Vocabulary) -> Result<Vec<PathBuf>> {
    let files = keys.texts("files")?;
    match (files, kind) {
        (Some(files), Kind::Function) => {
            let line = keys.node("files").and_then(|node| node.line);
            let filled = files.iter().map(|file| words.fill(file, line, "files"));
            filled.map(|file| file.map(PathBuf::from)).collect()
        }
        (None, Kind::Function) => Err(keys.missing("files", "files = [\"bench/parse.js\"]")),
        (Some(_), kind) => {
            let message = format!("a group of the kind '{}' has no 'files'", kind.name());
            Err(keys.error("files", format!("{message}\nhint: kind = \"function\"")))
        }
        (None, _) => Ok(Vec::new()),
    }
}

fn also(keys: &Keys) -> Result<Vec<String>> {
    let wanted = keys.texts("also")?.unwrap_or_default();
    let known: Vec<String> = metrics::ALSO
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    match wanted.iter().find(|name| !known.contains(name)) {
        Some(unknown) => Err(keys.unknown("also", unknown, &known)),
        None => Ok(wanted),
    }
}

fn seed(keys: &Keys) -> Result<Seed> {
    let is_text = keys.node("seed").is_some_and(|node| node.text().is_some());
    if !is_text {
        return Ok(keys.whole("seed", 0)?.map_or(Seed::PerBlock, Seed::Fixed));
    }
    let when = keys.choice("seed", &["per-block", "per-run"])?;
    Ok(match when.as_deref() {
        Some("per-run") => Seed::PerRun,
        _ => Seed::PerBlock,
    })
}

impl Group {
    /// A group with one case at most, of which nothing more is known than the table that it is in.
    pub(super) fn new(name: &str, kind: Kind, seed: Seed, keys: &Keys) -> Group {
        Group {
            name: name.to_owned(),
            kind,
            parameters: Vec::new(),
            cases: Vec::new(),
            metrics: Vec::new(),
            also: Vec::new(),
            seed,
            files: Vec::new(),
            is_old: false,
            own: Vec::new(),
            path: keys.path().to_owned(),
            wanted: None,
            sections: keys.entries(),
            overrides: Vec::new(),
            line: keys.line(),
        }
    }

    /// Paths of the files below the folder.
    pub(super) fn settle(&mut self, root: &Path) {
        for file in &mut self.files {
            *file = root.join(&*file);
        }
    }

    /// Decides its metrics, now that those are known that the target gives itself.
    pub(super) fn decide_metrics(&mut self, own: &[Metric], keys: &Keys) -> Result<()> {
        self.own = own.iter().map(|metric| metric.name.clone()).collect();
        let also: Vec<Metric> = self
            .also
            .iter()
            .filter_map(|name| metrics::also(name))
            .collect();
        let find = |name: &str| {
            let own = own.iter().chain(&also).find(|metric| metric.name == name);
            let stored = || metrics::stored(self.kind, name, false);
            own.cloned().or_else(|| metrics::find(self.kind, &stored()))
        };
        let usual = || -> Vec<String> {
            let own = own.iter().chain(&also).map(|metric| metric.name.clone());
            let first = match (self.kind, own.clone().next()) {
                (Kind::Server | Kind::Load, _) => {
                    vec![
                        "throughput",
                        "latency_p50",
                        "latency_p99",
                        "cpu_per_request",
                    ]
                }
                (Kind::Command, None) => vec!["wall_time"],
                _ => Vec::new(),
            };
            first.into_iter().map(str::to_owned).chain(own).collect()
        };
        let wanted = self.wanted.clone();
        let wanted = wanted.map_or_else(usual, |wanted| self.today(&wanted));
        let mut found: Vec<Metric> = Vec::new();
        for name in &wanted {
            match find(name) {
                Some(metric) => found.push(metric),
                None if self.kind == Kind::Function => {}
                None => {
                    let known = self.known_metrics(own);
                    let hint = nearest_of(name, &known);
                    let message =
                        format!("there is no metric '{name}' in the group '{}'", self.name);
                    return Err(keys.error("metrics", format!("{message}\nhint: {hint}")));
                }
            }
        }
        // What was asked for is reported, whether or not the list repeats it.
        for metric in own.iter().chain(&also) {
            if !found.iter().any(|known| known.name == metric.name) {
                found.push(metric.clone());
            }
        }
        self.metrics = found;
        Ok(())
    }

    fn known_metrics(&self, own: &[Metric]) -> Vec<String> {
        let own = own.iter().map(|metric| metric.name.clone());
        own.chain(self.also.iter().cloned())
            .chain(metrics::names(self.kind))
            .collect()
    }

    /// The metric of that name, reported or not.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        let today = self.renamed(name);
        let today = today.as_deref().unwrap_or(name);
        let own = self.metrics.iter().find(|metric| metric.name == today);
        let known = || metrics::find(self.kind, &self.stored(name));
        let metric = own.cloned().or_else(known)?;
        let is_own = self.own.contains(&metric.name);
        Some(if metrics::in_ms(name) && !is_own {
            Metric::new(name, "ms", metric.better)
        } else {
            metric
        })
    }

    /// Names as they are written today; those of its own figures and of counters stay.
    fn today(&self, names: &[String]) -> Vec<String> {
        let today = |name: &String| self.renamed(name).unwrap_or_else(|| name.clone());
        names.iter().map(today).collect()
    }

    /// The name that is to be written for a metric that has an older one.
    pub fn renamed(&self, name: &str) -> Option<String> {
        let is_given = self.own.iter().chain(&self.also).any(|own| own == name);
        let renamed = metrics::renamed(self.kind, name, self.is_old);
        renamed.filter(|_| !is_given)
    }

    /// The names that the file wants reported, as it spells them.
    pub fn wanted(&self) -> &[String] {
        self.wanted.as_deref().unwrap_or_default()
    }

    /// The name under which runs keep one of its metrics.
    pub fn kept(&self, metric: &Metric) -> String {
        let name = &metric.name;
        if self.own.contains(name) {
            name.clone()
        } else {
            metrics::stored(self.kind, name, false)
        }
    }

    /// The name under which runs keep the figure that the file calls by this name. A figure of its own keeps
    /// its name.
    pub fn stored(&self, name: &str) -> String {
        if self.own.iter().any(|own| own == name) {
            name.to_owned()
        } else {
            metrics::stored(self.kind, name, self.is_old)
        }
    }

    /// The names of all metrics that may be asked for.
    pub fn metric_names(&self) -> Vec<String> {
        let own: Vec<Metric> = self.metrics.clone();
        self.known_metrics(&own)
    }
}
