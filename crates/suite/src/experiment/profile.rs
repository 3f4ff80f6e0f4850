//! `[profile]`: extra runs that show where time goes. They are never the runs that are timed.

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
    /// Of which cases.
    pub when: When,
    /// With what.
    pub tool: Tool,
    /// Only what happens after the warm-up counts.
    pub after_warmup: bool,
    /// Variants whose profiles are set against each other.
    pub pairs: Vec<(String, String)>,
}

/// Of which cases profiles are taken.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// Of all.
    Always,
    /// Of none.
    Never,
    /// Of those with this verdict, or of those with another.
    Verdict {
        /// The verdict.
        verdict: Verdict,
        /// It must be this one, not another.
        equal: bool,
    },
    /// Of those that one of the filters means.
    Cells(Vec<Filter>),
}

/// What takes profiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The best that there is.
    #[default]
    Auto,
    /// perf of Linux.
    Perf,
    /// V8's own, which sees JavaScript only.
    CpuProf,
    /// Nothing.
    None,
}

/// Extra runs that show where time goes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileKeys {
    /// Of which cases: "always", "never", "verdict != same", or a list of cases: ["http, size=100"]. Usually of all.
    when: Option<WhenKeys>,
    /// What takes profiles. Usually the best that there is.
    tool: Tool,
    /// What counts. Usually what happens after the warm-up.
    window: Option<Window>,
    /// Whose profiles are set against each other. Usually what is compared.
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
    /// What happens after the warm-up.
    AfterWarmup,
    /// Everything.
    All,
}

/// What `[profile]` says; `usual` is compared otherwise.
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
