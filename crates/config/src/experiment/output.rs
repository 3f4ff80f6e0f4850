//! Reads `[[output]]` tables, which select the tables, charts and formats of the report.

use super::plan::check_variant;
use super::variant::ExperimentVariant;
use crate::file_part::FilePart;
use crate::value::{OneOrMany, choice_name};
use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutput {
    /// The table with this name.
    Table(String),
    /// A chart.
    Chart {
        /// Name of the chart.
        name: String,
        /// What its lines show.
        series: ChartSeries,
        /// For `served`: variants of each picture, in order; if empty, one picture shows all
        /// variants.
        stages: Vec<Vec<String>>,
    },
    /// The report in these formats.
    Report(Vec<String>),
}

/// What the lines of a picture show: variants, with a picture for each case, or the reverse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChartSeries {
    /// All variants in one case.
    #[default]
    Variants,
    /// All cases of one variant.
    Cases,
}

/// A table, a chart, or the formats of the report: one of `table`, `chart` and `report`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["table"] }, { "required": ["chart"] }, { "required": ["report"] }
]))]
pub struct OutputKeys {
    /// A table.
    table: Option<OutputTable>,
    /// A chart.
    chart: Option<OutputChart>,
    /// What the lines of `served` and `ecdf-tail` show.
    series: ChartSeries,
    /// For `served`: one picture for each list of variants; ["all"] means all of them.
    stages: Vec<OneOrMany<String>>,
    /// Report files, named after the experiment.
    report: Option<OneOrMany<OutputFormat>>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OutputTable {
    /// Every metric, with a column for each variant; always included.
    ByMetric,
    /// Percentiles of latencies, with a column for each variant.
    LatencyPercentiles,
    /// A table for each case, if all variants have the same two factors.
    Factors,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OutputChart {
    /// The percentage of requests served within a time.
    Served,
    /// The slow end of the distribution.
    EcdfTail,
    /// Each metric as bars.
    Bar,
    /// Changes with their intervals.
    Forest,
    /// Flame graphs.
    Flame,
    /// The first metric in groups of bars, if all variants have the same two factors.
    Factors,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OutputFormat {
    /// An HTML page.
    Html,
    /// Markdown, with its charts as SVG files.
    Markdown,
    /// JSON.
    Json,
    /// Comma-separated values.
    Csv,
}

/// Resolves the outputs of the file, in order.
pub fn resolve_outputs(
    outputs: &[OutputKeys],
    top: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<Vec<ReportOutput>> {
    let parts = top.list_items("output");
    let resolve = |(keys, part): (&OutputKeys, &FilePart)| resolve_output(keys, part, variants);
    outputs.iter().zip(&parts).map(resolve).collect()
}

fn resolve_output(
    keys: &OutputKeys,
    part: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<ReportOutput> {
    let chart_key = ["series", "stages"].into_iter().find(|key| part.has(key));
    if let (Some(key), None) = (chart_key, keys.chart) {
        return Err(part.value_error(key, "applies only to a chart"));
    }
    match (keys.table, keys.chart, &keys.report) {
        (Some(table), None, None) => Ok(ReportOutput::Table(choice_name(&table))),
        (None, Some(chart), None) => Ok(ReportOutput::Chart {
            name: choice_name(&chart),
            series: keys.series,
            stages: resolve_stages(keys, part, variants)?,
        }),
        (None, None, Some(formats)) => {
            Ok(ReportOutput::Report(formats.iter().map(choice_name).collect()))
        }
        _ => Err(part.wrong_table("must have exactly one of table, chart, report")),
    }
}

/// Resolves lists of variants; `["all"]` means all of them.
fn resolve_stages(
    keys: &OutputKeys,
    part: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<Vec<Vec<String>>> {
    let all_names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let mut found = Vec::new();
    for OneOrMany(names) in &keys.stages {
        if *names == ["all"] && !all_names.contains(&"all".to_owned()) {
            found.push(all_names.clone());
            continue;
        }
        for name in names {
            check_variant(part, "stages", name, variants)?;
        }
        found.push(names.clone());
    }
    Ok(found)
}
