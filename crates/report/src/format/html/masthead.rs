//! Renders the top of a page: its title, the answers of the document, and the table of contents.
//! Decides which text of the document is the title.

use crate::document::{Document, LinkedText, ReportBlock, SessionLine, severity};
use crate::figure::{
    capitalize_first, format_count, format_instant, format_moment, join_texts, unless_empty,
};
use crate::format::html::page_layout::{self, PageFrame};
use crate::format::html::table::VERDICT_COLUMN;
use crate::format::html::writer::{emphasis_class, escape_html, markup};
use crate::table::{ReportRow, ReportTable, TextEmphasis, VALIDITY_TABLE};

/// The text at the top of a page.
#[derive(Default)]
pub struct TopOfPage {
    /// The title of the page.
    pub title: String,
    /// Text after the title in the headline, in smaller type.
    remainder: String,
    /// The headlines below the title, as pairs of a heading and the headline of the part with that
    /// heading. The heading is empty if it would repeat the title.
    answers: Vec<(String, String)>,
    /// Whether title and answers are all headlines, so that the parts below do not repeat them.
    pub are_headlines_above: bool,
    /// The title, if it is the caption of the document's only table with a caption. The table then
    /// does not repeat it.
    pub subject: Option<String>,
}

impl TopOfPage {
    /// Chooses the texts of a document.
    pub fn of_document(document: &Document) -> TopOfPage {
        let headlines = headlines_by_part(document);
        if let Some(question) = document.leading_question() {
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
        // Without a headline, or with several about one table, the title is the first line above the
        // first table with a caption. The line states what all rows of the table share. Headlines
        // below headings belong to parts of the document.
        let captioned = document.tables().filter(|table| !table.caption.is_empty());
        let is_of_one_table = captioned.count() == 1 && document.charts().count() <= 1;
        let caption = document.tables().find_map(|table| table.caption.first());
        let subject =
            caption.map(String::as_str).filter(|_| headlines.is_empty() || is_of_one_table);
        if let [(_, first), others @ ..] = &headlines[..]
            && (others.is_empty()
                || subject.is_none() && headlines.iter().all(|(part, _)| part.is_empty()))
        {
            let (title, remainder) = split_sentence(first);
            return TopOfPage {
                title: capitalize_own_words(title),
                remainder: remainder.to_owned(),
                answers: others.to_vec(),
                are_headlines_above: true,
                ..TopOfPage::default()
            };
        }
        TopOfPage {
            title: capitalize_own_words(subject.unwrap_or(document.report)),
            answers: headlines,
            subject: subject.filter(|_| is_of_one_table).map(str::to_owned),
            ..TopOfPage::default()
        }
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
    text.split_once(". ").unwrap_or((text.strip_suffix('.').unwrap_or(text), ""))
}

fn capitalize_own_words(text: &str) -> String {
    // Capitalize only a single word, or a text that begins with words of our own. A capital letter
    // would change the name of a variant or a file.
    if text.starts_with("it is ") || !text.contains(' ') {
        capitalize_first(text)
    } else {
        text.to_owned()
    }
}

/// Returns the warnings before the first result, which are about all results of a session. A page
/// shows them at its top. Empty for documents that are not about sessions.
pub fn leading_warnings(document: &Document) -> Vec<&ReportBlock> {
    if document.session_lines.is_empty() {
        return Vec::new();
    }
    let is_result = |block: &ReportBlock| match block {
        ReportBlock::Table(table) => table.name != VALIDITY_TABLE,
        ReportBlock::Facts(_) | ReportBlock::KeyFigures(_) => true,
        _ => false,
    };
    let before_results = document.blocks.iter().take_while(|block| !is_result(block));
    before_results.filter(|block| matches!(block, ReportBlock::Warning(_))).collect()
}

/// Returns what failed checks of validity say, as in `unstable: the runs ...`.
fn failed_checks(table: &ReportTable) -> Vec<String> {
    let mut checks = Vec::new();
    for rows in table.rows.windows(2) {
        if let [ReportRow::Cells(cells), ReportRow::Remark(text)] = rows
            && let [level, check, ..] = &cells[..]
            && level.emphasis == TextEmphasis::Bad
        {
            checks.push(format!("{}: {text}", check.text));
        }
    }
    checks
}

/// Maximum number of warnings at the top of a page that are not folded.
const MAX_OPEN_WARNINGS: usize = 3;

/// Renders the warnings and the failed checks of validity that apply to the whole page.
fn banner_markup(document: &Document) -> String {
    if document.session_lines.is_empty() {
        return String::new();
    }
    let warnings = leading_warnings(document).into_iter().filter_map(ReportBlock::sentence);
    let mut texts: Vec<String> = warnings.map(str::to_owned).collect();
    let validity = document.tables().filter(|table| table.name == VALIDITY_TABLE);
    texts.extend(validity.flat_map(failed_checks));
    if texts.is_empty() {
        return String::new();
    }
    let (open, folded) = texts.split_at(texts.len().min(MAX_OPEN_WARNINGS));
    let [open, folded_items] = [open, folded]
        .map(|texts| texts.iter().map(|text| markup!("<li>{}</li>\n", text)).collect::<String>());
    let folded = unless_empty(folded.len(), |count| {
        let more = format_count(count, "more warning", "more warnings");
        format!("<details><summary>{more}</summary><ul>\n{folded_items}</ul></details>\n")
    });
    let label = "<p class=\"label\">Warnings</p>";
    format!("<div class=\"warnings\" role=\"note\">\n{label}\n<ul>\n{open}</ul>\n{folded}</div>\n")
}

/// Renders the result of a gate, with a color and a symbol.
fn gate_markup(line: &str) -> String {
    let (class, symbol) = match line.strip_prefix("gate ") {
        Some(outcome) if outcome.starts_with("passed") => ("good", "✓"),
        Some(outcome) if outcome.starts_with("failed") => ("bad", "✗"),
        Some(_) => ("caution", "!"),
        // The number of further conditions.
        None => ("", ""),
    };
    let symbol = format!("<span aria-hidden=\"true\">{symbol}</span>");
    markup!("<p class=\"gate {class}\">{symbol} <b>{}</b></p>\n", line)
}

/// Returns the emphasis of the most urgent verdict in the comparisons of sessions.
fn answer_emphasis(document: &Document) -> TextEmphasis {
    if document.session_lines.is_empty() {
        return TextEmphasis::None;
    }
    let has_verdicts =
        |table: &&ReportTable| table.columns.iter().any(|column| column.key == VERDICT_COLUMN);
    let verdicts = document.tables().filter(has_verdicts).flat_map(ReportTable::row_emphases);
    verdicts.min_by_key(|emphasis| severity(*emphasis)).unwrap_or_default()
}

/// Renders a session in one line. Only served pages have links, and the script shows how long ago
/// the session started.
fn session_markup(line: &SessionLine, is_served: bool) -> String {
    let part = |class: &str, linked: &LinkedText| {
        let text = match linked.link.as_ref().filter(|_| is_served) {
            Some(href) => markup!("<a href=\"{}\">{}</a>", href, linked.text),
            None => escape_html(&linked.text),
        };
        unless_empty(&*linked.text, |_| format!("<span class=\"{class}\">{text}</span>"))
    };
    let parts = [
        part("name", &line.name),
        part("what", &line.measured),
        part("revision", &line.revision),
        part("branch", &line.branch),
        part("machine", &line.machine),
        format!(
            "<time datetime=\"{}\">{} UTC</time>",
            format_instant(line.started_unix_ms),
            format_moment(line.started_unix_ms)
        ),
    ];
    let command = unless_empty(&*line.command, |command| {
        markup!(
            "<details class=\"made-by\"><summary>command</summary><code>{}</code></details>\n",
            command
        )
    });
    format!("<p class=\"session-line\">{}</p>\n{command}", join_texts(" · ", parts))
}

/// Renders the top of the page.
pub fn write_masthead(
    document: &Document,
    answer: &TopOfPage,
    contents: &[(String, String)],
    frame: PageFrame<'_>,
) -> String {
    let kind = match frame {
        PageFrame::Alone => {
            // The report of commands is called the same as that of snippets in other languages.
            let report = if document.report == "code" { "measurement" } else { document.report };
            markup!("<p class=\"kind\"><b>Speedwell</b> {}</p>\n", report)
        }
        PageFrame::Served(served) => page_layout::breadcrumbs_markup(served),
    };
    let gates: String = document.gate_lines.iter().map(|line| gate_markup(line)).collect();
    let heading = match answer_emphasis(document) {
        emphasis @ (TextEmphasis::Good | TextEmphasis::Bad) => {
            format!("<h1 class=\"{}\">", emphasis_class(emphasis))
        }
        _ => "<h1>".to_owned(),
    };
    let lede = unless_empty(&*answer.remainder, |text| markup!("<p class=\"lede\">{}</p>\n", text));
    let answer_item = |(part, text): &(String, String)| {
        let part = unless_empty(part.as_str(), |part| markup!("<b>{}:</b> ", part));
        markup!("<li>{part}{}</li>\n", text)
    };
    let answers: String = answer.answers.iter().map(answer_item).collect();
    let answers =
        unless_empty(&*answers, |items| format!("<ul class=\"answers\">\n{items}</ul>\n"));
    let mut out = markup!(
        "<header class=\"masthead\">\n{kind}{gates}{heading}{}</h1>\n{lede}{answers}",
        answer.title
    );
    let is_served = matches!(frame, PageFrame::Served(_));
    out.extend(document.session_lines.iter().map(|line| session_markup(line, is_served)));
    out.push_str(&banner_markup(document));
    if let PageFrame::Served(served) = frame {
        out.push_str(&page_layout::below_title_markup(served));
    }
    let link = |(id, title): &(String, String)| markup!("<li><a href=\"#{id}\">{}</a></li>", title);
    if contents.len() > 1 {
        let links: String = contents.iter().map(link).collect();
        out.push_str(&format!("<nav aria-label=\"Parts of this report\"><ul>{links}</ul></nav>\n"));
    }
    out + "</header>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_the_title() {
        let text = "new is faster in 3.5% of 2 cases; 1 unclear. Typical change: +6% [+2, +10].";
        assert_eq!(
            split_sentence(text),
            ("new is faster in 3.5% of 2 cases; 1 unclear", "Typical change: +6% [+2, +10].")
        );
        assert_eq!(split_sentence("all is well."), ("all is well", ""));
    }

    #[test]
    fn warnings_about_all_results_are_at_the_top_of_a_page_about_a_session() {
        const HOSTILE: &str = "<img src=x>";
        let mut document = Document::new("comparison");
        document.gate_lines.push("gate failed: 1 worse".into());
        document.push_warnings(&[format!("busy {HOSTILE}")]);
        document.push_headline("new is slower.");
        document.push_table(ReportTable::new("changes"));
        document.push_warnings(&["later".into()]);
        document.session_lines.push(SessionLine {
            measured: LinkedText { text: HOSTILE.into(), link: Some(HOSTILE.into()) },
            command: HOSTILE.into(),
            started_unix_ms: 1_767_225_600_000,
            ..SessionLine::default()
        });
        let page = crate::format::html::render_page(&document, PageFrame::Alone).unwrap();
        let (head, body) = page.split_once("<main").unwrap();
        let (body, _) = body.split_once("<section id=\"data\"").unwrap();
        assert!(head.contains("<p class=\"gate bad\">") && head.contains("<li>busy &lt;img"));
        assert!(
            head.contains("<time datetime=\"2026-01-01T00:00:00Z\">2026-01-01 00:00 UTC</time>")
        );
        assert!(!body.contains("busy") && body.contains("<li>later</li>"), "{body}");
        assert!(!page.contains(HOSTILE) && !head.contains("href=\"&lt;img"), "{head}");
        document.session_lines.clear();
        let page = crate::format::html::render_page(&document, PageFrame::Alone).unwrap();
        let (_, body) = page.split_once("<main").unwrap();
        assert!(body.contains("<li>busy"), "other pages keep their warnings in place");
    }

    #[test]
    fn the_first_of_several_answers_is_the_title_and_none_is_repeated() {
        let mut document = Document::new("code");
        document.push_headline("a is faster than b.");
        document.push_headline("a is faster than c.");
        document.push_table(ReportTable::new("changes"));
        let page = crate::format::html::render_page(&document, PageFrame::Alone).unwrap();
        assert!(page.contains("<h1>a is faster than b</h1>"), "{page}");
        assert!(page.contains("<li>a is faster than c.</li>"), "{page}");
        assert!(!page.contains("class=\"headline\""), "{page}");
    }

    #[test]
    fn variant_names_at_the_start_of_a_sentence_are_not_capitalized() {
        assert_eq!(capitalize_own_words("new is faster"), "new is faster");
        assert_eq!(capitalize_own_words("it is unclear"), "It is unclear");
        assert_eq!(capitalize_own_words("sessions"), "Sessions");
    }
}
