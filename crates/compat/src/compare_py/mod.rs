//! Replaces google/benchmark's `compare.py` as a drop-in: prints the changes between two result
//! files or two programs.
//!
//! Decides the order of steps and the exit status: 0 if something was compared, 130 after Ctrl-C, 2
//! otherwise. With `--strict-compat`, the status is 0 even if no row was compared.
//! `compare_py/figures/mod.rs` computes the figures. `docs/reference/compare-py.md` lists the
//! differences from `compare.py`. Start at [`run`].

mod arguments;
mod figures;
mod sources;
mod table;

use crate::compare_py::arguments::{ColorMode, ComparePyCommand, ComparePyRequest, TOOL};
use crate::compare_py::figures::{
    ComparedSide, ComparisonRules, EntryChoice, NameFilter, UTestTable, compare_entries,
};
use crate::compare_py::sources::{ComparedSources, FILTER_FLAG};
use crate::compare_py::table::ComparisonTable;
use crate::console::{DropInConsole, EXIT_FAILED};
use anyhow::{Context, Result};
use speedwell_formats::foreign::google_benchmark::FileEntries;
use speedwell_report::{escape_controls, escape_line};
use std::fs::File;
use std::io::BufWriter;

const USAGE: &str = include_str!("../usage/compare.py.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    let result = match ComparePyCommand::parse(arguments) {
        Ok(ComparePyCommand::Help) => return Ok(console.print_help(USAGE)?),
        Ok(ComparePyCommand::Nothing) => {
            console.print_help(USAGE)?;
            return Ok(EXIT_FAILED);
        }
        Ok(ComparePyCommand::Compare(request)) => run_comparison(&request, console),
        Err(reason) => return Ok(console.reject_with_hint(TOOL, &reason, "--help")?),
    };
    console.report_failure(TOOL, result)
}

fn run_comparison(request: &ComparePyRequest, console: &mut DropInConsole<'_>) -> Result<i32> {
    let filters = match request.both_filters() {
        Some([baseline, contender]) => {
            let common_name = format!("[{baseline} vs. {contender}]");
            Some(([NameFilter::new(baseline)?, NameFilter::new(contender)?], common_name))
        }
        None => None,
    };
    let (read_filter, rules): (fn(&str) -> Result<NameFilter>, _) = if request.strict {
        (NameFilter::new, ComparisonRules::Original)
    } else {
        (NameFilter::from_program_option, ComparisonRules::Sound)
    };
    let passed = request.passed_value(FILTER_FLAG).map(read_filter).transpose()?;
    let sources = match ComparedSources::open_sides(request, console)? {
        Ok(sources) => sources,
        Err(status) => return Ok(status),
    };
    let read = |label: &String| format!("cannot compare '{label}'");
    let first = (sources.first.parse_entries()).with_context(|| read(&sources.labels[0]))?;
    let second = match &sources.second {
        Some(file) => file.parse_entries().with_context(|| read(&sources.labels[1]))?,
        None => FileEntries { context: first.context.clone(), entries: first.entries.clone() },
    };
    let comparison = ComparePyRun { request, sources: &sources, filters, passed, rules };
    comparison.print_comparison([first, second], console)
}

/// Settings of a comparison and of its output.
struct ComparePyRun<'q> {
    request: &'q ComparePyRequest,
    sources: &'q ComparedSources,
    /// Filters that the modes `filters` and `benchmarksfiltered` require, and the string that
    /// replaces their matches in names.
    filters: Option<([NameFilter; 2], String)>,
    /// Filter among the options for the programs. It is also applied to result files.
    passed: Option<NameFilter>,
    rules: ComparisonRules,
}

impl ComparePyRun<'_> {
    /// Prints the table and all messages.
    fn print_comparison(
        &self,
        results: [FileEntries<'_>; 2],
        console: &mut DropInConsole<'_>,
    ) -> Result<i32> {
        for message in self.file_warnings(&results) {
            console.warn(TOOL, &message)?;
        }
        let [first, second] = results;
        let [is_first_program, is_second_program] = self.sources.are_programs;
        let sides = [
            ComparedSide::new(first.entries, &self.entry_choice(0, is_first_program)),
            ComparedSide::new(second.entries, &self.entry_choice(1, is_second_program)),
        ];
        let tests = self.request.tests;
        let figures = compare_entries(&sides[0].entries, &sides[1].entries, tests, self.rules);
        let row_count = self.print_table(&figures, console)?;
        self.print_remarks(&figures, &sides, console)?;
        if let Some(path) = &self.request.dump {
            let path = console.directory.join(path);
            let result = File::create(&path)
                .and_then(|file| table::write_json(&figures, &mut BufWriter::new(file)));
            result.with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        if row_count > 0 || self.request.strict {
            return Ok(0);
        }
        console.stdout.flush()?;
        let reason = self.explain_empty(&figures, &sides);
        writeln!(console.stderr, "{TOOL}: nothing compared: {}", escape_controls(&reason))?;
        Ok(EXIT_FAILED)
    }

    /// Returns which entries of a side are compared, and under which names.
    fn entry_choice(&self, side: usize, is_program: bool) -> EntryChoice<'_> {
        let renamed = (self.filters.as_ref())
            .map(|(filters, common_name)| (&filters[side], common_name.as_str()));
        let file_filter = renamed.map(|(filter, _)| filter).or(self.passed.as_ref());
        EntryChoice { file_filter: file_filter.filter(|_| !is_program), renamed }
    }

    /// Prints the heading line and the table; returns the number of rows.
    fn print_table(
        &self,
        figures: &UTestTable<'_>,
        console: &mut DropInConsole<'_>,
    ) -> Result<usize> {
        let [baseline, contender] = &self.sources.labels;
        let subject = match &self.request.filters {
            None => format!("{baseline} to {contender}"),
            Some([old, new]) if self.request.is_one_input => {
                format!("{old} to {new} (from {baseline})")
            }
            Some([old, new]) => format!("{old} (from {baseline}) to {new} (from {contender})"),
        };
        writeln!(console.stdout, "Comparing {}", escape_line(&subject))?;
        let table = ComparisonTable {
            figures,
            request: self.request,
            colors: self.has_colors(console),
            rules: self.rules,
        };
        Ok(table.write(console.stdout)?)
    }

    fn has_colors(&self, console: &DropInConsole<'_>) -> bool {
        let are_allowed = (console.variable)("NO_COLOR").is_none_or(|value| value.is_empty());
        match self.request.color {
            ColorMode::Unsaid => are_allowed,
            ColorMode::Auto => are_allowed && console.stdout_is_terminal,
            ColorMode::Always => true,
            ColorMode::Never => false,
        }
    }

    /// Prints the lines below the table, and messages on standard error.
    fn print_remarks(
        &self,
        figures: &UTestTable<'_>,
        sides: &[ComparedSide<'_>; 2],
        console: &mut DropInConsole<'_>,
    ) -> Result<()> {
        let labels = self.sources.labels.each_ref().map(String::as_str);
        for line in table::resultless_lines(labels, figures) {
            writeln!(console.stdout, "{line}")?;
        }
        console.stdout.flush()?;
        if let Some((filters, _)) = &self.filters {
            for (side, filter) in sides.iter().zip(filters) {
                if let Some(message) = table::merge_warning(side, &filter.text) {
                    console.warn(TOOL, &message)?;
                }
            }
        }
        // If a side has no entries, `explain_empty` reports this as the reason why nothing was
        // compared.
        if sides.iter().all(|side| !side.entries.is_empty()) {
            for message in table::warning_sentences(labels, figures) {
                console.warn(TOOL, &message)?;
            }
        }
        Ok(())
    }

    /// Returns messages about problems in the files that distort the figures.
    fn file_warnings(&self, results: &[FileEntries<'_>; 2]) -> Vec<String> {
        let mut messages = Vec::new();
        for (results, label) in results.iter().zip(&self.sources.labels) {
            let remarks = results.remarks().into_iter();
            messages.extend(remarks.map(|remark| format!("'{label}': {remark}")));
        }
        messages.extend(table::environment_warning(results.each_ref().map(|side| &side.context)));
        if self.request.filters.is_some() && self.filters.is_none() {
            messages.push("one filter is empty, so neither filter is used".to_owned());
        }
        messages.dedup();
        messages
    }

    fn explain_empty(&self, figures: &UTestTable<'_>, sides: &[ComparedSide<'_>; 2]) -> String {
        if let Some(side) = sides.iter().position(|side| side.entries.is_empty()) {
            let label = &self.sources.labels[side];
            return match self.entry_choice(side, false).file_filter {
                Some(filter) => filter.explain_none(label),
                None => format!("'{label}' has no benchmarks"),
            };
        }
        let have_failed = figures.without_result.iter().any(|entries| !entries.is_empty());
        let reason = if !figures.rows.is_empty() {
            "no aggregates\nhint: measure with --benchmark_repetitions=N, or omit -a"
        } else if have_failed {
            "all common benchmarks failed or were skipped"
        } else {
            "the sides have no common benchmark with times"
        };
        reason.to_owned()
    }
}
