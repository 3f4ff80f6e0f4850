//! Tells apart results that have the same name in one file.
//!
//! The other facts that the file states about such results (a prepare command, `extra`, a label)
//! become parameters. Results that nothing distinguishes are dropped with a warning. Merging them
//! would invent a benchmark. Numbering them would not help, because the same number could refer to
//! a different result in the next file. The readers have already grouped the repetitions of each
//! benchmark into one result. Start at [`distinguish_results`].

use crate::foreign::suites::typed_value;
use anyhow::{Result, bail};
use indexmap::IndexMap;
use speedwell_model::Case;
use std::collections::{HashMap, HashSet};

/// A result listed in a file.
#[derive(Debug)]
pub struct ListedResult<T> {
    /// Index of the measurement to which the result belongs, such as an entry of a history. Within
    /// one measurement, a benchmark has one result per metric.
    pub measurement: usize,
    /// Case with name and parameters.
    pub case: Case,
    /// Metric of the figures. Two results with the same name but different metrics belong to one
    /// benchmark.
    pub metric: String,
    /// Other facts about the benchmark, each with its name. A fact may become a parameter with this
    /// name.
    pub details: Vec<(String, String)>,
    /// The figures.
    pub content: T,
}

impl<T> ListedResult<T> {
    /// Lists a result of the only measurement in a file, with one metric and without details.
    pub fn new(case: Case, content: T) -> ListedResult<T> {
        ListedResult { measurement: 0, case, metric: String::new(), details: Vec::new(), content }
    }
}

/// Maximum number of names in a warning.
const MAX_NAMES_IN_WARNING: usize = 3;

/// Adds parameters that distinguish results with the same name in one measurement, consistently
/// across all measurements. Drops results that remain ambiguous and adds a warning to `remarks`.
///
/// # Errors
/// Fails if no result remains; the message says why.
pub fn distinguish_results<T>(
    mut listed: Vec<ListedResult<T>>,
    remarks: &mut Vec<String>,
) -> Result<Vec<ListedResult<T>>> {
    let ambiguous = add_distinguishing_parameters(&mut listed);
    let left_out: HashSet<usize> =
        ambiguous.iter().flat_map(|(_, indices)| indices).copied().collect();
    let mut indices = 0..;
    listed.retain(|_| !indices.next().is_some_and(|index| left_out.contains(&index)));
    match ambiguous_results_warning(&ambiguous) {
        Some(remark) if listed.is_empty() => bail!("{remark}\nhint: give each a unique name"),
        remark => remarks.extend(remark),
    }
    Ok(listed)
}

/// Adds parameters that distinguish results with the same name in one measurement. Returns the
/// names that are still ambiguous, with the indices of their results.
pub fn add_distinguishing_parameters<T>(
    listed: &mut [ListedResult<T>],
) -> Vec<(String, Vec<usize>)> {
    let mut indices_by_name: IndexMap<(String, String), Vec<usize>> = IndexMap::new();
    for (index, result) in listed.iter().enumerate() {
        let key = (result.case.id(), result.metric.clone());
        indices_by_name.entry(key).or_default().push(index);
    }
    let mut ambiguous = Vec::new();
    for ((name, _), indices) in indices_by_name {
        if count_by_case(listed, &indices).values().all(|&count| count < 2) {
            continue;
        }
        for key in distinguishing_details(listed, &indices) {
            for &index in &indices {
                let result = &mut listed[index];
                let detail = result.details.iter().find(|(name, _)| *name == key);
                let value = detail.map(|(_, text)| (key.clone(), typed_value(text)));
                result.case.values.extend(value);
            }
        }
        let counts = count_by_case(listed, &indices);
        let is_shared = |index: &usize| counts[&case_key(&listed[*index])] > 1;
        let shared: Vec<usize> = indices.into_iter().filter(is_shared).collect();
        if !shared.is_empty() {
            ambiguous.push((name, shared));
        }
    }
    ambiguous
}

/// A measurement and the id of a case.
type MeasuredCase = (usize, String);

fn case_key<T>(result: &ListedResult<T>) -> MeasuredCase {
    (result.measurement, result.case.id())
}

/// Counts the results per measurement and case.
fn count_by_case<T>(listed: &[ListedResult<T>], indices: &[usize]) -> HashMap<MeasuredCase, usize> {
    let mut counts = HashMap::new();
    for &index in indices {
        *counts.entry(case_key(&listed[index])).or_default() += 1;
    }
    counts
}

/// Returns the names of the details that differ between results of one measurement and can become
/// parameters.
fn distinguishing_details<T>(listed: &[ListedResult<T>], indices: &[usize]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in indices.iter().flat_map(|&index| &listed[index].details) {
        let is_taken = indices.iter().any(|&index| listed[index].case.value(key).is_some());
        if !keys.contains(&key.as_str()) && !is_taken && Case::refuses_name(key).is_none() {
            keys.push(key);
        }
    }
    let differs = |key: &str| {
        let mut values_by_measurement: HashMap<usize, HashSet<Option<&str>>> = HashMap::new();
        for &index in indices {
            let found = listed[index].details.iter().find(|(name, _)| name == key);
            let value = found.map(|(_, value)| value.as_str());
            values_by_measurement.entry(listed[index].measurement).or_default().insert(value);
        }
        values_by_measurement.values().any(|values| values.len() > 1)
    };
    keys.into_iter().filter(|key| differs(key)).map(str::to_owned).collect()
}

fn ambiguous_results_warning(ambiguous: &[(String, Vec<usize>)]) -> Option<String> {
    let (name, indices) = ambiguous.first()?;
    if ambiguous.len() == 1 {
        return Some(format!(
            "{} results are called '{name}', and nothing in the file tells them apart; they were left out",
            indices.len()
        ));
    }
    let names: Vec<String> =
        ambiguous.iter().take(MAX_NAMES_IN_WARNING).map(|(name, _)| format!("'{name}'")).collect();
    let more = match ambiguous.len().saturating_sub(MAX_NAMES_IN_WARNING) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count: usize = ambiguous.iter().map(|(_, indices)| indices.len()).sum();
    Some(format!(
        "{count} results share their names, and nothing in the file tells them apart; they were left out: {}{more}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed_result(
        measurement: usize,
        name: &str,
        metric: &str,
        details: &[(&str, &str)],
    ) -> ListedResult<()> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        ListedResult {
            measurement,
            case: Case::new(name, Vec::new()),
            metric: metric.to_owned(),
            details: details.iter().map(owned).collect(),
            content: (),
        }
    }

    fn distinguish(listed: Vec<ListedResult<()>>) -> (Vec<String>, Vec<String>) {
        let mut remarks = Vec::new();
        let results = distinguish_results(listed, &mut remarks).unwrap();
        (results.iter().map(|result| result.case.id()).collect(), remarks)
    }

    #[test]
    fn details_that_differ_become_parameters_in_every_measurement() {
        let (names, remarks) = distinguish(vec![
            listed_result(0, "a", "time", &[("extra", "cold"), ("tool", "x")]),
            listed_result(0, "a", "time", &[("extra", "2"), ("tool", "x")]),
            listed_result(1, "a", "time", &[("extra", "cold")]),
            listed_result(0, "b", "time", &[("extra", "cold")]),
        ]);
        assert_eq!(names, ["a extra=cold", "a extra=2", "a extra=cold", "b"]);
        assert_eq!(remarks, [""; 0]);
    }

    #[test]
    fn results_for_different_metrics_belong_to_one_benchmark() {
        let (names, _) = distinguish(vec![
            listed_result(0, "a", "time", &[]),
            listed_result(0, "a", "size", &[]),
        ]);
        assert_eq!(names, ["a", "a"]);
    }

    #[test]
    fn indistinguishable_results_are_left_out_and_named() {
        let (names, remarks) = distinguish(vec![
            listed_result(0, "a", "time", &[("label", "x")]),
            listed_result(0, "b", "time", &[]),
            listed_result(0, "a", "time", &[("label", "x")]),
            listed_result(0, "a", "time", &[("label", "y")]),
            listed_result(1, "a", "time", &[]),
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
    fn a_file_with_only_indistinguishable_results_is_refused() {
        let twice = || vec![listed_result(0, "a", "time", &[]), listed_result(0, "a", "time", &[])];
        let error = distinguish_results(twice(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("2 results are called 'a'"));
        let mut both = twice();
        both.extend([listed_result(0, "c", "time", &[]), listed_result(0, "c", "time", &[])]);
        let error = distinguish_results(both, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("4 results share their names") && error.contains("'a', 'c'\n"));
    }
}
