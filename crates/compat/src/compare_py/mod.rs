//! Drop-in for google/benchmark's `compare.py`: the changes between two results, or two programs.
//!
//! Decides the order of steps and the exit status: 0 if something was compared, else 2.
//! `compare_py/figures/mod.rs` computes the figures. Differences from the original:
//! `docs/reference/compare-py.md`. Start at [`run`].

mod arguments;
mod figures;
mod remarks;
mod side;
mod sources;
mod table;

use self::arguments::{Color, Command, Request, TOOL};
use self::figures::{Rules, UTestTable, u_test_table};
use self::remarks::Remarks;
use self::side::{Choice, Filter, Side};
use self::sources::{FILTER, Sources};
use self::table::Table;
use crate::console::{COULD_NOT, Console};
use anyhow::{Context, Result};
use speedwell_report::{visible, visible_line};
use speedwell_results::foreign::google_benchmark::Results;
use std::fs::File;
use std::io::BufWriter;

const USAGE: &str = include_str!("../usage/compare.py.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    let done = match Command::parse(arguments) {
        Ok(Command::Help) => return Ok(console.help(USAGE)?),
        Ok(Command::Nothing) => {
            console.help(USAGE)?;
            return Ok(COULD_NOT);
        }
        Ok(Command::Compare(request)) => compare(&request, console),
        Err(reason) => return Ok(console.refuse_with_hint(TOOL, &reason, "--help")?),
    };
    console.tell_failure(TOOL, done)
}

fn compare(request: &Request, console: &mut Console<'_>) -> Result<i32> {
    let comparison = Comparison::new(request)?;
    let sources = match Sources::gather(request, console)? {
        Ok(sources) => sources,
        Err(status) => return Ok(status),
    };
    let read = |label: &String| format!("cannot compare '{label}'");
    let first = sources.first.results();
    let first = first.with_context(|| read(&sources.labels[0]))?;
    let second = match &sources.second {
        Some(file) => file.results().with_context(|| read(&sources.labels[1]))?,
        None => Results {
            context: first.context.clone(),
            entries: first.entries.clone(),
        },
    };
    comparison.show(&sources, [first, second], console)
}

/// Settings of a comparison and of its output.
struct Comparison<'q> {
    request: &'q Request,
    /// Filters of the mode, and the text that replaces their matches.
    filters: Option<([Filter; 2], String)>,
    /// Filter passed on to the programs; it applies to files, too.
    passed: Option<Filter>,
    rules: Rules,
}

impl<'q> Comparison<'q> {
    fn new(request: &'q Request) -> Result<Comparison<'q>> {
        let filters = match request.both_filters() {
            Some([one, other]) => {
                let common = format!("[{one} vs. {other}]");
                Some(([Filter::new(one)?, Filter::new(other)?], common))
            }
            None => None,
        };
        let passed = request.passed_value(FILTER).map(|filter| {
            if request.strict {
                Filter::new(filter)
            } else {
                Filter::of_programs(filter)
            }
        });
        Ok(Comparison {
            request,
            filters,
            passed: passed.transpose()?,
            rules: if request.strict {
                Rules::Original
            } else {
                Rules::Sound
            },
        })
    }

    /// Prints the table and all messages.
    fn show(
        &self,
        sources: &Sources,
        results: [Results<'_>; 2],
        console: &mut Console<'_>,
    ) -> Result<i32> {
        for sentence in self.on_files(&results, &sources.labels) {
            console.warn(TOOL, &sentence)?;
        }
        let [first, second] = results;
        let sides = [
            Side::new(first.entries, &self.choice(0, sources.are_programs[0])),
            Side::new(second.entries, &self.choice(1, sources.are_programs[1])),
        ];
        let tests = self.request.tests;
        let figures = u_test_table(&sides[0].entries, &sides[1].entries, tests, self.rules);
        let shown = self.print(&figures, sources, console)?;
        self.remark(&figures, &sides, sources, console)?;
        if let Some(path) = &self.request.dump {
            let path = console.directory.join(path);
            let written = File::create(&path)
                .and_then(|file| table::dump(&figures, &mut BufWriter::new(file)));
            written.with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        if shown > 0 || self.request.strict {
            return Ok(0);
        }
        let reason = self.why_nothing(&figures, &sides, sources);
        console.stdout.flush()?;
        let reason = visible(&reason);
        writeln!(console.stderr, "{TOOL}: nothing compared: {reason}")?;
        Ok(COULD_NOT)
    }

    /// Returns which entries of a side are compared, and under which names.
    fn choice(&self, side: usize, is_program: bool) -> Choice<'_> {
        let renamed = self.filters.as_ref();
        let renamed = renamed.map(|(filters, common)| (&filters[side], common.as_str()));
        let of_file = renamed.map(|(filter, _)| filter).or(self.passed.as_ref());
        Choice {
            of_file: of_file.filter(|_| !is_program),
            renamed,
        }
    }

    /// Prints the table and the lines below it; returns the number of rows.
    fn print(
        &self,
        figures: &UTestTable<'_>,
        sources: &Sources,
        console: &mut Console<'_>,
    ) -> Result<usize> {
        let [one, other] = &sources.labels;
        let what = match &self.request.filters {
            None => format!("{one} to {other}"),
            Some([old, new]) if self.request.is_one_input => format!("{old} to {new} (from {one})"),
            Some([old, new]) => format!("{old} (from {one}) to {new} (from {other})"),
        };
        writeln!(console.stdout, "Comparing {}", visible_line(&what))?;
        let table = Table {
            figures,
            aggregates_only: self.request.aggregates_only,
            alpha: self.request.alpha,
            colors: self.has_colors(console),
            rules: self.rules,
        };
        Ok(table.write(console.stdout)?)
    }

    fn has_colors(&self, console: &Console<'_>) -> bool {
        let is_wanted = (console.variable)("NO_COLOR").is_none_or(|value| value.is_empty());
        match self.request.color {
            Color::Unsaid => is_wanted,
            Color::Auto => is_wanted && console.stdout_is_terminal,
            Color::Always => true,
            Color::Never => false,
        }
    }

    /// Prints the lines below the table, and messages on standard error.
    fn remark(
        &self,
        figures: &UTestTable<'_>,
        sides: &[Side<'_>; 2],
        sources: &Sources,
        console: &mut Console<'_>,
    ) -> Result<()> {
        let remarks = Remarks {
            labels: sources.labels.each_ref().map(String::as_str),
            table: figures,
        };
        for line in remarks.without_result() {
            writeln!(console.stdout, "{line}")?;
        }
        console.stdout.flush()?;
        if let Some((filters, _)) = &self.filters {
            for (side, filter) in sides.iter().zip(filters) {
                if let Some(sentence) = remarks::on_merging(side, filter.text()) {
                    console.warn(TOOL, &sentence)?;
                }
            }
        }
        // A side without entries is reported as the reason why nothing was compared.
        if sides.iter().all(|side| !side.entries.is_empty()) {
            for sentence in remarks.sentences() {
                console.warn(TOOL, &sentence)?;
            }
        }
        Ok(())
    }

    /// Returns messages about problems in the files that distort the figures.
    fn on_files(&self, results: &[Results<'_>; 2], labels: &[String; 2]) -> Vec<String> {
        let mut sentences = Vec::new();
        for (results, label) in results.iter().zip(labels) {
            let remarks = results.remarks().into_iter();
            sentences.extend(remarks.map(|remark| format!("'{label}': {remark}")));
        }
        sentences.extend(remarks::on_circumstances(
            results.each_ref().map(|side| &side.context),
        ));
        if self.request.filters.is_some() && self.filters.is_none() {
            sentences.push("a filter is empty, so neither is used".to_owned());
        }
        sentences.dedup();
        sentences
    }

    fn why_nothing(
        &self,
        figures: &UTestTable<'_>,
        sides: &[Side<'_>; 2],
        sources: &Sources,
    ) -> String {
        for (at, label) in sources.labels.iter().enumerate() {
            if sides[at].entries.is_empty() {
                let filter = self.choice(at, false);
                let filter = filter.of_file.map(|filter| filter.text().to_owned());
                return match filter {
                    Some(filter) => format!("no name in '{label}' matches '{filter}'"),
                    None => format!("there are no benchmarks in '{label}'"),
                };
            }
        }
        if figures.rows.is_empty() {
            return if figures.without_result.iter().all(Vec::is_empty) {
                "no benchmark with times is on both sides".to_owned()
            } else {
                "what both sides have failed or was skipped".to_owned()
            };
        }
        "there are no aggregates\nhint: measure with --benchmark_repetitions=N, or leave -a out"
            .to_owned()
    }
}
