//! Writes documents as text for terminals: aligned, within the screen width, and readable without
//! color.
//!
//! `layout.rs` lays out tables and wraps lines.

mod layout;

use crate::document::{Document, Fact, ReportBlock};
use crate::format::RenderDocument;
pub(crate) use crate::format::text::layout::is_bidi_control;
pub use crate::format::text::layout::{escape_controls, escape_line};
use crate::format::text::layout::{paint_text, wrap_text};
use crate::table::{ReportTable, TextEmphasis, superscript_number};
use std::io::{self, Write};

/// Maximum width of running text on any screen: long lines are hard to follow.
const READING_WIDTH: usize = 100;

/// Plain text.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextFormat {
    /// Width of the screen in columns; `None` gives tables their natural width.
    pub width: Option<usize>,
    /// Whether to color with ANSI escape sequences.
    pub color: bool,
    /// Whether to omit reference material.
    pub brief: bool,
}

impl RenderDocument for TextFormat {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        self.write_blocks(&document.blocks, 0, &mut text);
        out.write_all(format!("{}\n", text.trim_matches('\n')).as_bytes())
    }
}

impl TextFormat {
    fn write_blocks(&self, blocks: &[ReportBlock], indent: usize, out: &mut String) {
        let mut previous: Option<&ReportBlock> = None;
        for block in blocks {
            if !self.is_shown(block) {
                continue;
            }
            if !previous.is_some_and(|previous| belong_together(previous, block)) {
                out.push('\n');
            }
            self.write_block(block, indent, out);
            previous = Some(block);
        }
    }

    fn is_shown(&self, block: &ReportBlock) -> bool {
        match block {
            ReportBlock::Chart(_) | ReportBlock::Gallery(_) | ReportBlock::Shortened { .. } => {
                false
            }
            ReportBlock::Appendix { instead, .. } => !self.brief || instead.is_some(),
            _ => true,
        }
    }

    fn write_block(&self, block: &ReportBlock, indent: usize, out: &mut String) {
        match block {
            ReportBlock::Heading { level, text } => self.write_heading(*level, text, out),
            ReportBlock::Headline(text) => {
                self.write_sentences("", text, indent, TextEmphasis::Strong, out)
            }
            ReportBlock::Paragraph(text) => {
                self.write_sentences("", text, indent, TextEmphasis::None, out)
            }
            ReportBlock::Note(text) => {
                self.write_sentences("", text, indent, TextEmphasis::Muted, out)
            }
            ReportBlock::Warning(text) => {
                self.write_sentences("! ", text, indent, TextEmphasis::Caution, out)
            }
            ReportBlock::List(items) => {
                for item in items {
                    self.write_sentences("- ", item, indent + 2, TextEmphasis::None, out);
                }
            }
            ReportBlock::Table(table) => self.write_table(table, indent, out),
            ReportBlock::Facts(facts) => self.write_facts(facts, indent, out),
            ReportBlock::Verbatim { label, text } => self.write_verbatim(label, text, indent, out),
            ReportBlock::Command { label, line } => {
                let line = escape_controls(line);
                out.push_str(&format!("{}{label}: {line}\n", " ".repeat(indent)));
            }
            ReportBlock::Appendix { instead: Some(words), .. } if self.brief => {
                self.write_sentences("", words, indent, TextEmphasis::None, out)
            }
            ReportBlock::Aside { summary: title, blocks, .. }
            | ReportBlock::Appendix { title, blocks, .. } => {
                self.write_sentences("", title, indent, TextEmphasis::Strong, out);
                let mut inside = String::new();
                self.write_blocks(blocks, indent + 2, &mut inside);
                out.push_str(inside.trim_start_matches('\n'));
            }
            ReportBlock::Chart(_) | ReportBlock::Gallery(_) | ReportBlock::Shortened { .. } => {}
        }
    }

    fn write_heading(&self, level: u8, text: &str, out: &mut String) {
        let rule = if level == 1 { "═" } else { "─" };
        let width = layout::display_width(text).min(self.reading_width());
        out.push_str(&format!("{}\n", paint_text(text, TextEmphasis::Strong, self.color)));
        out.push_str(&format!("{}\n", rule.repeat(width)));
    }

    fn write_sentences(
        &self,
        lead: &str,
        text: &str,
        indent: usize,
        emphasis: TextEmphasis,
        out: &mut String,
    ) {
        let lead_width = layout::display_width(lead);
        let width = self.reading_width().saturating_sub(indent + lead_width);
        let margin = " ".repeat(indent);
        for (index, line) in wrap_text(text, width).iter().enumerate() {
            let lead = if index == 0 { lead.to_owned() } else { " ".repeat(lead_width) };
            let line = paint_text(&format!("{lead}{line}"), emphasis, self.color);
            out.push_str(format!("{margin}{line}").trim_end());
            out.push('\n');
        }
    }

    fn write_table(&self, table: &ReportTable, indent: usize, out: &mut String) {
        for caption in &table.caption {
            self.write_sentences("", caption, indent, TextEmphasis::None, out);
        }
        if !table.caption.is_empty() {
            out.push('\n');
        }
        let mut lines = String::new();
        layout::write_table(
            table,
            self.width.map(|room| room.saturating_sub(indent)),
            self.color,
            &mut lines,
        );
        for line in lines.lines() {
            out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
        }
        for (index, footnote) in table.footnotes.iter().enumerate() {
            let lead = format!("{} ", superscript_number(index + 1));
            self.write_sentences(&lead, footnote, indent, TextEmphasis::Muted, out);
        }
    }

    fn write_facts(&self, facts: &[Fact], indent: usize, out: &mut String) {
        let widest = facts.iter().map(|(name, _)| layout::display_width(name)).max().unwrap_or(0);
        for (name, value) in facts {
            let padding = " ".repeat(widest + 2 - layout::display_width(name));
            self.write_sentences(
                &format!("{name}{padding}"),
                value,
                indent,
                TextEmphasis::None,
                out,
            );
        }
    }

    fn write_verbatim(&self, label: &str, text: &str, indent: usize, out: &mut String) {
        let margin = " ".repeat(indent);
        if text.trim().is_empty() {
            out.push_str(&format!("{margin}(nothing on {label})\n"));
            return;
        }
        let room = self.reading_width().min(72).saturating_sub(indent);
        let title = format!("── {label} ");
        let rule_width = room.saturating_sub(layout::display_width(&title));
        out.push_str(&format!("{margin}{title}{}\n", "─".repeat(rule_width)));
        for line in text.trim_end().lines() {
            out.push_str(&format!("{margin}{}\n", escape_controls(line)));
        }
        out.push_str(&format!("{margin}{}\n", "─".repeat(room)));
    }

    fn reading_width(&self) -> usize {
        self.width.unwrap_or(READING_WIDTH).clamp(20, READING_WIDTH)
    }
}

/// Whether two blocks have no empty line between them.
fn belong_together(first: &ReportBlock, second: &ReportBlock) -> bool {
    use ReportBlock::{Command, Heading, Headline, List, Note, Paragraph, Verbatim, Warning};
    matches!(
        (first, second),
        (Heading { .. }, Headline(_))
            | (Headline(_), Paragraph(_) | Headline(_))
            | (Note(_), Note(_))
            | (Warning(_), Warning(_))
            | (Paragraph(_), Verbatim { .. } | Command { .. } | List(_))
            | (Verbatim { .. }, Command { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_other_programs_is_shown_with_control_characters_escaped() {
        let text = "\x1b]0;title\x07boom\tat 1\n".to_owned();
        let block = ReportBlock::Verbatim { label: "stderr".into(), text };
        let document = Document { blocks: vec![block], ..Document::new("t") };
        let mut out = Vec::new();
        TextFormat::default().render(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\n\\x1b]0;title\\x07boom\tat 1\n"), "{text:?}");
    }
}
