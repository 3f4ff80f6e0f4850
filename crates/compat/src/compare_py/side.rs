//! Prepares the entries of one side for the comparison.
//!
//! Does what `compare.py` does between reading and comparing: filters and sorts entries, and
//! renames benchmarks so that benchmarks with different names can be compared. Does not look at the
//! other side. Start at [`ComparedSide::new`].

use anyhow::{Result, anyhow};
use regex::Regex;
use speedwell_formats::foreign::google_benchmark::GoogleBenchmarkEntry;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// How the entries of a side are chosen.
#[derive(Debug, Default)]
pub struct EntryChoice<'f> {
    /// Filter for the entries of a result file. The filter is matched against names without the
    /// suffix of an aggregate. `None` for programs, because they apply the filter themselves.
    pub file_filter: Option<&'f NameFilter>,
    /// Filter for entries to keep, and the string that replaces its matches.
    pub renamed: Option<(&'f NameFilter, &'f str)>,
}

/// One side of a comparison.
#[derive(Debug)]
pub struct ComparedSide<'a> {
    /// Entries, sorted as in `compare.py`.
    pub entries: Vec<GoogleBenchmarkEntry<'a>>,
    /// The largest number of names that renaming made equal, and the resulting name; `None` if all
    /// names stayed distinct.
    pub merged: Option<(usize, String)>,
}

impl<'a> ComparedSide<'a> {
    /// Filters, sorts and renames the entries.
    pub fn new(
        mut entries: Vec<GoogleBenchmarkEntry<'a>>,
        choice: &EntryChoice<'_>,
    ) -> ComparedSide<'a> {
        if let Some(filter) = choice.file_filter {
            entries.retain(|entry| filter.admits(run_name(entry)));
        }
        entries.sort_by(|a, b| {
            sort_key(a).partial_cmp(&sort_key(b)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut side = ComparedSide { entries, merged: None };
        if let Some((filter, replacement)) = choice.renamed {
            side.rename_entries(filter, replacement);
        }
        side
    }

    fn rename_entries(&mut self, filter: &NameFilter, replacement: &str) {
        self.entries.retain(|entry| filter.admits(&entry.name));
        let mut merged: HashMap<String, HashSet<String>> = HashMap::new();
        for entry in &mut self.entries {
            let name = filter.replace_matches(&entry.name, replacement);
            let original = std::mem::replace(&mut entry.name, Cow::Owned(name.clone()));
            merged.entry(name).or_default().insert(original.into_owned());
        }
        let name_counts = merged.into_iter().map(|(name, original)| (original.len(), name));
        self.merged = name_counts.max().filter(|(count, _)| *count > 1);
    }
}

fn run_name<'e>(entry: &'e GoogleBenchmarkEntry<'_>) -> &'e str {
    let run_name = entry.run_name.as_deref().filter(|name| !name.is_empty());
    run_name.unwrap_or(&entry.name)
}

/// Returns the sort key of an entry: the family, the position within the family, whether the entry
/// is an aggregate, and the repetition. At the same position, aggregates come last.
fn sort_key(entry: &GoogleBenchmarkEntry<'_>) -> (f64, f64, bool, f64) {
    (
        entry.family_index.unwrap_or(-1.0),
        entry.per_family_instance_index.unwrap_or(-1.0),
        entry.is_aggregate(),
        entry.repetition_index.unwrap_or(-1.0),
    )
}

/// A filter for names.
#[derive(Debug, Clone)]
pub struct NameFilter {
    text: String,
    regex: Regex,
    is_negated: bool,
}

impl NameFilter {
    /// Creates a filter from a pattern that is searched for in names.
    ///
    /// # Errors
    /// Fails if the pattern is not a valid regular expression; the message gives the position.
    pub fn new(text: &str) -> Result<NameFilter> {
        Ok(NameFilter {
            text: text.to_owned(),
            regex: Regex::new(text).map_err(|error| explain_regex_error(text, &error))?,
            is_negated: false,
        })
    }

    /// Creates a filter from a value of `--benchmark_filter`, interpreted as the measured programs
    /// interpret it: a leading `-` inverts the filter, and `all` matches everything
    /// (google/benchmark, user guide, "Running a subset").
    ///
    /// # Errors
    /// Fails like [`NameFilter::new`].
    pub fn from_program_option(text: &str) -> Result<NameFilter> {
        let (is_negated, pattern) = match text.strip_prefix('-') {
            Some(pattern) => (true, pattern),
            None => (false, text),
        };
        let pattern = if pattern == "all" { "" } else { pattern };
        Ok(NameFilter { is_negated, ..NameFilter::new(pattern)? })
    }

    /// Returns the pattern, without the `-` of an inverted filter. The option value `all` gives an
    /// empty pattern.
    pub fn pattern(&self) -> &str {
        &self.text
    }

    /// Explains that the filter keeps no entry of the side with this label.
    pub fn explain_none(&self, label: &str) -> String {
        let names = if self.is_negated { "every" } else { "no" };
        format!("{names} name in '{label}' matches '{}'", self.text)
    }

    /// Whether an entry with this name is kept.
    pub fn admits(&self, name: &str) -> bool {
        self.regex.is_match(name) != self.is_negated
    }

    /// Replaces every match in a name. An empty match right after another match counts, as in
    /// Python since 3.7.
    pub fn replace_matches(&self, name: &str, replacement: &str) -> String {
        let mut replaced = String::with_capacity(name.len() + replacement.len());
        let (mut copied, mut search_start) = (0, 0);
        while let Some(found) = self.regex.find_at(name, search_start) {
            replaced.push_str(&name[copied..found.start()]);
            replaced.push_str(replacement);
            copied = found.end();
            search_start = copied;
            if found.is_empty() {
                let Some(character) = name[copied..].chars().next() else {
                    break;
                };
                search_start += character.len_utf8();
            }
        }
        replaced.push_str(&name[copied..]);
        replaced
    }
}

/// Explains why a pattern is invalid, with the position of the error. The regex crate shows the
/// position as an arrow below the pattern, four columns to the right.
fn explain_regex_error(text: &str, error: &regex::Error) -> anyhow::Error {
    let message = error.to_string();
    let arrow = message.lines().find(|line| line.trim_start().starts_with('^'));
    let position = arrow.map_or(String::new(), |line| {
        let column = line.chars().position(|character| character == '^').unwrap_or(4);
        format!(" at position {}", column.saturating_sub(4))
    });
    let reason = message.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(&message);
    anyhow!("cannot use the filter '{text}': {reason}{position}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(
        name: &'static str,
        place: [Option<f64>; 3],
        run_type: &'static str,
    ) -> GoogleBenchmarkEntry<'static> {
        GoogleBenchmarkEntry {
            name: name.into(),
            run_type: Some(run_type.into()),
            family_index: place[0],
            per_family_instance_index: place[1],
            repetition_index: place[2],
            ..GoogleBenchmarkEntry::default()
        }
    }

    fn names<'a>(side: &'a ComparedSide<'_>) -> Vec<&'a str> {
        side.entries.iter().map(|entry| &*entry.name).collect()
    }

    /// Data of a test in `compare.py` itself: the expected order of names is 99 to 88.
    #[test]
    fn every_order_of_a_file_gives_the_same_order_of_entries() {
        let mut entries = Vec::new();
        let mut names_left =
            ["99", "98", "97", "96", "95", "94", "93", "92", "91", "90", "89", "88"].into_iter();
        for family in [0.0, 1.0] {
            for instance in [0.0, 1.0] {
                for (repetition, run_type) in
                    [(Some(0.0), "iteration"), (Some(1.0), "iteration"), (None, "aggregate")]
                {
                    let place = [Some(family), Some(instance), repetition];
                    entries.push(entry(names_left.next().unwrap(), place, run_type));
                }
            }
        }
        for step in [1, 5, 7, 11] {
            for start in 0..entries.len() {
                let shuffled =
                    (0..entries.len()).map(|i| entries[(start + i * step) % entries.len()].clone());
                let side = ComparedSide::new(shuffled.collect(), &EntryChoice::default());
                assert_eq!(names(&side).join(" "), "99 98 97 96 95 94 93 92 91 90 89 88");
            }
        }
    }

    #[test]
    fn without_indices_aggregates_go_last_and_other_entries_keep_their_order() {
        let side = ComparedSide::new(
            vec![
                entry("z_mean", [None; 3], "aggregate"),
                entry("z", [None; 3], "iteration"),
                entry("a", [None; 3], "iteration"),
            ],
            &EntryChoice::default(),
        );
        assert_eq!(names(&side), ["z", "a", "z_mean"]);
    }

    #[test]
    fn a_file_filter_ignores_the_suffix_of_aggregate_names() {
        let filter = NameFilter::new("^a$").unwrap();
        let mut mean = entry("a_mean", [None; 3], "aggregate");
        mean.run_name = Some("a".into());
        let choice = EntryChoice { file_filter: Some(&filter), renamed: None };
        let side = ComparedSide::new(vec![mean, entry("b", [None; 3], "iteration")], &choice);
        assert_eq!(names(&side), ["a_mean"]);
    }

    #[test]
    fn a_filter_that_makes_names_equal_is_noticed() {
        let rename = |pattern: &str| {
            let filter = NameFilter::new(pattern).unwrap();
            let entries =
                ["a/8", "a/8", "a/64", "b/8"].map(|name| entry(name, [None; 3], "iteration"));
            let choice = EntryChoice { file_filter: None, renamed: Some((&filter, "X")) };
            ComparedSide::new(entries.to_vec(), &choice)
        };
        assert_eq!(names(&rename("^a")), ["X/8", "X/8", "X/64"]);
        assert_eq!(rename("^a").merged, None);
        assert_eq!(rename("^a/.*").merged, Some((2, "X".to_owned())));
    }

    fn replaced(filter: &str, name: &str) -> String {
        NameFilter::new(filter).unwrap().replace_matches(name, "X")
    }

    /// Expected values: Python 3.11, `re.sub(filter, "X", name)`.
    #[test]
    fn matches_are_replaced_as_in_python() {
        for (filter, name, expected) in [
            ("BM_copy", "BM_copy/8", "X/8"),
            ("o", "foo/bo", "fXX/bX"),
            (".*", "abc", "XX"),
            ("x*", "abxd", "XaXbXXdX"),
            ("^", "abc", "Xabc"),
            ("$", "äb", "äbX"),
            ("z", "abc", "abc"),
        ] {
            assert_eq!(replaced(filter, name), expected, "{filter}");
        }
    }

    #[test]
    fn a_backslash_in_the_replacement_is_a_backslash() {
        let filter = NameFilter::new(r"BM_\w+").unwrap();
        assert_eq!(filter.replace_matches("BM_a/8", r"[\w \1 $0]"), r"[\w \1 $0]/8");
    }

    #[test]
    fn a_leading_dash_negates_only_filters_of_program_options() {
        let admits = |filter: &str, name: &str| {
            NameFilter::from_program_option(filter).unwrap().admits(name)
        };
        assert!(admits("-copy", "BM_x") && !admits("-copy", "BM_copy"));
        assert!(admits("all", "BM_x") && admits("", "BM_x") && !admits("-all", "BM_x"));
        assert!(!NameFilter::new("-copy").unwrap().admits("BM_x"));
    }

    #[test]
    fn an_invalid_filter_is_reported_with_the_position_of_the_error() {
        let message = |text: &str| NameFilter::new(text).unwrap_err().to_string();
        assert_eq!(message("BM_(a"), "cannot use the filter 'BM_(a': unclosed group at position 3");
        assert!(message("a(?=b)").contains("look-around"), "{}", message("a(?=b)"));
    }
}
