//! Text of others on a terminal: names of benchmarks, words of result files, what programs say of their errors.
//!
//! Decides which characters could steer a terminal or change the order of what is read, and shows them by their
//! numbers instead.

use std::borrow::Cow;

/// `text` with control characters other than line feed and tab shown as `\x1b`, and those that turn the direction
/// of writing as `\u{202e}` (ECMA-48; Unicode Standard Annex 9, section 2).
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            _ if !steers(letter) => shown.push(letter),
            '\0'..='\u{ff}' => shown.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => shown.push_str(&letter.escape_unicode().to_string()),
        }
    }
    Cow::Owned(shown)
}

fn steers(letter: char) -> bool {
    let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || letter.is_control() && letter != '\n' && letter != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_shown_and_nothing_else_changes() {
        for (text, shown) in [
            ("old né ▲\n\tx", "old né ▲\n\tx"),
            ("\u{1b}[2J\0\u{7}\r", "\\x1b[2J\\x00\\x07\\x0d"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
