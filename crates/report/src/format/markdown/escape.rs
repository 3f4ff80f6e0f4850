//! Text that Markdown and HTML take for text.
//!
//! Source of the rules: "GitHub Flavored Markdown Spec", section 2.4 (escapes) and 4.10 (tables).

use crate::visible;

/// A name as code. Runs of blanks are for screens of fixed width and fall together here; a bar has
/// to be escaped even inside code, because the table is cut into cells first.
pub fn code(text: &str) -> String {
    let text = visible(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

/// Ends what GitHub would take for the name of a person or the number of an issue, without a trace in the
/// page: `@latest` is a session, and nobody called latest wants to hear of it.
const NO_MENTION: &str = "<!-- -->";

/// `text` with everything escaped that Markdown or HTML would take for markup. Brackets and inner
/// underscores stay as they are where they cannot be markup, because intervals and names are full
/// of them and the source is read, too.
pub fn escape(text: &str) -> String {
    let text = visible(text);
    let links = text.contains("](") || text.contains("][") || text.contains("]:");
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let in_word = before.is_alphanumeric()
            && characters.peek().is_some_and(|next| next.is_alphanumeric());
        let markup = match character {
            '\\' | '|' | '*' | '`' | '~' => true,
            '_' => !in_word,
            '[' => links || matches!(characters.peek(), Some('^' | ' ' | 'x')),
            '#' | '+' | '-' | '>' => escaped.is_empty() && characters.peek() == Some(&' '),
            _ => false,
        };
        if markup {
            escaped.push('\\');
        }
        match character {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' => escaped.push(' '),
            other => escaped.push(other),
        }
        let named = characters.peek().is_some_and(|next| next.is_alphanumeric());
        if matches!(character, '@' | '#') && !before.is_alphanumeric() && named {
            escaped.push_str(NO_MENTION);
        }
        before = character;
    }
    escaped
}

/// A code block whose fence is longer than any run of backticks inside.
pub fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", visible(text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_markup_is_escaped() {
        for (text, escaped) in [
            ("string_decoder [+6.9, +9.6]", "string_decoder [+6.9, +9.6]"),
            ("_private *bold*", "\\_private \\*bold\\*"),
            ("[x](http://a)", "\\[x](http://a)"),
            ("a < b & c", "a &lt; b &amp; c"),
            ("# one", "\\# one"),
            ("@12 of a@b, see #7", "@<!-- -->12 of a@b, see #<!-- -->7"),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn a_fence_is_longer_than_the_ones_inside() {
        assert_eq!(fenced("```", "text"), "````text\n```\n````\n");
    }
}
