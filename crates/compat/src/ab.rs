//! Drop-in for ApacheBench: a load over HTTP, and ab's report of it.
//!
//! Decides the order of what happens and the exit status: 0 when a request succeeded and the test was
//! carried out, 2 otherwise, 130 after Ctrl-C. What differs from the original, and why, is in
//! `docs/reference/ab.md`. Start at [`run`].

mod address;
mod arguments;
mod failures;
mod figures;
#[cfg(test)]
mod made;
mod milliseconds;
mod progress;
mod report;
mod sending;
mod tables;
mod test;
mod times;
mod tls_line;
mod trace;

use self::address::Url;
use self::arguments::{Asked, Request};
use self::report::{CutShort, Report, html, text};
use self::test::{Test, Tested};
use super::console::{COULD_NOT, Console};
use anyhow::{Context, Result};
use speedwell_load::outcomes::ErrorClass;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek};
use std::path::Path;

const TOOL: &str = "ab";
const USAGE: &str = include_str!("usage/ab.txt");

/// The exit status after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Does what `arguments` ask for; returns the exit status.
///
/// # Errors
/// Standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    let done = match Asked::parse(arguments) {
        Ok(Asked::Help) => return Ok(console.help(USAGE)?),
        Ok(Asked::Version) => {
            let lines = text::banner().join("\n");
            return Ok(console.help(&format!("{lines}\n"))?);
        }
        Ok(Asked::Test(request)) => test(&request, console),
        Err(reason) => return Ok(console.refuse_with_hint(TOOL, &reason, "-h")?),
    };
    console.tell_failure(TOOL, done)
}

fn test(request: &Request, console: &mut Console<'_>) -> Result<i32> {
    let url = Url::parse(&request.url).map_err(anyhow::Error::msg)?;
    let body = sending::body(request, &console.directory)?;
    let load = sending::load(request, &url, body)?;
    let files = Files::open(request, &console.directory)?;
    if request.sets_window {
        let sentence = "'-b' has no effect: the operating system sizes the buffers.";
        console.warn(TOOL, sentence)?;
    }
    speedwell_process::on_interrupt()?;
    let test = Test::new(request, &url, load);
    let tested = test.carry_out(console)?;
    let report = tested.report(request, &url);
    match &request.shown.html {
        Some(attributes) => html::write(&report, attributes, console.stdout)?,
        None => text::write(&report, console.stdout)?,
    }
    if let Some(reason) = report.cut_short.map(CutShort::reason) {
        writeln!(console.stderr, "{TOOL}: test aborted: {reason}")?;
        writeln!(console.stderr, "{}", hint(&report))?;
    }
    files.write(request, &tested, &report)?;
    Ok(status(&report))
}

/// What helps against the end of a test.
fn hint(report: &Report) -> &'static str {
    match report.cut_short {
        Some(CutShort::Failed(ErrorClass::TlsVerify)) => {
            "hint: '--insecure' accepts any certificate, as the original does"
        }
        Some(CutShort::Failed(class)) if !failures::ends_any_test(class) => {
            "hint: '-r' goes on after errors of connections"
        }
        _ => "hint: the figures are those of what was done until then",
    }
}

fn status(report: &Report) -> i32 {
    match report.cut_short {
        Some(CutShort::Interrupted) => INTERRUPTED,
        Some(CutShort::Failed(_)) => COULD_NOT,
        None if report.figures.succeeded() == 0 => COULD_NOT,
        None => 0,
    }
}

/// The files that are written besides the report: opened before the test, so that one that cannot be
/// written is told before it, and emptied after it.
struct Files {
    csv: Option<File>,
    tsv: Option<File>,
}

impl Files {
    fn open(request: &Request, directory: &Path) -> Result<Files> {
        let open = |path: &Option<std::path::PathBuf>| -> Result<Option<File>> {
            let Some(path) = path else { return Ok(None) };
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            let file = options.open(directory.join(path));
            file.with_context(|| format!("cannot write '{}'", path.display()))
                .map(Some)
        };
        Ok(Files {
            csv: open(&request.shown.csv)?,
            tsv: open(&request.shown.tsv)?,
        })
    }

    fn write(self, request: &Request, tested: &Tested, report: &Report) -> Result<()> {
        let times = report.figures.times.as_ref();
        if let Some(file) = self.csv {
            tables::percentages(times, &mut emptied(file)?).context("cannot write the CSV")?;
        }
        if let Some(file) = self.tsv {
            let sort = request.shown.sort;
            let began = tested.measured.began_epoch_ms;
            tables::requests(times, began, sort, &mut emptied(file)?)
                .context("cannot write the TSV")?;
        }
        Ok(())
    }
}

fn emptied(mut file: File) -> io::Result<BufWriter<File>> {
    // A pipe or a device cannot be cut, and needs not be.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    Ok(BufWriter::new(file))
}
