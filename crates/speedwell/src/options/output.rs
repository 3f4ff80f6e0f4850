//! Defines the options for the destination and format of results. Rejects command lines in which an
//! output would replace an input or another output ([`check_outputs`]).
//!
//! The module lists the options that name outputs. Any other argument that names an existing file
//! counts as an input. [`OutputArgs::check_inputs`] checks inputs that are known only once
//! definition files have been read.

use crate::status;
use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same, refuse_word};
use speedwell_machine::environment::env_variable;
use speedwell_report::{
    self as report, ChartKind, ChartRequest, Document, OutputOptions, ReportFormat, ReportSubject,
    UnitChoice, Verbosity,
};
use speedwell_store::{Store, sibling_path};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Output options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Also write a file: .html .txt .md .csv .json .svg .png
    ///
    /// Repeatable; the extension determines the format.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// Format on stdout: text, md, csv, json or html
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Chart to draw, e.g. box; all: every chart, not only the main one
    ///
    /// One of box, scatter, line, bar, forest, histogram, flame, trend and all. Without this option,
    /// a picture file shows the main chart of the report.
    #[arg(long, value_name = "KIND")]
    pub chart: Option<ChartRequest>,
    /// Unit of the values, e.g. 1/s, k/s, ns, ms
    #[arg(long, value_name = "U")]
    pub unit: Option<UnitChoice>,
    /// Sort by this column, largest first; '-NAME': smallest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Print only the answer; of '-q' and '-v' the last wins
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

/// When to use colors.
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
            width: terminal.then(status::terminal_width),
            chart: self.chart_kind(),
            all_charts: self.chart == Some(ChartRequest::All),
            sort: self.sort.clone(),
            verbosity: match (self.quiet, self.verbose) {
                (true, _) => Verbosity::Quiet,
                (_, true) => Verbosity::Verbose,
                _ => Verbosity::Normal,
            },
            ..OutputOptions::default()
        }
    }

    /// Returns the kind of chart, if one was requested.
    pub fn chart_kind(&self) -> Option<ChartKind> {
        match self.chart {
            Some(ChartRequest::Kind(kind)) => Some(kind),
            Some(ChartRequest::All) | None => None,
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
    pub fn check_report(&self, subject: ReportSubject) -> Result<()> {
        report::check_output(&self.report_settings(), subject)
    }

    /// Rejects inputs that a file given with `-o` would overwrite.
    ///
    /// # Errors
    /// Fails if there is such an input.
    pub fn check_inputs<'p>(&self, inputs: impl IntoIterator<Item = &'p Path>) -> Result<()> {
        let typed = |file: &PathBuf| OutputFile::new(format!("-o {}", file.display()), file);
        let outputs = self.output.iter().filter_map(typed).map(OutputFile::numbered);
        let outputs: Vec<OutputFile> = outputs.collect();
        if outputs.is_empty() {
            return Ok(());
        }
        inputs.into_iter().try_for_each(|input| refuse_file(&outputs, input))
    }

    /// Prints a document and reports which files were written.
    ///
    /// # Errors
    /// Fails if a file has an unknown kind or cannot be written.
    pub fn print_document(&self, document: &Document) -> Result<()> {
        self.print_with(document, &self.report_settings())
    }

    /// Does the same as [`OutputArgs::print_document`] with other settings.
    ///
    /// # Errors
    /// Fails if a file has an unknown kind or cannot be written.
    pub fn print_with(&self, document: &Document, settings: &OutputOptions) -> Result<()> {
        let files = report::print_document(document, settings, &mut std::io::stdout().lock())?;
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

/// Whether people read this format of standard output. They see answers and the gate's line first.
pub fn is_for_people(format: Option<ReportFormat>) -> bool {
    matches!(format, None | Some(ReportFormat::Text | ReportFormat::Markdown))
}

/// Options that name a file to write. With several charts or HTTP loads, further files get numbers:
/// `a.svg`, `a-2.svg`.
const OUTPUT_OPTIONS: [&str; 4] = ["output", "hdr", "log_requests", "spool"];

/// The option that names the database, which commands read and write.
const DATABASE: &str = "db";

/// Placeholders in help texts for values that are not files.
const NOT_FILES: [&str; 13] = [
    "NAME", "RE", "N", "DUR", "PCT", "WHEN", "FORMAT", "KIND", "U", "COLUMN", "RULE", "URL", "REV",
];

/// Rejects a command line in which an output would replace an input, or another output.
///
/// # Errors
/// Fails if there are such files.
pub fn check_outputs(command: &clap::Command, matches: &ArgMatches) -> Result<()> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, inner_matches)) = matches.subcommand() {
        let Some(subcommand) = command.find_subcommand(name) else { break };
        (command, matches) = (subcommand, inner_matches);
    }
    let files = outputs(command, matches);
    if files.is_empty() {
        return Ok(());
    }
    let database = database_path(command, matches);
    refuse_same(&files)?;
    for output in &files {
        if let Some(database) = &database
            && database_files(database).any(|file| output.writes(&file))
        {
            bail!(
                "'{}' would replace the database '{}'\nhint: name another file",
                output.words(),
                database.display()
            );
        }
    }
    for argument in input_arguments(command, matches) {
        refuse_word(&files, &argument, Path::new(""))?;
    }
    Ok(())
}

/// Lists the files to write, in the order of the options. If there are any, adds standard output,
/// which may be redirected to a file.
fn outputs(command: &clap::Command, matches: &ArgMatches) -> Vec<OutputFile> {
    let mut outputs = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if !OUTPUT_OPTIONS.contains(&id) {
            continue;
        }
        let option = match (argument.get_short(), argument.get_long()) {
            (Some(short), _) => format!("-{short}"),
            (_, Some(long)) => format!("--{long}"),
            _ => continue,
        };
        let typed = |value: &String| OutputFile::new(format!("{option} {value}"), Path::new(value));
        let values = typed_values(matches, id);
        outputs.extend(values.iter().filter_map(typed).map(OutputFile::numbered));
    }
    if !outputs.is_empty() {
        outputs.extend(OutputFile::new("standard output", Path::new("/dev/stdout")));
    }
    outputs
}

/// Returns the location of the database, or `None` if the command uses no database.
fn database_path(command: &clap::Command, matches: &ArgMatches) -> Option<PathBuf> {
    let mut arguments = command.get_arguments();
    arguments.find(|argument| argument.get_id() == DATABASE)?;
    let typed = typed_values(matches, DATABASE).into_iter().next();
    let explicit =
        typed.map(PathBuf::from).or_else(|| env_variable("SPEEDWELL_DB").map(PathBuf::from));
    Some(Store::locate(explicit.as_deref(), &std::env::current_dir().ok()?))
}

/// Returns the database file and SQLite's auxiliary files.
fn database_files(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"].into_iter().map(move |suffix| sibling_path(path, suffix))
}

/// Returns the arguments that may name files to read.
fn input_arguments(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let arguments = command.get_arguments().filter(|argument| {
        let id = argument.get_id().as_str();
        let placeholders = argument.get_value_names().unwrap_or_default();
        let is_file = !placeholders.iter().all(|name| NOT_FILES.contains(&name.as_str()));
        is_file && id != DATABASE && !OUTPUT_OPTIONS.contains(&id)
    });
    arguments.flat_map(|argument| typed_values(matches, argument.get_id().as_str())).collect()
}

/// Returns the typed values of an option. Ignores the default value.
fn typed_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let is_typed =
        matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    let raw = matches.try_get_raw(id).ok().flatten().filter(|_| is_typed);
    raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}
