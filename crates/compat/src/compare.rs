//! Emulates `compare.js`, which runs every case under two programs and prints rows, and `compare.R`
//! and `bar.R`, which read these rows, print the table of comparisons, and draw the charts.
//!
//! The crate `engine` decides the order of execution, which is also the order of the rows.
//! `compare.R` does not depend on this order. This file decides the text, the order and the figures
//! of the table; `r/mod.rs` draws the charts. The reference of a comparison is the program `old`,
//! the candidate is `new`. The table states an accuracy: half the width of the confidence interval
//! of the difference, divided by the mean of the reference. The accuracy ignores the uncertainty of
//! this mean, so it gives no confidence interval of the ratio. `analysis` computes such an
//! interval. The original `compare.R` stops at the first case whose values do not vary. Here, such
//! a case has no p value, and the table continues. Start at [`run_js`] and [`run`].

use crate::console::{DropInConsole, ParsedArguments};
use crate::node::driver::{self, NodeDriver};
use crate::node::{self, CommandLine, NodeRefusal};
use crate::r::print::{self, FrameColumn};
use crate::r::{self, ChartBand, RScript, TextCollation, band_chart};
use anyhow::Result;
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::figures::CaseRates;
use speedwell_formats::node_csv::{
    COMPARE_HEADER, CompareRates, CompareSide, format_compare_row, javascript, join_parameters,
};
use speedwell_model::{Run, SessionEvent, SessionObserver, Variant};
use speedwell_stats::describe::mean;
use speedwell_stats::test::welch::{WelchError, WelchTest, welch};
use std::path::PathBuf;

const SCRIPT: RScript = RScript {
    tool: "compare.R",
    usage: include_str!("usage/compare.R.txt"),
    required: &[],
    options: &[],
};

/// Width of the table: the original script sets `options(width = 200)`.
const TABLE_WIDTH: usize = 200;

/// Reads standard input, prints the table, and with `--plot` draws the chart; returns the exit
/// status.
///
/// # Errors
/// Fails if the input does not come from `compare.js`, or a stream or file cannot be written.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    SCRIPT.run_with(arguments, console, |options, console| {
        let groups = read_groups(SCRIPT.tool, console)?;
        let collation = TextCollation::from_environment(console.variable);
        let rows = compare_groups(&groups, collation);
        if let Some(warning) = table_warning(&rows) {
            console.warn(SCRIPT.tool, &warning)?;
        }
        console.stdout.write_all(format_table(&rows).as_bytes())?;
        let rates = rows.iter().map(|row| (&*row.name, &row.rates.old[..], &row.rates.new[..]));
        Ok(options.has("plot").then(|| r::box_chart(rates)))
    })
}

/// Reads the rates on standard input; warnings are prefixed with `tool`.
///
/// # Errors
/// Fails if the input does not come from `compare.js`, or standard error is closed.
fn read_groups(tool: &str, console: &mut DropInConsole<'_>) -> Result<CompareRates> {
    let groups = CompareRates::read(&mut *console.stdin)?;
    for warning in groups.warnings() {
        console.warn(tool, &warning)?;
    }
    Ok(groups)
}

/// Compares every group; returns the comparisons sorted by name.
fn compare_groups(groups: &CompareRates, collation: TextCollation) -> Vec<WelchRow<'_>> {
    let rows = groups.iter().map(|(name, rates)| {
        WelchRow::compare_rates(String::from_utf8_lossy(name).into_owned(), rates)
    });
    let mut rows: Vec<WelchRow<'_>> = rows.collect();
    collation.sort_by_text(&mut rows, |row| &row.name);
    rows
}

/// Returns a warning if some comparisons have no p value because their rates do not vary, or if
/// the table is so long that R would not show its last rows.
fn table_warning(rows: &[WelchRow<'_>]) -> Option<String> {
    let is_constant = |row: &&WelchRow<'_>| row.test == Err(WelchError::Constant);
    let mut constant = rows.iter().filter(is_constant);
    let (total, mut warnings) = (rows.len(), Vec::new());
    if let Some(first) = constant.next() {
        warnings.push(format!(
            "{} of {total} comparisons have no confidence because their rates do not vary; the \
             first is '{}'",
            1 + constant.count(),
            first.name,
        ));
    }
    let hidden = total.saturating_sub(print::max_rows(5));
    if hidden > 0 {
        warnings.push(format!(
            "the last {hidden} of {total} comparisons are not shown, as in R; 'speedwell \
             compare' shows all"
        ));
    }
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

/// Formats the table, and the note below it, as `compare.R` does.
fn format_table(rows: &[WelchRow<'_>]) -> String {
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let column = |name: &str, cell: &dyn Fn(&WelchRow<'_>) -> String| {
        FrameColumn::new(name, rows.iter().map(cell).collect())
    };
    let mut columns = vec![
        column("confidence", &|row| row.format_confidence()),
        column("improvement", &|row| format!("{} %", format_percent(row.improvement_percent))),
    ];
    for (name, risk) in ["accuracy (*)", "(**)", "(***)"].into_iter().zip(RISKS) {
        columns.push(column(name, &|row| match row.accuracy_percent(risk) {
            Some(accuracy) => format!("±{}%", format_percent(accuracy)),
            None => "NA".to_owned(),
        }));
    }
    print::format_data_frame(&names, &columns, TABLE_WIDTH) + &false_positive_note(rows.len())
}

/// Formats like R's `sprintf("%.2f")`.
fn format_percent(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => format!("{value:.2}"),
    }
}

fn false_positive_note(comparisons: usize) -> String {
    let risks = [("  5%", "*, **, ***"), ("  1%", "**, ***"), ("0.1%", "***")];
    let lines = RISKS.iter().zip(risks).map(|(share, (risk, stars))| {
        let expected = comparisons as f64 * share;
        format!(
            "  {expected:.2} false positives, when considering a {risk} risk acceptance ({stars})"
        )
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "\nBe aware that when doing many comparisons the risk of a false-positive\n\
         result increases. In this case, there are {comparisons} comparisons, you can thus\n\
         expect the following amount of false-positive results:\n{}\n",
        lines.join(",\n")
    )
}

const BAR_SCRIPT: RScript =
    RScript { tool: "bar.R", usage: include_str!("usage/bar.R.txt"), required: &[], options: &[] };

/// Runs `bar.R`: reads standard input and draws the chart; returns the exit status. Like the
/// original script, it draws nothing without `--plot`.
///
/// # Errors
/// Fails if the input does not come from `compare.js`, or the chart cannot be written.
pub fn run_bars(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    BAR_SCRIPT.run_with(arguments, console, |options, console| {
        let groups = read_groups(BAR_SCRIPT.tool, console)?;
        let collation = TextCollation::from_environment(console.variable);
        Ok(options.has("plot").then(|| {
            let rows = compare_groups(&groups, collation);
            r::bar_chart(rows.iter().map(|row| (&*row.name, row.mean_old, row.mean_new)))
        }))
    })
}

/// Risks of a false positive. The table states an accuracy for each risk. A p value gets one star
/// for each of these risks that is greater.
const RISKS: [f64; 3] = [0.05, 0.01, 0.001];

/// One comparison, a row of the table. Percentages are relative to the mean of the reference.
#[derive(Debug, Clone, PartialEq)]
struct WelchRow<'g> {
    /// File name, a space, configuration.
    name: String,
    rates: &'g CaseRates,
    /// Mean of the reference; NaN without values.
    mean_old: f64,
    /// Mean of the candidate; NaN without values.
    mean_new: f64,
    /// Increase of the mean from reference to candidate, in percent; NaN if either of them has no
    /// values.
    improvement_percent: f64,
    test: Result<WelchTest, WelchError>,
}

impl WelchRow<'_> {
    /// Compares the rates of one case.
    fn compare_rates(name: String, rates: &CaseRates) -> WelchRow<'_> {
        let (mean_old, mean_new) = (mean(&rates.old), mean(&rates.new));
        let improvement_percent = (mean_new - mean_old) / mean_old * 100.0;
        let test = welch(&rates.old, &rates.new);
        WelchRow { name, rates, mean_old, mean_new, improvement_percent, test }
    }

    /// Returns half the width of the confidence interval of the difference, in percent.
    fn accuracy_percent(&self, risk: f64) -> Option<f64> {
        Some(self.test.ok()?.half_width(risk) / self.mean_old * 100.0)
    }

    /// Returns the number of stars: one for each of [`RISKS`] that is greater than the p value.
    fn star_count(&self) -> usize {
        self.test.map_or(0, |test| RISKS.iter().filter(|&&risk| test.p < risk).count())
    }

    fn format_confidence(&self) -> String {
        if self.test.is_ok() { "*".repeat(self.star_count()) } else { "NA".to_owned() }
    }
}

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "compare.js",
    usage: include_str!("usage/compare.js.txt"),
    further_usage: include_str!("usage/compare.js.further.txt"),
    valued: &["set", "filter", "exclude", "old", "new", "runs", "dir", "max-regression"],
    switches: &["no-progress", "analyze", "no-chart", "help"],
};

/// Default number of runs of each case under each program.
const DEFAULT_RUNS: u32 = 30;

/// Compares two programs and prints the rows, or with `--analyze` a table; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, or a stream is closed.
pub fn run_js(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_comparison)
}

fn run_comparison(
    (request, max_regression_percent): (ScriptsRequest, Option<f64>),
    arguments: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = TextCollation::from_environment(console.variable);
    let shows_progress = !arguments.has("no-progress");
    let is_analyzed = arguments.has("analyze") || max_regression_percent.is_some();
    let mut printer = ComparePrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, shows_progress),
        collected: is_analyzed.then(CompareRates::default),
    };
    printer.driver.warn_about_test(arguments)?;
    if printer.collected.is_none() {
        printer.driver.out.write_all(COMPARE_HEADER.as_bytes())?;
    }
    printer.driver.out.flush()?;
    measure(&request, &mut printer)?;
    if is_analyzed {
        printer.print_analysis(max_regression_percent, !arguments.has("no-chart"), collation)?;
    }
    Ok(printer.driver.failures.exit_status())
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<(ScriptsRequest, Option<f64>), NodeRefusal> {
    let programs = arguments.value("old").zip(arguments.value("new"));
    let Some((old, new)) = programs.filter(|_| !arguments.others.is_empty()) else {
        return Err(NodeRefusal::Usage(String::new()));
    };
    let folder = node::benchmark_folder(arguments, console)?;
    let scripts = node::select_scripts(&folder, arguments)?;
    let variant = |name: &str, program: &str| Variant {
        program: Some(PathBuf::from(program)),
        ..Variant::plain(name)
    };
    let variants = vec![variant("old", old), variant("new", new)];
    let request = node::build_request(arguments, scripts, Some(folder), variants, DEFAULT_RUNS)?;
    Ok((request, parse_max_regression(arguments)?))
}

/// Returns the largest significant regression that is accepted, in percent.
fn parse_max_regression(arguments: &ParsedArguments<'_>) -> Result<Option<f64>, NodeRefusal> {
    match arguments.value("max-regression").map(str::parse::<f64>) {
        None => Ok(None),
        Some(Ok(limit)) if limit >= 0.0 && limit.is_finite() => Ok(Some(limit)),
        Some(_) => {
            let reason = "the value of '--max-regression' must be a percentage of at least 0";
            Err(NodeRefusal::Usage(reason.to_owned()))
        }
    }
}

struct ComparePrinter<'a> {
    driver: NodeDriver<'a>,
    /// Rates to analyze; `None` if rows are printed instead.
    collected: Option<CompareRates>,
}

impl ComparePrinter<'_> {
    fn print_run(&mut self, run: &Run) -> Result<()> {
        let name = self.driver.scripts.script_of_run(run).to_owned();
        for measured in driver::throughput_samples(run) {
            match &mut self.collected {
                None => {
                    let values = &run.case.values;
                    let row = format_compare_row(&run.variant, &name, values, measured);
                    self.driver.out.write_all(row.as_bytes())?;
                }
                Some(groups) => {
                    let is_old = &*run.variant == "old";
                    let side = if is_old { CompareSide::Old } else { CompareSide::New };
                    groups.add_row(full_name(&name, run).as_bytes(), side, measured.rate);
                }
            }
        }
        Ok(())
    }

    /// Prints the table.
    fn print_analysis(
        &mut self,
        max_regression_percent: Option<f64>,
        has_chart: bool,
        collation: TextCollation,
    ) -> Result<()> {
        let groups = self.collected.take().unwrap_or_default();
        if groups.is_empty() {
            return Ok(self.driver.report_no_results()?);
        }
        let rows = compare_groups(&groups, collation);
        if let Some(warning) = table_warning(&rows) {
            self.driver.print_message(&format!("warning: {warning}"))?;
        }
        self.driver.out.write_all(format_table(&rows).as_bytes())?;
        if has_chart {
            self.driver.out.write_all(improvement_chart(&rows).as_bytes())?;
        }
        let limit = max_regression_percent.unwrap_or(f64::INFINITY);
        let is_worse =
            |row: &&WelchRow<'_>| row.star_count() > 0 && row.improvement_percent < -limit;
        for row in rows.iter().filter(is_worse) {
            self.driver.print_message(&format!(
                "'{}' is {:.2} % slower, which exceeds the limit of {limit} %",
                row.name, -row.improvement_percent
            ))?;
            self.driver.failures.record_other_error();
        }
        Ok(())
    }
}

/// Returns the name by which `compare.R` groups rows: the file name, a space and the configuration.
fn full_name(name: &str, run: &Run) -> String {
    format!("{name} {}", join_parameters(&run.case.values, javascript::format_inspected))
}

/// Draws every improvement with its 95 % interval, in percent, and a line at 0.
fn improvement_chart(rows: &[WelchRow<'_>]) -> String {
    let band = |row: &WelchRow<'_>| {
        let value = row.improvement_percent;
        let interval = row.accuracy_percent(RISKS[0]).map(|half| (value - half, value + half));
        ChartBand { label: row.name.clone(), value, interval }
    };
    let bands: Vec<ChartBand> = rows.iter().map(band).collect();
    let heading = "Improvement (o) with its 95 % interval ([---]); the line (|) means no change";
    band_chart(heading, &bands, |percent| format!("{percent:.2} %"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_formats::node_csv::CompareSide;
    use std::collections::HashMap;

    #[test]
    fn percentages_are_formatted_as_in_r() {
        let values = [1.005, -0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(values.map(format_percent), ["1.00", "-0.00", "NaN", "Inf", "-Inf"]);
    }

    #[test]
    fn a_table_beyond_the_row_limit_of_r_has_a_warning() {
        let mut groups = CompareRates::default();
        for case in 0..20_000 {
            groups.add_row(format!("a n={case}").as_bytes(), CompareSide::Old, 1.0);
        }
        let rows = compare_groups(&groups, TextCollation::CodePoints);
        assert_eq!(
            table_warning(&rows).as_deref(),
            Some(
                "the last 1 of 20000 comparisons are not shown, as in R; 'speedwell compare' shows all"
            )
        );
        assert!(format_table(&rows).contains("omitted 1 rows ]\n\nBe aware"));
    }

    fn rates(old: &[f64], new: &[f64]) -> CaseRates {
        CaseRates { old: old.to_vec(), new: new.to_vec() }
    }

    #[test]
    fn an_empty_side_has_no_improvement() {
        let rates = rates(&[5.0, 6.0], &[]);
        let row = WelchRow::compare_rates(String::new(), &rates);
        assert!(row.improvement_percent.is_nan());
        assert_eq!(row.test, Err(WelchError::TooFew));
    }

    #[test]
    fn constant_values_still_have_an_improvement() {
        let rates = rates(&[5.0, 5.0], &[6.0, 6.0]);
        let row = WelchRow::compare_rates(String::new(), &rates);
        assert!((row.improvement_percent - 20.0).abs() < 1e-12);
        assert_eq!((row.test, row.star_count()), (Err(WelchError::Constant), 0));
    }

    #[test]
    fn stars_count_the_risk_levels_above_p() {
        let rates = rates(&[1.0, 2.0], &[2.0, 4.0]);
        let row = WelchRow::compare_rates(String::new(), &rates);
        let test = row.test.unwrap();
        let stars = |p| WelchRow { test: Ok(WelchTest { p, ..test }), ..row.clone() }.star_count();
        assert_eq!([0.05, 0.049, 0.01, 0.009, 0.001, 0.0009].map(stars), [0, 1, 1, 2, 2, 3]);
    }

    fn golden(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/node-core");
        std::fs::read_to_string(std::path::Path::new(folder).join(name)).unwrap()
    }

    #[test]
    fn every_figure_agrees_with_r_to_nine_digits() {
        let groups = CompareRates::read(golden("compare-string_decoder.csv").as_bytes()).unwrap();
        let expected = precise_figures("compare-string_decoder.highprec.tsv");
        assert_eq!(groups.len(), expected.len());
        for (name, rates) in groups.iter() {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let expected = &expected[&name];
            let row = WelchRow::compare_rates(String::new(), rates);
            let accuracy = RISKS.map(|risk| row.accuracy_percent(risk).unwrap());
            for (figure, value) in [
                ("mu_old", row.mean_old),
                ("mu_new", row.mean_new),
                ("p", row.test.unwrap().p),
                ("impr", row.improvement_percent),
                ("acc95", accuracy[0]),
                ("acc99", accuracy[1]),
                ("acc999", accuracy[2]),
            ] {
                assert_close(value, expected[figure], &format!("{name}: {figure}"));
            }
        }
    }

    /// Figures by case and name, from lines of `case TAB name=value TAB ...`.
    fn precise_figures(name: &str) -> HashMap<String, HashMap<String, f64>> {
        let figures = |line: &str| {
            let pairs = line.split('\t').skip(1).filter_map(|cell| cell.split_once('='));
            pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
        };
        let text = golden(name);
        text.lines()
            .map(|line| (line.split('\t').next().unwrap().to_owned(), figures(line)))
            .collect()
    }

    fn assert_close(value: f64, expected: f64, what: &str) {
        assert!((value / expected - 1.0).abs() < 1e-9, "{what}: {value} instead of {expected}");
    }
}
