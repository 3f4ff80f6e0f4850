//! Breaking and shortening text by the columns it takes on a screen, not by bytes or characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that `text` takes on a screen.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Breaks `text` at blanks into lines of at most `room` columns. A longer word gets its own line,
/// whole: ids and paths are to be copied. Line ends in the text stay.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| wrap_line(line, room))
        .collect()
}

fn wrap_line(line: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(line) {
        let last = lines.len() - 1;
        let used = width(&lines[last]);
        if used > 0 && used + 1 + width(&word) > room {
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

/// The words of a line. What reads as one figure is one word: `2 %`, `[+6.9, +9.6]`.
fn words(line: &str) -> Vec<String> {
    /// No interval is longer; a bracket that stays open longer is none.
    const LONGEST_FIGURE: usize = 24;
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last) if last.len() < LONGEST_FIGURE && (open(last) || word.starts_with('%')) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn open(word: &str) -> bool {
    word.starts_with('[') && !word.contains(']')
}

/// Shortens `text` to `room` columns by an ellipsis in the middle. More of the end is kept than of
/// the beginning, because what tells neighbours apart stands at the end.
pub fn shorten(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let front = kept * 2 / 5;
    let head = take(text.chars(), front);
    let tail: String = take(text.chars().rev(), kept - width(&head))
        .chars()
        .rev()
        .collect();
    format!("{head}…{tail}")
}

/// As many characters from the front of `characters` as fit into `room` columns.
fn take(characters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += UnicodeWidthChar::width(*character).unwrap_or(0);
            used <= room
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_long_words_stay_whole() {
        assert_eq!(wrap("is it faster", 5), ["is it", "faster"]);
        assert_eq!(wrap("a bb\nc", 80), ["a bb", "c"]);
        assert_eq!(wrap("", 10), Vec::<String>::new());
    }

    #[test]
    fn figures_are_not_torn_apart() {
        assert_eq!(
            wrap("change: +8 % [+7, +9].", 14),
            ["change: +8 %", "[+7, +9]."]
        );
        assert_eq!(wrap("within 2 % in", 8), ["within", "2 % in"]);
    }

    #[test]
    fn the_middle_is_left_out() {
        assert_eq!(shorten("string-decoder.js len=16", 15), "strin…js len=16");
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(width(&shorten("日本語のベンチマーク", 9)), 9);
        assert_eq!(shorten("abc", 1), "…");
    }
}
