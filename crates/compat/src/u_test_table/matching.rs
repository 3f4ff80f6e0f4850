//! Which entries of two sides have the same name.
//!
//! Decides what can be compared: entries with times, in a unit that the first one's can be told
//! in. It must not know what is computed from them. Start at [`Matching::of`].

use super::{Rules, Times};
use indexmap::IndexMap;
use speedwell_results::foreign::google_benchmark::{Entry, ns_per};

/// All entries by name.
pub struct Matching<'e> {
    /// In order of first appearance, first of the baseline, then of the candidate.
    names: IndexMap<&'e str, Group<'e>>,
    /// Entries that failed or were skipped, for each side.
    pub without_result: [Vec<&'e Entry<'e>>; 2],
}

/// The entries of one name.
#[derive(Default)]
pub struct Group<'e> {
    sides: [Vec<&'e Entry<'e>>; 2],
    /// Whether a side has the name at all, if only on entries without a result.
    is_known: [bool; 2],
}

impl<'e> Matching<'e> {
    /// Sorts the entries of baseline and candidate by name.
    pub fn of(sides: [&'e [Entry<'e>]; 2], rules: Rules) -> Matching<'e> {
        let mut matching = Matching {
            names: IndexMap::with_capacity(sides[0].len() / 8),
            without_result: Default::default(),
        };
        for (side, entries) in sides.into_iter().enumerate() {
            for entry in entries {
                let group = matching.names.entry(&entry.name).or_default();
                group.is_known[side] = true;
                if rules == Rules::Sound && entry.is_without_result() {
                    matching.without_result[side].push(entry);
                } else {
                    group.sides[side].push(entry);
                }
            }
        }
        matching
    }

    /// Names that both sides have results of, in the order of the baseline.
    pub fn groups(&self) -> impl Iterator<Item = (&'e str, &Group<'e>)> {
        let names = self.names.iter().map(|(name, group)| (*name, group));
        names.filter(|(_, group)| group.is_shared())
    }

    /// Names that one side does not have, for each side that does.
    pub fn unmatched(&self) -> [Vec<&'e str>; 2] {
        [0, 1].map(|side| {
            let names = self.names.iter();
            let alone = names.filter(|(_, group)| !group.is_known[1 - side]);
            alone.map(|(name, _)| *name).collect()
        })
    }
}

impl<'e> Group<'e> {
    fn is_shared(&self) -> bool {
        self.sides.iter().all(|side| !side.is_empty())
    }

    /// The first entry of the baseline that has times, and its unit: all others are told in it.
    pub fn reference(&self) -> Option<(&'e Entry<'e>, &'e str)> {
        self.sides[0].iter().find_map(|entry| {
            times(entry)?;
            Some((*entry, entry.time_unit.as_deref()?))
        })
    }

    /// The times of a side in `unit`.
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

/// Both times of an entry, in its own unit.
pub fn times(entry: &Entry<'_>) -> Option<Times<f64>> {
    Some(Times {
        real: entry.real_time?,
        cpu: entry.cpu_time?,
    })
}
