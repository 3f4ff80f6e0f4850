//! Reports of ApacheBench: its text, also pasted with collapsed blanks, or its HTML (`-w`), one or
//! several in a file.
//!
//! Decides where a report begins and which of its lines mean what. It must not know where the text
//! came from. Start at [`read`]. The lines are those of httpd 2.2 and 2.4, support/ab.c.

mod html;
mod report;
mod table;

use self::report::Report;
use super::imported::Imported;
use anyhow::{Result, ensure};
use speedwell_model::{Environment, Session};

pub use table::{read_percentages, read_requests, recognises_percentages, recognises_requests};

/// The first line of a report.
const BEGINNING: &str = "This is ApacheBench";

/// Whether bytes are of this kind.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(super::beginning(bytes));
    text.lines().any(|line| {
        let line = line.trim();
        line.starts_with(BEGINNING)
            || (line.starts_with("Requests per second:") && line.contains("[#/sec]"))
    })
}

/// Reads all reports of a text; each was a process, so each is a run. What the user should know is
/// added to `warnings`.
///
/// # Errors
/// No report has results.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let mut text = String::from_utf8_lossy(bytes);
    if html::is_page(&text) {
        text = html::as_text(&text).into();
    }
    let mut imported = Imported::default();
    let mut environment = Environment::default();
    let mut remarks = Vec::new();
    for (at, lines) in reports(&text) {
        let report = Report::read(&lines);
        environment.facts.extend(report.facts());
        match report.load() {
            Some(load) => load.add(&mut imported, &mut remarks),
            None => remarks.push(format!(
                "the report that begins at line {at} has no results: ab gave up, or the text is cut \
                 short"
            )),
        }
    }
    ensure!(
        !imported.is_empty(),
        "{}\nhint: ab gives no report when it stops early, for example at a refused connection; see \
         what it printed on stderr, and try 'ab -r'",
        remarks
            .first()
            .map_or("there is no report in it", String::as_str)
    );
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    imported.into_session(label, environment, None)
}

/// The lines of each report, with the number of its first line.
fn reports(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut reports: Vec<(usize, Vec<&str>)> = Vec::new();
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if line.starts_with(BEGINNING) || reports.is_empty() {
            reports.push((number, Vec::new()));
        }
        if let Some((_, lines)) = reports.last_mut() {
            lines.push(line);
        }
    }
    // Text above the first report belongs to none.
    if reports.len() > 1
        && !reports[0]
            .1
            .iter()
            .any(|line| report::field(line).is_some())
    {
        reports.remove(0);
    }
    reports
}
