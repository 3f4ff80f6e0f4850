//! Emulates `scatter.js`, which runs one script many times and prints rows, and `scatter.R`, which
//! reads these rows and prints mean rates by two parameters.
//!
//! Decides the text, the order and the figures of the table. With the additional option
//! `--analyze`, `scatter.js` prints an analysis instead of the rows. The analysis shows the pooled
//! parameters with the fraction of the variance that each explains, a table of means and medians,
//! the steps along the x axis, and a chart of the means. A point of the
//! table pools all rows that have its x value and its category, even if they belong to different
//! cases. The interval of a point therefore mixes effects of other parameters with noise, unlike
//! the intervals of `analysis`. `r/mod.rs` draws the chart. Start at [`run_js`] and [`run`].

use crate::console::{DropInConsole, ParsedArguments};
use crate::node::driver::{self, NodeDriver};
use crate::node::{self, CommandLine, NodeRefusal};
use crate::r::print::{self, FrameColumn, RTexts};
use crate::r::{AnyChart, ChartBand, RATE_LABEL, RScript, TextCollation, band_chart};
use anyhow::{Result, anyhow};
use indexmap::IndexMap;
use speedwell_analysis::{
    AggregatedParameter, MAX_AGGREGATED_SHARE, finite_or_none, is_skewed, mann_whitney_p,
    warn_smallest_p,
};
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::figures::TextColumn;
use speedwell_formats::node_csv::{self, ScatterFrame};
use speedwell_model::{ParameterValue, Run, SessionEvent, SessionObserver, Variant};
use speedwell_plot::{ChartAxis, ChartPoint, LineChart, PointSeries};
use speedwell_stats::describe::{mean, median};
use speedwell_stats::effect::{cliffs_delta, eta_squared};
use speedwell_stats::interval::{mean_t, median_binomial};

const SCRIPT: RScript = RScript {
    tool: "scatter.R",
    usage: include_str!("usage/scatter.R.txt"),
    required: &["xaxis", "category"],
    options: &["log"],
};

/// R's default line width.
const LINE_WIDTH: usize = 80;

/// Reads standard input, prints the table, and with `--plot` draws the chart; returns the exit
/// status.
///
/// # Errors
/// Fails if the input does not come from `scatter.js` or lacks the parameters, or a stream or file
/// cannot be written.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    SCRIPT.run_with(arguments, console, |options, console| {
        let frame = ScatterFrame::read(&mut *console.stdin)?;
        for warning in frame.warnings() {
            console.warn(SCRIPT.tool, &warning)?;
        }
        let collation = TextCollation::from_environment(console.variable);
        let x_axis = options.value("xaxis").unwrap_or_default();
        let study = ScatterStudy::pool_rows(&frame, x_axis, options.value("category"), collation)?;
        console.stdout.write_all(study.format_study().as_bytes())?;
        let has_plot = options.has("plot");
        Ok(has_plot.then(|| study.line_chart(frame.filename(), options.has("log"))))
    })
}

/// A table whose points are in the order in which they are printed.
pub struct ScatterStudy {
    /// Name of the x axis.
    x_axis: String,
    /// Name of the category, if there is one.
    category: Option<String>,
    /// Parameters with several values that are neither the x axis nor the category. Each point
    /// pools the rows of all these values.
    aggregated: Vec<AggregatedParameter>,
    /// Distinct strings on the x axis; points refer to them by index.
    x: RTexts,
    /// Distinct strings of the category; a single empty string if there is no category.
    categories: RTexts,
    /// Points of the table.
    points: Vec<ScatterPoint>,
}

impl ScatterStudy {
    /// Pools the rows of a file and sorts the points by x axis, then category.
    ///
    /// # Errors
    /// Fails if a parameter does not exist.
    pub fn pool_rows(
        frame: &ScatterFrame,
        x_axis: &str,
        category: Option<&str>,
        collation: TextCollation,
    ) -> Result<ScatterStudy> {
        let x_column = find_column(frame, x_axis)?;
        let category_column = category.map(|name| find_column(frame, name)).transpose()?;
        let point_codes: Vec<PointCodes> = (0..frame.rates.len())
            .map(|row| (x_column.codes[row], category_column.map_or(0, |column| column.codes[row])))
            .collect();
        let mut rates: IndexMap<PointCodes, Vec<f64>> = IndexMap::new();
        for (&codes, &rate) in point_codes.iter().zip(&frame.rates) {
            rates.entry(codes).or_default().push(rate);
        }
        let is_axis = |column: &TextColumn| {
            let mut axes = [x_column].into_iter().chain(category_column);
            axes.any(|axis| std::ptr::eq(axis, column))
        };
        let texts_of = |column: &TextColumn| RTexts::parse(column.texts.iter().cloned().collect());
        let x = texts_of(x_column);
        let categories =
            category_column.map_or_else(|| RTexts::parse(vec![String::new()]), texts_of);
        let mut points: Vec<ScatterPoint> = rates.into_iter().map(ScatterPoint::new).collect();
        points.sort_by(|a, b| {
            let by_x = x.compare_at(a.x, b.x, collation);
            by_x.then_with(|| categories.compare_at(a.category, b.category, collation))
        });
        let pooled =
            frame.columns.iter().filter(|column| column.texts.len() > 1 && !is_axis(column));
        let aggregated = pooled.map(|column| AggregatedParameter {
            name: column.name.clone(),
            explained: explained_variance(&point_codes, column, &frame.rates),
        });
        Ok(ScatterStudy {
            x_axis: x_axis.to_owned(),
            category: category.map(str::to_owned),
            aggregated: aggregated.collect(),
            x,
            categories,
            points,
        })
    }

    /// Returns the steps between neighbors on the x axis within each category. The categories are in
    /// the order in which they first appear.
    fn steps(&self) -> Vec<ScatterStep<'_>> {
        let lines = self.lines();
        let pairs = lines.values().flat_map(|line| line.windows(2));
        pairs.map(|pair| ScatterStep { from: pair[0], to: pair[1] }).collect()
    }

    /// Returns the points of each category.
    fn lines(&self) -> IndexMap<usize, Vec<&ScatterPoint>> {
        let mut lines: IndexMap<usize, Vec<&ScatterPoint>> = IndexMap::new();
        for point in &self.points {
            lines.entry(point.category).or_default().push(point);
        }
        lines
    }

    /// Returns the columns on the left of the table: x axis, and category if there is one.
    fn place_columns(&self) -> Vec<FrameColumn> {
        let points = self.points.iter();
        let x: Vec<usize> = points.clone().map(|point| point.x).collect();
        let mut columns = vec![FrameColumn::new(&self.x_axis, self.x.format_cells(&x))];
        if let Some(category) = &self.category {
            let categories: Vec<usize> = points.map(|point| point.category).collect();
            columns.push(FrameColumn::new(category, self.categories.format_cells(&categories)));
        }
        columns
    }

    /// Returns a label of a point: its x value, and its category if there is one.
    fn point_label(&self, point: &ScatterPoint) -> String {
        let x = &self.x.texts[point.x];
        match self.category {
            Some(_) => format!("{x} {}", self.categories.texts[point.category]),
            None => x.clone(),
        }
    }

    /// Formats the output of `scatter.R`: the pooled parameters and the table.
    fn format_study(&self) -> String {
        let pooled = self.aggregated.iter();
        let mut text: String =
            pooled.map(|pooled| format!("aggregating variable: {}\n", pooled.name)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let points = &self.points;
        let numbers = |figure: fn(&ScatterPoint) -> Option<f64>| {
            print::format_numbers(&points.iter().map(figure).collect::<Vec<_>>())
        };
        let mut columns = self.place_columns();
        columns.push(FrameColumn::new("rate", numbers(|point| Some(point.mean))));
        columns.push(FrameColumn::new("confidence.interval", numbers(|point| point.half_width)));
        text.push_str(&print::format_data_frame(&[], &columns, LINE_WIDTH));
        text
    }

    fn line_chart(&self, title: &str, log2: bool) -> AnyChart {
        let numbers = self.x.numbers.as_deref();
        let axis = match numbers {
            None => ChartAxis::category(&self.x_axis, self.x.texts.clone()),
            Some(_) if log2 => ChartAxis::log2(&self.x_axis),
            Some(_) => ChartAxis::linear(&self.x_axis),
        };
        let chart_point = |point: &ScatterPoint| {
            let x = numbers.map_or(point.x as f64, |numbers| numbers[point.x]);
            let end = |sign: f64| point.half_width.map(|half| point.mean + sign * half);
            ChartPoint { x, y: point.mean, low: end(-1.0), high: end(1.0) }
        };
        let series = self.lines().into_iter().map(|(category, points)| PointSeries {
            name: self.categories.texts[category].clone(),
            points: points.into_iter().map(chart_point).collect(),
            colour: None,
        });
        AnyChart::Line(LineChart {
            title: title.to_owned(),
            x: axis,
            y: ChartAxis::linear(RATE_LABEL),
            series: series.collect(),
            ..LineChart::default()
        })
    }
}

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Indices of the x value and the category of a point among the distinct strings of their columns.
type PointCodes = (usize, usize);

/// All rows with the same x value and category.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterPoint {
    /// Index into the texts of the x axis.
    pub x: usize,
    /// Index into the texts of the category.
    pub category: usize,
    /// Rates of the rows.
    pub rates: Vec<f64>,
    /// Mean rate in operations per second.
    pub mean: f64,
    /// Half width of Student's 95 % interval of the mean; `None` for one row.
    pub half_width: Option<f64>,
}

fn find_column<'a>(frame: &'a ScatterFrame, name: &str) -> Result<&'a TextColumn> {
    frame.find_column(name).ok_or_else(|| {
        let present: Vec<&str> = frame.columns.iter().map(|column| &*column.name).collect();
        anyhow!("unknown column '{name}'; the file has {}", present.join(", "))
    })
}

/// Computes the fraction of the variance within points that `column` explains (eta squared).
fn explained_variance(codes: &[PointCodes], column: &TextColumn, rates: &[f64]) -> Option<f64> {
    let mut points: IndexMap<PointCodes, IndexMap<usize, Vec<f64>>> = IndexMap::new();
    for ((&point, &code), &rate) in codes.iter().zip(&column.codes).zip(rates) {
        let groups = points.entry(point).or_default();
        groups.entry(code).or_default().push(rate);
    }
    let groups = points.into_values().map(|groups| groups.into_values().collect());
    eta_squared(&groups.collect::<Vec<_>>())
}

/// The step between two points that have the same category and neighboring x values.
#[derive(Debug, Clone, Copy)]
struct ScatterStep<'a> {
    /// Point with the smaller x value.
    from: &'a ScatterPoint,
    /// Next point.
    to: &'a ScatterPoint,
}

impl ScatterStep<'_> {
    /// Returns the mean rate of the next point, divided by the mean rate of the first point.
    fn ratio(self) -> f64 {
        self.to.mean / self.from.mean
    }

    /// Returns the logarithm of the ratio, divided by the logarithm of the ratio of the x values;
    /// `None` if the x values are not numbers, or if their ratio is not positive.
    fn exponent(self, numbers: Option<&[f64]>) -> Option<f64> {
        let growth = numbers.map(|numbers| (numbers[self.to.x] / numbers[self.from.x]).ln())?;
        finite_or_none(self.ratio().ln() / growth)
    }

    /// Returns Cliff's delta; positive if the rate grows.
    fn cliffs_delta(self) -> Option<f64> {
        finite_or_none(cliffs_delta(&self.from.rates, &self.to.rates))
    }
}

impl ScatterPoint {
    fn new(((x, category), rates): (PointCodes, Vec<f64>)) -> ScatterPoint {
        ScatterPoint {
            x,
            category,
            mean: mean(&rates),
            half_width: mean_t(&rates, CONFIDENCE).map(|interval| interval.half_width()),
            rates,
        }
    }

    /// Whether the rates are so skewed that their mean is misleading.
    fn is_skewed(&self) -> bool {
        let half = self.half_width.unwrap_or(0.0);
        is_skewed(&self.rates, self.mean - half, self.mean + half)
    }
}

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "scatter.js",
    usage: include_str!("usage/scatter.js.txt"),
    further_usage: include_str!("usage/scatter.js.further.txt"),
    valued: &["set", "runs", "xaxis", "category"],
    switches: &["analyze", "no-chart", "no-progress", "help"],
};

/// Default number of runs of each case.
const DEFAULT_RUNS: u32 = 30;

/// Executes the script and prints its results; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, a parameter of the analysis does not exist, or a stream is
/// closed.
pub fn run_js(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_scatter)
}

fn run_scatter(
    request: ScriptsRequest,
    arguments: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = TextCollation::from_environment(console.variable);
    let x_axis = arguments.value("xaxis").filter(|_| arguments.has("analyze"));
    let mut printer = ScatterPrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, false),
        collected: x_axis.is_some().then(ScatterFrame::default),
        parameters: None,
    };
    printer.driver.warn_about_test(arguments)?;
    measure(&request, &mut printer)?;
    if let Some(x_axis) = x_axis {
        printer.print_analysis(x_axis, arguments, collation)?;
    }
    Ok(printer.driver.failures.exit_status())
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<ScriptsRequest, NodeRefusal> {
    let [path] = arguments.others.as_slice() else { return Err(NodeRefusal::Usage(String::new())) };
    let (script, folder) = node::find_script(path, console)?;
    let variants = vec![Variant::plain("default")];
    let request = node::build_request(arguments, vec![script], folder, variants, DEFAULT_RUNS)?;
    if arguments.has("analyze") && arguments.value("xaxis").is_none() {
        return Err(NodeRefusal::Usage("'--analyze' needs '--xaxis'".to_owned()));
    }
    Ok(request)
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
        let Some(values) = self.in_columns(run)? else { return Ok(()) };
        for measured in driver::throughput_samples(run) {
            match &mut self.collected {
                None => {
                    let row = node_csv::format_scatter_row(&run.case.benchmark, &values, measured);
                    self.driver.out.write_all(row.as_bytes())?;
                }
                Some(frame) => {
                    let texts = values.iter().map(|(_, value)| value.plain());
                    frame.push(&run.case.benchmark, texts, measured.rate);
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
            let names = values.iter().map(|(name, _)| name);
            self.parameters = Some(names.clone().cloned().collect());
            match &mut self.collected {
                None => {
                    let header = node_csv::format_scatter_header(values);
                    self.driver.out.write_all(header.as_bytes())?;
                }
                Some(frame) => frame.columns = names.map(TextColumn::new).collect(),
            }
            return Ok(Some(values.clone()));
        };
        let value_of = |name: &String| Some((name.clone(), run.case.value(name)?.clone()));
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

    fn print_analysis(
        &mut self,
        x_axis: &str,
        arguments: &ParsedArguments<'_>,
        collation: TextCollation,
    ) -> Result<()> {
        let frame = self.collected.take().unwrap_or_default();
        if frame.rates.is_empty() {
            return Ok(self.driver.report_no_results()?);
        }
        let category = arguments.value("category");
        let study = ScatterStudy::pool_rows(&frame, x_axis, category, collation)?;
        let text = analysis_text(&study, !arguments.has("no-chart"));
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

/// Formats the whole analysis.
fn analysis_text(study: &ScatterStudy, chart: bool) -> String {
    let steps = study.steps();
    let mut text = format_aggregated(&study.aggregated) + &summary_table(study);
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
    let points = &study.points;
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
            // There is no interval for fewer than 6 rates.
            format_optional(median_binomial(&p.rates, CONFIDENCE), |interval| {
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
        columns.push(column(category, &|step| study.categories.texts[step.from.category].clone()));
    }
    columns.extend([
        column(&study.x_axis, &|step| {
            format!("{} -> {}", study.x.texts[step.from.x], study.x.texts[step.to.x])
        }),
        column("ratio", &|step| format!("{:.3}", step.ratio())),
        column("exponent", &|step| {
            format_optional(step.exponent(study.x.numbers.as_deref()), two_decimals)
        }),
        column("p", &|step| {
            let p = mann_whitney_p(&step.from.rates, &step.to.rates);
            format_optional(finite_or_none(p), format_p_value)
        }),
        column("Cliff's delta", &|step| format_optional(step.cliffs_delta(), two_decimals)),
        column("effect", &|step| {
            format_optional(step.cliffs_delta(), |delta| magnitude_word(delta).to_owned())
        }),
    ]);
    let (axis, table) = (&study.x_axis, print::format_data_frame(&[], &columns, usize::MAX));
    format!("\nFrom one value of {axis} to the next, by the Mann-Whitney test:\n\n{table}")
}

/// Draws every mean rate with its 95 % interval, on a scale from 0.
fn means_chart(study: &ScatterStudy) -> String {
    let band = |point: &ScatterPoint| ChartBand {
        label: study.point_label(point),
        value: point.mean,
        interval: point.half_width.map(|half| (point.mean - half, point.mean + half)),
    };
    let bands: Vec<ChartBand> = study.points.iter().map(band).collect();
    let heading = "Rate (o) with its 95 % interval ([---])";
    band_chart(heading, &bands, |rate| format!("{rate:.0}/s"))
}

fn format_optional<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "NA".to_owned(), text)
}

/// Formats a rate with at least four digits: a rate below 1,000 has three decimals.
fn format_rate(value: f64) -> String {
    let decimals = if value.abs() < 1000.0 { 3 } else { 0 };
    format!("{value:.decimals$}")
}

fn format_p_value(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

/// Returns the word for a delta of either sign (Romano et al., Florida Association of Institutional
/// Research, 2006).
fn magnitude_word(cliffs_delta: f64) -> &'static str {
    match cliffs_delta.abs() {
        size if size < 0.147 => "negligible",
        size if size < 0.33 => "small",
        size if size < 0.474 => "medium",
        _ => "large",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> ScatterFrame {
        let mut frame = ScatterFrame {
            columns: ["n", "len", "kind"].map(TextColumn::new).into(),
            ..ScatterFrame::default()
        };
        for (row, rate) in [(["5", "1", "a"], 1.0), (["5", "2", "a"], 3.0), (["5", "1", "b"], 7.0)]
        {
            frame.push("g/a.js", row, rate);
        }
        frame
    }

    fn pool(x_axis: &str, category: Option<&str>) -> Result<ScatterStudy> {
        ScatterStudy::pool_rows(&frame(), x_axis, category, TextCollation::CodePoints)
    }

    #[test]
    fn rows_at_the_same_point_are_pooled_and_the_pooled_column_is_named() {
        let table = pool("n", Some("kind")).unwrap();
        assert_eq!(table.aggregated[0].name, "len");
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        let means: Vec<_> =
            table.points.iter().map(|point| (point.rates.len(), point.mean)).collect();
        assert_eq!(means, [(2, 2.0), (1, 7.0)]);
        assert_eq!(table.points[1].half_width, None);
    }

    #[test]
    fn without_a_category_there_is_one_line() {
        let table = pool("len", None).unwrap();
        assert_eq!(table.aggregated[0].name, "kind");
        // The rates 1 and 7 belong to different kinds, and 3 is alone at its point. All variance
        // within points is therefore between the kinds.
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        assert_eq!(table.categories.texts, [""]);
        assert_eq!(table.points.len(), 2);
    }

    #[test]
    fn an_unknown_column_is_answered_with_the_known_ones() {
        let error = pool("size", None).err().unwrap();
        assert_eq!(error.to_string(), "unknown column 'size'; the file has n, len, kind");
    }

    #[test]
    fn an_effect_has_a_word_whatever_its_sign() {
        assert_eq!([0.1, -0.4, 0.5].map(magnitude_word), ["negligible", "medium", "large"]);
    }

    fn golden(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/node-core");
        std::fs::read_to_string(std::path::Path::new(folder).join(name)).unwrap()
    }

    #[test]
    fn the_points_of_a_scatter_agree_with_r_to_nine_digits() {
        let frame = ScatterFrame::read(golden("scatter.csv").as_bytes()).unwrap();
        let table = ScatterStudy::pool_rows(
            &frame,
            "chunkLen",
            Some("encoding"),
            TextCollation::CodePoints,
        )
        .unwrap();
        let expected = golden("scatter.highprec.tsv");
        assert_eq!(table.points.len(), expected.lines().skip(1).count());
        for line in expected.lines().skip(1) {
            let [x, category, rows, mean, half] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let point = table
                .points
                .iter()
                .find(|point| {
                    table.x.texts[point.x] == x
                        && table.categories.texts[point.category] == category
                })
                .unwrap();
            assert_eq!(point.rates.len(), rows.parse::<usize>().unwrap());
            let close = |value: f64, expected: &str| {
                assert!(
                    (value / expected.parse::<f64>().unwrap() - 1.0).abs() < 1e-9,
                    "{line}: {value}"
                );
            };
            close(point.mean, mean);
            close(point.half_width.unwrap(), half);
        }
    }
}
