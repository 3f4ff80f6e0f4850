//! Drop-in for `run.js`: runs each script of some groups once.
//!
//! Decides options and output of that driver. Start at [`run`].

use crate::arguments::Arguments;
use crate::console::Console;
use crate::node::driver::{self, Driver};
use crate::node::{self, CommandLine, Refusal};
use anyhow::Result;
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Observer, Run, Value, Variant};
use speedwell_results::formats::node_csv::{javascript, rows};

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "run.js",
    usage: include_str!("usage/run.js.txt"),
    further_usage: include_str!("usage/run.js.further.txt"),
    valued: &["set", "filter", "exclude", "format", "runs", "dir"],
    switches: &["help"],
};

/// Output format.
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
    COMMAND_LINE.carry_out(arguments, console, understand, execute)
}

fn execute(
    (request, format): (ScriptsRequest, Format),
    _: &Arguments<'_>,
    console: &mut Console<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let mut printer = Printer {
        driver: Driver::new(COMMAND_LINE.tool, &request, console, false),
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
    measure(&request, &mut printer)?;
    Ok(printer.driver.failures.status())
}

fn understand(
    arguments: &Arguments<'_>,
    console: &Console<'_>,
) -> Result<(ScriptsRequest, Format), Refusal> {
    if arguments.others.is_empty() {
        return Err(Refusal::usage(""));
    }
    let format = match arguments.value("format") {
        None | Some("simple") => Format::Simple,
        Some("csv") => Format::Csv,
        Some(_) => return Err(Refusal::line("Invalid format detected")),
    };
    let folder = node::benchmark_folder(arguments, console)?;
    let scripts = node::select_scripts(&folder, arguments)?;
    let variants = vec![Variant::plain("default")];
    let request = ScriptsRequest {
        test: arguments.has("test"),
        ..node::request(arguments, scripts, Some(folder), variants, 1)?
    };
    Ok((request, format))
}

struct Printer<'a> {
    driver: Driver<'a>,
    format: Format,
    scripts: Vec<String>,
    /// Number of scripts whose heading has been written.
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

    /// Writes the headings up to that of `script`, including those of scripts in between without
    /// results, as in the original.
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

/// Formats one result as `run.js` does.
pub fn simple_line(name: &str, values: &[(String, Value)], rate: f64) -> String {
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={}", javascript::json(value)))
        .collect();
    format!(
        "{name} {}: {}\n",
        pairs.join(" "),
        with_separators(&javascript::number_text(rate))
    )
}

/// Inserts a comma before every third digit of the integer part; the rest stays unchanged.
fn with_separators(number: &str) -> String {
    let start = number.len() - number.trim_start_matches('-').len();
    let digits = number[start..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let (whole, rest) = number.split_at(start + digits);
    let mut out = String::with_capacity(number.len() + digits / 3);
    for (at, c) in whole.char_indices() {
        if at > start && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_part_is_grouped() {
        for (number, grouped) in [
            ("814", "814"),
            ("3665.14", "3,665.14"),
            ("1136275.8332310684", "1,136,275.8332310684"),
            ("0.0001234", "0.0001234"),
            ("1.7976931348623157e+308", "1.7976931348623157e+308"),
            ("-1234", "-1,234"),
            ("123456", "123,456"),
        ] {
            assert_eq!(with_separators(number), grouped);
        }
    }

    #[test]
    fn without_parameters_a_blank_stands_before_the_colon() {
        assert_eq!(simple_line("g/a.js", &[], 5.0), "g/a.js : 5\n");
    }
}
