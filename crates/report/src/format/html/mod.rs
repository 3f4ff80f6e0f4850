//! Renders a document as a single HTML page that can be passed around. All scripts and styles are
//! inline, so the page needs no network and no other file.
//!
//! Everything is readable without the script, which only adds conveniences such as sorting,
//! filtering and copying. The page omits what would make it too large, and says so. Start at
//! [`render_page`], which renders blocks with [`write_blocks`], and the rows of tables. In tables,
//! names link to the charts of their case, and drawings are placed in their column.
//!
//! `masthead.rs` renders the top of the page, `table.rs` the captions, headings and forms of tables,
//! and `gallery.rs` the charts of all cases. `page_layout.rs` has the frame that a server adds.

use crate::document::{Document, Fact, RenderDocument, ReportBlock, ReportChart, group_blocks};
use crate::figure::{capitalize_first, unless_empty};
use crate::format::html::gallery::{
    PHONE_PX, add_gallery, figure_markup, picture_in_detail, prepare_gallery,
};
use crate::format::html::masthead::{TopOfPage, leading_warnings, write_masthead};
use crate::format::html::table::{
    TableView, form_markup, kind_class, moment_markup, sort_value, unbroken_options,
    write_captions, write_footnotes, write_header, write_probabilities, write_tally,
};
use crate::format::html::writer::{HtmlWriter, emphasis_class, escape_json, markup};
use crate::format::json::Json;
use crate::glossary::{GlossaryTerm, terms_of_page};
use crate::table::{ColumnKind, Datum, ReportCell, ReportRow, ReportTable};
use speedwell_plot::{AnyChart as Picture, TrendDetail};
use std::io::{self, Write};

// Code outside this folder uses only this module.
mod gallery;
mod masthead;
mod page_layout;
mod table;
mod writer;

pub(crate) use writer::escape_html;

pub use page_layout::{
    AssetPaths, FormField, LoginState, PageForm, PageFrame, PageLink, PageProgress, ServedFrame,
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

const STYLE: &str = concat!(
    include_str!("style.css"),
    include_str!("glossary.css"),
    include_str!("session.css"),
    include_str!("home.css")
);
const SCRIPT: &str = concat!(
    include_str!("script.js"),
    include_str!("flames.js"),
    include_str!("glossary.js"),
    include_str!("session.js")
);

/// Runs before the first paint. Applies the reader's theme and marks that scripts are enabled.
pub const EARLY_SCRIPT: &str = "document.documentElement.classList.add('js');\
    try{const t=localStorage.getItem('speedwell-theme');\
    if(t)document.documentElement.dataset.theme=t}catch{}";

/// The style of served pages.
pub const SERVED_STYLE: &str = concat!(
    include_str!("style.css"),
    include_str!("glossary.css"),
    include_str!("session.css"),
    include_str!("served.css"),
    include_str!("live.css"),
    include_str!("trend.css"),
    include_str!("lists.css"),
    include_str!("home.css")
);

/// The script of served pages.
pub const SERVED_SCRIPT: &str = concat!(
    include_str!("script.js"),
    include_str!("flames.js"),
    include_str!("glossary.js"),
    include_str!("session.js"),
    include_str!("served.js"),
    include_str!("live.js"),
    include_str!("trend.js"),
    include_str!("lists.js"),
    include_str!("home.js")
);

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
        writer.sort_link.clone_from(&served.sort_link);
        writer.address.clone_from(&served.address);
    }
    writer.subject.clone_from(&answer.subject);
    prepare_gallery(document, &mut writer);
    let question = document.leading_question();
    let banner = leading_warnings(document);
    let is_above = |block: &&ReportBlock| match block {
        ReportBlock::Headline(_) => answer.are_headlines_above || question.is_some(),
        ReportBlock::Heading { level: 1, text } => question == Some(text),
        ReportBlock::Warning(_) => banner.iter().any(|warning| std::ptr::eq(*warning, *block)),
        _ => false,
    };
    let blocks = document.answer_first().into_iter();
    let shown: Vec<&ReportBlock> = blocks.filter(|block| !is_above(block)).collect();
    write_blocks(&shown, true, &mut writer);
    write_glossary(document, &mut writer);
    if PAGES_WITHOUT_CONTENTS.contains(&document.report) {
        writer.contents.clear();
    }
    writer.contents.push(("data".into(), "Raw data".into()));
    let (head, raw_data, foot) = match frame {
        PageFrame::Alone => {
            let foot = format!("{FILE_FOOTER}<script type=\"module\">\n{SCRIPT}</script>\n");
            (file_head(&answer.title), raw_data_section(document)?, foot)
        }
        PageFrame::Served(served) => (
            page_layout::page_head(&answer.title, document.report, served),
            page_layout::raw_data_section(served),
            page_layout::FOOTER.to_owned(),
        ),
    };
    let masthead = write_masthead(document, &answer, &writer.contents, frame);
    let main = writer.out;
    Ok(format!(
        "{head}{masthead}<main id=\"main\">\n{main}{raw_data}</main>\n{foot}</body>\n</html>\n"
    ))
}

const FILE_FOOTER: &str = concat!(
    "<footer><p>Written by Speedwell ",
    env!("CARGO_PKG_VERSION"),
    ". This page is one file and loads nothing.</p></footer>\n"
);

/// Renders the definitions of the terms on this page, if there are any.
fn write_glossary(document: &Document, writer: &mut HtmlWriter) {
    let blocks = document.all_blocks();
    let terms = terms_of_page(&writer.terms, blocks.iter().filter_map(|block| block.sentence()));
    if terms.is_empty() {
        return;
    }
    writer.contents.push(("glossary".into(), "Terms".into()));
    writer.push_raw("<section id=\"glossary\" class=\"glossary\">\n<h2>Terms</h2>\n<dl>\n");
    for term in terms {
        let GlossaryTerm { id, name, definition, .. } = term;
        writer.push_raw(&markup!("<dt>{}</dt>\n<dd id=\"term-{id}\">{}</dd>\n", name, definition));
    }
    writer.push_raw("</dl>\n</section>\n");
}

/// Reports that fit on a screen or are one list, so that they need no table of contents.
const PAGES_WITHOUT_CONTENTS: [&str; 2] = ["project", "trends"];

fn file_head(title: &str) -> String {
    markup!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{CONTENT_POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n\
         <script>{EARLY_SCRIPT}</script>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\n",
        title
    )
}

/// Renders the raw data: the same JSON that `-o report.json` writes.
fn raw_data_section(document: &Document) -> io::Result<String> {
    let mut bytes = Vec::new();
    Json.render(document, &mut bytes)?;
    let json = escape_json(&String::from_utf8_lossy(&bytes));
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
    Ok(format!("{heading}\n{data}\n</section>\n"))
}

/// Maximum size of the raw data in bytes; larger data are left out.
const MAX_DATA_BYTES: usize = 8 << 20;

// The blocks of a document as HTML.

/// Width of a chart in CSS pixels, equal to the page width. For narrow screens, the chart is drawn
/// a second time.
const CHART_PX: u32 = 1180;
/// Maximum size of a chart in bytes. A larger chart is left out, and the page says so.
const MAX_CHART_BYTES: usize = 1 << 20;
/// Width of a chart next to another one.
const NARROW_CHART_PX: u32 = 580;
/// Size of the sparkline in a cell.
const SPARKLINE_PX: (u32, u32) = (120, 16);
/// A table with more rows has its own scroll area and sticky header.
const MAX_UNSCROLLED_ROWS: usize = 60;

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
        ReportBlock::Table(table) => add_table(table, top, writer),
        ReportBlock::Facts(facts) => write_facts(facts, writer),
        ReportBlock::KeyFigures(facts) => write_key_figures(facts, writer),
        ReportBlock::Gallery(gallery) => add_gallery(gallery, writer),
        ReportBlock::Verbatim { label, text } => write_verbatim(label, text, writer),
        ReportBlock::Command { label, line } => {
            writer.push_element("p", "label", label);
            let code = markup!("<code>{}</code>", line);
            writer.push_raw(&format!("<pre class=\"command\" tabindex=\"0\">{code}</pre>\n"));
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

/// Renders a table with its captions and footnotes.
fn add_table(table: &ReportTable, top: bool, writer: &mut HtmlWriter) {
    let shown = table.for_pages();
    if shown.is_empty() {
        write_captions(table, "", writer);
    } else {
        let id = writer.new_id(table.name);
        let view = TableView::new(table, shown, &id, writer.served.is_some());
        write_table(&view, &id, top, writer);
    }
}

fn write_table(view: &TableView<'_>, id: &str, top: bool, writer: &mut HtmlWriter) {
    let table = view.table;
    // Only a first table without a heading gets an entry here. Other tables follow headings, and
    // the table of contents lists the headings.
    if top && writer.contents.is_empty() {
        writer.contents.push((id.to_owned(), capitalize_first(&table.name.replace('_', " "))));
    }
    writer.push_raw(&format!("<section class=\"sheet\" id=\"{id}\">\n"));
    let caption = format!("{id}-caption");
    let label = if write_captions(table, &caption, writer) {
        format!("aria-labelledby=\"{caption}\"")
    } else {
        markup!("aria-label=\"{}\"", table.caption.first().map_or(table.name, String::as_str))
    };
    write_tally(view, id, writer);
    let long = if view.rows > MAX_UNSCROLLED_ROWS { " long" } else { "" };
    // A table that has only columns of numbers is narrow. The style does not stretch it to the page
    // width.
    let figures = view.shown.iter().all(|&at| table.columns[at].kind == ColumnKind::Figure);
    let class = if figures { " class=\"figures\"" } else { "" };
    let choice = writer.choice_of(table.name).cloned();
    if let Some(choice) = &choice {
        writer.push_raw(&markup!(
            "<form class=\"choice\" action=\"{}\" method=\"get\">\n",
            choice.action
        ));
    }
    writer.push_raw(&format!(
        "<div class=\"scroll{long}\" role=\"region\" tabindex=\"0\" {label}>\n<table{class} {label}>\n"
    ));
    write_header(view, writer);
    write_rows(view, writer);
    writer.push_raw("</table>\n</div>\n");
    if let Some(choice) = &choice {
        let button = markup!("<button type=\"submit\">{}</button>", choice.button);
        writer.push_raw(&format!("<p class=\"choose\">{button}</p>\n</form>\n"));
    }
    write_footnotes(view, writer);
    write_probabilities(view, writer);
    writer.push_raw("</section>\n");
}

/// Renders the rows. Each group has its own `tbody`, which makes it a unit for screen readers.
fn write_rows(view: &TableView<'_>, writer: &mut HtmlWriter) {
    writer.push_raw("<tbody>\n");
    let columns = view.shown.len();
    let mut group = "";
    let mut number = 0;
    let mut rows = view.table.rows.iter().peekable();
    while let Some(row) = rows.next() {
        match row {
            ReportRow::Group(name) => {
                group = &name.full;
                let class = if group.is_empty() { "" } else { " class=\"grouped\"" };
                writer.push_raw(&format!("</tbody>\n<tbody{class}>\n"));
                if !group.is_empty() {
                    writer.push_raw(&markup!(
                        "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\">{}</th></tr>\n",
                        group
                    ));
                }
            }
            ReportRow::Cells(cells) => {
                let mut remarks = Vec::new();
                while let Some(ReportRow::Remark(text)) =
                    rows.next_if(|next| matches!(next, ReportRow::Remark(_)))
                {
                    remarks.push(text.as_str());
                }
                if view.shown_rows.contains(&number) {
                    let row = HtmlRow { view, cells, group, number: Some(number), remarks };
                    writer.push_raw(&row.row_markup(writer));
                    row.write_charts(writer);
                }
                number += 1;
            }
            ReportRow::Reference(cells) => {
                let row = HtmlRow { view, cells, group, number: None, remarks: Vec::new() };
                writer.push_raw(&row.row_markup(writer));
            }
            // A remark that follows no row is about the group.
            ReportRow::Remark(text) => writer.push_raw(&markup!(
                "<tr class=\"group\"><td colspan=\"{columns}\">{}</td></tr>\n",
                text
            )),
        }
    }
    writer.push_raw("</tbody>\n");
}

/// One row with cells.
struct HtmlRow<'l> {
    view: &'l TableView<'l>,
    cells: &'l [ReportCell],
    group: &'l str,
    /// The position among the rows with drawings; `None` for a reference.
    number: Option<usize>,
    remarks: Vec<&'l str>,
}

impl HtmlRow<'_> {
    fn row_markup(&self, writer: &HtmlWriter) -> String {
        let mut out = format!("<tr class=\"row\"{}>", self.filter_attribute());
        for (number, &column_index) in self.view.shown.iter().enumerate() {
            let (column, cell) =
                (&self.view.table.columns[column_index], &self.cells[column_index]);
            let first = number == 0;
            let (tag, scope) = if first { ("th", " scope=\"row\"") } else { ("td", "") };
            let classes = [kind_class(column.kind), emphasis_class(cell.emphasis)].join(" ");
            let class = classes.trim_end();
            let header = self.view.header_text(column_index);
            let value = sort_value(cell, self.view.is_served);
            let content = self.cell_content(column_index, first, writer);
            out +=
                &markup!("<{tag}{scope} class=\"{class}\" data-l=\"{}\"{value}>{content}", header);
            if first {
                out.extend(self.remarks.iter().map(|remark| markup!("<small>{}</small>", remark)));
            }
            out += &format!("</{tag}>");
        }
        out + "</tr>\n"
    }

    /// Returns the attribute by which the filters of the table find the row.
    fn filter_attribute(&self) -> String {
        let index = self.view.facet_index(self.cells);
        index.map(|index| format!(" data-f=\"{index}\"")).unwrap_or_default()
    }

    /// Renders the charts of the row's case below the row, unless another row has them, with a link
    /// to the history of the case.
    fn write_charts(&self, writer: &mut HtmlWriter) {
        let Some(&first) = self.view.shown.first().filter(|_| self.view.has_cases) else { return };
        let cell = &self.cells[first];
        let case = cell.value.as_ref().and_then(Datum::as_str);
        let Some((case, (anchor, drawing))) =
            case.and_then(|case| Some((case, writer.drawings.remove(case)?)))
        else {
            return;
        };
        let link = cell.link().filter(|_| writer.served.is_some()).unwrap_or_default();
        let history = unless_empty(link, |href| {
            markup!("<p><a href=\"{}\">history of this case</a></p>\n", href)
        });
        let (filter, columns) = (self.filter_attribute(), self.view.shown.len());
        let and_history = if history.is_empty() { "" } else { ", history" };
        writer.push_raw(&markup!(
            "<tr class=\"charts-of\"{filter}><td colspan=\"{columns}\"><details class=\"case\" id=\"{anchor}\">\
             <summary>runs, distribution{and_history}<span class=\"unseen\"> of {}</span></summary>\n{drawing}\
             {history}</details></td></tr>\n",
            case
        ));
    }

    fn cell_content(&self, at: usize, first: bool, writer: &HtmlWriter) -> String {
        let cell = &self.cells[at];
        if let Some((_, strips)) = self.view.drawn.as_ref().filter(|(column, _)| *column == at) {
            return self.number.and_then(|number| strips.rows[number].clone()).unwrap_or_default();
        }
        if let Some(sparkline) = cell.sparkline_drawing() {
            return sparkline.render_svg(SPARKLINE_PX.0, SPARKLINE_PX.1).unwrap_or_default();
        }
        let mut text = match self.view.sides_text(at, self.cells) {
            Some(sides) => escape_html(&sides),
            None => unbroken_options(&escape_html(&cell.text)),
        };
        if writer.served.is_some() {
            if let Some(form) = cell.form() {
                return form_markup(form, &writer.address);
            }
            if let Some(unix_ms) = cell.moment_ms() {
                text = moment_markup(&text, unix_ms);
            }
        }
        let link = cell.link().filter(|_| writer.served.is_some());
        let linked = |text: &str| match link {
            Some(href) if !text.is_empty() => markup!("<a href=\"{}\">{text}</a>", href),
            _ => text.to_owned(),
        };
        if !first {
            return linked(&text);
        }
        let checkbox = writer.choice_of(self.view.table.name).map_or_else(String::new, |choice| {
            markup!(
                "<input type=\"checkbox\" name=\"{}\" value=\"{1}\" aria-label=\"Choose {1}\"> ",
                choice.name,
                cell.text
            )
        });
        // The style shows this copy of the group's name only while sorting mixes the rows of
        // several groups.
        let group =
            unless_empty(self.group, |group| markup!("<span class=\"of\">{} </span>", group));
        let case = cell.value.as_ref().and_then(Datum::as_str);
        let charts = case.and_then(|case| writer.links.get(case));
        match charts.filter(|_| self.view.has_cases || link.is_none()) {
            Some(href) => {
                // Charts on this page are below the row, with the link to the history.
                let history_link = link.filter(|_| !href.starts_with('#')).unwrap_or_default();
                let history = unless_empty(history_link, |link| {
                    markup!("<small><a href=\"{}\">history</a></small>", link)
                });
                markup!("<a href=\"{}\">{group}{text}</a>{history}", href)
            }
            None => checkbox + &linked(&(group + &text)),
        }
    }
}

fn write_heading(level: u8, text: &str, top: bool, writer: &mut HtmlWriter) {
    let level = level.clamp(2, 4);
    let id = writer.new_id("part");
    // The table of contents lists no nested parts: they would make it too long.
    if top && level == 2 {
        writer.contents.push((id.clone(), text.to_owned()));
    }
    writer.push_raw(&markup!("<h{level} id=\"{id}\">{}</h{level}>\n", text));
}

fn write_list<'t>(items: impl Iterator<Item = &'t str>, writer: &mut HtmlWriter) {
    writer.push_raw("<ul>\n");
    for item in items {
        writer.push_element("li", "", item);
    }
    writer.push_raw("</ul>\n");
}

/// Renders figures side by side, each below its name.
fn write_key_figures(facts: &[Fact], writer: &mut HtmlWriter) {
    writer.push_raw("<dl class=\"key-figures\">\n");
    for (name, value) in facts {
        writer.push_raw(&markup!("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value));
    }
    writer.push_raw("</dl>\n");
}

fn write_facts(facts: &[Fact], writer: &mut HtmlWriter) {
    writer.push_raw("<table class=\"facts\"><tbody>\n");
    for (name, value) in facts {
        writer.push_raw(&markup!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, value));
    }
    writer.push_raw("</tbody></table>\n");
}

/// Renders charts. A single chart gets the width of the page. Several charts are placed side by side
/// if the page is wide enough, distributions first. Wide charts come last, one below the other.
fn write_charts(blocks: &[&ReportBlock], writer: &mut HtmlWriter) {
    let charts = blocks.iter().filter_map(|block| match block {
        ReportBlock::Chart(chart) if !chart.shown_elsewhere => Some(chart.as_ref()),
        _ => None,
    });
    let (wide, mut others): (Vec<&ReportChart>, Vec<&ReportChart>) =
        charts.partition(|chart| matches!(chart.picture, Picture::Flame(_) | Picture::Grid(_)));
    others.sort_by_key(|chart| !matches!(chart.picture, Picture::Histogram(_)));
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
        write_chart(chart, CHART_PX, writer);
    }
}

/// Renders a chart twice, for wide and for narrow screens; the style shows one of both drawings. A
/// drawing that is too large is left out.
fn write_chart(chart: &ReportChart, width_px: u32, writer: &mut HtmlWriter) {
    let id = writer.new_id("chart");
    let is_served = writer.served.is_some();
    let detail = if is_served { TrendDetail::Tooltips } else { TrendDetail::Full };
    let is_below_heading = matches!(chart.picture, Picture::Trend(_)) || writer.subject.is_some();
    let draw = |width_px: u32, id: &str, detail: TrendDetail| {
        let picture = picture_in_detail(&chart.picture, detail);
        if is_below_heading {
            picture.svg_below_heading(width_px, id)
        } else {
            picture.svg_on_page(width_px, id)
        }
    };
    let wide = draw(width_px, &id, detail);
    if wide.len() > MAX_CHART_BYTES {
        let (title, size) = (&chart.title, wide.len() >> 20);
        let text = format!(
            "The chart '{title}' is left out, because it would take {size} MB here; to write it to a file, use -o chart.svg."
        );
        writer.push_element("p", "left-out", &text);
        return;
    }
    let narrow = Some(draw(PHONE_PX, &format!("{id}n"), TrendDetail::Nothing))
        .filter(|narrow| wide.len() + narrow.len() <= MAX_CHART_BYTES);
    let class = match &chart.picture {
        Picture::Flame(_) => "chart flame",
        Picture::Trend(_) => "chart trend",
        _ => "chart",
    };
    writer.push_raw(&figure_markup(class, &wide, narrow.as_deref()));
}

fn write_verbatim(label: &str, text: &str, writer: &mut HtmlWriter) {
    if text.trim().is_empty() {
        writer.push_element("p", "muted", &format!("(nothing on {label})"));
        return;
    }
    writer.push_element("p", "label", label);
    writer.push_raw(&markup!("<pre tabindex=\"0\">{}</pre>\n", text.trim_end()));
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
    writer.push_raw(&markup!(
        "<details id=\"{id}\" class=\"fold\"{open}>\n<summary>{}</summary>\n",
        title
    ));
    write_blocks(&blocks.iter().collect::<Vec<_>>(), false, writer);
    writer.push_raw("</details>\n");
}
