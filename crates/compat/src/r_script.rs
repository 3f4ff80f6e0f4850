//! The command line of an R script: answered with help, refused, or carried out.
//!
//! Decides what the drop-ins for `compare.R`, `scatter.R` and `bar.R` say before they read anything;
//! the grammar is in `r_options.rs`. Start at [`RScript::carry_out`].

use super::console::Console;
use super::r_options::ROptions;
use anyhow::Result;
use std::io;

/// How a script is spoken to.
#[derive(Debug, Clone, Copy)]
pub struct RScript {
    /// The name of the original.
    pub tool: &'static str,
    /// What the original prints for `--help` and when it is called wrongly.
    pub usage: &'static str,
    /// The options besides `--help` and `--plot`, which all scripts have.
    pub options: &'static [&'static str],
}

impl RScript {
    /// Lets `perform` do what `arguments` ask for; returns the exit status.
    ///
    /// # Errors
    /// Those of `perform`, or a stream is closed.
    pub fn carry_out(
        &self,
        arguments: &[String],
        console: &mut Console<'_>,
        perform: impl FnOnce(&ROptions, &mut Console<'_>) -> Result<i32>,
    ) -> Result<i32> {
        let known = [&["help", "plot"], self.options].concat();
        let options = match ROptions::parse(arguments, &known) {
            Ok(options) => options,
            Err(word) => return Ok(self.refuse(&format!("unknown option '{word}'"), console)?),
        };
        if options.has("help") {
            return Ok(console.help(self.usage)?);
        }
        if options.lacks_value("plot") {
            return Ok(self.refuse("", console)?);
        }
        perform(&options, console)
    }

    /// Refuses a command line for a reason, which may be empty.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn refuse(&self, reason: &str, console: &mut Console<'_>) -> io::Result<i32> {
        console.refuse(self.tool, reason, self.usage)
    }
}
