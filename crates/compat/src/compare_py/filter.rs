//! Filters: which entries stay, and what their names become.
//!
//! Decides the dialect, which is that of the `regex` crate: the measured programs have the one of
//! C++, the original that of Python, and all three agree on what benchmark names need. It must not
//! know sides or files. Start at [`Filter::new`].

use anyhow::{Result, anyhow};
use regex::Regex;

/// A filter as typed.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    regex: Regex,
    is_negated: bool,
}

impl Filter {
    /// A pattern that is searched for in names.
    ///
    /// # Errors
    /// It is no regular expression; the message names the position.
    pub fn new(text: &str) -> Result<Filter> {
        Ok(Filter {
            text: text.to_owned(),
            regex: Regex::new(text).map_err(|error| explained(text, &error))?,
            is_negated: false,
        })
    }

    /// A value of `--benchmark_filter`, which the measured programs understand further: `-` in front
    /// turns it round, `all` is everything (google/benchmark, user guide, "Running a subset").
    ///
    /// # Errors
    /// As for [`Filter::new`].
    pub fn of_programs(text: &str) -> Result<Filter> {
        let (is_negated, pattern) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let pattern = if pattern == "all" { "" } else { pattern };
        Ok(Filter {
            is_negated,
            ..Filter::new(pattern)?
        })
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether an entry of that name stays.
    pub fn admits(&self, name: &str) -> bool {
        self.regex.is_match(name) != self.is_negated
    }

    /// The name with every match replaced. An empty match just behind another one counts, as in
    /// Python since 3.7.
    pub fn replace(&self, name: &str, replacement: &str) -> String {
        let mut replaced = String::with_capacity(name.len() + replacement.len());
        let (mut done, mut from) = (0, 0);
        while let Some(found) = self.regex.find_at(name, from) {
            replaced.push_str(&name[done..found.start()]);
            replaced.push_str(replacement);
            done = found.end();
            from = done;
            if found.is_empty() {
                let Some(letter) = name[done..].chars().next() else {
                    break;
                };
                from += letter.len_utf8();
            }
        }
        replaced.push_str(&name[done..]);
        replaced
    }
}

/// The crate draws the position as an arrow below the pattern, four columns to the right.
fn explained(text: &str, error: &regex::Error) -> anyhow::Error {
    let drawn = error.to_string();
    let arrow = drawn
        .lines()
        .find(|line| line.trim_start().starts_with('^'));
    let position = arrow.map_or(String::new(), |line| {
        let column = line.chars().position(|letter| letter == '^').unwrap_or(4);
        format!(" at position {}", column.saturating_sub(4))
    });
    let reason = drawn.lines().find_map(|line| line.strip_prefix("error: "));
    let reason = reason.unwrap_or(&drawn);
    anyhow!("cannot use the filter '{text}': {reason}{position}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(filter: &str, name: &str) -> String {
        Filter::new(filter).unwrap().replace(name, "X")
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
        let filter = Filter::new(r"BM_\w+").unwrap();
        assert_eq!(filter.replace("BM_a/8", r"[\w \1 $0]"), r"[\w \1 $0]/8");
    }

    #[test]
    fn programs_can_turn_a_filter_round() {
        let admits = |filter: &str, name: &str| Filter::of_programs(filter).unwrap().admits(name);
        assert!(admits("-copy", "BM_x") && !admits("-copy", "BM_copy"));
        assert!(admits("all", "BM_x") && admits("", "BM_x") && !admits("-all", "BM_x"));
        assert!(!Filter::new("-copy").unwrap().admits("BM_x"));
    }

    #[test]
    fn a_wrong_filter_is_told_with_the_position() {
        let message = |text: &str| Filter::new(text).unwrap_err().to_string();
        assert_eq!(
            message("BM_(a"),
            "cannot use the filter 'BM_(a': unclosed group at position 3"
        );
        assert!(
            message("a(?=b)").contains("look-around"),
            "{}",
            message("a(?=b)")
        );
    }
}
