//! Names that files had earlier: each is understood, and one whose meaning has changed is refused before measuring.
//!
//! Sessions keep the text of their file, so what they say must stay what it was. Start at [`Experiment::renamed`].

use super::Experiment;
use super::group::{Group, Kind};
use crate::expression::Filter;
use crate::tree::{Content, Node};
use anyhow::{Result, bail};

impl Experiment {
    /// A sentence with the older names of the file and what is written for them today, if there are any.
    ///
    /// # Errors
    /// One of them has another meaning today.
    pub fn renamed(&self) -> Result<Option<String>> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, group) in self.metrics_by_name() {
            let Some(today) = group.renamed(&name) else {
                continue;
            };
            if name == "throughput" {
                bail!(
                    "'throughput' counted bytes in files before schema 2, and counts requests everywhere else\n\
                     hint: schema = 2 at the top of the file; bytes are 'bytes_per_second', requests 'throughput'"
                );
            }
            found.push((name, today));
        }
        let has_connections = self.groups.iter().any(Group::counts_connections);
        let connections = ("connections".to_owned(), "concurrency".to_owned());
        found.extend(has_connections.then_some(connections));
        let mut told: Vec<String> = Vec::new();
        for (name, today) in found {
            let one = format!("'{name}' is '{today}'");
            if !told.contains(&one) {
                told.push(one);
            }
        }
        let list = told.join(", ");
        Ok((!told.is_empty())
            .then(|| format!("The file has older names that are understood: {list} today.")))
    }

    /// Every metric that the file names, with each group that it is about.
    fn metrics_by_name(&self) -> Vec<(String, &Group)> {
        let wanted = self.groups.iter().flat_map(|group| {
            let names = group.wanted().iter().cloned();
            names.map(move |name| (name, group))
        });
        let mut found: Vec<(String, &Group)> = wanted.collect();
        let mut about = |metric: &String, filter: &Filter, owner: Option<&String>| {
            let is_meant = |group: &&Group| {
                let named = filter.group.as_ref().or(owner);
                group.kind != Kind::Function && named.is_none_or(|name| *name == group.name)
            };
            let groups = self.groups.iter().filter(is_meant);
            found.extend(groups.map(|group| (metric.clone(), group)));
        };
        for claim in &self.claims {
            for term in claim.expression.terms() {
                about(&term.metric, &term.filter, None);
            }
        }
        for (owner, gate) in &self.compare.gates {
            about(&gate.metric, &gate.filter, owner.as_ref());
        }
        found
    }
}

impl Group {
    /// Whether its load says how many connections there are, instead of how many requests are in flight.
    fn counts_connections(&self) -> bool {
        let has = |node: Option<&Node>| match node.map(|node| &node.content) {
            Some(Content::Table(table)) => table.contains_key("connections"),
            _ => false,
        };
        let exceptions = self
            .overrides
            .iter()
            .map(|exception| exception.patch.get("load"));
        has(self.sections.get("load")) || exceptions.into_iter().any(has)
    }
}
