//! Groups the runs of snippets by snippet and number of workers, and finds snippets that the
//! compiler has probably optimized away.

use crate::CandidateComparison;
use crate::warnings::quote_list;
use speedwell_model::{Case, ParameterValue, Run, Session, Snippet};
use std::sync::Arc;

/// Whether a case is a snippet.
pub(crate) fn is_snippet(case: &Case) -> bool {
    case.benchmark.starts_with("eval/")
}

/// Whether most of these runs are marked as optimized away.
pub(super) fn is_folded<'a>(runs: impl Iterator<Item = &'a Run>) -> bool {
    let found: Vec<bool> =
        runs.map(|run| run.notes.iter().any(|note| note == Snippet::FOLDED)).collect();
    found.iter().filter(|found| **found).count() * 2 > found.len()
}

/// A snippet, at one number of workers, that the compiler has probably optimized away.
#[derive(Debug)]
pub(super) struct FoldedGroup {
    label: String,
    /// Sort key: index of the variant, then position of the first run in the plan. Positions alone
    /// do not tell the order of snippets on the command line, because blocks are shuffled.
    order: (Option<usize>, u32),
}

/// Finds the snippets in a part of a session that were probably optimized away.
pub(super) fn folded_groups(part: &Session) -> Vec<FoldedGroup> {
    let is_marked = |run: &Run| run.notes.iter().any(|note| note == Snippet::FOLDED);
    if !part.runs.iter().any(is_marked) {
        return Vec::new();
    }
    let groups = snippet_groups(part).into_iter();
    let folded = groups.filter(|(.., runs)| is_folded(runs.iter().copied()));
    folded
        .map(|(label, _, runs)| FoldedGroup {
            label,
            order: (
                variant_index(part, &runs[0].variant),
                runs.iter().map(|run| run.slot).min().unwrap_or_default(),
            ),
        })
        .collect()
}

/// Warning that names the snippets that were probably optimized away, if any.
pub(super) fn warn_folded(groups: &[FoldedGroup]) -> Option<String> {
    let mut groups: Vec<&FoldedGroup> = groups.iter().collect();
    groups.sort_by_key(|group| group.order);
    let mut labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    labels.dedup();
    let subject = if labels.len() > 1 { "iterations of these take" } else { "an iteration takes" };
    (!labels.is_empty()).then(|| {
        format!(
            "{}: {subject} less than three times as long as an empty one, so the compiler may have optimized the code \
             away, and comparisons with it mean nothing.",
            quote_list(labels.into_iter())
        )
    })
}

/// Cases and variants of a part whose code was probably optimized away.
pub(super) fn folded_sides(part: &Session) -> Vec<(Arc<Case>, Arc<str>)> {
    let is_marked = |run: &&Run| run.notes.iter().any(|note| note == Snippet::FOLDED);
    let mut found: Vec<(Arc<Case>, Arc<str>)> = Vec::new();
    for run in part.runs.iter().filter(is_marked) {
        let is_same = |other: &Run| other.variant == run.variant && other.case == run.case;
        let is_known =
            |(case, variant): &(Arc<Case>, Arc<str>)| *variant == run.variant && *case == run.case;
        if !found.iter().any(is_known) && is_folded(part.runs.iter().filter(|run| is_same(run))) {
            found.push((run.case.clone(), run.variant.clone()));
        }
    }
    found
}

/// Adds a note to the rows of a comparison in which one side was probably optimized away.
pub(super) fn note_folded(folded: &[(Arc<Case>, Arc<str>)], comparison: &mut CandidateComparison) {
    if folded.is_empty() {
        return;
    }
    for row in &mut comparison.rows {
        let of_side = |side: &&str| {
            let is_it =
                |(case, variant): &(Arc<Case>, Arc<str>)| **variant == **side && *case == row.case;
            folded.iter().any(is_it)
        };
        let sides = [comparison.baseline.as_str(), comparison.candidate.as_str()];
        let folded: Vec<&str> = sides.into_iter().filter(|side| of_side(side)).collect();
        if !folded.is_empty() {
            row.notes.push(format!(
                "The compiler may have optimized {} away: the change says nothing about the code.",
                quote_list(folded.into_iter())
            ));
        }
    }
}

/// The runs of one snippet at one number of workers: its label, its case and the runs.
pub(super) type SnippetGroup<'a> = (String, Arc<Case>, Vec<&'a Run>);

pub(super) fn ordered_groups(session: &Session) -> Vec<SnippetGroup<'_>> {
    let mut groups = snippet_groups(session);
    // Blocks are shuffled, but the first snippet typed is the baseline and must come first.
    groups.sort_by_key(|(.., runs)| variant_index(session, &runs[0].variant));
    groups
}

/// Index of a variant in its session.
fn variant_index(session: &Session, variant: &str) -> Option<usize> {
    session.variants.iter().position(|candidate| candidate.name == variant)
}

/// Formats the parameters of the snippet's text, which distinguish its cases, as in ` size=10`.
fn format_parameters(case: &Case) -> String {
    case.values
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "code" | "concurrency"))
        .map(|(name, value)| format!(" {name}={value}"))
        .collect()
}

pub(super) fn snippet_groups(session: &Session) -> Vec<SnippetGroup<'_>> {
    let several = session.variants.len() > 1;
    let mut groups: Vec<SnippetGroup<'_>> = Vec::new();
    let is_counted = |run: &&Run| run.rejected_by.is_none();
    for run in session.runs.iter().filter(is_counted) {
        let snippet = match run.case.value("code") {
            Some(ParameterValue::Text(snippet)) => Some(snippet.clone()),
            _ => None,
        };
        let values = format_parameters(&run.case);
        let label = match (snippet, several) {
            (Some(snippet), true) => format!("{snippet}{values} ({})", run.variant),
            (Some(snippet), false) => format!("{snippet}{values}"),
            (None, _) => format!("{}{values}", run.variant),
        };
        let id = run.case.id();
        let is_same_group = |group: &&mut SnippetGroup<'_>| group.0 == label && group.1.id() == id;
        match groups.iter_mut().find(is_same_group) {
            Some(group) => group.2.push(run),
            None => groups.push((label, run.case.clone(), vec![run])),
        }
    }
    groups
}
