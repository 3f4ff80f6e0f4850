//! What an experiment showed, as a document: its question, the answer, claims, a table for each metric, who was served
//! within which time, charts.
//!
//! It decides what is shown in which order, following the file where it says so. Tables of changes are those of every
//! comparison (`report/comparison`). Start at [`experiment`].

mod answer;
mod cells;
mod claims;
mod factors;
mod forests;
mod gates;
mod percentiles;
mod served;

use super::charts as usual;
use super::comparison::comparison;
use super::document::{Block, Document};
use super::output::{Output, Verbosity};
use super::{ChartKind, failures, gallery, profile_sections, summary, validity};
use crate::analysis::Findings;
use crate::analysis::experiment::{Found, GroupFound};
use crate::definition::experiment::{Experiment, Output as Wanted, Series};
use crate::report::document::Chart;
use serde_json::Value;

/// What is shown where the file says nothing.
const USUAL: [&str; 6] = [
    "by-metric",
    "latency-percentiles",
    "factors",
    "served",
    "bar",
    "forest",
];

/// The report of an experiment.
pub fn experiment(found: &Found, experiment: &Experiment, output: &Output) -> Document {
    let mut document = Document::new("experiment");
    let title = experiment.question.as_ref().unwrap_or(&experiment.name);
    document.push(Block::Heading {
        level: 1,
        text: title.clone(),
    });
    if found.groups.is_empty() {
        document.push(Block::Headline("nothing was measured".into()));
    }
    document.blocks.extend(answer::headlines(found, experiment));
    document
        .blocks
        .extend(cells::table(found).map(Block::Table));
    document.append(claims::claims(found));
    document.append(gates::gates(found));
    document.append(validity(&found.validity));
    for warning in &found.warnings {
        document.push(Block::Warning(warning.clone()));
    }
    if output.verbosity != Verbosity::Quiet {
        tables(found, experiment, output, &mut document);
    }
    document.append(failures(&found.failures, output.verbosity));
    for chart in charts(found, experiment, output) {
        document.push(Block::Chart(Box::new(chart)));
    }
    let draws = draws_flames(experiment, output);
    document.append(profile_sections(&found.profiles, draws, output));
    let everything = whole(&found.groups);
    document
        .blocks
        .extend(gallery::gallery(&everything, output));
    document
}

/// All findings of groups in one.
fn whole(groups: &[GroupFound]) -> Findings {
    let mut whole = Findings::default();
    for metric in groups.iter().flat_map(|group| &group.metrics) {
        whole
            .summaries
            .extend(metric.findings.summaries.iter().cloned());
        whole
            .comparisons
            .extend(metric.findings.comparisons.iter().cloned());
    }
    whole
}

/// The names of what the file wants to see.
fn wanted(experiment: &Experiment) -> Vec<&str> {
    let names: Vec<&str> = experiment
        .outputs
        .iter()
        .filter_map(|output| match output {
            Wanted::Table(name) | Wanted::Chart { name, .. } => Some(name.as_str()),
            Wanted::Report(_) => None,
        })
        .collect();
    match names.is_empty() {
        true => USUAL.to_vec(),
        false => names,
    }
}

/// Flame graphs are drawn where the file lists them or no charts at all, and where they are asked for.
fn draws_flames(experiment: &Experiment, output: &Output) -> bool {
    let mut charts = experiment.outputs.iter().filter_map(|output| match output {
        Wanted::Chart { name, .. } => Some(name),
        _ => None,
    });
    let is_listed = charts.clone().any(|name| name == "flame") || charts.next().is_none();
    is_listed || output.flames || output.chart == Some(ChartKind::Flame)
}

/// The tables of every group, and for machines all comparisons in one list.
fn tables(found: &Found, experiment: &Experiment, output: &Output, document: &mut Document) {
    let wanted = wanted(experiment);
    let mut compared = Vec::new();
    for group in &found.groups {
        if found.groups.len() > 1 {
            document.push(Block::Heading {
                level: 2,
                text: group.name.clone(),
            });
        }
        let whole = whole(std::slice::from_ref(group));
        let part = match whole.comparisons.is_empty() {
            true => summary::summary(&whole.summaries, output),
            false => comparison(&whole, output),
        };
        // The answers stand at the top of the report.
        let body = part
            .blocks
            .into_iter()
            .filter(|block| !matches!(block, Block::Headline(_)));
        document.blocks.extend(body.map(|block| match block {
            Block::Heading { level, text } if found.groups.len() > 1 => Block::Heading {
                level: level + 1,
                text,
            },
            block => block,
        }));
        for (name, value) in part.data {
            match value {
                Value::Array(items) if name == "comparisons" => compared.extend(items),
                value => document.attach(name, value),
            }
        }
        if wanted.contains(&"latency-percentiles") {
            document.blocks.extend(
                percentiles::tables(group, experiment)
                    .into_iter()
                    .map(Block::Table),
            );
        }
        if wanted.contains(&"factors") {
            document.blocks.extend(
                factors::tables(group, experiment)
                    .into_iter()
                    .map(Block::Table),
            );
        }
    }
    document.attach("comparisons", Value::Array(compared));
}

/// The charts that the file wants, in its order.
fn charts(found: &Found, experiment: &Experiment, output: &Output) -> Vec<Chart> {
    // Flame graphs stand beside their tables.
    if output.chart == Some(ChartKind::Flame) {
        return Vec::new();
    }
    let listed: Vec<&Wanted> = experiment
        .outputs
        .iter()
        .filter(|output| matches!(output, Wanted::Chart { .. }))
        .collect();
    let usual: Vec<Wanted> = USUAL
        .iter()
        .filter(|_| listed.is_empty())
        .map(|name| Wanted::Chart {
            name: (*name).to_owned(),
            series: Series::Variants,
            stages: Vec::new(),
        })
        .collect();
    let all = listed.into_iter().chain(&usual);
    all.flat_map(|wanted| match wanted {
        Wanted::Chart {
            name,
            series,
            stages,
        } => of_name(name, *series, stages, found, experiment, output),
        _ => Vec::new(),
    })
    .collect()
}

fn of_name(
    name: &str,
    series: Series,
    stages: &[Vec<String>],
    found: &Found,
    experiment: &Experiment,
    output: &Output,
) -> Vec<Chart> {
    let groups = found.groups.iter();
    match name {
        "served" => groups
            .flat_map(|group| served::served(group, series, stages, experiment))
            .collect(),
        "ecdf-tail" => groups
            .flat_map(|group| served::tail(group, series, experiment))
            .collect(),
        "bar" => groups
            .flat_map(|group| {
                let whole = whole(std::slice::from_ref(group));
                usual::bars(&whole, output.unit)
            })
            .collect(),
        "forest" => groups.flat_map(forests::forests).collect(),
        "factors" => groups
            .flat_map(|group| factors::charts(group, experiment))
            .collect(),
        _ => Vec::new(),
    }
}
