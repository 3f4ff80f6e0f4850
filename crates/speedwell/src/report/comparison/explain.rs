//! What a reader needs to judge the table: units above it, method and limits below it.

use crate::analysis::{Comparison, Correction, Method};
use crate::report::metric_words::{direction, in_unit};
use crate::report::output::Verbosity;
use crate::report::quantity::{setting, share};

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

/// The explanations below all tables, each said once.
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
        notes.extend(correction(comparison).map(str::to_owned));
    }
    notes.extend(detectable(comparisons));
    notes.extend(more_runs(comparisons));
    notes.extend(early_stop(comparisons));
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
    format!("Method: {method}, {confidence} intervals; a change within {delta} counts as the same.")
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
            "Benjamini-Hochberg over all cases of a metric: the expected share of false finds is kept"
        }
        Correction::Holm => "Holm over all cases of a metric: the chance of any false find is kept",
        Correction::None => "none: each p value stands alone",
    }
}

fn correction(comparison: &Comparison) -> Option<&'static str> {
    let tests = comparison.rows.iter().filter(|row| row.p.is_some()).count();
    match comparison.correction {
        _ if tests < 2 => None,
        Correction::BenjaminiHochberg => {
            Some("q: p corrected for all cases of a metric (Benjamini-Hochberg).")
        }
        Correction::Holm => Some("q: p corrected for all cases of a metric (Holm)."),
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

/// The design asks for the minimum detectable effect beside every answer, "same" included.
fn detectable(comparisons: &[Comparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let figures: Vec<f64> = rows.filter_map(|row| row.detectable).collect();
    let range = range(&figures, share)?;
    let by_case = if range.contains(" to ") {
        ", depending on the case,"
    } else {
        ""
    };
    Some(format!(
        "Detectable: these runs find a change of {range}{by_case} in 80 % of trials."
    ))
}

fn more_runs(comparisons: &[Comparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let figures: Vec<u32> = rows.filter_map(|row| row.more_runs).collect();
    let range = range(&figures, |n| n.to_string())?;
    Some(format!(
        "Unclear cases need about {range} more runs a side."
    ))
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
