//! Selects the cases that a user names after a source, as in `FILE::NAME`, and gives the selected
//! cases of different sources common names, so that they can be compared.
//!
//! A name or value that equals the text wins over cases that the text only matches as a pattern.
//! Start at [`BenchmarkPart::narrowed_to`].

use indexmap::IndexSet;
use regex::{Captures, Regex};
use speedwell_model::{Case, ParameterValue};

/// The cases of a source that have a name or value, or match a pattern.
#[derive(Debug, Clone)]
pub struct BenchmarkPart {
    text: String,
    pattern: Regex,
    /// Whether only cases with exactly this name or value belong to the part.
    is_exact: bool,
}

/// Maximum number of cases that a message lists.
const MAX_LISTED_CASES: usize = 8;

impl BenchmarkPart {
    /// Parses the text after `::`. Brackets that do not form a character class are literal: pytest
    /// encloses parameters in brackets.
    ///
    /// # Errors
    /// Fails if the pattern is invalid; the message shows where.
    pub fn parse(text: &str) -> Result<BenchmarkPart, regex::Error> {
        let literal = || text.ends_with(']').then(|| Regex::new(&regex::escape(text)).ok());
        let pattern = Regex::new(text).or_else(|error| literal().flatten().ok_or(error))?;
        Ok(BenchmarkPart { text: text.to_owned(), pattern, is_exact: false })
    }

    /// The text as typed.
    pub fn pattern(&self) -> &str {
        &self.text
    }

    /// Returns the part as it applies to `cases`: if one of them has exactly this name or value,
    /// the part contains only such cases. Benchmarks of Go are listed without the prefix `Benchmark`,
    /// and may be named with it.
    pub fn narrowed_to<'c>(&self, cases: impl IntoIterator<Item = &'c Case>) -> BenchmarkPart {
        let cases: Vec<&Case> = cases.into_iter().collect();
        let narrow = |part: BenchmarkPart| {
            let is_exact = cases.iter().any(|case| part.is_equal(case));
            BenchmarkPart { is_exact, ..part }
        };
        let typed = narrow(self.clone());
        let is_go_name = |name: &&str| !name.is_empty() && !name.starts_with(char::is_lowercase);
        match self.text.strip_prefix("Benchmark").filter(is_go_name).map(BenchmarkPart::parse) {
            Some(Ok(short)) if !cases.iter().any(|case| typed.contains(case)) => narrow(short),
            _ => typed,
        }
    }

    /// Whether the case belongs to the part.
    pub fn contains(&self, case: &Case) -> bool {
        if self.is_exact { self.is_equal(case) } else { self.pattern.is_match(&case.id()) }
    }

    fn is_equal(&self, case: &Case) -> bool {
        self.ends_name(&case.benchmark).is_some()
            || self.ends_name(&case.id()).is_some()
            || case.values.iter().any(|value| self.is_equal_value(value))
    }

    /// Returns what precedes the text in a name that ends with it, at the beginning of a word.
    fn ends_name<'n>(&self, name: &'n str) -> Option<&'n str> {
        let before = name.strip_suffix(&self.text).filter(|_| !self.text.is_empty())?;
        (before.is_empty() || before.ends_with(['/', ':', '.', ' '])).then_some(before)
    }

    fn is_equal_value(&self, (name, value): &(String, ParameterValue)) -> bool {
        let plain = value.plain();
        let pair = self.text.strip_prefix(name).and_then(|text| text.strip_prefix('='));
        self.text == plain || pair.is_some_and(|text| text == plain || text == value.to_string())
    }

    /// Returns the case under its name in a comparison with other parts: `word` replaces what the
    /// part matches in the name of the benchmark. If it matches only values, their parameters are
    /// left out.
    pub fn common_case(&self, case: &Case, word: &str) -> Case {
        let ending = self.ends_name(&case.benchmark);
        let benchmark = match (self.is_exact, ending) {
            (true, Some(before)) => format!("{before}{word}"),
            (true, None) => case.benchmark.clone(),
            (false, _) => self.rename_matches(&case.benchmark, word),
        };
        if benchmark != case.benchmark {
            // A file or group remains as the common name of its benchmarks.
            let folder = benchmark.strip_suffix(word).and_then(|before| before.strip_suffix('/'));
            let benchmark = folder.filter(|folder| !folder.is_empty()).unwrap_or(&benchmark);
            return Case::new(benchmark, case.values.clone());
        }
        let is_selected = |value: &(String, ParameterValue)| {
            let pair = format!("{}={}", value.0, value.1);
            let is_matched = !self.is_exact && self.pattern.is_match(&pair);
            is_matched
                || self.is_equal_value(value)
                || self.text.split(' ').any(|word| word == pair)
        };
        let values = case.values.iter().filter(|value| !is_selected(value));
        Case::new(benchmark, values.cloned().collect())
    }

    /// Replaces matches of the pattern in the name with `word`. Text captured by groups is appended
    /// to the word: if a pattern captures a size, names with different sizes stay different.
    fn rename_matches(&self, name: &str, word: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let captured: Vec<&str> =
                found.iter().skip(1).flatten().map(|group| group.as_str()).collect();
            if captured.is_empty() {
                word.to_owned()
            } else {
                format!("{word}({})", captured.join(","))
            }
        };
        self.pattern.replace_all(name, replace).into_owned()
    }

    /// Explains that the part contains none of `cases`.
    pub fn explain_no_match<'c>(&self, cases: impl IntoIterator<Item = &'c Case>) -> String {
        let cases: Vec<&Case> = cases.into_iter().collect();
        let is_same =
            |case: &&Case| case.benchmark == cases[0].benchmark && !case.values.is_empty();
        let skipped = if cases.iter().all(is_same) { cases.first() } else { None };
        let skipped_bytes = skipped.map_or(0, |case| case.benchmark.len() + 1);
        let names: IndexSet<String> =
            cases.iter().map(|case| case.id().split_off(skipped_bytes)).collect();
        let others = names.len().saturating_sub(MAX_LISTED_CASES);
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        let listed: Vec<String> = names.into_iter().take(MAX_LISTED_CASES).collect();
        format!("'::{}' matches nothing; cases: {}{more}", self.text, listed.join(", "))
    }
}

/// Returns the word that replaces whatever the parts match in benchmark names, such as
/// `[jemalloc|mimalloc]`. After the replacement, benchmarks of different sources have equal names.
/// Returns `None` if a source has no part, or if all parts are equal: the names then agree without
/// a replacement.
pub fn shared_word(parts: &[Option<&BenchmarkPart>]) -> Option<String> {
    let patterns: Vec<&str> = parts.iter().flatten().map(|part| part.pattern()).collect();
    let differ = patterns.windows(2).any(|pair| pair[0] != pair[1]);
    (patterns.len() == parts.len() && differ).then(|| format!("[{}]", patterns.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ids of the contained cases and their common names.
    fn select(text: &str, ids: &[&str]) -> Vec<(String, String)> {
        let cases: Vec<Case> = ids.iter().map(|id| Case::parse(id).unwrap()).collect();
        let part = BenchmarkPart::parse(text).unwrap().narrowed_to(&cases);
        let contained = cases.iter().filter(|case| part.contains(case));
        contained.map(|case| (case.id(), part.common_case(case, "[a|b]").id())).collect()
    }

    #[test]
    fn equal_names_and_values_win_over_patterns() {
        let values = ["s.js impl=loop n=1", "s.js impl=loop2 n=1", "s.js impl=regex n=1"];
        let names = ["s.py/loop n=1", "s.py/loop2 n=1", "s.py/test_x[loop]"];
        for (text, ids, expected) in [
            ("impl=loop", values, &[("s.js impl=loop n=1", "s.js n=1")][..]),
            ("loop", values, &[("s.js impl=loop n=1", "s.js n=1")][..]),
            ("impl=regex n=1", values, &[("s.js impl=regex n=1", "s.js")][..]),
            (
                "oop",
                values,
                &[("s.js impl=loop n=1", "s.js n=1"), ("s.js impl=loop2 n=1", "s.js n=1")][..],
            ),
            ("loop", names, &[("s.py/loop n=1", "s.py n=1")][..]),
            ("BenchmarkA", ["gp/A", "gp/AB", "gp/B"], &[("gp/A", "gp")][..]),
            ("Benchmarking", ["gp/string", "gp/B", "gp/C"], &[][..]),
            ("test_x[loop]", names, &[("s.py/test_x[loop]", "s.py")][..]),
            ("p2", names, &[("s.py/loop2 n=1", "s.py/loo[a|b] n=1")][..]),
            (r"BM_(\d+)", ["g/BM_8", "g/x", "y"], &[("g/BM_8", "g/[a|b](8)")][..]),
        ] {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned())).collect();
            assert_eq!(select(text, &ids), expected, "{text}");
        }
    }

    #[test]
    fn brackets_that_are_no_class_are_literal() {
        assert!(BenchmarkPart::parse("test_x[z-a]").unwrap().pattern.is_match("test_x[z-a]"));
        assert!(BenchmarkPart::parse("x(").is_err());
    }

    #[test]
    fn a_part_that_matches_nothing_is_answered_with_the_cases() {
        let explain = |ids: &[&str]| {
            let cases: Vec<Case> = ids.iter().map(|id| Case::parse(id).unwrap()).collect();
            BenchmarkPart::parse("impl=loop").unwrap().explain_no_match(&cases)
        };
        assert_eq!(
            explain(&["s.js impl=regex", "s.js impl=loop2"]),
            "'::impl=loop' matches nothing; cases: impl=regex, impl=loop2"
        );
        assert_eq!(explain(&["a", "b n=1"]), "'::impl=loop' matches nothing; cases: a, b n=1");
        assert!(explain(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]).ends_with(" and 1 more"));
    }

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
        assert_eq!(part("$1").rename_matches("a", "[x]"), "a");
        assert_eq!(part("a").rename_matches("a", "$0"), "$0", "the word is not a template");
    }
}
