//! Drop-in for `compare.js`: runs every case under two programs and prints rows for `compare.R`.
//!
//! Decides options and output of that driver. Order of execution, and so of the rows, is that of
//! `measure`; `compare.R` does not depend on it. Start at [`run`].

use super::band_chart::{Band, band_chart};
use super::compare_r::Table;
use super::console::Console;
use crate::arguments::Arguments;
use crate::compare_r::Tested;
use crate::node::driver::{self, Driver};
use crate::node::{self, CommandLine, Refusal};
use crate::r::collation::Collation;
use anyhow::Result;
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Observer, Run, Variant};
use speedwell_results::formats::node_csv::javascript;
use speedwell_results::formats::node_csv::rows;
use speedwell_results::formats::node_csv::{Groups, Side};
use std::path::PathBuf;

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "compare.js",
    usage: include_str!("usage/compare.js.txt"),
    further_usage: include_str!("usage/compare.js.further.txt"),
    valued: &[
        "set",
        "filter",
        "exclude",
        "old",
        "new",
        "runs",
        "dir",
        "max-regression",
    ],
    switches: &["no-progress", "analyze", "no-chart", "help"],
};

/// Default number of runs of each case under each program.
const RUNS: u32 = 30;

/// Options for analyzing the results.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Analysis {
    chart: bool,
    /// Largest accepted significant regression in percent.
    max_regression_percent: Option<f64>,
}

/// Compares two programs and prints the rows; returns the exit status.
///
/// # Errors
/// Measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    COMMAND_LINE.carry_out(arguments, console, understand, compare)
}

fn compare(
    (request, analysis): (ScriptsRequest, Option<Analysis>),
    arguments: &Arguments<'_>,
    console: &mut Console<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = Collation::of_environment(console.variable);
    let shows_progress = !arguments.has("no-progress");
    let mut printer = Printer {
        driver: Driver::new(COMMAND_LINE.tool, &request, console, shows_progress),
        collected: analysis.map(|_| Groups::default()),
    };
    printer.driver.pass_over_test(arguments)?;
    printer.begin()?;
    measure(&request, &mut printer)?;
    match analysis {
        Some(analysis) => printer.analyse(analysis, collation),
        None => Ok(printer.driver.failures.status()),
    }
}

fn understand(
    arguments: &Arguments<'_>,
    console: &Console<'_>,
) -> Result<(ScriptsRequest, Option<Analysis>), Refusal> {
    let (Some(old), Some(new)) = (arguments.value("old"), arguments.value("new")) else {
        return Err(Refusal::usage(""));
    };
    if arguments.others.is_empty() {
        return Err(Refusal::usage(""));
    }
    let folder = node::benchmark_folder(arguments, console)?;
    let scripts = node::select_scripts(&folder, arguments)?;
    let variant = |name: &str, program: &str| Variant {
        program: Some(PathBuf::from(program)),
        ..Variant::plain(name)
    };
    let variants = vec![variant("old", old), variant("new", new)];
    let request = node::request(arguments, scripts, Some(folder), variants, RUNS)?;
    Ok((request, analysis(arguments)?))
}

fn analysis(arguments: &Arguments<'_>) -> Result<Option<Analysis>, Refusal> {
    let limit = arguments.value("max-regression").map(str::parse::<f64>);
    let max_regression_percent = match limit {
        None => None,
        Some(Ok(limit)) if limit >= 0.0 && limit.is_finite() => Some(limit),
        Some(_) => {
            let reason = "the value of '--max-regression' must be a percentage of at least 0";
            return Err(Refusal::usage(reason));
        }
    };
    let wanted = arguments.has("analyze") || max_regression_percent.is_some();
    let chart = !arguments.has("no-chart");
    Ok(wanted.then_some(Analysis {
        chart,
        max_regression_percent,
    }))
}

struct Printer<'a> {
    driver: Driver<'a>,
    /// Rates to analyze; `None` if rows are printed.
    collected: Option<Groups>,
}

impl Printer<'_> {
    fn begin(&mut self) -> Result<()> {
        if self.collected.is_none() {
            self.driver.out.write_all(rows::COMPARE_HEADER.as_bytes())?;
        }
        Ok(self.driver.out.flush()?)
    }

    fn print(&mut self, run: &Run) -> Result<()> {
        let name = self.driver.scripts.of_run(run).to_owned();
        for measured in driver::rates(run) {
            match &mut self.collected {
                None => {
                    let row = rows::compare_row(&run.variant, &name, &run.case.values, measured);
                    self.driver.out.write_all(row.as_bytes())?;
                }
                Some(groups) => {
                    let side = if &*run.variant == "old" {
                        Side::Old
                    } else {
                        Side::New
                    };
                    groups.add(full_name(&name, run).as_bytes(), side, measured.rate);
                }
            }
        }
        Ok(())
    }

    /// Prints the table; returns the exit status.
    fn analyse(mut self, analysis: Analysis, collation: Collation) -> Result<i32> {
        let groups = self.collected.take().unwrap_or_default();
        if groups.is_empty() {
            self.driver.lack_results()?;
            return Ok(self.driver.failures.status());
        }
        let table = Table::compared(&groups, collation);
        if let Some(warning) = table.warning() {
            self.driver.say(&format!("warning: {warning}"))?;
        }
        self.driver.out.write_all(table.text().as_bytes())?;
        if analysis.chart {
            self.driver.out.write_all(improvements(&table).as_bytes())?;
        }
        for regression in regressions(&table, analysis.max_regression_percent) {
            self.driver.say(&regression)?;
            self.driver.failures.note_other();
        }
        Ok(self.driver.failures.status())
    }
}

/// Returns the name by which `compare.R` groups: file name, blank, configuration.
fn full_name(name: &str, run: &Run) -> String {
    let values = run.case.values.iter();
    let pairs: Vec<String> = values
        .map(|(name, value)| format!("{name}={}", javascript::inspect(value)))
        .collect();
    format!("{name} {}", pairs.join(" "))
}

/// Draws every improvement with its 95 % interval around 0, in percent.
fn improvements(table: &Table) -> String {
    let band = |row: &super::compare_r::NamedRow| {
        let value = row.row.improvement_percent;
        let interval = match row.row.test {
            Tested::Done {
                accuracy_percent: [half, ..],
                ..
            } => Some((value - half, value + half)),
            Tested::TooFew | Tested::Constant => None,
        };
        Band {
            label: row.name.clone(),
            value,
            interval,
        }
    };
    let bands: Vec<Band> = table.rows().iter().map(band).collect();
    let chart = band_chart(&bands, 0.0, |percent| format!("{percent:.2} %"));
    if chart.is_empty() {
        return chart;
    }
    format!("\nImprovement, o, with its 95 % band, [---], against no change, |:\n\n{chart}")
}

/// Returns a message for each case that became significantly slower by more than the limit.
fn regressions(table: &Table, limit_percent: Option<f64>) -> Vec<String> {
    let Some(limit) = limit_percent else {
        return Vec::new();
    };
    table
        .rows()
        .iter()
        .filter(|row| row.row.stars() > 0 && row.row.improvement_percent < -limit)
        .map(|row| {
            let slower = -row.row.improvement_percent;
            format!(
                "'{}' is {slower:.2} % slower, more than {limit} %",
                row.name
            )
        })
        .collect()
}

impl Observer for Printer<'_> {
    fn observe(&mut self, event: &Event<'_>) -> Result<()> {
        self.driver.follow(event)?;
        if let Event::RunFinished(run) = event {
            self.print(run)?;
        }
        Ok(self.driver.out.flush()?)
    }
}
