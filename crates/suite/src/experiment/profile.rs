//! `[profile]`: extra runs that show where time goes. They are never the runs that are timed.

use super::compare;
use super::group::Group;
use super::spot;
use super::variant::Variant;
use crate::expression::{self, Filter, Mistake};
use crate::keys::Keys;
use crate::tree::{Content, Node};
use anyhow::Result;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The best that there is.
    Auto,
    /// perf of Linux.
    Perf,
    /// V8's own, which sees JavaScript only.
    CpuProf,
    /// Nothing.
    None,
}

/// Reads `[profile]`.
pub fn read(
    top: &Keys,
    variants: &[Variant],
    groups: &[Group],
    usual: &[(String, String)],
) -> Result<Option<Profile>> {
    let Some(keys) = top.table("profile")? else {
        return Ok(None);
    };
    let tool = match keys
        .choice("tool", &["auto", "perf", "cpu-prof", "none"])?
        .as_deref()
    {
        Some("perf") => Tool::Perf,
        Some("cpu-prof") => Tool::CpuProf,
        Some("none") => Tool::None,
        _ => Tool::Auto,
    };
    let window = keys.choice("window", &["after-warmup", "all"])?;
    let pairs = match compare::pairs(&keys, variants)? {
        pairs if pairs.is_empty() => usual.to_vec(),
        pairs => pairs,
    };
    let profile = Profile {
        when: when(&keys, groups)?,
        tool,
        after_warmup: window.as_deref() != Some("all"),
        pairs,
    };
    keys.finish()?;
    Ok(Some(profile))
}

fn when(keys: &Keys, groups: &[Group]) -> Result<When> {
    let Some(node) = keys.node("when") else {
        return Ok(When::Always);
    };
    if let Content::List(items) = &node.content {
        let cells = items.iter().map(|item| cell(keys, item, groups));
        return cells.collect::<Result<_>>().map(When::Cells);
    }
    let text = keys.text("when")?.unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["always"] => Ok(When::Always),
        ["never"] => Ok(When::Never),
        ["verdict", sign @ ("==" | "!="), name] => {
            let found = VERDICTS.iter().find(|(known, _)| *known == name);
            let names = VERDICTS.map(|(known, _)| known.to_owned());
            let (_, verdict) = found.ok_or_else(|| keys.unknown("when", name, &names))?;
            Ok(When::Verdict {
                verdict: *verdict,
                equal: sign == "==",
            })
        }
        _ => {
            let message = format!("the key 'when' of {} cannot be '{text}'", keys.place);
            let hint = "\"always\", \"never\", \"verdict != same\", or a list of cases";
            Err(keys.error("when", format!("{message}\nhint: {hint}")))
        }
    }
}

fn cell(keys: &Keys, item: &Node, groups: &[Group]) -> Result<Filter> {
    let Some(text) = item.text() else {
        return Err(keys.error("when", "a case is written as a text: \"http, server=hapi\""));
    };
    let filter = expression::filter(text).map_err(|mistake| keys.error("when", mistake))?;
    let groups: Vec<&Group> = groups.iter().collect();
    match spot::matching(&groups, None, &filter) {
        Ok(_) => Ok(filter),
        Err((part, message, hint)) => {
            Err(keys.error("when", Mistake::about(text, &part, message, hint)))
        }
    }
}
