//! The search for the number of workers from which on throughput does not grow.
//!
//! Passes of more and more workers, which stay alive; whether one brought growth beyond noise, and which is
//! the answer, is decided in `analysis`. Start at [`squeeze`].

use super::arguments::{Request, Squeeze};
use super::machines::Machines;
use super::sampling::{self, Taken};
use speedwell_analysis::scaling::{self, Level, Next, Rules};
use speedwell_process::interrupted;
use std::io::{self, Write};

/// Levels of which it is unclear whether they are as good as the best are visited so many times.
const MOST_PASSES: u32 = 3;

/// One pass.
#[derive(Debug, Clone)]
pub struct Pass {
    /// Workers.
    pub workers: u32,
    /// Its samples.
    pub taken: Taken,
}

/// What a search gave.
pub struct Squeezed {
    /// All passes, in order.
    pub passes: Vec<Pass>,
    /// The last pass with the least number of workers that is as good as any; `None` if there was no pass.
    pub best: Option<usize>,
}

/// Searches with the first code.
///
/// # Errors
/// `out` is closed.
pub fn squeeze(
    machines: &mut Machines,
    request: &Request,
    search: Squeeze,
    out: &mut dyn Write,
    told: &mut dyn FnMut(&Pass) -> io::Result<()>,
) -> io::Result<Squeezed> {
    let rules = rules(search, request.samples);
    let mut levels: Vec<Level> = Vec::new();
    let mut passes: Vec<Pass> = Vec::new();
    while let Next::Visit(workers) = scaling::next(&levels, &rules) {
        machines.set_workers(0, workers, out)?;
        let mut sampled = sampling::sample(machines, &[0], request, out)?;
        let taken = std::mem::take(&mut sampled.taken[0]);
        let is_whole = machines.jobs[0].is_sound() && !interrupted();
        if taken.windows.is_empty() || !is_whole {
            break;
        }
        let rates = taken
            .last(request.samples)
            .iter()
            .map(|window| window.per_s);
        match levels.iter_mut().find(|level| level.concurrency == workers) {
            Some(level) => level.throughputs.extend(rates),
            None => levels.push(Level {
                concurrency: workers,
                throughputs: rates.collect(),
                is_spoilt: false,
            }),
        }
        let pass = Pass { workers, taken };
        told(&pass)?;
        passes.push(pass);
    }
    let answer = scaling::scaling(&levels).map(|scaling| scaling.answer.at_knee().concurrency);
    // Where nothing was completed the first pass is as good as any.
    let best = answer.or(passes.first().map(|pass| pass.workers));
    let best = passes.iter().rposition(|pass| Some(pass.workers) == best);
    Ok(Squeezed { passes, best })
}

/// The original's threshold counts workers: from so many more than the best had, without growth, the search
/// ends. What is counted in analysis are passes without growth.
fn rules(search: Squeeze, samples: u32) -> Rules {
    let step = search.step;
    let most = (search.most / step * step).max(search.least);
    Rules {
        first: search.least,
        step: Some(step),
        limit: most,
        patience: search.threshold.div_ceil(step).max(1),
        visits: samples,
        most_visits: samples.saturating_mul(MOST_PASSES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(least: u32, step: u32, most: u32, threshold: u32) -> Squeeze {
        Squeeze {
            least,
            step,
            most,
            threshold,
        }
    }

    /// The numbers of workers of a search over exact throughputs, and its answer.
    fn climbed(search: Squeeze, throughput: impl Fn(u32) -> f64) -> (Vec<u32>, Option<u32>) {
        let rules = rules(search, 3);
        let mut levels: Vec<Level> = Vec::new();
        while let Next::Visit(workers) = scaling::next(&levels, &rules) {
            assert!(levels.iter().all(|level| level.concurrency != workers));
            levels.push(Level {
                concurrency: workers,
                throughputs: vec![throughput(workers); 3],
                is_spoilt: false,
            });
        }
        let visited = levels.iter().map(|level| level.concurrency).collect();
        let answer = scaling::scaling(&levels).map(|found| found.answer.at_knee().concurrency);
        (visited, answer)
    }

    #[test]
    fn the_threshold_counts_workers_whatever_the_step() {
        let flat_from_20 = |workers: u32| f64::from(workers.min(20));
        let (visited, answer) = climbed(search(1, 10, 1000, 3), flat_from_20);
        assert_eq!((visited, answer), (vec![1, 10, 20, 30], Some(20)));
        let flat_from_2 = |workers: u32| f64::from(workers.min(2));
        let (visited, answer) = climbed(search(1, 1, 1000, 3), flat_from_2);
        assert_eq!((visited, answer), (vec![1, 2, 3, 4, 5], Some(2)));
    }

    #[test]
    fn at_the_greatest_number_the_best_is_the_answer_and_not_the_last() {
        let falling = |workers: u32| 1.0 / f64::from(workers);
        assert_eq!(climbed(search(1, 1, 2, 3), falling), (vec![1, 2], Some(1)));
    }

    #[test]
    fn a_greatest_number_below_the_least_gives_one_pass() {
        let (visited, answer) = climbed(search(5, 1, 3, 3), f64::from);
        assert_eq!((visited, answer), (vec![5], Some(5)));
    }

    #[test]
    fn a_greatest_number_that_is_no_multiple_is_not_visited() {
        let (visited, _) = climbed(search(1, 10, 25, 3), f64::from);
        assert_eq!(visited, [1, 10, 20]);
    }

    #[test]
    fn nothing_completed_is_a_pass_like_any_other() {
        let (visited, _) = climbed(search(1, 1, 10, 3), |_| 0.0);
        assert_eq!(visited, [1, 2, 3, 4]);
    }
}
