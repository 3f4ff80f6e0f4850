//! Replaces ApacheBench (ab) as a drop-in: sends an HTTP load and prints ab's report.
//!
//! Decides the order of steps and the exit status: 0 if the test completed and a request succeeded,
//! 130 after Ctrl-C, 2 otherwise. `docs/reference/ab.md` lists the differences from ab. Start at
//! [`run`].
//!
//! A test first sends a single request on its own, then the load (`AbTest::run_test`). ab prints
//! every response as it arrives, so printing affects its measurement. Here, `-v` shows responses
//! after the test, and shows the body of the first response only.

use crate::ab::arguments::{AbCommand, AbRequest, TOOL};
use crate::ab::figures::{
    AbFigures, RequestTiming, RequestTimings, aborts_test, always_aborts_test,
};
use crate::ab::load::AbUrl;
use crate::ab::report::{AbReportContent, CutShort, format_ms};
use crate::console::{DATE_FORMAT, DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED, format_local};
use anyhow::{Context, Result, bail};
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same};
use speedwell_load::generator::{self, ProbeError, ProbeResponse};
use speedwell_load::http1;
use speedwell_load::load::LoadConfig;
use speedwell_machine::process;
use speedwell_model::load::latency::RequestTotals;
use speedwell_model::load::measurement::{LoadMeasurement, LoadTimeline, RequestRecord};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_report::{escape_controls, escape_line};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

mod arguments;
mod figures;
mod load;
mod report;
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
    process::install_handlers()?;
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
    for timing in timings {
        let epoch_s = (began_epoch_ms + timing.begun_ns / 1_000_000) / 1000;
        let RequestTiming { connect_ns, processing_ns, waiting_ns, .. } = timing;
        let times = [connect_ns, processing_ns, timing.total_ns(), waiting_ns].map(format_ms);
        let date = format_local(epoch_s, DATE_FORMAT);
        writeln!(out, "{date}\t{epoch_s}\t{}", times.join("\t"))?;
    }
    out.flush()
}

// Running a test: progress, the conditions that abort it, and the output of `-v`.

/// Test that is ready to run.
struct AbTest<'a> {
    request: &'a AbRequest,
    url: &'a AbUrl,
    load: LoadConfig,
}

impl<'a> AbTest<'a> {
    /// Sends all requests and prints what ab prints during a test.
    ///
    /// # Errors
    /// Fails if the test could not start, if the server negotiated a TLS version other than the one
    /// that `-f` requires, or if a console stream is closed.
    fn run_test(&self, console: &mut DropInConsole<'_>) -> Result<AbReportContent<'a>> {
        let mut progress = AbProgress::new(self.request.requests, !self.request.hides_progress);
        self.print_start(&progress, console.stdout)?;
        let kind = self.load.kinds.fill_from_row(0, 0);
        let bytes = kind.with_parts(http1::Http1Request::new)?;
        trace_request(self.request.verbosity, &bytes, console.stdout)?;
        console.stdout.flush()?;
        let probed = generator::send_probe(&self.load, process::interrupt_flag());
        let (probe, cut_short) = match probed {
            Ok(probe) => (Some(probe), None),
            Err(ProbeError::Start(error)) => return Err(error.into()),
            Err(ProbeError::Interrupted) => (None, Some(CutShort::Interrupted)),
            Err(ProbeError::Failed(class)) => (None, self.abort_reason(class)),
            Err(ProbeError::Certificate(refusal)) => {
                let message = format!("the server's certificate was rejected: {refusal}");
                writeln!(console.stderr, "{TOOL}: {message}")?;
                (None, self.abort_reason(ErrorClass::TlsVerify))
            }
        };
        self.check_version(probe.as_ref())?;
        let (measured, cut_short) = match cut_short {
            None => self.run_load(&mut progress, console)?,
            Some(reason) => (empty_measurement(reason), cut_short),
        };
        let (verbosity, is_terminal) = (self.request.verbosity, console.stdout_is_terminal);
        trace_responses(verbosity, probe.as_ref(), &measured.rows, is_terminal, console.stdout)?;
        // Flushing keeps the order of the output if both streams go to the same file.
        console.stdout.flush()?;
        let complete = completed_requests(&measured.totals.outcomes);
        progress.show_finished(complete, console.stderr)?;
        if !progress.is_enabled() {
            writeln!(console.stdout, "..done")?;
        }
        let server = probe.as_ref().and_then(|probe| probe.facts.server.as_deref());
        Ok(AbReportContent {
            request: self.request,
            url: self.url,
            server: server.map(|server| escape_line(server).into_owned()),
            figures: AbFigures::from_measured(self.request, &measured, bytes.bytes().len()),
            tls: probe.and_then(|probe| probe.facts.tls),
            cut_short,
        })
    }

    fn print_start(&self, progress: &AbProgress, out: &mut dyn Write) -> io::Result<()> {
        if self.request.html.is_some() {
            return report::write_html_banner(out);
        }
        for line in report::banner_lines() {
            writeln!(out, "{line}")?;
        }
        write!(out, "\nBenchmarking {} ", self.url.host.name)?;
        if let Some(proxy) = &self.request.proxy {
            write!(out, "[through {proxy}] ")?;
        }
        let end = if progress.is_enabled() { "\n" } else { "..." };
        write!(out, "(be patient){end}")
    }

    /// Returns the reason why the test ends early; `None` if this error does not end the test.
    fn abort_reason(&self, class: ErrorClass) -> Option<CutShort> {
        let ends_test =
            always_aborts_test(class) || (aborts_test(class) && !self.request.continues_on_errors);
        ends_test.then_some(CutShort::Failed(class))
    }

    /// Returns the reason why a test with these results so far ends early, if it does.
    fn find_cut_short(&self, counts: &OutcomeCounts) -> Option<CutShort> {
        if process::is_interrupt_requested() {
            return Some(CutShort::Interrupted);
        }
        let mut failed = ErrorClass::all_classes().filter(|class| counts.errors(*class) > 0);
        failed.find_map(|class| self.abort_reason(class))
    }

    /// Fails if the negotiated TLS version is not the version that `-f` requires. The handshake
    /// itself cannot be restricted to one version.
    fn check_version(&self, probe: Option<&ProbeResponse>) -> Result<()> {
        let negotiated = probe.and_then(|probe| probe.facts.tls.as_ref());
        match negotiated.zip(self.request.tls_version) {
            Some((tls, required)) if tls.version != required => {
                bail!("'-f' requires {required}, but the server negotiated {}", tls.version)
            }
            _ => Ok(()),
        }
    }

    fn run_load(
        &self,
        progress: &mut AbProgress,
        console: &mut DropInConsole<'_>,
    ) -> Result<(LoadMeasurement, Option<CutShort>)> {
        let stop = AtomicBool::new(false);
        let mut cut_short = None;
        let measured = generator::run(&self.load, &stop, &mut |progress_event| {
            let counts = &progress_event.so_far.outcomes;
            progress.show_completed(completed_requests(counts), console.stderr);
            cut_short = self.find_cut_short(counts);
            // With -n and -t, the load waits for its last responses, but no longer than the time
            // limit of -t.
            let limit_ns = self.request.time_s.map_or(f64::INFINITY, |seconds| seconds * 1e9);
            let is_over = progress_event.at_ns as f64 >= limit_ns;
            stop.store(is_over || cut_short.is_some(), Ordering::Relaxed);
        })?;
        // The last failures may be more recent than the last progress callback.
        let counts = &measured.totals.outcomes;
        let cut_short = match self.find_cut_short(counts) {
            Some(CutShort::Interrupted) => Some(CutShort::Interrupted),
            last => cut_short.or(last),
        };
        if let Err(unbalanced) = counts.check_balance() {
            for equation in unbalanced {
                let message = format!("The request counts are inconsistent: {equation}.");
                console.warn(TOOL, &message)?;
            }
        }
        Ok((measured, cut_short))
    }
}

/// Returns the number of requests that ended, successfully or not.
fn completed_requests(counts: &OutcomeCounts) -> u64 {
    counts.succeeded() + counts.all_errors()
}

/// Returns the results of a load that did not start.
fn empty_measurement(reason: CutShort) -> LoadMeasurement {
    let mut totals = RequestTotals::new(true);
    if let CutShort::Failed(class) = reason {
        totals.outcomes.count_attempt();
        totals.outcomes.count_failed(class);
    }
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    LoadMeasurement {
        began_epoch_ms: since_epoch.map_or(0, |duration| duration.as_millis() as u64),
        elapsed_ns: 0,
        ok_in_time: 0,
        in_flight_ns: None,
        totals,
        warmup: RequestTotals::new(true),
        timeline: LoadTimeline { interval_ns: 0, warmup: 0, ticks: Vec::new() },
        threads: Vec::new(),
        max_connections: 0,
        reached_max_connections: false,
        is_interrupted: false,
        rows: Vec::new(),
    }
}

/// Tests with at most this many requests show no progress, as in ab.
const PROGRESS_MIN_REQUESTS: u64 = 150;

/// Minimum number of requests between two progress lines.
const MIN_PROGRESS_STEP: u64 = 100;

/// Number of requests between two progress lines if the test is limited only by time. It is a tenth
/// of the 50,000 requests that ab assumes with `-t`.
const TIMED_PROGRESS_STEP: u64 = 5000;

/// Progress shown so far.
#[derive(Debug)]
struct AbProgress {
    step: Option<u64>,
    reported_requests: u64,
}

impl AbProgress {
    /// Creates the progress of a test that ends after `requests` requests. If `requests` is `None`,
    /// the test is limited only by time.
    fn new(requests: Option<u64>, is_wanted: bool) -> AbProgress {
        let counted_step = |count: u64| {
            (count > PROGRESS_MIN_REQUESTS).then(|| (count / 10).max(MIN_PROGRESS_STEP))
        };
        let step = requests.map_or(Some(TIMED_PROGRESS_STEP), counted_step);
        AbProgress { step: step.filter(|_| is_wanted), reported_requests: 0 }
    }

    /// Whether progress lines are shown.
    fn is_enabled(&self) -> bool {
        self.step.is_some()
    }

    /// Shows that `complete` requests have ended. Write errors are ignored: they do not justify
    /// aborting the test.
    fn show_completed(&mut self, complete: u64, out: &mut dyn Write) {
        let Some(step) = self.step else { return };
        while self.reported_requests + step <= complete {
            self.reported_requests += step;
            let _ = writeln!(out, "Completed {} requests", self.reported_requests);
        }
    }

    /// Shows the end of the test.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    fn show_finished(&mut self, complete: u64, out: &mut dyn Write) -> io::Result<()> {
        self.show_completed(complete, out);
        match self.step {
            Some(_) => writeln!(out, "Finished {complete} requests"),
            None => Ok(()),
        }
    }
}

/// Minimum verbosity at which the request and the first response are shown.
const EXCHANGE_VERBOSITY: u32 = 2;

/// Minimum verbosity at which the statuses of all responses are shown.
const STATUS_VERBOSITY: u32 = 3;

/// Prints the request without its body before the test, if `-v` asks for it.
fn trace_request(
    verbosity: u32,
    request: &http1::Http1Request,
    out: &mut dyn Write,
) -> io::Result<()> {
    if verbosity < EXCHANGE_VERBOSITY {
        return Ok(());
    }
    let header_bytes = &request.bytes()[..request.bytes().len() - request.body().len()];
    let text = String::from_utf8_lossy(header_bytes).replace("\r\n", "\n");
    let method = text.split(' ').next().unwrap_or_default();
    writeln!(out, "INFO: {method} header == \n---\n{text}\n---")
}

/// Prints the responses after the test, if `-v` asks for them. On a terminal, control characters
/// from the server are escaped; in a file or a pipe, they stay unchanged.
///
/// # Errors
/// Fails if `out` is closed.
fn trace_responses(
    verbosity: u32,
    first: Option<&ProbeResponse>,
    rows: &[RequestRecord],
    is_terminal: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(first) = first.filter(|_| verbosity >= EXCHANGE_VERBOSITY) {
        writeln!(out, "LOG: first response: status {}", first.facts.status)?;
        for (name, value) in [
            ("Server", &first.facts.server),
            ("Content-Type", &first.facts.content_type),
            ("Location", &first.location),
        ] {
            if let Some(value) = value {
                let shown = if is_terminal { escape_line(value) } else { value.into() };
                writeln!(out, "{name}: {shown}")?;
            }
        }
        let mut body = String::from_utf8_lossy(&first.body);
        if is_terminal {
            body = escape_controls(&body.replace("\r\n", "\n")).into_owned().into();
        }
        writeln!(out, "\n{body}\n")?;
    }
    if verbosity >= STATUS_VERBOSITY {
        for row in rows.iter().filter(|row| row.status != 0) {
            writeln!(out, "LOG: Response code = {}", row.status)?;
        }
    }
    Ok(())
}
