//! The entries of one side, in the order and under the names in which they are compared.
//!
//! Decides what the original does between reading and comparing: which entries a filter leaves,
//! how they are sorted, and how names of different benchmarks are made equal. It must not know the
//! other side. Start at [`Side::of`].

use super::filter::Filter;
use speedwell_results::foreign::google_benchmark::Entry;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// How the entries of a side are chosen.
#[derive(Debug, Default)]
pub struct Choice<'f> {
    /// What stays of a file that was measured before, judged by the name without the end of an
    /// aggregate. A program chooses by itself.
    pub of_file: Option<&'f Filter>,
    /// What stays and gets another name.
    pub renamed: Option<(&'f Filter, &'f str)>,
}

/// One side.
#[derive(Debug)]
pub struct Side<'a> {
    /// Sorted as the original sorts them.
    pub entries: Vec<Entry<'a>>,
    /// How many names became one by renaming, and that name; only if they are several.
    pub merged: Option<(usize, String)>,
}

impl<'a> Side<'a> {
    /// Chooses and sorts.
    pub fn of(mut entries: Vec<Entry<'a>>, choice: &Choice<'_>) -> Side<'a> {
        if let Some(filter) = choice.of_file {
            entries.retain(|entry| filter.admits(run_name(entry)));
        }
        entries.sort_by(|a, b| {
            key(a)
                .partial_cmp(&key(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut side = Side {
            entries,
            merged: None,
        };
        if let Some((filter, replacement)) = choice.renamed {
            side.rename(filter, replacement);
        }
        side
    }

    fn rename(&mut self, filter: &Filter, replacement: &str) {
        self.entries.retain(|entry| filter.admits(&entry.name));
        let mut merged: HashMap<String, HashSet<String>> = HashMap::new();
        for entry in &mut self.entries {
            let name = filter.replace(&entry.name, replacement);
            let own = std::mem::replace(&mut entry.name, Cow::Owned(name.clone()));
            merged.entry(name).or_default().insert(own.into_owned());
        }
        let most = merged.into_iter().map(|(name, own)| (own.len(), name));
        self.merged = most.max().filter(|(count, _)| *count > 1);
    }
}

fn run_name<'e>(entry: &'e Entry<'_>) -> &'e str {
    let run_name = entry.run_name.as_deref().filter(|name| !name.is_empty());
    run_name.unwrap_or(&entry.name)
}

/// Where an entry stands: its family, its place in it, aggregates last, its repetition.
fn key(entry: &Entry<'_>) -> (f64, f64, bool, f64) {
    (
        entry.family_index.unwrap_or(-1.0),
        entry.per_family_instance_index.unwrap_or(-1.0),
        entry.is_aggregate(),
        entry.repetition_index.unwrap_or(-1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(
        name: &'static str,
        place: [Option<f64>; 3],
        run_type: &'static str,
    ) -> Entry<'static> {
        Entry {
            name: name.into(),
            run_type: Some(run_type.into()),
            family_index: place[0],
            per_family_instance_index: place[1],
            repetition_index: place[2],
            ..Entry::default()
        }
    }

    fn names<'a>(side: &'a Side<'_>) -> Vec<&'a str> {
        side.entries.iter().map(|entry| &*entry.name).collect()
    }

    /// The vector of the reference's own test: names 99 to 88 are the right order.
    #[test]
    fn every_order_of_a_file_gives_the_same_order_of_entries() {
        let mut entries = Vec::new();
        let mut names_left = [
            "99", "98", "97", "96", "95", "94", "93", "92", "91", "90", "89", "88",
        ]
        .into_iter();
        for family in [0.0, 1.0] {
            for instance in [0.0, 1.0] {
                for (repetition, run_type) in [
                    (Some(0.0), "iteration"),
                    (Some(1.0), "iteration"),
                    (None, "aggregate"),
                ] {
                    let place = [Some(family), Some(instance), repetition];
                    entries.push(entry(names_left.next().unwrap(), place, run_type));
                }
            }
        }
        for step in [1, 5, 7, 11] {
            for start in 0..entries.len() {
                let shuffled =
                    (0..entries.len()).map(|i| entries[(start + i * step) % entries.len()].clone());
                let side = Side::of(shuffled.collect(), &Choice::default());
                assert_eq!(
                    names(&side).join(" "),
                    "99 98 97 96 95 94 93 92 91 90 89 88"
                );
            }
        }
    }

    #[test]
    fn without_places_aggregates_go_last_and_the_rest_stays() {
        let side = Side::of(
            vec![
                entry("z_mean", [None; 3], "aggregate"),
                entry("z", [None; 3], "iteration"),
                entry("a", [None; 3], "iteration"),
            ],
            &Choice::default(),
        );
        assert_eq!(names(&side), ["z", "a", "z_mean"]);
    }

    #[test]
    fn a_filter_of_a_file_looks_at_the_name_without_the_end_of_an_aggregate() {
        let filter = Filter::new("^a$").unwrap();
        let mut mean = entry("a_mean", [None; 3], "aggregate");
        mean.run_name = Some("a".into());
        let choice = Choice {
            of_file: Some(&filter),
            renamed: None,
        };
        let side = Side::of(vec![mean, entry("b", [None; 3], "iteration")], &choice);
        assert_eq!(names(&side), ["a_mean"]);
    }

    #[test]
    fn a_greedy_filter_is_noticed() {
        let rename = |pattern: &str| {
            let filter = Filter::new(pattern).unwrap();
            let entries =
                ["a/8", "a/8", "a/64", "b/8"].map(|name| entry(name, [None; 3], "iteration"));
            let choice = Choice {
                of_file: None,
                renamed: Some((&filter, "X")),
            };
            Side::of(entries.to_vec(), &choice)
        };
        assert_eq!(names(&rename("^a")), ["X/8", "X/8", "X/64"]);
        assert_eq!(rename("^a").merged, None);
        assert_eq!(rename("^a/.*").merged, Some((2, "X".to_owned())));
    }
}
