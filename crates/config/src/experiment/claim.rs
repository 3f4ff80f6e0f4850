//! Reads `[[claim]]` and `[compare]`. A claim is a statement in the report, and the data must
//! support it. `[compare]` defines which variants are compared, and what counts as a difference.
//! `[profile]` requests profiles of the compared variants.
//!
//! A claim over several cases is evaluated case by case. A term whose filter selects a single case
//! has the same value in every evaluation.

use super::plan::check_variant;
use super::variant;
use crate::expression::{self, ExpressionError};
use crate::file_part::{FilePart, nearest_hint};
use crate::reader;
use crate::value::{OneOrMany, ShareValue, TextOrTable, checked, choice_name};
use anyhow::Result;
use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use speedwell_model::assignment::ProfilingTool;
use speedwell_model::experiment::{
    BenchmarkGroup, ComparePlan, ExperimentVariant, GroupKind, ProfileCondition, ProfilePlan,
    ReportClaim, SelectedCase,
};
use speedwell_model::expression::{CaseFilter, ChangeGate, ClaimExpression, QuantityUnit};
use speedwell_model::{Case, ParameterValue, Verdict};

/// A statement in the report; the data must support it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimKeys {
    /// Sentence for the report. Default: the expression.
    say: Option<String>,
    /// Condition under which the claim holds: "latency_p50(green) < 2*latency_p50(red)".
    expr: String,
}

/// Resolves the claims of the file.
pub fn resolve_claims(
    claims: &[ClaimKeys],
    top: &FilePart,
    variants: &[ExperimentVariant],
    groups: &[BenchmarkGroup],
    params: &[(String, ParameterValue)],
) -> Result<Vec<ReportClaim>> {
    let parts = top.list_items("claim");
    let resolve = |(keys, part): (&ClaimKeys, &FilePart)| {
        let text = keys.expr.clone();
        let to_error = |error: ExpressionError| part.error_at_key("expr", error);
        let expression = expression::parse_claim(&text).map_err(to_error)?;
        check_names(&expression, &text, params).map_err(to_error)?;
        Ok(ReportClaim {
            say: keys.say.clone().unwrap_or_else(|| text.clone()),
            rows: claim_rows(&expression, &text, variants, groups).map_err(to_error)?,
            expression,
            text,
        })
    };
    claims.iter().zip(&parts).map(resolve).collect()
}

fn check_names(
    claim: &ClaimExpression,
    text: &str,
    params: &[(String, ParameterValue)],
) -> Result<(), ExpressionError> {
    let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).chain(["cpus"]).collect();
    for name in claim.parameter_names() {
        let value = params.iter().find(|(other, _)| other == name);
        let is_text = value.is_some_and(|(_, value)| value.as_number().is_none());
        let (message, hint) = if !names.contains(&name) {
            let hint = nearest_hint(name, names.iter().copied());
            let hint = format!("{hint}; a metric is followed by a variant in parentheses");
            (format!("unknown parameter '{name}'"), hint)
        } else if is_text {
            let hint = "set it to a number in [params]".to_owned();
            (format!("the parameter '{name}' is not a number"), hint)
        } else {
            continue;
        };
        return Err(ExpressionError::about_name(text, name, message, hint));
    }
    Ok(())
}

fn claim_rows(
    claim: &ClaimExpression,
    text: &str,
    variants: &[ExperimentVariant],
    groups: &[BenchmarkGroup],
) -> Result<Vec<Vec<SelectedCase>>, ExpressionError> {
    let groups: Vec<&BenchmarkGroup> = groups.iter().collect();
    let mut columns: Vec<Vec<SelectedCase>> = Vec::new();
    let terms = claim.terms();
    for term in &terms {
        if variant::find_variant(variants, &term.variant).is_err() {
            let hint = nearest_hint(&term.variant, variants.iter().map(|variant| &variant.name));
            let message = format!("unknown variant '{}'", term.variant);
            return Err(ExpressionError::about_name(text, &term.variant, message, hint));
        }
        columns.push(selected_cases(&groups, Some(&term.metric), &term.filter, text)?);
    }
    check_units(claim, text, &columns, &groups)?;
    let multiple = columns.iter().find(|cases| cases.len() > 1);
    let differing = columns.iter().position(|cases| cases.len() > 1 && Some(cases) != multiple);
    if let Some(differing) = differing {
        let term = terms[differing];
        let message =
            format!("'{term}' covers different cases than the other side of the comparison");
        let hint = "name the group or case: time[promises, test=fibonacci](new)".to_owned();
        return Err(ExpressionError::about_name(text, &term.metric, message, hint));
    }
    let row_count = multiple.map_or(1, Vec::len);
    let row = |index: usize| {
        let row = columns.iter().map(|cases| if cases.len() > 1 { cases[index] } else { cases[0] });
        row.collect()
    };
    Ok((0..row_count).map(row).collect())
}

/// Rejects a time or size in a claim if no metric of the claim has its unit, because the numbers
/// would not be comparable.
fn check_units(
    claim: &ClaimExpression,
    text: &str,
    columns: &[Vec<SelectedCase>],
    groups: &[&BenchmarkGroup],
) -> Result<(), ExpressionError> {
    let mut units: Vec<String> = Vec::new();
    for (term, cases) in claim.terms().into_iter().zip(columns) {
        for case in cases {
            match groups[case.group].find_metric(&term.metric) {
                Some(metric) => units.push(metric.unit),
                // The metrics of benchmark files are unknown until the files are measured.
                None => return Ok(()),
            }
        }
    }
    let is_unmatched =
        |(_, unit): &(f64, QuantityUnit)| !units.iter().any(|other| other == unit.stored);
    match claim.quantities().into_iter().find(is_unmatched) {
        Some((number, unit)) => {
            let part = format!("{number}{}", unit.name);
            let message = format!("'{part}' cannot be compared with the metrics in this claim");
            let hint = "metrics such as cpu_cores are plain numbers".to_owned();
            Err(ExpressionError::about_name(text, &part, message, hint))
        }
        None => Ok(()),
    }
}

// Selects cases by metric and filter.

/// Returns the cases that match the filter and, if a metric is given, have the metric. Fails if
/// there are none; the error shows the wrong name in `text`, the expression.
fn selected_cases(
    groups: &[&BenchmarkGroup],
    metric: Option<&str>,
    filter: &CaseFilter,
    text: &str,
) -> Result<Vec<SelectedCase>, ExpressionError> {
    let wrong_name = |name: &str, message: String, hint: String| {
        Err(ExpressionError::about_name(text, name, message, hint))
    };
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    if let Some(name) = filter.group.as_ref().filter(|name| !names.contains(name)) {
        let hint = nearest_hint(name, &names);
        return wrong_name(name, format!("unknown group '{name}'"), hint);
    }
    let is_selected =
        |group: &BenchmarkGroup| filter.group.as_ref().is_none_or(|name| *name == group.name);
    let candidates = groups.iter().enumerate().filter(|(_, group)| is_selected(group));
    let matching_groups = candidates.clone().filter(|(_, group)| has_metric(group, metric));
    let matching_groups: Vec<(usize, &&BenchmarkGroup)> = matching_groups.collect();
    if let (Some(metric), true) = (metric, matching_groups.is_empty()) {
        let names: IndexSet<String> =
            candidates.flat_map(|(_, group)| group.metric_names()).collect();
        let hint = nearest_hint(metric, names);
        return wrong_name(metric, format!("unknown metric '{metric}'"), hint);
    }
    check_values(&matching_groups, filter, text)?;
    let mut found = Vec::new();
    for (index, group) in &matching_groups {
        let group_index = *index;
        if group.kind == GroupKind::Function {
            found.push(SelectedCase { group: group_index, case: None });
        }
        let has_values = |case: &&Case| {
            filter.values.iter().all(|(name, value)| {
                case.value(name).is_some_and(|actual| actual.plain() == *value)
            })
        };
        let cases = group.cases.iter().enumerate().filter(|(_, case)| has_values(case));
        found.extend(cases.map(|(case, _)| SelectedCase { group: group_index, case: Some(case) }));
    }
    match (found.is_empty(), filter.values.first()) {
        (true, Some((name, _))) => {
            let message = "no case has all these values".to_owned();
            wrong_name(name, message, "'--list' shows the cases".to_owned())
        }
        _ => Ok(found),
    }
}

/// Whether a group has the metric. For benchmark files, any metric is accepted, because their
/// metrics are unknown until the files are measured.
fn has_metric(group: &BenchmarkGroup, metric: Option<&str>) -> bool {
    group.kind == GroupKind::Function
        || metric.is_none_or(|metric| group.find_metric(metric).is_some())
}

fn check_values(
    groups: &[(usize, &&BenchmarkGroup)],
    filter: &CaseFilter,
    text: &str,
) -> Result<(), ExpressionError> {
    if groups.iter().any(|(_, group)| group.kind == GroupKind::Function) {
        return Ok(());
    }
    for (name, value) in &filter.values {
        let parameters = groups.iter().flat_map(|(_, group)| &group.parameters);
        let matching: Vec<_> = parameters.clone().filter(|(key, _)| key == name).collect();
        if matching.is_empty() {
            let hint = nearest_hint(name, parameters.map(|(key, _)| key));
            let message = format!("unknown parameter '{name}'");
            return Err(ExpressionError::about_name(text, name, message, hint));
        }
        let values = matching.iter().flat_map(|(_, values)| values);
        let values: Vec<String> = values.map(ParameterValue::plain).collect();
        if !values.contains(value) {
            let hint = nearest_hint(value, &values);
            let message = format!("the parameter '{name}' has no value '{value}'");
            return Err(ExpressionError::about_name(text, value, message, hint));
        }
    }
    Ok(())
}

// Comparisons (`[compare]`).

/// Default confidence of intervals, as in `speedwell compare`.
const DEFAULT_CONFIDENCE: f64 = 0.95;

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
    gate: Option<TextOrTable<String, IndexMap<String, String>>>,
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
    for name in pairs.iter().flat_map(|VariantPair((first, second))| [first, second]) {
        check_variant(part, "pairs", name, variants)?;
    }
    Ok(pairs.iter().map(|pair| pair.0.clone()).collect())
}

/// Parses the gates: one string for all groups, as in `gate = "time < +5%"`, or a table with a
/// string for each group.
pub fn resolve_gates(
    keys: &CompareKeys,
    top: &FilePart,
    groups: &[BenchmarkGroup],
) -> Result<Vec<(Option<String>, ChangeGate)>> {
    let mut found = Vec::new();
    let Some(part) = top.part("compare") else { return Ok(found) };
    match (&keys.gate, part.part("gate")) {
        (Some(TextOrTable::Text(text)), _) => parse_gates(&part, "gate", text, groups, None),
        (Some(TextOrTable::Table(texts)), Some(inner)) => {
            for (name, text) in texts {
                let Some(group) = groups.iter().find(|group| group.name == *name) else {
                    let hint = nearest_hint(name, groups.iter().map(|group| &group.name));
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
    let gates = expression::parse_gates(text).map_err(|error| part.error_at_key(key, error))?;
    let applicable: Vec<&BenchmarkGroup> =
        group.map_or_else(|| groups.iter().collect(), |group| vec![group]);
    for gate in &gates {
        let cases = selected_cases(&applicable, Some(&gate.metric), &gate.filter, text);
        cases.map_err(|error| part.error_at_key(key, error))?;
    }
    let name = group.map(|group| group.name.clone());
    Ok(gates.into_iter().map(|gate| (name.clone(), gate)).collect())
}

// Reads `[profile]`, which requests extra runs that show where time is spent. These runs are never
// timed.

/// Names of verdicts in a condition such as `verdict != same`, each with its verdict.
const VERDICT_NAMES: [(&str, Verdict); 4] = [
    ("same", Verdict::Same),
    ("worse", Verdict::Worse),
    ("better", Verdict::Better),
    ("unclear", Verdict::Unclear),
];

/// Profiler.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ProfilerChoice {
    /// The best one available.
    #[default]
    Auto,
    /// Linux perf.
    Perf,
    /// V8's profiler, which sees only JavaScript.
    CpuProf,
    /// No profiler.
    None,
}

/// Extra runs that show where time is spent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileKeys {
    /// Cases to profile: "always", "never", "verdict != same", or a list of cases: ["http,
    /// size=100"]. Default: all.
    when: Option<WhenKeys>,
    /// Profiler. Default: the best one available.
    tool: ProfilerChoice,
    /// Samples that a profile includes. Default: samples after the warm-up.
    window: Option<ProfileWindow>,
    /// Pairs of variants whose profiles are compared. Default: the pairs that [compare] defines.
    pairs: Vec<VariantPair>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum WhenKeys {
    #[serde(rename = "a string")]
    Condition(String),
    #[serde(rename = "a list")]
    Cases(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ProfileWindow {
    /// Samples after the warm-up.
    AfterWarmup,
    /// All samples.
    All,
}

/// Resolves `[profile]`; `default_pairs` are the pairs of the comparison.
pub fn resolve_profile(
    keys: &ProfileKeys,
    top: &FilePart,
    variants: &[ExperimentVariant],
    groups: &[BenchmarkGroup],
    default_pairs: &[(String, String)],
) -> Result<Option<ProfilePlan>> {
    let Some(part) = top.part("profile") else { return Ok(None) };
    let pairs = match check_pairs(&keys.pairs, &part, variants)? {
        pairs if pairs.is_empty() => default_pairs.to_vec(),
        pairs => pairs,
    };
    let parse = |text: &String| parse_case_filter(&part, text, groups);
    let when = match &keys.when {
        None => ProfileCondition::Always,
        Some(WhenKeys::Condition(text)) => parse_condition(&part, text)?,
        Some(WhenKeys::Cases(cases)) => {
            ProfileCondition::Cases(cases.iter().map(parse).collect::<Result<_>>()?)
        }
    };
    Ok(Some(ProfilePlan {
        when,
        tool: match keys.tool {
            ProfilerChoice::Auto => Some(ProfilingTool::Auto),
            ProfilerChoice::Perf => Some(ProfilingTool::Perf),
            ProfilerChoice::CpuProf => Some(ProfilingTool::V8),
            ProfilerChoice::None => None,
        },
        after_warmup: keys.window != Some(ProfileWindow::All),
        pairs,
    }))
}

fn parse_condition(part: &FilePart, text: &str) -> Result<ProfileCondition> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["always"] => Ok(ProfileCondition::Always),
        ["never"] => Ok(ProfileCondition::Never),
        ["verdict", operator @ ("==" | "!="), name] => {
            let found = VERDICT_NAMES.iter().find(|(known, _)| *known == name);
            let names = VERDICT_NAMES.map(|(known, _)| known);
            let unknown = || part.value_error("when", reader::unknown_name(name, names));
            let (_, verdict) = found.ok_or_else(unknown)?;
            Ok(ProfileCondition::Verdict { verdict: *verdict, equal: operator == "==" })
        }
        _ => {
            let hint = "\"always\", \"never\", \"verdict != same\", or a list of cases";
            Err(part.value_error("when", format!("cannot be '{text}'\nhint: {hint}")))
        }
    }
}

fn parse_case_filter(part: &FilePart, text: &str, groups: &[BenchmarkGroup]) -> Result<CaseFilter> {
    let groups: Vec<&BenchmarkGroup> = groups.iter().collect();
    let parsed = expression::parse_filter(text).and_then(|filter| {
        selected_cases(&groups, None, &filter, text)?;
        Ok(filter)
    });
    parsed.map_err(|error| part.error_at_key("when", error))
}
