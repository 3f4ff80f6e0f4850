//! Reads the tables about how a file is measured and reported: `[plan]` (the number of runs, their
//! order, the processors, and when to stop), `[requires]` and `[[output]]`.

use crate::file_part::FilePart;
use crate::placeholders::PlaceholderMap;
use crate::value::{
    DurationValue, OneOrMany, PlainValue, PositiveCount, RegexPattern, ShareValue, checked,
    choice_name,
};
use anyhow::Result;
use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use speedwell_model::RunOrder;
use speedwell_model::experiment::{
    ChartSeries, ExperimentPlan, ExperimentVariant, ProcessorPins, ReportOutput,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default time limit of a run, as for all measurements.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// How the experiment is measured: number of runs, order, processors, and when to stop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanKeys {
    /// Runs of every case under every variant. By default, as many as the verdict needs.
    runs: Option<PositiveCount>,
    /// Order of the runs. Default: "blocks", random within a block.
    order: Option<OrderName>,
    /// A variant that is measured twice: the difference between the two measurements is noise.
    control: Option<String>,
    /// The first processors are for the target, the last ones for the load generator. By default,
    /// both share all processors.
    cpus: Option<PinKeys>,
    /// Time limit of the whole measurement.
    budget: Option<DurationValue>,
    /// When a case is done.
    stop_when: Option<StopWhenKeys>,
    /// Time limit of a run. Default: "5m".
    timeout: Option<DurationValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OrderName {
    /// Random within a block.
    Blocks,
    /// The variants in turn, always in the same order.
    Alternate,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PinKeys {
    /// Processors of the target: "rest", or a number.
    target: TargetPins,
    /// Processors of the load generator. Default: 1.
    load: Option<PositiveCount>,
}

checked! {
    #[derive(Copy, Default)]
    struct TargetPins(Option<u32>) from PlainValue as {
        "anyOf": [{ "const": "rest" }, { "type": ["integer", "string"], "minimum": 1 }]
    },
    |value| match value.program_text().as_str() {
        "rest" => Ok(None),
        _ => {
            let count = value.as_whole(1).and_then(|count| u32::try_from(count).ok());
            count.map(Some).ok_or("must be \"rest\" or a whole number above 0".to_owned())
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopWhenKeys {
    /// A case is done when the half-width of its interval is at most this fraction of the mean.
    precision: Option<ShareValue>,
    /// Time limit of the whole measurement.
    budget: Option<DurationValue>,
}

/// Resolves `[plan]`. The variants are read later, so [`check_control`] checks the control.
pub fn resolve_plan(keys: &PlanKeys, top: &FilePart) -> Result<ExperimentPlan> {
    let is_alternate = matches!(keys.order, Some(OrderName::Alternate));
    let order = if is_alternate { RunOrder::Alternate } else { RunOrder::Blocks };
    let stop = keys.stop_when;
    let (budget, inner) = (keys.budget, stop.and_then(|stop| stop.budget));
    let stop_part = top.part("plan").and_then(|plan| plan.part("stop_when"));
    if let (Some(_), Some(_), Some(part)) = (budget, inner, stop_part) {
        return Err(part
            .error_at_key("budget", "the budget is set twice, in [plan] and in its 'stop_when'"));
    }
    let pins = |pins: PinKeys| ProcessorPins {
        target: pins.target.0,
        load: pins.load.map_or(1, |load| load.0),
    };
    Ok(ExperimentPlan {
        runs: keys.runs.map(|runs| runs.0),
        order,
        control: keys.control.clone(),
        pins: keys.cpus.map(pins),
        budget: budget.or(inner).map(|budget| budget.0),
        precision: stop.and_then(|stop| stop.precision).map(|share| share.0),
        timeout: keys.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0),
    })
}

/// Rejects a control that is not a variant.
pub fn check_control(
    plan: &ExperimentPlan,
    top: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<()> {
    match (&plan.control, top.part("plan")) {
        (Some(name), Some(part)) => check_variant(&part, "control", name, variants),
        _ => Ok(()),
    }
}

/// Rejects the name of a variant that does not exist.
pub fn check_variant(
    part: &FilePart,
    key: &str,
    name: &str,
    variants: &[ExperimentVariant],
) -> Result<()> {
    let found = super::variant::find_variant(variants, name);
    found.map(|_| ()).map_err(|error| part.error_at_key(key, error))
}

// Reads `[requires]`, which lists what must be installed before anything starts.

/// Default pattern for the output of a command: the first number, up to the next space.
const VERSION_PATTERN: &str = r"(?P<version>\d+(?:\.\d+)*\S*)";

/// A requirement of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentRequirement {
    /// Name that is shown to users, such as `node`.
    pub name: String,
    /// How it is checked.
    pub need: RequirementKind,
    /// Advice if it is missing.
    pub hint: Option<String>,
}

/// How a requirement is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementKind {
    /// A program that prints its version.
    Program {
        /// Command that prints the version.
        command: Vec<String>,
        /// Pattern whose group `version` is the version.
        pattern: String,
        /// Lowest accepted version.
        at_least: Option<String>,
    },
    /// npm packages, which are installed if they are missing.
    Packages {
        /// Folder of `package.json`.
        directory: PathBuf,
        /// Whether there must be a lockfile. If there is one, its versions are installed.
        lockfile: bool,
    },
}

/// What must be installed: a program, or npm packages in the folder `dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequirementKeys {
    /// Program and arguments that print a version. Default: the name and "--version".
    command: Option<OneOrMany<String>>,
    /// Pattern with a group (?P<version>...). Default: the first number.
    #[serde(rename = "match")]
    pattern: Option<RegexPattern>,
    /// Lowest accepted version: "18", "3.10".
    at_least: Option<VersionText>,
    /// Folder of a package.json.
    dir: Option<String>,
    /// Whether there must be a package-lock.json. Default: true.
    lockfile: Option<bool>,
    /// Advice if it is missing.
    hint: Option<String>,
}

checked! {
    /// A version: begins with a digit.
    struct VersionText(String) from String as {
        "type": "string", "pattern": r"^([0-9]|\{[A-Za-z_])"
    },
    |version| {
        let error = format!(": cannot parse version '{version}'\nhint: at_least = \"18.2\"");
        let is_version = version.starts_with(|c: char| c.is_ascii_digit());
        is_version.then_some(version).ok_or(error)
    }
}

/// Resolves `[requires]`.
pub fn resolve_requirements(
    top: &FilePart,
    root: &Path,
    placeholders: &PlaceholderMap,
) -> Result<Vec<ExperimentRequirement>> {
    let Some(part) = top.part("requires") else { return Ok(Vec::new()) };
    let node = placeholders.fill_node(part.node, &part.place)?;
    let filled = FilePart::new(&part.place, &node);
    let requirements: IndexMap<String, RequirementKeys> = filled.read_part()?;
    let resolve = |(name, keys): (String, RequirementKeys)| {
        let hint = keys.hint.clone();
        let part = filled.part(&name).unwrap_or_else(|| filled.clone());
        let need = resolve_need(keys, &name, &part, root)?;
        Ok(ExperimentRequirement { name, need, hint })
    };
    requirements.into_iter().map(resolve).collect()
}

fn resolve_need(
    keys: RequirementKeys,
    name: &str,
    part: &FilePart,
    root: &Path,
) -> Result<RequirementKind> {
    let inapplicable_keys: &[&str] = match keys.dir {
        Some(_) => &["command", "match", "at_least"],
        None => &["lockfile"],
    };
    if let Some(key) = inapplicable_keys.iter().find(|key| part.has(key)) {
        let message = "does not apply here\n\
                       hint: 'dir' and 'lockfile' are for packages; 'command', 'match' and \
                       'at_least' are for a program";
        return Err(part.value_error(key, message));
    }
    if let Some(directory) = keys.dir {
        return Ok(RequirementKind::Packages {
            directory: root.join(directory),
            lockfile: keys.lockfile.unwrap_or(true),
        });
    }
    let pattern = keys.pattern.map_or_else(|| VERSION_PATTERN.to_owned(), |pattern| pattern.0);
    let has_version = Regex::new(&pattern).is_ok_and(|pattern| {
        let mut names = pattern.capture_names().flatten();
        names.any(|name| name == "version")
    });
    if !has_version {
        let message = format!("the pattern '{pattern}' has no group for the version");
        let hint = r"v(?P<version>\d+\S*)";
        return Err(part.error_at_key("match", format!("{message}\nhint: {hint}")));
    }
    let default_command = || vec![name.to_owned(), "--version".to_owned()];
    Ok(RequirementKind::Program {
        command: keys.command.map_or_else(default_command, |command| command.0),
        pattern,
        at_least: keys.at_least.map(|version| version.0),
    })
}

// Reads `[[output]]` tables, which select the tables, charts and formats of the report.

/// Whether each line of a chart shows a variant (with one picture for each case) or a case (with
/// one picture for each variant).
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ChartSeries")]
enum SeriesKey {
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
    series: SeriesKey,
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
            series: match keys.series {
                SeriesKey::Variants => ChartSeries::Variants,
                SeriesKey::Cases => ChartSeries::Cases,
            },
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
