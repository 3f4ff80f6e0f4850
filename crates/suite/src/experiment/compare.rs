//! `[compare]`: what is set against what, and what counts as a difference.

use super::group::Group;
use super::plan::known;
use super::variant::Variant;
use crate::expression::{Gate, Mistake};
use crate::keys::{Keys, nearest_of};
use crate::tree::{Content, Node};
use anyhow::Result;

/// The confidence of intervals where nothing is said, as in `speedwell compare`.
const CONFIDENCE: f64 = 0.95;

/// How variants are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// The reference: the first variant unless it is said.
    pub baseline: String,
    /// What is compared with the baseline, in order.
    pub candidates: Vec<String>,
    /// What is compared besides, or instead where candidates are not listed.
    pub pairs: Vec<(String, String)>,
    /// The test: `rank`, `welch`, `mann-whitney` or `bootstrap`.
    pub method: Option<String>,
    /// The confidence of intervals, as a share.
    pub confidence: f64,
    /// The smallest change worth saying, as a share.
    pub threshold: Option<f64>,
    /// Gates with the group that each is about; a gate without one is about all that have the metric.
    pub gates: Vec<(Option<String>, Gate)>,
}

impl Compare {
    /// The same with another variant as the reference of all `variants`, or of those that are listed.
    pub fn against(&self, baseline: &str, variants: &[Variant]) -> Compare {
        let listed = |name: &String| {
            self.candidates.is_empty() || self.candidates.contains(name) || *name == self.baseline
        };
        let others = variants.iter().map(|variant| variant.name.clone());
        Compare {
            baseline: baseline.to_owned(),
            candidates: others
                .filter(|name| name != baseline && listed(name))
                .collect(),
            ..self.clone()
        }
    }

    /// Everything that is compared: baseline and candidate.
    pub fn all_pairs(&self) -> Vec<(String, String)> {
        let own = self
            .candidates
            .iter()
            .map(|name| (self.baseline.clone(), name.clone()));
        let mut all: Vec<(String, String)> = own.collect();
        for pair in &self.pairs {
            if !all.contains(pair) {
                all.push(pair.clone());
            }
        }
        all
    }
}

/// Reads `[compare]` except for its gates, which [`gates`] reads when metrics are known.
pub fn read(top: &Keys, variants: &[Variant]) -> Result<Compare> {
    let first = variants.first().map(|variant| variant.name.clone());
    let mut compare = Compare {
        baseline: first.unwrap_or_default(),
        candidates: Vec::new(),
        pairs: Vec::new(),
        method: None,
        confidence: CONFIDENCE,
        threshold: None,
        gates: Vec::new(),
    };
    let mut listed = None;
    if let Some(keys) = top.table("compare")? {
        if let Some(baseline) = keys.text("baseline")? {
            known(&keys, "baseline", &baseline, variants)?;
            compare.baseline = baseline;
        }
        listed = keys.texts("candidates")?;
        for name in listed.iter().flatten() {
            known(&keys, "candidates", name, variants)?;
        }
        compare.pairs = pairs(&keys, variants)?;
        compare.method = keys.choice("method", &["rank", "welch", "mann-whitney", "bootstrap"])?;
        compare.confidence = keys.share("confidence")?.unwrap_or(CONFIDENCE);
        compare.threshold = keys.share("threshold")?;
        keys.node("gate");
        keys.finish()?;
    }
    let others = variants.iter().map(|variant| &variant.name);
    let others = others.filter(|name| **name != compare.baseline);
    compare.candidates = match listed {
        Some(listed) => listed,
        None if compare.pairs.is_empty() => others.cloned().collect(),
        None => Vec::new(),
    };
    Ok(compare)
}

/// A list of lists of two names.
pub fn pairs(keys: &Keys, variants: &[Variant]) -> Result<Vec<(String, String)>> {
    let Some(node) = keys.node("pairs") else {
        return Ok(Vec::new());
    };
    let wrong = || {
        let message = format!("the key 'pairs' of {} is not a list of pairs", keys.place);
        keys.error(
            "pairs",
            format!("{message}\nhint: pairs = [[\"old\", \"new\"]]"),
        )
    };
    let Content::List(items) = &node.content else {
        return Err(wrong());
    };
    let mut found = Vec::new();
    for item in items {
        let Content::List(two) = &item.content else {
            return Err(wrong());
        };
        let [Some(one), Some(other)] =
            [two.first(), two.get(1)].map(|node| node.and_then(Node::text))
        else {
            return Err(wrong());
        };
        if two.len() != 2 || one == other {
            return Err(wrong());
        }
        known(keys, "pairs", one, variants)?;
        known(keys, "pairs", other, variants)?;
        found.push((one.to_owned(), other.to_owned()));
    }
    Ok(found)
}

/// Reads `gate = "time < +5%"`, or a table with a text for each group.
pub fn gates(top: &Keys, groups: &[Group]) -> Result<Vec<(Option<String>, Gate)>> {
    let mut found = Vec::new();
    let Some(keys) = top.table("compare")? else {
        return Ok(found);
    };
    let is_table = keys.node("gate").is_some_and(|node| node.table().is_some());
    if !is_table {
        let text = keys.text("gate")?;
        let gates = text.map(|text| of_text(&keys, "gate", &text, groups, None));
        return Ok(gates.transpose()?.unwrap_or_default());
    }
    let Some(inner) = keys.table("gate")? else {
        return Ok(found);
    };
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    for name in inner.names() {
        let Some(group) = groups.iter().find(|group| group.name == name) else {
            let hint = nearest_of(&name, &names);
            return Err(inner.error(&name, format!("there is no group '{name}'\nhint: {hint}")));
        };
        let text = inner.text(&name)?.unwrap_or_default();
        found.extend(of_text(&inner, &name, &text, groups, Some(group))?);
    }
    Ok(found)
}

fn of_text(
    keys: &Keys,
    key: &str,
    text: &str,
    groups: &[Group],
    group: Option<&Group>,
) -> Result<Vec<(Option<String>, Gate)>> {
    let gates = Gate::all(text).map_err(|mistake| keys.error(key, mistake))?;
    let mut found = Vec::new();
    for gate in gates {
        let about: Vec<&Group> = match group {
            Some(group) => vec![group],
            None => groups.iter().collect(),
        };
        super::spot::matching(&about, Some(&gate.metric), &gate.filter).map_err(
            |(part, message, hint)| keys.error(key, Mistake::about(text, &part, message, hint)),
        )?;
        found.push((group.map(|group| group.name.clone()), gate));
    }
    Ok(found)
}
