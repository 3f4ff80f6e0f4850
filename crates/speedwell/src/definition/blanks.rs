//! `{name}` in texts of a definition file: what is filled in anew for every case.
//!
//! A blank is a name in braces. Braces around anything else stay, so JSON needs no escapes; so does
//! `${NAME}`, which belongs to the shell.

use regex::{Captures, Regex};
use std::sync::LazyLock;

static BLANK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(\$?)\{([A-Za-z_]\w*)\}").ok());

/// The names of the blanks of a text, in order.
pub fn names(text: &str) -> Vec<String> {
    let found = BLANK.iter().flat_map(|blank| blank.captures_iter(text));
    found
        .filter(|blank| blank[1].is_empty())
        .map(|blank| blank[2].to_owned())
        .collect()
}

/// The text with its blanks filled; one that `value` does not know stays.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let Some(blank) = &*BLANK else {
        return text.to_owned();
    };
    let filled = blank.replace_all(text, |found: &Captures<'_>| {
        let known = found[1].is_empty().then(|| value(&found[2])).flatten();
        known.unwrap_or_else(|| found[0].to_owned())
    });
    filled.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_filled_and_other_braces_stay() {
        let text = r#"{"a": {n}, "b": "{n}{m}"} ${n} {}"#;
        assert_eq!(names(text), ["n", "n", "m"]);
        let filled = fill(text, |name| (name == "n").then(|| "7".to_owned()));
        assert_eq!(filled, r#"{"a": 7, "b": "7{m}"} ${n} {}"#);
    }
}
