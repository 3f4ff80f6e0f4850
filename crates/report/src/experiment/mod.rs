//! Builds the report of an experiment: its question, the answer, claims, a table per metric, the
//! percentage of requests served within a given time, and charts.
//!
//! This module chooses content and order. The answer comes first, with its chart and tables.
//! Everything else follows, collapsed where the format allows that. The experiment file selects the
//! tables and charts. Tables of changes come from `comparison/`. Start at [`report_experiment`].

mod headline;
mod latency_curve;

use crate::comparison::report_comparison;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::failures::{report_failures, report_validity};
use crate::figure::{
    Uncertainty, decimal_place, format_change_interval, format_number, format_quantity, join_texts,
};
use crate::output::OutputOptions;
use crate::table::{ReportCell, ReportTable, TextEmphasis, column_set};
use crate::{ChartKind, charts, gallery, profile_sections, summary};
use serde_json::{Value, json};
use speedwell_analysis::AnalysisFindings;
use speedwell_analysis::experiment::{
    ClaimAnswer, ClaimComparison, ClaimFound, ExperimentFindings, GroupFindings, MetricFindings,
};
use speedwell_model::experiment::{ChartSeries, ExperimentDesign, ReportOutput as Wanted};

/// The tables and charts of a report if the file selects none.
const DEFAULT_OUTPUTS: [&str; 6] =
    ["by-metric", "latency-percentiles", "factors", "served", "bar", "forest"];

/// Builds the report of an experiment.
pub fn report_experiment(
    found: &ExperimentFindings,
    experiment: &ExperimentDesign,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("experiment");
    document.push_heading(1, experiment.question.as_ref().unwrap_or(&experiment.name).clone());
    if found.groups.is_empty() {
        document.push_headline("nothing was measured");
    }
    document.extend(headline::answer_blocks(found, experiment));
    document.extend(headline::cells_table(found).map(ReportBlock::Table));
    document.append_document(report_claims(found));
    document.append_document(report_gates(found));
    document.append_document(report_validity(&found.validity));
    document.push_notes(experiment.placement.as_ref().map(|placement| {
        format!("{} Latencies include the network between them.", placement.describe_machines())
    }));
    document.push_warnings(&found.warnings);
    let (leading, others) = leading_first(requested_charts(found, experiment, output), found);
    document.push_charts(leading);
    output.add_detail(&mut document, |output, document| {
        add_tables(found, experiment, output, document);
    });
    document.append_document(report_failures(&found.failures, output.verbosity));
    document.push_charts(others);
    let draws = draws_flames(experiment, output);
    document.append_document(profile_sections(&found.profiles, draws, output));
    let everything = merge_metrics(found.groups.iter().flat_map(|group| &group.metrics));
    document.extend(gallery::findings_gallery(&everything, output));
    document
}

/// Splits the charts into leading charts and others. The leading charts show the changes in each
/// group's main metric. If there are none, the first chart that the file lists leads.
fn leading_first(
    charts: Vec<ReportChart>,
    found: &ExperimentFindings,
) -> (Vec<ReportChart>, Vec<ReportChart>) {
    let title =
        |group: &GroupFindings| Some(headline::metric_forest(group, group.metrics.first()?)?.title);
    let titles: Vec<String> = found.groups.iter().filter_map(title).collect();
    let (mut leading, mut others): (Vec<ReportChart>, Vec<ReportChart>) =
        charts.into_iter().partition(|chart| titles.contains(&chart.title));
    if leading.is_empty() && !others.is_empty() {
        leading.push(others.remove(0));
    }
    (leading, others)
}

fn merge_metrics<'a>(metrics: impl IntoIterator<Item = &'a MetricFindings>) -> AnalysisFindings {
    let mut merged = AnalysisFindings::default();
    for metric in metrics {
        merged.summaries.extend(metric.findings.summaries.iter().cloned());
        merged.comparisons.extend(metric.findings.comparisons.iter().cloned());
    }
    merged
}

fn requested_outputs(experiment: &ExperimentDesign) -> Vec<&str> {
    let names = experiment.outputs.iter().filter_map(|output| match output {
        Wanted::Table(name) | Wanted::Chart { name, .. } => Some(name.as_str()),
        Wanted::Report(_) => None,
    });
    let names: Vec<&str> = names.collect();
    if names.is_empty() { DEFAULT_OUTPUTS.to_vec() } else { names }
}

/// Whether to draw flame graphs. They are drawn if the file lists them or lists no charts, or if
/// `output` requests them.
fn draws_flames(experiment: &ExperimentDesign, output: &OutputOptions) -> bool {
    let mut charts = experiment.outputs.iter().filter_map(|output| match output {
        Wanted::Chart { name, .. } => Some(name),
        _ => None,
    });
    let is_listed = charts.clone().any(|name| name == "flame") || charts.next().is_none();
    is_listed || output.flames || output.chart == Some(ChartKind::Flame)
}

/// Adds the tables of every group, with the main metric first. Machine-readable output has all
/// comparisons in one list.
fn add_tables(
    found: &ExperimentFindings,
    experiment: &ExperimentDesign,
    output: &OutputOptions,
    document: &mut Document,
) {
    let mut compared = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let has_several_groups = found.groups.len() > 1;
    for group in &found.groups {
        if has_several_groups {
            document.push_heading(2, group.name.clone());
        }
        let (main_metric, others) = group.metrics.split_at(group.metrics.len().min(1));
        let mut report_part = |metrics, deeper| {
            let part = report_metrics(metrics, deeper, output);
            notes.extend(part.blocks.iter().filter_map(|block| match block {
                ReportBlock::Note(text) => Some(text.clone()),
                _ => None,
            }));
            for (name, value) in part.data {
                match value {
                    Value::Array(items) if name == "comparisons" => compared.extend(items),
                    value => document.attach_data(name, value),
                }
            }
            part.blocks
        };
        let main_blocks = report_part(main_metric, u8::from(has_several_groups));
        let mut others = report_part(others, 1);
        others.extend(distribution_tables(group, experiment).into_iter().map(ReportBlock::Table));
        document.extend(main_blocks);
        if !others.is_empty() {
            document.push(ReportBlock::Aside {
                summary: other_metrics_title(group, has_several_groups),
                open: false,
                blocks: others,
            });
        }
    }
    move_shared_notes(&notes, &mut document.blocks);
    document.attach_data("comparisons", Value::Array(compared));
}

/// Moves notes that apply to several tables, such as the method, to the end, so that each note
/// appears only once. `notes` are the notes of all tables.
fn move_shared_notes(notes: &[String], blocks: &mut Vec<ReportBlock>) {
    let is_first_of_several = |(index, note): &(usize, &String)| {
        !notes[..*index].contains(note) && notes[index + 1..].contains(note)
    };
    let shared = notes.iter().enumerate().filter(is_first_of_several);
    let shared: Vec<String> = shared.map(|(_, note)| note.clone()).collect();
    remove_notes(blocks, &shared);
    blocks.extend(shared.into_iter().map(ReportBlock::Note));
}

fn remove_notes(blocks: &mut Vec<ReportBlock>, texts: &[String]) {
    blocks.retain(|block| !matches!(block, ReportBlock::Note(text) if texts.contains(text)));
    for block in blocks {
        if let ReportBlock::Aside { blocks, .. } = block {
            remove_notes(blocks, texts);
        }
    }
}

/// Returns one line about the other metrics of a group.
fn other_metrics_title(group: &GroupFindings, several: bool) -> String {
    let names = join_texts(", ", group.metrics.iter().skip(1).map(|metric| &metric.metric.name));
    let listed = if names.is_empty() { "percentiles and factors" } else { &*names };
    if several { format!("More of {}: {listed}", group.name) } else { format!("More: {listed}") }
}

/// Reports some metrics of a group. Headings are lowered by `deeper` levels.
fn report_metrics(metrics: &[MetricFindings], deeper: u8, output: &OutputOptions) -> Document {
    if metrics.is_empty() {
        return Document::default();
    }
    let merged = merge_metrics(metrics);
    let mut part = if merged.comparisons.is_empty() {
        summary::report_summaries(&merged.summaries, output)
    } else {
        report_comparison(&merged, output)
    };
    // Leave out headlines, because the answers are at the top of the report.
    part.blocks.retain(|block| !block.is_headline());
    for block in &mut part.blocks {
        if let ReportBlock::Heading { level, .. } = block {
            *level += deeper;
        }
    }
    part
}

/// Builds percentile and factor tables, if the file requests them.
fn distribution_tables(group: &GroupFindings, experiment: &ExperimentDesign) -> Vec<ReportTable> {
    let requested = requested_outputs(experiment);
    let mut tables = Vec::new();
    if requested.contains(&"latency-percentiles") {
        tables.extend(latency_curve::served_tables(group, experiment));
    }
    if requested.contains(&"factors") {
        tables.extend(headline::factor_grids(group, experiment).iter().map(headline::grid_table));
    }
    tables
}

/// Draws the charts that the file requests, in its order.
fn requested_charts(
    found: &ExperimentFindings,
    experiment: &ExperimentDesign,
    output: &OutputOptions,
) -> Vec<ReportChart> {
    // Flame graphs are placed next to their tables, so no chart is added here.
    if output.chart == Some(ChartKind::Flame) {
        return Vec::new();
    }
    let listed = experiment.outputs.iter().filter_map(|output| match output {
        Wanted::Chart { name, series, stages } => Some((name.as_str(), *series, stages.as_slice())),
        _ => None,
    });
    let mut charts: Vec<(&str, ChartSeries, &[Vec<String>])> = listed.collect();
    if charts.is_empty() {
        let stages: &[Vec<String>] = &[];
        charts.extend(DEFAULT_OUTPUTS.map(|name| (name, ChartSeries::Variants, stages)));
    }
    let drawn = charts.into_iter().flat_map(|(name, series, stages)| {
        let draw = |group: &GroupFindings| match name {
            "served" => latency_curve::draw_served(group, series, stages, experiment),
            "ecdf-tail" => latency_curve::draw_tail(group, series, experiment),
            "bar" => charts::draw_bars(&merge_metrics(&group.metrics), output.unit),
            "forest" => {
                let metrics = group.metrics.iter();
                metrics.filter_map(|metric| headline::metric_forest(group, metric)).collect()
            }
            "factors" => {
                headline::factor_grids(group, experiment).iter().map(headline::grid_chart).collect()
            }
            _ => Vec::new(),
        };
        found.groups.iter().flat_map(draw).collect::<Vec<_>>()
    });
    drawn.collect()
}

// Reports the claims and gates of an experiment, with their outcomes.

/// Builds a table with a row per claim. For each comparison of the claim, a remark below the row
/// gives the figures of both sides.
fn report_claims(found: &ExperimentFindings) -> Document {
    let document = Document::new("claims");
    if found.claims.is_empty() {
        return document;
    }
    let columns = column_set! { claim: ClaimFound;
        words("claim", "claim") => &claim.sentence,
        words("answer", "answer") => {
            let (word, symbol, emphasis) = answer_words(claim.holds);
            ReportCell::marked(word, symbol, emphasis)
        },
        machine("expression") => &claim.text,
        machine("parts") => parts_data(claim),
    };
    let remarks =
        |claim: &ClaimFound| claim.parts.iter().map(comparison_remark).collect::<Vec<_>>();
    document.with_table(ReportTable {
        caption: vec!["claims".to_owned()],
        ..columns.build_with_remarks("claims", &found.claims, remarks)
    })
}

/// Returns an answer as a word, with its symbol and its emphasis.
fn answer_words(answer: ClaimAnswer) -> (&'static str, char, TextEmphasis) {
    match answer {
        ClaimAnswer::Yes => ("holds", '✓', TextEmphasis::Good),
        ClaimAnswer::No => ("fails", '✗', TextEmphasis::Bad),
        ClaimAnswer::Undecided => ("undecided", '?', TextEmphasis::Caution),
    }
}

/// Describes one comparison of a claim, with its figures.
fn comparison_remark(part: &ClaimComparison) -> String {
    let case_prefix = part.about.as_ref().map(|case| format!("{case}: ")).unwrap_or_default();
    let (answer, symbol, _) = answer_words(part.holds);
    let sides = part.sides.map_or("not measured".to_owned(), |(left, right)| {
        let figure = |value: f64| match &part.unit {
            Some(unit) => format_quantity(value, unit, Uncertainty::Unknown),
            None => format_figure(value),
        };
        format!("{} against {}", figure(left), figure(right))
    });
    let ratio = part.ratio.map_or(String::new(), |ratio| {
        let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(format_figure);
        format!(", {value} times [{low}, {high}]")
    });
    format!("{case_prefix}{}: {sides}{ratio} {symbol} {answer}", part.text)
}

fn format_figure(value: f64) -> String {
    format_number(value, decimal_place(value, Uncertainty::Unknown))
}

fn parts_data(claim: &ClaimFound) -> Value {
    let data = |part: &ClaimComparison| {
        json!({
            "case": part.about,
            "expression": part.text,
            "answer": answer_words(part.holds).0,
            "left": part.sides.map(|(left, _)| left),
            "right": part.sides.map(|(_, right)| right),
            "ratio": part.ratio.map(|ratio| ratio.value),
            "ratio_low": part.ratio.map(|ratio| ratio.low),
            "ratio_high": part.ratio.map(|ratio| ratio.high),
        })
    };
    claim.parts.iter().map(data).collect()
}

/// Reports how many gates passed, failed or are undecided, with a sentence for each failed gate. A
/// gate is a condition that decides the exit status. Machine-readable output lists all gates.
fn report_gates(found: &ExperimentFindings) -> Document {
    let mut document = Document::new("gates");
    if found.gates.is_empty() {
        return document;
    }
    let broken = found.gates.iter().filter(|gate| gate.is_broken).map(|gate| {
        let change = gate.change.as_ref().map(format_change_interval).unwrap_or_default();
        format!("'{}' breaks the gate '{}' in {}: {change}", gate.candidate, gate.text, gate.case)
    });
    let broken: Vec<String> = broken.collect();
    let passed_count = found.gates.iter().filter(|gate| gate.is_kept).count();
    let (total, failed_count) = (found.gates.len(), broken.len());
    document.push_paragraph(format!(
        "Gates: {passed_count} of {total} passed, {failed_count} failed, {} undecided.",
        total - passed_count - failed_count
    ));
    if !broken.is_empty() {
        document.push(ReportBlock::List(broken));
    }
    let data = found.gates.iter().map(|gate| {
        json!({
            "gate": gate.text,
            "group": gate.group,
            "case": gate.case,
            "candidate": gate.candidate,
            "change": gate.change.map(|change| change.value),
            "change_low": gate.change.map(|change| change.low),
            "change_high": gate.change.map(|change| change.high),
            "passed": gate.is_kept,
            "failed": gate.is_broken,
        })
    });
    document.attach_data("gates", data.collect());
    document
}
