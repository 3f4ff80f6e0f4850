//! What an experiment showed, as a document: its question, the answer, claims, a table for each metric, who was served
//! within which time, charts.
//!
//! It decides what is shown in which order: the answer, the chart and the tables behind it, then everything else,
//! folded away where a format can; the file says what that is. Tables of changes are those of every comparison
//! (`report/comparison`). Start at [`experiment`].

mod claims;
mod factors;
mod served;

use crate::comparison::comparison;
use crate::document::{Block, Chart, Document};
use crate::figure::{
    Uncertainty, change, change_with_interval, count, good_and_bad, place, setting, spell,
    spell_signed,
};
use crate::output::{Output, Verbosity};
use crate::table::Table;
use crate::{ChartKind, charts, failures, gallery, profile_sections, summary, validity};
use serde_json::Value;
use speedwell_analysis::experiment::{Found, GroupFound, MetricFound};
use speedwell_analysis::{CaseComparison, Comparison, Findings};
use speedwell_model::{Estimate, Verdict};
use speedwell_suite::experiment::{Experiment, Output as Wanted, Series, control};

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
    document.extend(headlines(found, experiment));
    document.extend(factors::cells_table(found).map(Block::Table));
    document.append(claims::claims(found));
    document.append(claims::gates(found));
    document.append(validity(&found.validity));
    document.push_warnings(&found.warnings);
    let (leading, further) = leading_first(charts(found, experiment, output), found);
    let drawn = |chart| Block::Chart(Box::new(chart));
    document.extend(leading.into_iter().map(drawn));
    if output.verbosity != Verbosity::Quiet {
        tables(found, experiment, output, &mut document);
    }
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

/// A change from here on is given as a factor: "+250 %" is hard to imagine, "3.5 times" is not.
const SHOWN_AS_FACTOR: f64 = 1.0;

/// One sentence for each comparison of a group, then what the control says.
pub fn headlines(found: &Found, experiment: &Experiment) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut names = Names {
        experiment,
        named: Vec::new(),
    };
    for group in &found.groups {
        let Some(first) = group.metrics.first() else {
            continue;
        };
        let subject = match found.groups.len() {
            1 => first.metric.name.clone(),
            _ => format!("{}, {}", group.name, first.metric.name),
        };
        let sentences = sentences(group, first, &mut names).into_iter();
        blocks.extend(sentences.map(|said| Block::Headline(format!("{subject}: {said}."))));
        blocks.extend(floor(group, first).map(Block::Note));
    }
    blocks
}

/// What variants are called in the answers: with their labels the first time.
struct Names<'a> {
    experiment: &'a Experiment,
    named: Vec<String>,
}

impl Names<'_> {
    fn variant(&mut self, name: &str) -> String {
        if self.named.iter().any(|known| known == name) {
            return name.to_owned();
        }
        self.named.push(name.to_owned());
        label(self.experiment, name)
    }
}

/// What each comparison of a group says.
fn sentences(group: &GroupFound, metric: &MetricFound, names: &mut Names<'_>) -> Vec<String> {
    let own = metric
        .findings
        .comparisons
        .iter()
        .filter(|comparison| !is_control(comparison));
    own.map(|comparison| {
        let candidate = names.variant(&comparison.candidate);
        let baseline = names.variant(&comparison.baseline);
        format!(
            "{candidate} against {baseline}: {}{}",
            verdict_summary(comparison),
            counted(group, comparison).unwrap_or_default()
        )
    })
    .collect()
}

/// What a comparison says: verdicts with the number of cases and the size of the change.
fn verdict_summary(comparison: &Comparison) -> String {
    let total = comparison.rows.len();
    let rows: Vec<&CaseComparison> = comparison.rows.iter().collect();
    let parts = verdicts(comparison, &rows, total);
    // The geometric mean over all cases, as if they were one.
    let together = comparison.overall.filter(|_| total > 1);
    let together =
        together.map(|overall| format!("; all together {}", change_with_interval(&overall)));
    if parts.is_empty() {
        "nothing to compare".to_owned()
    } else {
        parts.join(", ") + &together.unwrap_or_default()
    }
}

/// What counted instructions say where the metric itself leaves cases unclear: on a busy machine they often decide when
/// times cannot.
fn counted(group: &GroupFound, comparison: &Comparison) -> Option<String> {
    let mut others = group.metrics.iter().skip(1);
    let counts = others.find(|found| found.metric.name.starts_with("instructions"))?;
    let mut pairs = counts.findings.comparisons.iter();
    let counts = pairs.find(|known| {
        (&known.baseline, &known.candidate) == (&comparison.baseline, &comparison.candidate)
    })?;
    let is_open = |row: &&CaseComparison| {
        let mut unclear = comparison.rows_that_are(Verdict::Unclear);
        row.verdict != Verdict::Unclear && unclear.any(|known| known.case == row.case)
    };
    let rows: Vec<&CaseComparison> = counts.rows.iter().filter(is_open).collect();
    let parts = verdicts(counts, &rows, comparison.rows.len());
    (!parts.is_empty()).then(|| {
        format!(
            "; where that is unclear, {} say: {}",
            counts.metric.name.replace('_', " "),
            parts.join(", ")
        )
    })
}

/// A part of a sentence for each verdict that some of these rows of a comparison have; there are `total` cases.
fn verdicts(comparison: &Comparison, rows: &[&CaseComparison], total: usize) -> Vec<String> {
    let (good, bad) = good_and_bad(&comparison.metric);
    let order = [
        Verdict::Worse,
        Verdict::Better,
        Verdict::Same,
        Verdict::Unclear,
    ];
    let parts = order.into_iter().filter_map(|verdict| {
        let of_verdict = rows.iter().filter(|row| row.verdict == verdict);
        let rows: Vec<&CaseComparison> = of_verdict.copied().collect();
        if rows.is_empty() {
            return None;
        }
        let place = match (rows.len(), total) {
            (_, 1) => String::new(),
            (2, 2) => " in both cases".to_owned(),
            (number, _) if number == total => format!(" in all {}", count(total, "case", "cases")),
            (number, _) => format!(" in {number} of {total}"),
        };
        Some(match verdict {
            Verdict::Worse => format!("{bad}{place}{}", size(&rows)),
            Verdict::Better => format!("{good}{place}{}", size(&rows)),
            Verdict::Same => format!("the same within {}{place}", setting(comparison.delta)),
            Verdict::Unclear => format!("unclear{place}{}", not_excluded(&rows)),
        })
    });
    parts.collect()
}

/// The change, or the range of the changes of several cases.
fn size(rows: &[&CaseComparison]) -> String {
    let mut changes: Vec<Estimate> = rows.iter().filter_map(|row| row.change).collect();
    changes.sort_by(|one, other| one.value.total_cmp(&other.value));
    match &changes[..] {
        [] => String::new(),
        [only] if only.value < SHOWN_AS_FACTOR => format!(", {}", change_with_interval(only)),
        [only] => format!(
            ", {} times as much [{}, {}]",
            times(only.value),
            times(only.low),
            times(only.high)
        ),
        [first, .., last] if last.value < SHOWN_AS_FACTOR => {
            format!(", {} to {}", change(first), change(last))
        }
        [first, .., last] => format!(
            ", {} to {} times as much",
            times(first.value),
            times(last.value)
        ),
    }
}

/// Which changes the data leave possible.
fn not_excluded(rows: &[&CaseComparison]) -> String {
    let changes = rows.iter().filter_map(|row| row.change);
    let ends = changes.map(|change| (change.low, change.high));
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| {
        (low.min(end.0), high.max(end.1))
    });
    let range = (low.is_finite() && high.is_finite()).then(|| {
        let percent = |share: f64| format!("{} %", spell_signed(share * 100.0, 0));
        format!(", {} to {} is possible", percent(low), percent(high))
    });
    range.unwrap_or_default()
}

/// A change as a factor.
fn times(change: f64) -> String {
    let factor = 1.0 + change;
    spell(factor, place(factor, Uncertainty::Unknown).max(1))
}

/// Whether a comparison is that of the control with itself.
pub fn is_control(comparison: &Comparison) -> bool {
    control::is_again(&comparison.candidate)
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
