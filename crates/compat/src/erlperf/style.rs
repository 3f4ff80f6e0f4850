//! Writes erlperf's tables for sessions of the native command: `speedwell eval --style erlperf`.
//!
//! A sample is a window of a run. Throughput is stated per second, whatever the length of the
//! window. For a full report, [`SystemDescription`] adds lines that describe the machine. It also
//! holds warnings about VMs that are unsuitable for measurements, such as debug builds.

use crate::console::terminal_columns;
pub use crate::erlperf::table::ReportDetail as Style;
use crate::erlperf::table::{LineFigures, SampleUnit, SnippetLine, SnippetTable};
use speedwell_adapters::ProtocolMessage;
use speedwell_analysis::snippet::snippet_windows;
use speedwell_model::Session;
use std::io::{self, IsTerminal, Write};

/// Width of output that is not a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Writes the table of a session.
///
/// # Errors
/// Fails if `out` is closed.
pub fn write_session(session: &Session, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let lines = snippet_windows(session).into_iter().map(|snippet| SnippetLine {
        label: snippet.label,
        workers: snippet.concurrency.unwrap_or(1),
        figures: snippet
            .time_ns
            .map(|iteration_ns| LineFigures { samples: snippet.per_s, iteration_ns }),
    });
    let table = SnippetTable::from_unsorted(SampleUnit::Iterations, lines.collect());
    let program = session.environment.programs.first();
    let system = SystemDescription {
        processor: session.environment.cpu.clone(),
        machine: program.and_then(|program| program.version.clone()),
        ..SystemDescription::default()
    };
    system.write_table(&table, style, std::io::stdout().is_terminal(), out)
}

/// System on which snippets were measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemDescription {
    /// Processor, if known.
    pub processor: Option<String>,
    /// Version text of the Erlang VM.
    pub machine: Option<String>,
    /// Warnings, worded and capitalized as erlperf prints them.
    pub warnings: Vec<String>,
}

impl SystemDescription {
    /// Creates a description from the harness's `ready` message.
    pub fn from_ready(
        ready: Option<&ProtocolMessage>,
        processor: Option<String>,
    ) -> SystemDescription {
        let get = |key: &str| ready.and_then(|ready| ready.get(key));
        let warning = |text: &str, value: String| format!("WARNING: {text} ({value} detected)");
        let mut warnings = Vec::new();
        if let Some(trace) = get("dynamic_trace").filter(|trace| trace != "none") {
            warnings.push(warning("Dynamic Trace Probes enabled", trace));
        }
        if let Some(build) = get("build").filter(|build| build != "opt") {
            warnings.push(warning("Emulator is not optimised", build));
        }
        if let Some(flavor) = get("flavor").filter(|flavor| flavor != "jit") {
            // Erlang itself calls its interpreter `emu`.
            let flavor = if flavor == "interp" { "emu".into() } else { flavor };
            warnings.push(warning("Emulator is not JIT", flavor));
        }
        SystemDescription { processor, machine: get("system"), warnings }
    }

    /// Writes a table. In a full report, a description of the system precedes the table.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn write_table(
        &self,
        table: &SnippetTable,
        style: Style,
        is_terminal: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if style == Style::Full {
            self.write_heading(out)?;
        }
        let viewport = is_terminal.then(|| terminal_columns(std::io::stdout())).flatten();
        table.write(style, viewport.unwrap_or(DEFAULT_WIDTH), out)
    }

    /// Writes the lines above the table of a full report.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn write_heading(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "OS : {}", operating_system())?;
        if let Some(processor) = &self.processor {
            writeln!(out, "CPU: {processor}")?;
        }
        let machine = self.machine.as_deref().unwrap_or("Erlang/OTP");
        writeln!(out, "VM : {machine}\n")
    }
}

fn operating_system() -> String {
    match std::env::consts::OS {
        "linux" => "Linux".to_owned(),
        "macos" => "MacOS".to_owned(),
        "freebsd" => "FreeBSD".to_owned(),
        "windows" => "Windows".to_owned(),
        other => format!("{}/{other}", std::env::consts::FAMILY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "Erlang/OTP 25 [erts-13.1.5] [source] [64-bit] [smp:2:2] [ds:2:2:10] [async-threads:1] [jit:ns]";

    #[test]
    fn the_system_heading_matches_the_original() {
        let ready = ProtocolMessage::new("ready")
            .with("system", VERSION)
            .with("flavor", "jit")
            .with("build", "opt")
            .with("dynamic_trace", "none");
        let system = SystemDescription::from_ready(Some(&ready), Some("AMD EPYC".to_owned()));
        assert_eq!(system.warnings, [""; 0]);
        let mut out = Vec::new();
        system.write_heading(&mut out).unwrap();
        let golden =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf/full.out");
        let recorded = std::fs::read_to_string(golden).unwrap();
        let head = recorded.split_inclusive('\n').take(4).collect::<String>();
        assert_eq!(String::from_utf8(out).unwrap(), head);
    }

    #[test]
    fn unsuitable_emulators_cause_warnings() {
        let ready = ProtocolMessage::new("ready")
            .with("flavor", "interp")
            .with("build", "debug")
            .with("dynamic_trace", "systemtap");
        let warnings = SystemDescription::from_ready(Some(&ready), None).warnings;
        assert_eq!(
            warnings,
            [
                "WARNING: Dynamic Trace Probes enabled (systemtap detected)",
                "WARNING: Emulator is not optimised (debug detected)",
                "WARNING: Emulator is not JIT (emu detected)",
            ]
        );
    }
}
