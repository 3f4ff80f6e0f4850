//! Replaces ApacheBench (ab) as a drop-in: sends an HTTP load and prints ab's report.
//!
//! Decides the order of steps and the exit status: 0 if the test completed and a request succeeded,
//! 130 after Ctrl-C, 2 otherwise. `docs/reference/ab.md` lists the differences from ab. Start at
//! [`run`].

use crate::ab::arguments::{AbCommand, AbRequest, TOOL};
use crate::ab::figures::{RequestTiming, RequestTimings, always_aborts_test};
use crate::ab::load::AbUrl;
use crate::ab::report::{AbReportContent, CutShort, format_ms};
use crate::ab::run::AbTest;
use crate::console::{DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED, local_time};
use anyhow::{Context, Result};
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same};
use speedwell_model::load::outcomes::ErrorClass;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

mod arguments;
mod figures;
mod load;
mod report;
mod run;
#[cfg(test)]
mod tests;

const USAGE: &str = include_str!("../usage/ab.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    let result = match AbCommand::parse(arguments) {
        Ok(AbCommand::Help) => return Ok(console.print_help(USAGE)?),
        Ok(AbCommand::Version) => {
            let lines = report::banner_lines().join("\n");
            return Ok(console.print_help(&format!("{lines}\n"))?);
        }
        Ok(AbCommand::Test(request)) => run_test(&request, console),
        Err(reason) => return Ok(console.reject_with_hint(TOOL, &reason, "-h")?),
    };
    console.report_failure(TOOL, result)
}

fn run_test(request: &AbRequest, console: &mut DropInConsole<'_>) -> Result<i32> {
    let url = AbUrl::parse(&request.url).map_err(anyhow::Error::msg)?;
    let body = load::read_body(request, &console.directory)?;
    let load = load::build_load(request, &url, body)?;
    check_files(request, &console.directory)?;
    let csv = open_output(request.csv.as_deref(), &console.directory)?;
    let tsv = open_output(request.tsv.as_deref(), &console.directory)?;
    if request.sets_window {
        let sentence = "'-b' has no effect: the operating system chooses the buffer sizes.";
        console.warn(TOOL, sentence)?;
    }
    speedwell_machine::process::install_handlers()?;
    let report = AbTest { request, url: &url, load }.run_test(console)?;
    match &request.html {
        Some(attributes) => report::write_html(&report, attributes, console.stdout)?,
        None => report::write_text(&report, console.stdout)?,
    }
    if let Some(reason) = report.cut_short.map(CutShort::reason) {
        writeln!(console.stderr, "{TOOL}: test aborted: {reason}")?;
        writeln!(console.stderr, "{}", abort_hint(&report))?;
    }
    let (times, began) = (report.figures.times.as_ref(), report.figures.began_epoch_ms);
    if let Some(file) = csv {
        write_percentages(times, &mut truncate_file(file)?).context("cannot write the CSV")?;
    }
    if let Some(file) = tsv {
        write_requests(times, began, request.sorts_by_total, &mut truncate_file(file)?)
            .context("cannot write the TSV")?;
    }
    Ok(exit_status(&report))
}

/// Returns the hint for a test that ended early.
fn abort_hint(report: &AbReportContent) -> &'static str {
    match report.cut_short {
        Some(CutShort::Failed(ErrorClass::TlsVerify)) => {
            "hint: '--insecure' accepts any certificate, as ab itself does"
        }
        Some(CutShort::Failed(class)) if !always_aborts_test(class) => {
            "hint: use '-r' to continue after connection errors"
        }
        _ => "hint: the figures cover the requests sent until then",
    }
}

fn exit_status(report: &AbReportContent) -> i32 {
    match report.cut_short {
        Some(CutShort::Interrupted) => EXIT_INTERRUPTED,
        Some(CutShort::Failed(_)) => EXIT_FAILED,
        None if report.figures.success_count() == 0 => EXIT_FAILED,
        None => 0,
    }
}

/// Opens a file that `-e` or `-g` names. It is opened before the test, so that an unwritable file is
/// reported early. It keeps its old contents until the test has ended.
fn open_output(path: Option<&Path>, directory: &Path) -> Result<Option<File>> {
    let Some(path) = path else { return Ok(None) };
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(directory.join(path));
    file.with_context(|| format!("cannot write '{}'", path.display())).map(Some)
}

/// Rejects output files that would replace each other or an input.
fn check_files(request: &AbRequest, directory: &Path) -> Result<()> {
    let output_options = [("-e", &request.csv), ("-g", &request.tsv)];
    let outputs: Vec<OutputFile> = (output_options.into_iter())
        .filter_map(|(option, file)| {
            let file = file.as_ref()?;
            OutputFile::new(format!("{option} {}", file.display()), &directory.join(file))
        })
        .collect();
    refuse_same(&outputs)?;
    let upload = request.upload.iter().map(|upload| &upload.file);
    for input in upload.chain(&request.identity) {
        refuse_file(&outputs, &directory.join(input))?;
    }
    Ok(())
}

fn truncate_file(mut file: File) -> io::Result<BufWriter<File>> {
    // A pipe or a device cannot be truncated, and need not be.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    Ok(BufWriter::new(file))
}

/// Writes the time within which each percentage of the requests was served.
///
/// # Errors
/// Fails if the file cannot be written.
fn write_percentages(times: Option<&RequestTimings>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Percentage served,Time in ms")?;
    if let Some(times) = times {
        for percent in 0..=100 {
            let ms = times.percentile_ns(percent) as f64 / 1e6;
            writeln!(out, "{percent},{ms:.3}")?;
        }
    }
    out.flush()
}

/// Writes one row for each request with a complete response. `began_epoch_ms` is the start of the
/// test in Unix time.
///
/// # Errors
/// Fails if the file cannot be written.
fn write_requests(
    times: Option<&RequestTimings>,
    began_epoch_ms: u64,
    sorts_by_total: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "starttime\tseconds\tctime\tdtime\tttime\twait")?;
    let mut timings: Vec<RequestTiming> = times.map_or(Vec::new(), |times| times.timings.clone());
    if sorts_by_total {
        timings.sort_by_key(|timing| timing.total_ns());
    }
    // A formatted time is reused for all following rows of the same second, because thousands of
    // requests may begin in one second.
    let mut formatted_second = (u64::MAX, String::new());
    for timing in timings {
        let epoch_s = (began_epoch_ms + timing.begun_ns / 1_000_000) / 1000;
        if formatted_second.0 != epoch_s {
            formatted_second = (epoch_s, local_time(epoch_s));
        }
        let RequestTiming { connect_ns, processing_ns, waiting_ns, .. } = timing;
        let times = [connect_ns, processing_ns, timing.total_ns(), waiting_ns].map(format_ms);
        writeln!(out, "{}\t{epoch_s}\t{}", formatted_second.1, times.join("\t"))?;
    }
    out.flush()
}
