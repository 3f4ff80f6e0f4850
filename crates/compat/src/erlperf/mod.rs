//! Emulates erlperf: measures Erlang code and prints erlperf's tables.
//!
//! Decides the order of steps and the exit status: 0 if every snippet was measured, 2 if something
//! failed or the command line is invalid, 130 after Ctrl-C. Tables go to standard output, errors to
//! standard error. `docs/reference/erlperf.md` lists the differences from erlperf. Start at
//! [`run`].
//!
//! erlperf itself warns only of late timers. We also warn of differences without significance,
//! disturbed measurements, code that the compiler has optimized away, and samples that never became
//! steady.

pub use crate::erlperf::table::{ReportDetail, write_session};

use crate::console::{DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::erlperf::arguments::{ErlperfRequest, SampleDefinition};
use crate::erlperf::sampling::{ErlperfResults, SampledSnippets, SnippetSamples, SqueezePass};
use crate::erlperf::snippet::ErlangSnippet;
use crate::erlperf::table::{
    SampleUnit, SnippetLine, SnippetTable, SystemDescription, format_duration, format_number,
    to_single_line,
};
use crate::erlperf::vms::{ErlangMachines, SnippetJob};
use anyhow::{Context, Result, ensure};
use speedwell_adapters::snippet::folded_warning;
use speedwell_analysis::snippet::{MAX_DISTURBANCE, p_of_difference};
use speedwell_machine::environment;
use speedwell_machine::process::{self, is_interrupt_requested};
use speedwell_model::median;
use speedwell_report::snippet::{ERLANG_LOCKS, hindrance_note};
use speedwell_report::{OutputOptions, ReportFormat, Verbosity, print_document};
use std::io::Write;
use std::path::{Path, PathBuf};

mod arguments;
mod sampling;
mod snippet;
mod table;
mod vms;

const TOOL: &str = "erlperf";
const USAGE: &str = include_str!("../usage/erlperf.txt");

/// Runs the tool; returns the exit status.
///
/// # Errors
/// Fails if standard output or standard error is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    let result = match ErlperfRequest::parse(arguments) {
        Ok(None) => return Ok(console.print_help(USAGE)?),
        Ok(Some(request)) => measure_snippets(&request, console),
        Err(reason) => return Ok(console.reject_with_hint(TOOL, &reason, "--help")?),
    };
    console.report_failure(TOOL, result)
}

fn measure_snippets(request: &ErlperfRequest, console: &mut DropInConsole<'_>) -> Result<i32> {
    let directory = &console.directory;
    let paths = request.paths.iter().map(|path| resolve_folder(path, directory));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let snippets =
        request.snippets.iter().map(|typed| snippet::parse_snippet(typed, &paths, directory));
    let snippets: Vec<ErlangSnippet> =
        snippets.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    process::adopt_orphans();
    process::install_handlers()?;
    // The lines printed while measuring are for people. If the report has a format for programs,
    // these lines are discarded.
    let mut nowhere = std::io::sink();
    let out: &mut dyn Write = match request.format {
        ReportFormat::Text => &mut *console.stdout,
        _ => &mut nowhere,
    };
    let mut machines = ErlangMachines::start_all(request, snippets, &console.directory, out)?;
    let results = match request.squeeze {
        None => {
            let jobs: Vec<usize> = (0..machines.jobs.len()).collect();
            for &job in &jobs {
                machines.set_workers(job, request.workers)?;
            }
            let sampled = sampling::take_samples(&mut machines, &jobs)?;
            ErlperfResults { sampled, passes: Vec::new(), scaling: None }
        }
        Some(search) => {
            let stderr = &mut *console.stderr;
            let mut report = |pass: &SqueezePass| match format_pass(pass, request) {
                Some(line) => writeln!(stderr, "{TOOL}: {line}"),
                None => Ok(()),
            };
            sampling::search_workers(&mut machines, search, &mut report)?
        }
    };
    let (jobs, ready) = machines.stop_all();
    let system = SystemDescription::from_ready(ready.as_ref());
    results.print_results(request, &jobs, system, console)?;
    let failed = report_faults(&jobs, console)?;
    if is_interrupt_requested() {
        return Ok(EXIT_INTERRUPTED);
    }
    Ok(if failed { EXIT_FAILED } else { 0 })
}

/// Resolves a folder given with `-pa` to an absolute path.
fn resolve_folder(path: &str, directory: &Path) -> Result<PathBuf> {
    let problem = format!("cannot add '{path}' of -pa to the code path");
    let absolute = directory.join(path).canonicalize().context(problem.clone())?;
    ensure!(absolute.is_dir(), "{problem}: not a folder");
    Ok(absolute)
}

impl ErlperfResults {
    /// Prints the table, and warnings about it; prints nothing if no snippet has figures.
    fn print_results(
        &self,
        request: &ErlperfRequest,
        jobs: &[SnippetJob],
        mut system: SystemDescription,
        console: &mut DropInConsole<'_>,
    ) -> Result<()> {
        let is_search = !self.passes.is_empty();
        let measured = jobs.iter().zip(&self.sampled.by_snippet);
        let lines = measured.map(|(job, samples)| SnippetLine {
            label: job.parsed.label.clone(),
            workers: if is_search { samples.workers } else { job.workers },
            // A snippet that failed midway shows no figures, because its samples are incomplete. The
            // passes that a search completed before an error stay valid.
            figures: samples
                .net_figures(request, job.empty_ns)
                .filter(|_| is_search || job.is_measurable()),
        });
        let is_timed = matches!(request.sample, SampleDefinition::Window(_));
        let unit = if is_timed { SampleUnit::Iterations } else { SampleUnit::Nanoseconds };
        let table = SnippetTable::from_unsorted(unit, lines.collect());
        let mut messages = sample_warnings(jobs, &self.sampled, request);
        let scaling = self.scaling.as_ref();
        messages.extend(scaling.and_then(|scaling| hindrance_note("erlang", scaling)));
        messages.extend(table_warnings(&table, request));
        if table.lines.iter().all(|line| line.figures.is_none()) {
            return Ok(());
        }
        system.warnings.extend(timer_warning(&self.sampled, request));
        match request.format {
            ReportFormat::Text => {
                for warning in &system.warnings {
                    writeln!(console.stdout, "{warning}")?;
                }
                let detail = request.report_detail();
                if detail == ReportDetail::Full {
                    system.processor = environment::capture_environment(&[]).cpu;
                }
                let is_terminal = console.stdout_is_terminal;
                system.write_table(&table, detail, is_terminal, console.stdout)?;
            }
            format => {
                let passes = self.passes.iter();
                let passes: Vec<SnippetLine> =
                    passes.filter_map(|pass| pass_line(pass, request)).collect();
                let warnings = [&system.warnings[..], &messages[..]].concat();
                let document = table::build_document(&table, &passes, &warnings);
                let output = OutputOptions {
                    format: Some(format),
                    verbosity: Verbosity::Verbose,
                    ..OutputOptions::default()
                };
                print_document(&document, &output, console.stdout)?;
            }
        }
        console.stdout.flush()?;
        for message in messages {
            console.warn(TOOL, &message)?;
        }
        Ok(())
    }
}

/// Converts one pass of a search to a row; `None` if the pass has no samples.
fn pass_line(pass: &SqueezePass, request: &ErlperfRequest) -> Option<SnippetLine> {
    Some(SnippetLine {
        label: format!("{} workers", pass.workers),
        workers: pass.workers,
        figures: Some(pass.samples.net_figures(request, None)?),
    })
}

/// Formats one pass for progress output during a search.
fn format_pass(pass: &SqueezePass, request: &ErlperfRequest) -> Option<String> {
    let line = pass_line(pass, request)?;
    let (figures, statistics) = line.figures_with_statistics()?;
    let samples: Vec<String> = figures.samples.iter().copied().map(format_number).collect();
    Some(format!(
        "{} worker{}: {} ({}), {}",
        pass.workers,
        if pass.workers == 1 { "" } else { "s" },
        format_number(statistics.average),
        samples.join(" "),
        format_duration(figures.iteration_ns)
    ))
}

/// Reports the errors of each snippet; returns whether there were any.
fn report_faults(jobs: &[SnippetJob], console: &mut DropInConsole<'_>) -> Result<bool> {
    console.stdout.flush()?;
    let mut failed = false;
    for job in jobs {
        for fault in &job.faults {
            failed = true;
            writeln!(console.stderr, "{TOOL}: '{}': {fault}", to_single_line(&job.parsed.label))?;
            if job.parsed.lacks_dot && fault.reason.starts_with("parse error for runner") {
                let name = &job.parsed.shown;
                writeln!(
                    console.stderr,
                    "hint: end Erlang code with a period (dot), or check the file name: no file \
                     '{name}' with recorded calls exists"
                )?;
            }
        }
    }
    Ok(failed)
}

/// Differences are significant only if their p value is below this.
const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// erlperf prints this warning when a sample ends so late that the next one is due. From then on,
/// it busy-waits for the end of each sample.
const TIMER_WARNING: &str = "Timer accuracy problem detected, results may be inaccurate";

/// Returns erlperf's warning if a sample of any snippet was late.
pub fn timer_warning(sampled: &SampledSnippets, request: &ErlperfRequest) -> Option<String> {
    let mut late = sampled.by_snippet.iter().filter_map(|samples| lateness(samples, request));
    late.next().map(|_| TIMER_WARNING.to_owned())
}

/// Returns warnings about how each snippet was measured.
pub fn sample_warnings(
    jobs: &[SnippetJob],
    sampled: &SampledSnippets,
    request: &ErlperfRequest,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (job, samples) in jobs.iter().zip(&sampled.by_snippet) {
        let remarks = remarks_on(job, samples, request);
        warnings.extend(remarks.map(|remark| format!("{}: {remark}", job.parsed.label)));
    }
    if let (false, Some(until)) = (sampled.is_steady, request.until) {
        warnings.push(format!(
            "The variation of the samples never fell to the {} that --cv requires; the last {} \
             samples are shown.",
            until.variation, request.samples
        ));
    }
    warnings
}

fn remarks_on(
    job: &SnippetJob,
    samples: &SnippetSamples,
    request: &ErlperfRequest,
) -> impl Iterator<Item = String> {
    let missing = missing_samples_warning(samples, request)
        .filter(|_| job.is_measurable() && !is_interrupt_requested());
    let last = samples.visits.last();
    let folded = last.and_then(|last| folded_warning(last, job.empty_ns, job.loaded.as_ref()));
    let disturbed = disturbance_warning(samples, request);
    [missing, folded, disturbed, lateness(samples, request)].into_iter().flatten()
}

/// Returns a warning if a sample ended so late that the next one was due. There is no warning if
/// iterations usually take this long.
fn lateness(samples: &SnippetSamples, request: &ErlperfRequest) -> Option<String> {
    let SampleDefinition::Window(length) = request.sample else { return None };
    let iteration_ns = samples.net_figures(request, None)?.iteration_ns;
    let is_late = samples.late_ns - iteration_ns >= length.as_nanos() as f64;
    (is_late && iteration_ns.is_finite()).then(|| {
        format!(
            "A sample ended {} late, although samples should take only {} ms. Workers had to wait, \
             or a few iterations take much longer than most. Where processes wait for each other, \
             {ERLANG_LOCKS}.",
            format_duration(samples.late_ns),
            length.as_millis()
        )
    })
}

/// Reports how many of the requested samples are missing, if any.
fn missing_samples_warning(samples: &SnippetSamples, request: &ErlperfRequest) -> Option<String> {
    let count = samples.windows.len();
    let is_short = (1..request.samples as usize).contains(&count);
    is_short.then(|| {
        format!(
            "Only {count} of {} samples were taken: iterations are longer than samples, or \
             workers waited too long for a processor. Increase -d to get more samples.",
            request.samples
        )
    })
}

/// Returns a warning if an iteration takes much longer on average than in the median batch. There
/// is no warning if there are more workers than processors: the workers then wait for each other,
/// which is not a disturbance.
fn disturbance_warning(samples: &SnippetSamples, request: &ErlperfRequest) -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if samples.workers as usize > processors {
        return None;
    }
    let batches = samples.visits.iter().filter_map(|visit| visit.batches);
    let mut medians: Vec<f64> = batches.map(|batches| batches.median_ns).collect();
    let typical_ns = median(&mut medians)?;
    let ratio = samples.net_figures(request, None)?.iteration_ns / typical_ns;
    (ratio > MAX_DISTURBANCE && ratio.is_finite()).then(|| {
        format!(
            "Iterations take on average {ratio:.1} times as long as in the median batch ({}): the \
             machine was busy with other work, or a few iterations cost much more than most.",
            format_duration(typical_ns)
        )
    })
}

/// Returns warnings about snippets that do not differ significantly from the best one.
pub fn table_warnings(table: &SnippetTable, request: &ErlperfRequest) -> Vec<String> {
    let Some((best, others)) = table.lines.split_first() else { return Vec::new() };
    let unclear = others.iter().filter_map(|other| {
        let (best_figures, figures) = best.figures.as_ref().zip(other.figures.as_ref())?;
        let p = p_of_difference(&best_figures.samples, &figures.samples)?;
        (p >= SIGNIFICANCE_LEVEL).then(|| {
            format!(
                "'{}' and '{}' are statistically indistinguishable: p = {p:.2} by Welch's test of the logarithms of {} samples each.",
                best.label, other.label, request.samples
            )
        })
    });
    let mut warnings: Vec<String> = unclear.collect();
    if !warnings.is_empty() && matches!(request.sample, SampleDefinition::Window(_)) {
        let advice = "Take more samples (-s); for verdicts, use 'speedwell eval erlang'.";
        warnings.push(advice.to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{BatchQuantiles, SnippetTiming, TimingWindow};

    /// Returns one visit with one window, in which the mean is ten times the median batch.
    fn taken(workers: u32) -> SnippetSamples {
        let window = TimingWindow { per_s: 1e6, elapsed_ns: 1e9, iterations: 1e6 };
        let median_ns = 100.0 * f64::from(workers);
        let batches = BatchQuantiles {
            min_ns: median_ns,
            p5_ns: median_ns,
            p25_ns: median_ns,
            median_ns,
            count: 9,
        };
        let visit = SnippetTiming {
            workers,
            windows: vec![window],
            per_s: Some(window.per_s),
            batches: Some(batches),
            ..SnippetTiming::default()
        };
        SnippetSamples { windows: vec![window], workers, visits: vec![visit], late_ns: 0.0 }
    }

    fn request() -> ErlperfRequest {
        match ErlperfRequest::parse(&["ok.".to_owned()]) {
            Ok(Some(request)) => request,
            _ => panic!("'ok.' is a snippet"),
        }
    }

    #[test]
    fn more_workers_than_processors_cause_no_disturbance_warning() {
        let alone = disturbance_warning(&taken(1), &request()).unwrap();
        assert!(alone.contains("take on average 10.0 times as long"), "{alone}");
        assert_eq!(disturbance_warning(&taken(100_000), &request()), None);
    }

    #[test]
    fn missing_samples_are_counted() {
        let sentence = missing_samples_warning(&taken(1), &request()).unwrap();
        assert!(sentence.starts_with("Only 1 of 3 samples were taken"), "{sentence}");
        let changed_request = ErlperfRequest { samples: 1, ..request() };
        assert_eq!(missing_samples_warning(&taken(1), &changed_request), None);
    }

    #[test]
    fn a_sample_later_than_a_whole_period_causes_a_timer_warning() {
        // Each sample takes a second, and each iteration takes a microsecond.
        let late = |late_ns: f64| SnippetSamples { late_ns, ..taken(1) };
        let warning = |samples: &SnippetSamples| {
            let sampled = SampledSnippets {
                by_snippet: vec![SnippetSamples::default(), samples.clone()],
                is_steady: true,
            };
            timer_warning(&sampled, &request())
        };
        assert_eq!(warning(&late(0.9e9)), None);
        assert_eq!(warning(&late(1.5e9)).as_deref(), Some(TIMER_WARNING));
        let sentence = lateness(&late(1.5e9), &request()).unwrap();
        assert!(
            sentence.contains("1500 ms late, although samples should take only 1000 ms")
                && sentence.contains("lcnt"),
            "{sentence}"
        );
        // An iteration that takes two seconds must end late.
        let mut slow = late(1.5e9);
        slow.windows[0].iterations = 0.5;
        assert_eq!(warning(&slow), None);
        let fixed = ErlperfRequest { sample: SampleDefinition::Loop(10), ..request() };
        assert_eq!(lateness(&late(1.5e9), &fixed), None);
    }
}
