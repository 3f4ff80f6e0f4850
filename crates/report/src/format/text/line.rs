//! Wraps, shortens and colors text for terminals, and makes its control characters visible.

use crate::table::TextEmphasis;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the display width of `text` in terminal columns.
pub fn display_width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps `text` at spaces into lines of at most `max_width` columns. A longer word gets its own
/// line, unbroken: ids and paths must stay copyable. Line breaks in the text are kept.
pub fn wrap_text(text: &str, max_width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrap_line(line, max_width)).collect()
}

fn wrap_line(line: &str, max_width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in split_words(line) {
        let last = lines.len() - 1;
        let used = display_width(&lines[last]);
        if used > 0 && used + 1 + display_width(&word) > max_width {
            lines.push(word);
        } else {
            if used > 0 {
                lines[last].push(' ');
            }
            lines[last].push_str(&word);
        }
    }
    lines
}

/// Splits a line into words. An interval (`[+6.9, +9.6]`) is a single word.
fn split_words(line: &str) -> Vec<String> {
    /// Maximum length of an interval. A bracket starts an interval only if the closing bracket
    /// follows within this length.
    const MAX_FIGURE_LENGTH: usize = 24;
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_open = |last: &&mut String| {
            last.len() < MAX_FIGURE_LENGTH && last.starts_with('[') && !last.contains(']')
        };
        match words.last_mut().filter(is_open) {
            Some(last) => last.push_str(&format!(" {word}")),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// Shortens `text` to `max_width` columns with an ellipsis. Keeps more of the end than of the
/// start, because names in neighboring rows usually differ at the end.
pub fn shorten_text(text: &str, max_width: usize) -> String {
    if display_width(text) <= max_width {
        return text.to_owned();
    }
    let remaining = max_width.saturating_sub(1);
    let front = remaining * 2 / 5;
    let head = take_columns(text.chars(), front);
    let tail: String =
        take_columns(text.chars().rev(), remaining - display_width(&head)).chars().rev().collect();
    format!("{head}…{tail}")
}

/// Returns the longest prefix of `characters` that fits into `max_width` columns.
fn take_columns(characters: impl Iterator<Item = char>, max_width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += UnicodeWidthChar::width(*character).unwrap_or(0);
            used <= max_width
        })
        .collect()
}

/// Escapes the control characters in `text`. If `color` is set, also colors the text by `emphasis`.
pub fn paint_text(text: &str, emphasis: TextEmphasis, color: bool) -> String {
    let code = match emphasis {
        TextEmphasis::None => "",
        TextEmphasis::Strong => "1",
        TextEmphasis::Good => "32",
        TextEmphasis::Bad => "31",
        TextEmphasis::Caution => "33",
        TextEmphasis::Muted => "2",
    };
    let text = escape_controls(text);
    if !color || code.is_empty() || text.trim().is_empty() {
        return text.into_owned();
    }
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Replaces control characters with visible escapes such as `\x1b`, except line feed and tab. Also
/// replaces bidirectional controls with escapes such as `\u{202e}` (ECMA-48; Unicode Standard Annex
/// 9, section 2).
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape_where(text, is_control)
}

/// Does the same as [`escape_controls`], and also escapes line feeds: a name takes one line.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_where(text, |character| is_control(character) || character == '\n')
}

fn escape_where(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            _ if !is_escaped(character) => escaped.push(character),
            '\0'..='\u{ff}' => escaped.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ => escaped.push_str(&character.escape_unicode().to_string()),
        }
    }
    Cow::Owned(escaped)
}

fn is_control(character: char) -> bool {
    is_bidi_control(character) || character.is_control() && character != '\n' && character != '\t'
}

/// Whether a character changes the direction of text, or is a line break that only some programs
/// know.
pub fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap_text("is it faster", 5), ["is it", "faster"]);
        assert_eq!(wrap_text("a bb\nc", 80), ["a bb", "c"]);
        assert_eq!(wrap_text("", 10), Vec::<String>::new());
    }

    #[test]
    fn figures_are_not_torn_apart() {
        assert_eq!(wrap_text("change: +8% [+7, +9].", 14), ["change: +8%", "[+7, +9]."]);
        assert_eq!(wrap_text("within 2% in", 8), ["within", "2% in"]);
    }

    #[test]
    fn long_text_is_shortened_in_the_middle() {
        assert_eq!(shorten_text("string-decoder.js len=16", 15), "strin…js len=16");
        assert_eq!(shorten_text("short", 5), "short");
        assert_eq!(display_width(&shorten_text("日本語のベンチマーク", 9)), 9);
        assert_eq!(shorten_text("abc", 1), "…");
    }

    #[test]
    fn nothing_is_painted_unless_asked() {
        assert_eq!(paint_text("x", TextEmphasis::Bad, false), "x");
        assert_eq!(paint_text("x", TextEmphasis::Bad, true), "\x1b[31mx\x1b[0m");
        assert_eq!(paint_text("  ", TextEmphasis::Bad, true), "  ");
    }

    #[test]
    fn control_characters_are_escaped_and_other_text_is_unchanged() {
        for (text, shown) in [
            ("old né ▲\n\tx", "old né ▲\n\tx"),
            ("\u{1b}[2J\0\u{7}\r", "\\x1b[2J\\x00\\x07\\x0d"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
        ] {
            assert_eq!(escape_controls(text), shown);
        }
        assert_eq!(escape_line("a\nb\tc\u{202e}"), "a\\x0ab\tc\\u{202e}");
    }
}
