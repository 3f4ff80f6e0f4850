//! Renders the blocks of a document as HTML.
//!
//! Start at [`write_document`]. `table.rs` renders tables, and `gallery.rs` the charts of all
//! cases.

use crate::document::{Fact, ReportBlock, ReportChart, group_blocks};
use crate::format::html::gallery::add_gallery;
use crate::format::html::table;
use crate::format::html::writer::{HtmlWriter, escape_html};

/// Width of a chart in CSS pixels. At this width, the text of the chart has the size of the page's
/// small print. On narrower screens, the chart scrolls inside its frame.
const CHART_PX: u32 = 960;
/// Maximum size of a chart in bytes. A larger chart is left out, and the page says so.
const MAX_CHART_BYTES: usize = 1 << 20;
/// Width of flame graphs, whose boxes need all the space, and of grids of small charts.
const WIDE_PX: u32 = 1180;
/// Width of a chart next to another one.
const NARROW_CHART_PX: u32 = 580;

/// Renders the blocks of a document. Lists their headings in the table of contents.
pub fn write_document(blocks: &[&ReportBlock], writer: &mut HtmlWriter) {
    write_blocks(blocks, true, writer);
}

fn write_blocks(blocks: &[&ReportBlock], top: bool, writer: &mut HtmlWriter) {
    let is_gathered = |block: &ReportBlock| {
        matches!(block, ReportBlock::Note(_) | ReportBlock::Warning(_) | ReportBlock::Chart(_))
    };
    for run in group_blocks(blocks, is_gathered) {
        match run[0] {
            ReportBlock::Note(_) => write_notes(run, writer),
            ReportBlock::Warning(_) => write_warnings(run, writer),
            ReportBlock::Chart(_) => write_charts(run, writer),
            block => add_block(block, top, writer),
        }
    }
}

fn write_nested(blocks: &[ReportBlock], writer: &mut HtmlWriter) {
    write_blocks(&blocks.iter().collect::<Vec<_>>(), false, writer);
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
        ReportBlock::Command { label, line } => write_command(label, line, writer),
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

fn write_notes(notes: &[&ReportBlock], writer: &mut HtmlWriter) {
    writer.push_raw("<div class=\"notes\">\n");
    for note in notes {
        if let ReportBlock::Note(text) = note {
            writer.push_element("p", "", text);
        }
    }
    writer.push_raw("</div>\n");
}

fn write_warnings(warnings: &[&ReportBlock], writer: &mut HtmlWriter) {
    let texts = warnings.iter().filter_map(|block| match block {
        ReportBlock::Warning(text) => Some(text.as_str()),
        _ => None,
    });
    writer.push_raw("<div class=\"warnings\" role=\"note\">\n<p class=\"label\">Warnings</p>\n");
    write_list(texts, writer);
    writer.push_raw("</div>\n");
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

fn write_command(label: &str, line: &str, writer: &mut HtmlWriter) {
    writer.push_element("p", "label", label);
    writer.push_raw(&format!(
        "<pre class=\"command\" tabindex=\"0\"><code>{}</code></pre>\n",
        escape_html(line)
    ));
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
    write_nested(blocks, writer);
    writer.push_raw("</details>\n");
}
