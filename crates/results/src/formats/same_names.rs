//! Results with the same name in one file.
//!
//! Decides how to distinguish such results: by the other facts the file states (a prepare command,
//! `extra`, a label), which become parameters. Results that nothing distinguishes are dropped with
//! a warning: merging them would invent a benchmark that nobody measured, and a running number
//! would mean something else in the next file. Repetitions of one benchmark are handled by the
//! readers and not listed here individually. Start at [`tell_apart`].

use crate::foreign::suites::alike;
use anyhow::{Result, bail};
use indexmap::IndexMap;
use speedwell_model::Case;
use std::collections::{HashMap, HashSet};

/// A result listed in a file.
#[derive(Debug)]
pub struct Listed<T> {
    /// Measurement the result belongs to, such as an entry of a history. Within it, a benchmark has
    /// one result per metric.
    pub measurement: usize,
    /// Case with name and parameters.
    pub case: Case,
    /// Metric: results of different metrics may belong to one benchmark.
    pub metric: String,
    /// Other facts about the benchmark, by names that may become parameter names.
    pub details: Vec<(String, String)>,
    /// The figures.
    pub content: T,
}

/// Maximum number of names in a warning.
const MOST_NAMED: usize = 3;

/// Adds parameters that distinguish results with the same name in one measurement, consistently
/// across all measurements. Drops results that remain ambiguous and adds a warning to `remarks`.
///
/// # Errors
/// Nothing remains; the message says why.
pub fn tell_apart<T>(
    mut listed: Vec<Listed<T>>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Listed<T>>> {
    let same = name_apart(&mut listed);
    let left_out: HashSet<usize> = same
        .iter()
        .flat_map(|(_, places)| places)
        .copied()
        .collect();
    let mut at = 0..;
    listed.retain(|_| !at.next().is_some_and(|at| left_out.contains(&at)));
    match remark(&same) {
        Some(remark) if listed.is_empty() => bail!("{remark}\nhint: give each a name of its own"),
        remark => remarks.extend(remark),
    }
    Ok(listed)
}

/// Adds parameters that distinguish results with the same name in one measurement. Returns the
/// names that are still ambiguous, with the indices of their results.
pub fn name_apart<T>(listed: &mut [Listed<T>]) -> Vec<(String, Vec<usize>)> {
    let mut of_name: IndexMap<(String, String), Vec<usize>> = IndexMap::new();
    for (at, one) in listed.iter().enumerate() {
        let key = (one.case.id(), one.metric.clone());
        of_name.entry(key).or_default().push(at);
    }
    let mut same = Vec::new();
    for ((name, _), places) in of_name {
        if counts(listed, &places).values().all(|&count| count < 2) {
            continue;
        }
        for key in differing(listed, &places) {
            for &at in &places {
                let own = &mut listed[at];
                let value = own.details.iter().find(|(known, _)| *known == key);
                let value = value.map(|(_, text)| (key.clone(), alike(text)));
                own.case.values.extend(value);
            }
        }
        let counts = counts(listed, &places);
        let is_shared = |at: &usize| counts[&place(&listed[*at])] > 1;
        let shared: Vec<usize> = places.into_iter().filter(is_shared).collect();
        if !shared.is_empty() {
            same.push((name, shared));
        }
    }
    same
}

/// A measurement and a case.
type Place = (usize, String);

fn place<T>(listed: &Listed<T>) -> Place {
    (listed.measurement, listed.case.id())
}

/// Counts the results per measurement and case.
fn counts<T>(listed: &[Listed<T>], places: &[usize]) -> HashMap<Place, usize> {
    let mut counts = HashMap::new();
    for &at in places {
        *counts.entry(place(&listed[at])).or_default() += 1;
    }
    counts
}

/// Returns the details that differ between results of one measurement.
fn differing<T>(listed: &[Listed<T>], places: &[usize]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in places.iter().flat_map(|&at| &listed[at].details) {
        let is_taken = places
            .iter()
            .any(|&at| listed[at].case.value(key).is_some());
        if !keys.contains(&key.as_str()) && !is_taken && Case::refuses_name(key).is_none() {
            keys.push(key);
        }
    }
    let differs = |key: &str| {
        let mut seen: HashMap<usize, HashSet<Option<&str>>> = HashMap::new();
        for &at in places {
            let found = listed[at].details.iter().find(|(known, _)| known == key);
            let value = found.map(|(_, value)| value.as_str());
            seen.entry(listed[at].measurement)
                .or_default()
                .insert(value);
        }
        seen.values().any(|values| values.len() > 1)
    };
    let keys = keys.into_iter().filter(|key| differs(key));
    keys.map(str::to_owned).collect()
}

fn remark(same: &[(String, Vec<usize>)]) -> Option<String> {
    let (name, places) = same.first()?;
    if same.len() == 1 {
        return Some(format!(
            "{} results are called '{name}', and nothing in the file tells them apart; they were left out",
            places.len()
        ));
    }
    let names = same.iter().take(MOST_NAMED);
    let names: Vec<String> = names.map(|(name, _)| format!("'{name}'")).collect();
    let more = match same.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more names"),
    };
    let count: usize = same.iter().map(|(_, places)| places.len()).sum();
    Some(format!(
        "{count} results share their names, and nothing in the file tells them apart; they were left out: {}{more}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(measurement: usize, name: &str, metric: &str, details: &[(&str, &str)]) -> Listed<()> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Listed {
            measurement,
            case: Case::new(name, Vec::new()),
            metric: metric.to_owned(),
            details: details.iter().map(owned).collect(),
            content: (),
        }
    }

    fn told_apart(listed: Vec<Listed<()>>) -> (Vec<String>, Vec<String>) {
        let mut remarks = Vec::new();
        let kept = tell_apart(listed, &mut remarks).unwrap();
        (kept.iter().map(|one| one.case.id()).collect(), remarks)
    }

    #[test]
    fn what_differs_becomes_a_parameter_in_all_measurements_alike() {
        let (names, remarks) = told_apart(vec![
            one(0, "a", "time", &[("extra", "cold"), ("tool", "x")]),
            one(0, "a", "time", &[("extra", "2"), ("tool", "x")]),
            one(1, "a", "time", &[("extra", "cold")]),
            one(0, "b", "time", &[("extra", "cold")]),
        ]);
        assert_eq!(names, ["a extra=cold", "a extra=2", "a extra=cold", "b"]);
        assert_eq!(remarks, [""; 0]);
    }

    #[test]
    fn results_of_several_metrics_are_of_one_benchmark() {
        let (names, _) = told_apart(vec![one(0, "a", "time", &[]), one(0, "a", "size", &[])]);
        assert_eq!(names, ["a", "a"]);
    }

    #[test]
    fn what_nothing_tells_apart_is_left_out_and_named() {
        let (names, remarks) = told_apart(vec![
            one(0, "a", "time", &[("label", "x")]),
            one(0, "b", "time", &[]),
            one(0, "a", "time", &[("label", "x")]),
            one(0, "a", "time", &[("label", "y")]),
            one(1, "a", "time", &[]),
        ]);
        assert_eq!(names, ["b", "a label=y", "a"]);
        assert_eq!(
            remarks,
            [
                "2 results are called 'a', and nothing in the file tells them apart; they were left out"
            ]
        );
    }

    #[test]
    fn a_file_of_which_nothing_is_left_is_refused() {
        let twice = || vec![one(0, "a", "time", &[]), one(0, "a", "time", &[])];
        let error = tell_apart(twice(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("2 results are called 'a'"));
        let mut both = twice();
        both.extend([one(0, "c", "time", &[]), one(0, "c", "time", &[])]);
        let error = tell_apart(both, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("4 results share their names") && error.contains("'a', 'c'\n"));
    }
}
