//! The figures of google/benchmark's `compare.py`: changes, Mann-Whitney's p, the geometric means.
//!
//! Decides which entries of the two sides belong together and what is computed from them; it must
//! not know order of files, text or colours. The verdicts of `analysis` proper are not here: this
//! table shows what the original shows. Start at [`u_test_table`].

mod geomean;
mod matching;

use self::matching::{Group, Matching};
use speedwell_results::foreign::google_benchmark::Entry;
use speedwell_stats::test::mann_whitney::{Method, mann_whitney};

/// With fewer entries on a side there is no test.
const FEWEST_FOR_TEST: usize = 2;

/// From this number of entries on both sides the original calls a test reliable.
pub const ENOUGH_FOR_TEST: usize = 9;

/// Whose rules hold where the original is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Entries without a result are left out, units are converted, the geometric mean is that of
    /// what both sides have, and a change from 0 is not defined.
    Sound,
    /// An entry without a result took no time, other units are dropped silently, the geometric mean
    /// is that of everything, and a change from 0 is +2.
    Original,
}

/// A figure of wall time and one of processor time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times<T> {
    /// Of the wall time.
    pub real: T,
    /// Of the processor time.
    pub cpu: T,
}

impl<T: Copy> Times<T> {
    /// The same done to both, side by side with another.
    fn with<U: Copy, V>(self, other: Times<U>, combine: impl Fn(T, U) -> V) -> Times<V> {
        Times {
            real: combine(self.real, other.real),
            cpu: combine(self.cpu, other.cpu),
        }
    }

    /// The same done to both.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Times<U> {
        Times {
            real: change(self.real),
            cpu: change(self.cpu),
        }
    }
}

/// An entry of the baseline and its counterpart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// In the unit of the row, or in seconds for geometric means.
    pub baseline: Times<f64>,
    /// In the same unit.
    pub candidate: Times<f64>,
    /// (candidate - baseline) / |baseline|; `None` where that is not defined.
    pub change: Times<Option<f64>>,
}

/// A Mann-Whitney test of all entries of one name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UTest {
    /// Two-sided; NaN if a time is no number.
    pub p: Times<f64>,
    /// Entries of the baseline.
    pub baseline_count: usize,
    /// Entries of the candidate.
    pub candidate_count: usize,
}

impl UTest {
    /// Whether both sides have enough entries for the original.
    pub fn is_reliable(&self) -> bool {
        self.baseline_count.min(self.candidate_count) >= ENOUGH_FOR_TEST
    }
}

/// All entries of one name.
#[derive(Debug)]
pub struct Row<'e> {
    /// The first of the baseline that can be compared.
    pub first: &'e Entry<'e>,
    /// The unit of all times.
    pub unit: &'e str,
    /// One for each repetition that both sides have.
    pub pairs: Vec<Pair>,
    /// If it was asked for and there are enough entries.
    pub u_test: Option<UTest>,
}

/// Everything that is to be said of two sides.
#[derive(Debug, Default)]
pub struct UTestTable<'e> {
    /// In the order of the baseline.
    pub rows: Vec<Row<'e>>,
    /// Geometric means in seconds, and their change.
    pub geomean: Option<Pair>,
    /// How many repetitions the geometric means leave out.
    pub not_in_geomean: usize,
    /// Names on one side only, for each side.
    pub unmatched: [Vec<&'e str>; 2],
    /// Entries that failed or were skipped, for each side; none under the rules of the original.
    pub without_result: [Vec<&'e Entry<'e>>; 2],
    /// Names whose units cannot be converted into each other.
    pub odd_units: Vec<&'e str>,
}

/// Compares the entries of two sides, in the order of the baseline.
pub fn u_test_table<'e>(
    baseline: &'e [Entry<'e>],
    candidate: &'e [Entry<'e>],
    tests: bool,
    rules: Rules,
) -> UTestTable<'e> {
    let matching = Matching::of([baseline, candidate], rules);
    let mut table = UTestTable::default();
    for (name, group) in matching.groups() {
        match compare(group, tests, rules) {
            Compared::Row(row) => table.rows.push(row),
            Compared::OddUnits if rules == Rules::Sound => table.odd_units.push(name),
            Compared::OddUnits | Compared::WithoutTimes => {}
        }
    }
    let means = geomean::of([baseline, candidate], rules);
    table.geomean = means.pair;
    table.not_in_geomean = means.left_out;
    table.unmatched = matching.unmatched();
    table.without_result = matching.without_result;
    table
}

/// What became of a group.
enum Compared<'e> {
    Row(Row<'e>),
    /// No unit that both sides have.
    OddUnits,
    /// Such entries are coefficients of a fit, which have no times.
    WithoutTimes,
}

fn compare<'e>(group: &Group<'e>, tests: bool, rules: Rules) -> Compared<'e> {
    let Some((first, unit)) = group.reference() else {
        return Compared::WithoutTimes;
    };
    let [baseline, candidate] = [0, 1].map(|side| group.times(side, unit, rules));
    if baseline.is_empty() || candidate.is_empty() {
        return Compared::OddUnits;
    }
    let pairs = baseline.iter().zip(&candidate);
    let pairs = pairs.map(|(&baseline, &candidate)| Pair::of(baseline, candidate, rules));
    Compared::Row(Row {
        first,
        unit,
        pairs: pairs.collect(),
        u_test: tests.then(|| u_test(&baseline, &candidate)).flatten(),
    })
}

impl Pair {
    /// The pair with its changes.
    fn of(baseline: Times<f64>, candidate: Times<f64>, rules: Rules) -> Pair {
        Pair {
            baseline,
            candidate,
            change: baseline.with(candidate, |old, new| change(old, new, rules)),
        }
    }
}

/// The original calls every change from 0 a change of +2.
fn change(baseline: f64, candidate: f64, rules: Rules) -> Option<f64> {
    match (baseline == 0.0, candidate == 0.0, rules) {
        (true, true, _) => Some(0.0),
        (true, false, Rules::Sound) => None,
        (true, false, Rules::Original) => {
            Some((candidate - baseline) / ((candidate + baseline) / 2.0))
        }
        (false, _, _) => Some((candidate - baseline) / baseline.abs()),
    }
}

fn u_test(baseline: &[Times<f64>], candidate: &[Times<f64>]) -> Option<UTest> {
    if baseline.len().min(candidate.len()) < FEWEST_FOR_TEST {
        return None;
    }
    let p = |time: fn(&Times<f64>) -> f64| {
        let [x, y] = [baseline, candidate].map(|side| side.iter().map(time).collect::<Vec<f64>>());
        if x.iter().chain(&y).any(|value| value.is_nan()) {
            return f64::NAN;
        }
        mann_whitney(&x, &y, Method::Auto).p
    };
    Some(UTest {
        p: Times {
            real: p(|times| times.real),
            cpu: p(|times| times.cpu),
        },
        baseline_count: baseline.len(),
        candidate_count: candidate.len(),
    })
}

#[cfg(test)]
mod tests;
