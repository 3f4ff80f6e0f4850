//! Where sessions were measured, as facts with names, and in what two of them differ.
//!
//! Decides which facts can move figures. Start at [`facts`].

use speedwell_model::Environment;
use std::collections::HashMap;

/// A fact that two sessions do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is about.
    pub name: String,
    /// What it was in the first session.
    pub before: String,
    /// What it was in the second one.
    pub after: String,
}

/// The facts about a machine and its settings that can move figures, in the order in which they are shown. What changes
/// from minute to minute is none of them.
pub fn facts(environment: &Environment) -> Vec<(String, String)> {
    let aslr = environment.aslr.map(|on| if on { "on" } else { "off" });
    let governors = environment.governors.join("+");
    let known = [
        ("host", environment.host.clone()),
        ("processor", environment.cpu.clone()),
        (
            "processors",
            environment.cpus.map(|count| count.to_string()),
        ),
        ("kernel", environment.kernel.clone()),
        (
            "clock governor",
            Some(governors).filter(|names| !names.is_empty()),
        ),
        ("address randomisation", aslr.map(str::to_owned)),
        (TUNED, tuned(environment)),
    ];
    let known = known.into_iter();
    let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let others = environment.facts.iter();
    let others = others.filter(|(name, _)| !is_of_the_moment(name) && name.as_str() != TUNED);
    known
        .chain(others.map(|(name, value)| (name.replace('_', " "), value.clone())))
        .collect()
}

/// The facts that both know and that are not the same.
pub fn differences(before: &[(String, String)], after: &[(String, String)]) -> Vec<Difference> {
    let later: HashMap<&str, &str> = after
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    before
        .iter()
        .filter_map(|(name, value)| {
            let other = later.get(&**name).filter(|other| **other != value)?;
            Some(Difference {
                name: name.clone(),
                before: value.clone(),
                after: (*other).to_owned(),
            })
        })
        .collect()
}

/// The fact that names the knobs of `speedwell tune` that were set.
pub(crate) const TUNED: &str = "tuned";

/// The knobs that were set, where it can be known: our own sessions would say so.
fn tuned(environment: &Environment) -> Option<String> {
    let knobs = environment.facts.get(TUNED).cloned();
    knobs.or_else(|| environment.speedwell.as_ref().map(|_| "nothing".to_owned()))
}

/// What changes from minute to minute, such as the memory that is free: it differs between any two sessions.
fn is_of_the_moment(fact: &str) -> bool {
    fact.starts_with("now_") || fact == "mhz_per_cpu"
}
