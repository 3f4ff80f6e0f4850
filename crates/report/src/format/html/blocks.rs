//! Blocks of a document as markup.
//!
//! Start at [`top`]; tables are written in `table.rs`, the charts of all cases in `gallery.rs`.

use crate::document::{Block, Chart, Fact, runs_of_alike};
use crate::format::html::gallery::add_gallery;
use crate::format::html::table;
use crate::format::html::writer::{Writer, escaped};

/// Width at which charts are laid out, in CSS pixels: their letters then have the size of the page's
/// small print. A narrower screen scrolls them inside their frame.
const CHART_PX: u32 = 960;
/// Bytes for a chart that stands by itself.
const CHART_BYTES: usize = 1 << 20;
/// Width of a flame graph, whose boxes want all there is, and of many small charts.
const WIDE_PX: u32 = 1180;
/// Width of a chart that stands beside another.
const NARROW_CHART_PX: u32 = 580;

/// The blocks of a document; its parts are listed in the table of contents.
pub fn top(blocks: &[&Block], writer: &mut Writer) {
    write(blocks, true, writer);
}

fn write(blocks: &[&Block], top: bool, writer: &mut Writer) {
    let is_gathered =
        |block: &Block| matches!(block, Block::Note(_) | Block::Warning(_) | Block::Chart(_));
    for run in runs_of_alike(blocks, is_gathered) {
        match run[0] {
            Block::Note(_) => notes(run, writer),
            Block::Warning(_) => warnings(run, writer),
            Block::Chart(_) => charts(run, writer),
            block => add_block(block, top, writer),
        }
    }
}

fn inside(blocks: &[Block], writer: &mut Writer) {
    write(&blocks.iter().collect::<Vec<_>>(), false, writer);
}

fn add_block(block: &Block, top: bool, writer: &mut Writer) {
    match block {
        Block::Heading { level, text } => heading(*level, text, top, writer),
        Block::Headline(text) => writer.element("p", "headline", text),
        Block::Paragraph(text) => writer.element("p", "", text),
        // Written by `write`, several together.
        Block::Note(_) | Block::Warning(_) | Block::Chart(_) => {}
        Block::List(items) => list(items.iter().map(String::as_str), writer),
        Block::Table(table) => table::add_table(table, top, writer),
        Block::Facts(known) => facts(known, writer),
        Block::Gallery(gallery) => add_gallery(gallery, writer),
        Block::Verbatim { label, text } => verbatim(label, text, writer),
        Block::Command { label, line } => command(label, line, writer),
        Block::Aside {
            summary,
            open,
            blocks,
        } => {
            let open = if *open { " open" } else { "" };
            details(summary, open, blocks, top, writer);
        }
        Block::Appendix { title, blocks, .. } => details(title, "", blocks, top, writer),
        Block::Shortened { .. } => {}
    }
}

fn heading(level: u8, text: &str, top: bool, writer: &mut Writer) {
    let level = level.clamp(2, 4);
    let id = writer.new_id("part");
    // A part of a part would make the list longer than a glance.
    if top && level == 2 {
        writer.contents.push((id.clone(), text.to_owned()));
    }
    writer.raw(&format!(
        "<h{level} id=\"{id}\">{}</h{level}>\n",
        escaped(text)
    ));
}

fn list<'t>(items: impl Iterator<Item = &'t str>, writer: &mut Writer) {
    writer.raw("<ul>\n");
    for item in items {
        writer.element("li", "", item);
    }
    writer.raw("</ul>\n");
}

fn facts(facts: &[Fact], writer: &mut Writer) {
    writer.raw("<table class=\"facts\"><tbody>\n");
    for (name, value) in facts {
        writer.raw(&format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escaped(name),
            escaped(value)
        ));
    }
    writer.raw("</tbody></table>\n");
}

fn notes(notes: &[&Block], writer: &mut Writer) {
    writer.raw("<div class=\"notes\">\n");
    for note in notes {
        if let Block::Note(text) = note {
            writer.element("p", "", text);
        }
    }
    writer.raw("</div>\n");
}

fn warnings(warnings: &[&Block], writer: &mut Writer) {
    let texts = warnings.iter().filter_map(|block| match block {
        Block::Warning(text) => Some(text.as_str()),
        _ => None,
    });
    writer.raw(
        "<div class=\"warnings\" role=\"note\">\n<p class=\"label\">Threats to the figures</p>\n",
    );
    list(texts, writer);
    writer.raw("</div>\n");
}

/// One chart by itself; several side by side, where the page is wide enough.
fn charts(blocks: &[&Block], writer: &mut Writer) {
    let shown = blocks.iter().filter_map(|block| match block {
        Block::Chart(chart) if !chart.shown_elsewhere => Some(chart),
        _ => None,
    });
    let shown = shown.map(Box::as_ref);
    let (wide, others): (Vec<&Chart>, Vec<&Chart>) = shown.partition(|chart| is_wide(chart));
    match others[..] {
        [] => {}
        [only] => chart(only, CHART_PX, writer),
        _ => {
            writer.raw("<div class=\"charts\">\n");
            for each in others {
                chart(each, NARROW_CHART_PX, writer);
            }
            writer.raw("</div>\n");
        }
    }
    for each in wide {
        chart(each, WIDE_PX, writer);
    }
}

fn is_wide(chart: &Chart) -> bool {
    is_flame(chart) || matches!(chart.picture, speedwell_plot::Chart::Grid(_))
}

fn is_flame(chart: &Chart) -> bool {
    matches!(chart.picture, speedwell_plot::Chart::Flame(_))
}

fn chart(chart: &Chart, width_px: u32, writer: &mut Writer) {
    let id = writer.new_id("chart");
    let svg = match writer.subject {
        None => chart.picture.svg_on_page(width_px, &id),
        Some(_) => chart.picture.svg_below_heading(width_px, &id),
    };
    if svg.len() > CHART_BYTES {
        writer.element(
            "p",
            "left-out",
            &format!(
                "The chart '{}' is left out, because it would take {} MB here; -o chart.svg writes it.",
                chart.title,
                svg.len() >> 20
            ),
        );
        return;
    }
    let class = if is_flame(chart) {
        "chart flame"
    } else {
        "chart"
    };
    writer.raw(&format!(
        "<figure class=\"{class}\" tabindex=\"0\">\n{svg}</figure>\n"
    ));
}

fn verbatim(label: &str, text: &str, writer: &mut Writer) {
    if text.trim().is_empty() {
        writer.element("p", "muted", &format!("(nothing on {label})"));
        return;
    }
    writer.element("p", "label", label);
    writer.raw(&format!(
        "<pre tabindex=\"0\">{}</pre>\n",
        escaped(text.trim_end())
    ));
}

fn command(label: &str, line: &str, writer: &mut Writer) {
    writer.element("p", "label", label);
    writer.raw(&format!(
        "<pre class=\"command\" tabindex=\"0\"><code>{}</code></pre>\n",
        escaped(line)
    ));
}

fn details(title: &str, open: &str, blocks: &[Block], top: bool, writer: &mut Writer) {
    let id = writer.new_id("part");
    if top {
        writer.contents.push((id.clone(), title.to_owned()));
    }
    writer.raw(&format!(
        "<details id=\"{id}\" class=\"fold\"{open}>\n<summary>{}</summary>\n",
        escaped(title)
    ));
    inside(blocks, writer);
    writer.raw("</details>\n");
}
