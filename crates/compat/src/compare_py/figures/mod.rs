//! Computes the figures of google/benchmark's `compare.py`: changes, the p value of the
//! Mann-Whitney test, geometric means.
//!
//! Decides which entries of the two sides (baseline and candidate) are compared, and which figures
//! are computed. Other modules decide the order of files, the text and the colors. Verdicts of
//! `analysis` are not used, because this table shows what `compare.py` shows. [`ComparedSide`]
//! filters, sorts and renames the entries of one side first, as `compare.py` does. Start at
//! [`compare_entries`].

use anyhow::{Result, anyhow};
use indexmap::IndexMap;
use regex::Regex;
use speedwell_formats::foreign::google_benchmark::{GoogleBenchmarkEntry, nanoseconds_per};
use speedwell_stats::test::mann_whitney::{PValueMethod, mann_whitney};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Minimum number of entries per side for a test.
const MIN_ENTRIES_FOR_TEST: usize = 2;

/// `compare.py` calls a test reliable if each side has at least this many entries.
pub const RELIABLE_TEST_ENTRIES: usize = 9;

/// How to treat cases in which `compare.py` is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonRules {
    /// These cases are corrected. Entries without a result are omitted, units are converted, the
    /// geometric mean covers only entries that both sides have, and a change from 0 is undefined.
    Sound,
    /// These cases are treated as in `compare.py`. The time of an entry without a result is taken
    /// as 0, entries with other units are dropped silently, the geometric mean covers all entries,
    /// and a change from 0 is +2.
    Original,
}

/// Figures of wall time and of CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimePair<T> {
    /// Wall time.
    pub real: T,
    /// CPU time.
    pub cpu: T,
}

impl<T> TimePair<T> {
    /// Combines each figure with the same figure of `other`.
    fn zip_with<U, V>(self, other: TimePair<U>, combine: impl Fn(T, U) -> V) -> TimePair<V> {
        TimePair { real: combine(self.real, other.real), cpu: combine(self.cpu, other.cpu) }
    }

    /// Applies `change` to both figures.
    pub fn map_times<U>(self, change: impl Fn(T) -> U) -> TimePair<U> {
        TimePair { real: change(self.real), cpu: change(self.cpu) }
    }
}

/// An entry of the baseline and its counterpart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparedPair {
    /// Times in the unit of the row, or in seconds for geometric means.
    pub baseline: TimePair<f64>,
    /// Times in the same unit.
    pub candidate: TimePair<f64>,
    /// (candidate - baseline) / |baseline|; `None` where undefined.
    pub change: TimePair<Option<f64>>,
}

/// Mann-Whitney test of all entries with the same name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UTest {
    /// Two-sided p value; NaN if a time is NaN.
    pub p: TimePair<f64>,
    /// Number of entries of the baseline.
    pub baseline_count: usize,
    /// Number of entries of the candidate.
    pub candidate_count: usize,
}

impl UTest {
    /// Whether both sides have enough entries by `compare.py`'s criterion.
    pub fn is_reliable(&self) -> bool {
        self.baseline_count.min(self.candidate_count) >= RELIABLE_TEST_ENTRIES
    }
}

/// All entries with the same name.
#[derive(Debug)]
pub struct ComparedRow<'e> {
    /// First entry of the baseline that can be compared.
    pub first: &'e GoogleBenchmarkEntry<'e>,
    /// Unit of all times.
    pub unit: &'e str,
    /// One pair for each repetition that both sides have.
    pub pairs: Vec<ComparedPair>,
    /// Test, if requested and if there are enough entries.
    pub u_test: Option<UTest>,
}

/// Comparison of two sides.
#[derive(Debug, Default)]
pub struct UTestTable<'e> {
    /// Rows in the order of the baseline.
    pub rows: Vec<ComparedRow<'e>>,
    /// Geometric means in seconds, and their change.
    pub geomean: Option<ComparedPair>,
    /// Number of repetitions excluded from the geometric means.
    pub not_in_geomean: usize,
    /// Names that only the baseline has, and names that only the candidate has.
    pub unmatched: [Vec<&'e str>; 2],
    /// Failed or skipped entries of the baseline, and those of the candidate; both empty under
    /// [`ComparisonRules::Original`].
    pub without_result: [Vec<&'e GoogleBenchmarkEntry<'e>>; 2],
    /// Names whose units cannot be converted into each other.
    pub odd_units: Vec<&'e str>,
}

/// Compares the entries of two sides, in the order of the baseline. For each name, all entries with
/// times are compared, in the unit of the baseline's first entry.
pub fn compare_entries<'e>(
    baseline: &'e [GoogleBenchmarkEntry<'e>],
    candidate: &'e [GoogleBenchmarkEntry<'e>],
    tests: bool,
    rules: ComparisonRules,
) -> UTestTable<'e> {
    let sides = [baseline, candidate];
    let mut table = UTestTable::default();
    let mut groups: IndexMap<&str, NamedEntries<'_>> = IndexMap::with_capacity(baseline.len() / 8);
    for (side, entries) in sides.into_iter().enumerate() {
        for entry in entries {
            let group = groups.entry(&entry.name).or_default();
            group.is_known[side] = true;
            if rules == ComparisonRules::Sound && entry.is_without_result() {
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
        // Names without times are left out: their entries are the coefficients of a complexity fit.
        let Some((first, unit)) = group.reference_entry().filter(|_| group.is_shared()) else {
            continue;
        };
        let [baseline, candidate] = [0, 1].map(|side| group.times_of_side(side, unit, rules));
        if !baseline.is_empty() && !candidate.is_empty() {
            let pair = |(&old, &new)| ComparedPair::from_times([old, new], rules);
            let pairs = baseline.iter().zip(&candidate).map(pair).collect();
            let u_test = tests.then(|| test_times(&baseline, &candidate)).flatten();
            table.rows.push(ComparedRow { first, unit, pairs, u_test });
        } else if rules == ComparisonRules::Sound {
            table.odd_units.push(name);
        }
    }
    (table.geomean, table.not_in_geomean) = geometric_means(sides, rules);
    table
}

impl ComparedPair {
    /// Creates the pair and computes its changes.
    fn from_times([baseline, candidate]: [TimePair<f64>; 2], rules: ComparisonRules) -> Self {
        let change = baseline.zip_with(candidate, |old, new| relative_change(old, new, rules));
        ComparedPair { baseline, candidate, change }
    }
}

/// Returns a relative change, such as 0.1 for +10 %. `compare.py` reports every change from 0 as
/// +2.
fn relative_change(baseline: f64, candidate: f64, rules: ComparisonRules) -> Option<f64> {
    match (baseline == 0.0, candidate == 0.0, rules) {
        (true, true, _) => Some(0.0),
        (true, false, ComparisonRules::Sound) => None,
        (true, false, ComparisonRules::Original) => {
            Some((candidate - baseline) / ((candidate + baseline) / 2.0))
        }
        (false, _, _) => Some((candidate - baseline) / baseline.abs()),
    }
}

fn test_times(baseline: &[TimePair<f64>], candidate: &[TimePair<f64>]) -> Option<UTest> {
    if baseline.len().min(candidate.len()) < MIN_ENTRIES_FOR_TEST {
        return None;
    }
    let p = |time: fn(&TimePair<f64>) -> f64| {
        let [x, y] = [baseline, candidate].map(|side| side.iter().map(time).collect::<Vec<f64>>());
        if x.iter().chain(&y).any(|value| value.is_nan()) {
            return f64::NAN;
        }
        mann_whitney(&x, &y, PValueMethod::Auto).p
    };
    Some(UTest {
        p: TimePair { real: p(|times| times.real), cpu: p(|times| times.cpu) },
        baseline_count: baseline.len(),
        candidate_count: candidate.len(),
    })
}

/// Computes the geometric means of repetitions, in seconds; aggregates are excluded. If the means
/// cover only entries that both sides have, their ratio shows how much faster or slower the program
/// became. If the means cover all entries, the ratio also depends on which benchmarks each side
/// has.
///
/// The means are `None` if a side has no usable repetitions, or if a side's mean wall time and mean
/// CPU time are both 0. Also returns the number of excluded repetitions. These are repetitions that
/// failed, are on one side only, or have no numeric time.
fn geometric_means<'e>(
    sides: [&'e [GoogleBenchmarkEntry<'e>]; 2],
    rules: ComparisonRules,
) -> (Option<ComparedPair>, usize) {
    // Names with a usable repetition on each side.
    let usable_names = sides.map(|entries| -> HashSet<&str> {
        let usable = repetitions_of(entries).filter(|entry| is_usable(entry));
        usable.map(|entry| &*entry.name).collect()
    });
    let is_counted = |entry: &GoogleBenchmarkEntry<'_>| {
        let is_shared = usable_names.iter().all(|names| names.contains(&*entry.name));
        rules == ComparisonRules::Original || (is_shared && is_usable(entry))
    };
    let mut excluded = 0;
    let means = sides.map(|entries| {
        let mut logs = TimePair { real: 0.0, cpu: 0.0 };
        let mut count = 0_usize;
        for entry in repetitions_of(entries) {
            match times_in_seconds(entry).filter(|_| is_counted(entry)) {
                Some(times) => {
                    logs = logs.zip_with(times, |sum, time| sum + time.ln());
                    count += 1;
                }
                None => excluded += 1,
            }
        }
        (count > 0).then(|| logs.map_times(|sum| (sum / count as f64).exp()))
    });
    // A mean that is NaN passes this check, because `compare.py` shows it.
    let is_nonzero = |mean: &TimePair<f64>| mean.real != 0.0 || mean.cpu != 0.0;
    let [baseline, candidate] = means.map(|mean| mean.filter(is_nonzero));
    let pair = baseline.zip(candidate);
    (pair.map(|(old, new)| ComparedPair::from_times([old, new], rules)), excluded)
}

fn repetitions_of<'e>(
    entries: &'e [GoogleBenchmarkEntry<'e>],
) -> impl Iterator<Item = &'e GoogleBenchmarkEntry<'e>> {
    entries.iter().filter(|entry| !entry.is_aggregate())
}

fn is_usable(entry: &GoogleBenchmarkEntry<'_>) -> bool {
    let is_finite = |times: TimePair<f64>| times.real.is_finite() && times.cpu.is_finite();
    !entry.is_without_result() && times_in_seconds(entry).is_some_and(is_finite)
}

fn times_in_seconds(entry: &GoogleBenchmarkEntry<'_>) -> Option<TimePair<f64>> {
    let ns_per_unit = nanoseconds_per(entry.time_unit.as_deref()?)?;
    Some(entry_times(entry)?.map_times(|time| time * (ns_per_unit / 1e9)))
}

/// Entries with the same name.
#[derive(Default)]
struct NamedEntries<'e> {
    sides: [Vec<&'e GoogleBenchmarkEntry<'e>>; 2],
    /// Whether each side has any entry with the name, even if the entry has no result.
    is_known: [bool; 2],
}

impl<'e> NamedEntries<'e> {
    fn is_shared(&self) -> bool {
        self.sides.iter().all(|side| !side.is_empty())
    }

    /// Returns the baseline's first entry with times, and the unit of this entry. The times of all
    /// other entries are converted to this unit.
    fn reference_entry(&self) -> Option<(&'e GoogleBenchmarkEntry<'e>, &'e str)> {
        self.sides[0].iter().find_map(|entry| {
            entry_times(entry)?;
            Some((*entry, entry.time_unit.as_deref()?))
        })
    }

    /// Returns the times of a side in `unit`.
    fn times_of_side(&self, side: usize, unit: &str, rules: ComparisonRules) -> Vec<TimePair<f64>> {
        let times = |entry: &&GoogleBenchmarkEntry<'_>| {
            let entry_unit = entry.time_unit.as_deref()?;
            let times = entry_times(entry)?;
            if entry_unit == unit {
                return Some(times);
            }
            let factor = nanoseconds_per(entry_unit)? / nanoseconds_per(unit)?;
            (rules == ComparisonRules::Sound).then(|| times.map_times(|time| time * factor))
        };
        self.sides[side].iter().filter_map(times).collect()
    }
}

/// Returns both times of an entry, in its own unit.
fn entry_times(entry: &GoogleBenchmarkEntry<'_>) -> Option<TimePair<f64>> {
    Some(TimePair { real: entry.real_time?, cpu: entry.cpu_time? })
}

/// Filters that choose the entries of a side.
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
    pub fn new(mut entries: Vec<GoogleBenchmarkEntry<'a>>, choice: &EntryChoice<'_>) -> Self {
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
    /// The pattern, without the `-` of an inverted filter. The option value `all` gives an empty
    /// pattern.
    pub text: String,
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
        let negated = text.strip_prefix('-');
        let pattern = Some(negated.unwrap_or(text)).filter(|pattern| *pattern != "all");
        let filter = NameFilter::new(pattern.unwrap_or_default())?;
        Ok(NameFilter { is_negated: negated.is_some(), ..filter })
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

    /// Replaces every match in a name. An empty match right after another match is replaced as
    /// well, as in Python since 3.7.
    pub fn replace_matches(&self, name: &str, replacement: &str) -> String {
        let mut replaced = String::with_capacity(name.len() + replacement.len());
        let (mut copied, mut search_start) = (0, 0);
        while let Some(found) = self.regex.find_at(name, search_start) {
            replaced.push_str(&name[copied..found.start()]);
            replaced.push_str(replacement);
            copied = found.end();
            search_start = copied;
            if found.is_empty() {
                let Some(character) = name[copied..].chars().next() else { break };
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
mod tests;

#[cfg(test)]
mod side_tests {
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
