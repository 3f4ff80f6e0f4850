//! Which cases a metric with a filter means.

use super::group::{Group, Kind};
use crate::expression::Filter;
use crate::keys::nearest_of;

/// A case of an experiment by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The position of the group.
    pub group: usize,
    /// The position of the case in its group; `None` for benchmark files, whose cases are not known
    /// before they are asked.
    pub case: Option<usize>,
}

/// The word that is wrong, what is wrong with it, and a hint.
pub type Wrong = (String, String, String);

/// All cases that have the metric, if one is given, and that the filter means; at least one.
pub fn matching(
    groups: &[&Group],
    metric: Option<&str>,
    filter: &Filter,
) -> Result<Vec<Spot>, Wrong> {
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    if let Some(name) = filter.group.as_ref().filter(|name| !names.contains(name)) {
        let hint = nearest_of(name, &names);
        return Err((name.clone(), format!("there is no group '{name}'"), hint));
    }
    let is_meant = |group: &Group| filter.group.as_ref().is_none_or(|name| *name == group.name);
    let meant = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| is_meant(group));
    let having = meant.clone().filter(|(_, group)| has(group, metric));
    let having: Vec<(usize, &&Group)> = having.collect();
    if let (Some(metric), true) = (metric, having.is_empty()) {
        return Err(unknown_metric(metric, meant.map(|(_, group)| *group)));
    }
    check_values(&having, filter)?;
    let mut found = Vec::new();
    for (at, group) in &having {
        let group_at = *at;
        if group.kind == Kind::Function {
            found.push(Spot {
                group: group_at,
                case: None,
            });
        }
        let fits = |case: &&speedwell_model::Case| {
            filter.values.iter().all(|(name, value)| {
                case.value(name)
                    .is_some_and(|known| known.plain() == *value)
            })
        };
        let cases = group
            .cases
            .iter()
            .enumerate()
            .filter(|(_, case)| fits(case));
        found.extend(cases.map(|(case, _)| Spot {
            group: group_at,
            case: Some(case),
        }));
    }
    match (found.is_empty(), filter.values.first()) {
        (true, Some((name, _))) => {
            let message = "no case has all these values".to_owned();
            Err((name.clone(), message, "'--list' shows the cases".to_owned()))
        }
        _ => Ok(found),
    }
}

fn unknown_metric<'a>(metric: &str, groups: impl Iterator<Item = &'a Group>) -> Wrong {
    let mut known: Vec<String> = Vec::new();
    for name in groups.flat_map(Group::metric_names) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let hint = nearest_of(metric, &known);
    (
        metric.to_owned(),
        format!("there is no metric '{metric}'"),
        hint,
    )
}

/// Benchmark files name their metrics when they are measured.
fn has(group: &Group, metric: Option<&str>) -> bool {
    group.kind == Kind::Function || metric.is_none_or(|metric| group.metric(metric).is_some())
}

fn check_values(groups: &[(usize, &&Group)], filter: &Filter) -> Result<(), Wrong> {
    if groups.iter().any(|(_, group)| group.kind == Kind::Function) {
        return Ok(());
    }
    for (name, value) in &filter.values {
        let parameters = groups.iter().flat_map(|(_, group)| &group.parameters);
        let own: Vec<_> = parameters
            .clone()
            .filter(|(known, _)| known == name)
            .collect();
        if own.is_empty() {
            let known: Vec<String> = parameters.map(|(known, _)| known.clone()).collect();
            let hint = nearest_of(name, &known);
            return Err((
                name.clone(),
                format!("there is no parameter '{name}'"),
                hint,
            ));
        }
        let values = own.iter().flat_map(|(_, values)| values);
        let values: Vec<String> = values.map(speedwell_model::Value::plain).collect();
        if !values.contains(value) {
            let hint = nearest_of(value, &values);
            let message = format!("the parameter '{name}' never is '{value}'");
            return Err((value.clone(), message, hint));
        }
    }
    Ok(())
}
