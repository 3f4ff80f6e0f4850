//! Tests of the warnings, and of the search for the best number of workers.

use super::*;
use speedwell_model::BatchQuantiles;

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
        let by_snippet = [SnippetSamples::default(), samples.clone()];
        timer_warning(&by_snippet, &request())
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
    while let Some(workers) = scaling::next_level(&levels, &rules) {
        assert!(levels.iter().all(|level| level.concurrency != workers));
        scaling::add_visits(&mut levels, workers, [throughput(workers); 3]);
    }
    let visited = levels.iter().map(|level| level.concurrency).collect();
    let answer = scaling::evaluate_scaling(&levels).map(|found| found.answer.at_knee().concurrency);
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
