//! Replaces `compare.js` as a drop-in: runs every case under two programs and prints rows for
//! `compare.R`.
//!
//! Parses the options and writes the output. The crate `engine` decides the order of execution,
//! which is also the order of the rows. `compare.R` does not depend on this order. Start at
//! [`run`].

use crate::compare_r::{CompareTable, WelchOutcome};
use crate::console::{DropInConsole, ParsedArguments};
use crate::node::driver::{self, NodeDriver};
use crate::node::{self, CommandLine, NodeRefusal};
use crate::r::{ChartBand, TextCollation, band_chart};
use anyhow::Result;
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::{CompareRates, CompareSide, javascript, rows};
use speedwell_model::{Run, SessionEvent, SessionObserver, Variant};
use std::path::PathBuf;

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "compare.js",
    usage: include_str!("usage/compare.js.txt"),
    further_usage: include_str!("usage/compare.js.further.txt"),
    valued: &["set", "filter", "exclude", "old", "new", "runs", "dir", "max-regression"],
    switches: &["no-progress", "analyze", "no-chart", "help"],
};

/// Default number of runs of each case under each program.
const DEFAULT_RUNS: u32 = 30;

/// Options for analyzing the results.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CompareAnalysis {
    chart: bool,
    /// Largest significant regression that is accepted, in percent.
    max_regression_percent: Option<f64>,
}

/// Compares two programs and prints the rows, or with `--analyze` a table; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_comparison)
}

fn run_comparison(
    (request, analysis): (ScriptsRequest, Option<CompareAnalysis>),
    arguments: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = TextCollation::from_environment(console.variable);
    let shows_progress = !arguments.has("no-progress");
    let mut printer = ComparePrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, shows_progress),
        collected: analysis.map(|_| CompareRates::default()),
    };
    printer.driver.warn_about_test(arguments)?;
    printer.print_header()?;
    measure(&request, &mut printer)?;
    match analysis {
        Some(analysis) => printer.print_analysis(analysis, collation),
        None => Ok(printer.driver.failures.exit_status()),
    }
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<(ScriptsRequest, Option<CompareAnalysis>), NodeRefusal> {
    let (Some(old), Some(new)) = (arguments.value("old"), arguments.value("new")) else {
        return Err(NodeRefusal::usage(""));
    };
    if arguments.others.is_empty() {
        return Err(NodeRefusal::usage(""));
    }
    let folder = node::benchmark_folder(arguments, console)?;
    let scripts = node::select_scripts(&folder, arguments)?;
    let variant = |name: &str, program: &str| Variant {
        program: Some(PathBuf::from(program)),
        ..Variant::plain(name)
    };
    let variants = vec![variant("old", old), variant("new", new)];
    let request = node::build_request(arguments, scripts, Some(folder), variants, DEFAULT_RUNS)?;
    Ok((request, parse_analysis(arguments)?))
}

fn parse_analysis(arguments: &ParsedArguments<'_>) -> Result<Option<CompareAnalysis>, NodeRefusal> {
    let limit = arguments.value("max-regression").map(str::parse::<f64>);
    let max_regression_percent = match limit {
        None => None,
        Some(Ok(limit)) if limit >= 0.0 && limit.is_finite() => Some(limit),
        Some(_) => {
            let reason = "the value of '--max-regression' must be a percentage of at least 0";
            return Err(NodeRefusal::usage(reason));
        }
    };
    let is_requested = arguments.has("analyze") || max_regression_percent.is_some();
    let chart = !arguments.has("no-chart");
    Ok(is_requested.then_some(CompareAnalysis { chart, max_regression_percent }))
}

struct ComparePrinter<'a> {
    driver: NodeDriver<'a>,
    /// Rates to analyze; `None` if rows are printed instead.
    collected: Option<CompareRates>,
}

impl ComparePrinter<'_> {
    fn print_header(&mut self) -> Result<()> {
        if self.collected.is_none() {
            self.driver.out.write_all(rows::COMPARE_HEADER.as_bytes())?;
        }
        Ok(self.driver.out.flush()?)
    }

    fn print_run(&mut self, run: &Run) -> Result<()> {
        let name = self.driver.scripts.script_of_run(run).to_owned();
        for measured in driver::throughput_samples(run) {
            match &mut self.collected {
                None => {
                    let row =
                        rows::format_compare_row(&run.variant, &name, &run.case.values, measured);
                    self.driver.out.write_all(row.as_bytes())?;
                }
                Some(groups) => {
                    let side =
                        if &*run.variant == "old" { CompareSide::Old } else { CompareSide::New };
                    groups.add_row(full_name(&name, run).as_bytes(), side, measured.rate);
                }
            }
        }
        Ok(())
    }

    /// Prints the table; returns the exit status.
    fn print_analysis(
        mut self,
        analysis: CompareAnalysis,
        collation: TextCollation,
    ) -> Result<i32> {
        let groups = self.collected.take().unwrap_or_default();
        if groups.is_empty() {
            self.driver.report_no_results()?;
            return Ok(self.driver.failures.exit_status());
        }
        let table = CompareTable::compare_groups(&groups, collation);
        if let Some(warning) = table.table_warning() {
            self.driver.print_message(&format!("warning: {warning}"))?;
        }
        self.driver.out.write_all(table.format_table().as_bytes())?;
        if analysis.chart {
            self.driver.out.write_all(improvement_chart(&table).as_bytes())?;
        }
        for regression in regression_messages(&table, analysis.max_regression_percent) {
            self.driver.print_message(&regression)?;
            self.driver.failures.record_other_error();
        }
        Ok(self.driver.failures.exit_status())
    }
}

/// Returns the name by which `compare.R` groups rows: the file name, a space and the configuration.
fn full_name(name: &str, run: &Run) -> String {
    let values = run.case.values.iter();
    let pairs: Vec<String> = values
        .map(|(name, value)| format!("{name}={}", javascript::format_inspected(value)))
        .collect();
    format!("{name} {}", pairs.join(" "))
}

/// Draws every improvement with its 95 % interval, in percent, and a line at 0.
fn improvement_chart(table: &CompareTable) -> String {
    let band = |row: &crate::compare_r::NamedRow| {
        let value = row.row.improvement_percent;
        let interval = match row.row.test {
            WelchOutcome::Done { accuracy_percent: [half, ..], .. } => {
                Some((value - half, value + half))
            }
            WelchOutcome::TooFew | WelchOutcome::Constant => None,
        };
        ChartBand { label: row.name.clone(), value, interval }
    };
    let bands: Vec<ChartBand> = table.rows.iter().map(band).collect();
    let chart = band_chart(&bands, 0.0, |percent| format!("{percent:.2} %"));
    if chart.is_empty() {
        return chart;
    }
    format!(
        "\nImprovement (o) with its 95 % interval ([---]); the line (|) means no change:\n\n{chart}"
    )
}

/// Returns a message for each case that became significantly slower by more than the limit.
fn regression_messages(table: &CompareTable, limit_percent: Option<f64>) -> Vec<String> {
    let Some(limit) = limit_percent else {
        return Vec::new();
    };
    table
        .rows
        .iter()
        .filter(|row| row.row.star_count() > 0 && row.row.improvement_percent < -limit)
        .map(|row| {
            let slowdown_percent = -row.row.improvement_percent;
            format!(
                "'{}' is {slowdown_percent:.2} % slower, which exceeds the limit of {limit} %",
                row.name
            )
        })
        .collect()
}

impl SessionObserver for ComparePrinter<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.driver.handle_event(event)?;
        if let SessionEvent::RunFinished(run) = event {
            self.print_run(run)?;
        }
        Ok(self.driver.out.flush()?)
    }
}
