//! Reads `[compare]`, which defines which variants are compared, and what counts as a difference.

use super::group::BenchmarkGroup;
use super::plan::check_variant;
use super::selection::selected_cases;
use super::variant::ExperimentVariant;
use crate::expression::ChangeGate;
use crate::file_part::{FilePart, nearest_hint};
use crate::value::{OneOrMany, ShareValue, checked, choice_name};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default confidence of intervals, as in `speedwell compare`.
const DEFAULT_CONFIDENCE: f64 = 0.95;

/// How variants are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparePlan {
    /// Reference; by default the first variant.
    pub baseline: String,
    /// Variants compared with the baseline, in order.
    pub candidates: Vec<String>,
    /// Further pairs (baseline, candidate) to compare. If the file lists pairs but no candidates,
    /// only these pairs are compared.
    pub pairs: Vec<(String, String)>,
    /// Test: `rank`, `welch`, `mann-whitney` or `bootstrap`.
    pub method: Option<String>,
    /// Confidence of intervals, as a fraction such as 0.95.
    pub confidence: f64,
    /// Smallest relevant change, as a fraction such as 0.02.
    pub threshold: Option<f64>,
    /// Limits on the change of a candidate, each with the group to which it applies; `None` stands
    /// for all groups that have its metric.
    pub gates: Vec<(Option<String>, ChangeGate)>,
}

impl ComparePlan {
    /// Returns the same comparison with another baseline. The candidates are the other variants of
    /// this comparison, or all other `variants` if it lists none.
    pub fn with_baseline(&self, baseline: &str, variants: &[ExperimentVariant]) -> ComparePlan {
        let listed = |name: &String| {
            self.candidates.is_empty() || self.candidates.contains(name) || *name == self.baseline
        };
        let others = variants.iter().map(|variant| variant.name.clone());
        ComparePlan {
            baseline: baseline.to_owned(),
            candidates: others.filter(|name| name != baseline && listed(name)).collect(),
            ..self.clone()
        }
    }

    /// Returns all pairs of baseline and candidate.
    pub fn all_pairs(&self) -> Vec<(String, String)> {
        let with_baseline =
            self.candidates.iter().map(|name| (self.baseline.clone(), name.clone()));
        let mut pairs: Vec<(String, String)> = with_baseline.collect();
        for pair in &self.pairs {
            if !pairs.contains(pair) {
                pairs.push(pair.clone());
            }
        }
        pairs
    }
}

/// How variants are compared, and how much worse a candidate may be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompareKeys {
    /// Variant that others are compared with. Default: the first.
    baseline: Option<String>,
    /// Variants compared with the baseline. Default: all others, unless there are pairs.
    candidates: Option<OneOrMany<String>>,
    /// Additional comparisons: [["red", "green"], ["blue", "purple"]].
    pairs: Vec<VariantPair>,
    /// Statistical test.
    method: Option<TestMethod>,
    /// Confidence of intervals. Default: "95%".
    confidence: Option<ShareValue>,
    /// Smallest relevant change.
    threshold: Option<ShareValue>,
    /// Limits on the change of a candidate: "throughput > -5% and latency_p99 < +10%" for all
    /// groups, or a table with one such string for each group. If a limit is exceeded, the exit
    /// status is 1.
    pub gate: Option<GateKeys>,
}

checked! {
    /// Two different names.
    pub struct VariantPair((String, String)) from Vec<String> as {
        "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2
    },
    |names| match <[String; 2]>::try_from(names) {
        Ok([baseline, candidate]) if baseline != candidate => Ok((baseline, candidate)),
        _ => Err("must be a list of pairs\nhint: pairs = [[\"old\", \"new\"]]".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TestMethod {
    /// Stratified permutation test on ranks.
    Rank,
    /// Welch's t-test.
    Welch,
    /// The Mann-Whitney U test.
    MannWhitney,
    /// Bootstrap intervals.
    Bootstrap,
}

/// One string for all groups, or one for each group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum GateKeys {
    #[serde(rename = "a string")]
    All(String),
    #[serde(rename = "a table")]
    ByGroup(IndexMap<String, String>),
}

/// Resolves `[compare]` except for its gates, which [`resolve_gates`] reads when metrics are known.
pub fn resolve_compare(
    keys: &CompareKeys,
    top: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<ComparePlan> {
    let first = variants.first().map(|variant| variant.name.clone());
    let baseline = keys.baseline.clone().or(first).unwrap_or_default();
    let mut pairs = Vec::new();
    if let Some(part) = top.part("compare") {
        for name in keys.baseline.iter() {
            check_variant(&part, "baseline", name, variants)?;
        }
        for name in keys.candidates.iter().flat_map(|names| names.iter()) {
            check_variant(&part, "candidates", name, variants)?;
        }
        pairs = check_pairs(&keys.pairs, &part, variants)?;
    }
    let others = variants.iter().map(|variant| &variant.name).filter(|name| **name != baseline);
    let candidates = match &keys.candidates {
        Some(listed) => listed.0.clone(),
        None if pairs.is_empty() => others.cloned().collect(),
        None => Vec::new(),
    };
    Ok(ComparePlan {
        baseline,
        candidates,
        pairs,
        method: keys.method.as_ref().map(choice_name),
        confidence: keys.confidence.map_or(DEFAULT_CONFIDENCE, |share| share.0),
        threshold: keys.threshold.map(|share| share.0),
        gates: Vec::new(),
    })
}

/// Checks that the variants of all pairs exist, and returns the pairs.
pub fn check_pairs(
    pairs: &[VariantPair],
    part: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for VariantPair(pair) in pairs {
        check_variant(part, "pairs", &pair.0, variants)?;
        check_variant(part, "pairs", &pair.1, variants)?;
        found.push(pair.clone());
    }
    Ok(found)
}

/// Parses the gates: one string for all groups, as in `gate = "time < +5%"`, or a table with a
/// string for each group.
pub fn resolve_gates(
    keys: &CompareKeys,
    top: &FilePart,
    groups: &[BenchmarkGroup],
) -> Result<Vec<(Option<String>, ChangeGate)>> {
    let mut found = Vec::new();
    let Some(part) = top.part("compare") else {
        return Ok(found);
    };
    match (&keys.gate, part.part("gate")) {
        (Some(GateKeys::All(text)), _) => parse_gates(&part, "gate", text, groups, None),
        (Some(GateKeys::ByGroup(texts)), Some(inner)) => {
            let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
            for (name, text) in texts {
                let Some(group) = groups.iter().find(|group| group.name == *name) else {
                    let hint = nearest_hint(name, &names);
                    let message = format!("unknown group '{name}'\nhint: {hint}");
                    return Err(inner.error_at_key(name, message));
                };
                found.extend(parse_gates(&inner, name, text, groups, Some(group))?);
            }
            Ok(found)
        }
        _ => Ok(found),
    }
}

fn parse_gates(
    part: &FilePart,
    key: &str,
    text: &str,
    groups: &[BenchmarkGroup],
    group: Option<&BenchmarkGroup>,
) -> Result<Vec<(Option<String>, ChangeGate)>> {
    let gates = ChangeGate::parse(text).map_err(|error| part.error_at_key(key, error))?;
    let mut found = Vec::new();
    for gate in gates {
        let applicable: Vec<&BenchmarkGroup> = match group {
            Some(group) => vec![group],
            None => groups.iter().collect(),
        };
        let cases = selected_cases(&applicable, Some(&gate.metric), &gate.filter);
        cases.map_err(|error| part.error_at_key(key, error.in_expression(text)))?;
        found.push((group.map(|group| group.name.clone()), gate));
    }
    Ok(found)
}
