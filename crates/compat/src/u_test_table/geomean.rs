//! The geometric means of both sides.
//!
//! Decides which entries count. The ratio of the means of what both sides have says how much faster
//! a program is; that of everything says which side has more and slower benchmarks. Both are the
//! same if nothing is missing. Start at [`of`].

use super::matching::times;
use super::{Pair, Rules, Times};
use speedwell_results::foreign::google_benchmark::{Entry, ns_per};
use std::collections::HashMap;

/// The means, and how many repetitions they do not contain.
pub struct Geomean {
    /// In seconds; `None` if a side has nothing or only zeros.
    pub pair: Option<Pair>,
    /// Repetitions that failed, are on one side only or have no number for a time.
    pub left_out: usize,
}

/// The geometric means of all repetitions; figures over several repetitions do not count.
pub fn of<'e>(sides: [&'e [Entry<'e>]; 2], rules: Rules) -> Geomean {
    let shared = match rules {
        Rules::Sound => Some(Shared::of(sides)),
        Rules::Original => None,
    };
    let mut left_out = 0;
    let means = sides.map(|entries| {
        let mut logs = Times {
            real: 0.0,
            cpu: 0.0,
        };
        let mut count = 0_usize;
        for entry in repetitions(entries) {
            let counts = shared.as_ref().is_none_or(|shared| shared.has(entry));
            match seconds(entry).filter(|_| counts) {
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
            Some(Pair::of(baseline, candidate, rules))
        }
        _ => None,
    };
    Geomean { pair, left_out }
}

/// Names of which both sides have a repetition that counts.
struct Shared<'e>(HashMap<&'e str, [bool; 2]>);

impl<'e> Shared<'e> {
    fn of(sides: [&'e [Entry<'e>]; 2]) -> Shared<'e> {
        let mut names: HashMap<&str, [bool; 2]> = HashMap::new();
        for (side, entries) in sides.into_iter().enumerate() {
            for entry in repetitions(entries).filter(|entry| is_usable(entry)) {
                names.entry(&entry.name).or_default()[side] = true;
            }
        }
        Shared(names)
    }

    fn has(&self, entry: &Entry<'_>) -> bool {
        let sides = self.0.get(&*entry.name);
        sides == Some(&[true; 2]) && is_usable(entry)
    }
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
