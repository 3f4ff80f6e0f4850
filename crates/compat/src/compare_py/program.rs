//! Runs a measured program as the original does: one process, its output shown as it comes.
//!
//! Decides its arguments, where its results lie, and that nothing is left behind. It must not know
//! what the results mean. Start at [`run`].

use super::super::console::Console;
use super::arguments::Request;
use anyhow::{Context, Result, bail};
use speedwell_process::{self as process, Ended, Scratch};
use speedwell_results::foreign::google_benchmark::ResultFile;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The flag that names the file for the results.
pub const OUT: &str = "--benchmark_out=";

/// What came of it.
pub enum Ran {
    /// Its results.
    Results(ResultFile),
    /// It ended otherwise than with status 0; a fragment of a sentence says how.
    Failed(String),
    /// The user asked us to stop.
    Interrupted,
}

/// Runs `program` and reads what it wrote. `filter` is the one of the mode.
///
/// # Errors
/// It cannot be started, or wrote no results.
pub fn run(
    program: &Path,
    label: &str,
    request: &Request,
    filter: Option<&str>,
    console: &mut Console<'_>,
) -> Result<Ran> {
    let mut arguments = arguments(request, filter);
    let given = request
        .passed_value(OUT)
        .map(|path| console.directory.join(path));
    let scratch = given.is_none().then(Scratch::new).transpose()?;
    let out = match (&given, &scratch) {
        (_, Some(scratch)) => {
            let out = scratch.path("results.json");
            arguments.push(format!("{OUT}{}", out.display()));
            out
        }
        (given, None) => given.clone().unwrap_or_default(),
    };
    let line = format!("{} {}", program.display(), arguments.join(" "));
    writeln!(console.stdout, "RUNNING: {line}")?;
    // What the program writes must come behind this line also where nobody reads line by line.
    console.stdout.flush()?;
    let ended = process::run_attached(program, &arguments, &console.directory);
    let how = match ended.with_context(|| format!("cannot start '{label}'"))? {
        Ended::Exit(0) => return results(&out, label, request, filter).map(Ran::Results),
        Ended::Interrupted => return Ok(Ran::Interrupted),
        Ended::Exit(status) => format!("ended with status {status}"),
        Ended::Signal(signal) => format!("was ended by signal {signal}"),
        Ended::Timeout | Ended::Lingered => "was ended".to_owned(),
    };
    Ok(Ran::Failed(format!(
        "'{label}' {how}\nhint: repeat it with: {}",
        again(program, &arguments, scratch.as_ref())
    )))
}

/// A line for a shell that does the same; the results, which are nowhere else, are not kept.
fn again(program: &Path, arguments: &[String], scratch: Option<&Scratch>) -> String {
    let name = program.to_string_lossy();
    let mut words = vec![speedwell_model::quote(&name)];
    for word in arguments {
        let is_scratch = scratch.is_some() && word.starts_with(OUT);
        words.push(if is_scratch {
            format!("{OUT}/dev/null")
        } else {
            speedwell_model::quote(word)
        });
    }
    words.join(" ")
}

/// In the order of the original: those given, then its own, so that its own win.
fn arguments(request: &Request, filter: Option<&str>) -> Vec<String> {
    let misplaced = if request.strict {
        Vec::new()
    } else {
        request.misplaced()
    };
    let given = request.passed.iter();
    let mut arguments: Vec<String> = given
        .filter(|word| !misplaced.contains(&word.as_str()))
        .cloned()
        .collect();
    if request.aggregates_only {
        arguments.push("--benchmark_display_aggregates_only=true".to_owned());
    }
    arguments.extend(filter.map(|filter| format!("--benchmark_filter={filter}")));
    arguments
}

/// The library leaves the file empty when no benchmark matches the filter, and another program makes none.
fn results(out: &Path, label: &str, request: &Request, filter: Option<&str>) -> Result<ResultFile> {
    let bytes = match fs::read(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| format!("cannot read the results of '{label}'"))?,
    };
    if bytes.trim_ascii().is_empty() {
        let hint = match filter.or(request.passed_value("--benchmark_filter=")) {
            Some(filter) => format!("does any of its benchmarks match '{filter}'?"),
            None => "is it a program of google/benchmark?".to_owned(),
        };
        bail!("'{label}' wrote no results, so nothing compared\nhint: {hint}");
    }
    ResultFile::new(bytes).with_context(|| format!("cannot read the results of '{label}'"))
}
