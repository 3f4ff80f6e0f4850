//! Renders a document as a single HTML page that can be passed around. All scripts and styles are
//! inline, so the page needs no network and no other file.
//!
//! Everything is readable without the script, which only adds conveniences such as sorting,
//! filtering and copying. The page omits what would make it too large, and says so. Start at
//! [`render_page`], which renders blocks with [`write_blocks`]. `gallery.rs` renders the charts of
//! all cases, and `table.rs` tables. `page_layout.rs` has the frame that a server adds.

use crate::document::{Document, Fact, ReportBlock, ReportChart, group_blocks};
use crate::format::html::gallery::add_gallery;
use crate::format::html::writer::{HtmlWriter, escape_html, escape_json};
use crate::format::{Json, RenderDocument};
use std::io::{self, Write};

// Code outside this folder uses only this module.
mod gallery;
mod page_layout;
mod table;
mod writer;

pub use page_layout::{
    AssetPaths, FormField, LoginState, PageForm, PageFrame, PageLink, ServedFrame,
};
pub use writer::{ChartsLocation, PartOfCharts, RowChoice, part_of_charts, parts_of_charts};

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
    write_blocks(&shown, true, &mut writer);
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

#[derive(Default)]
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
                answers: answers.collect(),
                ..TopOfPage::default()
            };
        }
        if let [(_, only)] = &headlines[..] {
            let (title, remainder) = split_sentence(only);
            return TopOfPage {
                title: capitalize_own_words(title),
                remainder: remainder.to_owned(),
                is_headline: true,
                ..TopOfPage::default()
            };
        }
        // Without a headline, the title is the first line above the first table with a caption. The
        // line states what all rows of the table share.
        let caption = document.tables().find_map(|table| table.caption.first());
        let subject = caption.map(String::as_str).filter(|_| headlines.is_empty());
        let captioned = document.tables().filter(|table| !table.caption.is_empty());
        let is_of_one_table = captioned.count() == 1 && document.charts().count() <= 1;
        TopOfPage {
            title: capitalize_own_words(subject.unwrap_or(document.report)),
            answers: headlines,
            subject: subject.filter(|_| is_of_one_table).map(str::to_owned),
            ..TopOfPage::default()
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

/// Splits off the first sentence, without its full stop.
fn split_sentence(text: &str) -> (&str, &str) {
    match text.split_once(". ") {
        Some((first, remainder)) => (first, remainder),
        None => (text.strip_suffix('.').unwrap_or(text), ""),
    }
}

fn capitalize_own_words(text: &str) -> String {
    // Capitalize only a single word, or a text that begins with words of our own. A capital letter
    // would change the name of a variant or a file.
    if text.starts_with("it is ") || !text.contains(' ') {
        table::capitalize_word(text)
    } else {
        text.to_owned()
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
    writer.contents.push(("data".into(), "Raw data".into()));
    let data = if json.len() > MAX_DATA_BYTES {
        format!(
            "<p>The raw data ({} MB) are left out to keep this page small; \
             <code>-o report.json</code> writes them.</p>",
            json.len() >> 20
        )
    } else {
        format!(
            "<p>This page contains every number with all its digits, and the value of every run, as \
             JSON in the element <code>#raw-data</code>.</p>\n\
             <script type=\"application/json\" id=\"raw-data\">\n{json}</script>"
        )
    };
    let heading = "<section id=\"data\" class=\"data\">\n<h2>Raw data</h2>";
    writer.push_raw(&format!("{heading}\n{data}\n</section>\n"));
    Ok(())
}

/// Maximum size of the raw data in bytes; larger data are left out.
const MAX_DATA_BYTES: usize = 8 << 20;

// The blocks of a document as HTML.

/// Width of a chart in CSS pixels. At this width, the text of the chart has the size of the page's
/// small print. On narrower screens, the chart scrolls inside its frame.
const CHART_PX: u32 = 960;
/// Maximum size of a chart in bytes. A larger chart is left out, and the page says so.
const MAX_CHART_BYTES: usize = 1 << 20;
/// Width of flame graphs, whose boxes need all the space, and of grids of small charts.
const WIDE_PX: u32 = 1180;
/// Width of a chart next to another one.
const NARROW_CHART_PX: u32 = 580;

/// Renders blocks. If `top` is true, they are not nested in other blocks, and the table of contents
/// lists their headings.
fn write_blocks(blocks: &[&ReportBlock], top: bool, writer: &mut HtmlWriter) {
    let is_gathered = |block: &ReportBlock| {
        matches!(block, ReportBlock::Note(_) | ReportBlock::Warning(_) | ReportBlock::Chart(_))
    };
    for run in group_blocks(blocks, is_gathered) {
        let sentences = run.iter().filter_map(|block| block.sentence());
        match run[0] {
            ReportBlock::Note(_) => {
                writer.push_raw("<div class=\"notes\">\n");
                sentences.for_each(|note| writer.push_element("p", "", note));
                writer.push_raw("</div>\n");
            }
            ReportBlock::Warning(_) => {
                writer.push_raw(
                    "<div class=\"warnings\" role=\"note\">\n<p class=\"label\">Warnings</p>\n",
                );
                write_list(sentences, writer);
                writer.push_raw("</div>\n");
            }
            ReportBlock::Chart(_) => write_charts(run, writer),
            block => add_block(block, top, writer),
        }
    }
}

fn add_block(block: &ReportBlock, top: bool, writer: &mut HtmlWriter) {
    match block {
        ReportBlock::Heading { level, text } => write_heading(*level, text, top, writer),
        ReportBlock::Headline(text) => writer.push_element("p", "headline", text),
        ReportBlock::Paragraph(text) => writer.push_element("p", "", text),
        // `write_blocks` renders these in groups.
        ReportBlock::Note(_) | ReportBlock::Warning(_) | ReportBlock::Chart(_) => {}
        ReportBlock::List(items) => write_list(items.iter().map(String::as_str), writer),
        ReportBlock::Table(table) => table::add_table(table, top, writer),
        ReportBlock::Facts(facts) => write_facts(facts, writer),
        ReportBlock::Gallery(gallery) => add_gallery(gallery, writer),
        ReportBlock::Verbatim { label, text } => write_verbatim(label, text, writer),
        ReportBlock::Command { label, line } => {
            writer.push_element("p", "label", label);
            let line = escape_html(line);
            writer.push_raw(&format!(
                "<pre class=\"command\" tabindex=\"0\"><code>{line}</code></pre>\n"
            ));
        }
        ReportBlock::Aside { summary, open, blocks } => {
            let open = if *open { " open" } else { "" };
            write_details(summary, open, blocks, top, writer);
        }
        ReportBlock::Appendix { title, blocks, .. } => {
            write_details(title, "", blocks, top, writer)
        }
        ReportBlock::Shortened { .. } => {}
    }
}

fn write_heading(level: u8, text: &str, top: bool, writer: &mut HtmlWriter) {
    let level = level.clamp(2, 4);
    let id = writer.new_id("part");
    // The table of contents lists no nested parts: they would make it too long.
    if top && level == 2 {
        writer.contents.push((id.clone(), text.to_owned()));
    }
    writer.push_raw(&format!("<h{level} id=\"{id}\">{}</h{level}>\n", escape_html(text)));
}

fn write_list<'t>(items: impl Iterator<Item = &'t str>, writer: &mut HtmlWriter) {
    writer.push_raw("<ul>\n");
    for item in items {
        writer.push_element("li", "", item);
    }
    writer.push_raw("</ul>\n");
}

fn write_facts(facts: &[Fact], writer: &mut HtmlWriter) {
    writer.push_raw("<table class=\"facts\"><tbody>\n");
    for (name, value) in facts {
        writer.push_raw(&format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escape_html(name),
            escape_html(value)
        ));
    }
    writer.push_raw("</tbody></table>\n");
}

/// Renders charts. A single chart gets the normal width, `CHART_PX`. Several charts are placed side
/// by side if the page is wide enough. Wide charts come last, one below the other.
fn write_charts(blocks: &[&ReportBlock], writer: &mut HtmlWriter) {
    let (wide, others): (Vec<&ReportChart>, Vec<&ReportChart>) = blocks
        .iter()
        .filter_map(|block| match block {
            ReportBlock::Chart(chart) if !chart.shown_elsewhere => Some(chart.as_ref()),
            _ => None,
        })
        .partition(|chart| is_wide(chart));
    match others[..] {
        [] => {}
        [only] => write_chart(only, CHART_PX, writer),
        _ => {
            writer.push_raw("<div class=\"charts\">\n");
            for chart in others {
                write_chart(chart, NARROW_CHART_PX, writer);
            }
            writer.push_raw("</div>\n");
        }
    }
    for chart in wide {
        write_chart(chart, WIDE_PX, writer);
    }
}

fn is_wide(chart: &ReportChart) -> bool {
    is_flame(chart) || matches!(chart.picture, speedwell_plot::AnyChart::Grid(_))
}

fn is_flame(chart: &ReportChart) -> bool {
    matches!(chart.picture, speedwell_plot::AnyChart::Flame(_))
}

fn write_chart(chart: &ReportChart, width_px: u32, writer: &mut HtmlWriter) {
    let id = writer.new_id("chart");
    let svg = match writer.subject {
        None => chart.picture.svg_on_page(width_px, &id),
        Some(_) => chart.picture.svg_below_heading(width_px, &id),
    };
    if svg.len() > MAX_CHART_BYTES {
        writer.push_element(
            "p",
            "left-out",
            &format!(
                "The chart '{}' is left out, because it would take {} MB here; to write it to a file, use -o chart.svg.",
                chart.title,
                svg.len() >> 20
            ),
        );
        return;
    }
    let class = if is_flame(chart) { "chart flame" } else { "chart" };
    writer.push_raw(&format!("<figure class=\"{class}\" tabindex=\"0\">\n{svg}</figure>\n"));
}

fn write_verbatim(label: &str, text: &str, writer: &mut HtmlWriter) {
    if text.trim().is_empty() {
        writer.push_element("p", "muted", &format!("(nothing on {label})"));
        return;
    }
    writer.push_element("p", "label", label);
    writer.push_raw(&format!("<pre tabindex=\"0\">{}</pre>\n", escape_html(text.trim_end())));
}

fn write_details(
    title: &str,
    open: &str,
    blocks: &[ReportBlock],
    top: bool,
    writer: &mut HtmlWriter,
) {
    let id = writer.new_id("part");
    if top {
        writer.contents.push((id.clone(), title.to_owned()));
    }
    writer.push_raw(&format!(
        "<details id=\"{id}\" class=\"fold\"{open}>\n<summary>{}</summary>\n",
        escape_html(title)
    ));
    write_blocks(&blocks.iter().collect::<Vec<_>>(), false, writer);
    writer.push_raw("</details>\n");
}

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
