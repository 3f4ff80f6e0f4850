//! From the words for the two sides to two result files: opened, or measured now.
//!
//! Decides what is checked and said before anything is measured, and in which order programs run:
//! as in the original the baseline completely, then the contender. It must not know what results
//! hold. Start at [`Sources::gather`].

use super::super::console::COULD_NOT;
use super::super::console::Console;
use super::arguments::Request;
use super::input::{Input, Kind};
use super::program::{self, OUT, Ran};
use super::{INTERRUPTED, TOOL};
use anyhow::{Context, Result, bail, ensure};
use speedwell_process as process;
use speedwell_results::foreign::google_benchmark::ResultFile;
use std::io;

/// The flag for the format of the file with the results.
const OUT_FORMAT: &str = "--benchmark_out_format=";

/// The flag that chooses among the benchmarks of a program.
pub const FILTER: &str = "--benchmark_filter=";

/// The two sides, ready to be read.
pub struct Sources {
    /// What the user calls them.
    pub labels: [String; 2],
    /// Which of them were measured just now.
    pub are_programs: [bool; 2],
    /// Of the baseline.
    pub first: ResultFile,
    /// Of the contender; `None` if it is the same file.
    pub second: Option<ResultFile>,
}

/// What came of gathering.
pub enum Gathered {
    /// Both sides.
    Sources(Sources),
    /// Not both: everything is said, and this is the exit status.
    Ended(i32),
}

impl Sources {
    /// Opens the inputs of a request and measures those that are programs.
    ///
    /// # Errors
    /// An input cannot be used, or a stream is closed.
    pub fn gather(request: &Request, console: &mut Console<'_>) -> Result<Gathered> {
        let [first, second] = &request.inputs;
        let first = Input::open(first, console)?;
        let second = if request.is_one_input {
            None
        } else {
            Some(Input::open(second, console)?)
        };
        let inputs = [&first, second.as_ref().unwrap_or(&first)];
        let labels = inputs.map(|input| input.label.clone());
        let are_programs = inputs.map(Input::is_program);
        if !announce(request, are_programs, console)? {
            return Ok(Gathered::Ended(COULD_NOT));
        }
        if are_programs != [false; 2] {
            check(request, inputs, console)?;
            process::on_interrupt()?;
        } else if request.is_one_input && request.both_filters().is_none() && !request.strict {
            bail!(
                "nothing compared: a filter is empty, so both sides are all of '{}'",
                labels[0]
            );
        }
        // The same program runs once for each side, the same file is read once.
        let again = match (&second, &first.kind) {
            (None, Kind::Program(path)) => Some(Input {
                label: first.label.clone(),
                kind: Kind::Program(path.clone()),
            }),
            _ => None,
        };
        let mut files = Vec::new();
        for (side, input) in [Some(first), second.or(again)].into_iter().enumerate() {
            let Some(input) = input else { continue };
            match obtain(input, side, request, console)? {
                Ok(file) => files.push(file),
                Err(status) => return Ok(Gathered::Ended(status)),
            }
        }
        let mut files = files.into_iter();
        Ok(Gathered::Sources(Sources {
            labels,
            are_programs,
            first: files.next().context("there is no baseline")?,
            second: files.next(),
        }))
    }
}

/// Says on standard output what the original says before it begins; whether to go on.
fn announce(
    request: &Request,
    are_programs: [bool; 2],
    console: &mut Console<'_>,
) -> io::Result<bool> {
    let out = &mut console.stdout;
    if let Some(file) = request
        .passed_value(OUT)
        .filter(|_| are_programs == [true; 2])
    {
        writeln!(
            out,
            "WARNING: '{OUT}{file}' will be passed to both benchmarks causing it to be overwritten"
        )?;
    }
    if are_programs == [false; 2] {
        for option in request
            .passed
            .iter()
            .filter(|word| !word.starts_with(FILTER))
        {
            writeln!(
                out,
                "WARNING: passing {option} has no effect since both inputs are JSON"
            )?;
        }
    }
    if let Some(format) = request
        .passed_value(OUT_FORMAT)
        .filter(|format| *format != "json")
    {
        // The quotes do not match in the original either.
        writeln!(
            out,
            "ERROR: passing '{OUT_FORMAT}{format}' to 'compare.py` is not supported."
        )?;
        return Ok(false);
    }
    for option in request.misplaced() {
        let advice = format!("'{option}' has no effect behind the inputs; put it before the mode");
        console.warn(TOOL, &advice)?;
    }
    Ok(true)
}

/// What would be a pity to find out after measuring.
fn check(request: &Request, inputs: [&Input; 2], console: &mut Console<'_>) -> Result<()> {
    for input in inputs {
        if let Kind::Results(file) = &input.kind {
            file.results()
                .with_context(|| format!("cannot read '{}'", input.label))?;
        }
    }
    if let Some(dump) = &request.dump {
        let path = console.directory.join(dump);
        let folder = path.parent().unwrap_or(&path);
        ensure!(
            folder.is_dir(),
            "cannot write '{}': there is no such folder",
            dump.display()
        );
    }
    if inputs.iter().all(|input| input.is_program()) && !request.strict {
        let [first, second] = inputs.map(|input| input.label.as_str());
        writeln!(
            console.stderr,
            "hint: one process a side, one side after the other, shows drift of the machine as \
             change; 'speedwell compare {first} {second}' measures in randomised blocks"
        )?;
    }
    Ok(())
}

/// The results of one side, or the exit status if there are none.
fn obtain(
    input: Input,
    side: usize,
    request: &Request,
    console: &mut Console<'_>,
) -> Result<Result<ResultFile, i32>> {
    let path = match input.kind {
        Kind::Results(file) => return Ok(Ok(file)),
        Kind::Program(path) => path,
    };
    let filter = request.both_filters().map(|filters| filters[side]);
    match program::run(&path, &input.label, request, filter, console)? {
        Ran::Results(file) => Ok(Ok(file)),
        Ran::Interrupted => Ok(Err(INTERRUPTED)),
        Ran::Failed(how) => {
            writeln!(console.stdout, "TEST FAILED...")?;
            console.stdout.flush()?;
            writeln!(console.stderr, "{TOOL}: {how}")?;
            Ok(Err(COULD_NOT))
        }
    }
}
