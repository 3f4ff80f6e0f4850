//! Figures of google/benchmark's `compare.py`: changes, the p value of the Mann-Whitney test,
//! geometric means.
//!
//! Decides which entries of the two sides are compared and what is computed from them; knows
//! nothing of the order of files, text or colors. Does not use the verdicts of `analysis`, because
//! this table shows what the original shows. Start at [`u_test_table`].

use indexmap::IndexMap;
use speedwell_results::foreign::google_benchmark::{Entry, ns_per};
use speedwell_stats::test::mann_whitney::{Method, mann_whitney};
use std::collections::HashMap;

/// Minimum number of entries per side for a test.
const FEWEST_FOR_TEST: usize = 2;

/// Number of entries on both sides from which the original calls a test reliable.
pub const ENOUGH_FOR_TEST: usize = 9;

/// How to treat cases in which the original is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Entries without a result are omitted, units are converted, the geometric mean covers only
    /// entries that both sides have, and a change from 0 is undefined.
    Sound,
    /// As in the original: an entry without a result took no time, entries with other units are
    /// dropped silently, the geometric mean covers all entries, and a change from 0 is +2.
    Original,
}

/// Figures of wall time and of CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times<T> {
    /// Wall time.
    pub real: T,
    /// CPU time.
    pub cpu: T,
}

impl<T: Copy> Times<T> {
    /// Combines both figures with those of `other`.
    fn with<U: Copy, V>(self, other: Times<U>, combine: impl Fn(T, U) -> V) -> Times<V> {
        Times {
            real: combine(self.real, other.real),
            cpu: combine(self.cpu, other.cpu),
        }
    }

    /// Applies `change` to both figures.
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
    /// Times in the unit of the row, or in seconds for geometric means.
    pub baseline: Times<f64>,
    /// Times in the same unit.
    pub candidate: Times<f64>,
    /// (candidate - baseline) / |baseline|; `None` where undefined.
    pub change: Times<Option<f64>>,
}

/// Mann-Whitney test of all entries with one name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UTest {
    /// Two-sided p value; NaN if a time is NaN.
    pub p: Times<f64>,
    /// Number of entries of the baseline.
    pub baseline_count: usize,
    /// Number of entries of the candidate.
    pub candidate_count: usize,
}

impl UTest {
    /// Whether both sides have enough entries by the original's criterion.
    pub fn is_reliable(&self) -> bool {
        self.baseline_count.min(self.candidate_count) >= ENOUGH_FOR_TEST
    }
}

/// All entries with one name.
#[derive(Debug)]
pub struct Row<'e> {
    /// First entry of the baseline that can be compared.
    pub first: &'e Entry<'e>,
    /// Unit of all times.
    pub unit: &'e str,
    /// One for each repetition that both sides have.
    pub pairs: Vec<Pair>,
    /// Test, if requested and if there are enough entries.
    pub u_test: Option<UTest>,
}

/// Comparison of two sides.
#[derive(Debug, Default)]
pub struct UTestTable<'e> {
    /// Rows in the order of the baseline.
    pub rows: Vec<Row<'e>>,
    /// Geometric means in seconds, and their change.
    pub geomean: Option<Pair>,
    /// Number of repetitions excluded from the geometric means.
    pub not_in_geomean: usize,
    /// Names that only one side has, by side.
    pub unmatched: [Vec<&'e str>; 2],
    /// Failed or skipped entries, by side; empty under the rules of the original.
    pub without_result: [Vec<&'e Entry<'e>>; 2],
    /// Names whose units cannot be converted into each other.
    pub odd_units: Vec<&'e str>,
}

/// Compares the entries of two sides, in the order of the baseline. Of each name, all entries with
/// times are compared, in the first one's unit.
pub fn u_test_table<'e>(
    baseline: &'e [Entry<'e>],
    candidate: &'e [Entry<'e>],
    tests: bool,
    rules: Rules,
) -> UTestTable<'e> {
    let sides = [baseline, candidate];
    let mut table = UTestTable::default();
    let mut groups: IndexMap<&str, Group<'_>> = IndexMap::with_capacity(baseline.len() / 8);
    for (side, entries) in sides.into_iter().enumerate() {
        for entry in entries {
            let group = groups.entry(&entry.name).or_default();
            group.is_known[side] = true;
            if rules == Rules::Sound && entry.is_without_result() {
                table.without_result[side].push(entry);
            } else {
                group.sides[side].push(entry);
            }
        }
    }
    for (name, group) in &groups {
        if let Some(side) = (0..2).find(|side| !group.is_known[1 - side]) {
            table.unmatched[side].push(name);
        }
        // Entries without times are coefficients of a fit.
        let Some((first, unit)) = group.reference().filter(|_| group.is_shared()) else {
            continue;
        };
        let [baseline, candidate] = [0, 1].map(|side| group.times(side, unit, rules));
        if !baseline.is_empty() && !candidate.is_empty() {
            let pairs = baseline.iter().zip(&candidate);
            table.rows.push(Row {
                first,
                unit,
                pairs: pairs
                    .map(|(&old, &new)| Pair::compared(old, new, rules))
                    .collect(),
                u_test: tests.then(|| u_test(&baseline, &candidate)).flatten(),
            });
        } else if rules == Rules::Sound {
            table.odd_units.push(name);
        }
    }
    (table.geomean, table.not_in_geomean) = geomean(sides, rules);
    table
}

impl Pair {
    /// Creates the pair and computes its changes.
    fn compared(baseline: Times<f64>, candidate: Times<f64>, rules: Rules) -> Pair {
        Pair {
            baseline,
            candidate,
            change: baseline.with(candidate, |old, new| change(old, new, rules)),
        }
    }
}

/// The original reports every change from 0 as +2.
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

/// Computes the geometric means of all repetitions; aggregates are excluded. The ratio of means
/// over shared entries tells how much faster a program is; over all entries it tells which side has
/// more and slower benchmarks. Means are in seconds, `None` if a side has no entries or only zeros.
/// Also returns the number of excluded repetitions: failed, on one side only, or without a numeric
/// time.
fn geomean<'e>(sides: [&'e [Entry<'e>]; 2], rules: Rules) -> (Option<Pair>, usize) {
    // Names with a usable repetition on both sides.
    let mut shared: HashMap<&str, [bool; 2]> = HashMap::new();
    for (side, entries) in sides.into_iter().enumerate() {
        for entry in repetitions(entries).filter(|entry| is_usable(entry)) {
            shared.entry(&entry.name).or_default()[side] = true;
        }
    }
    let counts = |entry: &Entry<'_>| {
        let is_shared = shared.get(&*entry.name) == Some(&[true; 2]);
        rules == Rules::Original || (is_shared && is_usable(entry))
    };
    let mut left_out = 0;
    let means = sides.map(|entries| {
        let mut logs = Times {
            real: 0.0,
            cpu: 0.0,
        };
        let mut count = 0_usize;
        for entry in repetitions(entries) {
            match seconds(entry).filter(|_| counts(entry)) {
                Some(times) => {
                    logs = logs.with(times, |sum, time| sum + time.ln());
                    count += 1;
                }
                None => left_out += 1,
            }
        }
        (count > 0).then(|| logs.map(|sum| (sum / count as f64).exp()))
    });
    // A NaN is not zero: the original shows it.
    let has_any = |mean: &Times<f64>| mean.real != 0.0 || mean.cpu != 0.0;
    let pair = match means {
        [Some(baseline), Some(candidate)] if has_any(&baseline) && has_any(&candidate) => {
            Some(Pair::compared(baseline, candidate, rules))
        }
        _ => None,
    };
    (pair, left_out)
}

fn repetitions<'e>(entries: &'e [Entry<'e>]) -> impl Iterator<Item = &'e Entry<'e>> {
    entries.iter().filter(|entry| !entry.is_aggregate())
}

fn is_usable(entry: &Entry<'_>) -> bool {
    let is_finite = |times: Times<f64>| times.real.is_finite() && times.cpu.is_finite();
    !entry.is_without_result() && seconds(entry).is_some_and(is_finite)
}

fn seconds(entry: &Entry<'_>) -> Option<Times<f64>> {
    let ns_per_unit = ns_per(entry.time_unit.as_deref()?)?;
    Some(times(entry)?.map(|time| time * (ns_per_unit / 1e9)))
}

/// Entries with one name.
#[derive(Default)]
struct Group<'e> {
    sides: [Vec<&'e Entry<'e>>; 2],
    /// Whether a side has the name at all, even if only on entries without a result.
    is_known: [bool; 2],
}

impl<'e> Group<'e> {
    fn is_shared(&self) -> bool {
        self.sides.iter().all(|side| !side.is_empty())
    }

    /// Returns the baseline's first entry with times, and its unit, to which all others are
    /// converted.
    pub fn reference(&self) -> Option<(&'e Entry<'e>, &'e str)> {
        self.sides[0].iter().find_map(|entry| {
            times(entry)?;
            Some((*entry, entry.time_unit.as_deref()?))
        })
    }

    /// Returns the times of a side in `unit`.
    pub fn times(&self, side: usize, unit: &str, rules: Rules) -> Vec<Times<f64>> {
        let entries = self.sides[side].iter();
        entries
            .filter_map(|entry| {
                let own = entry.time_unit.as_deref()?;
                let times = times(entry)?;
                if own == unit {
                    return Some(times);
                }
                let factor = ns_per(own)? / ns_per(unit)?;
                (rules == Rules::Sound).then(|| times.map(|time| time * factor))
            })
            .collect()
    }
}

/// Returns both times of an entry, in its own unit.
fn times(entry: &Entry<'_>) -> Option<Times<f64>> {
    Some(Times {
        real: entry.real_time?,
        cpu: entry.cpu_time?,
    })
}

#[cfg(test)]
mod tests;
