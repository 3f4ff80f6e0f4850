//! Emulates `scatter.js`: runs one script many times and prints rows for `scatter.R`.
//!
//! Parses the options of `scatter.js`, and writes its output. With the additional option
//! `--analyze`, it prints an analysis instead of the rows. The analysis shows the pooled parameters
//! with the fraction of the variance that each explains, a table of means and medians, the steps
//! along the x axis, and a chart of the means. This file decides the text and the order of the
//! analysis; `scatter_r.rs` computes the figures. Start at [`run`].

use crate::console::{DropInConsole, ParsedArguments};
use crate::node::driver::{self, NodeDriver};
use crate::node::{self, CommandLine, NodeRefusal};
use crate::r::print::{self, FrameColumn};
use crate::r::{ChartBand, TextCollation, band_chart};
use crate::scatter_r::{ScatterPoint, ScatterStep, ScatterStudy};
use anyhow::Result;
use speedwell_analysis::{AggregatedParameter, MAX_AGGREGATED_SHARE, warn_smallest_p};
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::{ScatterFrame, frame, rows};
use speedwell_model::{ParameterValue, Run, SessionEvent, SessionObserver, Variant};
use speedwell_stats::describe::median;
use speedwell_stats::effect::EffectMagnitude;

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "scatter.js",
    usage: include_str!("usage/scatter.js.txt"),
    further_usage: include_str!("usage/scatter.js.further.txt"),
    valued: &["set", "runs", "xaxis", "category"],
    switches: &["analyze", "no-chart", "no-progress", "help"],
};

/// Default number of runs of each case.
const DEFAULT_RUNS: u32 = 30;

/// Analysis to print instead of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ScatterAnalysis {
    x_axis: String,
    category: Option<String>,
    chart: bool,
}

/// Executes the script and prints its results; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, a parameter of the analysis does not exist, or a stream is
/// closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_scatter)
}

fn run_scatter(
    (request, analysis): (ScriptsRequest, Option<ScatterAnalysis>),
    arguments: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = TextCollation::from_environment(console.variable);
    let mut printer = ScatterPrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, false),
        collected: analysis.is_some().then(ScatterFrame::default),
        parameters: None,
    };
    printer.driver.warn_about_test(arguments)?;
    measure(&request, &mut printer)?;
    if let Some(analysis) = analysis {
        printer.print_analysis(&analysis, collation)?;
    }
    Ok(printer.driver.failures.exit_status())
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<(ScriptsRequest, Option<ScatterAnalysis>), NodeRefusal> {
    let [path] = arguments.others.as_slice() else {
        return Err(NodeRefusal::usage(""));
    };
    let (script, folder) = node::find_script(path, console)?;
    let variants = vec![Variant::plain("default")];
    let request = node::build_request(arguments, vec![script], folder, variants, DEFAULT_RUNS)?;
    Ok((request, parse_analysis(arguments)?))
}

fn parse_analysis(arguments: &ParsedArguments<'_>) -> Result<Option<ScatterAnalysis>, NodeRefusal> {
    if !arguments.has("analyze") {
        return Ok(None);
    }
    let Some(x_axis) = arguments.value("xaxis") else {
        return Err(NodeRefusal::usage("'--analyze' needs '--xaxis'"));
    };
    Ok(Some(ScatterAnalysis {
        x_axis: x_axis.to_owned(),
        category: arguments.value("category").map(str::to_owned),
        chart: !arguments.has("no-chart"),
    }))
}

struct ScatterPrinter<'a> {
    driver: NodeDriver<'a>,
    /// Columns to analyze; `None` if rows are printed.
    collected: Option<ScatterFrame>,
    /// Parameters of the first result, which define the columns.
    parameters: Option<Vec<String>>,
}

impl ScatterPrinter<'_> {
    fn print_run(&mut self, run: &Run) -> Result<()> {
        let Some(values) = self.in_columns(run)? else {
            return Ok(());
        };
        for measured in driver::throughput_samples(run) {
            match &mut self.collected {
                None => {
                    let row = rows::format_scatter_row(&run.case.benchmark, &values, measured);
                    self.driver.out.write_all(row.as_bytes())?;
                }
                Some(frame) => {
                    frame.push(
                        &run.case.benchmark,
                        values.iter().map(|(_, value)| value.plain()),
                        measured.rate,
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the parameter values of a run in the order of the columns. The first run determines
    /// the columns. Returns `None` if the run has other parameters: `scatter.js` would print their
    /// values under the wrong names.
    fn in_columns(&mut self, run: &Run) -> Result<Option<Vec<(String, ParameterValue)>>> {
        let values = &run.case.values;
        let Some(parameters) = &self.parameters else {
            self.parameters = Some(values.iter().map(|(name, _)| name.clone()).collect());
            self.print_header(run)?;
            return Ok(Some(values.clone()));
        };
        let value_of =
            |name: &String| run.case.value(name).map(|value| (name.clone(), value.clone()));
        let ordered: Option<Vec<_>> = parameters.iter().map(value_of).collect();
        if ordered.is_none() || parameters.len() != values.len() {
            let case = run.case.id();
            self.driver.print_message(&format!(
                "'{case}' is left out: its parameters differ from those of the first result"
            ))?;
            self.driver.failures.record_other_error();
            return Ok(None);
        }
        Ok(ordered)
    }

    fn print_header(&mut self, run: &Run) -> Result<()> {
        match &mut self.collected {
            None => {
                let header = rows::format_scatter_header(&run.case.values);
                self.driver.out.write_all(header.as_bytes())?;
            }
            Some(frame) => {
                frame.columns =
                    run.case.values.iter().map(|(name, _)| frame::TextColumn::new(name)).collect();
            }
        }
        Ok(())
    }

    fn print_analysis(
        &mut self,
        analysis: &ScatterAnalysis,
        collation: TextCollation,
    ) -> Result<()> {
        let frame = self.collected.take().unwrap_or_default();
        if frame.rates.is_empty() {
            self.driver.report_no_results()?;
            return Ok(());
        }
        let category = analysis.category.as_deref();
        let study = ScatterStudy::pool_rows(&frame, &analysis.x_axis, category, collation)?;
        let text = analysis_text(&study, analysis.chart);
        self.driver.out.write_all(text.as_bytes())?;
        Ok(self.driver.out.flush()?)
    }
}

impl SessionObserver for ScatterPrinter<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.driver.handle_event(event)?;
        if let SessionEvent::RunFinished(run) = event {
            self.print_run(run)?;
        }
        Ok(self.driver.out.flush()?)
    }
}

/// Text that is shown instead of an undefined number.
const MISSING_TEXT: &str = "NA";

/// Formats the whole analysis.
fn analysis_text(study: &ScatterStudy, chart: bool) -> String {
    let steps = study.steps();
    let mut text = format_aggregated(&study.table.aggregated);
    text.push_str(&summary_table(study));
    if !steps.is_empty() {
        text.push_str(&changes_table(study, &steps));
    }
    let row_counts = steps.iter().map(|step| (step.from.rates.len(), step.to.rates.len()));
    if let Some(warning) = warn_smallest_p(row_counts) {
        text.push_str(&format!("\n{warning}\n"));
    }
    if chart {
        text.push_str(&means_chart(study));
    }
    text
}

fn format_aggregated(pooled: &[AggregatedParameter]) -> String {
    let mut text = String::new();
    for AggregatedParameter { name, explained } in pooled {
        text.push_str(&format!("aggregating variable: {name}"));
        if let Some(share) = explained {
            let percent = 100.0 * share;
            text.push_str(&format!(" ({percent:.1} % of the variance within points)"));
        }
        text.push('\n');
    }
    for pooled in pooled.iter().filter(|p| p.explained > Some(MAX_AGGREGATED_SHARE)) {
        text.push_str(&format!(
            "note: most of the variance comes from '{0}'; make it the category or hold it constant with --set {0}=VALUE\n",
            pooled.name
        ));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn summary_table(study: &ScatterStudy) -> String {
    let points = &study.table.points;
    let column = |name: &str, cell: fn(&ScatterPoint) -> String| {
        FrameColumn::new(name, points.iter().map(cell).collect())
    };
    let mut columns = study.place_columns();
    columns.extend([
        column("samples", |p| p.rates.len().to_string()),
        column("mean", |p| format_rate(p.mean)),
        column("+/-", |p| format_optional(p.half_width, format_rate)),
        column("+/- %", |p| {
            format_optional(p.half_width, |half| format!("{:.2}", 100.0 * half / p.mean))
        }),
        column("median", |p| format_rate(median(&p.rates))),
        column("median's 95 % interval", |p| {
            format_optional(p.median_interval(), |interval| {
                format!("{} to {}", format_rate(interval.low), format_rate(interval.high))
            })
        }),
    ]);
    let skewed = points.iter().any(ScatterPoint::is_skewed);
    if skewed {
        columns.push(column("", |p| if p.is_skewed() { "(!)" } else { "" }.to_owned()));
    }
    let mut text = print::format_data_frame(&[], &columns, usize::MAX);
    if skewed {
        text.push_str("\n(!) skewed: trust the median rather than the mean\n");
    }
    text
}

fn changes_table(study: &ScatterStudy, steps: &[ScatterStep<'_>]) -> String {
    let column = |name: &str, cell: &dyn Fn(&ScatterStep<'_>) -> String| {
        FrameColumn::new(name, steps.iter().map(cell).collect())
    };
    let two_decimals = |value: f64| format!("{value:.2}");
    let mut columns = Vec::new();
    if let Some(category) = &study.category {
        columns.push(column(category, &|step| study.category_text(step.from).to_owned()));
    }
    columns.extend([
        column(&study.x_axis, &|step| {
            format!("{} -> {}", study.x_text(step.from), study.x_text(step.to))
        }),
        column("ratio", &|step| format!("{:.3}", step.ratio)),
        column("exponent", &|step| format_optional(step.exponent, two_decimals)),
        column("p", &|step| format_optional(step.p, format_p_value)),
        column("Cliff's delta", &|step| format_optional(step.cliffs_delta, two_decimals)),
        column("effect", &|step| {
            format_optional(step.cliffs_delta, |delta| magnitude_word(delta).to_owned())
        }),
    ]);
    format!(
        "\nFrom one value of {} to the next, by the Mann-Whitney test:\n\n{}",
        study.x_axis,
        print::format_data_frame(&[], &columns, usize::MAX)
    )
}

/// Draws every mean rate with its 95 % interval, on a scale from 0.
fn means_chart(study: &ScatterStudy) -> String {
    let band = |point: &ScatterPoint| ChartBand {
        label: study.point_label(point),
        value: point.mean,
        interval: point.half_width.map(|half| (point.mean - half, point.mean + half)),
    };
    let bands: Vec<ChartBand> = study.table.points.iter().map(band).collect();
    let chart = band_chart(&bands, 0.0, |rate| format!("{rate:.0}/s"));
    if chart.is_empty() {
        return chart;
    }
    format!("\nRate (o) with its 95 % interval ([---]):\n\n{chart}")
}

fn format_optional<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| MISSING_TEXT.to_owned(), text)
}

/// Formats a rate with at least four digits: a rate below 1,000 has three decimals.
fn format_rate(value: f64) -> String {
    let decimals = if value.abs() < 1000.0 { 3 } else { 0 };
    format!("{value:.decimals$}")
}

fn format_p_value(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

fn magnitude_word(cliffs_delta: f64) -> &'static str {
    match EffectMagnitude::of_delta(cliffs_delta) {
        EffectMagnitude::Negligible => "negligible",
        EffectMagnitude::Small => "small",
        EffectMagnitude::Medium => "medium",
        EffectMagnitude::Large => "large",
    }
}
