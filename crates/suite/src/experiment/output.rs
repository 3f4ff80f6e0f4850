//! `[[output]]`: tables, charts and forms of the report.

use super::plan::known;
use super::variant::Variant;
use crate::keys::Keys;
use crate::tree::{Content, Node};
use anyhow::Result;

/// Tables.
const TABLES: [&str; 3] = ["by-metric", "latency-percentiles", "factors"];

/// Charts.
const CHARTS: [&str; 6] = ["served", "ecdf-tail", "bar", "forest", "flame", "factors"];

/// Forms of the report.
const REPORTS: [&str; 4] = ["html", "markdown", "json", "csv"];

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A table of this name.
    Table(String),
    /// A chart.
    Chart {
        /// Its name.
        name: String,
        /// What its lines are.
        series: Series,
        /// Variants of each picture of a story; empty: one picture of all.
        stages: Vec<Vec<String>>,
    },
    /// The report in these forms.
    Report(Vec<String>),
}

/// What the lines of a picture are; there is one picture for each of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// All variants in one case.
    Variants,
    /// All cases of one variant.
    Cases,
}

/// Reads all outputs, in order.
pub fn read(top: &Keys, variants: &[Variant]) -> Result<Vec<Output>> {
    let outputs = top.list("output")?;
    outputs.iter().map(|keys| one(keys, variants)).collect()
}

fn one(keys: &Keys, variants: &[Variant]) -> Result<Output> {
    let table = keys.choice("table", &TABLES)?.map(Output::Table);
    let chart = match keys.choice("chart", &CHARTS)? {
        Some(name) => {
            let series = match keys.choice("series", &["variants", "cases"])?.as_deref() {
                Some("cases") => Series::Cases,
                _ => Series::Variants,
            };
            Some(Output::Chart {
                name,
                series,
                stages: stages(keys, variants)?,
            })
        }
        None => None,
    };
    let report = reports(keys)?.map(Output::Report);
    keys.finish()?;
    let mut found: Vec<Output> = table.into_iter().chain(chart).chain(report).collect();
    match (found.pop(), found.is_empty()) {
        (Some(output), true) => Ok(output),
        _ => {
            Err(keys
                .wrong_table("does not say one thing\nhint: it has one of table, chart, report"))
        }
    }
}

fn reports(keys: &Keys) -> Result<Option<Vec<String>>> {
    let is_text = keys
        .node("report")
        .is_some_and(|node| node.text().is_some());
    let forms = if is_text {
        keys.text("report")?.map(|form| vec![form])
    } else {
        keys.texts("report")?
    };
    let known = REPORTS.map(str::to_owned);
    match forms.iter().flatten().find(|form| !known.contains(form)) {
        Some(unknown) => Err(keys.unknown("report", unknown, &known)),
        None => Ok(forms),
    }
}

/// Lists of variants; `["all"]` is all of them.
fn stages(keys: &Keys, variants: &[Variant]) -> Result<Vec<Vec<String>>> {
    let wrong = || {
        let message = format!(
            "the key 'stages' of {} is not a list of lists of variants",
            keys.place
        );
        keys.error(
            "stages",
            format!("{message}\nhint: stages = [[\"old\"], [\"all\"]]"),
        )
    };
    let stages = match keys.node("stages").map(|node| &node.content) {
        None => return Ok(Vec::new()),
        Some(Content::List(stages)) => stages,
        Some(_) => return Err(wrong()),
    };
    let all: Vec<String> = variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    let mut found = Vec::new();
    for stage in stages {
        let Content::List(names) = &stage.content else {
            return Err(wrong());
        };
        let names: Option<Vec<&str>> = names.iter().map(Node::text).collect();
        let names = names.filter(|names| !names.is_empty()).ok_or_else(wrong)?;
        if names == ["all"] && !all.contains(&"all".to_owned()) {
            found.push(all.clone());
            continue;
        }
        for name in &names {
            known(keys, "stages", name, variants)?;
        }
        found.push(names.into_iter().map(str::to_owned).collect());
    }
    Ok(found)
}
