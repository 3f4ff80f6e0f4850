//! Runs a test: first sends a single request on its own, then sends the load. Shows progress, and
//! prints the output of `-v`.
//!
//! Decides when a test is aborted, and what is printed during the test. `report/mod.rs` builds the
//! report. ab prints every response as it arrives, so printing affects its measurement. Here, `-v`
//! shows responses after the test, and shows the body of the first response only. Start at
//! [`AbTest::run_test`].

use crate::DropInConsole;
use crate::ab::arguments::{AbRequest, TOOL};
use crate::ab::figures::{AbFigures, aborts_test, always_aborts_test};
use crate::ab::load::AbUrl;
use crate::ab::report::{self, AbReportContent, CutShort};
use anyhow::{Result, bail};
use speedwell_load::generator::{self, ProbeError, ProbeResponse};
use speedwell_load::http1;
use speedwell_load::load::LoadConfig;
use speedwell_machine::process;
use speedwell_model::load::latency::RequestTotals;
use speedwell_model::load::measurement::{LoadMeasurement, LoadTimeline, RequestRecord};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_report::{escape_controls, escape_line};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Test that is ready to run.
pub struct AbTest<'a> {
    pub request: &'a AbRequest,
    pub url: &'a AbUrl,
    pub load: LoadConfig,
}

impl<'a> AbTest<'a> {
    /// Sends all requests and prints what ab prints during a test.
    ///
    /// # Errors
    /// Fails if the test could not start, if the server negotiated a TLS version other than the one
    /// that `-f` requires, or if a console stream is closed.
    pub fn run_test(&self, console: &mut DropInConsole<'_>) -> Result<AbReportContent<'a>> {
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
                writeln!(
                    console.stderr,
                    "{TOOL}: the server's certificate was rejected: {refusal}"
                )?;
                (None, self.abort_reason(ErrorClass::TlsVerify))
            }
        };
        self.check_version(probe.as_ref())?;
        let (measured, cut_short) = match cut_short {
            None => self.run_load(&mut progress, console)?,
            Some(reason) => (empty_measurement(reason), cut_short),
        };
        trace_responses(
            self.request.verbosity,
            probe.as_ref(),
            &measured.rows,
            console.stdout_is_terminal,
            console.stdout,
        )?;
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
        let (Some(tls), Some(required)) = (negotiated, self.request.tls_version) else {
            return Ok(());
        };
        if tls.version != required {
            bail!("'-f' requires {required}, but the server negotiated {}", tls.version);
        }
        Ok(())
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
            let is_over = self
                .request
                .time_s
                .is_some_and(|seconds| progress_event.at_ns as f64 >= seconds * 1e9);
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
    pub fn new(requests: Option<u64>, is_wanted: bool) -> AbProgress {
        let counted_step = |count: u64| {
            (count > PROGRESS_MIN_REQUESTS).then(|| (count / 10).max(MIN_PROGRESS_STEP))
        };
        let step = requests.map_or(Some(TIMED_PROGRESS_STEP), counted_step);
        AbProgress { step: step.filter(|_| is_wanted), reported_requests: 0 }
    }

    /// Whether progress lines are shown.
    pub fn is_enabled(&self) -> bool {
        self.step.is_some()
    }

    /// Shows that `complete` requests have ended. Write errors are ignored: they do not justify
    /// aborting the test.
    pub fn show_completed(&mut self, complete: u64, out: &mut dyn Write) {
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
    pub fn show_finished(&mut self, complete: u64, out: &mut dyn Write) -> io::Result<()> {
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
///
/// # Errors
/// Fails if `out` is closed.
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
        let body = String::from_utf8_lossy(&first.body);
        if is_terminal {
            writeln!(out, "\n{}\n", escape_controls(&body.replace("\r\n", "\n")))?;
        } else {
            writeln!(out, "\n{body}\n")?;
        }
    }
    if verbosity >= STATUS_VERBOSITY {
        for row in rows.iter().filter(|row| row.status != 0) {
            writeln!(out, "LOG: Response code = {}", row.status)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::tests::answered_row;
    use speedwell_load::http1::RequestParts;
    use speedwell_model::load::measurement::ProbeFacts;

    fn progress_lines(requests: Option<u64>, is_wanted: bool, at: &[u64]) -> String {
        let mut out = Vec::new();
        let mut progress = AbProgress::new(requests, is_wanted);
        let (last, before) = at.split_last().unwrap();
        for complete in before {
            progress.show_completed(*complete, &mut out);
        }
        progress.show_finished(*last, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn progress_lines_match_ab() {
        let recorded = "Completed 100 requests\nCompleted 200 requests\nFinished 200 requests\n";
        assert_eq!(progress_lines(Some(200), true, &[40, 199, 200]), recorded);
        assert_eq!(progress_lines(Some(200), true, &[200]), recorded);
        assert_eq!(progress_lines(Some(200), false, &[200]), "");
        assert_eq!(progress_lines(Some(150), true, &[150]), "");
        // Recorded from `ab -t 1`.
        let timed = "Completed 5000 requests\nFinished 5146 requests\n";
        assert_eq!(progress_lines(None, true, &[5146]), timed);
    }

    #[test]
    fn verbosity_adds_the_request_header_and_then_the_statuses() {
        let request = http1::Http1Request::new(&RequestParts {
            method: "POST",
            target: "/a",
            host: "h",
            body: Some(b"secret"),
            ..RequestParts::default()
        })
        .unwrap();
        let trace = |verbosity| {
            let mut out = Vec::new();
            trace_request(verbosity, &request, &mut out).unwrap();
            trace_responses(verbosity, None, &[answered_row(1)], false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(trace(1), "");
        let head =
            "INFO: POST header == \n---\nPOST /a HTTP/1.1\nHost: h\nContent-Length: 6\n\n\n---\n";
        assert_eq!(trace(2), head);
        assert_eq!(trace(3), format!("{head}LOG: Response code = 200\n"));
    }

    #[test]
    fn responses_are_escaped_on_a_terminal_and_verbatim_in_a_file() {
        let answer = ProbeResponse {
            facts: ProbeFacts {
                address: "127.0.0.1:80".to_owned(),
                tls: None,
                status: 200,
                server: Some("s\u{1b}[2J".to_owned()),
                content_type: None,
                body_bytes: 20,
                wire_bytes: 100,
                is_reusable: true,
                connect_ns: 1,
                service_ns: 1,
                redirected_from: Vec::new(),
            },
            location: Some("/\u{202e}x".to_owned()),
            body: b"one\r\n\ttwo\x1b]0;title\x07\x00".to_vec(),
            is_success: true,
        };
        let trace = |is_terminal| {
            let mut out = Vec::new();
            trace_responses(2, Some(&answer), &[], is_terminal, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let first = "LOG: first response: status 200\n";
        assert_eq!(
            trace(true),
            format!(
                "{first}Server: s\\x1b[2J\nLocation: /\\u{{202e}}x\n\none\n\ttwo\\x1b]0;title\\x07\\x00\n\n"
            )
        );
        assert_eq!(
            trace(false),
            format!(
                "{first}Server: s\u{1b}[2J\nLocation: /\u{202e}x\n\none\r\n\ttwo\u{1b}]0;title\u{7}\0\n\n"
            )
        );
    }
}
