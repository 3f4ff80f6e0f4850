//! What a reader needs to judge the table: units above it, method and limits below it.

use crate::metric_words::{direction, in_unit};
use crate::output::Verbosity;
use crate::quantity::{setting, share};
use speedwell_analysis::{CaseComparison, Comparison, Correction, Method};
use speedwell_model::Verdict;

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
    if verbosity == Verbosity::Quiet {
        return Vec::new();
    }
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
    let mut once: Vec<String> = Vec::new();
    for note in notes {
        if !once.contains(&note) {
            once.push(note);
        }
    }
    once
}

fn method(comparison: &Comparison) -> String {
    let method = method_words(comparison.method);
    let (confidence, delta) = (setting(comparison.confidence), setting(comparison.delta));
    let figures = match comparison.method {
        Method::Rank | Method::MannWhitney => {
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
