//! Defines the options for the destination and format of results.

use crate::{output_files, status};
use clap::{Args, ValueEnum};
use speedwell_report::{
    self as report, ChartKind, Document, OutputOptions, ReportFormat, ReportSubject, UnitChoice,
    Verbosity,
};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Output options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Also write to this file: report.html, chart.svg (repeatable)
    ///
    /// The extension determines the format: html, txt, md, csv, json, svg or png.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// Format on stdout: text, md, csv, json or html
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Chart to draw, e.g. box
    ///
    /// One of box, scatter, line, bar, forest, histogram, flame and trend.
    #[arg(long, value_name = "KIND")]
    pub chart: Option<ChartKind>,
    /// Unit of the values, e.g. 1/s, k/s, ns, ms
    #[arg(long, value_name = "U")]
    pub unit: Option<UnitChoice>,
    /// Sort by this column, largest first; '-NAME': smallest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Print only the answer; the last of '-q' and '-v' counts
    #[arg(short = 'q', long, overrides_with = "verbose")]
    pub quiet: bool,
    /// Print all details
    #[arg(short = 'v', long, overrides_with = "quiet")]
    pub verbose: bool,
    /// When to use colors: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Hide the progress line
    #[arg(long)]
    pub no_progress: bool,
}

/// When to use a terminal feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl OutputArgs {
    /// Returns the settings for reports.
    pub fn report_settings(&self) -> OutputOptions {
        let terminal = std::io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        OutputOptions {
            files: self.output.clone(),
            format: self.output_format(),
            unit: self.unit,
            color: match self.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => terminal && !no_color,
            },
            width: terminal.then(crate::status_line::terminal_width),
            chart: self.chart,
            flames: false,
            sort: self.sort.clone(),
            verbosity: match (self.quiet, self.verbose) {
                (true, _) => Verbosity::Quiet,
                (_, true) => Verbosity::Verbose,
                _ => Verbosity::Normal,
            },
        }
    }

    /// Returns the format of standard output, if one was requested.
    pub fn output_format(&self) -> Option<ReportFormat> {
        self.format.or(self.json.then_some(ReportFormat::Json))
    }

    /// Checks, before measuring, that the report can be written.
    ///
    /// # Errors
    /// Fails if the sort column is unknown, the chart does not suit the report, or a file cannot be
    /// written.
    pub fn check_report(&self, subject: ReportSubject) -> anyhow::Result<()> {
        report::check_output(&self.report_settings(), subject)
    }

    /// Rejects inputs that a file given with `-o` would overwrite.
    ///
    /// # Errors
    /// Fails if there is such an input.
    pub fn check_inputs<'p>(
        &self,
        inputs: impl IntoIterator<Item = &'p Path>,
    ) -> anyhow::Result<()> {
        output_files::check_inputs(&self.output, inputs)
    }

    /// Prints a document and reports which files were written.
    ///
    /// # Errors
    /// Fails if a file has an unknown kind or cannot be written.
    pub fn print_document(&self, document: &Document) -> anyhow::Result<()> {
        let files = report::print_document(
            document,
            &self.report_settings(),
            &mut std::io::stdout().lock(),
        )?;
        for file in files {
            if !self.quiet {
                let description =
                    file.shows.map(|description| format!(" ({description})")).unwrap_or_default();
                status::print_note(&format!("wrote '{}'{description}", file.path.display()));
            }
        }
        Ok(())
    }

    /// Whether to show a progress line.
    pub fn shows_progress(&self) -> bool {
        !self.no_progress && !self.quiet && std::io::stderr().is_terminal()
    }
}
