//! Selects cases by metric and filter.

use super::group::BenchmarkGroup;
use super::target::GroupKind;
use crate::expression::{CaseFilter, ExpressionError};
use crate::file_part::nearest_hint;
use speedwell_model::{Case, ParameterValue};

/// The position of a case in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedCase {
    /// Position of the group.
    pub group: usize,
    /// Position of the case in its group; `None` for benchmark files, whose cases are unknown until
    /// their harness lists them.
    pub case: Option<usize>,
}

/// Error: an expression contains a name that selects nothing.
#[derive(Debug)]
pub struct WrongName {
    name: String,
    message: String,
    hint: String,
}

impl WrongName {
    /// Converts to an error that shows the position of the name in its expression.
    pub fn in_expression(self, expression: &str) -> ExpressionError {
        ExpressionError::about_name(expression, &self.name, self.message, self.hint)
    }
}

/// Returns the cases that match the filter and, if a metric is given, have the metric. Fails if
/// there are none.
pub fn selected_cases(
    groups: &[&BenchmarkGroup],
    metric: Option<&str>,
    filter: &CaseFilter,
) -> Result<Vec<SelectedCase>, WrongName> {
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    if let Some(name) = filter.group.as_ref().filter(|name| !names.contains(name)) {
        let hint = nearest_hint(name, &names);
        return Err(wrong_name(name, format!("unknown group '{name}'"), hint));
    }
    let is_selected =
        |group: &BenchmarkGroup| filter.group.as_ref().is_none_or(|name| *name == group.name);
    let candidates = groups.iter().enumerate().filter(|(_, group)| is_selected(group));
    let matching_groups = candidates.clone().filter(|(_, group)| has_metric(group, metric));
    let matching_groups: Vec<(usize, &&BenchmarkGroup)> = matching_groups.collect();
    if let (Some(metric), true) = (metric, matching_groups.is_empty()) {
        return Err(unknown_metric(metric, candidates.map(|(_, group)| *group)));
    }
    check_values(&matching_groups, filter)?;
    let mut found = Vec::new();
    for (index, group) in &matching_groups {
        let group_index = *index;
        if group.kind == GroupKind::Function {
            found.push(SelectedCase { group: group_index, case: None });
        }
        let has_values = |case: &&Case| {
            filter.values.iter().all(|(name, value)| {
                case.value(name).is_some_and(|actual| actual.plain() == *value)
            })
        };
        let cases = group.cases.iter().enumerate().filter(|(_, case)| has_values(case));
        found.extend(cases.map(|(case, _)| SelectedCase { group: group_index, case: Some(case) }));
    }
    match (found.is_empty(), filter.values.first()) {
        (true, Some((name, _))) => {
            let message = "no case has all these values".to_owned();
            Err(wrong_name(name, message, "'--list' shows the cases".to_owned()))
        }
        _ => Ok(found),
    }
}

fn wrong_name(name: &str, message: String, hint: String) -> WrongName {
    WrongName { name: name.to_owned(), message, hint }
}

fn unknown_metric<'a>(metric: &str, groups: impl Iterator<Item = &'a BenchmarkGroup>) -> WrongName {
    let mut names: Vec<String> = Vec::new();
    for name in groups.flat_map(BenchmarkGroup::metric_names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let hint = nearest_hint(metric, &names);
    wrong_name(metric, format!("unknown metric '{metric}'"), hint)
}

/// Whether a group has the metric. Any metric is possible for benchmark files: their metrics are
/// unknown until they are measured.
fn has_metric(group: &BenchmarkGroup, metric: Option<&str>) -> bool {
    group.kind == GroupKind::Function
        || metric.is_none_or(|metric| group.find_metric(metric).is_some())
}

fn check_values(
    groups: &[(usize, &&BenchmarkGroup)],
    filter: &CaseFilter,
) -> Result<(), WrongName> {
    if groups.iter().any(|(_, group)| group.kind == GroupKind::Function) {
        return Ok(());
    }
    for (name, value) in &filter.values {
        let parameters = groups.iter().flat_map(|(_, group)| &group.parameters);
        let matching: Vec<_> = parameters.clone().filter(|(key, _)| key == name).collect();
        if matching.is_empty() {
            let names: Vec<String> = parameters.map(|(key, _)| key.clone()).collect();
            let hint = nearest_hint(name, &names);
            return Err(wrong_name(name, format!("unknown parameter '{name}'"), hint));
        }
        let values = matching.iter().flat_map(|(_, values)| values);
        let values: Vec<String> = values.map(ParameterValue::plain).collect();
        if !values.contains(value) {
            let hint = nearest_hint(value, &values);
            let message = format!("the parameter '{name}' has no value '{value}'");
            return Err(wrong_name(value, message, hint));
        }
    }
    Ok(())
}
