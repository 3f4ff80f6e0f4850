//! A page being written: its text, escaped, with the ids and anchors that were given.

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
    /// The title of the page where that is the caption of its only table: neither that nor the only chart needs one.
    pub subject: Option<String>,
    /// On a page of a server: cells are links, and the rows of a table may be chosen.
    pub served: Option<Option<Choice>>,
    /// Where the charts of many cases are.
    pub charts: Charts,
    /// Anchors and titles for the table of contents, in order.
    pub contents: Vec<(String, String)>,
    /// Addresses and titles of the pages that have them, where they are on others.
    pub parts: Vec<(String, String)>,
    /// Where the charts of each case are that has some, by its id.
    links: HashMap<String, String>,
    /// What is drawn of each case here, by its id, with its anchor.
    drawings: HashMap<String, (String, String)>,
    /// Ids given so far, so that none is given twice.
    ids: usize,
}

impl Writer {
    /// Gives a case an anchor, to which its rows will lead, and keeps what will be shown there.
    pub fn expect(&mut self, case: &str, anchor: String, drawing: String) {
        self.expect_elsewhere(case, format!("#{anchor}"));
        self.drawings.insert(case.to_owned(), (anchor, drawing));
    }

    /// Leads the rows of a case to another page.
    pub fn expect_elsewhere(&mut self, case: &str, href: String) {
        self.links.insert(case.to_owned(), href);
    }

    /// How the rows of a table are chosen, if they are.
    pub fn choice_of(&self, table: &str) -> Option<&Choice> {
        let choice = self.served.as_ref()?.as_ref()?;
        (choice.table == table).then_some(choice)
    }

    /// Where the charts of the case of that id are, if it has some.
    pub fn link(&self, case: &str) -> Option<&str> {
        self.links.get(case).map(String::as_str)
    }

    /// The anchor and the drawing of a case, to be shown now; once only.
    pub fn take(&mut self, case: &str) -> Option<(String, String)> {
        self.drawings.remove(case)
    }

    /// An id that no other element has.
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

/// The class by which a style makes text stand out; empty for ordinary text.
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

/// Text for the content of an element or a quoted attribute. Letters that HTML does not allow (C0 without
/// tab and line feed, DEL, C1: "HTML Living Standard", section 13.2.3.5) become a replacement character.
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
            // Text in the other direction would show something else than is there.
            _ if turns(letter) => out.extend(letter.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// JSON for the content of a script element. A less-than sign occurs in strings only, where its escaped
/// means the same, and without one nothing can end the element or begin a comment.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            // The same text, without turning the source of the page.
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
