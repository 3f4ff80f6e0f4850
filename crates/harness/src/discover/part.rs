//! A part of a source: the benchmarks whose names match the pattern after `::`.
//!
//! Decides what benchmarks of different parts are called so that they pair. It must not know where
//! the names come from.

use regex::{Captures, Regex};

/// Benchmarks chosen by a pattern.
#[derive(Debug, Clone)]
pub struct Part(Regex);

impl Part {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The pattern is none; the message shows where it goes wrong.
    pub fn parse(pattern: &str) -> Result<Part, regex::Error> {
        Regex::new(pattern).map(Part)
    }

    /// Whether the benchmark of that name belongs to the part.
    pub fn holds(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// The pattern.
    pub fn pattern(&self) -> &str {
        self.0.as_str()
    }

    /// The name with `word` for what matches. Text that the pattern captured stays behind the word,
    /// so that a pattern may match a size and yet tell sizes apart.
    pub fn renamed(&self, name: &str, word: &str) -> String {
        let replace = |found: &Captures<'_>| {
            let captured: Vec<&str> = found
                .iter()
                .skip(1)
                .flatten()
                .map(|group| group.as_str())
                .collect();
            if captured.is_empty() {
                word.to_owned()
            } else {
                format!("{word}({})", captured.join(","))
            }
        };
        self.0.replace_all(name, replace).into_owned()
    }
}

/// The word that stands for what matches in every source, where each has a part and they differ.
/// One pattern for all needs none: the names are alike already.
pub fn common_word(parts: &[Option<&Part>]) -> Option<String> {
    let patterns: Vec<&str> = parts.iter().flatten().map(|part| part.pattern()).collect();
    let differ = patterns.windows(2).any(|two| two[0] != two[1]);
    (patterns.len() == parts.len() && differ).then(|| format!("[{}]", patterns.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_parts_get_one_word_and_keep_what_they_capture() {
        let part = |pattern: &str| Part::parse(pattern).unwrap();
        let (a, b) = (part("BM_memcpy"), part(r"BM_copy/(\d+)"));
        assert_eq!(common_word(&[Some(&a), None]), None);
        assert_eq!(common_word(&[Some(&a), Some(&a)]), None);
        let word = common_word(&[Some(&a), Some(&b)]).unwrap();
        assert_eq!(word, r"[BM_memcpy|BM_copy/(\d+)]");
        assert_eq!(a.renamed("BM_memcpy/8", "[x]"), "[x]/8");
        assert_eq!(b.renamed("BM_copy/8", "[x]"), "[x](8)");
        assert_eq!(part("$1").renamed("a", "[x]"), "a", "a word is no template");
        assert_eq!(part("a").renamed("a", "$0"), "$0", "a word is no template");
    }
}
