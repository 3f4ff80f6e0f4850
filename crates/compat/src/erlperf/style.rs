//! erlperf's tables for sessions of the native command: `speedwell eval --style erlperf`.
//!
//! A sample is a window of a run; throughput is per second, whatever the length of windows was.

use super::system::System;
use super::table::{Detail, Figures, Line, Table, Unit};
use super::{USUAL_VIEWPORT, columns};
use speedwell_analysis::code::windows;
use speedwell_model::Session;
use std::io::{self, IsTerminal, Write};

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Throughput and time.
    Basic,
    /// Statistics of the windows.
    Extended,
    /// The same below a description of the machine.
    Full,
}

/// Writes the table of a session.
///
/// # Errors
/// `out` is closed.
pub fn write(session: &Session, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let lines = windows(session).into_iter().map(|code| Line {
        label: code.label,
        workers: code.concurrency.unwrap_or(1),
        figures: code.time_ns.map(|iteration_ns| Figures {
            samples: code.per_s,
            iteration_ns,
        }),
    });
    let table = Table::of(Unit::Iterations, lines.collect());
    let detail = match style {
        Style::Basic => Detail::Basic,
        Style::Extended => Detail::Extended,
        Style::Full => Detail::Full,
    };
    if detail == Detail::Full {
        let program = session.environment.programs.first();
        let version = program.and_then(|program| program.version.clone());
        let system = System {
            processor: session.environment.cpu.clone(),
            machine: version,
            ..System::default()
        };
        system.write(out)?;
    }
    let is_terminal = std::io::stdout().is_terminal();
    let viewport = is_terminal.then(|| columns(libc::STDOUT_FILENO)).flatten();
    table.write(detail, viewport.unwrap_or(USUAL_VIEWPORT), out)
}
