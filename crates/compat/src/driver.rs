//! What the three drivers have in common: streams, scripts, failures and their telling.
//!
//! Decides the order of what is written on standard error and the exit status; it must not know
//! how a result is written. Each driver keeps one [`Driver`] and adds its own rows.

use super::child_failures::ChildFailures;
use super::console::Console;
use super::node_cli::Words;
use super::progress::{PlannedScript, Progress, ProgressLine};
use super::script_names::ScriptNames;
use anyhow::Result;
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Event, Failure, Metric, Run, Step};
use speedwell_results::formats::node_csv::rows::Measured;
use std::collections::HashSet;
use std::io::{self, Write};

/// The state that every driver needs while it follows a session.
pub struct Driver<'a> {
    tool: &'static str,
    /// Where results go.
    pub out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    terminal: Option<Box<dyn Write + Send>>,
    progress: Option<ProgressLine>,
    /// Which script an event belongs to.
    pub scripts: ScriptNames,
    /// What has gone wrong.
    pub failures: ChildFailures,
    planned: Vec<PlannedScript>,
    heard_of: HashSet<String>,
    passes: usize,
    /// Whether several programs are compared.
    compares: bool,
}

impl<'a> Driver<'a> {
    /// A driver that prints on `console`; `shows_progress` where the original does.
    pub fn new(
        tool: &'static str,
        request: &ScriptsRequest,
        console: &'a mut Console<'_>,
        shows_progress: bool,
    ) -> Driver<'a> {
        let terminal = if shows_progress {
            console.progress.take()
        } else {
            None
        };
        Driver {
            tool,
            out: &mut *console.stdout,
            err: &mut *console.stderr,
            terminal,
            progress: None,
            scripts: ScriptNames::new(request.scripts.iter().map(|script| &script.name)),
            failures: ChildFailures::default(),
            planned: Vec::new(),
            heard_of: HashSet::new(),
            passes: request.runs as usize * request.variants.len(),
            compares: request.variants.len() > 1,
        }
    }

    /// Does what is the same for all drivers at an event.
    ///
    /// # Errors
    /// A stream is closed.
    pub fn follow(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Planned { benchmark, cases } => self.planned.push(PlannedScript {
                name: (*benchmark).to_owned(),
                cases: *cases,
            }),
            Event::Started { .. } => {
                if let Some(terminal) = self.terminal.take() {
                    let progress = Progress::new(&self.planned, self.passes);
                    self.progress = Some(ProgressLine::start(progress, terminal));
                }
            }
            Event::RunStarted { slot, label, .. } => {
                if let Some(script) = self.scripts.begin(*slot, label)
                    && let Some(line) = &self.progress
                {
                    line.update(|progress| progress.begin(script));
                }
            }
            Event::RunFinished(run) => {
                let script = self.scripts.of_run(run).to_owned();
                self.complete(&script);
            }
            Event::Failed(failure) => self.fail(failure)?,
            Event::Finished { interrupted } => self.finish(*interrupted)?,
            _ => {}
        }
        Ok(())
    }

    /// Writes one sentence on standard error.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn say(&mut self, sentence: &str) -> io::Result<()> {
        if let Some(line) = &self.progress {
            line.clear();
        }
        writeln!(self.err, "{}: {sentence}", self.tool)
    }

    /// Tells those who typed `test` that only `run.js` knows that word.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn pass_over_test(&mut self, words: &Words) -> io::Result<()> {
        if words.test {
            self.say("warning: the word 'test' has no meaning here")?;
        }
        Ok(())
    }

    /// Notes that an analysis was asked for, but that no case gave a result.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn lack_results(&mut self) -> io::Result<()> {
        self.say("there is nothing to analyse: no case gave a result")?;
        self.failures.note_other();
        Ok(())
    }

    fn complete(&mut self, script: &str) {
        if let Some(line) = &self.progress {
            line.update(|progress| progress.complete(script));
        }
        self.heard_of.insert(script.to_owned());
    }

    fn fail(&mut self, failure: &Failure) -> Result<()> {
        if let Some(line) = &self.progress {
            line.clear();
        }
        self.failures
            .tell(self.tool, failure, self.compares, self.err)?;
        let script = self.scripts.of_failure(failure).to_owned();
        match failure.step {
            Step::Run => self.complete(&script),
            Step::Describe => {
                self.heard_of.insert(script);
            }
        }
        Ok(())
    }

    fn finish(&mut self, interrupted: bool) -> Result<()> {
        self.failures.finish(interrupted);
        if let Some(line) = self.progress.take()
            && !interrupted
        {
            line.update(Progress::finish);
        }
        let silent: Vec<String> = self
            .planned
            .iter()
            .filter(|script| script.cases == Some(0) && !self.heard_of.contains(&script.name))
            .map(|script| script.name.clone())
            .collect();
        for script in silent {
            self.say(&format!("warning: '{script}' has no cases"))?;
        }
        Ok(())
    }
}

/// The throughput samples of a run: what the original prints a row for.
pub fn rates(run: &Run) -> impl Iterator<Item = Measured> {
    run.samples
        .iter()
        .filter(|sample| &*sample.metric == Metric::THROUGHPUT)
        .map(|sample| Measured {
            rate: sample.value,
            elapsed_ns: sample.elapsed_ns,
        })
}
