//! The command line of a driver: answered with help, refused, or carried out.
//!
//! Decides what the drivers for `run.js`, `compare.js` and `scatter.js` say before they measure
//! anything; the grammar is in `node_cli.rs`. It must not know what an option means. Start at
//! [`CommandLine::carry_out`].

use super::console::{self, Console};
use super::node_cli::{Grammar, Refusal, Words};
use anyhow::Result;
use std::io;

/// How a driver is spoken to.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    /// The name of the original.
    pub tool: &'static str,
    /// What the original prints when it is called wrongly.
    pub usage: &'static str,
    /// What `--help` says beyond that: the options that the original does not have.
    pub further_usage: &'static str,
    /// The options.
    pub grammar: Grammar,
}

impl CommandLine {
    /// Lets `understand` make sense of the words of `arguments`, and `perform` do what they ask
    /// for; returns the exit status.
    ///
    /// # Errors
    /// Those of `perform`, or a stream is closed.
    pub fn carry_out<T>(
        &self,
        arguments: &[String],
        console: &mut Console<'_>,
        understand: impl FnOnce(&Words, &Console<'_>) -> Result<T, Refusal>,
        perform: impl FnOnce(T, &Words, &mut Console<'_>) -> Result<i32>,
    ) -> Result<i32> {
        let words = match self.grammar.parse(arguments) {
            Ok(words) => words,
            Err(refusal) => return Ok(self.refuse(refusal, console)?),
        };
        if words.has("help") {
            return Ok(console.help(&format!("{}{}", self.usage, self.further_usage))?);
        }
        match understand(&words, console) {
            Ok(understood) => perform(understood, &words, console),
            Err(refusal) => Ok(self.refuse(refusal, console)?),
        }
    }

    fn refuse(&self, refusal: Refusal, console: &mut Console<'_>) -> io::Result<i32> {
        match refusal {
            Refusal::Usage(reason) => console.refuse(self.tool, &reason, self.usage),
            Refusal::Line(line) => {
                writeln!(console.stderr, "{line}")?;
                Ok(console::REFUSED)
            }
        }
    }
}
