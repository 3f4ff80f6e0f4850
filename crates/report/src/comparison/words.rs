//! The answer of a comparison in words, and what a reader needs to judge it: units above the table, method and limits
//! below.
//!
//! The words must be true of the figures below them: nothing is said to be faster unless the verdict says so.

use crate::case_labels::distinct;
use crate::figure::{
    Uncertainty, change, change_with_interval, count, direction, good_and_bad, in_unit, quantity,
    setting, share,
};
use crate::output::Verbosity;
use speedwell_analysis::{CaseComparison, Comparison, Correction, Method, Side};
use speedwell_model::{Failure, Metric, Verdict};

/// The answer of one comparison: one sentence, or two. `changed` names what the change of a single case is of; `ended_after`
/// so many runs if measuring was cut short.
pub fn headline(
    comparison: &Comparison,
    changed: &str,
    ended_after: Option<usize>,
    failures: &[Failure],
) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    if comparison.rows.is_empty()
        && let Some(failed) = failed_sides(comparison, failures)
    {
        return format!("{baseline} and {candidate} cannot be compared: {failed}.");
    }
    match (&comparison.rows[..], ended_after) {
        ([], Some(runs)) => format!(
            "{baseline} and {candidate} cannot be compared yet: measuring ended after {}, and no case has runs of both.",
            count(runs, "run", "runs")
        ),
        ([], None) => format!("{baseline} and {candidate} have no case in common."),
        ([only], _) => single(comparison, changed, only),
        _ => format!("{}{}", many(comparison), typical(comparison)),
    }
}

/// Which of the sides failed, and how: `new exited with status 3`.
fn failed_sides(comparison: &Comparison, failures: &[Failure]) -> Option<String> {
    let sides = [&comparison.baseline, &comparison.candidate];
    let failed = sides.into_iter().filter_map(|side| {
        let own = failures.iter().filter(|failure| !failure.cause.is_skip());
        let mut own = own.filter(|failure| failure.variant.as_ref() == Some(side));
        Some(format!("{side} failed ({})", own.next()?.cause))
    });
    let failed: Vec<String> = failed.collect();
    (!failed.is_empty()).then(|| failed.join(" and "))
}

fn single(comparison: &Comparison, changed: &str, row: &CaseComparison) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = good_and_bad(&comparison.metric);
    if let Some(withheld) = &row.withheld {
        return format!("{baseline} and {candidate} are not compared: {withheld}.");
    }
    let sentence = match row.verdict {
        Verdict::Better => format!("{candidate} is {good} than {baseline}"),
        Verdict::Worse => format!("{candidate} is {bad} than {baseline}"),
        Verdict::Same => {
            format!(
                "{candidate} and {baseline} are the same within {}",
                delta(comparison)
            )
        }
        Verdict::Unclear if row.differs => format!("{candidate} differs from {baseline}"),
        Verdict::Unclear => format!("it is unclear whether {candidate} is {good} than {baseline}"),
    };
    // Without a verdict, nothing else says which direction is the good one.
    let direction = match row.verdict {
        Verdict::Unclear => format!(" ({})", direction(comparison.metric.better)),
        Verdict::Better | Verdict::Worse | Verdict::Same => String::new(),
    };
    let change = size(row, &comparison.metric);
    let change = change.map(|size| format!(": {changed} {size}{direction}"));
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

/// The change with its interval; of one from zero, both sides: `0 -> 1`.
pub fn size(row: &CaseComparison, metric: &Metric) -> Option<String> {
    let from_zero = || {
        let side = |side: &Side| quantity(side.location, &metric.unit, Uncertainty::Unknown);
        let sides = [&row.baseline, &row.candidate];
        row.is_from_zero().then(|| sides.map(side).join(" -> "))
    };
    row.change
        .map(|change| change_with_interval(&change))
        .or_else(from_zero)
}

fn many(comparison: &Comparison) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = good_and_bad(&comparison.metric);
    let left_out = left_out(comparison);
    let total = comparison
        .rows
        .iter()
        .filter(|row| row.withheld.is_none())
        .count();
    if total == 0 {
        return format!("{baseline} and {candidate} are not compared{left_out}.");
    }
    let of = |verdict| comparison.rows_that_are(verdict).count();
    let differ = |row: &&CaseComparison| row.verdict == Verdict::Unclear && row.differs;
    let differing = comparison.rows.iter().filter(differ).count();
    if differing > 0 {
        return format!(
            "{candidate} differs from {baseline} {}.",
            place(differing, total)
        );
    }
    let unclear = of(Verdict::Unclear);
    if unclear == total {
        return format!(
            "it is unclear whether {candidate} is {good} than {baseline} {}{left_out}.",
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
    sentence + &left_out + "."
}

/// How many cases have no answer, and why.
fn left_out(comparison: &Comparison) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for withheld in comparison
        .rows
        .iter()
        .filter_map(|row| row.withheld.as_ref())
    {
        let reason = withheld.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cases)) => *cases += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let part = |(reason, cases): &(String, usize)| format!("; {cases} left out, because {reason}");
    reasons.iter().map(part).collect()
}

/// The change of the typical case; where there is none, from which to which change the cases reach.
fn typical(comparison: &Comparison) -> String {
    if let Some(typical) = comparison.typical() {
        return format!(" Typical change: {}.", change_with_interval(&typical));
    }
    let range = comparison.range();
    range.map_or_else(String::new, |ends| {
        let [least, most] = ends.each_ref().map(change);
        if least == most {
            return format!(" Each changes by {least}.");
        }
        format!(" Changes range from {least} to {most}.")
    })
}

fn delta(comparison: &Comparison) -> String {
    setting(comparison.delta)
}

/// `in 3 of 8 cases`, `in both cases`, `in all 8 cases`.
fn place(number: usize, total: usize) -> String {
    match (number == total, total) {
        (true, 1) => "in 1 case".to_owned(),
        (true, 2) => "in both cases".to_owned(),
        (true, _) => format!("in all {}", count(total, "case", "cases")),
        (false, _) => format!("in {number} of {}", count(total, "case", "cases")),
    }
}

/// The line above the table: metric, unit, direction, runs; whatever all rows share.
pub fn caption(
    section: &[&Comparison],
    unit: Option<String>,
    runs: Option<String>,
) -> Option<String> {
    let mut words = Vec::new();
    let metric = &section[0].metric;
    if section
        .iter()
        .all(|comparison| comparison.metric == *metric)
    {
        words.push(in_unit(&metric.name, unit.as_deref().unwrap_or_default()));
        words.push(direction(metric.better).to_owned());
    }
    words.extend(runs.map(|runs| match runs.as_str() {
        "1" => "1 run a side".to_owned(),
        _ => format!("{runs} runs a side"),
    }));
    Some(words.join(", ")).filter(|line| !line.is_empty())
}

/// The explanations below all tables, each said once: how answers were found, and what is missing to those that were
/// not. What an expert knows and a page has among its circumstances is for those who ask for everything.
pub fn notes(comparisons: &[Comparison], verbosity: Verbosity) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for comparison in comparisons
        .iter()
        .filter(|comparison| !comparison.rows.is_empty())
    {
        notes.push(method(comparison));
        notes.extend(question(comparison));
        if verbosity == Verbosity::Verbose || comparison.correction == Correction::None {
            notes.extend(correction(comparisons).map(str::to_owned));
        }
    }
    notes.extend(not_found(comparisons));
    if verbosity == Verbosity::Verbose {
        notes.extend(early_stop(comparisons));
    }
    distinct(notes)
}

fn method(comparison: &Comparison) -> String {
    let delta = setting(comparison.delta);
    if comparison.metric.name == Metric::CYCLES_ESTIMATE {
        return format!(
            "{}: an estimate by a model of caches, 1, 5 and 35 cycles for an access to each level; --fail-on never looks at it.",
            Metric::CYCLES_ESTIMATE
        );
    }
    if comparison.rows.iter().all(|row| row.is_exact) {
        return format!(
            "Method: instructions of user code are counted, and the same in every run; a change within {delta} counts \
             as the same. They say nothing of waiting, system calls, caches and branches."
        );
    }
    let method = method_words(comparison.method);
    let confidence = setting(comparison.confidence);
    let figures = match comparison.method {
        Method::Rank | Method::SignedRank | Method::MannWhitney => {
            "both figures of a row belong to its change, medians of all runs: -v"
        }
        Method::Welch | Method::Bootstrap => "figures are means",
    };
    format!(
        "Method: {method}, {confidence} intervals; a change within {delta} counts as the same; {figures}."
    )
}

/// The test, and what it is a change of.
pub fn method_words(method: Method) -> &'static str {
    match method {
        Method::Rank => "rank test permuted within blocks, change of the typical run",
        Method::SignedRank => {
            "signed-rank test of pairs that shared a processor, change of the typical run's processor time"
        }
        Method::Welch => "Welch's t test, change of the mean",
        Method::MannWhitney => "Mann-Whitney U test, change of the typical run",
        Method::Bootstrap => "bootstrap of the change of the mean",
    }
}

/// How the p values of many cases are adjusted.
pub fn correction_words(correction: Correction) -> &'static str {
    match correction {
        Correction::BenjaminiHochberg => {
            "Benjamini-Hochberg over all comparisons shown: controls the false discovery rate"
        }
        Correction::Holm => "Holm over all comparisons shown: controls the family-wise error rate",
        Correction::None => "none: each p value stands alone",
    }
}

/// What p is the probability of, where that is not a change of nothing.
fn question(comparison: &Comparison) -> Option<String> {
    let threshold = setting(comparison.threshold?);
    Some(format!(
        "p: of figures like these, were the change at most {threshold} in either direction."
    ))
}

fn correction(comparisons: &[Comparison]) -> Option<&'static str> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let tests = rows.filter(|row| row.p.is_some()).count();
    match comparisons.first()?.correction {
        _ if tests < 2 => None,
        Correction::BenjaminiHochberg => {
            Some("q: p corrected for all comparisons shown (Benjamini-Hochberg).")
        }
        Correction::Holm => Some("q: p corrected for all comparisons shown (Holm)."),
        Correction::None => Some(
            "p values are not corrected for the number of cases: about one in twenty unchanged \
             cases has p < 0.05.",
        ),
    }
}

/// The smallest and largest of some figures, in words.
fn range<T: PartialOrd + Copy>(figures: &[T], word: impl Fn(T) -> String) -> Option<String> {
    let least = figures
        .iter()
        .copied()
        .reduce(|a, b| if b < a { b } else { a })?;
    let most = figures
        .iter()
        .copied()
        .reduce(|a, b| if b > a { b } else { a })?;
    let (least, most) = (word(least), word(most));
    Some(if least == most {
        least
    } else {
        format!("{least} to {most}")
    })
}

/// What cases without a change may hide, and what unclear ones need. The design asks for the minimum detectable effect
/// beside every answer that found nothing, "same" included.
fn not_found(comparisons: &[Comparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let open: Vec<&CaseComparison> = rows
        .filter(|row| matches!(row.verdict, Verdict::Same | Verdict::Unclear))
        .collect();
    let sizes: Vec<f64> = open.iter().filter_map(|row| row.detectable).collect();
    let found = range(&sizes, share).map(|range| {
        format!("where no change is found, these runs would have shown one of {range}")
    });
    let more: Vec<u32> = open.iter().filter_map(|row| row.more_runs).collect();
    let needed = range(&more, |n| n.to_string())
        .map(|range| format!("unclear cases need about {range} more runs a side"));
    let parts: Vec<String> = found.into_iter().chain(needed).collect();
    let mut words = parts.join("; ") + ".";
    let first = words.get(..1)?.to_uppercase();
    words.replace_range(..1, &first);
    (!parts.is_empty()).then_some(words)
}

fn early_stop(comparisons: &[Comparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let looks: Vec<u32> = rows.filter_map(|row| row.decided_at).collect();
    let range = range(&looks, |n| n.to_string())?;
    Some(format!(
        "Measuring ended as soon as the sequential test decided (at {range} runs a side); \
         changes found by an early end are a little exaggerated."
    ))
}
