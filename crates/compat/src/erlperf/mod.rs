//! Emulates erlperf: measures Erlang code and prints erlperf's tables.
//!
//! Decides the order of steps and the exit status: 0 if every snippet was measured, 2 if something
//! failed or the command line is invalid, 130 after Ctrl-C. Tables go to standard output, errors to
//! standard error. `docs/reference/erlperf.md` lists the differences from erlperf. Start at
//! [`run`].
//!
//! Also decides which snippet is measured next; `vms.rs` measures it. With `-q`, searches for the
//! best number of workers: each pass adds workers to the existing ones, until throughput stops
//! growing. `analysis` decides whether throughput has grown by more than the noise, and which
//! number of workers is the best.
//!
//! erlperf itself warns only of late timers. We also warn of differences without significance,
//! disturbed measurements, code that the compiler has optimized away, and samples that never became
//! steady.

pub use crate::erlperf::table::{ReportDetail, write_session};

use crate::console::{DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::erlperf::arguments::{ErlperfRequest, SampleDefinition, SampleOrder, SqueezeOptions};
use crate::erlperf::table::{
    LineFigures, SampleUnit, SnippetLine, SnippetTable, SystemDescription, format_duration,
    format_number, relative_deviation, to_single_line,
};
use crate::erlperf::vms::{ErlangMachines, SnippetJob};
use anyhow::{Context, Result, ensure};
use speedwell_adapters::snippet::folded_warning;
use speedwell_analysis::scaling::{self, ConcurrencyLevel, SaturationRules, ScalingFindings};
use speedwell_analysis::snippet::{MAX_DISTURBANCE, p_of_difference};
use speedwell_machine::environment;
use speedwell_machine::process::{self, is_interrupt_requested};
use speedwell_model::{SampleDivision, SampleLength, SnippetTiming, TimingWindow, median};
use speedwell_report::snippet::{ERLANG_LOCKS, hindrance_note};
use speedwell_report::{OutputOptions, ReportFormat, Verbosity, print_document};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

mod arguments;
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
    let snippets: Vec<_> = snippets.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    process::prepare_to_measure()?;
    // The lines printed while measuring are for people. If the report has a format for programs,
    // these lines are discarded.
    let mut nowhere = io::sink();
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
            take_samples(&mut machines, &jobs)?
        }
        Some(search) => search_workers(&mut machines, search, console.stderr)?,
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
        let measured = jobs.iter().zip(&self.by_snippet);
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
        let mut messages = self.sample_warnings(jobs, request);
        let scaling = self.scaling.as_ref();
        messages.extend(scaling.and_then(|scaling| hindrance_note("erlang", scaling)));
        messages.extend(table_warnings(&table, request));
        if table.lines.iter().all(|line| line.figures.is_none()) {
            return Ok(());
        }
        system.warnings.extend(timer_warning(&self.by_snippet, request));
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
                let passes: Vec<_> = passes.filter_map(|pass| pass_line(pass, request)).collect();
                let warnings = [&system.warnings[..], &messages[..]].concat();
                let document = table.build_document(&passes, &warnings);
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

    /// Returns warnings about how each snippet was measured.
    fn sample_warnings(&self, jobs: &[SnippetJob], request: &ErlperfRequest) -> Vec<String> {
        let mut warnings = Vec::new();
        for (job, samples) in jobs.iter().zip(&self.by_snippet) {
            let remarks = samples.remarks(job, request);
            warnings.extend(remarks.map(|remark| format!("{}: {remark}", job.parsed.label)));
        }
        if let (false, Some(until)) = (self.is_steady, request.until) {
            warnings.push(format!(
                "The variation of the samples never fell to the {} that --cv requires; the last {} \
                 samples are shown.",
                until.variation, request.samples
            ));
        }
        warnings
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
    let workers = pass.workers;
    let plural = if workers == 1 { "" } else { "s" };
    let (average, samples) = (format_number(statistics.average), samples.join(" "));
    let time = format_duration(figures.iteration_ns);
    Some(format!("{workers} worker{plural}: {average} ({samples}), {time}"))
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
fn timer_warning(by_snippet: &[SnippetSamples], request: &ErlperfRequest) -> Option<String> {
    let mut late = by_snippet.iter().filter_map(|samples| lateness(samples, request));
    late.next().map(|_| TIMER_WARNING.to_owned())
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
fn table_warnings(table: &SnippetTable, request: &ErlperfRequest) -> Vec<String> {
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

// Takes samples of snippets in the requested order, until there are enough.

/// Measurements of one snippet.
#[derive(Debug, Clone, Default)]
struct SnippetSamples {
    /// All samples in order.
    windows: Vec<TimingWindow>,
    /// Number of workers that executed the snippet.
    workers: u32,
    /// Results of each visit. A visit takes one or more samples without a pause.
    visits: Vec<SnippetTiming>,
    /// Longest time by which a sample ended later than planned, in nanoseconds.
    late_ns: f64,
}

/// Takes the requested samples of these snippets.
///
/// # Errors
/// Fails if the output is closed.
fn take_samples(machines: &mut ErlangMachines<'_>, jobs: &[usize]) -> io::Result<ErlperfResults> {
    let request = machines.request;
    let mut by_snippet = vec![SnippetSamples::default(); machines.jobs.len()];
    let begin = Instant::now();
    let is_parallel = jobs.len() < 2 || request.order == SampleOrder::Parallel;
    let mut round = 0;
    if is_parallel {
        measure_together(machines, jobs, request.samples, true, &mut by_snippet)?;
        round = request.samples;
    }
    loop {
        let has_enough = round >= request.samples;
        let is_steady = has_enough && is_steady(machines, &by_snippet);
        let is_late = request.until.is_some_and(|until| {
            let is_over = until.max_time.is_some_and(|max_time| begin.elapsed() >= max_time);
            round >= until.max_samples || is_over
        });
        let none_left = !jobs.iter().any(|job| machines.jobs[*job].is_measurable());
        if is_steady || is_interrupt_requested() || none_left || has_enough && is_late {
            return Ok(ErlperfResults { by_snippet, is_steady, passes: Vec::new(), scaling: None });
        }
        let mut job_order = jobs.to_vec();
        // Every second round has the reverse order, so that slow changes of the machine affect all
        // snippets equally.
        if request.order == SampleOrder::Blocks && round % 2 == 1 {
            job_order.reverse();
        }
        let group_size = if is_parallel { jobs.len() } else { 1 };
        for group in job_order.chunks(group_size) {
            if !is_interrupt_requested() {
                measure_together(machines, group, 1, round == 0, &mut by_snippet)?;
            }
        }
        round += 1;
    }
}

/// Measures snippets at the same time.
fn measure_together(
    machines: &mut ErlangMachines<'_>,
    jobs: &[usize],
    count: u32,
    is_first: bool,
    by_snippet: &mut [SnippetSamples],
) -> io::Result<()> {
    let samples = sample_settings(machines.request, count, is_first);
    for visit in machines.run_jobs(jobs, &samples)? {
        let samples_of_job = &mut by_snippet[visit.job];
        samples_of_job.workers = visit.timing.workers;
        samples_of_job.windows.extend(&visit.timing.windows);
        samples_of_job.late_ns = samples_of_job.late_ns.max(visit.late_ns);
        samples_of_job.visits.push(visit.timing);
    }
    Ok(())
}

fn sample_settings(request: &ErlperfRequest, count: u32, is_first: bool) -> SampleDivision {
    let warmup = if is_first { request.warmup } else { 0 };
    let (length, warmup_ns) = match request.sample {
        SampleDefinition::Window(length) => {
            let ns = length.as_nanos() as u64;
            (SampleLength::TimeNs(ns), ns * u64::from(warmup))
        }
        SampleDefinition::Loop(iterations) => (SampleLength::Iterations(iterations), 0),
    };
    SampleDivision { count, length, warmup_ns }
}

/// Whether the last samples of every snippet vary by no more than requested.
fn is_steady(machines: &ErlangMachines<'_>, by_snippet: &[SnippetSamples]) -> bool {
    let request = machines.request;
    let Some(until) = request.until else { return true };
    let mut measurable =
        (by_snippet.iter()).zip(&machines.jobs).filter(|(_, job)| job.is_measurable());
    measurable.all(|(samples, _)| {
        let last_windows = samples.last_windows(request.samples);
        let rates: Vec<f64> = last_windows.iter().map(|window| window.per_s).collect();
        // A single sample cannot vary.
        rates.len() < 2 || relative_deviation(&rates).is_some_and(|share| share <= until.variation)
    })
}

impl SnippetSamples {
    /// Returns remarks on how the snippet was measured.
    fn remarks(&self, job: &SnippetJob, request: &ErlperfRequest) -> impl Iterator<Item = String> {
        let missing = missing_samples_warning(self, request)
            .filter(|_| job.is_measurable() && !is_interrupt_requested());
        let last = self.visits.last();
        let folded = last.and_then(|last| folded_warning(last, job.empty_ns, job.loaded.as_ref()));
        let disturbed = disturbance_warning(self, request);
        [missing, folded, disturbed, lateness(self, request)].into_iter().flatten()
    }

    /// Returns the last `count` samples. The samples before them were not steady.
    fn last_windows(&self, count: u32) -> &[TimingWindow] {
        let start = self.windows.len().saturating_sub(count as usize);
        &self.windows[start..]
    }

    /// Computes the figures of the last samples. Subtracts the cost of the loop itself if the user
    /// requested this; `empty_ns` is the cost of one empty iteration.
    fn net_figures(&self, request: &ErlperfRequest, empty_ns: Option<f64>) -> Option<LineFigures> {
        let windows = self.last_windows(request.samples);
        let loop_ns = empty_ns.filter(|_| request.subtracts_empty).unwrap_or(0.0);
        let workers = f64::from(self.workers);
        // Because of noise, the difference can be zero or negative.
        let net = |ns: f64| (ns - loop_ns).max(MIN_NET_TIME_NS);
        let samples = windows.iter().map(|window| {
            let time_ns = workers * 1e9 / window.per_s;
            match request.sample {
                SampleDefinition::Window(time) => workers * time.as_nanos() as f64 / net(time_ns),
                SampleDefinition::Loop(count) => {
                    net(window.elapsed_ns / count as f64) * count as f64
                }
            }
        });
        let iterations: f64 = windows.iter().map(|window| window.iterations).sum();
        let elapsed_ns: f64 = windows.iter().map(|window| window.elapsed_ns).sum();
        // Infinite if no iteration completed.
        let iteration_ns = net(workers * elapsed_ns / iterations);
        (!windows.is_empty()).then(|| LineFigures { samples: samples.collect(), iteration_ns })
    }
}

/// Lower limit of net times in nanoseconds. No processor can resolve a time as short as this.
const MIN_NET_TIME_NS: f64 = 1e-3;

/// Maximum number of passes with the same number of workers. A number of workers is measured again
/// only if it may be as good as the best.
const MAX_PASSES: u32 = 3;

#[derive(Debug, Clone)]
struct SqueezePass {
    workers: u32,
    samples: SnippetSamples,
}

/// Results of all snippets.
struct ErlperfResults {
    /// Measurements by snippet.
    by_snippet: Vec<SnippetSamples>,
    /// False if sampling ended before the samples were as steady as requested.
    is_steady: bool,
    /// Passes of a search for the best number of workers; empty without `-q`.
    passes: Vec<SqueezePass>,
    /// Scaling over all passes.
    scaling: Option<ScalingFindings>,
}

/// Searches for the best number of workers of the only snippet, and prints each pass on `stderr`.
///
/// # Errors
/// Fails if an output is closed.
fn search_workers(
    machines: &mut ErlangMachines<'_>,
    search: SqueezeOptions,
    stderr: &mut dyn Write,
) -> io::Result<ErlperfResults> {
    let request = machines.request;
    let rules = scaling_rules(search, request.samples);
    let mut levels: Vec<ConcurrencyLevel> = Vec::new();
    let mut passes: Vec<SqueezePass> = Vec::new();
    while let Some(workers) = scaling::next_level(&levels, &rules) {
        machines.set_workers(0, workers)?;
        let mut sampled = take_samples(machines, &[0])?;
        let samples = std::mem::take(&mut sampled.by_snippet[0]);
        let is_complete = machines.jobs[0].is_measurable() && !is_interrupt_requested();
        if samples.windows.is_empty() || !is_complete {
            break;
        }
        let rates = samples.last_windows(request.samples).iter().map(|window| window.per_s);
        scaling::add_visits(&mut levels, workers, rates);
        let pass = SqueezePass { workers, samples };
        if let Some(line) = format_pass(&pass, request) {
            writeln!(stderr, "{TOOL}: {line}")?;
        }
        passes.push(pass);
    }
    let scaling = scaling::evaluate_scaling(&levels);
    let knee = scaling.as_ref().map(|scaling| scaling.answer.at_knee().concurrency);
    // If no iteration completed in any pass, the first pass is as good as any other.
    let best = knee.or(passes.first().map(|pass| pass.workers));
    // The table shows the last pass with the best number of workers, which is the smallest one that
    // no other number beats.
    let best = passes.iter().rfind(|pass| Some(pass.workers) == best);
    let by_snippet = vec![best.map(|pass| pass.samples.clone()).unwrap_or_default()];
    Ok(ErlperfResults { by_snippet, is_steady: true, passes, scaling })
}

/// Converts the options of a search to the rules of `analysis`. erlperf ends a search when a given
/// number of added workers have not increased throughput; `analysis` ends it when a given number of
/// passes have not.
fn scaling_rules(search: SqueezeOptions, samples: u32) -> SaturationRules {
    let step = search.step;
    SaturationRules {
        first: search.min_workers,
        step: Some(step),
        limit: (search.max_workers / step * step).max(search.min_workers),
        patience: search.threshold.div_ceil(step).max(1),
        visits: samples,
        most_visits: samples.saturating_mul(MAX_PASSES),
    }
}

#[cfg(test)]
mod tests;
