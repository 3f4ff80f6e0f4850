//! Reads `[profile]`, which requests extra runs that show where time is spent. These runs are never
//! timed.

use super::claim::{VariantPair, check_pairs, selected_cases};
use super::group::BenchmarkGroup;
use super::variant::ExperimentVariant;
use crate::expression::{self, CaseFilter};
use crate::file_part::FilePart;
use crate::reader;
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::Verdict;

/// Verdicts by their names in a condition.
const VERDICT_NAMES: [(&str, Verdict); 4] = [
    ("same", Verdict::Same),
    ("worse", Verdict::Worse),
    ("better", Verdict::Better),
    ("unclear", Verdict::Unclear),
];

/// How profiles are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfilePlan {
    /// Cases to profile.
    pub when: ProfileCondition,
    /// Profiler.
    pub tool: ProfilerChoice,
    /// Whether to ignore samples taken during the warm-up.
    pub after_warmup: bool,
    /// Variants whose profiles are compared.
    pub pairs: Vec<(String, String)>,
}

/// Which cases are profiled.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileCondition {
    /// All cases.
    Always,
    /// No cases.
    Never,
    /// Cases with or without this verdict.
    Verdict {
        /// Verdict to compare with.
        verdict: Verdict,
        /// True if the verdict must match, false if it must differ.
        equal: bool,
    },
    /// Cases that one of the filters selects.
    Cases(Vec<CaseFilter>),
}

/// Profiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilerChoice {
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
    /// Which samples count. Default: samples after the warm-up.
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
    let Some(part) = top.part("profile") else {
        return Ok(None);
    };
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
        tool: keys.tool,
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
            let names = VERDICT_NAMES.map(|(known, _)| known.to_owned());
            let unknown = || part.value_error("when", reader::unknown_name(name, &names));
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
    let filter =
        expression::parse_filter(text).map_err(|error| part.error_at_key("when", error))?;
    let groups: Vec<&BenchmarkGroup> = groups.iter().collect();
    match selected_cases(&groups, None, &filter) {
        Ok(_) => Ok(filter),
        Err(error) => Err(part.error_at_key("when", error.in_expression(text))),
    }
}
