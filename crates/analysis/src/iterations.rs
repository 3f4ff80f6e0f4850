//! Decides whether a number of iterations gives steady enough results.
//!
//! Follows the rule of Node core's `calibrate-n.js`. The rule limits each case's coefficient of
//! variation, computed with the population standard deviation, and the mean of the coefficients. A
//! minimum sample length can be required as well. Also decides which number to try next. Does not
//! measure. Start at [`IterationSearch`].

use indexmap::IndexMap;
use speedwell_stats::describe::{mean, standard_deviation};

/// Required steadiness. Results are steady if their coefficients of variation, as fractions, are
/// within these limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequiredSteadiness {
    /// Upper limit of the mean over the cases (exclusive).
    pub mean: f64,
    /// Upper limit of each single case (inclusive).
    pub single: f64,
}

/// Coefficients of variation of the cases at one number of iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct VariationSpread {
    /// One per case; NaN for a case without results.
    pub cases: Vec<f64>,
    /// Mean over the cases; infinite without cases.
    pub mean: f64,
}

impl VariationSpread {
    /// Computes the spread of the rates of several cases.
    pub fn new<'a>(rates: impl IntoIterator<Item = &'a [f64]>) -> VariationSpread {
        let cases: Vec<f64> = rates.into_iter().map(coefficient_of_variation).collect();
        let mean = if cases.is_empty() { f64::INFINITY } else { mean(&cases) };
        VariationSpread { cases, mean }
    }

    /// Number of cases that vary too much.
    pub fn count_unsteady(&self, required: RequiredSteadiness) -> usize {
        let is_steady = |variation: &&f64| **variation <= required.single;
        // The NaN of a case without results counts as unsteady.
        self.cases.len() - self.cases.iter().filter(is_steady).count()
    }

    /// Whether the cases are steady enough, together and individually.
    pub fn is_steady(&self, required: RequiredSteadiness) -> bool {
        self.mean < required.mean && self.count_unsteady(required) == 0
    }
}

/// Results at one number of iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationLevel {
    /// Number of iterations.
    pub n: u64,
    /// Case names, in the order of `spread.cases`.
    pub names: Vec<String>,
    /// Variation of the results.
    pub spread: VariationSpread,
    /// Median sample length, in nanoseconds, of the case with the shortest samples; `None` if
    /// lengths are unknown.
    pub shortest_ns: Option<u64>,
}

/// Results of one case at one number of iterations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseSamples {
    /// One rate per run.
    pub rates: Vec<f64>,
    /// Known sample lengths in nanoseconds.
    pub lengths_ns: Vec<u64>,
}

impl IterationLevel {
    /// Summarizes the results of `cases` at `n` iterations.
    pub fn new(n: u64, cases: IndexMap<String, CaseSamples>) -> IterationLevel {
        let length = |results: &CaseSamples| {
            let mut lengths_ns = results.lengths_ns.clone();
            lengths_ns.sort_unstable();
            lengths_ns.get(lengths_ns.len() / 2).copied()
        };
        IterationLevel {
            n,
            spread: VariationSpread::new(cases.values().map(|results| results.rates.as_slice())),
            shortest_ns: cases.values().filter_map(length).min(),
            names: cases.into_keys().collect(),
        }
    }

    /// Cases with their coefficients of variation.
    pub fn cases(&self) -> impl Iterator<Item = (&str, f64)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.spread.cases.iter().copied())
    }
}

/// Numbers of iterations to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationSteps {
    /// First number.
    pub start: u64,
    /// Ratio of each number to the previous one.
    pub factor: u64,
    /// Maximum number of attempts.
    pub tries: u32,
    /// Largest number.
    pub most: u64,
}

/// Searches for the smallest sufficient number of iterations, multiplying by a factor each time.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationSearch {
    required: RequiredSteadiness,
    min_ns: u64,
    steps: IterationSteps,
    tried: u32,
    /// Next number to measure; `None` when the search is over.
    pub next_number: Option<u64>,
    /// The steadiest results so far.
    pub steadiest: Option<IterationLevel>,
    /// The results at the sufficient number, once found.
    pub sufficient: Option<IterationLevel>,
}

impl IterationSearch {
    /// Creates a search for results as steady as `required`, from samples of at least `min_ns`.
    pub fn new(
        required: RequiredSteadiness,
        min_ns: u64,
        steps: IterationSteps,
    ) -> IterationSearch {
        IterationSearch {
            required,
            min_ns,
            steps,
            tried: 0,
            next_number: Some(steps.start).filter(|n| *n <= steps.most),
            steadiest: None,
            sufficient: None,
        }
    }

    /// Whether samples of this length are long enough. Unknown lengths are accepted.
    pub fn is_long_enough(&self, shortest_ns: Option<u64>) -> bool {
        shortest_ns.is_none_or(|shortest_ns| shortest_ns >= self.min_ns)
    }

    /// Skips numbers of iterations that are too small. `shortest_ns` is the length of a sample at
    /// the current number; lengths are assumed to be proportional to the number of iterations. The
    /// fixed cost of a first sample only makes iterations look slower, so no sufficient number is
    /// skipped.
    pub fn skip_too_small(&mut self, shortest_ns: u64) {
        let mut expected_ns = shortest_ns.max(1);
        while let Some(n) = self.next_number {
            expected_ns = expected_ns.saturating_mul(self.steps.factor);
            self.next_number = self.number_after(n);
            if expected_ns >= self.min_ns || self.steps.factor < 2 {
                break;
            }
        }
    }

    /// Records the results for the current number; returns whether they are the steadiest so far.
    pub fn record_level(&mut self, level: IterationLevel) -> bool {
        self.tried += 1;
        self.next_number = self.number_after(level.n).filter(|_| self.tried < self.steps.tries);
        let is_best = self
            .steadiest
            .as_ref()
            .is_none_or(|best| level.spread.mean < best.spread.mean || best.spread.mean.is_nan());
        if level.spread.is_steady(self.required) && self.is_long_enough(level.shortest_ns) {
            self.next_number = None;
            self.sufficient = Some(level.clone());
        }
        if is_best {
            self.steadiest = Some(level);
        }
        is_best
    }

    fn number_after(&self, n: u64) -> Option<u64> {
        n.checked_mul(self.steps.factor).filter(|n| *n <= self.steps.most)
    }
}

/// Population standard deviation divided by the mean; 0 for one value.
fn coefficient_of_variation(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    if rates.len() == 1 {
        return 0.0;
    }
    standard_deviation(rates) * ((count - 1.0) / count).sqrt() / mean(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_use_the_population_formula() {
        // numpy.std([2, 4]) / numpy.mean([2, 4]) = 1 / 3
        let spread = VariationSpread::new([&[2.0, 4.0][..], &[7.0]]);
        assert!((spread.cases[0] - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!(spread.cases[1], 0.0);
        assert!((spread.mean - 1.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn sample_length_is_judged_by_the_case_with_the_shortest_samples() {
        let results = |rates: &[f64], lengths_ns: &[u64]| CaseSamples {
            rates: rates.to_vec(),
            lengths_ns: lengths_ns.to_vec(),
        };
        let cases = [
            ("slow".to_owned(), results(&[1.0, 3.0], &[900, 1, 700])),
            ("quick".to_owned(), results(&[5.0], &[40, 80, 10])),
            ("untimed".to_owned(), results(&[5.0], &[])),
        ];
        let level = IterationLevel::new(7, cases.into_iter().collect());
        assert_eq!((level.n, level.shortest_ns), (7, Some(40)));
        let cases: Vec<(&str, f64)> = level.cases().collect();
        assert_eq!(cases.len(), 3);
        let expected = [("slow", 0.5), ("quick", 0.0), ("untimed", 0.0)];
        for ((name, variation), (known, share)) in cases.into_iter().zip(expected) {
            assert!(name == known && (variation - share).abs() < 1e-12, "{name}: {variation}");
        }
    }

    fn search(tries: u32, most: u64) -> IterationSearch {
        let required = RequiredSteadiness { mean: 0.05, single: 0.1 };
        let steps = IterationSteps { start: 10, factor: 2, tries, most };
        IterationSearch::new(required, 1_000, steps)
    }

    fn level(n: u64, variation: f64, shortest_ns: u64) -> IterationLevel {
        IterationLevel {
            n,
            names: vec!["a".into()],
            spread: VariationSpread { cases: vec![variation], mean: variation },
            shortest_ns: Some(shortest_ns),
        }
    }

    #[test]
    fn the_search_skips_only_iteration_counts_that_are_too_small() {
        let mut search = search(9, 1 << 40);
        assert!(
            !search.is_long_enough(Some(999))
                && search.is_long_enough(Some(1_000))
                && search.is_long_enough(None)
        );
        search.skip_too_small(100);
        assert_eq!(
            search.next_number,
            Some(160),
            "100 ns at 10 are 1600 ns at 160, and 800 ns at 80"
        );
        search.skip_too_small(999);
        assert_eq!(search.next_number, Some(320));
    }

    #[test]
    fn a_search_ends_when_a_number_is_enough_and_gives_up_at_its_limits() {
        let mut found = search(9, 1 << 40);
        assert!(found.record_level(level(10, 0.2, 5_000)));
        assert!(found.record_level(level(20, 0.01, 900)), "steady and too short");
        assert!(found.sufficient.is_none() && found.next_number == Some(40));
        assert!(!found.record_level(level(40, 0.02, 5_000)));
        assert_eq!(found.sufficient.as_ref().map(|level| level.n), Some(40));
        assert_eq!(
            (found.next_number, found.steadiest.as_ref().map(|level| level.n)),
            (None, Some(20))
        );
        let mut tired = search(1, 1 << 40);
        tired.record_level(level(10, 0.2, 5_000));
        let mut limited = search(9, 19);
        limited.record_level(level(10, 0.2, 5_000));
        assert_eq!((tired.next_number, limited.next_number), (None, None));
        assert_eq!(search(9, 9).next_number, None, "the first number is above the largest");
    }

    #[test]
    fn one_unsteady_case_is_enough_to_go_on() {
        let required = RequiredSteadiness { mean: 0.05, single: 0.1 };
        let steady = [100.0, 100.5];
        let unsteady = [100.0, 130.0];
        let series = std::iter::repeat_n(&steady[..], 9).chain([&unsteady[..]]);
        let spread = VariationSpread::new(series);
        assert!(spread.mean < 0.05 && spread.count_unsteady(required) == 1);
        assert!(!spread.is_steady(required));
        assert!(VariationSpread::new([&steady[..]]).is_steady(required));
        assert!(!VariationSpread::new([]).is_steady(required), "without cases, nothing is steady");
    }
}
