//! Creates the warnings below a table. erlperf itself warns only of late timers. We also warn of
//! differences without significance, disturbed measurements, code that the compiler has optimized
//! away, and samples that never became steady.

use super::arguments::{ErlperfRequest, SampleDefinition};
use super::sampling::{SampledSnippets, SnippetSamples};
use super::table::{SnippetLine, SnippetTable, format_duration};
use super::vms::SnippetJob;
use speedwell_adapters::snippet::folded_warning;
use speedwell_analysis::snippet::{MAX_DISTURBANCE, p_of_difference};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_model::median;
use speedwell_report::snippet::ERLANG_LOCKS;

/// Differences are significant only if their p value is below this.
const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// erlperf prints this warning when a sample ends so late that the next one is due. From then on,
/// it busy-waits for the end of each sample.
const TIMER_WARNING: &str = "Timer accuracy problem detected, results may be inaccurate";

/// Returns erlperf's warning if a sample of any snippet was late.
pub fn timer_warning(sampled: &SampledSnippets, request: &ErlperfRequest) -> Option<String> {
    let mut samples = sampled.by_snippet.iter();
    let is_late = samples.any(|samples| lateness(samples, request).is_some());
    is_late.then(|| TIMER_WARNING.to_owned())
}

/// Returns warnings about how each snippet was measured.
pub fn sample_warnings(
    jobs: &[SnippetJob],
    sampled: &SampledSnippets,
    request: &ErlperfRequest,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (job, samples) in jobs.iter().zip(&sampled.by_snippet) {
        warnings.extend(
            remarks_on(job, samples, request)
                .map(|warning| format!("{}: {warning}", job.parsed.label)),
        );
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

fn remarks_on<'a>(
    job: &'a SnippetJob,
    samples: &'a SnippetSamples,
    request: &'a ErlperfRequest,
) -> impl Iterator<Item = String> + 'a {
    let missing = missing_samples_warning(samples, request)
        .filter(|_| job.is_measurable() && !is_interrupt_requested());
    let folded = samples
        .visits
        .last()
        .and_then(|measured| folded_warning(measured, job.empty_ns, job.loaded.as_ref()));
    let sentences = missing.into_iter().chain(folded);
    sentences.chain(disturbance_warning(samples, request)).chain(lateness(samples, request))
}

/// Returns a warning if a sample ended so late that the next one was due. There is no warning if
/// iterations usually take this long.
fn lateness(samples: &SnippetSamples, request: &ErlperfRequest) -> Option<String> {
    let SampleDefinition::Window(length) = request.sample else {
        return None;
    };
    let unadjusted = ErlperfRequest { subtracts_empty: false, ..request.clone() };
    let iteration_ns = samples.net_figures(&unadjusted, None)?.iteration_ns;
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

/// Returns a warning if the mean time of an iteration is much longer over the samples than in the
/// median batch. There is no warning if there are more workers than processors: the workers then
/// wait for each other, which is not a disturbance.
fn disturbance_warning(samples: &SnippetSamples, request: &ErlperfRequest) -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if samples.workers as usize > processors {
        return None;
    }
    let batches = samples.visits.iter().filter_map(|visit| visit.batches);
    let mut medians: Vec<f64> = batches.map(|batches| batches.median_ns).collect();
    let typical_ns = median(&mut medians)?;
    let unadjusted = ErlperfRequest { subtracts_empty: false, ..request.clone() };
    let ratio = samples.net_figures(&unadjusted, None)?.iteration_ns / typical_ns;
    (ratio > MAX_DISTURBANCE && ratio.is_finite()).then(|| {
        format!(
            "The mean iteration takes {ratio:.1} times as long as one in the median batch ({}): the \
             machine was busy with other work, or a few iterations cost much more than most.",
            format_duration(typical_ns)
        )
    })
}

/// Returns warnings about snippets that do not differ significantly from the best one.
pub fn table_warnings(table: &SnippetTable, request: &ErlperfRequest) -> Vec<String> {
    let Some((best, others)) = table.lines.split_first() else {
        return Vec::new();
    };
    let samples = |line: &SnippetLine| {
        let figures = line.figures.as_ref();
        figures.map_or(Vec::new(), |figures| figures.samples.clone())
    };
    let best_samples = samples(best);
    let unclear = others.iter().filter_map(|other| {
        let p = p_of_difference(&best_samples, &samples(other))?;
        (p >= SIGNIFICANCE_LEVEL).then(|| {
            format!(
                "'{}' and '{}' are statistically indistinguishable: p = {p:.2} by Welch's test of the logarithms of {} samples each.",
                best.label, other.label, request.samples
            )
        })
    });
    let mut warnings: Vec<String> = unclear.collect();
    if !warnings.is_empty() && matches!(request.sample, SampleDefinition::Window(_)) {
        warnings
            .push("Take more samples (-s); for verdicts, use 'speedwell eval erlang'.".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::super::arguments::ErlperfCommand;
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
        match ErlperfCommand::parse(&["ok.".to_owned()]) {
            Ok(ErlperfCommand::Measure(request)) => *request,
            _ => panic!("'ok.' is a snippet"),
        }
    }

    #[test]
    fn more_workers_than_processors_cause_no_disturbance_warning() {
        let alone = disturbance_warning(&taken(1), &request()).unwrap();
        assert!(alone.contains("takes 10.0 times as long"), "{alone}");
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
