//! Finds benchmarks and their cases from command-line operands: files, folders, groups, programs.
//!
//! Start at [`discover_benchmarks`]. [`target`] finds benchmark files and their kinds,
//! [`BenchmarkSelection`] holds the user's filters and values, and [`suite`] asks each file for its
//! cases. [`programs`] pairs the benchmarks of the programs in a comparison. A [`BenchmarkPart`]
//! limits a comparison to some of a program's benchmarks.

use crate::{DefaultLoadTool, TrialMode};
use anyhow::{Context as _, bail};
use regex::{Captures, Regex};
use speedwell_model::{Case, ParameterValue, ValueKind};
use std::path::{Path, PathBuf};

mod programs;
mod suite;
mod target;

pub use programs::{ComparisonSide, find_common_benchmarks as common_benchmarks};
pub use suite::{DiscoveredBenchmarks, describe_sources, discover_benchmarks};
pub use target::{
    core_source, declared_variants, find_all_sources, find_experiment, find_sources, is_command,
    is_text, similar_file,
};

/// The benchmarks of one program whose names match a pattern.
#[derive(Debug, Clone)]
pub struct BenchmarkPart(Regex);

impl BenchmarkPart {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Fails if the pattern is invalid; the message shows where.
    pub fn parse(pattern: &str) -> Result<BenchmarkPart, regex::Error> {
        Regex::new(pattern).map(BenchmarkPart)
    }

    /// Whether the pattern matches the name of a benchmark.
    pub fn contains(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Text of the pattern.
    pub fn pattern(&self) -> &str {
        self.0.as_str()
    }

    /// Replaces matches of the pattern in the name with `word`. Text captured by groups is appended
    /// to the word: if a pattern captures a size, names with different sizes stay different.
    pub fn rename_matches(&self, name: &str, word: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let captured: Vec<&str> =
                found.iter().skip(1).flatten().map(|group| group.as_str()).collect();
            if captured.is_empty() {
                word.to_owned()
            } else {
                format!("{word}({})", captured.join(","))
            }
        };
        self.0.replace_all(name, replace).into_owned()
    }
}

/// Returns the common replacement for the texts that the programs' patterns match in benchmark
/// names. Returns `None` if a program has no pattern, or if all patterns are equal: the names then
/// agree without a replacement.
pub fn shared_word(parts: &[Option<&BenchmarkPart>]) -> Option<String> {
    let patterns: Vec<&str> = parts.iter().flatten().map(|part| part.pattern()).collect();
    let differ = patterns.windows(2).any(|pair| pair[0] != pair[1]);
    (patterns.len() == parts.len() && differ).then(|| format!("[{}]", patterns.join("|")))
}

/// Selection options.
#[derive(Debug, Clone, Default)]
pub struct BenchmarkSelection {
    /// Keeps a benchmark if any of these patterns matches its name. Without patterns, keeps all.
    pub filters: Vec<Regex>,
    /// Drops a benchmark if any of these patterns matches its name.
    pub excludes: Vec<Regex>,
    /// Parameter values in the given order. If a name has several values, all of them are measured.
    pub sets: Vec<(String, String)>,
    /// Values for single benchmarks, by file name (`group/name.js`). For the same parameter, they
    /// take precedence over the values for all benchmarks.
    pub of_benchmarks: Vec<(String, (String, String))>,
    /// Values for all benchmark files at or below a path, used instead of `sets`.
    pub of_files: Vec<(PathBuf, Vec<(String, String)>)>,
    /// Whether and how cases are tried with small values instead of measured.
    pub trial: TrialMode,
    /// HTTP client for loads that do not name a client.
    pub usual_tool: DefaultLoadTool,
}

impl BenchmarkSelection {
    /// Whether the benchmark of that name is selected.
    pub fn selects_name(&self, name: &str) -> bool {
        let any = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(name));
        (self.filters.is_empty() || any(&self.filters)) && !any(&self.excludes)
    }

    /// Returns the values for a file. A value for this file alone replaces the parameter's values
    /// for all files.
    pub fn sets_of(&self, name: &str, file: &Path) -> Vec<(String, String)> {
        let file_entry = self.of_files.iter().find(|(path, _)| file.starts_with(path));
        let mut sets = file_entry.map_or(&self.sets, |(_, sets)| sets).clone();
        let replacements: Vec<_> = self.of_benchmark(name).cloned().collect();
        sets.retain(|(key, _)| replacements.iter().all(|(replaced, _)| replaced != key));
        sets.extend(replacements);
        sets
    }

    /// Values for the benchmark file of that name alone.
    pub fn of_benchmark(&self, name: &str) -> impl Iterator<Item = &(String, String)> {
        let values = self.of_benchmarks.iter();
        values.filter(move |(key, _)| key == name).map(|(_, set)| set)
    }

    /// Whether a measured case is selected. Its benchmark's name and its parameter values decide.
    pub fn selects_case(&self, case: &Case) -> bool {
        let has = |name: &str, wanted: &str| case.value(name).is_some_and(|v| v.plain() == wanted);
        let allowed = |name: &str| self.sets.iter().any(|(n, wanted)| n == name && has(n, wanted));
        let named = self.sets.iter().map(|(name, _)| name.as_str());
        let mut used = named.filter(|name| case.value(name).is_some());
        self.selects_name(&case.benchmark) && used.all(allowed)
    }

    /// Parses `NAME=V[,V...]`, the argument of `--set`.
    ///
    /// # Errors
    /// Fails if the argument has no `=` or an empty name.
    pub fn parse_set(text: &str) -> anyhow::Result<Vec<(String, String)>> {
        match text.split_once('=') {
            Some((name, values)) if !name.is_empty() => Ok(values
                .split(',')
                .map(|value| (name.to_owned(), Self::expand_number(value)))
                .collect()),
            _ => bail!("cannot parse '{text}': expected NAME=VALUE[,VALUE...]"),
        }
    }

    /// Adds the values in lines such as `buffers/copy.js n=1000 len=16`. Such a line gives values
    /// for the named benchmark file alone. The values of a line without a name apply to all files.
    /// Ignores empty lines and lines that begin with `#`.
    ///
    /// # Errors
    /// Fails if a line has no value; the message gives its number.
    pub fn add_lines(&mut self, text: &str) -> anyhow::Result<()> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refusal = || {
                let number = index + 1;
                format!("cannot parse line {number}, '{line}': expected 'group/file NAME=VALUE'")
            };
            let before_equals = line.split_once('=').with_context(refusal)?.0;
            let (name, words) = match before_equals.rsplit_once(' ') {
                Some((name, _)) => (name.trim_end(), &line[name.len()..]),
                None => ("", line),
            };
            for (parameter, value) in Case::with_values(name, words).with_context(refusal)?.values {
                let set = (parameter, Self::expand_number(&value.plain()));
                if name.is_empty() {
                    self.sets.push(set)
                } else {
                    self.of_benchmarks.push((name.to_owned(), set))
                }
            }
        }
        Ok(())
    }

    /// Expands `10k` and `2M`, because benchmarks read plain numbers; leaves other strings
    /// unchanged.
    pub fn expand_number(value: &str) -> String {
        let with_suffix = value.ends_with(['k', 'M', 'G']);
        match ParameterValue::parse(value, ValueKind::Number).filter(|_| with_suffix) {
            Some(number) => number.to_string(),
            None => value.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_parts_share_a_name_and_keep_their_captures() {
        let part = |pattern: &str| BenchmarkPart::parse(pattern).unwrap();
        let (a, b) = (part("BM_memcpy"), part(r"BM_copy/(\d+)"));
        assert_eq!(shared_word(&[Some(&a), None]), None);
        assert_eq!(shared_word(&[Some(&a), Some(&a)]), None);
        let word = shared_word(&[Some(&a), Some(&b)]).unwrap();
        assert_eq!(word, r"[BM_memcpy|BM_copy/(\d+)]");
        assert_eq!(a.rename_matches("BM_memcpy/8", "[x]"), "[x]/8");
        assert_eq!(b.rename_matches("BM_copy/8", "[x]"), "[x](8)");
        assert_eq!(
            part("$1").rename_matches("a", "[x]"),
            "a",
            "the word is not expanded as a template"
        );
        assert_eq!(
            part("a").rename_matches("a", "$0"),
            "$0",
            "the word is not expanded as a template"
        );
    }

    #[test]
    fn measured_cases_are_chosen_by_name_and_value() {
        let case = |id: &str| Case::parse(id).unwrap();
        let selection = BenchmarkSelection {
            filters: vec![Regex::new("copy").unwrap()],
            sets: BenchmarkSelection::parse_set("len=1k,16").unwrap(),
            ..BenchmarkSelection::default()
        };
        assert!(selection.selects_case(&case("g/copy len=16 type=utf8")));
        assert!(
            selection.selects_case(&case("g/copy len=1000"))
                && selection.selects_case(&case("g/copy"))
        );
        assert!(
            !selection.selects_case(&case("g/copy len=64"))
                && !selection.selects_case(&case("g/fill len=16"))
        );
    }

    #[test]
    fn lines_of_a_file_give_values_to_single_benchmarks_or_to_all() {
        let mut selection = BenchmarkSelection::default();
        let text = "# a remark\n\nlen=16\n  g/my file.js n=10k kind=\"a b\"\ng/b.js n=5\n";
        selection.add_lines(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        selection.sets.push(pair("n", "1"));
        let sets = |name| selection.sets_of(name, Path::new("/x"));
        assert_eq!(
            sets("g/my file.js"),
            [pair("len", "16"), pair("n", "10000"), pair("kind", "a b")]
        );
        assert_eq!(sets("g/b.js"), [pair("len", "16"), pair("n", "5")]);
        assert_eq!(sets("g/c.js"), [pair("len", "16"), pair("n", "1")]);
        for text in ["g/b.js", "x=1\ng/b.js 5 n", "g/b.js n=\"x"] {
            let error = BenchmarkSelection::default().add_lines(text).unwrap_err();
            assert!(error.to_string().starts_with("cannot parse line "), "{text}: {error}");
        }
    }

    #[test]
    fn large_numbers_may_be_written_short() {
        let pair = |value: &str| ("n".to_owned(), value.to_owned());
        let sets = BenchmarkSelection::parse_set("n=10k,2M,1e3,utf8").unwrap();
        assert_eq!(sets, [pair("10000"), pair("2000000"), pair("1e3"), pair("utf8")]);
        assert!(
            BenchmarkSelection::parse_set("n").is_err()
                && BenchmarkSelection::parse_set("=1").is_err()
        );
    }
}
