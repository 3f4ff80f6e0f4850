//! Emulates `scatter.R`: reads the CSV of `scatter.js`, and prints mean rates by two parameters.
//!
//! Decides the text, the order and the figures of the table. For `scatter.js --analyze`, also
//! computes the steps from one x value to the next ([`neighbor_steps`]). A point of the table pools
//! all rows that have its x value and its category, even if they belong to different cases. The
//! interval of a point therefore mixes effects of other parameters with noise, unlike the intervals
//! of `analysis`. `r/mod.rs` draws the chart. Start at [`run`].

use crate::console::{DropInConsole, ParsedArguments};
use crate::r::print::{self, FrameColumn, RTexts};
use crate::r::{self, AnyChart, ChartFile, RScript, TextCollation};
use anyhow::{Result, anyhow};
use indexmap::IndexMap;
use speedwell_analysis::{AggregatedParameter, finite_or_none, is_skewed, mann_whitney_p};
use speedwell_formats::node_csv::{ScatterFrame, frame};
use speedwell_plot::{ChartAxis, ChartPoint, PointSeries};
use speedwell_stats::Interval;
use speedwell_stats::describe::mean;
use speedwell_stats::effect::{cliffs_delta, eta_squared};
use speedwell_stats::interval::{mean_t, median_binomial};

const SCRIPT: RScript = RScript {
    tool: "scatter.R",
    usage: include_str!("usage/scatter.R.txt"),
    options: &["xaxis", "category", "log"],
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
    SCRIPT.run_with(arguments, console, print_scatter)
}

fn print_scatter(options: &ParsedArguments<'_>, console: &mut DropInConsole<'_>) -> Result<i32> {
    let (Some(x_axis), Some(category)) = (options.value("xaxis"), options.value("category")) else {
        return Ok(SCRIPT.reject("", console)?);
    };
    let picture = options.value("plot").map(ChartFile::from_path).transpose()?;
    let frame = ScatterFrame::read(&mut *console.stdin)?;
    for warning in frame.warnings() {
        console.warn(SCRIPT.tool, &warning)?;
    }
    let collation = TextCollation::from_environment(console.variable);
    let study = ScatterStudy::pool_rows(&frame, x_axis, Some(category), collation)?;
    console.stdout.write_all(study.format_study().as_bytes())?;
    if let Some(picture) = picture {
        let lines = study.line_chart(frame.filename(), options.has("log"));
        writeln!(console.stderr, "{}", picture.save_chart(&lines)?)?;
    }
    Ok(0)
}

/// A table whose points are in the order in which they are printed.
pub struct ScatterStudy {
    /// Name of the x axis.
    pub x_axis: String,
    /// Name of the category, if there is one.
    pub category: Option<String>,
    /// The points in order, and the pooled parameters.
    pub table: ScatterTable,
    x: RTexts,
    categories: RTexts,
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
        let mut table = scatter_table(frame, x_axis, category)?;
        let x = RTexts::parse(&table.x_texts);
        let categories = RTexts::parse(&table.category_texts);
        table.points.sort_by(|a, b| {
            let by_x = x.compare_at(a.x, b.x, collation);
            by_x.then_with(|| categories.compare_at(a.category, b.category, collation))
        });
        Ok(ScatterStudy {
            x_axis: x_axis.to_owned(),
            category: category.map(str::to_owned),
            table,
            x,
            categories,
        })
    }

    /// Returns the steps between neighbors on the x axis.
    pub fn steps(&self) -> Vec<ScatterStep<'_>> {
        neighbor_steps(&self.table.points, self.x.as_numbers())
    }

    /// Returns the columns on the left of the table: x axis, and category if there is one.
    pub fn place_columns(&self) -> Vec<FrameColumn> {
        let points = self.table.points.iter();
        let x: Vec<usize> = points.clone().map(|point| point.x).collect();
        let mut columns = vec![FrameColumn::new(&self.x_axis, self.x.format_cells(&x))];
        if let Some(category) = &self.category {
            let categories: Vec<usize> = points.map(|point| point.category).collect();
            columns.push(FrameColumn::new(category, self.categories.format_cells(&categories)));
        }
        columns
    }

    /// Returns the x value of a point as text.
    pub fn x_text(&self, point: &ScatterPoint) -> &str {
        &self.table.x_texts[point.x]
    }

    /// Returns the text of the category of a point.
    pub fn category_text(&self, point: &ScatterPoint) -> &str {
        &self.table.category_texts[point.category]
    }

    /// Returns a label of a point: its x value, and its category if there is one.
    pub fn point_label(&self, point: &ScatterPoint) -> String {
        let x = self.x_text(point);
        match self.category {
            Some(_) => format!("{x} {}", self.category_text(point)),
            None => x.to_owned(),
        }
    }

    /// Formats the output of `scatter.R`: the pooled parameters and the table.
    pub fn format_study(&self) -> String {
        let pooled = self.table.aggregated.iter();
        let mut text: String =
            pooled.map(|pooled| format!("aggregating variable: {}\n", pooled.name)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let points = &self.table.points;
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
        let numbers = self.x.as_numbers();
        let axis = match numbers {
            None => ChartAxis::category(&self.x_axis, self.table.x_texts.clone()),
            Some(_) if log2 => ChartAxis::log2(&self.x_axis),
            Some(_) => ChartAxis::linear(&self.x_axis),
        };
        let mut lines: IndexMap<usize, Vec<ChartPoint>> = IndexMap::new();
        for point in &self.table.points {
            let x = numbers.map_or(point.x as f64, |numbers| numbers[point.x]);
            let mean = point.mean;
            lines.entry(point.category).or_default().push(match point.half_width {
                Some(half) => ChartPoint::with_interval(x, mean, mean - half, mean + half),
                None => ChartPoint::new(x, mean),
            });
        }
        let series = lines.into_iter().map(|(category, points)| PointSeries {
            name: self.table.category_texts[category].clone(),
            points,
            colour: None,
        });
        r::line_chart(title.to_owned(), axis, series.collect())
    }
}

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Indices of the x value and the category of a point among the distinct strings of their columns.
type PointCodes = (usize, usize);

/// A table whose points are in the order in which they first appear in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterTable {
    /// Parameters with several values that are neither the x axis nor the category. Each point
    /// pools the rows of all these values.
    pub aggregated: Vec<AggregatedParameter>,
    /// Distinct strings on the x axis; points refer to them by index.
    pub x_texts: Vec<String>,
    /// Distinct strings of the category; a single empty string if there is no category.
    pub category_texts: Vec<String>,
    /// Points of the table.
    pub points: Vec<ScatterPoint>,
}

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

/// Pools the rows of `frame` by the columns `x` and `category`.
///
/// # Errors
/// Fails if one of the columns does not exist.
pub fn scatter_table(
    frame: &ScatterFrame,
    x: &str,
    category: Option<&str>,
) -> Result<ScatterTable> {
    let x = find_column(frame, x)?;
    let category = category.map(|name| find_column(frame, name)).transpose()?;
    let point_codes: Vec<PointCodes> = (0..frame.rates.len())
        .map(|row| (x.codes[row], category.map_or(0, |column| column.codes[row])))
        .collect();
    let mut rates: IndexMap<PointCodes, Vec<f64>> = IndexMap::new();
    for (&codes, &rate) in point_codes.iter().zip(&frame.rates) {
        rates.entry(codes).or_default().push(rate);
    }
    let is_axis = |column: &frame::TextColumn| {
        std::ptr::eq(column, x) || category.is_some_and(|category| std::ptr::eq(column, category))
    };
    let pooled = frame.columns.iter().filter(|column| column.texts.len() > 1 && !is_axis(column));
    let texts_of = |column: &frame::TextColumn| column.texts.iter().cloned().collect();
    Ok(ScatterTable {
        aggregated: pooled
            .map(|column| AggregatedParameter {
                name: column.name.clone(),
                explained: explained_variance(&point_codes, column, &frame.rates),
            })
            .collect(),
        x_texts: texts_of(x),
        category_texts: category.map_or_else(|| vec![String::new()], texts_of),
        points: rates.into_iter().map(|(codes, rates)| build_point(codes, rates)).collect(),
    })
}

fn find_column<'a>(frame: &'a ScatterFrame, name: &str) -> Result<&'a frame::TextColumn> {
    frame.find_column(name).ok_or_else(|| {
        let present: Vec<&str> = frame.columns.iter().map(|column| &*column.name).collect();
        anyhow!("unknown column '{name}'; the file has {}", present.join(", "))
    })
}

fn build_point((x, category): PointCodes, rates: Vec<f64>) -> ScatterPoint {
    ScatterPoint {
        x,
        category,
        mean: mean(&rates),
        half_width: mean_t(&rates, CONFIDENCE).map(|interval| interval.half_width()),
        rates,
    }
}

/// Computes the fraction of the variance within points that `column` explains (eta squared).
fn explained_variance(
    point_codes: &[PointCodes],
    column: &frame::TextColumn,
    rates: &[f64],
) -> Option<f64> {
    let mut points: IndexMap<PointCodes, IndexMap<usize, Vec<f64>>> = IndexMap::new();
    for ((&codes, &code), &rate) in point_codes.iter().zip(&column.codes).zip(rates) {
        let groups = points.entry(codes).or_default();
        groups.entry(code).or_default().push(rate);
    }
    let groups = points.into_values().map(|groups| groups.into_values().collect());
    eta_squared(&groups.collect::<Vec<_>>())
}

/// The step between two points that have the same category and neighboring x values.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterStep<'a> {
    /// Point with the smaller x value.
    pub from: &'a ScatterPoint,
    /// Next point.
    pub to: &'a ScatterPoint,
    /// Mean rate of the next point, divided by the mean rate of the first point.
    pub ratio: f64,
    /// Two-sided Mann-Whitney p value.
    pub p: Option<f64>,
    /// Cliff's delta; positive if the rate grows.
    pub cliffs_delta: Option<f64>,
    /// Logarithm of `ratio`, divided by the logarithm of the ratio of the x values; `None` if
    /// the x values are not numbers, or if their ratio is not positive.
    pub exponent: Option<f64>,
}

impl ScatterPoint {
    /// Returns the 95 % interval of the median; its limits are two of the rates. Returns `None` if
    /// there are fewer than 6 rates.
    pub fn median_interval(&self) -> Option<Interval> {
        median_binomial(&self.rates, CONFIDENCE)
    }

    /// Whether the mean is a doubtful summary of the rates.
    pub fn is_skewed(&self) -> bool {
        let half = self.half_width.unwrap_or(0.0);
        is_skewed(&self.rates, self.mean - half, self.mean + half)
    }
}

/// Returns the steps between neighboring points of each category. The categories are in the order
/// in which they first appear in `points`. `numbers` are the x values, if they are numbers.
pub fn neighbor_steps<'a>(
    points: &'a [ScatterPoint],
    numbers: Option<&[f64]>,
) -> Vec<ScatterStep<'a>> {
    let mut categories: Vec<usize> = Vec::new();
    for point in points {
        if !categories.contains(&point.category) {
            categories.push(point.category);
        }
    }
    let line = |category: usize| -> Vec<&'a ScatterPoint> {
        let on_it = points.iter().filter(|point| point.category == category);
        on_it.collect()
    };
    let mut steps = Vec::new();
    for line in categories.into_iter().map(line) {
        let pairs = line.windows(2);
        steps.extend(pairs.map(|pair| build_step(pair[0], pair[1], numbers)));
    }
    steps
}

fn build_step<'a>(
    from: &'a ScatterPoint,
    to: &'a ScatterPoint,
    numbers: Option<&[f64]>,
) -> ScatterStep<'a> {
    let ratio = to.mean / from.mean;
    let growth = numbers.map(|numbers| (numbers[to.x] / numbers[from.x]).ln());
    ScatterStep {
        from,
        to,
        ratio,
        p: finite_or_none(mann_whitney_p(&from.rates, &to.rates)),
        cliffs_delta: finite_or_none(cliffs_delta(&from.rates, &to.rates)),
        exponent: growth.map(|growth| ratio.ln() / growth).and_then(finite_or_none),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> ScatterFrame {
        let mut frame = ScatterFrame {
            columns: ["n", "len", "kind"].map(frame::TextColumn::new).into(),
            ..ScatterFrame::default()
        };
        for (row, rate) in [(["5", "1", "a"], 1.0), (["5", "2", "a"], 3.0), (["5", "1", "b"], 7.0)]
        {
            frame.push("g/a.js", row, rate);
        }
        frame
    }

    #[test]
    fn rows_at_the_same_point_are_pooled_and_the_pooled_column_is_named() {
        let table = scatter_table(&frame(), "n", Some("kind")).unwrap();
        assert_eq!(table.aggregated[0].name, "len");
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        let means: Vec<_> =
            table.points.iter().map(|point| (point.rates.len(), point.mean)).collect();
        assert_eq!(means, [(2, 2.0), (1, 7.0)]);
        assert_eq!(table.points[1].half_width, None);
    }

    #[test]
    fn without_a_category_there_is_one_line() {
        let table = scatter_table(&frame(), "len", None).unwrap();
        assert_eq!(table.aggregated[0].name, "kind");
        // The rates 1 and 7 belong to different kinds, and 3 is alone at its point. All variance
        // within points is therefore between the kinds.
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        assert_eq!(table.category_texts, [""]);
        assert_eq!(table.points.len(), 2);
    }

    #[test]
    fn an_unknown_column_is_answered_with_the_known_ones() {
        let error = scatter_table(&frame(), "size", None).unwrap_err();
        assert_eq!(error.to_string(), "unknown column 'size'; the file has n, len, kind");
    }
}
