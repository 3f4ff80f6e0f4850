//! Decides which metrics a group reports, finds the names under which runs store these metrics, and
//! lists the outdated metric names that a file uses.

use super::Experiment;
use super::group::BenchmarkGroup;
use super::metric::{
    also_metric, current_name, find_metric, is_in_milliseconds, metric_names, stored_name,
};
use super::target::GroupKind;
use crate::expression::CaseFilter;
use crate::file_part::{FilePart, nearest_hint};
use crate::tree::TreeNode;
use anyhow::{Result, bail};
use speedwell_model::Metric;

impl BenchmarkGroup {
    /// Decides the metrics of the group. `target` holds the metrics that the target reports itself.
    pub(super) fn decide_metrics(&mut self, target: &[Metric], part: &FilePart) -> Result<()> {
        self.target_metrics = target.iter().map(|metric| metric.name.clone()).collect();
        let also: Vec<Metric> = self.also.iter().filter_map(|name| also_metric(name)).collect();
        let metric = |name: &str| {
            let declared = target.iter().chain(&also).find(|metric| metric.name == name);
            let kind_metric = || find_metric(self.kind, &stored_name(self.kind, name, false));
            declared.cloned().or_else(kind_metric)
        };
        let default_names = || -> Vec<String> {
            let declared = target.iter().chain(&also).map(|metric| metric.name.clone());
            let first = match (self.kind, declared.clone().next()) {
                (GroupKind::Server | GroupKind::Load, _) => {
                    vec!["throughput", "latency_p50", "latency_p99", "cpu_per_request"]
                }
                (GroupKind::Command, None) => vec!["wall_time"],
                _ => Vec::new(),
            };
            first.into_iter().map(str::to_owned).chain(declared).collect()
        };
        let wanted = match &self.wanted {
            Some(names) => self.current_names(names),
            None => default_names(),
        };
        let mut found: Vec<Metric> = Vec::new();
        for name in &wanted {
            match metric(name) {
                Some(metric) => found.push(metric),
                None if self.kind == GroupKind::Function => {}
                None => {
                    let names = self.known_metrics(target);
                    let hint = nearest_hint(name, &names);
                    let message = format!("the group '{}' has no metric '{name}'", self.name);
                    return Err(part.error_at_key("metrics", format!("{message}\nhint: {hint}")));
                }
            }
        }
        // The target's own metrics and `also` are always reported, whether or not the list repeats
        // them.
        for metric in target.iter().chain(&also) {
            if !found.iter().any(|other| other.name == metric.name) {
                found.push(metric.clone());
            }
        }
        self.metrics = found;
        Ok(())
    }

    fn known_metrics(&self, target: &[Metric]) -> Vec<String> {
        target
            .iter()
            .map(|metric| metric.name.clone())
            .chain(self.also.iter().cloned())
            .chain(metric_names(self.kind))
            .collect()
    }

    /// Returns the metric with that name, whether or not the group reports it.
    pub fn find_metric(&self, name: &str) -> Option<Metric> {
        let renamed = self.current_name(name);
        let current = renamed.as_deref().unwrap_or(name);
        let reported = self.metrics.iter().find(|metric| metric.name == current);
        let kind_metric = || find_metric(self.kind, &self.stored_name_of(name));
        let metric = reported.cloned().or_else(kind_metric)?;
        let is_target_metric = self.target_metrics.contains(&metric.name);
        Some(if is_in_milliseconds(name) && !is_target_metric {
            Metric::new(name, "ms", metric.better)
        } else {
            metric
        })
    }

    /// Replaces outdated names with the current ones. Metrics that the target reports itself, and
    /// metrics listed in `also`, keep their names.
    fn current_names(&self, names: &[String]) -> Vec<String> {
        let current = |name: &String| self.current_name(name).unwrap_or_else(|| name.clone());
        names.iter().map(current).collect()
    }

    /// Returns the current name of a metric if `name` is outdated.
    pub fn current_name(&self, name: &str) -> Option<String> {
        let is_given = self.target_metrics.iter().chain(&self.also).any(|metric| metric == name);
        let renamed = current_name(self.kind, name, self.uses_old_names);
        renamed.filter(|_| !is_given)
    }

    /// Returns the metric names that the file requests, spelled as in the file.
    pub fn requested_metrics(&self) -> &[String] {
        self.wanted.as_deref().unwrap_or_default()
    }

    /// Returns the name under which runs store a metric of this group.
    pub fn stored_name(&self, metric: &Metric) -> String {
        let name = &metric.name;
        if self.target_metrics.contains(name) {
            name.clone()
        } else {
            stored_name(self.kind, name, false)
        }
    }

    /// Returns the name under which runs store the metric that the file calls `name`. A metric that
    /// the target reports itself keeps its name.
    pub fn stored_name_of(&self, name: &str) -> String {
        if self.target_metrics.iter().any(|metric| metric == name) {
            name.to_owned()
        } else {
            stored_name(self.kind, name, self.uses_old_names)
        }
    }

    /// Returns the names of all metrics that a file may use.
    pub fn metric_names(&self) -> Vec<String> {
        self.known_metrics(&self.metrics)
    }

    /// Whether the load of the group specifies the number of connections instead of the number of
    /// concurrent requests.
    fn counts_connections(&self) -> bool {
        let has = |node: Option<&TreeNode>| {
            let table = node.and_then(TreeNode::as_table);
            table.is_some_and(|table| table.contains_key("connections"))
        };
        let exceptions = self.overrides.iter().map(|exception| exception.patch.get("load"));
        has(self.sections.get("load")) || exceptions.into_iter().any(has)
    }
}

impl Experiment {
    /// Returns a message that lists the outdated metric names used in the file, with their
    /// replacements; `None` if there are none.
    ///
    /// # Errors
    /// Fails if one of the outdated names has a different meaning today.
    pub fn renamed_message(&self) -> Result<Option<String>> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, group) in self.metrics_by_name() {
            let Some(current) = group.current_name(&name) else {
                continue;
            };
            if name == "throughput" {
                bail!(
                    "'throughput' is ambiguous: in this file, which is older than schema 2, it means \
                     bytes; everywhere else it means requests\n\
                     hint: set schema = 2 at the top of the file; then 'bytes_per_second' means \
                     bytes and 'throughput' means requests"
                );
            }
            found.push((name, current));
        }
        let has_connections = self.groups.iter().any(BenchmarkGroup::counts_connections);
        let connections = ("connections".to_owned(), "concurrency".to_owned());
        found.extend(has_connections.then_some(connections));
        let mut listed: Vec<String> = Vec::new();
        for (name, current) in found {
            let shown = format!("'{name}' is now '{current}'");
            if !listed.contains(&shown) {
                listed.push(shown);
            }
        }
        let list = listed.join(", ");
        Ok((!listed.is_empty())
            .then(|| format!("The file uses old names, which still work: {list}.")))
    }

    /// Returns every metric named in the file, paired with each group for which it is used.
    fn metrics_by_name(&self) -> Vec<(String, &BenchmarkGroup)> {
        let wanted = self.groups.iter().flat_map(|group| {
            let names = group.requested_metrics().iter().cloned();
            names.map(move |name| (name, group))
        });
        let mut found: Vec<(String, &BenchmarkGroup)> = wanted.collect();
        let mut add_metric = |metric: &String, filter: &CaseFilter, owner: Option<&String>| {
            let is_in_scope = |group: &&BenchmarkGroup| {
                let group_name = filter.group.as_ref().or(owner);
                group.kind != GroupKind::Function
                    && group_name.is_none_or(|name| *name == group.name)
            };
            let groups = self.groups.iter().filter(is_in_scope);
            found.extend(groups.map(|group| (metric.clone(), group)));
        };
        for claim in &self.claims {
            for term in claim.expression.terms() {
                add_metric(&term.metric, &term.filter, None);
            }
        }
        for (owner, gate) in &self.compare.gates {
            add_metric(&gate.metric, &gate.filter, owner.as_ref());
        }
        found
    }
}
