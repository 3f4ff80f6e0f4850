//! Drop-in for `scatter.js`: runs one script many times and prints rows for `scatter.R`.
//!
//! Decides options and output of that driver, and with `--analyze` text and order of the analysis
//! that replaces the rows: pooled parameters with their share of the variance, a table of means and
//! medians, the steps along the x axis, and a chart of the means. `scatter_r.rs` computes the
//! figures. Start at [`run`].

use crate::arguments::Arguments;
use crate::band_chart::{Band, band_chart};
use crate::console::Console;
use crate::node::driver::{self, Driver};
use crate::node::{self, CommandLine, Refusal};
use crate::r::collation::Collation;
use crate::r::print::{self, Column};
use crate::scatter_r::{Magnitude, ScatterPoint, ScatterStep, Study, on_reachable_p};
use anyhow::Result;
use speedwell_analysis::{Aggregated, LARGE_SHARE};
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Observer, Run, Value, Variant};
use speedwell_results::formats::node_csv::frame;
use speedwell_results::formats::node_csv::{Frame, rows};

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "scatter.js",
    usage: include_str!("usage/scatter.js.txt"),
    further_usage: include_str!("usage/scatter.js.further.txt"),
    valued: &["set", "runs", "xaxis", "category"],
    switches: &["analyze", "no-chart", "no-progress", "help"],
};

/// Default number of runs of each case.
const RUNS: u32 = 30;

/// Analysis to print instead of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Analysis {
    x_axis: String,
    category: Option<String>,
    chart: bool,
}

/// Executes the script and prints its results; returns the exit status.
///
/// # Errors
/// Measuring is impossible, a parameter of the analysis does not exist, or a stream is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    COMMAND_LINE.carry_out(arguments, console, understand, scatter)
}

fn scatter(
    (request, analysis): (ScriptsRequest, Option<Analysis>),
    arguments: &Arguments<'_>,
    console: &mut Console<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = Collation::of_environment(console.variable);
    let mut printer = Printer {
        driver: Driver::new(COMMAND_LINE.tool, &request, console, false),
        collected: analysis.is_some().then(Frame::default),
        parameters: None,
    };
    printer.driver.pass_over_test(arguments)?;
    measure(&request, &mut printer)?;
    if let Some(analysis) = analysis {
        printer.analyse(&analysis, collation)?;
    }
    Ok(printer.driver.failures.status())
}

fn understand(
    arguments: &Arguments<'_>,
    console: &Console<'_>,
) -> Result<(ScriptsRequest, Option<Analysis>), Refusal> {
    let [path] = arguments.others.as_slice() else {
        return Err(Refusal::usage(""));
    };
    let (script, folder) = node::script_at(path, console)?;
    let variants = vec![Variant::plain("default")];
    let request = node::request(arguments, vec![script], folder, variants, RUNS)?;
    Ok((request, analysis(arguments)?))
}

fn analysis(arguments: &Arguments<'_>) -> Result<Option<Analysis>, Refusal> {
    if !arguments.has("analyze") {
        return Ok(None);
    }
    let Some(x_axis) = arguments.value("xaxis") else {
        return Err(Refusal::usage("'--analyze' needs '--xaxis'"));
    };
    Ok(Some(Analysis {
        x_axis: x_axis.to_owned(),
        category: arguments.value("category").map(str::to_owned),
        chart: !arguments.has("no-chart"),
    }))
}

struct Printer<'a> {
    driver: Driver<'a>,
    /// Columns to analyze; `None` if rows are printed.
    collected: Option<Frame>,
    /// Parameters of the first result, which define the columns.
    parameters: Option<Vec<String>>,
}

impl Printer<'_> {
    fn print(&mut self, run: &Run) -> Result<()> {
        let Some(values) = self.in_columns(run)? else {
            return Ok(());
        };
        for measured in driver::rates(run) {
            match &mut self.collected {
                None => {
                    let row = rows::scatter_row(&run.case.benchmark, &values, measured);
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

    /// Returns the run's values in the order of the columns, which the first run determines; `None`
    /// if they do not match. The original would print them under the wrong names.
    fn in_columns(&mut self, run: &Run) -> Result<Option<Vec<(String, Value)>>> {
        let values = &run.case.values;
        let Some(parameters) = &self.parameters else {
            self.parameters = Some(values.iter().map(|(name, _)| name.clone()).collect());
            self.head(run)?;
            return Ok(Some(values.clone()));
        };
        let place = |name: &String| {
            run.case
                .value(name)
                .map(|value| (name.clone(), value.clone()))
        };
        let placed: Option<Vec<_>> = parameters.iter().map(place).collect();
        if placed.is_none() || parameters.len() != values.len() {
            let case = run.case.id();
            self.driver.say(&format!(
                "'{case}' is left out: its parameters are others than before"
            ))?;
            self.driver.failures.note_other();
            return Ok(None);
        }
        Ok(placed)
    }

    fn head(&mut self, run: &Run) -> Result<()> {
        match &mut self.collected {
            None => {
                let header = rows::scatter_header(&run.case.values);
                self.driver.out.write_all(header.as_bytes())?;
            }
            Some(frame) => {
                frame.columns = run
                    .case
                    .values
                    .iter()
                    .map(|(name, _)| frame::Column::new(name))
                    .collect();
            }
        }
        Ok(())
    }

    fn analyse(&mut self, analysis: &Analysis, collation: Collation) -> Result<()> {
        let frame = self.collected.take().unwrap_or_default();
        if frame.rates.is_empty() {
            self.driver.lack_results()?;
            return Ok(());
        }
        let category = analysis.category.as_deref();
        let study = Study::pooled(&frame, &analysis.x_axis, category, collation)?;
        let text = analysis_text(&study, analysis.chart);
        self.driver.out.write_all(text.as_bytes())?;
        Ok(self.driver.out.flush()?)
    }
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

/// Text of an undefined figure.
const MISSING: &str = "NA";

/// Formats the whole analysis.
fn analysis_text(study: &Study, chart: bool) -> String {
    let steps = study.steps();
    let mut text = aggregated(study.aggregated());
    text.push_str(&summary(study));
    if !steps.is_empty() {
        text.push_str(&changes(study, &steps));
    }
    if let Some(warning) = on_reachable_p(&steps) {
        text.push_str(&format!("\n{warning}\n"));
    }
    if chart {
        text.push_str(&means(study));
    }
    text
}

fn aggregated(pooled: &[Aggregated]) -> String {
    let mut text = String::new();
    for Aggregated { name, explained } in pooled {
        text.push_str(&format!("aggregating variable: {name}"));
        if let Some(share) = explained {
            let percent = 100.0 * share;
            text.push_str(&format!(" ({percent:.1} % of the variance within points)"));
        }
        text.push('\n');
    }
    for pooled in pooled.iter().filter(|p| p.explained > Some(LARGE_SHARE)) {
        text.push_str(&format!(
            "note: most of the variance comes from '{0}'; make it the category or fix it with --set {0}=VALUE\n",
            pooled.name
        ));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn summary(study: &Study) -> String {
    let points = study.points();
    let cells = |of: fn(&ScatterPoint) -> String| points.iter().map(of).collect::<Vec<_>>();
    let mut columns = study.places();
    columns.push(Column::new("samples", cells(|p| p.rates.len().to_string())));
    columns.push(Column::new("mean", cells(|p| rate(p.mean))));
    columns.push(Column::new("+/-", cells(|p| optional(p.half_width, rate))));
    columns.push(Column::new(
        "+/- %",
        cells(|p| optional(p.half_width, |half| format!("{:.2}", 100.0 * half / p.mean))),
    ));
    columns.push(Column::new("median", cells(|p| rate(p.median()))));
    columns.push(Column::new(
        "median's 95 % interval",
        cells(|p| {
            optional(p.median_interval(), |interval| {
                format!("{} to {}", rate(interval.low), rate(interval.high))
            })
        }),
    ));
    let skewed = points.iter().any(ScatterPoint::is_skewed);
    if skewed {
        let mark = |p: &ScatterPoint| if p.is_skewed() { "(!)" } else { "" }.to_owned();
        columns.push(Column::new("", cells(mark)));
    }
    let mut text = print::data_frame(&[], &columns, usize::MAX);
    if skewed {
        text.push_str("\n(!) skewed: trust the median rather than the mean\n");
    }
    text
}

fn changes(study: &Study, steps: &[ScatterStep<'_>]) -> String {
    let cells = |of: &dyn Fn(&ScatterStep<'_>) -> String| steps.iter().map(of).collect::<Vec<_>>();
    let mut columns = Vec::new();
    if let Some(category) = study.category() {
        let name = cells(&|step| study.category_text(step.from).to_owned());
        columns.push(Column::new(category, name));
    }
    let between = |step: &ScatterStep<'_>| {
        format!("{} -> {}", study.x_text(step.from), study.x_text(step.to))
    };
    columns.push(Column::new(study.x_axis(), cells(&between)));
    columns.push(Column::new(
        "ratio",
        cells(&|step| format!("{:.3}", step.ratio)),
    ));
    let exponent = |step: &ScatterStep<'_>| optional(step.exponent, |value| format!("{value:.2}"));
    columns.push(Column::new("exponent", cells(&exponent)));
    columns.push(Column::new("p", cells(&|step| optional(step.p, p_value))));
    let delta = |step: &ScatterStep<'_>| optional(step.cliffs_delta, |value| format!("{value:.2}"));
    columns.push(Column::new("Cliff's delta", cells(&delta)));
    columns.push(Column::new(
        "effect",
        cells(&|step| optional(step.magnitude(), |size| word(size).to_owned())),
    ));
    format!(
        "\nFrom one value of {} to the next, by the Mann-Whitney test:\n\n{}",
        study.x_axis(),
        print::data_frame(&[], &columns, usize::MAX)
    )
}

/// Draws every mean rate with its 95 % interval, on a scale from 0.
fn means(study: &Study) -> String {
    let band = |point: &ScatterPoint| Band {
        label: study.label(point),
        value: point.mean,
        interval: point
            .half_width
            .map(|half| (point.mean - half, point.mean + half)),
    };
    let bands: Vec<Band> = study.points().iter().map(band).collect();
    let chart = band_chart(&bands, 0.0, |rate| format!("{rate:.0}/s"));
    if chart.is_empty() {
        return chart;
    }
    format!("\nRate, o, with its 95 % interval, [---]:\n\n{chart}")
}

fn optional<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), text)
}

/// Formats a rate with at least four digits: below 1,000 with decimals.
fn rate(value: f64) -> String {
    let decimals = if value.abs() < 1000.0 { 3 } else { 0 };
    format!("{value:.decimals$}")
}

fn p_value(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

fn word(size: Magnitude) -> &'static str {
    match size {
        Magnitude::Negligible => "negligible",
        Magnitude::Small => "small",
        Magnitude::Medium => "medium",
        Magnitude::Large => "large",
    }
}
