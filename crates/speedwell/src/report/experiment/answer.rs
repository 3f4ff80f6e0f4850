//! The answer of an experiment in sentences: what the first metric of each group says of each pair.

use crate::analysis::Comparison;
use crate::analysis::experiment::{Found, GroupFound, MetricFound};
use crate::definition::experiment::{Experiment, control};
use crate::report::comparison::headline;
use crate::report::document::Block;
use crate::report::quantity::change_with_interval;

/// One sentence for each group and pair, then what the control says.
pub fn headlines(found: &Found, experiment: &Experiment) -> Vec<Block> {
    let mut blocks = Vec::new();
    for group in &found.groups {
        let Some(first) = group.metrics.first() else {
            continue;
        };
        let own = first
            .findings
            .comparisons
            .iter()
            .filter(|comparison| !is_control(comparison));
        for comparison in own {
            let sentence = headline(&labelled(comparison, experiment));
            blocks.push(Block::Headline(format!(
                "{}{sentence}",
                subject(found, group, first)
            )));
        }
        blocks.extend(floor(group, first).map(Block::Note));
    }
    blocks
}

/// What a sentence is about, where there is more than one group.
fn subject(found: &Found, group: &GroupFound, metric: &MetricFound) -> String {
    match found.groups.len() {
        1 => format!("{}: ", metric.metric.name),
        _ => format!("{}, {}: ", group.name, metric.metric.name),
    }
}

/// Whether a comparison is that of the control with itself.
pub fn is_control(comparison: &Comparison) -> bool {
    control::origin(&comparison.candidate) != comparison.candidate
}

/// The comparison with variants called as the file wants.
fn labelled(comparison: &Comparison, experiment: &Experiment) -> Comparison {
    Comparison {
        baseline: label(experiment, &comparison.baseline),
        candidate: label(experiment, &comparison.candidate),
        ..comparison.clone()
    }
}

/// What reports call a variant: its name, with its label where there is one.
pub fn label(experiment: &Experiment, name: &str) -> String {
    let known = experiment
        .variants
        .iter()
        .find(|variant| variant.name == name);
    match known.and_then(|variant| variant.label.as_ref()) {
        Some(label) => format!("{name} ({label})"),
        None => name.to_owned(),
    }
}

/// What the control says: differences up to this size are seen where there is none.
fn floor(group: &GroupFound, metric: &MetricFound) -> Option<String> {
    let floor = metric.floor?;
    let control = metric
        .findings
        .comparisons
        .iter()
        .find(|comparison| is_control(comparison))?;
    Some(format!(
        "{}: '{}' measured against itself changed by {} ({}). A difference within that is no difference that this \
         experiment can see.",
        group.name,
        control.baseline,
        change_with_interval(&floor),
        metric.metric.name
    ))
}
