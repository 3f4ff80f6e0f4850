//! Renders a document as a single HTML page that can be passed around. All scripts and styles are
//! inline, so the page needs no network and no other file.
//!
//! Everything is readable without the script, which only adds conveniences such as sorting,
//! filtering and copying. The page omits what would make it too large, and says so. Start at
//! [`render_page`]. `blocks.rs` renders blocks, `gallery.rs` the charts of all cases, and
//! `table.rs` tables. `page_layout.rs` has the frame that a server adds, and `chart_pages.rs` the
//! charts on separate pages.

// Code outside this folder uses only this module.
mod blocks;
mod chart_pages;
mod gallery;
mod page_layout;
mod table;
mod writer;

pub use chart_pages::{ChartsLocation, PartOfCharts, part_of_charts, parts_of_charts};
pub use page_layout::{
    AssetPaths, FormField, LoginState, PageForm, PageFrame, PageLink, ServedFrame,
};
pub use writer::RowChoice;

use crate::document::{Document, ReportBlock};
use crate::format::html::writer::{HtmlWriter, escape_html, escape_json};
use crate::format::{Json, RenderDocument};
use std::io::{self, Write};

/// A single HTML page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl RenderDocument for Html {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(render_page(document, PageFrame::Alone)?.as_bytes())
    }
}

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = concat!(include_str!("script.js"), include_str!("flames.js"));

/// Runs before the first paint. Applies the reader's theme and marks that scripts are enabled.
pub const EARLY_SCRIPT: &str = "document.documentElement.classList.add('js');\
    try{const t=localStorage.getItem('speedwell-theme');\
    if(t)document.documentElement.dataset.theme=t}catch{}";

/// The style of served pages.
pub const SERVED_STYLE: &str = concat!(include_str!("style.css"), include_str!("served.css"));

/// The script of served pages.
pub const SERVED_SCRIPT: &str =
    concat!(include_str!("script.js"), include_str!("flames.js"), include_str!("served.js"));

/// Content security policy: the browser enforces that the page loads nothing.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Renders the whole page.
///
/// # Errors
/// Fails if the raw data cannot be serialized.
pub fn render_page(document: &Document, frame: PageFrame<'_>) -> io::Result<String> {
    let answer = TopOfPage::of_document(document);
    let mut writer = HtmlWriter::default();
    if let PageFrame::Served(served) = frame {
        writer.served = Some(served.choice.clone());
        writer.charts = served.charts.clone();
    }
    writer.subject.clone_from(&answer.subject);
    gallery::prepare_gallery(document, &mut writer);
    let question = leading_question(document);
    let is_above = |block: &&ReportBlock| match block {
        ReportBlock::Headline(_) => answer.is_headline || question.is_some(),
        ReportBlock::Heading { level: 1, text } => question == Some(text),
        _ => false,
    };
    let blocks = document.answer_first().into_iter();
    let shown: Vec<&ReportBlock> = blocks.filter(|block| !is_above(block)).collect();
    blocks::write_document(&shown, &mut writer);
    let mut page = match frame {
        PageFrame::Alone => {
            write_raw_data(document, &mut writer)?;
            file_head(&answer.title)
        }
        PageFrame::Served(served) => {
            writer.contents.push(("data".into(), "Raw data".into()));
            writer.push_raw(&page_layout::raw_data_section(served));
            page_layout::page_head(&answer.title, document.report, served)
        }
    };
    page.push_str(&write_masthead(document, &answer, &writer.contents, frame));
    page.push_str("<main id=\"main\">\n");
    page.push_str(&writer.out);
    page.push_str("</main>\n");
    if matches!(frame, PageFrame::Served(_)) {
        page.push_str(page_layout::FOOTER);
        page.push_str("</body>\n</html>\n");
        return Ok(page);
    }
    page.push_str(concat!(
        "<footer><p>Written by Speedwell ",
        env!("CARGO_PKG_VERSION"),
        ". This page is one file and loads nothing.</p></footer>\n"
    ));
    page.push_str(&format!("<script type=\"module\">\n{SCRIPT}</script>\n"));
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

struct TopOfPage {
    /// The title of the page.
    title: String,
    /// Text after the title in the headline, in smaller type.
    remainder: String,
    /// The headlines below the title, as pairs of a heading and the headline of the part with that
    /// heading. The heading is empty if it would repeat the title.
    answers: Vec<(String, String)>,
    /// Whether the title is the document's only headline.
    is_headline: bool,
    /// The title, if it is the caption of the document's only table with a caption. The table then
    /// does not repeat it.
    subject: Option<String>,
}

impl TopOfPage {
    fn of_document(document: &Document) -> TopOfPage {
        let headlines = headlines_by_part(document);
        if let Some(question) = leading_question(document) {
            // The question is the title, so the answers below do not repeat it as their heading.
            let answers = headlines.into_iter().map(|(part, text)| {
                if part == *question { (String::new(), text) } else { (part, text) }
            });
            return TopOfPage {
                title: question.clone(),
                remainder: String::new(),
                answers: answers.collect(),
                is_headline: false,
                subject: None,
            };
        }
        if let [(_, only)] = &headlines[..] {
            let (title, remainder) = split_sentence(only);
            return TopOfPage {
                title: capitalize_own_words(title),
                remainder: remainder.to_owned(),
                answers: Vec::new(),
                is_headline: true,
                subject: None,
            };
        }
        let subject = caption_subject(document).filter(|_| headlines.is_empty());
        TopOfPage {
            title: capitalize_own_words(subject.unwrap_or(document.report)),
            remainder: String::new(),
            answers: headlines,
            is_headline: false,
            subject: subject.filter(|_| is_of_one_table(document)).map(str::to_owned),
        }
    }
}

/// Returns the question that the document answers: a leading level-1 heading.
fn leading_question(document: &Document) -> Option<&String> {
    match document.blocks.first() {
        Some(ReportBlock::Heading { level: 1, text }) => Some(text),
        _ => None,
    }
}

/// Returns the headlines, each with the last heading before it.
fn headlines_by_part(document: &Document) -> Vec<(String, String)> {
    let mut part = "";
    let mut headlines = Vec::new();
    for block in &document.blocks {
        match block {
            ReportBlock::Heading { text, .. } => part = text,
            ReportBlock::Headline(text) => headlines.push((part.to_owned(), text.clone())),
            _ => {}
        }
    }
    headlines
}

/// Whether the document has one table with a caption and at most one chart.
fn is_of_one_table(document: &Document) -> bool {
    let captioned = document.tables().filter(|table| !table.caption.is_empty());
    captioned.count() == 1 && document.charts().count() <= 1
}

/// Returns the subject of a document without a headline: the first line above the first table with
/// a caption. The line states what all rows of the table share.
fn caption_subject(document: &Document) -> Option<&str> {
    let mut captions = document.tables().filter_map(|table| table.caption.first());
    captions.next().map(String::as_str)
}

/// Splits off the first sentence, without its full stop.
fn split_sentence(text: &str) -> (&str, &str) {
    match text.split_once(". ") {
        Some((first, remainder)) => (first, remainder),
        None => (text.strip_suffix('.').unwrap_or(text), ""),
    }
}

fn capitalize_own_words(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        // Capitalize only a single word, or a text that begins with words of our own. A capital
        // letter would change the name of a variant or a file.
        Some(first) if text.starts_with("it is ") => {
            first.to_uppercase().chain(characters).collect()
        }
        Some(first) if !text.contains(' ') => first.to_uppercase().chain(characters).collect(),
        _ => text.to_owned(),
    }
}

fn file_head(title: &str) -> String {
    let title = escape_html(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{CONTENT_POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <script>{EARLY_SCRIPT}</script>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\n"
    )
}

fn write_masthead(
    document: &Document,
    answer: &TopOfPage,
    contents: &[(String, String)],
    frame: PageFrame<'_>,
) -> String {
    let kind = match frame {
        PageFrame::Alone => {
            format!("<p class=\"kind\"><b>Speedwell</b> {}</p>\n", escape_html(document.report))
        }
        PageFrame::Served(served) => page_layout::breadcrumbs_markup(served),
    };
    let title = escape_html(&answer.title);
    let mut out = format!("<header class=\"masthead\">\n{kind}<h1>{title}</h1>\n");
    if !answer.remainder.is_empty() {
        out.push_str(&format!("<p class=\"lede\">{}</p>\n", escape_html(&answer.remainder)));
    }
    let answer_item = |(part, text): &(String, String)| {
        let part = match part.as_str() {
            "" => String::new(),
            part => format!("<b>{}:</b> ", escape_html(part)),
        };
        format!("<li>{part}{}</li>\n", escape_html(text))
    };
    if !answer.answers.is_empty() {
        let answers: String = answer.answers.iter().map(answer_item).collect();
        out.push_str(&format!("<ul class=\"answers\">\n{answers}</ul>\n"));
    }
    if let PageFrame::Served(served) = frame {
        out.push_str(&page_layout::below_title_markup(served));
    }
    let link = |(id, title): &(String, String)| {
        format!("<li><a href=\"#{id}\">{}</a></li>", escape_html(title))
    };
    if contents.len() > 1 {
        let links: String = contents.iter().map(link).collect();
        out.push_str(&format!("<nav aria-label=\"Parts of this report\"><ul>{links}</ul></nav>\n"));
    }
    out + "</header>\n"
}

/// Adds the raw data to the page: the same JSON that `-o report.json` writes.
fn write_raw_data(document: &Document, writer: &mut HtmlWriter) -> io::Result<()> {
    let mut bytes = Vec::new();
    Json.render(document, &mut bytes)?;
    let json = escape_json(&String::from_utf8_lossy(&bytes));
    let id = "data";
    writer.contents.push((id.into(), "Raw data".into()));
    writer.push_raw(&format!("<section id=\"{id}\" class=\"data\">\n<h2>Raw data</h2>\n"));
    if json.len() > MAX_DATA_BYTES {
        writer.push_raw(&format!(
            "<p>The raw data ({} MB) are left out to keep this page small; \
             <code>-o report.json</code> writes them.</p>\n",
            json.len() >> 20
        ));
    } else {
        writer.push_raw(
            "<p>This page contains every number with all its digits, and the value of every run, as \
             JSON in the element <code>#raw-data</code>.</p>\n",
        );
        writer.push_raw(&format!(
            "<script type=\"application/json\" id=\"raw-data\">\n{json}</script>\n"
        ));
    }
    writer.push_raw("</section>\n");
    Ok(())
}

/// Maximum size of the raw data in bytes; larger data are left out.
const MAX_DATA_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_the_title() {
        let text = "new is faster in 3.5 % of 2 cases; 1 unclear. Typical change: +6 % [+2, +10].";
        assert_eq!(
            split_sentence(text),
            ("new is faster in 3.5 % of 2 cases; 1 unclear", "Typical change: +6 % [+2, +10].")
        );
        assert_eq!(split_sentence("all is well."), ("all is well", ""));
    }

    #[test]
    fn variant_names_at_the_start_of_a_sentence_are_not_capitalized() {
        assert_eq!(capitalize_own_words("new is faster"), "new is faster");
        assert_eq!(capitalize_own_words("it is unclear"), "It is unclear");
        assert_eq!(capitalize_own_words("sessions"), "Sessions");
    }
}
