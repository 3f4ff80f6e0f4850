//! Holds a page while it is being written: the text so far, and the ids and anchors in use. Also
//! escapes text for HTML, and decides which charts go to separate pages.

use crate::document::{CaseGallery, Document, ReportBlock};
use crate::figure::{format_whole, unless_empty};
use crate::format::is_bidi_control;
use crate::glossary::GlossaryTerm;
use crate::table::TextEmphasis;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Formats markup. The arguments are escaped; names in the braces of the text stand for markup.
macro_rules! markup {
    ($text:literal $(, $argument:expr)* $(,)?) => {
        format!($text $(, $crate::format::html::writer::escape_html(&$argument))*)
    };
}
pub(super) use markup;

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
    /// Address of a served page.
    pub address: String,
    /// Where the charts go if there are too many cases for one page.
    pub charts: ChartsLocation,
    /// The link that sorts the rows of a comparison, as address and text.
    pub sort_link: Option<(String, String)>,
    /// Anchors and titles for the table of contents, in order.
    pub contents: Vec<(String, String)>,
    /// Addresses and titles of the separate pages with charts, if any.
    pub parts: Vec<(String, String)>,
    /// The link to each case's charts, by case id.
    pub links: HashMap<String, String>,
    /// The anchor and the drawing of each case on this page, by case id, until the gallery takes
    /// them.
    pub drawings: HashMap<String, (String, String)>,
    /// The terms that headings of tables link to.
    pub terms: Vec<&'static GlossaryTerm>,
    /// Number of ids assigned so far. The number makes the next id unique.
    ids: usize,
}

impl HtmlWriter {
    /// Returns the row selection of a table, if the table has one.
    pub fn choice_of(&self, table: &str) -> Option<&RowChoice> {
        let choice = self.served.as_ref()?.as_ref()?;
        (choice.table == table).then_some(choice)
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
        let class = unless_empty(class, |class| format!(" class=\"{class}\""));
        self.push_raw(&markup!("<{tag}{class}>{}</{tag}>\n", text));
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

// Puts the charts of many cases on separate pages. On one page, they would take megabytes that few
// readers look at.
//
// The code below decides which galleries are divided, and into which parts. A part is an ordinary
// document, readable without scripts. On a page that links to a part, a script can fetch the part
// and show its charts in place. Start at [`parts_of_charts`] and [`part_of_charts`].

/// Maximum number of cases that a gallery shows open. If there are more cases, each is collapsed,
/// and a server puts the charts on separate pages.
pub(super) const MAX_UNFOLDED_CASES: usize = 60;
/// Number of cases with charts per page.
const CASES_PER_PAGE: usize = 50;

/// Where the charts go if there are too many cases for one page.
#[derive(Debug, Clone, Default)]
pub enum ChartsLocation {
    /// On the page itself.
    #[default]
    Here,
    /// On separate pages. A page's address is this text followed by the number of its part.
    Apart(String),
    /// On this page, which is itself one of the separate pages. The value is the number of cases on
    /// earlier pages.
    From(usize),
}

/// Some cases of a document, with their charts.
#[derive(Debug, Clone)]
pub struct PartOfCharts {
    /// The document with these cases.
    pub document: Document,
    /// The number of cases in earlier parts.
    pub first: usize,
    /// The title, as in `cases 51 to 100`.
    pub title: String,
}

/// Returns the number of parts into which the charts are divided; 0 if all charts stay on the page.
pub fn parts_of_charts(document: &Document) -> usize {
    let cases = galleries(document).map(|gallery| gallery.cases.len()).sum::<usize>();
    if galleries(document).any(is_divided) { cases.div_ceil(CASES_PER_PAGE) } else { 0 }
}

/// Returns a part by its number, from 1 to [`parts_of_charts`].
pub fn part_of_charts(document: &Document, number: usize) -> Option<PartOfCharts> {
    if number == 0 || number > parts_of_charts(document) {
        return None;
    }
    let first = (number - 1) * CASES_PER_PAGE;
    let mut preceding = 0;
    let mut shown = Vec::new();
    for gallery in galleries(document) {
        let skipped = first.saturating_sub(preceding).min(gallery.cases.len());
        let end = (first + CASES_PER_PAGE).saturating_sub(preceding).min(gallery.cases.len());
        preceding += gallery.cases.len();
        if skipped < end {
            let cases = gallery.cases[skipped..end].to_vec();
            shown.push(CaseGallery { kind: gallery.kind, cases });
        }
    }
    let title = part_title(number, preceding);
    let mut document = Document::new(document.report);
    document.push_heading(1, format!("{title} of {}", format_whole(preceding)));
    document.extend(shown.into_iter().map(ReportBlock::Gallery));
    Some(PartOfCharts { document, first, title })
}

/// Formats the title of part `number`, as in `cases 51 to 100`. The document has `cases` cases.
fn part_title(number: usize, cases: usize) -> String {
    let (first, last) = ((number - 1) * CASES_PER_PAGE + 1, (number * CASES_PER_PAGE).min(cases));
    let [from, to] = [first, last].map(format_whole);
    if first == last { format!("case {from}") } else { format!("cases {from} to {to}") }
}

/// Returns the addresses and titles of a document's parts.
pub(super) fn list_parts(charts: &ChartsLocation, document: &Document) -> Vec<(String, String)> {
    let ChartsLocation::Apart(address) = charts else { return Vec::new() };
    let cases = galleries(document).map(|gallery| gallery.cases.len()).sum();
    let numbers = 1..=parts_of_charts(document);
    numbers.map(|number| (format!("{address}{number}"), part_title(number, cases))).collect()
}

/// Returns every gallery of a document, in reading order.
pub(super) fn galleries(document: &Document) -> impl Iterator<Item = &CaseGallery> {
    let blocks = document.all_blocks().into_iter();
    blocks.filter_map(|block| match block {
        ReportBlock::Gallery(gallery) => Some(gallery),
        _ => None,
    })
}

fn is_divided(gallery: &CaseGallery) -> bool {
    gallery.cases.len() > MAX_UNFOLDED_CASES
}

/// Whether the charts of a gallery are on separate pages.
pub(super) fn has_separate_charts(charts: &ChartsLocation, gallery: &CaseGallery) -> bool {
    matches!(charts, ChartsLocation::Apart(_)) && is_divided(gallery)
}

/// Returns the address of the page with a case's chart, or `None` if the chart is on this page.
pub(super) fn chart_address(
    charts: &ChartsLocation,
    gallery: &CaseGallery,
    index: usize,
) -> Option<String> {
    let ChartsLocation::Apart(address) = charts else { return None };
    is_divided(gallery).then(|| format!("{address}{}", index / CASES_PER_PAGE + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{CaseView, GalleryKind};

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

    /// Creates a document with galleries of these sizes. A case's name is its index over all
    /// galleries.
    fn document(sizes: &[usize]) -> Document {
        let mut document = Document::new("comparison");
        let mut next = 0;
        for size in sizes {
            let view = |at: usize| CaseView {
                id: at.to_string(),
                answers: Vec::new(),
                charts: Vec::new(),
            };
            document.push(ReportBlock::Gallery(CaseGallery {
                kind: GalleryKind::Runs,
                cases: (next..next + size).map(view).collect(),
            }));
            next += size;
        }
        document
    }

    #[test]
    fn all_parts_together_have_every_case_once() {
        for sizes in [&[61][..], &[3, 100, 47], &[100, 1], &[61, 0, 61]] {
            let whole = document(sizes);
            let all: usize = sizes.iter().sum();
            let mut seen: Vec<String> = Vec::new();
            for number in 1..=parts_of_charts(&whole) {
                let part = part_of_charts(&whole, number).unwrap();
                assert_eq!(part.first, seen.len());
                let cases: Vec<&CaseView> =
                    galleries(&part.document).flat_map(|gallery| &gallery.cases).collect();
                assert!(cases.len() <= CASES_PER_PAGE);
                seen.extend(cases.iter().map(|case| case.id.clone()));
            }
            let expected: Vec<String> = (0..all).map(|at| at.to_string()).collect();
            assert_eq!(seen, expected, "{sizes:?}");
            assert!(part_of_charts(&whole, all.div_ceil(CASES_PER_PAGE) + 1).is_none());
        }
    }

    #[test]
    fn few_cases_get_no_separate_chart_pages() {
        let whole = document(&[60, 60]);
        assert_eq!(parts_of_charts(&whole), 0);
        assert!(part_of_charts(&whole, 1).is_none());
        let charts = ChartsLocation::Apart("?charts=".into());
        assert!(!has_separate_charts(&charts, galleries(&whole).next().unwrap()));
        assert_eq!(list_parts(&charts, &document(&[101]))[2].1, "case 101");
    }
}
