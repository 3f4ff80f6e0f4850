//! Starts Erlang VMs, one for all snippets or one for each, and measures the snippets in them.
//!
//! Decides which commands the harness gets, and which snippets an error affects: if a snippet
//! fails, no other is affected; if a VM ends, all its snippets are lost. Other modules decide how
//! samples are used. [`GaugeMonitor`] prints a line per second while snippets are measured. Start
//! at [`ErlangMachines::start_all`].

use crate::console::{ISO_FORMAT, format_local};
use crate::erlperf::arguments::ErlperfRequest;
use crate::erlperf::snippet::ErlangSnippet;
use crate::erlperf::table::{display_width, format_number, format_size, to_single_line};
use anyhow::Result;
use speedwell_adapters::ProtocolMessage;
use speedwell_adapters::snippet::{self, CommandAnswer, HarnessFailure, LiveHarness};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_model::{SampleDivision, SnippetTiming, Variant};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Additional time that a run may take, because an iteration may be longer than a sample.
const SLOW_RUNNER_ALLOWANCE: Duration = Duration::from_secs(100);

/// Time limit of a run with a fixed number of iterations. It is long, because we do not know how
/// long an iteration takes.
const FIXED_LOOP_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Fault of a run that took far too long, was stopped, and gave no sample.
const NO_SAMPLE: &str = "no sample was taken: iterations are longer than samples, or workers waited too \
                         long for a processor; increase -d";

/// A snippet in its VM.
pub struct SnippetJob {
    /// Name of the snippet in the protocol.
    name: String,
    machine: usize,
    pub parsed: ErlangSnippet,
    /// Current number of workers.
    pub workers: u32,
    pub faults: Vec<SnippetFault>,
    /// Time that an empty iteration takes in the snippet's VM, in nanoseconds.
    pub empty_ns: Option<f64>,
    /// The harness's `loaded` event for the snippet.
    pub loaded: Option<ProtocolMessage>,
}

impl SnippetJob {
    /// Whether the snippet can still be measured.
    pub fn is_measurable(&self) -> bool {
        self.faults.iter().all(|fault| fault.is_afterwards)
    }
}

/// The result of measuring a snippet once.
pub struct Visit {
    /// Index of the snippet.
    pub job: usize,
    /// Its samples.
    pub timing: SnippetTiming,
    /// Longest delay of a sample's end, in nanoseconds. Covers all snippets that were measured
    /// together.
    pub late_ns: f64,
}

/// All VMs and snippets.
pub struct ErlangMachines<'a> {
    pub request: &'a ErlperfRequest,
    /// Where lines go that are printed while measuring.
    out: &'a mut dyn Write,
    machines: Vec<Option<LiveHarness>>,
    /// Snippets in the order typed.
    pub jobs: Vec<SnippetJob>,
    /// The first VM's `ready` message.
    ready: Option<ProtocolMessage>,
    monitor: Option<GaugeMonitor>,
}

impl<'a> ErlangMachines<'a> {
    /// Starts VMs and loads the snippets. If the request is verbose, also prints the source of each
    /// snippet.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn start_all(
        request: &'a ErlperfRequest,
        snippets: Vec<ErlangSnippet>,
        directory: &Path,
        out: &'a mut dyn Write,
    ) -> Result<ErlangMachines<'a>> {
        let job = |(index, parsed): (usize, ErlangSnippet)| SnippetJob {
            name: format!("code{index}"),
            machine: if request.isolated { index } else { 0 },
            parsed,
            workers: 0,
            faults: Vec::new(),
            empty_ns: None,
            loaded: None,
        };
        let jobs: Vec<SnippetJob> = snippets.into_iter().enumerate().map(job).collect();
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        let mut machines = ErlangMachines {
            request,
            out,
            machines: Vec::new(),
            jobs,
            ready: None,
            monitor: request.verbose.then(|| GaugeMonitor::new(names)),
        };
        for index in 0..machines.jobs.len() {
            let is_first = machines.jobs[index].machine == machines.machines.len();
            if is_first && !is_interrupt_requested() {
                machines.start_vm(index, directory);
            }
            machines.load_snippet(index)?;
        }
        machines.start_monitoring()?;
        Ok(machines)
    }

    fn start_vm(&mut self, job: usize, directory: &Path) {
        let machine = self.machines.len();
        let snippet = &self.jobs[job].parsed.snippet;
        let program = snippet::default_program(snippet.language);
        let variant = Variant::plain("erlperf");
        match LiveHarness::open(snippet, &program, &variant, directory, None) {
            Ok((live, ready)) => {
                self.machines.push(Some(live));
                self.ready = self.ready.take().or(ready.first("ready").cloned());
            }
            Err(failure) => {
                self.machines.push(None);
                self.mark_lost(machine, &failure);
            }
        }
    }

    /// Makes all VMs report gauges, if monitor lines are requested.
    fn start_monitoring(&mut self) -> io::Result<()> {
        for machine in 0..self.machines.len() {
            if self.monitor.is_none() {
                return Ok(());
            }
            let answer = self.ask_machine(machine, |live, _| live.start_gauges(GAUGE_INTERVAL))?;
            for event in &answer.map_or(Vec::new(), |answer| answer.events) {
                if let Some(monitor) = &mut self.monitor {
                    monitor.handle_event(machine, event, self.out)?;
                }
            }
        }
        Ok(())
    }

    fn load_snippet(&mut self, job: usize) -> io::Result<()> {
        let SnippetJob { name, machine, parsed, .. } = &self.jobs[job];
        let (name, machine, snippet) = (name.clone(), *machine, parsed.snippet.clone());
        let answer = self.ask_machine(machine, |live, _| live.load_snippet(&name, &snippet))?;
        let Some(answer) = answer.filter(|_| self.jobs[job].is_measurable()) else { return Ok(()) };
        self.record_faults(&answer);
        self.jobs[job].loaded = answer.first("loaded").cloned();
        if let Some(loaded) = answer.first("loaded").filter(|_| self.request.verbose) {
            let source = loaded.get("source").unwrap_or_default();
            write_framed(&self.jobs[job].parsed.shown, &source, self.out)?;
            self.out.flush()?;
        }
        if self.jobs[job].is_measurable() {
            let empty_ns = self.ask_machine(machine, |live, _| live.measure_empty(&name))?;
            self.jobs[job].empty_ns = empty_ns.flatten();
        }
        Ok(())
    }

    /// Sets the number of workers of a snippet.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn set_workers(&mut self, job: usize, count: u32) -> io::Result<()> {
        if self.jobs[job].is_measurable() {
            self.jobs[job].workers = count;
            let (name, machine) = (self.jobs[job].name.clone(), self.jobs[job].machine);
            let answer = self.ask_machine(machine, |live, _| live.set_workers(&name, count))?;
            answer.iter().for_each(|answer| self.record_faults(answer));
        }
        Ok(())
    }

    /// Measures snippets of one VM at the same time; returns the timing of each.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn run_jobs(&mut self, jobs: &[usize], samples: &SampleDivision) -> io::Result<Vec<Visit>> {
        let measurable: Vec<usize> =
            jobs.iter().copied().filter(|job| self.jobs[*job].is_measurable()).collect();
        let Some(machine) = measurable.first().map(|job| self.jobs[*job].machine) else {
            return Ok(Vec::new());
        };
        let names: Vec<_> = measurable.iter().map(|job| self.jobs[*job].name.clone()).collect();
        let planned_time = samples.planned_time();
        let expected = planned_time.map_or(FIXED_LOOP_TIMEOUT, |time| time + SLOW_RUNNER_ALLOWANCE);
        let answer = self.ask_machine(machine, |live, hear| {
            live.run_jobs(&names, samples, false, expected, hear)
        })?;
        let Some(answer) = answer else { return Ok(Vec::new()) };
        self.record_faults(&answer);
        let end = answer.first("end");
        let late_ns = end.and_then(|end| end.parse_number("max_late_ns")).unwrap_or(0.0);
        let mut visits = Vec::new();
        for (job, name) in measurable.iter().zip(&names) {
            match answer.timing(name, samples) {
                Some(timing) if !timing.windows.is_empty() => {
                    visits.push(Visit { job: *job, timing, late_ns });
                }
                _ if self.jobs[*job].is_measurable() && !is_interrupt_requested() => {
                    let reason = NO_SAMPLE.to_owned();
                    self.jobs[*job].faults.push(SnippetFault { reason, ..Default::default() });
                }
                _ => {}
            }
        }
        Ok(visits)
    }

    /// Runs the cleanup hooks in every VM and waits for its exit. Returns the snippets, and the first
    /// VM's `ready` message.
    pub fn stop_all(mut self) -> (Vec<SnippetJob>, Option<ProtocolMessage>) {
        for machine in 0..self.machines.len() {
            let Some(live) = self.machines[machine].take() else { continue };
            match live.shut_down() {
                Ok(answer) => self.record_faults(&answer),
                // The measurements of a VM that does not exit by itself stay valid.
                Err(failure) => self.record_exit(machine, &failure, true),
            }
        }
        (self.jobs, self.ready)
    }

    /// Sends a request to a VM and waits for the answer; in the meantime, the monitor handles the
    /// VM's events. Returns `None` if the VM has ended.
    fn ask_machine<T>(
        &mut self,
        machine: usize,
        ask: impl FnOnce(
            &mut LiveHarness,
            &mut dyn FnMut(&ProtocolMessage),
        ) -> Result<T, HarnessFailure>,
    ) -> io::Result<Option<T>> {
        let Some(Some(live)) = self.machines.get_mut(machine) else { return Ok(None) };
        let mut written_result = Ok(());
        let (monitor, out) = (&mut self.monitor, &mut *self.out);
        let answer = ask(live, &mut |event| {
            if let (Some(monitor), Ok(())) = (monitor.as_mut(), &written_result) {
                written_result = monitor.handle_event(machine, event, out);
            }
        });
        written_result?;
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) => {
                self.mark_lost(machine, &failure);
                Ok(None)
            }
        }
    }

    fn mark_lost(&mut self, machine: usize, failure: &HarnessFailure) {
        self.machines[machine] = None;
        self.record_exit(machine, failure, false);
    }

    /// Records the end of a VM as a fault of its snippets. After an interrupt, it is not an error,
    /// because the interrupt also reaches the VM.
    fn record_exit(&mut self, machine: usize, failure: &HarnessFailure, is_afterwards: bool) {
        if is_interrupt_requested() {
            return;
        }
        let fault = SnippetFault {
            reason: failure.cause.to_string(),
            calls: failure.output.lines().map(str::to_owned).collect(),
            is_afterwards,
        };
        let affected = self.jobs.iter_mut().filter(|job| job.machine == machine);
        for job in affected.filter(|job| job.is_measurable()) {
            job.faults.push(fault.clone());
        }
    }

    fn record_faults(&mut self, answer: &CommandAnswer) {
        for event in answer.events.iter().filter(|event| event.verb == "error") {
            let job_name = event.get("job").unwrap_or_default();
            let fault = SnippetFault::from_event(event);
            for job in self.jobs.iter_mut().filter(|job| job.name == job_name) {
                if !job.faults.contains(&fault) {
                    job.faults.push(fault.clone());
                }
            }
        }
    }
}

/// An error of a snippet or a VM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnippetFault {
    /// Sentence fragment without a full stop.
    pub reason: String,
    /// Stack trace, the innermost call first.
    pub calls: Vec<String>,
    /// Whether the measurements before the error stay valid.
    pub is_afterwards: bool,
}

impl SnippetFault {
    /// Creates the fault that an `error` event reports.
    pub fn from_event(event: &ProtocolMessage) -> SnippetFault {
        let get = |key: &str| event.get(key).unwrap_or_default();
        let (stage, class, message) = (get("stage"), get("class"), get("msg"));
        let named_part = event.get("part").filter(|part| !part.is_empty());
        let part = named_part.unwrap_or_else(|| "runner".into());
        let line_number = event.parse_number::<u32>("line");
        let line = line_number.map_or(String::new(), |number| format!(" (line {number})"));
        let message = message.trim_end();
        let reason = match &*stage {
            "parse" => format!("parse error for {part}: {message}{line}"),
            "compile" if class == "signature" => message.to_owned(),
            "compile" if part == "runner" => format!("compile error: {message}{line}"),
            "compile" => format!("compile error in {part}: {message}{line}"),
            "init" | "init_runner" | "done" => {
                format!("exception while executing '{stage}': {class}:{message}{line}")
            }
            // An exception is formatted like the exit reason of an Erlang process.
            "run" if class == "throw" => format!("the runner failed: {{nocatch,{message}}}{line}"),
            "run" if class == "exit" => format!("the runner failed: exit:{message}{line}"),
            "run" => format!("the runner failed: {message}{line}"),
            _ => message.to_owned(),
        };
        let calls = get("stack").lines().map(str::to_owned).collect();
        SnippetFault { reason, calls, is_afterwards: stage == "done" }
    }
}

impl fmt::Display for SnippetFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)?;
        for call in &self.calls {
            write!(out, "\n    in {call}")?;
        }
        Ok(())
    }
}

/// Width of the snippet in the title above its source, in terminal columns.
const TITLE_WIDTH: usize = 32;

/// Prints the source of a snippet.
///
/// # Errors
/// Fails if `out` is closed.
fn write_framed(snippet: &str, source: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut title = String::new();
    for character in to_single_line(snippet).chars() {
        title.push(character);
        if display_width(&title) > TITLE_WIDTH {
            title.pop();
            break;
        }
    }
    let padding = TITLE_WIDTH - display_width(&title);
    writeln!(out, "{} {title}{:padding$} ", ">".repeat(15), "")?;
    writeln!(out, "{}\n", source.trim_end())?;
    writeln!(out, "{} ", "<".repeat(15))
}

/// Time between two lines of the monitor.
pub const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of lines below one header.
const LINES_PER_HEADER: usize = 30;

/// A gauge that was delayed by more than this is stale.
const MAX_GAUGE_DELAY: Duration = Duration::from_millis(500);

const HEADER: &str = "YYYY-MM-DDTHH:MM:SS-oo:oo  Sched   DCPU    DIO    Procs    Ports     ETS Mem Total  Mem Proc   \
                      Mem Bin   Mem ETS";

/// Prints a line per second while snippets are measured: Erlang's own gauges, and the iterations of
/// every snippet.
///
/// A gauge is a message from a VM about its state. Every VM sends gauges at its own pace. We read
/// only from the VM that is being measured. Gauges of the other VMs therefore wait. They are stale
/// when we read them, and are skipped.
pub struct GaugeMonitor {
    begin: Instant,
    /// Names of the snippets, as gauges state them, and the iterations of each snippet up to the last
    /// printed line.
    jobs: Vec<(String, u64)>,
    /// For each VM, the smallest difference seen so far between our clock and the VM's clock.
    ahead_ns: HashMap<usize, i128>,
    last_printed_at: Option<Instant>,
    lines_written: usize,
}

impl GaugeMonitor {
    /// Creates a monitor of these snippets, with columns in this order.
    pub fn new(jobs: Vec<String>) -> GaugeMonitor {
        GaugeMonitor {
            begin: Instant::now(),
            jobs: jobs.into_iter().map(|job| (job, 0)).collect(),
            ahead_ns: HashMap::new(),
            last_printed_at: None,
            lines_written: 0,
        }
    }

    /// Records an event of a VM; prints a line if one is due.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn handle_event(
        &mut self,
        machine: usize,
        event: &ProtocolMessage,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if event.verb != "gauge" || event.get("sched_util").is_none() {
            return Ok(());
        }
        let sent_ns: i64 = event.parse_number("t_ns").unwrap_or(0);
        let ahead = self.begin.elapsed().as_nanos() as i128 - i128::from(sent_ns);
        let known_ahead = self.ahead_ns.insert(machine, ahead);
        let min_ahead = known_ahead.map_or(ahead, |known_ahead| known_ahead.min(ahead));
        self.ahead_ns.insert(machine, min_ahead);
        let is_stale = ahead - min_ahead > MAX_GAUGE_DELAY.as_nanos() as i128;
        let now = Instant::now();
        let since_printed = self.last_printed_at.map(|printed_at| now - printed_at);
        let is_soon = since_printed.is_some_and(|since| since < GAUGE_INTERVAL * 9 / 10);
        // The first gauge of a VM has no predecessor, so there is no interval to report.
        if known_ahead.is_none() {
            self.record_counts(event);
            return Ok(());
        }
        if is_stale || is_soon {
            return Ok(());
        }
        self.last_printed_at = Some(now);
        let line = self.format_line(event);
        if self.lines_written.is_multiple_of(LINES_PER_HEADER) {
            let jobs = (1..=self.jobs.len()).map(|number| format!(" {:>12}", format!("#{number}")));
            writeln!(out, "\n{HEADER}{}", jobs.collect::<String>())?;
        }
        self.lines_written += 1;
        writeln!(out, "{line}")?;
        out.flush()
    }

    fn format_line(&mut self, event: &ProtocolMessage) -> String {
        let gauge = |name: &str| event.parse_number::<f64>(name).unwrap_or(0.0);
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let epoch_s = since_epoch.map_or(0, |since_epoch| since_epoch.as_secs());
        let mut line = format_local(epoch_s, ISO_FORMAT);
        for name in ["sched_util", "dcpu", "dio"] {
            line += &format!(" {:6.2}", gauge(name));
        }
        for (name, width) in [("processes", 8), ("ports", 8), ("ets", 7)] {
            line += &format!(" {:width$.0}", gauge(name));
        }
        for name in ["memory_total", "memory_processes", "memory_binary", "memory_ets"] {
            line += &format!(" {:>9}", format_size(gauge(name)));
        }
        for iterations in self.record_counts(event) {
            line += &format!(" {:>12}", format_number(iterations as f64));
        }
        line
    }

    /// Records the iterations of each snippet; returns how many were added.
    fn record_counts(&mut self, event: &ProtocolMessage) -> Vec<u64> {
        let added = |(job, count): &mut (String, u64)| {
            let known = *count;
            *count = event.parse_number(&format!("job.{job}")).unwrap_or(known);
            count.saturating_sub(known)
        };
        self.jobs.iter_mut().map(added).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_text(line: &str) -> String {
        SnippetFault::from_event(&ProtocolMessage::parse(line.as_bytes()).unwrap()).to_string()
    }

    #[test]
    fn errors_have_the_wording_of_the_original_and_the_line_number() {
        let parse =
            "error\tstage=parse\tclass=syntax\tmsg=syntax error before: '.'\tline=1\tpart=runner";
        assert_eq!(fault_text(parse), "parse error for runner: syntax error before: '.' (line 1)");
        let compile =
            "error\tstage=compile\tclass=compile\tmsg=variable 'X' is unbound\tline=2\tpart=runner";
        assert_eq!(fault_text(compile), "compile error: variable 'X' is unbound (line 2)");
        let missing = "error\tstage=compile\tclass=signature\tmsg=done/1 requires init function defined\tpart=done";
        assert_eq!(fault_text(missing), "done/1 requires init function defined");
        let run = "error\tstage=run\tclass=error\tmsg=undef\tstack=nomod:nofun/0%0ajob_1:batch/2 (runner:1)";
        assert_eq!(
            fault_text(run),
            "the runner failed: undef\n    in nomod:nofun/0\n    in job_1:batch/2 (runner:1)"
        );
        let ball = "error\tstage=run\tclass=throw\tmsg=ball";
        assert_eq!(fault_text(ball), "the runner failed: {nocatch,ball}");
        let normal = "error\tstage=run\tclass=exit\tmsg=normal";
        assert_eq!(fault_text(normal), "the runner failed: exit:normal");
    }

    fn framed_source(snippet: &str) -> String {
        let mut out = Vec::new();
        write_framed(snippet, "-module(benchmark).\n", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn arrows_and_padding_are_those_of_the_original() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf");
        for (name, snippet) in [
            ("verbose", "timer:sleep(1)."),
            ("verbose_state2", "r(I, S) -> timer:sleep(I), S + 1."),
        ] {
            let recorded = std::fs::read_to_string(format!("{golden}/{name}.out")).unwrap();
            let framed = framed_source(snippet);
            assert_eq!(framed.lines().next(), recorded.lines().next());
            let end = recorded.lines().find(|line| line.starts_with('<'));
            assert_eq!(framed.lines().last(), end);
        }
    }

    #[test]
    fn wide_letters_are_not_cut_in_half() {
        let framed = framed_source(&"日".repeat(40));
        assert_eq!(display_width(framed.lines().next().unwrap()), 16 + TITLE_WIDTH + 1);
    }

    fn gauge_message(t_ns: u64, count: u64) -> ProtocolMessage {
        let kb = 1024.0;
        ProtocolMessage::new("gauge")
            .with("t_ns", t_ns)
            .with("sched_util", 0.41)
            .with("dcpu", 0)
            .with("dio", 0.0)
            .with("processes", 43)
            .with("ports", 3)
            .with("ets", 21)
            .with("memory_total", 17_861.0 * kb)
            .with("memory_processes", 3_939.0 * kb)
            .with("memory_binary", 290.0 * kb)
            .with("memory_ets", 384.0 * kb)
            .with("job.code0", count)
    }

    #[test]
    fn monitor_lines_match_the_original_for_the_same_gauges() {
        let mut out = Vec::new();
        let mut monitor = GaugeMonitor::new(vec!["code0".to_owned()]);
        monitor.handle_event(0, &gauge_message(0, 1000), &mut out).unwrap();
        monitor.handle_event(0, &gauge_message(1_000_000_000, 1376), &mut out).unwrap();
        let output = String::from_utf8(out).unwrap();
        let golden =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf/verbose.out");
        let recorded = std::fs::read_to_string(golden).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        let at = recorded.lines().position(|line| line.starts_with("YYYY")).unwrap();
        let recorded: Vec<&str> = recorded.lines().skip(at).collect();
        assert_eq!(lines[0], "");
        assert_eq!(lines[1].replace("      #1", "<0.81.0>"), recorded[0]);
        assert_eq!(lines[2][25..], recorded[1][25..]);
        assert_eq!(lines[2][..25].len(), "2026-11-21T18:48:33+00:00".len());
    }

    #[test]
    fn a_delayed_gauge_prints_no_line() {
        let mut out = Vec::new();
        let mut monitor = GaugeMonitor::new(vec!["code0".to_owned()]);
        // This gauge is received without delay. The VM's clock has an origin of its own.
        monitor.handle_event(0, &gauge_message(5_000_000_000, 0), &mut out).unwrap();
        // This gauge was sent four seconds before the first one, so it was delayed.
        monitor.handle_event(0, &gauge_message(1_000_000_000, 5), &mut out).unwrap();
        assert!(out.is_empty(), "{}", String::from_utf8_lossy(&out));
    }
}
