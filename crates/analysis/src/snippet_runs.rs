//! The runs of snippets, by snippet and number of workers, and which of them their compiler has probably removed.

use crate::Comparison;
use crate::warnings::list;
use speedwell_model::{Case, Run, Session, Snippet, Value};
use std::sync::Arc;

/// Whether most of these runs found a snippet that does nothing.
pub(super) fn is_folded<'a>(runs: impl Iterator<Item = &'a Run>) -> bool {
    let found: Vec<bool> = runs
        .map(|run| run.notes.iter().any(|note| note == Snippet::FOLDED))
        .collect();
    found.iter().filter(|found| **found).count() * 2 > found.len()
}

/// A sentence that names the snippets that the compiler has probably removed, if there are any.
pub(super) fn folded(session: &Session) -> Option<String> {
    let groups = ordered(session);
    let own = groups
        .iter()
        .filter(|(.., runs)| is_folded(runs.iter().copied()));
    let mut labels: Vec<&str> = own.map(|(label, ..)| label.as_str()).collect();
    labels.dedup();
    let many = if labels.len() > 1 {
        "iterations of these take"
    } else {
        "an iteration takes"
    };
    (!labels.is_empty()).then(|| {
        format!(
            "{}: {many} less than three times as long as an empty one, so the code may have been folded away, and \
             comparisons with it mean nothing.",
            list(labels.into_iter())
        )
    })
}

/// Says so of every row of a comparison in which one side was probably removed by its compiler.
pub(super) fn mark_folded(session: &Session, comparison: &mut Comparison) {
    for row in &mut comparison.rows {
        let of_side = |side: &&str| {
            let own = session
                .runs
                .iter()
                .filter(|run| *run.variant == **side && run.case == row.case);
            is_folded(own)
        };
        let sides = [comparison.baseline.as_str(), comparison.candidate.as_str()];
        let folded: Vec<&str> = sides.into_iter().filter(|side| of_side(side)).collect();
        if !folded.is_empty() {
            row.notes.push(format!(
                "{} may have been folded away: the change says nothing about the code.",
                list(folded.into_iter())
            ));
        }
    }
}

/// The runs of one snippet at one number of workers.
pub(super) type Group<'a> = (String, Arc<Case>, Vec<&'a Run>);

pub(super) fn ordered(session: &Session) -> Vec<Group<'_>> {
    let mut groups = groups(session);
    let place = |name: &str| session.variants.iter().position(|one| one.name == name);
    // Blocks are shuffled, and the first snippet typed is the baseline.
    groups.sort_by_key(|(.., runs)| place(&runs[0].variant));
    groups
}

/// ` size=10`: the parameters of the snippet's text, which tell cases of one snippet apart.
fn values(case: &Case) -> String {
    let own = case.values.iter();
    let own = own.filter(|(name, _)| !matches!(name.as_str(), "code" | "concurrency"));
    own.map(|(name, value)| format!(" {name}={value}"))
        .collect()
}

pub(super) fn groups(session: &Session) -> Vec<Group<'_>> {
    let several = session.variants.len() > 1;
    let mut groups: Vec<Group<'_>> = Vec::new();
    let is_counted = |run: &&Run| run.disturbed.is_none();
    for run in session.runs.iter().filter(is_counted) {
        let snippet = match run.case.value("code") {
            Some(Value::Text(snippet)) => Some(snippet.clone()),
            _ => None,
        };
        let values = values(&run.case);
        let label = match (snippet, several) {
            (Some(snippet), true) => format!("{snippet}{values} ({})", run.variant),
            (Some(snippet), false) => format!("{snippet}{values}"),
            (None, _) => format!("{}{values}", run.variant),
        };
        let id = run.case.id();
        let known = |group: &&mut Group<'_>| group.0 == label && group.1.id() == id;
        match groups.iter_mut().find(known) {
            Some(group) => group.2.push(run),
            None => groups.push((label, run.case.clone(), vec![run])),
        }
    }
    groups
}
