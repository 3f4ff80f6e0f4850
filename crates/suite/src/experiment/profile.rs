//! `[profile]`: extra runs that show where time is spent. They are never timed.

use super::compare::{Pair, checked_pairs};
use super::group::Group;
use super::selection::selected_cases;
use super::variant::Variant;
use crate::expression::{self, Filter};
use crate::part::Part;
use crate::reader;
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::Verdict;

/// Verdicts by their names in a condition.
const VERDICTS: [(&str, Verdict); 4] = [
    ("same", Verdict::Same),
    ("worse", Verdict::Worse),
    ("better", Verdict::Better),
    ("unclear", Verdict::Unclear),
];

/// How profiles are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Cases to profile.
    pub when: When,
    /// Profiler.
    pub tool: Tool,
    /// Whether only samples after the warm-up count.
    pub after_warmup: bool,
    /// Variants whose profiles are compared.
    pub pairs: Vec<(String, String)>,
}

/// Which cases are profiled.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// All cases.
    Always,
    /// No cases.
    Never,
    /// Cases with this verdict, or all except those.
    Verdict {
        /// Verdict to compare with.
        verdict: Verdict,
        /// Whether the verdict must be equal or different.
        equal: bool,
    },
    /// Cases that one of the filters selects.
    Cells(Vec<Filter>),
}

/// Profiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The best one available.
    #[default]
    Auto,
    /// perf of Linux.
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
    tool: Tool,
    /// Which samples count. Default: those after the warm-up.
    window: Option<Window>,
    /// Variants whose profiles are compared. Default: those of the comparison.
    pairs: Vec<Pair>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum WhenKeys {
    #[serde(rename = "a text")]
    Condition(String),
    #[serde(rename = "a list")]
    Cases(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Window {
    /// Samples after the warm-up.
    AfterWarmup,
    /// All samples.
    All,
}

/// Resolves `[profile]`; `usual` are the pairs of the comparison.
pub fn resolve(
    keys: &ProfileKeys,
    top: &Part,
    variants: &[Variant],
    groups: &[Group],
    usual: &[(String, String)],
) -> Result<Option<Profile>> {
    let Some(part) = top.part("profile") else {
        return Ok(None);
    };
    let pairs = match checked_pairs(&keys.pairs, &part, variants)? {
        pairs if pairs.is_empty() => usual.to_vec(),
        pairs => pairs,
    };
    let cell = |text: &String| cell(&part, text, groups);
    let when = match &keys.when {
        None => When::Always,
        Some(WhenKeys::Condition(text)) => condition(&part, text)?,
        Some(WhenKeys::Cases(cases)) => When::Cells(cases.iter().map(cell).collect::<Result<_>>()?),
    };
    Ok(Some(Profile {
        when,
        tool: keys.tool,
        after_warmup: keys.window != Some(Window::All),
        pairs,
    }))
}

fn condition(part: &Part, text: &str) -> Result<When> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["always"] => Ok(When::Always),
        ["never"] => Ok(When::Never),
        ["verdict", sign @ ("==" | "!="), name] => {
            let found = VERDICTS.iter().find(|(known, _)| *known == name);
            let names = VERDICTS.map(|(known, _)| known.to_owned());
            let unknown = || part.wrong("when", reader::unknown_name(name, &names));
            let (_, verdict) = found.ok_or_else(unknown)?;
            Ok(When::Verdict {
                verdict: *verdict,
                equal: sign == "==",
            })
        }
        _ => {
            let hint = "\"always\", \"never\", \"verdict != same\", or a list of cases";
            Err(part.wrong("when", format!("cannot be '{text}'\nhint: {hint}")))
        }
    }
}

fn cell(part: &Part, text: &str, groups: &[Group]) -> Result<Filter> {
    let filter = expression::filter(text).map_err(|mistake| part.error("when", mistake))?;
    let groups: Vec<&Group> = groups.iter().collect();
    match selected_cases(&groups, None, &filter) {
        Ok(_) => Ok(filter),
        Err(wrong) => Err(part.error("when", wrong.within(text))),
    }
}
