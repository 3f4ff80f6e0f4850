//! Drop-in for `run.js`: each script of some groups once.
//!
//! Decides options and output of that driver. Start at [`run`].

use super::benchmark_folder::BenchmarkFolder;
use super::command_line::CommandLine;
use super::console::Console;
use super::driver::{self, Driver};
use super::node_cli::{Grammar, Refusal, Words};
use super::simple_line::simple_line;
use anyhow::Result;
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Observer, Run, Variant};
use speedwell_results::formats::node_csv::rows;

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "run.js",
    usage: include_str!("usage/run.js.txt"),
    further_usage: include_str!("usage/run.js.further.txt"),
    grammar: Grammar {
        repeated: &["set", "filter", "exclude"],
        single: &["format", "runs", "dir"],
        switches: &["help"],
    },
};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Simple,
    Csv,
}

/// Executes the scripts and prints their results; returns the exit status.
///
/// # Errors
/// Measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    COMMAND_LINE.carry_out(
        arguments,
        console,
        understand,
        |(request, format), _, console| execute(&request, format, console),
    )
}

fn execute(request: &ScriptsRequest, format: Format, console: &mut Console<'_>) -> Result<i32> {
    let measure = console.measure;
    let mut printer = Printer {
        driver: Driver::new(COMMAND_LINE.tool, request, console, false),
        format,
        scripts: request
            .scripts
            .iter()
            .map(|script| script.name.clone())
            .collect(),
        entered: 0,
        current: None,
    };
    printer.begin()?;
    measure(request, &mut printer)?;
    Ok(printer.driver.failures.status())
}

fn understand(words: &Words, console: &Console<'_>) -> Result<(ScriptsRequest, Format), Refusal> {
    if words.items.is_empty() {
        return Err(Refusal::usage(""));
    }
    let format = match words.value("format") {
        None | Some("simple") => Format::Simple,
        Some("csv") => Format::Csv,
        Some(_) => return Err(Refusal::line("Invalid format detected")),
    };
    let folder = BenchmarkFolder::find(words, console)?;
    let request = ScriptsRequest {
        scripts: folder.select(words)?,
        folder: Some(folder.path),
        sets: words.sets()?,
        runs: words.runs(1)?,
        variants: vec![Variant::plain("default")],
        test: words.test,
        processors: words.processors()?,
    };
    Ok((request, format))
}

struct Printer<'a> {
    driver: Driver<'a>,
    format: Format,
    scripts: Vec<String>,
    /// How many of the scripts have had their heading.
    entered: usize,
    current: Option<String>,
}

impl Printer<'_> {
    fn begin(&mut self) -> Result<()> {
        if self.format == Format::Csv {
            self.driver.out.write_all(rows::RUN_HEADER.as_bytes())?;
        }
        Ok(self.driver.out.flush()?)
    }

    /// Writes the headings up to that of `script`. Those of scripts in between, which gave nothing,
    /// are written, too, as in the original.
    fn enter(&mut self, script: &str) -> Result<()> {
        if self.current.as_deref() == Some(script) {
            return Ok(());
        }
        let ahead = self.scripts[self.entered..]
            .iter()
            .position(|name| name == script);
        match ahead {
            Some(distance) => self.enter_all(self.entered + distance + 1)?,
            None => self.heading(script)?,
        }
        self.current = Some(script.to_owned());
        Ok(())
    }

    fn enter_all(&mut self, until: usize) -> Result<()> {
        while self.entered < until {
            let script = self.scripts[self.entered].clone();
            self.entered += 1;
            self.heading(&script)?;
        }
        Ok(())
    }

    fn heading(&mut self, script: &str) -> Result<()> {
        if self.format == Format::Simple {
            writeln!(self.driver.out, "\n{script}")?;
        }
        Ok(())
    }

    fn print(&mut self, run: &Run) -> Result<()> {
        let (name, values) = (&run.case.benchmark, &run.case.values);
        for measured in driver::rates(run) {
            let line = match self.format {
                Format::Simple => simple_line(name, values, measured.rate),
                Format::Csv => rows::run_row(name, values, measured),
            };
            self.driver.out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

impl Observer for Printer<'_> {
    fn observe(&mut self, event: &Event<'_>) -> Result<()> {
        self.driver.follow(event)?;
        match event {
            Event::RunFinished(run) => {
                let script = self.driver.scripts.of_run(run).to_owned();
                self.enter(&script)?;
                self.print(run)?;
            }
            Event::Failed(failure) => {
                let script = self.driver.scripts.of_failure(failure).to_owned();
                self.enter(&script)?;
            }
            Event::Finished { interrupted: false } => self.enter_all(self.scripts.len())?,
            _ => {}
        }
        Ok(self.driver.out.flush()?)
    }
}
