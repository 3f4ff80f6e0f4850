//! Handles the command line of an R script: prints help, rejects an invalid command line, or runs
//! the script.
//!
//! Decides what the drop-ins for `compare.R`, `scatter.R` and `bar.R` do before they read input.
//! `r/print.rs` prints tables as R does, `r/collation.rs` sorts names, and `r/plot.rs` draws
//! charts. Start at [`RScript::run_with`].

pub mod collation;
pub mod plot;
pub mod print;

use crate::arguments::{self, ParsedArguments};
use crate::console::DropInConsole;
use anyhow::Result;
use std::io;

/// Command line of a script.
#[derive(Debug, Clone, Copy)]
pub struct RScript {
    /// Name of the original script.
    pub tool: &'static str,
    /// What the original script prints for `--help` and for an invalid command line.
    pub usage: &'static str,
    /// Options besides `--help` and `--plot`, which all scripts have.
    pub options: &'static [&'static str],
}

impl RScript {
    /// Parses `arguments` and passes them to `perform`; returns the exit status.
    ///
    /// # Errors
    /// Fails if `perform` fails, or a stream is closed.
    pub fn run_with(
        &self,
        arguments: &[String],
        console: &mut DropInConsole<'_>,
        perform: impl FnOnce(&ParsedArguments<'_>, &mut DropInConsole<'_>) -> Result<i32>,
    ) -> Result<i32> {
        let known_options = [&["help", "plot"], self.options].concat();
        let options = match arguments::parse_r(arguments, &known_options) {
            Ok(options) => options,
            Err(word) => return Ok(self.reject(&format!("unknown option '{word}'"), console)?),
        };
        if options.has("help") {
            return Ok(console.print_help(self.usage)?);
        }
        if options.has("plot") && options.value("plot").is_none() {
            return Ok(self.reject("", console)?);
        }
        perform(&options, console)
    }

    /// Rejects a command line: prints the reason, if it is not empty, and the usage.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn reject(&self, reason: &str, console: &mut DropInConsole<'_>) -> io::Result<i32> {
        console.reject(self.tool, reason, self.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["plot", "log", "help", "xaxis"];

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        let words = words("-xaxis len --plot a.svg stray --log");
        let options = arguments::parse_r(&words, &KNOWN).unwrap();
        assert_eq!(options.value("xaxis"), Some("len"));
        assert_eq!(options.value("plot"), Some("a.svg"));
        assert!(options.has("log") && !options.has("help") && !options.has("stray"));
    }

    #[test]
    fn a_value_cannot_begin_with_a_dash() {
        let words = words("--plot --log");
        let options = arguments::parse_r(&words, &KNOWN).unwrap();
        assert!(options.has("plot") && options.value("plot").is_none());
    }

    #[test]
    fn unknown_options_are_errors_instead_of_being_passed_over() {
        for word in ["--polt", "--plot=a.svg"] {
            assert_eq!(arguments::parse_r(&[word.to_owned()], &KNOWN), Err(word));
        }
    }
}
