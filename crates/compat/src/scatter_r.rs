//! Drop-in for `scatter.R`: mean rates by two parameters from the CSV of `scatter.js`.
//!
//! Decides text and order of the table; the figures come from `scatter_table`, the
//! picture from `plot_r.rs`. Start at [`run`].

use super::console::Console;
use super::r_collation::Collation;
use super::r_options::ROptions;
use super::r_print::{self, Column};
use super::r_script::RScript;
use super::r_texts::RTexts;
use crate::plot_r::{LinePoint, Lines, Picture};
use crate::scatter_steps::{ScatterStep, steps};
use crate::scatter_table::{ScatterPoint, ScatterTable, scatter_table};
use anyhow::Result;
use speedwell_analysis::Aggregated;
use speedwell_results::formats::node_csv::Frame;

const SCRIPT: RScript = RScript {
    tool: "scatter.R",
    usage: include_str!("usage/scatter.R.txt"),
    options: &["xaxis", "category", "log"],
};

/// R's default width of a line.
const WIDTH: usize = 80;

/// Reads standard input and prints the table; returns the exit status.
///
/// # Errors
/// The input is no output of `scatter.js`, has no such parameters, or something cannot be written.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    SCRIPT.carry_out(arguments, console, scatter)
}

fn scatter(options: &ROptions, console: &mut Console<'_>) -> Result<i32> {
    let (Some(x_axis), Some(category)) = (options.value("xaxis"), options.value("category")) else {
        return Ok(SCRIPT.refuse("", console)?);
    };
    let picture = options.value("plot").map(Picture::at).transpose()?;
    let frame = Frame::read(&mut *console.stdin)?;
    for warning in frame.warnings() {
        console.warn(SCRIPT.tool, &warning)?;
    }
    let collation = Collation::of_environment(console.variable);
    let study = Study::of(&frame, x_axis, Some(category), collation)?;
    console.stdout.write_all(study.text().as_bytes())?;
    if let Some(picture) = picture {
        let lines = study.lines(frame.filename(), options.has("log"));
        writeln!(console.stderr, "{}", picture.save(&lines.chart())?)?;
    }
    Ok(0)
}

/// The table with its points in the order in which they are printed.
pub struct Study {
    x_axis: String,
    category: Option<String>,
    table: ScatterTable,
    x: RTexts,
    categories: RTexts,
}

impl Study {
    /// Pools the rows of a file and sorts the points by x axis, then category.
    ///
    /// # Errors
    /// One of the parameters does not exist.
    pub fn of(
        frame: &Frame,
        x_axis: &str,
        category: Option<&str>,
        collation: Collation,
    ) -> Result<Study> {
        let mut table = scatter_table(frame, x_axis, category)?;
        let x = RTexts::of(&table.x_texts);
        let categories = RTexts::of(&table.category_texts);
        table.points.sort_by(|a, b| {
            let by_x = x.compare(a.x, b.x, collation);
            by_x.then_with(|| categories.compare(a.category, b.category, collation))
        });
        Ok(Study {
            x_axis: x_axis.to_owned(),
            category: category.map(str::to_owned),
            table,
            x,
            categories,
        })
    }

    /// The points in order.
    pub fn points(&self) -> &[ScatterPoint] {
        &self.table.points
    }

    /// The pooled parameters.
    pub fn aggregated(&self) -> &[Aggregated] {
        &self.table.aggregated
    }

    /// The steps between neighbours on the x axis.
    pub fn steps(&self) -> Vec<ScatterStep<'_>> {
        steps(&self.table.points, self.x.numbers())
    }

    /// The columns on the left of the table: x axis, and category if there is one.
    pub fn places(&self) -> Vec<Column> {
        let points = self.table.points.iter();
        let x: Vec<usize> = points.clone().map(|point| point.x).collect();
        let mut columns = vec![Column::new(&self.x_axis, self.x.printed(&x))];
        if let Some(category) = &self.category {
            let categories: Vec<usize> = points.map(|point| point.category).collect();
            columns.push(Column::new(category, self.categories.printed(&categories)));
        }
        columns
    }

    /// Name of the x axis.
    pub fn x_axis(&self) -> &str {
        &self.x_axis
    }

    /// Name of the category, if there is one.
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// The text of a point on the x axis.
    pub fn x_text(&self, point: &ScatterPoint) -> &str {
        &self.table.x_texts[point.x]
    }

    /// The text of the category of a point.
    pub fn category_text(&self, point: &ScatterPoint) -> &str {
        &self.table.category_texts[point.category]
    }

    /// The texts of a point: x, and category if there is one.
    pub fn label(&self, point: &ScatterPoint) -> String {
        let x = self.x_text(point);
        match self.category {
            Some(_) => format!("{x} {}", self.category_text(point)),
            None => x.to_owned(),
        }
    }

    /// What the original prints: the pooled parameters and the table.
    pub fn text(&self) -> String {
        let pooled = self.table.aggregated.iter();
        let mut text: String = pooled
            .map(|pooled| format!("aggregating variable: {}\n", pooled.name))
            .collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let points = &self.table.points;
        let numbers = |of: fn(&ScatterPoint) -> Option<f64>| {
            super::r_number::column(&points.iter().map(of).collect::<Vec<_>>())
        };
        let mut columns = self.places();
        columns.push(Column::new("rate", numbers(|point| Some(point.mean))));
        columns.push(Column::new(
            "confidence.interval",
            numbers(|point| point.half_width),
        ));
        text.push_str(&r_print::data_frame(&[], &columns, WIDTH));
        text
    }

    fn lines(&self, title: &str, log2: bool) -> Lines {
        let numbers = self.x.numbers();
        let mut lines: Vec<(usize, Vec<LinePoint>)> = Vec::new();
        for point in &self.table.points {
            let at = LinePoint {
                x: numbers.map_or(point.x as f64, |numbers| numbers[point.x]),
                mean: point.mean,
                half_width: point.half_width,
            };
            match lines
                .iter_mut()
                .find(|(category, _)| *category == point.category)
            {
                Some((_, line)) => line.push(at),
                None => lines.push((point.category, vec![at])),
            }
        }
        let name = |category: usize| self.table.category_texts[category].clone();
        Lines {
            title: title.to_owned(),
            x_axis: self.x_axis.clone(),
            x_names: numbers.is_none().then(|| self.table.x_texts.clone()),
            log2,
            lines: lines
                .into_iter()
                .map(|(category, line)| (name(category), line))
                .collect(),
        }
    }
}
