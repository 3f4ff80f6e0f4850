//! `{name}` in texts of a definition file: what is filled in anew for every case.
//!
//! A blank is a name in braces. Braces around anything else stay, so JSON needs no escapes; so do
//! `${NAME}`, which belongs to the shell, and `\p{NAME}`, which is a class of letters in a pattern.
//! `{{name}}` is a name in braces that is no blank.

use regex::{Captures, Regex};
use std::sync::LazyLock;

static BLANK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let escaped = r"\{\{[A-Za-z_]\w*\}\}";
    Regex::new(&format!(r"({escaped})|(\$|\\[pP])?\{{([A-Za-z_]\w*)\}}")).ok()
});

/// The names of the blanks of a text, in order.
pub fn names(text: &str) -> Vec<String> {
    let found = BLANK.iter().flat_map(|blank| blank.captures_iter(text));
    found
        .filter_map(|found| name(&found).map(str::to_owned))
        .collect()
}

fn name<'a>(found: &'a Captures<'_>) -> Option<&'a str> {
    let stays = found.get(1).is_some() || found.get(2).is_some();
    found.get(3).filter(|_| !stays).map(|name| name.as_str())
}

/// The text with its blanks filled; one that `value` does not know stays.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let Some(blank) = &*BLANK else {
        return text.to_owned();
    };
    let filled = blank.replace_all(text, |found: &Captures<'_>| {
        if let Some(escaped) = found.get(1).map(|found| found.as_str()) {
            return escaped[1..escaped.len() - 1].to_owned();
        }
        let known = name(found).and_then(&value);
        known.unwrap_or_else(|| found[0].to_owned())
    });
    filled.into_owned()
}

/// The text with its blanks escaped, so that it means itself in a definition file.
pub fn escape(text: &str) -> String {
    let Some(blank) = &*BLANK else {
        return text.to_owned();
    };
    let escaped = blank.replace_all(text, |found: &Captures<'_>| {
        let is_blank = found.get(1).is_some() || name(found).is_some();
        if is_blank {
            format!("{{{}}}", &found[0])
        } else {
            found[0].to_owned()
        }
    });
    escaped.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_filled_and_other_braces_stay() {
        let text = r#"{"a": {n}, "b": "{n}{m}"} ${n} {} \p{n} {{n}} {"c":{"d":{n}}}"#;
        assert_eq!(names(text), ["n", "n", "m", "n"]);
        let filled = fill(text, |name| (name == "n").then(|| "7".to_owned()));
        assert_eq!(
            filled,
            r#"{"a": 7, "b": "7{m}"} ${n} {} \p{n} {n} {"c":{"d":7}}"#
        );
    }

    #[test]
    fn what_is_escaped_means_itself() {
        for text in [
            "awk '{print}'",
            "{{print}}",
            "${a} \\p{L} {}",
            "{a}{b}",
            "{\"a\":{n}}",
        ] {
            assert_eq!(
                fill(&escape(text), |_| Some("x".to_owned())),
                text,
                "{text}"
            );
        }
    }
}
