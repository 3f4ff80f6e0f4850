//! A page being written: its escaped text, and the ids and anchors assigned so far.

use super::apart::Charts;
use super::frame::Choice;
use crate::format::turns;
use crate::table::Emphasis;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A page being written.
#[derive(Debug, Default)]
pub struct Writer {
    /// The text so far.
    pub out: String,
    /// The page title if it is the caption of the only table, so that it is not repeated.
    pub subject: Option<String>,
    /// Set on served pages, where cells are links and the rows of a table may be selectable.
    pub served: Option<Option<Choice>>,
    /// The location of the charts of many cases.
    pub charts: Charts,
    /// Anchors and titles for the table of contents, in order.
    pub contents: Vec<(String, String)>,
    /// Addresses and titles of the separate pages with charts, if any.
    pub parts: Vec<(String, String)>,
    /// The link to each case's charts, by case id.
    links: HashMap<String, String>,
    /// The anchor and the drawing of each case on this page, by case id.
    drawings: HashMap<String, (String, String)>,
    /// Number of ids assigned so far, to keep them unique.
    ids: usize,
}

impl Writer {
    /// Reserves an anchor for a case, to which its rows link, and keeps its drawing.
    pub fn expect(&mut self, case: &str, anchor: String, drawing: String) {
        self.expect_elsewhere(case, format!("#{anchor}"));
        self.drawings.insert(case.to_owned(), (anchor, drawing));
    }

    /// Links the rows of a case to another page.
    pub fn expect_elsewhere(&mut self, case: &str, href: String) {
        self.links.insert(case.to_owned(), href);
    }

    /// The row selection of a table, if it has one.
    pub fn choice_of(&self, table: &str) -> Option<&Choice> {
        let choice = self.served.as_ref()?.as_ref()?;
        (choice.table == table).then_some(choice)
    }

    /// The link to the charts of a case, if it has any.
    pub fn link(&self, case: &str) -> Option<&str> {
        self.links.get(case).map(String::as_str)
    }

    /// Takes the anchor and the drawing of a case out, to show it.
    pub fn take(&mut self, case: &str) -> Option<(String, String)> {
        self.drawings.remove(case)
    }

    /// Returns an id that no other element has.
    pub fn new_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    /// Appends markup.
    pub fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Appends an element with text as its only content.
    pub fn element(&mut self, tag: &str, class: &str, text: &str) {
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.out, "<{tag}{class}>{}</{tag}>", escaped(text));
    }
}

/// The CSS class of an emphasis; empty for ordinary text.
pub fn class_of(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::None => "",
        Emphasis::Strong => "strong",
        Emphasis::Good => "good",
        Emphasis::Bad => "bad",
        Emphasis::Caution => "caution",
        Emphasis::Muted => "muted",
    }
}

/// Escapes text for element content or a quoted attribute. Characters that HTML forbids (C0 except
/// tab and line feed, DEL, C1: "HTML Living Standard", section 13.2.3.5) become U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(letter),
            _ if letter.is_control() => out.push('\u{fffd}'),
            // Direction overrides would disguise the text.
            _ if turns(letter) => out.extend(letter.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// Escapes JSON for a script element. A less-than sign occurs only in strings, where its escape
/// means the same; without it nothing can end the element or start a comment.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            // The same text, without bidirectional effects on the page source.
            _ if turns(letter) => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_could_be_markup() {
        assert_eq!(
            escaped("</script>&\"'\u{1b}[1m\u{0}é\n"),
            "&lt;/script&gt;&amp;&quot;&#39;\u{fffd}[1m\u{fffd}é\n"
        );
        assert_eq!(escaped("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
    }

    #[test]
    fn json_means_the_same_and_cannot_end_its_element() {
        let json = "{\"case\":\"</script><!-- \u{202e}\"}";
        let escaped = escape_json(json);
        assert!(!escaped.contains(['<', '\u{202e}']));
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(json));
    }
}
