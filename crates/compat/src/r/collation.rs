//! Sorts names in the same order as R.
//!
//! The order depends on the locale. In the locales C and POSIX, R sorts by code points. In all
//! others, including C.UTF-8, R uses ICU and thus the Unicode collation algorithm. For all of these
//! locales, we use the order of the root locale: punctuation, then digits, then letters. Lowercase
//! comes before uppercase only if strings do not differ otherwise. We sort letters beyond Latin-1
//! after `z`, by code point; ICU may sort them differently. Start at
//! [`TextCollation::sort_by_text`].

use std::cmp::Ordering;

/// Order of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCollation {
    /// By code points.
    CodePoints,
    /// By the root order of the Unicode Common Locale Data Repository.
    Root,
}

impl TextCollation {
    /// Returns the order that R would use with these environment variables.
    ///
    /// If none of the variables is set, R uses the locale C and prints `±` as two escape sequences.
    /// All our output is UTF-8, so we use the order of a UTF-8 locale.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> TextCollation {
        let locale = ["LC_ALL", "LC_COLLATE", "LANG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()));
        match locale.as_deref() {
            Some("C" | "POSIX") => TextCollation::CodePoints,
            _ => TextCollation::Root,
        }
    }

    /// Sorts `items` by the string that `text` returns for each.
    pub fn sort_by_text<T>(self, items: &mut [T], text: impl Fn(&T) -> &str) {
        match self {
            TextCollation::CodePoints => items.sort_by(|a, b| text(a).cmp(text(b))),
            TextCollation::Root => items.sort_by_cached_key(|item| RootKey::from_text(text(item))),
        }
    }

    /// Compares two strings.
    pub fn compare_texts(self, a: &str, b: &str) -> Ordering {
        match self {
            TextCollation::CodePoints => a.cmp(b),
            TextCollation::Root => RootKey::from_text(a).cmp(&RootKey::from_text(b)),
        }
    }
}

/// White space and punctuation in the order of the root collation (CLDR, `allkeys_CLDR.txt`).
const BEFORE_DIGITS: &str = "\t\n\u{b}\u{c}\r\u{85} _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Base letter of each character from U+00C0 to U+00FF; `-` if there is none.
const LATIN_1_LETTERS: &str = "AAAAAA-CEEEEIIII-NOOOOO-OUUUUY--aaaaaa-ceeeeiiii-nooooo-ouuuuy-y";

/// Sort key of a string. The three levels are compared one after the other, and finally the strings
/// themselves.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RootKey {
    letters: Vec<u32>,
    accents: Vec<u32>,
    capitals: Vec<bool>,
    text: String,
}

impl RootKey {
    fn from_text(text: &str) -> RootKey {
        let mut key = RootKey {
            letters: Vec::with_capacity(text.len()),
            accents: Vec::new(),
            capitals: Vec::with_capacity(text.len()),
            text: text.to_owned(),
        };
        for c in text.chars() {
            let base = base_letter(c);
            let Some(weight) = character_weight(base) else {
                continue;
            };
            key.letters.push(weight);
            key.accents.push(if base == c { 0 } else { c.to_ascii_lowercase().into() });
            key.capitals.push(base.is_uppercase());
        }
        key
    }
}

fn base_letter(c: char) -> char {
    let index = (c as usize).wrapping_sub(0xC0);
    match LATIN_1_LETTERS.as_bytes().get(index) {
        Some(b'-') | None => c,
        Some(&letter) => letter.into(),
    }
}

/// Returns the weight of a character without accent; `None` if the order ignores the character.
fn character_weight(c: char) -> Option<u32> {
    const SYMBOLS: u32 = 0x100;
    const DIGITS: u32 = 0x20_0000;
    const LETTERS: u32 = 0x30_0000;
    const FURTHER_LETTERS: u32 = 0x40_0000;
    match c {
        '0'..='9' => return Some(DIGITS + c as u32),
        'a'..='z' | 'A'..='Z' => return Some(LETTERS + c.to_ascii_lowercase() as u32),
        _ => {}
    }
    if let Some(index) = BEFORE_DIGITS.chars().position(|symbol| symbol == c) {
        return Some(index as u32);
    }
    match c {
        _ if c.is_control() => None,
        _ if c.is_alphabetic() => Some(FURTHER_LETTERS + c as u32),
        _ => Some(SYMBOLS + c as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(collation: TextCollation, texts: &str, separator: &str) -> String {
        let mut texts: Vec<&str> = texts.split(separator).collect();
        collation.sort_by_text(&mut texts, |text| text);
        texts.join(separator)
    }

    /// `sort()` of R 4.2.2 printed the expected orders under `LC_ALL=C.UTF-8`.
    #[test]
    fn outside_the_c_locale_the_order_is_that_of_r_with_icu() {
        let words = "UTF-8|utf8|utf-8|AscII|ascii|ASCII|base|Base|aB|Ab|ab|AB|ab c|a b|a_b|a-b|a.b|\
                     abc|e|é|f|ü|z|ss|st|日本|😀|\u{1}a";
        assert_eq!(
            sorted(TextCollation::Root, words, "|"),
            "😀|\u{1}a|a b|a_b|a-b|a.b|ab|aB|Ab|AB|ab c|abc|ascii|AscII|ASCII|base|Base|e|é|f|ss|st|\
             ü|utf-8|UTF-8|utf8|z|日本"
        );
        let all: Vec<String> = (' '..='~').map(String::from).collect();
        assert_eq!(
            sorted(TextCollation::Root, &all.join("\0"), "\0").replace('\0', ""),
            " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$\
             0123456789aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"
        );
    }

    #[test]
    fn in_the_c_locale_code_points_decide() {
        assert_eq!(sorted(TextCollation::CodePoints, "b|B|a_|a-|é|1", "|"), "1|B|a-|a_|b|é");
    }

    #[test]
    fn the_locale_is_found_as_the_c_library_finds_it() {
        let collation_for = |set: &'static [(&str, &str)]| {
            TextCollation::from_environment(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(collation_for(&[]), TextCollation::Root);
        assert_eq!(collation_for(&[("LANG", "C.UTF-8")]), TextCollation::Root);
        assert_eq!(
            collation_for(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]),
            TextCollation::CodePoints
        );
        assert_eq!(
            collation_for(&[("LC_ALL", ""), ("LC_COLLATE", "POSIX")]),
            TextCollation::CodePoints
        );
    }
}
