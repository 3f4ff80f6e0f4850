//! Takes samples of snippets in the requested order, until there are enough.
//!
//! Decides which snippet is measured next; `vms.rs` measures it. With `-q`, searches for the best
//! number of workers: each pass adds workers to the existing ones, until throughput stops growing.
//! `analysis` decides whether throughput has grown by more than the noise, and which number of
//! workers is the best. Start at [`take_samples`] and [`search_workers`].

use crate::erlperf::arguments::{ErlperfRequest, SampleDefinition, SampleOrder, SqueezeOptions};
use crate::erlperf::table::{LineFigures, relative_deviation};
use crate::erlperf::vms::ErlangMachines;
use speedwell_analysis::scaling::{
    self, ConcurrencyLevel, NextLevel, SaturationRules, ScalingFindings,
};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_model::{SampleDivision, SampleLength, SnippetTiming, TimingWindow};
use std::io;
use std::time::Instant;

/// Measurements of one snippet.
#[derive(Debug, Clone, Default)]
pub struct SnippetSamples {
    /// All samples in order.
    pub windows: Vec<TimingWindow>,
    /// Number of workers that executed the snippet.
    pub workers: u32,
    /// Results of each visit. A visit takes one or more samples without a pause.
    pub visits: Vec<SnippetTiming>,
    /// Longest time by which a sample ended later than planned, in nanoseconds.
    pub late_ns: f64,
}

/// Samples of all snippets, and whether they are as steady as requested.
pub struct SampledSnippets {
    /// Measurements by snippet.
    pub by_snippet: Vec<SnippetSamples>,
    /// False if sampling ended before the samples were steady.
    pub is_steady: bool,
}

/// Takes the requested samples of these snippets.
///
/// # Errors
/// Fails if the output is closed.
pub fn take_samples(
    machines: &mut ErlangMachines<'_>,
    jobs: &[usize],
) -> io::Result<SampledSnippets> {
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
            return Ok(SampledSnippets { by_snippet, is_steady });
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
    /// Returns the last `count` samples. The samples before them were not steady.
    pub fn last_windows(&self, count: u32) -> &[TimingWindow] {
        let start = self.windows.len().saturating_sub(count as usize);
        &self.windows[start..]
    }

    /// Computes the figures of the last samples. Subtracts the cost of the loop itself if the user
    /// requested this; `empty_ns` is the cost of one empty iteration.
    pub fn net_figures(
        &self,
        request: &ErlperfRequest,
        empty_ns: Option<f64>,
    ) -> Option<LineFigures> {
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
pub struct SqueezePass {
    pub workers: u32,
    pub samples: SnippetSamples,
}

/// Results of all snippets.
pub struct ErlperfResults {
    pub sampled: SampledSnippets,
    /// Passes of a search for the best number of workers; empty without `-q`.
    pub passes: Vec<SqueezePass>,
    /// Scaling over all passes.
    pub scaling: Option<ScalingFindings>,
}

/// Searches for the best number of workers of the only snippet.
///
/// # Errors
/// Fails if an output is closed.
pub fn search_workers(
    machines: &mut ErlangMachines<'_>,
    search: SqueezeOptions,
    report: &mut dyn FnMut(&SqueezePass) -> io::Result<()>,
) -> io::Result<ErlperfResults> {
    let request = machines.request;
    let rules = scaling_rules(search, request.samples);
    let mut levels: Vec<ConcurrencyLevel> = Vec::new();
    let mut passes: Vec<SqueezePass> = Vec::new();
    while let NextLevel::Visit(workers) = scaling::next_level(&levels, &rules) {
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
        report(&pass)?;
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
    let sampled = SampledSnippets { by_snippet, is_steady: true };
    Ok(ErlperfResults { sampled, passes, scaling })
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
mod tests {
    use super::*;

    fn squeeze_options(
        min_workers: u32,
        step: u32,
        max_workers: u32,
        threshold: u32,
    ) -> SqueezeOptions {
        SqueezeOptions { min_workers, step, max_workers, threshold }
    }

    /// Simulates a search in which all throughputs are exact. Returns the numbers of workers that
    /// it visited, and the best one.
    fn simulate_search(
        search: SqueezeOptions,
        throughput: impl Fn(u32) -> f64,
    ) -> (Vec<u32>, Option<u32>) {
        let rules = scaling_rules(search, 3);
        let mut levels: Vec<ConcurrencyLevel> = Vec::new();
        while let NextLevel::Visit(workers) = scaling::next_level(&levels, &rules) {
            assert!(levels.iter().all(|level| level.concurrency != workers));
            scaling::add_visits(&mut levels, workers, [throughput(workers); 3]);
        }
        let visited = levels.iter().map(|level| level.concurrency).collect();
        let answer =
            scaling::evaluate_scaling(&levels).map(|found| found.answer.at_knee().concurrency);
        (visited, answer)
    }

    #[test]
    fn the_threshold_counts_workers_whatever_the_step() {
        let flat_from_20 = |workers: u32| f64::from(workers.min(20));
        let (visited, answer) = simulate_search(squeeze_options(1, 10, 1000, 3), flat_from_20);
        assert_eq!((visited, answer), (vec![1, 10, 20, 30], Some(20)));
        let flat_from_2 = |workers: u32| f64::from(workers.min(2));
        let (visited, answer) = simulate_search(squeeze_options(1, 1, 1000, 3), flat_from_2);
        assert_eq!((visited, answer), (vec![1, 2, 3, 4, 5], Some(2)));
    }

    #[test]
    fn a_search_that_reaches_the_maximum_returns_the_best_worker_count() {
        let falling = |workers: u32| 1.0 / f64::from(workers);
        assert_eq!(simulate_search(squeeze_options(1, 1, 2, 3), falling), (vec![1, 2], Some(1)));
    }

    #[test]
    fn a_maximum_below_the_minimum_gives_one_pass() {
        let (visited, answer) = simulate_search(squeeze_options(5, 1, 3, 3), f64::from);
        assert_eq!((visited, answer), (vec![5], Some(5)));
    }

    #[test]
    fn a_maximum_between_steps_is_not_visited() {
        let (visited, _) = simulate_search(squeeze_options(1, 10, 25, 3), f64::from);
        assert_eq!(visited, [1, 10, 20]);
    }

    #[test]
    fn passes_without_iterations_count_towards_the_threshold() {
        let (visited, _) = simulate_search(squeeze_options(1, 1, 10, 3), |_| 0.0);
        assert_eq!(visited, [1, 2, 3, 4]);
    }
}
