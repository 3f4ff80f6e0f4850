//! Holds a page while it is being written: the text so far, and the ids and anchors in use. Also
//! escapes text for HTML.

use super::chart_pages::ChartsLocation;
use crate::format::is_bidi_control;
use crate::table::TextEmphasis;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Check boxes in the rows of a table.
#[derive(Debug, Clone)]
pub struct RowChoice {
    /// The name of the table.
    pub table: &'static str,
    /// The address for the selected rows.
    pub action: String,
    /// The name of the parameter in the query. The parameter's values are the texts in the first
    /// cells of the selected rows.
    pub name: &'static str,
    /// The text of the button.
    pub button: String,
}

/// A page being written.
#[derive(Debug, Default)]
pub struct HtmlWriter {
    /// The text so far.
    pub out: String,
    /// The page title, if it is the caption of the only table. The table then does not repeat it.
    pub subject: Option<String>,
    /// `Some` on a served page, where cells link to other pages. The inner value is `Some` if a
    /// table of the page has rows that can be selected.
    pub served: Option<Option<RowChoice>>,
    /// Where the charts go if there are too many cases for one page.
    pub charts: ChartsLocation,
    /// Anchors and titles for the table of contents, in order.
    pub contents: Vec<(String, String)>,
    /// Addresses and titles of the separate pages with charts, if any.
    pub parts: Vec<(String, String)>,
    /// The link to each case's charts, by case id.
    links: HashMap<String, String>,
    /// The anchor and the drawing of each case on this page, by case id, until the gallery takes
    /// them.
    drawings: HashMap<String, (String, String)>,
    /// Number of ids assigned so far. The number makes the next id unique.
    ids: usize,
}

impl HtmlWriter {
    /// Keeps the drawing of a case until the gallery takes it. Links the rows of the case to
    /// `anchor`, where the drawing will be.
    pub fn add_case_drawing(&mut self, case: &str, anchor: String, drawing: String) {
        self.link_case(case, format!("#{anchor}"));
        self.drawings.insert(case.to_owned(), (anchor, drawing));
    }

    /// Links the rows of a case to another page.
    pub fn link_case(&mut self, case: &str, href: String) {
        self.links.insert(case.to_owned(), href);
    }

    /// Returns the row selection of a table, if the table has one.
    pub fn choice_of(&self, table: &str) -> Option<&RowChoice> {
        let choice = self.served.as_ref()?.as_ref()?;
        (choice.table == table).then_some(choice)
    }

    /// Returns the link to the charts of a case, if the case has any.
    pub fn link(&self, case: &str) -> Option<&str> {
        self.links.get(case).map(String::as_str)
    }

    /// Removes and returns the anchor and the drawing of a case.
    pub fn take_drawing(&mut self, case: &str) -> Option<(String, String)> {
        self.drawings.remove(case)
    }

    /// Returns an id that no other element has.
    pub fn new_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}-{}", self.ids)
    }

    /// Appends markup.
    pub fn push_raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// Appends an element with text as its only content.
    pub fn push_element(&mut self, tag: &str, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.out, "<{tag}{class}>{}</{tag}>", escape_html(text));
    }
}

/// Returns the CSS class of an emphasis. Ordinary text has none.
pub fn emphasis_class(emphasis: TextEmphasis) -> &'static str {
    match emphasis {
        TextEmphasis::None => "",
        TextEmphasis::Strong => "strong",
        TextEmphasis::Good => "good",
        TextEmphasis::Bad => "bad",
        TextEmphasis::Caution => "caution",
        TextEmphasis::Muted => "muted",
    }
}

/// Escapes text for element content or a quoted attribute. Characters that HTML forbids (C0 except
/// tab and line feed, DEL, C1: "HTML Living Standard", section 13.2.3.5) become U+FFFD.
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(character),
            _ if character.is_control() => out.push('\u{fffd}'),
            // Direction overrides would disguise the text.
            _ if is_bidi_control(character) => out.extend(character.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// Escapes JSON for a script element. JSON has less-than signs only inside strings, where `\u003c`
/// means the same. Without these signs, nothing in the text can end the script element or start a
/// comment.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            // The escape stands for the same character, but does not reorder the text of the page
            // source.
            _ if is_bidi_control(character) => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
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
    fn html_is_escaped_and_control_characters_are_replaced() {
        assert_eq!(
            escape_html("</script>&\"'\u{1b}[1m\u{0}é\n"),
            "&lt;/script&gt;&amp;&quot;&#39;\u{fffd}[1m\u{fffd}é\n"
        );
        assert_eq!(escape_html("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
    }

    #[test]
    fn escaped_json_keeps_its_value_and_cannot_end_its_element() {
        let json = "{\"case\":\"</script><!-- \u{202e}\"}";
        let escaped = escape_json(json);
        assert!(!escaped.contains(['<', '\u{202e}']));
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(json));
    }
}
