//! Emulates erlperf: measures Erlang code and prints erlperf's tables.
//!
//! Decides the order of steps and the exit status: 0 if every snippet was measured, 2 if something
//! failed or the command line is invalid, 130 after Ctrl-C. Tables go to standard output, errors to
//! standard error. `docs/reference/erlperf.md` lists the differences from erlperf. Start at
//! [`run`].

mod arguments;
mod monitor;
mod sampling;
mod snippet;
pub mod style;
mod table;
mod vms;
mod warnings;

use self::arguments::{ErlperfCommand, ErlperfRequest};
use self::sampling::{SampledSnippets, SnippetSamples, SqueezeOutcome, SqueezePass};
use self::snippet::ErlangSnippet;
use self::style::SystemDescription;
use self::table::{
    ReportDetail, SnippetLine, SnippetTable, format_duration, format_number, to_single_line,
};
use self::vms::ErlangMachines;
use crate::console::{DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED};
use anyhow::{Context, Result, ensure};
use speedwell_machine::environment;
use speedwell_machine::process;
use speedwell_report::snippet::hindrance_note;
use speedwell_report::{OutputOptions, ReportFormat, Verbosity, print_document};
use std::io::Write;
use std::path::{Path, PathBuf};

const TOOL: &str = "erlperf";
const USAGE: &str = include_str!("../usage/erlperf.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    let result = match ErlperfCommand::parse(arguments) {
        Ok(ErlperfCommand::Help) => return Ok(console.print_help(USAGE)?),
        Ok(ErlperfCommand::Measure(request)) => measure_snippets(&request, console),
        Err(reason) => return Ok(console.reject_with_hint(TOOL, &reason, "--help")?),
    };
    console.report_failure(TOOL, result)
}

fn measure_snippets(request: &ErlperfRequest, console: &mut DropInConsole<'_>) -> Result<i32> {
    let paths: Vec<PathBuf> = request
        .paths
        .iter()
        .map(|path| resolve_folder(path, &console.directory))
        .collect::<Result<_>>()?;
    let snippets: Vec<ErlangSnippet> = request
        .snippets
        .iter()
        .map(|snippet| snippet::parse_snippet(snippet, &paths, &console.directory))
        .collect::<Result<_, String>>()
        .map_err(anyhow::Error::msg)?;
    process::adopt_orphans();
    process::install_handlers()?;
    // The lines printed while measuring are for people. If the report has a format for programs,
    // these lines are discarded.
    let mut nowhere = std::io::sink();
    let out: &mut dyn Write = match request.format {
        ReportFormat::Text => &mut *console.stdout,
        _ => &mut nowhere,
    };
    let mut machines = ErlangMachines::start_all(request, snippets, &console.directory, out)?;
    let results = match request.squeeze {
        None => ErlperfResults::from_samples(&mut machines, request, out)?,
        Some(search) => {
            let stderr = &mut *console.stderr;
            let mut report = |pass: &SqueezePass| match format_pass(pass, request) {
                Some(line) => writeln!(stderr, "{TOOL}: {line}"),
                None => Ok(()),
            };
            let squeezed =
                sampling::search_workers(&mut machines, request, search, out, &mut report)?;
            ErlperfResults::from_squeeze(&machines, squeezed)
        }
    };
    machines.stop_all();
    let ready = machines.ready.take();
    results.print_results(
        request,
        &machines,
        &SystemDescription::from_ready(ready.as_ref(), None),
        console,
    )?;
    let failed = report_faults(&machines, console)?;
    Ok(match (process::is_interrupt_requested(), failed) {
        (true, _) => EXIT_INTERRUPTED,
        (false, true) => EXIT_FAILED,
        (false, false) => 0,
    })
}

/// Resolves a folder given with `-pa` to an absolute path.
fn resolve_folder(path: &str, directory: &Path) -> Result<PathBuf> {
    let absolute = directory
        .join(path)
        .canonicalize()
        .with_context(|| format!("cannot add '{path}' of -pa to the code path"))?;
    ensure!(absolute.is_dir(), "cannot add '{path}' of -pa to the code path: not a folder");
    Ok(absolute)
}

/// Results of all snippets.
struct ErlperfResults {
    sampled: SampledSnippets,
    /// Passes of a search for the best number of workers; empty without `-q`.
    passes: Vec<SqueezePass>,
    /// Hint that the workers of a search block each other, if they do.
    hindrance: Option<String>,
}

impl ErlperfResults {
    fn from_samples(
        machines: &mut ErlangMachines,
        request: &ErlperfRequest,
        out: &mut dyn Write,
    ) -> Result<ErlperfResults> {
        let jobs: Vec<usize> = (0..machines.jobs.len()).collect();
        for job in &jobs {
            machines.set_workers(*job, request.workers, out)?;
        }
        Ok(ErlperfResults {
            sampled: sampling::take_samples(machines, &jobs, request, out)?,
            passes: Vec::new(),
            hindrance: None,
        })
    }

    fn from_squeeze(machines: &ErlangMachines, squeezed: SqueezeOutcome) -> ErlperfResults {
        let best = squeezed.best.map(|index| squeezed.passes[index].samples.clone());
        let mut by_snippet = vec![SnippetSamples::default(); machines.jobs.len()];
        by_snippet[0] = best.unwrap_or_default();
        ErlperfResults {
            sampled: SampledSnippets { by_snippet, is_steady: true },
            passes: squeezed.passes,
            hindrance: squeezed.scaling.and_then(|scaling| hindrance_note("erlang", &scaling)),
        }
    }

    /// Prints the table, and warnings about it; prints nothing if no snippet has figures.
    fn print_results(
        &self,
        request: &ErlperfRequest,
        machines: &ErlangMachines,
        system: &SystemDescription,
        console: &mut DropInConsole<'_>,
    ) -> Result<()> {
        let measured = machines.jobs.iter().zip(&self.sampled.by_snippet);
        let lines = measured.map(|(job, samples)| SnippetLine {
            label: job.parsed.label.clone(),
            workers: job.workers.max(samples.workers * u32::from(!self.passes.is_empty())),
            // A snippet that failed midway shows no figures, because its samples are incomplete.
            figures: samples.net_figures(request, job.empty_ns).filter(|_| job.is_measurable()),
        });
        let mut lines: Vec<SnippetLine> = lines.collect();
        if let (Some(line), false) = (lines.first_mut(), self.passes.is_empty()) {
            line.workers = self.sampled.by_snippet[0].workers;
            // The passes that a search completed before an error stay valid.
            let samples = &self.sampled.by_snippet[0];
            line.figures = samples.net_figures(request, machines.jobs[0].empty_ns);
        }
        let table = SnippetTable::from_unsorted(sampling::sample_unit(request), lines);
        let mut messages = warnings::sample_warnings(&machines.jobs, &self.sampled, request);
        messages.extend(self.hindrance.clone());
        messages.extend(warnings::table_warnings(&table, request));
        if table.lines.iter().all(|line| line.figures.is_none()) {
            return Ok(());
        }
        let mut system = system.clone();
        system.warnings.extend(warnings::timer_warning(&self.sampled, request));
        match request.format {
            ReportFormat::Text => write_text(&table, request.report_detail(), &system, console)?,
            format => {
                let passes = self.passes.iter();
                let passes: Vec<SnippetLine> =
                    passes.filter_map(|pass| pass_line(pass, request)).collect();
                let warnings = [&system.warnings[..], &messages[..]].concat();
                let document = table::build_document(&table, &passes, &warnings);
                print_document(&document, &output_options(format), console.stdout)?;
            }
        }
        console.stdout.flush()?;
        for message in messages {
            console.warn(TOOL, &message)?;
        }
        Ok(())
    }
}

fn output_options(format: ReportFormat) -> OutputOptions {
    OutputOptions {
        format: Some(format),
        verbosity: Verbosity::Verbose,
        ..OutputOptions::default()
    }
}

fn write_text(
    table: &SnippetTable,
    detail: ReportDetail,
    system: &SystemDescription,
    console: &mut DropInConsole<'_>,
) -> Result<()> {
    for warning in &system.warnings {
        writeln!(console.stdout, "{warning}")?;
    }
    let processor = || environment::capture_environment(&[]).cpu;
    let system = SystemDescription {
        processor: (detail == ReportDetail::Full).then(processor).flatten(),
        ..system.clone()
    };
    let is_terminal = console.stdout_is_terminal;
    Ok(system.write_table(table, detail, is_terminal, console.stdout)?)
}

/// Converts one pass of a search to a row; `None` if the pass has no samples.
fn pass_line(pass: &SqueezePass, request: &ErlperfRequest) -> Option<SnippetLine> {
    Some(SnippetLine {
        label: format!("{} workers", pass.workers),
        workers: pass.workers,
        figures: Some(pass.samples.net_figures(request, None)?),
    })
}

/// Formats one pass for progress output during a search.
fn format_pass(pass: &SqueezePass, request: &ErlperfRequest) -> Option<String> {
    let line = pass_line(pass, request)?;
    let (figures, statistics) = line.figures_with_statistics()?;
    let samples = figures.samples.iter().map(|sample| format_number(*sample));
    let samples: Vec<String> = samples.collect();
    Some(format!(
        "{} worker{}: {} ({}), {}",
        pass.workers,
        if pass.workers == 1 { "" } else { "s" },
        format_number(statistics.average),
        samples.join(" "),
        format_duration(figures.iteration_ns)
    ))
}

/// Reports the errors of each snippet; returns whether there were any.
fn report_faults(machines: &ErlangMachines, console: &mut DropInConsole<'_>) -> Result<bool> {
    console.stdout.flush()?;
    let mut failed = false;
    for job in &machines.jobs {
        for fault in &job.faults {
            failed = true;
            writeln!(console.stderr, "{TOOL}: '{}': {fault}", to_single_line(&job.parsed.label))?;
            if job.parsed.lacks_dot && fault.reason.starts_with("parse error for runner") {
                let name = &job.parsed.shown;
                writeln!(
                    console.stderr,
                    "hint: end Erlang code with a period (dot), or check the file name: no file \
                     '{name}' with recorded calls exists"
                )?;
            }
        }
    }
    Ok(failed)
}
