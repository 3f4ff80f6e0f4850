//! The answer in words. The words must be true of the figures below them: nothing is said to be
//! faster of which the verdict does not say so.

use crate::metric_words::{count, good_and_bad};
use crate::quantity::{change_with_interval, setting};
use speedwell_analysis::{CaseComparison, Comparison};
use speedwell_model::Verdict;

/// The answer of one comparison: one sentence, or two. `ended_after` so many runs if measuring was cut short.
pub fn headline(comparison: &Comparison, ended_after: Option<usize>) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    match (&comparison.rows[..], ended_after) {
        ([], Some(runs)) => format!(
            "{baseline} and {candidate} cannot be compared yet: measuring ended after {}, and no case has runs of both.",
            count(runs, "run", "runs")
        ),
        ([], None) => format!("{baseline} and {candidate} have no case in common."),
        ([only], _) => single(comparison, only),
        _ => format!("{}{}", many(comparison), typical(comparison)),
    }
}

fn single(comparison: &Comparison, row: &CaseComparison) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = good_and_bad(&comparison.metric);
    let sentence = match row.verdict {
        Verdict::Better => format!("{candidate} is {good} than {baseline}"),
        Verdict::Worse => format!("{candidate} is {bad} than {baseline}"),
        Verdict::Same => {
            format!(
                "{candidate} and {baseline} are the same within {}",
                delta(comparison)
            )
        }
        Verdict::Unclear => format!("it is unclear whether {candidate} is {good} than {baseline}"),
    };
    let change = row
        .change
        .map(|c| format!(": change {}", change_with_interval(&c)));
    let more = row.more_runs.map(|n| {
        let runs = count(n as usize, "more run", "more runs");
        format!("; about {runs} a side would tell")
    });
    format!(
        "{sentence}{}{}.",
        change.unwrap_or_default(),
        more.unwrap_or_default()
    )
}

fn many(comparison: &Comparison) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = good_and_bad(&comparison.metric);
    let total = comparison.rows.len();
    let of = |verdict| comparison.rows_that_are(verdict).count();
    let unclear = of(Verdict::Unclear);
    if unclear == total {
        return format!(
            "it is unclear whether {candidate} is {good} than {baseline} {}.",
            place(total, total)
        );
    }
    let equal = format!("the same within {}", delta(comparison));
    let mut parts = [
        (of(Verdict::Better), good),
        (of(Verdict::Worse), bad),
        (of(Verdict::Same), &equal),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0);
    let mut sentence = String::new();
    if let Some((number, word)) = parts.next() {
        let place = place(number, total);
        sentence = if word == equal {
            format!("{candidate} and {baseline} are {word} {place}")
        } else {
            format!("{candidate} is {word} than {baseline} {place}")
        };
    }
    for (number, word) in parts {
        sentence.push_str(&format!(", {word} in {number}"));
    }
    if unclear > 0 {
        sentence.push_str(&format!("; {unclear} unclear"));
    }
    sentence + "."
}

fn typical(comparison: &Comparison) -> String {
    let change = comparison.overall.as_ref().map(change_with_interval);
    change
        .map(|change| format!(" Typical change: {change}."))
        .unwrap_or_default()
}

fn delta(comparison: &Comparison) -> String {
    setting(comparison.delta)
}

/// `in 3 of 8 cases`, `in both cases`, `in all 8 cases`.
fn place(number: usize, total: usize) -> String {
    match (number == total, total) {
        (true, 2) => "in both cases".to_owned(),
        (true, _) => format!("in all {}", count(total, "case", "cases")),
        (false, _) => format!("in {number} of {}", count(total, "case", "cases")),
    }
}
