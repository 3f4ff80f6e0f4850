//! Warnings that the original lacks: differences without significance, disturbed measurements, code
//! that the compiler folded, samples that never became steady.

use super::arguments::{Request, Sample};
use super::machines::Job;
use super::sampling::{Sampled, Taken};
use super::table::{Line, Table, duration};
use speedwell_analysis::snippet::{MOST_DISTURBANCE, p_of_difference};
use speedwell_harness::snippet::fold_warning;
use speedwell_model::median;
use speedwell_process::interrupted;
use speedwell_report::snippet::ERLANG_LOCKS;

/// Differences with a p value from this on are not significant.
const ALPHA: f64 = 0.05;

/// What the original says when a sample ended so late that the next one was due. It then busy-waits for the ends of samples.
const TIMER_WARNING: &str = "Timer accuracy problem detected, results may be inaccurate";

/// The warning of the original, if a sample of any snippet was late.
pub fn timer_warning(sampled: &Sampled, request: &Request) -> Option<String> {
    let mut taken = sampled.taken.iter();
    let is_late = taken.any(|taken| lateness(taken, request).is_some());
    is_late.then(|| TIMER_WARNING.to_owned())
}

/// Returns sentences about how snippets were measured.
pub fn of_samples(jobs: &[Job], sampled: &Sampled, request: &Request) -> Vec<String> {
    let mut sentences = Vec::new();
    for (job, taken) in jobs.iter().zip(&sampled.taken) {
        sentences.extend(
            remarks_on(job, taken, request).map(|text| format!("{}: {text}", job.known.label)),
        );
    }
    if let (false, Some(until)) = (sampled.is_steady, request.until) {
        sentences.push(format!(
            "Samples never varied by {} or less, as --cv requires: the last {} are shown.",
            until.variation, request.samples
        ));
    }
    sentences
}

fn remarks_on<'a>(
    job: &'a Job,
    taken: &'a Taken,
    request: &'a Request,
) -> impl Iterator<Item = String> + 'a {
    let fewer = missing(taken, request).filter(|_| job.is_sound() && !interrupted());
    let folded = taken
        .visits
        .last()
        .and_then(|measured| fold_warning(measured, job.empty_ns, job.loaded.as_ref()));
    let sentences = fewer.into_iter().chain(folded);
    sentences
        .chain(disturbance(taken, request))
        .chain(lateness(taken, request))
}

/// Where a sample ended so late that the next one was due, and not only because a usual iteration takes as long.
fn lateness(taken: &Taken, request: &Request) -> Option<String> {
    let Sample::Window(length) = request.sample else {
        return None;
    };
    let plain = Request {
        subtracts_empty: false,
        ..request.clone()
    };
    let iteration_ns = taken.figures(&plain, None)?.iteration_ns;
    let is_late = taken.late_ns - iteration_ns >= length.as_nanos() as f64;
    (is_late && iteration_ns.is_finite()).then(|| {
        format!(
            "A sample ended {} after its time, with samples of {} ms. Workers had to wait, or few iterations take much longer than \
             most. Where processes wait for each other, {ERLANG_LOCKS}.",
            duration(taken.late_ns),
            length.as_millis()
        )
    })
}

/// Reports how many of the requested samples are missing, if any.
fn missing(taken: &Taken, request: &Request) -> Option<String> {
    let count = taken.windows.len();
    let is_short = (1..request.samples as usize).contains(&count);
    is_short.then(|| {
        format!(
            "Only {count} of {} samples were taken: iterations are longer than samples, or workers had to wait too \
             long for a processor. A greater -d gives more of them.",
            request.samples
        )
    })
}

/// Warns if the mean iteration took much longer than that of the median batch. Workers that share
/// processors wait for each other, which is not a disturbance.
fn disturbance(taken: &Taken, request: &Request) -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if taken.workers as usize > processors {
        return None;
    }
    let batches = taken.visits.iter().filter_map(|visit| visit.batches);
    let mut medians: Vec<f64> = batches.map(|batches| batches.median_ns).collect();
    let typical_ns = median(&mut medians)?;
    let plain = Request {
        subtracts_empty: false,
        ..request.clone()
    };
    let ratio = taken.figures(&plain, None)?.iteration_ns / typical_ns;
    (ratio > MOST_DISTURBANCE && ratio.is_finite()).then(|| {
        format!(
            "An iteration takes {ratio:.1} times as long in the mean as in the median batch ({}): the machine was busy \
             with other things, or few iterations cost much more than most.",
            duration(typical_ns)
        )
    })
}

/// Returns sentences about snippets that do not differ significantly from the best one.
pub fn of_table(table: &Table, request: &Request) -> Vec<String> {
    let Some((best, others)) = table.lines.split_first() else {
        return Vec::new();
    };
    let samples = |line: &Line| {
        let figures = line.figures.as_ref();
        figures.map_or(Vec::new(), |figures| figures.samples.clone())
    };
    let first = samples(best);
    let unclear = others.iter().filter_map(|other| {
        let p = p_of_difference(&first, &samples(other))?;
        (p >= ALPHA).then(|| {
            format!(
                "'{}' and '{}' are statistically indistinguishable: p = {p:.2} by Welch's test of the logarithms of {} samples each.",
                best.label, other.label, request.samples
            )
        })
    });
    let mut said: Vec<String> = unclear.collect();
    if !said.is_empty() && matches!(request.sample, Sample::Window(_)) {
        said.push("More samples (-s) tell more; 'speedwell eval erlang' has verdicts.".to_owned());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Command;
    use super::*;
    use speedwell_model::{Batches, SnippetTiming, Window};

    /// Returns one visit with one window, in which the mean is ten times the median batch.
    fn taken(workers: u32) -> Taken {
        let window = Window {
            per_s: 1e6,
            elapsed_ns: 1e9,
            iterations: 1e6,
        };
        let median_ns = 100.0 * f64::from(workers);
        let batches = Batches {
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
        Taken {
            windows: vec![window],
            workers,
            visits: vec![visit],
            late_ns: 0.0,
        }
    }

    fn request() -> Request {
        match Command::parse(&["ok.".to_owned()]) {
            Ok(Command::Measure(request)) => *request,
            _ => panic!("'ok.' is a snippet"),
        }
    }

    #[test]
    fn workers_that_wait_for_a_processor_are_not_said_to_be_disturbed() {
        let alone = disturbance(&taken(1), &request()).unwrap();
        assert!(alone.contains("takes 10.0 times as long"), "{alone}");
        assert_eq!(disturbance(&taken(100_000), &request()), None);
    }

    #[test]
    fn samples_that_are_lacking_are_counted() {
        let sentence = missing(&taken(1), &request()).unwrap();
        assert!(
            sentence.starts_with("Only 1 of 3 samples were taken"),
            "{sentence}"
        );
        let whole = Request {
            samples: 1,
            ..request()
        };
        assert_eq!(missing(&taken(1), &whole), None);
    }

    #[test]
    fn a_sample_that_ends_when_the_next_one_is_due_is_a_problem_of_the_timer() {
        // Samples of a second, with iterations of a microsecond.
        let late = |late_ns: f64| Taken {
            late_ns,
            ..taken(1)
        };
        let warning = |taken: &Taken| {
            let sampled = Sampled {
                taken: vec![Taken::default(), taken.clone()],
                is_steady: true,
            };
            timer_warning(&sampled, &request())
        };
        assert_eq!(warning(&late(0.9e9)), None);
        assert_eq!(warning(&late(1.5e9)).as_deref(), Some(TIMER_WARNING));
        let sentence = lateness(&late(1.5e9), &request()).unwrap();
        assert!(
            sentence.contains("1500 ms after its time, with samples of 1000 ms")
                && sentence.contains("lcnt"),
            "{sentence}"
        );
        // An iteration of two seconds ends as late as it must.
        let mut slow = late(1.5e9);
        slow.windows[0].iterations = 0.5;
        assert_eq!(warning(&slow), None);
        let fixed = Request {
            sample: Sample::Loop(10),
            ..request()
        };
        assert_eq!(lateness(&late(1.5e9), &fixed), None);
    }
}
