//! What an experiment showed, as a document: its question, the answer, claims, a table for each metric, who was served
//! within which time, charts.
//!
//! It decides what is shown in which order: the answer, the chart and the tables behind it, then everything else,
//! folded away where a format can; the file says what that is. Tables of changes are those of every comparison
//! (`report/comparison`). Start at [`experiment`].

mod claims;
mod factors;
mod headline;
mod served;

use crate::comparison::comparison;
use crate::document::{Block, Chart, Document};
use crate::output::Output;
use crate::table::Table;
use crate::{ChartKind, charts, failures, gallery, profile_sections, summary, validity};
use serde_json::Value;
use speedwell_analysis::Findings;
use speedwell_analysis::experiment::{Found, GroupFound, MetricFound};
use speedwell_suite::experiment::{Experiment, Output as Wanted, Series};

/// What is shown where the file says nothing.
const DEFAULT_OUTPUTS: [&str; 6] = [
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
    document.push_heading(1, title.clone());
    if found.groups.is_empty() {
        document.push(Block::Headline("nothing was measured".into()));
    }
    document.extend(headline::headlines(found, experiment));
    document.extend(factors::cells_table(found).map(Block::Table));
    document.append(claims::claims(found));
    document.append(claims::gates(found));
    document.append(validity(&found.validity));
    document.extend(experiment.placement.as_ref().map(|own| {
        let text = format!(
            "{} Latencies include the network between them.",
            own.sentence()
        );
        Block::Note(text)
    }));
    document.push_warnings(&found.warnings);
    let (leading, further) = leading_first(charts(found, experiment, output), found);
    let drawn = |chart| Block::Chart(Box::new(chart));
    document.extend(leading.into_iter().map(drawn));
    output.add_detail(&mut document, |output, document| {
        tables(found, experiment, output, document);
    });
    document.append(failures(&found.failures, output.verbosity));
    document.extend(further.into_iter().map(drawn));
    let draws = draws_flames(experiment, output);
    document.append(profile_sections(&found.profiles, draws, output));
    let everything = whole(&found.groups);
    document.extend(gallery::gallery(&everything, output));
    document
}

/// The charts that answer, and the others: the changes of what each group is about, else the first that the file wants.
fn leading_first(charts: Vec<Chart>, found: &Found) -> (Vec<Chart>, Vec<Chart>) {
    let firsts = found.groups.iter().filter_map(factors::leading);
    let titles: Vec<String> = firsts.map(|chart| chart.title).collect();
    let (mut leading, mut further): (Vec<Chart>, Vec<Chart>) = charts
        .into_iter()
        .partition(|chart| titles.contains(&chart.title));
    if leading.is_empty() && !further.is_empty() {
        leading.push(further.remove(0));
    }
    (leading, further)
}

/// All findings of groups in one.
fn whole(groups: &[GroupFound]) -> Findings {
    together(groups.iter().flat_map(|group| &group.metrics))
}

/// The findings of several metrics in one.
fn together<'a>(metrics: impl IntoIterator<Item = &'a MetricFound>) -> Findings {
    let mut whole = Findings::default();
    for metric in metrics {
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
    if names.is_empty() {
        DEFAULT_OUTPUTS.to_vec()
    } else {
        names
    }
}

/// Flame graphs are drawn where the file lists them or no charts at all, and where they are requested.
fn draws_flames(experiment: &Experiment, output: &Output) -> bool {
    let mut charts = experiment.outputs.iter().filter_map(|output| match output {
        Wanted::Chart { name, .. } => Some(name),
        _ => None,
    });
    let is_listed = charts.clone().any(|name| name == "flame") || charts.next().is_none();
    is_listed || output.flames || output.chart == Some(ChartKind::Flame)
}

/// The tables of every group: what it is about first, its other metrics behind. For machines all comparisons are in
/// one list.
fn tables(found: &Found, experiment: &Experiment, output: &Output, document: &mut Document) {
    let mut compared = Vec::new();
    let mut shared = SharedNotes::default();
    let several = found.groups.len() > 1;
    for group in &found.groups {
        if several {
            document.push_heading(2, group.name.clone());
        }
        let (about, others) = group.metrics.split_at(group.metrics.len().min(1));
        let mut shown = |metrics, deeper| {
            let part = of_metrics(metrics, deeper, output);
            shared.count(&part.blocks);
            keep_data(part.data, &mut compared, document);
            part.blocks
        };
        let about = shown(about, u8::from(several));
        let mut others = shown(others, 1);
        others.extend(distributions(group, experiment).map(Block::Table));
        document.extend(about);
        if !others.is_empty() {
            document.push(Block::Aside {
                summary: rest_of(group, several),
                open: false,
                blocks: others,
            });
        }
    }
    shared.move_to_end(&mut document.blocks);
    document.attach("comparisons", Value::Array(compared));
}

/// Notes below the tables of an experiment, such as the method, each with the number of its tables.
#[derive(Default)]
struct SharedNotes(Vec<(String, usize)>);

impl SharedNotes {
    fn count(&mut self, blocks: &[Block]) {
        for block in blocks {
            let Block::Note(text) = block else { continue };
            match self.0.iter_mut().find(|(known, _)| known == text) {
                Some((_, times)) => *times += 1,
                None => self.0.push((text.clone(), 1)),
            }
        }
    }

    /// What is true of several tables is said once, behind the last of them.
    fn move_to_end(self, blocks: &mut Vec<Block>) {
        let shared = self.0.into_iter().filter(|(_, times)| *times > 1);
        let shared: Vec<String> = shared.map(|(text, _)| text).collect();
        remove_notes(blocks, &shared);
        blocks.extend(shared.into_iter().map(Block::Note));
    }
}

fn remove_notes(blocks: &mut Vec<Block>, texts: &[String]) {
    blocks.retain(|block| !matches!(block, Block::Note(text) if texts.contains(text)));
    for block in blocks {
        if let Block::Aside { blocks, .. } = block {
            remove_notes(blocks, texts);
        }
    }
}

/// What stands behind the first metric of a group, in one line.
fn rest_of(group: &GroupFound, several: bool) -> String {
    let others = group.metrics.iter().skip(1);
    let mut names: Vec<&str> = others.map(|metric| metric.metric.name.as_str()).collect();
    if names.is_empty() {
        names.push("percentiles and factors");
    }
    let names = names.join(", ");
    if several {
        format!("More of {}: {names}", group.name)
    } else {
        format!("More: {names}")
    }
}

/// The report of some metrics of a group, its headings `deeper` by so many levels.
fn of_metrics(metrics: &[MetricFound], deeper: u8, output: &Output) -> Document {
    if metrics.is_empty() {
        return Document::default();
    }
    let whole = together(metrics);
    let mut part = if whole.comparisons.is_empty() {
        summary::summary(&whole.summaries, output)
    } else {
        comparison(&whole, output)
    };
    // The answers stand at the top of the report.
    part.blocks
        .retain(|block| !matches!(block, Block::Headline(_)));
    for block in &mut part.blocks {
        if let Block::Heading { level, .. } = block {
            *level += deeper;
        }
    }
    part
}

/// Comparisons go into one list, and everything else to the document.
fn keep_data(data: Vec<(&'static str, Value)>, compared: &mut Vec<Value>, document: &mut Document) {
    for (name, value) in data {
        match value {
            Value::Array(items) if name == "comparisons" => compared.extend(items),
            value => document.attach(name, value),
        }
    }
}

/// Percentiles and factors, where the file wants them.
fn distributions(group: &GroupFound, experiment: &Experiment) -> impl Iterator<Item = Table> {
    let wanted = wanted(experiment);
    let of_name = |name: &str, tables: &dyn Fn() -> Vec<Table>| {
        if wanted.contains(&name) {
            tables()
        } else {
            Vec::new()
        }
    };
    let percentiles = of_name("latency-percentiles", &|| served::tables(group, experiment));
    let factors = of_name("factors", &|| factors::tables(group, experiment));
    percentiles.into_iter().chain(factors)
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
    let usual: Vec<Wanted> = DEFAULT_OUTPUTS
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
        } => charts_named(name, *series, stages, found, experiment, output),
        _ => Vec::new(),
    })
    .collect()
}

fn charts_named(
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
                charts::bars(&whole, output.unit)
            })
            .collect(),
        "forest" => groups.flat_map(factors::forests).collect(),
        "factors" => groups
            .flat_map(|group| factors::charts(group, experiment))
            .collect(),
        _ => Vec::new(),
    }
}
