//! Carries out a test: the first request by itself, then the load, with its progress.
//!
//! Decides when a test is given up. It must not know what is printed of its results. Start at
//! [`Test::carry_out`].

use super::TOOL;
use super::address::Url;
use super::arguments::{Request, TlsVersion};
use super::failures::{ends_any_test, ends_test};
use super::figures::Figures;
use super::progress::Progress;
use super::report::{CutShort, Report, html, text};
use super::trace;
use crate::Console;
use anyhow::{Result, bail};
use speedwell_load::generator::{self, Probe, ProbeError};
use speedwell_load::load::Load;
use speedwell_load::measured::{Measured, Timeline, Totals};
use speedwell_load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_process as process;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A test that can be carried out.
pub struct Test<'a> {
    request: &'a Request,
    url: &'a Url,
    load: Load,
}

/// What came of a test.
pub struct Tested {
    /// What the load gave.
    pub measured: Measured,
    probe: Option<Probe>,
    request_bytes: usize,
    cut_short: Option<CutShort>,
}

impl Tested {
    /// The report of it.
    pub fn report<'a>(&self, request: &'a Request, url: &'a Url) -> Report<'a> {
        let probe = self.probe.as_ref();
        Report {
            request,
            url,
            server: probe.and_then(|probe| probe.server.clone()),
            tls: probe.and_then(|probe| probe.tls.clone()),
            figures: Figures::of(request, &self.measured, self.request_bytes),
            cut_short: self.cut_short,
        }
    }
}

impl<'a> Test<'a> {
    /// A test of an address.
    pub fn new(request: &'a Request, url: &'a Url, load: Load) -> Test<'a> {
        Test { request, url, load }
    }

    /// Sends everything. What the original prints meanwhile is printed.
    ///
    /// # Errors
    /// The test could not be begun, or the streams of the console are closed.
    pub fn carry_out(&self, console: &mut Console<'_>) -> Result<Tested> {
        let shown = &self.request.shown;
        let mut progress = Progress::new(self.request.requests, shown.progress);
        self.begin(&progress, console.stdout)?;
        let kind = self.load.kinds.filled(0, 0);
        let bytes = kind.with_parts(speedwell_load::http1::Request::new)?;
        trace::before(shown.verbosity, &bytes, console.stdout)?;
        console.stdout.flush()?;
        let probed = generator::probe(&self.load, process::interrupt_flag());
        let (probe, gives_up) = match probed {
            Ok(probe) => (Some(probe), None),
            Err(ProbeError::Start(error)) => return Err(error.into()),
            Err(ProbeError::Interrupted) => (None, Some(CutShort::Interrupted)),
            Err(ProbeError::Failed(class)) => (None, self.gives_up(class)),
        };
        self.check_version(probe.as_ref())?;
        let mut tested = Tested {
            measured: nothing(),
            probe,
            request_bytes: bytes.bytes().len(),
            cut_short: gives_up,
        };
        match gives_up {
            None => self.load(&mut tested, &mut progress, console)?,
            Some(CutShort::Interrupted) => {}
            Some(CutShort::Failed(class)) => {
                let counts = &mut tested.measured.totals.outcomes;
                counts.attempt();
                counts.failed(class);
            }
        }
        trace::after(
            shown.verbosity,
            tested.probe.as_ref(),
            &tested.measured.rows,
            console.stdout,
        )?;
        // What is printed on both streams comes in this order also where they are the same file.
        console.stdout.flush()?;
        let complete = ended(&tested.measured.totals.outcomes);
        progress.finish(complete, console.stderr)?;
        if !progress.is_told() {
            writeln!(console.stdout, "..done")?;
        }
        Ok(tested)
    }

    fn begin(&self, progress: &Progress, out: &mut dyn Write) -> io::Result<()> {
        if self.request.shown.html.is_some() {
            return html::write_banner(out);
        }
        for line in text::banner() {
            writeln!(out, "{line}")?;
        }
        write!(out, "\nBenchmarking {} ", self.url.host.name)?;
        if let Some(proxy) = &self.request.proxy {
            write!(out, "[through {proxy}] ")?;
        }
        let end = if progress.is_told() { "\n" } else { "..." };
        write!(out, "(be patient){end}")
    }

    /// Whether a failure ends the test.
    fn gives_up(&self, class: ErrorClass) -> Option<CutShort> {
        let ends = ends_any_test(class) || (ends_test(class) && !self.request.goes_on);
        ends.then_some(CutShort::Failed(class))
    }

    /// `-f` cannot be told to the server, but what it agreed to can be refused.
    fn check_version(&self, probe: Option<&Probe>) -> Result<()> {
        let agreed = probe.and_then(|probe| probe.tls.as_ref());
        let (Some(tls), Some(wanted)) = (agreed, self.request.security.version) else {
            return Ok(());
        };
        let wanted = match wanted {
            TlsVersion::V12 => "TLSv1.2",
            TlsVersion::V13 => "TLSv1.3",
        };
        if tls.version != wanted {
            bail!(
                "'-f' asks for {wanted}, but the server agreed to {}, which cannot be prevented",
                tls.version
            );
        }
        Ok(())
    }

    /// Carries out the load itself.
    fn load(
        &self,
        tested: &mut Tested,
        progress: &mut Progress,
        console: &mut Console<'_>,
    ) -> Result<()> {
        let stop = AtomicBool::new(false);
        let mut cut_short = None;
        let measured = generator::run(&self.load, &stop, &mut |told| {
            let counts = &told.so_far.outcomes;
            progress.update(ended(counts), console.stderr);
            let failed = ErrorClass::every().filter(|class| counts.errors(*class) > 0);
            cut_short = if process::interrupted() {
                Some(CutShort::Interrupted)
            } else {
                failed.filter_map(|class| self.gives_up(class)).next()
            };
            // With -n and -t the load waits for its last answers, but not beyond its time.
            let is_over = self
                .request
                .time_s
                .is_some_and(|s| told.at_ns as f64 >= s * 1e9);
            stop.store(is_over || cut_short.is_some(), Ordering::Relaxed);
        })?;
        // The last failures may be younger than the last time that progress was told.
        let counts = &measured.totals.outcomes;
        let failed = ErrorClass::every().filter(|class| counts.errors(*class) > 0);
        tested.cut_short = cut_short.or(failed.filter_map(|class| self.gives_up(class)).next());
        if process::interrupted() {
            tested.cut_short = Some(CutShort::Interrupted);
        }
        if let Err(sums) = counts.balance() {
            for sum in sums {
                let sentence = format!("The account does not balance: {sum}.");
                console.warn(TOOL, &sentence)?;
            }
        }
        tested.measured = measured;
        Ok(())
    }
}

/// Requests that came to an end, well or not.
fn ended(counts: &OutcomeCounts) -> u64 {
    counts.succeeded() + counts.all_errors()
}

/// What a load gives that was not begun.
fn nothing() -> Measured {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    Measured {
        began_epoch_ms: since_epoch.map_or(0, |since| since.as_millis() as u64),
        elapsed_ns: 0,
        ok_in_time: 0,
        under_way_ns: None,
        totals: Totals::new(true),
        warmup: Totals::new(true),
        timeline: Timeline {
            interval_ns: 0,
            warmup: 0,
            ticks: Vec::new(),
        },
        threads: Vec::new(),
        most_connections: 0,
        reached_most_connections: false,
        is_interrupted: false,
        rows: Vec::new(),
    }
}
