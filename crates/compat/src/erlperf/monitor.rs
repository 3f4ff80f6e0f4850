//! Prints a line per second while snippets are measured: Erlang's own gauges, and the iterations of
//! every snippet.
//!
//! A gauge is a message from a VM about its state. Every VM sends gauges at its own pace. We read
//! only from the VM that is being measured. Gauges of the other VMs therefore wait. They are stale
//! when we read them, and are skipped. Start at [`GaugeMonitor::handle_event`].

use crate::erlperf::table::{format_number, format_size};
use crate::local_time::iso_time;
use speedwell_adapters::ProtocolMessage;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

/// Time between two lines.
pub const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of lines below one header.
const LINES_PER_HEADER: usize = 30;

/// A gauge that was delayed by more than this is stale.
const MAX_GAUGE_DELAY: Duration = Duration::from_millis(500);

const HEADER: &str = "YYYY-MM-DDTHH:MM:SS-oo:oo  Sched   DCPU    DIO    Procs    Ports     ETS Mem Total  Mem Proc   \
                      Mem Bin   Mem ETS";

/// Formats gauges as lines.
pub struct GaugeMonitor {
    begin: Instant,
    /// Names of the snippets, as gauges state them.
    jobs: Vec<String>,
    /// Iterations of each snippet up to the last printed line, by the name of the snippet.
    counts: HashMap<String, u64>,
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
            jobs,
            counts: HashMap::new(),
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
        let is_soon = self
            .last_printed_at
            .is_some_and(|last_printed_at| now - last_printed_at < GAUGE_INTERVAL * 9 / 10);
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
        let mut line = iso_time(since_epoch.map_or(0, |since_epoch| since_epoch.as_secs()));
        for name in ["sched_util", "dcpu", "dio"] {
            line += &format!(" {:6.2}", gauge(name));
        }
        for (name, width) in [("processes", 8), ("ports", 8), ("ets", 7)] {
            line += &format!(" {:width$.0}", gauge(name));
        }
        for name in ["memory_total", "memory_processes", "memory_binary", "memory_ets"] {
            line += &format!(" {:>9}", format_size(gauge(name)));
        }
        let counts_before = self.counts.clone();
        self.record_counts(event);
        for job in &self.jobs {
            let count = |counts: &HashMap<String, u64>| counts.get(job).copied().unwrap_or(0);
            let iterations = count(&self.counts).saturating_sub(count(&counts_before));
            line += &format!(" {:>12}", format_number(iterations as f64));
        }
        line
    }

    fn record_counts(&mut self, event: &ProtocolMessage) {
        for job in &self.jobs {
            if let Some(count) = event.parse_number(&format!("job.{job}")) {
                self.counts.insert(job.clone(), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
