//! Decides which metrics a group reports, and finds the names under which runs store these metrics.

use super::group::BenchmarkGroup;
use super::metric::{also_metric, find_metric, metric_names, stored_name};
use super::target::GroupKind;
use crate::file_part::{FilePart, nearest_hint};
use anyhow::Result;
use speedwell_model::Metric;

impl BenchmarkGroup {
    /// Decides the metrics of the group. `target` holds the metrics that the target reports itself.
    pub(super) fn decide_metrics(&mut self, target: &[Metric], part: &FilePart) -> Result<()> {
        self.target_metrics = target.iter().map(|metric| metric.name.clone()).collect();
        let also: Vec<Metric> = self.also.iter().filter_map(|name| also_metric(name)).collect();
        let metric = |name: &str| {
            let declared = target.iter().chain(&also).find(|metric| metric.name == name);
            declared.cloned().or_else(|| find_metric(self.kind, stored_name(self.kind, name)))
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
        let wanted = self.wanted.clone().unwrap_or_else(default_names);
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
        let reported = self.metrics.iter().find(|metric| metric.name == name);
        reported.cloned().or_else(|| find_metric(self.kind, self.stored_name(name)))
    }

    /// Returns the name under which runs store a metric of this group. A metric that the target
    /// reports itself keeps its name.
    pub fn stored_name<'a>(&self, name: &'a str) -> &'a str {
        let is_target_metric = self.target_metrics.iter().any(|metric| metric == name);
        if is_target_metric { name } else { stored_name(self.kind, name) }
    }

    /// Returns the names of all metrics that a file may use.
    pub fn metric_names(&self) -> Vec<String> {
        self.known_metrics(&self.metrics)
    }
}
