//! What one run has to do: a group's sections for one case and one variant, with every blank filled
//! that can be known before.

use super::figure;
use super::group::{Group, Kind};
use super::proof;
use super::service;
use super::target::{self, Circumstances};
use super::traffic;
use super::variant::Variant;
use super::vocabulary::Vocabulary;
use super::{Experiment, environment};
use crate::blanks;
use crate::keys::Keys;
use crate::tree::{Content, Node, Table};
use anyhow::{Result, bail};
use speedwell_model::Case;
use speedwell_model::assignment::{Assignment, Change, Work};
use std::path::Path;

/// Keys of `[group.target]` that only servers have.
const OF_A_SERVER: [&str; 5] = ["port", "network", "ready", "stop", "expect_processes"];

impl Experiment {
    /// What a run of a case under a variant has to do. `{port}` stays a blank.
    ///
    /// # Errors
    /// There is no such variant, or the group consists of benchmark files. What else could be wrong
    /// was found when the file was read.
    pub fn assignment(
        &self,
        group: &Group,
        case: &Case,
        variant: &str,
        seed: u64,
    ) -> Result<Assignment> {
        if group.kind == Kind::Function {
            bail!(
                "'{}' consists of benchmark files, which have a harness",
                group.name
            );
        }
        let variant = &self.variants[super::variant::find(&self.variants, variant)?];
        if group.kind == Kind::Load {
            let current = |name: &str| std::env::var(name).ok();
            let variant = self.harness_variant(&variant.name, &current)?;
            return self.load_assignment(group, case, &variant, None);
        }
        let sections = super::cases::patched(&group.sections, &group.overrides, case);
        let words = self.words(group, case, variant, seed, &sections)?;
        let patch = words.fill_node(&variant.patch, &variant.path)?;
        let patch = Keys::below(&variant.path, &patch)?;
        let around = Circumstances {
            root: &self.root,
            limit: self.plan.timeout,
            case,
            variant: &variant.name,
            has_program: has_program(&sections, variant),
            parameters: &group.parameters,
        };
        let filled = Node {
            line: group.line,
            content: Content::Table(sections),
        };
        let filled = words.fill_node(&filled, &group.path)?;
        let keys = Keys::below(&group.path, &filled)?;
        let Some(target_keys) = keys.table("target")? else {
            return Err(keys.missing("target", "[group.target] with command = [...]"));
        };
        let target = target::read(&target_keys, &patch, &around)?;
        let work = work(&keys, &target_keys, group, &self.root)?;
        target_keys.finish()?;
        let proofs = proof::read(&patch, &target.directory, group.kind == Kind::Server)?;
        patch.finish()?;
        Ok(Assignment {
            target,
            work,
            proofs,
            figures: figure::read(&keys)?,
            also: group.also.clone(),
            processors: self.shares,
            profile: None,
        })
    }

    /// What the blanks of a case under a variant mean. A name of the variant hides one of `[params]`.
    fn words(
        &self,
        group: &Group,
        case: &Case,
        variant: &Variant,
        seed: u64,
        sections: &Table,
    ) -> Result<Vocabulary> {
        let mut words = self.general.clone();
        words.say("seed", seed.to_string());
        words.leave("port");
        words.belongs(format!(
            " in the group '{}' under the variant '{}'",
            group.name, variant.name
        ));
        for (name, value) in &case.values {
            words.say(name, value.plain());
        }
        variant.tell(&mut words)?;
        let program = variant.patch.table().and_then(|patch| patch.get("program"));
        if let Some((program, line)) = program.and_then(|node| Some((node.text()?, node.line))) {
            let program = words.fill(program, line, &variant.path)?;
            words.say("program", program);
        }
        // The path of the load is the last resort of `{path}`, so that readiness can ask for it, too.
        if words.fill("{path}", None, "").is_err()
            && let Some(path) = path(sections, &words, &group.path)?
        {
            words.say("path", path);
        }
        Ok(words)
    }

    /// The variant as harnesses of benchmark files know variants. `current` gives the variables of our
    /// own environment, because a harness can only set variables.
    ///
    /// # Errors
    /// There is no such variant, or it says something that a harness cannot do.
    pub fn harness_variant(
        &self,
        variant: &str,
        current: &dyn Fn(&str) -> Option<String>,
    ) -> Result<speedwell_model::Variant> {
        let variant = &self.variants[super::variant::find(&self.variants, variant)?];
        let mut found = self.declared_variant(variant, current)?;
        let usual = || self.program.clone().map(Into::into);
        found.program = found.program.or_else(usual);
        Ok(found)
    }

    /// The same without what the file says of all variants.
    ///
    /// # Errors
    /// It says something that a harness cannot do.
    pub fn declared_variant(
        &self,
        variant: &Variant,
        current: &dyn Fn(&str) -> Option<String>,
    ) -> Result<speedwell_model::Variant> {
        let mut words = self.general.clone();
        words.belongs(format!(" under the variant '{}'", variant.name));
        variant.tell(&mut words)?;
        let patch = words.fill_node(&variant.patch, &variant.path)?;
        let keys = Keys::below(&variant.path, &patch)?;
        for key in ["command", "cwd"] {
            if keys.has(key) {
                let message = format!("'{key}' of the variant '{}' has no meaning", variant.name);
                return Err(keys.error(
                    key,
                    format!("{message} for benchmark files and loads\nhint: program = \"node\""),
                ));
            }
        }
        let mut found = speedwell_model::Variant::plain(&variant.name);
        found.program = keys.text("program")?.map(Into::into);
        found.arguments = target::arguments(&keys)?;
        for change in environment::read(&keys, "env")? {
            found.environment.push(set(&change, current, &keys)?);
        }
        Ok(found)
    }
}

/// A change as a variable with its whole value.
fn set(
    change: &Change,
    current: &dyn Fn(&str) -> Option<String>,
    keys: &Keys,
) -> Result<(String, String)> {
    let joined = |name: &str, more: &str, first: bool| {
        let separator = if name.ends_with("PATH") { ":" } else { " " };
        match current(name).filter(|known| !known.is_empty()) {
            Some(known) if first => format!("{more}{separator}{known}"),
            Some(known) => format!("{known}{separator}{more}"),
            None => more.to_owned(),
        }
    };
    Ok(match change {
        Change::Set(name, value) => (name.clone(), value.clone()),
        Change::Append(name, value) => (name.clone(), joined(name, value, false)),
        Change::Prepend(name, value) => (name.clone(), joined(name, value, true)),
        Change::Unset(name) => {
            let message = format!("'{name}' cannot be unset for benchmark files");
            return Err(keys.error("env", message));
        }
    })
}

/// Whether the command that is performed has the blank `{program}`.
fn has_program(sections: &Table, variant: &Variant) -> bool {
    let of = |table: Option<&Table>| table.and_then(|table| table.get("command")).cloned();
    let command = of(variant.patch.table());
    let command = command.or_else(|| of(sections.get("target").and_then(Node::table)));
    let mut found = false;
    let mut look = |text: &str| found |= blanks::names(text).iter().any(|name| name == "program");
    if let Some(command) = command {
        command.visit_texts(&mut look);
    }
    found
}

/// What is done with the target, which may say nothing of a server unless it is one.
fn work(keys: &Keys, target: &Keys, group: &Group, root: &Path) -> Result<Work> {
    if group.kind == Kind::Server {
        let Some(load) = keys.table("load")? else {
            return Err(keys.missing("load", "[group.load] with requests or duration"));
        };
        let service = service::read(target, &load, keys.table("verify")?.as_ref(), root)?;
        load.finish()?;
        return Ok(Work::Server(Box::new(service)));
    }
    match OF_A_SERVER.iter().find(|key| target.has(key)) {
        None => Ok(Work::Command),
        Some(key) => {
            let message = format!("'{key}' has no meaning for a command");
            let hint = format!(
                "the group '{}' has kind = \"server\" if it serves",
                group.name
            );
            Err(target.error(key, format!("{message}\nhint: {hint}")))
        }
    }
}

/// The path that the load asks for.
fn path(sections: &Table, words: &Vocabulary, place: &str) -> Result<Option<String>> {
    let load = sections.get("load").and_then(Node::table);
    let text = |key: &str| {
        let node = load.and_then(|load| load.get(key))?;
        Some((node.text()?, node.line))
    };
    if let Some((path, line)) = text("path") {
        return words
            .fill(path, line, &format!("{place}.load.path"))
            .map(Some);
    }
    let Some((url, line)) = text("url") else {
        return Ok(load.map(|_| "/".to_owned()));
    };
    let url = words.fill(url, line, &format!("{place}.load.url"))?;
    Ok(traffic::path_of(&url).map(str::to_owned))
}
