//! Drop-in for erlperf: Erlang code measured in one VM, and erlperf's tables.
//!
//! Decides the order of steps and the exit status: 0 if every snippet was measured, 2 if something
//! failed or the command line is invalid, 130 after Ctrl-C. Tables go to standard output, errors to
//! standard error. Differences from the original: `docs/reference/erlperf.md`. Start at [`run`].

mod arguments;
mod machines;
mod monitor;
mod remarks;
mod sampling;
mod snippet;
pub mod style;
mod table;

use self::arguments::{Command, Request};
use self::machines::Machines;
use self::sampling::{Pass, Sampled, Squeezed, Taken};
use self::snippet::Known;
use self::style::System;
use self::table::{Detail, Line, Table, duration, number, on_one_line};
use crate::console::{COULD_NOT, Console, INTERRUPTED};
use anyhow::{Context, Result, ensure};
use speedwell_environment as environment;
use speedwell_process as process;
use speedwell_report::snippet::hindrance;
use speedwell_report::{Format, Output, Verbosity, print};
use std::io::Write;
use std::path::{Path, PathBuf};

const TOOL: &str = "erlperf";
const USAGE: &str = include_str!("../usage/erlperf.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    let done = match Command::parse(arguments) {
        Ok(Command::Help) => return Ok(console.help(USAGE)?),
        Ok(Command::Measure(request)) => measure(&request, console),
        Err(reason) => return Ok(console.refuse_with_hint(TOOL, &reason, "--help")?),
    };
    console.tell_failure(TOOL, done)
}

fn measure(request: &Request, console: &mut Console<'_>) -> Result<i32> {
    let paths = request
        .paths
        .iter()
        .map(|path| folder(path, &console.directory));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let known = request.snippets.iter();
    let known = known.map(|snippet| snippet::read(snippet, &paths, &console.directory));
    let known: Result<Vec<Known>, String> = known.collect();
    let known = known.map_err(anyhow::Error::msg)?;
    process::adopt_orphans();
    process::on_interrupt()?;
    // Output during measurement is for people, so formats for programs suppress it.
    let mut nowhere = std::io::sink();
    let out: &mut dyn Write = match request.format {
        Format::Text => &mut *console.stdout,
        _ => &mut nowhere,
    };
    let mut machines = Machines::start(request, known, &console.directory, out)?;
    let found = match request.squeeze {
        None => Found::sample_all(&mut machines, request, out)?,
        Some(search) => {
            let stderr = &mut *console.stderr;
            let mut report = |pass: &Pass| match line_of_pass(pass, request) {
                Some(line) => writeln!(stderr, "{TOOL}: {line}"),
                None => Ok(()),
            };
            let squeezed = sampling::squeeze(&mut machines, request, search, out, &mut report)?;
            Found::best(&machines, squeezed)
        }
    };
    machines.end();
    let ready = machines.ready.take();
    found.show(
        request,
        &machines,
        &System::from_ready(ready.as_ref(), None),
        console,
    )?;
    let failed = tell_faults(&machines, console)?;
    Ok(match (process::interrupted(), failed) {
        (true, _) => INTERRUPTED,
        (false, true) => COULD_NOT,
        (false, false) => 0,
    })
}

/// Resolves a folder of `-pa` to an absolute path.
fn folder(path: &str, directory: &Path) -> Result<PathBuf> {
    let full = directory.join(path);
    let full = full.canonicalize();
    let full = full.with_context(|| format!("cannot add '{path}' of -pa to the code path"))?;
    ensure!(
        full.is_dir(),
        "cannot add '{path}' of -pa to the code path: it is no folder"
    );
    Ok(full)
}

/// Results of all snippets.
struct Found {
    sampled: Sampled,
    /// Passes of a search.
    passes: Vec<Pass>,
    /// That the workers of a search hinder each other, if so.
    hindrance: Option<String>,
}

impl Found {
    fn sample_all(
        machines: &mut Machines,
        request: &Request,
        out: &mut dyn Write,
    ) -> Result<Found> {
        let all: Vec<usize> = (0..machines.jobs.len()).collect();
        for job in &all {
            machines.set_workers(*job, request.workers, out)?;
        }
        Ok(Found {
            sampled: sampling::sample(machines, &all, request, out)?,
            passes: Vec::new(),
            hindrance: None,
        })
    }

    fn best(machines: &Machines, squeezed: Squeezed) -> Found {
        let best = squeezed.best.map(|at| squeezed.passes[at].taken.clone());
        let mut taken = vec![Taken::default(); machines.jobs.len()];
        taken[0] = best.unwrap_or_default();
        Found {
            sampled: Sampled {
                taken,
                is_steady: true,
            },
            passes: squeezed.passes,
            hindrance: squeezed
                .scaling
                .and_then(|scaling| hindrance("erlang", &scaling)),
        }
    }

    /// Prints the table, and warnings about it.
    fn show(
        &self,
        request: &Request,
        machines: &Machines,
        system: &System,
        console: &mut Console<'_>,
    ) -> Result<()> {
        let lines = machines.jobs.iter().zip(&self.sampled.taken);
        let lines = lines.map(|(job, taken)| Line {
            label: job.known.label.clone(),
            workers: job
                .workers
                .max(taken.workers * u32::from(!self.passes.is_empty())),
            // A snippet that failed midway has no figures for its whole task.
            figures: taken
                .figures(request, job.empty_ns)
                .filter(|_| job.is_sound()),
        });
        let mut lines: Vec<Line> = lines.collect();
        if let (Some(line), false) = (lines.first_mut(), self.passes.is_empty()) {
            line.workers = self.sampled.taken[0].workers;
            // Results that a search found before an error stay valid.
            let taken = &self.sampled.taken[0];
            line.figures = taken.figures(request, machines.jobs[0].empty_ns);
        }
        let table = Table::sorted(sampling::unit(request), lines);
        let mut sentences = remarks::of_samples(&machines.jobs, &self.sampled, request);
        sentences.extend(self.hindrance.clone());
        sentences.extend(remarks::of_table(&table, request));
        if table.lines.iter().all(|line| line.figures.is_none()) {
            return Ok(());
        }
        let mut system = system.clone();
        system
            .warnings
            .extend(remarks::timer_warning(&self.sampled, request));
        match request.format {
            Format::Text => write_text(&table, request.detail(), &system, console)?,
            format => {
                let passes = self.passes.iter();
                let passes: Vec<Line> = passes.filter_map(|pass| line(pass, request)).collect();
                let warnings = [&system.warnings[..], &sentences[..]].concat();
                let document = table::document(&table, &passes, &warnings);
                print(&document, &output(format), console.stdout)?;
            }
        }
        console.stdout.flush()?;
        for sentence in sentences {
            console.warn(TOOL, &sentence)?;
        }
        Ok(())
    }
}

fn output(format: Format) -> Output {
    Output {
        format: Some(format),
        verbosity: Verbosity::Verbose,
        ..Output::default()
    }
}

fn write_text(
    table: &Table,
    detail: Detail,
    system: &System,
    console: &mut Console<'_>,
) -> Result<()> {
    for warning in &system.warnings {
        writeln!(console.stdout, "{warning}")?;
    }
    let processor = || environment::capture(&[]).cpu;
    let system = System {
        processor: (detail == Detail::Full).then(processor).flatten(),
        ..system.clone()
    };
    let is_terminal = console.stdout_is_terminal;
    Ok(system.write_table(table, detail, is_terminal, console.stdout)?)
}

/// Returns one pass as a row.
fn line(pass: &Pass, request: &Request) -> Option<Line> {
    Some(Line {
        label: format!("{} workers", pass.workers),
        workers: pass.workers,
        figures: Some(pass.taken.figures(request, None)?),
    })
}

/// Formats one pass for progress output during a search.
fn line_of_pass(pass: &Pass, request: &Request) -> Option<String> {
    let line = line(pass, request)?;
    let (figures, seen) = line.seen()?;
    let samples = figures.samples.iter().map(|sample| number(*sample));
    let samples: Vec<String> = samples.collect();
    Some(format!(
        "{} worker{}: {} ({}), {}",
        pass.workers,
        if pass.workers == 1 { "" } else { "s" },
        number(seen.average),
        samples.join(" "),
        duration(figures.iteration_ns)
    ))
}

/// Reports the errors of each snippet; returns whether there were any.
fn tell_faults(machines: &Machines, console: &mut Console<'_>) -> Result<bool> {
    console.stdout.flush()?;
    let mut failed = false;
    for job in &machines.jobs {
        for fault in &job.faults {
            failed = true;
            writeln!(
                console.stderr,
                "{TOOL}: '{}': {fault}",
                on_one_line(&job.known.label)
            )?;
            if job.known.lacks_dot && fault.reason.starts_with("parse error for runner") {
                let name = &job.known.shown;
                writeln!(
                    console.stderr,
                    "hint: there is no file '{name}' with recorded calls either; code ends with a period (dot)"
                )?;
            }
        }
    }
    Ok(failed)
}
