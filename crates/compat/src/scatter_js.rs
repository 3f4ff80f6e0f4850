//! Drop-in for `scatter.js`: one script many times, as rows for `scatter.R`.
//!
//! Decides options and output of that driver. Start at [`run`].

use super::benchmark_folder::script_at;
use super::command_line::CommandLine;
use super::console::Console;
use super::driver::{self, Driver};
use super::node_cli::{Grammar, Refusal, Words};
use super::r_collation::Collation;
use super::scatter_analysis;
use super::scatter_r::Study;
use anyhow::Result;
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Observer, Run, Value, Variant};
use speedwell_results::formats::node_csv::Frame;
use speedwell_results::formats::node_csv::frame::Column;
use speedwell_results::formats::node_csv::rows;

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "scatter.js",
    usage: include_str!("usage/scatter.js.txt"),
    further_usage: include_str!("usage/scatter.js.further.txt"),
    grammar: Grammar {
        repeated: &["set"],
        single: &["runs", "xaxis", "category"],
        switches: &["analyze", "no-chart", "no-progress", "help"],
    },
};

/// Runs of each case, if not said otherwise.
const RUNS: u32 = 30;

/// What is printed instead of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Analysis {
    x_axis: String,
    category: Option<String>,
    chart: bool,
}

/// Executes the script and prints its results; returns the exit status.
///
/// # Errors
/// Measuring is impossible, a parameter to analyse by does not exist, or a stream is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    COMMAND_LINE.carry_out(
        arguments,
        console,
        understand,
        |(request, analysis), words, console| scatter(&request, analysis, words, console),
    )
}

fn scatter(
    request: &ScriptsRequest,
    analysis: Option<Analysis>,
    words: &Words,
    console: &mut Console<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let collation = Collation::of_environment(console.variable);
    let mut printer = Printer {
        driver: Driver::new(COMMAND_LINE.tool, request, console, false),
        collected: analysis.is_some().then(Frame::default),
        parameters: None,
    };
    printer.driver.pass_over_test(words)?;
    measure(request, &mut printer)?;
    if let Some(analysis) = analysis {
        printer.analyse(&analysis, collation)?;
    }
    Ok(printer.driver.failures.status())
}

fn understand(
    words: &Words,
    console: &Console<'_>,
) -> Result<(ScriptsRequest, Option<Analysis>), Refusal> {
    let [path] = words.items.as_slice() else {
        return Err(Refusal::usage(""));
    };
    let (script, folder) = script_at(path, console)?;
    let request = ScriptsRequest {
        folder,
        scripts: vec![script],
        sets: words.sets()?,
        runs: words.runs(RUNS)?,
        variants: vec![Variant::plain("default")],
        test: false,
        processors: words.processors()?,
    };
    Ok((request, analysis(words)?))
}

fn analysis(words: &Words) -> Result<Option<Analysis>, Refusal> {
    if !words.has("analyze") {
        return Ok(None);
    }
    let Some(x_axis) = words.value("xaxis") else {
        return Err(Refusal::usage("'--analyze' needs '--xaxis'"));
    };
    Ok(Some(Analysis {
        x_axis: x_axis.to_owned(),
        category: words.value("category").map(str::to_owned),
        chart: !words.has("no-chart"),
    }))
}

struct Printer<'a> {
    driver: Driver<'a>,
    /// The columns, where they are analysed instead of printed.
    collected: Option<Frame>,
    /// The parameters of the first result, which make the columns.
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

    /// The run's values in the order of the columns, which the first run determines; `None` if they
    /// do not fit. The original would put them under the wrong names.
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
                    .map(|(name, _)| Column::new(name))
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
        let study = Study::of(&frame, &analysis.x_axis, category, collation)?;
        let text = scatter_analysis::text(&study, analysis.chart);
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
