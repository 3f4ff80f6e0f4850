//! What was measured, without comparing: one row per case (and variant) of each metric.
//!
//! Where there is a single case with several metrics (a load test, a one-liner), the metrics are the
//! rows of one table. A row is prepared in `line.rs`; the columns are in `columns.rs`.

mod columns;
mod line;

use super::case_labels::{CaseLabels, Line as LabelLine};
use super::document::{Block, Document};
use super::field::{keys, row_of};
use super::footnotes::Footnotes;
use super::hoist::hoist;
use super::metric_words::{count, direction, in_unit};
use super::output::{Output, Verbosity};
use super::table::{Name, Row, Table};
use speedwell_analysis::CaseSummary;
use speedwell_model::Metric;
use std::sync::Arc;

/// Said below the tables.
const EXPLANATION: &str = "median over the runs with its interval; CV: standard deviation of the \
                           runs divided by their mean; time: of one iteration of one worker.";

/// The name of the table, for machines.
pub const TABLE: &str = "summaries";

/// The summaries, without failures, warnings and charts, which all reports share.
pub fn summary(summaries: &[CaseSummary], output: &Output) -> Document {
    let mut document = Document::new("summary");
    if let [only] = summaries {
        document.push(Block::Headline(line::sentence(only, output.unit)));
    }
    for section in sections(summaries) {
        document.push(Block::Table(table(&section, output)));
    }
    if output.verbosity != Verbosity::Quiet && !summaries.is_empty() {
        document.push(Block::Note(EXPLANATION.into()));
    }
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    keys(&columns::fields("", Verbosity::Normal))
}

/// The summaries of one table.
type Section<'a> = Vec<&'a CaseSummary>;

fn sections(summaries: &[CaseSummary]) -> Vec<Section<'_>> {
    let Some(first) = summaries.first() else {
        return Vec::new();
    };
    let id = first.case.id();
    if summaries
        .iter()
        .all(|s| s.case.id() == id && s.variant == first.variant)
    {
        return vec![summaries.iter().collect()];
    }
    let mut metrics: Vec<&Metric> = Vec::new();
    for summary in summaries {
        if !metrics.contains(&&summary.metric) {
            metrics.push(&summary.metric);
        }
    }
    let of = |metric: &Metric| summaries.iter().filter(|s| s.metric == *metric).collect();
    metrics.into_iter().map(of).collect()
}

fn table(section: &Section<'_>, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let metrics_are_rows = section.len() > 1 && section[0].metric != section[1].metric;
    let (shared, labels) = if metrics_are_rows {
        by_metric(section)
    } else {
        by_case(section)
    };
    let mut lines = line::prepare(section, !metrics_are_rows, output.unit, &mut footnotes);
    let unit = hoist(&mut lines, |line| &mut line.unit);
    let runs = hoist(&mut lines, |line| &mut line.runs);
    let variant = hoist(&mut lines, |line| &mut line.variant);
    let names = if metrics_are_rows { "metric" } else { "case" };
    let fields = columns::fields(names, output.verbosity);
    let mut rows = Vec::new();
    for label in labels {
        match label {
            LabelLine::Group(name) => rows.push(Row::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                rows.push(row_of(&fields, &lines[index]));
            }
        }
    }
    let mut caption: Vec<String> = Some(shared)
        .filter(|text| !text.is_empty())
        .into_iter()
        .collect();
    let metric = (!metrics_are_rows).then_some(&section[0].metric);
    caption.extend(line_of_caption(metric, unit, runs, variant));
    Table {
        caption,
        columns: fields.into_iter().map(|field| field.column).collect(),
        rows,
        footnotes: footnotes.into_texts(),
        ..Table::new(TABLE)
    }
}

fn by_case(section: &Section<'_>) -> (String, Vec<LabelLine>) {
    let cases: Vec<_> = section
        .iter()
        .map(|summary| Arc::clone(&summary.case))
        .collect();
    let labels = CaseLabels::of(&cases);
    (labels.shared, labels.lines)
}

fn by_metric(section: &Section<'_>) -> (String, Vec<LabelLine>) {
    let label = |(index, summary): (usize, &&CaseSummary)| {
        let metric = &summary.metric;
        let full = format!("{} ({})", metric.name, direction(metric.better));
        LabelLine::Case {
            index,
            name: Name {
                full,
                short: metric.name.clone(),
            },
        }
    };
    (
        section[0].case.id(),
        section.iter().enumerate().map(label).collect(),
    )
}

/// What all rows share, in words.
fn line_of_caption(
    metric: Option<&Metric>,
    unit: Option<String>,
    runs: Option<String>,
    variant: Option<String>,
) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    if let Some(metric) = metric {
        words.push(in_unit(&metric.name, unit.as_deref().unwrap_or_default()));
        words.push(direction(metric.better).to_owned());
    }
    // The count was spelled by `line::prepare`; only 1 has a different noun.
    words.extend(runs.map(|runs| {
        if runs == "1" {
            count(1, "run", "")
        } else {
            runs + " runs"
        }
    }));
    words.extend(
        variant
            .filter(|name| !name.is_empty())
            .map(|name| format!("variant {name}")),
    );
    Some(words.join(", ")).filter(|line| !line.is_empty())
}
