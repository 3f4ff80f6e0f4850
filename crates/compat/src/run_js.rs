//! Emulates `run.js`: runs each script of the requested groups, by default once.
//!
//! Parses the options of `run.js`, and writes its output. `node/driver.rs` follows the session.
//! Start at [`run`].

use crate::console::{DropInConsole, ParsedArguments};
use crate::node::driver::{self, NodeDriver};
use crate::node::{self, CommandLine, NodeRefusal};
use anyhow::Result;
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::{self, javascript};
use speedwell_model::{ParameterValue, Run, SessionEvent, SessionObserver, Variant};

const COMMAND_LINE: CommandLine = CommandLine {
    tool: "run.js",
    usage: include_str!("usage/run.js.txt"),
    further_usage: include_str!("usage/run.js.further.txt"),
    valued: &["set", "filter", "exclude", "format", "runs", "dir"],
    switches: &["help"],
};

/// Executes the scripts and prints their results; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    COMMAND_LINE.run_with(arguments, console, parse_request, run_scripts)
}

fn run_scripts(
    (request, is_csv): (ScriptsRequest, bool),
    _: &ParsedArguments<'_>,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    let measure = console.measure;
    let mut printer = RunPrinter {
        driver: NodeDriver::new(COMMAND_LINE.tool, &request, console, false),
        is_csv,
        scripts: request.scripts.iter().map(|script| script.name.clone()).collect(),
        entered: 0,
        current: None,
    };
    if printer.is_csv {
        printer.driver.out.write_all(node_csv::RUN_HEADER.as_bytes())?;
    }
    printer.driver.out.flush()?;
    measure(&request, &mut printer)?;
    Ok(printer.driver.failures.exit_status())
}

fn parse_request(
    arguments: &ParsedArguments<'_>,
    console: &DropInConsole<'_>,
) -> Result<(ScriptsRequest, bool), NodeRefusal> {
    if arguments.others.is_empty() {
        return Err(NodeRefusal::Usage(String::new()));
    }
    let is_csv = match arguments.value("format") {
        None | Some("simple") => false,
        Some("csv") => true,
        Some(_) => return Err(NodeRefusal::Line("Invalid format detected".to_owned())),
    };
    let folder = node::benchmark_folder(arguments, console)?;
    let scripts = node::select_scripts(&folder, arguments)?;
    let variants = vec![Variant::plain("default")];
    let request = ScriptsRequest {
        test: arguments.has("test"),
        ..node::build_request(arguments, scripts, Some(folder), variants, 1)?
    };
    Ok((request, is_csv))
}

struct RunPrinter<'a> {
    driver: NodeDriver<'a>,
    /// Whether results are printed as CSV instead of lines below headings.
    is_csv: bool,
    scripts: Vec<String>,
    /// Number of scripts whose heading has been written.
    entered: usize,
    current: Option<String>,
}

impl RunPrinter<'_> {
    /// Writes the headings of all scripts up to `script`. As in `run.js` itself, scripts without
    /// results also have headings.
    fn enter_script(&mut self, script: &str) -> Result<()> {
        if self.current.as_deref() == Some(script) {
            return Ok(());
        }
        let distance = self.scripts[self.entered..].iter().position(|name| name == script);
        match distance {
            Some(distance) => self.enter_all(self.entered + distance + 1)?,
            None => self.print_heading(script)?,
        }
        self.current = Some(script.to_owned());
        Ok(())
    }

    fn enter_all(&mut self, end: usize) -> Result<()> {
        while self.entered < end {
            let script = self.scripts[self.entered].clone();
            self.entered += 1;
            self.print_heading(&script)?;
        }
        Ok(())
    }

    fn print_heading(&mut self, script: &str) -> Result<()> {
        if !self.is_csv {
            writeln!(self.driver.out, "\n{script}")?;
        }
        Ok(())
    }

    fn print_run(&mut self, run: &Run) -> Result<()> {
        let (name, values) = (&run.case.benchmark, &run.case.values);
        for measured in driver::throughput_samples(run) {
            let line = if self.is_csv {
                node_csv::format_run_row(name, values, measured)
            } else {
                format_simple_line(name, values, measured.rate)
            };
            self.driver.out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

impl SessionObserver for RunPrinter<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.driver.handle_event(event)?;
        match event {
            SessionEvent::RunFinished(run) => {
                let script = self.driver.scripts.script_of_run(run).to_owned();
                self.enter_script(&script)?;
                self.print_run(run)?;
            }
            SessionEvent::Failed(failure) => {
                let scripts = &self.driver.scripts;
                let script = scripts.script_of_step(failure.slot, &failure.benchmark).to_owned();
                self.enter_script(&script)?;
            }
            SessionEvent::Finished { interrupted: false } => self.enter_all(self.scripts.len())?,
            _ => {}
        }
        Ok(self.driver.out.flush()?)
    }
}

/// Formats one result as `run.js` does.
pub fn format_simple_line(name: &str, values: &[(String, ParameterValue)], rate: f64) -> String {
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={}", javascript::format_json(value)))
        .collect();
    format!("{name} {}: {}\n", pairs.join(" "), with_separators(&javascript::format_number(rate)))
}

/// Separates groups of three digits of the integer part by commas; the rest stays unchanged.
fn with_separators(number: &str) -> String {
    let start = number.len() - number.trim_start_matches('-').len();
    let digits = number[start..].bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = number[start..].split_at(digits);
    let groups: Vec<_> = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{}{}{rest}", &number[..start], groups.join(","))
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
    fn a_case_without_parameters_has_a_blank_before_the_colon() {
        assert_eq!(format_simple_line("g/a.js", &[], 5.0), "g/a.js : 5\n");
    }
}
